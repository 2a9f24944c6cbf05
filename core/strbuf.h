/* core/strbuf.h - a string that grows. Always terminated; may hold NUL bytes (len counts). */
#ifndef BALLAST_CORE_STRBUF_H
#define BALLAST_CORE_STRBUF_H

#include <stddef.h>

struct strbuf {
    char *s; /* owned; "" after strbuf_init(), NULL only after strbuf_detach() */
    size_t len, cap;
};

void strbuf_init(struct strbuf *b);
void strbuf_release(struct strbuf *b);
void strbuf_clear(struct strbuf *b); /* empty, keeps the memory */
void strbuf_add(struct strbuf *b, const char *p, size_t n);
void strbuf_puts(struct strbuf *b, const char *s);
void strbuf_putc(struct strbuf *b, char c);
void strbuf_pad(struct strbuf *b, char c, size_t n); /* n times c */
void strbuf_printf(struct strbuf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Hand the heap string over (free with mem_free); b is empty after, holds nothing, and may be used again. */
char *strbuf_detach(struct strbuf *b);

#endif
