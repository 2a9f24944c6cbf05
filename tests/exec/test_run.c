/* Layouts train as plain data parallelism does, to the last bit (tests/exec/runs.h). */
#include "tests/exec/runs.h"

START_TEST(every_layout_trains_as_ddp_does_to_the_last_bit)
{
    static const uint32_t worlds[] = {1, 2, 3, 4, 7, 8};

    for (int m = 0; m < 3; m++)
        for (int w = 0; w < 6; w++) {
            struct setting s = small(models[m], "ddp", worlds[w]);
            struct outcome ddp;
            struct arena a;

            arena_init(&a);
            run(&s, "ddp", &a, &ddp);
            check_bytes(&s, &ddp);
            compare_all(&s, &ddp, (uint32_t)(m + w));
            release(&ddp);
            arena_release(&a);
        }
}
END_TEST

START_TEST(names_of_operations_steer_nothing)
{
    struct setting s = small("llama", "zero1+owner", 2);
    struct outcome named, x;
    struct arena a;
    char text[256];

    arena_init(&a);
    run(&s, s.layout, &a, &named);
    s.nameless = true;
    run(&s, s.layout, &a, &x);
    MUST(!differs(&s, &x, &named, text, sizeof(text)), "%s", text);
    release(&x);
    release(&named);
    arena_release(&a);
}
END_TEST

/* Streams drained in any order that they and the program's waits allow give the same bits: nothing that an operation needs
 * goes unsaid. */
START_TEST(any_legal_order_of_the_streams_gives_the_same_bits)
{
    static const uint32_t worlds[] = {1, 3, 4};
    static const enum optimizer optimizers[] = {OPTIMIZER_MUON, OPTIMIZER_SOAP, OPTIMIZER_MUON};
    static const char *const of[] = {"llama", "one-layer", "moe"};

    for (int m = 0; m < 3; m++)
        for (int w = 0; w < 3; w++) {
            struct setting s = small(of[m], "ddp", worlds[w]);
            struct outcome ddp;
            struct arena a;

            s.job.optimizer = optimizers[m];
            s.job.recompute = m ? RECOMPUTE_FULL : RECOMPUTE_NONE;
            s.job.bucket_bytes = 5000;
            s.steps = 2;
            arena_init(&a);
            run(&s, "ddp", &a, &ddp);
            for (s.shuffle = 100; s.shuffle <= 300; s.shuffle += 100)
                compare_all(&s, &ddp, (uint32_t)s.shuffle + (uint32_t)w);
            release(&ddp);
            arena_release(&a);
        }
}
END_TEST

START_TEST(a_forgotten_wait_is_caught)
{
    struct setting s = small("llama", "zero1+owner", 3);
    struct outcome x, ddp;
    struct arena a;
    char text[256];
    int found = 0;

    arena_init(&a);
    run(&s, "ddp", &a, &ddp);
    s.forget = true;
    run(&s, s.layout, &a, &x);
    ck_assert_ptr_null(differs(&s, &x, &ddp, text, sizeof(text))); /* in the order of issue */
    release(&x);
    for (s.shuffle = 100; s.shuffle <= 500; s.shuffle += 100) {
        run(&s, s.layout, &a, &x);
        found += differs(&s, &x, &ddp, text, sizeof(text)) != NULL;
        release(&x);
    }
    ck_assert_int_gt(found, 0);
    release(&ddp);
    arena_release(&a);
}
END_TEST

START_TEST(every_gather_algorithm_brings_the_same_weights)
{
    static const enum coll_algo algos[] = {ALGO_P2P, ALGO_RING, ALGO_TREE, ALGO_HIERARCHICAL,
                                           ALGO_PADDED};

    struct setting s = small("llama", "ddp", 7); /* ddp gathers nothing: once is enough */
    struct outcome ddp;
    struct arena a;

    arena_init(&a);
    run(&s, "ddp", &a, &ddp);
    for (int k = 0; k < 5; k++)
        for (int l = 0; l < 2; l++) {
            s.layout = l ? "zero3+owner" : "zero1+owner";
            s.job.gather = algos[k];
            compare_with(&s, &ddp);
        }
    release(&ddp);
    arena_release(&a);
}
END_TEST

START_TEST(bf16_storage_and_recomputation_change_nothing_between_layouts)
{
    static const enum recompute modes[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};

    for (int k = 0; k < 3; k++) {
        struct setting s = small("llama", "zero3+owner", 4);

        s.job.param_dtype = s.job.grad_dtype = DTYPE_BF16;
        s.job.recompute = modes[k];
        compare(&s);
    }
}
END_TEST

SUITE_MAIN("exec/run", every_layout_trains_as_ddp_does_to_the_last_bit,
           names_of_operations_steer_nothing, any_legal_order_of_the_streams_gives_the_same_bits,
           a_forgotten_wait_is_caught, every_gather_algorithm_brings_the_same_weights,
           bf16_storage_and_recomputation_change_nothing_between_layouts)
