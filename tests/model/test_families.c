/* Every family that model/tensors/hf_*.c describes: totals against published counts, names against published checkpoints. */
#include "tests/model/family.h"

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

SUITE_MAIN("model/families", totals_are_the_published_ones, small_ones_by_hand,
           names_are_those_of_the_checkpoints, a_convolution_is_flattened_and_a_row_is_no_matrix,
           fused_projections_split_by_option, multi_token_prediction_comes_in_by_option,
           exec_says_what_it_cannot_train, predicting_layers_make_up_the_published_counts)
