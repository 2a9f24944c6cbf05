/* Predictions of whole steps: folded against unfolded runs, relabelled ranks, lower bounds, and times and memory
 * worked out by hand on a device and links without surprises (tests/layouts/plans.h). */
#include "sim/fluid.h"
#include "sim/sim.h"
#include "tests/layouts/plans.h"

#include "core/num.h"

#include <math.h>

static struct arena a;
static struct plan plan;
static struct program prog;
static struct prediction pr;
static struct err e;

static void predict(bool unfold)
{
    const struct sim_options o = {.unfold = unfold};

    MUST(sim_predict(&prog, &plan.cluster, &o, &a, &pr, &e) == 0, "%s", e.msg);
}

/* A cluster with everything that an ideal one leaves out. */
static void real_cluster(struct cluster *c)
{
    c->device.launch_s = 6e-6;
    c->device.kernel_s = 2e-6;
    c->device.n_sm = 108;
    c->device.collective_sms = 16;
    c->device.gemm_efficiency = 0.9;
    c->device.gemm_k0 = 100;
    c->device.hbm_efficiency = 0.85;
    c->device.context_bytes = 700 << 20;
    c->device.fragmentation = 0.03;
    c->nvlink_efficiency = 0.78;
    c->nic_efficiency = 0.95;
    c->nics_per_node = c->gpus_per_node > 1 ? c->gpus_per_node / 2 : 1;
    for (uint32_t i = 0; i < c->gpus_per_node; i++)
        c->nic_of_gpu[i] = (uint8_t)(i / 2 % c->nics_per_node);
    c->nodes_per_leaf = 4;
    c->oversubscription = 2;
    c->rail_optimised = c->gpus_per_node % 2 == 0;
    c->pcie_switches = 2; /* GPUs in turn, NICs in halves: some cross the root */
    c->pcie_Bps = 1.2e10;
    for (uint32_t i = 0; i < c->gpus_per_node; i++)
        c->switch_of_gpu[i] = (uint8_t)(i % 2);
    for (uint32_t i = 0; i < c->nics_per_node; i++)
        c->switch_of_nic[i] = (uint8_t)(2 * i / c->nics_per_node);
    for (int i = 0; i < PROTOCOL_N; i++) {
        c->coll.base_s[i] = 6e-6;
        c->coll.step_s[i] = 1e-6 * (i + 1);
        c->coll.net_step_s[i] = 3e-6 * (i + 1);
        c->coll.rate_share[i] = (i + 2) / 4.0;
    }
    c->coll.ramp_s = 2e-5;
    c->coll.ramp_at_s = 1e-4;
}

static void make(const char *model, const char *layout, const struct job *j, uint32_t world,
                 uint32_t gpn)
{
    arena_init(&a);
    plans_make(&plan, &a, model, layout, j, world, gpn);
    plans_lower(&plan, &a, &prog);
}

/* ---- folded and unfolded ---- */

static void same(const char *what, int64_t folded, int64_t unfolded)
{
    MUST(folded == unfolded, "%s, %u ranks, gather %s: %s folded %lld, unfolded %lld",
         plan.layout_full, plan.world, coll_algo_name(plan.job.gather), what, (long long)folded,
         (long long)unfolded);
}

static void fold_and_unfold(void)
{
    struct prediction folded;

    predict(false);
    folded = pr;
    predict(true);
    same("step", folded.step_ps, pr.step_ps);
    same("forward", folded.forward_ps, pr.forward_ps);
    same("backward", folded.backward_ps, pr.backward_ps);
    same("optimizer", folded.optimizer_ps, pr.optimizer_ps);
    same("compute", folded.compute_ps, pr.compute_ps);
    same("exposed", folded.exposed_comm_ps, pr.exposed_comm_ps);
    same("peak", (int64_t)folded.memory.peak_bytes, (int64_t)pr.memory.peak_bytes);
    same("least peak", (int64_t)folded.memory.min_peak_bytes, (int64_t)pr.memory.min_peak_bytes);
    same("fullest rank", folded.memory.rank, pr.memory.rank);
    for (int i = 0; i < MEM_PART_N; i++)
        same(mem_part_name((enum mem_part)i), (int64_t)folded.memory.parts[i],
             (int64_t)pr.memory.parts[i]);
    same("sent inside nodes", (int64_t)folded.bytes_max.sent_intra,
         (int64_t)pr.bytes_max.sent_intra);
    same("sent between nodes", (int64_t)folded.bytes_max.sent_inter,
         (int64_t)pr.bytes_max.sent_inter);
    same("sent in the step", (int64_t)folded.optimizer_bytes, (int64_t)pr.optimizer_bytes);
    MUST(folded.n_classes <= pr.n_classes && pr.n_classes == plan.world, "%u classes of %u ranks",
         folded.n_classes, pr.n_classes);
}

static const enum coll_algo all_algos[] = {ALGO_AUTO, ALGO_P2P,          ALGO_RING,
                                           ALGO_TREE, ALGO_HIERARCHICAL, ALGO_PADDED};

START_TEST(folded_equals_unfolded)
{
    static const uint32_t worlds[] = {1, 2, 3, 5, 7, 8, 16, 63};
    struct job j = plans_job();

    for (int l = 0; l < PLANS_N_LAYOUTS; l++)
        for (int w = 0; w < 8; w++)
            for (int k = 0; k < 6; k++) {
                j.gather = all_algos[k];
                if (k && strcmp(plans_layouts[l], "owner") != 0 &&
                    strcmp(plans_layouts[l], "zero1-owner") != 0)
                    continue;
                j.grad_accum = (uint64_t)w % 2 + 1;
                j.optimizer = k == 5 ? OPTIMIZER_SHAMPOO : OPTIMIZER_MUON;
                make(w % 2 ? "block" : "llama", plans_layouts[l], &j, worlds[w], w == 4 ? 3 : 8);
                real_cluster(&plan.cluster);
                fold_and_unfold();
                arena_release(&a);
            }
}
END_TEST

START_TEST(folded_equals_unfolded_with_buckets_and_experts)
{
    struct job j = plans_job();

    j.bucket_bytes = 5000;
    for (int l = 0; l < PLANS_N_LAYOUTS; l++)
        for (uint32_t w = 7; w < 13; w += 5) {
            make("moe", plans_layouts[l], &j, w, 8);
            real_cluster(&plan.cluster);
            fold_and_unfold();
            arena_release(&a);
        }
}
END_TEST

/* ---- sums, bounds, monotony ---- */

START_TEST(phases_and_paths_sum_to_the_step)
{
    struct job j = plans_job();

    for (int m = 0; m < PLANS_N_MODELS; m++)
        for (int l = 0; l < PLANS_N_LAYOUTS; l++) {
            int64_t path = 0, time = 0, waiting = 0;

            j.grad_accum = (uint64_t)m + 1;
            make(plans_models[m], plans_layouts[l], &j, 12, 8);
            real_cluster(&plan.cluster);
            predict(false);
            for (int i = 0; i < TIME_N; i++) {
                ck_assert_int_ge(pr.path_ps[i], 0);
                ck_assert_int_ge(pr.time_ps[i], 0);
                path += pr.path_ps[i];
                time += pr.time_ps[i];
            }
            for (int k = 0; k < PHASE_N * COLL_N; k++)
                waiting += pr.exposed_ps[k / COLL_N][k % COLL_N];
            ck_assert_int_eq(path, pr.step_ps);
            ck_assert_int_eq(time, pr.step_ps);
            ck_assert_int_eq(waiting, pr.time_ps[TIME_GATHER] + pr.time_ps[TIME_REDUCE] +
                                          pr.time_ps[TIME_REFRESH]);
            ck_assert_int_eq(pr.forward_ps + pr.backward_ps + pr.optimizer_ps, pr.step_ps);
            ck_assert_int_eq(pr.compute_ps + pr.exposed_comm_ps, pr.step_ps);
            arena_release(&a);
        }
}
END_TEST

struct kernels {
    double s;
};

static int add_kernel(void *ctx, const struct instance *i)
{
    const struct op *o = &prog.ops[i->op];
    struct kernel_call k = op_call(&prog, o, i->item);

    if (o->kind == OP_COMPUTE)
        ((struct kernels *)ctx)->s +=
            (double)sim_kernel_time(&plan.cluster.device, NULL, &k).alone_ps;
    return 0;
}

/* No rank computes faster than its kernels alone, no port carries more than its rate. */
START_TEST(a_step_lasts_at_least_what_its_busiest_parts_need)
{
    static const uint32_t worlds[] = {2, 8, 12, 63};
    struct job j = plans_job();

    for (int l = 0; l < PLANS_N_LAYOUTS; l++)
        for (int w = 0; w < 4; w++)
            for (int k = 0; k < 6; k++) {
                struct traffic_bytes *rank = MEM_NEW(struct traffic_bytes, worlds[w]);
                double most = 0;

                j.gather = all_algos[k];
                make("llama", plans_layouts[l], &j, worlds[w], 8);
                predict(false);
                for (uint32_t r = 0; r < plan.world; r++) {
                    struct kernels x = {0};

                    program_walk(&prog, r, add_kernel, &x);
                    most = fmax(most, x.s);
                }
                MUST((double)pr.step_ps >= most * (1 - 1e-9), "%s: %lld ps, kernels alone %g",
                     plan.layout_full, (long long)pr.step_ps, most);
                if (j.gather != ALGO_AUTO) { /* the segments' algorithm: only where all use it */
                    traffic_step(&prog, ~0u, NULL, NULL, rank);
                    for (uint32_t r = 0; r < plan.world; r++) {
                        most = fmax(most, (double)rank[r].sent_intra / 1e11 * 1e12);
                        most = fmax(most, (double)rank[r].recv_intra / 1e11 * 1e12);
                        most = fmax(most, (double)rank[r].sent_inter / 1e10 * 1e12);
                        most = fmax(most, (double)rank[r].recv_inter / 1e10 * 1e12);
                    }
                    MUST((double)pr.step_ps >= most * (1 - 1e-9), "%s %s: %lld ps, busiest port %g",
                         plan.layout_full, coll_algo_name(j.gather), (long long)pr.step_ps, most);
                }
                mem_free(rank);
                arena_release(&a);
            }
}
END_TEST

/* What a prediction says was sent is what the program sends. */
START_TEST(bytes_are_those_of_the_program)
{
    struct traffic_bytes rank[12], update[12], most;
    struct job j = plans_job();

    for (int l = 0; l < PLANS_N_LAYOUTS; l++)
        for (int k = 1; k < 6; k++) {
            uint64_t optimizer = 0;

            j.gather = all_algos[k];
            make("llama", plans_layouts[l], &j, 12, 8);
            predict(false);
            traffic_step(&prog, ~0u, NULL, NULL, rank);
            traffic_step(&prog, 1u << PHASE_OPTIMIZER | 1u << PHASE_REFRESH, NULL, NULL, update);
            most = rank[0];
            for (int r = 0; r < 12; r++) {
                most.sent_intra = num_max(most.sent_intra, rank[r].sent_intra);
                most.sent_inter = num_max(most.sent_inter, rank[r].sent_inter);
                most.recv_intra = num_max(most.recv_intra, rank[r].recv_intra);
                most.recv_inter = num_max(most.recv_inter, rank[r].recv_inter);
                optimizer = num_max(optimizer, update[r].sent_intra + update[r].sent_inter);
            }
            ck_assert_uint_eq(pr.bytes_max.sent_intra, most.sent_intra);
            ck_assert_uint_eq(pr.bytes_max.sent_inter, most.sent_inter);
            ck_assert_uint_eq(pr.bytes_max.recv_intra, most.recv_intra);
            ck_assert_uint_eq(pr.bytes_max.recv_inter, most.recv_inter);
            ck_assert_uint_eq(pr.optimizer_bytes, optimizer);
            arena_release(&a);
        }
}
END_TEST

/* c22: no input may be ignored silently. Two nodes under two leaves; each change must lengthen the step of some layout
 * and shorten that of none. */
#define EACH(array, by)                                                                            \
    do {                                                                                           \
        for (int k = 0; k < PROTOCOL_N; k++)                                                       \
            (array)[k] *= (by);                                                                    \
    } while (0)
#define CHANGES(X)                                                                                 \
    X(plan.cluster.nvlink_Bps /= 10)                                                               \
    X(plan.cluster.nvlink_efficiency /= 10)                                                        \
    X(plan.cluster.nic_Bps /= 10)                                                                  \
    X(plan.cluster.nic_efficiency /= 10)                                                           \
    X(plan.cluster.nics_per_node = 1; memset(plan.cluster.nic_of_gpu, 0, 8))                       \
    X(plan.cluster.oversubscription *= 40)                                                         \
    X(plan.cluster.hop_s *= 1000)                                                                  \
    X(plan.cluster.device.peak_flops /= 10)                                                        \
    X(plan.cluster.device.hbm_Bps /= 10)                                                           \
    X(plan.cluster.device.attention_flops /= 10)                                                   \
    X(plan.cluster.device.n_sm /= 100; plan.cluster.device.peak_flops /= 100)                      \
    X(plan.cluster.device.gemm_efficiency /= 10)                                                   \
    X(plan.cluster.device.gemm_k0 *= 100)                                                          \
    X(plan.cluster.device.hbm_efficiency /= 10)                                                    \
    X(plan.cluster.device.kernel_rate[KERNEL_ADD] = 1e9)                                           \
    X(plan.cluster.device.kernel_rate[KERNEL_ATTENTION_BACKWARD] = 1e9)                            \
    X(plan.cluster.device.sustained_factor *= 10)                                                  \
    X(plan.cluster.device.launch_s *= 1000)                                                        \
    X(plan.cluster.device.kernel_s *= 100)                                                         \
    X(EACH(plan.cluster.coll.base_s, 100))                                                         \
    X(EACH(plan.cluster.coll.step_s, 100))                                                         \
    X(EACH(plan.cluster.coll.net_step_s, 100))                                                     \
    X(EACH(plan.cluster.coll.rate_share, 0.1))                                                     \
    X(plan.cluster.coll.ramp_s *= 100)                                                             \
    X(plan.cluster.coll.ramp_at_s /= 100)                                                          \
    X(plan.job.seq_len *= 4)                                                                       \
    X(plan.job.micro_batch *= 4)                                                                   \
    X(plan.job.grad_accum *= 4)                                                                    \
    X(plan.job.ns_steps *= 4)                                                                      \
    X(plan.job.prefetch = 0)                                                                       \
    X(plan.job.bucket_bytes /= 1024)                                                               \
    X(plan.job.param_dtype = DTYPE_FP32)                                                           \
    X(plan.job.grad_dtype = DTYPE_FP32)                                                            \
    X(plan.job.recompute = RECOMPUTE_FULL)                                                         \
    X(plan.job.gather = ALGO_PADDED)                                                               \
    X(plan.job.adamw = ADAMW_FOREACH)

static void mixed(const char *layout)
{
    struct job j = plans_job();

    j.recompute = RECOMPUTE_NONE;
    j.bucket_bytes = 1 << 20;
    j.gather = ALGO_RING;
    make("block:layers=3,hidden=512,ffn=2048,heads=8,mlp=swiglu,vocab=2000", layout, &j, 16, 8);
    real_cluster(&plan.cluster);
    plan.cluster.nodes_per_leaf = 1;
    plan.cluster.hop_s = 1e-6;
    plan.cluster.device.launch_s = 1e-7;
    plan.cluster.device.kernel_s = 1e-6;
    plan.cluster.device.attention_flops = 1e12;
    plan.cluster.device.hbm_Bps = 2e11;
    plan.cluster.coll.rate_share[PROTOCOL_LL] = 0.1; /* so that Simple, with its ramp, is taken */
    plan.cluster.coll.rate_share[PROTOCOL_LL128] = 0.2;
}

START_TEST(no_input_is_ignored)
{
    int64_t before[PLANS_N_LAYOUTS];

    for (int l = 0; l < PLANS_N_LAYOUTS; l++) {
        mixed(plans_layouts[l]);
        predict(false);
        before[l] = pr.step_ps;
        arena_release(&a);
    }
#define X(change)                                                                                  \
    {                                                                                              \
        int longer = 0;                                                                            \
                                                                                                   \
        for (int l = 0; l < PLANS_N_LAYOUTS; l++) {                                                \
            mixed(plans_layouts[l]);                                                               \
            change;                                                                                \
            plans_lower(&plan, &a, &prog);                                                         \
            predict(false);                                                                        \
            ck_assert_msg(pr.step_ps >= before[l], "%s: '%s' shortens %lld to %lld",               \
                          plan.layout_full, #change, (long long)before[l], (long long)pr.step_ps); \
            longer += pr.step_ps > before[l];                                                      \
            arena_release(&a);                                                                     \
        }                                                                                          \
        ck_assert_msg(longer > 0, "'%s' changes nothing", #change);                                \
    }
    CHANGES(X)
#undef X
}
END_TEST

/* Ranks are names: rotating a node's GPUs, or whole nodes, moves owners and nothing else. */
static void rotate(uint32_t by)
{
    for (uint32_t i = 0; i < plan.model.n_tensors; i++)
        if (plan.place[i].rule == PLACE_OWNER)
            plan.place[i].owner = (plan.place[i].owner + by) % plan.world;
    plans_lower(&plan, &a, &prog);
}

START_TEST(relabelled_ranks_change_nothing)
{
    static const char *const layouts[] = {"owner", "zero1-owner"};
    static const struct {
        uint32_t world, by;
    } cases[] = {{4, 1}, {8, 3}, {7, 5}, {16, 8}, {24, 16}};
    struct job j = plans_job();

    for (int l = 0; l < 2; l++)
        for (int c = 0; c < 5; c++)
            for (int k = 0; k < 6; k++) {
                int64_t step;
                uint64_t peak;

                j.gather = all_algos[k];
                make("block", layouts[l], &j, cases[c].world, 8);
                real_cluster(&plan.cluster);
                plan.cluster.nodes_per_leaf = 0;
                predict(false);
                step = pr.step_ps;
                peak = pr.memory.peak_bytes;
                rotate(cases[c].by);
                predict(false);
                ck_assert_msg(step == pr.step_ps, "%s %s, %u ranks: %lld, rotated by %u %lld",
                              plan.layout_full, coll_algo_name(j.gather), plan.world,
                              (long long)step, cases[c].by, (long long)pr.step_ps);
                ck_assert_uint_eq(peak, pr.memory.peak_bytes);
                arena_release(&a);
            }
}
END_TEST

/* ---- one collective ---- */

static struct group group;
static struct op op;

static void one_collective(uint32_t world, uint32_t gpn)
{
    memset(&plan, 0, sizeof(plan));
    memset(&prog, 0, sizeof(prog));
    memset(&op, 0, sizeof(op));
    plans_ideal_cluster(&plan.cluster, gpn, world);
    group = (struct group){
        .name = "world", .n_axes = 1, .size = {world}, .stride = {1}, .n_members = world};
    prog = (struct program){
        .world = world, .gpus_per_node = gpn, .n_micro = 1, .groups = &group, .n_groups = 1};
    op.kind = OP_COLLECTIVE;
    op.coll = (struct collective){.kind = COLL_ALL_GATHER,
                                  .wire = DTYPE_BF16,
                                  .table = PROGRAM_NONE,
                                  .peer_op = PROGRAM_NONE};
}

static int64_t alone(enum coll_algo algo)
{
    const struct instance i = {0};

    return sim_collective_ps(&prog, &plan.cluster, &op, &i, algo);
}

/* The same ring as flows between neighbours: in step s host i passes on what host i-1 gave it in step s-1. */
static int64_t ring_of_flows(uint32_t n, double chunk, double bw_Bps, int64_t latency_ps)
{
    struct fluid *f = fluid_new();
    struct fluid_use *uses = MEM_NEW(struct fluid_use, 2 * n);
    struct fluid_amount *one = MEM_NEW(struct fluid_amount, n);
    uint32_t tx = fluid_kind(f, "tx", n, bw_Bps / 1e12), rx = fluid_kind(f, "rx", n, bw_Bps / 1e12);
    int64_t end;

    for (uint32_t i = 0; i < n; i++)
        one[i] = (struct fluid_amount){i, 1};
    for (uint32_t i = 0; i < n; i++) {
        uses[2 * i] = (struct fluid_use){.kind = tx, .n_only = 1, .only = &one[i]};
        uses[2 * i + 1] = (struct fluid_use){.kind = rx, .n_only = 1, .only = &one[(i + 1) % n]};
    }
    for (uint32_t s = 0; s + 1 < n; s++)
        for (uint32_t i = 0; i < n; i++) {
            const struct fluid_activity x = {
                .latency_ps = latency_ps, .work = chunk, .uses = &uses[2 * i], .n_uses = 2};
            uint32_t id = fluid_add(f, &x, 0);

            if (s) {
                fluid_after(f, id, id - n);                        /* own port */
                fluid_after(f, id, (s - 1) * n + (i + n - 1) % n); /* what to pass on */
            }
        }
    ck_assert(fluid_run(f, &e) == 0);
    end = fluid_makespan_ps(f);
    fluid_free(f);
    mem_free(uses);
    mem_free(one);
    return end;
}

/* The ring oracle: (n-1) (c/bw + hops*latency), as one activity and as flows, to the picosecond. */
START_TEST(ring_all_gather_takes_what_its_flows_take)
{
    for (uint32_t n = 2; n <= 16; n++) {
        const uint64_t chunk = 1000000;
        const int64_t hop_ps = 700000, hops = 3;
        int64_t nvlink =
                    (int64_t)(n - 1) * (10000000 + hops * hop_ps), /* 1 MB at 100 GB/s: 10 us */
            nic = (int64_t)(n - 1) * (100000000 + hops * hop_ps);  /* at 10 GB/s: 100 us */

        arena_init(&a);
        one_collective(n, 16);
        op.coll.bytes = n * chunk;
        for (int i = 0; i < PROTOCOL_N; i++)
            plan.cluster.coll.step_s[i] = plan.cluster.coll.net_step_s[i] = 2.1e-6;
        ck_assert_int_eq(alone(ALGO_RING), nvlink);
        ck_assert_int_eq(ring_of_flows(n, (double)chunk, 1e11, hops * hop_ps), nvlink);
        one_collective(n, 1);
        op.coll.bytes = n * chunk;
        for (int i = 0; i < PROTOCOL_N; i++)
            plan.cluster.coll.step_s[i] = plan.cluster.coll.net_step_s[i] = 2.1e-6;
        ck_assert_int_eq(alone(ALGO_RING), nic);
        ck_assert_int_eq(ring_of_flows(n, (double)chunk, 1e10, hops * hop_ps), nic);
        arena_release(&a);
    }
}
END_TEST

/* An owner that sends a 4096 x 16384 matrix to 63 ranks itself is bound by its own port: 63 x 134 MB at 10 GB/s are
 * 0.85 s; a ring passes 134 MB along, 13 ms. In nodes of 8, 56 of the 63 are outside. */
START_TEST(an_owner_that_sends_to_63_ranks_is_bound_by_its_port)
{
    static const struct segment s[] = {{.root = 5, .to_n = 64, .bytes = 134217728}};
    static const uint32_t start[] = {0, 1};
    static const struct segment_table t = {.n_units = 1, .start = start, .segments = s};

    for (uint32_t gpn = 1; gpn <= 8; gpn *= 8) {
        double outside = 64 - gpn, p2p;

        arena_init(&a);
        one_collective(64, gpn);
        prog.segment_tables = (struct segment_table *)(uintptr_t)&t;
        prog.n_segment_tables = 1;
        op.coll.kind = COLL_SEGMENT_GATHER;
        op.coll.table = 0;
        p2p = (double)alone(ALGO_P2P) / 1e12;
        ck_assert_double_ge(p2p, outside * 134217728 / 1e10);
        ck_assert_double_le(p2p, 1.0001 * outside * 134217728 / 1e10);
        ck_assert_double_le((double)alone(ALGO_RING) / 1e12, 1.1 * 134217728 / 1e10);
        ck_assert_int_lt(alone(ALGO_RING) * 40, alone(ALGO_P2P));
        ck_assert_int_le(alone(ALGO_AUTO), alone(ALGO_RING));
        /* padded: 64 equal parts of 134 MB, nearly what p2p moves */
        ck_assert_int_gt(alone(ALGO_PADDED), 6 * alone(ALGO_RING));
        arena_release(&a);
    }
}
END_TEST

/* 8 nodes of 8, a step of 1 us in a node and of 10 us between nodes. The longest way: 7 steps around the root's node, 3 edges
 * down the trees (8 nodes), 7 around the last node: 44 us. Every NIC carries an eighth of 128 MiB at 10 GB/s: 1677.7216 us;
 * NVLink less, 128 MiB at 100 GB/s. On leaves of two nodes four edges of the pair leave one (tests/model/test_tree.c), each
 * with half of the bytes: 256 MiB through an up-link of 2 x 8 x 10 GB/s / 16 = 10 GB/s. In one node: 7 steps, NVLink. */
START_TEST(a_tree_takes_its_longest_way_and_its_fullest_link)
{
    static struct segment s[] = {{.root = 5, .to_n = 64, .bytes = 134217728}};
    static const uint32_t start[] = {0, 1};
    static const struct segment_table t = {.n_units = 1, .start = start, .segments = s};

    for (int k = 0; k < 3; k++) {
        static const int64_t want[] = {44000000 + 1677721600, 44000000 + INT64_C(26843545600),
                                       7000000 + 1342177280};

        arena_init(&a);
        s[0].to_n = k < 2 ? 64 : 8;
        one_collective(s[0].to_n, 8);
        prog.segment_tables = (struct segment_table *)(uintptr_t)&t;
        prog.n_segment_tables = 1;
        op.coll.kind = COLL_SEGMENT_GATHER;
        op.coll.table = 0;
        for (int i = 0; i < PROTOCOL_N; i++) {
            plan.cluster.coll.step_s[i] = 1e-6;
            plan.cluster.coll.net_step_s[i] = 1e-5;
        }
        plan.cluster.nodes_per_leaf = k == 1 ? 2 : 0;
        plan.cluster.oversubscription = k == 1 ? 16 : 1;
        ck_assert_int_eq(alone(ALGO_TREE), want[k]);
        arena_release(&a);
    }
}
END_TEST

/* 16 nodes of one GPU, leaves of 4, up-links of 4 x 10 GB/s / 100 = 400 MB/s. An owner sends 1 MB to 15 nodes itself, 12 of
 * them under other leaves: 12 MB through its leaf's up-link are 30 ms (its own NIC takes 1.5). Reductions come down there. */
START_TEST(direct_sends_leave_through_the_owners_leaf)
{
    static const struct segment s[] = {{.root = 5, .to_n = 16, .bytes = 1000000}};
    static const uint32_t start[] = {0, 1};
    static const struct segment_table t = {.n_units = 1, .start = start, .segments = s};

    for (int reduce = 0; reduce < 2; reduce++) {
        arena_init(&a);
        one_collective(16, 1);
        prog.segment_tables = (struct segment_table *)(uintptr_t)&t;
        prog.n_segment_tables = 1;
        op.coll.kind = reduce ? COLL_SEGMENT_REDUCE : COLL_SEGMENT_GATHER;
        op.coll.table = 0;
        plan.cluster.nodes_per_leaf = 4;
        plan.cluster.oversubscription = 100;
        ck_assert_int_eq(alone(ALGO_P2P), INT64_C(30000000000));
        ck_assert_int_eq(alone(ALGO_HIERARCHICAL), INT64_C(30000000000));
        arena_release(&a);
    }
}
END_TEST

/* 16 nodes of two GPUs, a NIC each, leaves of 4 nodes. The owner's 24 MB to the 12 nodes elsewhere: without rails its leaf has
 * the up-links of 8 NICs, 800 MB/s, 30 ms. On rails all leave over the leaf of its own NIC, half of that: 60 ms. */
START_TEST(a_rail_is_a_leaf_of_its_own)
{
    static const struct segment s[] = {{.root = 5, .to_n = 32, .bytes = 1000000}};
    static const uint32_t start[] = {0, 1};
    static const struct segment_table t = {.n_units = 1, .start = start, .segments = s};

    for (int rails = 0; rails < 2; rails++) {
        arena_init(&a);
        one_collective(32, 2);
        prog.segment_tables = (struct segment_table *)(uintptr_t)&t;
        prog.n_segment_tables = 1;
        op.coll.kind = COLL_SEGMENT_GATHER;
        op.coll.table = 0;
        plan.cluster.nodes_per_leaf = 4;
        plan.cluster.oversubscription = 100;
        plan.cluster.rail_optimised = rails;
        ck_assert_int_eq(alone(ALGO_P2P), INT64_C(30000000000) * (rails + 1));
        arena_release(&a);
    }
}
END_TEST

/* 2 nodes of 4 GPUs, all-gather of 8 MB by a ring on rails: each GPU sends 7/4 MB to the other node. */
START_TEST(pcie_bounds_what_leaves_a_node)
{
    struct cluster *c = &plan.cluster;

    arena_init(&a);
    one_collective(8, 4);
    op.coll.bytes = 8000000;
    ck_assert_int_eq(alone(ALGO_RING), 175000000); /* NICs of 10 GB/s */
    c->pcie_switches = 2;
    c->pcie_Bps = 7e9;
    for (int i = 0; i < 4; i++)
        c->switch_of_gpu[i] = c->switch_of_nic[i] = (uint8_t)(i / 2);
    ck_assert_int_eq(alone(ALGO_RING), 250000000); /* 1.75 MB at 7 GB/s */
    /* GPUs 0, 1 use the NICs of 2, 3 and the other way round. A switch's link to the root carries what its two GPUs send and
     * what its two NICs receive: 7 MB */
    c->pcie_Bps = 2e10;
    for (int i = 0; i < 4; i++)
        c->nic_of_gpu[i] = (uint8_t)(i ^ 2);
    ck_assert_int_eq(alone(ALGO_RING), 350000000);
    /* two GPUs to a NIC: 3.5 MB at 10 GB/s, and nothing over the root */
    for (int i = 0; i < 4; i++)
        c->nic_of_gpu[i] = (uint8_t)(i & 2);
    ck_assert_int_eq(alone(ALGO_RING), 350000000);
    arena_release(&a);
}
END_TEST

/* All 8 GPUs of one node own something and reduce to owners: nothing passes a NIC. Owner 0 receives 7 x 8 MB at 100 GB/s. */
START_TEST(inside_a_node_no_nic_counts_when_all_own_something)
{
    static struct segment s[8];
    static const uint32_t start[] = {0, 8};
    static const struct segment_table t = {.n_units = 1, .start = start, .segments = s};

    arena_init(&a);
    one_collective(8, 8);
    for (uint32_t r = 0; r < 8; r++)
        s[r] = (struct segment){.root = r, .to_n = 8, .bytes = r ? 1000000 : 8000000, .tensor = r};
    prog.segment_tables = (struct segment_table *)(uintptr_t)&t;
    prog.n_segment_tables = 1;
    op.coll.kind = COLL_SEGMENT_REDUCE;
    op.coll.table = 0;
    ck_assert_int_eq(alone(ALGO_P2P), 560000000);
    op.coll.kind = COLL_SEGMENT_GATHER;
    ck_assert_int_eq(alone(ALGO_P2P), 560000000);
    arena_release(&a);
}
END_TEST

/* Cut matrices are gathered by neighbours, all at once. Two ranges inside a node: no step between nodes, though the
 * group has two. One more range across the boundary of the nodes: one step, and the bytes of the first on a NIC. */
START_TEST(a_range_takes_the_steps_that_it_spans)
{
    static const struct segment s[] = {
        {.root = 2, .to_first = 2, .to_n = 3, .bytes = 3000},
        {.root = 8, .to_first = 8, .to_n = 2, .tensor = 1, .bytes = 10},
        {.root = 7, .to_first = 7, .to_n = 2, .tensor = 2, .bytes = 3000}};
    static uint32_t start[] = {0, 2};
    static const struct segment_table t = {.n_units = 1, .start = start, .segments = s};

    arena_init(&a);
    one_collective(16, 8);
    prog.segment_tables = (struct segment_table *)(uintptr_t)&t;
    prog.n_segment_tables = 1;
    op.coll.kind = COLL_SEGMENT_GATHER;
    op.coll.table = 0;
    for (int i = 0; i < PROTOCOL_N; i++)
        plan.cluster.coll.net_step_s[i] = 1e-3;
    ck_assert_int_eq(alone(ALGO_P2P), 60000); /* 2 x 3000 bytes out at 100 GB/s */
    ck_assert_int_eq(alone(ALGO_RING), 30000);
    start[1] = 3;
    ck_assert_int_eq(alone(ALGO_RING), 1000000000 + 300000);
    ck_assert_int_eq(alone(ALGO_TREE), 1000000000 + 300000);
    start[1] = 2;
    arena_release(&a);
}
END_TEST

/* ---- toy steps by hand ---- */

static struct unit toy_units[2];
static struct unit_class toy_class = {.kind = UNIT_LAYER, .name = "layer"};
static struct model toy_model = {
    .name = "toy", .units = toy_units, .classes = &toy_class, .n_units = 2, .n_classes = 1};

/* Forward of two units on two ranks: gather 8000 bytes (4000 from each side at 100 GB/s: 40 ns), then a GEMM of a tile an SM
 * whose k says how many times 10 ns it takes. `prefetch` units are gathered ahead. */
static uint32_t toy_collective_sms;

static void toy(uint32_t k, int32_t prefetch)
{
    struct program_builder b;
    uint32_t world, gather, begin, end;
    struct op o = {.guard = {.unit_class = PROGRAM_NONE}, .phase = PHASE_FORWARD};

    arena_init(&a);
    memset(&plan, 0, sizeof(plan));
    memset(&prog, 0, sizeof(prog));
    plans_ideal_cluster(&plan.cluster, 8, 2);
    plan.cluster.device.peak_flops = 2.62144e13; /* four SMs, 4 * 2*256*128*k FLOP: k * 10 ns */
    plan.cluster.device.n_sm = 4;
    plan.cluster.device.collective_sms = toy_collective_sms;
    plan.cluster.device.hbm_Bps = 1e18;
    plan.world = prog.world = 2;
    prog.model = &toy_model;
    prog.gpus_per_node = 8;
    prog.n_micro = 1;
    program_builder_init(&b, &prog, &a);
    world = program_add_group(
        &b,
        &(struct group){.name = "world", .n_axes = 1, .size = {2}, .stride = {1}, .n_members = 2});
    program_open_loop(&b, &(struct loop){.kind = LOOP_UNIT, .end = 2});
    o.name = "gather";
    o.kind = OP_COLLECTIVE;
    o.stream = STREAM_GATHER;
    o.coll = (struct collective){.kind = COLL_ALL_GATHER,
                                 .group = world,
                                 .bytes = 8000,
                                 .wire = DTYPE_BF16,
                                 .table = PROGRAM_NONE,
                                 .peer_op = PROGRAM_NONE};
    gather = program_add_op(&b, &o);
    o.name = "begin";
    o.kind = OP_MARK;
    o.stream = STREAM_COMPUTE;
    begin = program_add_op(&b, &o);
    program_op_wait(&b, begin, (struct wait){.op = gather});
    o.name = "gemm";
    o.kind = OP_COMPUTE;
    o.call = (struct kernel_call){
        .kernel = KERNEL_GEMM, .m = 256, .n = 128, .k = k, .batch = 4, .launches = 1};
    program_add_op(&b, &o);
    o.name = "end";
    o.kind = OP_MARK;
    end = program_add_op(&b, &o);
    program_op_wait(&b, gather, (struct wait){.op = end, .d_unit = -1 - prefetch});
    program_close_loop(&b);
    prog.roles = ARENA_NEW(&a, struct role, 1);
    prog.roles[0] =
        (struct role){.name = "rank", .n_ranks = 2, .rank_stride = 1, .n_ops = prog.n_ops};
    prog.n_roles = 1;
    ck_assert_msg(program_builder_finish(&b, &e) == 0, "%s", e.msg);
    predict(false);
    arena_release(&a);
}

/* G = 40 ns. Compute-bound, C = 100 ns: without prefetch G C G C = 280; with it the second G hides: G C C = 240.
 * Gather-bound, C = 10 ns: G C G C = 100; G G C = 90. */
START_TEST(a_toy_step_takes_what_a_hand_calculation_says)
{
    toy(10, 0);
    ck_assert_int_eq(pr.step_ps, 280000);
    ck_assert_int_eq(pr.compute_ps, 200000);
    ck_assert_int_eq(pr.path_ps[TIME_GATHER], 80000);
    toy(10, 1);
    ck_assert_int_eq(pr.step_ps, 240000);
    ck_assert_int_eq(pr.exposed_comm_ps, 40000);
    ck_assert_int_eq(pr.path_ps[TIME_GEMM], 200000);
    toy(1, 0);
    ck_assert_int_eq(pr.step_ps, 100000);
    toy(1, 1);
    ck_assert_int_eq(pr.step_ps, 90000);
    ck_assert_int_eq(pr.path_ps[TIME_GATHER], 80000);
    ck_assert_int_eq(pr.path_ps[TIME_GEMM], 10000);
}
END_TEST

/* As above with prefetch, and a gather takes one of four SMs: beside the second one, 40 ns, the first GEMM gets 30 ns done. It ends
 * 70 ns later: G 40, 110, C 100. The gather takes its 40 ns all the same. */
START_TEST(a_gather_takes_sms_from_the_kernel_beside_it)
{
    toy_collective_sms = 1;
    toy(10, 1);
    ck_assert_int_eq(pr.step_ps, 250000);
    ck_assert_int_eq(pr.compute_ps, 210000);
    ck_assert_int_eq(pr.exposed_comm_ps, 40000);
    ck_assert_int_eq(pr.busy_ps[TIME_GATHER], 80000);
    toy(10, 0); /* nothing runs beside anything */
    ck_assert_int_eq(pr.step_ps, 280000);
    toy_collective_sms = 0;
}
END_TEST

/* A lowered step where kernels take no time: zero3 with AdamW, two layers on two ranks, R = bytes of a unit / 2 ranks /
 * rate. Forward: two gathers, 2R. Backward: unit 1 is still there; its reduction and the gather of unit 0 share both
 * ports and end together at 4R; then the reduction of unit 0, alone, 5R. The step itself moves nothing. */
START_TEST(a_lowered_step_without_compute_is_its_traffic)
{
    struct job j = plans_job();
    int64_t r;

    j.optimizer = OPTIMIZER_ADAMW;
    make("block:layers=2,hidden=64,ffn=256,heads=4", "zero3", &j, 2, 8);
    plan.cluster.device.peak_flops = plan.cluster.device.attention_flops = 1e30;
    plan.cluster.device.hbm_Bps = 1e30;
    /* a layer: 4 of 64x64, up0, up1 64x128, down 64x256, 4 vectors of 64: 49,408 elements, 98,816 bytes, all even */
    ck_assert_uint_eq(plan.model.units[0].numel, 49408);
    r = 49408 * 10; /* ps: half of the bytes at 100 GB/s */
    predict(false);
    ck_assert_int_eq(pr.forward_ps, 2 * r);
    ck_assert_int_eq(pr.backward_ps, 3 * r);
    ck_assert_int_eq(pr.step_ps, 5 * r);
    arena_release(&a);
    j.grad_accum =
        2; /* its first gather shares the port with the last reduction: always busy, 10R */
    make("block:layers=2,hidden=64,ffn=256,heads=4", "zero3", &j, 2, 8);
    plan.cluster.device.peak_flops = plan.cluster.device.attention_flops = 1e30;
    plan.cluster.device.hbm_Bps = 1e30;
    predict(false);
    ck_assert_int_eq(pr.step_ps, 10 * r);
    arena_release(&a);
}
END_TEST

/* ---- memory by hand ----
 *
 * block:layers=L,hidden=2,ffn=4,heads=1, 4 tokens, everything bf16 (2 bytes). A layer: 32 matrix elements in seven
 * matrices, 8 in four vectors. Values of a layer, bytes: x, norm1, q, k, v, o, x2, norm2, up0, up1, down 16 each;
 * act 32; attention 16, and its softmax sums, fp32, 4 a token and head, 16.
 * Backward needs x norm1 q k v attention x2 norm2 up0 up1 act. */
static void tiny(uint32_t layers, const char *layout, enum recompute r, uint32_t world)
{
    struct job j = plans_job();
    char text[64];

    snprintf(text, sizeof(text), "block:layers=%u,hidden=2,ffn=4,heads=1", layers);
    j.seq_len = 4;
    j.micro_batch = 1;
    j.recompute = r;
    make(text, layout, &j, world, 8);
    plan.cluster.nvlink_Bps = 1e15; /* transfers are over before a kernel is */
    plan.cluster.device.hbm_Bps = 1e12;
    predict(false);
}

/* One layer on one rank, nothing recomputed. Resident: params 2*40, grads 2*40, states 4*32 + 8*8, master 4*40. The
 * peak is at down's dgrad: kept values 16*8 (norm1 q k v x2 norm2 up0 up1) + act 32 + attention 16 + softmax sums (4
 * bytes a token and head: 16) + x 16 = 208; the gradients of x2 16, down 16 and act 32: 272. */
START_TEST(memory_of_ddp_by_hand)
{
    tiny(1, "ddp", RECOMPUTE_NONE, 1);
    ck_assert_str_eq(prog.ops[pr.memory.at.op].name, "backward.layer.down.dgrad");
    ck_assert_uint_eq(pr.memory.parts[MEM_PARAMS], 80);
    ck_assert_uint_eq(pr.memory.parts[MEM_GRADS], 80);
    ck_assert_uint_eq(pr.memory.parts[MEM_STATES], 4 * 32 + 8 * 8);
    ck_assert_uint_eq(pr.memory.parts[MEM_MASTER], 160);
    ck_assert_uint_eq(pr.memory.parts[MEM_ACTIVATIONS], 272);
    ck_assert_uint_eq(pr.memory.parts[MEM_GATHERED], 0);
    ck_assert_uint_eq(pr.memory.parts[MEM_WORKSPACE], 0);
    ck_assert_uint_eq(pr.memory.peak_bytes, 80 + 80 + 192 + 160 + 272);
    ck_assert_uint_eq(pr.memory.min_peak_bytes, pr.memory.peak_bytes);
    arena_release(&a);
}
END_TEST

/* Two layers: unit 0 keeps its 192 + 16 while unit 1 is at the peak: 480. With full recomputation only its input, 16:
 * 288. The last layer's peak is the highest: unit 1's input and gradient are gone when unit 0 is there. */
START_TEST(memory_of_recomputation_by_hand)
{
    tiny(2, "ddp", RECOMPUTE_NONE, 1);
    ck_assert_uint_eq(pr.memory.parts[MEM_ACTIVATIONS], 480);
    arena_release(&a);
    tiny(2, "ddp", RECOMPUTE_FULL, 1);
    ck_assert_uint_eq(pr.memory.parts[MEM_ACTIVATIONS], 288);
    ck_assert_uint_eq(pr.memory.peak_bytes, 160 + 160 + 384 + 320 + 288);
    arena_release(&a);
}
END_TEST

/* zero3+owner, two layers on two ranks, full recomputation. At unit 0's down.wgrad: unit 0 gathered, 80; unit 1's
 * gradients on their way to the owners, 80, what of them is the rank's own, and down's of unit 0, the first of its unit,
 * 16; activations 272, as unit 1's input is gone. Resident is what a rank owns: 2 bytes of parameter, 4 of master and 4
 * (matrix) or 8 (vector) of state. (At unit 1's, both units are gathered, 160, and only 16 bytes of gradients there.) */
START_TEST(memory_of_owners_by_hand)
{
    uint64_t owned[2] = {0}, of_unit_1[2] = {0}, states[2] = {0}, most;

    tiny(2, "owner", RECOMPUTE_FULL, 2);
    for (uint32_t i = 0; i < plan.model.n_tensors; i++) {
        const struct tensor *t = &plan.model.tensors[i];

        owned[plan.place[i].owner] += t->numel;
        of_unit_1[plan.place[i].owner] += t->unit == 1 ? t->numel : 0;
        states[plan.place[i].owner] += t->numel * (tensor_is_matrix(t) ? 4 : 8);
    }
    ck_assert_uint_eq(owned[0] + owned[1], 80);
    most = 6 * owned[0] + states[0] > 6 * owned[1] + states[1] ? 0 : 1;
    ck_assert_uint_eq(pr.memory.rank, most);
    ck_assert_str_eq(prog.ops[pr.memory.at.op].name, "backward.layer.down.wgrad");
    ck_assert_uint_eq(pr.memory.at.unit, 0);
    ck_assert_uint_eq(pr.memory.parts[MEM_PARAMS], 2 * owned[most]);
    ck_assert_uint_eq(pr.memory.parts[MEM_MASTER], 4 * owned[most]);
    ck_assert_uint_eq(pr.memory.parts[MEM_STATES], states[most]);
    ck_assert_uint_eq(pr.memory.parts[MEM_GATHERED], 80);
    ck_assert_uint_eq(pr.memory.parts[MEM_GRADS], 80 + 2 * of_unit_1[most] + 16);
    ck_assert_uint_eq(pr.memory.parts[MEM_ACTIVATIONS], 272);
    arena_release(&a);
}
END_TEST

/* One token, so that the optimizer holds most. Workspace of down [64,256] in bf16: 2*64*64 + 64*256 elements, 49,152 bytes;
 * gather-once keeps every matrix in bf16 beside it: 2 bytes an element. Gradients are a rank's half. */
START_TEST(memory_of_the_optimizer_by_hand)
{
    static const char text[] = "block:layers=2,hidden=64,ffn=256,heads=4";
    struct job j = plans_job();

    j.seq_len = j.micro_batch = 1;
    make(text, "ddp", &j, 1, 8);
    predict(false);
    ck_assert_uint_eq(pr.memory.parts[MEM_WORKSPACE], 49152);
    ck_assert_uint_eq(pr.memory.parts[MEM_ACTIVATIONS], 0);
    ck_assert_uint_eq(pr.memory.peak_bytes, 8 * plan.model.total_params +
                                                4 * plan.model.matrix_params +
                                                8 * plan.model.tail_params + 49152);
    arena_release(&a);
    make("block:layers=8,hidden=64,ffn=256,heads=4", "zero3+gather-once", &j, 2, 8);
    predict(false);
    ck_assert_uint_eq(pr.memory.parts[MEM_WORKSPACE], 2 * plan.model.matrix_params + 49152);
    ck_assert_uint_eq(pr.memory.parts[MEM_GRADS], plan.model.total_params);
    ck_assert_uint_eq(pr.memory.parts[MEM_GATHERED], 0);
    arena_release(&a);
}
END_TEST

/* A padded gather on 8 ranks: down [64,256] is the largest share, 32,768 bytes, so 262,144 land beside the unit. */
START_TEST(memory_of_a_padded_gather_by_hand)
{
    struct job j = plans_job();

    j.seq_len = j.micro_batch = 1;
    j.gather = ALGO_PADDED;
    make("block:layers=1,hidden=64,ffn=256,heads=4", "owner", &j, 8, 8);
    predict(false);
    ck_assert_uint_eq(pr.memory.parts[MEM_BUFFERS], 262144);
    ck_assert_uint_eq(pr.memory.parts[MEM_GATHERED], 2 * plan.model.total_params);
    ck_assert_uint_eq(pr.memory.parts[MEM_GRADS], 0);
    arena_release(&a);
}
END_TEST

/* 4 tokens, 1000 words: the fp32 loss buffer, 16,000 bytes, meets the logits, 8000, then their gradient, 8000. In eager
 * PyTorch log-softmax, its gradient and that of the fp32 logits meet, 16,000 each. */
START_TEST(memory_of_logits_by_hand)
{
    static const struct {
        enum framework f;
        uint64_t bytes;
    } rows[] = {{FRAMEWORK_FSDP2_COMPILED, 24000},
                {FRAMEWORK_MEGATRON, 24000},
                {FRAMEWORK_FSDP2, 48000},
                {FRAMEWORK_DEEPSPEED, 48000}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job j = plans_job();

        j.seq_len = 4;
        j.micro_batch = 1;
        j.framework = rows[i].f;
        make("block:layers=1,hidden=2,ffn=4,heads=1,mlp=swiglu,vocab=1000", "ddp", &j, 1, 8);
        predict(false);
        ck_assert_uint_eq(pr.memory.parts[MEM_LOGITS], rows[i].bytes);
        arena_release(&a);
    }
}
END_TEST

/* Its flops are the rank's own work already: a batch must not divide them again. */
START_TEST(a_preconditioned_update_takes_its_own_flops)
{
    static const enum kernel kernels[] = {KERNEL_SHAMPOO, KERNEL_SOAP};
    struct kernel_call k = {.m = 8, .n = 8, .batch = 1, .flops = 1000000000, .launches = 1};

    plans_ideal_cluster(&plan.cluster, 8, 8);
    for (int i = 0; i < 2; i++) {
        struct kernel_time one, eight;

        k.kernel = kernels[i];
        k.batch = 1;
        one = sim_kernel_time(&plan.cluster.device, NULL, &k);
        k.batch = 8;
        eight = sim_kernel_time(&plan.cluster.device, NULL, &k);
        ck_assert_int_eq(one.alone_ps, eight.alone_ps);
        /* 1e9 FLOPs at 5e13/s are 20 us, 48 * 64 bytes at 1e12/s 3 ns */
        ck_assert_int_eq(one.alone_ps, 20003072);
    }
}
END_TEST

/* TF32 has half of bf16's rate, and its elements twice the bytes: twice the time, whatever binds. fp16 is bf16. */
START_TEST(fp32_takes_twice_the_time_of_bf16)
{
    static const enum kernel kernels[] = {KERNEL_GEMM, KERNEL_GEMM_DGRAD, KERNEL_GEMM_WGRAD,
                                          KERNEL_ATTENTION};
    struct job j = plans_job();
    struct prediction half;

    plans_ideal_cluster(&plan.cluster, 8, 8);
    for (int i = 0; i < 4; i++) {
        struct kernel_call k = {.kernel = kernels[i],
                                .m = 256,
                                .n = 128,
                                .k = 1000000,
                                .batch = 1,
                                .flops = UINT64_C(65536000000),
                                .launches = 1};
        struct kernel_time t16 = sim_kernel_time(&plan.cluster.device, NULL, &k), t32;

        k.fp32 = true;
        t32 = sim_kernel_time(&plan.cluster.device, NULL, &k);
        MUST(llabs(t32.alone_ps - 2 * t16.alone_ps) <= 1, "kernel %d: %lld and %lld", i,
             (long long)t16.alone_ps, (long long)t32.alone_ps);
    }
    j.master_weights = false;
    make("block", "ddp", &j, 1, 8);
    predict(false);
    half = pr;
    arena_release(&a);
    j.param_dtype = DTYPE_FP32;
    make("block", "ddp", &j, 1, 8);
    predict(false);
    MUST(pr.forward_ps > 2 * half.forward_ps * 95 / 100 &&
             pr.forward_ps < 2 * half.forward_ps * 105 / 100,
         "forward %lld and %lld", (long long)half.forward_ps, (long long)pr.forward_ps);
    arena_release(&a);
    j.param_dtype = DTYPE_FP16;
    make("block", "ddp", &j, 1, 8);
    predict(false);
    ck_assert_int_eq(pr.step_ps, half.step_ps);
    arena_release(&a);
}
END_TEST

/* 3e6 bytes: 3 us at the common 1 TB/s, 12 us at the kernel's own 250 GB/s. Attention of 1e9 FLOPs: 10 us at the common
 * 100 TFLOP/s, 20 us backward at 50, 40 us of fp32. Others stay as they are; products have no other rate than their tiles. */
START_TEST(a_kernel_with_a_rate_of_its_own_takes_it)
{
    struct kernel_call k = {.kernel = KERNEL_ADAMW, .hbm_bytes = 3000000, .launches = 1};
    struct device d = {.peak_flops = 1e15,
                       .hbm_Bps = 1e12,
                       .hbm_efficiency = 1,
                       .tf32_share = 0.5,
                       .n_sm = 1,
                       .gemm_efficiency = 1,
                       .sustained_factor = 1,
                       .attention_flops = 1e14};

    ck_assert_int_eq(sim_kernel_time(&d, NULL, &k).alone_ps, 3000000);
    d.kernel_rate[KERNEL_ADAMW] = 250e9;
    d.kernel_rate[KERNEL_ATTENTION_BACKWARD] = 5e13;
    ck_assert_int_eq(sim_kernel_time(&d, NULL, &k).alone_ps, 12000000);
    k.kernel = KERNEL_GELU;
    ck_assert_int_eq(sim_kernel_time(&d, NULL, &k).alone_ps, 3000000);
    k = (struct kernel_call){.kernel = KERNEL_ATTENTION, .flops = 1000000000, .launches = 1};
    ck_assert_int_eq(sim_kernel_time(&d, NULL, &k).alone_ps, 10000000);
    k.kernel = KERNEL_ATTENTION_BACKWARD;
    ck_assert_int_eq(sim_kernel_time(&d, NULL, &k).alone_ps, 20000000);
    k.fp32 = true;
    ck_assert_int_eq(sim_kernel_time(&d, NULL, &k).alone_ps, 40000000);
}
END_TEST

START_TEST(context_and_fragmentation_come_on_top)
{
    tiny(1, "ddp", RECOMPUTE_NONE, 1);
    plan.cluster.device.context_bytes = 1000;
    plan.cluster.device.fragmentation = 0.5;
    predict(false);
    ck_assert_uint_eq(pr.memory.parts[MEM_CONTEXT], 1000);
    ck_assert_uint_eq(pr.memory.driver_bytes, 1000 + 784 * 3 / 2);
    ck_assert_uint_eq(pr.memory.peak_bytes, 784);
    arena_release(&a);
}
END_TEST

/* What exec does: one operation after the other. Without streams nothing overlaps, so that the step is the sum of its
 * operations, no shorter than the step with streams; ranks by themselves see the same. */
START_TEST(a_serial_step_is_the_sum_of_its_operations)
{
    static const char *const layouts[] = {"ddp", "zero1-owner", "zero3+gather", "owner"};

    for (size_t l = 0; l < sizeof(layouts) / sizeof(layouts[0]); l++) {
        struct sim_options o = {.serial = true, .keep_trace = true};
        struct job j = plans_job();
        int64_t streams_ps, serial_ps, sum = 0;

        make("llama", layouts[l], &j, 8, 8);
        real_cluster(&plan.cluster);
        predict(false);
        streams_ps = pr.step_ps;
        MUST(sim_predict(&prog, &plan.cluster, &o, &a, &pr, &e) == 0, "%s", e.msg);
        serial_ps = pr.step_ps;
        for (size_t i = 0; i < pr.n_instances; i++)
            sum += pr.instances[i].shared ? pr.instances[i].end_ps - pr.instances[i].start_ps : 0;
        ck_assert_msg(serial_ps >= streams_ps, "%s", layouts[l]);
        if (pr.n_classes == 1)
            ck_assert_msg(sum == serial_ps, "%s: %lld of %lld", layouts[l], (long long)sum,
                          (long long)serial_ps);
        o.unfold = true;
        MUST(sim_predict(&prog, &plan.cluster, &o, &a, &pr, &e) == 0, "%s", e.msg);
        ck_assert_msg(pr.step_ps == serial_ps, "%s: unfolded %lld, folded %lld", layouts[l],
                      (long long)pr.step_ps, (long long)serial_ps);
        arena_release(&a);
    }
}
END_TEST

SUITE_MAIN("sim/predict", a_serial_step_is_the_sum_of_its_operations, folded_equals_unfolded,
           folded_equals_unfolded_with_buckets_and_experts, phases_and_paths_sum_to_the_step,
           a_step_lasts_at_least_what_its_busiest_parts_need, bytes_are_those_of_the_program,
           no_input_is_ignored, relabelled_ranks_change_nothing,
           ring_all_gather_takes_what_its_flows_take,
           an_owner_that_sends_to_63_ranks_is_bound_by_its_port,
           a_toy_step_takes_what_a_hand_calculation_says,
           a_gather_takes_sms_from_the_kernel_beside_it,
           a_lowered_step_without_compute_is_its_traffic, memory_of_ddp_by_hand,
           memory_of_recomputation_by_hand, memory_of_owners_by_hand,
           memory_of_the_optimizer_by_hand, memory_of_a_padded_gather_by_hand,
           memory_of_logits_by_hand, a_tree_takes_its_longest_way_and_its_fullest_link,
           direct_sends_leave_through_the_owners_leaf, a_rail_is_a_leaf_of_its_own,
           pcie_bounds_what_leaves_a_node, inside_a_node_no_nic_counts_when_all_own_something,
           a_range_takes_the_steps_that_it_spans, context_and_fragmentation_come_on_top,
           a_kernel_with_a_rate_of_its_own_takes_it, a_preconditioned_update_takes_its_own_flops,
           fp32_takes_twice_the_time_of_bf16)
