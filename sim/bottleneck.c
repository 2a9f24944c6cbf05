#include "sim/bottleneck.h"

#include "core/mem.h"
#include "sim/keyheap.h"

#include <math.h>
#include <stdbool.h>

static const double SAME = 1e-12;  /* relative: levels, and sums, that differ by rounding at most */
static const double NOISE = 1e-15; /* relative: a level that moves no more has not changed */
static const double DONE_REL = 1e-12;  /* of its work: done */
static const double ROUND_REL = 1e-15; /* of a duration, and */
static const double ROUND_PS = 1e-6;   /* ps, and */
static const double ROUND_CLOCK =
    4.5e-16;                     /* of the holder's clock: forgiven before an end is rounded up */
enum { ADD_UP_AFTER = 1 << 12 }; /* solves: what links carry is added up anew */
enum {
    REBASE_AFTER = 64
}; /* flows that came to a link, and four times what it holds: its clock goes back to 0 */

struct user {
    uint32_t slot, holder;
};

struct held { /* heap order */
    double end;
    uint32_t slot;
    float slack; /* units: with no more left it is done */
};

enum state { CLEAN, MARKED, QUEUED };

struct link {
    double capacity;
    double clock; /* units that a flow held since it was 0 has moved, at since_ps */
    int64_t since_ps;
    struct user *users; /* owned */
    struct held *held;  /* owned */
    uint32_t n_users, n_held, n_fresh;
    uint32_t n_joined; /* since the clock was 0 */
    size_t users_cap, held_cap;
    bool noted; /* in the list of those whose next end is to be found */
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
    double work;
};

struct bottleneck {
    uint32_t n_links, max_path;
    struct link *links;      /* owned, as all below, [n_links] */
    struct carried *carried; /* [n_links] */
    double
        *level; /* [n_links + 1] INFINITY: holds no one; the last is the holder of fresh flows: 0 */
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
    struct keyheap queue; /* links to settle, by about their level */
    uint32_t *noted;      /* [n_links] */
    uint32_t n_noted;
    struct keyheap ends; /* links by the time of their next end */
    uint32_t *ended;     /* slots, then ids */
    size_t ended_cap;
    int64_t now_ps;
    uint32_t n_solves; /* since it was added up what links carry */
};

struct bottleneck *bottleneck_new(uint32_t n_links, uint32_t max_path)
{
    struct bottleneck *b = MEM_NEW(struct bottleneck, 1);
    uint32_t i;

    b->n_links = n_links;
    b->max_path = max_path;
    b->links = MEM_NEW(struct link, n_links);
    b->carried = MEM_NEW(struct carried, n_links);
    b->level = MEM_NEW(double, (size_t)n_links + 1);
    b->state = MEM_NEW(uint8_t, n_links);
    b->marked = MEM_NEW(uint32_t, n_links);
    b->noted = MEM_NEW(uint32_t, n_links);
    for (i = 0; i < n_links; i++)
        b->level[i] = INFINITY;
    keyheap_init(&b->queue);
    keyheap_init(&b->ends);
    return b;
}

void bottleneck_free(struct bottleneck *b)
{
    uint32_t i;

    if (!b)
        return;
    for (i = 0; i < b->n_links; i++) {
        mem_free(b->links[i].users);
        mem_free(b->links[i].held);
    }
    mem_free(b->links);
    mem_free(b->carried);
    mem_free(b->level);
    mem_free(b->state);
    mem_free(b->flows);
    mem_free(b->hops);
    mem_free(b->free_slots);
    mem_free(b->fresh);
    mem_free(b->marked);
    mem_free(b->noted);
    mem_free(b->ended);
    keyheap_release(&b->queue);
    keyheap_release(&b->ends);
    mem_free(b);
}

void bottleneck_capacity(struct bottleneck *b, uint32_t link, double capacity)
{
    BUG_ON(link >= b->n_links || b->links[link].n_users);
    b->links[link].capacity = capacity;
    b->carried[link].limit = capacity * (1 + SAME);
}

/* Lists of links. */

static void mark(struct bottleneck *b, uint32_t l)
{
    if (b->state[l] != CLEAN)
        return;
    b->state[l] = MARKED;
    b->marked[b->n_marked++] = l;
}

static void note(struct bottleneck *b, uint32_t l)
{
    if (b->links[l].noted)
        return;
    b->links[l].noted = true;
    b->noted[b->n_noted++] = l;
}

static void carry(struct bottleneck *b, uint32_t l, double more)
{
    b->carried[l].other += more;
    if (b->carried[l].other > b->carried[l].limit)
        mark(b, l);
}

/* Virtual time: the flows that a link holds, by the clock at their end. */

static void tick(struct bottleneck *b, uint32_t l)
{
    struct link *k = &b->links[l];

    if (k->n_held)
        k->clock += b->level[l] * (double)(b->now_ps - k->since_ps);
    k->since_ps = b->now_ps;
}

static void held_place(struct bottleneck *b, struct link *k, uint32_t at, struct held it)
{
    k->held[at] = it;
    b->flows[it.slot].at_held = at;
}

static inline struct hop *path_of(const struct bottleneck *b, uint32_t slot)
{
    return &b->hops[(size_t)slot * (b->max_path + 1)];
}

static void held_sift(struct bottleneck *b, struct link *k, uint32_t at, struct held it)
{
    uint32_t c;

    for (; at > 0 && it.end < k->held[(at - 1) / 2].end; at = (at - 1) / 2)
        held_place(b, k, at, k->held[(at - 1) / 2]);
    while ((c = 2 * at + 1) < k->n_held) {
        c += c + 1 < k->n_held && k->held[c + 1].end < k->held[c].end;
        if (!(k->held[c].end < it.end))
            break;
        held_place(b, k, at, k->held[c]);
        at = c;
    }
    held_place(b, k, at, it);
}

/* The clock goes back to 0 now and then, lest it outgrow the digits of what is left of a flow. */
static void rebase(struct link *k)
{
    for (uint32_t i = 0; i < k->n_held; i++)
        k->held[i].end -= k->clock; /* rounding keeps the order */
    k->clock = 0;
    k->n_joined = 0;
}

/* Link l, whose clock shows now, holds the flow from now on. */
static void join(struct bottleneck *b, uint32_t l, uint32_t slot, double left)
{
    struct link *k = &b->links[l];

    if (++k->n_joined > REBASE_AFTER + 4 * k->n_held)
        rebase(k);
    k->held = mem_grow(k->held, &k->held_cap, (size_t)k->n_held + 1, sizeof(*k->held));
    k->n_held++;
    held_sift(b, k, k->n_held - 1,
              (struct held){.end = k->clock + left,
                            .slot = slot,
                            .slack = (float)(DONE_REL * b->flows[slot].work)});
    b->flows[slot].holder = l;
    b->carried[l].limit = -INFINITY;
    note(b, l);
}

static void unhold(struct bottleneck *b, uint32_t l, uint32_t at)
{
    struct link *k = &b->links[l];
    struct held last = k->held[--k->n_held];

    if (at < k->n_held)
        held_sift(b, k, at, last);
    note(b, l);
}

/* Link l has lost flows that it held: it has more for the others, or holds no one. */
static void lost(struct bottleneck *b, uint32_t l)
{
    struct link *k = &b->links[l];

    if (k->n_held) {
        mark(b, l);
        return;
    }
    k->clock = 0;
    k->n_joined = 0;
    b->level[l] = INFINITY;
    b->carried[l].limit = k->capacity * (1 + SAME);
}

/* Flows come and go. */

uint32_t bottleneck_start(struct bottleneck *b, uint32_t id, const uint32_t *links, uint32_t n,
                          double work)
{
    uint32_t slot, i;
    struct link *k;
    struct hop *p;

    BUG_ON(n == 0 || n > b->max_path);
    if (b->n_free) {
        slot = b->free_slots[--b->n_free];
    } else {
        slot = b->n_slots++;
        b->flows = mem_grow(b->flows, &b->flows_cap, b->n_slots, sizeof(*b->flows));
        b->hops = mem_grow(b->hops, &b->hops_cap, (size_t)b->n_slots * (b->max_path + 1),
                           sizeof(*b->hops));
    }
    b->flows[slot] = (struct flow){.id = id, .holder = b->n_links, .work = work};
    p = path_of(b, slot);
    p[n].link = b->n_links;
    for (i = 0; i < n; i++) {
        k = &b->links[links[i]];
        k->users = mem_grow(k->users, &k->users_cap, (size_t)k->n_users + 1, sizeof(*k->users));
        p[i] = (struct hop){.link = links[i], .at = k->n_users};
        k->users[k->n_users++] = (struct user){.slot = slot, .holder = b->n_links};
        k->n_fresh++;
    }
    b->fresh = mem_grow(b->fresh, &b->fresh_cap, (size_t)b->n_fresh + 1, sizeof(*b->fresh));
    b->fresh[b->n_fresh++] = slot;
    return slot;
}

/* The user at a place of link l is gone; the last one comes there. */
static void drop_user(struct bottleneck *b, uint32_t l, uint32_t at)
{
    struct link *k = &b->links[l];
    struct user last = k->users[--k->n_users];
    struct hop *p;

    if (at == k->n_users)
        return;
    k->users[at] = last;
    for (p = path_of(b, last.slot); p->link != l; p++)
        ;
    p->at = at;
}

/* The flow, which link h held at `level` until now, is gone from its links. */
static void leave(struct bottleneck *b, uint32_t slot, uint32_t h, double level)
{
    const struct hop *p;

    for (p = path_of(b, slot); p->link != b->n_links; p++) {
        drop_user(b, p->link, p->at);
        if (p->link == h)
            continue;
        b->carried[p->link].other =
            b->links[p->link].n_users ? b->carried[p->link].other - level : 0;
        if (b->links[p->link].n_held)
            mark(b, p->link);
    }
    b->free_slots =
        mem_grow(b->free_slots, &b->free_cap, (size_t)b->n_free + 1, sizeof(*b->free_slots));
    b->free_slots[b->n_free++] = slot;
}

void bottleneck_stop(struct bottleneck *b, uint32_t slot)
{
    uint32_t h = b->flows[slot].holder;

    BUG_ON(h == b->n_links);
    tick(b, h);
    unhold(b, h, b->flows[slot].at_held);
    leave(b, slot, h, b->level[h]);
    lost(b, h);
}

void bottleneck_advance(struct bottleneck *b, int64_t now_ps)
{
    BUG_ON(now_ps < b->now_ps);
    b->now_ps = now_ps;
}

int64_t bottleneck_next_ps(const struct bottleneck *b)
{
    return b->ends.len ? b->ends.items[0].key : INT64_MAX;
}

/* When the first flow of link l ends, as seen when its clock was read; negative: beyond 2^63 ps. */
static int64_t next_end(const struct bottleneck *b, uint32_t l)
{
    const struct link *k = &b->links[l];
    double left = k->held[0].end - k->clock, ps;
    int64_t whole;

    if (left <= (double)k->held[0].slack)
        return k->since_ps;
    ps = (left * (1 - ROUND_REL) - ROUND_CLOCK * k->clock) / b->level[l] - ROUND_PS;
    if (ps >= (double)(INT64_MAX - k->since_ps))
        return -1;
    whole = (int64_t)ps; /* ceil() without the call */
    whole += (double)whole < ps;
    return k->since_ps + (whole > 0 ? whole : 0);
}

uint32_t bottleneck_take_ends(struct bottleneck *b, const uint32_t **ids)
{
    uint32_t n = 0, first, l, i;

    while (b->ends.len && b->ends.items[0].key <= b->now_ps) {
        l = b->ends.items[0].id;
        keyheap_remove(&b->ends, l);
        for (first = n; b->links[l].n_held && next_end(b, l) <= b->now_ps; n++) {
            b->ended = mem_grow(b->ended, &b->ended_cap, (size_t)n + 1, sizeof(*b->ended));
            b->ended[n] = b->links[l].held[0].slot;
            unhold(b, l, 0);
        }
        tick(b, l);
        for (i = first; i < n; i++) {
            leave(b, b->ended[i], l, b->level[l]);
            b->ended[i] = b->flows[b->ended[i]].id;
        }
        lost(b, l);
    }
    *ids = b->ended;
    return n;
}

/* Levels. */

/* What the users of a link take that others hold, and the fastest of them. The link's own level reads 0 meanwhile. */
static double add_up(const struct bottleneck *b, const struct link *k, double *top)
{
    double sum[2] = {0, 0}, most[2] = {0, 0}, x;
    uint32_t i;

    for (i = 0; i < k->n_users; i++) {
        x = b->level[k->users[i].holder];
        sum[i & 1] += x;
        most[i & 1] = x > most[i & 1] ? x : most[i & 1];
    }
    *top = most[0] > most[1] ? most[0] : most[1];
    return sum[0] + sum[1];
}

/* The level of a link with users that are faster than the n that it holds so far would be: those above *above share
 * too. Each pass takes those above the level of the pass before; they drop out from pass to pass, so the level rises
 * and ends at a fixed point. The link's own level reads 0 meanwhile. */
static double share(const struct bottleneck *b, const struct link *k, uint32_t n, double level,
                    double *above)
{
    uint32_t n_before = UINT32_MAX, n_sharing, i;
    double left, x;

    *above = n && level > 0 ? level * (1 + SAME) : 0;
    for (;;) {
        left = k->capacity;
        n_sharing = n;
        for (i = 0; i < k->n_users; i++) {
            x = b->level[k->users[i].holder];
            n_sharing += x > *above;
            left -= x > *above ? 0 : x;
        }
        if (n_sharing == n_before)
            return level;
        n_before = n_sharing;
        level = left / n_sharing;
        *above = level * (1 + SAME);
    }
}

/* The flow of a user comes to link l, which has `level` and whose clock shows now. */
static void move(struct bottleneck *b, uint32_t l, uint32_t slot, double level)
{
    const struct hop *p;
    uint32_t h = b->flows[slot].holder;
    double left = b->flows[slot].work, old = b->level[h];

    if (h < b->n_links) {
        tick(b, h);
        left = b->links[h].held[b->flows[slot].at_held].end - b->links[h].clock;
        unhold(b, h, b->flows[slot].at_held);
        lost(b, h);
    }
    for (p = path_of(b, slot); p->link != b->n_links; p++) {
        b->links[p->link].users[p->at].holder = l;
        b->links[p->link].n_fresh -= h == b->n_links;
        if (p->link == h)
            b->carried[h].other += level;
        else if (p->link == l)
            b->carried[l].other -= old;
        else
            carry(b, p->link, level - old);
    }
    join(b, l, slot, left > 0 ? left : 0);
}

/* Link l goes to another level: what it holds takes more, or less, of the other links. */
static void shift(struct bottleneck *b, uint32_t l, double more)
{
    const struct link *k = &b->links[l];
    const struct hop *p;
    uint32_t i;

    for (i = 0; i < k->n_held; i++)
        for (p = path_of(b, k->held[i].slot); p->link != b->n_links; p++)
            if (p->link != l)
                carry(b, p->link, more);
    note(b, l);
}

static void settle(struct bottleneck *b, uint32_t l)
{
    struct link *k = &b->links[l];
    double old = b->level[l], above = INFINITY, top, level;
    uint32_t n = k->n_held + k->n_fresh, i;
    bool moves = k->n_fresh;

    b->level[l] = 0;
    b->carried[l].other = add_up(b, k, &top);
    level = n ? (k->capacity - b->carried[l].other) / n : 0;
    if (n ? top > level * (1 + SAME) : b->carried[l].other > k->capacity * (1 + SAME)) {
        level = share(b, k, n, level, &above);
        moves = true;
    }
    b->level[l] = old;
    if (!n && !moves)
        return;
    BUG_ON(!(level > 0));
    if (k->n_held && fabs(level - old) <= NOISE * old)
        level = old;
    tick(b, l);
    b->level[l] = level;
    if (k->n_held && level != old)
        shift(b, l, level - old);
    for (i = 0; moves && i < k->n_users; i++)
        if (k->users[i].holder != l &&
            (k->users[i].holder == b->n_links || b->level[k->users[i].holder] > above))
            move(b, l, k->users[i].slot, level);
}

/* About where the link will settle. */
static double estimate(const struct bottleneck *b, uint32_t l)
{
    const struct link *k = &b->links[l];
    double left = k->capacity - b->carried[l].other;
    uint32_t n = k->n_held + k->n_fresh;

    if (!k->n_users)
        return 0;
    return n && left > 0 ? left / n : k->capacity / k->n_users;
}

/* A fresh flow is settled by the link that offers least, if all were to share evenly: mostly its bottleneck. */
static void mark_least(struct bottleneck *b, uint32_t slot)
{
    const struct hop *p = path_of(b, slot);
    double least = INFINITY, fair;
    uint32_t best = p->link;

    for (; p->link != b->n_links; p++) {
        fair = b->links[p->link].capacity / b->links[p->link].n_users;
        if (fair < least) {
            least = fair;
            best = p->link;
        }
    }
    mark(b, best);
}

static void add_up_all(struct bottleneck *b)
{
    double top, own;

    b->n_solves = 0;
    for (uint32_t l = 0; l < b->n_links; l++) {
        if (!b->links[l].n_users)
            continue;
        own = b->level[l];
        b->level[l] = 0;
        b->carried[l].other = add_up(b, &b->links[l], &top);
        b->level[l] = own;
    }
}

static int set_ends(struct bottleneck *b, struct err *e)
{
    int64_t end_ps;
    uint32_t i, l;

    for (i = 0; i < b->n_noted; i++) {
        l = b->noted[i];
        b->links[l].noted = false;
        if (!b->links[l].n_held) {
            keyheap_remove(&b->ends, l);
            continue;
        }
        end_ps = next_end(b, l);
        if (end_ps < 0)
            return err_set(e, ERR_OVERFLOW, "activity %u: ends beyond 2^63 ps",
                           b->flows[b->links[l].held[0].slot].id);
        keyheap_set(&b->ends, l, end_ps);
    }
    b->n_noted = 0;
    return 0;
}

int bottleneck_solve(struct bottleneck *b, struct err *e)
{
    uint32_t i, l;

    for (i = 0; i < b->n_fresh; i++)
        mark_least(b, b->fresh[i]);
    b->n_fresh = 0;
    while (b->n_marked || b->queue.len) {
        if (b->n_marked == 1 && !b->queue.len) {
            l = b->marked[0];
        } else {
            for (i = 0; i < b->n_marked; i++) {
                l = b->marked[i];
                b->state[l] = QUEUED;
                keyheap_set(&b->queue, l, keyheap_of_double(estimate(b, l)));
            }
            l = b->queue.items[0].id;
            keyheap_remove(&b->queue, l);
        }
        b->n_marked = 0;
        b->state[l] = CLEAN;
        settle(b, l);
    }
    if (++b->n_solves >= ADD_UP_AFTER)
        add_up_all(b);
    return set_ends(b, e);
}

double bottleneck_rate(const struct bottleneck *b, uint32_t slot)
{
    return b->level[b->flows[slot].holder];
}
