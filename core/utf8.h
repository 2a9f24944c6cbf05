/* core/utf8.h - is it UTF-8, and what to show when it is not. RFC 3629: no overlong forms, no surrogates, at most
 * U+10FFFF. */
#ifndef BALLAST_CORE_UTF8_H
#define BALLAST_CORE_UTF8_H

#include "core/mem.h"

#include <stddef.h>

/* Length of the well-formed sequence at s (n bytes are there), or 0. */
size_t utf8_step(const char *s, size_t n);
/* Offset of the first byte that is no UTF-8, or n. */
size_t utf8_valid(const char *s, size_t n);
/* A copy in which control characters and bytes that are no UTF-8 are '?': for names that come from file names. */
char *utf8_clean(struct arena *a, const char *s);

#endif
