#include "layouts/step.h"

#include "layouts/emit.h"
#include "core/num.h"
#include "model/plan/frameworks.h"
#include "model/tensors/slice.h"

#include <string.h>

/* ---- begin ---- */

uint32_t lower_group(struct lower *l, const struct mesh *m, axis_set over)
{
    struct group g = mesh_group(m, over,
                                over == AXES(AXIS_D3)   ? "replicas"
                                : over == AXES(AXIS_TP) ? "tensor"
                                                        : "shards");

    if (g.n_members == 1)
        return PROGRAM_NONE;
    for (uint32_t i = 0; i < l->p->n_groups; i++) {
        const struct group *x = &l->p->groups[i];

        if (x->n_axes == g.n_axes && !memcmp(x->size, g.size, sizeof(g.size)) &&
            !memcmp(x->stride, g.stride, sizeof(g.stride)))
            return i;
    }
    return program_add_group(&l->b, &g);
}

int lower_begin(struct lower *l, const struct plan *plan, struct arena *a, struct program *p,
                struct err *e)
{
    const struct graph_batch batch = job_batch(&plan->job);

    memset(l, 0, sizeof(*l));
    memset(p, 0, sizeof(*p));
    l->plan = plan;
    l->layout = layout_find(plan->layout);
    l->m = &plan->model;
    l->j = &plan->job;
    l->n = plan->world;
    l->a = a;
    l->p = p;
    p->model = &plan->model;
    p->place = plan->place;
    p->world = plan->world;
    p->distinct = mesh_distinct(&plan->mesh);
    p->gpus_per_node = cluster_domain_gpus(&plan->cluster);
    p->n_micro = (uint32_t)plan->job.grad_accum;
    p->in_order = framework_row(l->j->framework)->waits;
    l->graphs = ARENA_NEW(a, struct unit_graph, l->m->n_classes);
    for (uint32_t c = 0; c < l->m->n_classes; c++) {
        if (graph_build(l->m, c, &batch, l->j->param_dtype, &l->graphs[c], e) ||
            (job_unfused_attention(l->j, l->m) &&
             graph_unfuse_attention(&l->graphs[c], l->j->param_dtype, e)))
            return -1;
        if (l->j->loss == LOSS_FUSED)
            graph_fuse_loss(&l->graphs[c]);
    }
    program_builder_init(&l->b, p, a);
    l->world = program_add_group(
        &l->b, &(struct group){
                   .name = "world", .n_axes = 1, .size = {l->n}, .stride = {1}, .n_members = l->n});
    l->tensor = lower_group(l, &plan->mesh, AXES(AXIS_TP));
    l->shards = placement_parts(plan, STATE);
    l->shard = lower_group(l, &plan->mesh, plan->over[STATE]);
    l->move = (struct movement){
        .calls = framework_row(l->j->framework)->pieces ? CALLS_PIECES : CALLS_USUAL,
        .gather = redistribute_nothing(),
        .reduce = redistribute_nothing(),
        .reduce_after = plan_data_ranks(plan) > 1 && job_reduces_after(l->j)};
    l->owner_table = PROGRAM_NONE;
    l->params = l->states = l->master = PROGRAM_NONE;
    l->padded = l->weights = l->inputs = l->input_grads = l->grads = l->grad_shard = l->grad_owned =
        l->eager = PROGRAM_NONE;
    l->kept = ARENA_NEW(a, bool, l->m->n_units);
    l->not_kept = ARENA_NEW(a, bool, l->m->n_units);
    for (uint32_t u = 0; u < l->m->n_units; u++) {
        l->kept[u] =
            l->j->reshard_never || u == last_unit(l) || (u == 0 && model_shares_table(l->m));
        l->not_kept[u] = !l->kept[u];
    }
    return 0;
}

/* ---- gathers and reductions ---- */

static bool cuts_params(const struct lower *l)
{
    return l->move.gather.group != PROGRAM_NONE;
}

/* The collectives of a unit's gather, after a mark that waits and reserves. Ids into ids[]; returns
 * how many. */
static uint32_t emit_gather(struct lower *l, enum phase phase, const bool *units, uint32_t ids[2])
{
    struct op ops[2];
    uint32_t n = exchange_ops(l, &l->move.gather,
                              phase == PHASE_FORWARD ? "gather.forward" : "gather.backward", ops);

    for (uint32_t i = 0; i < n; i++) {
        struct emit x;

        emit_init(&x, ops[i].name, OP_COLLECTIVE, phase, STREAM_GATHER);
        x.op.guard.units = units;
        x.op.coll = ops[i].coll;
        x.op.coll.calls = l->move.calls;
        x.op.coll.traffic = TRAFFIC_GATHER;
        x.op.coll.moved.from_buffer = l->params;
        x.op.coll.moved.to_buffer = l->weights;
        emit_operand(&x, l->params, OPERAND_WHOLE, ACCESS_READ);
        emit_operand(&x, l->weights, OPERAND_WHOLE, ACCESS_WRITE);
        if (x.op.coll.table != PROGRAM_NONE) {
            emit_life(&x, l->padded, 0, false);
            emit_life(&x, l->padded, 0, true);
        }
        ids[i] = emit_add(l, &x);
    }
    return n;
}

/* Where reduced gradients of an exchange's operation are: among whole ones, or the rank's parts
 * alone. */
static uint32_t reduced_buffer(const struct lower *l, const struct collective *k)
{
    return l->move.full_grads ? l->grads : k->table != PROGRAM_NONE ? l->grad_owned : l->grad_shard;
}

/* A unit's, after `begin`. */
static void emit_reduce(struct lower *l, uint32_t begin)
{
    struct op ops[2];
    uint32_t n = exchange_ops(l, &l->move.reduce, "reduce", ops);

    l->n_reduce = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct emit x;

        emit_init(&x, ops[i].name, OP_COLLECTIVE, PHASE_BACKWARD, STREAM_REDUCE);
        x.op.guard.micro = l->move.reduce_when;
        x.op.coll = ops[i].coll;
        x.op.coll.calls = l->move.calls;
        x.op.coll.traffic = TRAFFIC_REDUCE;
        x.op.coll.moved.from_buffer = l->grads;
        x.op.coll.moved.to_buffer = reduced_buffer(l, &ops[i].coll);
        x.op.coll.moved.adds = !l->move.full_grads;
        emit_wait(&x, begin, 0, 0);
        emit_operand(&x, l->grads, OPERAND_WHOLE, ACCESS_READ);
        if (!l->move.full_grads)
            emit_operand(&x, x.op.coll.moved.to_buffer, OPERAND_WHOLE, ACCESS_ADD);
        l->reduce[l->n_reduce++] = emit_add(l, &x);
    }
}

/* What the last micro-batch left, reduced again in place, level after level: each waits for the
 * operations of the one before, of which one may move nothing. */
static void emit_levels(struct lower *l)
{
    for (uint32_t k = 0; k < l->move.n_levels; k++) {
        const struct exchange *level = &l->move.level[k];
        const char *name = level->from != level->to ? "reduce.states"
                           : k == 0                 ? "replicate"
                                                    : arena_printf(l->a, "replicate.%u", k + 1);
        uint32_t n_waits = l->n_reduce;
        struct op ops[2];
        uint32_t n = exchange_ops(l, level, name, ops);

        for (uint32_t i = 0; i < n; i++) {
            struct emit x;

            emit_init(&x, ops[i].name, OP_COLLECTIVE, PHASE_BACKWARD, l->move.level_stream);
            x.op.guard.micro = WHEN_LAST;
            x.op.coll = ops[i].coll;
            x.op.coll.traffic = TRAFFIC_REDUCE;
            x.op.coll.moved.from_buffer = x.op.coll.moved.to_buffer =
                reduced_buffer(l, &ops[i].coll);
            for (uint32_t w = 0; w < n_waits; w++)
                emit_wait(&x, l->reduce[w], 0, 0);
            emit_operand(&x, x.op.coll.moved.to_buffer, OPERAND_WHOLE, ACCESS_ADD);
            l->reduce[l->n_reduce++] = emit_add(l, &x);
        }
    }
}

/* ---- forward and backward ---- */

/* Copies between a unit's tensors and the flat buffers of its collectives, where the framework has
 * them: the bytes are read and written once, on the compute stream. */
static void emit_copies(struct lower *l, enum phase phase, const char *what, const bool *units,
                        enum dtype d, enum when micro)
{
    struct emit x;

    if (!cuts_params(l) || !framework_row(l->j->framework)->flat_copies)
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
    if (cuts_params(l)) {
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
    x.op.purpose = PURPOSE_UNIT_DONE;
    l->forward_end = emit_add(l, &x);
    if (cuts_params(l) && !l->j->reshard_never) {
        emit_init(&x, "forward.release", OP_MARK, PHASE_FORWARD, STREAM_COMPUTE);
        x.op.guard.units = l->not_kept;
        emit_life(&x, l->weights, 0, true);
        emit_add(l, &x);
    }
    if (cuts_params(l)) /* gathers run `prefetch` units ahead of compute */
        program_op_wait(
            &l->b, first,
            (struct wait){.op = l->forward_end, .d_unit = -1 - (int32_t)l->j->prefetch});
    program_close_loop(&l->b);
}

static uint32_t backward_begin(struct lower *l, const uint32_t *gathers, uint32_t n)
{
    struct emit x;
    uint32_t begin;

    emit_init(&x, "backward.begin", OP_MARK, PHASE_BACKWARD, STREAM_COMPUTE);
    for (uint32_t i = 0; i < n; i++)
        emit_wait(&x, gathers[i], 0, 0);
    begin = emit_add(l, &x);
    if (!l->move.full_grads && model_shares_table(l->m)) {
        /* the head's product, or the decoder's look-ups, already add to the embedding's gradient */
        uint32_t u = l->m->tied ? last_unit(l) : model_bridge(l->m);

        emit_init(&x, "backward.begin.tied", OP_MARK, PHASE_BACKWARD, STREAM_COMPUTE);
        x.op.guard.units = unit_mask(l, u);
        emit_life(&x, l->grads, -(int32_t)u, false);
        emit_add(l, &x);
    }
    for (int c = CARRIED_NONE + 1; c < CARRIED_N; c++) { /* gradients that all readers add to */
        if (l->carried[c].value == PROGRAM_NONE)
            continue;
        emit_init(&x, arena_printf(l->a, "backward.begin.%s", carried_name((enum carry)c)), OP_MARK,
                  PHASE_BACKWARD, STREAM_COMPUTE);
        x.op.guard.units = unit_mask(l, l->carried[c].last);
        emit_life(&x, l->carried[c].grad, 0, false);
        emit_add(l, &x);
    }
    return begin;
}

/* Of gradients that stay whole on every rank. */
static void reduce_whole(struct lower *l, uint32_t begin)
{
    emit_reduce(l, begin);
    emit_levels(l);
}

/* ... all in a row when backward is done with the last unit. */
static void reduce_whole_after(struct lower *l)
{
    struct emit x;

    emit_init(&x, "backward.done", OP_MARK, PHASE_BACKWARD, STREAM_COMPUTE);
    x.op.guard.micro = l->move.reduce_when;
    emit_wait(&x, l->backward_end, 0, 0);
    program_open_loop(&l->b,
                      &(struct loop){.kind = LOOP_UNIT, .end = l->m->n_units, .descending = true});
    reduce_whole(l, emit_add(l, &x));
    program_close_loop(&l->b);
}

/* Of gradients that are cut: they must leave before long, so with reduce_after the next unit's
 * backward waits until they have (as DeepSpeed's without overlap_comm). */
static void reduce_cut(struct lower *l, uint32_t begin)
{
    struct emit x;
    uint32_t last;

    emit_init(&x, "reduce.begin", OP_MARK, PHASE_BACKWARD, STREAM_REDUCE);
    x.op.guard.micro = WHEN_FIRST;
    emit_wait(&x, l->backward_end, 0, 0);
    emit_life(&x, l->grad_shard, 0, false);
    emit_life(&x, l->grad_owned, 0, false);
    if (x.op.n_lives)
        emit_add(l, &x);
    emit_reduce(l, l->backward_end);
    if (l->move.level_stream == STREAM_REDUCE)
        emit_levels(l);
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
    /* ... and its last backward hook all of them: the next micro-batch starts with nothing in
     * flight */
    program_op_wait(&l->b, l->forward_begin, (struct wait){.op = l->reduce[0], .d_micro = -1});
    program_op_wait(&l->b, l->forward_begin, (struct wait){.op = last, .d_micro = -1});
    if (l->move.level_stream == STREAM_ALL_REDUCE)
        emit_levels(l);
    for (uint32_t i = 0; i < l->n_reduce && l->move.reduce_after; i++)
        program_op_wait(&l->b, begin, (struct wait){.op = l->reduce[i], .d_unit = +1});
}

static void backward_loop(struct lower *l, const struct class_lives *classes)
{
    uint32_t gathers[2], n = 0, gather_begin = PROGRAM_NONE, begin;
    int32_t ahead = 1 + (int32_t)l->j->prefetch;
    struct emit x;

    program_open_loop(&l->b,
                      &(struct loop){.kind = LOOP_UNIT, .end = l->m->n_units, .descending = true});
    if (cuts_params(l) && !l->j->reshard_never) {
        emit_init(&x, "gather.backward.begin", OP_MARK, PHASE_BACKWARD, STREAM_GATHER);
        x.op.guard.units = l->not_kept;
        emit_wait(&x, l->forward_end, +1, 0); /* not before forward is past it */
        emit_life(&x, l->weights, 0, false);
        gather_begin = emit_add(l, &x);
        n = emit_gather(l, PHASE_BACKWARD, l->not_kept, gathers);
    }
    begin = backward_begin(l, gathers, n);
    if (!l->j->reshard_never)
        emit_copies(l, PHASE_BACKWARD, "copy_out", l->not_kept, l->j->param_dtype, WHEN_ALWAYS);
    for (uint32_t c = 0; c < l->m->n_classes; c++)
        emit_pass(l, c, &classes[c], true);
    for (int c = CARRIED_NONE + 1; c < CARRIED_N;
         c++) { /* nobody reads it after its first reader's backward */
        if (l->carried[c].value == PROGRAM_NONE)
            continue;
        emit_init(&x, arena_printf(l->a, "backward.end.%s", carried_name((enum carry)c)), OP_MARK,
                  PHASE_BACKWARD, STREAM_COMPUTE);
        x.op.guard.units = unit_mask(l, l->carried[c].first);
        emit_life(&x, l->carried[c].value, 0, true);
        emit_add(l, &x);
    }
    emit_copies(l, PHASE_BACKWARD, "copy_in", NULL, l->j->grad_dtype, l->move.reduce_when);
    if (l->m->classes[l->m->units[0].class_id].kind != UNIT_EMBED) {
        /* without an embedding nobody takes the gradient of the first layer's input (it has no
         * bytes) */
        emit_init(&x, "backward.input", OP_MARK, PHASE_BACKWARD, STREAM_COMPUTE);
        x.op.guard.units = unit_mask(l, 0);
        emit_life(&x, l->input_grads, 0, true);
        emit_add(l, &x);
    }
    emit_init(&x, "backward.end", OP_MARK, PHASE_BACKWARD, STREAM_COMPUTE);
    emit_life(&x, l->inputs, 0, true);
    if (cuts_params(l))
        emit_life(&x, l->weights, 0, true);
    if (!l->move.full_grads) /* FSDP2 keeps the input of a reduction until the next unit's is due */
        emit_life(&x, l->grads, +1, true);
    l->backward_end = emit_add(l, &x);
    if (gather_begin != PROGRAM_NONE)
        program_op_wait(&l->b, gather_begin, (struct wait){.op = l->backward_end, .d_unit = ahead});
    if (!l->move.full_grads)
        reduce_cut(l, begin);
    else if (!l->move.reduce_after)
        reduce_whole(l, l->backward_end);
    program_close_loop(&l->b);
    if (l->move.full_grads && l->move.reduce_after)
        reduce_whole_after(l);
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
        for (uint32_t v = 0; v < k->g->n_values; v++)
            k->outside[v] |= k->g->values[v].carried != CARRIED_NONE;
        lives_retain(k, k->c->kind == UNIT_LAYER ? l->j->recompute : RECOMPUTE_NONE,
                     framework_row(l->j->framework)->selective);
        lives_passes(k);
    }
    program_open_loop(&l->b, &(struct loop){.kind = LOOP_MICRO, .end = l->p->n_micro});
    forward_loop(l, classes);
    backward_loop(l, classes);
    program_close_loop(&l->b);
    if (cuts_params(l)) /* the next micro-batch gathers a unit when the last one has released it */
        program_op_wait(&l->b, first_gather, (struct wait){.op = l->backward_end, .d_micro = -1});
}

/* ---- optimizer frame ---- */

/* What of the gradients is a part of a sum over tensor-parallel ranks is summed when they are otherwise done, all in one call
 * (Megatron's finalize_model_grads): of each rank's part where they are cut. */
static void sum_partial_gradients(struct lower *l)
{
    uint64_t elements = 0;
    struct emit x;

    for (uint32_t i = 0; i < l->m->n_tensors && l->tensor != PROGRAM_NONE; i++)
        if (slice_gradient_partial(plan_whole(l->plan), l->m, i, l->j->sequence_parallel))
            elements += l->m->tensors[i].numel;
    if (!elements)
        return;
    emit_init(&x, "reduce.tensor", OP_COLLECTIVE, PHASE_OPTIMIZER, STREAM_COMPUTE);
    x.op.coll = (struct collective){
        .kind = COLL_ALL_REDUCE,
        .traffic = TRAFFIC_TENSOR,
        .group = l->tensor,
        .elements = l->move.full_grads ? elements : num_ceil_div(elements, l->shards),
        .table = PROGRAM_NONE,
        .wire = {.dtype = l->j->grad_dtype},
        .peer_op = PROGRAM_NONE};
    emit_add(l, &x);
}

void lower_optimizer_begin(struct lower *l)
{
    struct emit x;

    emit_init(&x, "optimizer.begin", OP_MARK, PHASE_OPTIMIZER, STREAM_COMPUTE);
    emit_wait(&x, l->backward_end, 0, 0);
    for (uint32_t i = 0; i < l->n_reduce; i++)
        emit_wait(&x, l->reduce[i], 0, 0);
    l->optimizer_begin = emit_add(l, &x);
    sum_partial_gradients(l);
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
        .grads = l->grads,
        .grad_shard = l->grad_shard,
        .grad_owned = l->grad_owned,
    };
    l->p->roles = ARENA_NEW(l->a, struct role, 1);
    l->p->roles[0] =
        (struct role){.name = "rank", .n_ranks = l->n, .rank_stride = 1, .n_ops = l->p->n_ops};
    l->p->n_roles = 1;
    return program_builder_finish(&l->b, e);
}
