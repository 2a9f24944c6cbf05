/* Any text behind "block:": refused with one line, or a model whose parts add up and whose graphs build. */
#include "core/units.h"
#include "model/graph/graph.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A valid model of many layers is slow, not wrong. */
static bool is_large(const char *s)
{
    struct err e;
    uint64_t n;

    for (s = strstr(s, "layers="); s; s = strstr(s + 1, "layers=")) {
        char text[32];
        size_t len = strcspn(s + 7, ",");

        if (len >= sizeof(text))
            continue;
        memcpy(text, s + 7, len);
        text[len] = 0;
        if (!units_count(text, &n, &e) && n > 1000)
            return true;
    }
    return false;
}

static void check(const struct model *m)
{
    struct unit_graph g;
    struct err e;

    BUG_ON(m->matrix_params + m->tail_params != m->total_params);
    BUG_ON(m->n_layers == 0 || m->n_units < m->n_layers);
    for (uint32_t c = 0; c < m->n_classes; c++) {
        if (graph_build(m, c, &(struct graph_batch){.micro_batch = 1, .seq_len = 16}, DTYPE_BF16,
                        &g, &e)) {
            BUG_ON(e.code != ERR_OVERFLOW);
            continue;
        }
        for (uint32_t i = 0; i < g.n_ops; i++)
            BUG_ON(g.ops[i].forward.kernel == KERNEL_GEMM && g.ops[i].weight == MODEL_NONE);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *s = mem_alloc(size + 7, 1);
    struct arena a;
    struct model m;
    struct err e;

    memcpy(s, "block:", 6);
    if (size)
        memcpy(s + 6, data, size);
    arena_init(&a);
    if (!is_large(s)) {
        if (model_from_synthetic(s, 128, &a, &m, &e))
            BUG_ON(e.code == ERR_NONE || !*e.msg);
        else
            check(&m);
    }
    arena_release(&a);
    mem_free(s);
    return 0;
}
