/* Owners that send to all others themselves: the closed form of sim/collective.c against flows, one from each owner to each
 * other rank, over the routes of sim/fabric.h through the engine. */
#include "sim/fabric.h"
#include "sim/fluid.h"
#include "sim/sim.h"
#include "tests/layouts/plans.h"

#include <math.h>

enum { MAX_OWNERS = 3 };

static struct arena arena;
static struct cluster cl;
static struct segment segments[MAX_OWNERS];
static uint32_t n_owners, world;
static uint64_t rng_state;

static uint32_t rng(uint32_t n)
{
    rng_state = rng_state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)((rng_state >> 33) % n);
}

static int64_t closed_form_ps(bool reduce)
{
    const uint32_t start[] = {0, n_owners};
    struct segment_table t = {.n_units = 1, .start = start, .segments = segments};
    struct group g = {
        .name = "world", .n_axes = 1, .size = {world}, .stride = {1}, .n_members = world};
    struct op o = {.kind = OP_COLLECTIVE,
                   .loop = PROGRAM_NONE,
                   .coll = {.kind = reduce ? COLL_SEGMENT_REDUCE : COLL_SEGMENT_GATHER,
                            .wire = {.dtype = DTYPE_BF16},
                            .peer_op = PROGRAM_NONE}};
    struct program p = {.world = world,
                        .gpus_per_node = cl.gpus_per_node,
                        .n_micro = 1,
                        .groups = &g,
                        .n_groups = 1,
                        .segment_tables = &t,
                        .n_segment_tables = 1};
    const struct instance i = {0};

    return sim_collective_ps(&p, &cl, &o, &i, ALGO_P2P);
}

static int by_kind(const void *a, const void *b)
{
    return (int)((const struct fluid_use *)a)->kind - (int)((const struct fluid_use *)b)->kind;
}

static void add_flow(struct fluid *f, const struct fabric *fabric, const uint32_t *kinds,
                     uint32_t from, uint32_t to, uint64_t bytes)
{
    struct fabric_route r;
    struct fluid_activity a = {.work = (double)bytes};
    struct fluid_use *u = ARENA_NEW(&arena, struct fluid_use, FABRIC_MAX_LINKS);
    struct fluid_amount *at = ARENA_NEW(&arena, struct fluid_amount, FABRIC_MAX_LINKS);

    fabric_route(fabric, from, to, &r);
    for (uint32_t i = 0; i < r.n; i++) {
        at[i] = (struct fluid_amount){r.links[i].instance, 1};
        u[i] = (struct fluid_use){.kind = kinds[r.links[i].kind], .n_only = 1, .only = &at[i]};
    }
    qsort(u, r.n, sizeof(*u), by_kind);
    a.uses = u;
    a.n_uses = r.n;
    fluid_add(f, &a, 0);
}

static int64_t flows_ps(bool reduce)
{
    struct fluid *f = fluid_new();
    struct fabric fabric;
    uint32_t kinds[FABRIC_KIND_N];
    struct err e;
    int64_t end;

    MUST(!fabric_init(&fabric, &cl, world, NULL, &arena, &e), "%s", e.msg);
    for (int k = 0; k < FABRIC_KIND_N; k++) {
        uint32_t n = (uint32_t)fabric_n(&fabric, (enum fabric_kind)k);

        if (n)
            kinds[k] = fluid_kind(f, fabric_kind_name((enum fabric_kind)k), n,
                                  fabric_Bps(&fabric, (enum fabric_kind)k, 0) / 1e12);
    }
    for (uint32_t s = 0; s < n_owners; s++)
        for (uint32_t to = 0; to < world; to++) {
            uint32_t own = segments[s].root;

            if (to != own)
                add_flow(f, &fabric, kinds, reduce ? to : own, reduce ? own : to,
                         2 * segments[s].elements);
        }
    MUST(!fluid_run(f, &e), "%s", e.msg);
    end = fluid_makespan_ps(f);
    fluid_free(f);
    return end;
}

/* Full nodes; on every other seed two nodes a leaf, four times oversubscribed, on every third PCIe, on every fifth rails. */
static void random_cluster(uint32_t seed)
{
    uint32_t gpus = 1 + rng(6), nodes = 2 + 2 * rng(3), first;

    world = gpus * nodes;
    plans_ideal_cluster(&cl, gpus, world);
    cl.device.hbm_Bps = 1e18;
    if (seed % 2) {
        cl.nodes_per_leaf = 2;
        cl.oversubscription = 4;
    }
    if (seed % 3 == 0) {
        cl.pcie_switches = 1;
        cl.pcie_Bps = 5e9 + rng(10) * 1e9;
    }
    cl.rail_optimised = seed % 5 == 0;
    n_owners = 1 + rng((uint32_t)num_min(MAX_OWNERS, world));
    first = rng(world - n_owners + 1);
    for (uint32_t s = 0; s < n_owners; s++)
        segments[s] = (struct segment){.root = first + s,
                                       .to_n = world,
                                       .tensor = s,
                                       .elements = 1000000 + (uint64_t)rng(10000000)};
}

/* One owner: flows of one size, so the busiest link is busy to the end and its bytes say when that is. Several: no schedule beats
 * the busiest link, and sharing was never slower than one owner after the other. */
START_TEST(flows_take_what_the_closed_form_says)
{
    uint32_t exact = 0;

    for (uint32_t seed = 1; seed <= 400; seed++) {
        rng_state = seed;
        arena_init(&arena);
        random_cluster(seed);
        for (int reduce = 0; reduce < 2; reduce++) {
            int64_t closed = closed_form_ps(reduce), flows = flows_ps(reduce), in_turn = 0;
            uint32_t n = n_owners;
            struct segment all[MAX_OWNERS];

            MUST(flows >= closed - 2, "seed %u: flows %lld ps, closed form %lld", seed,
                 (long long)flows, (long long)closed);
            exact += n_owners == 1;
            MUST(n_owners > 1 || flows <= closed + closed / 1000000000 + 2,
                 "seed %u: flows %lld ps, closed form %lld", seed, (long long)flows,
                 (long long)closed);
            memcpy(all, segments, sizeof(all));
            n_owners = 1;
            for (uint32_t s = 0; s < n; s++) {
                segments[0] = all[s];
                in_turn += closed_form_ps(reduce);
            }
            n_owners = n;
            memcpy(segments, all, sizeof(all));
            MUST(flows <= in_turn + in_turn / 1000000000 + 2 * n,
                 "seed %u: flows %lld ps, one after the other %lld", seed, (long long)flows,
                 (long long)in_turn);
        }
        arena_release(&arena);
    }
    ck_assert_uint_gt(exact, 200);
}
END_TEST

SUITE_MAIN("sim/fanout", flows_take_what_the_closed_form_says)
