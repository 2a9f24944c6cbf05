#include "layouts/step.h"

#include "layouts/lives.h"

#include "core/num.h"

#include <string.h>

/* Most ops have few waits, lives and operands: collect them here, then add the op. */
enum { MAX_LIST = 24 };
struct emit {
    struct op op;
    struct wait waits[MAX_LIST];
    struct life lives[MAX_LIST];
    struct operand operands[MAX_LIST];
};

static void emit_init(struct emit *x, const char *name, enum op_kind kind, enum phase phase,
                      enum stream s)
{
    memset(x, 0, sizeof(*x));
    x->op.name = name;
    x->op.kind = kind;
    x->op.phase = phase;
    x->op.stream = s;
    x->op.guard.unit_class = PROGRAM_NONE;
    x->op.waits = x->waits;
    x->op.lives = x->lives;
    x->op.operands = x->operands;
}

static void emit_wait(struct emit *x, uint32_t op, int32_t d_unit, int32_t d_micro)
{
    if (op == PROGRAM_NONE)
        return;
    BUG_ON(x->op.n_waits == MAX_LIST);
    x->waits[x->op.n_waits++] = (struct wait){.op = op, .d_unit = d_unit, .d_micro = d_micro};
}

static void emit_life(struct emit *x, uint32_t buffer, int32_t d_unit, bool release)
{
    if (buffer == PROGRAM_NONE)
        return;
    BUG_ON(x->op.n_lives == MAX_LIST);
    x->lives[x->op.n_lives++] =
        (struct life){.buffer = buffer, .d_unit = d_unit, .release = release};
}

static void emit_operand_of(struct emit *x, uint32_t buffer, uint32_t tensor, int32_t d_unit,
                            enum access access)
{
    if (buffer == PROGRAM_NONE)
        return;
    BUG_ON(x->op.n_operands == MAX_LIST);
    x->operands[x->op.n_operands++] = (struct operand){
        .buffer = buffer, .tensor = tensor, .access = (uint8_t)access, .d_unit = d_unit};
}

static void emit_operand(struct emit *x, uint32_t buffer, uint32_t tensor, enum access access)
{
    emit_operand_of(x, buffer, tensor, 0, access);
}

static uint32_t emit_add(struct lower *l, struct emit *x)
{
    return program_add_op(&l->b, &x->op);
}

static bool *unit_mask(struct lower *l, uint32_t only)
{
    bool *mask = ARENA_NEW(l->a, bool, l->m->n_units);

    mask[only] = true;
    return mask;
}

static uint32_t last_unit(const struct lower *l)
{
    return l->m->n_units - 1;
}

/* ---- begin ---- */

void lower_groups(struct lower *l, uint32_t shards)
{
    l->shards = shards;
    l->shard = shards == l->n ? l->world : PROGRAM_NONE;
    l->replica = PROGRAM_NONE;
    if (shards == l->n)
        return;
    if (shards > 1)
        l->shard = program_add_group(&l->b, &(struct group){.name = "shards",
                                                            .n_axes = 1,
                                                            .size = {shards},
                                                            .stride = {1},
                                                            .n_members = shards});
    l->replica = program_add_group(&l->b, &(struct group){.name = "replicas",
                                                          .n_axes = 1,
                                                          .size = {l->n / shards},
                                                          .stride = {shards},
                                                          .n_members = l->n / shards});
}

int lower_begin(struct lower *l, const struct plan *plan, struct arena *a, struct program *p,
                struct err *e)
{
    memset(l, 0, sizeof(*l));
    memset(p, 0, sizeof(*p));
    l->plan = plan;
    l->m = &plan->model;
    l->j = &plan->job;
    l->n = plan->world;
    l->a = a;
    l->p = p;
    p->model = &plan->model;
    p->place = plan->place;
    p->world = plan->world;
    p->shards = plan_shards(plan) < plan->world ? plan_shards(plan) : 0;
    p->gpus_per_node = cluster_domain_gpus(&plan->cluster);
    p->n_micro = (uint32_t)plan->job.grad_accum;
    l->graphs = ARENA_NEW(a, struct unit_graph, l->m->n_classes);
    for (uint32_t c = 0; c < l->m->n_classes; c++) {
        if (graph_build(l->m, c, l->j->micro_batch, l->j->seq_len, l->j->param_dtype, &l->graphs[c],
                        e) ||
            (job_unfused_attention(l->j) &&
             graph_unfuse_attention(&l->graphs[c], l->j->param_dtype, e)))
            return -1;
        if (l->j->loss == LOSS_FUSED)
            graph_fuse_loss(&l->graphs[c]);
    }
    program_builder_init(&l->b, p, a);
    l->world = program_add_group(
        &l->b, &(struct group){
                   .name = "world", .n_axes = 1, .size = {l->n}, .stride = {1}, .n_members = l->n});
    lower_groups(l, plan_shards(plan));
    l->move = (struct movement){.gather_table = PROGRAM_NONE,
                                .reduce_group = l->shard,
                                .reduce_table = PROGRAM_NONE,
                                .grad_table = PROGRAM_NONE,
                                .reduce_kind = COLL_REDUCE_SCATTER,
                                .reduce_algo = l->j->gather};
    l->params = l->states = l->master = PROGRAM_NONE;
    l->padded = l->weights = l->inputs = l->input_grads = l->grads = l->grad_shard = l->grad_owned =
        l->held = l->eager = l->scores = PROGRAM_NONE;
    l->kept = ARENA_NEW(a, bool, l->m->n_units);
    l->not_kept = ARENA_NEW(a, bool, l->m->n_units);
    for (uint32_t u = 0; u < l->m->n_units; u++) {
        l->kept[u] = l->j->reshard_never || u == last_unit(l) || (u == 0 && l->m->tied);
        l->not_kept[u] = !l->kept[u];
    }
    return 0;
}

/* ---- resident memory ---- */

struct resident {
    uint64_t *owned[4]; /* [world] parameters, states, master */
    uint64_t every[4];
};

/* What a rank in the middle has is taken for all: most flat slices hold matrices alone, most ranks of few owners nothing. */
static struct rank_table resident_table(struct lower *l, uint64_t every, const uint64_t *owned)
{
    struct rank_value *v = ARENA_NEW(l->a, struct rank_value, l->n);
    struct rank_table t = {.every = every + owned[l->n / 2], .only = v};

    for (uint32_t r = 0; r < l->n; r++)
        if (every + owned[r] != t.every)
            v[t.n_only++] = (struct rank_value){r, every + owned[r]};
    return t;
}

/* A flat slice holds the states of its elements, or (`whole`) of all matrices that it has a part of. */
static void slice_states(struct lower *l, uint64_t at, uint64_t numel, uint64_t bytes, bool whole,
                         uint64_t *states, uint64_t *master)
{
    uint64_t slice = part_slice(l->plan), end = at + numel;

    while (at < end) {
        uint64_t r = at / slice, n = num_min(end, (r + 1) * slice) - at;

        for (uint64_t copy = r; copy < l->n; copy += l->shards) {
            states[copy] += whole ? bytes : layout_share(bytes, n, numel);
            master[copy] += l->j->master_weights ? dtype_bytes(DTYPE_FP32, n) : 0;
        }
        at += n;
    }
}

static void resident_buffer(struct lower *l, const char *name, enum mem_part part, enum dtype d,
                            uint64_t every, const uint64_t *owned, uint32_t *id)
{
    struct buffer b = {
        .name = name, .part = part, .dtype = d, .rule = SIZE_BY_RANK, .persistent = true};

    b.ranks = resident_table(l, every, owned);
    *id = program_add_buffer(&l->b, &b);
}

void lower_resident(struct lower *l)
{
    const struct plan *plan = l->plan;
    const struct job *j = l->j;
    uint64_t params = 0, states = 0, master = 0, flat = 0, numel;
    uint64_t *own_params = ARENA_NEW(l->a, uint64_t, l->n),
             *own_states = ARENA_NEW(l->a, uint64_t, l->n);
    uint64_t *own_master = ARENA_NEW(l->a, uint64_t, l->n), *none = ARENA_NEW(l->a, uint64_t, l->n);

    for (uint32_t i = 0; i < l->m->n_tensors; i++) {
        const struct tensor *t = &l->m->tensors[i];
        uint64_t s = layout_state_bytes(j, t), chunk = num_ceil_div(t->rows, l->shards);

        numel = t->numel;
        switch (plan->place[i].rule) {
        case PLACE_REPLICATED:
            break;
        case PLACE_FLAT:
            slice_states(l, flat, numel, s, layout_state_is_whole(plan, t), own_states, own_master);
            flat += numel;
            continue;
        case PLACE_CHUNK: /* padded rows */
            numel = chunk * t->cols;
            if (!layout_state_is_whole(plan, t))
                s = num_ceil_div(s * chunk, t->rows);
            break;
        case PLACE_OWNER:
            for (uint32_t r = plan->place[i].owner; r < l->n; r += l->shards) {
                own_states[r] += s;
                own_master[r] += j->master_weights ? dtype_bytes(DTYPE_FP32, numel) : 0;
                own_params[r] += l->move.gather ? dtype_bytes(j->param_dtype, numel) : 0;
            }
            continue;
        }
        states += s;
        master += j->master_weights ? dtype_bytes(DTYPE_FP32, numel) : 0;
        params += l->move.gather ? dtype_bytes(j->param_dtype, numel) : 0;
    }
    if (!l->move.gather)
        params = dtype_bytes(j->param_dtype, l->m->total_params);
    resident_buffer(l, "params", MEM_PARAMS, j->param_dtype, params, own_params, &l->params);
    l->weights = l->params;
    resident_buffer(l, "states", MEM_STATES, j->state_dtype, states, own_states, &l->states);
    if (j->master_weights)
        resident_buffer(l, "master", MEM_MASTER, DTYPE_FP32, master, own_master, &l->master);
    if (l->move.full_grads)
        resident_buffer(l, "grads", MEM_GRADS, j->grad_dtype,
                        dtype_bytes(j->grad_dtype, l->m->total_params), none, &l->grads);
}

/* ---- the buffers of forward and backward ---- */

static uint64_t *by_unit(struct lower *l, uint64_t (*bytes)(struct lower *, uint32_t))
{
    uint64_t *v = ARENA_NEW(l->a, uint64_t, l->m->n_units);

    for (uint32_t u = 0; u < l->m->n_units; u++)
        v[u] = bytes(l, u);
    return v;
}

static uint64_t gathered_bytes(struct lower *l, uint32_t u)
{
    return part_unit_bytes(l->plan, u, l->j->param_dtype);
}

static uint64_t unit_grad_bytes(struct lower *l, uint32_t u)
{
    return part_unit_bytes(l->plan, u, l->j->grad_dtype);
}

static uint64_t input_bytes(struct lower *l, uint32_t u)
{
    return l->graphs[l->m->units[u].class_id].values[0].bytes;
}

static uint64_t input_grad_bytes(struct lower *l, uint32_t u)
{
    return u ? input_bytes(l, u) : 0;
}

static uint32_t unit_buffer(struct lower *l, const char *name, enum mem_part part, enum dtype d,
                            uint64_t (*bytes)(struct lower *, uint32_t))
{
    return program_add_buffer(&l->b, &(struct buffer){.name = name,
                                                      .part = part,
                                                      .dtype = d,
                                                      .rule = SIZE_BY_UNIT,
                                                      .unit_bytes = by_unit(l, bytes)});
}

/* A padded gather lands in n equal parts of the largest share before it is put in order. */
static uint64_t padded_bytes(struct lower *l, uint32_t u)
{
    const struct segment_table *t = &l->p->segment_tables[l->move.gather_table];
    uint64_t most = 0;

    for (uint32_t i = t->start[u]; i < t->start[u + 1]; i++) {
        uint64_t owned = 0;

        for (uint32_t k = t->start[u]; k < t->start[u + 1]; k++)
            if (t->segments[k].root == t->segments[i].root)
                owned += t->segments[k].bytes;
        most = num_max(most, owned);
    }
    return most * l->shards;
}

static void step_buffers(struct lower *l)
{
    const struct job *j = l->j;

    l->inputs = unit_buffer(l, "act.input", MEM_ACTIVATIONS, j->param_dtype, input_bytes);
    l->input_grads =
        unit_buffer(l, "grad.input", MEM_ACTIVATIONS, j->param_dtype, input_grad_bytes);
    if (l->move.gather)
        l->weights = unit_buffer(l, "gathered", MEM_GATHERED, j->param_dtype, gathered_bytes);
    if (l->move.gather_table != PROGRAM_NONE && j->gather == ALGO_PADDED)
        l->padded = unit_buffer(l, "gather.padded", MEM_BUFFERS, j->param_dtype, padded_bytes);
    if (!l->move.full_grads) {
        l->grads = unit_buffer(l, "grads.unit", MEM_GRADS, j->grad_dtype, unit_grad_bytes);
        if (l->move.grad_bytes)
            l->grad_shard =
                program_add_buffer(&l->b, &(struct buffer){.name = "grads.shard",
                                                           .part = MEM_GRADS,
                                                           .dtype = j->grad_dtype,
                                                           .rule = SIZE_BY_UNIT,
                                                           .unit_bytes = l->move.grad_bytes});
        if (l->move.grad_table != PROGRAM_NONE)
            l->grad_owned =
                program_add_buffer(&l->b, &(struct buffer){.name = "grads.owned",
                                                           .part = MEM_GRADS,
                                                           .dtype = j->grad_dtype,
                                                           .rule = SIZE_SEGMENTS,
                                                           .table = l->move.grad_table});
    }
    l->values = arena_alloc(l->a, l->m->n_classes, sizeof(*l->values));
    l->value_grads = arena_alloc(l->a, l->m->n_classes, sizeof(*l->value_grads));
    memset(l->values, 0xff, l->m->n_classes * sizeof(*l->values));
    memset(l->value_grads, 0xff, l->m->n_classes * sizeof(*l->value_grads));
}

static uint32_t value_buffer(struct lower *l, uint32_t class_id, uint32_t v, bool grad)
{
    uint32_t *id = grad ? &l->value_grads[class_id][v] : &l->values[class_id][v];
    const struct graph_value *x = &l->graphs[class_id].values[v];

    if (*id == PROGRAM_NONE)
        *id = program_add_buffer(
            &l->b, &(struct buffer){.name = arena_printf(l->a, "%s.%s.%s", grad ? "grad" : "act",
                                                         l->m->classes[class_id].name, x->name),
                                    .part = x->logits ? MEM_LOGITS : MEM_ACTIVATIONS,
                                    .dtype = l->j->param_dtype,
                                    .rule = SIZE_CONST,
                                    .bytes = x->bytes});
    return *id;
}

/* ---- emitting kernels ---- */

/* The unit's input is its own; what leaves it is the next unit's input. */
static void value_operand(struct lower *l, struct emit *x, uint32_t class_id,
                          const struct class_lives *k, uint32_t v, bool grad, enum access access)
{
    uint32_t shared = grad ? l->input_grads : l->inputs;

    if (v == 0)
        emit_operand(x, shared, OPERAND_WHOLE, access);
    else if (k->outside[v])
        emit_operand_of(x, shared, OPERAND_WHOLE, 1, access);
    else
        emit_operand(x, value_buffer(l, class_id, v, grad), OPERAND_WHOLE, access);
}

static void weight_operands(struct lower *l, struct emit *x, const struct graph_op *o,
                            uint32_t buffer, enum access access)
{
    int32_t d_unit = o->weight_of_embedding ? -(int32_t)last_unit(l) : 0;

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
        weight_operands(l, x, o, l->weights, ACCESS_READ);
    if (at.part < 0 && o->beside)
        value_operand(l, x, class_id, k, o->beside, false, ACCESS_WRITE);
    if (at.part < 0)
        value_operand(l, x, class_id, k, o->out, false, ACCESS_WRITE);
    else if (!wgrad)
        for (uint32_t i = 0; i < o->n_in; i++)
            if (!(k->c->kind == UNIT_EMBED && o->in[i] == 0)) /* tokens have no gradient */
                value_operand(l, x, class_id, k, o->in[i], true, ACCESS_ADD);
    if (at.part >= 0 && !dgrad)
        weight_operands(l, x, o, l->grads, ACCESS_ADD);
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
        if (k->outside[o->out] && !backward)
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
        if (done == i)
            emit_life(x, k->outside[v] ? l->input_grads : value_buffer(l, class_id, v, true),
                      k->outside[v] ? +1 : 0, true);
    }
}

/* Bytes of the gradients that a kernel of backward makes: autograd makes each tensor's when it comes to it. A tied head's
 * are the embedding's, which are there from the head's backward on. */
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

static uint32_t unit_of_class(const struct lower *l, uint32_t class_id)
{
    uint32_t u = 0;

    while (l->m->units[u].class_id != class_id)
        u++;
    return u;
}

/* Reserves what entry i makes of the unit's gradients; the first entry of a pass also what no kernel makes. The
 * gradients of a tied embedding are there already. */
static void entry_grads(struct lower *l, struct emit *x, uint32_t class_id, const struct pass *p,
                        const struct unit_graph *g, uint32_t i)
{
    uint32_t u = unit_of_class(l, class_id);
    uint64_t all = dtype_bytes(l->j->grad_dtype, l->m->units[u].numel), made = 0, bytes;

    if (l->move.full_grads || (u == 0 && l->m->tied))
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

/* PyTorch's eager loss holds, in backward, the fp32 log-softmax, the gradient of it that the negative log-likelihood makes,
 * and the one of the fp32 logits: two fp32 copies more than a fused loss, which makes the gradient in the logits' type. */
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
                             .bytes = c->m * c->n * (8 - dtype_bytes(l->j->param_dtype, 1))});
    emit_life(x, l->eager, 0, false);
    emit_life(x, l->eager, 0, true);
}

/* Unfused attention holds, while it runs, two copies of the scores beside what it keeps: what softmax reads and makes, and in backward the
 * gradients of both. */
static void eager_scores(struct lower *l, struct emit *x, const struct graph_op *o)
{
    if (!o->beside)
        return;
    if (l->scores == PROGRAM_NONE)
        l->scores = program_add_buffer(
            &l->b, &(struct buffer){
                       .name = "attention.scores",
                       .part = MEM_ACTIVATIONS,
                       .dtype = l->j->param_dtype,
                       .rule = SIZE_CONST,
                       .bytes = 2 * dtype_bytes(l->j->param_dtype,
                                                o->forward.batch * o->forward.m * o->forward.n)});
    emit_life(x, l->scores, 0, false);
    emit_life(x, l->scores, 0, true);
}

static void emit_pass(struct lower *l, uint32_t class_id, const struct class_lives *k,
                      bool backward)
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
        x.op.guard.unit_class = class_id;
        x.op.call = part < 0 ? o->forward : o->backward[part];
        x.op.call.fp8 =
            l->j->fp8 && k->c->kind == UNIT_LAYER && kernel_bound(x.op.call.kernel) == 'G';
        entry_operands(l, &x, class_id, k, p->list[i]);
        entry_lives(l, &x, class_id, k, p, i, backward);
        if (backward)
            entry_grads(l, &x, class_id, p, k->g, i);
        eager_loss(l, &x);
        eager_scores(l, &x, o);
        emit_add(l, &x);
    }
}

/* ---- gathers and reductions ---- */

/* The collectives of a unit's gather, after a mark that waits and reserves. Ids into ops[]; returns how many. */
static uint32_t emit_gather(struct lower *l, enum phase phase, const bool *units, uint32_t ops[2])
{
    const char *name = phase == PHASE_FORWARD ? "gather.forward" : "gather.backward";
    struct emit x;
    uint32_t n = 0;

    emit_init(&x, name, OP_COLLECTIVE, phase, STREAM_GATHER);
    x.op.guard.units = units;
    emit_operand(&x, l->params, OPERAND_WHOLE, ACCESS_READ);
    emit_operand(&x, l->weights, OPERAND_WHOLE, ACCESS_WRITE);
    emit_life(&x, l->padded, 0, false);
    emit_life(&x, l->padded, 0, true);
    x.op.coll = (struct collective){.kind = COLL_SEGMENT_GATHER,
                                    .group = l->shard,
                                    .algo = l->j->gather,
                                    .table = l->move.gather_table,
                                    .wire = l->j->param_dtype,
                                    .peer_op = PROGRAM_NONE};
    if (l->move.gather_table != PROGRAM_NONE)
        ops[n++] = emit_add(l, &x);
    x.op.n_lives = 0;
    x.op.name = l->move.gather_table != PROGRAM_NONE ? arena_printf(l->a, "%s.tail", name) : name;
    x.op.coll.kind = COLL_ALL_GATHER;
    x.op.coll.table = PROGRAM_NONE;
    x.op.coll.unit_bytes = l->move.gather_bytes;
    if (l->move.gather_bytes)
        ops[n++] = emit_add(l, &x);
    return n;
}

static void emit_reduce(struct lower *l)
{
    struct emit x;

    l->n_reduce = 0;
    emit_init(&x, "reduce", OP_COLLECTIVE, PHASE_BACKWARD, STREAM_REDUCE);
    x.op.guard.micro = l->move.reduce_when;
    emit_wait(&x, l->backward_end, 0, 0);
    emit_operand(&x, l->grads, OPERAND_WHOLE, ACCESS_READ);
    x.op.coll = (struct collective){.kind = COLL_SEGMENT_REDUCE,
                                    .group = l->move.reduce_group,
                                    .algo = l->move.reduce_algo,
                                    .table = l->move.reduce_table,
                                    .piece_bytes = l->move.piece_bytes,
                                    .wire = l->j->grad_dtype,
                                    .peer_op = PROGRAM_NONE};
    emit_operand(&x, l->grad_owned, OPERAND_WHOLE, ACCESS_ADD);
    if (l->move.reduce_table != PROGRAM_NONE)
        l->reduce[l->n_reduce++] = emit_add(l, &x);
    if (!l->move.reduce_bytes)
        return;
    x.op.n_operands = 1;
    emit_operand(&x, l->grad_shard, OPERAND_WHOLE, ACCESS_ADD);
    x.op.name = l->move.reduce_table != PROGRAM_NONE ? "reduce.tail" : "reduce";
    x.op.coll.kind = l->move.reduce_kind;
    x.op.coll.table = PROGRAM_NONE;
    x.op.coll.unit_bytes = l->move.reduce_bytes;
    l->reduce[l->n_reduce++] = emit_add(l, &x);
}

/* What the last micro-batch leaves in the shards, over the copies: each rank with those in its place of the others, in place
 * (in shards of their own, or among whole gradients). Waits for the unit's reductions, of which one may move nothing. */
static void emit_replicate(struct lower *l)
{
    bool owned = l->move.grad_table != PROGRAM_NONE;
    struct emit x;

    emit_init(&x, "replicate", OP_COLLECTIVE, PHASE_BACKWARD, l->move.replicate);
    x.op.guard.micro = WHEN_LAST;
    for (uint32_t i = 0; i < l->n_reduce; i++)
        emit_wait(&x, l->reduce[i], 0, 0);
    x.op.coll = (struct collective){.kind = COLL_ALL_REDUCE,
                                    .group = l->replica,
                                    .table = l->move.grad_table,
                                    .rooted = true,
                                    .wire = l->j->grad_dtype,
                                    .peer_op = PROGRAM_NONE};
    emit_operand(&x, l->move.full_grads ? l->grads : l->grad_owned, OPERAND_WHOLE, ACCESS_ADD);
    if (owned)
        l->reduce[l->n_reduce++] = emit_add(l, &x);
    if (!l->move.grad_bytes)
        return;
    x.op.n_operands = 0;
    emit_operand(&x, l->move.full_grads ? l->grads : l->grad_shard, OPERAND_WHOLE, ACCESS_ADD);
    x.op.name = owned ? "replicate.tail" : "replicate";
    x.op.coll.table = PROGRAM_NONE;
    x.op.coll.rooted = false;
    x.op.coll.unit_bytes = l->move.grad_bytes;
    l->reduce[l->n_reduce++] = emit_add(l, &x);
}

/* ---- forward and backward ---- */

/* FSDP2 gathers into one flat buffer and copies a unit's tensors out of it before they are used, and their gradients into
 * another before they are reduced: bytes are read and written once, on the compute stream (_fsdp_collectives.py). */
static void emit_copies(struct lower *l, enum phase phase, const char *what, const bool *units,
                        enum dtype d, enum when micro)
{
    enum framework f = l->j->framework;
    struct emit x;

    if (!l->move.gather || (f != FRAMEWORK_FSDP2 && f != FRAMEWORK_FSDP2_COMPILED))
        return;
    for (uint32_t c = 0; c < l->m->n_classes; c++) {
        uint64_t bytes = part_unit_bytes(l->plan, unit_of_class(l, c), d);

        emit_init(&x,
                  arena_printf(l->a, "%s.%s.%s", phase == PHASE_FORWARD ? "forward" : "backward",
                               l->m->classes[c].name, what),
                  OP_COMPUTE, phase, STREAM_COMPUTE);
        x.op.guard.unit_class = c;
        x.op.guard.units = units;
        x.op.guard.micro = micro;
        x.op.call = (struct kernel_call){.kernel = KERNEL_COPY,
                                         .m = 1,
                                         .n = bytes / dtype_bytes(d, 1),
                                         .batch = 1,
                                         .hbm_bytes = 2 * bytes,
                                         .launches = 1};
        emit_add(l, &x);
    }
}

static void forward_loop(struct lower *l, const struct class_lives *classes)
{
    uint32_t gathers[2], n = 0, first = PROGRAM_NONE;
    struct emit x;

    program_open_loop(&l->b, &(struct loop){.kind = LOOP_UNIT, .end = l->m->n_units});
    if (l->move.gather) {
        emit_init(&x, "gather.forward.begin", OP_MARK, PHASE_FORWARD, STREAM_GATHER);
        emit_life(&x, l->weights, 0, false);
        first = emit_add(l, &x);
        n = emit_gather(l, PHASE_FORWARD, NULL, gathers);
        /* forward_end and backward_end are not known yet: their waits are added when they are */
        BUG_ON(first + 1 + n != l->p->n_ops);
    }
    emit_init(&x, "forward.begin", OP_MARK, PHASE_FORWARD, STREAM_COMPUTE);
    for (uint32_t i = 0; i < n; i++)
        emit_wait(&x, gathers[i], 0, 0);
    for (uint32_t i = 0; i < l->n_refresh; i++)
        emit_wait(&x, l->refresh[i], 0, 0);
    l->forward_begin = emit_add(l, &x);
    emit_init(&x, "forward.input", OP_MARK, PHASE_FORWARD, STREAM_COMPUTE);
    x.op.guard.units = unit_mask(l, 0);
    emit_life(&x, l->inputs, 0, false);
    emit_add(l, &x);
    emit_copies(l, PHASE_FORWARD, "copy_out", NULL, l->j->param_dtype, WHEN_ALWAYS);
    for (uint32_t c = 0; c < l->m->n_classes; c++)
        emit_pass(l, c, &classes[c], false);
    emit_init(&x, "forward.end", OP_MARK, PHASE_FORWARD, STREAM_COMPUTE);
    l->forward_end = emit_add(l, &x);
    if (l->move.gather && !l->j->reshard_never) {
        emit_init(&x, "forward.release", OP_MARK, PHASE_FORWARD, STREAM_COMPUTE);
        x.op.guard.units = l->not_kept;
        emit_life(&x, l->weights, 0, true);
        emit_add(l, &x);
    }
    if (l->move.gather) /* gathers run `prefetch` units ahead of compute */
        program_op_wait(
            &l->b, first,
            (struct wait){.op = l->forward_end, .d_unit = -1 - (int32_t)l->j->prefetch});
    program_close_loop(&l->b);
}

static void backward_begin(struct lower *l, const uint32_t *gathers, uint32_t n)
{
    struct emit x;

    emit_init(&x, "backward.begin", OP_MARK, PHASE_BACKWARD, STREAM_COMPUTE);
    for (uint32_t i = 0; i < n; i++)
        emit_wait(&x, gathers[i], 0, 0);
    emit_add(l, &x);
    if (!l->move.full_grads && l->m->tied) {
        /* the head's product already adds to the embedding's gradient */
        emit_init(&x, "backward.begin.tied", OP_MARK, PHASE_BACKWARD, STREAM_COMPUTE);
        x.op.guard.units = unit_mask(l, last_unit(l));
        emit_life(&x, l->grads, -(int32_t)last_unit(l), false);
        emit_add(l, &x);
    }
}

static void backward_loop(struct lower *l, const struct class_lives *classes)
{
    uint32_t gathers[2], n = 0, begin = PROGRAM_NONE, last;
    int32_t ahead = 1 + (int32_t)l->j->prefetch;
    struct emit x;

    program_open_loop(&l->b,
                      &(struct loop){.kind = LOOP_UNIT, .end = l->m->n_units, .descending = true});
    if (l->move.gather && !l->j->reshard_never) {
        emit_init(&x, "gather.backward.begin", OP_MARK, PHASE_BACKWARD, STREAM_GATHER);
        x.op.guard.units = l->not_kept;
        emit_wait(&x, l->forward_end, +1, 0); /* not before forward is past it */
        emit_life(&x, l->weights, 0, false);
        begin = emit_add(l, &x);
        n = emit_gather(l, PHASE_BACKWARD, l->not_kept, gathers);
    }
    backward_begin(l, gathers, n);
    if (!l->j->reshard_never)
        emit_copies(l, PHASE_BACKWARD, "copy_out", l->not_kept, l->j->param_dtype, WHEN_ALWAYS);
    for (uint32_t c = 0; c < l->m->n_classes; c++)
        emit_pass(l, c, &classes[c], true);
    emit_copies(l, PHASE_BACKWARD, "copy_in", NULL, l->j->grad_dtype, l->move.reduce_when);
    if (l->m->classes[l->m->units[0].class_id].kind != UNIT_EMBED) {
        /* without an embedding nobody takes the gradient of the first layer's input (it has no bytes) */
        emit_init(&x, "backward.input", OP_MARK, PHASE_BACKWARD, STREAM_COMPUTE);
        x.op.guard.units = unit_mask(l, 0);
        emit_life(&x, l->input_grads, 0, true);
        emit_add(l, &x);
    }
    emit_init(&x, "backward.end", OP_MARK, PHASE_BACKWARD, STREAM_COMPUTE);
    emit_life(&x, l->inputs, 0, true);
    if (l->move.gather)
        emit_life(&x, l->weights, 0, true);
    if (!l->move.full_grads) /* FSDP2 keeps the input of a reduction until the next unit's is due */
        emit_life(&x, l->grads, +1, true);
    l->backward_end = emit_add(l, &x);
    if (begin != PROGRAM_NONE)
        program_op_wait(&l->b, begin, (struct wait){.op = l->backward_end, .d_unit = ahead});
    if (!l->move.full_grads) {
        emit_init(&x, "reduce.begin", OP_MARK, PHASE_BACKWARD, STREAM_REDUCE);
        x.op.guard.micro = WHEN_FIRST;
        emit_wait(&x, l->backward_end, 0, 0);
        emit_life(&x, l->grad_shard, 0, false);
        emit_life(&x, l->grad_owned, 0, false);
        if (x.op.n_lives)
            emit_add(l, &x);
    }
    emit_reduce(l);
    if (!l->move.full_grads) {
        if (l->move.replicate == STREAM_REDUCE)
            emit_replicate(l);
        emit_init(&x, "reduce.end", OP_MARK, PHASE_BACKWARD, STREAM_REDUCE);
        emit_wait(&x, l->backward_end, 0, 0);
        l->reduce[0] = emit_add(l, &x);
        l->n_reduce = 1;
        emit_init(&x, "reduce.last", OP_MARK, PHASE_BACKWARD, STREAM_REDUCE);
        x.op.guard.units = unit_mask(l, 0);
        emit_life(&x, l->grads, 0, true);
        last = emit_add(l, &x);
        /* FSDP2 keeps one reduction in flight: the next unit's end waits for it */
        program_op_wait(&l->b, l->backward_end, (struct wait){.op = l->reduce[0], .d_unit = +1});
        /* ... and its last backward hook all of them: the next micro-batch starts with nothing in flight */
        program_op_wait(&l->b, l->forward_begin, (struct wait){.op = l->reduce[0], .d_micro = -1});
        program_op_wait(&l->b, l->forward_begin, (struct wait){.op = last, .d_micro = -1});
        if (l->move.replicate == STREAM_ALL_REDUCE)
            emit_replicate(l);
    } else if (l->move.replicate != STREAM_COMPUTE) {
        emit_replicate(l);
    }
    program_close_loop(&l->b);
}

void lower_forward_backward(struct lower *l)
{
    struct class_lives *classes = ARENA_NEW(l->a, struct class_lives, l->m->n_classes);
    uint32_t first_gather = l->p->n_ops;

    step_buffers(l);
    for (uint32_t c = 0; c < l->m->n_classes; c++) {
        struct class_lives *k = &classes[c];

        k->g = &l->graphs[c];
        k->c = &l->m->classes[c];
        if (k->c->kind != UNIT_HEAD)
            k->outside[k->g->output] = true;
        lives_retain(k, k->c->kind == UNIT_LAYER ? l->j->recompute : RECOMPUTE_NONE,
                     l->j->framework);
        lives_passes(k);
    }
    program_open_loop(&l->b, &(struct loop){.kind = LOOP_MICRO, .end = l->p->n_micro});
    forward_loop(l, classes);
    backward_loop(l, classes);
    program_close_loop(&l->b);
    if (l->move.gather) /* the next micro-batch gathers a unit when the last one has released it */
        program_op_wait(&l->b, first_gather, (struct wait){.op = l->backward_end, .d_micro = -1});
}

/* ---- optimizer frame ---- */

void lower_optimizer_begin(struct lower *l)
{
    struct emit x;

    emit_init(&x, "optimizer.begin", OP_MARK, PHASE_OPTIMIZER, STREAM_COMPUTE);
    emit_wait(&x, l->backward_end, 0, 0);
    for (uint32_t i = 0; i < l->n_reduce; i++)
        emit_wait(&x, l->reduce[i], 0, 0);
    l->optimizer_begin = emit_add(l, &x);
}

void lower_optimizer_end(struct lower *l)
{
    struct emit x;

    emit_init(&x, "optimizer.end", OP_MARK, PHASE_OPTIMIZER, STREAM_COMPUTE);
    l->optimizer_end = emit_add(l, &x);
    if (l->grad_shard == PROGRAM_NONE && l->grad_owned == PROGRAM_NONE)
        return;
    program_open_loop(&l->b, &(struct loop){.kind = LOOP_UNIT, .end = l->m->n_units});
    emit_init(&x, "grads.release", OP_MARK, PHASE_OPTIMIZER, STREAM_COMPUTE);
    emit_life(&x, l->grad_shard, 0, true);
    emit_life(&x, l->grad_owned, 0, true);
    emit_add(l, &x);
    program_close_loop(&l->b);
}

int lower_end(struct lower *l, struct err *e)
{
    l->p->known = (struct known_buffers){
        .params = l->params,
        .states = l->states,
        .master = l->master,
        .weights = l->weights,
        .inputs = l->inputs,
        .input_grads = l->input_grads,
        .grads = l->grads,
        .grad_shard = l->grad_shard,
        .grad_owned = l->grad_owned,
        .held = l->held,
    };
    l->p->roles = ARENA_NEW(l->a, struct role, 1);
    l->p->roles[0] =
        (struct role){.name = "rank", .n_ranks = l->n, .rank_stride = 1, .n_ops = l->p->n_ops};
    l->p->n_roles = 1;
    return program_builder_finish(&l->b, e);
}
