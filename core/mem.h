/* core/mem.h - heap and arena.
 *
 * Out of memory ends the program here, with one line and status 4: no caller checks. A program that has more to end than
 * itself (a job of several ranks) sets mem_on_failure(). An arena is for results that
 * live and die together; `struct arena *a` in a signature means that the result lives as long as `a`.
 */
#ifndef BALLAST_CORE_MEM_H
#define BALLAST_CORE_MEM_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

void *mem_alloc(size_t n, size_t size); /* zeroed; n*size is checked; n = 0 is fine */
void *mem_grow(void *p, size_t *cap, size_t want, size_t size); /* *cap >= want after; doubles */
void mem_free(void *p);
/* For libraries that take allocators: malloc, realloc and strdup that end the program as above, so that a library neither
 * changes its answer nor aborts when memory is short. */
void *mem_library_malloc(size_t n);
void *mem_library_realloc(void *p, size_t n);
char *mem_library_strdup(const char *s);
/* Called when n x size bytes are not to be had, in place of the line and exit(4) that follow should it return. NULL:
 * nothing. */
void mem_on_failure(void (*fn)(size_t n, size_t size));

struct arena_block;
struct arena {
    struct arena_block *head; /* owned */
    size_t n_bytes;           /* handed out so far */
};

void arena_init(struct arena *a);
void arena_release(struct arena *a);
void *arena_alloc(struct arena *a, size_t n, size_t size); /* zeroed, aligned to 16 */
char *arena_strdup(struct arena *a, const char *s);
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define ARENA_NEW(a, type, n) ((type *)arena_alloc((a), (size_t)(n), sizeof(type)))
#define MEM_NEW(type, n)      ((type *)mem_alloc((size_t)(n), sizeof(type)))

#endif
