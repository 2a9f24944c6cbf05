#include "sim/bottleneck.h"

#include "core/err.h"
#include "core/mem.h"
#include "sim/bottleneck_inner.h"

enum {
    ENOUGH = 10000
}; /* times that a link is settled in one solve, on average: it would not end. 1 to 2 are usual */
static const double NOISE = 1e-15; /* relative: a level that moves no more has not changed */
static const double LOST = 2e-15;  /* of a capacity: see struct bottleneck */

struct bottleneck *bottleneck_new(uint32_t n_links, uint32_t max_path)
{
    struct bottleneck *b = MEM_NEW(struct bottleneck, 1);
    uint32_t i;

    b->n_links = n_links;
    b->max_path = max_path;
    b->links = MEM_NEW(struct link, n_links);
    b->carried = MEM_NEW(struct carried, n_links);
    b->level = MEM_NEW(double, (size_t)n_links + 1);
    b->kept = MEM_NEW(uint8_t, n_links);
    b->state = MEM_NEW(uint8_t, n_links);
    b->marked = MEM_NEW(uint32_t, n_links);
    b->noted = MEM_NEW(uint32_t, n_links);
    for (i = 0; i < n_links; i++)
        b->links[i].bound = INFINITY;
    b->queue = MEM_NEW(struct waiting, (size_t)n_links + 1);
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
        mem_free(b->links[i].from.at);
        mem_free(b->links[i].to.at);
    }
    mem_free(b->links);
    mem_free(b->carried);
    mem_free(b->level);
    mem_free(b->kept);
    mem_free(b->state);
    mem_free(b->flows);
    mem_free(b->hops);
    mem_free(b->free_slots);
    mem_free(b->fresh);
    mem_free(b->marked);
    mem_free(b->noted);
    mem_free(b->ended);
    mem_free(b->queue);
    keyheap_release(&b->ends);
    mem_free(b);
}

void bottleneck_capacity(struct bottleneck *b, uint32_t link, double capacity)
{
    BUG_ON(link >= b->n_links || b->links[link].n_users);
    b->links[link].capacity = capacity;
    b->carried[link].limit = capacity * (1 + SAME);
}

/* Link l has lost flows that it held: it has more for the others, or holds no one. */
static void lost(struct bottleneck *b, uint32_t l)
{
    struct link *k = &b->links[l];

    if (k->n_held) {
        mark(b, l);
        return;
    }
    k->bound = INFINITY;
    b->level[l] = 0;
    b->carried[l].limit = k->capacity * (1 + SAME);
}

/* Flows come and go. */

uint32_t bottleneck_start(struct bottleneck *b, uint32_t id, const uint32_t *links, uint32_t n,
                          double work, double weight)
{
    uint32_t slot, i;
    struct link *k;
    struct hop *p;

    BUG_ON(n == 0 || n > b->max_path);
    if (weight != 1)
        b->lost = LOST;
    if (b->n_free) {
        slot = b->free_slots[--b->n_free];
    } else {
        slot = b->n_slots++;
        b->flows = mem_grow(b->flows, &b->flows_cap, b->n_slots, sizeof(*b->flows));
        b->hops = mem_grow(b->hops, &b->hops_cap, (size_t)b->n_slots * (b->max_path + 1),
                           sizeof(*b->hops));
    }
    b->flows[slot] =
        (struct flow){.id = id, .holder = b->n_links, .weight = weight, .work = work / weight};
    p = path_of(b, slot);
    p[n].link = b->n_links;
    for (i = 0; i < n; i++) {
        k = &b->links[links[i]];
        if (k->n_users == k->users_cap)
            k->users = mem_grow(k->users, &k->users_cap, (size_t)k->n_users + 1, sizeof(*k->users));
        p[i] = (struct hop){.link = links[i], .at = k->n_users};
        k->users[k->n_users++] =
            (struct user){.slot = slot, .holder = b->n_links, .weight = weight};
        k->n_fresh++;
        sum_add(&k->all, weight);
        sum_add(&k->own, weight);
        if (sum_of(&k->all) * k->promise > k->capacity)
            bottleneck_promise(b, links[i], 0);
    }
    b->n_uses += n;
    b->fresh = mem_grow(b->fresh, &b->fresh_cap, (size_t)b->n_fresh + 1, sizeof(*b->fresh));
    b->fresh[b->n_fresh++] = slot;
    return slot;
}

/* The user at a place of link l is gone; the last one comes there. */
static void drop_user(struct bottleneck *b, uint32_t l, uint32_t at)
{
    struct link *k = &b->links[l];
    struct user last = k->users[k->n_users - 1];
    struct hop *p;

    sum_add(&k->all, -k->users[at].weight);
    if (!--k->n_users)
        k->all = k->own = (struct sum){0};
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
    double weight = b->flows[slot].weight;

    for (p = path_of(b, slot); p->link != b->n_links; p++) {
        drop_user(b, p->link, p->at);
        b->n_uses--;
        if (p->link == h)
            continue;
        count(b, h, p->link, -1, weight);
        b->carried[p->link].other =
            b->links[p->link].n_users ? b->carried[p->link].other - level * weight : 0;
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
    bottleneck_unhold(b, h, b->flows[slot].at_held);
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

uint32_t bottleneck_next(const struct bottleneck *b)
{
    return b->ends.len ? b->flows[b->links[b->ends.items[0].id].held[0].slot].id : UINT32_MAX;
}

uint32_t bottleneck_take_ends(struct bottleneck *b, const uint32_t **ids)
{
    uint32_t n = 0, first, l, i;

    while (b->ends.len && b->ends.items[0].key <= b->now_ps) {
        l = b->ends.items[0].id;
        keyheap_remove(&b->ends, l);
        note(b, l); /* also where rounding finds, from a clock read since, that nothing ends yet */
        for (first = n; b->links[l].n_held && bottleneck_end_ps(b, l) <= b->now_ps; n++) {
            b->ended = mem_grow(b->ended, &b->ended_cap, (size_t)n + 1, sizeof(*b->ended));
            b->ended[n] = b->links[l].held[0].slot;
            bottleneck_unhold(b, l, 0);
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

/* Levels of links whose own users have that weight in all are no surer than this: what is lost in the sum of what others
 * take, which may be far more, is spread over these few. */
static double unsure(const struct bottleneck *b, const struct link *k, double weight)
{
    return b->lost * k->capacity / weight;
}

/* From where on another level is above, by more than rounding. */
static double just_above(const struct bottleneck *b, const struct link *k, double level,
                         double weight)
{
    return level + fmax(level * SAME, 4 * unsure(b, k, weight));
}

/* The level of a link with users that are faster than the n that it holds so far would be: those above *above share
 * too, *n in the end. Each pass takes those above the level of the pass before; they drop out from pass to pass, so the level rises
 * (less is rounding) and ends at a fixed point. The link's own level reads 0 meanwhile. */
static double share(const struct bottleneck *b, uint32_t l, uint32_t *n, double level,
                    double *above)
{
    const struct link *k = &b->links[l];
    uint32_t n_before = UINT32_MAX, n_sharing, i;
    double left, weight, x, w;

    *above = *n && level > 0 ? just_above(b, k, level, sum_of(&k->own)) : 0;
    for (;;) {
        left = k->capacity;
        n_sharing = *n;
        weight = *n ? sum_of(&k->own) : 0;
        for (i = 0; (b->kept[l] & FROM) && i < k->from.n; i++) {
            x = b->level[k->from.at[i].link];
            w = sum_of(&k->from.at[i].weight);
            n_sharing += x > *above ? (uint32_t)k->from.at[i].n : 0;
            weight += x > *above ? w : 0;
            left -= x > *above ? 0 : x * w;
        }
        for (i = 0; !(b->kept[l] & FROM) && i < k->n_users; i++) {
            x = b->level[k->users[i].holder];
            w = k->users[i].weight;
            n_sharing += x > *above;
            weight += x > *above ? w : 0;
            left -= x > *above ? 0 : x * w;
        }
        if (n_sharing == n_before)
            break;
        level = n_before == UINT32_MAX ? left / weight : fmax(level, left / weight);
        n_before = n_sharing;
        *above = just_above(b, k, level, weight);
    }
    *n = n_sharing;
    return level;
}

/* The flow comes to link l, which has `level` and whose clock shows now. */
static void move(struct bottleneck *b, uint32_t l, uint32_t slot, double level)
{
    struct link *k, *to = &b->links[l];
    const struct hop *p;
    uint32_t h = b->flows[slot].holder;
    double left = b->flows[slot].work, old = b->level[h], weight = b->flows[slot].weight;
    bool fresh = h == b->n_links;

    if (!fresh) {
        tick(b, h);
        left = b->links[h].held[b->flows[slot].at_held].end - b->links[h].clock;
        bottleneck_unhold(b, h, b->flows[slot].at_held);
        lost(b, h);
    }
    for (p = path_of(b, slot); p->link != b->n_links; p++) {
        k = &b->links[p->link];
        k->users[p->at].holder = l;
        k->n_fresh -= fresh;
        if (fresh)
            sum_add(&k->own, -weight);
        else if (p->link != h)
            count(b, h, p->link, -1, weight);
        if (p->link == l) {
            b->carried[l].other -= old * weight;
            continue;
        }
        count(b, l, p->link, 1, weight);
        if (p->link == h)
            b->carried[h].other += level * weight;
        else
            carry(b, p->link, (level - old) * weight);
        if (k->promise > 0 && level > k->promise)
            bottleneck_promise(b, p->link, level);
        if (k->promise > 0 && k->promise < to->bound)
            to->bound = k->promise;
    }
    bottleneck_hold(b, l, slot, left > 0 ? left : 0);
    b->carried[l].limit = -INFINITY;
}

static double others(struct bottleneck *b, uint32_t l, double *top)
{
    struct link *k = &b->links[l];

    if (k->n_users >= MANY_USERS)
        return bottleneck_others(b, l, top);
    b->kept[l] &= (uint8_t)~FROM;
    return add_up(b, l, top);
}

/* Link l goes to another level: what it holds takes more, or less, of the other links. */
static void shift(struct bottleneck *b, uint32_t l, double more)
{
    struct link *k = &b->links[l];
    const struct hop *p;

    note(b, l);
    if (k->n_held >= MANY_HELD) {
        bottleneck_shift(b, l, more);
        return;
    }
    b->kept[l] &= (uint8_t)~TO;
    b->n_carried += k->n_held;
    for (uint32_t i = 0; i < k->n_held; i++)
        for (p = path_of(b, k->held[i].slot); p->link != b->n_links; p++)
            if (p->link != l)
                carry(b, p->link, more * b->flows[k->held[i].slot].weight);
}

static void settle(struct bottleneck *b, uint32_t l)
{
    struct link *k = &b->links[l];
    double old = b->level[l], above = INFINITY, top, level, weight;
    uint32_t n = k->n_held + k->n_fresh, n_moving, i;

    if (k->promise > 0)
        bottleneck_wake(b, l);
    b->carried[l].other = others(b, l, &top);
    b->level[l] = 0;
    weight = sum_of(&k->own);
    level = n ? (k->capacity - b->carried[l].other) / weight : 0;
    if (n ? top > just_above(b, k, level, weight) : b->carried[l].other > k->capacity * (1 + SAME))
        level = share(b, l, &n, level, &above);
    b->level[l] = old;
    n_moving = n - k->n_held;
    if (!n)
        return;
    BUG_ON(!(level > 0));
    if (k->n_held && fabs(level - old) <= fmax(NOISE * old, unsure(b, k, weight)))
        level = old;
    if (level == old && !n_moving)
        return;
    if (level > k->bound)
        bottleneck_look_ahead(b, l, level);
    tick(b, l);
    b->level[l] = level;
    if (k->n_held && level != old)
        shift(b, l, level - old);
    for (i = 0; n_moving && i < k->n_users; i++) {
        if (k->users[i].holder == l ||
            (k->users[i].holder != b->n_links && !(b->level[k->users[i].holder] > above)))
            continue;
        move(b, l, k->users[i].slot, level);
        n_moving--;
    }
}

/* About where the link will settle. */
static double estimate(const struct bottleneck *b, uint32_t l)
{
    const struct link *k = &b->links[l];
    double left = k->capacity - b->carried[l].other;
    uint32_t n = k->n_held + k->n_fresh;

    if (!k->n_users)
        return 0;
    return n && left > 0 && !(k->promise > 0) ? left / sum_of(&k->own)
                                              : k->capacity / sum_of(&k->all);
}

/* A fresh flow is settled by the link that offers least, if all were to share by weight: mostly its bottleneck. */
static void mark_least(struct bottleneck *b, uint32_t slot)
{
    const struct hop *p = path_of(b, slot);
    double least = INFINITY, fair;
    uint32_t best = p->link;

    for (; p->link != b->n_links; p++) {
        fair = b->links[p->link].capacity / sum_of(&b->links[p->link].all);
        if (fair < least) {
            least = fair;
            best = p->link;
        }
    }
    mark(b, best);
}

/* Ends of links that were touched: one by one, or where they are many, all at once. */
static void set_ends(struct bottleneck *b)
{
    bool many = b->n_noted > b->ends.len / 4;
    int64_t end_ps;
    uint32_t i, l;

    for (i = 0; i < b->n_noted; i++)
        if (!b->links[b->noted[i]].n_held)
            keyheap_remove(&b->ends, b->noted[i]);
    for (i = 0; i < b->n_noted; i++) {
        l = b->noted[i];
        b->links[l].noted = false;
        if (!b->links[l].n_held)
            continue;
        end_ps = bottleneck_end_ps(b, l);
        if (many)
            keyheap_put(&b->ends, l, end_ps);
        else
            keyheap_set(&b->ends, l, end_ps);
    }
    if (many)
        keyheap_order(&b->ends);
    b->n_noted = 0;
}

static void queue_push(struct bottleneck *b, uint32_t l)
{
    struct waiting w = {.level = estimate(b, l), .link = l};
    uint32_t at = ++b->n_queued;

    for (; at > 1 && w.level < b->queue[at / 2].level; at /= 2)
        b->queue[at] = b->queue[at / 2];
    b->queue[at] = w;
    b->state[l] = QUEUED;
}

static uint32_t queue_pop(struct bottleneck *b)
{
    uint32_t first = b->queue[1].link, at = 1, c;
    struct waiting last = b->queue[b->n_queued--];

    while ((c = 2 * at) <= b->n_queued) {
        c += c < b->n_queued && b->queue[c + 1].level < b->queue[c].level;
        if (!(b->queue[c].level < last.level))
            break;
        b->queue[at] = b->queue[c];
        at = c;
    }
    b->queue[at] = last;
    return first;
}

/* The next link to settle. */
static uint32_t next_link(struct bottleneck *b)
{
    uint32_t l = b->marked[0];

    if (b->n_marked != 1 || b->n_queued) {
        for (uint32_t i = 0; i < b->n_marked; i++)
            queue_push(b, b->marked[i]);
        l = queue_pop(b);
    }
    b->n_marked = 0;
    b->state[l] = CLEAN;
    return l;
}

void bottleneck_solve(struct bottleneck *b)
{
    uint64_t n_left = ENOUGH * (uint64_t)b->n_links;

    for (uint32_t i = 0; i < b->n_fresh; i++)
        mark_least(b, b->fresh[i]);
    b->n_fresh = 0;
    while (b->n_marked || b->n_queued) {
        BUG_ON(n_left-- == 0);
        settle(b, next_link(b));
    }
    bottleneck_look_around(b);
    set_ends(b);
}

double bottleneck_rate(const struct bottleneck *b, uint32_t slot)
{
    return b->level[b->flows[slot].holder] * b->flows[slot].weight;
}
