/* layouts/held.c - how evenly the ranks hold what a layout cuts. */
#include "layouts/layout.h"

#include "core/mem.h"
#include "core/num.h"

/* more[p] is what place p holds above place p-1: a run of places costs two entries. */
static void add_run(int64_t *more, uint32_t first, uint32_t n, uint64_t each)
{
    more[first] += (int64_t)each;
    more[first + n] -= (int64_t)each;
}

/* ceil(rows/G) rows each from the first rank on: the last rank that has any may have fewer, those behind it none. */
static void add_rows(int64_t *more, const struct tensor *t, uint32_t shards)
{
    uint64_t each = num_ceil_div(t->rows, shards);
    uint32_t full = (uint32_t)(t->rows / each);

    add_run(more, 0, full, each * t->cols);
    if (t->rows % each)
        add_run(more, full, 1, t->rows % each * t->cols);
}

/* Equal slices of the flat space, of which [at, at + n) is this tensor. */
static void add_slices(int64_t *more, uint64_t at, uint64_t n, uint64_t slice)
{
    for (uint64_t p = at / slice; p <= (at + n - 1) / slice; p++)
        add_run(more, (uint32_t)p, 1, num_min(at + n, (p + 1) * slice) - num_max(at, p * slice));
}

struct layout_held layout_held(const struct plan *plan)
{
    uint32_t shards = plan_shards(plan);
    uint64_t slice = num_ceil_div(plan->model.total_params, shards), at = 0, sum = 0;
    int64_t *more = MEM_NEW(int64_t, shards + 1), here = 0;
    struct layout_held out = {.least = UINT64_MAX};

    for (uint32_t i = 0; i < plan->model.n_tensors; at += plan->model.tensors[i].numel, i++) {
        const struct tensor *t = &plan->model.tensors[i];

        switch (plan->place[i].rule) {
        case PLACE_CHUNK:
            add_rows(more, t, shards);
            break;
        case PLACE_FLAT:
            add_slices(more, at, t->numel, slice);
            break;
        case PLACE_OWNER:
            add_run(more, plan->place[i].owner, 1, t->numel);
            break;
        case PLACE_REPLICATED:
            break;
        }
    }
    for (uint32_t p = 0; p < shards; p++) {
        uint64_t elements = (uint64_t)(here += more[p]);

        sum += elements;
        out.empty += elements == 0;
        if (elements > out.most) {
            out.most = elements;
            out.fullest = p;
        }
        if (elements < out.least) {
            out.least = elements;
            out.emptiest = p;
        }
    }
    out.mean = (double)sum / shards;
    out.empty = sum ? out.empty * (plan->world / shards) : 0;
    mem_free(more);
    return out;
}
