/* Predictions of whole steps: folded against unfolded runs, relabelled ranks, lower bounds, and times
 * worked out by hand on a device and links without surprises (tests/layouts/plans.h). */
#include "sim/fluid.h"
#include "sim/framework.h"
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
    for (int k = 0; k < TIME_N * LIMIT_N; k++)
        same(sim_limit_name(k % LIMIT_N), folded.wait_ps[k / LIMIT_N][k % LIMIT_N],
             pr.wait_ps[k / LIMIT_N][k % LIMIT_N]);
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
                if (k && !strstr(plans_layouts[l], "owner"))
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
            int64_t path = 0, time = 0, waiting = 0, held = 0;

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
            for (int k = 0; k < TIME_N * LIMIT_N; k++)
                held += pr.wait_ps[k / LIMIT_N][k % LIMIT_N];
            ck_assert_int_eq(held, pr.exposed_comm_ps);
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
    plan.world = prog.world = prog.distinct = 2;
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
    /* nothing but the link takes time in the toy's gathers */
    ck_assert_int_eq(pr.wait_ps[TIME_GATHER][RESOURCE_NVLINK_TX], 80000);
    ck_assert_int_eq(pr.fan_out_ps[TIME_GATHER], 0);
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

/* All-to-all on two ranks at 100 GB/s, layers of 64: eight [64,64], four [128,64], two [64,256] in bf16, two at a time in the order
 * sq sq up down sq sq up; half of a matrix travels: 40,960, 81,920 and 163,840 ps there, and as much back. Where products take no
 * time both ports are busy all along: twice 4 sq + 2 up + 1 down. Where they take longer than what travels beside them, a
 * rank's are half of what one rank alone has, after the first batch has come and before the last is back. */
START_TEST(all_to_all_hides_behind_the_products)
{
    static const char text[] = "block:layers=2,hidden=64,ffn=256,heads=4";
    struct job j = plans_job();
    int64_t alone;

    for (int slow = 0; slow < 2; slow++) {
        for (uint32_t world = 1; world <= 2; world++) {
            make(text, world == 1 ? "ddp" : "zero3+alltoall", &j, world, 8);
            plan.cluster.device.peak_flops = slow ? 1e13 : 1e30;
            plan.cluster.device.hbm_Bps = 1e30;
            predict(false);
            if (world == 1)
                alone = pr.optimizer_ps;
            else if (slow)
                ck_assert_int_eq(pr.optimizer_ps, alone / 2 + 40960 + 81920);
            else
                ck_assert_int_eq(pr.optimizer_ps, 2 * (4 * 40960 + 2 * 81920 + 163840));
            arena_release(&a);
        }
        ck_assert_int_eq(alone > 0, slow);
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

/* Under every framework, with what it makes of recomputation and of a refresh: the step is the same when nothing is called
 * what it was. */
START_TEST(names_of_operations_steer_nothing)
{
    static const char *const layouts[] = {"ddp", "zero1", "zero1+owner", "zero3+owner"};
    struct job j = plans_job();
    int64_t step_ps, refresh_ps;

    for (int f = 0; f < FRAMEWORK_N; f++)
        for (int l = 0; l < 4; l++) {
            const struct sim_options o = {.framework = framework_costs((enum framework)f)};

            j.framework = (enum framework)f;
            j.recompute = RECOMPUTE_FULL;
            make("llama", layouts[l], &j, 8, 4);
            real_cluster(&plan.cluster);
            MUST(sim_predict(&prog, &plan.cluster, &o, &a, &pr, &e) == 0, "%s", e.msg);
            step_ps = pr.step_ps;
            refresh_ps = pr.optimizer_ps;
            plans_rename_ops(&prog, &a);
            MUST(sim_predict(&prog, &plan.cluster, &o, &a, &pr, &e) == 0, "%s", e.msg);
            MUST(pr.step_ps == step_ps && pr.optimizer_ps == refresh_ps,
                 "%s under %s: %lld ps, renamed %lld", layouts[l],
                 framework_name((enum framework)f), (long long)step_ps, (long long)pr.step_ps);
            arena_release(&a);
        }
}
END_TEST

SUITE_MAIN("sim/predict", names_of_operations_steer_nothing,
           a_serial_step_is_the_sum_of_its_operations, folded_equals_unfolded,
           folded_equals_unfolded_with_buckets_and_experts, phases_and_paths_sum_to_the_step,
           a_step_lasts_at_least_what_its_busiest_parts_need, bytes_are_those_of_the_program,
           no_input_is_ignored, relabelled_ranks_change_nothing,
           a_toy_step_takes_what_a_hand_calculation_says,
           a_gather_takes_sms_from_the_kernel_beside_it,
           a_lowered_step_without_compute_is_its_traffic, a_kernel_with_a_rate_of_its_own_takes_it,
           all_to_all_hides_behind_the_products, a_preconditioned_update_takes_its_own_flops,
           fp32_takes_twice_the_time_of_bf16)
