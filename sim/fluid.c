#include "sim/fluid.h"

#include "sim/bottleneck.h"
#include "sim/fold.h"
#include "sim/keyheap.h"
#include "sim/maxmin.h"
#include "sim/queue.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { NONE = UINT32_MAX };

/* What may run on sim/bottleneck.h: it has room for paths of the longest, and for all instances. */
enum { MAX_PATH = 16, MAX_LINKS = 1 << 18 };

static const double DONE_REL = 1e-12;  /* of its work: done */
static const double ROUND_REL = 1e-15; /* of a duration, and */
static const double ROUND_PS = 1e-6;   /* ps: forgiven before the end is rounded up */

struct own {
    uint32_t instance;
    double capacity;
};

struct kind {
    char *name; /* owned */
    uint32_t n;
    bool any_zero; /* some capacity was set to 0 */
    double capacity;
    struct own *own; /* owned, [n_own] capacities that differ, ascending instance */
    size_t own_cap;
    uint32_t n_own;
    uint32_t first;    /* its instance 0 among all links, when the run is of flows only */
    double used_every; /* through an instance that no `only` names */
    double *used_only; /* owned, [n], to add to it; NULL: all 0 */
};

/* 80 bytes: there may be millions. What only a running one needs is in struct progress. */
struct activity {
    int64_t latency_ps;
    double work, cap, weight;
    const struct fluid_use *uses; /* borrowed */
    int64_t ready_ps;             /* before it is ready: the latest known of what it waits for */
    int64_t end_ps;               /* -1 before */
    uint32_t n_uses;
    uint32_t n_waits;     /* predecessors that have not ended */
    uint32_t last_before; /* among those that have */
    uint32_t first_after; /* its first successor, or NONE */
    uint32_t more_after;  /* edge to the others, or NONE */
};

struct edge {
    uint32_t after, next;
};

struct progress { /* of the activity in a slot of maxmin */
    double left;  /* units, at since_ps */
    double rate;
    int64_t since_ps;
};

struct fluid {
    struct kind *kinds; /* owned, as all below */
    size_t kinds_cap;
    uint32_t n_kinds;
    struct activity *activities;
    size_t activities_cap;
    uint32_t n_activities;
    struct edge *edges;
    size_t edges_cap;
    uint32_t n_edges;
    uint32_t longest; /* path of a flow */
    double lightest, heaviest;
    bool flows_only;          /* so far */
    struct bottleneck *flows; /* while running flows only; otherwise NULL, and the next few serve */
    struct fold *fold;        /* or NULL: no list is long */
    struct maxmin *shares;
    struct progress *progress; /* [slots] */
    size_t progress_cap;
    struct queue starts; /* of work: after the latency */
    struct keyheap ends; /* slots by end_ps */
    uint32_t *batch;     /* slots that end now */
    size_t batch_cap;
    uint32_t n_ended;
    int64_t makespan_ps;
    uint64_t n_events;
    uint32_t at_fault;
    bool ran;
};

struct fluid *fluid_new(void)
{
    struct fluid *f = MEM_NEW(struct fluid, 1);

    f->flows_only = true;
    f->lightest = INFINITY;
    f->at_fault = NONE;
    f->shares = maxmin_new();
    queue_init(&f->starts);
    keyheap_init(&f->ends);
    return f;
}

void fluid_free(struct fluid *f)
{
    uint32_t i;

    if (!f)
        return;
    for (i = 0; i < f->n_kinds; i++) {
        mem_free(f->kinds[i].name);
        mem_free(f->kinds[i].used_only);
        mem_free(f->kinds[i].own);
    }
    mem_free(f->kinds);
    mem_free(f->activities);
    mem_free(f->edges);
    mem_free(f->progress);
    mem_free(f->batch);
    bottleneck_free(f->flows);
    fold_free(f->fold);
    maxmin_free(f->shares);
    queue_release(&f->starts);
    keyheap_release(&f->ends);
    mem_free(f);
}

/* Building. */

uint32_t fluid_kind(struct fluid *f, const char *name, uint32_t n, double capacity)
{
    struct kind *k;

    BUG_ON(n == 0 || !(capacity >= 0) || isinf(capacity));
    f->kinds = mem_grow(f->kinds, &f->kinds_cap, (size_t)f->n_kinds + 1, sizeof(*f->kinds));
    k = &f->kinds[f->n_kinds];
    *k = (struct kind){.n = n, .capacity = capacity, .any_zero = capacity == 0};
    k->name = mem_alloc(strlen(name) + 1, 1);
    strcpy(k->name, name);
    return f->n_kinds++;
}

/* Place of the first capacity of its own at or after an instance. */
static uint32_t own_find(const struct kind *k, uint32_t instance)
{
    uint32_t lo = 0, hi = k->n_own, mid;

    while (lo < hi) {
        mid = lo + (hi - lo) / 2;
        if (k->own[mid].instance < instance)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void note_own(struct kind *k, uint32_t instance, double capacity)
{
    uint32_t at = own_find(k, instance);

    if (at == k->n_own || k->own[at].instance != instance) {
        k->own = mem_grow(k->own, &k->own_cap, (size_t)k->n_own + 1, sizeof(*k->own));
        memmove(k->own + at + 1, k->own + at, (k->n_own - at) * sizeof(*k->own));
        k->n_own++;
    }
    k->own[at] = (struct own){.instance = instance, .capacity = capacity};
}

void fluid_capacity(struct fluid *f, uint32_t kind, uint32_t instance, double capacity)
{
    BUG_ON(kind >= f->n_kinds || instance >= f->kinds[kind].n || f->ran);
    BUG_ON(!(capacity >= 0) || isinf(capacity));
    note_own(&f->kinds[kind], instance, capacity);
    f->kinds[kind].any_zero |= capacity == 0;
}

static void check_uses(const struct fluid *f, const struct fluid_activity *a)
{
    const struct fluid_use *u;
    uint32_t i, j;

    for (i = 0; i < a->n_uses; i++) {
        u = &a->uses[i];
        BUG_ON(u->kind >= f->n_kinds || !(u->every >= 0) || isinf(u->every));
        for (j = 0; j < i; j++)
            BUG_ON(a->uses[j].kind == u->kind);
        for (j = 0; j < u->n_only; j++) {
            BUG_ON(u->only[j].instance >= f->kinds[u->kind].n);
            BUG_ON(j > 0 && u->only[j].instance <= u->only[j - 1].instance);
            BUG_ON(!(u->only[j].amount >= 0) || isinf(u->only[j].amount));
        }
    }
}

/* Is it a flow, each instance of whose path carries as much as it moves? */
static void note_path(struct fluid *f, const struct fluid_activity *a)
{
    double weight = a->weight > 0 ? a->weight : 1;
    bool flow = !(a->cap > 0);
    uint32_t n = 0, i, j;

    if (!(a->work > 0) || !f->flows_only)
        return;
    for (i = 0; i < a->n_uses; i++) {
        flow &= !(a->uses[i].every > 0);
        for (j = 0; flow && j < a->uses[i].n_only; j++) {
            flow = a->uses[i].only[j].amount == 0 || a->uses[i].only[j].amount == 1;
            n += a->uses[i].only[j].amount > 0;
        }
    }
    f->flows_only = flow && n <= MAX_PATH;
    f->longest = n > f->longest ? n : f->longest;
    f->lightest = fmin(f->lightest, weight);
    f->heaviest = fmax(f->heaviest, weight);
}

uint32_t fluid_add(struct fluid *f, const struct fluid_activity *a, int64_t not_before_ps)
{
    BUG_ON(f->ran || not_before_ps < 0 || a->latency_ps < 0 || f->n_activities == NONE);
    BUG_ON(!(a->work >= 0) || isinf(a->work) || !(a->cap >= 0) || !(a->weight >= 0));
    check_uses(f, a);
    note_path(f, a);
    f->activities = mem_grow(f->activities, &f->activities_cap, (size_t)f->n_activities + 1,
                             sizeof(*f->activities));
    f->activities[f->n_activities] = (struct activity){.latency_ps = a->latency_ps,
                                                       .work = a->work,
                                                       .cap = a->cap,
                                                       .weight = a->weight > 0 ? a->weight : 1,
                                                       .uses = a->uses,
                                                       .n_uses = a->n_uses,
                                                       .ready_ps = not_before_ps,
                                                       .end_ps = -1,
                                                       .last_before = NONE,
                                                       .first_after = NONE,
                                                       .more_after = NONE};
    return f->n_activities++;
}

void fluid_after(struct fluid *f, uint32_t after, uint32_t before)
{
    struct activity *b = &f->activities[before];

    BUG_ON(f->ran || after >= f->n_activities || before >= f->n_activities || f->n_edges == NONE);
    f->activities[after].n_waits++;
    if (b->first_after == NONE) {
        b->first_after = after;
        return;
    }
    f->edges = mem_grow(f->edges, &f->edges_cap, (size_t)f->n_edges + 1, sizeof(*f->edges));
    f->edges[f->n_edges] = (struct edge){.after = after, .next = b->more_after};
    b->more_after = f->n_edges++;
}

/* Running. */

static int late(struct fluid *f, uint32_t id, const char *what, struct err *e)
{
    f->at_fault = id;
    return err_set(e, ERR_OVERFLOW, "activity %u: %s beyond 2^63 ps (106 days)", id, what);
}

static int schedule(struct fluid *f, uint32_t id, struct err *e)
{
    struct activity *a = &f->activities[id];

    if (a->latency_ps >= INT64_MAX - a->ready_ps) /* INT64_MAX: sim_ps() of what is beyond */
        return late(f, id, "starts", e);
    queue_push(&f->starts, a->ready_ps + a->latency_ps, 0, id);
    return 0;
}

/* One of those that `after` waits for has ended. */
static int release(struct fluid *f, uint32_t after, uint32_t before, int64_t now_ps, struct err *e)
{
    struct activity *s = &f->activities[after];

    __builtin_prefetch(s->uses);
    if (s->last_before == NONE || f->activities[s->last_before].end_ps < now_ps ||
        s->last_before > before)
        s->last_before = before;
    if (s->ready_ps < now_ps)
        s->ready_ps = now_ps;
    return --s->n_waits == 0 ? schedule(f, after, e) : 0;
}

static int finish(struct fluid *f, uint32_t id, int64_t now_ps, struct err *e)
{
    struct activity *a = &f->activities[id];
    uint32_t i;

    a->end_ps = now_ps;
    f->n_ended++;
    f->makespan_ps = now_ps;
    for (i = a->more_after; i != NONE; i = f->edges[i].next)
        if (release(f, f->edges[i].after, id, now_ps, e))
            return -1;
    return a->first_after != NONE ? release(f, a->first_after, id, now_ps, e) : 0;
}

static int start_flow(struct fluid *f, uint32_t id, int64_t now_ps, struct err *e)
{
    const struct activity *a = &f->activities[id];
    uint32_t path[MAX_PATH], n = 0, i, j;

    for (i = 0; i < a->n_uses; i++)
        for (j = 0; j < a->uses[i].n_only; j++)
            if (a->uses[i].only[j].amount > 0)
                path[n++] = f->kinds[a->uses[i].kind].first + a->uses[i].only[j].instance;
    if (!n)
        return finish(f, id, now_ps, e);
    bottleneck_start(f->flows, id, path, n, a->work, a->weight);
    return 0;
}

static int start(struct fluid *f, uint32_t id, int64_t now_ps, struct err *e)
{
    struct activity *a = &f->activities[id];
    uint32_t slot;

    f->n_events++;
    if (!(a->work > 0))
        return finish(f, id, now_ps, e);
    if (a->first_after != NONE)
        __builtin_prefetch(&f->activities[a->first_after]); /* needed when this one ends */
    if (f->flows)
        return start_flow(f, id, now_ps, e);
    slot = maxmin_start(f->shares, id, a->uses, a->n_uses, a->weight, a->cap);
    if (slot == NONE)
        return finish(f, id, now_ps, e);
    f->progress = mem_grow(f->progress, &f->progress_cap, (size_t)slot + 1, sizeof(*f->progress));
    f->progress[slot] = (struct progress){.left = a->work, .rate = 0, .since_ps = now_ps};
    return 0;
}

/* The rate of a slot has changed: bring its progress up to date and move its end, which may be beyond all time at the rate of now. */
static void reschedule(struct fluid *f, uint32_t slot, int64_t now_ps)
{
    struct progress *p = &f->progress[slot];
    uint32_t id = maxmin_id(f->shares, slot);
    double q;

    p->left -= p->rate * (double)(now_ps - p->since_ps);
    p->since_ps = now_ps;
    p->rate = maxmin_rate(f->shares, slot);
    q = p->left > DONE_REL * f->activities[id].work ? p->left / p->rate : 0;
    q = ceil(q * (1 - ROUND_REL) - ROUND_PS);
    if (q < 0)
        q = 0;
    keyheap_set(&f->ends, slot, q < (double)(INT64_MAX - now_ps) ? now_ps + (int64_t)q : INT64_MAX);
}

static int take_flow_ends(struct fluid *f, int64_t now_ps, struct err *e)
{
    const uint32_t *ids;
    uint32_t n, i;

    bottleneck_advance(f->flows, now_ps);
    n = bottleneck_take_ends(f->flows, &ids);
    f->n_events += n;
    for (i = 0; i < n; i++)
        if (finish(f, ids[i], now_ps, e))
            return -1;
    return 0;
}

/* All that ends at now_ps leaves before any successor starts. */
static int take_ends(struct fluid *f, int64_t now_ps, struct err *e)
{
    uint32_t n = 0, i, id;

    if (f->flows)
        return take_flow_ends(f, now_ps, e);
    while (f->ends.len && f->ends.items[0].key == now_ps) {
        f->batch = mem_grow(f->batch, &f->batch_cap, (size_t)n + 1, sizeof(*f->batch));
        f->batch[n++] = f->ends.items[0].id;
        keyheap_remove(&f->ends, f->ends.items[0].id);
    }
    for (i = 0; i < n; i++) {
        f->n_events++;
        id = maxmin_id(f->shares, f->batch[i]);
        if (finish(f, id, now_ps, e))
            return -1;
        maxmin_end(f->shares, f->batch[i]);
    }
    return 0;
}

/* One instant: ends, then starts (which may end at once and let others start), then new shares. */
static int step(struct fluid *f, int64_t now_ps, struct err *e)
{
    struct queue_event ev;
    const uint32_t *slots;
    uint32_t n, i;

    if (take_ends(f, now_ps, e))
        return -1;
    while (queue_next_ps(&f->starts) == now_ps) {
        queue_pop(&f->starts, &ev);
        if (start(f, ev.arg, now_ps, e))
            return -1;
    }
    if (f->flows) {
        bottleneck_solve(f->flows);
        return 0;
    }
    n = maxmin_solve(f->shares, &slots);
    for (i = 0; i < n; i++)
        reschedule(f, slots[i], now_ps);
    return 0;
}

/* Refusals. */

static double capacity_of(const struct kind *k, uint32_t instance)
{
    uint32_t at = own_find(k, instance);

    return at < k->n_own && k->own[at].instance == instance ? k->own[at].capacity : k->capacity;
}

/* Does the use spend anything of the instance? *i is a cursor in use->only for ascending instances. */
static bool spends(const struct fluid_use *u, uint32_t instance, uint32_t *i)
{
    while (*i < u->n_only && u->only[*i].instance < instance)
        (*i)++;
    if (*i < u->n_only && u->only[*i].instance == instance)
        return u->only[*i].amount > 0;
    return u->every > 0;
}

/* The first instance that the use spends and that has capacity 0, or NONE. */
static uint32_t find_zero(const struct kind *k, const struct fluid_use *u)
{
    uint32_t i = 0, j;

    if (k->capacity == 0 && u->every > 0) {
        for (j = 0; j < k->n; j++)
            if (spends(u, j, &i) && capacity_of(k, j) == 0)
                return j;
        return NONE;
    }
    for (j = 0; j < u->n_only; j++)
        if (u->only[j].amount > 0 && capacity_of(k, u->only[j].instance) == 0)
            return u->only[j].instance;
    for (j = 0; u->every > 0 && j < k->n_own; j++)
        if (k->own[j].capacity == 0 && spends(u, k->own[j].instance, &i))
            return k->own[j].instance;
    return NONE;
}

static int check_capacities(const struct fluid *f, struct err *e)
{
    const struct activity *a;
    const struct fluid_use *u;
    uint32_t i, j, zero;

    for (i = 0; i < f->n_activities; i++) {
        a = &f->activities[i];
        for (j = 0; a->work > 0 && j < a->n_uses; j++) {
            u = &a->uses[j];
            if (!f->kinds[u->kind].any_zero)
                continue;
            zero = find_zero(&f->kinds[u->kind], u);
            if (zero != NONE)
                return err_set(e, ERR_INVALID, "activity %u uses %s[%u], whose capacity is 0", i,
                               f->kinds[u->kind].name, zero);
        }
    }
    return 0;
}

/* Some activities never became ready. Each waits for at least one other such, so a walk backward meets itself. */
static int refuse_circle(const struct fluid *f, struct err *e)
{
    uint32_t *before = MEM_NEW(uint32_t, f->n_activities); /* one that it waits for */
    bool *seen = MEM_NEW(bool, f->n_activities);
    char text[200];
    size_t len;
    uint32_t i, j, at = NONE, n = 1;

    for (i = f->n_activities; i-- > 0;) {
        if (f->activities[i].end_ps >= 0)
            continue;
        for (j = f->activities[i].more_after; j != NONE; j = f->edges[j].next)
            before[f->edges[j].after] = i;
        if (f->activities[i].first_after != NONE)
            before[f->activities[i].first_after] = i;
        at = i;
    }
    for (; !seen[at]; at = before[at])
        seen[at] = true;
    for (i = before[at], j = at; i != at; i = before[i], n++)
        if (i < j)
            j = i;
    len = (size_t)snprintf(text, sizeof(text), "%u", j);
    for (i = before[j], at = 1; at <= n && at <= 8; i = before[i], at++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, " for %u", i);
    if (n > 8)
        snprintf(text + len, sizeof(text) - len, " ... (%u in all)", n);
    mem_free(before);
    mem_free(seen);
    return err_set(e, ERR_INVALID, "activities wait for each other in a circle: %s", text);
}

/* In the order of the activities, so that it does not depend on who ended when. */
static void add_up_use(struct kind *k, const struct fluid_use *u, double work)
{
    uint32_t i;

    k->used_every += work * u->every;
    if (u->n_only && !k->used_only)
        k->used_only = MEM_NEW(double, k->n);
    for (i = 0; i < u->n_only; i++)
        k->used_only[u->only[i].instance] += work * u->only[i].amount - work * u->every;
}

static struct bottleneck *flows_new(struct fluid *f)
{
    struct bottleneck *b;
    uint64_t n = 0;
    uint32_t i, j;

    for (i = 0; i < f->n_kinds; n += f->kinds[i++].n)
        f->kinds[i].first = (uint32_t)n;
    if (!f->flows_only || n > MAX_LINKS || f->heaviest > BOTTLENECK_WEIGHTS * f->lightest)
        return NULL;
    b = bottleneck_new((uint32_t)n, f->longest);
    for (i = 0; i < f->n_kinds; i++)
        for (j = 0; j < f->kinds[i].n; j++)
            bottleneck_capacity(b, f->kinds[i].first + j, capacity_of(&f->kinds[i], j));
    return b;
}

static bool any_long_list(const struct fluid *f)
{
    const struct activity *a;
    uint32_t i, j;

    for (i = 0; i < f->n_activities; i++)
        for (a = &f->activities[i], j = 0; j < a->n_uses; j++)
            if (a->uses[j].n_only >= FOLD_LONG)
                return true;
    return false;
}

/* From here on activities use classes of instances. */
static void fold(struct fluid *f)
{
    uint32_t *n = MEM_NEW(uint32_t, f->n_kinds), i, j;

    for (i = 0; i < f->n_kinds; i++)
        n[i] = f->kinds[i].n;
    f->fold = fold_new(n, f->n_kinds);
    mem_free(n);
    for (i = 0; i < f->n_kinds; i++)
        for (j = 0; j < f->kinds[i].n_own; j++)
            fold_capacity(f->fold, i, f->kinds[i].own[j].instance, f->kinds[i].own[j].capacity);
    for (i = 0; i < f->n_activities; i++)
        fold_note(f->fold, f->activities[i].uses, f->activities[i].n_uses);
    fold_close(f->fold);
    for (i = 0; i < f->n_activities; i++)
        f->activities[i].uses = fold_uses(f->fold, f->activities[i].uses);
}

static void make_shares(struct fluid *f)
{
    const struct own *own;
    uint32_t i, j;

    if (any_long_list(f))
        fold(f);
    for (i = 0; i < f->n_kinds; i++)
        maxmin_kind(f->shares, f->fold ? fold_n(f->fold, i) : f->kinds[i].n, f->kinds[i].capacity);
    for (i = 0; i < f->n_kinds; i++)
        for (j = 0; j < f->kinds[i].n_own; j++) {
            own = &f->kinds[i].own[j];
            maxmin_capacity(f->shares, i,
                            f->fold ? fold_class(f->fold, i, own->instance) : own->instance,
                            own->capacity);
        }
}

static int64_t next_end_ps(const struct fluid *f)
{
    if (f->flows)
        return bottleneck_next_ps(f->flows);
    return f->ends.len ? f->ends.items[0].key : INT64_MAX;
}

/* An activity that runs, or NONE. */
static uint32_t running(const struct fluid *f)
{
    if (f->flows)
        return bottleneck_next(f->flows);
    return f->ends.len ? maxmin_id(f->shares, f->ends.items[0].id) : NONE;
}

int fluid_run(struct fluid *f, struct err *e)
{
    const struct activity *a;
    int64_t now_ps;
    uint32_t i, j;

    BUG_ON(f->ran);
    f->ran = true;
    if (check_capacities(f, e))
        return -1;
    for (i = 0; i < f->n_activities; i++) {
        a = &f->activities[i];
        for (j = 0; j < a->n_uses; j++)
            add_up_use(&f->kinds[a->uses[j].kind], &a->uses[j], a->work);
    }
    f->flows = flows_new(f);
    if (!f->flows)
        make_shares(f);
    for (i = 0; i < f->n_activities; i++)
        if (f->activities[i].n_waits == 0 && schedule(f, i, e))
            return -1;
    for (;;) {
        now_ps = queue_next_ps(&f->starts);
        if (next_end_ps(f) < now_ps)
            now_ps = next_end_ps(f);
        else if (!f->starts.len)
            break;
        if (step(f, now_ps, e))
            return -1;
    }
    if (f->n_ended < f->n_activities && running(f) != NONE)
        return late(f, running(f), "ends", e);
    if (f->n_ended < f->n_activities)
        return refuse_circle(f, e);
    return 0;
}

/* Results. */

int64_t fluid_ready_ps(const struct fluid *f, uint32_t activity)
{
    BUG_ON(activity >= f->n_activities);
    return f->activities[activity].ready_ps;
}

int64_t fluid_end_ps(const struct fluid *f, uint32_t activity)
{
    BUG_ON(activity >= f->n_activities);
    return f->activities[activity].end_ps;
}

uint32_t fluid_last_before(const struct fluid *f, uint32_t activity)
{
    BUG_ON(activity >= f->n_activities);
    return f->activities[activity].last_before;
}

int64_t fluid_makespan_ps(const struct fluid *f)
{
    return f->makespan_ps;
}

double fluid_used(const struct fluid *f, uint32_t kind, uint32_t instance)
{
    const struct kind *k = &f->kinds[kind];

    BUG_ON(kind >= f->n_kinds || instance >= k->n);
    return k->used_every + (k->used_only ? k->used_only[instance] : 0);
}

uint32_t fluid_at_fault(const struct fluid *f)
{
    return f->at_fault;
}

uint64_t fluid_n_events(const struct fluid *f)
{
    return f->n_events;
}
