/* Who works which matrices: items of work tables, and lists of them by rank. */
#include "layouts/optimizer_inner.h"

#include "core/num.h"

#include <string.h>

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
    uint32_t *start = ARENA_NEW(l->a, uint32_t, l->n + 1);
    uint32_t *list = ARENA_NEW(l->a, uint32_t, n * (l->n / l->shards));
    uint32_t *of = MEM_NEW(uint32_t, l->shards + 1), *by_part = MEM_NEW(uint32_t, n);

    for (size_t i = 0; i < n; i++)
        of[pairs[i].part + 1]++;
    for (uint32_t k = 0; k < l->shards; k++)
        of[k + 1] += of[k];
    for (size_t i = n; i-- > 0;) /* of[part + 1] goes down to where the part's items begin */
        by_part[--of[pairs[i].part + 1]] = pairs[i].item;
    for (uint32_t r = 0; r < l->n; r++) {
        uint32_t k = placement_index(l->plan, STATE, r), first = of[k + 1],
                 end = k + 1 < l->shards ? of[k + 2] : (uint32_t)n;

        memcpy(list + start[r], by_part + first, (end - first) * sizeof(*list));
        start[r + 1] = start[r] + end - first;
    }
    mem_free(of);
    mem_free(by_part);
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
                              pairs[open[k]].part != pairs[i].part))
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
        pairs[kept] = (struct optimizer_pair){kept, pairs[i].part};
        open[k] = kept++;
        n_open += k == n_open;
    }
    *n = kept;
}

struct collect_items {
    struct lower *l;
    struct work_item *items;
    struct optimizer_pair *pairs;
    uint32_t tensor, n;
    size_t most;
};

static void add_item(struct collect_items *x, uint32_t part, uint64_t elements)
{
    BUG_ON(x->n == x->most);
    x->pairs[x->n] = (struct optimizer_pair){x->n, part};
    x->items[x->n++] = optimizer_matrix_item(x->l, x->tensor, elements);
}

static void add_items(void *ctx, const struct placement_run *run)
{
    for (uint32_t k = 0; k < run->n; k++)
        add_item(ctx, run->part + k, run->each);
}

/* `batches`: what a rank works is whole and lies there. */
uint32_t optimizer_matrix_work(struct lower *l, enum work_rule rule, enum optimizer_items which,
                               bool batches)
{
    size_t most = (size_t)l->m->matrix_tensors + (rule == WORK_BY_SLICE ? l->n : 0);
    struct collect_items x = {.l = l,
                              .items = ARENA_NEW(l->a, struct work_item, most),
                              .pairs = ARENA_NEW(l->a, struct optimizer_pair, most),
                              .most = most};
    struct work_table w = {.items = x.items};

    for (x.tensor = 0; x.tensor < l->m->n_tensors; x.tensor++) {
        const struct tensor *t = &l->m->tensors[x.tensor];
        bool cut = which != ITEMS_ALL && part_holders(l->plan, x.tensor).n > 1;

        if (!layout_updates_as_matrix(l->plan, t) || (which == ITEMS_WHOLE && cut) ||
            (which == ITEMS_CUT && !cut))
            continue;
        if (rule == WORK_ALL)
            add_item(&x, 0, t->numel);
        else /* the owner, or every slice that has some of it */
            placement_runs(l->plan, x.tensor, STATE, add_items, &x);
    }
    w.n_items = x.n;
    if (l->j->ns_batch && batches) /* 0 without Newton-Schulz: layout_place() */
        batch_items(l, x.items, x.pairs, &w.n_items);
    if (rule != WORK_ALL)
        optimizer_work_lists(l, &w, x.pairs, w.n_items);
    return program_add_work(&l->b, &w);
}
