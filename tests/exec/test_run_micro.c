/* Micro-batches, buckets, shard groups and what overlaps: training stays as under plain data parallelism that sums in the same order. */
#include "tests/exec/runs.h"

/* Buckets and pieces that end inside tensors and slices; bf16; micro-batches, all reduced in the last one or each. */
START_TEST(small_buckets_and_micro_batches_change_nothing)
{
    static const uint32_t worlds[] = {3, 8};

    for (int w = 0; w < 2; w++) {
        struct setting s = small("gpt2", "ddp", worlds[w]);

        s.job.bucket_bytes = 5000;
        s.job.grad_accum = 2;
        s.job.param_dtype = DTYPE_BF16;
        s.steps = 2;
        for (uint32_t l = 0; layout_of(&s, l, l); l++)
            compare(&s);
    }
}
END_TEST

/* zero2 and zero3 sum each micro-batch over ranks before they add them up: so does the reference. Tied (gpt2) and untied heads, experts;
 * small buckets, which only plain ddp has. */
START_TEST(micro_batches_reduced_one_by_one_train_as_ddp_that_does_so)
{
    static const char *const which[] = {"llama", "gpt2", "moe"};
    static const enum optimizer optimizers[] = {OPTIMIZER_MUON, OPTIMIZER_SOAP, OPTIMIZER_MUON,
                                                OPTIMIZER_SHAMPOO};

    for (uint32_t world = 2; world <= 4; world++)
        for (int k = 0; k < 4; k++) { /* 2 or 3 micro-batches, fp32 or bf16 gradients */
            struct setting s = small(which[(world + (uint32_t)k) % 3], "ddp", world);
            struct outcome ddp;
            struct arena a;

            s.every_micro = true;
            s.steps = 2;
            s.job.grad_accum = 2 + (uint64_t)k % 2;
            s.job.grad_dtype = k < 2 ? DTYPE_FP32 : DTYPE_BF16;
            s.job.bucket_bytes = 5000;
            s.job.optimizer = optimizers[k];
            arena_init(&a);
            run(&s, "ddp", &a, &ddp);
            check_bytes(&s, &ddp);
            for (uint32_t l = 0; layout_of(&s, l, l); l++)
                if (s.every_micro && !s.job.shard_group &&
                    !s.job.mesh) /* others: test_run_mesh.c, below */
                    compare_with(&s, &ddp);
            release(&ddp);
            arena_release(&a);
        }
}
END_TEST

/* In the program's order, and in two of those that its waits allow. */
static void compare_shuffled(struct setting *s)
{
    struct outcome ddp;
    struct arena a;

    arena_init(&a);
    run(s, "ddp", &a, &ddp);
    for (s->shuffle = 0; s->shuffle <= 200; s->shuffle += 100)
        compare_with(s, &ddp);
    release(&ddp);
    arena_release(&a);
}

/* On four ranks, with another model and optimizer from layout to layout, and so many micro-batches. */
static struct setting on_four(uint32_t l, uint64_t micro)
{
    static const char *const which_model[] = {"llama", "gpt2", "moe"};
    struct setting s = small(which_model[(l + micro) % 3], "ddp", 4);

    s.steps = 2;
    s.job.grad_accum = micro;
    s.job.grad_dtype = micro > 1 ? DTYPE_BF16 : DTYPE_FP32;
    s.job.bucket_bytes = 5000;
    s.job.optimizer = l % 4 == 3 ? OPTIMIZER_ADAMW : l % 4 == 2 ? OPTIMIZER_SOAP : OPTIMIZER_MUON;
    return s;
}

/* Every layout on four ranks with an option set, if it has a use for it, in any order of the streams; one, two and three micro-batches
 * in turn, which is what ten seconds allow. */
static void each(void (*set)(struct setting *s), bool (*uses)(const struct layout *l))
{
    struct setting s = on_four(0, 1);

    for (uint32_t l = 0; layout_of(&s, l, l); l++) {
        s = on_four(l, 1 + l % 3);
        set(&s);
        layout_of(&s, l, l);
        if (uses(plans_row(s.layout)) && plans_go_together(s.layout, s.job.optimizer))
            compare_shuffled(&s);
    }
}

static bool gathers(const struct layout *l)
{
    return l->cut[PARAM];
}

static bool reduces(const struct layout *l)
{
    (void)l;
    return true;
}

static void set_never(struct setting *s)
{
    s->job.reshard_never = true;
}

static void set_beside_nothing(struct setting *s)
{
    s->job.overlap_reduce = OVERLAP_NO;
}

static void set_last(struct setting *s)
{
    s->job.sync_last = true;
}

/* Units that stay gathered to the end of their backward: the same weights, in any order of the streams; every gather is one of
 * forward's. */
START_TEST(units_that_stay_gathered_change_nothing)
{
    each(set_never, gathers);
}
END_TEST

/* Reductions after backward, or before the next unit's: the same weights, in any order that the waits allow. */
START_TEST(reductions_beside_nothing_change_nothing)
{
    each(set_beside_nothing, reduces);
}
END_TEST

/* no_sync: gradients that stay whole until the last micro-batch are summed as ddp sums them, or in groups first, and over the
 * groups what came out. */
START_TEST(gradients_reduced_in_the_last_micro_batch_train_as_ddp)
{
    each(set_last, layout_may_sync_last);
}
END_TEST

/* One copy a rank, several a node of 4, one a node, one over two nodes; ddp's reference sums in the same groups, then over
 * them. zero1 has copies of states alone, and sums over all ranks at once. */
START_TEST(shard_groups_train_as_ddp_that_sums_in_them)
{
    static const uint32_t worlds[][2] = {{2, 1}, {4, 2}, {4, 4}, {8, 2}, {8, 4}, {6, 3}, {8, 1}};
    static const char *const which[] = {
        "hsdp+gather", "hsdp+owner",  "mics+owner", "hsdp+gather-once",
        "hsdp",        "mics+gather", "zero1",      "hsdp+alltoall"};
    static const char *const which_model[] = {"llama", "gpt2", "moe"};

    for (int w = 0; w < 7; w++)
        for (int l = 0; l < 8; l++) {
            struct setting s = small(which_model[(w + l) % 3], which[l], worlds[w][0]);

            s.steps = 2;
            s.job.shard_group = worlds[w][1];
            if (l == 4 || l == 6) /* nothing to rebuild */
                s.job.optimizer = OPTIMIZER_ADAMW;
            else
                s.job.optimizer = w % 3 || l == 7 ? OPTIMIZER_MUON : OPTIMIZER_SOAP;
            s.at_once = l == 6;
            s.job.grad_accum = 1 + (uint64_t)(w + l) % 2;
            s.every_micro = s.job.shard_group > 1 && s.job.grad_accum > 1 && !s.at_once;
            s.job.grad_dtype = w % 2 ? DTYPE_FP32 : DTYPE_BF16;
            s.job.bucket_bytes = 5000;
            compare(&s);
        }
}
END_TEST

/* Streams beside one another in any order; without the optimizer's wait for the sums over copies some order shows it. */
START_TEST(sums_over_copies_are_waited_for)
{
    static const char *const which[] = {"hsdp+owner", "hsdp+gather", "mics+owner"};

    for (int l = 0; l < 6; l++) { /* each with shards of their own, and among whole gradients */
        struct setting s =
            small("block", which[l % 3], 4); /* updates begin with the last unit to be summed */
        struct outcome x, ddp;
        struct arena a;
        char text[256];
        int found = 0;

        arena_init(&a);
        s.job.shard_group = 2;
        s.job.sync_last = l > 2;
        s.job.grad_accum = l > 2 ? 2 : 1;
        s.steps = 2;
        run(&s, "ddp", &a, &ddp);
        for (s.shuffle = 100; s.shuffle <= 800; s.shuffle += 100) {
            s.forget = false;
            run(&s, s.layout, &a, &x);
            if (differs(&s, &x, &ddp, text, sizeof(text)))
                ck_abort_msg("%s", text);
            release(&x);
            s.forget = true;
            run(&s, s.layout, &a, &x);
            found += differs(&s, &x, &ddp, text, sizeof(text)) != NULL;
            release(&x);
        }
        ck_assert(l == 2 ? found == 0 : found > 0); /* mics's reductions end with them */
        release(&ddp);
        arena_release(&a);
    }
}
END_TEST

/* From outside: a mean over all ranks at once, as plain ddp has it, is the mean of the groups' means but for the last places, and
 * training goes the same way. Copies that are not summed go another. */
START_TEST(means_of_means_are_the_mean)
{
    for (uint32_t group = 2; group <= 4; group += 2) {
        struct setting s = small("llama", "hsdp+gather", 8);
        struct outcome x, apart, ddp;
        struct arena a;
        double near, far;

        arena_init(&a);
        s.job.shard_group = group;
        s.at_once = true;
        run(&s, "ddp", &a, &ddp);
        run(&s, s.layout, &a, &x);
        s.apart = true;
        run(&s, s.layout, &a, &apart);
        near = fabs(x.loss[STEPS - 1] - ddp.loss[STEPS - 1]) / ddp.loss[STEPS - 1];
        far = fabs(apart.loss[STEPS - 1] - ddp.loss[STEPS - 1]) / ddp.loss[STEPS - 1];
        ck_assert_msg(near < 1e-5, "groups of %u: %g", group, near);
        ck_assert_msg(far > 1e-3, "groups of %u, not summed: %g", group, far);
        release(&x);
        release(&apart);
        release(&ddp);
        arena_release(&a);
    }
}
END_TEST

START_TEST(the_order_of_micro_batches_and_ranks_shows_in_the_bits)
{
    struct setting s = small("llama", "zero3+owner", 3);
    struct outcome x, ddp;
    struct arena a;
    char text[256];

    s.job.grad_accum = 2;
    s.job.grad_dtype = DTYPE_BF16;
    arena_init(&a);
    run(&s, "ddp", &a, &ddp);
    run(&s, s.layout, &a, &x);
    ck_assert_ptr_nonnull(differs(&s, &x, &ddp, text, sizeof(text)));
    release(&x);
    release(&ddp);
    arena_release(&a);
}
END_TEST

SUITE_MAIN("exec/run_micro", small_buckets_and_micro_batches_change_nothing,
           micro_batches_reduced_one_by_one_train_as_ddp_that_does_so,
           units_that_stay_gathered_change_nothing, reductions_beside_nothing_change_nothing,
           gradients_reduced_in_the_last_micro_batch_train_as_ddp,
           shard_groups_train_as_ddp_that_sums_in_them, sums_over_copies_are_waited_for,
           means_of_means_are_the_mean, the_order_of_micro_batches_and_ranks_shows_in_the_bits)
