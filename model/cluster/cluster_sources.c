/* The numbers of a cluster one by one, with their sources, and what changes them. */
#include "core/strbuf.h"
#include "model/cluster/cluster_inner.h"

#include <string.h>

size_t cluster_n_fields(void)
{
    return N_FIELDS;
}

bool cluster_field(const struct cluster *c, size_t i, struct arena *a, struct cluster_field *out)
{
    const struct field *f;
    struct strbuf text;
    cJSON *tree;

    BUG_ON(i >= N_FIELDS);
    f = &cluster_fields[i];
    if (!cluster_has_field(c, f))
        return false;
    out->path = cluster_path_of(f, a);
    out->source = c->sources ? c->sources[i] : NULL;
    tree = json_new_array();
    cluster_add_value(tree, NULL, c, f);
    strbuf_init(&text);
    json_print(tree, false, &text);
    /* without the array's brackets, and a lone string without its quotes */
    text.s[text.len - 1] = 0;
    if (text.s[1] == '"')
        text.s[text.len - 2] = 0;
    out->text = arena_strdup(a, text.s + (text.s[1] == '"' ? 2 : 1));
    strbuf_release(&text);
    json_free(tree);
    return true;
}

/* ---- change ---- */

const char **cluster_own_sources(struct cluster *c, struct arena *a)
{
    const char **own = ARENA_NEW(a, const char *, N_FIELDS);

    if (c->sources)
        memcpy(own, c->sources, N_FIELDS * sizeof(*own));
    c->sources = own;
    return own;
}

void cluster_set_source(struct cluster *c, struct arena *a, const char *path, const char *source)
{
    const char **own = cluster_own_sources(c, a);
    int i = 0;

    while (i < N_FIELDS && strcmp(cluster_path_of(&cluster_fields[i], a), path))
        i++;
    BUG_ON(i == N_FIELDS);
    own[i] = source;
}

void cluster_assume(struct cluster *c, struct arena *a, const char *prefix, const char *as)
{
    const char **own = cluster_own_sources(c, a);

    for (int i = 0; i < N_FIELDS; i++)
        if (!strncmp(cluster_path_of(&cluster_fields[i], a), prefix, strlen(prefix)))
            own[i] =
                arena_printf(a, "assumed: as %s%s%s", as, own[i] ? ": " : "", own[i] ? own[i] : "");
}

int cluster_recheck(const struct cluster *c, const char *what, struct arena *a, struct err *e)
{
    cJSON *tree = cluster_to_json(c);
    struct json_at at = json_at_tree(tree, what);
    struct cluster again;
    int rc = cluster_from_tree(&at, a, &again, e);

    json_free(tree);
    return rc;
}
