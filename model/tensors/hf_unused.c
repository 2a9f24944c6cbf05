/* Keys of a config.json that a type does not read, and that would be other tensors in a type that
 * does.
 *
 * A published file has tens of keys that no reader asks for, most of which change no tensor. Those
 * of interest are listed here, by what they say: a file of a dense type with a number of experts,
 * or one with another type's name for the heads of keys and values, asks for layers that are not
 * built, and its reader should know. A key is no news where it is null, false, 0 or empty, and
 * where it says what the layers are. */
#include "model/tensors/hf.h"

#include <stdio.h>
#include <string.h>

/* What keys say of a layer, where its class has it. */
enum meaning {
    SAYS_HIDDEN,
    SAYS_LAYERS,
    SAYS_HEADS,
    SAYS_KV,
    SAYS_DIM,
    SAYS_FFN,
    SAYS_EXPERTS,
    SAYS_ACTIVE,
    SAYS_WINDOW,
    SAYS_BIAS,
    SAYS_PART
};

/* Every name of it that some type has. */
static const struct {
    enum meaning says;
    const char *names; /* "a|b" */
} keys[] = {
    {SAYS_HIDDEN, "hidden_size|n_embd|n_embed|d_model"},
    {SAYS_LAYERS, "num_hidden_layers|n_layer|n_layers|num_layers"},
    {SAYS_HEADS, "num_attention_heads|n_head|n_heads|num_heads"},
    {SAYS_KV, "num_key_value_heads|num_kv_heads|n_head_kv|kv_n_heads"},
    {SAYS_DIM, "head_dim|d_kv|kv_channels"},
    {SAYS_FFN, "intermediate_size|n_inner|ffn_dim|d_ff|ffn_hidden_size"},
    {SAYS_EXPERTS, "num_local_experts|num_experts|n_routed_experts"},
    {SAYS_ACTIVE, "num_experts_per_tok|experts_per_token|top_k_experts"},
    {SAYS_WINDOW, "sliding_window|attention_chunk_size"},
    {SAYS_PART, "moe_intermediate_size|n_shared_experts|shared_expert_intermediate_size|"
                "moe_shared_expert_intermediate_size"},
    {SAYS_PART, "q_lora_rank|kv_lora_rank|qk_nope_head_dim|qk_rope_head_dim|v_head_dim"},
    {SAYS_PART, "linear_num_key_heads|linear_num_value_heads|linear_key_head_dim|"
                "linear_value_head_dim|mamba_num_heads|mamba_head_dim|ssm_state_size"},
    {SAYS_BIAS, "attention_bias|qkv_bias|use_qkv_bias"},
    {SAYS_PART, "mlp_bias|lm_head_bias"},
    {SAYS_PART, "num_decoder_layers|type_vocab_size|word_embed_proj_dim|"
                "hidden_size_per_layer_input|relative_attention_num_buckets"},
};

static bool listed(const char *names, const char *key)
{
    size_t len = strlen(key);

    for (const char *p = names; *p; p += *p == '|') {
        size_t n = strcspn(p, "|");

        if (n == len && !memcmp(p, key, n))
            return true;
        p += n;
    }
    return false;
}

/* null, false, 0, empty: the key asks for nothing. */
static bool empty(const struct json_at *at)
{
    struct json_at it;

    return json_is_null(at) || cJSON_IsFalse(at->node) ||
           (cJSON_IsNumber(at->node) && at->node->valuedouble <= 0) ||
           ((cJSON_IsArray(at->node) || cJSON_IsObject(at->node)) && !json_first(at, &it));
}

/* What a kind of layer is, as the key would say it; 0: it has no such thing. */
static uint64_t own(const struct hf *h, const struct unit_class *c, enum meaning says)
{
    switch (says) {
    case SAYS_HIDDEN:
        return h->hidden;
    case SAYS_LAYERS:
        return h->layers;
    case SAYS_HEADS:
        return c->n_heads;
    case SAYS_KV:
        return c->n_kv_heads;
    case SAYS_DIM:
        return c->head_dim;
    case SAYS_FFN:
        return c->n_experts ? 0 : c->ffn;
    case SAYS_EXPERTS:
        return c->n_experts;
    case SAYS_ACTIVE:
        return c->n_active;
    case SAYS_WINDOW:
        return c->window;
    case SAYS_BIAS:
    case SAYS_PART:
        break;
    }
    return 0;
}

/* Does some kind of layer have what the key says? The width of a dense MLP is no news where all
 * layers have experts: published files of such types state it. */
static bool as_built(const struct hf *h, enum meaning says, const struct json_at *at)
{
    bool dense = false;

    for (uint32_t k = 0; k < h->n_kinds; k++) {
        const struct unit_class *c = &h->kinds[k].c;
        uint64_t is = own(h, c, says);

        dense |= !c->n_experts;
        if (says == SAYS_BIAS && h->kinds[k].qkv_bias)
            return true; /* MiMo's and Qwen2's are there whatever a key says */
        if (says == SAYS_DIM && cJSON_IsNumber(at->node) && c->mixer == MIXER_MLA &&
            at->node->valuedouble == (double)c->rotary_dim)
            return true; /* DeepSeek's files state the part that rotates */
        if (is && cJSON_IsNumber(at->node) && at->node->valuedouble == (double)is)
            return true;
    }
    return says == SAYS_FFN && !dense;
}

void hf_note_unused(struct hf *h)
{
    struct strbuf list;
    struct json_at it;
    uint32_t n = 0;

    strbuf_init(&list);
    for (bool ok = json_first(&h->top, &it); ok; ok = json_next(&it))
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
            char *value;

            if (!listed(keys[i].names, json_key(&it)) || hf_looked_at(h, &it) || empty(&it) ||
                as_built(h, keys[i].says, &it))
                continue;
            value = json_text(it.node, false);
            strbuf_printf(&list, "%s%s %.24s", n++ ? ", " : "", json_key(&it), value);
            mem_free(value);
        }
    if (n)
        model_note(h->m, h->a, "not read for %s, whose layers are built without: %.200s",
                   h->fam->type, list.s);
    strbuf_release(&list);
}
