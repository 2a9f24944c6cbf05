/* layouts/held.c - how evenly the ranks hold what a layout cuts. */
#include "layouts/layout.h"

#include "core/mem.h"

/* more[k] is what part k holds above part k-1: a run of equal parts costs two entries. */
static void add_run(void *ctx, const struct placement_run *run)
{
    int64_t *more = ctx;

    more[run->part] += (int64_t)run->each;
    more[run->part + run->n] -= (int64_t)run->each;
}

struct layout_held layout_held(const struct plan *plan)
{
    uint32_t parts = placement_parts(plan, STATE);
    int64_t *more = MEM_NEW(int64_t, parts + 1), here = 0;
    struct layout_held out = {.least = UINT64_MAX};
    uint64_t sum = 0;

    for (uint32_t i = 0; i < plan->model.n_tensors; i++)
        if (plan->place[i].rule != PLACE_REPLICATED)
            placement_runs(plan, i, STATE, add_run, more);
    for (uint32_t k = 0; k < parts; k++) {
        uint64_t elements = (uint64_t)(here += more[k]);

        sum += elements;
        out.empty += elements == 0;
        if (elements > out.most) {
            out.most = elements;
            out.fullest = mesh_rank(&plan->mesh, k, plan->over[STATE]);
        }
        if (elements < out.least) {
            out.least = elements;
            out.emptiest = mesh_rank(&plan->mesh, k, plan->over[STATE]);
        }
    }
    out.mean = (double)sum / parts;
    out.empty = sum ? out.empty * (plan->world / parts) : 0;
    mem_free(more);
    return out;
}
