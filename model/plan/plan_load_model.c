/* The model in a plan file: classes of units, and a row a tensor that says where it is placed too. */
#include "model/plan/plan_load.h"

#include "core/num.h"
#include "model/plan/placement.h"
#include "model/plan/optimizers.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* What the writer leaves out where it is 0. */
static int read_class_rest(const struct json_at *at, struct unit_class *c, struct err *e)
{
    const struct {
        const char *key;
        uint32_t *to;
    } dims[] = {{"rotary_dim", &c->rotary_dim},
                {"v_head_dim", &c->v_head_dim},
                {"state_dim", &c->state_dim}};
    const struct {
        const char *key;
        bool *to;
    } flags[] = {{"chunked", &c->chunked},
                 {"parallel", &c->parallel},
                 {"norm_after_add", &c->norm_after_add},
                 {"output_gate", &c->output_gate},
                 {"scaled", &c->scaled},
                 {"heads_unknown", &c->heads_unknown}};
    bool other_routing;
    uint64_t v;
    int mixer, stack;

    for (size_t i = 0; i < sizeof(dims) / sizeof(dims[0]); i++) {
        if (json_u64_or(at, dims[i].key, 1, MAX_SIZE, 0, &v, e))
            return -1;
        *dims[i].to = (uint32_t)v;
    }
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
        if (json_bool_or(at, flags[i].key, false, flags[i].to, e))
            return -1;
    if (json_enum_or(at, "mixer", plan_mixers, MIXER_ATTENTION, &mixer, e) ||
        json_enum_or(at, "stack", plan_stacks, STACK_ONLY, &stack, e) ||
        json_bool_or(at, "other_routing", false, &other_routing, e) ||
        json_u64_or(at, "window", 1, MAX_SIZE, 0, &c->window, e) ||
        json_u64_or(at, "embed_dim", 1, MAX_SIZE, 0, &c->embed_dim, e) ||
        json_u64_or(at, "positions", 1, MAX_SIZE, 0, &c->positions, e))
        return -1;
    c->mixer = (enum mixer_kind)mixer;
    c->stack = (enum stack_kind)stack;
    c->route = other_routing ? ROUTE_OTHER : ROUTE_SOFTMAX_OF_CHOSEN;
    return 0;
}

static int read_class(struct plan_reader *r, const struct json_at *at, struct unit_class *c)
{
    struct err *e = r->e;
    int choice;

    memset(c, 0, sizeof(*c));
    if (KEYS(at, e, "name", "kind", "hidden", "ffn", "vocab", "heads", "kv_heads", "head_dim",
             "experts", "active_experts", "norm", "activation", "position", "causal", "fused_qkv",
             "split_up", "qk_norm", "tied", "mixer", "stack", "other_routing", "rotary_dim",
             "v_head_dim", "state_dim", "window", "chunked", "embed_dim", "positions", "parallel",
             "norm_after_add", "output_gate", "scaled", "heads_unknown") ||
        plan_text(r, at, "name", &c->name) || ENUM(at, "kind", plan_unit_kinds, c->kind, e) ||
        json_u64(at, "hidden", 1, MAX_SIZE, &c->hidden, e) ||
        json_u64(at, "ffn", 0, MAX_SIZE, &c->ffn, e) ||
        json_u64(at, "vocab", 0, MAX_SIZE, &c->vocab, e) ||
        plan_u32(at, "heads", 0, MAX_SIZE, &c->n_heads, e) ||
        plan_u32(at, "kv_heads", 0, MAX_SIZE, &c->n_kv_heads, e) ||
        plan_u32(at, "head_dim", 0, MAX_SIZE, &c->head_dim, e) ||
        plan_u32(at, "experts", 0, MAX_TENSORS, &c->n_experts, e) ||
        plan_u32(at, "active_experts", 0, c->n_experts, &c->n_active, e) ||
        ENUM(at, "norm", plan_norms, c->norm, e) || ENUM(at, "activation", plan_acts, c->act, e) ||
        ENUM(at, "position", plan_positions, c->position, e) ||
        json_bool(at, "causal", &c->causal, e) || json_bool(at, "fused_qkv", &c->fused_qkv, e) ||
        json_bool(at, "split_up", &c->split_up, e) || json_bool(at, "qk_norm", &c->qk_norm, e) ||
        json_bool(at, "tied", &c->tied, e))
        return -1;
    return read_class_rest(at, c, e);
}

static int read_classes(struct plan_reader *r, const struct json_at *model, struct plan_tables *t)
{
    struct json_at list, it;

    if (json_array(model, "classes", &list, &t->n_classes, r->e))
        return -1;
    if (!t->n_classes || t->n_classes > MAX_UNITS)
        return json_err(&list, ERR_INVALID, r->e, "has %zu classes, expected 1 to %d", t->n_classes,
                        MAX_UNITS);
    t->classes = MEM_NEW(struct unit_class, t->n_classes);
    for (bool ok = json_first(&list, &it); ok; ok = json_next(&it))
        if (json_is_object(&it, r->e) || read_class(r, &it, &t->classes[it.index]))
            return -1;
    return 0;
}

/* Walks the cells of a row; json_elem would be quadratic in long rows, and says the same. */
static int next_cell(struct json_at *row, struct json_at *cell, bool *started, struct err *e)
{
    bool ok = *started ? json_next(cell) : json_first(row, cell);

    *started = true;
    if (!ok)
        return json_err(row, ERR_INVALID, e, "is too short; see columns");
    return 0;
}

struct tensor_row {
    const char *name;
    uint32_t unit;
    enum tensor_role role;
    enum tensor_slot slot;
    bool is_bias;
    int32_t expert;
    enum optimizer optimizer;
    struct placement place;
    bool has_owner, has_rows;
    uint64_t rows;
    uint64_t shape[4];
    uint32_t n_dims;
};

static int enum_cell(const struct json_at *at, const char *const *names, int *out, struct err *e)
{
    return json_as_enum(at, names, out, e);
}

static int read_row(struct json_at *at, struct tensor_row *t, struct err *e)
{
    struct json_at c;
    bool started = false;
    uint64_t v;
    int choice;

    memset(t, 0, sizeof(*t));
    if (json_is_array(at, NULL, e))
        return -1;
#define CELL(read)                                                                                 \
    if (next_cell(at, &c, &started, e) || (read))                                                  \
    return -1
    CELL(json_as_str(&c, &t->name, e));
    CELL(json_as_u64(&c, 0, MAX_UNITS, &v, e));
    t->unit = (uint32_t)v;
    CELL(enum_cell(&c, plan_roles, &choice, e));
    t->role = (enum tensor_role)choice;
    CELL(enum_cell(&c, plan_slots, &choice, e));
    t->slot = (enum tensor_slot)choice;
    CELL(json_as_bool(&c, &t->is_bias, e));
    CELL(cJSON_IsNull(c.node) ? 0 : json_as_u64(&c, 0, MAX_TENSORS, &v, e));
    t->expert = cJSON_IsNull(c.node) ? -1 : (int32_t)v;
    CELL(enum_cell(&c, optimizer_names, &choice, e));
    t->optimizer = (enum optimizer)choice;
    CELL(enum_cell(&c, plan_rules, &choice, e));
    t->place.rule = (enum place_rule)choice;
    CELL(cJSON_IsNull(c.node) ? 0 : json_as_u64(&c, 0, CLUSTER_MAX_RANKS, &v, e));
    t->has_owner = !cJSON_IsNull(c.node);
    t->place.owner = t->has_owner ? (uint32_t)v : 0;
    CELL(cJSON_IsNull(c.node) ? 0 : plan_as_count(&c, &t->rows, e));
    t->has_rows = !cJSON_IsNull(c.node);
    CELL(plan_as_count(&c, &t->place.offset, e));
    do {
        CELL(json_as_u64(&c, 1, UINT64_C(1) << 48, &t->shape[t->n_dims++], e));
    } while (c.node->next && t->n_dims < 4);
#undef CELL
    if (c.node->next)
        return json_err(at, ERR_INVALID, e, "has more than four dimensions");
    return 0;
}

/* What a row says against what its tensor and plan say. */
static int check_row(const struct plan_reader *r, const struct json_at *at,
                     const struct tensor_row *row, uint32_t i)
{
    const struct plan *p = r->p;
    const struct tensor *t = &p->model.tensors[i];

    if (row->optimizer != plan_optimizer_of(p, t))
        return json_err(at, ERR_INVALID, r->e, "has optimizer %s, expected %s",
                        optimizer_name(row->optimizer), optimizer_name(plan_optimizer_of(p, t)));
    if (row->has_owner != (row->place.rule == PLACE_OWNER) ||
        (row->has_owner && row->place.owner >= placement_parts(p, STATE)))
        return json_err(at, ERR_INVALID, r->e,
                        "has rule %s and owner %" PRId64 ", expected an owner below %" PRIu32
                        " where the rule is owner, else null",
                        place_rule_name(row->place.rule),
                        row->has_owner ? (int64_t)row->place.owner : -1, placement_parts(p, STATE));
    if (row->has_rows != (row->place.rule == PLACE_CHUNK) ||
        (row->has_rows && row->rows != placement_rows(p, t, STATE)))
        return json_err(at, ERR_INVALID, r->e,
                        "has %" PRIu64 " rows a rank, expected %" PRIu64
                        " where the rule is chunk, else null",
                        row->rows, placement_rows(p, t, STATE));
    return 0;
}

int plan_check_rows(const struct plan_reader *r, const struct plan_tables *t)
{
    struct tensor_row x;
    struct json_at row;

    for (bool ok = json_first(&t->tensors, &row); ok; ok = json_next(&row))
        if (read_row(&row, &x, r->e) || check_row(r, &row, &x, (uint32_t)row.index))
            return -1;
    return 0;
}

static int read_tensors(struct plan_reader *r, struct plan_tables *t, struct model_builder *b)
{
    struct json_at row = {0}, unit;
    struct tensor_row x;
    bool more = json_first(&t->tensors, &row), ok;

    for (ok = json_first(&t->units, &unit); ok; ok = json_next(&unit)) {
        uint64_t class_id, n;
        const char *name;

        if (KEYS(&unit, r->e, "name", "class", "tensors", "bytes", "first_element", "segments") ||
            json_str(&unit, "name", &name, r->e) ||
            json_u64(&unit, "class", 0, t->n_classes - 1, &class_id, r->e) ||
            json_u64(&unit, "tensors", 1, MAX_TENSORS, &n, r->e))
            return -1;
        model_builder_unit(b, name, &t->classes[class_id]);
        for (uint64_t i = 0; i < n; i++, more = json_next(&row)) {
            if (!more)
                return json_err(&t->tensors, ERR_INVALID, r->e,
                                "ends before the tensors of unit '%.60s' do", name);
            if (read_row(&row, &x, r->e))
                return -1;
            if (x.unit != unit.index)
                return json_err(&row, ERR_INVALID, r->e, "is of unit %" PRIu32 ", expected %zu",
                                x.unit, unit.index);
            model_builder_tensor(b, x.name, x.role, x.slot, x.is_bias, x.expert, x.n_dims, x.shape);
            r->p->place[row.index] = x.place;
        }
    }
    if (more)
        return json_err(&row, ERR_INVALID, r->e, "is a tensor that no unit counts");
    return 0;
}

/* The sizes that a model and its classes claim against units and shapes. */
static int check_dimensions(struct plan_reader *r, const struct json_at *model)
{
    const struct model *m = &r->p->model;
    uint32_t layers = 0;
    bool head = false, has_head_weight = false, pooler = false;

    for (uint32_t u = 0; u < m->n_units; u++) {
        const struct unit_class *c = &m->classes[m->units[u].class_id];
        bool scores = c->kind == UNIT_HEAD && !c->tied; /* a head of its own may give scores */
        bool words = (c->kind == UNIT_EMBED || c->kind == UNIT_HEAD) && !scores;

        layers += c->kind == UNIT_LAYER;
        head |= c->kind == UNIT_HEAD;
        if (c->hidden != m->hidden || (words && c->vocab != m->vocab) || c->tied != m->tied)
            return json_err(model, ERR_INVALID, r->e,
                            "has hidden %" PRIu64 ", vocab %" PRIu64 ", tied %d, but the class of "
                            "unit %" PRIu32 " has %" PRIu64 ", %" PRIu64 ", %d",
                            m->hidden, m->vocab, m->tied, u, c->hidden, c->vocab, c->tied);
    }
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        has_head_weight |= m->tensors[i].slot == SLOT_HEAD && !m->tensors[i].is_bias;
        pooler |= m->tensors[i].slot == SLOT_POOLER; /* which may stand alone */
    }
    if (!m->n_units || (m->vocab && m->classes[m->units[0].class_id].kind == UNIT_LAYER &&
                        m->classes[m->units[m->n_units - 1].class_id].kind == UNIT_LAYER))
        return json_err(model, ERR_INVALID, r->e, "has vocab %" PRIu64 ", but no unit of words",
                        m->vocab);
    if (layers != m->n_layers)
        return json_err(model, ERR_INVALID, r->e,
                        "has %" PRIu32 " layers, but %" PRIu32 " units are layers", m->n_layers,
                        layers);
    if (head && (m->tied == has_head_weight) && !(pooler && !m->tied))
        return json_err(model, ERR_INVALID, r->e, "is %stied, but has %s weight of its own head",
                        m->tied ? "" : "not ", has_head_weight ? "a" : "no");
    return 0;
}

/* After the builder: classes keep their numbers, kinds stand where layouts expect them, rows agree. */
static int check_model(struct plan_reader *r, const struct json_at *model, struct plan_tables *t)
{
    const struct model *m = &r->p->model;
    struct json_at unit;

    if (m->n_classes != t->n_classes)
        return json_err(model, ERR_INVALID, r->e,
                        "has %zu classes, but its units use %" PRIu32 " different ones",
                        t->n_classes, m->n_classes);
    for (bool ok = json_first(&t->units, &unit); ok; ok = json_next(&unit)) {
        const struct unit_class *c = &m->classes[m->units[unit.index].class_id];

        if (plan_expect(&unit, "class", m->units[unit.index].class_id, r->e))
            return -1;
        if ((c->kind == UNIT_EMBED && unit.index != 0) ||
            (c->kind == UNIT_HEAD && unit.index + 1 != m->n_units))
            return json_err(&unit, ERR_INVALID, r->e, "is %s, which stands %s", c->name,
                            c->kind == UNIT_EMBED ? "first" : "last");
    }
    if (!r->p->job.target_len != (model_bridge(m) == MODEL_NONE))
        return json_err(model, ERR_INVALID, r->e, "has %s, but job.target_len is %" PRIu64,
                        r->p->job.target_len ? "no decoder beside an encoder"
                                             : "a decoder beside an encoder",
                        r->p->job.target_len);
    if (m->tied && (m->n_units < 2 || m->classes[m->units[0].class_id].kind != UNIT_EMBED))
        return json_err(model, ERR_INVALID, r->e, "is tied, but its first unit is no embedding");
    return check_dimensions(r, model) ||
                   plan_check_slots(m, r->p->job.seq_len, model->file, r->e) ||
                   plan_expect(model, "total_params", m->total_params, r->e) ||
                   plan_expect(model, "matrix_params", m->matrix_params, r->e)
               ? -1
               : 0;
}

static int read_roles(struct plan_reader *r, const struct json_at *model)
{
    struct json_at list, it;
    int role;

    if (!json_opt(model, "also_matrices", &list))
        return 0;
    if (json_is_array(&list, NULL, r->e))
        return -1;
    for (bool ok = json_first(&list, &it); ok; ok = json_next(&it)) {
        if (json_as_enum(&it, plan_roles, &role, r->e))
            return -1;
        r->p->model.also_matrices |= 1u << role;
    }
    return 0;
}

int plan_read_model(struct plan_reader *r, const struct json_at *top, struct plan_tables *t)
{
    struct model *m = &r->p->model;
    struct model_builder b;
    struct json_at at;
    int status = -1;

    if (json_object(top, "model", &at, r->e) ||
        KEYS(&at, r->e, "name", "arch", "layers", "hidden", "vocab", "max_seq_len", "tied",
             "total_params", "matrix_params", "also_matrices", "classes") ||
        plan_text(r, &at, "name", &m->name) || plan_text(r, &at, "arch", &m->arch) ||
        plan_u32(&at, "layers", 1, MAX_UNITS, &m->n_layers, r->e) ||
        json_u64(&at, "hidden", 1, MAX_SIZE, &m->hidden, r->e) ||
        json_u64(&at, "vocab", 0, MAX_SIZE, &m->vocab, r->e) ||
        json_u64(&at, "max_seq_len", 0, MAX_SIZE, &m->max_seq_len, r->e) ||
        json_bool(&at, "tied", &m->tied, r->e) || read_roles(r, &at) || read_classes(r, &at, t) ||
        json_array(top, "units", &t->units, &t->n_units, r->e) ||
        json_array(top, "tensors", &t->tensors, &t->n_tensors, r->e))
        return -1;
    if (t->n_units > MAX_UNITS || t->n_tensors > MAX_TENSORS)
        return json_err(top, ERR_INVALID, r->e,
                        "has %zu units and %zu tensors, expected at most %d and %d", t->n_units,
                        t->n_tensors, MAX_UNITS, MAX_TENSORS);
    r->p->place = ARENA_NEW(r->a, struct placement, t->n_tensors);
    model_builder_init(&b, m, r->a);
    if (!read_tensors(r, t, &b)) {
        status = model_builder_finish(&b, r->e);
        if (status)
            err_prefix(r->e, "'%s': model", top->file);
    }
    model_builder_release(&b);
    return status || check_model(r, &at, t) ? -1 : 0;
}
