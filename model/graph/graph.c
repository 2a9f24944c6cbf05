/* Builds the dataflow of one unit. The FLOP and byte counts follow the header's rules; the backward of a kernel is taken
 * to read what its forward read plus the incoming gradient, and to write the outgoing ones. */
#include "model/graph/graph.h"

#include "model/graph/graph_build.h"

#include "core/num.h"

#include <string.h>

const char *kernel_name(enum kernel k)
{
    switch (k) {
#define X(v, name, bound)                                                                          \
    case v:                                                                                        \
        return name;
        KERNELS(X)
#undef X
    case KERNEL_N:
        break;
    }
    return "?";
}

char kernel_bound(enum kernel k)
{
    switch (k) {
#define X(v, name, bound)                                                                          \
    case v:                                                                                        \
        return bound;
        KERNELS(X)
#undef X
    case KERNEL_N:
        break;
    }
    return 'E';
}

const char *carried_name(enum carry c)
{
    switch (c) {
#define X(v, name)                                                                                 \
    case v:                                                                                        \
        return name;
        CARRIED(X)
#undef X
    case CARRIED_N:
        break;
    }
    return "?";
}

uint64_t graph_tokens(const struct graph_batch *n, enum stack_kind s)
{
    return s == STACK_DECODER && n->target_len ? n->target_len : n->seq_len;
}

uint64_t build_mul(struct build *b, uint64_t x, uint64_t y)
{
    uint64_t r;

    b->overflow |= !num_mul(x, y, &r);
    return r;
}

uint64_t build_mul3(struct build *b, uint64_t x, uint64_t y, uint64_t z)
{
    return build_mul(b, build_mul(b, x, y), z);
}

uint64_t build_sum(struct build *b, uint64_t x, uint64_t y)
{
    uint64_t r;

    b->overflow |= !num_add(x, y, &r);
    return r;
}

uint64_t build_bytes(struct build *b, uint64_t elements)
{
    return build_mul(b, elements, dtype_bytes(b->act, 1));
}

uint32_t build_find(const struct build *b, enum tensor_slot slot, bool is_bias)
{
    for (uint32_t i = 0; i < b->u->n; i++) {
        const struct tensor *t = &b->m->tensors[b->u->first + i];

        if (t->slot == slot && t->is_bias == is_bias)
            return i;
    }
    return MODEL_NONE;
}

const struct tensor *build_tensor(const struct build *b, enum tensor_slot slot)
{
    uint32_t i = build_find(b, slot, false);

    return i == MODEL_NONE ? NULL : &b->m->tensors[b->u->first + i];
}

uint32_t build_value(struct build *b, const char *name, uint64_t elements)
{
    struct unit_graph *g = b->g;

    BUG_ON(g->n_values == GRAPH_MAX_VALUES);
    g->values[g->n_values] = (struct graph_value){.name = name, .bytes = build_bytes(b, elements)};
    return g->n_values++;
}

struct graph_op *build_op(struct build *b, const char *name, uint32_t out)
{
    struct unit_graph *g = b->g;
    struct graph_op *o;

    BUG_ON(g->n_ops == GRAPH_MAX_OPS);
    o = &g->ops[g->n_ops++];
    memset(o, 0, sizeof(*o));
    o->name = name;
    o->out = out;
    o->weight = o->bias = o->counts = MODEL_NONE;
    o->weight_stride = 1;
    g->output = out;
    return o;
}

void build_input(struct graph_op *o, uint32_t v, bool saved)
{
    BUG_ON(o->n_in == GRAPH_MAX_IN);
    o->saves_in[o->n_in] = saved;
    o->in[o->n_in++] = v;
}

/* An elementwise kernel: `moved` bytes of HBM, m x n elements. */
static struct kernel_call moving(enum kernel k, uint64_t m, uint64_t n, uint64_t moved,
                                 uint64_t flops)
{
    return (struct kernel_call){
        .kernel = k, .m = m, .n = n, .batch = 1, .flops = flops, .hbm_bytes = moved, .launches = 1};
}

static struct kernel_call gemm_call(struct build *b, enum kernel kernel, uint64_t m, uint64_t n,
                                    uint64_t k, uint64_t batch)
{
    uint64_t elements =
        build_sum(b, build_sum(b, build_mul(b, m, k), build_mul(b, k, n)), build_mul(b, m, n));

    return (struct kernel_call){.kernel = kernel,
                                .m = m,
                                .n = n,
                                .k = k,
                                .batch = batch,
                                .flops = build_mul(b, build_mul3(b, 2 * m, n, k), batch),
                                .hbm_bytes = build_mul(b, build_bytes(b, elements), batch),
                                .launches = 1,
                                .fp32 = b->act == DTYPE_FP32};
}

void build_gemm(struct build *b, const char *name, uint32_t in, uint32_t out, enum tensor_slot slot,
                uint64_t rows, uint64_t n, uint64_t k, uint64_t batch)
{
    struct graph_op *o = build_op(b, name, out);

    build_input(o, in, true);
    o->weight = build_find(b, slot, false);
    o->bias = build_find(b, slot, true);
    o->n_weights = (uint32_t)batch;
    if (batch > 1) /* experts lie one after another, with the same tensors each */
        for (uint32_t i = o->weight + 1; i < b->u->n; i++)
            if (b->m->tensors[b->u->first + i].slot == slot &&
                !b->m->tensors[b->u->first + i].is_bias) {
                o->weight_stride = i - o->weight;
                break;
            }
    b->g->values[out].heavy = true;
    o->forward = gemm_call(b, KERNEL_GEMM, rows, n, k, batch);
    o->n_backward = 2;
    o->backward[0] = gemm_call(b, KERNEL_GEMM_DGRAD, rows, n, k, batch);
    o->backward_name[0] = "dgrad";
    o->backward[1] = gemm_call(b, KERNEL_GEMM_WGRAD, rows, n, k, batch);
    o->backward_name[1] = "wgrad";
}

/* A norm over `width` of `rows` rows: forward reads and writes; backward reads the input and the gradient, writes. */
void build_norm(struct build *b, const char *name, uint32_t in, uint32_t out, enum tensor_slot slot,
                uint64_t rows, uint64_t width)
{
    bool inner = slot == SLOT_Q_NORM || slot == SLOT_K_NORM || slot == SLOT_MIXER_NORM;
    bool rms = b->c->norm == NORM_RMS || inner;
    struct graph_op *o = build_op(b, name, out);
    uint64_t n = build_mul(b, rows, width);

    build_input(o, in, true);
    o->weight = build_find(b, slot, false);
    o->bias = build_find(b, slot, true);
    o->n_weights = 1;
    o->forward = moving(rms ? KERNEL_RMSNORM : KERNEL_LAYERNORM, rows, width,
                        build_bytes(b, build_mul(b, n, 2)), build_mul(b, n, 4));
    o->n_backward = 1;
    o->backward[0] = moving(rms ? KERNEL_RMSNORM_BACKWARD : KERNEL_LAYERNORM_BACKWARD, rows, width,
                            build_bytes(b, build_mul(b, n, 3)), build_mul(b, n, 8));
    o->backward_name[0] = "backward";
}

void build_elementwise(struct build *b, const char *name, enum kernel fwd, enum kernel bwd,
                       uint64_t rows, uint64_t width, uint64_t fwd_streams, uint64_t bwd_streams,
                       uint32_t out)
{
    struct graph_op *o = build_op(b, name, out);
    uint64_t n = build_mul(b, rows, width);

    o->forward =
        moving(fwd, rows, width, build_bytes(b, build_mul(b, n, fwd_streams)), build_mul(b, n, 4));
    if (bwd != KERNEL_NONE) {
        o->n_backward = 1;
        o->backward[0] = moving(bwd, rows, width, build_bytes(b, build_mul(b, n, bwd_streams)),
                                build_mul(b, n, 8));
        o->backward_name[0] = "backward";
    }
}

struct graph_op *build_last(struct build *b)
{
    return &b->g->ops[b->g->n_ops - 1];
}

uint32_t build_value_between(struct build *b, const char *name, uint64_t width)
{
    return build_value(b, name, build_mul(b, b->between, width));
}

static uint32_t build_exchange(struct build *b, const char *name, uint64_t tokens, uint64_t width,
                               enum exchange_kind forward, enum exchange_kind backward)
{
    uint32_t out = build_value(b, name, build_mul(b, tokens, width));
    struct graph_op *o = build_op(b, name, out);

    o->is_exchange = true;
    o->exchange_forward = forward;
    o->exchange_backward = backward;
    o->exchange_elements = build_mul(b, b->tokens, width);
    o->exchange_calls = 1;
    o->n_backward = 1;
    o->backward_name[0] = "backward";
    return out;
}

uint32_t build_enter(struct build *b, const char *name, uint64_t width, uint32_t x)
{
    bool shared = b->between < b->tokens;
    uint32_t out;

    if (b->tp < 2)
        return x;
    out = build_exchange(b, name, b->tokens, width, shared ? EXCHANGE_ALL_GATHER : EXCHANGE_NONE,
                         shared ? EXCHANGE_REDUCE_SCATTER : EXCHANGE_ALL_REDUCE);
    /* the gathered copy is not kept: it is gathered again for the gradients of weights */
    b->g->values[out].again = shared;
    build_input(build_last(b), x, shared);
    return out;
}

uint32_t build_leave(struct build *b, const char *name, uint64_t width, uint32_t y)
{
    bool shared = b->between < b->tokens;
    uint32_t out;

    if (b->tp < 2)
        return y;
    out = build_exchange(b, name, b->between, width,
                         shared ? EXCHANGE_REDUCE_SCATTER : EXCHANGE_ALL_REDUCE,
                         shared ? EXCHANGE_ALL_GATHER : EXCHANGE_NONE);
    build_input(build_last(b), y, false);
    return out;
}

uint32_t build_sum_of(struct build *b, const char *name, const char *value_name, uint64_t tokens,
                      uint32_t x, uint32_t y)
{
    uint32_t out = build_value(b, value_name, build_mul(b, tokens, b->c->hidden));

    /* d(x) = d(y) = d(out): no kernel of its own, but the two gradients meet in one addition. */
    build_elementwise(b, name, KERNEL_ADD, KERNEL_ADD, tokens, b->c->hidden, 3, 3, out);
    build_input(build_last(b), x, false);
    build_input(build_last(b), y, false);
    return out;
}

uint32_t build_residual(struct build *b, const char *name, const char *value_name, uint32_t x,
                        uint32_t y)
{
    return build_sum_of(b, name, value_name, b->between, x, y);
}

/* A table's rows, one a token, added to x. */
static uint32_t build_add_table(struct build *b, const char *name, const char *value_name,
                                enum tensor_slot slot, uint32_t x)
{
    uint32_t y = build_value_between(b, value_name, b->c->hidden);

    build_elementwise(b, name, KERNEL_POSITION_ADD, KERNEL_POSITION_BACKWARD, b->between,
                      b->c->hidden, 3, 2, y);
    build_input(build_last(b), x, false);
    build_last(b)->weight = build_find(b, slot, false);
    build_last(b)->n_weights = 1;
    return y;
}

/* Index of the token table in unit 0. */
static uint32_t token_table(const struct build *b)
{
    const struct build first = {.m = b->m, .u = &b->m->units[0]};

    return build_find(&first, SLOT_TOKEN_EMBEDDING, false);
}

static void build_embed(struct build *b)
{
    const struct unit_class *c = b->c;
    uint64_t width = c->embed_dim ? c->embed_dim : c->hidden,
             n = build_mul(b, b->between, c->hidden);
    uint32_t ids = build_value(b, "tokens", 0), x, y;
    struct graph_op *o;

    /* the decoder's come with the encoder's */
    b->g->values[ids].bytes =
        build_mul3(b, b->micro, build_sum(b, b->seq, c->stack == STACK_ENCODER ? b->target : 0), 8);
    x = build_value(b, "x", build_mul(b, b->tokens, width));
    build_elementwise(b, "embed", KERNEL_EMBED, KERNEL_EMBED_BACKWARD, b->tokens, width, 2, 3, x);
    o = build_last(b);
    build_input(o, ids, true);
    o->weight = build_find(b, SLOT_TOKEN_EMBEDDING, false);
    o->n_weights = 1;
    x = build_leave(b, "embed_out", width, x);
    if (c->embed_dim) {
        y = build_value(b, "x_in", n);
        build_gemm(b, "project_in", x, y, SLOT_PROJECT_IN, b->between, c->hidden, width, 1);
        x = y;
    }
    if (build_tensor(b, SLOT_POSITION))
        x = build_add_table(b, "position", "x_pos", SLOT_POSITION, x);
    if (build_tensor(b, SLOT_TOKEN_TYPE))
        x = build_add_table(b, "token_type", "x_type", SLOT_TOKEN_TYPE, x);
    if (build_tensor(b, SLOT_EMBED_NORM)) {
        y = build_value(b, "x_norm", n);
        build_norm(b, "embed_norm", x, y, SLOT_EMBED_NORM, b->between, c->hidden);
    }
}

/* Between an encoder and its decoder: the norm of what the encoder made, which all layers of the decoder read, and the
 * decoder's tokens, looked up in the encoder's table. */
static void build_bridge(struct build *b)
{
    uint64_t tokens = build_mul(b, b->micro, b->source), n = build_mul(b, tokens, b->c->hidden);
    uint32_t x = build_value(b, "x", n), y;

    build_norm(b, "encoder_norm", x, build_carried(b, CARRIED_ENCODED, "encoded", n),
               SLOT_ENCODER_NORM, tokens, b->c->hidden);
    y = build_value_of(b, "y", b->c->hidden);
    build_elementwise(b, "embed", KERNEL_EMBED, KERNEL_EMBED_BACKWARD, b->tokens, b->c->hidden, 2,
                      3, y);
    build_last(b)->weight_of_embedding = true;
    build_last(b)->weight = token_table(b);
    build_last(b)->n_weights = 1;
}

/* The product with the vocabulary, and the loss: in fp32, logits read, a copy written and read (log-softmax); backward
 * reads it and writes d(logits). `next` are scores that the loss reads beside them, or MODEL_NONE. */
static void build_logits(struct build *b, uint32_t in, uint64_t rows, uint64_t width, uint32_t next)
{
    const struct unit_class *c = b->c;
    uint64_t n_logits = build_mul(b, rows, c->vocab);
    uint32_t logits = build_value(b, "logits", n_logits), loss;
    struct graph_op *o;

    build_gemm(b, "logits", in, logits, SLOT_HEAD, rows, c->vocab, width, 1);
    if (c->tied) {
        build_last(b)->weight_of_embedding = true;
        build_last(b)->weight = token_table(b);
    }
    loss = build_value(b, "loss_fp32", build_mul(b, n_logits, 4 / dtype_bytes(b->act, 1)));
    b->g->values[logits].logits = b->g->values[loss].logits = true;
    if (b->tp > 1) { /* over shards of the vocabulary: the largest logit, the sum, the target's */
        uint32_t shared = build_value(b, "loss_shared", 0);

        b->g->values[shared].bytes = build_mul(b, rows, 12);
        o = build_op(b, "loss_shared", shared);
        o->is_exchange = true;
        o->exchange_forward = EXCHANGE_ALL_REDUCE;
        o->exchange_elements = rows;
        o->exchange_calls = 3;
        o->exchange_fp32 = true;
        build_input(o, logits, false);
    }
    o = build_op(b, "cross_entropy", loss);
    build_input(o, logits, false);
    if (next != MODEL_NONE)
        build_input(o, next, false);
    o->saves_out = true;
    o->forward = moving(KERNEL_CROSS_ENTROPY, rows, c->vocab,
                        build_sum(b, build_bytes(b, n_logits), build_mul(b, n_logits, 8)),
                        build_mul(b, n_logits, 5));
    o->forward.launches = 2;
    o->n_backward = 1;
    o->backward[0] = moving(KERNEL_CROSS_ENTROPY_BACKWARD, rows, c->vocab,
                            build_sum(b, build_bytes(b, n_logits), build_mul(b, n_logits, 4)),
                            build_mul(b, n_logits, 2));
    o->backward_name[0] = "backward";
}

/* BERT's: the first token of each sequence, a linear layer, tanh. */
static uint32_t build_pooler(struct build *b, uint32_t x)
{
    uint64_t hidden = b->c->hidden, n = build_mul(b, b->micro, hidden);
    uint32_t first = build_value(b, "first", n), y = build_value(b, "pooler", n);

    build_elementwise(b, "first", KERNEL_DISPATCH, KERNEL_DISPATCH_BACKWARD, b->micro, hidden, 2, 1,
                      first);
    build_input(build_last(b), x, false);
    build_last(b)->backward[0].hbm_bytes =
        build_bytes(b, build_sum(b, n, build_of_tokens(b, hidden))); /* the others' are zeros */
    build_gemm(b, "pooler", first, y, SLOT_POOLER, b->micro, hidden, hidden, 1);
    first = build_value(b, "pooled", n);
    build_elementwise(b, "tanh", KERNEL_TANH, KERNEL_TANH_BACKWARD, b->micro, hidden, 2, 3, first);
    build_input(build_last(b), y, false);
    build_last(b)->saves_out = true;
    return first;
}

/* BERT's ends: a pooler alone, which others build on; with classes on it; the words of the text, with or without the
 * question whether its second part follows the first. */
static void build_bert_head(struct build *b, uint32_t x)
{
    uint64_t hidden = b->c->hidden;
    uint32_t pooled = MODEL_NONE, next = MODEL_NONE, y;

    if (build_tensor(b, SLOT_POOLER))
        pooled = build_pooler(b, x);
    if (build_tensor(b, SLOT_NEXT)) {
        next = build_value(b, "next", build_mul(b, b->micro, 2));
        build_gemm(b, "next", pooled, next, SLOT_NEXT, b->micro, 2, hidden, 1);
    }
    if (build_tensor(b, SLOT_TRANSFORM)) {
        x = build_linear(b, "transform", SLOT_TRANSFORM, x, hidden, hidden);
        y = build_value_of(b, "transform_act", hidden);
        build_activation(b, "transform_act", b->tokens, hidden, y);
        build_input(build_last(b), x, true);
        x = build_norm_if(b, "transform_norm", SLOT_TRANSFORM_NORM, y);
        build_logits(b, x, b->tokens, hidden, next);
    } else if (build_tensor(b, SLOT_HEAD)) {
        build_logits(b, pooled, b->micro, hidden, next);
    }
}

static void build_head(struct build *b)
{
    const struct unit_class *c = b->c;
    uint64_t width = c->embed_dim ? c->embed_dim : c->hidden;
    uint32_t x = build_value_between(b, "x", c->hidden), y;

    if (build_tensor(b, SLOT_FINAL_NORM)) {
        y = build_value_between(b, "final_norm", c->hidden);
        build_norm(b, "final_norm", x, y, SLOT_FINAL_NORM, b->between, c->hidden);
        x = y;
    }
    if (c->embed_dim) {
        y = build_value_between(b, "x_out", width);
        build_gemm(b, "project_out", x, y, SLOT_PROJECT_OUT, b->between, width, c->hidden, 1);
        x = y;
    }
    x = build_enter(b, "head_in", width, x);
    if (build_tensor(b, SLOT_TRANSFORM) || build_tensor(b, SLOT_POOLER))
        build_bert_head(b, x);
    else
        build_logits(b, x, b->tokens, width, MODEL_NONE);
}

int graph_build(const struct model *m, uint32_t class_id, const struct graph_batch *n,
                enum dtype act, struct unit_graph *g, struct err *e)
{
    const struct unit_class *c = &m->classes[class_id];
    struct build b = {.m = m,
                      .u = &m->units[c->example],
                      .c = c,
                      .g = g,
                      .act = act,
                      .seq = graph_tokens(n, c->stack),
                      .source = n->seq_len,
                      .target = graph_tokens(n, STACK_DECODER),
                      .micro = n->micro_batch};

    memset(g, 0, sizeof(*g));
    b.tp = n->tp ? n->tp : 1;
    b.tokens = build_mul(&b, b.micro, b.seq);
    b.between = n->sequence_parallel ? b.tokens / b.tp : b.tokens;
    switch (c->kind) {
    case UNIT_EMBED:
        build_embed(&b);
        break;
    case UNIT_LAYER:
        build_layer(&b);
        break;
    case UNIT_HEAD:
        build_head(&b);
        break;
    case UNIT_BRIDGE:
        build_bridge(&b);
        break;
    }
    for (uint32_t i = 0; i < g->n_ops; i++) {
        const struct graph_op *o = &g->ops[i];

        for (uint32_t j = 0; j < o->n_in; j++)
            g->values[o->in[j]].needed |= o->saves_in[j];
        g->values[o->out].needed |= o->saves_out;
        g->forward_flops = build_sum(&b, g->forward_flops, o->forward.flops);
        for (uint32_t j = 0; j < o->n_backward; j++)
            g->backward_flops = build_sum(&b, g->backward_flops, o->backward[j].flops);
    }
    if (b.overflow)
        return err_set(e, ERR_OVERFLOW,
                       "unit '%s' with %llu tokens a micro-batch: FLOPs or bytes pass 2^63; use a "
                       "smaller --seq-len or --micro-batch",
                       m->units[c->example].name, (unsigned long long)b.tokens);
    return 0;
}

int graph_unfuse_attention(struct unit_graph *g, enum dtype act, struct err *e)
{
    struct build b = {.g = g, .act = act};

    for (uint32_t i = 0; i < g->n_ops; i++) {
        struct graph_op *o = &g->ops[i];
        uint64_t rows = build_mul(&b, o->forward.batch, o->forward.m), scores;

        if (o->forward.kernel != KERNEL_ATTENTION)
            continue;
        scores = build_mul(&b, rows, o->forward.n);
        o->saves_out = false;
        g->values[o->out].bytes -= 4 * rows; /* row sums in fp32 */
        g->values[o->out].needed = false;
        for (uint32_t k = 0; k < g->n_ops; k++)
            for (uint32_t x = 0; x < g->ops[k].n_in; x++)
                g->values[o->out].needed |= g->ops[k].in[x] == o->out && g->ops[k].saves_in[x];
        o->beside = build_value(&b, strcmp(o->name, "cross") ? "scores" : "cross_scores", 0);
        g->values[o->beside].bytes = build_mul(&b, scores, 2 * dtype_bytes(act, 1) + 1);
        g->values[o->beside].needed = true;
    }
    if (b.overflow)
        return err_set(
            e, ERR_OVERFLOW,
            "attention's scores pass 2^63 bytes; use a smaller --seq-len or --micro-batch");
    return 0;
}

void graph_fuse_loss(struct unit_graph *g)
{
    for (uint32_t i = 0; i < g->n_ops; i++) {
        struct graph_op *o = &g->ops[i];

        if (o->forward.kernel != KERNEL_CROSS_ENTROPY)
            continue;
        o->saves_in[0] = true;
        g->values[o->in[0]].needed = true;
        g->values[o->out].bytes = 4 * o->forward.m;
        o->forward.hbm_bytes = g->values[o->in[0]].bytes;
        o->backward[0].hbm_bytes = 2 * g->values[o->in[0]].bytes;
    }
}

/* Tokens that a parameter meets for each of the sequence that counts. */
static double meets(const struct unit_class *c, const struct tensor *t, bool pooled,
                    const struct graph_batch *n)
{
    double source = (double)n->seq_len, target = (double)graph_tokens(n, c->stack) / source;
    bool one = t->slot == SLOT_POOLER || t->slot == SLOT_NEXT || (pooled && t->slot == SLOT_HEAD);

    if (one)
        return 1 / source;
    return t->slot == SLOT_CROSS_K || t->slot == SLOT_CROSS_V || t->slot == SLOT_ENCODER_NORM
               ? 1
               : target;
}

/* What the parameters of a unit do more or less than 6 FLOPs a token of the sequence that counts. */
static double met_otherwise(const struct model *m, const struct unit *u,
                            const struct graph_batch *n)
{
    const struct unit_class *c = &m->classes[u->class_id];
    bool pooled = false, words = false;
    double sum = 0;

    for (uint32_t i = u->first; i < u->first + u->n; i++) {
        pooled |= m->tensors[i].slot == SLOT_POOLER;
        words |= m->tensors[i].slot == SLOT_TRANSFORM;
    }
    for (uint32_t i = u->first; i < u->first + u->n; i++)
        if (m->tensors[i].role != ROLE_POSITION && m->tensors[i].role != ROLE_EMBEDDING)
            sum +=
                (double)m->tensors[i].numel * (meets(c, &m->tensors[i], pooled && !words, n) - 1);
    if (c->kind == UNIT_HEAD && c->tied) /* the table is the head's, and meets what it meets */
        sum += (double)(c->vocab * (c->embed_dim ? c->embed_dim : c->hidden)) *
               ((double)graph_tokens(n, c->stack) / (double)n->seq_len - 1);
    return 6 * sum;
}

double graph_model_flops_per_token(const struct model *m, uint64_t seq_len, uint64_t target_len)
{
    const struct graph_batch n = {.micro_batch = 1, .seq_len = seq_len, .target_len = target_len};
    double per_token = 6.0 * (double)(m->active_params - m->embedding_params);

    for (uint32_t u = 0; u < m->n_units; u++) {
        const struct unit_class *c = &m->classes[m->units[u].class_id];
        double queries = (double)graph_tokens(&n, c->stack), keys = queries;

        per_token += met_otherwise(m, &m->units[u], &n);
        if (c->kind != UNIT_LAYER || (c->mixer != MIXER_ATTENTION && c->mixer != MIXER_MLA))
            continue;
        if (build_tensor(&(struct build){.m = m, .u = &m->units[u]}, SLOT_CROSS_Q))
            keys += (double)seq_len;
        per_token += 6.0 * ((double)c->n_heads * c->head_dim + (double)unit_class_v_width(c)) *
                     (queries / (double)seq_len * keys);
    }
    return per_token;
}
