/* Memory of every rank over the step, from the reserves and releases of the operations and the times of their
 * activities. What all ranks hold alike is one running sum; what differs (resident shards, owned gradients, the workspace
 * of a rank's own items) is added rank by rank at the few instants where it changes.
 * O(events log events + (classes + ranks that root segments) x rank-dependent events). */
#include "sim/run.h"

#include "core/num.h"

#include <stdlib.h>
#include <string.h>

struct change {
    int64_t t_ps;
    uint32_t seq;
    uint32_t buffer;
    uint32_t unit;
    uint32_t task;
    uint32_t class_id; /* PROGRAM_NONE: all ranks */
    uint64_t bytes;    /* SIZE_SEGMENTS: 0, by rank */
    bool release;
};

static int by_time(const void *x, const void *y)
{
    const struct change *a = x, *b = y;

    if (a->t_ps != b->t_ps)
        return a->t_ps < b->t_ps ? -1 : 1;
    if (a->release != b->release)
        return a->release ? -1 : 1;
    return a->seq < b->seq ? -1 : a->seq > b->seq;
}

struct changes {
    struct change *list; /* owned */
    size_t n, cap;
};

static uint64_t size_of(const struct buffer *b, uint32_t unit, uint32_t item)
{
    switch (b->rule) {
    case SIZE_CONST:
        return b->bytes;
    case SIZE_BY_UNIT:
        return b->unit_bytes[unit];
    case SIZE_BY_ITEM:
        return b->item_bytes[item];
    case SIZE_BY_RANK:
    case SIZE_SEGMENTS:
        break;
    }
    return 0;
}

static void collect(const struct run *r, struct changes *c)
{
    const struct program *p = r->p;

    for (uint32_t i = 0; i < r->n_tasks; i++) {
        const struct task *t = &r->tasks[i];
        const struct op *o = &p->ops[t->id.op];

        if (t->joint)
            continue;
        for (uint32_t k = 0; k < o->n_lives; k++) {
            const struct life *l = &o->lives[k];
            const struct buffer *b = &p->buffers[l->buffer];
            struct buffer_at at;

            if (!buffer_instance(p, l->buffer, &t->id, l->d_unit, &at))
                continue;
            c->list = mem_grow(c->list, &c->cap, c->n + 1, sizeof(*c->list));
            c->list[c->n] = (struct change){
                .t_ps = l->release ? fluid_end_ps(r->f, i) : fluid_ready_ps(r->f, i),
                .seq = (uint32_t)c->n,
                .buffer = l->buffer,
                .unit = at.unit,
                .task = i,
                .class_id = t->class_id,
                .bytes = l->bytes ? l->bytes : size_of(b, at.unit, t->id.item),
                .release = l->release,
            };
            c->n++;
        }
    }
    if (c->n)
        qsort(c->list, c->n, sizeof(*c->list), by_time);
}

/* Does a change concern only some ranks? */
static bool some_ranks(const struct run *r, const struct change *c)
{
    return c->class_id != PROGRAM_NONE || r->p->buffers[c->buffer].rule == SIZE_SEGMENTS;
}

/* What each rank roots, by segment table: a unit of experts has hundreds of segments, and a rank few of them. */
struct rooted {
    uint32_t *start; /* owned [roots + 1] into of; NULL: no buffer needs this table */
    struct rooted_of {
        uint32_t unit;
        uint64_t elements;
    } * of; /* owned, by root, then by unit */
};

static struct rooted rooted_by_root(const struct program *p, const struct segment_table *t)
{
    uint32_t roots = p->groups[t->group].n_members;
    uint32_t n = t->start[t->n_units], *at = MEM_NEW(uint32_t, roots);
    struct rooted x = {MEM_NEW(uint32_t, roots + 1), MEM_NEW(struct rooted_of, n)};

    for (uint32_t i = 0; i < n; i++)
        x.start[t->segments[i].root + 1]++;
    for (uint32_t r = 0; r < roots; r++) {
        x.start[r + 1] += x.start[r];
        at[r] = x.start[r];
    }
    for (uint32_t u = 0; u < t->n_units; u++)
        for (uint32_t i = t->start[u]; i < t->start[u + 1]; i++)
            x.of[at[t->segments[i].root]++] = (struct rooted_of){u, t->segments[i].elements};
    mem_free(at);
    return x;
}

static struct rooted *rooted_tables(const struct program *p)
{
    struct rooted *x = MEM_NEW(struct rooted, p->n_segment_tables + 1);

    for (uint32_t i = 0; i < p->n_buffers; i++)
        if (p->buffers[i].rule == SIZE_SEGMENTS && !x[p->buffers[i].table].start)
            x[p->buffers[i].table] = rooted_by_root(p, &p->segment_tables[p->buffers[i].table]);
    return x;
}

static void rooted_release(struct rooted *x, const struct program *p)
{
    for (uint32_t i = 0; i < p->n_segment_tables; i++) {
        mem_free(x[i].start);
        mem_free(x[i].of);
    }
    mem_free(x);
}

static bool roots_any(const struct rooted *x, const struct program *p, uint32_t rank)
{
    for (uint32_t i = 0; i < p->n_segment_tables; i++) {
        uint32_t root = x[i].start ? program_root(p, &p->segment_tables[i], rank) : 0;

        if (x[i].start && x[i].start[root] < x[i].start[root + 1])
            return true;
    }
    return false;
}

/* By binary search: a root's entries stand in the order of units. */
static uint64_t segment_elements(const struct rooted *x, uint32_t unit, uint32_t root)
{
    uint32_t first = x->start[root], end = x->start[root + 1];
    uint64_t sum = 0;

    while (first < end) {
        uint32_t middle = first + (end - first) / 2;

        if (x->of[middle].unit < unit)
            first = middle + 1;
        else
            end = middle;
    }
    for (; first < x->start[root + 1] && x->of[first].unit == unit; first++)
        sum += x->of[first].elements;
    return sum;
}

/* Bytes of a change on one rank. */
static uint64_t change_on(const struct run *r, const struct rooted *x, const struct change *c,
                          uint32_t rank)
{
    const struct buffer *b = &r->p->buffers[c->buffer];

    if (c->class_id != PROGRAM_NONE && r->class_of[rank] != c->class_id)
        return 0;
    return b->rule == SIZE_SEGMENTS
               ? dtype_bytes(
                     b->dtype,
                     segment_elements(&x[b->table], c->unit,
                                      program_root(r->p, &r->p->segment_tables[b->table], rank)))
               : c->bytes;
}

static uint64_t resident(const struct program *p, uint32_t rank)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < p->n_buffers; i++)
        if (p->buffers[i].span == SPAN_RESIDENT)
            sum += rank_table_get(&p->buffers[i].ranks, rank);
    return sum;
}

/* A stretch of the step in which only what all ranks share changes. */
struct stretch {
    size_t end;   /* index of the change that ends it */
    int64_t most; /* of the shared running sum */
    size_t most_at;
};

static struct stretch *stretches(const struct run *r, const struct changes *c, size_t *n_out)
{
    struct stretch *s = NULL;
    size_t n = 0, cap = 0;
    int64_t sum = 0;

    s = mem_grow(s, &cap, 1, sizeof(*s));
    s[0] = (struct stretch){.most = 0, .most_at = c->n};
    for (size_t i = 0; i < c->n; i++) {
        if (some_ranks(r, &c->list[i])) {
            s[n++].end = i;
            s = mem_grow(s, &cap, n + 1, sizeof(*s));
            s[n] = (struct stretch){.most = sum, .most_at = i};
            continue;
        }
        sum += c->list[i].release ? -(int64_t)c->list[i].bytes : (int64_t)c->list[i].bytes;
        if (sum > s[n].most) {
            s[n].most = sum;
            s[n].most_at = i;
        }
    }
    s[n].end = c->n;
    *n_out = n + 1;
    return s;
}

/* Above what the rank holds all the time. */
static int64_t peak_of(const struct run *r, const struct rooted *x, const struct changes *c,
                       const struct stretch *s, size_t n, uint32_t rank, size_t *at)
{
    int64_t own = 0, peak = INT64_MIN;

    for (size_t k = 0; k < n; k++) {
        if (own + s[k].most > peak) {
            peak = own + s[k].most;
            *at = s[k].most_at;
        }
        if (s[k].end < c->n) {
            int64_t d = (int64_t)change_on(r, x, &c->list[s[k].end], rank);

            own += c->list[s[k].end].release ? -d : d;
        }
    }
    return peak;
}

static void parts_at(const struct run *r, const struct rooted *x, const struct changes *c,
                     uint32_t rank, size_t at, uint64_t *parts)
{
    const struct program *p = r->p;

    memset(parts, 0, MEM_PART_N * sizeof(*parts));
    for (uint32_t i = 0; i < p->n_buffers; i++)
        if (p->buffers[i].span == SPAN_RESIDENT)
            parts[p->buffers[i].part] += rank_table_get(&p->buffers[i].ranks, rank);
    for (size_t i = 0; i <= at && i < c->n; i++) {
        uint64_t d = change_on(r, x, &c->list[i], rank);

        if (c->list[i].release)
            parts[p->buffers[c->list[i].buffer].part] -= d;
        else
            parts[p->buffers[c->list[i].buffer].part] += d;
    }
}

/* The peak of a class's ranks that root nothing: they change alike. */
struct plain {
    bool known;
    int64_t peak;
    size_t at;
};

void run_memory(const struct run *r, struct sim_memory *m)
{
    struct rooted *x = rooted_tables(r->p);
    struct plain *plain = MEM_NEW(struct plain, r->n_classes);
    const struct device *d = &r->c->device;
    struct changes c = {0};
    struct stretch *s;
    size_t n, at = 0, best_at = 0;
    int64_t most = -1, least = INT64_MAX;

    collect(r, &c);
    s = stretches(r, &c, &n);
    memset(m, 0, sizeof(*m));
    for (uint32_t rank = 0; rank < r->p->distinct; rank++) { /* replicas hold the same */
        struct plain *same = &plain[r->class_of[rank]];
        int64_t peak;

        if (roots_any(x, r->p, rank)) {
            peak = peak_of(r, x, &c, s, n, rank, &at);
        } else {
            if (!same->known) {
                same->peak = peak_of(r, x, &c, s, n, rank, &same->at);
                same->known = true;
            }
            peak = same->peak;
            at = same->at;
        }
        peak += (int64_t)resident(r->p, rank);

        if (peak > most) {
            most = peak;
            m->rank = rank;
            best_at = at;
        }
        if (peak < least)
            least = peak;
    }
    BUG_ON(most < 0 || least < 0);
    m->peak_bytes = (uint64_t)most;
    m->min_peak_bytes = (uint64_t)least;
    parts_at(r, x, &c, m->rank, best_at, m->parts);
    m->parts[MEM_CONTEXT] = d->context_bytes;
    if (best_at < c.n) {
        m->at = r->tasks[c.list[best_at].task].id;
        m->at_ps = c.list[best_at].t_ps;
    }
    m->driver_bytes = d->context_bytes + (uint64_t)((double)most * (1 + d->fragmentation));
    m->driver_min_bytes = d->context_bytes + (uint64_t)((double)least * (1 + d->fragmentation));
    rooted_release(x, r->p);
    mem_free(plain);
    mem_free(s);
    mem_free(c.list);
}
