/* The bundled models: config.json texts of ours, with the keys that model_hf.c needs, from the dimensions that their
 * makers published. The exact totals they must give are in tests/model/test_model_hf.c. */
#include "model/tensors/model.h"

#include <stddef.h>
#include <strings.h>

#define JSON_TEXT(...) #__VA_ARGS__

/* clang-format off */

/* "Llama 2: Open Foundation and Fine-Tuned Chat Models", arXiv 2307.09288; meta-llama/Llama-2-7b-hf */
static const char llama_2_7b[] = JSON_TEXT({
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 32, "vocab_size": 32000,
    "tie_word_embeddings": false, "hidden_act": "silu", "max_position_embeddings": 4096
});

/* "The Llama 3 Herd of Models", arXiv 2407.21783, table 3; meta-llama/Llama-3.1-{8B,70B,405B} */
static const char llama_3_1_8b[] = JSON_TEXT({
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    "tie_word_embeddings": false, "hidden_act": "silu", "max_position_embeddings": 131072
});
static const char llama_3_1_70b[] = JSON_TEXT({
    "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
    "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256,
    "tie_word_embeddings": false, "hidden_act": "silu", "max_position_embeddings": 131072
});
static const char llama_3_1_405b[] = JSON_TEXT({
    "model_type": "llama", "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126,
    "num_attention_heads": 128, "num_key_value_heads": 8, "vocab_size": 128256,
    "tie_word_embeddings": false, "hidden_act": "silu", "max_position_embeddings": 131072
});

/* "Qwen3 Technical Report", arXiv 2505.09388, table 1; Qwen/Qwen3-{1.7B,4B,8B,14B,32B} */
static const char qwen3_1_7b[] = JSON_TEXT({
    "model_type": "qwen3", "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28,
    "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    "tie_word_embeddings": true, "hidden_act": "silu", "max_position_embeddings": 40960
});
static const char qwen3_4b[] = JSON_TEXT({
    "model_type": "qwen3", "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    "tie_word_embeddings": true, "hidden_act": "silu", "max_position_embeddings": 40960
});
static const char qwen3_8b[] = JSON_TEXT({
    "model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
    "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    "tie_word_embeddings": false, "hidden_act": "silu", "max_position_embeddings": 40960
});
static const char qwen3_14b[] = JSON_TEXT({
    "model_type": "qwen3", "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 40,
    "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    "tie_word_embeddings": false, "hidden_act": "silu", "max_position_embeddings": 40960
});
static const char qwen3_32b[] = JSON_TEXT({
    "model_type": "qwen3", "hidden_size": 5120, "intermediate_size": 25600, "num_hidden_layers": 64,
    "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    "tie_word_embeddings": false, "hidden_act": "silu", "max_position_embeddings": 40960
});

/* "Mixtral of Experts", arXiv 2401.04088, table 1; mistralai/Mixtral-8x7B-v0.1 */
static const char mixtral_8x7b[] = JSON_TEXT({
    "model_type": "mixtral", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 32000,
    "num_local_experts": 8, "num_experts_per_tok": 2,
    "tie_word_embeddings": false, "hidden_act": "silu", "max_position_embeddings": 32768
});

/* "Language Models are Unsupervised Multitask Learners" (2019), the smallest; openai-community/gpt2 */
static const char gpt2[] = JSON_TEXT({
    "model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
    "vocab_size": 50257, "activation_function": "gelu_new"
});

/* "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", arXiv 1910.10683; google-t5/t5-11b */
static const char t5_11b[] = JSON_TEXT({
    "model_type": "t5", "d_model": 1024, "d_kv": 128, "d_ff": 65536, "num_layers": 24, "num_heads": 128,
    "vocab_size": 32128, "relative_attention_num_buckets": 32, "is_encoder_decoder": true
});

#define BUNDLED(X)                      \
    X("llama-2-7b", llama_2_7b)         \
    X("llama-3.1-8b", llama_3_1_8b)     \
    X("llama-3.1-70b", llama_3_1_70b)   \
    X("llama-3.1-405b", llama_3_1_405b) \
    X("qwen3-1.7b", qwen3_1_7b)         \
    X("qwen3-4b", qwen3_4b)             \
    X("qwen3-8b", qwen3_8b)             \
    X("qwen3-14b", qwen3_14b)           \
    X("qwen3-32b", qwen3_32b)           \
    X("mixtral-8x7b", mixtral_8x7b)     \
    X("gpt2", gpt2)                     \
    X("t5-11b", t5_11b)
/* clang-format on */

#define NAME(name, text) name,
#define TEXT(name, text) text,
static const char *const names[] = {BUNDLED(NAME) NULL};
static const char *const texts[] = {BUNDLED(TEXT) NULL};

const char *const *model_bundled_names(void)
{
    return names;
}

const char *model_bundled_config(const char *name)
{
    for (size_t i = 0; names[i]; i++)
        if (!strcasecmp(name, names[i]))
            return texts[i];
    return NULL;
}
