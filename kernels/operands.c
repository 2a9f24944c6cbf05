/* One function a kernel, named as in functions.h: what it reads, what it writes in full, what it changes. */
#include "kernels/operands.h"

#include "core/err.h"

#include <string.h>

struct list {
    struct kernel_operand *to;
    unsigned n;
    const struct kernel_on *on;
    const char *a;
};

static void put(struct list *x, const void *field, uint64_t bytes, enum dtype d,
                enum kernel_content c, enum kernel_access access)
{
    struct kernel_operand o = {.at = (size_t)((const char *)field - x->a),
                               .bytes = bytes,
                               .type = d,
                               .content = c,
                               .access = access};

    memcpy(&o.p, field, sizeof(o.p));
    if (!o.p || !bytes)
        return;
    BUG_ON(x->n == KERNEL_MAX_OPERANDS);
    x->to[x->n++] = o;
}

static void reads(struct list *x, const void *field, enum dtype d, uint64_t n)
{
    put(x, field, dtype_bytes(d, n), d, CONTENT_FLOATS, ACCESS_IN);
}

/* In full, whatever was there. */
static void fills(struct list *x, const void *field, enum dtype d, uint64_t n)
{
    put(x, field, dtype_bytes(d, n), d, CONTENT_FLOATS, ACCESS_FILL);
}

static void writes(struct list *x, const void *field, enum dtype d, uint64_t n)
{
    put(x, field, dtype_bytes(d, n), d, CONTENT_FLOATS, ACCESS_CHANGE);
}

static void other(struct list *x, const void *field, uint64_t bytes, enum kernel_content c,
                  enum kernel_access access)
{
    put(x, field, bytes, DTYPE_FP32, c, access);
}

static void of_embed(struct list *x, const struct kernel_embed *a)
{
    other(x, &a->ids, a->tokens * sizeof(*a->ids), CONTENT_WORDS, ACCESS_IN);
    reads(x, &a->table, x->on->weight, a->vocab * a->hidden);
    fills(x, &a->out, x->on->act, a->tokens * a->hidden);
}

static void of_embed_backward(struct list *x, const struct kernel_embed *a)
{
    other(x, &a->ids, a->tokens * sizeof(*a->ids), CONTENT_WORDS, ACCESS_IN);
    reads(x, &a->d_out, x->on->act, a->tokens * a->hidden);
    writes(x, &a->d_table, x->on->grad, a->vocab * a->hidden);
}

static void of_position(struct list *x, const struct kernel_position *a)
{
    reads(x, &a->x, x->on->act, a->tokens * a->hidden);
    reads(x, &a->table, x->on->weight, a->seq * a->hidden);
    fills(x, &a->out, x->on->act, a->tokens * a->hidden);
}

static void of_position_backward(struct list *x, const struct kernel_position *a)
{
    reads(x, &a->d_out, x->on->act, a->tokens * a->hidden);
    writes(x, &a->d_x, x->on->act, a->tokens * a->hidden);
    writes(x, &a->d_table, x->on->grad, a->seq * a->hidden);
}

static void of_rmsnorm(struct list *x, const struct kernel_norm *a)
{
    reads(x, &a->x, x->on->act, a->rows * a->width);
    reads(x, &a->weight, x->on->weight, a->width);
    reads(x, &a->bias, x->on->weight, a->width);
    writes(x, &a->out, x->on->act, a->rows * a->width);
}

static void of_rmsnorm_backward(struct list *x, const struct kernel_norm *a)
{
    reads(x, &a->d_out, x->on->act, a->rows * a->width);
    reads(x, &a->x, x->on->act, a->rows * a->width);
    reads(x, &a->weight, x->on->weight, a->width);
    writes(x, &a->d_x, x->on->act, a->rows * a->width);
    writes(x, &a->d_weight, x->on->grad, a->width);
    writes(x, &a->d_bias, x->on->grad, a->width);
}

static void of_layernorm(struct list *x, const struct kernel_norm *a)
{
    of_rmsnorm(x, a);
}

static void of_layernorm_backward(struct list *x, const struct kernel_norm *a)
{
    of_rmsnorm_backward(x, a);
}

static void of_rope(struct list *x, const struct kernel_rope *a)
{
    reads(x, &a->x, x->on->act, a->tokens * a->heads * a->head_dim);
    fills(x, &a->out, x->on->act, a->tokens * a->heads * a->head_dim);
}

static void of_rope_backward(struct list *x, const struct kernel_rope *a)
{
    reads(x, &a->d_out, x->on->act, a->tokens * a->heads * a->head_dim);
    writes(x, &a->d_x, x->on->act, a->tokens * a->heads * a->head_dim);
}

/* Strided operands: from the first element to the last. */
static size_t strided(const struct kernel_attention *a, size_t stride, size_t heads)
{
    return (a->batch * a->seq - 1) * stride + heads * a->head_dim;
}

static void of_attention(struct list *x, const struct kernel_attention *a)
{
    reads(x, &a->q, x->on->act, strided(a, a->q_stride, a->heads));
    reads(x, &a->k, x->on->act, strided(a, a->k_stride, a->kv_heads));
    reads(x, &a->v, x->on->act, strided(a, a->v_stride, a->kv_heads));
    fills(x, &a->out, x->on->act, a->batch * a->seq * a->heads * a->head_dim);
    fills(x, &a->lse, DTYPE_FP32, a->batch * a->heads * a->seq);
}

static void of_attention_backward(struct list *x, const struct kernel_attention *a)
{
    reads(x, &a->q, x->on->act, strided(a, a->q_stride, a->heads));
    reads(x, &a->k, x->on->act, strided(a, a->k_stride, a->kv_heads));
    reads(x, &a->v, x->on->act, strided(a, a->v_stride, a->kv_heads));
    reads(x, &a->out, x->on->act, a->batch * a->seq * a->heads * a->head_dim);
    reads(x, &a->lse, DTYPE_FP32, a->batch * a->heads * a->seq);
    reads(x, &a->d_out, x->on->act, a->batch * a->seq * a->heads * a->head_dim);
    writes(x, &a->d_q, x->on->act, strided(a, a->q_stride, a->heads));
    writes(x, &a->d_k, x->on->act, strided(a, a->k_stride, a->kv_heads));
    writes(x, &a->d_v, x->on->act, strided(a, a->v_stride, a->kv_heads));
}

static void of_swiglu(struct list *x, const struct kernel_swiglu *a)
{
    reads(x, &a->gate, x->on->act, a->n);
    reads(x, &a->up, x->on->act, a->n);
    fills(x, &a->out, x->on->act, a->n);
}

static void of_swiglu_backward(struct list *x, const struct kernel_swiglu *a)
{
    reads(x, &a->gate, x->on->act, a->n);
    reads(x, &a->up, x->on->act, a->n);
    reads(x, &a->d_out, x->on->act, a->n);
    writes(x, &a->d_gate, x->on->act, a->n);
    writes(x, &a->d_up, x->on->act, a->n);
}

static void of_gelu(struct list *x, const struct kernel_gelu *a)
{
    reads(x, &a->x0, x->on->act, a->rows * a->width0);
    reads(x, &a->x1, x->on->act, a->rows * a->width1);
    fills(x, &a->out, x->on->act, a->rows * (a->width0 + a->width1));
}

static void of_gelu_backward(struct list *x, const struct kernel_gelu *a)
{
    reads(x, &a->x0, x->on->act, a->rows * a->width0);
    reads(x, &a->x1, x->on->act, a->rows * a->width1);
    reads(x, &a->d_out, x->on->act, a->rows * (a->width0 + a->width1));
    writes(x, &a->d_x0, x->on->act, a->rows * a->width0);
    writes(x, &a->d_x1, x->on->act, a->rows * a->width1);
}

static void of_add(struct list *x, const struct kernel_add *a)
{
    reads(x, &a->x, x->on->act, a->n);
    reads(x, &a->y, x->on->act, a->n);
    fills(x, &a->out, x->on->act, a->n);
}

static void of_add_backward(struct list *x, const struct kernel_add *a)
{
    reads(x, &a->d_out, x->on->act, a->n);
    writes(x, &a->d_x, x->on->act, a->n);
    writes(x, &a->d_y, x->on->act, a->n);
}

static void of_bias(struct list *x, const struct kernel_bias *a)
{
    reads(x, &a->bias, x->on->weight, a->width);
    writes(x, &a->out, x->on->act, a->rows * a->width);
}

static void of_bias_backward(struct list *x, const struct kernel_bias *a)
{
    reads(x, &a->d_out, x->on->act, a->rows * a->width);
    writes(x, &a->d_bias, x->on->grad, a->width);
}

static void choices(struct list *x, const struct kernel_route *a, bool write)
{
    other(x, &a->choices, a->tokens * a->n_active * sizeof(*a->choices), CONTENT_CHOICES,
          write ? ACCESS_CHANGE : ACCESS_IN);
    other(x, &a->offsets, (a->n_experts + 1) * sizeof(*a->offsets), CONTENT_WORDS,
          write ? ACCESS_CHANGE : ACCESS_IN);
}

static void of_route(struct list *x, const struct kernel_route *a)
{
    reads(x, &a->logits, x->on->act, a->tokens * a->n_experts);
    choices(x, a, true);
}

static void of_route_backward(struct list *x, const struct kernel_route *a)
{
    reads(x, &a->logits, x->on->act, a->tokens * a->n_experts);
    choices(x, a, false);
    reads(x, &a->d_choices, DTYPE_FP32, a->tokens * a->n_active);
    writes(x, &a->d_logits, x->on->act, a->tokens * a->n_experts);
}

static void exchange(struct list *x, const struct kernel_exchange *a, bool combines, bool backward)
{
    size_t few = a->tokens * a->hidden, many = few * a->n_active;

    other(x, &a->choices, a->tokens * a->n_active * sizeof(*a->choices), CONTENT_CHOICES,
          ACCESS_IN);
    reads(x, &a->in, x->on->act, combines ? many : few);
    if (!backward) {
        fills(x, &a->out, x->on->act, combines ? few : many);
        return;
    }
    reads(x, &a->d_out, x->on->act, combines ? few : many);
    writes(x, &a->d_in, x->on->act, combines ? many : few);
    writes(x, &a->d_choices, DTYPE_FP32, a->tokens * a->n_active);
}

static void of_dispatch(struct list *x, const struct kernel_exchange *a)
{
    exchange(x, a, false, false);
}

static void of_dispatch_backward(struct list *x, const struct kernel_exchange *a)
{
    exchange(x, a, false, true);
}

static void of_combine(struct list *x, const struct kernel_exchange *a)
{
    exchange(x, a, true, false);
}

static void of_combine_backward(struct list *x, const struct kernel_exchange *a)
{
    exchange(x, a, true, true);
}

static void of_cross_entropy(struct list *x, const struct kernel_cross_entropy *a)
{
    reads(x, &a->logits, x->on->act, a->tokens * a->vocab);
    other(x, &a->targets, a->tokens * sizeof(*a->targets), CONTENT_WORDS, ACCESS_IN);
    fills(x, &a->log_probs, DTYPE_FP32, a->tokens * a->vocab);
    fills(x, &a->loss, DTYPE_FP32, 1);
}

static void of_cross_entropy_backward(struct list *x, const struct kernel_cross_entropy *a)
{
    other(x, &a->targets, a->tokens * sizeof(*a->targets), CONTENT_WORDS, ACCESS_IN);
    reads(x, &a->log_probs, DTYPE_FP32, a->tokens * a->vocab);
    writes(x, &a->d_logits, x->on->act, a->tokens * a->vocab);
}

static void of_squared_error(struct list *x, const struct kernel_squared_error *a)
{
    reads(x, &a->x, x->on->act, a->n);
    reads(x, &a->target, x->on->act, a->n);
    fills(x, &a->loss, DTYPE_FP32, 1);
}

static void of_squared_error_backward(struct list *x, const struct kernel_squared_error *a)
{
    reads(x, &a->x, x->on->act, a->n);
    reads(x, &a->target, x->on->act, a->n);
    writes(x, &a->d_x, x->on->act, a->n);
}

static void of_momentum(struct list *x, const struct kernel_momentum *a)
{
    reads(x, &a->grad, a->grad_type, a->n);
    writes(x, &a->buf, a->state_type, a->n);
    fills(x, &a->update, a->update_type, a->n);
    other(x, &a->norm2, sizeof(*a->norm2), CONTENT_DOUBLE, ACCESS_FILL);
}

static void of_matrix_update(struct list *x, const struct kernel_matrix_update *a)
{
    reads(x, &a->update, a->update_type, a->n);
    writes(x, &a->param, a->param_type, a->n);
    writes(x, &a->master, DTYPE_FP32, a->n);
}

static void of_adamw(struct list *x, const struct kernel_adamw *a)
{
    reads(x, &a->grad, a->grad_type, a->n);
    writes(x, &a->param, a->param_type, a->n);
    writes(x, &a->m, a->state_type, a->n);
    writes(x, &a->v, a->state_type, a->n);
    writes(x, &a->master, DTYPE_FP32, a->n);
}

static void of_cast(struct list *x, const struct kernel_cast *a)
{
    reads(x, &a->x, a->x_type, a->n);
    fills(x, &a->y, a->y_type, a->n);
}

static void of_scale(struct list *x, const struct kernel_scale *a)
{
    writes(x, &a->x, a->type, a->n);
}

static void of_normalize(struct list *x, const struct kernel_normalize *a)
{
    other(x, &a->norm2, sizeof(*a->norm2), CONTENT_DOUBLE, ACCESS_IN);
    writes(x, &a->x, a->type, a->n);
}

static void of_diagonal(struct list *x, const struct kernel_diagonal *a)
{
    writes(x, &a->x, a->type, a->n * a->n);
}

static void of_axpy(struct list *x, const struct kernel_axpy *a)
{
    reads(x, &a->x, a->x_type, a->n);
    writes(x, &a->y, a->y_type, a->n);
}

static void of_sum(struct list *x, const struct kernel_sum *a)
{
    reads(x, &a->x, a->type, a->n);
    reads(x, &a->y, a->type, a->n);
    writes(x, &a->out, a->type, a->n); /* may be x or y */
}

static void of_reduce(struct list *x, const struct kernel_reduce *a)
{
    reads(x, &a->own_part, a->type, a->n);
    reads(x, &a->others, a->type, a->n * (a->n_parts - 1));
    writes(x, &a->out, a->type, a->n); /* may be own_part */
}

static void of_moments(struct list *x, const struct kernel_moments *a)
{
    size_t block = (a->rows - 1) * a->ld + a->cols;

    reads(x, &a->grad, a->grad_type, block);
    writes(x, &a->m, a->state_type, block);
    writes(x, &a->v, a->state_type, block);
    fills(x, &a->g, DTYPE_FP32, a->rows * a->cols);
    fills(x, &a->direction, DTYPE_FP32, a->rows * a->cols);
    other(x, &a->adam, sizeof(*a->adam), CONTENT_DOUBLE, ACCESS_CHANGE);
}

static void of_root(struct list *x, const struct kernel_root *a)
{
    reads(x, &a->values, DTYPE_FP32, a->n);
    other(x, &a->info, sizeof(*a->info), CONTENT_WORDS, ACCESS_IN);
    writes(x, &a->vectors, DTYPE_FP32, a->n * a->n);
}

static void of_graft(struct list *x, const struct kernel_graft *a)
{
    reads(x, &a->x, DTYPE_FP32, a->rows * a->cols);
    other(x, &a->adam, sizeof(*a->adam), CONTENT_DOUBLE, ACCESS_IN);
    writes(x, &a->to, DTYPE_FP32, (a->rows - 1) * a->ld + a->cols);
}

static void of_average(struct list *x, const struct kernel_average *a)
{
    reads(x, &a->x, DTYPE_FP32, a->n);
    writes(x, &a->mean, DTYPE_FP32, a->n);
}

static void of_adam_step(struct list *x, const struct kernel_adam_step *a)
{
    reads(x, &a->v, DTYPE_FP32, a->n);
    writes(x, &a->x, DTYPE_FP32, a->n);
}

static void of_order(struct list *x, const struct kernel_order *a)
{
    reads(x, &a->x, DTYPE_FP32, a->n * a->n);
    reads(x, &a->y, DTYPE_FP32, a->n * a->n);
    writes(x, &a->values, DTYPE_FP32, a->n);
    fills(x, &a->sorted, DTYPE_FP32, a->n);
    other(x, &a->place, a->n * sizeof(*a->place), CONTENT_WORDS, ACCESS_CHANGE);
}

static void of_permute(struct list *x, const struct kernel_permute *a)
{
    other(x, &a->row_place, a->rows * sizeof(*a->row_place), CONTENT_WORDS, ACCESS_IN);
    other(x, &a->col_place, a->cols * sizeof(*a->col_place), CONTENT_WORDS, ACCESS_IN);
    reads(x, &a->from, DTYPE_FP32, a->rows * a->cols);
    writes(x, &a->to, DTYPE_FP32, a->rows * a->cols);
}

static void of_quantize(struct list *x, const struct kernel_quantize *a)
{
    reads(x, &a->x, a->type, a->n);
    other(x, &a->q, dtype_bytes(a->codes, a->n), CONTENT_WORDS, ACCESS_FILL);
    fills(x, &a->scale, DTYPE_FP32, kernel_quantize_blocks(a->n));
}

static void of_dequantize(struct list *x, const struct kernel_quantize *a)
{
    other(x, &a->q, dtype_bytes(a->codes, a->n), CONTENT_WORDS, ACCESS_IN);
    reads(x, &a->scale, DTYPE_FP32, kernel_quantize_blocks(a->n));
    fills(x, &a->x, a->type, a->n);
}

static void of_symmetric(struct list *x, const struct kernel_symmetric *a)
{
    reads(x, &a->x, DTYPE_BF16, a->n * a->k);
    reads(x, &a->add, DTYPE_BF16, a->n * a->n);
    fills(x, &a->c, DTYPE_BF16, a->n * a->n);
}

static void of_orthogonalize(struct list *x, const struct kernel_orthogonalize *a)
{
    other(x, &a->norm2, sizeof(*a->norm2), CONTENT_DOUBLE, ACCESS_IN);
    writes(x, &a->matrix, a->type, a->rows * a->cols);
}

static void of_shampoo(struct list *x, const struct kernel_shampoo *a)
{
    reads(x, &a->grad, a->grad_type, a->rows * a->cols);
    writes(x, &a->state, a->state_type, kernel_shampoo_state(a->rows, a->cols, &a->hyper));
    fills(x, &a->update, DTYPE_FP32, a->rows * a->cols);
}

static void of_soap(struct list *x, const struct kernel_soap *a)
{
    reads(x, &a->grad, a->grad_type, a->rows * a->cols);
    writes(x, &a->state, a->state_type, kernel_soap_state(a->rows, a->cols, &a->hyper));
    fills(x, &a->update, DTYPE_FP32, a->rows * a->cols);
}

unsigned kernel_operands(enum kernel_function f, const struct kernel_on *on, const void *a,
                         struct kernel_operand to[KERNEL_MAX_OPERANDS])
{
    struct list x = {.to = to, .on = on, .a = a};

    switch (f) {
#define OF(name, type)                                                                             \
    case KERNEL_FN_##name:                                                                         \
        of_##name(&x, a);                                                                          \
        break;
        KERNEL_FUNCTIONS(OF)
#undef OF
    case KERNEL_FN_N:
        break;
    }
    return x.n;
}

size_t kernel_arguments_bytes(enum kernel_function f)
{
#define SIZE(name, type) sizeof(struct type),
    static const size_t n[] = {KERNEL_FUNCTIONS(SIZE)};
#undef SIZE

    return n[f];
}

const char *kernel_function_name(enum kernel_function f)
{
#define NAME(name, type) #name,
    static const char *const names[] = {KERNEL_FUNCTIONS(NAME)};
#undef NAME

    return names[f];
}

void kernel_call(enum kernel_function f, const struct kernel_on *on, const void *a)
{
    switch (f) {
#define CALL(name, type)                                                                           \
    case KERNEL_FN_##name:                                                                         \
        kernel_##name(on, a);                                                                      \
        return;
        KERNEL_FUNCTIONS(CALL)
#undef CALL
    case KERNEL_FN_N:
        break;
    }
    BUG_ON(true);
}
