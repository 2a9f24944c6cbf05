/* What sim/bottleneck.h need not look at: users of one holder one by one, and links that are far from full.
 *
 * Where a link has many users, those of one holder are counted, and where a link holds many flows, the links that
 * these use: built when first needed, and kept up from then on.
 *
 * Quiet links. Most links of a fabric are far from full most of the time, and need not know what their users take: a
 * quiet link only promises that it stays so while no user is faster than its share of the capacity. Each holder keeps
 * the least of the promises that concern it, its bound, and looks at its flows' links when its own level gets above
 * that. A link becomes quiet, with some room, when all are looked at; it wakes when its promise breaks.
 */
#include "sim/bottleneck_inner.h"

#include "core/mem.h"

enum { LOOK_AROUND = 4 }; /* times the uses of all links: the work after which all are looked at */
static const double ROOM = 1.25; /* a link that could take so much more may become quiet */

/* Tallies. */

static void tally_add(struct tallies *t, uint32_t link, int32_t n, double weight)
{
    uint32_t i;

    for (i = 0; i < t->n && t->at[i].link != link; i++)
        ;
    if (i == t->n) {
        t->at = mem_grow(t->at, &t->cap, (size_t)t->n + 1, sizeof(*t->at));
        t->at[t->n++] = (struct tally){.link = link};
    }
    t->at[i].n += n;
    sum_add(&t->at[i].weight, n * weight);
    if (!t->at[i].n)
        t->at[i] = t->at[--t->n];
}

static void build_from(struct bottleneck *b, uint32_t l)
{
    struct link *k = &b->links[l];
    uint32_t i;

    k->from.n = 0;
    for (i = 0; i < k->n_users; i++)
        if (k->users[i].holder != l && k->users[i].holder != b->n_links)
            tally_add(&k->from, k->users[i].holder, 1, k->users[i].weight);
    b->kept[l] |= FROM;
}

static void build_to(struct bottleneck *b, uint32_t l)
{
    struct link *k = &b->links[l];
    const struct hop *p;
    uint32_t i;

    k->to.n = 0;
    for (i = 0; i < k->n_held; i++)
        for (p = path_of(b, k->held[i].slot); p->link != b->n_links; p++)
            if (p->link != l && !(b->links[p->link].promise > 0))
                tally_add(&k->to, p->link, 1, b->flows[k->held[i].slot].weight);
    b->kept[l] |= TO;
}

void bottleneck_count(struct bottleneck *b, uint32_t h, uint32_t l, int32_t n, double weight)
{
    if ((b->kept[h] & TO) && !(b->links[l].promise > 0))
        tally_add(&b->links[h].to, l, n, weight);
    if (b->kept[l] & FROM)
        tally_add(&b->links[l].from, h, n, weight);
}

double bottleneck_others(struct bottleneck *b, uint32_t l, double *top)
{
    const struct tally *t, *end;
    double sum = 0, most = 0, x;

    if (!(b->kept[l] & FROM))
        build_from(b, l);
    t = b->links[l].from.at;
    for (end = t + b->links[l].from.n; t < end; t++) {
        x = b->level[t->link];
        sum += x * sum_of(&t->weight);
        most = x > most ? x : most;
    }
    *top = most;
    return sum;
}

void bottleneck_shift(struct bottleneck *b, uint32_t l, double more)
{
    const struct tallies *t = &b->links[l].to;

    if (!(b->kept[l] & TO))
        build_to(b, l);
    b->n_carried += t->n;
    for (uint32_t i = 0; i < t->n; i++)
        carry(b, t->at[i].link, more * sum_of(&t->at[i].weight));
}

/* Quiet links. */

void bottleneck_wake(struct bottleneck *b, uint32_t l)
{
    struct link *k = &b->links[l];
    double top;
    uint32_t i;

    if (!(k->promise > 0))
        return;
    k->promise = 0;
    b->carried[l].limit = k->capacity * (1 + SAME);
    b->carried[l].other = add_up(b, l, &top);
    for (i = 0; i < k->n_users; i++)
        if (k->users[i].holder != b->n_links && (b->kept[k->users[i].holder] & TO))
            tally_add(&b->links[k->users[i].holder].to, l, 1, k->users[i].weight);
    carry(b, l, 0);
}

static void set_promise(struct bottleneck *b, uint32_t l, double promise)
{
    struct link *k = &b->links[l], *h;
    uint32_t i;

    for (i = 0; i < k->n_users && !(k->promise > 0 && promise >= k->promise); i++) {
        if (k->users[i].holder == b->n_links)
            continue;
        h = &b->links[k->users[i].holder];
        h->bound = promise < h->bound ? promise : h->bound;
        if ((b->kept[k->users[i].holder] & TO) && !(k->promise > 0))
            tally_add(&h->to, l, -1, k->users[i].weight);
    }
    k->promise = promise;
    b->carried[l].limit = INFINITY;
}

void bottleneck_promise(struct bottleneck *b, uint32_t l, double level)
{
    double fair = b->links[l].capacity / sum_of(&b->links[l].all), top;

    add_up(b, l, &top);
    if (top <= fair && level <= fair)
        set_promise(b, l, fair);
    else
        bottleneck_wake(b, l);
}

void bottleneck_look_ahead(struct bottleneck *b, uint32_t l, double level)
{
    struct link *k = &b->links[l], *q;
    const struct hop *p;
    uint32_t i;

    k->bound = INFINITY;
    for (i = 0; i < k->n_held; i++)
        for (p = path_of(b, k->held[i].slot); p->link != b->n_links; p++) {
            q = &b->links[p->link];
            if (q->promise > 0 && q->promise < level)
                bottleneck_promise(b, p->link, level);
            if (q->promise > 0 && q->promise < k->bound)
                k->bound = q->promise;
        }
}

void bottleneck_look_around(struct bottleneck *b)
{
    struct link *k;
    double top;
    uint32_t l;

    if (b->n_carried < LOOK_AROUND * (b->n_uses + b->n_links))
        return;
    b->n_carried = 0;
    for (l = 0; l < b->n_links; l++) {
        k = &b->links[l];
        if (!k->n_users || k->promise > 0)
            continue;
        b->carried[l].other = add_up(b, l, &top);
        if (k->n_held || top * sum_of(&k->all) * ROOM > k->capacity)
            continue;
        set_promise(b, l, k->capacity / sum_of(&k->all));
    }
}
