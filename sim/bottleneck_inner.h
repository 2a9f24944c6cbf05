/* sim/bottleneck_inner.h - what sim/bottleneck.c (levels), sim/bottleneck_clock.c (virtual time) and
 * sim/bottleneck_tally.c (what need not be looked at) share. */
#ifndef BALLAST_SIM_BOTTLENECK_INNER_H
#define BALLAST_SIM_BOTTLENECK_INNER_H

#include "sim/bottleneck.h"
#include "sim/keyheap.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

static const double SAME = 1e-12; /* relative: levels, and sums, that differ by rounding at most */

/* A sum of weights that come and go: what each addition rounds off is kept (D. Knuth's TwoSum), lest a heavy flow take
 * the digits of light ones with it. Sums of small whole numbers are exact in `main` alone. */
struct sum {
    double main, rest;
};

static inline void sum_add(struct sum *s, double x)
{
    double before = s->main, added;

    s->main += x;
    added = s->main - before;
    s->rest += (before - (s->main - added)) + (x - added);
}

static inline double sum_of(const struct sum *s)
{
    return s->main + s->rest;
}

struct user {
    uint32_t slot, holder;
    double weight;
};

struct held { /* heap order */
    double end;
    uint32_t slot;
    float slack; /* units over weight: with no more left it is done */
};

enum state { CLEAN, MARKED, QUEUED };

/* A list of (link, how often, of what weight). */
struct tally {
    uint32_t link;
    int32_t n;
    struct sum weight;
};

struct tallies {
    struct tally *at; /* owned */
    size_t cap;
    uint32_t n;
};

enum { FROM = 1, TO = 2 }; /* tallies that are kept up to date */

struct link { /* what is needed most often comes first, in 64 bytes */
    double capacity;
    double clock; /* units that a flow of weight 1 held since it was 0 has moved, at since_ps */
    int64_t since_ps;
    double
        promise; /* 0: loud. Quiet: no user is faster, and if all were as fast it would not be overfull */
    double bound;       /* no quiet link of the flows that it holds promises less */
    struct user *users; /* owned */
    struct held *held;  /* owned */
    uint32_t n_users, n_held, n_fresh;
    bool noted;        /* in the list of those whose next end is to be found */
    uint32_t n_joined; /* since the clock was 0 */
    struct sum all;    /* weights of its users */
    struct sum own;    /* weights of those that it holds, and of fresh ones */
    size_t users_cap, held_cap;
    struct tallies from; /* other links that hold its users */
    struct tallies to;   /* other loud links of the flows that it holds */
};

struct waiting {
    double level; /* about where it will settle */
    uint32_t link;
};

/* What every change of a level writes, apart from the rest: few lines of cache for all links. */
struct carried {
    double other; /* by users that other links hold, but for rounding */
    double
        limit; /* of that: settle the link when it is above. -INFINITY: always (it holds someone) */
};

struct hop {
    uint32_t link; /* n_links: the path has ended */
    uint32_t at;   /* in its users */
};

struct flow {
    uint32_t id, holder, at_held;
    double weight;
    double work; /* units over weight */
};

struct bottleneck {
    uint32_t n_links, max_path;
    struct link *links;      /* owned, as all below, [n_links] */
    struct carried *carried; /* [n_links] */
    double *
        level; /* [n_links + 1] rate over weight of those that it holds; 0: holds no one; the last is the holder of fresh flows */
    uint8_t *kept;      /* [n_links] FROM, TO */
    uint8_t *state;     /* [n_links] enum state */
    struct flow *flows; /* [n_slots] */
    size_t flows_cap;
    struct hop *hops; /* [n_slots][max_path + 1] */
    size_t hops_cap;
    uint32_t n_slots;
    uint32_t *free_slots;
    size_t free_cap;
    uint32_t n_free;
    uint32_t *fresh; /* slots that started since the last solve */
    size_t fresh_cap;
    uint32_t n_fresh;
    uint32_t *marked; /* [n_links] links to settle, not in the queue yet */
    uint32_t n_marked;
    struct waiting *queue; /* [n_links + 1] a binary heap from place 1 on: keys stay as they are */
    uint32_t n_queued;
    uint32_t *noted; /* [n_links] */
    uint32_t n_noted;
    struct keyheap ends; /* links by the time of their next end */
    uint32_t *ended;     /* slots, then ids */
    size_t ended_cap;
    double
        lost; /* of a capacity, when what its users take is added up; 0: all weights are 1 so far */
    int64_t now_ps;
    uint64_t
        n_carried;   /* what the levels that changed have cost since the last look at all links */
    uint64_t n_uses; /* of links, by all flows that run */
};

static inline struct hop *path_of(const struct bottleneck *b, uint32_t slot)
{
    return &b->hops[(size_t)slot * (b->max_path + 1)];
}

/* Link l is to be settled. */
static inline void mark(struct bottleneck *b, uint32_t l)
{
    if (b->state[l] != CLEAN)
        return;
    b->state[l] = MARKED;
    b->marked[b->n_marked++] = l;
}

/* The next end of link l is to be found. */
static inline void note(struct bottleneck *b, uint32_t l)
{
    if (b->links[l].noted)
        return;
    b->links[l].noted = true;
    b->noted[b->n_noted++] = l;
}

/* The users of link l that others hold take more, or less. */
static inline void carry(struct bottleneck *b, uint32_t l, double more)
{
    b->carried[l].other += more;
    if (b->carried[l].other > b->carried[l].limit)
        mark(b, l);
}

/* The clock of link l, whose level is still what it was, shows now. */
static inline void tick(struct bottleneck *b, uint32_t l)
{
    struct link *k = &b->links[l];

    if (k->n_held)
        k->clock += b->level[l] * (double)(b->now_ps - k->since_ps);
    k->since_ps = b->now_ps;
}

/* What the users of link l take that others hold, one by one, and the highest of their levels. Two at a time: sums are chains
 * of additions, each of which waits for the one before. */
static inline double add_up(const struct bottleneck *b, uint32_t l, double *top)
{
    const struct user *u = b->links[l].users, *end = u + b->links[l].n_users;
    double *level = b->level;
    double sum0 = 0, sum1 = 0, top0 = 0, top1 = 0, own = level[l], x, y;

    level[l] = 0;
    for (; u + 1 < end; u += 2) {
        x = level[u[0].holder];
        y = level[u[1].holder];
        sum0 += x * u[0].weight;
        sum1 += y * u[1].weight;
        top0 = x > top0 ? x : top0;
        top1 = y > top1 ? y : top1;
    }
    x = u < end ? level[u->holder] : 0;
    sum0 += u < end ? x * u->weight : 0;
    top0 = x > top0 ? x : top0;
    level[l] = own;
    *top = top0 > top1 ? top0 : top1;
    return sum0 + sum1;
}

/* sim/bottleneck_clock.c */

/* Link l, whose clock shows now, holds the flow, of which so much (units over weight) is left. */
void bottleneck_hold(struct bottleneck *b, uint32_t l, uint32_t slot, double left);
/* It holds no longer what stands at that place of its heap; its clock may show anything. */
void bottleneck_unhold(struct bottleneck *b, uint32_t l, uint32_t at);
/* When the first flow that link l holds ends, as seen when its clock was read; INT64_MAX: beyond 2^63 ps, as long as nothing
 * changes its level. */
int64_t bottleneck_end_ps(const struct bottleneck *b, uint32_t l);

/* sim/bottleneck_tally.c */

enum {
    MANY_USERS = 48, /* worth counting by holder */
    MANY_HELD = 12   /* worth counting by link */
};

/* The same for many users, and for the links of many flows that a link holds, whose level changes. */
double bottleneck_others(struct bottleneck *b, uint32_t l, double *top);
void bottleneck_shift(struct bottleneck *b, uint32_t l, double more);
void bottleneck_count(struct bottleneck *b, uint32_t h, uint32_t l, int32_t n, double weight);

/* A flow over link l that link h holds has come, n = 1, or is gone, -1. */
static inline void count(struct bottleneck *b, uint32_t h, uint32_t l, int32_t n, double weight)
{
    if ((b->kept[h] & TO) || (b->kept[l] & FROM))
        bottleneck_count(b, h, l, n, weight);
}

/* Link l is no longer quiet, if it was. */
void bottleneck_wake(struct bottleneck *b, uint32_t l);
/* Quiet link l has one more user, or one that is faster than it promised: it promises anew, or is no longer quiet. */
void bottleneck_promise(struct bottleneck *b, uint32_t l, double level);
/* Link l is about to go to that level, above its bound. */
void bottleneck_look_ahead(struct bottleneck *b, uint32_t l, double level);
/* A look at all links, now and then: what they carry is added up without the rounding of what came and went, and those
 * that are far from full become quiet. */
void bottleneck_look_around(struct bottleneck *b);

#endif
