#include "layouts/step.h"

#include "core/num.h"
#include "model/plan/segment_algo.h"

#include <string.h>

uint64_t part_unit_bytes(const struct plan *plan, uint32_t unit, enum dtype d)
{
    return dtype_bytes(d, plan->model.units[unit].numel);
}

uint64_t *part_even(const struct plan *plan, enum component c, uint64_t times, struct arena *a)
{
    uint64_t *v = ARENA_NEW(a, uint64_t, plan->model.n_units), sum = 0;

    for (uint32_t u = 0; u < plan->model.n_units; u++) {
        const struct unit *unit = &plan->model.units[u];
        uint64_t elements = 0;

        for (uint32_t i = unit->first; i < unit->first + unit->n; i++)
            if (placement_parts(plan, c) == 1)
                elements += plan->model.tensors[i].numel;
            else if (plan->place[i].rule == PLACE_CHUNK)
                elements +=
                    placement_rows(plan, &plan->model.tensors[i], c) * plan->model.tensors[i].cols;
        sum += v[u] = elements * times;
    }
    return sum ? v : NULL;
}

/* ---- segment tables ---- */

struct rows {
    struct segment *list; /* owned */
    size_t n, cap;
    uint32_t *start; /* in arena */
    uint32_t n_units, at;
};

static void rows_init(struct rows *r, uint32_t n_units, struct arena *a)
{
    memset(r, 0, sizeof(*r));
    r->n_units = n_units;
    r->start = ARENA_NEW(a, uint32_t, n_units + 1);
}

static void rows_add(struct rows *r, struct segment s)
{
    r->list = mem_grow(r->list, &r->cap, r->n + 1, sizeof(*r->list));
    r->list[r->n++] = s;
}

static struct segment_table rows_finish(struct rows *r, struct arena *a)
{
    struct segment *s = ARENA_NEW(a, struct segment, r->n);

    if (r->n)
        memcpy(s, r->list, r->n * sizeof(*s));
    mem_free(r->list);
    return (struct segment_table){.n_units = r->n_units, .start = r->start, .segments = s};
}

static struct segment_table owner_segments(const struct plan *plan, bool merge, struct arena *a)
{
    const struct model *m = &plan->model;
    struct rows r;

    rows_init(&r, m->n_units, a);
    for (uint32_t u = 0; u < m->n_units; u++) {
        uint64_t offset = 0;
        size_t first = r.n;

        for (uint32_t i = m->units[u].first; i < m->units[u].first + m->units[u].n; i++) {
            uint64_t elements = m->tensors[i].numel;
            struct segment *last = merge && r.n > first ? &r.list[r.n - 1] : NULL;

            if (plan->place[i].rule == PLACE_OWNER) {
                if (last && last->root == plan->place[i].owner &&
                    last->offset + last->elements == offset) {
                    last->elements += elements;
                    last->tensor = PROGRAM_NONE;
                } else {
                    rows_add(&r, (struct segment){.root = plan->place[i].owner,
                                                  .to_n = placement_parts(plan, STATE),
                                                  .tensor = i - m->units[u].first,
                                                  .offset = offset,
                                                  .elements = elements});
                }
            }
            offset += elements;
        }
        r.start[u + 1] = (uint32_t)r.n;
    }
    return rows_finish(&r, a);
}

struct segment_table part_owner_segments(const struct plan *plan, struct arena *a)
{
    return owner_segments(plan, true, a);
}

struct segment_table part_owner_tensors(const struct plan *plan, struct arena *a)
{
    return owner_segments(plan, false, a);
}

struct bucket *part_buckets(const struct plan *plan, uint64_t bucket_bytes, struct arena *a)
{
    const struct model *m = &plan->model;
    struct bucket *b = ARENA_NEW(a, struct bucket, m->n_units);
    uint64_t end = m->total_params, first = end;

    for (uint32_t u = m->n_units; u-- > 0;) {
        first -= m->units[u].numel;
        if (u && bucket_bytes && dtype_bytes(plan->job.grad_dtype, end - first) < bucket_bytes)
            continue;
        b[u] = (struct bucket){first, end - first};
        end = first;
    }
    return b;
}

/* Runs of parts as segments: of one tensor, or of a bucket. */
struct run_rows {
    struct rows *to;
    struct segment like; /* what all of them have in common */
};

static void add_segments(void *ctx, const struct placement_run *run)
{
    struct run_rows *x = ctx;

    for (uint32_t k = 0; k < run->n; k++) {
        struct segment s = x->like;

        s.root = run->part + k;
        s.offset = run->first + k * run->each;
        s.elements = run->each;
        rows_add(x->to, s);
    }
}

struct segment_table part_slice_segments(const struct plan *plan, const struct bucket *buckets,
                                         struct arena *a)
{
    struct rows r;
    struct run_rows x = {&r, {.to_n = plan_data_ranks(plan), .tensor = PROGRAM_NONE}};

    rows_init(&r, plan->model.n_units, a);
    for (uint32_t u = 0; u < plan->model.n_units; u++) {
        placement_flat_runs(plan, buckets[u].first, buckets[u].first + buckets[u].elements, STATE,
                            add_segments, &x);
        r.start[u + 1] = (uint32_t)r.n;
    }
    return rows_finish(&r, a);
}

void part_alike(const struct plan *plan, struct part_alike *alike)
{
    const struct model *m = &plan->model;
    uint32_t *first = MEM_NEW(uint32_t, m->n_tensors), *count = MEM_NEW(uint32_t, m->n_tensors),
             n = 0, k;

    for (uint32_t i = 0; i < m->n_tensors; i++) {
        const struct tensor *t = &m->tensors[i];

        alike[i].shape = PROGRAM_NONE;
        if (!layout_updates_as_matrix(plan, t))
            continue;
        for (k = 0; k < n; k++)
            if (m->tensors[first[k]].rows == t->rows && m->tensors[first[k]].cols == t->cols)
                break;
        if (k == n)
            first[n++] = i;
        alike[i] = (struct part_alike){k, count[k]++};
    }
    mem_free(first);
    mem_free(count);
}

static void add_holders(void *ctx, const struct placement_run *run)
{
    struct part_holders *h = ctx;

    if (!h->n)
        h->first = run->part;
    h->n = run->part + run->n - h->first;
}

struct part_holders part_holders(const struct plan *plan, uint32_t tensor)
{
    struct part_holders h = {0, 0};

    placement_runs(plan, tensor, STATE, add_holders, &h);
    return h;
}

struct segment_table part_cut_segments(const struct plan *plan, struct arena *a)
{
    struct rows r;
    struct run_rows x = {&r, {0}};

    rows_init(&r, 1, a);
    for (uint32_t i = 0; i < plan->model.n_tensors; i++) {
        struct part_holders h = part_holders(plan, i);

        if (!layout_updates_as_matrix(plan, &plan->model.tensors[i]) || h.n == 1)
            continue;
        x.like = (struct segment){.to_first = h.first, .to_n = h.n, .tensor = i};
        placement_runs(plan, i, STATE, add_segments, &x);
    }
    r.start[1] = (uint32_t)r.n;
    return rows_finish(&r, a);
}
