/* Any bytes as a config.json: refused with one line, or a model whose parts add up and whose graphs build. */
#include "core/json.h"
#include "core/num.h"
#include "model/graph/graph.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Layers times experts: a valid model of millions of tensors is slow, not wrong. */
static bool is_large(const uint8_t *data, size_t size)
{
    static const char *const keys[] = {"num_hidden_layers", "n_layer",         "n_layers",
                                       "num_experts",       "num_layers",      "num_decoder_layers",
                                       "num_local_experts", "n_routed_experts"};
    struct json j;
    struct err e;
    uint64_t n, all = 1;

    if (json_parse_foreign(&j, "fuzz", (const char *)data, size, &e))
        return false;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        struct json_at top = json_top(&j), text;

        if (json_opt(&top, "text_config", &text))
            top = text;
        if (!json_u64_or(&top, keys[i], 1, UINT64_MAX, 1, &n, &e) && !num_mul(all, n, &all))
            all = UINT64_MAX;
    }
    json_release(&j);
    return all > 2000;
}

static void check(const struct model *m)
{
    uint64_t sum = 0;
    struct unit_graph g;
    struct err e;

    BUG_ON(m->matrix_params + m->tail_params != m->total_params);
    BUG_ON(m->matrix_tensors + m->tail_tensors != m->n_tensors);
    BUG_ON(m->active_params > m->total_params);
    for (uint32_t u = 0; u < m->n_units; u++)
        sum += m->units[u].numel;
    BUG_ON(sum != m->total_params);
    if (graph_trains(m, 16, &e))
        BUG_ON(e.code != ERR_UNSUPPORTED);
    for (uint32_t c = 0; c < m->n_classes; c++) {
        if (graph_build(m, c, &(struct graph_batch){.micro_batch = 1, .seq_len = 16}, DTYPE_BF16,
                        &g, &e)) {
            BUG_ON(e.code != ERR_OVERFLOW);
            continue;
        }
        for (uint32_t i = 0; i < g.n_ops; i++)
            BUG_ON(g.ops[i].forward.kernel == KERNEL_GEMM && g.ops[i].weight == MODEL_NONE &&
                   m->classes[c].mixer != MIXER_UNKNOWN);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct model m;
    struct err e;

    if (is_large(data, size))
        return 0;
    for (int way = 0; way < 4; way++) {
        const struct model_options o = {
            .split_fused = way == 1, .mtp = way == 2, .as = way == 3 ? "smollm3" : NULL};

        arena_init(&a);
        if (model_from_config_with((const char *)data, size, "fuzz", &o, &a, &m, &e))
            BUG_ON(e.code == ERR_NONE || !*e.msg || strchr(e.msg, '\n'));
        else
            check(&m);
        arena_release(&a);
    }
    return 0;
}
