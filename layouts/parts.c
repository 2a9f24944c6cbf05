#include "layouts/step.h"

#include "core/num.h"
#include "model/plan/segment_algo.h"

#include <string.h>

uint64_t part_unit_bytes(const struct plan *plan, uint32_t unit, enum dtype d)
{
    return dtype_bytes(d, plan->model.units[unit].numel);
}

uint64_t part_chunk_bytes(const struct plan *plan, uint32_t unit, enum dtype d)
{
    const struct unit *u = &plan->model.units[unit];
    uint64_t sum = 0;

    for (uint32_t i = u->first; i < u->first + u->n; i++)
        if (plan->place[i].rule == PLACE_CHUNK)
            sum += num_ceil_div(plan->model.tensors[i].rows, plan_shards(plan)) *
                   plan->model.tensors[i].cols;
    return dtype_bytes(d, sum) * plan_shards(plan);
}

uint64_t *part_chunk_table(const struct plan *plan, enum dtype d, uint64_t divide, struct arena *a)
{
    uint64_t *v = ARENA_NEW(a, uint64_t, plan->model.n_units), sum = 0;

    for (uint32_t u = 0; u < plan->model.n_units; u++)
        sum += v[u] = part_chunk_bytes(plan, u, d) / divide;
    return sum ? v : NULL;
}

uint64_t part_owned_bytes(const struct plan *plan, uint32_t unit, enum dtype d)
{
    const struct unit *u = &plan->model.units[unit];
    uint64_t sum = 0, most = 0;

    for (uint32_t i = u->first; i < u->first + u->n; i++) {
        uint64_t mine = 0;

        if (plan->place[i].rule != PLACE_OWNER)
            continue;
        sum += plan->model.tensors[i].numel;
        for (uint32_t k = u->first; k < u->first + u->n && segment_algo_pads(plan->job.gather); k++)
            if (plan->place[k].rule == PLACE_OWNER && plan->place[k].owner == plan->place[i].owner)
                mine += plan->model.tensors[k].numel;
        most = num_max(most, mine);
    }
    return dtype_bytes(d, segment_algo_pads(plan->job.gather) ? most * plan_shards(plan) : sum);
}

uint64_t part_slice(const struct plan *plan)
{
    return num_ceil_div(plan->model.total_params, plan_shards(plan));
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

static struct segment_table owner_segments(const struct plan *plan, enum dtype d, bool merge,
                                           struct arena *a)
{
    const struct model *m = &plan->model;
    struct rows r;

    rows_init(&r, m->n_units, a);
    for (uint32_t u = 0; u < m->n_units; u++) {
        uint64_t offset = 0;
        size_t first = r.n;

        for (uint32_t i = m->units[u].first; i < m->units[u].first + m->units[u].n; i++) {
            uint64_t bytes = dtype_bytes(d, m->tensors[i].numel);
            struct segment *last = merge && r.n > first ? &r.list[r.n - 1] : NULL;

            if (plan->place[i].rule == PLACE_OWNER) {
                if (last && last->root == plan->place[i].owner &&
                    last->offset + last->bytes == offset) {
                    last->bytes += bytes;
                    last->tensor = PROGRAM_NONE;
                } else {
                    rows_add(&r, (struct segment){.root = plan->place[i].owner,
                                                  .to_n = plan_shards(plan),
                                                  .tensor = i - m->units[u].first,
                                                  .offset = offset,
                                                  .bytes = bytes});
                }
            }
            offset += bytes;
        }
        r.start[u + 1] = (uint32_t)r.n;
    }
    return rows_finish(&r, a);
}

struct segment_table part_owner_segments(const struct plan *plan, enum dtype d, struct arena *a)
{
    return owner_segments(plan, d, true, a);
}

struct segment_table part_owner_tensors(const struct plan *plan, enum dtype d, struct arena *a)
{
    return owner_segments(plan, d, false, a);
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

struct segment_table part_slice_segments(const struct plan *plan, const struct bucket *buckets,
                                         enum dtype d, struct arena *a)
{
    uint64_t slice = part_slice(plan);
    struct rows r;

    rows_init(&r, plan->model.n_units, a);
    for (uint32_t u = 0; u < plan->model.n_units; u++) {
        uint64_t at = buckets[u].first, end = at + buckets[u].elements;

        while (at < end) {
            uint32_t rank = (uint32_t)(at / slice);
            uint64_t stop = num_min(end, (rank + 1) * slice);

            rows_add(&r, (struct segment){.root = rank,
                                          .to_n = plan->world,
                                          .tensor = PROGRAM_NONE,
                                          .offset = dtype_bytes(d, at - buckets[u].first),
                                          .bytes = dtype_bytes(d, stop - at)});
            at = stop;
        }
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

struct segment_table part_cut_segments(const struct plan *plan, enum dtype d, struct arena *a)
{
    const struct model *m = &plan->model;
    uint64_t slice = part_slice(plan), at = 0;
    struct rows r;

    rows_init(&r, 1, a);
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        uint64_t end = at + m->tensors[i].numel;
        uint32_t first = (uint32_t)(at / slice), last = (uint32_t)((end - 1) / slice);

        if (layout_updates_as_matrix(plan, &m->tensors[i]) && first != last)
            for (uint32_t k = first; k <= last; k++) {
                uint64_t from = num_max(at, k * slice), to = num_min(end, (k + 1) * slice);

                rows_add(&r, (struct segment){.root = k,
                                              .to_first = first,
                                              .to_n = last - first + 1,
                                              .tensor = i,
                                              .offset = dtype_bytes(d, from - at),
                                              .bytes = dtype_bytes(d, to - from)});
            }
        at = end;
    }
    r.start[1] = (uint32_t)r.n;
    return rows_finish(&r, a);
}
