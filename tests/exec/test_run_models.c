/* Experts, other families, other optimizers and recomputation train as under plain data parallelism. */
#include "tests/exec/runs.h"

START_TEST(experts_train_as_under_ddp)
{
    static const uint32_t worlds[] = {1, 2, 3, 4, 7, 8};

    for (int w = 0; w < 6; w++) {
        struct setting s = small(w % 2 ? "qwen-moe" : "moe", "ddp", worlds[w]);
        struct outcome ddp;
        struct arena a;

        s.job.recompute = w % 2 ? RECOMPUTE_NONE : RECOMPUTE_FULL;
        s.job.param_dtype = w % 3 ? DTYPE_FP32 : DTYPE_BF16;
        arena_init(&a);
        run(&s, "ddp", &a, &ddp);
        compare_all(&s, &ddp, (uint32_t)w);
        release(&ddp);
        arena_release(&a);
    }
}
END_TEST

/* Blocks in other orders: norms behind (OLMo 2); one norm for attention and MLP side by side, biases, a head with one
 * (GPT-J); two norms side by side, groups of keys (Falcon); LayerNorms without biases (MPT); plain MLPs (StarCoder2). */
START_TEST(blocks_of_other_families_train_as_under_ddp)
{
    static const char *const configs[] = {
        "{\"model_type\":\"olmo2\",\"hidden_size\":24,\"intermediate_size\":40,\"vocab_size\":89,"
        "\"num_hidden_layers\":2,\"num_attention_heads\":3}",
        "{\"model_type\":\"gptj\",\"n_embd\":24,\"n_layer\":2,\"n_head\":3,\"rotary_dim\":8,"
        "\"vocab_size\":89}",
        "split {\"model_type\":\"falcon\",\"hidden_size\":32,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":4,\"num_kv_heads\":2,\"vocab_size\":89,"
        "\"new_decoder_architecture\":true}",
        "{\"model_type\":\"mpt\",\"d_model\":24,\"n_layers\":2,\"n_heads\":3,\"vocab_size\":89,"
        "\"max_seq_len\":64,\"no_bias\":true}",
        "{\"model_type\":\"starcoder2\",\"hidden_size\":24,\"intermediate_size\":40,"
        "\"vocab_size\":89,\"num_hidden_layers\":2,\"num_attention_heads\":3,"
        "\"num_key_value_heads\":1}",
    };
    static const uint32_t worlds[] = {2, 3, 5, 4, 7};

    for (size_t c = 0; c < sizeof(configs) / sizeof(configs[0]); c++) {
        struct setting s = small(configs[c], "ddp", worlds[c]);
        struct outcome ddp;
        struct arena a;

        s.job.recompute = c % 2 ? RECOMPUTE_SELECTIVE : RECOMPUTE_FULL;
        arena_init(&a);
        run(&s, "ddp", &a, &ddp);
        compare_all(&s, &ddp, (uint32_t)c);
        release(&ddp);
        arena_release(&a);
    }
}
END_TEST

START_TEST(preconditioned_optimizers_train_as_under_ddp)
{
    static const uint32_t worlds[] = {1, 2, 3, 4, 7, 8};
    static const enum optimizer optimizers[] = {OPTIMIZER_SHAMPOO, OPTIMIZER_SOAP};

    for (int k = 0; k < 2; k++)
        for (int w = 0; w < 6; w++) {
            struct setting s = small(w % 2 ? "gpt2" : "one-layer", "ddp", worlds[w]);
            struct outcome ddp;
            struct arena a;

            s.job.optimizer = optimizers[k];
            s.job.grad_dtype = w % 2 ? DTYPE_BF16 : DTYPE_FP32;
            arena_init(&a);
            run(&s, "ddp", &a, &ddp);
            compare_all(&s, &ddp, (uint32_t)(w + k));
            release(&ddp);
            arena_release(&a);
        }
}
END_TEST

START_TEST(recomputation_gives_the_bits_of_kept_activations)
{
    struct setting s = small("gpt2", "ddp", 2);
    struct outcome full, none;
    struct arena a;
    char text[256];

    arena_init(&a);
    run(&s, "ddp", &a, &full);
    s.job.recompute = RECOMPUTE_NONE;
    run(&s, "ddp", &a, &none);
    if (differs(&s, &none, &full, text, sizeof(text)))
        ck_abort_msg("%s", text);
    release(&full);
    release(&none);
    arena_release(&a);
}
END_TEST

START_TEST(training_lowers_the_loss)
{
    for (int m = 0; m < 3; m++) {
        struct setting s = small(m < 2 ? models[m] : "moe", "zero3+owner", 2);
        double first = 0, last = 0;
        struct outcome x;
        struct arena a;

        s.steps = MAX_STEPS;
        s.job.micro_batch = 4;
        s.lr = m ? 0.1 : 0.02;
        arena_init(&a);
        run(&s, s.layout, &a, &x);
        for (int i = 0; i < 3; i++) {
            first += x.loss[i] / 3;
            last += x.loss[MAX_STEPS - 1 - i] / 3;
        }
        ck_assert_msg(last < 0.98 * first, "%s: from %g to %g", s.model, first, last);
        release(&x);
        arena_release(&a);
    }
}
END_TEST

START_TEST(an_owner_that_skips_its_update_is_caught)
{
    struct setting s = small("llama", "zero3+owner", 3);
    struct outcome x, ddp;
    struct arena a;
    char text[256];

    s.fault = RUN_SKIP;
    arena_init(&a);
    run(&s, "ddp", &a, &ddp);
    run(&s, s.layout, &a, &x);
    ck_assert_ptr_nonnull(differs(&s, &x, &ddp, text, sizeof(text)));
    release(&x);
    release(&ddp);
    arena_release(&a);
}
END_TEST

SUITE_MAIN("exec/run_models", experts_train_as_under_ddp,
           blocks_of_other_families_train_as_under_ddp,
           preconditioned_optimizers_train_as_under_ddp,
           recomputation_gives_the_bits_of_kept_activations, training_lowers_the_loss,
           an_owner_that_skips_its_update_is_caught)
