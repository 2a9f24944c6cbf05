/* The slice of a tensor-parallel rank, by hand: Megatron's cut (arXiv 1909.08053, section 3), Llama's published shapes. */
#include "model/graph/graph.h"
#include "model/plan/model_load.h"
#include "model/tensors/slice.h"
#include "tests/suite.h"

#include <string.h>

static struct arena a;
static struct model whole, part;
static struct err e;

static void slice(const char *what, uint32_t tp, uint32_t pad)
{
    arena_init(&a);
    MUST(!model_load(what, 1024, &a, &whole, &e), "%s: %s", what, e.msg);
    MUST(!model_slice(&whole, tp, pad, &a, &part, &e), "%s over %u: %s", what, tp, e.msg);
}

static const struct tensor *named(const struct model *m, const char *name)
{
    for (uint32_t i = 0; i < m->n_tensors; i++)
        if (!strcmp(m->tensors[i].name, name))
            return &m->tensors[i];
    ck_abort_msg("no tensor '%s'", name);
    return NULL;
}

/* Llama-3.1-8B over 4: q 4096/4 rows, k and v 1024/4, o 4096/4 columns, three matrices of 14336/4, two tables of 128256/4 tokens;
 * norms whole. */
START_TEST(llama_by_hand)
{
    const uint64_t h = 4096, layer = 2 * h * h / 4 + 2 * h * 1024 / 4 + 3 * h * 14336 / 4 + 2 * h;

    slice("llama-3.1-8b", 4, 1);
    ck_assert_uint_eq(part.total_params, 2 * h * 128256 / 4 + 32 * layer + h);
    ck_assert_uint_eq(part.n_units, whole.n_units);
    ck_assert_uint_eq(part.classes[1].n_heads, 8);
    ck_assert_uint_eq(part.classes[1].n_kv_heads, 2);
    ck_assert_uint_eq(part.units[1].numel, layer);
    ck_assert_uint_eq(part.tensors[part.units[2].first].at, h * 128256 / 4 + layer);
    arena_release(&a);
}
END_TEST

/* 8 key heads over 16 ranks: one each, and every head is on two. */
START_TEST(fewer_key_heads_than_ranks_are_copied)
{
    const struct unit_class *c;

    slice("llama-3.1-70b", 16, 1);
    c = &part.classes[1];
    ck_assert_uint_eq(c->n_heads, 4);
    ck_assert_uint_eq(c->n_kv_heads, 1);
    for (uint32_t i = part.units[1].first; i < part.units[2].first; i++)
        if (part.tensors[i].slot == SLOT_K || part.tensors[i].slot == SLOT_V)
            ck_assert_uint_eq(part.tensors[i].shape[0], 128);
    arena_release(&a);
}
END_TEST

/* GPT-2 keeps (in, out): its fused q, k, v lose columns, its output projections rows; biases of the former are cut, of the latter whole.
 * Megatron pads 50257 tokens to 128 x 4: 50688, 12672 a rank. */
START_TEST(gpt2_stores_weights_the_other_way_around)
{
    slice("gpt2", 4, 128);
    ck_assert_uint_eq(part.vocab, 12672);
    for (uint32_t i = 0; i < part.n_tensors; i++) {
        const struct tensor *t = &part.tensors[i], *w = &whole.tensors[i];

        switch (t->slot) {
        case SLOT_QKV:
            ck_assert_uint_eq(t->numel * 4, w->numel);
            ck_assert(t->is_bias || t->shape[0] == w->shape[0]);
            break;
        case SLOT_O:
        case SLOT_DOWN:
            ck_assert_uint_eq(t->shape[0] * (t->is_bias ? 1 : 4), w->shape[0]);
            break;
        case SLOT_TOKEN_EMBEDDING:
            ck_assert_uint_eq(t->shape[0], 12672);
            break;
        case SLOT_POSITION:
            ck_assert_uint_eq(t->numel, w->numel);
            break;
        default:
            break;
        }
    }
    arena_release(&a);
}
END_TEST

/* gpt-oss keeps experts as (in, out) beside ordinary projections, of 2,880 columns each way: the hidden size is as wide as an
 * expert, so that down's own shape tells nothing. */
START_TEST(experts_stored_the_other_way_around_are_cut_so)
{
    static const char gpt_oss[] =
        "{\"model_type\":\"gpt_oss\",\"vocab_size\":64,\"hidden_size\":64,\"intermediate_size\":64,"
        "\"num_hidden_layers\":1,\"num_attention_heads\":8,\"num_key_value_heads\":4,\"head_dim\":"
        "16,"
        "\"num_local_experts\":2,\"num_experts_per_tok\":1}";
    uint32_t seen = 0;

    arena_init(&a);
    MUST(!model_from_config(gpt_oss, sizeof(gpt_oss) - 1, "x", &a, &whole, &e), "%s", e.msg);
    MUST(!model_slice(&whole, 4, 1, &a, &part, &e), "%s", e.msg);
    for (uint32_t i = 0; i < part.n_tensors; i++) {
        const struct tensor *t = &part.tensors[i];

        if (t->slot == SLOT_Q && !t->is_bias)
            ck_assert(t->shape[0] == 8 * 16 / 4 && t->shape[1] == 64);
        else if (t->slot == SLOT_O && !t->is_bias)
            ck_assert(t->shape[0] == 64 && t->shape[1] == 8 * 16 / 4);
        else if (t->slot == SLOT_GATE_UP && !t->is_bias)
            ck_assert(t->shape[0] == 64 && t->shape[1] == 2 * 64 / 4);
        else if (t->slot == SLOT_DOWN && !t->is_bias)
            ck_assert(t->shape[0] == 64 / 4 && t->shape[1] == 64);
        else
            continue;
        seen++;
    }
    ck_assert_uint_eq(seen, 2 + 2 * 2);
    arena_release(&a);
}
END_TEST

/* Every product is shared out: the ranks' FLOPs add up to one rank's, whatever lies between. */
START_TEST(ranks_share_all_products)
{
    static const char *const models[] = {"llama-3.1-8b", "qwen3-8b", "gpt2", "mixtral-8x7b",
                                         "block:layers=2,hidden=256,ffn=1024,heads=8,vocab=1024"};
    static struct unit_graph one, two;

    for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
        struct graph_batch n = {.micro_batch = 1, .seq_len = 512};

        slice(models[i], 2, 1);
        for (uint32_t c = 0; c < whole.n_classes; c++) {
            uint64_t sum[2] = {0, 0};

            n.tp = 0;
            MUST(!graph_build(&whole, c, &n, DTYPE_BF16, &one, &e), "%s", e.msg);
            n.tp = 2;
            MUST(!graph_build(&part, c, &n, DTYPE_BF16, &two, &e), "%s", e.msg);
            for (uint32_t k = 0; k < one.n_ops; k++)
                sum[0] += kernel_bound(one.ops[k].forward.kernel) == 'G' &&
                                  strcmp(one.ops[k].name, "router") != 0
                              ? one.ops[k].forward.flops
                              : 0;
            for (uint32_t k = 0; k < two.n_ops; k++)
                sum[1] += kernel_bound(two.ops[k].forward.kernel) == 'G' &&
                                  strcmp(two.ops[k].name, "router") != 0
                              ? two.ops[k].forward.flops
                              : 0;
            /* an odd vocabulary is padded by less than a rank's token */
            MUST(2 * sum[1] >= sum[0] && 2 * sum[1] - sum[0] <= sum[0] / 1000,
                 "%s class %u: %g of %g", models[i], c, (double)sum[1], (double)sum[0]);
        }
        arena_release(&a);
    }
}
END_TEST

START_TEST(what_cannot_be_shared_is_refused_by_name)
{
    static const struct {
        const char *model;
        uint32_t tp;
        enum err_code code;
        const char *says;
    } rows[] = {
        {"gpt2", 8, ERR_INVALID,
         "8 ranks do not share the 12 heads of 'gpt2' evenly; nearest below: 4"},
        {"t5-11b", 2, ERR_UNSUPPORTED, "an encoder beside a decoder"},
        {"block:layers=1,hidden=96,ffn=100,heads=8", 8, ERR_INVALID, "columns of the MLP"},
        {"block:layers=1,hidden=96,ffn=384,heads=12,kv-heads=3", 4, ERR_INVALID, "3 key heads"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        arena_init(&a);
        MUST(!model_load(rows[i].model, 64, &a, &whole, &e), "%s", e.msg);
        ck_assert_int_eq(model_slice(&whole, rows[i].tp, 1, &a, &part, &e), -1);
        MUST(e.code == rows[i].code && strstr(e.msg, rows[i].says), "%s", e.msg);
        arena_release(&a);
    }
}
END_TEST

/* A planted fault: o cut by its outputs leaves the attention's heads without their rows, which the sum of a layer shows. */
START_TEST(a_wrong_cut_changes_the_shapes)
{
    const struct tensor *o;

    slice("llama-3.1-8b", 4, 1);
    o = named(&part, "model.layers.0.self_attn.o_proj.weight");
    ck_assert_uint_eq(o->shape[0], 4096);
    ck_assert_uint_eq(o->shape[1], 1024);
    ck_assert_int_eq(slice_cut_of(SLOT_O), SLICE_INPUTS);
    arena_release(&a);
}
END_TEST

SUITE_MAIN("model/slice", llama_by_hand, fewer_key_heads_than_ranks_are_copied,
           gpt2_stores_weights_the_other_way_around, experts_stored_the_other_way_around_are_cut_so,
           ranks_share_all_products, what_cannot_be_shared_is_refused_by_name,
           a_wrong_cut_changes_the_shapes)
