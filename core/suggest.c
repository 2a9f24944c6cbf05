#include "core/suggest.h"

#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { SUGGEST_MAX = 63 };

static int fold(char c)
{
    return c == '_' || c == ' ' ? '-' : tolower((unsigned char)c);
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Three rows of the alignment matrix: two back, previous, current. */
static size_t distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t row[3][SUGGEST_MAX + 1];

    for (size_t j = 0; j <= nb; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *cur = row[i % 3], *prev = row[(i - 1) % 3], *back = row[(i + 1) % 3];

        cur[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            size_t same = fold(a[i - 1]) == fold(b[j - 1]);

            cur[j] = least(least(prev[j], cur[j - 1]) + 1, prev[j - 1] + !same);
            if (i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) &&
                fold(a[i - 2]) == fold(b[j - 1]))
                cur[j] = least(cur[j], back[j - 2] + 1);
        }
    }
    return row[na % 3][nb];
}

/* How many slips a name of n characters may have: one in four, and one in any. */
static size_t slips(size_t n)
{
    return n < 8 ? 1 : n / 4;
}

const char *suggest_nearest(const char *name, const char *const *names, size_t n)
{
    size_t len = strlen(name), best = SIZE_MAX;
    const char *found = NULL;

    if (len == 0 || len > SUGGEST_MAX)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t l = names[i] ? strlen(names[i]) : 0, d;

        if (l == 0 || l > SUGGEST_MAX)
            continue;
        d = distance(name, len, names[i], l);
        if (d <= slips(len > l ? len : l) && d < least(len, l) && d < best) {
            best = d;
            found = names[i];
        }
    }
    return found;
}

struct suggest_text suggest(const char *name, const char *const *names, size_t n)
{
    struct suggest_text t = {""};
    const char *near = suggest_nearest(name, names, n);

    if (near)
        snprintf(t.s, sizeof(t.s), " (did you mean '%s'?)", near);
    return t;
}

int suggest_index(const char *name, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (strcasecmp(name, names[i]) == 0)
            return i;
    return -1;
}

size_t suggest_count(const char *const *names)
{
    size_t n = 0;

    while (names[n])
        n++;
    return n;
}
