#include "core/utf8.h"

#include <stdint.h>
#include <string.h>

size_t utf8_step(const char *s, size_t n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char c = n ? (unsigned char)*s : 0;
    size_t len = c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
    uint32_t code = len == 1 ? c : c & (0xffu >> (len + 1));

    if (!n || !len || len > n)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if (((unsigned char)s[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | ((unsigned char)s[i] & 0x3f);
    }
    if (code < least[len] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
        return 0;
    return len;
}

size_t utf8_valid(const char *s, size_t n)
{
    size_t at = 0, step = 1;
    uint64_t eight;

    while (at < n && step) {
        for (; n - at >= sizeof(eight); at += sizeof(eight)) { /* most text is ASCII */
            memcpy(&eight, s + at, sizeof(eight));
            if (eight & UINT64_C(0x8080808080808080))
                break;
        }
        step = at < n ? utf8_step(s + at, n - at) : 0;
        at += step;
    }
    return at;
}

char *utf8_clean(struct arena *a, const char *s)
{
    size_t n = strlen(s);
    char *to = arena_strndup(a, s, n);

    for (size_t at = 0; at < n;) {
        size_t step = utf8_step(s + at, n - at);

        if (!step || (unsigned char)s[at] < ' ' || s[at] == 0x7f) {
            to[at] = '?';
            step = 1;
        }
        at += step;
    }
    return to;
}
