/* Who works which matrices: items of work tables, and lists of them by rank. */
#include "layouts/optimizer_inner.h"

#include "core/num.h"

static uint64_t smaller(const struct tensor *t)
{
    return t->rows < t->cols ? t->rows : t->cols;
}

static uint64_t larger(const struct tensor *t)
{
    return t->rows < t->cols ? t->cols : t->rows;
}

uint64_t optimizer_workspace_bytes(const struct lower *l, const struct work_item *w)
{
    return optimizer_row(l->j->optimizer)->workspace(w->m, w->n, w->more + 1);
}

void optimizer_work_lists(struct lower *l, struct work_table *w, const struct optimizer_pair *pairs,
                          size_t n)
{
    uint32_t copies = l->n / l->shards, *start = ARENA_NEW(l->a, uint32_t, l->n + 1);
    uint32_t *list = ARENA_NEW(l->a, uint32_t, n * copies), *at = MEM_NEW(uint32_t, l->n);

    for (size_t i = 0; i < n; i++)
        for (uint32_t r = pairs[i].place; r < l->n; r += l->shards)
            start[r + 1]++;
    for (uint32_t r = 0; r < l->n; r++) {
        start[r + 1] += start[r];
        at[r] = start[r];
    }
    for (size_t i = 0; i < n; i++)
        for (uint32_t r = pairs[i].place; r < l->n; r += l->shards)
            list[at[r]++] = pairs[i].item;
    mem_free(at);
    w->start = start;
    w->list = list;
}

/* One matrix, or the part of it that one slice holds: the products are those of the whole matrix. */
struct work_item optimizer_matrix_item(const struct lower *l, uint32_t tensor, uint64_t elements)
{
    const struct tensor *t = &l->m->tensors[tensor];

    return (struct work_item){
        .tensor = tensor,
        .m = smaller(t),
        .n = larger(t),
        .elements = elements,
        .rows = num_ceil_div(elements, t->cols),
        .flops = optimizer_flops(l->j->optimizer, l->j->ns_steps, t->rows, t->cols)};
}

/* Matrices of one shape on one rank become one item, while its workspace holds them: what a batched Newton-Schulz takes at once. The
 * first of them gives the item its place in the order. */
static void batch_items(struct lower *l, struct work_item *items, struct optimizer_pair *pairs,
                        uint32_t *n)
{
    uint32_t *open = ARENA_NEW(l->a, uint32_t, *n), n_open = 0,
             kept = 0; /* items that may take more */

    for (uint32_t i = 0; i < *n; i++) {
        struct work_item *to;
        uint32_t k = 0;

        while (k < n_open && (items[open[k]].m != items[i].m || items[open[k]].n != items[i].n ||
                              pairs[open[k]].place != pairs[i].place))
            k++;
        to = k < n_open ? &items[open[k]] : NULL;
        if (to) {
            to->more++;
            if (optimizer_workspace_bytes(l, to) <= l->j->ns_batch) {
                to->elements += items[i].elements;
                to->rows += items[i].rows;
                to->flops += items[i].flops;
                continue;
            }
            to->more--;
        }
        items[kept] = items[i];
        pairs[kept] = (struct optimizer_pair){kept, pairs[i].place};
        open[k] = kept++;
        n_open += k == n_open;
    }
    *n = kept;
}

/* `batches`: what a rank works is whole and lies there. */
uint32_t optimizer_matrix_work(struct lower *l, enum work_rule rule, enum optimizer_items which,
                               bool batches)
{
    size_t most = (size_t)l->m->matrix_tensors + (rule == WORK_BY_SLICE ? l->n : 0);
    struct work_item *items = ARENA_NEW(l->a, struct work_item, most);
    struct optimizer_pair *pairs = ARENA_NEW(l->a, struct optimizer_pair, most);
    struct work_table w = {.items = items};
    uint64_t slice = part_slice(l->plan), at = 0;

    for (uint32_t i = 0; i < l->m->n_tensors; at += l->m->tensors[i].numel, i++) {
        const struct tensor *t = &l->m->tensors[i];
        uint64_t from = at, end = at + t->numel;
        bool cut = at / slice != (end - 1) / slice;

        if (!layout_updates_as_matrix(l->plan, t) || (which == ITEMS_WHOLE && cut) ||
            (which == ITEMS_CUT && !cut))
            continue;
        do { /* a boundary of slices cuts an item in two */
            uint64_t stop = rule == WORK_BY_SLICE ? num_min(end, (from / slice + 1) * slice) : end;
            uint32_t place = rule == WORK_BY_SLICE ? (uint32_t)(from / slice)
                             : rule == WORK_ALL    ? 0
                                                   : l->plan->place[i].owner;

            BUG_ON(w.n_items == most);
            pairs[w.n_items] = (struct optimizer_pair){w.n_items, place};
            items[w.n_items++] = optimizer_matrix_item(l, i, stop - from);
            from = stop;
        } while (from < end);
    }
    if (l->j->ns_batch && batches) /* 0 without Newton-Schulz: layout_place() */
        batch_items(l, items, pairs, &w.n_items);
    if (rule != WORK_ALL)
        optimizer_work_lists(l, &w, pairs, w.n_items);
    return program_add_work(&l->b, &w);
}
