#include "core/json.h"

#include <stdlib.h>
#include <string.h>

struct member {
    const char *text; /* borrowed from the document */
    struct json_at at;
};

static int by_text(const void *x, const void *y)
{
    const struct member *a = x, *b = y;
    int order = strcmp(a->text, b->text);

    return order ? order : (a->at.n_base > b->at.n_base) - (a->at.n_base < b->at.n_base);
}

/* The first of the later ones of two that are alike, in the document's order; NULL: all differ.
 * `list` is sorted. */
static const struct member *first_repeat(const struct member *list, size_t n,
                                         const struct member **of)
{
    const struct member *found = NULL;
    size_t run = 0;

    for (size_t i = 1; i < n; i++) {
        if (strcmp(list[i].text, list[run].text) != 0) {
            run = i;
        } else if (i == run + 1 && (!found || list[i].at.n_base < found->at.n_base)) {
            found = &list[i];
            *of = &list[run];
        }
    }
    return found;
}

int json_distinct(const struct json_at *array, const char *key, struct err *e)
{
    const struct member *again, *of = NULL;
    struct member *list;
    struct json_at it;
    size_t n = 0, cap;
    int status = 0;

    if (json_is_array(array, &cap, e))
        return -1;
    list = MEM_NEW(struct member, cap);
    for (bool ok = json_first(array, &it); ok && !status; ok = json_next(&it)) {
        struct member *m = &list[n];

        if (!cJSON_IsObject(it.node) || !json_opt(&it, key, &m->at) || !cJSON_IsString(m->at.node))
            continue; /* which its reader says */
        m->text = m->at.node->valuestring;
        m->at.n_base = it.index; /* the element's place, which sorts */
        if (!*m->text)
            status = json_err(&m->at, ERR_INVALID, e, "is empty, expected a name");
        n++;
    }
    if (!status) {
        qsort(list, n, sizeof(*list), by_text);
        again = first_repeat(list, n, &of);
        if (again)
            status = json_err(&again->at, ERR_INVALID, e,
                              "is '%.60s', and so is %s; expected names that differ", again->text,
                              of->at.path);
    }
    mem_free(list);
    return status;
}
