/* Lowered programs of every layout: they are walked, and what they say is held against what must be true of any step.
 *
 * Order: vector clocks over the streams say what has ended for certain when an instance starts (stream order and
 * waits, nothing else). Whatever touches a buffer must be ordered by them: reserve before use, use before release,
 * release before the next reserve, write before read. So a missing wait is found even where timing would hide it. */
#include "layouts/step.h"
#include "tests/layouts/plans.h"

#include "core/num.h"
#include "model/plan/optimizers.h"

static struct arena a;
static struct plan plan;
static struct program prog;
static struct err e;

static void lower(const char *model, const char *layout, const struct job *j, uint32_t world)
{
    static uint32_t seed; /* other groups and factors every time */
    struct job x = *j;

    arena_init(&a);
    plans_fit(&x, layout, world, 4, seed++);
    plans_make(&plan, &a, model, layout, &x, world, 4);
    plans_lower(&plan, &a, &prog);
}

/* ---- walking into lists ---- */

struct step {
    struct instance at;
    uint32_t clock[STREAM_N]; /* instances of each stream that have ended when this one starts */
    uint32_t position;        /* in its stream, from 1 */
};

struct steps {
    struct step *list; /* owned */
    size_t n, cap;
};

static int collect(void *ctx, const struct instance *i)
{
    struct steps *s = ctx;

    s->list = mem_grow(s->list, &s->cap, s->n + 1, sizeof(*s->list));
    s->list[s->n++] = (struct step){.at = *i};
    return 0;
}

static uint32_t loop_of_kind(uint32_t op, enum loop_kind kind)
{
    for (uint32_t l = prog.ops[op].loop; l != PROGRAM_NONE; l = prog.loops[l].parent)
        if (prog.loops[l].kind == kind)
            return l;
    return PROGRAM_NONE;
}

/* The instance that wait w of step k means: an index, or SIZE_MAX. Looks at the whole walk, later steps too. */
static size_t awaited(const struct steps *s, size_t k, const struct wait *w)
{
    const struct instance *i = &s->list[k].at;
    bool unit = loop_of_kind(w->op, LOOP_UNIT) != PROGRAM_NONE,
         micro = loop_of_kind(w->op, LOOP_MICRO) != PROGRAM_NONE;
    bool has_unit = loop_of_kind(i->op, LOOP_UNIT) != PROGRAM_NONE,
         has_micro = loop_of_kind(i->op, LOOP_MICRO) != PROGRAM_NONE;
    size_t found = SIZE_MAX;

    for (size_t n = 0; n < s->n; n++) {
        const struct instance *x = &s->list[n].at;

        if (x->op != w->op)
            continue;
        if (loop_of_kind(w->op, LOOP_ITEM) != PROGRAM_NONE) {
            if (n < k) /* the same item, or the last one */
                found = n;
            continue;
        }
        if ((unit && !has_unit) || (micro && !has_micro)) {
            if (n < k)
                found = n;
            continue;
        }
        if (unit && (int64_t)x->unit != (int64_t)i->unit + w->d_unit)
            continue;
        if (micro && (int64_t)x->micro != (int64_t)i->micro + w->d_micro)
            continue;
        found = n;
    }
    return found;
}

static void after(struct step *x, const struct step *before)
{
    uint32_t s = (uint32_t)prog.ops[before->at.op].stream;

    for (int k = 0; k < STREAM_N; k++)
        x->clock[k] = (uint32_t)num_max(x->clock[k], before->clock[k]);
    x->clock[s] = (uint32_t)num_max(x->clock[s], before->position);
}

/* Walks rank's program; every wait must point at something that was walked before. */
static void clocks(struct steps *s, uint32_t rank)
{
    size_t tail[STREAM_N];

    memset(s, 0, sizeof(*s));
    memset(tail, 0xff, sizeof(tail));
    program_walk(&prog, rank, collect, s);
    for (size_t k = 0; k < s->n; k++) {
        const struct op *o = &prog.ops[s->list[k].at.op];

        s->list[k].position = 1;
        if (tail[o->stream] != SIZE_MAX) {
            after(&s->list[k], &s->list[tail[o->stream]]);
            s->list[k].position = s->list[tail[o->stream]].position + 1;
        }
        tail[o->stream] = k;
        for (uint32_t w = 0; w < o->n_waits; w++) {
            size_t on = awaited(s, k, &o->waits[w]);

            if (on == SIZE_MAX)
                continue;
            MUST(on < k, "%s: '%s' (unit %u, micro %u) waits for '%s', which comes later",
                 plan.layout_full, o->name, s->list[k].at.unit, s->list[k].at.micro,
                 prog.ops[s->list[on].at.op].name);
            after(&s->list[k], &s->list[on]);
        }
    }
}

static bool before(const struct step *x, const struct step *y)
{
    return y->clock[prog.ops[x->at.op].stream] >= x->position;
}

/* ---- what touches a buffer ---- */

enum touch_kind { TOUCH_RESERVE, TOUCH_READ, TOUCH_WRITE, TOUCH_RELEASE };
struct touch {
    enum touch_kind kind;
    size_t step;
    uint64_t bytes; /* of a reserve of a part; 0: of all */
    bool own;       /* of the item's tensors alone, or of an instance that is the item's */
};
struct touches {
    struct touch *list; /* owned */
    size_t n, cap;
};

static void note(struct touches *t, enum touch_kind kind, size_t step, uint64_t bytes, bool own)
{
    t->list = mem_grow(t->list, &t->cap, t->n + 1, sizeof(*t->list));
    t->list[t->n++] = (struct touch){kind, step, bytes, own};
}

static uint32_t *faults; /* not NULL: count instead of failing */

static const char *const touch_names[] = {"reserves", "reads", "writes", "releases"};

static void ordered(const struct steps *s, const struct buffer *b, uint32_t unit,
                    const struct touch *x, const struct touch *y)
{
    const struct step *p = &s->list[x->step], *q = &s->list[y->step];

    if (x->step == y->step || (x->kind == TOUCH_READ && y->kind == TOUCH_READ))
        return;
    if (x->own && y->own && prog.ops[p->at.op].loop == prog.ops[q->at.op].loop &&
        p->at.item != q->at.item)
        return;
    if (faults) {
        *faults += !before(p, q);
        return;
    }
    MUST(before(p, q),
         "%s, %u ranks, %u micro-batches: buffer '%s' of unit %u: '%s' (unit %u micro %u) "
         "%s it, '%s' (unit %u micro %u) %s it, and nothing orders the two",
         plan.layout_full, prog.world, prog.n_micro, b->name, unit, prog.ops[p->at.op].name,
         p->at.unit, p->at.micro, touch_names[x->kind], prog.ops[q->at.op].name, q->at.unit,
         q->at.micro, touch_names[y->kind]);
}

/* One buffer of one unit through the step: reserved once or part by part, used, released once, again and again. */
static void play_buffer(const struct steps *s, const struct buffer *b, uint32_t unit,
                        const struct touches *t)
{
    bool held = b->span == SPAN_RESIDENT;
    uint64_t parts = 0;

    for (size_t i = 0; i < t->n; i++) {
        const char *op = prog.ops[s->list[t->list[i].step].at.op].name;

        switch (t->list[i].kind) {
        case TOUCH_RESERVE:
            MUST(!held || (parts && t->list[i].bytes),
                 "%s: '%s' reserves '%s' of unit %u, which is held", plan.layout_full, op, b->name,
                 unit);
            parts += t->list[i].bytes;
            held = true;
            break;
        case TOUCH_RELEASE:
            MUST(held, "%s: '%s' releases '%s' of unit %u, which is not held", plan.layout_full, op,
                 b->name, unit);
            MUST(!parts || parts == b->unit_bytes[unit],
                 "%s: '%s' releases '%s' of unit %u, of which %llu of %llu bytes were reserved",
                 plan.layout_full, op, b->name, unit, (unsigned long long)parts,
                 (unsigned long long)b->unit_bytes[unit]);
            parts = 0;
            held = false;
            break;
        default:
            MUST(held, "%s: '%s' uses '%s' of unit %u, which is not held", plan.layout_full, op,
                 b->name, unit);
            break;
        }
        for (size_t k = 0; k < i; k++)
            ordered(s, b, unit, &t->list[k], &t->list[i]);
    }
    MUST(held == (b->span == SPAN_RESIDENT), "%s: '%s' of unit %u is left at the end",
         plan.layout_full, b->name, unit);
}

static void play_lives(uint32_t rank)
{
    uint32_t units = prog.model->n_units;
    struct touches *t = MEM_NEW(struct touches, (size_t)prog.n_buffers * units);
    struct steps s;

    clocks(&s, rank);
    for (size_t k = 0; k < s.n; k++) {
        const struct op *o = &prog.ops[s.list[k].at.op];

        for (int release = 0; release < 2; release++) {
            for (uint32_t i = 0; i < o->n_lives; i++) {
                struct buffer_at at;

                if (o->lives[i].release == (bool)release &&
                    buffer_instance(&prog, o->lives[i].buffer, &s.list[k].at, o->lives[i].d_unit,
                                    &at))
                    note(&t[(size_t)o->lives[i].buffer * units + at.unit],
                         release ? TOUCH_RELEASE : TOUCH_RESERVE, k, o->lives[i].bytes,
                         prog.buffers[o->lives[i].buffer].span == SPAN_ITEM);
            }
            for (uint32_t i = 0; !release && i < o->n_operands; i++) {
                const struct buffer *b = &prog.buffers[o->operands[i].buffer];
                struct buffer_at at;

                if (!buffer_instance(&prog, o->operands[i].buffer, &s.list[k].at,
                                     o->operands[i].d_unit, &at))
                    continue;
                /* what is resident is one piece for the optimizer; gradients are touched by unit */
                if (b->span == SPAN_RESIDENT && b->part == MEM_GRADS)
                    at.unit = s.list[k].at.unit + (uint32_t)o->operands[i].d_unit;
                note(&t[(size_t)o->operands[i].buffer * units + at.unit],
                     o->operands[i].access == ACCESS_READ ? TOUCH_READ : TOUCH_WRITE, k, 0,
                     b->span == SPAN_ITEM || o->operands[i].tensor == OPERAND_ITEM);
            }
        }
    }
    for (uint32_t b = 0; b < prog.n_buffers; b++)
        for (uint32_t u = 0; u < units; u++) {
            play_buffer(&s, &prog.buffers[b], u, &t[(size_t)b * units + u]);
            mem_free(t[(size_t)b * units + u].list);
        }
    mem_free(t);
    mem_free(s.list);
}

START_TEST(waits_point_backwards_and_order_every_use_of_every_buffer)
{
    static const uint32_t worlds[] = {1, 3, 8};
    static const char *const models[] = {"block",     "llama",  "gpt2",         "moe",
                                         "one-layer", plans_t5, plans_t5_gated, plans_bert};
    struct job j = plans_job();

    for (int m = 0; m < 8; m++)
        for (uint32_t l = 0; plans_name(l); l++)
            for (int w = 0; w < 3; w++)
                for (int v = 0; v < 6; v++) {
                    j.grad_accum = v % 3 + 1;
                    j.prefetch = (uint32_t)v % 4;
                    j.recompute = (enum recompute)(v % 3);
                    j.gather = v == 5 ? ALGO_PADDED : ALGO_AUTO;
                    j.bucket_bytes = v % 2 ? 4096 : 64 << 20;
                    lower(models[m], plans_name(l), &j, worlds[w]);
                    for (uint32_t r = 0; r < worlds[w]; r += 3)
                        play_lives(r);
                    arena_release(&a);
                }
}
END_TEST

/* A planted fault: without the wait of forward for its gather the same check finds uses that nothing orders. */
START_TEST(a_missing_wait_is_seen)
{
    struct job j = plans_job();
    uint32_t lost = 0, seen = 0;

    lower("block", "owner", &j, 3);
    for (uint32_t i = 0; i < prog.n_ops; i++)
        if (!strcmp(prog.ops[i].name, "forward.begin")) {
            prog.ops[i].n_waits = 0;
            lost++;
        }
    ck_assert_uint_eq(lost, 1);
    faults = &seen;
    play_lives(0);
    faults = NULL;
    ck_assert_uint_gt(seen, 0);
    arena_release(&a);
}
END_TEST

static const struct step *step_of(const struct steps *s, const char *name, uint32_t unit)
{
    for (size_t i = 0; i < s->n; i++)
        if (!strcmp(prog.ops[s->list[i].at.op].name, name) && s->list[i].at.unit == unit &&
            s->list[i].at.micro == 0)
            return &s->list[i];
    ck_abort_msg("no %s of unit %u", name, unit);
    return NULL;
}

/* With p units ahead, unit u is gathered once unit u-1-p is done with, and does not wait for unit u-p; backward mirrors
 * it. Otherwise memory or overlap would be another than asked for. */
START_TEST(gathers_run_prefetch_units_ahead)
{
    static const char *const layouts[] = {"owner", "zero3+stock"};
    struct job j = plans_job();

    for (int l = 0; l < 2; l++)
        for (uint32_t p = 0; p < 4; p++) {
            struct steps s;
            uint32_t last;

            j.prefetch = p;
            lower("llama", layouts[l], &j, 3);
            last = plan.model.n_units - 1;
            clocks(&s, 0);
            for (uint32_t u = 0; u <= last; u++) {
                const struct step *g = step_of(&s, "gather.forward.begin", u);

                ck_assert(u < 1 + p || before(step_of(&s, "forward.end", u - 1 - p), g));
                ck_assert(u < p || !before(step_of(&s, "forward.end", u - p), g));
            }
            for (uint32_t u = 0; u < last; u++) {
                const struct step *g = step_of(&s, "gather.backward.begin", u);

                ck_assert(u + 1 + p > last || before(step_of(&s, "backward.end", u + 1 + p), g));
                ck_assert(u + p > last || !before(step_of(&s, "backward.end", u + p), g));
            }
            mem_free(s.list);
            arena_release(&a);
        }
}
END_TEST

/* ---- counts ---- */

struct tally {
    const char *prefix;
    uint64_t n, flops;
    double hbm;
};

static int count(void *ctx, const struct instance *i)
{
    struct tally *t = ctx;
    const struct op *o = &prog.ops[i->op];
    struct kernel_call k;

    if (o->kind != OP_COMPUTE || strncmp(o->name, t->prefix, strlen(t->prefix)))
        return 0;
    k = op_call(&prog, o, i->item);
    t->n++;
    t->flops += k.flops;
    t->hbm += (double)k.hbm_bytes;
    return 0;
}

static struct tally tally_rank(uint32_t rank, const char *prefix)
{
    struct tally t = {.prefix = prefix};

    program_walk(&prog, rank, count, &t);
    return t;
}

static struct tally tally_all(const char *prefix)
{
    struct tally t = {.prefix = prefix};

    for (uint32_t r = 0; r < prog.world; r++)
        program_walk(&prog, r, count, &t);
    return t;
}

START_TEST(forward_and_backward_flops_are_those_of_the_graphs)
{
    struct job j = plans_job();
    struct graph_batch batch;
    struct unit_graph g;

    for (int m = 0; m < PLANS_N_MODELS; m++)
        for (uint32_t l = 0; plans_name(l); l++)
            for (int v = 0; v < 3; v++) {
                uint64_t forward = 0, backward = 0;

                j.recompute = (enum recompute)v;
                j.grad_accum = (uint64_t)v + 1;
                lower(plans_models[m], plans_name(l), &j, 3);
                batch = job_batch(&plan.job);
                for (uint32_t u = 0; u < plan.model.n_units; u++) {
                    ck_assert(graph_build(&plan.model, plan.model.units[u].class_id, &batch,
                                          j.param_dtype, &g, &e) == 0);
                    forward += g.forward_flops;
                    backward += g.backward_flops;
                }
                ck_assert_uint_eq(tally_rank(1, "forward.").flops, j.grad_accum * forward);
                ck_assert_uint_eq(tally_rank(1, "backward.").flops, j.grad_accum * backward);
                if (j.recompute == RECOMPUTE_NONE)
                    ck_assert_uint_eq(tally_rank(1, "recompute.").n, 0);
                arena_release(&a);
            }
}
END_TEST

/* Full recomputation runs a layer's forward again, but for what nothing in backward reads: the last product and the
 * additions behind it. block: backward needs x (kept), norm1, q, k, v, attention, x2, norm2, up0, up1, act; not down
 * and not y. So per layer the forward FLOPs less those of `down`, 2*tokens*hidden*ffn, and of the last addition. */
START_TEST(full_recomputation_repeats_what_backward_reads)
{
    struct job j = plans_job();
    uint64_t down = 2ull * 64 * 48 * 160, add = 4ull * 64 * 48;
    struct tally f, r;

    j.recompute = RECOMPUTE_FULL;
    lower("block", "ddp", &j, 1);
    f = tally_rank(0, "forward.");
    r = tally_rank(0, "recompute.");
    ck_assert_uint_eq(r.flops, f.flops - 3 * (down + add));
    arena_release(&a);
}
END_TEST

static bool in_slices(void)
{
    return !strcmp(plan.layout, "zero1") || !strcmp(plan.layout, "zero2");
}

/* c19: 2 optimizer steps of 4 micro-batches on 2 matrices are 4 Newton-Schulz calls, so 2 a step. Here: 7 matrices a
 * layer, once a step on their owner in each copy of the states, whatever the micro-batches; on every rank in ddp and
 * gather. All-to-all: 18 of [64,64] and 3 of down, as many at a time as ranks share a copy. */
START_TEST(newton_schulz_runs_once_a_step_not_once_a_micro_batch)
{
    struct job j = plans_job();

    for (uint64_t accum = 1; accum <= 4; accum++)
        for (uint32_t l = 0; plans_name(l); l++) {
            uint64_t n, matrices, parts;
            bool owner;

            j.grad_accum = accum;
            lower("block", plans_name(l), &j, 4);
            n = tally_all("optimizer.newton_schulz").n;
            matrices = plan.model.matrix_tensors;
            owner = plan.strategy == STRATEGY_OWNER;
            ck_assert_uint_eq(matrices, 21);
            parts = placement_parts(&plan, STATE);
            if (plan.strategy == STRATEGY_ALLTOALL)
                ck_assert_uint_eq(n, 4 * (num_ceil_div(18, parts) + num_ceil_div(3, parts)));
            else if (in_slices() && !owner) /* and once more a boundary inside one */
                ck_assert(n >= matrices && n <= matrices + 3);
            else
                ck_assert_uint_eq(n, (owner ? 4 / parts : 4) * matrices);
            arena_release(&a);
        }
}
END_TEST

/* FLOPs of all ranks: each matrix once in each copy of the states with owners and, cut into products, with stock; W times where
 * all repeat it. */
START_TEST(optimizer_flops_of_all_ranks_add_up)
{
    static const enum optimizer optimizers[] = {OPTIMIZER_MUON, OPTIMIZER_SHAMPOO, OPTIMIZER_SOAP};
    static const char *const kernels[] = {"optimizer.newton_schulz", "optimizer.shampoo",
                                          "optimizer.soap"};
    struct job j = plans_job();

    for (uint32_t l = 0; plans_name(l); l++)
        for (int o = 0; o < 3; o++) {
            uint64_t once = 0, all, copies;

            if (!plans_go_together(plans_name(l), optimizers[o]))
                continue;
            j.optimizer = optimizers[o];
            lower("llama", plans_name(l), &j, 4);
            for (uint32_t i = 0; i < plan.model.n_tensors; i++) {
                const struct tensor *t = &plan.model.tensors[i];

                if (tensor_is_matrix(t))
                    once += optimizer_flops(j.optimizer, 5, num_min(t->rows, t->cols),
                                            num_max(t->rows, t->cols));
            }
            all = tally_all(kernels[o]).flops;
            copies = 4 / placement_parts(&plan, STATE);
            if (plan.strategy == STRATEGY_OWNER)
                ck_assert_uint_eq(all, copies * once);
            else if (plan.strategy == STRATEGY_ALLTOALL) /* places beyond a batch wait as long */
                ck_assert(all >= copies * once && all < 2 * copies * once);
            else if (plan.strategy == STRATEGY_STOCK) /* rounded a matrix and rank */
                ck_assert_double_eq_tol((double)all, (double)(copies * once), 4 * 28);
            else if (in_slices())
                ck_assert(all >= once && all < 2 * once);
            else
                ck_assert_uint_eq(all, 4 * once);
            arena_release(&a);
        }
}
END_TEST

/* Matrices of one shape go five at a time, whatever lies between them; places are theirs in turn, and nothing is left out. */
START_TEST(batches_of_one_shape)
{
    struct job j = plans_job();
    uint32_t seen = 0;

    lower("llama", "zero3+alltoall", &j, 5);
    for (uint32_t w = 0; w < prog.n_work_tables; w++)
        for (uint32_t i = 0; i < prog.work_tables[w].n_items; i++) {
            const struct work_item *x = &prog.work_tables[w].items[i];
            uint32_t same = 0, n = prog.work_tables[w].n_items;

            for (uint32_t k = 0; k < x->n_batch; k++, seen++) {
                const struct tensor *t = &plan.model.tensors[x->batch[k]];

                ck_assert(tensor_is_matrix(t) && t->rows == plan.model.tensors[x->tensor].rows &&
                          t->cols == plan.model.tensors[x->tensor].cols);
                ck_assert(k == 0 || x->batch[k] > x->batch[k - 1]);
            }
            for (uint32_t k = 0; x->n_batch && k < n;
                 k++) { /* one of a shape at most is not full */
                const struct work_item *y = &prog.work_tables[w].items[k];

                same += y->n_batch < 5 && y->m == x->m && y->n == x->n &&
                        plan.model.tensors[y->tensor].rows == plan.model.tensors[x->tensor].rows;
            }
            ck_assert_uint_le(same, 1);
        }
    ck_assert_uint_eq(seen, plan.model.matrix_tensors);
    arena_release(&a);
}
END_TEST

/* Stock is a way to cut Newton-Schulz. The other matrix optimizers gather by default, and a stock asked for is refused. */
START_TEST(stock_and_alltoall_are_muons_alone)
{
    static const enum optimizer optimizers[] = {OPTIMIZER_SHAMPOO, OPTIMIZER_SOAP};
    const struct layout *l;
    enum strategy s;
    const char *full;

    arena_init(&a);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(layout_resolve("zero3", optimizers[i], &a, &l, &s, &full, &e), 0);
        ck_assert_str_eq(full, "zero3+gather");
        ck_assert_int_ne(layout_resolve("zero3+stock", optimizers[i], &a, &l, &s, &full, &e), 0);
        MUST(strstr(e.msg, "use zero3+gather or zero3+owner"), "%s", e.msg);
        ck_assert_int_ne(layout_resolve("mics+alltoall", optimizers[i], &a, &l, &s, &full, &e), 0);
        MUST(strstr(e.msg, "use mics+gather or mics+owner"), "%s", e.msg);
    }
    ck_assert_int_eq(layout_resolve("zero3", OPTIMIZER_MUON, &a, &l, &s, &full, &e), 0);
    ck_assert_str_eq(full, "zero3+stock");
    arena_release(&a);
}
END_TEST

/* Muon by hand, docs/MODEL.md's formula: 4 m^2 n + 2 m^3 a step. [48,160]: 5*(4*48*48*160 + 2*48^3). */
START_TEST(newton_schulz_flops_by_hand)
{
    ck_assert_uint_eq(optimizer_flops(OPTIMIZER_MUON, 5, 48, 160),
                      5ull * (4 * 48 * 48 * 160 + 2 * 48 * 48 * 48));
    /* h = 4096 block: 62 h^3 a layer and NS step: 4 of [h,h] 6h^3 each, 2 of [h,2h] 10h^3, 1 of [h,4h] 18h^3 */
    ck_assert_uint_eq(4 * optimizer_flops(OPTIMIZER_MUON, 1, 4096, 4096) +
                          2 * optimizer_flops(OPTIMIZER_MUON, 1, 4096, 8192) +
                          optimizer_flops(OPTIMIZER_MUON, 1, 4096, 16384),
                      62ull * 4096 * 4096 * 4096);
}
END_TEST

/* facts of the optimizers, for [48,160], fp32 states. Shampoo: two statistics and two roots, momentum and grafting: 2m^2 +
 * 2n^2 + 2mn elements; products 4m^2 n + 4m n^2, eigendecompositions 9(m^3 + n^3) every 10 steps. SOAP: 2mn + 2m^2 + 2n^2
 * + m + n; products 6m^2 n + 6m n^2, power iteration and QR (4 + 2 + 8/3)(m^3 + n^3) every 10 steps. */
START_TEST(preconditioned_optimizers_by_hand)
{
    const double m = 48, n = 160, cubes = m * m * m + n * n * n;
    const struct tensor t = {.role = ROLE_MATRIX,
                             .is_matrix = true,
                             .rows = 160,
                             .cols = 48,
                             .numel = 7680,
                             .n_dims = 2};
    struct job j = plans_job();

    ck_assert_uint_eq(optimizer_flops(OPTIMIZER_SHAMPOO, 5, 48, 160),
                      (uint64_t)(4 * m * m * n + 4 * m * n * n + 0.9 * cubes));
    ck_assert_uint_eq(optimizer_flops(OPTIMIZER_SOAP, 5, 48, 160),
                      (uint64_t)(6 * m * m * n + 6 * m * n * n + (6 + 8.0 / 3) * cubes / 10));
    j.optimizer = OPTIMIZER_SHAMPOO;
    ck_assert_uint_eq(layout_state_bytes(&j, &t), 4 * (2 * 2304 + 2 * 25600 + 2 * 7680));
    j.optimizer = OPTIMIZER_SOAP;
    ck_assert_uint_eq(layout_state_bytes(&j, &t), 4 * (2 * 7680 + 2 * 2304 + 2 * 25600 + 208));
    j.optimizer = OPTIMIZER_MUON;
    ck_assert_uint_eq(layout_state_bytes(&j, &t), 4 * 7680);
    j.optimizer = OPTIMIZER_ADAMW;
    j.state_dtype = DTYPE_BF16;
    ck_assert_uint_eq(layout_state_bytes(&j, &t), 2 * 2 * 7680);
}
END_TEST

/* Momentum and update are elementwise: with cut states every element is touched once in the world (a padded or cut
 * share rounds), with ddp once a rank. Muon with bf16 gradients, fp32 momentum and master: momentum reads g and m, writes
 * m and the bf16 input: 12 bytes; update reads it, reads and writes p and master: 14 bytes. */
START_TEST(elementwise_optimizer_traffic_counts_every_element_once)
{
    struct job j = plans_job();
    static const uint32_t worlds[] = {1, 3, 8, 63};

    for (int m = 0; m < PLANS_N_MODELS; m++)
        for (uint32_t l = 0; plans_name(l); l++)
            for (int w = 0; w < 4; w++) {
                double copies, elements, slack;

                lower(plans_models[m], plans_name(l), &j, worlds[w]);
                copies = worlds[w] / (double)placement_parts(&plan, STATE);
                elements = copies * (double)plan.model.matrix_params;
                slack = (double)worlds[w] * plan.model.matrix_tensors;
                ck_assert_double_eq_tol(tally_all("optimizer.momentum").hbm, 12 * elements, slack);
                ck_assert_double_eq_tol(tally_all("optimizer.update").hbm, 14 * elements, slack);
                arena_release(&a);
            }
}
END_TEST

/* ---- few matrices, many ranks ---- */

/* c15: 7 matrices on 63 ranks: 56 ranks (less a tail owner's) work nothing, and every program walks. */
START_TEST(ranks_that_own_nothing_walk_empty_loops)
{
    struct job j = plans_job();
    uint32_t idle = 0;

    lower("one-layer", "owner", &j, 63);
    ck_assert_uint_eq(plan.model.matrix_tensors, 7);
    for (uint32_t r = 0; r < 63; r++) {
        uint64_t n = tally_rank(r, "optimizer.newton_schulz").n,
                 tail = tally_rank(r, "optimizer.adamw").n;

        ck_assert_uint_le(n, 1);
        ck_assert_uint_eq(tail, r == 1); /* plans_owners: unit 0's vectors are rank 1's */
        idle += n == 0;
        play_lives(r);
    }
    ck_assert_uint_eq(idle, 56);
    arena_release(&a);
}
END_TEST

static uint64_t resident(enum mem_part part, uint32_t rank)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < prog.n_buffers; i++)
        if (prog.buffers[i].span == SPAN_RESIDENT && prog.buffers[i].part == part)
            sum += rank_table_get(&prog.buffers[i].ranks, rank);
    return sum;
}

/* What owners hold adds up to the model: no padding, no copy. Muon: 4 bytes of momentum a matrix element, 8 of m and v
 * for the tail; 4 of master; 2 of parameter (zero1: on every rank). */
START_TEST(owned_bytes_of_all_ranks_are_the_model)
{
    static const char *const layouts[] = {"owner", "zero1-owner"};
    struct job j = plans_job();

    for (int l = 0; l < 2; l++)
        for (int w = 1; w < PLANS_N_WORLDS; w++) {
            uint64_t params = 0, states = 0, master = 0;

            lower("block", layouts[l], &j, plans_worlds[w]); /* without vocabulary all is owned */
            for (uint32_t r = 0; r < prog.world; r++) {
                params += resident(MEM_PARAMS, r);
                states += resident(MEM_STATES, r);
                master += resident(MEM_MASTER, r);
            }
            ck_assert_uint_eq(params, (l ? prog.world : 1) * 2 * plan.model.total_params);
            ck_assert_uint_eq(states, 4 * plan.model.matrix_params + 8 * plan.model.tail_params);
            ck_assert_uint_eq(master, 4 * plan.model.total_params);
            arena_release(&a);
        }
}
END_TEST

/* c17: 10 and 2 elements on 2 ranks: slices of 6; rank 0 holds p0[0:6], rank 1 p0[6:10] and p1[0:2]. */
START_TEST(flat_slices_cut_where_the_count_says)
{
    static const uint64_t p0[] = {5, 2}, p1[] = {2};
    struct placement flat[2] = {{.rule = PLACE_FLAT}, {.rule = PLACE_FLAT}};
    struct unit_class c = {.kind = UNIT_LAYER, .name = "layer"};
    struct model_builder b;
    struct segment_table t;
    struct bucket *buckets;

    arena_init(&a);
    memset(&plan, 0, sizeof(plan));
    plan.job = plans_job();
    model_builder_init(&b, &plan.model, &a);
    model_builder_unit(&b, "unit", &c);
    model_builder_tensor(&b, "p0", ROLE_MATRIX, SLOT_Q, false, -1, 2, p0);
    model_builder_tensor(&b, "p1", ROLE_BIAS, SLOT_Q, true, -1, 1, p1);
    ck_assert(model_builder_finish(&b, &e) == 0);
    model_builder_release(&b);
    plan.world = 2;
    plan.cluster.gpus_per_node = 2;
    plan.factor[PARAM] = plan.factor[GRAD] = (struct factor){1, 1};
    plan.factor[STATE] = (struct factor){2, 1};
    plan.place = flat;
    ck_assert(placement_set_mesh(&plan, &e) == 0);
    ck_assert_uint_eq(placement_slice(&plan, STATE), 6);
    buckets = part_buckets(&plan, 0, &a);
    t = part_slice_segments(&plan, buckets, &a);
    ck_assert_uint_eq(t.start[1], 2);
    ck_assert(t.segments[0].root == 0 && t.segments[0].offset == 0 && t.segments[0].elements == 6);
    ck_assert(t.segments[1].root == 1 && t.segments[1].offset == 6 && t.segments[1].elements == 6);
    t = part_cut_segments(&plan, &a);
    ck_assert_uint_eq(t.start[1], 2);
    ck_assert(t.segments[0].root == 0 && t.segments[0].elements == 6 && t.segments[0].tensor == 0);
    ck_assert(t.segments[1].root == 1 && t.segments[1].offset == 6 && t.segments[1].elements == 4);
    arena_release(&a);
}
END_TEST

START_TEST(lowering_is_a_function_of_the_plan)
{
    struct job j = plans_job();
    struct program again;

    for (uint32_t l = 0; plans_name(l); l++) {
        lower("llama", plans_name(l), &j, 8);
        plans_lower(&plan, &a, &again);
        ck_assert_uint_eq(again.n_ops, prog.n_ops);
        for (uint32_t i = 0; i < prog.n_ops; i++) {
            ck_assert_str_eq(again.ops[i].name, prog.ops[i].name);
            for (uint32_t k = 0; k < i; k++)
                ck_assert_str_ne(prog.ops[i].name, prog.ops[k].name);
        }
        arena_release(&a);
    }
}
END_TEST

SUITE_MAIN("layouts/lower", waits_point_backwards_and_order_every_use_of_every_buffer,
           a_missing_wait_is_seen, gathers_run_prefetch_units_ahead,
           forward_and_backward_flops_are_those_of_the_graphs,
           full_recomputation_repeats_what_backward_reads,
           newton_schulz_runs_once_a_step_not_once_a_micro_batch,
           optimizer_flops_of_all_ranks_add_up, newton_schulz_flops_by_hand, batches_of_one_shape,
           stock_and_alltoall_are_muons_alone, preconditioned_optimizers_by_hand,
           elementwise_optimizer_traffic_counts_every_element_once,
           ranks_that_own_nothing_walk_empty_loops, owned_bytes_of_all_ranks_are_the_model,
           flat_slices_cut_where_the_count_says, lowering_is_a_function_of_the_plan)
