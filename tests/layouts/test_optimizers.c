/* The rows of the optimizers (model/plan/optimizers.h): each is complete, and Lion's and NorMuon's
 * FLOPs, states and bytes are those that a hand counts on a layer of seven matrices. The others'
 * are in test_lower.c and test_resident.c. */
#include "model/plan/optimizers.h"
#include "tests/layouts/plans.h"

static struct arena a;
static struct plan plan;
static struct program prog;

/* ---- rows ---- */

/* Each field that a reader takes for given. */
START_TEST(every_row_is_complete)
{
    for (int i = 0; i < OPTIMIZER_N; i++) {
        const struct optimizer_row *r = optimizer_row((enum optimizer)i);

        ck_assert_str_eq(r->name, optimizer_names[i]);
        MUST(r->line && *r->line && !strchr(r->line, '\n') && strlen(r->line) < 70, "%s: line",
             r->name);
        if (!r->matrices) {
            MUST(r->each.kernel != KERNEL_NONE && kernel_bound(r->each.kernel) == 'E' &&
                     r->each.states && r->each.flops && r->each.bytes.param >= 2 &&
                     r->each.bytes.state >= 2 * r->each.states,
                 "%s: each", r->name);
            MUST(!r->newton_schulz && !r->strategies, "%s has fields of matrices", r->name);
            continue;
        }
        MUST(r->each.kernel == KERNEL_NONE, "%s has fields of elementwise optimizers", r->name);
        MUST(r->flops && r->state_elements && r->workspace && r->products != KERNEL_NONE &&
                 r->launches,
             "%s: products", r->name);
        MUST(r->strategies & 1u << STRATEGY_OWNER && r->strategies & 1u << r->sharded,
             "%s: strategies", r->name);
        MUST(!(r->strategies & 1u << STRATEGY_STOCK) ||
                 (r->products_sharded != KERNEL_NONE && r->newton_schulz &&
                  r->states == STATES_BY_ROWS),
             "%s: stock", r->name);
        MUST(!(r->strategies & 1u << STRATEGY_ALLTOALL) ||
                 (r->start == START_MOMENTUM && r->newton_schulz && r->states == STATES_BY_ROWS),
             "%s: alltoall", r->name);
        MUST((r->start == START_MOMENTUM) == (r->momentum.state > 0), "%s: momentum", r->name);
        MUST(r->update.param >= 2 && r->update.fixed > 0, "%s: update", r->name);
        MUST((r->normalize == KERNEL_NONE) == (r->normalize_bytes.fixed <= 0), "%s: normalize",
             r->name);
    }
    ck_assert_ptr_null(optimizer_names[OPTIMIZER_N]);
}
END_TEST

/* NorMuon (arXiv 2510.05491, algorithm 1) on a stored matrix of r rows and c columns, m and n
 * the smaller and the larger: five steps of 4 m^2 n + 2 m^3; then an element's square and its
 * sum, its division, the result's square and its sum: 5 r c; and a row's average (3), root and
 * epsilon: 5 r. */
START_TEST(normuon_flops_by_hand)
{
    ck_assert_uint_eq(optimizer_flops(OPTIMIZER_NORMUON, 5, 32, 16), 204800 + 2560 + 160);
    ck_assert_uint_eq(optimizer_flops(OPTIMIZER_NORMUON, 5, 16, 64), 368640 + 5120 + 80);
    ck_assert_uint_eq(optimizer_flops(OPTIMIZER_NORMUON, 5, 64, 16), 368640 + 5120 + 320);
    ck_assert_uint_eq(optimizer_flops(OPTIMIZER_MUON, 5, 64, 16), 368640);
    ck_assert_uint_eq(optimizer_flops(OPTIMIZER_LION, 5, 64, 16), 0); /* no step of matrices */
}
END_TEST

/* The second moment is one number a row of the matrix as stored: m(n + 1) elements of an m x n
 * matrix. */
START_TEST(state_elements_by_hand)
{
    const struct tensor wide = {.is_matrix = true, .rows = 16, .cols = 64, .numel = 1024},
                        tall = {.is_matrix = true, .rows = 64, .cols = 16, .numel = 1024},
                        bias = {.rows = 16, .cols = 1, .numel = 16};

    ck_assert_uint_eq(optimizer_state_elements(OPTIMIZER_NORMUON, &wide), 1024 + 16);
    ck_assert_uint_eq(optimizer_state_elements(OPTIMIZER_NORMUON, &tall), 1024 + 64);
    ck_assert_uint_eq(optimizer_state_elements(OPTIMIZER_NORMUON, &bias), 2 * 16); /* AdamW's */
    ck_assert_uint_eq(optimizer_state_elements(OPTIMIZER_LION, &wide), 1024);
    ck_assert_uint_eq(optimizer_state_elements(OPTIMIZER_LION, &bias), 16);
    ck_assert_uint_eq(optimizer_state_elements(OPTIMIZER_ADAMW, &wide), 2 * 1024);
    ck_assert_uint_eq(optimizer_state_elements(OPTIMIZER_MUON, &wide), 1024);
}
END_TEST

/* ---- a layer on two ranks ----
 *
 * one-layer: vectors of 16, 16; q, k, v, proj of [16,16]; vectors of 16, 16; up0, up1 of
 * [32,16]; down of [16,64]. 3,072 elements of matrices in 144 rows, 64 of vectors. plans_owners:
 * q, v, up0, down to rank 0; k, proj, up1 and the vectors to rank 1. */

static uint64_t states_of(uint32_t rank)
{
    return rank_table_get(&prog.buffers[prog.known.states].ranks, rank);
}

/* HBM bytes and FLOPs of a rank's operations of one kernel. */
static void kernel_of(enum kernel k, uint32_t rank, uint64_t *bytes, uint64_t *flops)
{
    *bytes = *flops = 0;
    for (uint32_t i = 0; i < prog.n_ops; i++) {
        const struct op *o = &prog.ops[i];
        const struct work_table *w;

        if (o->kind != OP_COMPUTE || o->call.kernel != k)
            continue;
        if (!o->by_item) {
            *bytes += o->call.hbm_bytes;
            *flops += o->call.flops;
            continue;
        }
        w = &prog.work_tables[prog.loops[o->loop].work];
        for (uint32_t n = w->start ? w->start[rank] : 0;
             n < (w->start ? w->start[rank + 1] : w->n_items); n++) {
            struct kernel_call call = op_call(&prog, o, w->start ? w->list[n] : n);

            *bytes += call.hbm_bytes;
            *flops += call.flops;
        }
    }
}

struct expected {
    const char *layout;
    uint64_t states[2], bytes[2], flops[2];
};

static void expect(enum optimizer o, enum kernel bytes_of, enum kernel flops_of,
                   const struct expected *want, size_t n)
{
    struct job j = plans_job();

    j.optimizer = o;
    for (size_t i = 0; i < n; i++) {
        arena_init(&a);
        plans_make(&plan, &a, "one-layer", want[i].layout, &j, 2, 2);
        plans_lower(&plan, &a, &prog);
        for (uint32_t r = 0; r < 2; r++) {
            uint64_t bytes, flops, other;

            kernel_of(bytes_of, r, &bytes, &other);
            kernel_of(flops_of, r, &other, &flops);
            MUST(states_of(r) == want[i].states[r], "%s rank %u: states %llu", want[i].layout, r,
                 (unsigned long long)states_of(r));
            MUST(bytes == want[i].bytes[r], "%s rank %u: bytes %llu", want[i].layout, r,
                 (unsigned long long)bytes);
            MUST(flops == want[i].flops[r], "%s rank %u: flops %llu", want[i].layout, r,
                 (unsigned long long)flops);
        }
        arena_release(&a);
    }
}

/* States, fp32: 4 bytes an element of a matrix and a row, 8 an element of a vector. zero1's
 * boundary, 1,568 of 3,136 elements, leaves 30 of up0's 32 rows in the first slice. Row
 * normalization: 2 bytes read and 2 written an element, 4 and 4 a row. FLOPs of [16,16] 5 (4 +
 * 2) 16^3 + 5 16 17 = 124,240, of up 207,520, of down 373,840; zero1: of the whole matrix where
 * a part is; stock: half of each. */
START_TEST(normuon_on_two_ranks_by_hand)
{
    enum { SQUARE = 124240, UP = 207520, DOWN = 373840, ALL = 4 * SQUARE + 2 * UP + DOWN };
    /* Muon's: gradient 2, momentum 4 and 4, the products' input 2; their result 2, parameter 2
     * and 2, master 4 and 4 */
    static const struct expected
        momentum = {"ddp", {4 * 3216 + 512, 4 * 3216 + 512}, {12 * 3072, 12 * 3072}, {ALL, ALL}},
        update = {"ddp", {4 * 3216 + 512, 4 * 3216 + 512}, {14 * 3072, 14 * 3072}, {ALL, ALL}};
    static const struct expected want[] = {
        {"ddp", {4 * 3216 + 512, 4 * 3216 + 512}, {13440, 13440}, {ALL, ALL}},
        {"zero1",
         {512 + 4 * 1088 + 4 * 510, 4 * 34 + 4 * 544 + 4 * 1040},
         {4 * 1504 + 8 * 94, 4 * 1568 + 8 * 50},
         {4 * SQUARE + UP, 2 * UP + DOWN}},
        {"zero3", {4 * 1608 + 256, 4 * 1608 + 256}, {6720, 6720}, {ALL / 2, ALL / 2}},
        {"zero3+gather", {4 * 1608 + 256, 4 * 1608 + 256}, {6720, 6720}, {ALL, ALL}},
        {"owner",
         {4 * (2 * 272 + 544 + 1040), 4 * (2 * 272 + 544) + 512},
         {4 * 2048 + 8 * 80, 4 * 1024 + 8 * 64},
         {2 * SQUARE + UP + DOWN, 2 * SQUARE + UP}},
    };

    expect(OPTIMIZER_NORMUON, KERNEL_ROW_NORMALIZE, KERNEL_NEWTON_SCHULZ, want, 2);
    expect(OPTIMIZER_NORMUON, KERNEL_ROW_NORMALIZE, KERNEL_NEWTON_SCHULZ_SHARDED, want + 2, 1);
    expect(OPTIMIZER_NORMUON, KERNEL_ROW_NORMALIZE, KERNEL_NEWTON_SCHULZ, want + 3, 2);
    expect(OPTIMIZER_NORMUON, KERNEL_MOMENTUM, KERNEL_NEWTON_SCHULZ, &momentum, 1);
    expect(OPTIMIZER_NORMUON, KERNEL_MATRIX_UPDATE, KERNEL_NEWTON_SCHULZ, &update, 1);
}
END_TEST

/* Lion (arXiv 2302.06675): one fp32 state an element; parameter read and written (4), gradient
 * read (2), state (8) and master copy (8) read and written: 22 bytes; 11 FLOPs. Every tensor
 * alike, whether it is a matrix or not; an owner layout cuts by rows what nobody owns. */
START_TEST(lion_on_two_ranks_by_hand)
{
    static const struct expected want[] = {
        {"ddp", {12544, 12544}, {22 * 3136, 22 * 3136}, {11 * 3136, 11 * 3136}},
        {"zero1", {6272, 6272}, {22 * 1568, 22 * 1568}, {11 * 1568, 11 * 1568}},
        {"zero3", {6272, 6272}, {22 * 1568, 22 * 1568}, {11 * 1568, 11 * 1568}},
        {"owner", {6272, 6272}, {22 * 1568, 22 * 1568}, {11 * 1568, 11 * 1568}},
    };

    expect(OPTIMIZER_LION, KERNEL_LION, KERNEL_LION, want, 4);
}
END_TEST

/* AdamW by the same count: 30 bytes, of which Lion's missing state is 8. */
START_TEST(adamw_on_two_ranks_by_hand)
{
    static const struct expected want[] = {
        {"ddp", {25088, 25088}, {30 * 3136, 30 * 3136}, {12 * 3136, 12 * 3136}},
        {"zero3", {12544, 12544}, {30 * 1568, 30 * 1568}, {12 * 1568, 12 * 1568}},
    };

    expect(OPTIMIZER_ADAMW, KERNEL_ADAMW, KERNEL_ADAMW, want, 2);
}
END_TEST

/* ---- what goes together ---- */

static void resolves(const char *name, enum optimizer o, const char *want)
{
    const struct layout *l;
    enum strategy s;
    const char *full;
    struct err e;
    int status = layout_resolve(name, o, &a, &l, &s, &full, &e);

    MUST(status ? strstr(e.msg, want) != NULL : !strcmp(full, want), "%s with %s: %s", name,
         optimizer_name(o), status ? e.msg : full);
}

START_TEST(names_resolve_by_the_row)
{
    arena_init(&a);
    resolves("zero3", OPTIMIZER_MUON, "zero3+stock");
    resolves("zero3", OPTIMIZER_NORMUON, "zero3+stock");
    resolves("hsdp", OPTIMIZER_SHAMPOO, "hsdp+gather");
    resolves("mics", OPTIMIZER_SOAP, "mics+gather");
    resolves("zero3+stock", OPTIMIZER_SOAP, "+stock cuts Newton-Schulz products, which soap does");
    resolves("zero3+alltoall", OPTIMIZER_SHAMPOO, "+alltoall keeps states cut by rows");
    resolves("zero3+gather", OPTIMIZER_LION, "zero3");
    resolves("zero3", OPTIMIZER_ADAMW, "zero3");
    resolves("owner", OPTIMIZER_LION, "zero3+owner");
    arena_release(&a);
}
END_TEST

SUITE_MAIN("layouts/optimizers", every_row_is_complete, normuon_flops_by_hand,
           state_elements_by_hand, normuon_on_two_ranks_by_hand, lion_on_two_ranks_by_hand,
           adamw_on_two_ranks_by_hand, names_resolve_by_the_row)
