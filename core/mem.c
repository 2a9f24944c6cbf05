#include "core/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BLOCK_BYTES = 64 * 1024, ARENA_ALIGN = 16 };

struct arena_block {
    struct arena_block *next;
    size_t used, cap;
    _Alignas(ARENA_ALIGN) char data[];
};

static void (*on_failure)(size_t n, size_t size);

void mem_on_failure(void (*fn)(size_t n, size_t size))
{
    on_failure = fn;
}

static void out_of_memory(size_t n, size_t size)
{
    if (on_failure)
        on_failure(n, size);
    fprintf(stderr, "error: out of memory: %zu x %zu bytes [ERR_EXTERNAL]\n", n, size);
    exit(4);
}

void *mem_alloc(size_t n, size_t size)
{
    void *p = calloc(n ? n : 1, size ? size : 1); /* calloc checks n*size */

    if (!p)
        out_of_memory(n, size);
    return p;
}

void *mem_grow(void *p, size_t *cap, size_t want, size_t size)
{
    size_t n = *cap ? *cap : 16;
    void *q;

    if (want <= *cap)
        return p;
    while (n < want) {
        if (n > SIZE_MAX / 2)
            out_of_memory(want, size);
        n *= 2;
    }
    if (n > SIZE_MAX / size)
        out_of_memory(n, size);
    q = realloc(p, n * size);
    if (!q)
        out_of_memory(n, size);
    *cap = n;
    return q;
}

void *mem_library_malloc(size_t n)
{
    void *p = malloc(n ? n : 1);

    if (!p)
        out_of_memory(n, 1);
    return p;
}

void *mem_library_realloc(void *p, size_t n)
{
    void *q = realloc(p, n ? n : 1);

    if (!q)
        out_of_memory(n, 1);
    return q;
}

char *mem_library_strdup(const char *s)
{
    size_t n = strlen(s) + 1;

    return memcpy(mem_library_malloc(n), s, n);
}

void mem_free(void *p)
{
    free(p);
}

void arena_init(struct arena *a)
{
    a->head = NULL;
    a->n_bytes = 0;
}

void arena_release(struct arena *a)
{
    struct arena_block *b = a->head, *next;

    for (; b; b = next) {
        next = b->next;
        free(b);
    }
    arena_init(a);
}

void *arena_alloc(struct arena *a, size_t n, size_t size)
{
    struct arena_block *b = a->head;
    size_t want, cap;
    void *p;

    if (size && n > (SIZE_MAX / 2) / size)
        out_of_memory(n, size);
    want = (n * size + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    if (!b || b->cap - b->used < want) {
        cap = want > ARENA_BLOCK_BYTES ? want : (size_t)ARENA_BLOCK_BYTES;
        b = mem_alloc(1, sizeof(*b) + cap);
        b->cap = cap;
        /* A big block goes behind a half-empty head, so that small ones go on filling the head. */
        if (a->head && want > ARENA_BLOCK_BYTES / 2) {
            b->next = a->head->next;
            a->head->next = b;
        } else {
            b->next = a->head;
            a->head = b;
        }
    }
    p = b->data + b->used;
    b->used += want;
    a->n_bytes += want;
    return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    char *p = arena_alloc(a, n + 1, 1);

    memcpy(p, s, n);
    return p;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, ap2;
    char *p;
    int n;

    va_start(ap, fmt);
    va_copy(ap2, ap);
    n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    p = arena_alloc(a, (size_t)n + 1, 1);
    vsnprintf(p, (size_t)n + 1, fmt, ap2);
    va_end(ap2);
    return p;
}
