/* Predictions of whole steps: folded against unfolded runs, relabelled ranks, lower bounds. */
#include "tests/sim/predictions.h"

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

    for (uint32_t l = 0; plans_name(l); l++)
        for (int w = 0; w < 8; w++)
            for (int k = 0; k < 6; k++) {
                j.gather = all_algos[k];
                if (k && !strstr(plans_name(l), "owner"))
                    continue;
                j.grad_accum = (uint64_t)w % 2 + 1;
                j.optimizer = k == 5 ? OPTIMIZER_SHAMPOO : OPTIMIZER_MUON;
                make(w % 2 ? "block" : "llama", plans_name(l), &j, worlds[w], w == 4 ? 3 : 8);
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
    for (uint32_t l = 0; plans_name(l); l++)
        for (uint32_t w = 7; w < 13; w += 5) {
            make("moe", plans_name(l), &j, w, 8);
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
        for (uint32_t l = 0; plans_name(l); l++) {
            int64_t path = 0, time = 0, waiting = 0, held = 0;

            j.grad_accum = (uint64_t)m + 1;
            make(plans_models[m], plans_name(l), &j, 12, 8);
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

    for (uint32_t l = 0; plans_name(l); l++)
        for (int w = 0; w < 4; w++)
            for (int k = 0; k < 6; k++) {
                struct traffic_bytes *rank = MEM_NEW(struct traffic_bytes, worlds[w]);
                double most = 0;

                j.gather = all_algos[k];
                make("llama", plans_name(l), &j, worlds[w], 8);
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

    for (uint32_t l = 0; plans_name(l); l++)
        for (int k = 1; k < 6; k++) {
            uint64_t optimizer = 0;

            j.gather = all_algos[k];
            make("llama", plans_name(l), &j, 12, 8);
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
    int64_t before[64];

    for (uint32_t l = 0; plans_name(l); l++) {
        mixed(plans_name(l));
        predict(false);
        before[l] = pr.step_ps;
        arena_release(&a);
    }
#define X(change)                                                                                  \
    {                                                                                              \
        int longer = 0;                                                                            \
                                                                                                   \
        for (uint32_t l = 0; plans_name(l); l++) {                                                 \
            mixed(plans_name(l));                                                                  \
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

SUITE_MAIN("sim/predict", folded_equals_unfolded, folded_equals_unfolded_with_buckets_and_experts,
           phases_and_paths_sum_to_the_step, a_step_lasts_at_least_what_its_busiest_parts_need,
           bytes_are_those_of_the_program, no_input_is_ignored, relabelled_ranks_change_nothing,
           a_serial_step_is_the_sum_of_its_operations, names_of_operations_steer_nothing)
