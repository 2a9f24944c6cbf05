/* Where tensors stand in buffers: against the sizes that layouts/ gives the buffers, which knows nothing of exec's offsets, and
 * against the placement: what the ranks of a shard group have of a tensor is all of it, once. */
#include "exec/run.h"

#include "tests/layouts/plans.h"

static struct arena a;
static struct plan plan;
static struct program prog;

/* A rank as run_place() sees it: no data, no backend. */
static struct exec_run rank_of(struct transport *t, uint32_t rank)
{
    struct exec_run r = {
        .plan = &plan, .p = &prog, .t = t, .place = placement_index(&plan, STATE, rank)};

    *t = (struct transport){.rank = rank, .size = prog.world};
    held_init(&r.held, &plan, &prog, rank, &a);
    return r;
}

static bool on_list(const struct work_table *w, uint32_t rank, uint32_t tensor)
{
    for (uint32_t k = 0; k < w->n_items; k++)
        if (w->items[k].tensor == tensor && !w->start)
            return true;
    for (uint32_t k = w->start ? w->start[rank] : 0; w->start && k < w->start[rank + 1]; k++)
        if (w->items[w->list[k]].tensor == tensor)
            return true;
    return false;
}

/* What a part takes with its padding: rows over the parts of the parameters, of these over the more parts of gradients, and
 * so on. */
static uint64_t room_of(const struct buffer *b, uint32_t tensor, uint64_t n)
{
    const struct tensor *t = &plan.model.tensors[tensor];
    uint64_t rows = t->rows, parts = 1;

    if (plan.place[tensor].rule != PLACE_CHUNK)
        return n;
    for (int c = PARAM; c <= (int)b->cut && c < COMPONENT_N; c++) {
        rows = num_ceil_div(rows, factor_ranks(plan.factor[c]) / parts);
        parts = factor_ranks(plan.factor[c]);
    }
    return rows * t->cols;
}

/* One instance of a buffer on a rank: tensors behind one another, whole where it says so, and all of its bytes used. */
static void stands(const struct exec_run *r, uint32_t buffer, uint32_t unit)
{
    const struct buffer *b = &prog.buffers[buffer];
    bool of_unit = b->span == SPAN_UNIT || b->span == SPAN_UNIT_MICRO;
    bool of_items = b->holds == HOLDS_MATRICES || b->holds == HOLDS_MATRIX_PARTS;
    bool whole = b->holds == HOLDS_UNIT || b->holds == HOLDS_MODEL || b->holds == HOLDS_MATRICES;
    uint64_t at = 0, bytes = b->rule == SIZE_BY_UNIT   ? b->unit_bytes[unit]
                             : b->rule == SIZE_BY_RANK ? rank_table_get(&b->ranks, r->t->rank)
                             : b->rule == SIZE_SEGMENTS
                                 ? dtype_bytes(b->dtype,
                                               segment_table_rooted(&prog.segment_tables[b->table],
                                                                    unit, r->place))
                                 : b->bytes;

    for (uint32_t t = 0; t < plan.model.n_tensors; t++) {
        struct run_place x;
        bool segment;

        if ((of_unit && plan.model.tensors[t].unit != unit) ||
            (of_items && !on_list(&prog.work_tables[b->work], r->t->rank, t)))
            continue;
        x = run_place(r, buffer, t);
        if (whole)
            MUST(x.first == 0 && x.n == plan.model.tensors[t].numel, "%s: '%s' has not all of %s",
                 plan.layout_full, b->name, plan.model.tensors[t].name);
        segment = plan.place[t].rule == PLACE_OWNER || plan.place[t].rule == PLACE_FLAT;
        if (b->holds == (segment ? HOLDS_UNIT_PARTS : HOLDS_UNIT_SEGMENTS)) { /* in the other */
            ck_assert_uint_eq(x.n, 0);
            continue;
        }
        if (x.n)
            MUST(x.at == at, "%s, rank %u: '%s' has %s at %llu, expected %llu", plan.layout_full,
                 r->t->rank, b->name, plan.model.tensors[t].name, (unsigned long long)x.at,
                 (unsigned long long)at);
        at += whole || b->holds == HOLDS_MODEL_STATES ? x.n : room_of(b, t, x.n);
    }
    if (b->holds == HOLDS_MATRICES) /* as much as the rank with most needs */
        MUST(dtype_bytes(b->dtype, at) <= bytes, "%s: '%s'", plan.layout_full, b->name);
    else
        MUST(dtype_bytes(b->dtype, at) == bytes,
             "%s, rank %u: '%s' of unit %u ends at %llu of %llu", plan.layout_full, r->t->rank,
             b->name, unit, (unsigned long long)dtype_bytes(b->dtype, at),
             (unsigned long long)bytes);
}

/* How many of the tensor's elements the ranks that share one copy have in a buffer, each once and in the order of their
 * parts. */
static uint64_t parts(uint32_t buffer, uint32_t tensor)
{
    const struct buffer *b = &prog.buffers[buffer];
    bool copies = plan.place[tensor].rule == PLACE_REPLICATED || b->holds == HOLDS_MODEL;
    enum component c = copies ? STATE : b->cut;
    uint64_t sum = 0;

    for (uint32_t part = 0; part < placement_parts(&plan, c); part++) {
        struct transport t;
        struct exec_run r = rank_of(&t, mesh_rank(&plan.mesh, part, plan.over[c]));
        struct run_place x = run_place(&r, buffer, tensor);

        if (!x.n)
            continue;
        ck_assert_uint_eq(x.first, copies ? 0 : sum);
        sum = x.first + x.n;
    }
    return sum;
}

static uint32_t n_seen[HOLDS_MATRIX_PARTS + 1];

static void look_at_plan(void)
{
    for (uint32_t b = 0; b < prog.n_buffers; b++) {
        n_seen[prog.buffers[b].holds]++;
        for (uint32_t rank = 0; rank < prog.world; rank++) {
            bool by_unit =
                prog.buffers[b].span == SPAN_UNIT || prog.buffers[b].span == SPAN_UNIT_MICRO;
            struct transport t;
            struct exec_run r = rank_of(&t, rank);

            if (prog.buffers[b].holds == HOLDS_NOTHING || prog.buffers[b].holds == HOLDS_MATRIX)
                break;
            for (uint32_t u = 0; u < (by_unit ? prog.model->n_units : 1); u++)
                stands(&r, b, u);
        }
    }
    for (uint32_t t = 0; t < prog.model->n_tensors; t++) {
        const struct known_buffers *k = &prog.known;
        uint64_t all = prog.model->tensors[t].numel, reduced = 0;

        ck_assert_uint_eq(parts(k->params, t), all);
        if (k->master != PROGRAM_NONE)
            ck_assert_uint_eq(parts(k->master, t), all);
        if (prog.buffers[k->grads].holds == HOLDS_MODEL)
            continue;
        reduced += k->grad_shard != PROGRAM_NONE ? parts(k->grad_shard, t) : 0;
        reduced += k->grad_owned != PROGRAM_NONE ? parts(k->grad_owned, t) : 0;
        ck_assert_uint_eq(reduced, all);
    }
}

START_TEST(tensors_stand_as_the_sizes_of_buffers_say)
{
    static const char *const models[] = {"llama", "gpt2", "moe"};
    static const uint32_t worlds[] = {1, 2, 3, 8};
    static const enum optimizer optimizers[] = {OPTIMIZER_MUON, OPTIMIZER_SHAMPOO, OPTIMIZER_ADAMW};

    for (int m = 0; m < 3; m++)
        for (uint32_t l = 0; plans_name(l); l++)
            for (int w = 0; w < 4; w++)
                for (int o = 0; o < 3; o++) {
                    const char *layout = plans_name(l);
                    struct job j = plans_job();

                    j.optimizer = optimizers[o];
                    if (!plans_go_together(layout, j.optimizer))
                        continue;
                    plans_fit(&j, layout, worlds[w], 4, l + (uint32_t)(m + o));
                    arena_init(&a);
                    plans_make(&plan, &a, models[m], layout, &j, worlds[w], 4);
                    plans_lower(&plan, &a, &prog);
                    look_at_plan();
                    arena_release(&a);
                }
    for (int k = 0; k <= HOLDS_MATRIX_PARTS; k++)
        ck_assert_msg(n_seen[k] > 0, "no buffer of kind %d", k);
}
END_TEST

/* By hand: 10 rows of 10 on 3 ranks, rooms of 4 rows: the last rank has rows 8 and 9. */
START_TEST(the_last_rank_has_fewer_rows_and_all_its_room)
{
    struct job j = plans_job();
    struct transport t;
    struct exec_run r;
    struct run_place x;
    uint32_t first;

    arena_init(&a);
    plans_make(&plan, &a, "block:layers=1,hidden=10,ffn=14,heads=2", "zero3+stock", &j, 3, 8);
    plans_lower(&plan, &a, &prog);
    r = rank_of(&t, 2);
    first = plan.model.units[0].first;
    while (plan.model.tensors[first].rows != 10 || plan.model.tensors[first].cols != 10)
        first++;
    x = run_place(&r, prog.known.params, first);
    ck_assert_uint_eq(x.first, 80);
    ck_assert_uint_eq(x.n, 20);
    ck_assert_uint_eq(run_place(&r, prog.known.params, first + 1).at - x.at, 40);
    ck_assert_uint_eq(run_place(&r, prog.known.grad_shard, first).n, 20);
    ck_assert_uint_eq(run_place(&r, prog.known.weights, first).n, 100);
    arena_release(&a);
}
END_TEST

SUITE_MAIN("exec/tensors", tensors_stand_as_the_sizes_of_buffers_say,
           the_last_rank_has_fewer_rows_and_all_its_room)
