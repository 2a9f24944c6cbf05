/* Encoders, and encoders with a decoder: what their units compute, and of how many tokens, by hand. */
#include "model/graph/graph.h"
#include "tests/model/families.h"
#include "tests/suite.h"

#include <string.h>

static struct arena a;
static struct model m;
static struct unit_graph g;
static struct err e;

/* T5-11B on 3 sequences of 512 tokens and 128 of their targets. */
enum { B = 3, S = 512, T = 128, H = 128, D = 128, HIDDEN = 1024, FFN = 65536, VOCAB = 32128 };

static void family(const char *name)
{
    arena_init(&a);
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].name, name)) {
            ck_assert_msg(model_from_config(families[i].config, strlen(families[i].config), "t", &a,
                                            &m, &e) == 0,
                          "%s", e.msg);
            return;
        }
    ck_abort_msg("no family '%s'", name);
}

static void build(const char *class_name, uint64_t micro, uint64_t seq, uint64_t target)
{
    const struct graph_batch n = {.micro_batch = micro, .seq_len = seq, .target_len = target};

    for (uint32_t c = 0; c < m.n_classes; c++)
        if (!strcmp(m.classes[c].name, class_name)) {
            MUST(graph_build(&m, c, &n, DTYPE_BF16, &g, &e) == 0, "%s", e.msg);
            return;
        }
    ck_abort_msg("no class '%s'", class_name);
}

static const struct graph_op *op(const char *name)
{
    for (uint32_t i = 0; i < g.n_ops; i++)
        if (!strcmp(g.ops[i].name, name))
            return &g.ops[i];
    ck_abort_msg("no op '%s'", name);
    return NULL;
}

static uint64_t flops(enum kernel k)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < g.n_ops; i++)
        sum += g.ops[i].forward.kernel == k ? g.ops[i].forward.flops : 0;
    return sum;
}

static const struct graph_value *carried(enum carry c)
{
    for (uint32_t v = 0; v < g.n_values; v++)
        if (g.values[v].carried == c)
            return &g.values[v];
    return NULL;
}

static bool makes(enum carry c)
{
    for (uint32_t i = 0; i < g.n_ops; i++)
        if (g.values[g.ops[i].out].carried == c)
            return true;
    return false;
}

START_TEST(an_encoder_sees_all_tokens_and_a_decoder_the_ones_before)
{
    uint64_t width = H * D;

    family("t5-11b");
    build("encoder-layer", B, S, T);
    ck_assert_uint_eq(op("attention")->forward.flops, 4ull * B * H * D * S * S);
    ck_assert_uint_eq(flops(KERNEL_GEMM),
                      2ull * B * S * (4 * width * HIDDEN + 2ull * HIDDEN * FFN));
    ck_assert_uint_eq(g.values[0].bytes, 2ull * B * S * HIDDEN);
    build("decoder-layer", B, S, T);
    ck_assert_uint_eq(op("attention")->forward.flops, 4ull * B * H * D * T * T / 2);
    /* queries of the decoder, keys of the encoder, no mask */
    ck_assert_uint_eq(op("cross")->forward.flops, 4ull * B * H * D * T * S);
    ck_assert_uint_eq(op("cross")->forward.m, T);
    ck_assert_uint_eq(op("cross")->forward.n, S);
    ck_assert_uint_eq(op("cross_q")->forward.m, (uint64_t)B * T);
    ck_assert_uint_eq(op("cross_k")->forward.m, (uint64_t)B * S);
    ck_assert_uint_eq(flops(KERNEL_GEMM),
                      2ull * B * T * (6 * width * HIDDEN + 2ull * HIDDEN * FFN) +
                          2ull * B * S * 2 * width * HIDDEN);
    ck_assert_uint_eq(g.values[0].bytes, 2ull * B * T * HIDDEN);
    build("head", B, S, T);
    ck_assert_uint_eq(op("logits")->forward.flops, 2ull * B * T * VOCAB * HIDDEN);
    build("embed", B, S, T);
    ck_assert_uint_eq(g.values[0].bytes, 8ull * B * (S + T)); /* both texts' tokens come at once */
    build("decoder-layer", B, S, 0);                          /* targets as long as the text */
    ck_assert_uint_eq(op("cross_q")->forward.m, (uint64_t)B * S);
    arena_release(&a);
}
END_TEST

START_TEST(the_encoders_output_is_made_once_and_read_by_every_layer_of_the_decoder)
{
    family("t5-11b");
    build("bridge", B, S, T);
    ck_assert(makes(CARRIED_ENCODED));
    ck_assert_uint_eq(carried(CARRIED_ENCODED)->bytes, 2ull * B * S * HIDDEN);
    ck_assert_uint_eq(op("encoder_norm")->forward.m, (uint64_t)B * S);
    ck_assert(op("embed")->weight_of_embedding);
    ck_assert_uint_eq(op("embed")->forward.m, (uint64_t)B * T);
    ck_assert_uint_eq(op("embed")->n_in, 0);
    ck_assert_uint_eq(g.values[g.output].bytes, 2ull * B * T * HIDDEN);
    for (int k = 0; k < 2; k++) {
        build(k ? "decoder-layer" : "decoder-first", B, S, T);
        ck_assert(!makes(CARRIED_ENCODED));
        ck_assert_int_eq(g.values[op("cross_k")->in[0]].carried, CARRIED_ENCODED);
        ck_assert_int_eq(g.values[op("cross_v")->in[0]].carried, CARRIED_ENCODED);
        ck_assert_uint_eq(carried(CARRIED_ENCODED)->bytes, 2ull * B * S * HIDDEN);
        /* norm, attention, norm, attention to the encoder, norm, MLP */
        ck_assert_uint_eq(op("cross_norm")->in[0], op("add1")->out);
        ck_assert_uint_eq(op("norm2")->in[0], op("add_cross")->out);
    }
    build("encoder-layer", B, S, T);
    ck_assert_ptr_null(carried(CARRIED_ENCODED));
    arena_release(&a);
}
END_TEST

START_TEST(relative_positions_are_made_by_one_layer_of_a_stack_or_by_each)
{
    family("t5-11b");
    build("encoder-first", B, S, T);
    ck_assert(makes(CARRIED_BIAS));
    ck_assert_uint_eq(carried(CARRIED_BIAS)->bytes, 2ull * B * H * S * S);
    build("encoder-layer", B, S, T);
    ck_assert(!makes(CARRIED_BIAS));
    ck_assert_int_eq(g.values[op("attention")->in[3]].carried, CARRIED_BIAS);
    ck_assert(op("attention")->forward.biased);
    /* a fused kernel reads q, k, v, the bias and writes; in backward twice as much and the bias's gradient */
    ck_assert_uint_eq(op("attention")->forward.hbm_bytes,
                      2ull * B * S * 4 * H * D + 4ull * B * S * H + 2ull * B * H * S * S);
    ck_assert_uint_eq(op("attention")->backward[0].hbm_bytes,
                      4ull * B * S * 4 * H * D + 4ull * B * S * H + 4ull * B * H * S * S);
    build("decoder-first", B, S, T);
    ck_assert(makes(CARRIED_DECODER_BIAS));
    ck_assert_uint_eq(carried(CARRIED_DECODER_BIAS)->bytes, 2ull * B * H * T * T);
    ck_assert_uint_eq(op("cross")->n_in, 3);
    ck_assert(op("cross")->forward.biased); /* by the mask */
    arena_release(&a);
    family("umt5, small");
    build("encoder-layer", B, S, T);
    ck_assert_ptr_null(carried(CARRIED_BIAS));
    ck_assert_uint_eq(op("attention")->in[3], op("relative")->out);
    arena_release(&a);
    family("bert-base, masked words");
    build("layer", B, S, 0);
    ck_assert(!op("attention")->forward.biased);
    arena_release(&a);
}
END_TEST

START_TEST(unfused_attention_keeps_the_scores_of_each)
{
    family("t5-11b");
    build("decoder-layer", B, S, T);
    MUST(graph_unfuse_attention(&g, DTYPE_BF16, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(g.values[op("attention")->beside].bytes, 5ull * B * H * T * T);
    ck_assert_uint_eq(g.values[op("cross")->beside].bytes, 5ull * B * H * T * S);
    arena_release(&a);
}
END_TEST

START_TEST(berts_heads_by_hand)
{
    uint64_t b = 8, s = 512, h = 768;

    family("bert-base, masked words");
    build("head", b, s, 0);
    ck_assert_uint_eq(flops(KERNEL_GEMM), 2 * b * s * (h * h + 30522 * h));
    ck_assert(op("logits")->weight_of_embedding);
    build("layer", b, s, 0);
    ck_assert_uint_eq(op("attention")->forward.flops, 4 * b * s * s * h);
    ck_assert_uint_eq(op("norm1")->in[0], op("add1")->out); /* norms behind the additions */
    ck_assert_uint_eq(g.output, op("norm2")->out);
    arena_release(&a);
    family("bert-large, both tasks");
    h = 1024;
    build("head", b, s, 0);
    ck_assert_uint_eq(flops(KERNEL_GEMM),
                      2 * b * s * (h * h + 30522 * h) + 2 * b * (h * h + 2 * h));
    ck_assert_uint_eq(op("cross_entropy")->in[0], op("logits")->out);
    ck_assert_uint_eq(op("cross_entropy")->in[1], op("next")->out);
    arena_release(&a);
    family("bert-base, a hundred classes");
    h = 768;
    build("head", b, s, 0);
    ck_assert_uint_eq(flops(KERNEL_GEMM), 2 * b * (h * h + 100 * h));
    ck_assert_uint_eq(op("logits")->forward.m, b);
    ck_assert_uint_eq(op("cross_entropy")->forward.m, b);
    arena_release(&a);
    family("bert-base, a pooler alone");
    build("head", b, s, 0);
    ck_assert_uint_eq(flops(KERNEL_GEMM), 2 * b * h * h);
    ck_assert_str_eq(g.ops[g.n_ops - 1].name, "tanh");
    ck_assert_uint_eq(g.values[g.output].bytes, 2 * b * h);
    arena_release(&a);
}
END_TEST

START_TEST(model_flops_count_the_tokens_that_a_parameter_meets)
{
    double encoder = 24.0 * (4.0 * H * D * HIDDEN + 2.0 * HIDDEN * FFN + 2 * HIDDEN) + HIDDEN;
    double keys = 24.0 * 2 * H * D * HIDDEN; /* of the decoder, but from the encoder's tokens */
    double decoder =
        24.0 * (6.0 * H * D * HIDDEN + 2.0 * HIDDEN * FFN + 3 * HIDDEN) + HIDDEN + VOCAB * HIDDEN;
    double pairs = 24.0 * ((double)S * S + (double)T * T + (double)T * S);

    family("t5-11b");
    ck_assert_double_eq_tol(graph_model_flops_per_token(&m, S, T) * S /
                                (6 * ((encoder + keys) * S + decoder * T) + 12.0 * H * D * pairs),
                            1, 1e-12);
    /* as many of both: every parameter but the tables of distances meets each */
    ck_assert_double_eq_tol(graph_model_flops_per_token(&m, S, S),
                            6.0 * (double)(m.total_params - 2 * 32 * H) + 12.0 * H * D * 3 * 24 * S,
                            1e-12 * 6 * (double)m.total_params);
    arena_release(&a);
    /* without a head of words the table is a look-up; a pooler meets one token of 512 */
    family("bert-base, a pooler alone");
    ck_assert_double_eq_tol(
        graph_model_flops_per_token(&m, 512, 0),
        6.0 * (109482240.0 - (30522 + 512 + 2) * 768 - (768.0 * 768 + 768) * (1 - 1.0 / 512)) +
            12.0 * 12 * 768 * 512,
        1);
    arena_release(&a);
    family("bert-base, masked words");
    ck_assert_double_eq(graph_model_flops_per_token(&m, 512, 0),
                        6.0 * (109514298.0 - (512 + 2) * 768) + 12.0 * 12 * 768 * 512);
    arena_release(&a);
}
END_TEST

/* Stacks that do not hold together are refused whoever built them. */
START_TEST(stacks_out_of_order_are_refused)
{
    static const struct {
        const char *what, *says;
        int n;
        enum unit_kind kinds[5];
        enum stack_kind stacks[5];
        bool cross[5];
    } rows[] = {
        {"a bridge at the end",
         "no layers before or behind",
         3,
         {UNIT_EMBED, UNIT_LAYER, UNIT_BRIDGE},
         {STACK_ENCODER, STACK_ENCODER, STACK_DECODER},
         {false}},
        {"no encoder",
         "no layers before or behind",
         3,
         {UNIT_EMBED, UNIT_BRIDGE, UNIT_LAYER},
         {STACK_ENCODER, STACK_DECODER, STACK_DECODER},
         {false, false, true}},
        {"a decoder that does not look back",
         "'u3' is no layer in its place",
         5,
         {UNIT_EMBED, UNIT_LAYER, UNIT_BRIDGE, UNIT_LAYER, UNIT_HEAD},
         {STACK_ENCODER, STACK_ENCODER, STACK_DECODER, STACK_DECODER, STACK_DECODER},
         {false, false, false, false, false}},
        {"two bridges",
         "'u3' is no unit in its place",
         5,
         {UNIT_EMBED, UNIT_LAYER, UNIT_BRIDGE, UNIT_BRIDGE, UNIT_LAYER},
         {STACK_ENCODER, STACK_ENCODER, STACK_DECODER, STACK_DECODER, STACK_DECODER},
         {false, false, false, false, true}},
        {"a decoder alone",
         "'u1' is no layer in its place",
         3,
         {UNIT_EMBED, UNIT_LAYER, UNIT_HEAD},
         {STACK_ONLY, STACK_ONLY, STACK_ONLY},
         {false, true}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct model_builder b;

        arena_init(&a);
        memset(&m, 0, sizeof(m));
        model_builder_init(&b, &m, &a);
        for (int u = 0; u < rows[i].n; u++) {
            const char *name = (const char *[]){"u0", "u1", "u2", "u3", "u4"}[u];

            model_builder_unit(&b, name,
                               &(struct unit_class){.kind = rows[i].kinds[u],
                                                    .name = name,
                                                    .stack = rows[i].stacks[u]});
            model_builder_tensor(&b, name, ROLE_MATRIX,
                                 rows[i].cross[u] ? SLOT_CROSS_Q : SLOT_OTHER, false, -1, 2,
                                 (uint64_t[]){2, 2});
        }
        ck_assert_msg(model_builder_finish(&b, &e) == -1, "%s", rows[i].what);
        ck_assert_msg(strstr(e.msg, rows[i].says) != NULL, "%s: %s", rows[i].what, e.msg);
        model_builder_release(&b);
        arena_release(&a);
    }
}
END_TEST

SUITE_MAIN("model/encoders", an_encoder_sees_all_tokens_and_a_decoder_the_ones_before,
           the_encoders_output_is_made_once_and_read_by_every_layer_of_the_decoder,
           relative_positions_are_made_by_one_layer_of_a_stack_or_by_each,
           unfused_attention_keeps_the_scores_of_each, berts_heads_by_hand,
           model_flops_count_the_tokens_that_a_parameter_meets, stacks_out_of_order_are_refused)
