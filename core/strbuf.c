#include "core/strbuf.h"
#include "core/err.h"
#include "core/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void reserve(struct strbuf *b, size_t more)
{
    BUG_ON(more > SIZE_MAX / 4 || b->len > SIZE_MAX / 4);
    b->s = mem_grow(b->s, &b->cap, b->len + more + 1, 1);
}

void strbuf_init(struct strbuf *b)
{
    memset(b, 0, sizeof(*b));
    reserve(b, 0);
    b->s[0] = 0;
}

void strbuf_release(struct strbuf *b)
{
    mem_free(b->s);
    memset(b, 0, sizeof(*b));
}

void strbuf_clear(struct strbuf *b)
{
    b->len = 0;
    if (b->s)
        b->s[0] = 0;
}

void strbuf_add(struct strbuf *b, const char *p, size_t n)
{
    reserve(b, n);
    if (n)
        memcpy(b->s + b->len, p, n);
    b->len += n;
    b->s[b->len] = 0;
}

void strbuf_puts(struct strbuf *b, const char *s)
{
    strbuf_add(b, s, strlen(s));
}

void strbuf_putc(struct strbuf *b, char c)
{
    strbuf_add(b, &c, 1);
}

void strbuf_pad(struct strbuf *b, char c, size_t n)
{
    reserve(b, n);
    memset(b->s + b->len, c, n);
    b->len += n;
    b->s[b->len] = 0;
}

void strbuf_printf(struct strbuf *b, const char *fmt, ...)
{
    va_list ap, again;
    int n;

    va_start(ap, fmt);
    va_copy(again, ap);
    n = vsnprintf(b->s + b->len, b->cap - b->len, fmt, ap);
    va_end(ap);
    BUG_ON(n < 0);
    if ((size_t)n >= b->cap - b->len) {
        reserve(b, (size_t)n);
        vsnprintf(b->s + b->len, b->cap - b->len, fmt, again);
    }
    va_end(again);
    b->len += (size_t)n;
}

char *strbuf_detach(struct strbuf *b)
{
    char *s = b->s;

    memset(b, 0, sizeof(*b));
    return s;
}
