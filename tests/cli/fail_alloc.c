/* Preloaded by tests/cli/memory.sh: from the FAIL_AT-th allocation on there is no memory. ONCE: only that one fails. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

/* glibc's own, under names that a preloaded malloc does not hide */
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t n);

static long count, at = -1;
static int once;

static int fails(void)
{
    if (at < 0) {
        const char *s = getenv("FAIL_AT"), *o = getenv("ONCE");

        at = s ? atol(s) : 0;
        once = o && *o;
    }
    if (!at || ++count < at || (once && count > at))
        return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t n)
{
    return fails() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return fails() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return fails() ? NULL : __libc_realloc(p, n);
}
