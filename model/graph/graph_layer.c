/* The layers of a model: a mixer and an MLP, each with what its tensors say that it has. A block without a tensor for a
 * slot has no such step, so one function serves all families; the class gives what shapes do not (heads, order).
 *
 * Linear recurrences run in chunks of C tokens, as their authors' kernels do (FLOPs a token):
 *   Mamba-2 (arXiv 2405.21060, section 6; C = 128): a group's C B^T 2 C N; a head's product with it 2 C P, its state
 *     made and read 4 N P
 *   gated delta rule (arXiv 2412.06464; C = 64), a head: five products C x C with keys or values, 6 C d_k + 4 C d_v; the
 *     triangular inverse C^2; the state read twice and written once, 6 d_k d_v
 * Their backward is taken to be 5/2 of it, as attention's. */
#include "model/graph/graph_build.h"

#include "core/num.h"

enum { CHUNK_MAMBA2 = 128, CHUNK_DELTA = 64 };

uint64_t build_of_tokens(struct build *b, uint64_t width)
{
    return build_mul(b, b->tokens, width);
}

uint32_t build_value_of(struct build *b, const char *name, uint64_t width)
{
    return build_value(b, name, build_of_tokens(b, width));
}

uint32_t build_linear(struct build *b, const char *name, enum tensor_slot slot, uint32_t in,
                      uint64_t n, uint64_t k)
{
    uint32_t out = build_value_of(b, name, n);

    build_gemm(b, name, in, out, slot, b->tokens, n, k, 1);
    return out;
}

uint32_t build_norm_if(struct build *b, const char *name, enum tensor_slot slot, uint32_t x)
{
    uint32_t out;

    if (!build_tensor(b, slot))
        return x;
    out = build_value_between(b, name, b->c->hidden);
    build_norm(b, name, x, out, slot, b->between, b->c->hidden);
    return out;
}

uint32_t build_gated(struct build *b, const char *name, uint32_t x, uint32_t g, uint64_t width)
{
    uint32_t out = build_value_of(b, name, width);

    build_elementwise(b, name, KERNEL_SIGMOID_GATE, KERNEL_SIGMOID_GATE_BACKWARD, b->tokens, width,
                      3, 5, out);
    build_input(build_last(b), x, true);
    build_input(build_last(b), g, true);
    return out;
}

/* ---- linear recurrences ---- */

static uint32_t build_convolution(struct build *b, uint32_t in, uint64_t channels)
{
    uint64_t taps = build_tensor(b, SLOT_CONV)->shape[2], n = build_of_tokens(b, channels);
    uint32_t out = build_value(b, "conv1d", n);
    struct graph_op *o;

    build_elementwise(b, "conv1d", KERNEL_CONV1D, KERNEL_CONV1D_BACKWARD, b->tokens, channels, 2, 3,
                      out);
    o = build_last(b);
    build_input(o, in, true);
    o->weight = build_find(b, SLOT_CONV, false);
    o->bias = build_find(b, SLOT_CONV, true);
    o->n_weights = 1;
    o->forward.flops = build_mul3(b, 2, n, taps);
    o->backward[0].flops = build_mul3(b, 4, n, taps);
    return out;
}

/* The decay of each head, from what the projection gives it. */
static uint32_t build_decay(struct build *b, uint32_t in)
{
    uint32_t out = build_value_of(b, "decay", b->c->n_heads);
    struct graph_op *o;

    build_elementwise(b, "decay", KERNEL_DECAY, KERNEL_DECAY_BACKWARD, b->tokens, b->c->n_heads, 2,
                      3, out);
    o = build_last(b);
    build_input(o, in, true);
    o->weight = build_find(b, SLOT_DT, false);
    o->n_weights = 1;
    return out;
}

/* The recurrence: x in (and the decay), `width` out, so many FLOPs a token. */
static uint32_t build_scan(struct build *b, uint32_t x, uint32_t decay, uint64_t in_width,
                           uint64_t width, uint64_t flops)
{
    uint32_t out = build_value_of(b, "scan", width);
    struct graph_op *o = build_op(b, "scan", out);

    build_input(o, x, true);
    build_input(o, decay, true);
    o->weight = build_find(b, SLOT_A, false);
    o->bias = build_find(b, SLOT_D, false);
    o->n_weights = 1;
    b->g->values[out].heavy = true;
    o->forward = (struct kernel_call){.kernel = KERNEL_SCAN,
                                      .m = b->seq,
                                      .n = b->c->n_heads,
                                      .k = b->c->head_dim,
                                      .batch = b->micro,
                                      .flops = build_of_tokens(b, flops),
                                      .launches = 1,
                                      .fp32 = b->act == DTYPE_FP32};
    o->forward.hbm_bytes = build_bytes(b, build_of_tokens(b, in_width + width));
    o->n_backward = 1;
    o->backward[0] = o->forward;
    o->backward[0].kernel = KERNEL_SCAN_BACKWARD;
    o->backward[0].flops = build_mul(b, o->forward.flops, 5) / 2;
    o->backward[0].hbm_bytes = build_mul(b, o->forward.hbm_bytes, 2);
    o->backward[0].launches = 2;
    o->backward_name[0] = "backward";
    return out;
}

static uint32_t mixer_norm(struct build *b, uint32_t in, uint64_t width)
{
    uint64_t each = build_tensor(b, SLOT_MIXER_NORM)->numel;
    uint32_t out = build_value_of(b, "mixer_norm", width);

    build_norm(b, "mixer_norm", in, out, SLOT_MIXER_NORM, build_of_tokens(b, width) / each, each);
    return out;
}

static uint32_t build_delta(struct build *b, uint32_t x)
{
    const struct unit_class *c = b->c;
    uint64_t k_width = (uint64_t)c->n_kv_heads * c->head_dim, v_width = unit_class_v_width(c);
    uint64_t chunk = CHUNK_DELTA, dk = c->head_dim, dv = c->v_head_dim;
    uint64_t flops = chunk * (6 * dk + 4 * dv) + chunk * chunk + 6 * dk * dv;
    bool has_z = build_tensor(b, SLOT_IN_Z), has_a = build_tensor(b, SLOT_IN_A);
    uint32_t qkv =
        build_linear(b, "in_qkv", SLOT_IN, x, 2 * k_width + (has_z ? 1 : 2) * v_width, c->hidden);
    uint32_t z = has_z ? build_linear(b, "in_z", SLOT_IN_Z, x, v_width, c->hidden) : qkv;
    uint32_t strength =
        build_linear(b, "in_b", SLOT_IN_B, x, (uint64_t)(has_a ? 1 : 2) * c->n_heads, c->hidden);
    uint32_t a = has_a ? build_linear(b, "in_a", SLOT_IN_A, x, c->n_heads, c->hidden) : strength, y;

    qkv = build_convolution(b, qkv, 2 * k_width + v_width);
    a = build_decay(b, a);
    y = build_scan(b, qkv, a, 2 * k_width + v_width, v_width, c->n_heads * flops);
    build_input(build_last(b), strength, true);
    return build_gated(b, "output_gate", mixer_norm(b, y, v_width), z, v_width);
}

static uint32_t build_mamba2(struct build *b, uint32_t x)
{
    const struct unit_class *c = b->c;
    uint64_t inner = unit_class_v_width(c), bc = 2ull * c->n_kv_heads * c->state_dim;
    uint64_t chunk = CHUNK_MAMBA2, n = c->state_dim, p = c->head_dim;
    uint64_t flops = c->n_kv_heads * 2 * chunk * n + c->n_heads * (2 * chunk * p + 4 * n * p);
    uint32_t in = build_linear(b, "in", SLOT_IN, x, 2 * inner + bc + c->n_heads, c->hidden);
    uint32_t xbc = build_convolution(b, in, inner + bc), dt = build_decay(b, in), y;

    y = build_scan(b, xbc, dt, inner + bc, inner, flops);
    y = build_gated(b, "output_gate", y, in, inner);
    return mixer_norm(b, y, inner);
}

static uint32_t build_mixer(struct build *b, uint32_t x)
{
    const struct unit_class *c = b->c;

    x = build_enter(b, "mixer_in", c->hidden, x);
    switch (c->mixer) {
    case MIXER_ATTENTION:
        x = build_attention(b, x);
        break;
    case MIXER_MLA:
        x = build_latent(b, x);
        break;
    case MIXER_DELTA:
        x = build_delta(b, x);
        break;
    case MIXER_MAMBA2:
        x = build_mamba2(b, x);
        break;
    case MIXER_NONE:
    case MIXER_UNKNOWN:
        BUG_ON(true);
    }
    x = build_linear(b, "o", SLOT_O, x, c->hidden, unit_class_v_width(c));
    return build_leave(b, "mixer_out", c->hidden, x);
}

/* ---- MLPs ---- */

/* The tensors and names of an MLP: the layer's, its experts', or the shared expert. */
struct mlp {
    enum tensor_slot gate, up, gate_up, down;
    const char *gate_name, *up_name, *act_name, *value_name, *down_name;
    uint64_t ffn;
};

void build_activation(struct build *b, const char *name, uint64_t rows, uint64_t width,
                      uint32_t out)
{
    static const struct {
        const char *name;
        enum kernel forward, backward;
        uint64_t streams, backward_streams;
    } acts[] = {
        [ACT_SWIGLU] = {"swiglu", KERNEL_SWIGLU, KERNEL_SWIGLU_BACKWARD, 3, 5},
        [ACT_GELU] = {"gelu", KERNEL_GELU, KERNEL_GELU_BACKWARD, 2, 3},
        [ACT_GEGLU] = {"geglu", KERNEL_GEGLU, KERNEL_GEGLU_BACKWARD, 3, 5},
        [ACT_RELU] = {"relu", KERNEL_RELU, KERNEL_RELU_BACKWARD, 2, 3},
        [ACT_RELU2] = {"relu2", KERNEL_RELU2, KERNEL_RELU2_BACKWARD, 2, 3},
    };
    enum act_kind a = b->c->act;

    build_elementwise(b, name ? name : acts[a].name, acts[a].forward, acts[a].backward, rows, width,
                      acts[a].streams, acts[a].backward_streams, out);
}

/* in [rows, hidden] -> [rows, hidden]; rows lie by expert when there are several. */
static uint32_t build_mlp(struct build *b, const struct mlp *m, uint32_t in, uint64_t rows,
                          uint64_t experts)
{
    const struct unit_class *c = b->c;
    uint64_t per = experts > 1 ? num_ceil_div(rows, experts) : rows;
    uint64_t all = build_mul(b, per, experts), n = build_mul(b, all, m->ffn);
    bool split = c->split_up && m->up == SLOT_UP;
    uint64_t half = split ? m->ffn / 2 : m->ffn;
    uint32_t a, d, g = MODEL_NONE, u;

    if (build_tensor(b, m->gate_up)) {
        u = build_value(b, "gate_up", build_mul(b, n, 2));
        build_gemm(b, "gate_up", in, u, m->gate_up, per, 2 * m->ffn, c->hidden, experts);
    } else if (unit_class_gated(c)) {
        g = build_value(b, m->gate_name, n);
        u = build_value(b, m->up_name, n);
        build_gemm(b, m->gate_name, in, g, m->gate, per, m->ffn, c->hidden, experts);
        build_gemm(b, m->up_name, in, u, m->up, per, m->ffn, c->hidden, experts);
    } else {
        u = build_value(b, split ? "up0" : m->up_name, build_mul(b, all, half));
        build_gemm(b, split ? "up0" : m->up_name, in, u, m->up, per, half, c->hidden, experts);
        if (split) { /* up0 comes first, as a gate does */
            g = u;
            u = build_value(b, "up1", build_mul(b, all, m->ffn - half));
            build_gemm(b, "up1", in, u, SLOT_UP1, per, m->ffn - half, c->hidden, experts);
        }
    }
    a = build_value(b, m->value_name, n);
    build_activation(b, m->act_name, all, m->ffn, a);
    if (g != MODEL_NONE)
        build_input(build_last(b), g, true);
    build_input(build_last(b), u, true);
    d = build_value(b, m->down_name, build_mul(b, all, c->hidden));
    build_gemm(b, m->down_name, a, d, m->down, per, c->hidden, m->ffn, experts);
    return d;
}

static uint32_t own_mlp(struct build *b, uint32_t in, uint64_t rows, uint64_t experts)
{
    const struct mlp m = {.gate = SLOT_GATE,
                          .up = SLOT_UP,
                          .gate_up = SLOT_GATE_UP,
                          .down = SLOT_DOWN,
                          .gate_name = "gate",
                          .up_name = "up",
                          .value_name = "act",
                          .down_name = "down",
                          .ffn = b->c->ffn};

    return build_mlp(b, &m, in, rows, experts);
}

/* What every token meets beside its chosen experts; added to `out`. */
static uint32_t build_shared(struct build *b, uint32_t in, uint32_t out)
{
    const struct mlp m = {.gate = SLOT_SHARED_GATE,
                          .up = SLOT_SHARED_UP,
                          .gate_up = SLOT_N,
                          .down = SLOT_SHARED_DOWN,
                          .gate_name = "shared_gate",
                          .up_name = "shared_up",
                          .act_name = "shared_act",
                          .value_name = "shared_act",
                          .down_name = "shared_down",
                          .ffn = build_tensor(b, SLOT_SHARED_UP)->rows};
    uint32_t y =
        build_norm_if(b, "shared_norm", SLOT_SHARED_NORM_POST, build_mlp(b, &m, in, b->tokens, 1));

    if (build_tensor(b, SLOT_SHARED_ROUTER))
        y = build_gated(b, "shared_weight", y,
                        build_linear(b, "shared_router", SLOT_SHARED_ROUTER, in, 1, b->c->hidden),
                        b->c->hidden);
    return build_sum_of(b, "add_shared", "mlp_sum", b->tokens, out, y);
}

/* `in` is the layer's normed input; router and experts may take `raw`, by norms of their own. */
static uint32_t build_moe(struct build *b, uint32_t in, uint32_t raw)
{
    const struct unit_class *c = b->c;
    uint64_t rows = build_of_tokens(b, c->n_active);
    bool own_norm = build_tensor(b, SLOT_ROUTER_NORM);
    uint32_t scored = own_norm ? build_norm_if(b, "router_norm", SLOT_ROUTER_NORM, raw) : in;
    uint32_t logits = build_value_of(b, "router_logits", c->n_experts);
    uint32_t routes = build_value(b, "routes", 0), x, d, out, first, met = in;

    /* a choice is a weight and a slot, 8 bytes; then the first slot of every expert, and the end */
    b->g->values[routes].bytes =
        build_sum(b, build_mul(b, rows, 8), 4 * ((uint64_t)c->n_experts + 1));
    build_gemm(b, "router", scored, logits, SLOT_ROUTER, b->tokens, c->n_experts, c->hidden, 1);
    build_elementwise(b, "route", KERNEL_ROUTE, KERNEL_ROUTE_BACKWARD, b->tokens, c->n_experts, 2,
                      3, routes);
    build_input(build_last(b), logits, true);
    build_last(b)->saves_out = true;
    build_last(b)->weight = build_find(b, SLOT_ROUTER_CORRECTION, false);
    build_last(b)->n_weights = build_last(b)->weight != MODEL_NONE;
    if (build_tensor(b, SLOT_EXPERTS_NORM))
        met = build_norm_if(b, "experts_norm", SLOT_EXPERTS_NORM, raw);
    x = build_value(b, "dispatched", build_mul(b, rows, c->hidden));
    build_elementwise(b, "dispatch", KERNEL_DISPATCH, KERNEL_DISPATCH_BACKWARD, rows, c->hidden, 2,
                      2, x);
    build_input(build_last(b), met, false);
    build_input(build_last(b), routes, true);
    first = b->g->n_ops;
    d = own_mlp(b, x, rows, c->n_experts);
    for (uint32_t i = first; i < b->g->n_ops; i++)
        if (b->g->ops[i].n_weights > 1)
            b->g->ops[i].counts = routes;
    out = build_value_of(b, "moe_out", c->hidden);
    build_elementwise(b, "combine", KERNEL_COMBINE, KERNEL_COMBINE_BACKWARD, rows, c->hidden, 2, 3,
                      out);
    build_input(build_last(b), d, true);
    build_input(build_last(b), routes, true);
    out = build_norm_if(b, "experts_norm_post", SLOT_EXPERTS_NORM_POST, out);
    return build_tensor(b, SLOT_SHARED_UP) ? build_shared(b, in, out) : out;
}

/* ---- the layer ---- */

/* A unit of which only the shapes are known: every weight, of experts the active ones', meets every token once, in one
 * product of as many FLOPs. */
static void build_unknown(struct build *b)
{
    uint64_t hidden = b->c->hidden, weights = 0;
    uint32_t x = build_value_of(b, "x", hidden), y;

    for (uint32_t i = b->u->first; i < b->u->first + b->u->n; i++) {
        const struct tensor *t = &b->m->tensors[i];

        if (t->rows > 1 && t->cols > 1 && t->role != ROLE_EMBEDDING && t->role != ROLE_POSITION &&
            !(b->c->n_experts && t->expert >= (int32_t)b->c->n_active))
            weights = build_sum(b, weights, t->numel);
    }
    y = x;
    if (weights) {
        y = build_value_of(b, "products", num_ceil_div(weights, hidden));
        build_gemm(b, "products", x, y, SLOT_N, b->tokens, num_ceil_div(weights, hidden), hidden,
                   1);
    }
    build_residual(b, "sum", "y", x, y);
}

void build_layer(struct build *b)
{
    const struct unit_class *c = b->c;
    bool mlp = c->n_experts || c->ffn, pre = !c->norm_after_add;
    uint32_t x, n1, y, in, raw, encoded = MODEL_NONE;

    if (c->mixer == MIXER_UNKNOWN) {
        build_unknown(b);
        return;
    }
    x = build_value_between(b, "x", c->hidden);
    if (build_tensor(b, SLOT_CROSS_Q))
        encoded = build_carried(b, CARRIED_ENCODED, "encoded",
                                build_mul3(b, b->micro, b->source, c->hidden));
    n1 = pre ? build_norm_if(b, "norm1", SLOT_NORM1, x) : x;
    if (c->mixer != MIXER_NONE) {
        y = build_norm_if(b, "norm1_post", SLOT_NORM1_POST, build_mixer(b, n1));
        x = build_residual(b, "add1", mlp ? "x2" : "y", x, y);
    }
    if (!pre)
        x = build_norm_if(b, "norm1", SLOT_NORM1, x);
    if (encoded != MODEL_NONE) {
        y = build_cross(b, build_norm_if(b, "cross_norm", SLOT_CROSS_NORM, x), encoded);
        x = build_residual(b, "add_cross", "x3", x, y);
    }
    if (!mlp)
        return;
    in = x;
    if (c->parallel)
        in = build_tensor(b, SLOT_NORM2) ? 0 : n1;
    raw = in;
    if (pre)
        in = build_norm_if(b, "norm2", SLOT_NORM2, in);
    in = build_enter(b, "mlp_in", c->hidden, in);
    y = c->n_experts ? build_moe(b, in, raw) : own_mlp(b, in, b->tokens, 1);
    y = build_leave(b, "mlp_out", c->hidden, y);
    y = build_norm_if(b, "norm2_post", SLOT_NORM2_POST, y);
    x = build_residual(b, "add2", "y", x, y);
    if (!pre)
        build_norm_if(b, "norm2", SLOT_NORM2, x);
}
