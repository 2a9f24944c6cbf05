/* Virtual time of sim/bottleneck.h: the flows that a link holds, by what its clock will show at their end. */
#include "sim/bottleneck_inner.h"

#include "core/mem.h"

static const double DONE_REL = 1e-12;      /* of its work: done */
static const double ROUND_REL = 1e-15;     /* of a duration, and */
static const double ROUND_PS = 1e-6;       /* ps, and */
static const double ROUND_CLOCK = 4.5e-16; /* of the clock: forgiven before an end is rounded up */
enum { REBASE_AFTER = 64 };                /* flows that came, and four times those that it holds */

static void place(struct bottleneck *b, struct link *k, uint32_t at, struct held it)
{
    k->held[at] = it;
    b->flows[it.slot].at_held = at;
}

static void sift(struct bottleneck *b, struct link *k, uint32_t at, struct held it)
{
    uint32_t c;

    for (; at > 0 && it.end < k->held[(at - 1) / 2].end; at = (at - 1) / 2)
        place(b, k, at, k->held[(at - 1) / 2]);
    while ((c = 2 * at + 1) < k->n_held) {
        c += c + 1 < k->n_held && k->held[c + 1].end < k->held[c].end;
        if (!(k->held[c].end < it.end))
            break;
        place(b, k, at, k->held[c]);
        at = c;
    }
    place(b, k, at, it);
}

/* The clock goes back to 0 now and then, lest it outgrow the digits of what is left of a flow. */
static void rebase(struct link *k)
{
    for (uint32_t i = 0; i < k->n_held; i++)
        k->held[i].end -= k->clock; /* rounding keeps the order */
    k->clock = 0;
    k->n_joined = 0;
}

void bottleneck_hold(struct bottleneck *b, uint32_t l, uint32_t slot, double left)
{
    struct link *k = &b->links[l];

    if (!k->n_held || ++k->n_joined > REBASE_AFTER + 4 * k->n_held)
        rebase(k);
    if (k->n_held == k->held_cap)
        k->held = mem_grow(k->held, &k->held_cap, (size_t)k->n_held + 1, sizeof(*k->held));
    k->n_held++;
    sum_add(&k->own, b->flows[slot].weight);
    sift(b, k, k->n_held - 1,
         (struct held){.end = k->clock + left,
                       .slot = slot,
                       .slack = (float)(DONE_REL * b->flows[slot].work)});
    b->flows[slot].holder = l;
    note(b, l);
}

void bottleneck_unhold(struct bottleneck *b, uint32_t l, uint32_t at)
{
    struct link *k = &b->links[l];
    struct held last = k->held[k->n_held - 1];

    sum_add(&k->own, -b->flows[k->held[at].slot].weight);
    k->n_held--;
    if (at < k->n_held)
        sift(b, k, at, last);
    note(b, l);
}

int64_t bottleneck_end_ps(const struct bottleneck *b, uint32_t l)
{
    const struct link *k = &b->links[l];
    double left = k->held[0].end - k->clock, ps;
    int64_t whole;

    if (left <= (double)k->held[0].slack)
        return k->since_ps;
    ps = (left * (1 - ROUND_REL) - ROUND_CLOCK * k->clock) / b->level[l] - ROUND_PS;
    if (ps >= (double)(INT64_MAX - k->since_ps))
        return INT64_MAX;
    whole = (int64_t)ps; /* ceil() without the call */
    whole += (double)whole < ps;
    return k->since_ps + (whole > 0 ? whole : 0);
}
