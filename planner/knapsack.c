/* planner/knapsack.c - see planner/knapsack.h. */
#include "planner/knapsack.h"

#include "core/num.h"

#include <string.h>

typedef unsigned __int128 u128;

struct dive {
    const struct knapsack *k;
    uint32_t order[KNAPSACK_MAX_CLASSES]; /* by value per first weight, best first */
    uint32_t now[KNAPSACK_MAX_CLASSES];   /* by class */
    uint32_t *best;
    uint64_t worth;
    uint64_t nodes, max_nodes;
};

/* Weightless classes first: 0/0 would be as dense as everything and spoil the order. */
static bool denser(const struct knapsack *k, uint32_t a, uint32_t b)
{
    if ((k->weight[a][0] == 0) != (k->weight[b][0] == 0))
        return k->weight[a][0] == 0;
    return (u128)k->value[a] * k->weight[b][0] > (u128)k->value[b] * k->weight[a][0];
}

/* What classes order[at..] could add if items could be cut; the first capacity only, rounded up. */
static uint64_t at_most(const struct dive *d, uint32_t at, uint64_t room)
{
    const struct knapsack *k = d->k;
    uint64_t sum = 0;

    for (; at < k->n_classes; at++) {
        uint32_t c = d->order[at];
        u128 all = (u128)k->weight[c][0] * k->count[c];

        if (all <= room) {
            room -= (uint64_t)all;
            sum += k->value[c] * k->count[c];
        } else {
            return sum + (uint64_t)((u128)k->value[c] * room / k->weight[c][0]) + 1;
        }
    }
    return sum;
}

static void dive(struct dive *d, uint32_t at, const uint64_t *room, uint64_t worth)
{
    const struct knapsack *k = d->k;
    uint64_t most;
    uint32_t c;

    if (++d->nodes > d->max_nodes)
        return;
    if (at == k->n_classes) {
        if (worth > d->worth) {
            d->worth = worth;
            memcpy(d->best, d->now, k->n_classes * sizeof(*d->best));
        }
        return;
    }
    c = d->order[at];
    most = k->count[c];
    for (uint32_t j = 0; j < k->n_dims; j++)
        if (k->weight[c][j])
            most = num_min(most, room[j] / k->weight[c][j]);
    for (uint64_t i = most + 1; i-- > 0;) {
        uint64_t left[KNAPSACK_MAX_DIMS] = {0};
        uint64_t got = worth + i * k->value[c];

        for (uint32_t j = 0; j < k->n_dims; j++)
            left[j] = room[j] - i * k->weight[c][j];
        if (got + at_most(d, at + 1, left[0]) <= d->worth)
            break; /* fewer of the denser class bound it even lower */
        d->now[c] = (uint32_t)i;
        dive(d, at + 1, left, got);
    }
    d->now[c] = 0;
}

bool knapsack_best(const struct knapsack *k, uint64_t max_nodes, uint32_t *best, uint64_t *worth)
{
    struct dive d = {.k = k, .best = best, .max_nodes = max_nodes};

    for (uint32_t i = 0; i < k->n_classes; i++) { /* insertion, stable */
        uint32_t at = i;

        for (; at > 0 && denser(k, i, d.order[at - 1]); at--)
            d.order[at] = d.order[at - 1];
        d.order[at] = i;
    }
    memset(best, 0, k->n_classes * sizeof(*best));
    dive(&d, 0, k->limit, 0);
    *worth = d.worth;
    return d.nodes <= d.max_nodes;
}
