/* What a framework adds, by hand, on a device with round numbers. */
#include "sim/framework.h"
#include "sim/sim.h"
#include "tests/layouts/plans.h"

#include <math.h>

static struct device dev(void)
{
    return (struct device){.peak_flops = 1e15,
                           .hbm_Bps = 1e12,
                           .hbm_efficiency = 1,
                           .tf32_share = 0.5,
                           .n_sm = 1,
                           .gemm_efficiency = 1,
                           .sustained_factor = 2,
                           .attention_flops = 1e14,
                           .attention_masked = 1};
}

static double us(const struct device *d, const struct framework_costs *f,
                 const struct kernel_call *k)
{
    return (double)sim_kernel_time(d, f, k).alone_ps / 1e6;
}

/* 4 MB at 1 TB/s; of 4 MB beside a cache of 4 MB half passes memory. */
START_TEST(what_fits_the_cache_does_not_pass_memory)
{
    struct kernel_call k = {
        .kernel = KERNEL_ADD, .m = 1, .n = 1, .hbm_bytes = 4000000, .launches = 1};
    struct device d = dev();

    ck_assert_double_eq_tol(us(&d, NULL, &k), 4, 1e-9);
    d.l2_bytes = 4e6;
    ck_assert_double_eq_tol(us(&d, NULL, &k), 2, 1e-9);
}
END_TEST

/* 4 m n k batch FLOPs without a mask, half of them with one: 1e9 at 1e14 are 10 us; at 0.5 of the rate, 20. */
START_TEST(a_mask_costs_what_its_tiles_are_worked_whole)
{
    struct kernel_call k = {.kernel = KERNEL_ATTENTION,
                            .m = 500,
                            .n = 1000,
                            .k = 100,
                            .batch = 10,
                            .flops = 1000000000,
                            .launches = 1};
    struct device d = dev();

    ck_assert_double_eq_tol(us(&d, NULL, &k), 10, 1e-9);
    d.attention_masked = 0.5;
    ck_assert_double_eq_tol(us(&d, NULL, &k), 20, 1e-9);
    k.flops *= 2; /* no mask */
    ck_assert_double_eq_tol(us(&d, NULL, &k), 20, 1e-9);
}
END_TEST

/* 1e6 scores of 10 bytes are 10 us at 1 TB/s beside two products; backward twice that. */
START_TEST(unfused_attention_moves_its_scores)
{
    struct kernel_call k = {.kernel = KERNEL_ATTENTION,
                            .m = 1000,
                            .n = 1000,
                            .k = 64,
                            .batch = 1,
                            .flops = 256000000,
                            .launches = 1};
    struct kernel_call backward = k, biased = k;
    struct framework_costs none = {.unfused = true},
                           scores = {.score_bytes = 10, .bias_bytes = 4, .unfused = true};
    struct device d = dev();

    backward.kernel = KERNEL_ATTENTION_BACKWARD;
    ck_assert_double_eq_tol(us(&d, &scores, &k) - us(&d, &none, &k), 10, 1e-3);
    ck_assert_double_eq_tol(us(&d, &scores, &backward), 2 * us(&d, &scores, &k), 1e-3);
    biased.biased = true; /* 4 bytes more */
    ck_assert_double_eq_tol(us(&d, &scores, &biased) - us(&d, &scores, &k), 4, 1e-3);
}
END_TEST

START_TEST(a_loss_and_adamw_move_what_the_framework_moves)
{
    struct kernel_call loss = {
        .kernel = KERNEL_CROSS_ENTROPY, .m = 1000, .n = 1000, .hbm_bytes = 1000000, .launches = 1};
    struct kernel_call adamw = loss, norm = loss;
    struct framework_costs f = {
        .logit_bytes = 40, .adamw_bytes = 24, .eager = 3, .kernels_s = 5e-6, .micro_batch_s = 1e-3};
    struct device d = dev();

    adamw.kernel = KERNEL_ADAMW;
    norm.kernel = KERNEL_RMSNORM;
    ck_assert_double_eq_tol(us(&d, NULL, &loss), 1, 1e-9);
    ck_assert_double_eq_tol(us(&d, &f, &loss), 20 + 5 + 1000, 1e-9);
    ck_assert_double_eq_tol(us(&d, &f, &adamw), 24 + 5, 1e-9);
    ck_assert_double_eq_tol(us(&d, &f, &norm), 3 + 5, 1e-9);
}
END_TEST

/* A product that is bound by arithmetic: the framework's factor in place of the device's. */
START_TEST(a_framework_may_say_how_hot_it_runs)
{
    struct kernel_call k = {
        .kernel = KERNEL_GEMM, .m = 256, .n = 128, .k = 100000, .batch = 1, .launches = 1};
    struct framework_costs cool = {.sustained = 1};
    struct device d = dev();

    d.peak_flops = 1e13;
    ck_assert_double_eq_tol(us(&d, NULL, &k), 2 * us(&d, &cool, &k), 1e-6);
}
END_TEST

/* One tile of 256 x 128, 1e5 deep, at 1e13 on one SM: 655.36 us in a burst. Where a grid says half, half it is, and the sustained
 * factor, 2, still counts; where it says 1.5 times, its products ran hot themselves: the larger of the two counts; 3 times: 3. */
START_TEST(a_measured_grid_corrects_a_burst)
{
    struct kernel_call k = {
        .kernel = KERNEL_GEMM, .m = 256, .n = 128, .k = 100000, .batch = 1, .launches = 1};
    struct gemm_grid g = {.model = {.sm_flops = 1e13, .sms = 1, .hbm_Bps = 1e12},
                          .n = {2, 2, 2},
                          .at = {{256, 512}, {128, 256}, {100000, 200000}}};
    static const struct {
        double measured, expected;
    } rows[] = {{0.5, 1}, {1, 2}, {1.5, 2}, {3, 3}};
    struct device d = dev();

    d.peak_flops = 1e13;
    d.gemm_grid = &g;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        g.us[0][0][0] = (float)(655.36 * rows[i].measured);
        ck_assert_double_eq_tol(us(&d, NULL, &k), 655.36 * rows[i].expected, 1e-2);
    }
    g.us[0][0][0] = 655.36F;
    d.peak_flops = 2e13; /* a change of the device is one of its products */
    ck_assert_double_eq_tol(us(&d, NULL, &k), 655.36, 1e-2);
}
END_TEST

/* One tile of 256 x 128, 1e5 deep: 655.36 us at 1e13, half of it in fp8; 3.84e7 elements of operands, 5 bytes each for their casts. */
START_TEST(fp8_doubles_the_rate_and_casts_its_operands)
{
    struct kernel_call k = {
        .kernel = KERNEL_GEMM, .m = 256, .n = 128, .k = 100000, .batch = 1, .launches = 1};
    struct device d = dev();

    d.peak_flops = 1e13;
    d.fp8_share = 2;
    d.sustained_factor = 1;
    ck_assert_double_eq_tol(us(&d, NULL, &k), 655.36, 1e-2);
    k.fp8 = true;
    ck_assert_double_eq_tol(us(&d, NULL, &k), 655.36 / 2 + 3.84e7 * 5 / 1e6, 1e-2);
}
END_TEST

/* X X^T of one Newton-Schulz step at 2,048 and 4,096: an A100 takes 0.59 to 0.56 of cuBLAS's time
 * (flash-muon's README); waves of 128 x 128 tiles on 108 SMs are coarse at 2,048. */
START_TEST(symmetric_products_are_as_fast_as_measured)
{
    static const struct {
        uint64_t m;
        double ratio;
    } rows[] = {{2048, 0.591}, {4096, 0.562}, {8192, 0.578}};
    struct device d = {.peak_flops = 312e12,
                       .hbm_Bps = 2039e9,
                       .hbm_efficiency = 0.8,
                       .tf32_share = 0.5,
                       .n_sm = 108,
                       .gemm_efficiency = 0.97,
                       .gemm_k0 = 195,
                       .sustained_factor = 1,
                       .kernel_s = 3.6e-6,
                       .attention_flops = 2e14};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct kernel_call gemm = {.kernel = KERNEL_GEMM,
                                   .m = rows[i].m,
                                   .n = rows[i].m,
                                   .k = rows[i].m,
                                   .batch = 1,
                                   .launches = 1};
        struct kernel_call whole = {
            .kernel = KERNEL_NEWTON_SCHULZ, .m = rows[i].m, .n = rows[i].m, .k = 1, .batch = 1};
        struct kernel_call half = whole;
        double saved, ratio;

        half.symmetric = true;
        saved = (us(&d, NULL, &whole) - us(&d, NULL, &half)) / 2; /* of X X^T and A A each */
        ratio = 1 - saved / us(&d, NULL, &gemm);
        ck_assert_msg(fabs(ratio / rows[i].ratio - 1) < 0.17, "%llu: %g, measured %g",
                      (unsigned long long)rows[i].m, ratio, rows[i].ratio);
    }
}
END_TEST

/* 16 matrices of 256 x 256 in one Newton-Schulz step on one SM of 1e13: as many tiles, a 16th of the launches; 15 kernels of 1 ms
 * fewer in each of three products and the cast. */
START_TEST(a_batch_saves_launches)
{
    struct kernel_call one = {
        .kernel = KERNEL_NEWTON_SCHULZ, .m = 256, .n = 256, .k = 1, .batch = 1, .launches = 1};
    struct kernel_call many = one;
    struct device d = dev();

    many.more = 15;
    d.peak_flops = 1e13;
    d.kernel_s = 1e-3;
    ck_assert_double_eq_tol(16 * us(&d, NULL, &one) - us(&d, NULL, &many), 15 * 4 * 1000, 1e-3);
}
END_TEST

/* Graphs: 1,000 launches of 1 us are waited for by nobody. Copies: read and written once at 1 TB/s, and none without a framework. */
START_TEST(graphs_and_copies)
{
    struct kernel_call add = {
        .kernel = KERNEL_ADD, .m = 1, .n = 1, .hbm_bytes = 1000000, .launches = 1000};
    struct kernel_call copy = {.kernel = KERNEL_COPY, .hbm_bytes = 4000000, .launches = 1};
    struct framework_costs eager = {.kernels_s = 0}, graphs = {.graphs = true};
    struct device d = dev();

    d.launch_s = 1e-6;
    ck_assert_double_eq_tol(us(&d, &eager, &add), 1000, 1e-9);
    ck_assert_double_eq_tol(us(&d, &graphs, &add), 1, 1e-9);
    ck_assert_double_eq_tol(us(&d, &eager, &copy), 4, 1e-9);
    ck_assert_double_eq_tol(us(&d, NULL, &copy), 0, 1e-9);
}
END_TEST

static double step_of(const char *layout, uint32_t world, const struct job *j,
                      const struct framework_costs *f, bool serial, double blocking_s,
                      double nvlink_Bps)
{
    struct sim_options o = {.framework = f, .serial = serial};
    struct program program;
    struct prediction pr;
    struct arena a;
    struct plan plan;
    struct err e;
    double t;

    arena_init(&a);
    plans_make(&plan, &a, "llama", layout, j, world, 8);
    plan.cluster.nvlink_Bps = nvlink_Bps;
    plan.cluster.device.blocking_s = blocking_s;
    plans_lower(&plan, &a, &program);
    MUST(sim_predict(&program, &plan.cluster, &o, &a, &pr, &e) == 0, "%s", e.msg);
    t = (double)pr.step_ps / 1e6;
    arena_release(&a);
    return t;
}

static double step_us(const char *layout, uint32_t world, const struct framework_costs *f,
                      bool serial, double nvlink_Bps)
{
    struct job j = plans_job();

    j.grad_accum = 4;
    return step_of(layout, world, &j, f, serial, 0, nvlink_Bps);
}

/* Three of four micro-batches add to gradients of 2 bytes that are there: three passes at 1 TB/s. Where gradients are reduced and
 * cut in every micro-batch none stay. */
START_TEST(further_micro_batches_add_to_gradients)
{
    /* llama: 331 words twice, 4 layers of 40 x (40 + 20 + 20 + 40) and 3 x 40 x 104, norms of 40 */
    double n = 2 * 331 * 40 + 4 * (40 * 120 + 3 * 40 * 104) + 9 * 40;
    struct framework_costs none = {.logit_bytes = 8}, three = {.logit_bytes = 8, .accumulate = 3};

    ck_assert_double_eq_tol(step_us("ddp", 1, &three, false, 1e18) -
                                step_us("ddp", 1, &none, false, 1e18),
                            3 * 3 * 2 * n / 1e6, 1e-3);
    ck_assert_double_eq_tol(step_us("zero3+gather", 4, &three, false, 1e18) -
                                step_us("zero3+gather", 4, &none, false, 1e18),
                            0, 1e-9);
}
END_TEST

/* Where the host waits for every gather and reduction the step is the sum of its operations; where it does not it is less. */
START_TEST(a_host_that_waits_overlaps_nothing)
{
    const struct framework_costs f = {.logit_bytes = 8};
    struct job waits = plans_job(), runs = waits;
    double sum;

    waits.grad_accum = runs.grad_accum = 4;
    waits.framework = FRAMEWORK_DEEPSPEED;
    sum = step_of("zero3+gather", 4, &waits, &f, true, 0, 1e11);
    ck_assert_double_eq_tol(step_of("zero3+gather", 4, &waits, &f, false, 0, 1e11), sum,
                            1e-6 * sum);
    ck_assert_double_lt(step_of("zero3+gather", 4, &runs, &f, false, 0, 1e11),
                        0.999 * step_of("zero3+gather", 4, &runs, &f, true, 0, 1e11));
}
END_TEST

/* A millisecond more for a broadcast is one more for each: of 4 ranks' parts, at once or unit by unit; of each of the 9 tensors of
 * 4 layers, each of which has an owner (its 7 matrices, and its norms). A framework without broadcasts, and a run
 * without a framework, wait for none. */
START_TEST(the_host_waits_for_each_broadcast)
{
    static const struct {
        const char *layout;
        bool overlap;
        enum framework by;
        double ms;
    } rows[] = {{"zero1", false, FRAMEWORK_FSDP2, 4},
                {"zero1", true, FRAMEWORK_FSDP2_COMPILED, 4},
                {"zero1+owner", false, FRAMEWORK_FSDP2, 4 * 9},
                {"zero2+owner", true, FRAMEWORK_FSDP2, 4 * 9},
                {"zero1", false, FRAMEWORK_MEGATRON, 0},
                {"zero1+owner", false, FRAMEWORK_DEEPSPEED, 0}};
    const struct framework_costs f = {.logit_bytes = 8};

    for (int i = 0; i < 6; i++) {
        struct job j = plans_job();

        j.framework = rows[i].by;
        j.overlap_refresh = rows[i].overlap;
        ck_assert_double_eq_tol(step_of(rows[i].layout, 4, &j, &f, true, 2e-3, 1e18) -
                                    step_of(rows[i].layout, 4, &j, &f, true, 1e-3, 1e18),
                                1e3 * rows[i].ms, 1e-3);
        ck_assert_double_eq_tol(step_of(rows[i].layout, 4, &j, NULL, true, 2e-3, 1e18) -
                                    step_of(rows[i].layout, 4, &j, NULL, true, 1e-3, 1e18),
                                0, 1e-9);
    }
}
END_TEST

/* 10 us a piece: of each of 39 tensors (9 of each of 4 layers, the embedding, a norm and the head) a piece a rank, in forward's gather,
 * in backward's (but for the last unit, which stays) and in the reduction. */
START_TEST(the_host_hands_over_each_piece)
{
    const struct framework_costs none = {.logit_bytes = 8},
                                 pieces = {.logit_bytes = 8, .piece_s = 10e-6};
    struct job j = plans_job();

    j.framework = FRAMEWORK_DEEPSPEED;
    ck_assert_double_eq_tol(step_of("zero3+gather", 4, &j, &pieces, true, 0, 1e18) -
                                step_of("zero3+gather", 4, &j, &none, true, 0, 1e18),
                            10.0 * 4 * (39 + (39 - 2) + 39), 1e-3);
    j.framework = FRAMEWORK_FSDP2;
    ck_assert_double_eq_tol(step_of("zero3+gather", 4, &j, &pieces, true, 0, 1e18) -
                                step_of("zero3+gather", 4, &j, &none, true, 0, 1e18),
                            0, 1e-9);
}
END_TEST

/* The physical ranges of the constants: a fit that leaves them has found something else. */
START_TEST(constants_stay_in_their_physical_ranges)
{
    for (int i = 0; i < FRAMEWORK_N; i++) {
        const struct framework_costs *f = framework_costs((enum framework)i);

        /* Python dispatches an operation's kernels in 0.01 to 0.2 ms */
        ck_assert(f->host_s == 0 || (f->host_s > 1e-5 && f->host_s < 2e-4));
        ck_assert(f->sustained == 0 || (f->sustained >= 1 && f->sustained < 1.5));
        ck_assert(f->kernels_s >= 0 && f->kernels_s < 5e-5);
        /* a score is at least written and read once in fp16, at most ten times in fp32 */
        ck_assert(f->score_bytes == 0 || (f->score_bytes > 4 && f->score_bytes < 80));
        /* a bias is read once in 16 bits; casts to fp32 and back around a softmax add at most 20 */
        ck_assert(f->bias_bytes >= 2 && f->bias_bytes < 24);
        /* a logit is at least read twice and its gradient written; fp32 copies make ten passes of it at most */
        ck_assert(f->logit_bytes >= 6 && f->logit_bytes < 120);
        ck_assert(f->micro_batch_s >= 0 && f->micro_batch_s < 1e-2);
        /* p, m, v read and written and g read: 22 with bf16 and fp32 states; unfused up to 39 (physics of vTrain's runs) */
        ck_assert(f->adamw_bytes == 0 || (f->adamw_bytes >= 22 && f->adamw_bytes <= 39));
        ck_assert(f->eager == 0 || (f->eager >= 1 && f->eager < 10));
        ck_assert(f->piece_s >= 0 && f->piece_s < 1e-4);
        /* a product that accumulates reads more; autograd reads twice and writes */
        ck_assert(f->accumulate >= 0 && f->accumulate <= 3);
    }
}
END_TEST

SUITE_MAIN("sim/framework", what_fits_the_cache_does_not_pass_memory,
           a_mask_costs_what_its_tiles_are_worked_whole, unfused_attention_moves_its_scores,
           a_loss_and_adamw_move_what_the_framework_moves, a_framework_may_say_how_hot_it_runs,
           a_measured_grid_corrects_a_burst, symmetric_products_are_as_fast_as_measured,
           a_batch_saves_launches, graphs_and_copies, fp8_doubles_the_rate_and_casts_its_operands,
           further_micro_batches_add_to_gradients, a_host_that_waits_overlaps_nothing,
           the_host_waits_for_each_broadcast, the_host_hands_over_each_piece,
           constants_stay_in_their_physical_ranges)
