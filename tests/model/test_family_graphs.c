/* The graph of every family against its tensors: each used once, and FLOPs that follow from them alone. */
#include "tests/model/family.h"

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

static void check_unit(const struct unit *u)
{
    const struct unit_class *c = &m.classes[u->class_id];
    uint64_t tokens = 4096, gemm = 0, once = 0;
    uint32_t *used = MEM_NEW(uint32_t, u->n);

    MUST(graph_build(&m, u->class_id,
                     &(struct graph_batch){.micro_batch = 2, .seq_len = tokens / 2}, DTYPE_BF16, &g,
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
    MUST(graph_build(&m, class_named("layer"),
                     &(struct graph_batch){.micro_batch = 1, .seq_len = 64}, DTYPE_BF16, &g,
                     &e) == 0,
         "%s", e.msg);
    ck_assert_uint_eq(g.ops[op_index("up")].in[0], g.ops[op_index("q")].in[0]);
    ck_assert_uint_eq(g.ops[op_index("add1")].in[0], 0);
    ck_assert_uint_eq(g.ops[op_index("add2")].in[0], g.ops[op_index("add1")].out);
    arena_release(&a);
    /* GPT-NeoX: two norms of the same input */
    family("gpt-neox-20b");
    MUST(graph_build(&m, class_named("layer"),
                     &(struct graph_batch){.micro_batch = 1, .seq_len = 64}, DTYPE_BF16, &g,
                     &e) == 0,
         "%s", e.msg);
    ck_assert_uint_eq(g.ops[op_index("norm2")].in[0], 0);
    ck_assert_uint_eq(g.ops[op_index("norm1")].in[0], 0);
    arena_release(&a);
    /* OLMo 2: the mixer reads the input as it is, its output is normed before it is added */
    family("olmo-2-7b");
    MUST(graph_build(&m, class_named("layer"),
                     &(struct graph_batch){.micro_batch = 1, .seq_len = 64}, DTYPE_BF16, &g,
                     &e) == 0,
         "%s", e.msg);
    ck_assert_uint_eq(g.ops[op_index("q")].in[0], 0);
    ck_assert_uint_eq(g.ops[op_index("norm1_post")].in[0], g.ops[op_index("o")].out);
    ck_assert_uint_eq(g.ops[op_index("add1")].in[1], g.ops[op_index("norm1_post")].out);
    arena_release(&a);
    /* OPT-350m: norms behind the additions, the last one makes the output */
    family("opt-350m");
    MUST(graph_build(&m, class_named("layer"),
                     &(struct graph_batch){.micro_batch = 1, .seq_len = 64}, DTYPE_BF16, &g,
                     &e) == 0,
         "%s", e.msg);
    ck_assert_uint_eq(g.ops[op_index("norm1")].in[0], g.ops[op_index("add1")].out);
    ck_assert_uint_eq(g.output, g.ops[op_index("norm2")].out);
    arena_release(&a);
    /* DeepSeek: the shared expert's output joins the routed ones' */
    family("deepseek-v3");
    MUST(graph_build(&m, class_named("moe-layer"),
                     &(struct graph_batch){.micro_batch = 1, .seq_len = 64}, DTYPE_BF16, &g,
                     &e) == 0,
         "%s", e.msg);
    ck_assert_uint_eq(g.ops[op_index("shared_gate")].in[0], g.ops[op_index("router")].in[0]);
    ck_assert_uint_eq(g.ops[op_index("add2")].in[1], g.ops[op_index("add_shared")].out);
    arena_release(&a);
}
END_TEST

SUITE_MAIN("model/family_graphs", graphs_use_every_tensor_once_and_flops_follow_from_them,
           attention_by_hand, recurrences_by_hand, blocks_have_their_familys_order)
