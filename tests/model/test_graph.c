/* The graph of a unit against its tensors, and FLOPs and activations against hand counts. */
#include "model/graph/graph.h"
#include "model/plan/model_load.h"
#include "tests/suite.h"

#include <string.h>

static struct arena a;
static struct model m;
static struct unit_graph g;
static struct err e;

static void load(const char *what)
{
    arena_init(&a);
    ck_assert_msg(model_load(what, 1024, &a, &m, &e) == 0, "%s: %s", what, e.msg);
}

static void build(uint32_t class_id, uint64_t micro, uint64_t seq)
{
    ck_assert_msg(graph_build(&m, class_id,
                              &(struct graph_batch){.micro_batch = micro, .seq_len = seq},
                              DTYPE_BF16, &g, &e) == 0,
                  "%s", e.msg);
}

static uint32_t class_named(const char *name)
{
    for (uint32_t i = 0; i < m.n_classes; i++)
        if (!strcmp(m.classes[i].name, name))
            return i;
    ck_abort_msg("no class '%s'", name);
    return 0;
}

static const struct graph_op *op_named(const char *name)
{
    for (uint32_t i = 0; i < g.n_ops; i++)
        if (!strcmp(g.ops[i].name, name))
            return &g.ops[i];
    ck_abort_msg("no op '%s'", name);
    return NULL;
}

static bool is_gemm(const struct graph_op *o)
{
    return o->forward.kernel == KERNEL_GEMM;
}

/* The op's weight must be of the shape that the kernel multiplies with; marks what it uses. */
static void check_op(const struct graph_op *o, const struct unit *u, uint32_t *used)
{
    const struct kernel_call *k = &o->forward;

    ck_assert_msg(!is_gemm(o) || o->weight != MODEL_NONE, "%s: %s: no weight", m.name, o->name);
    if (o->weight == MODEL_NONE)
        return;
    for (uint32_t i = 0; i < o->n_weights; i++) {
        uint32_t at = o->weight + i * o->weight_stride;
        const struct tensor *t =
            &m.tensors[(o->weight_of_embedding ? m.units[0].first : u->first) + at];
        bool in_out = !strcmp(m.arch, "gpt2") && t->role == ROLE_MATRIX; /* Conv1D */

        ck_assert_uint_lt(at, o->weight_of_embedding ? m.units[0].n : u->n);
        ck_assert_msg(t->expert == (int32_t)i || (t->expert < 0 && o->n_weights == 1), "%s",
                      t->name);
        if (is_gemm(o)) {
            ck_assert_msg(t->shape[in_out] == k->n && t->shape[!in_out] == k->k,
                          "%s: %s is [%llu, %llu], the GEMM %llu x %llu", m.name, t->name,
                          (unsigned long long)t->shape[0], (unsigned long long)t->shape[1],
                          (unsigned long long)k->n, (unsigned long long)k->k);
            ck_assert_uint_eq(k->batch, o->n_weights);
        } else {
            ck_assert_msg(t->cols == 1 ? t->rows == k->n : t->cols == k->n, "%s", t->name);
        }
        if (!o->weight_of_embedding)
            used[at]++;
    }
    if (o->bias == MODEL_NONE)
        return;
    ck_assert_uint_eq(m.tensors[u->first + o->bias].numel, k->n);
    used[o->bias]++;
}

/* Every tensor of every unit is some op's weight or bias, once. */
static void check_model(void)
{
    uint64_t covered = 0;

    for (uint32_t i = 0; i < m.n_units; i++) {
        const struct unit *u = &m.units[i];
        uint32_t *used = MEM_NEW(uint32_t, u->n);

        build(u->class_id, 1, 128);
        for (uint32_t j = 0; j < g.n_ops; j++)
            check_op(&g.ops[j], u, used);
        for (uint32_t j = 0; j < u->n; j++) {
            ck_assert_msg(used[j] == 1, "%s: %s is used %u times", m.name,
                          m.tensors[u->first + j].name, used[j]);
            covered += m.tensors[u->first + j].numel;
        }
        mem_free(used);
    }
    ck_assert_uint_eq(covered, m.total_params);
}

START_TEST(ops_use_every_tensor_of_bundled_models_once)
{
    for (const char *const *name = model_bundled_names(); *name; name++) {
        load(*name);
        check_model();
        arena_release(&a);
    }
}
END_TEST

START_TEST(ops_use_every_tensor_of_blocks_and_of_biased_models_once)
{
    static const char *const forms[] = {
        "block:layers=2,hidden=64,heads=4",
        "block:layers=2,hidden=64,heads=4,kv-heads=2,vocab=100,tied=yes",
        "block:layers=2,hidden=64,heads=4,mlp=gelu,vocab=100",
        "block:layers=2,hidden=64,heads=4,mlp=gelu,vocab=100,tied=no,kv-heads=1",
        "block:layers=2,hidden=64,heads=4,mlp=swiglu,kv-heads=2,vocab=100",
    };
    static const char *const configs[] = {
        "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":96,\"vocab_size\":10,"
        "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"attention_bias\":true,\"mlp_bias\":"
        "true,"
        "\"head_dim\":32}",
        "{\"model_type\":\"qwen2\",\"hidden_size\":64,\"intermediate_size\":96,\"vocab_size\":10,"
        "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2}",
        "{\"model_type\":\"qwen3_moe\",\"hidden_size\":64,\"intermediate_size\":96,\"vocab_size\":"
        "10,"
        "\"num_hidden_layers\":4,\"num_attention_heads\":4,\"num_experts\":4,\"num_experts_per_"
        "tok\":2,"
        "\"moe_intermediate_size\":32,\"decoder_sparse_step\":2,\"attention_bias\":true}",
        "{\"model_type\":\"qwen3_moe\",\"hidden_size\":64,\"vocab_size\":10,\"num_experts\":1,"
        "\"num_hidden_layers\":1,\"num_attention_heads\":4,\"num_experts_per_tok\":1,"
        "\"moe_intermediate_size\":32}",
        "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2,\"n_head\":4,\"vocab_size\":10,"
        "\"n_inner\":100,\"tie_word_embeddings\":false}",
    };

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        load(forms[i]);
        check_model();
        arena_release(&a);
    }
    for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
        arena_init(&a);
        ck_assert_msg(model_from_config(configs[i], strlen(configs[i]), "c", &a, &m, &e) == 0, "%s",
                      e.msg);
        check_model();
        arena_release(&a);
    }
}
END_TEST

/* Sum of the forward (backward) FLOPs of kernels bound by `bound`. */
static uint64_t flops_of(char bound, bool backward)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < g.n_ops; i++) {
        const struct graph_op *o = &g.ops[i];

        if (!backward && kernel_bound(o->forward.kernel) == bound)
            sum += o->forward.flops;
        for (uint32_t j = 0; backward && j < o->n_backward; j++)
            if (kernel_bound(o->backward[j].kernel) == bound)
                sum += o->backward[j].flops;
    }
    return sum;
}

START_TEST(a_layer_of_llama_2_7b_by_hand)
{
    uint64_t s = 2048, b = 2, h = 4096, f = 11008;
    uint64_t gemm = 2 * b * s * (4 * h * h + 3 * h * f); /* 2 FLOPs a weight and token */
    uint64_t attention = 4 * b * 32 * s * s * 128 / 2;   /* two products, lower triangle */

    load("llama-2-7b");
    build(class_named("layer"), b, s);
    ck_assert_uint_eq(flops_of('G', false), gemm);
    ck_assert_uint_eq(flops_of('G', true), 2 * gemm); /* dgrad and wgrad */
    ck_assert_uint_eq(flops_of('A', false), attention);
    ck_assert_uint_eq(flops_of('A', true), attention / 2 * 5); /* flash: five products */
    ck_assert_uint_eq(g.forward_flops, gemm + attention + flops_of('E', false));
    ck_assert_uint_eq(g.backward_flops, 2 * gemm + attention / 2 * 5 + flops_of('E', true));
    /* 2 norms of 4 FLOPs and 2 additions an element of width h; rope of q and k; swiglu of width f: 4 each */
    ck_assert_uint_eq(flops_of('E', false), 4 * b * s * (6 * h + f));
    /* bf16: in, weight, out once */
    ck_assert_uint_eq(op_named("gate")->forward.hbm_bytes, 2 * (b * s * h + h * f + b * s * f));
    ck_assert_uint_eq(op_named("norm1")->forward.hbm_bytes, 2 * 2 * b * s * h);
    arena_release(&a);
}
END_TEST

START_TEST(full_attention_is_twice_causal)
{
    uint64_t causal;

    load("block:layers=1,hidden=256,heads=4,causal=yes");
    build(0, 1, 512);
    causal = op_named("attention")->forward.flops;
    arena_release(&a);
    load("block:layers=1,hidden=256,heads=4");
    build(0, 1, 512);
    ck_assert_uint_eq(op_named("attention")->forward.flops, 4ull * 4 * 512 * 512 * 64);
    ck_assert_uint_eq(op_named("attention")->forward.flops, 2 * causal);
    arena_release(&a);
}
END_TEST

START_TEST(backward_needs_these_activations)
{
    /* x, norm1, rotated q and k, v, attention with its 4 bytes of statistics a token and head,
     * x2, norm2, gate, up, act. Not: q and k before RoPE, o, down, y. */
    static const char *const needed[] = {"x",  "norm1", "v",    "q_rope", "k_rope", "attention",
                                         "x2", "norm2", "gate", "up",     "act"};
    uint64_t s = 128, h = 64, kv = 32, f = 256, bytes = 0;
    size_t n = 0;

    load("block:layers=1,hidden=64,heads=4,kv-heads=2,mlp=swiglu");
    build(0, 1, s);
    for (uint32_t i = 0; i < g.n_values; i++) {
        bool want = false;

        for (size_t j = 0; j < sizeof(needed) / sizeof(needed[0]); j++)
            want |= !strcmp(needed[j], g.values[i].name);
        ck_assert_msg(g.values[i].needed == want, "%s", g.values[i].name);
        n += want;
        bytes += want ? g.values[i].bytes : 0;
    }
    ck_assert_uint_eq(n, sizeof(needed) / sizeof(needed[0]));
    ck_assert_uint_eq(bytes, 2 * s * (6 * h + 2 * kv + 3 * f) + 4 * s * 4);
    ck_assert_str_eq(g.values[0].name, "x");
    ck_assert_str_eq(g.values[g.output].name, "y");
    arena_release(&a);
}
END_TEST

START_TEST(experts_share_the_tokens)
{
    /* Mixtral: 2 of 8 experts, so each sees a quarter of 4096 tokens */
    load("mixtral-8x7b");
    build(class_named("moe-layer"), 1, 4096);
    ck_assert_uint_eq(op_named("up")->forward.m, 1024);
    ck_assert_uint_eq(op_named("up")->forward.batch, 8);
    ck_assert_uint_eq(op_named("up")->forward.flops, 2ull * 2 * 4096 * 4096 * 14336);
    ck_assert_uint_eq(op_named("up")->weight_stride, 3);
    arena_release(&a);
}
END_TEST

START_TEST(a_tied_head_multiplies_with_the_embedding)
{
    load("gpt2");
    build(class_named("head"), 1, 1024);
    ck_assert(op_named("logits")->weight_of_embedding);
    ck_assert_uint_eq(op_named("logits")->forward.flops, 2ull * 1024 * 768 * 50257);
    arena_release(&a);
}
END_TEST

START_TEST(model_flops_of_a_token_by_hand)
{
    /* 6 a parameter without look-ups, 12*layers*hidden*seq */
    load("llama-2-7b");
    ck_assert_double_eq(graph_model_flops_per_token(&m, 4096, 0),
                        6.0 * (6738415616.0 - 32000 * 4096) + 12.0 * 32 * 4096 * 4096);
    arena_release(&a);
    load("gpt2"); /* tied: the table works as the head; positions are looked up */
    ck_assert_double_eq(graph_model_flops_per_token(&m, 1024, 0),
                        6.0 * (124439808 - 1024 * 768) + 12.0 * 12 * 768 * 1024);
    arena_release(&a);
}
END_TEST

START_TEST(a_product_beyond_2_63_is_refused)
{
    load("llama-3.1-405b");
    ck_assert_int_eq(
        graph_build(&m, class_named("layer"),
                    &(struct graph_batch){.micro_batch = 1u << 20, .seq_len = 1u << 30}, DTYPE_BF16,
                    &g, &e),
        -1);
    ck_assert_int_eq(e.code, ERR_OVERFLOW);
    ck_assert_ptr_nonnull(strstr(e.msg, "--seq-len"));
    arena_release(&a);
}
END_TEST

/* GPT-2's 12 heads, 3 sequences of 64 tokens: 5 a s^2 b bytes of scores (Korthikanti et al.), and no row sums of 4 a s b. */
START_TEST(unfused_attention_keeps_its_scores)
{
    const struct graph_op *o;
    uint64_t fused;

    load("gpt2");
    build(class_named("layer"), 3, 64);
    fused = g.values[op_named("attention")->out].bytes;
    ck_assert_uint_eq(op_named("attention")->beside, 0);
    MUST(graph_unfuse_attention(&g, DTYPE_BF16, &e) == 0, "%s", e.msg);
    o = op_named("attention");
    ck_assert_uint_eq(g.values[o->beside].bytes, 5 * 12 * 64 * 64 * 3);
    ck_assert(g.values[o->beside].needed);
    ck_assert_uint_eq(g.values[o->out].bytes, fused - 4 * 12 * 64 * 3);
    arena_release(&a);
}
END_TEST

/* 6 sequences of 64 tokens, 50,257 words: logits of 2 bytes are read forward, read and their gradient written backward; 4 bytes a token
 * stay. */
START_TEST(a_fused_loss_keeps_a_number_a_token)
{
    uint64_t logits = (uint64_t)2 * 6 * 64 * 50257;
    const struct graph_op *o;

    load("gpt2");
    build(class_named("head"), 6, 64);
    graph_fuse_loss(&g);
    o = op_named("cross_entropy");
    ck_assert_uint_eq(g.values[o->in[0]].bytes, logits);
    ck_assert(g.values[o->in[0]].needed);
    ck_assert_uint_eq(g.values[o->out].bytes, 4 * 6 * 64);
    ck_assert_uint_eq(o->forward.hbm_bytes, logits);
    ck_assert_uint_eq(o->backward[0].hbm_bytes, 2 * logits);
    arena_release(&a);
}
END_TEST

SUITE_MAIN("model/graph", ops_use_every_tensor_of_bundled_models_once,
           ops_use_every_tensor_of_blocks_and_of_biased_models_once, a_layer_of_llama_2_7b_by_hand,
           full_attention_is_twice_causal, backward_needs_these_activations,
           experts_share_the_tokens, a_tied_head_multiplies_with_the_embedding,
           model_flops_of_a_token_by_hand, a_product_beyond_2_63_is_refused,
           unfused_attention_keeps_its_scores, a_fused_loss_keeps_a_number_a_token)
