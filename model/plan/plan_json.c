/* Writes the plan file (docs/PLAN.md). Everything in it follows from the plan: no time, no argv, no host. */
#include "model/plan/plan_json.h"

#include "core/num.h"
#include "model/plan/placement.h"
#include "core/version.h"
#include "model/plan/optimizers.h"

#include <stdio.h>
#include <string.h>

#define X(v, name) name,
const char *const plan_roles[] = {TENSOR_ROLES(X) NULL};
#undef X
#define X(v, name) (v) == STRATEGY_REPLICATED ? "replicated" : (name),
const char *const plan_strategies[] = {STRATEGIES(X) NULL};
#undef X
const char *const plan_slots[] = {[SLOT_OTHER] = "other",
                                  [SLOT_TOKEN_EMBEDDING] = "token_embedding",
                                  [SLOT_POSITION] = "position",
                                  [SLOT_FINAL_NORM] = "final_norm",
                                  [SLOT_HEAD] = "head",
                                  [SLOT_NORM1] = "norm1",
                                  [SLOT_NORM2] = "norm2",
                                  [SLOT_Q] = "q",
                                  [SLOT_K] = "k",
                                  [SLOT_V] = "v",
                                  [SLOT_QKV] = "qkv",
                                  [SLOT_O] = "o",
                                  [SLOT_Q_NORM] = "q_norm",
                                  [SLOT_K_NORM] = "k_norm",
                                  [SLOT_GATE] = "gate",
                                  [SLOT_UP] = "up",
                                  [SLOT_UP1] = "up1",
                                  [SLOT_DOWN] = "down",
                                  [SLOT_ROUTER] = "router",
                                  [SLOT_GATE_UP] = "gate_up",
                                  [SLOT_NORM1_POST] = "norm1_post",
                                  [SLOT_NORM2_POST] = "norm2_post",
                                  [SLOT_EMBED_NORM] = "embed_norm",
                                  [SLOT_PROJECT_IN] = "project_in",
                                  [SLOT_PROJECT_OUT] = "project_out",
                                  [SLOT_SINK] = "sink",
                                  [SLOT_Q_A] = "q_a",
                                  [SLOT_Q_A_NORM] = "q_a_norm",
                                  [SLOT_Q_B] = "q_b",
                                  [SLOT_KV_A] = "kv_a",
                                  [SLOT_KV_A_NORM] = "kv_a_norm",
                                  [SLOT_KV_B] = "kv_b",
                                  [SLOT_INDEX_Q] = "index_q",
                                  [SLOT_INDEX_K] = "index_k",
                                  [SLOT_INDEX_K_NORM] = "index_k_norm",
                                  [SLOT_INDEX_WEIGHTS] = "index_weights",
                                  [SLOT_ROUTER_CORRECTION] = "router_correction",
                                  [SLOT_ROUTER_NORM] = "router_norm",
                                  [SLOT_EXPERTS_NORM] = "experts_norm",
                                  [SLOT_EXPERTS_NORM_POST] = "experts_norm_post",
                                  [SLOT_SHARED_NORM_POST] = "shared_norm_post",
                                  [SLOT_SHARED_GATE] = "shared_gate",
                                  [SLOT_SHARED_UP] = "shared_up",
                                  [SLOT_SHARED_DOWN] = "shared_down",
                                  [SLOT_SHARED_ROUTER] = "shared_router",
                                  [SLOT_IN] = "in",
                                  [SLOT_IN_Z] = "in_z",
                                  [SLOT_IN_B] = "in_b",
                                  [SLOT_IN_A] = "in_a",
                                  [SLOT_CONV] = "conv",
                                  [SLOT_DT] = "dt",
                                  [SLOT_A] = "a",
                                  [SLOT_D] = "d",
                                  [SLOT_MIXER_NORM] = "mixer_norm",
                                  [SLOT_TOKEN_TYPE] = "token_type",
                                  [SLOT_RELATIVE] = "relative",
                                  [SLOT_CROSS_NORM] = "cross_norm",
                                  [SLOT_CROSS_Q] = "cross_q",
                                  [SLOT_CROSS_K] = "cross_k",
                                  [SLOT_CROSS_V] = "cross_v",
                                  [SLOT_CROSS_O] = "cross_o",
                                  [SLOT_ENCODER_NORM] = "encoder_norm",
                                  [SLOT_TRANSFORM] = "transform",
                                  [SLOT_TRANSFORM_NORM] = "transform_norm",
                                  [SLOT_POOLER] = "pooler",
                                  [SLOT_NEXT] = "next",
                                  [SLOT_N] = NULL};
const char *const plan_rules[] = {"replicated", "chunk", "flat", "owner", NULL};
const char *const plan_unit_kinds[] = {"embed", "layer", "head", "bridge", NULL};
const char *const plan_stacks[] = {"only", "encoder", "decoder", NULL};
const char *const plan_norms[] = {"rmsnorm", "layernorm", NULL};
const char *const plan_acts[] = {"swiglu", "gelu", "geglu", "relu", "relu2", NULL};
const char *const plan_positions[] = {"none", "rope", "learned", "alibi", "relative", NULL};
const char *const plan_mixers[] = {"attention", "mla", "delta", "mamba2", "none", "unknown", NULL};
const char *const plan_columns[] = {"name",  "unit",          "role",      "slot",
                                    "bias",  "expert",        "optimizer", "rule",
                                    "owner", "rows_per_rank", "offset",    "shape"};

/* ---- pieces ---- */

/* A count: JSON numbers are exact up to 2^53, larger ones are written as text. */
static void add_count(cJSON *to, const char *key, uint64_t v)
{
    char digits[24];

    if (v <= JSON_EXACT) {
        json_add_u64(to, key, v);
        return;
    }
    snprintf(digits, sizeof(digits), "%llu", (unsigned long long)v);
    json_add_str(to, key, digits);
}

/* [[value, how many ranks in a row], ...] */
static void add_by_rank(cJSON *to, const char *key, const uint64_t *v, uint32_t n)
{
    cJSON *list = json_add_array(to, key), *run;
    uint32_t end;

    for (uint32_t i = 0; i < n; i = end) {
        for (end = i + 1; end < n && v[end] == v[i];)
            end++;
        run = json_add_array(list, NULL);
        add_count(run, NULL, v[i]);
        json_add_u64(run, NULL, end - i);
    }
}

static void add_factor(cJSON *to, const char *key, struct factor f)
{
    cJSON *pair = json_add_array(to, key);

    json_add_u64(pair, NULL, f.in_node);
    json_add_u64(pair, NULL, f.nodes);
}

static void add_size(cJSON *to, const char *key, uint64_t v)
{
    if (v)
        json_add_u64(to, key, v);
}

static void add_flag(cJSON *to, const char *key, bool v)
{
    if (v)
        json_add_bool(to, key, true);
}

static void add_class(cJSON *list, const struct unit_class *c)
{
    cJSON *o = json_add_object(list, NULL);

    json_add_str(o, "name", c->name);
    json_add_str(o, "kind", plan_unit_kinds[c->kind]);
    json_add_u64(o, "hidden", c->hidden);
    json_add_u64(o, "ffn", c->ffn);
    json_add_u64(o, "vocab", c->vocab);
    json_add_u64(o, "heads", c->n_heads);
    json_add_u64(o, "kv_heads", c->n_kv_heads);
    json_add_u64(o, "head_dim", c->head_dim);
    json_add_u64(o, "experts", c->n_experts);
    json_add_u64(o, "active_experts", c->n_active);
    json_add_str(o, "norm", plan_norms[c->norm]);
    json_add_str(o, "activation", plan_acts[c->act]);
    json_add_str(o, "position", plan_positions[c->position]);
    json_add_bool(o, "causal", c->causal);
    json_add_bool(o, "fused_qkv", c->fused_qkv);
    json_add_bool(o, "split_up", c->split_up);
    json_add_bool(o, "qk_norm", c->qk_norm);
    json_add_bool(o, "tied", c->tied);
    /* what most classes do not have is there only where it is */
    if (c->mixer != MIXER_ATTENTION)
        json_add_str(o, "mixer", plan_mixers[c->mixer]);
    if (c->stack != STACK_ONLY)
        json_add_str(o, "stack", plan_stacks[c->stack]);
    if (c->route != ROUTE_SOFTMAX_OF_CHOSEN)
        json_add_bool(o, "other_routing", true);
    add_size(o, "rotary_dim", c->rotary_dim);
    add_size(o, "v_head_dim", c->v_head_dim);
    add_size(o, "state_dim", c->state_dim);
    add_size(o, "window", c->window);
    add_flag(o, "chunked", c->chunked);
    add_size(o, "embed_dim", c->embed_dim);
    add_size(o, "positions", c->positions);
    add_flag(o, "parallel", c->parallel);
    add_flag(o, "norm_after_add", c->norm_after_add);
    add_flag(o, "output_gate", c->output_gate);
    add_flag(o, "scaled", c->scaled);
    add_flag(o, "heads_unknown", c->heads_unknown);
}

static void add_model(cJSON *to, const struct model *m)
{
    cJSON *o = json_add_object(to, "model"), *list;

    json_add_str(o, "name", m->name);
    json_add_str(o, "arch", m->arch);
    json_add_u64(o, "layers", m->n_layers);
    json_add_u64(o, "hidden", m->hidden);
    json_add_u64(o, "vocab", m->vocab);
    json_add_u64(o, "max_seq_len", m->max_seq_len);
    json_add_bool(o, "tied", m->tied);
    add_count(o, "total_params", m->total_params);
    add_count(o, "matrix_params", m->matrix_params);
    if (m->also_matrices) {
        list = json_add_array(o, "also_matrices");
        for (int r = 0; r < ROLE_N; r++)
            if (m->also_matrices >> r & 1)
                json_add_str(list, NULL, plan_roles[r]);
    }
    list = json_add_array(o, "classes");
    for (uint32_t i = 0; i < m->n_classes; i++)
        add_class(list, &m->classes[i]);
}

static void add_segment(void *ctx, uint32_t rank, uint64_t offset, uint64_t bytes)
{
    cJSON *row = json_add_array(ctx, NULL);

    json_add_u64(row, NULL, rank);
    add_count(row, NULL, offset);
    add_count(row, NULL, bytes);
}

static void add_units(cJSON *to, const struct plan *p)
{
    cJSON *list = json_add_array(to, "units");
    uint64_t element = 0;

    for (uint32_t u = 0; u < p->model.n_units; u++) {
        const struct unit *unit = &p->model.units[u];
        cJSON *o = json_add_object(list, NULL);

        json_add_str(o, "name", unit->name);
        json_add_u64(o, "class", unit->class_id);
        json_add_u64(o, "tensors", unit->n);
        add_count(o, "bytes", dtype_bytes(p->job.param_dtype, unit->numel));
        add_count(o, "first_element", element);
        plan_segments(p, u, add_segment, json_add_array(o, "segments"));
        element += unit->numel;
    }
}

static void add_tensor(cJSON *list, const struct plan *p, uint32_t i)
{
    const struct tensor *t = &p->model.tensors[i];
    const struct placement *at = &p->place[i];
    cJSON *row = json_add_array(list, NULL);

    json_add_str(row, NULL, t->name);
    json_add_u64(row, NULL, t->unit);
    json_add_str(row, NULL, tensor_role_name(t->role));
    json_add_str(row, NULL, plan_slots[t->slot]);
    json_add_bool(row, NULL, t->is_bias);
    if (t->expert < 0)
        json_add_null(row, NULL);
    else
        json_add_u64(row, NULL, (uint64_t)t->expert);
    json_add_str(row, NULL, optimizer_name(plan_optimizer_of(p, t)));
    json_add_str(row, NULL, place_rule_name(at->rule));
    if (at->rule == PLACE_OWNER)
        json_add_u64(row, NULL, at->owner);
    else
        json_add_null(row, NULL);
    if (at->rule == PLACE_CHUNK)
        add_count(row, NULL, placement_rows(p, t, STATE));
    else
        json_add_null(row, NULL);
    add_count(row, NULL, at->offset);
    for (uint32_t d = 0; d < t->n_dims; d++) /* of the published tensor */
        add_count(row, NULL, plan_whole(p)->tensors[i].shape[d]);
}

static void add_loads(cJSON *to, const struct plan *p)
{
    cJSON *o = json_add_object(to, "loads");

    json_add_str(o, "solver", p->solver);
    json_add_bool(o, "reproducible", p->reproducible);
    json_add_bool(o, "optimal", p->optimal);
    json_add_bool(o, "over_capacity", p->over_capacity);
    add_count(o, "flops_max", p->flops_max);
    json_add_double(o, "flops_mean", p->flops_mean);
    add_count(o, "bytes_max", p->bytes_max);
    json_add_double(o, "bytes_mean", p->bytes_mean);
    add_count(o, "bound", p->bound);
    json_add_double(o, "gap_percent", p->gap_percent);
    add_by_rank(o, "load_flops", p->load_flops, p->world);
    add_by_rank(o, "load_bytes", p->load_bytes, p->world);
}

cJSON *plan_to_json(const struct plan *p)
{
    cJSON *o = json_new_object(), *mesh, *list;

    json_add_str(o, "format", PLAN_FORMAT);
    json_add_u64(o, "format_version", PLAN_VERSION);
    json_add_str(o, "ballast_version", ballast_version);
    json_add_str(o, "layout", p->layout);
    json_add_str(o, "layout_full", p->layout_full);
    json_add_str(o, "strategy", plan_strategies[p->strategy]);
    json_add_u64(o, "world", p->world);
    mesh = json_add_object(o, "mesh");
    add_factor(mesh, "p", p->factor[PARAM]);
    add_factor(mesh, "g", p->factor[GRAD]);
    add_factor(mesh, "os", p->factor[STATE]);
    add_loads(o, p);
    plan_add_job(o, p);
    json_add_tree(o, "cluster", cluster_to_json(&p->cluster));
    add_model(o, plan_whole(p));
    if (plan_flat_slice(p))
        add_count(o, "flat_slice", plan_flat_slice(p));
    else
        json_add_null(o, "flat_slice");
    add_units(o, p);
    list = json_add_array(o, "columns");
    for (int i = 0; i < PLAN_COLUMNS; i++)
        json_add_str(list, NULL, plan_columns[i]);
    list = json_add_array(o, "tensors");
    for (uint32_t i = 0; i < p->model.n_tensors; i++)
        add_tensor(list, p, i);
    return o;
}
