/* core/suggest.h - "did you mean": the nearest of some names.
 *
 * Distance is optimal string alignment (insert, delete, replace, swap neighbours), without case
 * and with '-', '_' and ' ' alike. Near means one slip, and of longer names one in each four
 * characters: what differs by more is another name, and no hint is better than a wrong one. Ties
 * go to the first in the list, so hints are reproducible. O(n * length^2); names longer than 63
 * characters are never near. */
#ifndef BALLAST_CORE_SUGGEST_H
#define BALLAST_CORE_SUGGEST_H

#include <stddef.h>

/* The nearest of names[n], or NULL when nothing is near. NULL entries are skipped. */
const char *suggest_nearest(const char *name, const char *const *names, size_t n);

/* " (did you mean 'x'?)" or "": made for the end of an error message, as suggest(...).s */
struct suggest_text {
    char s[96];
};
struct suggest_text suggest(const char *name, const char *const *names, size_t n);

/* Index of name in a NULL-terminated list, compared without case; -1 when absent. */
int suggest_index(const char *name, const char *const *names);
/* Length of a NULL-terminated list. */
size_t suggest_count(const char *const *names);

#endif
