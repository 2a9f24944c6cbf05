/* planner/deal.c - which of several equal items goes to which rank.
 *
 * Flops and bytes fix only how many items of a class (equal flops, equal bytes) a rank holds. Which layer's they are is
 * free, and it decides how evenly the ranks send when one unit is gathered. Greedy: unit after unit, largest item
 * first, to the rank that holds least of the unit and has most of that class still to get; then exchanges of two equal
 * items as long as the worst (rank, unit) pairs get better.
 */
#include "planner/assign_inner.h"

#include "core/num.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PASSES = 64 };
#define MAX_WORK  UINT64_C(10000000)
#define MAX_TABLE (UINT64_C(1) << 25) /* ranks x units of the exchange phase */

struct deal_key {
    uint64_t major, minor;
    uint32_t index;
};

static int descending(const void *pa, const void *pb)
{
    const struct deal_key *a = pa, *b = pb;

    if (a->major != b->major)
        return a->major > b->major ? -1 : 1;
    if (a->minor != b->minor)
        return a->minor > b->minor ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

uint32_t deal_classes(const struct assign_problem *p, uint32_t *sorted, uint32_t *class_of)
{
    struct deal_key *keys = MEM_NEW(struct deal_key, p->n_items);
    uint32_t n = 0;

    for (uint32_t i = 0; i < p->n_items; i++)
        keys[i] = (struct deal_key){p->items[i].flops, p->items[i].bytes, i};
    qsort(keys, p->n_items, sizeof(*keys), descending);
    for (uint32_t i = 0; i < p->n_items; i++) {
        if (i == 0 || keys[i].major != keys[i - 1].major || keys[i].minor != keys[i - 1].minor)
            n++;
        if (sorted)
            sorted[i] = keys[i].index;
        if (class_of)
            class_of[keys[i].index] = n - 1;
    }
    mem_free(keys);
    return n;
}

/* Items by (unit, -send_bytes, index). The unit is stored negated so that small numbers come first. */
static struct deal_key *by_unit(const struct assign_problem *p)
{
    struct deal_key *keys = MEM_NEW(struct deal_key, p->n_items);

    for (uint32_t i = 0; i < p->n_items; i++)
        keys[i] = (struct deal_key){UINT32_MAX - p->items[i].unit, p->items[i].send_bytes, i};
    qsort(keys, p->n_items, sizeof(*keys), descending);
    return keys;
}

uint64_t deal_fanout(const struct assign_problem *p, const uint32_t *owner)
{
    struct deal_key *keys = by_unit(p);
    uint64_t *held = MEM_NEW(uint64_t, p->n_ranks);
    uint64_t most = 0;
    uint32_t end;

    for (uint32_t i = 0; i < p->n_items; i = end) {
        for (end = i; end < p->n_items && keys[end].major == keys[i].major; end++) {
            held[owner[keys[end].index]] += keys[end].minor;
            most = num_max(most, held[owner[keys[end].index]]);
        }
        for (uint32_t j = i; j < end; j++)
            held[owner[keys[j].index]] = 0;
    }
    mem_free(held);
    mem_free(keys);
    return most;
}

uint64_t deal_fanout_bound(const struct assign_problem *p)
{
    struct deal_key *keys = by_unit(p);
    uint64_t most = 0;
    uint32_t end;

    for (uint32_t i = 0; i < p->n_items; i = end) {
        uint64_t sum = 0;

        for (end = i; end < p->n_items && keys[end].major == keys[i].major; end++)
            sum += keys[end].minor;
        most = num_max(most, num_max(keys[i].minor, num_ceil_div(sum, p->n_ranks)));
    }
    mem_free(keys);
    return most;
}

/* ---- first: unit after unit ---- */

struct quota { /* how many items of a class a rank still gets */
    uint32_t left, rank;
};

struct quota_heap {
    struct quota *slots; /* borrowed from dealer.quotas */
    uint32_t len;
};

static bool quota_before(const struct quota *a, const struct quota *b)
{
    return a->left > b->left || (a->left == b->left && a->rank < b->rank);
}

static void quota_push(struct quota_heap *h, struct quota q)
{
    uint32_t i = h->len++;

    while (i > 0 && quota_before(&q, &h->slots[(i - 1) / 2])) {
        h->slots[i] = h->slots[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    h->slots[i] = q;
}

static struct quota quota_pop(struct quota_heap *h)
{
    struct quota top = h->slots[0], moving = h->slots[--h->len];
    uint32_t i = 0;

    while (2 * i + 1 < h->len) {
        uint32_t child = 2 * i + 1;

        if (child + 1 < h->len && quota_before(&h->slots[child + 1], &h->slots[child]))
            child++;
        if (!quota_before(&h->slots[child], &moving))
            break;
        h->slots[i] = h->slots[child];
        i = child;
    }
    if (h->len > 0)
        h->slots[i] = moving;
    return top;
}

/* One heap per class, filled from who owns how many now. */
static void read_quotas(const struct assign_problem *p, const uint32_t *sorted,
                        const uint32_t *class_of, const uint32_t *owner, struct quota *quotas,
                        struct quota_heap *heaps)
{
    uint32_t *have = MEM_NEW(uint32_t, p->n_ranks);
    uint32_t end;

    for (uint32_t i = 0; i < p->n_items; i = end) {
        struct quota_heap *h = &heaps[class_of[sorted[i]]];

        h->slots = quotas + i; /* a class of n items has at most n owners */
        for (end = i; end < p->n_items && class_of[sorted[end]] == class_of[sorted[i]]; end++)
            have[owner[sorted[end]]]++;
        for (uint32_t j = i; j < end; j++) {
            uint32_t r = owner[sorted[j]];

            if (have[r] > 0)
                quota_push(h, (struct quota){have[r], r});
            have[r] = 0;
        }
    }
    mem_free(have);
}

static uint32_t draw(struct quota_heap *h, struct quota *aside, const uint64_t *held)
{
    uint32_t n_aside = 0, best = 0, rank;

    while (h->len > 0) {
        aside[n_aside] = quota_pop(h);
        if (held[aside[n_aside].rank] < held[aside[best].rank])
            best = n_aside;
        if (held[aside[n_aside++].rank] == 0)
            break;
    }
    rank = aside[best].rank;
    aside[best].left--;
    for (uint32_t i = 0; i < n_aside; i++)
        if (aside[i].left > 0)
            quota_push(h, aside[i]);
    return rank;
}

static void deal_greedily(const struct assign_problem *p, const uint32_t *sorted,
                          const uint32_t *class_of, uint32_t n_classes, uint32_t *owner)
{
    struct quota *quotas = MEM_NEW(struct quota, p->n_items);
    struct quota *aside = MEM_NEW(struct quota, p->n_ranks);
    struct quota_heap *heaps = MEM_NEW(struct quota_heap, n_classes);
    struct deal_key *keys = by_unit(p);
    uint64_t *held = MEM_NEW(uint64_t, p->n_ranks);
    uint32_t end;

    read_quotas(p, sorted, class_of, owner, quotas, heaps);
    for (uint32_t i = 0; i < p->n_items; i = end) {
        for (end = i; end < p->n_items && keys[end].major == keys[i].major; end++) {
            uint32_t item = keys[end].index;

            owner[item] = draw(&heaps[class_of[item]], aside, held);
            held[owner[item]] += keys[end].minor;
        }
        for (uint32_t j = i; j < end; j++)
            held[owner[keys[j].index]] = 0;
    }
    mem_free(held);
    mem_free(keys);
    mem_free(heaps);
    mem_free(aside);
    mem_free(quotas);
}

/* ---- then: exchanges of equal items ---- */

struct trade {
    const struct assign_problem *p;
    const uint32_t *sorted, *class_of; /* items of one class are neighbours in `sorted` */
    uint32_t *class_at;                /* owned, [n_classes + 1] first position in `sorted` */
    uint32_t *unit_of;                 /* owned, [n_items] units numbered from 0 */
    uint32_t n_units;
    uint64_t *sent; /* owned, [n_ranks][n_units] */
    uint64_t work;
};

static uint64_t *sent(const struct trade *t, uint32_t rank, uint32_t unit)
{
    return &t->sent[(size_t)rank * t->n_units + unit];
}

/* Give `item` away for an equal one, so that all four cells end below `peak`. */
static bool trade_away(struct trade *t, uint32_t item, uint64_t peak, uint32_t *owner)
{
    uint32_t class = t->class_of[item], r = owner[item], u = t->unit_of[item];
    uint64_t mine = t->p->items[item].send_bytes;

    for (uint32_t at = t->class_at[class]; at < t->class_at[class + 1]; at++) {
        uint32_t other = t->sorted[at], s = owner[other], v = t->unit_of[other];
        uint64_t theirs = t->p->items[other].send_bytes;

        t->work++;
        if (s == r || v == u || *sent(t, r, u) - mine >= peak || *sent(t, r, v) + theirs >= peak ||
            *sent(t, s, u) + mine >= peak)
            continue;
        *sent(t, r, u) -= mine;
        *sent(t, s, u) += mine;
        *sent(t, s, v) -= theirs;
        *sent(t, r, v) += theirs;
        owner[item] = s;
        owner[other] = r;
        return true;
    }
    return false;
}

/* One pass over the items of the worst cells; false when nothing could be mended. */
static bool trade_pass(struct trade *t, uint64_t peak, uint32_t *owner)
{
    bool any = false;

    for (uint32_t i = 0; i < t->p->n_items && t->work < MAX_WORK; i++) {
        if (*sent(t, owner[i], t->unit_of[i]) < peak || t->p->items[i].send_bytes == 0)
            continue;
        if (trade_away(t, i, peak, owner))
            any = true;
    }
    return any;
}

static void trade_units(const struct assign_problem *p, const uint32_t *sorted,
                        const uint32_t *class_of, uint32_t n_classes, uint32_t *owner)
{
    struct trade t = {.p = p, .sorted = sorted, .class_of = class_of};
    struct deal_key *keys = by_unit(p);
    uint64_t target = deal_fanout_bound(p);

    t.unit_of = MEM_NEW(uint32_t, p->n_items);
    t.class_at = MEM_NEW(uint32_t, n_classes + 1);
    for (uint32_t i = 0; i < p->n_items; i++) {
        if (i > 0 && keys[i].major != keys[i - 1].major)
            t.n_units++;
        t.unit_of[keys[i].index] = t.n_units;
        t.class_at[class_of[sorted[i]] + 1] = i + 1;
    }
    t.n_units++;
    if ((uint64_t)t.n_units * p->n_ranks <= MAX_TABLE) {
        t.sent = MEM_NEW(uint64_t, (size_t)t.n_units * p->n_ranks);
        for (uint32_t i = 0; i < p->n_items; i++)
            *sent(&t, owner[i], t.unit_of[i]) += p->items[i].send_bytes;
        for (uint32_t pass = 0; pass < MAX_PASSES && t.work < MAX_WORK; pass++) {
            uint64_t peak = 0;

            for (uint32_t i = 0; i < p->n_items; i++)
                peak = num_max(peak, *sent(&t, owner[i], t.unit_of[i]));
            if (peak <= target || !trade_pass(&t, peak, owner))
                break;
        }
    }
    mem_free(t.sent);
    mem_free(t.unit_of);
    mem_free(t.class_at);
    mem_free(keys);
}

void deal_units(const struct assign_problem *p, uint32_t *owner)
{
    uint32_t *sorted = MEM_NEW(uint32_t, p->n_items);
    uint32_t *class_of = MEM_NEW(uint32_t, p->n_items);
    uint32_t n_classes = deal_classes(p, sorted, class_of);

    uint32_t *before = MEM_NEW(uint32_t, p->n_items);

    if (p->n_items > 0) {
        memcpy(before, owner, p->n_items * sizeof(uint32_t));
        deal_greedily(p, sorted, class_of, n_classes, owner);
        trade_units(p, sorted, class_of, n_classes, owner);
        if (deal_fanout(p, owner) > deal_fanout(p, before)) {
            memcpy(owner, before, p->n_items * sizeof(uint32_t));
            trade_units(p, sorted, class_of, n_classes, owner);
        }
    }
    mem_free(before);
    mem_free(sorted);
    mem_free(class_of);
}
