/* kernels/cuda_activation.cu, cuda_norm.cu and cuda_embed.cu against their references. */
#include "tests/cuda/both.h"

START_TEST(swiglu_is_the_cpus)
{
    EVERY_WAY(w, d)
    for (size_t n = 1; n < 3000; n = n * 7 + 2) {
        struct both b;
        size_t gate, up, out, d_out, d_gate, d_up;

        both_begin(&b, w, d);
        gate = both_in(&b, d, n, -8, 8);
        up = both_in(&b, d, n, -3, 3);
        out = both_out(&b, d, n);
        d_out = both_in(&b, d, n, -1, 1);
        d_gate = both_changed(&b, d, n, -1, 1);
        d_up = both_changed(&b, d, n, -1, 1);
        BOTH(&b, swiglu, kernel_swiglu, .n = n, .gate = P(gate), .up = P(up), .out = P(out));
        BOTH(&b, swiglu_backward, kernel_swiglu, .n = n, .gate = P(gate), .up = P(up),
             .d_out = P(d_out), .d_gate = P(d_gate), .d_up = P(d_up));
        BOTH(&b, swiglu_backward, kernel_swiglu, .n = n, .gate = P(gate), .up = P(up),
             .d_out = P(d_out), .d_up = P(d_up));
        both_end(&b, 4);
    }
}
END_TEST

START_TEST(gelu_of_one_and_of_two_inputs_is_the_cpus)
{
    static const size_t shapes[][3] = {{1, 1, 0}, {5, 17, 0}, {3, 8, 24}, {9, 130, 7}};

    EVERY_WAY(w, d)
    for (int k = 0; k < 8; k++) {
        size_t rows = shapes[k % 4][0], one = shapes[k % 4][1], two = shapes[k % 4][2];
        enum kernel_gelu_form form = k < 4 ? KERNEL_GELU_TANH : KERNEL_GELU_ERF;
        struct both b;
        size_t x0, x1, out, d_out, d_x0, d_x1;

        both_begin(&b, w, d);
        x0 = both_in(&b, d, rows * one, -5, 5);
        x1 = both_in(&b, d, rows * two, -5, 5);
        out = both_out(&b, d, rows * (one + two));
        d_out = both_in(&b, d, rows * (one + two), -1, 1);
        d_x0 = both_changed(&b, d, rows * one, -1, 1);
        d_x1 = both_changed(&b, d, rows * two, -1, 1);
        BOTH(&b, gelu, kernel_gelu, .rows = rows, .width0 = one, .width1 = two, .form = form,
             .x0 = P(x0), .x1 = P(x1), .out = P(out));
        BOTH(&b, gelu_backward, kernel_gelu, .rows = rows, .width0 = one, .width1 = two,
             .form = form, .x0 = P(x0), .x1 = P(x1), .d_out = P(d_out), .d_x0 = P(d_x0),
             .d_x1 = P(d_x1));
        BOTH(&b, gelu_backward, kernel_gelu, .rows = rows, .width0 = one, .width1 = two,
             .form = form, .x0 = P(x0), .x1 = P(x1), .d_out = P(d_out), .d_x1 = P(d_x1));
        both_end(&b, 4);
    }
}
END_TEST

START_TEST(additions_are_the_cpus)
{
    EVERY_WAY(w, d)
    for (size_t n = 1; n < 3000; n = n * 7 + 2) {
        struct both b;
        size_t x, y, out, d_x, d_y;

        both_begin(&b, w, d);
        x = both_in(&b, d, n, -8, 8);
        y = both_in(&b, d, n, -3, 3);
        out = both_out(&b, d, n);
        d_x = both_changed(&b, d, n, -1, 1);
        d_y = both_changed(&b, d, n, -1, 1);
        BOTH(&b, add, kernel_add, .n = n, .x = P(x), .y = P(y), .out = P(out));
        BOTH(&b, add_backward, kernel_add, .n = n, .d_out = P(x), .d_x = P(d_x), .d_y = P(d_y));
        BOTH(&b, add_backward, kernel_add, .n = n, .d_out = P(x), .d_y = P(d_y));
        both_end(&b, 0);
    }
}
END_TEST

static const size_t shapes[][2] = {{1, 1}, {5, 17}, {100, 24}, {70, 300}};

START_TEST(biases_are_the_cpus)
{
    EVERY_WAY(w, d)
    for (int k = 0; k < 4; k++) {
        size_t rows = shapes[k][0], width = shapes[k][1], bias, out, d_out, d_bias;
        struct both b;

        both_begin(&b, w, d);
        b.on.weight = both_types[k % 3];
        b.on.grad = both_types[(k + 1) % 3];
        bias = both_in(&b, b.on.weight, width, -1, 1);
        out = both_changed(&b, d, rows * width, -1, 1);
        d_out = both_in(&b, d, rows * width, -1, 1);
        d_bias = both_changed(&b, b.on.grad, width, -1, 1);
        BOTH(&b, bias, kernel_bias, .rows = rows, .width = width, .bias = P(bias), .out = P(out));
        BOTH(&b, bias_backward, kernel_bias, .rows = rows, .width = width, .d_out = P(d_out),
             .d_bias = P(d_bias));
        both_end(&b, 4);
    }
}
END_TEST

START_TEST(norms_are_the_cpus)
{
    EVERY_WAY(w, d)
    for (int k = 0; k < 8; k++) {
        size_t rows = shapes[k % 4][0], width = shapes[k % 4][1], x, weight, bias, out, d_out, d_x,
               d_w, d_b;
        struct both b;

        both_begin(&b, w, d);
        b.on.weight = both_types[k % 3];
        b.on.grad = both_types[(k + 1) % 3];
        x = both_in(&b, d, rows * width, -1, 3);
        weight = both_in(&b, b.on.weight, width, -2, 2);
        bias = both_in(&b, b.on.weight, width, -1, 1);
        out = both_out(&b, d, rows * width);
        d_out = both_in(&b, d, rows * width, -1, 1);
        d_x = both_changed(&b, d, rows * width, -1, 1);
        d_w = both_changed(&b, b.on.grad, width, -1, 1);
        d_b = both_changed(&b, b.on.grad, width, -1, 1);
        if (k < 4) {
            BOTH(&b, rmsnorm, kernel_norm, .rows = rows, .width = width, .eps = 1e-5f, .x = P(x),
                 .weight = P(weight), .out = P(out));
            BOTH(&b, rmsnorm_backward, kernel_norm, .rows = rows, .width = width, .eps = 1e-5f,
                 .x = P(x), .weight = P(weight), .d_out = P(d_out), .d_x = P(d_x),
                 .d_weight = P(d_w));
            BOTH(&b, rmsnorm_backward, kernel_norm, .rows = rows, .width = width, .eps = 1e-5f,
                 .x = P(x), .weight = P(weight), .d_out = P(d_out), .d_weight = P(d_w));
        } else {
            BOTH(&b, layernorm, kernel_norm, .rows = rows, .width = width, .eps = 1e-5f, .x = P(x),
                 .weight = P(weight), .bias = k < 6 ? P(bias) : NULL, .out = P(out));
            BOTH(&b, layernorm_backward, kernel_norm, .rows = rows, .width = width, .eps = 1e-5f,
                 .x = P(x), .weight = P(weight), .d_out = P(d_out), .d_x = P(d_x),
                 .d_weight = P(d_w), .d_bias = k < 6 ? P(d_b) : NULL);
            BOTH(&b, layernorm_backward, kernel_norm, .rows = rows, .width = width, .eps = 1e-5f,
                 .x = P(x), .weight = P(weight), .d_out = P(d_out), .d_x = P(d_x));
        }
        both_end(&b, 40);
    }
}
END_TEST

/* ---- embeddings ---- */

START_TEST(embeddings_are_the_cpus)
{
    static const size_t sizes[][3] = {{1, 1, 1}, {40, 24, 7}, {300, 17, 1000}, {90, 2100, 3}};

    EVERY_WAY(w, d)
    for (int k = 0; k < 4; k++) {
        size_t tokens = sizes[k][0], hidden = sizes[k][1], vocab = sizes[k][2], ids, table, out,
               d_out, d_table;
        int64_t *id = MEM_NEW(int64_t, tokens);
        struct both b;

        both_begin(&b, w, d);
        b.on.weight = both_types[k % 3];
        b.on.grad = DTYPE_FP32; /* the CPU rounds once a token, the device once an id */
        for (size_t t = 0; t < tokens; t++)
            id[t] = (int64_t)rng_size(&b.seed, 0, vocab - 1);
        ids = both_bytes(&b, BOTH_IN, id, tokens * sizeof(*id));
        table = both_in(&b, b.on.weight, vocab * hidden, -1, 1);
        out = both_out(&b, d, tokens * hidden);
        d_out = both_in(&b, d, tokens * hidden, -1, 1);
        d_table = both_changed(&b, b.on.grad, vocab * hidden, -1, 1);
        BOTH(&b, embed, kernel_embed, .tokens = tokens, .hidden = hidden, .vocab = vocab,
             .ids = P(ids), .table = P(table), .out = P(out));
        BOTH(&b, embed_backward, kernel_embed, .tokens = tokens, .hidden = hidden, .vocab = vocab,
             .ids = P(ids), .d_out = P(d_out), .d_table = P(d_table));
        both_end(&b, 20);
        mem_free(id);
    }
}
END_TEST

/* One occurrence an id: no sum, and so one rounding on both sides. */
START_TEST(gradients_of_tables_are_rounded_to_their_type)
{
    EVERY_WAY(w, d)
    {
        enum { TOKENS = 33, HIDDEN = 12 };
        int64_t id[TOKENS];
        struct both b;
        size_t ids, d_out, d_table;

        both_begin(&b, w, d);
        for (int t = 0; t < TOKENS; t++)
            id[t] = TOKENS - 1 - t;
        ids = both_bytes(&b, BOTH_IN, id, sizeof(id));
        d_out = both_in(&b, d, TOKENS * HIDDEN, -1, 1);
        d_table = both_changed(&b, d, TOKENS * HIDDEN, -1, 1);
        BOTH(&b, embed_backward, kernel_embed, .tokens = TOKENS, .hidden = HIDDEN, .vocab = TOKENS,
             .ids = P(ids), .d_out = P(d_out), .d_table = P(d_table));
        both_end(&b, 0);
    }
}
END_TEST

START_TEST(positions_are_the_cpus)
{
    static const size_t sizes[][3] = {{1, 1, 1}, {3, 5, 24}, {2, 40, 17}};

    EVERY_WAY(w, d)
    for (int k = 0; k < 3; k++) {
        size_t batch = sizes[k][0], seq = sizes[k][1], hidden = sizes[k][2], x, table, out, d_x,
               d_table;
        struct both b;

        both_begin(&b, w, d);
        b.on.weight = both_types[k % 3];
        b.on.grad = both_types[(k + 1) % 3];
        x = both_in(&b, d, batch * seq * hidden, -1, 1);
        table = both_in(&b, b.on.weight, (seq + 3) * hidden, -1, 1);
        out = both_out(&b, d, batch * seq * hidden);
        d_x = both_changed(&b, d, batch * seq * hidden, -1, 1);
        d_table = both_changed(&b, b.on.grad, (seq + 3) * hidden, -1, 1);
        BOTH(&b, position, kernel_position, .tokens = batch * seq, .hidden = hidden, .seq = seq,
             .x = P(x), .table = P(table), .out = P(out));
        BOTH(&b, position_backward, kernel_position, .tokens = batch * seq, .hidden = hidden,
             .seq = seq, .d_out = P(x), .d_x = P(d_x), .d_table = P(d_table));
        BOTH(&b, position_backward, kernel_position, .tokens = batch * seq, .hidden = hidden,
             .seq = seq, .d_out = P(x), .d_table = P(d_table));
        both_end(&b, 2);
    }
}
END_TEST

START_TEST(rotations_are_the_cpus)
{
    static const size_t sizes[][4] = {{1, 1, 1, 2}, {2, 9, 3, 8}, {3, 5, 2, 34}, {1, 70, 1, 64}};

    EVERY_WAY(w, d)
    for (int k = 0; k < 4; k++) {
        size_t batch = sizes[k][0], seq = sizes[k][1], heads = sizes[k][2], dim = sizes[k][3];
        size_t n = batch * seq * heads * dim, x, out, d_x;
        struct both b;

        both_begin(&b, w, d);
        x = both_in(&b, d, n, -1, 1);
        out = both_out(&b, d, n);
        d_x = both_changed(&b, d, n, -1, 1);
        BOTH(&b, rope, kernel_rope, .tokens = batch * seq, .seq = seq, .heads = heads,
             .head_dim = dim, .theta = 10000, .x = P(x), .out = P(out));
        BOTH(&b, rope_backward, kernel_rope, .tokens = batch * seq, .seq = seq, .heads = heads,
             .head_dim = dim, .theta = 10000, .d_out = P(x), .d_x = P(d_x));
        both_end(&b, 1);
    }
}
END_TEST

SUITE_MAIN("cuda/layer", swiglu_is_the_cpus, gelu_of_one_and_of_two_inputs_is_the_cpus,
           additions_are_the_cpus, biases_are_the_cpus, norms_are_the_cpus, embeddings_are_the_cpus,
           gradients_of_tables_are_rounded_to_their_type, positions_are_the_cpus,
           rotations_are_the_cpus)
