/* tests/layouts/formulas.h - the bytes that all ranks together send in a step, by phase, in closed form.
 *
 * Written from the papers and from what each layout's page says, with divisions of their own: they
 * look neither at the program nor at model/plan/placement.h, so that they can contradict both.
 *
 * W ranks, G of which share one copy of what is cut, R = W/G replicas; s bytes an element; m
 * micro-batches.
 *   ddp      2 (W-1) W ceil(E/W) s of every bucket of E elements.
 *   zero1    reduction (W-1) N s, after the step (W-1) times the padded bytes, and (h-1) times the bytes of
 *            every matrix that slice boundaries leave to h holders. zero2: the reduction in each micro-batch.
 *   zero3    m (G-1) R (U_forward + U_backward + U_gradients), U the bytes of the units (padded chunks or owner
 *            segments), where units that stay gathered (the last; the first when tied) need no second gather;
 *            in the step (G-1) R times the padded bytes of what is gathered; all-to-all: twice those of one
 *            matrix a batch.
 *   hsdp     the same, and 2 R ceil(E/R) s of each shard of E elements, once a step.
 *   mesh     P, Q, S parts of parameters, gradients and states: see formula_mesh().
 */
#ifndef BALLAST_TESTS_LAYOUTS_FORMULAS_H
#define BALLAST_TESTS_LAYOUTS_FORMULAS_H

#include "core/num.h"
#include "layouts/step.h"
#include "model/plan/optimizers.h"
#include "model/plan/segment_algo.h"

#include <stdio.h>
#include <string.h>

static inline uint64_t formula_shards(const struct plan *p)
{
    return p->job.shard_group ? p->job.shard_group : p->world;
}

static inline bool formula_cuts_grads(const struct plan *p)
{
    return factor_ranks(p->factor[GRAD]) > 1;
}

static inline uint64_t formula_chunks(const struct plan *plan, uint32_t unit, enum dtype d)
{
    const struct unit *u = &plan->model.units[unit];
    uint64_t sum = 0, g = formula_shards(plan);

    for (uint32_t i = u->first; i < u->first + u->n; i++)
        if (plan->place[i].rule == PLACE_CHUNK)
            sum += num_ceil_div(plan->model.tensors[i].rows, g) * plan->model.tensors[i].cols;
    return dtype_bytes(d, sum) * g;
}

static inline uint64_t formula_owned(const struct plan *plan, uint32_t unit, enum dtype d)
{
    const struct unit *u = &plan->model.units[unit];
    uint64_t sum = 0, most = 0;

    for (uint32_t i = u->first; i < u->first + u->n; i++) {
        uint64_t mine = 0;

        if (plan->place[i].rule != PLACE_OWNER)
            continue;
        sum += plan->model.tensors[i].numel;
        for (uint32_t k = u->first; k < u->first + u->n && segment_algo_pads(plan->job.gather); k++)
            if (plan->place[k].rule == PLACE_OWNER && plan->place[k].owner == plan->place[i].owner)
                mine += plan->model.tensors[k].numel;
        most = num_max(most, mine);
    }
    return dtype_bytes(d, segment_algo_pads(plan->job.gather) ? most * formula_shards(plan) : sum);
}

static inline void formula_ddp(const struct plan *plan, uint64_t bytes[PHASE_N])
{
    uint64_t s = dtype_bytes(plan->job.grad_dtype, 1), w = plan->world, sum = 0, open = 0;
    uint64_t bucket = plan->job.bucket_bytes, piece = num_max(bucket / s, 1);

    for (int i = 0; i < PHASE_N; i++)
        bytes[i] = 0;
    for (uint32_t u = plan->model.n_units; u-- > 0;) {
        open += plan->model.units[u].numel;
        if (u && bucket && open * s < bucket)
            continue;
        if (bucket && bucket < open * s)
            sum += open / piece * num_ceil_div(piece, w) + num_ceil_div(open % piece, w);
        else
            sum += num_ceil_div(open, w);
        open = 0;
    }
    bytes[PHASE_BACKWARD] = 2 * (w - 1) * w * sum * s;
}

/* Bytes of the matrices that slice boundaries cut, times their holders less one. */
static inline uint64_t formula_cut(const struct plan *plan)
{
    uint64_t slice = num_ceil_div(plan->model.total_params, formula_shards(plan)), at = 0, sum = 0;

    for (uint32_t i = 0; i < plan->model.n_tensors; i++) {
        const struct tensor *t = &plan->model.tensors[i];

        if (layout_updates_as_matrix(plan, t))
            sum += dtype_bytes(optimizer_travel_dtype(&plan->job), t->numel) *
                   ((at + t->numel - 1) / slice - at / slice);
        at += t->numel;
    }
    return sum;
}

/* Bytes that one copy of the parameters is padded to where units are refreshed one by one; else `even`. */
static inline uint64_t formula_refresh(const struct plan *plan, uint64_t shards, uint64_t even)
{
    uint64_t sum = 0;

    if (!plan->job.overlap_refresh)
        return even;
    for (uint32_t u = 0; u < plan->model.n_units; u++)
        sum += num_ceil_div(plan->model.units[u].numel, shards) * shards;
    return sum;
}

static inline void formula_zero1(const struct plan *plan, uint64_t bytes[PHASE_N])
{
    const struct job *j = &plan->job;
    uint64_t w = plan->world, even, reduced = 0, refreshed = 0;
    uint64_t times = formula_cuts_grads(plan) ? j->grad_accum : 1;

    for (int i = 0; i < PHASE_N; i++)
        bytes[i] = 0;
    if (w == 1)
        return;
    if (formula_shards(plan) < w) {
        uint64_t g = formula_shards(plan),
                 all = num_ceil_div(plan->model.total_params, formula_shards(plan)) * g;
        uint64_t piece = num_max(j->bucket_bytes / dtype_bytes(j->param_dtype, 1), 1);

        formula_ddp(plan, bytes);
        even = j->bucket_bytes && j->bucket_bytes < dtype_bytes(j->param_dtype, all)
                   ? (all / piece * num_ceil_div(piece, g) + num_ceil_div(all % piece, g)) * g
                   : all;
        bytes[PHASE_REFRESH] =
            w / g * (g - 1) * dtype_bytes(j->param_dtype, formula_refresh(plan, g, even));
        return;
    }
    if (plan->strategy != STRATEGY_OWNER) {
        uint64_t piece = num_max(j->bucket_bytes / dtype_bytes(j->param_dtype, 1), 1),
                 all = num_ceil_div(plan->model.total_params, formula_shards(plan)) * w;

        bytes[PHASE_BACKWARD] =
            times * (w - 1) * dtype_bytes(j->grad_dtype, plan->model.total_params);
        bytes[PHASE_OPTIMIZER] = formula_cut(plan);
        even = j->bucket_bytes && j->bucket_bytes < dtype_bytes(j->param_dtype, all)
                   ? (all / piece * num_ceil_div(piece, w) + num_ceil_div(all % piece, w)) * w
                   : all;
        bytes[PHASE_REFRESH] =
            (w - 1) * dtype_bytes(j->param_dtype, formula_refresh(plan, w, even));
        return;
    }
    for (uint32_t u = 0; u < plan->model.n_units; u++) {
        reduced += formula_chunks(plan, u, j->grad_dtype) + formula_owned(plan, u, j->grad_dtype);
        refreshed +=
            formula_chunks(plan, u, j->param_dtype) + formula_owned(plan, u, j->param_dtype);
    }
    bytes[PHASE_BACKWARD] = times * (w - 1) * reduced;
    bytes[PHASE_REFRESH] = (w - 1) * refreshed;
}

/* Bytes that all ranks send for one matrix in the step; `ordinal` counts matrices of its shape. */
static inline uint64_t formula_matrix(const struct plan *plan, const struct tensor *t,
                                      uint32_t ordinal)
{
    const struct job *j = &plan->job;
    uint64_t w = formula_shards(plan), m = num_min(t->rows, t->cols);
    uint64_t whole = dtype_bytes(optimizer_travel_dtype(j), num_ceil_div(t->rows, w) * w * t->cols);

    switch (plan->strategy) {
    case STRATEGY_STOCK:
        return 2 * j->ns_steps * whole +
               j->ns_steps * dtype_bytes(j->param_dtype, num_ceil_div(m, w) * w * m);
    case STRATEGY_ALLTOALL: /* a batch, there and back */
        return ordinal % w == 0 ? 2 * whole : 0;
    case STRATEGY_GATHER:
    case STRATEGY_GATHER_ONCE:
        return whole;
    case STRATEGY_REPLICATED: /* these move nothing in the step */
    case STRATEGY_OWNER:
        return 0;
    case STRATEGY_N:
        break;
    }
    BUG_ON(true);
}

static inline uint64_t formula_step(const struct plan *plan)
{
    struct part_alike *alike = MEM_NEW(struct part_alike, plan->model.n_tensors);
    uint64_t sum = 0;

    part_alike(plan, alike);
    for (uint32_t i = 0; i < plan->model.n_tensors; i++)
        if (layout_updates_as_matrix(plan, &plan->model.tensors[i]))
            sum += formula_matrix(plan, &plan->model.tensors[i], alike[i].ordinal);
    mem_free(alike);
    return sum;
}

static inline void formula_zero3(const struct plan *plan, uint64_t bytes[PHASE_N])
{
    const struct job *j = &plan->job;
    uint64_t w = formula_shards(plan), all_groups, gather = 0, again = 0, grads = 0;

    for (int i = 0; i < PHASE_N; i++)
        bytes[i] = 0;
    if (w == 1)
        return;
    for (uint32_t u = 0; u < plan->model.n_units; u++) {
        uint64_t all =
            formula_chunks(plan, u, j->param_dtype) + formula_owned(plan, u, j->param_dtype);

        gather += all;
        if (!j->reshard_never && u + 1 < plan->model.n_units &&
            !(u == 0 && model_shares_table(&plan->model)))
            again += all;
        grads += formula_chunks(plan, u, j->grad_dtype) + formula_owned(plan, u, j->grad_dtype);
    }
    all_groups = plan->world / w * (w - 1);
    bytes[PHASE_FORWARD] = j->grad_accum * all_groups * gather;
    bytes[PHASE_BACKWARD] =
        all_groups *
        (j->grad_accum * again +
         ((plan->job.sync_last && plan->job.grad_accum > 1) ? 1 : j->grad_accum) * grads);
    if (plan->strategy != STRATEGY_OWNER)
        bytes[PHASE_OPTIMIZER] = all_groups * formula_step(plan);
}

/* What the ranks in one place send of a shard of so many elements. */
static inline uint64_t formula_ring(const struct plan *plan, uint64_t elements)
{
    uint64_t r = plan->world / formula_shards(plan);

    return 2 * (r - 1) * r * dtype_bytes(plan->job.grad_dtype, num_ceil_div(elements, r));
}

static inline uint64_t formula_replicated(const struct plan *plan, uint32_t unit)
{
    const struct unit *u = &plan->model.units[unit];
    uint32_t g = formula_shards(plan);
    uint64_t sum, *own;

    if (g == 1)
        return formula_ring(plan, u->numel);
    own = MEM_NEW(uint64_t, g);
    sum = g * formula_ring(plan, formula_chunks(plan, unit, plan->job.grad_dtype) /
                                     dtype_bytes(plan->job.grad_dtype, 1) / g);
    for (uint32_t i = u->first; i < u->first + u->n; i++)
        if (plan->place[i].rule == PLACE_OWNER)
            own[plan->place[i].owner] += plan->model.tensors[i].numel;
    for (uint32_t k = 0; k < g; k++)
        sum += formula_ring(plan, own[k]);
    mem_free(own);
    return sum;
}

static inline void formula_hsdp(const struct plan *plan, uint64_t bytes[PHASE_N])
{
    formula_zero3(plan, bytes);
    for (uint32_t u = 0; u < plan->model.n_units; u++)
        bytes[PHASE_BACKWARD] += formula_replicated(plan, u);
}

/* ---- mesh ---- */

/* AMSP (arXiv 2311.00257): every component is cut by a factor of its own, P <= Q <= S, each a multiple of the one before,
 * and R = W/S copies of the states are left. */
struct formula_factors {
    uint64_t p, q, s, r;
};

static inline struct formula_factors formula_factors(const struct plan *plan)
{
    unsigned long long x[6];

    BUG_ON(sscanf(plan->job.mesh, "p=%llux%llu,g=%llux%llu,os=%llux%llu", &x[0], &x[1], &x[2],
                  &x[3], &x[4], &x[5]) != 6);
    return (struct formula_factors){x[0] * x[1], x[2] * x[3], x[4] * x[5],
                                    plan->world / (x[4] * x[5])};
}

/* Elements that the rows of a unit (of one of its matrices: `only`, else MODEL_NONE) have room for in one part, where they are cut
 * in `first` parts, each of which in `then`, each of which in `last`. */
static inline uint64_t formula_part(const struct plan *plan, uint32_t unit, uint32_t only,
                                    uint64_t first, uint64_t then, uint64_t last)
{
    const struct unit *u = &plan->model.units[unit];
    uint64_t sum = 0;

    for (uint32_t i = u->first; i < u->first + u->n; i++) {
        const struct tensor *t = &plan->model.tensors[i];
        uint64_t rows = (t->rows + first - 1) / first;

        rows = (rows + then - 1) / then;
        if (only == MODEL_NONE || only == i)
            sum += (rows + last - 1) / last * t->cols;
    }
    return sum;
}

/* What all ranks send where W/n groups of n gather parts of so many elements from each other; a reduce-scatter
 * of parts as large moves the same the other way round. */
static inline uint64_t formula_among(const struct plan *plan, uint64_t n, uint64_t part,
                                     enum dtype d)
{
    return plan->world / n * (n - 1) * n * dtype_bytes(d, part);
}

/* For the units: m (P-1) W/P times their P padded parts forward, the same backward but for units that stay; Q parts are
 * reduced from whole gradients in each micro-batch, S/Q of each in the last, and S/Q = 1 of nothing; 2 ceil(E/R) of
 * the E that are left, on every rank; after the step S/P parts of the updated parameters. With Q = 1 gradients stay
 * whole, and all is reduced in the last micro-batch, as with no_sync. Matrices of +gather: all of their S parts. */
static inline void formula_mesh(const struct plan *plan, uint64_t bytes[PHASE_N])
{
    const struct formula_factors f = formula_factors(plan);
    const struct model *m = &plan->model;
    const struct job *j = &plan->job;
    uint64_t times = j->grad_accum, first = f.q > 1 ? f.q : f.s;

    for (int i = 0; i < PHASE_N; i++)
        bytes[i] = 0;
    if (f.q == 1 || j->sync_last)
        times = 1;
    for (uint32_t u = 0; u < m->n_units; u++) {
        uint64_t p = formula_part(plan, u, MODEL_NONE, f.p, 1, 1),
                 q = formula_part(plan, u, MODEL_NONE, f.p, f.q / f.p, 1),
                 s = formula_part(plan, u, MODEL_NONE, f.p, f.q / f.p, f.s / f.q),
                 gathered = formula_among(plan, f.p, p, j->param_dtype);
        bool stays = j->reshard_never || u + 1 == m->n_units || (u == 0 && model_shares_table(m));

        bytes[PHASE_FORWARD] += j->grad_accum * gathered;
        bytes[PHASE_BACKWARD] += stays ? 0 : j->grad_accum * gathered;
        bytes[PHASE_BACKWARD] +=
            times * formula_among(plan, first, first == f.q ? q : s, j->grad_dtype);
        if (first == f.q)
            bytes[PHASE_BACKWARD] += formula_among(plan, f.s / f.q, s, j->grad_dtype);
        bytes[PHASE_BACKWARD] +=
            2 * plan->world * (f.r - 1) * dtype_bytes(j->grad_dtype, (s + f.r - 1) / f.r);
        bytes[PHASE_REFRESH] += formula_among(plan, f.s / f.p, s, j->param_dtype);
    }
    for (uint32_t i = 0; i < m->n_tensors; i++)
        if (layout_updates_as_matrix(plan, &m->tensors[i]))
            bytes[PHASE_OPTIMIZER] += formula_among(
                plan, f.s, formula_part(plan, m->tensors[i].unit, i, f.p, f.q / f.p, f.s / f.q),
                optimizer_travel_dtype(j));
}

/* By the name of the layout. */
static inline void formula_bytes(const struct plan *plan, uint64_t bytes[PHASE_N])
{
    if (!strcmp(plan->layout, "ddp"))
        formula_ddp(plan, bytes);
    else if (!strncmp(plan->layout, "zero1", 5) || !strncmp(plan->layout, "zero2", 5))
        formula_zero1(plan, bytes);
    else if (!strcmp(plan->layout, "zero3"))
        formula_zero3(plan, bytes);
    else if (!strcmp(plan->layout, "mesh"))
        formula_mesh(plan, bytes);
    else
        formula_hsdp(plan, bytes);
}

#endif
