/* Sharding factors by (ranks in a node) x (nodes), as AMSP writes them (arXiv 2311.00257): of parameters, gradients and
 * optimizer states. A layout and its shard group say them; layout mesh takes them from the job. */
#include "cli/mesh.h"

#include "layouts/layout.h"

#include <inttypes.h>

static int compare(const struct plan *plan, const struct factor says[COMPONENT_N],
                   const bool said[COMPONENT_N], struct err *e)
{
    static const char *const keys[COMPONENT_N] = {"p", "g", "os"};

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

int mesh_check(const struct opts *o, const struct plan *plan, bool taken, struct err *e)
{
    const struct opt_val *v = opts_get(o, "mesh");
    struct plan placed = *plan;
    struct factor says[COMPONENT_N];
    bool said[COMPONENT_N];
    struct arena a;
    int status;

    if (!v->set)
        return 0;
    arena_init(&a);
    status = mesh_parse(v->text, says, said, e);
    if (!status && layout_place(&placed, &a, e)) /* where the factors are not its, others say why */
        status = !taken || (placed.layout && layout_find(placed.layout)->nested) ? -1 : 0;
    else if (!status && !taken)
        status = compare(&placed, says, said, e);
    if (status)
        err_prefix(e, "%s %s", opts_said(o, "mesh").s, v->text);
    arena_release(&a);
    return status;
}
