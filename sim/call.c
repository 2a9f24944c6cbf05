#include "sim/call.h"

#include "core/num.h"
#include "sim/collective.h"

#include <string.h>

static int check(const struct cluster *c, const struct call *x, struct err *e)
{
    uint64_t world = (uint64_t)c->n_nodes * c->gpus_per_node;

    if (x->n_ranks < 2)
        return err_set(e, ERR_INVALID, "a collective of %u ranks, expected at least 2", x->n_ranks);
    if (x->n_ranks > world)
        return err_set(e, ERR_INVALID, "a collective of %u ranks, but %u nodes have %llu GPUs",
                       x->n_ranks, c->n_nodes, (unsigned long long)world);
    if (x->n_owners > x->n_ranks)
        return err_set(e, ERR_INVALID, "%u owners among %u ranks", x->n_owners, x->n_ranks);
    for (uint32_t i = 0; x->ranks && i < x->n_ranks; i++) {
        if (x->ranks[i] >= world)
            return err_set(e, ERR_INVALID, "the group has rank %u, but %u nodes have %llu GPUs",
                           x->ranks[i], c->n_nodes, (unsigned long long)world);
        if (i && x->ranks[i] <= x->ranks[i - 1])
            return err_set(e, ERR_INVALID, "the group has rank %u %s", x->ranks[i],
                           x->ranks[i] == x->ranks[i - 1] ? "twice" : "out of order");
    }
    return 0;
}

/* The ranks that take part; the first ones of the cluster need no list when they are all of it. */
static struct group group_of(const struct call *x, uint32_t world, struct arena *a)
{
    struct group g = {.name = "call", .n_members = x->n_ranks};
    uint32_t *ranks;

    if (!x->ranks && x->n_ranks == world) {
        g.n_axes = 1;
        g.size[0] = world;
        g.stride[0] = 1;
        return g;
    }
    if (x->ranks) {
        g.members = x->ranks;
        return g;
    }
    ranks = ARENA_NEW(a, uint32_t, x->n_ranks);
    for (uint32_t i = 0; i < x->n_ranks; i++)
        ranks[i] = i;
    g.members = ranks;
    return g;
}

/* Equal parts of elements of 2 bytes, on ranks that are evenly spread. */
static struct segment_table segments_of(const struct call *x, struct arena *a)
{
    uint32_t n = x->n_owners ? x->n_owners : 1, *start = ARENA_NEW(a, uint32_t, 2);
    struct segment *s = ARENA_NEW(a, struct segment, n);
    uint64_t all = num_ceil_div(x->n_bytes, 2), offset = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t elements = all / n + (i < all % n);

        s[i] = (struct segment){.root = (uint32_t)((uint64_t)i * x->n_ranks / n),
                                .to_n = x->n_ranks,
                                .tensor = PROGRAM_NONE,
                                .offset = offset,
                                .elements = elements};
        offset += elements;
    }
    start[1] = n;
    return (struct segment_table){.n_units = 1, .start = start, .segments = s};
}

/* One operation a call. */
static void program_of(const struct cluster *domains, const struct call *calls, uint32_t n,
                       struct arena *a, struct program *p)
{
    memset(p, 0, sizeof(*p));
    p->world = domains->n_nodes * domains->gpus_per_node;
    p->gpus_per_node = domains->gpus_per_node;
    p->n_ops = p->n_groups = p->n_segment_tables = n;
    p->ops = ARENA_NEW(a, struct op, n);
    p->groups = ARENA_NEW(a, struct group, n);
    p->segment_tables = ARENA_NEW(a, struct segment_table, n);
    for (uint32_t i = 0; i < n; i++) {
        p->segment_tables[i] = segments_of(&calls[i], a);
        p->groups[i] = i && calls[i].ranks == calls[0].ranks && calls[i].n_ranks == calls[0].n_ranks
                           ? p->groups[0]
                           : group_of(&calls[i], p->world, a);
        p->ops[i] = (struct op){.id = i,
                                .kind = OP_COLLECTIVE,
                                .loop = PROGRAM_NONE,
                                .coll = {.kind = calls[i].kind,
                                         .group = i,
                                         .algo = calls[i].algo,
                                         .elements = num_ceil_div(calls[i].n_bytes, 2),
                                         .table = i,
                                         .piece = num_ceil_div(calls[i].piece_bytes, 2),
                                         .wire = {.dtype = DTYPE_BF16}}};
    }
}

/* The i-th call of a program on its own. */
static int call_get(struct coll_cache *k, const struct call *call, uint32_t i,
                    struct call_time *out, const struct coll_activity **x, struct err *e)
{
    const struct instance at = {.op = i};

    *x = coll_get(k, &k->p->ops[i], &at, call->algo);
    if (!(*x)->possible)
        return err_set(e, ERR_UNSUPPORTED,
                       "this version has no %s over %u ranks here with this algorithm and protocol",
                       coll_kind_name(call->kind), call->n_ranks);
    *out = (struct call_time){.alone_ps = (*x)->alone_ps, .nccl = (*x)->nccl, .algo = (*x)->algo};
    return 0;
}

int call_sizes(const struct cluster *c, const struct call *call, const uint64_t *n_bytes,
               uint32_t n, struct call_time *out, struct err *e)
{
    struct cluster domains = cluster_by_domain(c);
    const struct coll_activity *x;
    struct coll_cache cache;
    struct fabric fabric;
    struct program p;
    struct call *calls;
    struct arena a;
    int status = check(c, call, e);

    if (status || !n)
        return status;
    arena_init(&a);
    calls = ARENA_NEW(&a, struct call, n);
    for (uint32_t i = 0; i < n; i++) {
        calls[i] = *call;
        calls[i].n_bytes = n_bytes[i];
    }
    program_of(&domains, calls, n, &a, &p);
    status = fabric_init(&fabric, &domains, p.world, NULL, &a, e);
    if (!status) {
        coll_cache_init(&cache, &p, &domains, &call->nccl);
        for (uint32_t i = 0; i < n && !status; i++)
            status = call_get(&cache, &calls[i], i, &out[i], &x, e);
        for (uint32_t i = 0; i < n && !status; i++)
            out[i].end_ps = out[i].alone_ps;
        coll_cache_release(&cache);
    }
    arena_release(&a);
    return status;
}

int call_times(const struct cluster *c, const struct call *calls, uint32_t n, struct call_time *out,
               struct err *e)
{
    struct cluster domains = cluster_by_domain(c);
    struct fluid *f = fluid_new();
    struct coll_cache *caches = MEM_NEW(struct coll_cache, n);
    struct fabric fabric;
    struct program p;
    struct arena a;
    int status = 0;

    arena_init(&a);
    for (uint32_t i = 0; i < n && !status; i++)
        status = check(c, &calls[i], e);
    if (status)
        goto out;
    program_of(&domains, calls, n, &a, &p);
    status = fabric_init(&fabric, &domains, p.world, NULL, &a, e);
    if (status)
        goto out;
    coll_make_kinds(f, &fabric);
    for (uint32_t i = 0; i < n; i++) {
        const struct coll_activity *x;

        coll_cache_init(&caches[i], &p, &domains, &calls[i].nccl);
        status = call_get(&caches[i], &calls[i], i, &out[i], &x, e);
        if (status)
            goto out;
        fluid_add(f, &x->activity, 0);
    }
    status = fluid_run(f, e);
    if (status && fluid_at_fault(f) != UINT32_MAX)
        status = err_set(
            e, ERR_OVERFLOW, "%s of %llu bytes over %u ranks takes longer than 2^63 ps (106 days)",
            coll_kind_name(calls[fluid_at_fault(f)].kind),
            (unsigned long long)calls[fluid_at_fault(f)].n_bytes, calls[fluid_at_fault(f)].n_ranks);
    for (uint32_t i = 0; i < n && !status; i++)
        out[i].end_ps = fluid_end_ps(f, i);
out:
    for (uint32_t i = 0; i < n; i++)
        if (caches[i].p)
            coll_cache_release(&caches[i]);
    mem_free(caches);
    arena_release(&a);
    fluid_free(f);
    return status;
}

double call_bus_factor(enum coll_kind kind, uint32_t n)
{
    double share = (n - 1.0) / n;

    switch (kind) {
    case COLL_ALL_REDUCE:
        return 2 * share;
    case COLL_ALL_GATHER:
    case COLL_REDUCE_SCATTER:
    case COLL_ALL_TO_ALL:
        return share;
    case COLL_BROADCAST:
    case COLL_REDUCE:
    case COLL_SEGMENT_GATHER:
    case COLL_SEGMENT_REDUCE:
    case COLL_SEND:
    case COLL_RECV:
    case COLL_N:
        break;
    }
    return 1;
}
