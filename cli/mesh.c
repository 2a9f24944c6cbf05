/* Sharding factors by (ranks in a node) x (nodes), as AMSP writes them (arXiv 2311.00257): of parameters, gradients and
 * optimizer states. A layout and its shard group say them; a mesh of one's own would be one that none of them has. */
#include "cli/mesh.h"

#include "layouts/layout.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const keys[] = {"p", "g", "os"};
enum { N_KEYS = sizeof(keys) / sizeof(keys[0]) };

/* One of "p=AxB"; returns its key, or N_KEYS. */
static int read_one(const char *text, size_t len, struct factor *f)
{
    char one[40], tail;

    if (len >= sizeof(one))
        return N_KEYS;
    memcpy(one, text, len);
    one[len] = 0;
    for (int k = 0; k < N_KEYS; k++) {
        size_t n = strlen(keys[k]);

        if (!strncmp(one, keys[k], n) && one[n] == '=' &&
            sscanf(one + n + 1, "%" SCNu32 "x%" SCNu32 "%c", &f->in_node, &f->nodes, &tail) == 2)
            return k;
    }
    return N_KEYS;
}

static int compare(const struct opts *o, const struct plan *plan, const char *text, struct err *e)
{
    const struct factor has[N_KEYS] = {plan->factor[PARAM], plan->factor[GRAD],
                                       plan->factor[STATE]};
    bool seen[N_KEYS] = {false};

    for (const char *at = text;; at++) {
        size_t len = strcspn(at, ",");
        struct factor f;
        int k = read_one(at, len, &f);

        if (k == N_KEYS || seen[k])
            return err_set(e, ERR_INVALID, "%s %s: expected p=AxB,g=AxB,os=AxB, each once at most",
                           opts_said(o, "mesh").s, text);
        seen[k] = true;
        if (f.in_node != has[k].in_node || f.nodes != has[k].nodes)
            return err_set(e, ERR_UNSUPPORTED,
                           "%s %s: %s is %" PRIu32 "x%" PRIu32
                           " under layout '%s'; meshes of one's own "
                           "are not in this version, but for --shard-group",
                           opts_said(o, "mesh").s, text, keys[k], has[k].in_node, has[k].nodes,
                           plan->layout_full);
        at += len;
        if (!*at)
            return 0;
    }
}

int mesh_check(const struct opts *o, const struct plan *plan, struct err *e)
{
    const struct opt_val *v = opts_get(o, "mesh");
    struct plan placed = *plan;
    struct arena a;
    int status;

    if (!v->set)
        return 0;
    arena_init(&a);
    status = layout_place(&placed, &a, e) || compare(o, &placed, v->text, e) ? -1 : 0;
    arena_release(&a);
    return status;
}
