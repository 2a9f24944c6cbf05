/* Sharding factors by (ranks in a node) x (nodes), as AMSP writes them (arXiv 2311.00257): of parameters, gradients and
 * optimizer states. A layout and its shard group say them; layout mesh takes them from the job. */
#include "cli/mesh.h"

#include "layouts/layout.h"

#include <inttypes.h>

static int compare(const struct plan *plan, const char *text, struct err *e)
{
    static const char *const keys[COMPONENT_N] = {"p", "g", "os"};
    struct factor says[COMPONENT_N];
    bool said[COMPONENT_N];

    if (mesh_parse(text, says, said, e))
        return -1;
    for (int c = 0; c < COMPONENT_N; c++) {
        const struct factor *has = &plan->factor[c];

        if (said[c] && (says[c].in_node != has->in_node || says[c].nodes != has->nodes))
            return err_set(e, ERR_INVALID,
                           "%s is %" PRIu32 "x%" PRIu32
                           " under layout '%s'; layout mesh takes factors of your own",
                           keys[c], has->in_node, has->nodes, plan->layout_full);
    }
    return 0;
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
    status = layout_place(&placed, &a, e) || compare(&placed, v->text, e)
                 ? err_prefix(e, "%s %s", opts_said(o, "mesh").s, v->text)
                 : 0;
    arena_release(&a);
    return status;
}
