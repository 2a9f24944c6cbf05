/* Reads a plan file back, into the same struct plan: the model goes through its builder, everything that can be computed
 * from the rest is computed and compared. What only layouts/ knows (rules, loads) is layout_check()'s. */
#include "model/plan_json.h"

#include "core/num.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { MAX_SIZE = 1 << 30, MAX_UNITS = 1 << 20, MAX_TENSORS = 1 << 24 };

struct reader {
    struct plan *p;
    struct arena *a;
    struct err *e;
};

/* ---- values ---- */

/* A count as the writer leaves it: a number up to 2^53, digits in a string above. */
static int as_count(const struct json_at *at, uint64_t *out, struct err *e)
{
    const char *s;
    uint64_t v = 0;

    if (!cJSON_IsString(at->node))
        return json_as_u64(at, 0, UINT64_MAX, out, e);
    if (json_as_str(at, &s, e))
        return -1;
    for (const char *d = s; *d; d++)
        if (*d < '0' || *d > '9' || !num_mul(v, 10, &v) || !num_add(v, (uint64_t)(*d - '0'), &v))
            return json_err(at, ERR_INVALID, e, "is '%.30s', expected a whole number below 2^63",
                            s);
    if (v <= JSON_EXACT)
        return json_err(at, ERR_INVALID, e, "is '%.30s', expected text only above 2^53", s);
    *out = v;
    return 0;
}

static int count(const struct json_at *at, const char *key, uint64_t *out, struct err *e)
{
    struct json_at m;

    return json_get(at, key, &m, e) ? -1 : as_count(&m, out, e);
}

/* A member whose value follows from the rest. */
static int expect(const struct json_at *at, const char *key, uint64_t want, struct err *e)
{
    struct json_at m;
    uint64_t v;

    if (json_get(at, key, &m, e) || as_count(&m, &v, e))
        return -1;
    if (v != want)
        return json_err(&m, ERR_INVALID, e,
                        "is %" PRIu64 ", but the rest of the file says %" PRIu64, v, want);
    return 0;
}

static int u32(const struct json_at *at, const char *key, uint32_t lo, uint32_t hi, uint32_t *out,
               struct err *e)
{
    uint64_t v;

    if (json_u64(at, key, lo, hi, &v, e))
        return -1;
    *out = (uint32_t)v;
    return 0;
}

static int text(struct reader *r, const struct json_at *at, const char *key, const char **out)
{
    const char *s;

    if (json_str(at, key, &s, r->e))
        return -1;
    *out = arena_strdup(r->a, s);
    return 0;
}

#define KEYS_BUT(nullable, at, e, ...)                                                             \
    json_only_keys_or_null(at, (const char *const[]){__VA_ARGS__},                                 \
                           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), nullable,  \
                           e)
#define KEYS(at, e, ...) KEYS_BUT("", at, e, __VA_ARGS__)

/* json_enum into a field of enum type. */
#define ENUM(at, key, names, field, e)                                                             \
    (json_enum(at, key, names, &choice, e) ? -1 : ((field) = choice, 0))

#define ENUM_OR(at, key, names, dflt, field, e)                                                    \
    (json_enum_or(at, key, names, dflt, &choice, e) ? -1 : ((field) = choice, 0))

/* ---- job ---- */

static int read_job(struct reader *r, const struct json_at *top)
{
    struct job *j = &r->p->job;
    struct err *e = r->e;
    struct json_at at, mesh;
    int choice;

    if (json_object(top, "job", &at, e) ||
        KEYS_BUT("mesh", &at, e, "nodes", "gpus", "layout", "optimizer", "ns_steps", "seq_len", "target_len",
             "micro_batch", "grad_accum", "param_dtype", "grad_dtype", "state_dtype",
             "master_weights", "recompute", "gather", "prefetch", "bucket", "planner", "objective",
             "mesh", "shard_group", "tp", "pp", "ep", "framework", "attention", "loss", "adamw",
             "ns_batch", "ns_kernels", "cuda_graphs", "fp8", "overlap_reduce", "overlap_refresh",
             "grad_sync", "reshard", "price") ||
        u32(&at, "nodes", 1, CLUSTER_MAX_NODES, &j->nodes, e) ||
        u32(&at, "gpus", 1, CLUSTER_MAX_RANKS, &j->gpus, e) || text(r, &at, "layout", &j->layout) ||
        ENUM(&at, "optimizer", plan_optimizers, j->optimizer, e) ||
        u32(&at, "ns_steps", 0, 1000, &j->ns_steps, e) ||
        json_u64(&at, "seq_len", 1, MAX_SIZE, &j->seq_len, e) ||
        json_u64_or(&at, "target_len", 1, MAX_SIZE, 0, &j->target_len, e) ||
        json_u64(&at, "micro_batch", 1, MAX_SIZE, &j->micro_batch, e) ||
        json_u64(&at, "grad_accum", 1, MAX_SIZE, &j->grad_accum, e) ||
        ENUM(&at, "param_dtype", plan_dtypes, j->param_dtype, e) ||
        ENUM(&at, "grad_dtype", plan_dtypes, j->grad_dtype, e) ||
        ENUM(&at, "state_dtype", plan_dtypes, j->state_dtype, e) ||
        json_bool(&at, "master_weights", &j->master_weights, e) ||
        ENUM(&at, "recompute", plan_recomputes, j->recompute, e) ||
        ENUM(&at, "gather", plan_algos, j->gather, e) ||
        u32(&at, "prefetch", 0, MAX_UNITS, &j->prefetch, e) ||
        json_u64(&at, "bucket", 0, JSON_EXACT, &j->bucket_bytes, e) ||
        text(r, &at, "planner", &j->planner) || text(r, &at, "objective", &j->objective) ||
        u32(&at, "shard_group", 0, CLUSTER_MAX_RANKS, &j->shard_group, e) ||
        u32(&at, "tp", 1, 1, &j->tp, e) || u32(&at, "pp", 1, 1, &j->pp, e) ||
        u32(&at, "ep", 1, 1, &j->ep, e) ||
        ENUM(&at, "framework", plan_frameworks, j->framework, e) ||
        ENUM_OR(&at, "attention", plan_attentions, ATTENTION_AUTO, j->attention, e) ||
        ENUM_OR(&at, "loss", plan_losses, LOSS_AUTO, j->loss, e) ||
        ENUM_OR(&at, "adamw", plan_adamw, ADAMW_FUSED, j->adamw, e) ||
        json_u64_or(&at, "ns_batch", 0, UINT64_C(1000000000000), 0, &j->ns_batch, e) ||
        ENUM_OR(&at, "ns_kernels", plan_ns_kernels, 0, j->ns_symmetric, e) ||
        json_bool_or(&at, "cuda_graphs", false, &j->cuda_graphs, e) ||
        json_bool_or(&at, "fp8", false, &j->fp8, e) ||
        ENUM_OR(&at, "grad_sync", plan_grad_syncs, 0, j->sync_last, e) ||
        ENUM_OR(&at, "reshard", plan_reshards, 0, j->reshard_never, e) ||
        ENUM_OR(&at, "overlap_reduce", plan_overlaps, OVERLAP_AUTO, j->overlap_reduce, e) ||
        json_bool_or(&at, "overlap_refresh", false, &j->overlap_refresh, e) ||
        json_double(&at, "price", 0, 1e6, &j->price_per_gpu_hour, e))
        return -1;
    if (j->param_dtype > DTYPE_FP16 || j->grad_dtype > DTYPE_FP16 || j->state_dtype > DTYPE_FP16)
        return json_err(&at, ERR_INVALID, e, "trains in %s, %s, %s, expected fp32, bf16 or fp16",
                        dtype_name(j->param_dtype), dtype_name(j->grad_dtype),
                        dtype_name(j->state_dtype));
    if (j->param_dtype == DTYPE_FP32 && j->master_weights)
        return json_err(&at, ERR_INVALID, e,
                        "has master_weights, but its parameters are fp32 already");
    if (json_opt(&at, "mesh", &mesh))
        return json_err(&at, ERR_UNSUPPORTED, e,
                        "has a mesh of its own; this version has the layout's");
    if (j->shard_group && j->gpus % j->shard_group)
        return json_err(&at, ERR_INVALID, e,
                        "has groups of %" PRIu32 " of its %" PRIu32 " ranks, expected a divisor",
                        j->shard_group, j->gpus);
    return 0;
}

static int read_cluster(struct reader *r, const struct json_at *top)
{
    struct cluster *c = &r->p->cluster;
    const struct job *j = &r->p->job;
    struct json_at at;

    if (json_object(top, "cluster", &at, r->e) || cluster_from_tree(&at, r->a, c, r->e) ||
        cluster_resize(c, j->nodes, r->e))
        return -1;
    if (num_ceil_div(j->gpus, c->gpus_per_node) != j->nodes)
        return json_err(top, ERR_INVALID, r->e,
                        "puts %" PRIu32 " GPUs on %" PRIu32 " nodes of %" PRIu32, j->gpus, j->nodes,
                        c->gpus_per_node);
    return 0;
}

/* ---- model ---- */

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

static int read_class(struct reader *r, const struct json_at *at, struct unit_class *c)
{
    struct err *e = r->e;
    int choice;

    memset(c, 0, sizeof(*c));
    if (KEYS(at, e, "name", "kind", "hidden", "ffn", "vocab", "heads", "kv_heads", "head_dim",
             "experts", "active_experts", "norm", "activation", "position", "causal", "fused_qkv",
             "split_up", "qk_norm", "tied", "mixer", "stack", "other_routing", "rotary_dim",
             "v_head_dim", "state_dim", "window", "chunked", "embed_dim", "positions", "parallel",
             "norm_after_add", "output_gate", "scaled", "heads_unknown") ||
        text(r, at, "name", &c->name) || ENUM(at, "kind", plan_unit_kinds, c->kind, e) ||
        json_u64(at, "hidden", 1, MAX_SIZE, &c->hidden, e) ||
        json_u64(at, "ffn", 0, MAX_SIZE, &c->ffn, e) ||
        json_u64(at, "vocab", 0, MAX_SIZE, &c->vocab, e) ||
        u32(at, "heads", 0, MAX_SIZE, &c->n_heads, e) ||
        u32(at, "kv_heads", 0, MAX_SIZE, &c->n_kv_heads, e) ||
        u32(at, "head_dim", 0, MAX_SIZE, &c->head_dim, e) ||
        u32(at, "experts", 0, MAX_TENSORS, &c->n_experts, e) ||
        u32(at, "active_experts", 0, c->n_experts, &c->n_active, e) ||
        ENUM(at, "norm", plan_norms, c->norm, e) || ENUM(at, "activation", plan_acts, c->act, e) ||
        ENUM(at, "position", plan_positions, c->position, e) ||
        json_bool(at, "causal", &c->causal, e) || json_bool(at, "fused_qkv", &c->fused_qkv, e) ||
        json_bool(at, "split_up", &c->split_up, e) || json_bool(at, "qk_norm", &c->qk_norm, e) ||
        json_bool(at, "tied", &c->tied, e))
        return -1;
    return read_class_rest(at, c, e);
}

struct tables {
    struct unit_class *classes; /* owned [n_classes] */
    size_t n_classes, n_units, n_tensors;
    struct json_at units, tensors;
};

static int read_classes(struct reader *r, const struct json_at *model, struct tables *t)
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
    CELL(enum_cell(&c, plan_optimizers, &choice, e));
    t->optimizer = (enum optimizer)choice;
    CELL(enum_cell(&c, plan_rules, &choice, e));
    t->place.rule = (enum place_rule)choice;
    CELL(cJSON_IsNull(c.node) ? 0 : json_as_u64(&c, 0, CLUSTER_MAX_RANKS, &v, e));
    t->has_owner = !cJSON_IsNull(c.node);
    t->place.owner = t->has_owner ? (uint32_t)v : 0;
    CELL(cJSON_IsNull(c.node) ? 0 : as_count(&c, &t->rows, e));
    t->has_rows = !cJSON_IsNull(c.node);
    CELL(as_count(&c, &t->place.offset, e));
    do {
        CELL(json_as_u64(&c, 1, UINT64_C(1) << 48, &t->shape[t->n_dims++], e));
    } while (c.node->next && t->n_dims < 4);
#undef CELL
    if (c.node->next)
        return json_err(at, ERR_INVALID, e, "has more than four dimensions");
    return 0;
}

/* What a row says against what its tensor and plan say. */
static int check_row(const struct reader *r, const struct json_at *at, const struct tensor_row *row,
                     uint32_t i)
{
    const struct plan *p = r->p;
    const struct tensor *t = &p->model.tensors[i];

    if (row->optimizer != plan_optimizer_of(p, t))
        return json_err(at, ERR_INVALID, r->e, "has optimizer %s, expected %s",
                        optimizer_name(row->optimizer), optimizer_name(plan_optimizer_of(p, t)));
    if (row->has_owner != (row->place.rule == PLACE_OWNER) ||
        (row->has_owner && row->place.owner >= plan_shards(p)))
        return json_err(at, ERR_INVALID, r->e,
                        "has rule %s and owner %" PRId64 ", expected an owner below %" PRIu32
                        " where the rule is owner, else null",
                        place_rule_name(row->place.rule),
                        row->has_owner ? (int64_t)row->place.owner : -1, plan_shards(p));
    if (row->has_rows != (row->place.rule == PLACE_CHUNK) ||
        (row->has_rows && row->rows != num_ceil_div(t->rows, plan_shards(p))))
        return json_err(at, ERR_INVALID, r->e,
                        "has %" PRIu64 " rows a rank, expected %" PRIu64
                        " where the rule is chunk, else null",
                        row->rows, num_ceil_div(t->rows, plan_shards(p)));
    return 0;
}

static int read_tensors(struct reader *r, struct tables *t, struct model_builder *b)
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
static int check_dimensions(struct reader *r, const struct json_at *model)
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
static int check_model(struct reader *r, const struct json_at *model, struct tables *t)
{
    const struct model *m = &r->p->model;
    struct json_at row, unit;
    struct tensor_row x;

    if (m->n_classes != t->n_classes)
        return json_err(model, ERR_INVALID, r->e,
                        "has %zu classes, but its units use %" PRIu32 " different ones",
                        t->n_classes, m->n_classes);
    for (bool ok = json_first(&t->units, &unit); ok; ok = json_next(&unit)) {
        const struct unit_class *c = &m->classes[m->units[unit.index].class_id];

        if (expect(&unit, "class", m->units[unit.index].class_id, r->e))
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
    for (bool ok = json_first(&t->tensors, &row); ok; ok = json_next(&row))
        if (read_row(&row, &x, r->e) || check_row(r, &row, &x, (uint32_t)row.index))
            return -1;
    return check_dimensions(r, model) ||
                   plan_check_slots(m, r->p->job.seq_len, model->file, r->e) ||
                   expect(model, "total_params", m->total_params, r->e) ||
                   expect(model, "matrix_params", m->matrix_params, r->e)
               ? -1
               : 0;
}

static int read_roles(struct reader *r, const struct json_at *model)
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

static int read_model(struct reader *r, const struct json_at *top, struct tables *t)
{
    struct model *m = &r->p->model;
    struct model_builder b;
    struct json_at at;
    int status = -1;

    if (json_object(top, "model", &at, r->e) ||
        KEYS(&at, r->e, "name", "arch", "layers", "hidden", "vocab", "max_seq_len", "tied",
             "total_params", "matrix_params", "also_matrices", "classes") ||
        text(r, &at, "name", &m->name) || text(r, &at, "arch", &m->arch) ||
        u32(&at, "layers", 1, MAX_UNITS, &m->n_layers, r->e) ||
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

/* ---- placement ---- */

struct segment_check {
    struct json_at list, row;
    bool more, wrong;
    struct err *e;
};

static int one_segment(struct json_at *row, uint64_t v[3], struct err *e)
{
    struct json_at cell;
    size_t n;

    if (json_is_array(row, &n, e))
        return -1;
    if (n != 3)
        return json_err(row, ERR_INVALID, e, "has %zu values, expected rank, offset and bytes", n);
    json_first(row, &cell);
    for (int i = 0; i < 3; i++, json_next(&cell))
        if (as_count(&cell, &v[i], e))
            return -1;
    return 0;
}

static void check_segment(void *ctx, uint32_t rank, uint64_t offset, uint64_t bytes)
{
    struct segment_check *c = ctx;
    uint64_t v[3];

    if (c->wrong)
        return;
    c->wrong = true;
    if (!c->more) {
        json_err(&c->list, ERR_INVALID, c->e,
                 "ends before the segment of rank %" PRIu32 " at offset %" PRIu64, rank, offset);
        return;
    }
    if (one_segment(&c->row, v, c->e))
        return;
    if (v[0] != rank || v[1] != offset || v[2] != bytes) {
        json_err(&c->row, ERR_INVALID, c->e,
                 "is [%" PRIu64 ", %" PRIu64 ", %" PRIu64 "], but the tensors say [%" PRIu32
                 ", %" PRIu64 ", %" PRIu64 "]",
                 v[0], v[1], v[2], rank, offset, bytes);
        return;
    }
    c->wrong = false;
    c->more = json_next(&c->row);
}

/* Offsets: every tensor begins where the one before it in its unit ends. */
static int check_offsets(const struct reader *r, const struct tables *t)
{
    const struct plan *p = r->p;
    uint64_t offset = 0;
    struct json_at row;

    for (bool ok = json_first(&t->tensors, &row); ok; ok = json_next(&row)) {
        const struct tensor *x = &p->model.tensors[row.index];

        if (p->model.units[x->unit].first == row.index)
            offset = 0;
        if (p->place[row.index].offset != offset)
            return json_err(&row, ERR_INVALID, r->e,
                            "has offset %" PRIu64 ", expected %" PRIu64
                            ": tensors lie one after another in their unit",
                            p->place[row.index].offset, offset);
        offset += dtype_bytes(p->job.param_dtype, x->numel);
    }
    return 0;
}

static int check_units(const struct reader *r, const struct tables *t)
{
    const struct plan *p = r->p;
    uint64_t element = 0;
    struct json_at unit;

    for (bool ok = json_first(&t->units, &unit); ok; ok = json_next(&unit)) {
        const struct unit *u = &p->model.units[unit.index];
        struct segment_check c = {.e = r->e};

        if (expect(&unit, "bytes", dtype_bytes(p->job.param_dtype, u->numel), r->e) ||
            expect(&unit, "first_element", element, r->e) ||
            json_array(&unit, "segments", &c.list, NULL, r->e))
            return -1;
        c.more = json_first(&c.list, &c.row);
        plan_segments(p, (uint32_t)unit.index, check_segment, &c);
        if (c.wrong)
            return -1;
        if (c.more)
            return json_err(&c.row, ERR_INVALID, r->e, "is a segment that no tensor makes");
        element += u->numel;
    }
    return 0;
}

static int read_factor(const struct reader *r, const struct json_at *mesh, const char *key,
                       struct factor *f)
{
    const struct cluster *c = &r->p->cluster;
    struct json_at at;
    uint64_t *v;
    size_t n;

    if (json_u64_array(mesh, key, 1, CLUSTER_MAX_RANKS, r->a, &v, &n, r->e) ||
        json_get(mesh, key, &at, r->e))
        return -1;
    if (n != 2 || v[0] > c->gpus_per_node || v[1] > c->n_nodes)
        return json_err(&at, ERR_INVALID, r->e,
                        "is no factor of %" PRIu32 " GPUs in a node and %" PRIu32
                        " nodes, expected [in node, nodes]",
                        c->gpus_per_node, c->n_nodes);
    *f = (struct factor){(uint32_t)v[0], (uint32_t)v[1]};
    return 0;
}

static int read_layout(struct reader *r, const struct json_at *top)
{
    struct plan *p = r->p;
    struct json_at mesh;
    int choice;

    if (text(r, top, "layout", &p->layout) || text(r, top, "layout_full", &p->layout_full) ||
        ENUM(top, "strategy", plan_strategies, p->strategy, r->e) ||
        expect(top, "world", p->job.gpus, r->e) || json_object(top, "mesh", &mesh, r->e) ||
        KEYS(&mesh, r->e, "p", "g", "os") || read_factor(r, &mesh, "p", &p->params) ||
        read_factor(r, &mesh, "g", &p->grads) || read_factor(r, &mesh, "os", &p->states))
        return -1;
    return 0;
}

static int check_columns(const struct reader *r, const struct json_at *top)
{
    struct json_at list, it;
    const char *s;
    size_t n;

    if (json_array(top, "columns", &list, &n, r->e))
        return -1;
    if (n != PLAN_COLUMNS)
        return json_err(&list, ERR_INVALID, r->e, "has %zu names, expected %d", n, PLAN_COLUMNS);
    for (bool ok = json_first(&list, &it); ok; ok = json_next(&it)) {
        if (json_as_str(&it, &s, r->e))
            return -1;
        if (strcmp(s, plan_columns[it.index]) != 0)
            return json_err(&it, ERR_INVALID, r->e, "is '%.40s', expected '%s'", s,
                            plan_columns[it.index]);
    }
    return 0;
}

/* ---- loads ---- */

static int read_run(struct json_at *row, uint64_t *value, uint64_t *n, uint64_t most, struct err *e)
{
    struct json_at cell;
    size_t len;

    if (json_is_array(row, &len, e))
        return -1;
    if (len != 2)
        return json_err(row, ERR_INVALID, e,
                        "has %zu values, expected a load and a number of ranks", len);
    json_first(row, &cell);
    if (as_count(&cell, value, e))
        return -1;
    json_next(&cell);
    return json_as_u64(&cell, 1, most, n, e);
}

static int read_by_rank(struct reader *r, const struct json_at *loads, const char *key,
                        uint64_t **out)
{
    uint64_t value, n, sum = 0, world = r->p->world, *v;
    struct json_at list, row;

    if (json_array(loads, key, &list, NULL, r->e))
        return -1;
    for (bool ok = json_first(&list, &row); ok; ok = json_next(&row), sum += n)
        if (read_run(&row, &value, &n, world - num_min(sum, world), r->e))
            return -1;
    if (sum != world)
        return json_err(&list, ERR_INVALID, r->e, "is for %" PRIu64 " ranks, expected %" PRIu64,
                        sum, world);
    *out = v = ARENA_NEW(r->a, uint64_t, world);
    for (bool ok = json_first(&list, &row); ok; ok = json_next(&row))
        for (read_run(&row, &value, &n, world, r->e); n; n--)
            *v++ = value;
    return 0;
}

/* The maximum and mean that a file claims, against its ranks. */
static int check_sums(struct reader *r, const struct json_at *loads, const char *max_key,
                      const char *mean_key, const uint64_t *v, uint64_t *max, double *mean)
{
    struct json_at at;
    double sum = 0;

    *max = 0;
    for (uint32_t i = 0; i < r->p->world; i++) {
        *max = num_max(*max, v[i]);
        sum += (double)v[i] / r->p->world;
    }
    if (expect(loads, max_key, *max, r->e) ||
        json_double(loads, mean_key, 0, INFINITY, mean, r->e) ||
        json_get(loads, mean_key, &at, r->e))
        return -1;
    if (fabs(*mean - sum) > 1e-9 * sum)
        return json_err(&at, ERR_INVALID, r->e,
                        "is %.17g, but the ranks' loads have a mean of %.17g", *mean, sum);
    return 0;
}

static int read_loads(struct reader *r, const struct json_at *top)
{
    struct plan *p = r->p;
    struct json_at at;

    if (json_object(top, "loads", &at, r->e) ||
        KEYS(&at, r->e, "solver", "reproducible", "optimal", "over_capacity", "flops_max",
             "flops_mean", "bytes_max", "bytes_mean", "bound", "gap_percent", "load_flops",
             "load_bytes") ||
        text(r, &at, "solver", &p->solver) ||
        json_bool(&at, "reproducible", &p->reproducible, r->e) ||
        json_bool(&at, "optimal", &p->optimal, r->e) ||
        json_bool(&at, "over_capacity", &p->over_capacity, r->e) ||
        read_by_rank(r, &at, "load_flops", &p->load_flops) ||
        read_by_rank(r, &at, "load_bytes", &p->load_bytes) ||
        check_sums(r, &at, "flops_max", "flops_mean", p->load_flops, &p->flops_max,
                   &p->flops_mean) ||
        check_sums(r, &at, "bytes_max", "bytes_mean", p->load_bytes, &p->bytes_max,
                   &p->bytes_mean) ||
        count(&at, "bound", &p->bound, r->e) ||
        json_double(&at, "gap_percent", 0, INFINITY, &p->gap_percent, r->e))
        return -1;
    return 0;
}

/* ---- the document ---- */

static int read_head(const struct json_at *top, struct err *e)
{
    const char *format, *version;
    uint64_t n;

    if (json_is_object(top, e) || json_str(top, "format", &format, e))
        return -1;
    if (strcmp(format, PLAN_FORMAT) != 0)
        return json_err(top, ERR_PARSE, e, "has the format '%.60s', expected '" PLAN_FORMAT "'",
                        format);
    if (json_u64(top, "format_version", 1, JSON_EXACT, &n, e))
        return -1;
    if (n != PLAN_VERSION)
        return json_err(top, ERR_UNSUPPORTED, e,
                        "has format_version %" PRIu64 "; this program reads %d", n, PLAN_VERSION);
    return json_str(top, "ballast_version", &version, e) ||
                   KEYS_BUT("flat_slice", top, e, "format", "format_version", "ballast_version",
                            "layout", "layout_full", "strategy", "world", "mesh", "loads", "job",
                            "cluster", "model", "flat_slice", "units", "columns", "tensors")
               ? -1
               : 0;
}

static int read_plan(struct reader *r, const struct json_at *top)
{
    struct plan *p = r->p;
    struct tables t = {0};
    struct json_at at;
    int status = -1;

    if (read_head(top, r->e) || read_job(r, top) || read_cluster(r, top))
        return -1;
    p->world = p->job.gpus;
    if (!check_columns(r, top) && !read_layout(r, top) && !read_model(r, top, &t) &&
        !check_offsets(r, &t) && !check_units(r, &t) && !read_loads(r, top))
        status = 0;
    mem_free(t.classes);
    if (status)
        return -1;
    if (plan_flat_slice(p))
        return expect(top, "flat_slice", plan_flat_slice(p), r->e);
    if (json_opt(top, "flat_slice", &at))
        return json_err(&at, ERR_INVALID, r->e, "is given, but no tensor has rule flat");
    return 0;
}

int plan_from_json(const char *s, size_t len, const char *file, struct arena *a, struct plan *p,
                   struct err *e)
{
    struct reader r = {p, a, e};
    struct json_at top;
    struct json j;
    int status;

    memset(p, 0, sizeof(*p));
    if (json_parse(&j, file, s, len, e))
        return -1;
    top = json_top(&j);
    status = read_plan(&r, &top);
    json_release(&j);
    return status;
}

int plan_load(const char *path, struct arena *a, struct plan *p, struct err *e)
{
    struct reader r = {p, a, e};
    struct json_at top;
    struct json j;
    int status;

    memset(p, 0, sizeof(*p));
    if (json_load(&j, path, e))
        return -1;
    top = json_top(&j);
    status = read_plan(&r, &top);
    json_release(&j);
    return status;
}
