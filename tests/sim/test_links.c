/* What direct sends put on links: sim/links_direct.c's sums against fabric_route() of every pair, one by one, and by hand. */
#include "sim/links.h"
#include "tests/layouts/plans.h"

#include <math.h>

enum { MAX_WORLD = 48, MAX_SEGMENTS = 6, SEEDS = 4000 };

static struct arena arena;
static struct cluster cl;
static struct program prog;
static struct group group;
static struct op op;
static struct segment_table table;
static struct segment segments[MAX_SEGMENTS];
static uint32_t start[2], listed[MAX_WORLD];
static enum coll_algo algo;
static uint64_t rng_state;

static uint32_t rng(uint32_t n)
{
    rng_state = rng_state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)((rng_state >> 33) % n);
}

/* ---- pair by pair ---- */

static double *want[RESOURCE_N]; /* [instances] */

/* One message over its route. */
static void message(const struct fabric *f, uint32_t from, uint32_t to, double bytes)
{
    static const enum sim_resource of[FABRIC_KIND_N] = {[FABRIC_NVLINK_UP] = RESOURCE_NVLINK_TX,
                                                        [FABRIC_NVLINK_DOWN] = RESOURCE_NVLINK_RX,
                                                        [FABRIC_PCIE_UP] = RESOURCE_PCIE_TX,
                                                        [FABRIC_PCIE_DOWN] = RESOURCE_PCIE_RX,
                                                        [FABRIC_ROOT_UP] = RESOURCE_ROOT_UP,
                                                        [FABRIC_ROOT_DOWN] = RESOURCE_ROOT_DOWN,
                                                        [FABRIC_CPU] = RESOURCE_CPU,
                                                        [FABRIC_NIC_TX] = RESOURCE_NIC_TX,
                                                        [FABRIC_NIC_RX] = RESOURCE_NIC_RX,
                                                        [FABRIC_LEAF_UP] = RESOURCE_LEAF_UP,
                                                        [FABRIC_LEAF_DOWN] = RESOURCE_LEAF_DOWN};
    uint32_t g = f->c.gpus_per_node;
    struct fabric_route r;

    fabric_route(f, from, to, &r);
    for (uint32_t i = 0; i < r.n; i++) {
        struct fabric_link l = r.links[i];

        if (l.kind == FABRIC_NVLINK_PAIR) {
            want[RESOURCE_NVLINK_TX][l.instance / (g * g) * g + l.instance / g % g] += bytes;
            want[RESOURCE_NVLINK_RX][l.instance / (g * g) * g + l.instance % g] += bytes;
        } else if (of[l.kind] != RESOURCE_SM) {
            want[of[l.kind]][l.instance] += bytes;
        }
    }
}

/* An owner's segment by one relay a node: the member in its place of every node, and on from there around the node. */
static void relayed(const struct fabric *f, uint32_t base, uint32_t root, double bytes)
{
    uint32_t gpn = f->c.gpus_per_node, owner = group_member(&group, base, root), place = 0;
    bool mirror = op.coll.kind == COLL_SEGMENT_REDUCE;

    for (uint32_t i = 0; i < root; i++)
        place += group_member(&group, base, i) / gpn == owner / gpn;
    for (uint32_t node = 0; node < f->n_nodes; node++) {
        uint32_t here[MAX_WORLD], n = 0, at;

        for (uint32_t i = 0; i < group.n_members; i++)
            if (group_member(&group, base, i) / gpn == node)
                here[n++] = group_member(&group, base, i);
        if (!n)
            continue;
        at = place % n;
        if (here[at] != owner)
            message(f, mirror ? here[at] : owner, mirror ? owner : here[at], bytes);
        for (uint32_t hop = 0; hop + 1 < n; hop++, at = (at + 1) % n)
            message(f, mirror ? here[(at + 1) % n] : here[at],
                    mirror ? here[at] : here[(at + 1) % n], bytes);
    }
}

static void one_group(const struct fabric *f, uint32_t base)
{
    uint32_t n = group.n_members;
    double times = op.coll.repeat ? op.coll.repeat : 1;
    bool mirror = op.coll.kind == COLL_SEGMENT_REDUCE;

    for (uint32_t s = 0; s < start[1]; s++) {
        const struct segment *x = &segments[s];
        double bytes = 2.0 * (double)x->elements * times;

        if (op.coll.kind != COLL_SEGMENT_GATHER && !mirror)
            break;
        if (algo == ALGO_HIERARCHICAL) {
            relayed(f, base, x->root, bytes);
            continue;
        }
        for (uint32_t i = 0; i < x->to_n; i++) {
            uint32_t root = group_member(&group, base, x->root);
            uint32_t to = group_member(&group, base, x->to_first + i);

            message(f, mirror ? to : root, mirror ? root : to, bytes);
        }
    }
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            uint32_t from = group_member(&group, base, i), to = group_member(&group, base, j);
            double elements = (double)op.coll.elements;

            if (op.coll.kind == COLL_ALL_TO_ALL)
                message(f, from, to, times * 2 * ceil(elements / n));
            if (op.coll.kind == COLL_SEND && j == (i + 1) % n)
                message(f, from, to, times * 2.0 * (double)op.coll.elements);
        }
}

static void pair_by_pair(const struct fabric *f)
{
    for (int r = 0; r < RESOURCE_N; r++)
        want[r] = ARENA_NEW(&arena, double, coll_instances(f, (enum sim_resource)r));
    for (uint32_t base = 0; base < prog.world; base++)
        if (group.members ? base == 0 : group_base(&group, base) == base)
            one_group(f, base);
}

/* ---- the activity ---- */

static double amount(const struct coll_activity *x, enum sim_resource r, uint32_t instance)
{
    for (uint32_t u = 0; u < x->activity.n_uses; u++) {
        const struct fluid_use *use = &x->activity.uses[u];

        if (use->kind != (uint32_t)r)
            continue;
        for (uint32_t i = 0; i < use->n_only; i++)
            if (use->only[i].instance == instance)
                return use->only[i].amount * x->activity.work;
        return use->every * x->activity.work;
    }
    return 0;
}

static void compare(uint32_t seed, bool fold)
{
    const struct instance at = {0};
    const struct coll_activity *x;
    struct coll_cache k;

    coll_cache_init(&k, &prog, &cl, NULL);
    if (fold)
        coll_cache_fold(&k);
    x = coll_get(&k, &op, &at, algo);
    pair_by_pair(&k.fabric);
    for (int r = RESOURCE_NVLINK_TX; r < RESOURCE_N; r++)
        for (uint32_t i = 0; i < coll_instances(&k.fabric, (enum sim_resource)r); i++) {
            double is = amount(x, (enum sim_resource)r, i);

            MUST(fabs(is - want[r][i]) <= 1e-9 * want[r][i],
                 "seed %u: %s %u carries %.17g bytes, its routes %.17g", seed,
                 sim_resource_name((enum sim_resource)r), i, is, want[r][i]);
        }
    coll_cache_release(&k);
}

/* ---- worlds ---- */

static void make(uint32_t gpn, uint32_t world)
{
    plans_ideal_cluster(&cl, gpn, world);
    prog = (struct program){.world = world,
                            .gpus_per_node = gpn,
                            .n_micro = 1,
                            .groups = &group,
                            .n_groups = 1,
                            .segment_tables = &table,
                            .n_segment_tables = 1};
    group = (struct group){
        .name = "g", .n_axes = 1, .size = {world}, .stride = {1}, .n_members = world};
    table = (struct segment_table){.n_units = 1, .start = start, .segments = segments};
    op = (struct op){.kind = OP_COLLECTIVE,
                     .loop = PROGRAM_NONE,
                     .coll = {.kind = COLL_SEGMENT_GATHER,
                              .wire = {.dtype = DTYPE_BF16},
                              .peer_op = PROGRAM_NONE}};
    algo = ALGO_P2P;
    start[1] = 1;
    segments[0] = (struct segment){.to_n = world, .elements = 500000};
}

/* NVLink joins some GPUs of a node only, and CPUs are far from each other. */
static void random_split(uint32_t gpn)
{
    uint32_t n = 1 + rng(gpn);

    while (gpn % n)
        n--;
    cl.domain_gpus = n;
    for (uint32_t g = 0; g < gpn; g++)
        cl.domain_of_gpu[g] = (uint8_t)(rng_state & 1 << 20 ? g / n : g % (gpn / n));
    cl.n_cpus = rng(3);
    cl.cpu_Bps = 4e9;
    for (uint32_t s = 0; cl.n_cpus && s < cl.pcie_switches; s++)
        cl.cpu_of_switch[s] = (uint8_t)rng(cl.n_cpus);
}

static void random_cluster(void)
{
    uint32_t gpn = 1 + rng(8), nodes = 2 + rng(4), world = gpn * nodes - (rng(2) ? 0 : rng(gpn));

    make(gpn, world);
    cl.nvswitch = rng(2);
    cl.rail_optimised = rng(3) > 0;
    cl.nics_per_node = rng(2) ? gpn : 1 + rng(8);
    for (uint32_t g = 0; g < gpn; g++)
        cl.nic_of_gpu[g] = (uint8_t)(rng(4) ? g % cl.nics_per_node : rng(cl.nics_per_node));
    cl.nodes_per_leaf = rng(4);
    cl.oversubscription = 1 + rng(2);
    if (rng(2)) {
        cl.pcie_switches = 1 + rng(4);
        cl.pcie_Bps = 5e9;
        for (uint32_t g = 0; g < gpn; g++)
            cl.switch_of_gpu[g] = (uint8_t)rng(cl.pcie_switches);
        for (uint32_t n = 0; n < cl.nics_per_node; n++)
            cl.switch_of_nic[n] = (uint8_t)rng(cl.pcie_switches);
    }
    if (cl.pcie_switches && rng(2))
        random_split(gpn);
}

/* The world, a family of neighbours or of ranks apart, halves of pairs of nodes, or some ranks. */
static void random_group(void)
{
    uint32_t world = prog.world, n = 1 + rng(world), kind = rng(5);

    while (world % n)
        n--;
    if (kind == 1 && n > 1)
        group = (struct group){.n_axes = 1, .size = {n}, .stride = {1}, .n_members = n};
    if (kind == 2 && n < world)
        group =
            (struct group){.n_axes = 1, .size = {world / n}, .stride = {n}, .n_members = world / n};
    if (kind == 3 && world % 4 == 0)
        group =
            (struct group){.n_axes = 2, .size = {2, 2}, .stride = {1, world / 2}, .n_members = 4};
    if (kind == 4) {
        group = (struct group){.members = listed};
        for (uint32_t r = 0; r < world; r++)
            if (rng(2) || world - r + group.n_members <= 2)
                listed[group.n_members++] = r;
    }
}

static void random_call(void)
{
    static const enum coll_kind kinds[] = {COLL_SEGMENT_GATHER, COLL_SEGMENT_REDUCE,
                                           COLL_ALL_TO_ALL, COLL_SEND};
    uint32_t n = group.n_members;
    bool ranges = rng(4) == 0 && n > 2;

    op.coll.kind = kinds[rng(4)];
    op.coll.elements = (2 * (1 + rng(1000000))) / 2;
    op.coll.repeat = rng(3);
    algo = rng(2) && !ranges ? ALGO_HIERARCHICAL : ALGO_P2P;
    if (cl.domain_gpus ||
        cl.n_cpus) /* relays go on to the nearest GPU: tests/sim/test_links_node.c */
        algo = ALGO_P2P;
    start[1] = 1 + rng(MAX_SEGMENTS);
    for (uint32_t s = 0; s < start[1]; s++) {
        uint32_t first = ranges ? rng(n - 1) : 0,
                 to_n = ranges ? 1 + rng((uint32_t)num_min(n - first, n - 1)) : n;

        segments[s] = (struct segment){.root = first + rng(to_n),
                                       .to_first = first,
                                       .to_n = to_n,
                                       .tensor = s,
                                       .elements = 1 + rng(1000000)};
    }
}

START_TEST(links_carry_what_the_routes_of_all_pairs_carry)
{
    for (uint32_t seed = 1; seed <= SEEDS; seed++) {
        rng_state = seed;
        arena_init(&arena);
        random_cluster();
        random_group();
        random_call();
        compare(seed, false);
        arena_release(&arena);
    }
}
END_TEST

/* Of what is tried, whatever is left out early because its bytes alone take longer. */
START_TEST(auto_takes_the_fastest_of_four)
{
    static const enum coll_algo four[] = {ALGO_RING, ALGO_TREE, ALGO_P2P, ALGO_HIERARCHICAL};
    const struct instance at = {0};
    uint32_t taken[ALGO_N] = {0};

    for (uint32_t seed = 1; seed <= SEEDS / 4; seed++) {
        int64_t best = INT64_MAX;
        struct coll_cache k;

        rng_state = seed;
        arena_init(&arena);
        random_cluster();
        random_group();
        random_call();
        op.coll.kind = rng(2) ? COLL_SEGMENT_GATHER : COLL_SEGMENT_REDUCE;
        for (int i = 0; i < PROTOCOL_N; i++)
            cl.coll.net_step_s[i] = rng(3) * 1e-5;
        coll_cache_init(&k, &prog, &cl, NULL);
        for (int i = 0; i < 4; i++)
            best = (int64_t)num_min((uint64_t)best,
                                    (uint64_t)coll_get(&k, &op, &at, four[i])->alone_ps);
        MUST(coll_get(&k, &op, &at, ALGO_AUTO)->alone_ps == best, "seed %u", seed);
        taken[coll_get(&k, &op, &at, ALGO_AUTO)->algo]++;
        coll_cache_release(&k);
        arena_release(&arena);
    }
    for (int i = 0; i < 4; i++)
        ck_assert_uint_gt(taken[four[i]], 0);
}
END_TEST

/* Shard groups of two in nodes of four: copies of a shard are ranks 0 and 2 of every node, so that one rail's sender has receivers
 * on the other's. A folded cache says the same. */
START_TEST(a_folded_cache_says_the_same)
{
    arena_init(&arena);
    make(4, 16);
    cl.rail_optimised = true;
    prog.distinct = 2;
    group = (struct group){.n_axes = 1, .size = {8}, .stride = {2}, .n_members = 8};
    segments[0].to_n = 8;
    segments[0].root = 1;
    for (int fold = 0; fold < 2; fold++) {
        op.coll.kind = COLL_SEGMENT_GATHER;
        compare(0, fold);
        op.coll.kind = COLL_ALL_TO_ALL;
        op.coll.elements = (160000) / 2;
        compare(0, fold);
    }
    arena_release(&arena);
}
END_TEST

/* ---- by hand ---- */

static const struct coll_activity *get(struct coll_cache *k)
{
    const struct instance at = {0};

    coll_cache_init(k, &prog, &cl, NULL);
    return coll_get(k, &op, &at, algo);
}

/* Rank 3 of 64, 8 NICs a node, sends 1 MB to each of the others: 7 in its node, 56 to 7 other nodes. On rails each NIC of its node
 * sends 7 MB, one to each node, and 7 of them come over NVLink from rank 3: 7 + 49 MB leave it. Without, its own NIC sends all. */
START_TEST(an_owners_fan_out_leaves_by_the_receivers_rails)
{
    for (int rails = 0; rails < 2; rails++) {
        const struct coll_activity *x;
        struct coll_cache k;

        arena_init(&arena);
        make(8, 64);
        cl.rail_optimised = rails;
        segments[0].root = 3;
        x = get(&k);
        for (uint32_t n = 0; n < 64; n++) {
            bool own = n == 3, here = n < 8;

            ck_assert_double_eq_tol(amount(x, RESOURCE_NIC_TX, n) / 1e6,
                                    rails ? 7 * here
                                    : own ? 56
                                          : 0,
                                    1e-9);
            ck_assert_double_eq_tol(amount(x, RESOURCE_NIC_RX, n) / 1e6, !here, 1e-9);
            ck_assert_double_eq_tol(amount(x, RESOURCE_NVLINK_TX, n) / 1e6,
                                    own ? 7 + 49 * rails : 0, 1e-9);
            ck_assert_double_eq_tol(amount(x, RESOURCE_NVLINK_RX, n) / 1e6,
                                    here && !own ? 1 + 7 * rails : 0, 1e-9);
        }
        /* 56 MB at 10 GB/s, or 56 MB at NVLink's 100 GB/s, which is then busier than 7 MB at 10 GB/s */
        ck_assert_int_eq(x->alone_ps, rails ? INT64_C(700000000) : INT64_C(5600000000));
        coll_cache_release(&k);
        arena_release(&arena);
    }
}
END_TEST

/* Two nodes of four, 80 kB: parts of 10 kB. A rank sends 3 in its node and 4 to the other, three of them by other ranks' NICs: 60 kB
 * leave it over NVLink and 60 come in, 30 of them on the way to its NIC, which sends 40 and receives 40. */
START_TEST(in_an_all_to_all_a_gpu_relays_for_its_neighbours)
{
    const struct coll_activity *x;
    struct coll_cache k;

    arena_init(&arena);
    make(4, 8);
    cl.rail_optimised = true;
    op.coll.kind = COLL_ALL_TO_ALL;
    op.coll.elements = (80000) / 2;
    x = get(&k);
    for (uint32_t r = 0; r < 8; r++) {
        ck_assert_double_eq_tol(amount(x, RESOURCE_NVLINK_TX, r), 60000, 1e-6);
        ck_assert_double_eq_tol(amount(x, RESOURCE_NVLINK_RX, r), 60000, 1e-6);
        ck_assert_double_eq_tol(amount(x, RESOURCE_NIC_TX, r), 40000, 1e-6);
        ck_assert_double_eq_tol(amount(x, RESOURCE_NIC_RX, r), 40000, 1e-6);
        ck_assert_uint_eq(traffic_get(&x->traffic, r).sent_intra, 30000); /* its own alone */
        ck_assert_uint_eq(traffic_get(&x->traffic, r).sent_inter, 40000);
    }
    for (uint32_t u = 0; u < x->activity.n_uses; u++) /* all alike: no rank is singled out */
        ck_assert_uint_eq(x->activity.uses[u].n_only, 0);
    coll_cache_release(&k);
    arena_release(&arena);
}
END_TEST

SUITE_MAIN("sim/links", links_carry_what_the_routes_of_all_pairs_carry,
           auto_takes_the_fastest_of_four, a_folded_cache_says_the_same,
           an_owners_fan_out_leaves_by_the_receivers_rails,
           in_an_all_to_all_a_gpu_relays_for_its_neighbours)
