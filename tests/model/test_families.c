/* Every family that model/hf_*.c describes: totals against published counts, names against published checkpoints, and
 * the graph against the tensors: each used once, and FLOPs that follow from them alone. */
#include "core/num.h"
#include "core/strbuf.h"
#include "model/graph/graph.h"
#include "model/plan/model_load.h"
#include "tests/model/families.h"
#include "tests/suite.h"

#include <stdio.h>
#include <string.h>

static struct arena a;
static struct model m;
static struct unit_graph g;
static struct err e;

static void parse_with(const char *text, const struct model_options *o)
{
    arena_init(&a);
    ck_assert_msg(model_from_config_with(text, strlen(text), "t.json", o, &a, &m, &e) == 0, "%s",
                  e.msg);
}

static void parse(const char *text)
{
    parse_with(text, &(struct model_options){0});
}

static void family(const char *name)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].name, name)) {
            parse(families[i].config);
            return;
        }
    ck_abort_msg("no family '%s'", name);
}

static const struct tensor *find(const char *name)
{
    for (uint32_t i = 0; i < m.n_tensors; i++)
        if (!strcmp(m.tensors[i].name, name))
            return &m.tensors[i];
    return NULL;
}

static void shape_is(const char *name, uint64_t d0, uint64_t d1)
{
    const struct tensor *t = find(name);

    ck_assert_msg(t != NULL, "%s: no '%s'", m.arch, name);
    ck_assert_uint_eq(t->shape[0], d0);
    ck_assert_uint_eq(t->n_dims, d1 ? 2 : 1);
    if (d1)
        ck_assert_uint_eq(t->shape[1], d1);
}

START_TEST(totals_are_the_published_ones)
{
    for (size_t i = 0; i < N_FAMILIES; i++) {
        parse(families[i].config);
        ck_assert_msg(!families[i].total || m.total_params == families[i].total,
                      "%s: %llu, expected %llu (%s)", families[i].name,
                      (unsigned long long)m.total_params, (unsigned long long)families[i].total,
                      families[i].source);
        arena_release(&a);
    }
}
END_TEST

START_TEST(small_ones_by_hand)
{
    /* 4 attentions of 2*64*64 + 2*32*64; experts of 3*32*64 and a shared one, a router, in layers 1 and 3; 3*96*64 in
     * 0 and 2; two norms a layer, one at the end; two tables */
    family("llama-4 with dense layers");
    ck_assert_uint_eq(m.total_params, 4 * (2 * 64 * 64 + 2 * 32 * 64) +
                                          2 * (5 * 3 * 32 * 64 + 4 * 64) + 2 * 3 * 96 * 64 +
                                          4 * 2 * 64 + 64 + 2 * 100 * 64);
    ck_assert_str_eq(m.classes[m.units[1].class_id].name, "chunked-layer");
    ck_assert_str_eq(m.classes[m.units[2].class_id].name, "chunked-moe-layer");
    ck_assert_str_eq(m.classes[m.units[4].class_id].name, "moe-layer");
    arena_release(&a);
    /* three delta layers: q, k of 2*16, v, z of 4*16, b, a of 4, 4 taps on 128 channels, two vectors of 4, a norm of 16,
     * o; one of attention with gate: q 256, k, v 64, o 128 -> 64, two norms of 32 */
    family("qwen3.5, dense");
    ck_assert_uint_eq(m.total_params,
                      3 * (128 * 64 + 64 * 64 + 2 * 4 * 64 + 128 * 4 + 2 * 4 + 16 + 64 * 64) +
                          (256 * 64 + 2 * 64 * 64 + 64 * 128 + 2 * 32) +
                          4 * (3 * 96 * 64 + 2 * 64) + 64 + 2 * 100 * 64);
    arena_release(&a);
    /* layers 1 and 3 have experts: 4 of 3*32*64, one shared of 3*16*64 with a weight, a router; 0 and 2 are dense; the last
     * one attends */
    family("qwen3-next with dense layers");
    ck_assert_uint_eq(m.total_params, 3 * (192 * 64 + 8 * 64 + 128 * 4 + 2 * 4 + 16 + 64 * 64) +
                                          (256 * 64 + 2 * 64 * 64 + 64 * 128 + 2 * 32) +
                                          2 * 3 * 96 * 64 +
                                          2 * (4 * 3 * 32 * 64 + 3 * 16 * 64 + 64 + 4 * 64) +
                                          4 * 2 * 64 + 64 + 2 * 100 * 64);
    ck_assert_str_eq(m.classes[m.units[1].class_id].name, "delta-layer");
    ck_assert_str_eq(m.classes[m.units[2].class_id].name, "delta-moe-layer");
    ck_assert_str_eq(m.classes[m.units[4].class_id].name, "moe-layer");
    arena_release(&a);
    /* local layers: q, o of 4*16, k, v of 2*16; layers 5 and 6, the last of which sees all whatever its number: 4 and 2 heads
     * of 32, with values of their own; four norms a layer, two of heads */
    family("gemma-4, dense");
    ck_assert_uint_eq(m.total_params, 5 * (2 * 64 * 64 + 2 * 32 * 64 + 2 * 16) +
                                          2 * (2 * 128 * 64 + 2 * 64 * 64 + 2 * 32) +
                                          7 * (3 * 96 * 64 + 4 * 64) + 64 + 100 * 64);
    ck_assert_str_eq(m.classes[m.units[6].class_id].name, "layer");
    ck_assert_str_eq(m.classes[m.units[7].class_id].name, "layer");
    arena_release(&a);
    /* M: inner 128, groups 2 of 16: in 2*128 + 64 + 4 rows; - : 2*96*64; *: 2*64*64 + 2*32*64 */
    /* q, k, v of 96, o; MLPs of three; a table of 32 x 6 a layer; 3 layers of two norms and 2 of three, two more; two tables of words */
    family("umt5, small");
    ck_assert_uint_eq(m.total_params, 3 * (4 * 96 * 64 + 3 * 96 * 64 + 192 + 2 * 64) +
                                          2 * (8 * 96 * 64 + 3 * 96 * 64 + 192 + 3 * 64) + 2 * 64 +
                                          2 * 100 * 64);
    arena_release(&a);
    family("nemotron with a plain MLP");
    ck_assert_uint_eq(m.total_params, (324 * 64 + 192 * 4 + 192 + 3 * 4 + 128 + 64 * 128) +
                                          2 * 96 * 64 + (2 * 64 * 64 + 2 * 32 * 64) + 3 * 64 + 64 +
                                          2 * 100 * 64);
    ck_assert_uint_eq(m.n_classes, 5);
    arena_release(&a);
}
END_TEST

START_TEST(names_are_those_of_the_checkpoints)
{
    family("bert-large, both tasks");
    shape_is("bert.embeddings.token_type_embeddings.weight", 2, 1024);
    shape_is("bert.embeddings.LayerNorm.bias", 1024, 0);
    shape_is("bert.encoder.layer.23.attention.self.query.weight", 1024, 1024);
    shape_is("bert.encoder.layer.0.attention.output.LayerNorm.weight", 1024, 0);
    shape_is("bert.encoder.layer.0.intermediate.dense.weight", 4096, 1024);
    shape_is("bert.encoder.layer.0.output.LayerNorm.bias", 1024, 0);
    shape_is("bert.pooler.dense.weight", 1024, 1024);
    shape_is("cls.predictions.transform.LayerNorm.weight", 1024, 0);
    shape_is("cls.predictions.bias", 30522, 0);
    shape_is("cls.seq_relationship.weight", 2, 1024);
    ck_assert(m.tied && !tensor_is_matrix(find("cls.seq_relationship.weight")));
    arena_release(&a);
    family("bert-base, a pooler alone");
    shape_is("encoder.layer.0.attention.self.key.bias", 768, 0);
    shape_is("pooler.dense.bias", 768, 0);
    ck_assert(!m.tied && !model_has_head(&m));
    arena_release(&a);
    family("roberta-base, masked words");
    shape_is("roberta.embeddings.position_embeddings.weight", 514, 768);
    shape_is("lm_head.layer_norm.bias", 768, 0);
    shape_is("lm_head.bias", 50265, 0);
    ck_assert_uint_eq(m.max_seq_len, 512);
    arena_release(&a);
    family("xlm-roberta-base, two classes");
    shape_is("classifier.dense.weight", 768, 768);
    shape_is("classifier.out_proj.weight", 2, 768);
    ck_assert_uint_eq(m.n_notes, 0);
    arena_release(&a);
    family("t5-11b");
    shape_is("shared.weight", 32128, 1024);
    shape_is("encoder.block.0.layer.0.SelfAttention.q.weight", 16384, 1024);
    shape_is("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 32, 128);
    ck_assert_ptr_null(
        find("encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"));
    shape_is("encoder.block.23.layer.1.DenseReluDense.wi.weight", 65536, 1024);
    shape_is("encoder.block.23.layer.1.layer_norm.weight", 1024, 0);
    shape_is("encoder.final_layer_norm.weight", 1024, 0);
    shape_is("decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 32, 128);
    shape_is("decoder.block.23.layer.1.EncDecAttention.k.weight", 16384, 1024);
    shape_is("decoder.block.23.layer.1.layer_norm.weight", 1024, 0);
    shape_is("decoder.block.23.layer.2.DenseReluDense.wo.weight", 1024, 65536);
    shape_is("decoder.block.23.layer.2.layer_norm.weight", 1024, 0);
    shape_is("decoder.final_layer_norm.weight", 1024, 0);
    ck_assert_int_eq(
        find("encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight")->role,
        ROLE_POSITION);
    ck_assert(!tensor_is_matrix(
        find("decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight")));
    ck_assert_str_eq(m.units[25].name, "bridge");
    ck_assert_str_eq(m.units[26].name, "decoder.0");
    arena_release(&a);
    family("flan-t5-xl");
    shape_is("decoder.block.0.layer.2.DenseReluDense.wi_1.weight", 5120, 2048);
    shape_is("lm_head.weight", 32128, 2048);
    arena_release(&a);
    family("umt5, small");
    shape_is("encoder.block.2.layer.0.SelfAttention.relative_attention_bias.weight", 32, 6);
    shape_is("decoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight", 32, 6);
    arena_release(&a);

    family("gemma-2-2b");
    shape_is("model.layers.25.post_feedforward_layernorm.weight", 2304, 0);
    shape_is("model.layers.0.pre_feedforward_layernorm.weight", 2304, 0);
    ck_assert(m.tied && !find("lm_head.weight"));
    arena_release(&a);
    family("gemma-3-4b");
    shape_is("language_model.model.embed_tokens.weight", 262208, 2560);
    shape_is("language_model.model.layers.33.self_attn.q_norm.weight", 256, 0);
    ck_assert_uint_eq(m.n_notes, 1);
    ck_assert_ptr_nonnull(strstr(m.notes[0], "text part"));
    arena_release(&a);
    family("gemma-4-26b-a4b");
    shape_is("model.language_model.layers.5.self_attn.k_proj.weight", 1024, 2816);
    ck_assert_ptr_null(find("model.language_model.layers.5.self_attn.v_proj.weight"));
    shape_is("model.language_model.layers.4.self_attn.v_proj.weight", 2048, 2816);
    shape_is("model.language_model.layers.0.mlp.gate_proj.weight", 2112, 2816);
    shape_is("model.language_model.layers.0.experts.gate_up_proj[127]", 1408, 2816);
    shape_is("model.language_model.layers.0.post_feedforward_layernorm_2.weight", 2816, 0);
    shape_is("model.language_model.layers.0.router.scale", 2816, 0);
    ck_assert_uint_eq(m.classes[m.units[6].class_id].rotary_dim, 128);
    arena_release(&a);
    family("pythia-1.4b-reward");
    shape_is("out_proj.weight", 1, 2048);
    shape_is("out_proj.bias", 1, 0);
    ck_assert_uint_eq(m.n_tensors, 293);
    ck_assert(!tensor_is_matrix(find("out_proj.weight")));
    arena_release(&a);
    family("qwen3-next-80b-a3b");
    shape_is("model.layers.0.linear_attn.in_proj_qkvz.weight", 12288, 2048);
    shape_is("model.layers.0.linear_attn.in_proj_ba.weight", 64, 2048);
    arena_release(&a);
    family("olmo-2-7b");
    shape_is("model.layers.0.self_attn.q_norm.weight", 4096, 0);
    ck_assert_ptr_null(find("model.layers.0.input_layernorm.weight"));
    arena_release(&a);
    family("phi-3-mini");
    shape_is("model.layers.0.self_attn.qkv_proj.weight", 3 * 3072, 3072);
    shape_is("model.layers.0.mlp.gate_up_proj.weight", 2 * 8192, 3072);
    arena_release(&a);
    family("phi-2");
    shape_is("model.layers.0.self_attn.dense.bias", 2560, 0);
    shape_is("lm_head.bias", 51200, 0);
    arena_release(&a);
    family("phi-2 as Microsoft stored it");
    shape_is("transformer.h.31.mixer.Wqkv.weight", 3 * 2560, 2560);
    shape_is("lm_head.ln.bias", 2560, 0);
    shape_is("lm_head.linear.bias", 51200, 0);
    arena_release(&a);
    family("gpt-oss-20b");
    shape_is("model.layers.23.mlp.experts.gate_up_proj[31]", 2880, 5760);
    shape_is("model.layers.23.mlp.experts.gate_up_proj_bias[31]", 5760, 0);
    shape_is("model.layers.0.self_attn.sinks", 64, 0);
    shape_is("model.layers.0.mlp.router.bias", 32, 0);
    ck_assert_str_eq(m.quantization, "mxfp4");
    arena_release(&a);
    family("granite-3.1-1b-a400m");
    shape_is("model.layers.0.block_sparse_moe.input_linear.weight[31]", 1024, 1024);
    shape_is("model.layers.0.block_sparse_moe.router.layer.weight", 32, 1024);
    arena_release(&a);
    family("deepseek-v3");
    shape_is("model.layers.0.mlp.gate_proj.weight", 18432, 7168);
    shape_is("model.layers.60.mlp.gate.e_score_correction_bias", 256, 0);
    shape_is("model.layers.60.self_attn.kv_a_proj_with_mqa.weight", 576, 7168);
    ck_assert_ptr_null(find("model.layers.61.eh_proj.weight"));
    ck_assert_uint_eq(m.n_notes, 2); /* fp8, and one layer of multi-token prediction */
    arena_release(&a);
    family("falcon-7b");
    shape_is("transformer.h.0.self_attention.query_key_value.weight", 73 * 64, 4544);
    ck_assert_ptr_null(find("transformer.h.0.post_attention_layernorm.weight"));
    arena_release(&a);
    family("falcon-40b");
    shape_is("transformer.h.0.ln_attn.weight", 8192, 0);
    shape_is("transformer.h.0.ln_mlp.bias", 8192, 0);
    arena_release(&a);
    family("opt-350m");
    shape_is("model.decoder.embed_tokens.weight", 50272, 512);
    shape_is("model.decoder.project_in.weight", 1024, 512);
    shape_is("model.decoder.project_out.weight", 512, 1024);
    shape_is("model.decoder.embed_positions.weight", 2050, 1024);
    ck_assert_uint_eq(m.max_seq_len, 2048);
    ck_assert_ptr_null(find("model.decoder.final_layer_norm.weight"));
    arena_release(&a);
    family("qwen3.5-25b-reap");
    shape_is("model.layers.0.linear_attn.in_proj_qkv.weight", 8192, 2048);
    shape_is("model.layers.3.self_attn.q_proj.weight", 8192, 2048);
    ck_assert_uint_eq(find("model.layers.0.linear_attn.conv1d.weight")->n_dims, 3);
    arena_release(&a);
}
END_TEST

START_TEST(a_convolution_is_flattened_and_a_row_is_no_matrix)
{
    const struct tensor *conv, *row;

    family("qwen3.5-25b-reap");
    conv = find("model.layers.0.linear_attn.conv1d.weight"); /* [8192, 1, 4] */
    row = find("model.layers.0.mlp.shared_expert_gate.weight");
    ck_assert_uint_eq(conv->rows, 8192);
    ck_assert_uint_eq(conv->cols, 4);
    ck_assert(tensor_is_matrix(conv));
    ck_assert_uint_eq(row->rows, 1);
    ck_assert(!tensor_is_matrix(row));
    arena_release(&a);
}
END_TEST

/* ---- graphs ---- */

/* Tensors of the unit that some op names as weight or bias, experts by stride. */
static void mark(const struct graph_op *o, const struct unit *u, uint32_t *used)
{
    if (o->weight_of_embedding) {
        if (o->bias != MODEL_NONE) /* which is the head's own */
            used[o->bias]++;
        return;
    }
    for (uint32_t i = 0; o->weight != MODEL_NONE && i < o->n_weights; i++) {
        ck_assert_uint_lt(o->weight + i * o->weight_stride, u->n);
        used[o->weight + i * o->weight_stride]++;
        if (o->bias != MODEL_NONE)
            used[o->bias + i * o->weight_stride]++;
    }
}

/* A GEMM's weight has the sizes it multiplies with, in either order. */
static void check_gemm(const struct graph_op *o, const struct unit *u)
{
    const struct unit *of = o->weight_of_embedding ? &m.units[0] : u;
    const struct tensor *t = &m.tensors[of->first + o->weight];

    ck_assert_msg(o->weight != MODEL_NONE, "%s: %s: no weight", m.arch, o->name);
    ck_assert_msg((t->shape[0] == o->forward.n && t->shape[1] == o->forward.k) ||
                      (t->shape[1] == o->forward.n && t->shape[0] == o->forward.k),
                  "%s: %s is [%llu, %llu], the GEMM %llu x %llu", m.arch, t->name,
                  (unsigned long long)t->shape[0], (unsigned long long)t->shape[1],
                  (unsigned long long)o->forward.n, (unsigned long long)o->forward.k);
}

/* Is it multiplied with a sequence's first token alone? A pooler, and what stands on it. */
static bool once_a_sequence(const struct unit *u, const struct tensor *t)
{
    bool pooler = false, words = false;

    for (uint32_t i = u->first; i < u->first + u->n; i++) {
        pooler |= m.tensors[i].slot == SLOT_POOLER;
        words |= m.tensors[i].slot == SLOT_TRANSFORM;
    }
    return pooler &&
           (t->slot == SLOT_POOLER || t->slot == SLOT_NEXT || (t->slot == SLOT_HEAD && !words));
}

/* Elements that a token is multiplied with: matrices, router and head; of experts the active ones. */
static uint64_t met(const struct unit *u, const struct unit_class *c)
{
    uint64_t sum = 0;

    for (uint32_t i = u->first; i < u->first + u->n; i++) {
        const struct tensor *t = &m.tensors[i];
        bool product = t->role == ROLE_MATRIX || t->role == ROLE_EXPERT || t->role == ROLE_ROUTER ||
                       t->role == ROLE_HEAD;

        if (once_a_sequence(u, t))
            continue;
        if (product && t->slot != SLOT_CONV && t->expert < (int32_t)(c->n_active ? c->n_active : 1))
            sum += t->numel;
    }
    if (c->kind == UNIT_HEAD && m.tied)
        sum += m.vocab * (c->embed_dim ? c->embed_dim : c->hidden);
    return sum;
}

static void check_unit(const struct unit *u)
{
    const struct unit_class *c = &m.classes[u->class_id];
    uint64_t tokens = 4096, gemm = 0, once = 0;
    uint32_t *used = MEM_NEW(uint32_t, u->n);

    MUST(graph_build(&m, u->class_id, &(struct graph_batch){2, tokens / 2, 0}, DTYPE_BF16, &g,
                     &e) == 0,
         "%s", e.msg);
    for (uint32_t i = 0; i < g.n_ops; i++) {
        mark(&g.ops[i], u, used);
        if (g.ops[i].forward.kernel == KERNEL_GEMM) {
            check_gemm(&g.ops[i], u);
            gemm += g.ops[i].forward.flops;
        }
    }
    for (uint32_t i = u->first; i < u->first + u->n; i++)
        if (once_a_sequence(u, &m.tensors[i]) && !m.tensors[i].is_bias)
            once += m.tensors[i].numel;
    gemm -= 2 * 2 * once; /* two sequences */
    for (uint32_t i = 0; i < u->n; i++)
        MUST(used[i] == 1, "%s: %s is used %u times", m.arch, m.tensors[u->first + i].name,
             used[i]);
    /* experts get equal shares, rounded up to whole tokens */
    MUST(gemm >= 2 * tokens * met(u, c) &&
             (double)gemm <= 2.0 * (double)tokens * (double)met(u, c) * 1.02,
         "%s, %s: GEMMs do %llu FLOPs, its weights say %llu", m.arch, u->name,
         (unsigned long long)gemm, (unsigned long long)(2 * tokens * met(u, c)));
    mem_free(used);
}

START_TEST(graphs_use_every_tensor_once_and_flops_follow_from_them)
{
    const struct model_options split = {.split_fused = true};

    for (size_t i = 0; i < N_FAMILIES; i++)
        for (int s = 0; s < 2; s++) {
            parse_with(families[i].config, s ? &split : &(struct model_options){0});
            for (uint32_t c = 0; c < m.n_classes; c++)
                check_unit(&m.units[m.classes[c].example]);
            ck_assert_msg(!families[i].total || m.total_params == families[i].total, "%s split",
                          families[i].name);
            arena_release(&a);
        }
}
END_TEST

static uint32_t class_named(const char *name)
{
    for (uint32_t i = 0; i < m.n_classes; i++)
        if (!strcmp(m.classes[i].name, name))
            return i;
    ck_abort_msg("no class '%s'", name);
    return 0;
}

/* Forward FLOPs of the kernels called `kernel` in one sequence of `seq` tokens. */
static uint64_t flops(const char *class_name, enum kernel kernel, uint64_t seq)
{
    uint64_t sum = 0;

    MUST(graph_build(&m, class_named(class_name), &(struct graph_batch){1, seq, 0}, DTYPE_BF16, &g,
                     &e) == 0,
         "%s", e.msg);
    for (uint32_t i = 0; i < g.n_ops; i++)
        sum += g.ops[i].forward.kernel == kernel ? g.ops[i].forward.flops : 0;
    return sum;
}

START_TEST(attention_by_hand)
{
    uint64_t s = 8192;

    /* heads x (d_qk + d_v) x pairs x 2: DeepSeek-V3 has 128 heads of 192 and 128 */
    family("deepseek-v3");
    ck_assert_uint_eq(flops("layer", KERNEL_ATTENTION, s), 2 * 128 * (192 + 128) * (s * s / 2));
    ck_assert_uint_eq(flops("layer", KERNEL_GEMM, s),
                      2 * s *
                          (7168ull * 1536 + 1536 * 128 * 192 + 7168 * (512 + 64) +
                           512 * 128 * (128 + 128) + 128 * 128 * 7168 + 3ull * 7168 * 18432));
    arena_release(&a);
    /* one of two layers of gpt-oss sees 128 tokens back: s w - w^2/2 pairs, 64 heads of 64 */
    family("gpt-oss-20b");
    ck_assert_uint_eq(flops("moe-layer", KERNEL_ATTENTION, s), 4 * 64 * 64 * (s * s / 2));
    ck_assert_uint_eq(flops("local-moe-layer", KERNEL_ATTENTION, s),
                      4 * 64 * 64 * (s * 128 - 128 * 128 / 2));
    ck_assert_uint_eq(flops("local-moe-layer", KERNEL_ATTENTION, 128), 4 * 64 * 64 * (128 * 64));
    ck_assert_str_eq(m.classes[m.units[1].class_id].name, "local-moe-layer");
    ck_assert_str_eq(m.classes[m.units[2].class_id].name, "moe-layer");
    /* q, k, v, o; router; 4 of 32 experts with gate, up and down */
    ck_assert_uint_eq(
        flops("moe-layer", KERNEL_GEMM, s),
        2 * s * (2880ull * (4096 + 512 + 512) + 4096 * 2880 + 2880 * 32 + 4 * 3 * 2880 * 2880));
    arena_release(&a);
    /* five of six layers of Gemma 3 are local */
    family("gemma-3-1b");
    for (uint32_t i = 0; i < 26; i++)
        ck_assert_str_eq(m.classes[m.units[1 + i].class_id].name,
                         (i + 1) % 6 ? "local-layer" : "layer");
    arena_release(&a);
    /* three of four layers of Llama 4 see the 8192 tokens of their chunk: 20,000 are two whole ones and 3,616; the fourth
     * sees all and does not rotate */
    family("llama-4-scout");
    ck_assert_uint_eq(flops("chunked-moe-layer", KERNEL_ATTENTION, 20000),
                      4 * 40 * 128 * ((2ull * 8192 * 8192 + 3616 * 3616) / 2));
    ck_assert_uint_eq(flops("chunked-moe-layer", KERNEL_ATTENTION, s), 4 * 40 * 128 * (s * s / 2));
    ck_assert_uint_eq(flops("moe-layer", KERNEL_ATTENTION, 20000), 4 * 40 * 128 * 20000ull * 10000);
    ck_assert_uint_eq(flops("moe-layer", KERNEL_ROPE, s), 0);
    for (uint32_t i = 0; i < 48; i++)
        ck_assert_str_eq(m.classes[m.units[1 + i].class_id].name,
                         (i + 1) % 4 ? "chunked-moe-layer" : "moe-layer");
    arena_release(&a);
    /* Gemma 4: 16 heads, of 256 with a window of 1024 in five of six layers, of 512 in the sixth */
    family("gemma-4-26b-a4b");
    ck_assert_uint_eq(flops("local-moe-layer", KERNEL_ATTENTION, s),
                      4 * 16 * 256 * (s * 1024 - 1024 * 1024 / 2));
    ck_assert_uint_eq(flops("moe-layer", KERNEL_ATTENTION, s), 4 * 16 * 512 * (s * s / 2));
    /* q, k that are also values, o; router; 8 experts; the dense MLP */
    ck_assert_uint_eq(
        flops("moe-layer", KERNEL_GEMM, s),
        2 * s *
            (2ull * 8192 * 2816 + 1024 * 2816 + 128 * 2816 + 8 * 3 * 704 * 2816 + 3 * 2112 * 2816));
    arena_release(&a);
    /* 71 heads of 64, one of keys */
    family("falcon-7b");
    ck_assert_uint_eq(flops("layer", KERNEL_ATTENTION, s), 4 * 71 * 64 * (s * s / 2));
    ck_assert_uint_eq(flops("layer", KERNEL_GEMM, s),
                      2 * s * (4544ull * (71 + 2) * 64 + 4544 * 4544 + 2 * 4544 * 4 * 4544));
    arena_release(&a);
}
END_TEST

START_TEST(recurrences_by_hand)
{
    uint64_t s = 4096;

    /* a token, Mamba-2 in chunks of 128: 8 groups of C B^T, 64 heads of 64 with a state of 128 */
    family("nemotron-3-nano-30b-a3b");
    ck_assert_uint_eq(flops("mamba-layer", KERNEL_SCAN, s),
                      s * (8 * 2 * 128 * 128 + 64 * (2 * 128 * 64 + 4 * 128 * 64)));
    ck_assert_uint_eq(flops("mamba-layer", KERNEL_CONV1D, s), s * 2 * 4 * 6144);
    ck_assert_uint_eq(flops("mamba-layer", KERNEL_ATTENTION, s), 0);
    ck_assert_uint_eq(flops("moe-layer", KERNEL_GEMM, 4096 * 64),
                      4096ull * 64 * 2 * (2688ull * 128 + 6 * 2 * 1856 * 2688 + 2 * 3712 * 2688));
    /* the model's FLOPs a token: attention in 6 of 52 layers */
    ck_assert_double_eq(graph_model_flops_per_token(&m, s, 0),
                        6.0 * (double)(m.active_params - m.embedding_params) +
                            12.0 * 6 * 32 * 128 * (double)s);
    arena_release(&a);
    /* 32 value heads, keys and values of 128, chunks of 64 */
    family("qwen3.5-25b-reap");
    ck_assert_uint_eq(flops("delta-moe-layer", KERNEL_SCAN, s),
                      s * 32 * (64 * 10 * 128 + 64 * 64 + 6 * 128 * 128));
    arena_release(&a);
}
END_TEST

static uint32_t op_index(const char *name)
{
    for (uint32_t i = 0; i < g.n_ops; i++)
        if (!strcmp(g.ops[i].name, name))
            return i;
    ck_abort_msg("no op '%s'", name);
    return 0;
}

START_TEST(blocks_have_their_familys_order)
{
    /* GPT-J: attention and MLP read one norm; the input meets both sums */
    family("gpt-j-6b");
    MUST(graph_build(&m, class_named("layer"), &(struct graph_batch){1, 64, 0}, DTYPE_BF16, &g,
                     &e) == 0,
         "%s", e.msg);
    ck_assert_uint_eq(g.ops[op_index("up")].in[0], g.ops[op_index("q")].in[0]);
    ck_assert_uint_eq(g.ops[op_index("add1")].in[0], 0);
    ck_assert_uint_eq(g.ops[op_index("add2")].in[0], g.ops[op_index("add1")].out);
    arena_release(&a);
    /* GPT-NeoX: two norms of the same input */
    family("gpt-neox-20b");
    MUST(graph_build(&m, class_named("layer"), &(struct graph_batch){1, 64, 0}, DTYPE_BF16, &g,
                     &e) == 0,
         "%s", e.msg);
    ck_assert_uint_eq(g.ops[op_index("norm2")].in[0], 0);
    ck_assert_uint_eq(g.ops[op_index("norm1")].in[0], 0);
    arena_release(&a);
    /* OLMo 2: the mixer reads the input as it is, its output is normed before it is added */
    family("olmo-2-7b");
    MUST(graph_build(&m, class_named("layer"), &(struct graph_batch){1, 64, 0}, DTYPE_BF16, &g,
                     &e) == 0,
         "%s", e.msg);
    ck_assert_uint_eq(g.ops[op_index("q")].in[0], 0);
    ck_assert_uint_eq(g.ops[op_index("norm1_post")].in[0], g.ops[op_index("o")].out);
    ck_assert_uint_eq(g.ops[op_index("add1")].in[1], g.ops[op_index("norm1_post")].out);
    arena_release(&a);
    /* OPT-350m: norms behind the additions, the last one makes the output */
    family("opt-350m");
    MUST(graph_build(&m, class_named("layer"), &(struct graph_batch){1, 64, 0}, DTYPE_BF16, &g,
                     &e) == 0,
         "%s", e.msg);
    ck_assert_uint_eq(g.ops[op_index("norm1")].in[0], g.ops[op_index("add1")].out);
    ck_assert_uint_eq(g.output, g.ops[op_index("norm2")].out);
    arena_release(&a);
    /* DeepSeek: the shared expert's output joins the routed ones' */
    family("deepseek-v3");
    MUST(graph_build(&m, class_named("moe-layer"), &(struct graph_batch){1, 64, 0}, DTYPE_BF16, &g,
                     &e) == 0,
         "%s", e.msg);
    ck_assert_uint_eq(g.ops[op_index("shared_gate")].in[0], g.ops[op_index("router")].in[0]);
    ck_assert_uint_eq(g.ops[op_index("add2")].in[1], g.ops[op_index("add_shared")].out);
    arena_release(&a);
}
END_TEST

START_TEST(fused_projections_split_by_option)
{
    const struct model_options split = {.split_fused = true};

    /* nwyin/modded-llama2: fused 160 matrices, split 224, and the same elements */
    parse_with("{\"model_type\":\"phi3\",\"hidden_size\":4096,\"intermediate_size\":11008,"
               "\"num_hidden_layers\":32,\"num_attention_heads\":32,\"vocab_size\":50257,"
               "\"tie_word_embeddings\":true}",
               &split);
    ck_assert_uint_eq(m.matrix_tensors, 224);
    ck_assert_uint_eq(m.matrix_params, 6476005376);
    ck_assert_uint_eq(m.total_params, 6682124288);
    shape_is("model.layers.0.self_attn.qkv_proj.weight[k]", 4096, 4096);
    shape_is("model.layers.0.mlp.gate_up_proj.weight[up]", 11008, 4096);
    arena_release(&a);
    parse_with("{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":1,\"n_head\":4,"
               "\"vocab_size\":10}",
               &split);
    shape_is("h.0.attn.c_attn.weight[v]", 64, 64);
    shape_is("h.0.attn.c_attn.bias[v]", 64, 0);
    ck_assert(!m.classes[m.units[1].class_id].fused_qkv);
    arena_release(&a);
}
END_TEST

START_TEST(multi_token_prediction_comes_in_by_option)
{
    const struct model_options mtp = {.mtp = true};
    uint64_t main_model, layer, scales = 0, weights;

    family("deepseek-v3");
    main_model = m.total_params;
    layer = m.units[61].numel;
    arena_release(&a);
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].name, "deepseek-v3"))
            parse_with(families[i].config, &mtp);
    /* a layer, three norms and the projection of both */
    ck_assert_uint_eq(m.total_params - main_model, layer + 3 * 7168 + 2ull * 7168 * 7168);
    /* Hugging Face counts 684,531,386,000 in the repository: with embedding and head once more for the prediction layer,
     * and an fp32 scale for each 128 x 128 block of what is fp8, which eh_proj is not */
    for (uint32_t i = 0; i < m.n_tensors; i++)
        if (tensor_is_matrix(&m.tensors[i]) && !strstr(m.tensors[i].name, "eh_proj"))
            scales += num_ceil_div(m.tensors[i].rows, 128) * num_ceil_div(m.tensors[i].cols, 128);
    ck_assert_uint_eq(m.total_params + 2ull * 129280 * 7168 + scales, 684531386000);
    shape_is("model.layers.61.eh_proj.weight", 7168, 2 * 7168);
    shape_is("model.layers.61.shared_head.norm.weight", 7168, 0);
    ck_assert_str_eq(m.units[62].name, "mtp.0");
    weights = met(&m.units[62], &m.classes[m.units[62].class_id]); /* in whole rows of 7168 */
    ck_assert_uint_eq(flops("mtp", KERNEL_GEMM, 64), 2 * 64 * num_ceil_div(weights, 7168) * 7168);
    ck_assert_int_eq(graph_trains(&m, 64, &e), -1);
    arena_release(&a);
    /* Qwen's stands by itself: a layer of full attention with experts, three norms, what joins */
    family("qwen3-next-80b-a3b");
    main_model = m.total_params;
    layer = m.units[4].numel;
    ck_assert_ptr_nonnull(strstr(m.notes[0], "1 layer of multi-token prediction left out"));
    arena_release(&a);
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].name, "qwen3-next-80b-a3b"))
            parse_with(families[i].config, &mtp);
    ck_assert_uint_eq(m.total_params - main_model, layer + 3 * 2048 + 2ull * 2048 * 2048);
    shape_is("mtp.fc.weight", 2048, 4096);
    shape_is("mtp.pre_fc_norm_embedding.weight", 2048, 0);
    shape_is("mtp.layers.0.self_attn.q_proj.weight", 8192, 2048);
    shape_is("mtp.layers.0.mlp.experts.511.down_proj.weight", 2048, 512);
    ck_assert_str_eq(m.units[49].name, "mtp.0");
    arena_release(&a);
    arena_init(&a);
    ck_assert_int_eq(model_load_with("llama-2-7b", &mtp, &a, &m, &e), -1);
    ck_assert_ptr_nonnull(strstr(e.msg, "no layers of multi-token prediction"));
    arena_release(&a);
}
END_TEST

START_TEST(exec_says_what_it_cannot_train)
{
    static const struct {
        const char *name, *says; /* NULL: it can */
    } rows[] = {{"olmo-2-7b", NULL},
                {"gemma-2b", "multipliers"},
                {"phi-3-mini", "fused QKV"},
                {"llama-4-scout", "multipliers"},
                {"gpt-j-6b", "partial rotary"},
                {"bloom-560m", "ALiBi"},
                {"opt-13b", "ReLU"},
                {"deepseek-v3", "MLA"},
                {"gpt-oss-20b", "local-moe-layer"},
                {"phi-3.5-moe", "routing"},
                {"nemotron-3-nano-30b-a3b", "Mamba-2"},
                {"qwen3.5, dense", "delta rule"},
                {"bert-base, masked words", "token types"},
                {"t5-11b", "relative positions"}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        family(rows[i].name);
        ck_assert_msg((graph_trains(&m, 4096, &e) == 0) == !rows[i].says, "%s", rows[i].name);
        if (rows[i].says) {
            ck_assert_int_eq(e.code, ERR_UNSUPPORTED);
            ck_assert_msg(strstr(e.msg, rows[i].says) != NULL, "%s", e.msg);
        }
        arena_release(&a);
    }
    /* a head of scores on layers that it trains; without a value projection */
    parse("{\"model_type\":\"gpt_neox_reward_model\",\"hidden_size\":64,\"num_hidden_layers\":1,"
          "\"num_attention_heads\":4,\"vocab_size\":9}");
    m.n_classes = 0;
    for (uint32_t i = 0; i < 3; i++)
        if (m.classes[i].kind == UNIT_HEAD)
            m.classes[m.n_classes++] = m.classes[i];
    ck_assert_int_eq(graph_trains(&m, 64, &e), -1);
    ck_assert_ptr_nonnull(strstr(e.msg, "gives scores"));
    arena_release(&a);
    family("olmo-2-7b");
    for (uint32_t i = 0; i < m.n_tensors; i++)
        if (m.tensors[i].slot == SLOT_V)
            m.tensors[i].slot = SLOT_OTHER;
    ck_assert_int_eq(graph_trains(&m, 64, &e), -1);
    ck_assert_ptr_nonnull(strstr(e.msg, "values that are the keys"));
    arena_release(&a);
    family("mpt-7b, 2048 tokens"); /* fused, but its positions are learned */
    ck_assert_int_eq(graph_trains(&m, 2048, &e), 0);
    arena_release(&a);
}
END_TEST

/* Without its predicting layer's own copies of embedding and head; `more`: those, where the
 * repository counts them. */
static void with_prediction(const char *name, uint64_t published, uint64_t more)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].name, name)) {
            parse_with(families[i].config, &(struct model_options){.mtp = true});
            ck_assert_msg(m.total_params + more == published, "%s: %llu", name,
                          (unsigned long long)m.total_params);
            arena_release(&a);
            return;
        }
    ck_abort_msg("no family '%s'", name);
}

/* Sums of the repositories' safetensors headers, which have the predicting layer. */
START_TEST(predicting_layers_make_up_the_published_counts)
{
    with_prediction("glm-4.5-air", 110468824832, 2ull * 151552 * 4096);
    with_prediction("glm-4.5", 358337791296, 2ull * 151552 * 5120);
    with_prediction("deepseek-v3.2", 685355329792, 2ull * 129280 * 7168);
    with_prediction("glm-5", 753864139008, 0);
    with_prediction("glm-5.3", 753329940480, 0);
    /* MiMo: no public sum was found; a layer, three norms, what joins */
    family("mimo-7b");
    uint64_t total = m.total_params + m.units[36].numel + 3 * 4096 + 2ull * 4096 * 4096;
    arena_release(&a);
    with_prediction("mimo-7b", total, 0);
}
END_TEST

static const char *class_of(uint32_t layer)
{
    return m.classes[m.units[1 + layer].class_id].name;
}

START_TEST(families_under_other_names)
{
    struct model_options split = {.split_fused = true}, mtp = {.mtp = true};

    /* every fourth layer of SmolLM3 does not rotate; where there are windows, these have them */
    family("smollm3-3b");
    ck_assert(m.tied && !find("lm_head.weight"));
    for (uint32_t i = 0; i < 36; i++)
        ck_assert_str_eq(class_of(i), (i + 1) % 4 ? "layer" : "nope-layer");
    ck_assert_int_eq(m.classes[m.units[4].class_id].position, POSITION_NONE);
    arena_release(&a);
    family("smollm3 with windows");
    for (uint32_t i = 0; i < 5; i++)
        ck_assert_str_eq(class_of(i), i % 2 ? "local-nope-layer" : "layer");
    ck_assert_uint_eq(m.classes[m.units[2].class_id].window, 128);
    /* kv_heads 4 is the class's default; tables, 5 layers, a norm */
    ck_assert_uint_eq(m.total_params, 2 * 100 * 64 + 5 * (4 * 64 * 64 + 3 * 64 * 96 + 2 * 64) + 64);
    arena_release(&a);
    family("olmoe-1b-7b");
    shape_is("model.layers.15.self_attn.k_norm.weight", 2048, 0);
    shape_is("model.layers.0.mlp.experts.63.down_proj.weight", 2048, 1024);
    ck_assert_ptr_null(find("model.layers.0.mlp.gate.e_score_correction_bias"));
    ck_assert_uint_eq(m.n_tensors, 3219); /* as the published index has */
    arena_release(&a);
    family("internlm2-7b");
    shape_is("model.tok_embeddings.weight", 92544, 4096);
    shape_is("model.layers.31.attention.wqkv.weight", 6144, 4096);
    shape_is("model.layers.31.feed_forward.w2.weight", 4096, 14336);
    shape_is("model.layers.31.attention_norm.weight", 4096, 0);
    shape_is("output.weight", 92544, 4096);
    ck_assert_uint_eq(m.n_tensors, 227); /* as the published checkpoint has */
    arena_release(&a);
    parse_with("{\"model_type\":\"internlm2\",\"hidden_size\":64,\"intermediate_size\":96,"
               "\"num_hidden_layers\":1,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
               "\"vocab_size\":10}",
               &split); /* bias is true when absent */
    shape_is("model.layers.0.attention.wqkv.weight[k]", 32, 64);
    shape_is("model.layers.0.attention.wqkv.bias[q]", 64, 0);
    shape_is("model.layers.0.attention.wo.bias", 64, 0);
    ck_assert_ptr_null(find("model.layers.0.feed_forward.w1.bias"));
    arena_release(&a);
    family("baichuan2-7b");
    shape_is("model.layers.0.self_attn.W_pack.weight", 3 * 4096, 4096);
    shape_is("model.layers.0.mlp.gate_proj.weight", 11008, 4096);
    ck_assert_int_eq(m.classes[m.units[1].class_id].position, POSITION_ROPE);
    arena_release(&a);
    family("baichuan-13b");
    ck_assert_int_eq(m.classes[m.units[1].class_id].position, POSITION_ALIBI);
    arena_release(&a);
    /* heads share the width; a key that says otherwise is named */
    parse(
        "{\"model_type\":\"internlm2\",\"hidden_size\":64,\"intermediate_size\":96,\"head_dim\":17,"
        "\"num_hidden_layers\":1,\"num_attention_heads\":4,\"vocab_size\":10}");
    ck_assert_uint_eq(m.classes[m.units[1].class_id].head_dim, 16);
    ck_assert_ptr_nonnull(strstr(m.notes[0], "not read for internlm2"));
    ck_assert_ptr_nonnull(strstr(m.notes[0], "head_dim 17"));
    arena_release(&a);
    family("mimo-7b"); /* attention_bias is true, and biases on q, k and v are there */
    ck_assert_uint_eq(m.n_notes, 1);
    arena_release(&a);
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].name, "mimo-7b"))
            parse_with(families[i].config, &mtp);
    shape_is("model.layers.35.self_attn.q_proj.bias", 4096, 0);
    ck_assert_ptr_null(find("model.layers.35.self_attn.o_proj.bias"));
    shape_is("model.mtp_layers.0.input_proj.weight", 4096, 8192);
    shape_is("model.mtp_layers.0.final_layernorm.weight", 4096, 0);
    shape_is("model.mtp_layers.0.self_attn.q_proj.weight", 4096, 4096);
    arena_release(&a);
    family("qwen2.5-vl-7b"); /* keys of the text part in the document itself */
    shape_is("model.layers.27.self_attn.v_proj.bias", 512, 0);
    ck_assert_str_eq(m.arch, "qwen2_5_vl_text");
    ck_assert_ptr_nonnull(strstr(m.notes[0], "vision_config left out"));
    arena_release(&a);
    family("qwen2.5-vl-3b");
    ck_assert(m.tied);
    arena_release(&a);
    family("qwen3-vl-4b");
    shape_is("model.language_model.layers.35.self_attn.q_norm.weight", 128, 0);
    ck_assert_ptr_nonnull(strstr(m.notes[0], "vision_config left out"));
    arena_release(&a);
    family("qwen3-vl-30b-a3b");
    shape_is("model.language_model.layers.0.mlp.experts.gate_up_proj[127]", 2048, 1536);
    shape_is("model.language_model.layers.0.mlp.experts.down_proj[0]", 768, 2048);
    arena_release(&a);
    family("glm-4.5-air");
    shape_is("model.layers.0.mlp.gate_proj.weight", 10944, 4096);
    shape_is("model.layers.1.mlp.gate.e_score_correction_bias", 128, 0);
    shape_is("model.layers.1.mlp.shared_experts.up_proj.weight", 1408, 4096);
    shape_is("model.layers.0.self_attn.q_proj.bias", 96 * 128, 0);
    ck_assert_ptr_null(find("model.layers.0.self_attn.o_proj.bias"));
    ck_assert_ptr_null(find("model.layers.0.self_attn.q_norm.weight"));
    ck_assert_uint_eq(m.classes[m.units[1].class_id].rotary_dim, 64);
    arena_release(&a);
    family("glm-4.5");
    shape_is("model.layers.91.self_attn.q_norm.weight", 128, 0);
    ck_assert_str_eq(class_of(2), "layer");
    ck_assert_str_eq(class_of(3), "moe-layer");
    arena_release(&a);
    family("minimax-m2");
    shape_is("model.layers.61.block_sparse_moe.e_score_correction_bias", 256, 0);
    shape_is("model.layers.61.block_sparse_moe.experts.255.w2.weight", 3072, 1536);
    shape_is("model.layers.0.self_attn.k_norm.weight", 1024, 0);
    ck_assert_uint_eq(m.classes[m.units[1].class_id].rotary_dim, 64);
    arena_release(&a);
}
END_TEST

START_TEST(indexers_of_sparse_attention_are_counted_and_named)
{
    struct model_options mtp = {.mtp = true};
    uint64_t s = 4096;
    uint32_t with = 0;

    family("deepseek-v3.2");
    shape_is("model.layers.60.self_attn.indexer.wq_b.weight", 8192, 1536);
    shape_is("model.layers.60.self_attn.indexer.wk.weight", 128, 7168);
    shape_is("model.layers.60.self_attn.indexer.k_norm.weight", 128, 0);
    shape_is("model.layers.60.self_attn.indexer.k_norm.bias", 128, 0);
    shape_is("model.layers.60.self_attn.indexer.weights_proj.weight", 64, 7168);
    ck_assert_ptr_nonnull(strstr(m.notes[1], "the choice of 2048 keys"));
    /* V3's products and those of the indexer; attention over all keys */
    ck_assert_uint_eq(flops("layer", KERNEL_GEMM, s),
                      2 * s *
                          (7168ull * 1536 + 1536 * 128 * 192 + 7168 * (512 + 64) +
                           512 * 128 * (128 + 128) + 128 * 128 * 7168 + 3ull * 7168 * 18432 +
                           1536 * 8192 + 7168 * 128 + 7168 * 64));
    ck_assert_uint_eq(flops("layer", KERNEL_ATTENTION, s), 2 * 128 * (192 + 128) * (s * s / 2));
    arena_release(&a);
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].name, "glm-5.3"))
            parse_with(families[i].config, &mtp);
    for (uint32_t i = 0; i < m.n_tensors; i++)
        with += strstr(m.tensors[i].name, "indexer.wk.") != NULL;
    ck_assert_uint_eq(with, 21 + 1);
    for (uint32_t i = 0; i < 78; i++)
        ck_assert_msg(!strncmp(class_of(i), "shared-index", 12) == !(i < 3 || i % 4 == 2), "%u", i);
    ck_assert_str_eq(class_of(0), "layer");
    ck_assert_str_eq(class_of(3), "shared-index-moe-layer");
    shape_is("model.layers.78.self_attn.indexer.wk.weight", 128, 6144);
    arena_release(&a);
    /* q_a 24 x 64 and its norm, q_b 2 heads of 16, kv_a 24 x 64, its norm, kv_b 2 x 20, o 24; two indexers of 4 heads of
     * 16; three dense MLPs, 4 experts and a shared one with router and correction */
    family("sparse attention in dense layers");
    ck_assert_uint_eq(m.total_params,
                      4 * (24 * 64 + 24 + 32 * 24 + 24 * 64 + 16 + 40 * 16 + 24 * 64 + 2 * 64) +
                          2 * (64 * 24 + 16 * 64 + 2 * 16 + 4 * 64) + 3 * 3 * 96 * 64 +
                          5 * 3 * 32 * 64 + 4 * 64 + 4 + 64 + 2 * 100 * 64);
    ck_assert_str_eq(class_of(1), "shared-index-layer");
    ck_assert_str_eq(class_of(2), "moe-layer");
    arena_release(&a);
}
END_TEST

/* Reading by --as: a type that nobody knows, and one that is known. */
START_TEST(an_unknown_type_is_read_as_a_family_by_option)
{
#define UNKNOWN_TYPE                                                                               \
    "\"hidden_size\":64,\"intermediate_size\":128,\"num_hidden_layers\":2,"                        \
    "\"num_attention_heads\":4,\"vocab_size\":10"
    static const struct {
        const char *text, *as, *says; /* NULL: it is read */
    } rows[] = {
        {"{\"model_type\":\"yolm\"," UNKNOWN_TYPE "}", "llama", NULL},
        {"{" UNKNOWN_TYPE "}", "llama", NULL},
        {"{\"model_type\":\"yo_vl\",\"text_config\":{" UNKNOWN_TYPE "}}", "qwen2", NULL},
        {"{\"model_type\":\"yolm\"," UNKNOWN_TYPE "}", "lama",
         "'t.json': --as: 'lama' is no family (did you mean 'llama'?); there are llama, mistral"},
        {"{\"model_type\":\"yolm\"," UNKNOWN_TYPE "}", "frobnicator",
         "'frobnicator' is no family; there are llama"},
        {"{\"model_type\":\"yolm\",\"hidden_size\":64}", "llama",
         "'t.json': the document has no 'num_hidden_layers'"},
        {"{\"model_type\":\"yolm\"," UNKNOWN_TYPE "}", "deepseek_v3",
         "'t.json': the document has no 'kv_lora_rank'"},
        {"{\"model_type\":\"yolm\"," UNKNOWN_TYPE "}", NULL,
         "model_type is 'yolm', which is not read; --as FAMILY (--as llama)"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct model_options o = {.as = rows[i].as};
        int rc;

        arena_init(&a);
        rc = model_from_config_with(rows[i].text, strlen(rows[i].text), "t.json", &o, &a, &m, &e);
        ck_assert_msg((rc == 0) == !rows[i].says, "%zu: %s", i, e.msg);
        if (rows[i].says)
            ck_assert_msg(strstr(e.msg, rows[i].says) != NULL, "%s", e.msg);
        else
            ck_assert_msg(m.n_notes && strstr(m.notes[m.n_notes - 1], rows[i].as) &&
                              strstr(m.notes[m.n_notes - 1], "as --as says"),
                          "%zu", i);
        arena_release(&a);
    }
    parse_with("{\"model_type\":\"qwen2\"," UNKNOWN_TYPE "}",
               &(struct model_options){.as = "llama"});
    ck_assert_str_eq(m.arch, "llama");
    ck_assert_ptr_null(find("model.layers.0.self_attn.q_proj.bias"));
    ck_assert_ptr_nonnull(strstr(m.notes[0], "'qwen2', which is a family of its own"));
    arena_release(&a);
    /* every note that a reader has at once; those of a list beside it come on top */
    parse_with(
        "{\"model_type\":\"yo_vl\",\"architectures\":[\"YoForMultipleChoice\"],"
        "\"vision_config\":{\"depth\":1},\"text_config\":{" UNKNOWN_TYPE
        ",\"architectures\":[\"YoForMultipleChoice\"],\"z_loss_weight\":0,\"num_experts\":8,"
        "\"num_nextn_predict_layers\":1,\"quantization_config\":{\"quant_method\":\"awq\"}}}",
        &(struct model_options){.as = "baichuan"});
    ck_assert_uint_eq(m.n_notes, 8);
    ck_assert_uint_le(m.n_notes + 4, MODEL_NOTES);
    arena_release(&a);
    parse_with("{\"model_type\":\"llama\"," UNKNOWN_TYPE "}",
               &(struct model_options){.as = "llama"});
    ck_assert_uint_eq(m.n_notes, 0);
    arena_release(&a);
}
END_TEST

/* Python's json writes Infinity and NaN: any config is read with them beside, none where it is
 * used. */
START_TEST(numbers_that_are_not_finite_are_read_where_nobody_uses_them)
{
    struct strbuf b;

    for (size_t i = 0; i < N_FAMILIES; i++) {
        uint64_t want;

        parse(families[i].config);
        want = m.total_params;
        arena_release(&a);
        strbuf_init(&b);
        strbuf_printf(&b, "{\"x_limit\":[0.0, Infinity, -Infinity, NaN],%s",
                      strchr(families[i].config, '{') + 1);
        parse(b.s);
        ck_assert_uint_eq(m.total_params, want);
        arena_release(&a);
        strbuf_release(&b);
    }
}
END_TEST

START_TEST(what_changes_a_family_is_refused_by_name)
{
    static const struct {
        const char *text;
        const char *says[2];
    } rows[] = {
        {"{\"model_type\":\"stablelm\",\"qk_layernorm\":true}", {"qk_layernorm"}},
        {"{\"model_type\":\"bloom\",\"hidden_size\":64,\"n_layer\":1,\"n_head\":4,\"vocab_size\":9,"
         "\"apply_residual_connection_post_layernorm\":true}",
         {"apply_residual_connection_post_layernorm is true", "only false"}},
        {"{\"model_type\":\"opt\",\"hidden_size\":64,\"num_hidden_layers\":1,"
         "\"num_attention_heads\":4,\"ffn_dim\":9,\"vocab_size\":9,"
         "\"layer_norm_elementwise_affine\":false}",
         {"layer_norm_elementwise_affine is false"}},
        {"{\"model_type\":\"mpt\",\"d_model\":64,\"n_layers\":1,\"n_heads\":4,\"vocab_size\":9,"
         "\"attn_config\":{\"qk_ln\":true}}",
         {"attn_config.qk_ln"}},
        {"{\"model_type\":\"mpt\",\"d_model\":64,\"n_layers\":1,\"n_heads\":4,\"vocab_size\":9,"
         "\"attn_config\":{\"kv_n_heads\":3}}",
         {"kv_n_heads is 3", "n_heads = 4"}},
        {"{\"model_type\":\"gptj\",\"n_embd\":64,\"n_layer\":1,\"n_head\":4,\"vocab_size\":9}",
         {"64, more than the 16"}},
        {"{\"model_type\":\"gemma3\",\"hidden_size\":64}", {"no text_config", "multimodal"}},
        {"{\"model_type\":\"gemma3\",\"text_config\":3}", {"text_config"}},
        {"{\"model_type\":\"odd_vl\",\"text_config\":{\"model_type\":\"odd\"}}",
         {"text_config.model_type is 'odd'"}},
        {"{\"model_type\":\"gpt_oss\",\"hidden_size\":64,\"intermediate_size\":8,"
         "\"num_hidden_layers\":2,\"num_attention_heads\":8,\"vocab_size\":9,"
         "\"layer_types\":[\"full_attention\"]}",
         {"layer_types has 1 entries for 2"}},
        {"{\"model_type\":\"gpt_oss\",\"hidden_size\":64,\"intermediate_size\":8,"
         "\"num_hidden_layers\":1,\"num_attention_heads\":8,\"vocab_size\":9,"
         "\"layer_types\":[\"chunked\"]}",
         {"layer_types[0] is 'chunked'"}},
        {"{\"model_type\":\"nemotron_h\",\"hidden_size\":64,\"num_hidden_layers\":2,"
         "\"vocab_size\":9,\"hybrid_override_pattern\":\"-\",\"intermediate_size\":8}",
         {"hybrid_override_pattern has 1 letters"}},
        {"{\"model_type\":\"nemotron_h\",\"hidden_size\":64,\"num_hidden_layers\":1,"
         "\"vocab_size\":9,\"hybrid_override_pattern\":\"X\",\"intermediate_size\":8}",
         {"'X' for layer 0"}},
        {"{\"model_type\":\"deepseek_v3\",\"hidden_size\":64,\"num_hidden_layers\":1,"
         "\"num_attention_heads\":4,\"vocab_size\":9}",
         {"kv_lora_rank"}},
        {"{\"model_type\":\"deepseek_v3\",\"hidden_size\":64,\"num_hidden_layers\":1,"
         "\"num_attention_heads\":4,\"vocab_size\":9,\"index_topk\":64}",
         {"index_topk"}},
        {"{\"model_type\":\"mpt\",\"attn_config\":{\"prefix_lm\":true},\"d_model\":64,\"n_layers\":"
         "1,"
         "\"n_heads\":4,\"vocab_size\":9}",
         {"attn_config.prefix_lm"}},
        {"{\"model_type\":\"mpt\",\"norm_type\":\"rmsnorm\"}", {"norm_type is 'rmsnorm'"}},
        {"{\"model_type\":\"mpt\",\"ffn_config\":{\"ffn_type\":\"mptgeglu\"}}",
         {"ffn_config.ffn_type is 'mptgeglu'", "'mptmlp'"}},
        {"{\"model_type\":\"starcoder2\",\"mlp_type\":\"gated\"}", {"mlp_type is 'gated'"}},
        {"{\"model_type\":\"gemma3_text\",\"use_bidirectional_attention\":true}",
         {"use_bidirectional_attention"}},
        {"{\"model_type\":\"phimoe\",\"hidden_size\":64,\"intermediate_size\":8,"
         "\"num_hidden_layers\":1,\"num_attention_heads\":8,\"vocab_size\":9,"
         "\"num_local_experts\":0}",
         {"num_local_experts is 0"}},
        {"{\"model_type\":\"nemotron_h\",\"hidden_size\":64,\"num_hidden_layers\":1,"
         "\"vocab_size\":9,\"hybrid_override_pattern\":\"E\",\"intermediate_size\":8}",
         {"no 'n_routed_experts'"}},
        {"{\"model_type\":\"gemma4_text\",\"hidden_size_per_layer_input\":128}",
         {"hidden_size_per_layer_input gives every layer embeddings", "input 128"}},
        {"{\"model_type\":\"gemma4_text\"}", {"the document gives every layer", "input 256"}},
        {"{\"model_type\":\"gemma4_text\",\"num_kv_shared_layers\":20}", {"num_kv_shared_layers"}},
        {"{\"model_type\":\"gemma4_text\",\"hidden_size_per_layer_input\":0,"
         "\"use_bidirectional_attention\":\"all\"}",
         {"use_bidirectional_attention is 'all'"}},
        {"{\"model_type\":\"gpt_neox_reward_model\",\"hidden_size\":64,\"num_hidden_layers\":1,"
         "\"num_attention_heads\":4,\"vocab_size\":9,\"tie_word_embeddings\":true}",
         {"ties the head"}},
        {"{\"model_type\":\"llama4_text\",\"hidden_size\":64,\"intermediate_size\":8,"
         "\"num_hidden_layers\":2,\"num_attention_heads\":8,\"vocab_size\":9,"
         "\"layer_types\":[\"chunked_attention\",\"sliding_attention\"]}",
         {"layer_types[1] is 'sliding_attention', expected chunked_attention"}},
        {"{\"model_type\":\"llama4_text\",\"hidden_size\":64,\"intermediate_size\":8,"
         "\"num_hidden_layers\":2,\"num_attention_heads\":8,\"vocab_size\":9,"
         "\"no_rope_layers\":[1]}",
         {"no_rope_layers has 1 entries for 2 layers"}},
        {"{\"model_type\":\"llama\",\"is_causal\":false}", {"is_causal is false", "only true"}},
        {"{\"model_type\":\"nemotron_h\",\"moe_latent_size\":1024}", {"moe_latent_size"}},
        {"{\"model_type\":\"llama\",\"hidden_size\":Infinity,\"num_hidden_layers\":1}",
         {"hidden_size is Infinity, expected a whole number"}},
        {"{\"model_type\":\"phi\",\"hidden_size\":64,\"num_hidden_layers\":1,"
         "\"num_attention_heads\":4,\"vocab_size\":9,\"intermediate_size\":9,"
         "\"partial_rotary_factor\":NaN}",
         {"partial_rotary_factor is NaN, expected a number from 0 to 1"}},
        {"{\"model_type\":\"olmoe\",\"clip_qkv\":8.0}", {"clip_qkv"}},
        {"{\"model_type\":\"minimax_m2\",\"shared_intermediate_size\":8}",
         {"shared_intermediate_size"}},
        {"{\"model_type\":\"minimax_m2\",\"hidden_size\":64,\"intermediate_size\":8,"
         "\"num_hidden_layers\":2,\"num_attention_heads\":8,\"vocab_size\":9,"
         "\"attn_type_list\":[1,0]}",
         {"attn_type_list[1] is 0, linear attention"}},
        {"{\"model_type\":\"minimax_m2\",\"hidden_size\":64,\"intermediate_size\":8,"
         "\"num_hidden_layers\":2,\"num_attention_heads\":8,\"vocab_size\":9,"
         "\"use_qk_norm\":false}",
         {"use_qk_norm is false", "only true is read"}},
        {"{\"model_type\":\"smollm3\",\"hidden_size\":64,\"intermediate_size\":8,"
         "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"vocab_size\":9,"
         "\"no_rope_layers\":[1]}",
         {"no_rope_layers has 1 entries for 2 layers"}},
        {"{\"model_type\":\"deepseek_v3\",\"index_topk\":2048}", {"index_topk"}},
        {"{\"model_type\":\"deepseek_v32\",\"hidden_size\":64,\"num_hidden_layers\":1,"
         "\"num_attention_heads\":4,\"vocab_size\":9,\"kv_lora_rank\":8,"
         "\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":8,\"v_head_dim\":8}",
         {"no 'q_lora_rank'"}},
        {"{\"model_type\":\"qwen3_vl\"}", {"model_type is 'qwen3_vl'", "no text_config"}},
        {"{\"model_type\":\"bert\",\"is_decoder\":true}", {"is_decoder"}},
        {"{\"model_type\":\"bert\",\"add_cross_attention\":true}", {"add_cross_attention"}},
        {"{\"model_type\":\"llama\",\"is_encoder_decoder\":true}", {"is_encoder_decoder"}},
        {"{\"model_type\":\"bert\",\"hidden_size\":64,\"num_hidden_layers\":1,"
         "\"num_attention_heads\":4,\"intermediate_size\":9,"
         "\"position_embedding_type\":\"relative_key\"}",
         {"position_embedding_type is 'relative_key'", "'absolute'"}},
        {"{\"model_type\":\"roberta\",\"hidden_size\":64,\"num_hidden_layers\":1,"
         "\"num_attention_heads\":4,\"intermediate_size\":9,\"max_position_embeddings\":2}",
         {"max_position_embeddings is 2", "pad_token_id + 1 = 2"}},
        {"{\"model_type\":\"t5\",\"architectures\":[\"T5EncoderModel\"]}",
         {"architectures[0] is 'T5EncoderModel'", "an encoder alone"}},
        {"{\"model_type\":\"t5\",\"is_encoder_decoder\":false}",
         {"is_encoder_decoder is false", "an encoder or a decoder alone"}},
        {"{\"model_type\":\"t5\",\"d_model\":64,\"d_kv\":8,\"d_ff\":9,\"num_layers\":1,"
         "\"num_heads\":4,\"vocab_size\":9,\"feed_forward_proj\":\"gated-relu\"}",
         {"feed_forward_proj is 'gated-relu'", "gated-gelu"}},
        {"{\"model_type\":\"t5\",\"d_model\":64,\"d_ff\":9,\"num_layers\":1,"
         "\"num_heads\":4,\"vocab_size\":9}",
         {"d_kv"}},
        {"{\"model_type\":\"qwen\",\"hidden_size\":64,\"num_hidden_layers\":1,"
         "\"num_attention_heads\":4,\"vocab_size\":9,\"intermediate_size\":7}",
         {"intermediate_size is 7", "even"}},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        arena_init(&a);
        ck_assert_msg(model_from_config(rows[i].text, strlen(rows[i].text), "t.json", &a, &m, &e) ==
                          -1,
                      "accepted: %s", rows[i].text);
        ck_assert_ptr_nonnull(strstr(e.msg, "t.json"));
        for (int j = 0; j < 2 && rows[i].says[j]; j++)
            ck_assert_msg(strstr(e.msg, rows[i].says[j]) != NULL, "'%s' does not say '%s'", e.msg,
                          rows[i].says[j]);
        arena_release(&a);
    }
}
END_TEST

SUITE_MAIN("model/families", totals_are_the_published_ones, small_ones_by_hand,
           names_are_those_of_the_checkpoints, a_convolution_is_flattened_and_a_row_is_no_matrix,
           graphs_use_every_tensor_once_and_flops_follow_from_them, attention_by_hand,
           recurrences_by_hand, blocks_have_their_familys_order, fused_projections_split_by_option,
           multi_token_prediction_comes_in_by_option, exec_says_what_it_cannot_train,
           predicting_layers_make_up_the_published_counts, families_under_other_names,
           indexers_of_sparse_attention_are_counted_and_named,
           an_unknown_type_is_read_as_a_family_by_option,
           numbers_that_are_not_finite_are_read_where_nobody_uses_them,
           what_changes_a_family_is_refused_by_name)
