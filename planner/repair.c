/* planner/repair.c - local search on one weight: moves and swaps away from the heaviest rank.
 *
 * Each rank keeps its items sorted by weight; ranks are kept sorted by load. A step takes the heaviest rank and the
 * REACH lightest others (all, when they are few), and applies the exchange that leaves the pair's heavier side lightest.
 * Items of equal weights are tried once. With few distinct sizes all pairs are tried; else only the two whose difference
 * is next to half the gap. O(items of the two ranks) per pair. Known weakness: no exchange of two against one; the
 * pattern ILP does those.
 */
#include "planner/assign_inner.h"

#include "core/num.h"

#include <stdlib.h>
#include <string.h>

enum { REACH = 64, MAX_STEPS = 20000, FEW = 48 };
#define MAX_WORK UINT64_C(40000000)

struct hand {        /* the items of a rank */
    uint32_t *items; /* owned, sorted by before() */
    size_t cap;
    uint32_t n;
    uint64_t load[ASSIGN_N_WEIGHTS];
};

struct repair {
    const struct assign_problem *p;
    uint32_t k;
    const uint64_t *limit;
    struct hand *hands; /* owned, [n_ranks] */
    uint32_t *order;    /* owned, ranks by (load, rank) */
    uint64_t work;
};

struct exchange {
    uint32_t partner;
    uint32_t give; /* item of the heavy rank */
    uint32_t take; /* item of the partner; UINT32_MAX: none, a move */
    uint64_t peak; /* heavier of the two after it */
};

static uint64_t weight(const struct repair *s, uint32_t item, uint32_t k)
{
    return assign_weight(&s->p->items[item], k);
}

static bool before(const struct repair *s, uint32_t a, uint32_t b)
{
    for (uint32_t j = 0; j < ASSIGN_N_WEIGHTS; j++) {
        uint32_t k = (s->k + j) % ASSIGN_N_WEIGHTS;

        if (weight(s, a, k) != weight(s, b, k))
            return weight(s, a, k) > weight(s, b, k);
    }
    return a < b;
}

static bool same_weights(const struct repair *s, uint32_t a, uint32_t b)
{
    return weight(s, a, 0) == weight(s, b, 0) && weight(s, a, 1) == weight(s, b, 1);
}

static void hand_insert(struct repair *s, uint32_t rank, uint32_t item)
{
    struct hand *h = &s->hands[rank];
    uint32_t at = h->n;

    h->items = mem_grow(h->items, &h->cap, h->n + 1, sizeof(uint32_t));
    for (; at > 0 && before(s, item, h->items[at - 1]); at--)
        h->items[at] = h->items[at - 1];
    h->items[at] = item;
    h->n++;
    for (uint32_t k = 0; k < ASSIGN_N_WEIGHTS; k++)
        h->load[k] += weight(s, item, k);
}

static void hand_remove(struct repair *s, uint32_t rank, uint32_t item)
{
    struct hand *h = &s->hands[rank];
    uint32_t at = 0;

    while (h->items[at] != item)
        at++;
    memmove(h->items + at, h->items + at + 1, (h->n - at - 1) * sizeof(uint32_t));
    h->n--;
    for (uint32_t k = 0; k < ASSIGN_N_WEIGHTS; k++)
        h->load[k] -= weight(s, item, k);
}

/* First items of each run of equal weights, at most `max`. */
static uint32_t distinct(struct repair *s, uint32_t rank, uint32_t *out, uint32_t max)
{
    const struct hand *h = &s->hands[rank];
    uint32_t n = 0;

    for (uint32_t i = 0; i < h->n && n < max; i++)
        if (i == 0 || !same_weights(s, h->items[i], h->items[i - 1]))
            out[n++] = h->items[i];
    s->work += h->n;
    return n;
}

/* Keep the exchange when it is allowed and better than the best. */
static void consider(struct repair *s, uint32_t heavy, uint32_t partner, uint32_t give,
                     uint32_t take, struct exchange *best)
{
    const struct hand *a = &s->hands[heavy], *b = &s->hands[partner];
    uint64_t peak = 0;

    s->work++;
    for (uint32_t k = 0; k < ASSIGN_N_WEIGHTS; k++) {
        uint64_t out = weight(s, give, k), in = take == UINT32_MAX ? 0 : weight(s, take, k);
        uint64_t la = a->load[k] - out + in, lb = b->load[k] - in + out;

        if (k == s->k)
            peak = num_max(la, lb);
        else if ((la > s->limit[k] && la > a->load[k]) || (lb > s->limit[k] && lb > b->load[k]))
            return;
    }
    if (peak < best->peak)
        *best = (struct exchange){partner, give, take, peak};
}

/* For each item to give, the partner's items whose weight is next to it minus half the gap. */
static void consider_nearest(struct repair *s, uint32_t heavy, uint32_t partner,
                             const uint32_t *give, uint32_t n_give, const uint32_t *take,
                             uint32_t n_take, struct exchange *best)
{
    uint64_t half = (s->hands[heavy].load[s->k] - s->hands[partner].load[s->k] + 1) / 2;
    uint32_t j = 0;

    for (uint32_t i = 0; i < n_give; i++) {
        uint64_t w = weight(s, give[i], s->k);

        while (j < n_take && weight(s, take[j], s->k) + half > w)
            j++;
        for (uint32_t near = j > 1 ? j - 2 : 0; near < j + 2 && near < n_take; near++)
            consider(s, heavy, partner, give[i], take[near], best);
    }
}

static void try_partner(struct repair *s, uint32_t heavy, uint32_t partner, const uint32_t *give,
                        uint32_t n_give, uint32_t *take, struct exchange *best)
{
    uint64_t gap = s->hands[heavy].load[s->k] - s->hands[partner].load[s->k];
    uint32_t n_take = distinct(s, partner, take, s->hands[partner].n);

    for (uint32_t i = 0; i < n_give; i++)
        if (weight(s, give[i], s->k) < gap)
            consider(s, heavy, partner, give[i], UINT32_MAX, best);
    if (n_give > FEW || n_take > FEW) {
        consider_nearest(s, heavy, partner, give, n_give, take, n_take, best);
        return;
    }
    for (uint32_t i = 0; i < n_give; i++)
        for (uint32_t j = 0; j < n_take; j++) {
            uint64_t out = weight(s, give[i], s->k), in = weight(s, take[j], s->k);

            if (out > in && out - in < gap)
                consider(s, heavy, partner, give[i], take[j], best);
        }
}

static bool rank_before(const struct repair *s, uint32_t a, uint32_t b)
{
    uint64_t la = s->hands[a].load[s->k], lb = s->hands[b].load[s->k];

    return la != lb ? la < lb : a < b;
}

/* Put the rank at position `at` back into its place after its load changed. */
static void reorder(struct repair *s, uint32_t at)
{
    uint32_t *o = s->order;

    for (; at > 0 && rank_before(s, o[at], o[at - 1]); at--) {
        uint32_t t = o[at];

        o[at] = o[at - 1];
        o[at - 1] = t;
    }
    for (; at + 1 < s->p->n_ranks && rank_before(s, o[at + 1], o[at]); at++) {
        uint32_t t = o[at];

        o[at] = o[at + 1];
        o[at + 1] = t;
    }
}

static uint32_t place_of(const struct repair *s, uint32_t rank)
{
    uint32_t at = 0;

    while (s->order[at] != rank)
        at++;
    return at;
}

static void apply(struct repair *s, uint32_t heavy, const struct exchange *x, uint32_t *owner)
{
    hand_remove(s, heavy, x->give);
    hand_insert(s, x->partner, x->give);
    owner[x->give] = x->partner;
    if (x->take != UINT32_MAX) {
        hand_remove(s, x->partner, x->take);
        hand_insert(s, heavy, x->take);
        owner[x->take] = heavy;
    }
    reorder(s, place_of(s, x->partner));
    reorder(s, place_of(s, heavy));
    s->work += s->p->n_ranks;
}

static bool step(struct repair *s, uint32_t *give, uint32_t *take, uint32_t *owner)
{
    uint32_t heavy = s->order[s->p->n_ranks - 1];
    uint32_t n_give = distinct(s, heavy, give, s->hands[heavy].n);
    uint64_t load = s->hands[heavy].load[s->k];
    struct exchange best = {.peak = load};

    for (uint32_t i = 0; i + 1 < s->p->n_ranks && i < REACH; i++) {
        uint64_t other = s->hands[s->order[i]].load[s->k];

        if (other + (load - other + 1) / 2 >= best.peak)
            break; /* nor do the ranks after it */
        try_partner(s, heavy, s->order[i], give, n_give, take, &best);
    }
    if (best.peak >= load)
        return false;
    apply(s, heavy, &best, owner);
    return true;
}

struct sort_key {
    uint64_t major, minor;
    uint32_t index;
};

static int by_weights_descending(const void *pa, const void *pb)
{
    const struct sort_key *a = pa, *b = pb;

    if (a->major != b->major)
        return a->major > b->major ? -1 : 1;
    if (a->minor != b->minor)
        return a->minor > b->minor ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int by_load_ascending(const void *pa, const void *pb)
{
    const struct sort_key *a = pa, *b = pb;

    if (a->major != b->major)
        return a->major < b->major ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static void fill_hands(struct repair *s, const uint32_t *owner)
{
    uint32_t n_items = s->p->n_items, n_ranks = s->p->n_ranks;
    struct sort_key *keys = MEM_NEW(struct sort_key, num_max(n_items, n_ranks));

    for (uint32_t i = 0; i < n_items; i++)
        keys[i] = (struct sort_key){weight(s, i, s->k), weight(s, i, 1 - s->k), i};
    qsort(keys, n_items, sizeof(*keys), by_weights_descending);
    for (uint32_t i = 0; i < n_items; i++)
        hand_insert(s, owner[keys[i].index], keys[i].index);
    for (uint32_t r = 0; r < n_ranks; r++)
        keys[r] = (struct sort_key){s->hands[r].load[s->k], 0, r};
    qsort(keys, n_ranks, sizeof(*keys), by_load_ascending);
    for (uint32_t r = 0; r < n_ranks; r++)
        s->order[r] = keys[r].index;
    mem_free(keys);
}

uint64_t repair_level(const struct assign_problem *p, uint32_t k, uint64_t target,
                      const uint64_t limit[ASSIGN_N_WEIGHTS], uint32_t *owner)
{
    struct repair s = {.p = p, .k = k, .limit = limit};
    uint32_t *give = MEM_NEW(uint32_t, p->n_items);
    uint32_t *take = MEM_NEW(uint32_t, p->n_items);
    uint64_t level;

    s.hands = MEM_NEW(struct hand, p->n_ranks);
    s.order = MEM_NEW(uint32_t, p->n_ranks);
    fill_hands(&s, owner);
    for (uint32_t i = 0; i < MAX_STEPS && s.work < MAX_WORK; i++)
        if (s.hands[s.order[p->n_ranks - 1]].load[k] <= target || !step(&s, give, take, owner))
            break;
    level = s.hands[s.order[p->n_ranks - 1]].load[k];
    for (uint32_t r = 0; r < p->n_ranks; r++)
        mem_free(s.hands[r].items);
    mem_free(s.hands);
    mem_free(s.order);
    mem_free(give);
    mem_free(take);
    return level;
}
