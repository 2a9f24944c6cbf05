/* kernels/cuda_loss.cu against kernels/loss.c. */
#include "tests/cuda/both.h"

START_TEST(cross_entropy_is_the_cpus)
{
    static const size_t shapes[][2] = {{1, 1}, {5, 9}, {40, 300}, {3, 5000}};

    EVERY_WAY(w, d)
    for (int k = 0; k < 8; k++) {
        size_t tokens = shapes[k % 4][0], vocab = shapes[k % 4][1], logits, targets, log_probs,
               loss, d_logits;
        int64_t *target = MEM_NEW(int64_t, tokens);
        struct both b;

        both_begin(&b, w, d);
        for (size_t t = 0; t < tokens; t++)
            target[t] = k < 4 && t % 3 != 1 ? (int64_t)rng_size(&b.seed, 0, vocab - 1) : -1;
        if (k >= 4 && k < 6) /* one counts; in 6 and 7 none */
            target[0] = (int64_t)vocab - 1;
        logits = both_in(&b, d, tokens * vocab, k == 2 ? -900 : -9, k == 2 ? 900 : 9);
        targets = both_bytes(&b, BOTH_IN, target, tokens * sizeof(*target));
        log_probs = both_out(&b, DTYPE_FP32, tokens * vocab);
        loss = both_out(&b, DTYPE_FP32, 1);
        d_logits = both_changed(&b, d, tokens * vocab, -0.01, 0.01);
        BOTH(&b, cross_entropy, kernel_cross_entropy, .tokens = tokens, .vocab = vocab,
             .logits = P(logits), .targets = P(targets), .log_probs = P(log_probs),
             .loss = P(loss));
        BOTH(&b, cross_entropy_backward, kernel_cross_entropy, .tokens = tokens, .vocab = vocab,
             .targets = P(targets), .log_probs = P(log_probs), .scale = 0.5f,
             .d_logits = P(d_logits));
        both_end(&b, 20);
        mem_free(target);
    }
}
END_TEST

START_TEST(squared_error_is_the_cpus)
{
    static const size_t sizes[] = {1, 17, 20000};

    EVERY_WAY(w, d)
    for (int k = 0; k < 6; k++) {
        size_t n = sizes[k % 3], x, target, loss, d_x;
        struct both b;

        both_begin(&b, w, d);
        x = both_in(&b, d, n, -2, 2);
        target = both_in(&b, d, n, -2, 2);
        loss = both_out(&b, DTYPE_FP32, 1);
        d_x = both_changed(&b, d, n, -1, 1);
        BOTH(&b, squared_error, kernel_squared_error, .n = n, .x = P(x),
             .target = k < 3 ? P(target) : NULL, .loss = P(loss));
        BOTH(&b, squared_error_backward, kernel_squared_error, .n = n, .x = P(x),
             .target = k < 3 ? P(target) : NULL, .scale = 3, .d_x = P(d_x));
        both_end(&b, 2);
    }
}
END_TEST

SUITE_MAIN("cuda/loss", cross_entropy_is_the_cpus, squared_error_is_the_cpus)
