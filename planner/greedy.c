/* planner/greedy.c - the assignments one pass can make: round-robin, longest processing time first (Graham 1969) on
 * several keys, MatrixFSDP's two planners (arXiv 2607.05895) and Megatron's layer-wise one.
 *
 * One binary heap of ranks ordered by (load, rank) gives the least loaded rank; ties go to the lowest rank, equal items
 * keep parameter order. O(n_items log n_items + n_ranks). Loads are 128 bit: max*min^2 of large matrices overflows 64.
 */
#include "planner/assign_inner.h"

#include <stdlib.h>

/* How items are ordered; equal ones by parameter order. */
enum sorting { SORT_KEY, SORT_UNIT_KEY, SORT_KEY_UNIT };

struct key {
    uint32_t first, second; /* the unit, before or after the key; 0 where it does not matter */
    uint32_t index;
    assign_wide key;
};

struct slot {
    assign_wide load;
    uint32_t rank;
};

struct heap {
    struct slot *slots; /* owned */
    uint32_t len;
};

static bool slot_before(const struct slot *a, const struct slot *b)
{
    return a->load < b->load || (a->load == b->load && a->rank < b->rank);
}

static void sift_down(struct heap *h, uint32_t i)
{
    struct slot moving = h->slots[i];

    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child >= h->len)
            break;
        if (child + 1 < h->len && slot_before(&h->slots[child + 1], &h->slots[child]))
            child++;
        if (!slot_before(&h->slots[child], &moving))
            break;
        h->slots[i] = h->slots[child];
        i = child;
    }
    h->slots[i] = moving;
}

static void heap_push(struct heap *h, struct slot s)
{
    uint32_t i = h->len++;

    while (i > 0 && slot_before(&s, &h->slots[(i - 1) / 2])) {
        h->slots[i] = h->slots[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h->slots[i] = s;
}

static struct slot heap_pop(struct heap *h)
{
    struct slot top = h->slots[0];

    h->slots[0] = h->slots[--h->len];
    if (h->len > 0)
        sift_down(h, 0);
    return top;
}

static void heap_init(struct heap *h, uint32_t n_ranks)
{
    h->slots = MEM_NEW(struct slot, n_ranks);
    h->len = n_ranks; /* all loads 0, in rank order: already a heap */
    for (uint32_t r = 0; r < n_ranks; r++)
        h->slots[r].rank = r;
}

static void heap_release(struct heap *h)
{
    mem_free(h->slots);
}

static int by_key_descending(const void *pa, const void *pb)
{
    const struct key *a = pa, *b = pb;

    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    if (a->key != b->key)
        return a->key > b->key ? -1 : 1;
    if (a->second != b->second)
        return a->second < b->second ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

enum key_kind { KEY_FLOPS, KEY_BYTES, KEY_NUMEL, KEY_MEGATRON };

static assign_wide key_of(const struct assign_item *it, enum key_kind kind)
{
    uint64_t min = it->rows < it->cols ? it->rows : it->cols;
    uint64_t max = it->rows < it->cols ? it->cols : it->rows;

    switch (kind) {
    case KEY_FLOPS:
        return it->flops;
    case KEY_BYTES:
        return it->bytes;
    case KEY_NUMEL:
        return it->numel;
    case KEY_MEGATRON:
        return (assign_wide)max * min * min;
    }
    BUG_ON(true);
    return 0;
}

static struct key *sorted_keys(const struct assign_problem *p, enum key_kind kind,
                               enum sorting sorting)
{
    struct key *keys = MEM_NEW(struct key, p->n_items);

    for (uint32_t i = 0; i < p->n_items; i++) {
        keys[i].first = sorting == SORT_UNIT_KEY ? p->items[i].unit : 0;
        keys[i].second = sorting == SORT_KEY_UNIT ? p->items[i].unit : 0;
        keys[i].index = i;
        keys[i].key = key_of(&p->items[i], kind);
    }
    qsort(keys, p->n_items, sizeof(*keys), by_key_descending);
    return keys;
}

void greedy_round_robin(const struct assign_problem *p, uint32_t *owner)
{
    for (uint32_t i = 0; i < p->n_items; i++)
        owner[i] = i % p->n_ranks;
}

void greedy_fill(const struct assign_problem *p, uint32_t k, uint32_t *owner)
{
    struct key *keys = sorted_keys(p, k == 0 ? KEY_FLOPS : KEY_BYTES, SORT_KEY);
    struct heap h;

    heap_init(&h, p->n_ranks);
    for (uint32_t i = 0; i < p->n_items; i++)
        if (owner[i] < p->n_ranks)
            h.slots[owner[i]].load += assign_weight(&p->items[i], k);
    for (uint32_t i = p->n_ranks / 2; i-- > 0;)
        sift_down(&h, i);
    for (uint32_t i = 0; i < p->n_items; i++) {
        if (owner[keys[i].index] < p->n_ranks)
            continue;
        owner[keys[i].index] = h.slots[0].rank;
        h.slots[0].load += keys[i].key;
        sift_down(&h, 0);
    }
    mem_free(keys);
    heap_release(&h);
}

/* LPT in the sorted order; items with key 0 are left to a second pass by bytes. */
static void pour(const struct assign_problem *p, enum key_kind kind, enum sorting sorting,
                 uint32_t *owner)
{
    struct key *keys = sorted_keys(p, kind, sorting);
    struct heap h;
    bool left = false;

    heap_init(&h, p->n_ranks);
    for (uint32_t i = 0; i < p->n_items; i++) {
        if (keys[i].key == 0) {
            owner[keys[i].index] = p->n_ranks;
            left = true;
            continue;
        }
        owner[keys[i].index] = h.slots[0].rank;
        h.slots[0].load += keys[i].key;
        sift_down(&h, 0);
    }
    mem_free(keys);
    heap_release(&h);
    if (left)
        greedy_fill(p, 1, owner);
}

void greedy_lpt(const struct assign_problem *p, uint32_t k, uint32_t *owner)
{
    pour(p, k == 0 ? KEY_FLOPS : KEY_BYTES, SORT_KEY, owner);
}

void greedy_lpt_numel(const struct assign_problem *p, uint32_t *owner)
{
    pour(p, KEY_NUMEL, SORT_KEY, owner);
}

void greedy_by_unit(const struct assign_problem *p, uint32_t *owner)
{
    pour(p, KEY_NUMEL, SORT_UNIT_KEY, owner);
}

void greedy_by_scope(const struct assign_problem *p, uint32_t *owner)
{
    pour(p, KEY_NUMEL, SORT_KEY_UNIT, owner);
}

/* Which ranks a unit's item may go to: 0 those that stay under the cap with it, 1 those still below the cap, 2 all. */
static bool eligible(uint32_t level, uint64_t held, uint64_t numel, uint64_t cap)
{
    switch (level) {
    case 0:
        return held + numel <= cap;
    case 1:
        return held < cap;
    default:
        return true;
    }
}

static uint32_t take_eligible(struct heap *h, struct slot *aside, const uint64_t *held,
                              const struct assign_item *it, assign_wide cost, uint64_t cap)
{
    for (uint32_t level = it->numel > cap ? 1 : 0;; level++) {
        uint32_t n_aside = 0, rank = UINT32_MAX;

        while (h->len > 0 && rank == UINT32_MAX) {
            if (eligible(level, held[h->slots[0].rank], it->numel, cap)) {
                rank = h->slots[0].rank;
                h->slots[0].load += cost;
                sift_down(h, 0);
            } else {
                aside[n_aside++] = heap_pop(h);
            }
        }
        while (n_aside > 0)
            heap_push(h, aside[--n_aside]);
        if (rank != UINT32_MAX)
            return rank;
    }
}

void greedy_megatron(const struct assign_problem *p, uint32_t *owner)
{
    struct key *keys = sorted_keys(p, KEY_MEGATRON, SORT_UNIT_KEY);
    uint64_t *held = MEM_NEW(uint64_t, p->n_ranks); /* numel of this unit */
    struct slot *aside = MEM_NEW(struct slot, p->n_ranks);
    struct heap h;
    uint32_t end;

    heap_init(&h, p->n_ranks);
    for (uint32_t i = 0; i < p->n_items; i = end) {
        assign_wide numel = 0;
        uint64_t cap;

        for (end = i; end < p->n_items && keys[end].first == keys[i].first; end++)
            numel += p->items[keys[end].index].numel;
        cap = (uint64_t)(numel * 13 / ((assign_wide)p->n_ranks * 10));
        for (uint32_t j = i; j < end; j++) {
            const struct assign_item *it = &p->items[keys[j].index];

            owner[keys[j].index] = take_eligible(&h, aside, held, it, keys[j].key, cap);
            held[owner[keys[j].index]] += it->numel;
        }
        for (uint32_t j = i; j < end; j++)
            held[owner[keys[j].index]] = 0;
    }
    mem_free(keys);
    mem_free(held);
    mem_free(aside);
    heap_release(&h);
}

void greedy_spread(const struct assign_problem *p, uint32_t *owner)
{
    struct key *keys = sorted_keys(p, KEY_FLOPS, SORT_UNIT_KEY);
    uint64_t *held = MEM_NEW(uint64_t, p->n_ranks); /* send bytes of this unit */
    struct slot *aside = MEM_NEW(struct slot, p->n_ranks);
    struct heap h;

    heap_init(&h, p->n_ranks);
    for (uint32_t i = 0; i < p->n_items; i++) {
        const struct assign_item *it = &p->items[keys[i].index];
        uint32_t n_aside = 0, best = 0;

        if (i > 0 && keys[i].first != keys[i - 1].first)
            for (uint32_t j = i; j-- > 0 && keys[j].first == keys[i - 1].first;)
                held[owner[keys[j].index]] = 0;
        while (h.len > 0) { /* least flops first; an untouched rank ends the search */
            aside[n_aside] = heap_pop(&h);
            if (held[aside[n_aside].rank] < held[aside[best].rank])
                best = n_aside;
            if (held[aside[n_aside++].rank] == 0)
                break;
        }
        owner[keys[i].index] = aside[best].rank;
        held[aside[best].rank] += it->send_bytes;
        aside[best].load += it->flops;
        while (n_aside > 0)
            heap_push(&h, aside[--n_aside]);
    }
    mem_free(keys);
    mem_free(held);
    mem_free(aside);
    heap_release(&h);
}
