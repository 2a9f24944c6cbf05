/* The one-line form: totals from closed forms, and what it refuses. */
#include "model/plan/model_load.h"
#include "model/tensors/model.h"
#include "tests/suite.h"

#include <string.h>

static struct arena a;
static struct model m;
static struct err e;

static void load(const char *what, uint64_t seq_len)
{
    arena_init(&a);
    ck_assert_msg(model_load(what, seq_len, &a, &m, &e) == 0, "%s: %s", what, e.msg);
}

static const struct tensor *find(const char *name)
{
    for (uint32_t i = 0; i < m.n_tensors; i++)
        if (!strcmp(m.tensors[i].name, name))
            return &m.tensors[i];
    ck_abort_msg("no tensor '%s'", name);
    return NULL;
}

START_TEST(the_benchmark_block_of_matrixfsdp)
{
    /* 4 h*h + 3 products with i = 4h split in two: 12 h^2 = 201,326,592 in 7 matrices, and two LayerNorms of 2h */
    load("block:layers=32,hidden=4096,ffn=16384,heads=32", 4096);
    ck_assert_uint_eq(m.matrix_params, 32ull * 201326592);
    ck_assert_uint_eq(m.matrix_tensors, 32 * 7);
    ck_assert_uint_eq(m.total_params, 32ull * (201326592 + 4 * 4096));
    ck_assert_uint_eq(m.n_units, 32); /* no embedding and no head */
    ck_assert_uint_eq(m.n_classes, 1);
    ck_assert_uint_eq(find("layers.31.up1.weight")->shape[0], 8192);
    ck_assert_uint_eq(find("layers.31.up1.weight")->shape[1], 4096);
    ck_assert_uint_eq(find("layers.0.down.weight")->shape[1], 16384);
    ck_assert_uint_eq(find("layers.0.norm1.bias")->numel, 4096);
    ck_assert(!m.classes[0].causal);
    ck_assert(m.classes[0].split_up);
    ck_assert(m.classes[0].position == POSITION_NONE);
    ck_assert_str_eq(m.arch, "synthetic block");
    arena_release(&a);
}
END_TEST

START_TEST(gpt_3_as_megatron_builds_it)
{
    /* arXiv 2104.04473, equation 2: P = 12 l h^2 (1 + 13/(12h) + (V+s)/(12 l h)); plus the final norm, 2h */
    uint64_t l = 96, h = 12288, v = 51200, s = 2048;

    load("block:layers=96,hidden=12288,heads=96,mlp=gelu,vocab=51200", 2048);
    ck_assert_uint_eq(m.total_params, l * (12 * h * h + 13 * h) + (v + s) * h + 2 * h);
    ck_assert_uint_eq(m.matrix_tensors, l * 4);
    ck_assert_uint_eq(m.max_seq_len, s);
    ck_assert(m.tied);
    ck_assert(m.classes[1].fused_qkv);
    ck_assert(m.classes[1].causal);
    ck_assert_uint_eq(find("layers.0.qkv.weight")->shape[0], 3 * h);
    ck_assert_uint_eq(find("layers.0.qkv.bias")->numel, 3 * h);
    ck_assert(find("position.weight")->role == ROLE_POSITION);
    arena_release(&a);
    load("block:layers=96,hidden=12288,heads=96,mlp=gelu,vocab=51200,tied=no", 4096);
    ck_assert_uint_eq(m.total_params, l * (12 * h * h + 13 * h) + (2 * v + 4096) * h + 2 * h);
    arena_release(&a);
}
END_TEST

START_TEST(swiglu_is_llama)
{
    struct model published;

    load("block:layers=32,hidden=4096,ffn=11008,heads=32,mlp=swiglu,vocab=32k", 4096);
    ck_assert_int_eq(model_load("llama-2-7b", 4096, &a, &published, &e), 0);
    ck_assert_uint_eq(m.total_params, published.total_params);
    ck_assert_uint_eq(m.matrix_params, published.matrix_params);
    ck_assert_uint_eq(m.n_tensors, published.n_tensors);
    arena_release(&a);
    load("block:layers=32,hidden=4096,ffn=14336,heads=32,kv-heads=8,mlp=swiglu,vocab=128256", 4096);
    ck_assert_uint_eq(m.total_params, 8030261248); /* llama-3.1-8b */
    arena_release(&a);
}
END_TEST

START_TEST(vocab_0_leaves_only_layers)
{
    load("block:layers=3,hidden=64,heads=4,mlp=gelu,vocab=0,tied=yes", 0);
    ck_assert_uint_eq(m.n_units, 3);
    ck_assert_uint_eq(m.max_seq_len, 0);
    ck_assert(!m.tied);
    arena_release(&a);
}
END_TEST

START_TEST(what_it_refuses)
{
    static const struct {
        const char *what;
        enum err_code code;
        const char *says;
    } rows[] = {
        {"block:", ERR_INVALID, "has no '='"},
        {"block:layers=2", ERR_INVALID, "hidden is missing"},
        {"block:hidden=64,heads=4", ERR_INVALID, "layers is missing"},
        {"block:layers=2,hidden=64", ERR_INVALID, "heads is missing"},
        {"block:layers=2,hiden=64,heads=4", ERR_UNKNOWN, "did you mean 'hidden'?"},
        {"block:layers=2,hidden=64,kv_heads=4", ERR_UNKNOWN, "did you mean 'kv-heads'?"},
        {"block:layers=2,hidden=64,heads=4,layers=3", ERR_INVALID, "layers is given twice"},
        {"block:layers=2,hidden=64,heads=4,", ERR_INVALID, "has no '='"},
        {"block:layers=0,hidden=64,heads=4", ERR_INVALID, "layers is 0"},
        {"block:layers=-2,hidden=64,heads=4", ERR_INVALID, "layers"},
        {"block:layers=2,hidden=1e30,heads=4", ERR_INVALID, "hidden"},
        {"block:layers=2,hidden=66,heads=4", ERR_INVALID, "not divisible by heads = 4"},
        {"block:layers=2,hidden=64,heads=4,kv-heads=3", ERR_INVALID, "kv-heads is 3"},
        {"block:layers=2,hidden=64,heads=4,ffn=129", ERR_INVALID, "ffn is 129"},
        {"block:layers=2,hidden=64,heads=4,mlp=relu", ERR_INVALID, "split-up, gelu or swiglu"},
        {"block:layers=2,hidden=64,heads=4,causal=maybe", ERR_INVALID, "no or yes"},
        {"block2:layers=2", ERR_INVALID, "expected block:key=value"},
        {"block:layers=100000,hidden=67108864,heads=1,ffn=268435456", ERR_OVERFLOW, "2^57"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        arena_init(&a);
        ck_assert_msg(model_load(rows[i].what, 4096, &a, &m, &e) == -1, "%s", rows[i].what);
        ck_assert_msg(e.code == rows[i].code && strstr(e.msg, rows[i].says), "%s: %s", rows[i].what,
                      e.msg);
        ck_assert_ptr_nonnull(strstr(e.msg, "model 'block"));
        arena_release(&a);
    }
}
END_TEST

START_TEST(an_odd_ffn_is_fine_where_nothing_is_cut)
{
    load("block:layers=1,hidden=64,heads=4,mlp=swiglu,ffn=129", 4096);
    ck_assert_uint_eq(find("layers.0.gate.weight")->rows, 129);
    arena_release(&a);
}
END_TEST

SUITE_MAIN("model/model_synth", the_benchmark_block_of_matrixfsdp, gpt_3_as_megatron_builds_it,
           swiglu_is_llama, vocab_0_leaves_only_layers, what_it_refuses,
           an_odd_ffn_is_fine_where_nothing_is_cut)
