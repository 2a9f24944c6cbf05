#include "model/tensors/model.h"

#include "core/num.h"

#include <stdio.h>
#include <string.h>

const char *tensor_role_name(enum tensor_role r)
{
    switch (r) {
#define X(v, name)                                                                                 \
    case v:                                                                                        \
        return name;
        TENSOR_ROLES(X)
#undef X
    case ROLE_N:
        break;
    }
    return "?";
}

void model_set_matrix_roles(struct model *m, uint32_t also_matrices)
{
    uint32_t roles = 1u << ROLE_MATRIX | 1u << ROLE_EXPERT | also_matrices;

    m->also_matrices = also_matrices;
    m->matrix_params = m->tail_params = 0;
    m->matrix_tensors = m->tail_tensors = 0;
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        struct tensor *t = &m->tensors[i];

        t->is_matrix = (roles >> t->role & 1) && (m->names_only || (t->rows > 1 && t->cols > 1));
        if (t->is_matrix) {
            m->matrix_tensors++;
            m->matrix_params += t->numel;
        } else {
            m->tail_tensors++;
            m->tail_params += t->numel;
        }
    }
}

uint32_t model_bridge(const struct model *m)
{
    for (uint32_t u = 0; u < m->n_units; u++)
        if (m->classes[m->units[u].class_id].kind == UNIT_BRIDGE)
            return u;
    return MODEL_NONE;
}

void model_note(struct model *m, struct arena *a, const char *fmt, ...)
{
    char text[300];
    va_list ap;

    BUG_ON(m->n_notes == MODEL_NOTES);
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    m->notes[m->n_notes++] = arena_strdup(a, text);
}

/* ---- building ---- */

void model_builder_init(struct model_builder *b, struct model *m, struct arena *a)
{
    memset(b, 0, sizeof(*b));
    b->m = m;
    b->a = a;
}

void model_builder_release(struct model_builder *b)
{
    mem_free(b->tensors);
    mem_free(b->units);
    mem_free(b->classes);
    b->tensors = NULL;
    b->units = NULL;
    b->classes = NULL;
}

/* Classes are few (1-5): a linear search. Fields are compared one by one because of padding. */
static bool same_class(const struct unit_class *x, const struct unit_class *y)
{
    return x->kind == y->kind && !strcmp(x->name, y->name) && x->hidden == y->hidden &&
           x->ffn == y->ffn && x->vocab == y->vocab && x->n_heads == y->n_heads &&
           x->n_kv_heads == y->n_kv_heads && x->head_dim == y->head_dim &&
           x->n_experts == y->n_experts && x->n_active == y->n_active && x->norm == y->norm &&
           x->act == y->act && x->position == y->position && x->causal == y->causal &&
           x->fused_qkv == y->fused_qkv && x->split_up == y->split_up && x->qk_norm == y->qk_norm &&
           x->tied == y->tied && x->mixer == y->mixer && x->stack == y->stack &&
           x->route == y->route && x->rotary_dim == y->rotary_dim &&
           x->v_head_dim == y->v_head_dim && x->state_dim == y->state_dim &&
           x->window == y->window && x->chunked == y->chunked && x->embed_dim == y->embed_dim &&
           x->positions == y->positions && x->parallel == y->parallel &&
           x->norm_after_add == y->norm_after_add && x->output_gate == y->output_gate &&
           x->scaled == y->scaled && x->heads_unknown == y->heads_unknown;
}

void model_builder_unit(struct model_builder *b, const char *name, const struct unit_class *c)
{
    struct unit *u;
    size_t i;

    for (i = 0; i < b->n_classes; i++)
        if (same_class(&b->classes[i], c))
            break;
    if (i == b->n_classes) {
        b->classes = mem_grow(b->classes, &b->cap_classes, b->n_classes + 1, sizeof(*b->classes));
        b->classes[i] = *c;
        b->classes[i].example = (uint32_t)b->n_units;
        b->n_classes++;
    }
    b->units = mem_grow(b->units, &b->cap_units, b->n_units + 1, sizeof(*b->units));
    u = &b->units[b->n_units++];
    *u = (struct unit){
        .name = arena_strdup(b->a, name), .first = (uint32_t)b->n_tensors, .class_id = (uint32_t)i};
}

void model_builder_tensor(struct model_builder *b, const char *name, enum tensor_role role,
                          enum tensor_slot slot, bool is_bias, int32_t expert, uint32_t n_dims,
                          const uint64_t *shape)
{
    struct tensor *t;

    BUG_ON(b->n_units == 0 || n_dims > 4 || (n_dims == 0 && !b->m->names_only));
    b->tensors = mem_grow(b->tensors, &b->cap_tensors, b->n_tensors + 1, sizeof(*b->tensors));
    t = &b->tensors[b->n_tensors++];
    *t = (struct tensor){.name = arena_strdup(b->a, name),
                         .n_dims = n_dims,
                         .unit = (uint32_t)b->n_units - 1,
                         .role = role,
                         .slot = slot,
                         .is_bias = is_bias,
                         .expert = expert,
                         .numel = n_dims > 0,
                         .rows = n_dims ? shape[0] : 0,
                         .cols = n_dims > 0};
    for (uint32_t i = 0; i < n_dims; i++) {
        t->shape[i] = shape[i];
        b->overflow |= !num_mul(t->numel, shape[i], &t->numel);
        if (i)
            b->overflow |= !num_mul(t->cols, shape[i], &t->cols);
    }
    b->units[b->n_units - 1].n++;
    b->overflow |=
        !num_add(b->units[b->n_units - 1].numel, t->numel, &b->units[b->n_units - 1].numel);
}

/* Layers that take the relative positions of their stack's first one: it alone makes them, for as many heads. */
static int check_relative(const struct model *m, enum stack_kind stack, struct err *e)
{
    const struct unit *first = NULL;
    uint32_t heads = 0;
    size_t made = 0, taken = 0;

    for (uint32_t u = 0; u < m->n_units; u++) {
        const struct unit *x = &m->units[u];
        const struct unit_class *c = &m->classes[x->class_id];
        size_t own = 0;

        if (c->kind != UNIT_LAYER || c->position != POSITION_RELATIVE || c->stack != stack)
            continue;
        for (uint32_t i = x->first; i < x->first + x->n; i++)
            own += m->tensors[i].slot == SLOT_RELATIVE;
        if (!first && !own)
            return err_set(e, ERR_INVALID, "unit '%s' has relative positions, but no table of them",
                           x->name);
        if (!first)
            first = x;
        heads = heads ? heads : c->n_heads;
        made += own;
        taken += !own;
        if (taken && (made > 1 || c->n_heads != heads))
            return err_set(e, ERR_INVALID,
                           "unit '%s' takes the relative positions of '%s', but has %u heads for "
                           "its %u, and %zu tables are there",
                           x->name, first->name, c->n_heads, heads, made);
    }
    return 0;
}

/* An encoder and its decoder: embedding, layers, bridge, layers that attend to the encoder. */
static int check_stacks(const struct model *m, struct err *e)
{
    uint32_t bridge = model_bridge(m);

    for (uint32_t u = 0; u < m->n_units; u++) {
        const struct unit *x = &m->units[u];
        const struct unit_class *c = &m->classes[x->class_id];
        enum stack_kind want = bridge == MODEL_NONE ? STACK_ONLY
                               : u < bridge         ? STACK_ENCODER
                                                    : STACK_DECODER;
        bool cross = false;

        for (uint32_t i = x->first; i < x->first + x->n; i++)
            cross |= m->tensors[i].slot == SLOT_CROSS_Q;
        if (c->stack != want || (c->kind == UNIT_BRIDGE && u != bridge) ||
            (c->kind == UNIT_LAYER && cross != (want == STACK_DECODER)) ||
            (bridge != MODEL_NONE && u == 0 && c->kind != UNIT_EMBED))
            return err_set(e, ERR_INVALID,
                           "unit '%s' is no %s in its place: an encoder and its decoder are an "
                           "embedding, layers, a bridge, and layers that attend to the encoder",
                           x->name, c->kind == UNIT_LAYER ? "layer" : "unit");
    }
    if (bridge != MODEL_NONE && (bridge < 2 || bridge + 1 == m->n_units ||
                                 m->classes[m->units[bridge + 1].class_id].kind != UNIT_LAYER))
        return err_set(e, ERR_INVALID, "the bridge '%s' has no layers before or behind it",
                       m->units[bridge].name);
    return check_relative(m, STACK_ONLY, e) || check_relative(m, STACK_ENCODER, e) ||
                   check_relative(m, STACK_DECODER, e)
               ? -1
               : 0;
}

int model_builder_finish(struct model_builder *b, struct err *e)
{
    struct model *m = b->m;
    uint64_t inactive = 0, part;
    size_t n;

    if (b->n_units == 0)
        return err_set(e, ERR_INVALID, "the model has no tensors");
    m->n_tensors = (uint32_t)b->n_tensors;
    m->n_units = (uint32_t)b->n_units;
    m->n_classes = (uint32_t)b->n_classes;
    m->tensors = ARENA_NEW(b->a, struct tensor, n = b->n_tensors);
    memcpy(m->tensors, b->tensors, n * sizeof(*m->tensors));
    m->units = ARENA_NEW(b->a, struct unit, n = b->n_units);
    memcpy(m->units, b->units, n * sizeof(*m->units));
    m->classes = ARENA_NEW(b->a, struct unit_class, n = b->n_classes);
    memcpy(m->classes, b->classes, n * sizeof(*m->classes));
    m->total_params = m->embedding_params = 0;
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        struct tensor *t = &m->tensors[i];
        const struct unit_class *c = &m->classes[m->units[t->unit].class_id];

        t->at = m->total_params;
        if (t->numel == 0 && !m->names_only)
            return err_set(e, ERR_INVALID, "tensor '%s' has a dimension of 0", t->name);
        b->overflow |= !num_add(m->total_params, t->numel, &m->total_params);
        if ((t->role == ROLE_EMBEDDING && !(m->tied && t->slot == SLOT_TOKEN_EMBEDDING)) ||
            t->role == ROLE_POSITION)
            m->embedding_params += t->numel;
        /* Of E equal experts a token meets n_active: count the rest as inactive. */
        if (t->expert >= (int32_t)c->n_active && c->n_experts)
            inactive += t->numel;
    }
    if (!m->names_only && check_stacks(m, e))
        return -1;
    m->active_params = m->total_params - inactive;
    model_set_matrix_roles(m, m->also_matrices);
    /* FLOPs are a few times parameters x tokens: leave room for bytes of fp32 states. */
    if (b->overflow || !num_mul(m->total_params, 64, &part))
        return err_set(e, ERR_OVERFLOW, "the model has more than 2^57 parameters");
    return 0;
}
