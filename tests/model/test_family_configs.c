/* Configs under other names, with unknown types, and with what changes a family and is refused. */
#include "tests/model/family.h"

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

SUITE_MAIN("model/family_configs", families_under_other_names,
           indexers_of_sparse_attention_are_counted_and_named,
           an_unknown_type_is_read_as_a_family_by_option,
           numbers_that_are_not_finite_are_read_where_nobody_uses_them,
           what_changes_a_family_is_refused_by_name)
