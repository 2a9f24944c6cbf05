/* The kernels of a pass over a unit: what each reads and writes, and which values and gradients
 * live how long. */
#include "layouts/emit.h"

#include <string.h>

/* The unit's input is its own; what leaves it is the next unit's input; what is carried has buffers
 * of its own. */
static void value_operand(struct lower *l, struct emit *x, uint32_t class_id,
                          const struct class_lives *k, uint32_t v, bool grad, enum access access)
{
    uint32_t shared = grad ? l->input_grads : l->inputs;
    enum carry c = k->g->values[v].carried;

    if (c != CARRIED_NONE)
        emit_operand(x, grad ? l->carried[c].grad : l->carried[c].value, OPERAND_WHOLE, access);
    else if (v == 0)
        emit_operand(x, shared, OPERAND_WHOLE, access);
    else if (k->outside[v])
        emit_operand_of(x, shared, OPERAND_WHOLE, 1, access);
    else
        emit_operand(x, value_buffer(l, class_id, v, grad), OPERAND_WHOLE, access);
}

static void weight_operands(struct lower *l, struct emit *x, uint32_t class_id,
                            const struct graph_op *o, uint32_t buffer, enum access access)
{
    int32_t d_unit = o->weight_of_embedding ? -(int32_t)unit_of_class(l, class_id) : 0;

    if (o->weight != MODEL_NONE)
        emit_operand_of(x, buffer, o->weight, d_unit, access);
    if (o->counts != MODEL_NONE) {
        x->operands[x->op.n_operands - 1].count = o->n_weights;
        x->operands[x->op.n_operands - 1].stride = o->weight_stride;
    }
    if (o->bias != MODEL_NONE)
        emit_operand(x, buffer, o->bias, access);
}

static void entry_operands(struct lower *l, struct emit *x, uint32_t class_id,
                           const struct class_lives *k, struct entry at)
{
    const struct graph_op *o = &k->g->ops[at.op];
    bool dgrad = o->n_backward == 2 && at.part == 0, wgrad = o->n_backward == 2 && at.part == 1;

    if (at.part >= 0 && !(k->c->kind == UNIT_HEAD && o->out == k->g->output))
        value_operand(l, x, class_id, k, o->out, true, ACCESS_READ);
    for (uint32_t i = 0; i < o->n_in; i++)
        if (at.part < 0 || (o->saves_in[i] && !dgrad))
            value_operand(l, x, class_id, k, o->in[i], false, ACCESS_READ);
    if (at.part >= 0 && o->saves_out)
        value_operand(l, x, class_id, k, o->out, false, ACCESS_READ);
    if (at.part >= 0 && o->beside)
        value_operand(l, x, class_id, k, o->beside, false, ACCESS_READ);
    if (!wgrad)
        weight_operands(l, x, class_id, o, l->weights, ACCESS_READ);
    if (at.part < 0 && o->beside)
        value_operand(l, x, class_id, k, o->beside, false, ACCESS_WRITE);
    if (at.part < 0)
        value_operand(l, x, class_id, k, o->out, false, ACCESS_WRITE);
    else if (!wgrad)
        for (uint32_t i = 0; i < o->n_in; i++)
            if (!(k->c->kind == UNIT_EMBED && o->in[i] == 0)) /* tokens have no gradient */
                value_operand(l, x, class_id, k, o->in[i], true, ACCESS_ADD);
    if (at.part >= 0 && !dgrad)
        weight_operands(l, x, class_id, o, l->grads, ACCESS_ADD);
    if (o->counts != MODEL_NONE)
        value_operand(l, x, class_id, k, o->counts, false, ACCESS_READ);
}

/* Reserve what entry i of the pass makes, release what nobody reads after it. */
static void entry_lives(struct lower *l, struct emit *x, uint32_t class_id,
                        const struct class_lives *k, const struct pass *p, uint32_t i,
                        bool backward)
{
    const struct unit_graph *g = k->g;
    const struct graph_op *o = &g->ops[p->list[i].op];

    if (p->list[i].part < 0) {
        if (g->values[o->out].carried != CARRIED_NONE)
            emit_life(x, l->carried[g->values[o->out].carried].value, 0, false);
        else if (k->outside[o->out] && !backward)
            emit_life(x, l->inputs, +1, false);
        else if (!k->outside[o->out] && !(backward && k->kept[o->out]))
            emit_life(x, value_buffer(l, class_id, o->out, false), 0, false);
        if (o->beside)
            emit_life(x, value_buffer(l, class_id, o->beside, false), 0, false);
    }
    for (uint32_t v = 1; v < g->n_values; v++) {
        uint32_t made = lives_made_at(g, p, v), last = lives_last_read(g, p, v);

        if (k->outside[v] || (made == PROGRAM_NONE && !(backward && k->kept[v])))
            continue;
        if (!backward && k->kept[v])
            continue;
        if (last == PROGRAM_NONE)
            last = made == PROGRAM_NONE ? p->n - 1 : made;
        if (last == i)
            emit_life(x, value_buffer(l, class_id, v, false), 0, true);
    }
    if (!backward)
        return;
    for (uint32_t v = 0; v < g->n_values; v++) {
        uint32_t first = PROGRAM_NONE, done = PROGRAM_NONE;

        if ((v == 0 && k->c->kind == UNIT_EMBED) || (k->c->kind == UNIT_HEAD && v == g->output))
            continue;
        for (uint32_t n = 0; n < p->n; n++) {
            if (first == PROGRAM_NONE && lives_makes_grad(g, p->list[n], v))
                first = n;
            if (p->list[n].part >= 0 && g->ops[p->list[n].op].out == v)
                done = n;
        }
        if (first == i && !k->outside[v])
            emit_life(x, v == 0 ? l->input_grads : value_buffer(l, class_id, v, true), 0, false);
        if (done == i && g->values[v].carried != CARRIED_NONE)
            emit_life(x, l->carried[g->values[v].carried].grad, 0, true);
        else if (done == i)
            emit_life(x, k->outside[v] ? l->input_grads : value_buffer(l, class_id, v, true),
                      k->outside[v] ? +1 : 0, true);
    }
}

/* Bytes of the gradients that a kernel of backward makes: autograd makes each tensor's when it
 * comes to it. A tied head's are the embedding's, which are there from the head's backward on. */
static uint64_t made_grad_bytes(const struct lower *l, const struct unit *u,
                                const struct graph_op *o, int part)
{
    const struct tensor *t = &l->m->tensors[u->first];
    uint64_t sum = 0;

    if (part < 0 || (o->n_backward == 2 && part == 0) || o->weight_of_embedding)
        return 0;
    for (uint32_t i = 0; i < o->n_weights && o->weight != MODEL_NONE; i++)
        sum += t[o->weight + i * o->weight_stride].numel;
    if (o->bias != MODEL_NONE)
        sum += t[o->bias].numel;
    return dtype_bytes(l->j->grad_dtype, sum);
}

/* Reserves what entry i makes of the unit's gradients; the first entry of a pass also what no
 * kernel makes. The gradients of a table that other units share are there already. */
static void entry_grads(struct lower *l, struct emit *x, uint32_t class_id, const struct pass *p,
                        const struct unit_graph *g, uint32_t i)
{
    uint32_t u = unit_of_class(l, class_id);
    uint64_t all = dtype_bytes(l->j->grad_dtype, l->m->units[u].numel), made = 0, bytes;

    if (l->move.full_grads || (u == 0 && model_shares_table(l->m)))
        return;
    for (uint32_t n = 0; n < p->n; n++)
        made += made_grad_bytes(l, &l->m->units[u], &g->ops[p->list[n].op], p->list[n].part);
    BUG_ON(made > all);
    bytes = made_grad_bytes(l, &l->m->units[u], &g->ops[p->list[i].op], p->list[i].part) +
            (i == 0 ? all - made : 0);
    if (!bytes && (i || all))
        return;
    emit_life(x, l->grads, 0, false);
    x->lives[x->op.n_lives - 1].bytes = bytes < all ? bytes : 0;
}

/* PyTorch's eager loss holds, in backward, the fp32 log-softmax, the gradient of it that the
 * negative log-likelihood makes, and the one of the fp32 logits: two fp32 copies more than a fused
 * loss, which makes the gradient in the logits' type. */
static void eager_loss(struct lower *l, struct emit *x)
{
    const struct kernel_call *c = &x->op.call;

    if (c->kernel != KERNEL_CROSS_ENTROPY_BACKWARD || !job_eager_loss(l->j))
        return;
    if (l->eager == PROGRAM_NONE)
        l->eager = program_add_buffer(
            &l->b,
            &(struct buffer){.name = "loss.eager",
                             .part = MEM_LOGITS,
                             .dtype = DTYPE_FP32,
                             .rule = SIZE_CONST,
                             .span = SPAN_UNIT_MICRO,
                             .bytes = c->m * c->n * (8 - dtype_bytes(l->j->param_dtype, 1))});
    emit_life(x, l->eager, 0, false);
    emit_life(x, l->eager, 0, true);
}

/* Unfused attention holds, while it runs, two copies of the scores beside what it keeps: what
 * softmax reads and makes, and in backward the gradients of both. */
static void eager_scores(struct lower *l, struct emit *x, const struct graph_op *o)
{
    uint64_t bytes =
        2 * dtype_bytes(l->j->param_dtype, o->forward.batch * o->forward.m * o->forward.n);
    uint32_t k = 0;

    if (!o->beside)
        return;
    while (k < l->n_scores && l->p->buffers[l->scores[k]].bytes != bytes)
        k++;
    if (k == l->n_scores) {
        if (!l->scores) /* an operation has one size at most */
            l->scores = ARENA_NEW(l->a, uint32_t, (size_t)l->m->n_classes * GRAPH_MAX_OPS);
        l->scores[l->n_scores++] = program_add_buffer(
            &l->b, &(struct buffer){.name = k ? arena_printf(l->a, "attention.scores.%u", k + 1)
                                              : "attention.scores",
                                    .part = MEM_ACTIVATIONS,
                                    .dtype = l->j->param_dtype,
                                    .rule = SIZE_CONST,
                                    .span = SPAN_UNIT_MICRO,
                                    .bytes = bytes});
    }
    emit_life(x, l->scores[k], 0, false);
    emit_life(x, l->scores[k], 0, true);
}

static enum coll_kind exchange_coll(enum exchange_kind k)
{
    switch (k) {
    case EXCHANGE_ALL_REDUCE:
        return COLL_ALL_REDUCE;
    case EXCHANGE_ALL_GATHER:
        return COLL_ALL_GATHER;
    case EXCHANGE_REDUCE_SCATTER:
        return COLL_REDUCE_SCATTER;
    case EXCHANGE_NONE:
        break;
    }
    BUG_ON(true);
}

/* What tensor-parallel ranks exchange stands among the kernels: the next one needs it. An identity is a mark. */
static void exchange_op(struct lower *l, struct emit *x, const struct graph_op *o, int part)
{
    enum exchange_kind kind = part < 0 ? o->exchange_forward : o->exchange_backward;

    if (kind == EXCHANGE_NONE) {
        x->op.kind = OP_MARK;
        return;
    }
    x->op.kind = OP_COLLECTIVE;
    x->op.coll =
        (struct collective){.kind = exchange_coll(kind),
                            .traffic = TRAFFIC_TENSOR,
                            .group = l->tensor,
                            .elements = o->exchange_elements,
                            .repeat = o->exchange_calls > 1 ? o->exchange_calls : 0,
                            .table = PROGRAM_NONE,
                            .wire = {.dtype = o->exchange_fp32 ? DTYPE_FP32 : l->j->param_dtype},
                            .peer_op = PROGRAM_NONE};
}

void emit_pass(struct lower *l, uint32_t class_id, const struct class_lives *k, bool backward)
{
    const struct pass *p = backward ? &k->backward : &k->forward;
    struct emit x;

    for (uint32_t i = 0; i < p->n; i++) {
        const struct graph_op *o = &k->g->ops[p->list[i].op];
        int part = p->list[i].part;
        const char *name = part < 0
                               ? arena_printf(l->a, "%s.%s.%s", backward ? "recompute" : "forward",
                                              k->c->name, o->name)
                               : arena_printf(l->a, "backward.%s.%s.%s", k->c->name, o->name,
                                              o->backward_name[part]);

        emit_init(&x, name, OP_COMPUTE, backward ? PHASE_BACKWARD : PHASE_FORWARD, STREAM_COMPUTE);
        x.op.purpose = backward && part < 0 ? PURPOSE_RECOMPUTE : PURPOSE_USUAL;
        x.op.guard.unit_class = class_id;
        x.op.call = part < 0 ? o->forward : o->backward[part];
        x.op.call.fp8 =
            l->j->fp8 && k->c->kind == UNIT_LAYER && kernel_bound(x.op.call.kernel) == 'G';
        if (o->is_exchange)
            exchange_op(l, &x, o, part);
        entry_operands(l, &x, class_id, k, p->list[i]);
        entry_lives(l, &x, class_id, k, p, i, backward);
        if (backward)
            entry_grads(l, &x, class_id, p, k->g, i);
        eager_loss(l, &x);
        eager_scores(l, &x, o);
        emit_add(l, &x);
    }
}
