/* What a framework adds, by hand, on a device with round numbers. */
#include "sim/framework.h"
#include "sim/sim.h"
#include "tests/suite.h"

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
    struct kernel_call backward = k;
    struct framework_costs none = {.score_bytes = 1e-9}, scores = {.score_bytes = 10};
    struct device d = dev();

    backward.kernel = KERNEL_ATTENTION_BACKWARD;
    ck_assert_double_eq_tol(us(&d, &scores, &k) - us(&d, &none, &k), 10, 1e-3);
    ck_assert_double_eq_tol(us(&d, &scores, &backward), 2 * us(&d, &scores, &k), 1e-3);
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
        /* a logit is at least read twice and its gradient written; fp32 copies make ten passes of it at most */
        ck_assert(f->logit_bytes >= 6 && f->logit_bytes < 120);
        ck_assert(f->micro_batch_s >= 0 && f->micro_batch_s < 1e-2);
        /* p, m, v read and written and g read: 22 with bf16 and fp32 states; unfused up to 39 (physics of vTrain's runs) */
        ck_assert(f->adamw_bytes == 0 || (f->adamw_bytes >= 22 && f->adamw_bytes <= 39));
        ck_assert(f->eager == 0 || (f->eager >= 1 && f->eager < 10));
        ck_assert(f->piece_s >= 0 && f->piece_s < 1e-4);
    }
}
END_TEST

SUITE_MAIN("sim/framework", what_fits_the_cache_does_not_pass_memory,
           a_mask_costs_what_its_tiles_are_worked_whole, unfused_attention_moves_its_scores,
           a_loss_and_adamw_move_what_the_framework_moves, a_framework_may_say_how_hot_it_runs,
           constants_stay_in_their_physical_ranges)
