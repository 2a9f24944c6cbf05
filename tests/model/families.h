/* tests/model/families.h - a config.json of each family, ours, from published dimensions, and what it must count.
 *
 * `total` is PUBLISHED, a count that ../shared/reference/param_counts.json has too and test_param_counts.c compares with
 * the published config.json; or what a maker's own page says; or BY_HAND, arithmetic on the dimensions of the config: tables,
 * layers x (mixer + MLP + norms), the last norm. */
#ifndef BALLAST_TESTS_MODEL_FAMILIES_H
#define BALLAST_TESTS_MODEL_FAMILIES_H

#include <stdint.h>

#define JSON_TEXT(...) #__VA_ARGS__
#define BY_HAND(sum)   "by hand: " #sum, (sum)
#define PUBLISHED      "the published count"

static const struct {
    const char *name, *source;
    uint64_t total;
    const char *config;
} families[] = {
    /* clang-format off */
    {"gemma-2b", "model.safetensors.index.json: total_size / 2", 2506172416, JSON_TEXT({
        "model_type": "gemma", "hidden_size": 2048, "intermediate_size": 16384, "num_hidden_layers": 18,
        "num_attention_heads": 8, "num_key_value_heads": 1, "vocab_size": 256000, "hidden_act": "gelu"})},
    {"gemma-2-2b", PUBLISHED, 2614341888, JSON_TEXT({
        "model_type": "gemma2", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
        "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 256000, "sliding_window": 4096,
        "hidden_activation": "gelu_pytorch_tanh"})},
    {"gemma-3-1b", PUBLISHED, 999885952, JSON_TEXT({
        "model_type": "gemma3_text", "hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26,
        "num_attention_heads": 4, "num_key_value_heads": 1, "vocab_size": 262144, "sliding_window": 512})},
    /* all that the published file says of the text: heads and vocabulary are the class's defaults; the total of the
     * checkpoint, 4,300,079,472, is that and a vision tower */
    {"gemma-3-4b", "the published count less its vision part", 3880263168, JSON_TEXT({
        "model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240,
        "model_type": "gemma3_text", "num_hidden_layers": 34, "sliding_window": 1024},
        "vision_config": {"hidden_size": 1152}})},
    {"gemma-4-26b-a4b", BY_HAND(
        262144ull * 2816 + 25 * (2ull * 4096 * 2816 + 2 * 2048 * 2816 + 2 * 256) + 5 * (2ull * 8192 *
        2816 + 1024 * 2816 + 2 * 512) + 30 * (3ull * 2112 * 2816 + 128 * 3ull * 704 * 2816 + 128 * 2816
        + 2816 + 128 + 7 * 2816) + 2816), JSON_TEXT({
        "model_type": "gemma4", "text_config": {"model_type": "gemma4_text", "hidden_size": 2816,
        "intermediate_size": 2112, "num_hidden_layers": 30, "num_attention_heads": 16, "num_key_value_heads": 8,
        "num_global_key_value_heads": 2, "head_dim": 256, "global_head_dim": 512, "attention_k_eq_v": true,
        "enable_moe_block": true, "num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704,
        "hidden_size_per_layer_input": 0, "sliding_window": 1024, "vocab_size": 262144,
        "use_bidirectional_attention": "vision"}})},
    {"gemma-4, dense", "by hand", 0, JSON_TEXT({
        "model_type": "gemma4_text", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 7,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "global_head_dim": 32,
        "hidden_size_per_layer_input": 0, "sliding_window": 512, "vocab_size": 100})},
    {"olmo-2-7b", PUBLISHED, 7298617344, JSON_TEXT({
        "model_type": "olmo2", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 100352})},
    {"olmo-3-7b", "the same block, windows aside", 7298617344, JSON_TEXT({
        "model_type": "olmo3", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "vocab_size": 100352})},
    {"phi-3-mini", "model.safetensors.index.json: total_size / 2", 3821079552, JSON_TEXT({
        "model_type": "phi3", "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32064, "sliding_window": 2047})},
    {"phi-4", BY_HAND(
        2ull * 100352 * 5120 + 40 * (2ull * 5120 * 5120 + 2 * 1280 * 5120 + 3ull * 5120 * 17920 + 2 *
        5120) + 5120), JSON_TEXT({
        "model_type": "phi3", "hidden_size": 5120, "intermediate_size": 17920, "num_hidden_layers": 40,
        "num_attention_heads": 40, "num_key_value_heads": 10, "vocab_size": 100352, "sliding_window": null})},
    {"phi-2", BY_HAND(
        2ull * 51200 * 2560 + 51200 + 32 * (4ull * 2560 * 2560 + 4 * 2560 + 2 * 2560 * 10240 + 10240 +
        2560 + 2 * 2560) + 2 * 2560), JSON_TEXT({
        "model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32,
        "num_attention_heads": 32, "vocab_size": 51200, "partial_rotary_factor": 0.4, "hidden_act": "gelu_new"})},
    {"phi-2 as Microsoft stored it", "the same tensors, q, k and v in one", 2779683840, JSON_TEXT({
        "model_type": "phi-msft", "n_embd": 2560, "n_layer": 32, "n_head": 32, "n_head_kv": null,
        "n_inner": null, "rotary_dim": 32, "vocab_size": 51200})},
    {"stablelm-3b-4e1t", BY_HAND(
        2ull * 50304 * 2560 + 32 * (4ull * 2560 * 2560 + 3 * 2560 * 6912 + 4 * 2560) + 2 * 2560), JSON_TEXT({
        "model_type": "stablelm", "hidden_size": 2560, "intermediate_size": 6912, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 50304, "use_qkv_bias": false})},
    {"starcoder2-7b", BY_HAND(
        49152ull * 4608 + 32 * (2ull * 4608 * 4608 + 2 * 512 * 4608 + 2 * 4608 + 2 * 512 + 2 * 4608 *
        18432 + 18432 + 4608 + 4 * 4608) + 2 * 4608), JSON_TEXT({
        "model_type": "starcoder2", "hidden_size": 4608, "intermediate_size": 18432, "num_hidden_layers": 32,
        "num_attention_heads": 36, "num_key_value_heads": 4, "vocab_size": 49152,
        "hidden_act": "gelu_pytorch_tanh"})},
    {"granite-3.1-2b", BY_HAND(
        49155ull * 2048 + 40 * (2ull * 2048 * 2048 + 2 * 512 * 2048 + 3 * 2048 * 8192 + 2 * 2048) +
        2048), JSON_TEXT({
        "model_type": "granite", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 40,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 49155,
        "tie_word_embeddings": true, "embedding_multiplier": 12.0})},
    {"granite-3.1-1b-a400m", BY_HAND(
        49155ull * 1024 + 24 * (2ull * 1024 * 1024 + 2 * 512 * 1024 + 32 * 1024 + 32 * 3 * 512 * 1024 +
        2 * 1024) + 1024), JSON_TEXT({
        "model_type": "granitemoe", "hidden_size": 1024, "intermediate_size": 512, "num_hidden_layers": 24,
        "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 49155, "num_local_experts": 32,
        "num_experts_per_tok": 8, "tie_word_embeddings": true})},
    {"qwen1.5-moe-a2.7b", BY_HAND(
        2ull * 151936 * 2048 + 24 * (4ull * 2048 * 2048 + 3 * 2048 + 60 * 2048 + 60 * 3 * 1408 * 2048 +
        3 * 5632 * 2048 + 2048 + 2 * 2048) + 2048), JSON_TEXT({
        "model_type": "qwen2_moe", "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24,
        "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 151936, "num_experts": 60,
        "num_experts_per_tok": 4, "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632})},
    {"phi-3.5-moe", BY_HAND(
        2ull * 32064 * 4096 + 32064 + 32 * (2ull * 4096 * 4096 + 2 * 1024 * 4096 + 2 * 4096 + 2 * 1024
        + 16 * 4096 + 16 * 3ull * 6400 * 4096 + 4 * 4096) + 2 * 4096), JSON_TEXT({
        "model_type": "phimoe", "hidden_size": 4096, "intermediate_size": 6400, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32064, "num_local_experts": 16,
        "num_experts_per_tok": 2, "attention_bias": true, "lm_head_bias": true})},
    {"gpt-oss-20b", PUBLISHED, 20914757184, JSON_TEXT({
        "model_type": "gpt_oss", "hidden_size": 2880, "intermediate_size": 2880, "num_hidden_layers": 24,
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 201088,
        "num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128,
        "quantization_config": {"quant_method": "mxfp4"}})},
    {"llama-4-scout", BY_HAND(
        2ull * 202048 * 5120 + 48 * (2ull * 5120 * 5120 + 2 * 1024 * 5120 + 16 * 5120 + 17 * 3ull *
        8192 * 5120 + 2 * 5120) + 5120), JSON_TEXT({
        "model_type": "llama4", "text_config": {"hidden_size": 5120, "intermediate_size": 8192,
        "intermediate_size_mlp": 16384, "num_hidden_layers": 48, "num_attention_heads": 40,
        "num_key_value_heads": 8, "vocab_size": 202048, "num_local_experts": 16, "num_experts_per_tok": 1}})},
    {"llama-4 with dense layers", "by hand", 0, JSON_TEXT({
        "model_type": "llama4_text", "hidden_size": 64, "intermediate_size": 32, "intermediate_size_mlp": 96,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
        "vocab_size": 100, "num_local_experts": 4, "interleave_moe_layer_step": 2})},
    {"deepseek-v3", "technical report: 671B; without prediction layer and fp8 scales", 671026419200, JSON_TEXT({
        "model_type": "deepseek_v3", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
        "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280, "q_lora_rank": 1536,
        "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "first_k_dense_replace": 3, "moe_intermediate_size": 2048, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_experts_per_tok": 8, "num_nextn_predict_layers": 1,
        "quantization_config": {"quant_method": "fp8"}})},
    {"moonlight-16b-a3b", "the published count less 1,728 of buffers", 15960110208, JSON_TEXT({
        "model_type": "deepseek_v3", "hidden_size": 2048, "intermediate_size": 11264, "num_hidden_layers": 27,
        "num_attention_heads": 16, "vocab_size": 163840, "q_lora_rank": null, "kv_lora_rank": 512,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "first_k_dense_replace": 1,
        "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6})},
    {"deepseek-v2-lite", BY_HAND(
        2ull * 102400 * 2048 + 27 * (16ull * 192 * 2048 + 576 * 2048 + 512 + 512 * 16 * 256 + 16 * 128
        * 2048 + 2 * 2048) + 3 * 10944 * 2048 + 26 * (64 * 2048 + 66 * 3ull * 1408 * 2048) + 2048), JSON_TEXT({
        "model_type": "deepseek_v2", "hidden_size": 2048, "intermediate_size": 10944, "num_hidden_layers": 27,
        "num_attention_heads": 16, "vocab_size": 102400, "q_lora_rank": null, "kv_lora_rank": 512,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "first_k_dense_replace": 1,
        "moe_intermediate_size": 1408, "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6})},
    {"kimi-k2", BY_HAND(
        2ull * 163840 * 7168 + 61 * (7168ull * 1536 + 1536 + 1536 * 64 * 192 + 7168 * 576 + 512 + 512 *
        64 * 256 + 64 * 128 * 7168 + 2 * 7168) + 3 * 18432 * 7168 + 60 * (384 * 7168 + 384 + 385 * 3ull
        * 2048 * 7168) + 7168), JSON_TEXT({
        "model_type": "kimi_k2", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
        "num_attention_heads": 64, "vocab_size": 163840, "q_lora_rank": 1536, "kv_lora_rank": 512,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128, "first_k_dense_replace": 1,
        "moe_intermediate_size": 2048, "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 8})},
    {"gpt-j-6b", BY_HAND(
        2ull * 50400 * 4096 + 50400 + 28 * (4ull * 4096 * 4096 + 2 * 4096 * 16384 + 16384 + 4096 + 2 *
        4096) + 2 * 4096), JSON_TEXT({
        "model_type": "gptj", "n_embd": 4096, "n_layer": 28, "n_head": 16, "n_inner": null, "rotary_dim": 64,
        "vocab_size": 50400, "tie_word_embeddings": false})},
    {"gpt-neox-20b", "model card: 20,554,567,680", 20554567680, JSON_TEXT({
        "model_type": "gpt_neox", "hidden_size": 6144, "intermediate_size": 24576, "num_hidden_layers": 44,
        "num_attention_heads": 64, "vocab_size": 50432, "rotary_pct": 0.25, "hidden_act": "gelu_fast"})},
    /* OpenAssistant/oasst-rm-2.1-pythia-1.4b: a score in place of the head; the published index has 293 names, which are 12 a
     * layer, the table, the last norm's two, and weight and bias of the score */
    {"pythia-1.4b-reward", BY_HAND(
        50288ull * 2048 + 24 * (4ull * 2048 * 2048 + 4 * 2048 + 2 * 8192 * 2048 + 8192 + 2048 + 4 *
        2048) + 2 * 2048 + 2048 + 1), JSON_TEXT({
        "model_type": "gpt_neox_reward_model", "hidden_size": 2048, "intermediate_size": 8192,
        "num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 50288})},
    /* the Pythia paper's table has 11,327,027,200 without embeddings */
    {"pythia-12b", "arXiv 2304.01373, table 1, and 2 x 50,688 x 5,120", 11327027200 + 2ull * 50688 * 5120, JSON_TEXT({
        "model_type": "gpt_neox", "hidden_size": 5120, "intermediate_size": 20480, "num_hidden_layers": 36,
        "num_attention_heads": 40, "vocab_size": 50688})},
    {"opt-13b", PUBLISHED, 12853473280, JSON_TEXT({
        "model_type": "opt", "hidden_size": 5120, "ffn_dim": 20480, "num_hidden_layers": 40,
        "num_attention_heads": 40, "vocab_size": 50272, "word_embed_proj_dim": 5120})},
    {"opt-350m", PUBLISHED, 331196416, JSON_TEXT({
        "model_type": "opt", "hidden_size": 1024, "ffn_dim": 4096, "num_hidden_layers": 24,
        "num_attention_heads": 16, "vocab_size": 50272, "word_embed_proj_dim": 512,
        "do_layer_norm_before": false})},
    {"bloom-560m", PUBLISHED, 559214592, JSON_TEXT({
        "model_type": "bloom", "hidden_size": 1024, "n_layer": 24, "n_head": 16, "vocab_size": 250880})},
    {"falcon-7b", BY_HAND(
        65024ull * 4544 + 32 * (73ull * 64 * 4544 + 4544 * 4544 + 2 * 4544 * 18176 + 2 * 4544) + 2 *
        4544), JSON_TEXT({
        "model_type": "falcon", "hidden_size": 4544, "n_layer": 32, "n_head": 71, "vocab_size": 65024,
        "multi_query": true, "parallel_attn": true, "bias": false})},
    {"falcon-40b", BY_HAND(
        65024ull * 8192 + 60 * (144ull * 64 * 8192 + 8192 * 8192 + 2 * 8192 * 32768 + 4 * 8192) + 2 *
        8192), JSON_TEXT({
        "model_type": "falcon", "hidden_size": 8192, "num_hidden_layers": 60, "num_attention_heads": 128,
        "num_kv_heads": 8, "vocab_size": 65024, "new_decoder_architecture": true})},
    {"falcon-180b", BY_HAND(
        2ull * 65024 * 14848 + 80 * (248ull * 64 * 14848 + 14848 * 14848 + 2ull * 14848 * 59392 + 4 *
        14848) + 2 * 14848), JSON_TEXT({
        "model_type": "falcon", "hidden_size": 14848, "num_hidden_layers": 80, "num_attention_heads": 232,
        "num_kv_heads": 8, "vocab_size": 65024, "new_decoder_architecture": true,
        "tie_word_embeddings": false})},
    {"falcon-rw-1b", BY_HAND(
        50304ull * 2048 + 24 * (4ull * 2048 * 2048 + 4 * 2048 + 2 * 2048 * 8192 + 8192 + 2048 + 4 *
        2048) + 2 * 2048), JSON_TEXT({
        "model_type": "falcon", "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32,
        "vocab_size": 50304, "alibi": true, "bias": true, "multi_query": false, "parallel_attn": false})},
    {"mpt-7b", BY_HAND(
        50432ull * 4096 + 32 * (4ull * 4096 * 4096 + 2 * 4096 * 16384 + 2 * 4096) + 4096), JSON_TEXT({
        "model_type": "mpt", "d_model": 4096, "n_layers": 32, "n_heads": 32, "vocab_size": 50432,
        "no_bias": true, "learned_pos_emb": true, "attn_config": {"alibi": true}})},
    /* MosaicML's llm-foundry, scripts/train/benchmarking/README.md, column NumParams: with biases and a table of
     * positions that grows with the sequence */
    {"mpt-7b, 2048 tokens", "llm-foundry's table", 6658859008, JSON_TEXT({
        "model_type": "mpt", "d_model": 4096, "n_layers": 32, "n_heads": 32, "vocab_size": 50368,
        "max_seq_len": 2048})},
    {"mpt-7b, 65536 tokens", "llm-foundry's table", 6918905856, JSON_TEXT({
        "model_type": "mpt", "d_model": 4096, "n_layers": 32, "n_heads": 32, "vocab_size": 50368,
        "max_seq_len": 65536})},
    {"mpt-70b, 2048 tokens", "llm-foundry's table", 64862437376, JSON_TEXT({
        "model_type": "mpt", "d_model": 8192, "n_layers": 80, "n_heads": 64, "vocab_size": 50368,
        "max_seq_len": 2048})},
    {"qwen-72b", "model.safetensors.index.json: total_size / 2", 72287920128, JSON_TEXT({
        "model_type": "qwen", "hidden_size": 8192, "intermediate_size": 49152, "num_hidden_layers": 80,
        "num_attention_heads": 64, "kv_channels": 128, "vocab_size": 152064, "no_bias": true})},
    {"qwen3.5-25b-reap", "model.safetensors.index.json: total_size / 2", 25091371648, JSON_TEXT({
        "model_type": "qwen3_5_moe_text", "hidden_size": 2048, "num_hidden_layers": 40,
        "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 248320,
        "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "num_experts": 180, "num_experts_per_tok": 8,
        "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512, "mtp_num_hidden_layers": 1})},
    {"qwen3.5, dense", "by hand", 0, JSON_TEXT({
        "model_type": "qwen3_5_text", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 100,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
        "linear_value_head_dim": 16})},
    {"qwen3-next-80b-a3b", BY_HAND(
        2ull * 151936 * 2048 + 12 * (8192ull * 2048 + 2 * 512 * 2048 + 4096 * 2048 + 2 * 256) + 36 *
        (12288ull * 2048 + 64 * 2048 + 4 * 8192 + 2 * 32 + 128 + 4096 * 2048) + 48 * (512ull * 2048 +
        512 * 3ull * 512 * 2048 + 3 * 512 * 2048 + 2048 + 2 * 2048) + 2048), JSON_TEXT({
        "model_type": "qwen3_next", "hidden_size": 2048, "intermediate_size": 5120, "num_hidden_layers": 48,
        "num_attention_heads": 16, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 151936,
        "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128,
        "linear_value_head_dim": 128, "num_experts": 512, "num_experts_per_tok": 10,
        "moe_intermediate_size": 512, "shared_expert_intermediate_size": 512})},
    {"qwen3-next with dense layers", "by hand", 0, JSON_TEXT({
        "model_type": "qwen3_next", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "vocab_size": 100,
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
        "linear_value_head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 16, "mlp_only_layers": [0], "decoder_sparse_step": 2})},
    {"nemotron-3-nano-30b-a3b", BY_HAND(
        2ull * 131072 * 2688 + 23 * (10304ull * 2688 + 5 * 6144 + 3 * 64 + 4096 + 4096 * 2688 + 2688) +
        23 * (128ull * 2688 + 128 + 128 * 2ull * 1856 * 2688 + 2 * 3712 * 2688 + 2688) + 6 * (2ull *
        4096 * 2688 + 2 * 256 * 2688 + 2688) + 2688), JSON_TEXT({
        "model_type": "nemotron_h", "hidden_size": 2688, "intermediate_size": 1856, "num_hidden_layers": 52,
        "hybrid_override_pattern": "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME",
        "num_attention_heads": 32, "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 131072,
        "mamba_num_heads": 64, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 128, "conv_kernel": 4,
        "use_conv_bias": true, "mlp_hidden_act": "relu2", "moe_intermediate_size": 1856,
        "moe_shared_expert_intermediate_size": 3712, "n_routed_experts": 128, "n_shared_experts": 1,
        "num_experts_per_tok": 6})},
    {"nemotron with a plain MLP", "by hand", 0, JSON_TEXT({
        "model_type": "nemotron_h", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3,
        "hybrid_override_pattern": "M-*", "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 100, "mamba_num_heads": 4, "mamba_head_dim": 32, "n_groups": 2, "ssm_state_size": 16})},
    /* Llama's and Qwen's tensors under other names. SmolLM3's index says total_parameters 3,075,098,624 and has no lm_head */
    {"smollm3-3b", "model.safetensors.index.json: total_parameters", 3075098624, JSON_TEXT({
        "model_type": "smollm3", "hidden_size": 2048, "intermediate_size": 11008, "num_hidden_layers": 36,
        "num_attention_heads": 16, "num_key_value_heads": 4, "vocab_size": 128256, "max_window_layers": 28,
        "no_rope_layer_interval": 4, "no_rope_layers": [1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1,
        1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 1, 0], "sliding_window": null,
        "use_sliding_window": false, "attention_bias": false, "mlp_bias": false})},
    {"smollm3 with windows", "by hand", 0, JSON_TEXT({
        "model_type": "smollm3", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 5,
        "num_attention_heads": 4, "vocab_size": 100, "no_rope_layer_interval": 2, "use_sliding_window": true,
        "sliding_window": 128, "tie_word_embeddings": false})},
    {"olmoe-1b-7b", "parameters of the published safetensors", 6919161856, JSON_TEXT({
        "model_type": "olmoe", "hidden_size": 2048, "intermediate_size": 1024, "num_hidden_layers": 16,
        "num_attention_heads": 16, "num_key_value_heads": 16, "vocab_size": 50304, "num_experts": 64,
        "num_experts_per_tok": 8, "norm_topk_prob": false, "clip_qkv": null, "tie_word_embeddings": false})},
    {"internlm2-7b", "the model's own count, and its 15,475,417,088 bytes of bf16", 7737708544, JSON_TEXT({
        "model_type": "internlm2", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 92544, "bias": false,
        "hidden_act": "silu", "tie_word_embeddings": false})},
    {"internlm2.5-1.8b", "parameters of the published checkpoint", 1889110016, JSON_TEXT({
        "model_type": "internlm2", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 24,
        "num_attention_heads": 16, "num_key_value_heads": 8, "vocab_size": 92544, "bias": false})},
    {"baichuan2-7b", BY_HAND(
        2ull * 125696 * 4096 + 32 * (4ull * 4096 * 4096 + 3ull * 4096 * 11008 + 2 * 4096) + 4096), JSON_TEXT({
        "model_type": "baichuan", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "vocab_size": 125696, "max_position_embeddings": 4096,
        "model_max_length": 4096, "z_loss_weight": 0, "tie_word_embeddings": false})},
    {"baichuan-7b", "the maker's page: 7,000,559,616", 7000559616, JSON_TEXT({
        "model_type": "baichuan", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
        "num_attention_heads": 32, "vocab_size": 64000, "max_position_embeddings": 4096,
        "tie_word_embeddings": false})},
    {"baichuan-13b", "the maker's page: 13,264,901,120, with ALiBi", 13264901120, JSON_TEXT({
        "model_type": "baichuan", "hidden_size": 5120, "intermediate_size": 13696, "num_hidden_layers": 40,
        "num_attention_heads": 40, "vocab_size": 64000, "model_max_length": 4096,
        "tie_word_embeddings": false})},
    {"mimo-7b", BY_HAND(
        2ull * 151680 * 4096 + 36 * (2ull * 4096 * 4096 + 2 * 1024 * 4096 + 4096 + 2 * 1024 + 3ull * 4096 *
        11008 + 2 * 4096) + 4096), JSON_TEXT({
        "model_type": "mimo", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 36,
        "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151680,
        "attention_bias": true, "num_nextn_predict_layers": 1, "tie_word_embeddings": false})},
    {"qwen2.5-vl-7b", "the published 8,292,166,656 less 676,550,144 of its vision tower", 7615616512, JSON_TEXT({
        "model_type": "qwen2_5_vl", "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28,
        "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064, "max_window_layers": 28,
        "sliding_window": 32768, "use_sliding_window": false, "tie_word_embeddings": false,
        "vision_config": {"hidden_size": 1280, "model_type": "qwen2_5_vl"}})},
    /* its vision tower is that of the 7B with an output of 2048 in place of 3584: 5120 x 1536 + 1536 less */
    {"qwen2.5-vl-3b", "the published 3,754,622,976 less its vision tower", 3754622976 - (676550144 - 5121ull * 1536),
        JSON_TEXT({
        "model_type": "qwen2_5_vl", "tie_word_embeddings": true, "text_config": {
        "model_type": "qwen2_5_vl_text", "hidden_size": 2048, "intermediate_size": 11008,
        "num_hidden_layers": 36, "num_attention_heads": 16, "num_key_value_heads": 2, "vocab_size": 151936,
        "use_sliding_window": false, "sliding_window": null}, "vision_config": {"hidden_size": 1280}})},
    {"qwen2.5-72b text part", "parameters of Qwen2.5-72B, the same tensors", 72706203648, JSON_TEXT({
        "model_type": "qwen2_vl", "text_config": {"hidden_size": 8192, "intermediate_size": 29568,
        "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
        "vocab_size": 152064}})},
    {"qwen3-vl-4b", "Qwen3-4B's published count, the same tensors", 4022468096, JSON_TEXT({
        "model_type": "qwen3_vl", "tie_word_embeddings": true, "text_config": {
        "model_type": "qwen3_vl_text", "hidden_size": 2560, "intermediate_size": 9728,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "vocab_size": 151936, "attention_bias": false, "tie_word_embeddings": true},
        "vision_config": {"model_type": "qwen3_vl", "hidden_size": 1024}})},
    {"qwen3-vl-30b-a3b", "Qwen3-30B-A3B's published count, the same elements", 30532122624, JSON_TEXT({
        "model_type": "qwen3_vl_moe", "text_config": {
        "model_type": "qwen3_vl_moe_text", "hidden_size": 2048, "intermediate_size": 6144,
        "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
        "vocab_size": 151936, "num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
        "decoder_sparse_step": 1, "mlp_only_layers": []}, "tie_word_embeddings": false,
        "vision_config": {"hidden_size": 1152}})},
    /* the repository's 110,468,824,832 are these, the predicting layer's, and embedding and head once more:
     * test_families.c */
    {"glm-4.5-air", "the published count less its predicting layer", 106852251264, JSON_TEXT({
        "model_type": "glm4_moe", "hidden_size": 4096, "intermediate_size": 10944, "num_hidden_layers": 46,
        "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151552,
        "attention_bias": true, "use_qk_norm": false, "partial_rotary_factor": 0.5,
        "first_k_dense_replace": 1, "moe_intermediate_size": 1408, "n_routed_experts": 128,
        "n_shared_experts": 1, "num_experts_per_tok": 8, "num_nextn_predict_layers": 1})},
    {"glm-4.5", "the published count less its predicting layer", 352797829024, JSON_TEXT({
        "model_type": "glm4_moe", "hidden_size": 5120, "intermediate_size": 12288, "num_hidden_layers": 92,
        "num_attention_heads": 96, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151552,
        "attention_bias": true, "use_qk_norm": true, "partial_rotary_factor": 0.5,
        "first_k_dense_replace": 3, "moe_intermediate_size": 1536, "n_routed_experts": 160,
        "n_shared_experts": 1, "num_experts_per_tok": 8, "num_nextn_predict_layers": 1})},
    {"minimax-m2", "parameters of the published checkpoint without fp8 scales", 228689764864, JSON_TEXT({
        "model_type": "minimax_m2", "hidden_size": 3072, "intermediate_size": 1536, "num_hidden_layers": 62,
        "num_attention_heads": 48, "num_key_value_heads": 8, "head_dim": 128, "rotary_dim": 64,
        "vocab_size": 200064, "num_local_experts": 256, "num_experts_per_tok": 8, "use_qk_norm": true,
        "use_routing_bias": true, "shared_intermediate_size": 0, "num_mtp_modules": 3,
        "quantization_config": {"quant_method": "fp8"}})},
    /* DeepSeek-V3 and in each layer an indexer of 64 heads of 128: 1536 x 8192 + 7168 x 128 + 2 x 128 + 7168 x 64. With
     * --mtp, and embedding and head once more, it is the published 685,355,329,792: test_families.c */
    {"deepseek-v3.2", "deepseek-v3 and 61 indexers", 671026419200 + 61 * (1536ull * 8192 + 7168 * 128 + 256 + 7168 * 64),
        JSON_TEXT({
        "model_type": "deepseek_v32", "hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
        "num_attention_heads": 128, "num_key_value_heads": 128, "vocab_size": 129280, "q_lora_rank": 1536,
        "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "first_k_dense_replace": 3, "moe_intermediate_size": 2048, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_experts_per_tok": 8, "num_nextn_predict_layers": 1, "index_topk": 2048,
        "index_n_heads": 64, "index_head_dim": 128})},
    {"glm-5", "the published count less its predicting layer", 743911218432, JSON_TEXT({
        "model_type": "glm_moe_dsa", "hidden_size": 6144, "intermediate_size": 12288, "num_hidden_layers": 78,
        "num_attention_heads": 64, "num_key_value_heads": 64, "head_dim": 64, "vocab_size": 154880,
        "q_lora_rank": 2048, "kv_lora_rank": 512, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
        "v_head_dim": 256, "first_k_dense_replace": 3, "moe_intermediate_size": 2048, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_experts_per_tok": 8, "num_nextn_predict_layers": 1, "index_topk": 2048,
        "index_n_heads": 32, "index_head_dim": 128})},
    /* GLM-5.2 and 5.3: layers 0, 1, 2, 6, 10 ... 74 have an indexer, the others take the choice of the one before */
    {"glm-5.3", "the published count less its predicting layer", 743377019904, JSON_TEXT({
        "model_type": "glm_moe_dsa", "hidden_size": 6144, "intermediate_size": 12288, "num_hidden_layers": 78,
        "num_attention_heads": 64, "num_key_value_heads": 64, "head_dim": 192, "vocab_size": 154880,
        "q_lora_rank": 2048, "kv_lora_rank": 512, "qk_nope_head_dim": 192, "qk_rope_head_dim": 64,
        "v_head_dim": 256, "first_k_dense_replace": 3, "moe_intermediate_size": 2048, "n_routed_experts": 256,
        "n_shared_experts": 1, "num_experts_per_tok": 8, "num_nextn_predict_layers": 1, "index_topk": 2048,
        "index_n_heads": 32, "index_head_dim": 128, "index_topk_freq": 4, "index_skip_topk_offset": 3,
        "index_topk_pattern": null})},
    {"sparse attention in dense layers", "by hand", 0, JSON_TEXT({
        "model_type": "glm_moe_dsa", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4,
        "num_attention_heads": 2, "vocab_size": 100, "q_lora_rank": 24, "kv_lora_rank": 16,
        "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 12,
        "mlp_layer_types": ["dense", "dense", "sparse", "dense"], "moe_intermediate_size": 32,
        "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "index_n_heads": 4,
        "index_head_dim": 16, "index_topk_pattern": "FSFS"})},
    /* BERT: what `architectures` says stands on the layers. A layer: q, k, v, o and MLP with biases, two norms. The published
     * file of base counts 109,482,240 without a head, 109,514,298 with that of the masked words; of large 335,141,888 */
    {"bert-base, masked words", BY_HAND(
        (30522ull + 512 + 2) * 768 + 2 * 768 + 12 * (4ull * 768 * 768 + 4 * 768 + 2 * 768 * 3072 + 3072 +
        768 + 4 * 768) + 768 * 768 + 3 * 768 + 30522), JSON_TEXT({
        "model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 768,
        "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 30522,
        "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu", "pad_token_id": 0,
        "position_embedding_type": "absolute"})},
    {"bert-base, a pooler alone", "parameters of BertModel", 109482240, JSON_TEXT({
        "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 768, "intermediate_size": 3072,
        "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 30522})},
    {"bert-large, a pooler alone", "parameters of BertModel", 335141888, JSON_TEXT({
        "model_type": "bert", "architectures": ["BertModel"], "hidden_size": 1024, "intermediate_size": 4096,
        "num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 30522})},
    {"bert-large, both tasks", BY_HAND(
        335141888ull + 1024 * 1024 + 3 * 1024 + 30522 + 2 * 1024 + 2), JSON_TEXT({
        "model_type": "bert", "architectures": ["BertForPreTraining"], "hidden_size": 1024,
        "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16, "vocab_size": 30522})},
    {"bert-base, a hundred classes", BY_HAND(109482240ull + 100 * 768 + 100), JSON_TEXT({
        "model_type": "bert", "architectures": ["BertForSequenceClassification"], "hidden_size": 768,
        "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 30522,
        "num_labels": 100})},
    {"roberta-base, a pooler alone", "parameters of RobertaModel", 124645632, JSON_TEXT({
        "model_type": "roberta", "architectures": ["RobertaModel"], "hidden_size": 768,
        "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 50265,
        "max_position_embeddings": 514, "type_vocab_size": 1})},
    {"roberta-base, masked words", BY_HAND(
        124645632ull - 768 * 768 - 768 + 768 * 768 + 3 * 768 + 50265), JSON_TEXT({
        "model_type": "roberta", "architectures": ["RobertaForMaskedLM"], "hidden_size": 768,
        "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12, "vocab_size": 50265,
        "max_position_embeddings": 514, "type_vocab_size": 1, "pad_token_id": 1})},
    {"xlm-roberta-base, two classes", BY_HAND(
        (250002ull + 514 + 1) * 768 + 2 * 768 + 12 * (4ull * 768 * 768 + 4 * 768 + 2 * 768 * 3072 + 3072 +
        768 + 4 * 768) + 768 * 768 + 768 + 2 * 768 + 2), JSON_TEXT({
        "model_type": "xlm-roberta", "architectures": ["XLMRobertaForSequenceClassification"],
        "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
        "vocab_size": 250002, "max_position_embeddings": 514, "type_vocab_size": 1})},
    /* T5: two attentions in a layer of the decoder, a table of 32 distances a stack; published counts of the checkpoints */
    {"t5-small", "parameters of T5ForConditionalGeneration", 60506624, JSON_TEXT({
        "model_type": "t5", "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8,
        "vocab_size": 32128, "is_encoder_decoder": true})},
    {"t5-base", "parameters of T5ForConditionalGeneration", 222903552, JSON_TEXT({
        "model_type": "t5", "d_model": 768, "d_kv": 64, "d_ff": 3072, "num_layers": 12, "num_heads": 12,
        "vocab_size": 32128, "is_encoder_decoder": true})},
    {"t5-large", "parameters of T5ForConditionalGeneration", 737668096, JSON_TEXT({
        "model_type": "t5", "d_model": 1024, "d_kv": 64, "d_ff": 4096, "num_layers": 24, "num_heads": 16,
        "vocab_size": 32128, "is_encoder_decoder": true})},
    {"t5-3b", "parameters of T5ForConditionalGeneration", 2851598336, JSON_TEXT({
        "model_type": "t5", "d_model": 1024, "d_kv": 128, "d_ff": 16384, "num_layers": 24, "num_heads": 32,
        "vocab_size": 32128, "is_encoder_decoder": true})},
    {"t5-11b", BY_HAND(
        32128ull * 1024 + 24 * (4ull * 1024 * 16384 + 2ull * 1024 * 65536 + 2 * 1024) + 24 * (8ull * 1024 *
        16384 + 2ull * 1024 * 65536 + 3 * 1024) + 2 * (32 * 128 + 1024)), JSON_TEXT({
        "model_type": "t5", "d_model": 1024, "d_kv": 128, "d_ff": 65536, "num_layers": 24, "num_heads": 128,
        "vocab_size": 32128, "relative_attention_num_buckets": 32, "is_encoder_decoder": true})},
    {"t5-v1.1-base", "parameters of T5ForConditionalGeneration", 247577856, JSON_TEXT({
        "model_type": "t5", "d_model": 768, "d_kv": 64, "d_ff": 2048, "num_layers": 12,
        "num_decoder_layers": 12, "num_heads": 12, "vocab_size": 32128, "feed_forward_proj": "gated-gelu",
        "tie_word_embeddings": false, "is_encoder_decoder": true})},
    {"flan-t5-xl", "parameters of T5ForConditionalGeneration", 2849757184, JSON_TEXT({
        "model_type": "t5", "d_model": 2048, "d_kv": 64, "d_ff": 5120, "num_layers": 24, "num_heads": 32,
        "vocab_size": 32128, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": false,
        "is_encoder_decoder": true})},
    {"mt5-small", BY_HAND(
        2ull * 250112 * 512 + 8 * (4ull * 512 * 384 + 3 * 512 * 1024 + 2 * 512) + 8 * (8ull * 512 * 384 + 3 *
        512 * 1024 + 3 * 512) + 2 * (32 * 6 + 512)), JSON_TEXT({
        "model_type": "mt5", "d_model": 512, "d_kv": 64, "d_ff": 1024, "num_layers": 8, "num_heads": 6,
        "vocab_size": 250112, "is_encoder_decoder": true})},
    {"umt5, small", "by hand", 0, JSON_TEXT({
        "model_type": "umt5", "d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 3, "num_decoder_layers": 2,
        "num_heads": 6, "vocab_size": 100, "tie_word_embeddings": false})},
    /* clang-format on */
};
enum { N_FAMILIES = sizeof(families) / sizeof(families[0]) };

#endif
