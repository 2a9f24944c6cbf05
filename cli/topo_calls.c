#include "cli/topo_calls.h"

#include "core/mem.h"

#include <math.h>
#include <string.h>

enum { SIZES = 24 }; /* 1 KiB to 8 GiB */

static void add(struct topo_calls *t, const struct call *call, uint32_t n_nodes, bool over_nodes,
                const uint64_t *bytes, size_t n)
{
    t->groups[t->n_groups++] = (struct topo_group){.call = *call,
                                                   .n_nodes = n_nodes,
                                                   .over_nodes = over_nodes,
                                                   .bytes = bytes,
                                                   .first = t->n,
                                                   .n = n};
    t->n += n;
}

static bool same_ranks(const struct call *x, const struct call *y)
{
    return x->n_ranks == y->n_ranks && x->nccl.one_process == y->nccl.one_process &&
           (x->ranks == y->ranks ||
            (x->ranks && y->ranks && !memcmp(x->ranks, y->ranks, x->n_ranks * sizeof(*x->ranks))));
}

/* Every collective over the ranks of `like`, unless they are there since group `from`. */
static void add_all(struct topo_calls *t, size_t from, const struct call *like, uint32_t n_nodes,
                    bool over_nodes, const uint64_t *bytes)
{
    struct err e;

    for (size_t i = from; i < t->n_groups; i++)
        if (same_ranks(&t->groups[i].call, like) && t->groups[i].n_nodes == n_nodes)
            return;
    for (size_t i = 0; coll_kind_names[i]; i++) {
        struct call call = {.n_ranks = like->n_ranks, .ranks = like->ranks};

        call.nccl.out_of_place = true;
        call.nccl.one_process = like->nccl.one_process;
        BUG_ON(coll_kind_parse(coll_kind_names[i], &call.kind, &e));
        add(t, &call, n_nodes, over_nodes, bytes, SIZES);
    }
}

void topo_calls_init(struct topo_calls *t, const struct cluster *c, const struct coll_table *tables,
                     size_t n_tables, struct arena *a)
{
    uint32_t domain = cluster_domain_gpus(c), nodes = c->domain_nodes > 1 ? c->domain_nodes : 1;
    uint64_t *bytes = ARENA_NEW(a, uint64_t, SIZES);
    size_t kinds = 0;

    while (coll_kind_names[kinds])
        kinds++;
    *t = (struct topo_calls){0};
    t->groups = ARENA_NEW(a, struct topo_group, n_tables + (34 + n_tables) * kinds);
    for (size_t i = 0; i < n_tables; i++) {
        const struct coll_table *table = &tables[i];
        uint64_t *of_rows = ARENA_NEW(a, uint64_t, table->n_rows);

        for (size_t k = 0; k < table->n_rows; k++)
            of_rows[k] = table->rows[k].n_bytes;
        add(t, &table->call, table->cluster.n_nodes, table->cluster.n_nodes > nodes, of_rows,
            table->n_rows);
        t->groups[i].none = table->skipped != NULL;
    }
    t->n_rows = t->n;
    for (size_t i = 0; i < SIZES; i++)
        bytes[i] = (uint64_t)1024 << i;
    for (uint32_t n = 2; n < domain; n *= 2)
        add_all(t, n_tables, &(struct call){.n_ranks = n}, nodes, false, bytes);
    if (domain > 1)
        add_all(t, n_tables, &(struct call){.n_ranks = domain}, nodes, false, bytes);
    if (c->nics_per_node)
        add_all(t, n_tables, &(struct call){.n_ranks = 2 * domain}, 2 * nodes, true, bytes);
    for (size_t i = 0; i < n_tables; i++)
        if (!t->groups[i].none)
            add_all(t, n_tables, &tables[i].call, t->groups[i].n_nodes, t->groups[i].over_nodes,
                    bytes);
}

const struct topo_group *topo_call_group(const struct topo_calls *t, size_t call)
{
    const struct topo_group *g = t->groups;

    while (call >= g->first + g->n)
        g++;
    return g;
}

/* The calls of a group among at[n], all by the algorithms and protocols of `call`. */
static void guess(const struct cluster *c, const struct topo_group *g, const struct call *call,
                  const size_t *at, size_t n, struct topo_guess *out)
{
    struct call_time *times = MEM_NEW(struct call_time, n);
    uint64_t *bytes = MEM_NEW(uint64_t, n);
    struct err e;
    bool none;

    for (size_t i = 0; i < n; i++)
        bytes[i] = g->bytes[at[i]];
    none = g->none || call_sizes(c, call, bytes, (uint32_t)n, times, &e);
    for (size_t i = 0; i < n; i++)
        out[at[i]] = none ? (struct topo_guess){.seconds = NAN}
                          : (struct topo_guess){.seconds = (double)times[i].alone_ps * 1e-12,
                                                .algo = times[i].nccl.algo,
                                                .protocol = times[i].nccl.protocol};
    mem_free(times);
    mem_free(bytes);
}

void topo_calls_guess(const struct topo_calls *t, const struct cluster *c,
                      const struct topo_guess *held, struct topo_guess *out)
{
    struct cluster sized = *c;
    size_t *at = MEM_NEW(size_t, t->n);

    for (size_t i = 0; i < t->n_groups; i++) {
        const struct topo_group *g = &t->groups[i];
        struct call call = g->call;
        size_t n = 0;

        sized.n_nodes = g->n_nodes;
        for (size_t k = 0; !held && k < g->n; k++)
            at[n++] = k;
        if (!held)
            guess(&sized, g, &call, at, n, out + g->first);
        for (int a = 0; held && a < NCCL_ALGO_N; a++)
            for (int p = 0; p < PROTOCOL_N; p++) {
                n = 0;
                for (size_t k = 0; k < g->n; k++)
                    if ((int)held[g->first + k].algo == a && (int)held[g->first + k].protocol == p)
                        at[n++] = k;
                call.nccl.algos = 1u << a;
                call.nccl.protocols = 1u << p;
                if (n)
                    guess(&sized, g, &call, at, n, out + g->first);
            }
    }
    mem_free(at);
}
