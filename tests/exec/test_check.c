/* The verdict: layouts that hold, and planted faults that it has to find and name. */
#include "exec/check.h"
#include "tests/exec/threads.h"
#include "tests/layouts/plans.h"

#include <pthread.h>

struct trial {
    struct plan plan;
    struct run_options o;
    uint32_t steps;
    struct check_result result; /* of rank 0 */
};

static int one_rank(struct transport *t, void *ctx, struct err *e)
{
    struct trial *x = ctx;
    struct check_result c;
    struct backend b;
    struct arena a;
    int status;

    arena_init(&a);
    open_cpu(&b, t, 0);
    status = check_run(&x->plan, &b, &x->o, x->steps, &a, &c, e);
    if (!status && t->rank == 0) {
        x->result = c;
        x->result.loss = x->result.loss_ddp = NULL;
        x->result.bytes_equal = c.bytes_equal;
        x->result.steps = 0; /* losses are gone with the arena */
        if (!check_holds(&c))
            x->result.bytes_equal = false;
    }
    backend_close(&b);
    arena_release(&a);
    return status;
}

static void check(struct trial *x, struct arena *a, const char *model, const char *layout,
                  const struct job *j, uint32_t world)
{
    struct err e = {0};

    plans_make(&x->plan, a, model, layout, j, world, 4);
    if (threads_run(world, one_rank, x, &e))
        ck_abort_msg("%s %s world %u: %s", model, layout, world, e.msg);
}

static struct trial trial(void)
{
    return (struct trial){.o = {.seed = 7, .lr = 0.02}, .steps = 3};
}

static struct job job(void)
{
    struct job j = plans_job();

    j.seq_len = 16;
    j.micro_batch = 1;
    j.param_dtype = j.grad_dtype = DTYPE_FP32;
    return j;
}

/* Tall (llama's gate is [104, 40]) and wide (down is [40, 104]) matrices on ranks that hold few rows, or none. Bytes as the
 * program counts them. */
START_TEST(stock_is_within_its_ulps_of_ddp)
{
    static const uint32_t worlds[] = {1, 2, 3, 4, 7, 8};
    static const char *const models[] = {"block", "llama", "gpt2"};

    for (int w = 0; w < 6; w++)
        for (int d = 0; d < 2; d++) {
            struct trial x = trial();
            struct job j = job();
            struct arena a;

            arena_init(&a);
            j.param_dtype = j.grad_dtype = d ? DTYPE_BF16 : DTYPE_FP32;
            j.grad_accum = 1 + (uint64_t)(w + d) % 2;
            check(&x, &a, models[w % 3], "zero3+stock", &j, worlds[w]);
            ck_assert_msg(x.result.bytes_equal, "world %u: %llu ulp of %llu; %s", worlds[w],
                          (unsigned long long)x.result.max_ulp,
                          (unsigned long long)x.result.allowed_ulp, x.result.first);
            if (getenv("SHOW"))
                fprintf(stderr, "world %u %d: %llu, %g\n", worlds[w], d,
                        (unsigned long long)x.result.max_ulp, x.result.worst);
            arena_release(&a);
        }
}
END_TEST

/* With several micro-batches the reference sums as the layout does: over ranks first where gradients are cut, over
 * micro-batches first where they are whole (ddp, zero1, one rank, and with no_sync). */
START_TEST(several_micro_batches_are_equal_to_the_last_bit)
{
    const char *layout;

    for (uint32_t world = 1; world <= 4; world++)
        for (uint32_t l = 0; (layout = plans_name(l)); l++)
            for (uint32_t k = (l + world) % 2; k < 3; k += 2) { /* half of them: all take long */
                const struct layout *row = plans_row(layout);
                struct trial x = trial();
                struct job j = job();
                struct arena a;

                if (strstr(layout, "+stock") || /* zero2 has no whole gradients */
                    (k == 2 && row->cut[GRAD] && !layout_may_sync_last(row)))
                    continue;
                arena_init(&a);
                x.steps = 2;
                j.sync_last = k == 2;
                j.grad_accum = (world + l / 2) % 2 ? 2 : 3;
                plans_fit(&j, layout, world, 4, l + world);
                j.grad_dtype = k ? DTYPE_BF16 : DTYPE_FP32;
                j.param_dtype = world % 2 ? DTYPE_FP32 : DTYPE_BF16;
                check(&x, &a, world % 2 ? "llama" : "gpt2", layout, &j, world);
                ck_assert_msg(x.result.bytes_equal && !x.result.n_differ[COMPARE_PARAMETER],
                              "%s, world %u, %llu micro-batches: %llu differ; %s", layout, world,
                              (unsigned long long)j.grad_accum,
                              (unsigned long long)x.result.n_differ[COMPARE_PARAMETER],
                              x.result.first);
                ck_assert(x.result.every_micro == (factor_ranks(x.plan.factor[GRAD]) > 1 && k < 2));
                arena_release(&a);
            }
}
END_TEST

static void named(const char *layout, struct trial *x, const char *tensor, const char *where)
{
    struct job j = job();
    struct arena a;

    arena_init(&a);
    check(x, &a, "llama", layout, &j, 3);
    ck_assert_uint_gt(x->result.n_differ[COMPARE_PARAMETER], 0);
    ck_assert_msg(strstr(x->result.concerned, tensor) && strstr(x->result.concerned, where),
                  "%s: '%s' has no %s, %s", layout, x->result.concerned, tensor, where);
    arena_release(&a);
}

/* The k-th owned matrix of unit u goes to rank (5k + u) mod 3 (plans.h). */
START_TEST(an_owner_that_forgets_its_update_is_named)
{
    struct trial x = trial(), y = trial();

    x.o.fault = y.o.fault = RUN_SKIP;
    x.o.faulty = y.o.faulty = 1;
    named("zero3+owner", &x, "(owner 1)", "on rank 1");
    ck_assert_int_eq(x.result.evidence, CHECK_UPDATED);
    ck_assert_uint_eq(x.result.evidence_step, 1);
    ck_assert_ptr_null(strstr(x.result.concerned, "(owner 0)"));
    ck_assert_ptr_null(strstr(x.result.concerned, "(owner 2)"));
    named("zero1+owner", &y, "(owner 1)", "on rank 0 1 2");
    ck_assert_ptr_null(strstr(y.result.concerned, "(owner 2)"));
}
END_TEST

START_TEST(a_segment_at_a_wrong_offset_is_named)
{
    static const char *const layouts[] = {"zero3+owner", "zero1+owner"};

    for (int l = 0; l < 2; l++) {
        struct trial x = trial();

        x.o.fault = RUN_SHIFT;
        x.o.faulty = 2;
        named(layouts[l], &x, "(owner", "on rank 2");
        /* zero3 gathers what kernels read, zero1 refreshes after the update */
        ck_assert_int_eq(x.result.evidence, l ? CHECK_UPDATED : CHECK_GATHERED);
        ck_assert_ptr_null(strstr(x.result.concerned, "on rank 0"));
    }
}
END_TEST

START_TEST(a_stale_buffer_is_named)
{
    static const char *const layouts[] = {"zero3+owner", "zero1+owner"};

    for (int l = 0; l < 2; l++) {
        struct trial x = trial();

        x.o.fault = RUN_STALE;
        x.o.faulty = 2;
        named(layouts[l], &x, "(owner", "on rank 2");
        ck_assert_uint_eq(x.result.evidence_step, 2);
        ck_assert_int_eq(x.result.evidence, l ? CHECK_UPDATED : CHECK_GATHERED);
    }
}
END_TEST

/* Muon does not see how long a gradient is, nor Adam but for its eps; and a state that is lost shows in parameters a step late. In
 * the first step, under every layout and optimizer, on the rank that has the fault. */
START_TEST(wrong_gradients_and_lost_states_are_found_in_the_first_step)
{
    static const enum optimizer optimizers[] = {OPTIMIZER_MUON, OPTIMIZER_ADAMW, OPTIMIZER_SHAMPOO,
                                                OPTIMIZER_SOAP};
    static const enum run_fault faults[] = {RUN_RIGHT, RUN_SUM, RUN_TWICE, RUN_LOSE};
    const char *layout;
    int tried = 0;

    for (uint32_t l = 0; (layout = plans_name(l)); l++)
        for (int o = 0; o < 4; o++)
            for (int f = 0; f < 4; f++) {
                struct trial x = trial();
                struct job j = job();
                struct arena a;
                bool summed_at_once;

                if (!plans_go_together(layout, optimizers[o]))
                    continue;
                plans_fit(&j, layout, 4, 4, l + (uint32_t)o);
                arena_init(&a);
                j.optimizer = optimizers[o];
                x.steps = 1;
                x.o.fault = faults[f];
                x.o.faulty = 1;
                check(&x, &a, "one-layer", layout, &j, 4);
                /* buckets, and copies: what a rank spoils goes to all */
                summed_at_once = layout_has_buckets(plans_row(layout), x.plan.strategy)
                                     ? !plans_row(layout)->cut[GRAD]
                                     : factor_ranks(x.plan.factor[STATE]) < 4;
                MUST(x.result.bytes_equal == (f == 0), "%s, optimizer %d, fault %d: %s", layout, o,
                     f, x.result.concerned);
                if (f) {
                    MUST(x.result.evidence == (f < 3 ? CHECK_REDUCED : CHECK_UPDATED),
                         "%s, optimizer %d, fault %d: evidence %d", layout, o, f,
                         x.result.evidence);
                    ck_assert_uint_eq(x.result.evidence_step, 1);
                    MUST(summed_at_once || strstr(x.result.concerned, "; on rank 1"),
                         "%s, optimizer %d, fault %d: %s", layout, o, f, x.result.concerned);
                    ck_assert_uint_gt(x.result.n_differ[f < 3 ? COMPARE_GRADIENT : COMPARE_STATE],
                                      0);
                }
                if (f == 3 && !strstr(layout, "+stock"))
                    ck_assert_uint_eq(x.result.n_differ[COMPARE_PARAMETER], 0);
                tried++;
                arena_release(&a);
            }
    ck_assert_int_ge(tried, 4 * 4 * 15);
}
END_TEST

/* What is not finite is no proof, though bits are equal: a rate without end. */
START_TEST(numbers_that_are_not_finite_are_no_proof)
{
    static const char *const layouts[] = {"ddp", "zero3+owner", "zero3+stock"};

    for (int l = 0; l < 3; l++) {
        struct trial x = trial();
        struct job j = job();
        struct arena a;

        arena_init(&a);
        x.o.lr = 1e38;
        check(&x, &a, "llama", layouts[l], &j, 2);
        ck_assert(!x.result.bytes_equal);
        MUST(x.result.endless_step == 2 || x.result.endless_step == 1, "step %u",
             x.result.endless_step);
        MUST(strlen(x.result.endless) > 0, "%s: no name", layouts[l]);
        arena_release(&a);
    }
}
END_TEST

SUITE_MAIN("exec/check", wrong_gradients_and_lost_states_are_found_in_the_first_step,
           numbers_that_are_not_finite_are_no_proof, stock_is_within_its_ulps_of_ddp,
           several_micro_batches_are_equal_to_the_last_bit,
           an_owner_that_forgets_its_update_is_named, a_segment_at_a_wrong_offset_is_named,
           a_stale_buffer_is_named)
