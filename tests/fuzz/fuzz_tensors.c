/* Any bytes as the header of a .safetensors file, as an index, as a plain list, as patterns: refused with one line, or a
 * model whose parts add up and whose graphs build. */
#include "core/num.h"
#include "model/graph/graph.h"
#include "model/tensors/tensors.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_error(const struct err *e)
{
    BUG_ON(e->code == ERR_NONE || !*e->msg || strchr(e->msg, '\n'));
}

static void check_model(const struct model *m)
{
    uint64_t sum = 0;
    struct unit_graph g;
    struct err e;

    BUG_ON(m->matrix_tensors + m->tail_tensors != m->n_tensors);
    if (m->names_only)
        return;
    BUG_ON(m->matrix_params + m->tail_params != m->total_params);
    BUG_ON(m->active_params > m->total_params);
    for (uint32_t u = 0; u < m->n_units; u++)
        sum += m->units[u].numel;
    BUG_ON(sum != m->total_params);
    for (uint32_t c = 0; c < m->n_classes; c++)
        if (graph_build(m, c, &(struct graph_batch){.micro_batch = 1, .seq_len = 16}, DTYPE_BF16,
                        &g, &e))
            BUG_ON(e.code != ERR_OVERFLOW);
    BUG_ON(!graph_trains(m, 16, &e) && m->n_layers);
}

/* Stacked experts multiply: a valid list of millions of matrices is slow, not wrong. */
static bool is_large(const struct tensor_list *l)
{
    uint64_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        n += l->v[i].n_dims > 1 ? num_min(l->v[i].shape[0], 1 << 16) : 1;
    return n > 20000;
}

static void check_list(struct tensor_list *l, struct name_patterns *p, struct arena *a)
{
    struct model m;
    struct err e;

    l->file = "fuzz";
    tensor_list_clean(l, a);
    if (is_large(l))
        return;
    if (model_from_tensors(l, p, a, &m, &e)) {
        check_error(&e);
        return;
    }
    check_model(&m);
}

static void as_header(const uint8_t *data, size_t size, struct arena *a)
{
    struct tensor_list l;
    struct err e;

    tensor_list_init(&l);
    if (safetensors_parse((const char *)data, size, "fuzz", a, &l, &e))
        check_error(&e);
    else
        check_list(&l, NULL, a);
    tensor_list_release(&l);
}

static void as_json(const struct json_at *top, struct arena *a)
{
    struct name_patterns p;
    struct tensor_list l;
    const char *missing;
    struct err e;

    tensor_list_init(&l);
    if (index_parse(top, false, a, &l, &missing, &e))
        check_error(&e);
    else
        check_list(&l, NULL, a);
    tensor_list_release(&l);
    if (is_tensor_list(top)) {
        tensor_list_init(&l);
        if (tensor_list_parse(top, a, &l, &e))
            check_error(&e);
        else
            check_list(&l, NULL, a);
        tensor_list_release(&l);
    }
    if (name_patterns_parse(top, a, &p, &e))
        check_error(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_at top;
    struct arena a;
    struct json j;
    struct err e;

    arena_init(&a);
    as_header(data, size, &a);
    if (!json_parse(&j, "fuzz", (const char *)data, size, &e)) {
        top = json_top(&j);
        as_json(&top, &a);
        json_release(&j);
    }
    arena_release(&a);
    return 0;
}
