/* Forward and backward kernels: an operation's operands, in the order in which layouts/passes.c lists them, become the
 * arguments of kernels/kernels.h.
 *   forward    read: inputs, weight, bias; write: output
 *   dgrad      read: d(output), weight, bias; add: d(input)
 *   wgrad      read: d(output), input; add: d(weight), d(bias)
 *   backward   read: d(output), what forward saved, weight, bias; add: d(inputs), d(weight), d(bias)
 */
#include "exec/run.h"

#include "core/num.h"

#include <math.h>
#include <string.h>

enum { MAX_VIEWS = 8 };
struct views {
    struct run_view read[MAX_VIEWS], write[MAX_VIEWS], add[MAX_VIEWS];
    uint32_t n_read, n_write, n_add;
};

static void resolve(struct exec_run *r, const struct op *o, const struct instance *i,
                    struct views *v)
{
    memset(v, 0, sizeof(*v));
    for (uint32_t k = 0; k < o->n_operands; k++) {
        struct run_view x = run_operand(r, o, i, k);

        BUG_ON(v->n_read == MAX_VIEWS || v->n_write == MAX_VIEWS || v->n_add == MAX_VIEWS);
        if (o->operands[k].access == ACCESS_READ)
            v->read[v->n_read++] = x;
        else if (o->operands[k].access == ACCESS_WRITE)
            v->write[v->n_write++] = x;
        else
            v->add[v->n_add++] = x;
    }
}

/* ---- products ---- */

/* c = op(a) op(b) (+ c): sizes (m, k), (k, n). */
static void product(struct exec_run *r, bool ta, bool tb, uint64_t m, uint64_t n, uint64_t k,
                    const struct run_view *a, const struct run_view *b, const struct run_view *c,
                    bool accumulate)
{
    struct backend_gemm g = {.ta = ta,
                             .tb = tb,
                             .m = m,
                             .n = n,
                             .k = k,
                             .alpha = 1,
                             .beta = accumulate ? 1 : 0,
                             .a = a->data,
                             .b = b->data,
                             .c = c->data,
                             .a_type = a->dtype,
                             .b_type = b->dtype,
                             .c_type = c->dtype,
                             .lda = ta ? m : k,
                             .ldb = tb ? k : n,
                             .ldc = n};

    r->b->lib->gemm(r->b, r->stream, &g);
}

/* Linear layers store (out, in); GPT-2's Conv1D stores (in, out). Where both are equal the choice does not matter, as
 * long as all three products make the same. */
static bool out_in(const struct exec_run *r, const struct op *o, const struct instance *i)
{
    for (uint32_t k = 0; k < o->n_operands; k++) {
        const struct operand *x = &o->operands[k];
        const struct tensor *t;

        if (x->tensor == OPERAND_WHOLE)
            continue;
        t = &r->p->model
                 ->tensors[r->p->model->units[(uint32_t)((int64_t)i->unit + x->d_unit)].first +
                           x->tensor];
        if (!t->is_bias)
            return t->shape[0] == o->call.n;
    }
    return true;
}

static struct kernel_on where(struct exec_run *r, size_t workspace)
{
    const struct job *j = &r->plan->job;

    return (struct kernel_on){.act = j->param_dtype,
                              .weight = j->param_dtype,
                              .grad = j->grad_dtype,
                              .workspace_bytes = workspace};
}

static void linear(struct exec_run *r, const struct op *o, const struct instance *i,
                   struct views *v)
{
    uint64_t m = o->call.m, n = o->call.n, k = o->call.k;
    bool oi = out_in(r, o, i);

    switch (o->call.kernel) {
    case KERNEL_GEMM: /* y (m,n) = x (m,k) w^T */
        product(r, false, oi, m, n, k, &v->read[0], &v->read[1], &v->write[0], false);
        if (v->n_read > 2) {
            struct kernel_on on = where(r, kernel_bias_workspace(n));
            struct kernel_bias b = {
                .rows = m, .width = n, .bias = v->read[2].data, .out = v->write[0].data};

            launch_bias(r->b, r->stream, &on, &b);
        }
        break;
    case KERNEL_GEMM_DGRAD: /* dx (m,k) += dy (m,n) w */
        if (v->add[0].data)
            product(r, false, !oi, m, k, n, &v->read[0], &v->read[1], &v->add[0], true);
        break;
    default: /* dw (n,k) += dy^T x, or dw (k,n) += x^T dy */
        if (oi)
            product(r, true, false, n, k, m, &v->read[0], &v->read[1], &v->add[0], true);
        else
            product(r, true, false, k, n, m, &v->read[1], &v->read[0], &v->add[0], true);
        if (v->n_add > 1) {
            struct kernel_on on = where(r, kernel_bias_workspace(n));
            struct kernel_bias b = {
                .rows = m, .width = n, .d_out = v->read[0].data, .d_bias = v->add[1].data};

            launch_bias_backward(r->b, r->stream, &on, &b);
        }
    }
}

/* ---- mixture of experts ---- */

static const struct unit_class *class_of(const struct exec_run *r, const struct instance *i)
{
    return &r->p->model->classes[r->p->model->units[i->unit].class_id];
}

static uint64_t n_tokens(const struct exec_run *r)
{
    return r->plan->job.micro_batch * r->plan->job.seq_len;
}

/* The value `routes`: a choice for every token and active expert, then where the experts' rows start. */
static struct kernel_choice *choices_of(const struct run_view *x)
{
    return (struct kernel_choice *)(void *)x->data;
}

static uint32_t *offsets_of(const struct exec_run *r, const struct instance *i,
                            const struct run_view *x)
{
    return (uint32_t *)(void *)(choices_of(x) + n_tokens(r) * class_of(r, i)->n_active);
}

/* One product an expert, on the rows that were routed to it; the last operand that is read says how many. */
static void experts(struct exec_run *r, const struct op *o, const struct instance *i,
                    struct views *v)
{
    uint64_t n = o->call.n, k = o->call.k;
    uint32_t n_experts = class_of(r, i)->n_experts, *at = MEM_NEW(uint32_t, n_experts + 1);
    const struct operand *weights = NULL;
    size_t size = dtype_bytes(r->plan->job.param_dtype, 1);

    for (uint32_t x = 0; x < o->n_operands; x++)
        if (o->operands[x].count)
            weights = &o->operands[x];
    BUG_ON(!weights || weights->count != n_experts);
    r->b->lib->download(r->b, r->stream, at, offsets_of(r, i, &v->read[v->n_read - 1]),
                        (n_experts + 1) * sizeof(*at));
    for (uint32_t e = 0; e < n_experts; e++) {
        struct run_view w = run_expert(r, weights, i, e), a = v->read[0], b = v->read[1], c;
        uint64_t m = at[e + 1] - at[e];

        if (!m)
            continue;
        if (o->call.kernel == KERNEL_GEMM) { /* y (m,n) = x (m,k) w^T */
            c = v->write[0];
            a.data += at[e] * k * size;
            c.data += at[e] * n * size;
            product(r, false, true, m, n, k, &a, &w, &c, false);
        } else if (o->call.kernel == KERNEL_GEMM_DGRAD) { /* dx (m,k) += dy (m,n) w */
            c = v->add[0];
            a.data += at[e] * n * size;
            c.data += at[e] * k * size;
            product(r, false, false, m, k, n, &a, &w, &c, true);
        } else { /* dw (n,k) += dy^T x */
            a.data += at[e] * n * size;
            b.data += at[e] * k * size;
            product(r, true, false, n, k, m, &a, &b, &w, true);
        }
    }
    mem_free(at);
}

static void route(struct exec_run *r, const struct instance *i, struct views *v, bool backward)
{
    const struct unit_class *c = class_of(r, i);
    struct kernel_on on = where(r, kernel_route_workspace(n_tokens(r), c->n_experts, c->n_active));
    struct kernel_route a = {.tokens = n_tokens(r),
                             .n_experts = c->n_experts,
                             .n_active = c->n_active,
                             .normalize = true};
    struct run_view *routes = backward ? &v->read[2] : &v->write[0];

    a.logits = v->read[backward].data;
    a.choices = choices_of(routes);
    a.offsets = offsets_of(r, i, routes);
    if (backward) {
        a.d_choices = (float *)(void *)v->read[0].data;
        a.d_logits = v->add[0].data;
        launch_route_backward(r->b, r->stream, &on, &a);
    } else {
        launch_route(r->b, r->stream, &on, &a);
    }
}

static void exchange(struct exec_run *r, const struct op *o, const struct instance *i,
                     struct views *v)
{
    struct kernel_on on = where(r, 0);
    struct kernel_exchange a = {
        .tokens = n_tokens(r), .hidden = o->call.n, .n_active = class_of(r, i)->n_active};

    a.choices = choices_of(&v->read[v->n_read - 1]);
    switch (o->call.kernel) {
    case KERNEL_DISPATCH:
    case KERNEL_COMBINE:
        a.in = v->read[0].data;
        a.out = v->write[0].data;
        (o->call.kernel == KERNEL_DISPATCH ? launch_dispatch : launch_combine)(r->b, r->stream, &on,
                                                                               &a);
        break;
    case KERNEL_DISPATCH_BACKWARD:
        a.d_out = v->read[0].data;
        a.d_in = v->add[0].data;
        launch_dispatch_backward(r->b, r->stream, &on, &a);
        break;
    default:
        a.d_out = v->read[0].data;
        a.in = v->read[1].data;
        a.d_in = v->add[0].data;
        a.d_choices = (float *)(void *)v->add[1].data;
        launch_combine_backward(r->b, r->stream, &on, &a);
    }
}

/* ---- the others ---- */

static void norm(struct exec_run *r, const struct op *o, struct views *v, bool rms, bool backward)
{
    struct kernel_on on = where(r, kernel_norm_workspace(o->call.n));
    struct kernel_norm a = {.rows = o->call.m, .width = o->call.n, .eps = 1e-5f};

    if (!backward) {
        a.x = v->read[0].data;
        a.weight = v->read[1].data;
        a.bias = v->n_read > 2 ? v->read[2].data : NULL;
        a.out = v->write[0].data;
        (rms ? launch_rmsnorm : launch_layernorm)(r->b, r->stream, &on, &a);
        return;
    }
    a.d_out = v->read[0].data;
    a.x = v->read[1].data;
    a.weight = v->read[2].data;
    a.bias = v->n_read > 3 ? v->read[3].data : NULL;
    a.d_x = v->add[0].data;
    a.d_weight = v->add[1].data;
    a.d_bias = v->n_add > 2 ? v->add[2].data : NULL;
    (rms ? launch_rmsnorm_backward : launch_layernorm_backward)(r->b, r->stream, &on, &a);
}

static void rope(struct exec_run *r, const struct op *o, const struct instance *i, struct views *v,
                 bool backward)
{
    uint64_t d = class_of(r, i)->head_dim;
    struct kernel_on on = where(r, kernel_rope_workspace(d));
    struct kernel_rope a = {.tokens = o->call.m,
                            .seq = r->plan->job.seq_len,
                            .heads = o->call.n / d,
                            .head_dim = d,
                            .theta = 10000};

    if (backward) {
        a.d_out = v->read[0].data;
        a.d_x = v->add[0].data;
        launch_rope_backward(r->b, r->stream, &on, &a);
    } else {
        a.x = v->read[0].data;
        a.out = v->write[0].data;
        launch_rope(r->b, r->stream, &on, &a);
    }
}

static void attention(struct exec_run *r, const struct instance *i, struct views *v, bool backward)
{
    const struct unit_class *c = class_of(r, i);
    const struct job *j = &r->plan->job;
    struct kernel_on on = where(r, kernel_attention_workspace(j->seq_len, c->head_dim));
    struct kernel_attention a = {.batch = j->micro_batch,
                                 .seq = j->seq_len,
                                 .heads = c->n_heads,
                                 .kv_heads = c->n_kv_heads,
                                 .head_dim = c->head_dim,
                                 .causal = c->causal,
                                 .scale = 1 / sqrtf((float)c->head_dim)};
    const struct run_view *in = backward ? &v->read[1] : &v->read[0];
    struct run_view *out = backward ? &v->read[v->n_read - 1] : &v->write[0];
    uint64_t elements = j->micro_batch * j->seq_len * c->n_heads * c->head_dim;

    if (c->fused_qkv) {
        kernel_attention_fuse(&a, on.act, in->data, backward ? v->add[0].data : NULL);
    } else {
        a.q = in[0].data;
        a.k = in[1].data;
        a.v = in[2].data;
        a.q_stride = (size_t)c->n_heads * c->head_dim;
        a.k_stride = a.v_stride = (size_t)c->n_kv_heads * c->head_dim;
        if (backward) {
            a.d_q = v->add[0].data;
            a.d_k = v->add[1].data;
            a.d_v = v->add[2].data;
        }
    }
    a.out = out->data;
    a.lse = (float *)(void *)(out->data +
                              elements * dtype_bytes(on.act, 1)); /* the value has room for it */
    if (backward) {
        a.d_out = v->read[0].data;
        launch_attention_backward(r->b, r->stream, &on, &a);
    } else {
        launch_attention(r->b, r->stream, &on, &a);
    }
}

static void activation(struct exec_run *r, const struct op *o, const struct instance *i,
                       struct views *v, bool backward)
{
    struct kernel_on on = where(r, 0);
    uint64_t first = backward ? 1 : 0, m = o->call.m, n = o->call.n;

    if (class_of(r, i)->act == ACT_SWIGLU) {
        struct kernel_swiglu a = {
            .n = m * n, .gate = v->read[first].data, .up = v->read[first + 1].data};

        a.out = backward ? NULL : v->write[0].data;
        if (backward) {
            a.d_out = v->read[0].data;
            a.d_gate = v->add[0].data;
            a.d_up = v->add[1].data;
        }
        (backward ? launch_swiglu_backward : launch_swiglu)(r->b, r->stream, &on, &a);
    } else {
        bool two = v->n_read > first + 1;
        struct kernel_gelu a = {.rows = m,
                                .width0 = two ? n / 2 : n,
                                .width1 = two ? n - n / 2 : 0,
                                .form = KERNEL_GELU_TANH,
                                .x0 = v->read[first].data,
                                .x1 = two ? v->read[first + 1].data : NULL};

        a.out = backward ? NULL : v->write[0].data;
        if (backward) {
            a.d_out = v->read[0].data;
            a.d_x0 = v->add[0].data;
            a.d_x1 = two ? v->add[1].data : NULL;
        }
        (backward ? launch_gelu_backward : launch_gelu)(r->b, r->stream, &on, &a);
    }
}

static void residual(struct exec_run *r, const struct op *o, struct views *v, bool backward)
{
    struct kernel_on on = where(r, 0);
    struct kernel_add a = {.n = o->call.m * o->call.n};

    if (backward) {
        a.d_out = v->read[0].data;
        a.d_x = v->add[0].data;
        a.d_y = v->add[1].data;
        launch_add_backward(r->b, r->stream, &on, &a);
    } else {
        a.x = v->read[0].data;
        a.y = v->read[1].data;
        a.out = v->write[0].data;
        launch_add(r->b, r->stream, &on, &a);
    }
}

/* ---- tokens and losses ---- */

/* Tokens or their targets of a micro-batch, made or read where they are needed: they depend on names only. */
static int64_t *tokens(struct exec_run *r, const struct instance *i, bool targets)
{
    const struct job *j = &r->plan->job;
    uint64_t n = j->micro_batch * j->seq_len;
    int64_t *x = run_scratch(r, SCRATCH_PACK, n * sizeof(*x)), *host = MEM_NEW(int64_t, 2 * n);

    data_batch(r, i->micro, host, host + n);
    r->b->lib->upload(r->b, r->stream, x, targets ? host + n : host, n * sizeof(*x));
    mem_free(host);
    return x;
}

static void embedding(struct exec_run *r, const struct op *o, const struct instance *i,
                      struct views *v, bool backward)
{
    struct kernel_on on = where(r, 0);
    struct kernel_embed a = {.tokens = o->call.m,
                             .hidden = o->call.n,
                             .vocab = r->p->model->vocab,
                             .ids = tokens(r, i, false)};

    if (backward) {
        a.d_out = v->read[0].data;
        a.d_table = v->add[v->n_add - 1].data;
        launch_embed_backward(r->b, r->stream, &on, &a);
    } else {
        a.table = v->read[1].data;
        a.out = v->write[0].data;
        launch_embed(r->b, r->stream, &on, &a);
    }
}

static void position(struct exec_run *r, const struct op *o, struct views *v, bool backward)
{
    struct kernel_on on = where(r, 0);
    struct kernel_position a = {
        .tokens = o->call.m, .hidden = o->call.n, .seq = r->plan->job.seq_len};

    if (backward) {
        a.d_out = v->read[0].data;
        a.d_x = v->add[0].data;
        a.d_table = v->add[1].data;
        launch_position_backward(r->b, r->stream, &on, &a);
    } else {
        a.x = v->read[0].data;
        a.table = v->read[1].data;
        a.out = v->write[0].data;
        launch_position(r->b, r->stream, &on, &a);
    }
}

static void cross_entropy(struct exec_run *r, const struct op *o, const struct instance *i,
                          struct views *v, bool backward)
{
    struct kernel_on on = where(r, 0);
    struct kernel_cross_entropy a = {.tokens = o->call.m,
                                     .vocab = o->call.n,
                                     .targets = tokens(r, i, true),
                                     .loss = r->losses + i->micro,
                                     .scale = 1.0f / (float)r->p->n_micro};

    if (backward) {
        a.log_probs = (float *)(void *)v->read[0].data;
        a.d_logits = v->add[0].data;
        launch_cross_entropy_backward(r->b, r->stream, &on, &a);
    } else {
        a.logits = v->read[0].data;
        a.log_probs = (float *)(void *)v->write[0].data;
        launch_cross_entropy(r->b, r->stream, &on, &a);
    }
}

/* Behind the last layer of a model without a head: the loss on its output, and the gradient that starts backward. */
static void output_loss(struct exec_run *r, const struct instance *i)
{
    struct kernel_on on = where(r, 0);
    uint64_t n =
        r->graphs[r->p->model->units[i->unit].class_id].values[0].bytes / dtype_bytes(on.act, 1);
    struct kernel_squared_error a = {.n = n,
                                     .x = r->output,
                                     .loss = r->losses + i->micro,
                                     .scale = 1.0f / (float)r->p->n_micro,
                                     .d_x = r->output_grad};

    run_zero(r, r->output_grad, n * dtype_bytes(on.act, 1));
    launch_squared_error(r->b, r->stream, &on, &a);
    launch_squared_error_backward(r->b, r->stream, &on, &a);
}

void run_output(struct exec_run *r, const struct instance *i)
{
    if (i->unit + 1 == r->p->model->n_units && class_of(r, i)->kind != UNIT_HEAD)
        output_loss(r, i);
}

int run_compute(struct exec_run *r, const struct op *o, const struct instance *i)
{
    struct views v;

    resolve(r, o, i, &v);
    switch (o->call.kernel) {
    case KERNEL_GEMM:
    case KERNEL_GEMM_DGRAD:
    case KERNEL_GEMM_WGRAD:
        for (uint32_t k = 0; k < o->n_operands; k++)
            if (o->operands[k].count) {
                experts(r, o, i, &v);
                return 0;
            }
        linear(r, o, i, &v);
        return 0;
    case KERNEL_ROUTE:
    case KERNEL_ROUTE_BACKWARD:
        route(r, i, &v, o->call.kernel == KERNEL_ROUTE_BACKWARD);
        return 0;
    case KERNEL_DISPATCH:
    case KERNEL_DISPATCH_BACKWARD:
    case KERNEL_COMBINE:
    case KERNEL_COMBINE_BACKWARD:
        exchange(r, o, i, &v);
        return 0;
    case KERNEL_RMSNORM:
    case KERNEL_RMSNORM_BACKWARD:
        norm(r, o, &v, true, o->call.kernel == KERNEL_RMSNORM_BACKWARD);
        return 0;
    case KERNEL_LAYERNORM:
    case KERNEL_LAYERNORM_BACKWARD:
        norm(r, o, &v, false, o->call.kernel == KERNEL_LAYERNORM_BACKWARD);
        return 0;
    case KERNEL_ROPE:
    case KERNEL_ROPE_BACKWARD:
        rope(r, o, i, &v, o->call.kernel == KERNEL_ROPE_BACKWARD);
        return 0;
    case KERNEL_ATTENTION:
    case KERNEL_ATTENTION_BACKWARD:
        attention(r, i, &v, o->call.kernel == KERNEL_ATTENTION_BACKWARD);
        return 0;
    case KERNEL_SWIGLU:
    case KERNEL_GELU:
        activation(r, o, i, &v, false);
        return 0;
    case KERNEL_SWIGLU_BACKWARD:
    case KERNEL_GELU_BACKWARD:
        activation(r, o, i, &v, true);
        return 0;
    case KERNEL_COPY: /* units are gathered and reduced in place */
        return 0;
    case KERNEL_ADD:
        residual(r, o, &v, v.n_add > 0);
        return 0;
    case KERNEL_EMBED:
    case KERNEL_EMBED_BACKWARD:
        embedding(r, o, i, &v, o->call.kernel == KERNEL_EMBED_BACKWARD);
        return 0;
    case KERNEL_POSITION_ADD:
    case KERNEL_POSITION_BACKWARD:
        position(r, o, &v, o->call.kernel == KERNEL_POSITION_BACKWARD);
        return 0;
    case KERNEL_CROSS_ENTROPY:
    case KERNEL_CROSS_ENTROPY_BACKWARD:
        cross_entropy(r, o, i, &v, o->call.kernel == KERNEL_CROSS_ENTROPY_BACKWARD);
        return 0;
    default:
        return err_set(r->e, ERR_UNSUPPORTED, "exec runs no %s", kernel_name(o->call.kernel));
    }
}
