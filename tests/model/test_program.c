/* The walker on programs written by hand, its order written out; and every refusal of program_check(), one fault a
 * test row. */
#include "core/strbuf.h"
#include "model/program/program.h"
#include "tests/suite.h"

#include <string.h>

static struct arena a;
static struct program p;
static struct program_builder b;
static struct err e;

static struct unit units[3] = {{.class_id = 0}, {.class_id = 1}, {.class_id = 0}};
static struct unit_class classes[2];
static struct model model = {
    .name = "toy", .units = units, .classes = classes, .n_units = 3, .n_classes = 2};

static void begin(uint32_t world, uint32_t n_micro)
{
    arena_init(&a);
    memset(&p, 0, sizeof(p));
    p.model = &model;
    p.world = p.distinct = world;
    p.gpus_per_node = 8;
    p.n_micro = n_micro;
    program_builder_init(&b, &p, &a);
    program_add_group(
        &b, &(struct group){
                .name = "world", .n_axes = 1, .size = {world}, .stride = {1}, .n_members = world});
}

static uint32_t op(const char *name)
{
    return program_add_op(
        &b, &(struct op){.name = name, .kind = OP_MARK, .guard = {.unit_class = PROGRAM_NONE}});
}

static uint32_t guarded(const char *name, enum when micro, uint32_t class_id, const bool *mask)
{
    return program_add_op(
        &b, &(struct op){.name = name,
                         .kind = OP_MARK,
                         .guard = {.micro = micro, .unit_class = class_id, .units = mask}});
}

static void loop(enum loop_kind kind, uint32_t first, uint32_t end, bool descending)
{
    program_open_loop(
        &b, &(struct loop){.kind = kind, .begin = first, .end = end, .descending = descending});
}

static void one_role(void)
{
    p.roles = ARENA_NEW(&a, struct role, 1);
    p.roles[0] =
        (struct role){.name = "rank", .n_ranks = p.world, .rank_stride = 1, .n_ops = p.n_ops};
    p.n_roles = 1;
}

static void finish(void)
{
    one_role();
    ck_assert_msg(program_builder_finish(&b, &e) == 0, "%s", e.msg);
}

/* "name" outside loops, else name.unit, name.unit@micro, name#item/position. */
static int show(void *ctx, const struct instance *i)
{
    const struct op *o = &p.ops[i->op];
    struct strbuf *s = ctx;
    bool unit = false, micro = false, item = false;

    for (uint32_t l = o->loop; l != PROGRAM_NONE; l = p.loops[l].parent) {
        unit |= p.loops[l].kind == LOOP_UNIT;
        micro |= p.loops[l].kind == LOOP_MICRO;
        item |= p.loops[l].kind == LOOP_ITEM;
    }
    strbuf_printf(s, "%s%s", s->len ? " " : "", o->name);
    if (unit)
        strbuf_printf(s, "%u", i->unit);
    if (micro)
        strbuf_printf(s, "@%u", i->micro);
    if (item)
        strbuf_printf(s, "#%u/%u", i->item, i->position);
    ck_assert(unit || i->unit == 0);
    ck_assert(micro || i->micro == 0);
    ck_assert(item || (i->item == 0 && i->position == 0));
    return 0;
}

static void walks(uint32_t rank, const char *want)
{
    struct strbuf s;

    strbuf_init(&s);
    ck_assert_int_eq(program_walk(&p, rank, show, &s), 0);
    ck_assert_str_eq(s.s, want);
    strbuf_release(&s);
}

START_TEST(loops_nest_and_descend)
{
    begin(1, 2);
    op("a");
    loop(LOOP_MICRO, 0, 2, false);
    op("m");
    loop(LOOP_UNIT, 0, 3, false);
    op("f");
    program_close_loop(&b);
    loop(LOOP_UNIT, 0, 3, true);
    op("b");
    op("r");
    program_close_loop(&b);
    op("n");
    program_close_loop(&b);
    op("z");
    finish();
    walks(0, "a m@0 f0@0 f1@0 f2@0 b2@0 r2@0 b1@0 r1@0 b0@0 r0@0 n@0 "
             "m@1 f0@1 f1@1 f2@1 b2@1 r2@1 b1@1 r1@1 b0@1 r0@1 n@1 z");
    arena_release(&a);
}
END_TEST

START_TEST(a_loop_that_starts_with_a_loop_starts_both)
{
    begin(1, 2);
    loop(LOOP_MICRO, 0, 2, true);
    loop(LOOP_UNIT, 1, 3, false);
    op("x");
    program_close_loop(&b);
    program_close_loop(&b);
    finish();
    walks(0, "x1@1 x2@1 x1@0 x2@0");
    arena_release(&a);
}
END_TEST

START_TEST(an_explicit_list_is_the_order)
{
    static const uint32_t order[] = {2, 0, 2, 1}, none[] = {0};

    begin(1, 1);
    program_open_loop(&b, &(struct loop){.kind = LOOP_UNIT, .list = order, .n_list = 4});
    op("x");
    program_close_loop(&b);
    program_open_loop(&b, &(struct loop){.kind = LOOP_UNIT, .list = none, .n_list = 0});
    op("never");
    program_close_loop(&b);
    loop(LOOP_UNIT, 2, 2, false);
    op("nor");
    program_close_loop(&b);
    finish();
    walks(0, "x2 x0 x2 x1");
    arena_release(&a);
}
END_TEST

/* Units 0 and 2 are of class 0, unit 1 of class 1. Guards speak of indices, whatever the direction. */
START_TEST(guards_take_out_instances)
{
    static const bool last[3] = {false, false, true};

    begin(1, 3);
    loop(LOOP_MICRO, 0, 3, true);
    guarded("first", WHEN_FIRST, PROGRAM_NONE, NULL);
    guarded("last", WHEN_LAST, PROGRAM_NONE, NULL);
    guarded("not-first", WHEN_NOT_FIRST, PROGRAM_NONE, NULL);
    guarded("not-last", WHEN_NOT_LAST, PROGRAM_NONE, NULL);
    loop(LOOP_UNIT, 0, 3, false);
    guarded("odd", WHEN_FIRST, 1, NULL);
    guarded("even", WHEN_FIRST, 0, NULL);
    guarded("end", WHEN_LAST, PROGRAM_NONE, last);
    program_close_loop(&b);
    program_close_loop(&b);
    finish();
    walks(0, "last@2 not-first@2 end2@2 not-first@1 not-last@1 "
             "first@0 not-last@0 even0@0 odd1@0 even2@0");
    arena_release(&a);
}
END_TEST

START_TEST(one_micro_batch_is_first_and_last)
{
    begin(1, 1);
    loop(LOOP_MICRO, 0, 1, false);
    guarded("first", WHEN_FIRST, PROGRAM_NONE, NULL);
    guarded("last", WHEN_LAST, PROGRAM_NONE, NULL);
    guarded("not-last", WHEN_NOT_LAST, PROGRAM_NONE, NULL);
    program_close_loop(&b);
    finish();
    walks(0, "first@0 last@0");
    arena_release(&a);
}
END_TEST

static const struct work_item items[3] = {
    {.tensor = 0, .m = 2, .n = 3, .elements = 6, .flops = 10},
    {.tensor = 1, .m = 4, .n = 5, .elements = 20, .flops = 30},
    {.tensor = 2, .m = 1, .n = 7, .elements = 7, .flops = 50}};

/* Rank 0 works items 2 and 0, rank 1 nothing, rank 2 item 1. */
START_TEST(a_rank_walks_its_own_items)
{
    static const uint32_t start[] = {0, 2, 2, 3}, list[] = {2, 0, 1};
    uint32_t own, all, k;
    struct kernel_call call;

    begin(3, 1);
    own = program_add_work(
        &b, &(struct work_table){.n_items = 3, .items = items, .start = start, .list = list});
    all = program_add_work(&b, &(struct work_table){.n_items = 3, .items = items});
    op("a");
    program_open_loop(&b, &(struct loop){.kind = LOOP_ITEM, .work = own});
    k = program_add_op(&b, &(struct op){.name = "ns",
                                        .kind = OP_COMPUTE,
                                        .guard = {.unit_class = PROGRAM_NONE},
                                        .call = {.k = 5, .batch = 1, .launches = 1},
                                        .by_item = true,
                                        .item_flops_share = 0.5,
                                        .item_bytes_each = 3});
    program_close_loop(&b);
    op("z");
    program_open_loop(&b, &(struct loop){.kind = LOOP_ITEM, .work = all});
    op("y");
    program_close_loop(&b);
    finish();
    walks(0, "a ns#2/0 ns#0/1 z y#0/0 y#1/1 y#2/2");
    walks(1, "a z y#0/0 y#1/1 y#2/2");
    walks(2, "a ns#1/0 z y#0/0 y#1/1 y#2/2");
    call = op_call(&p, &p.ops[k], 1);
    ck_assert_uint_eq(call.m, 4);
    ck_assert_uint_eq(call.n, 5);
    ck_assert_uint_eq(call.k, 5);
    ck_assert_uint_eq(call.flops, 15);
    ck_assert_uint_eq(call.hbm_bytes, 60);
    arena_release(&a);
}
END_TEST

static const struct segment segments[] = {
    {.root = 1, .to_n = 2, .tensor = 0, .elements = 8},
    {.root = 0, .to_n = 2, .tensor = 0, .elements = 2},
    {.root = 1, .to_n = 2, .tensor = 1, .offset = 2, .elements = 4},
};
static const uint32_t starts[] = {0, 1, 1, 3};

/* Unit 1 moves nothing: neither as an empty row nor as 0 bytes. */
START_TEST(a_collective_without_bytes_does_not_exist)
{
    static const uint64_t bytes[] = {0, 7, 0};
    uint32_t t;
    struct op o = {.name = "seg", .kind = OP_COLLECTIVE, .guard = {.unit_class = PROGRAM_NONE}};

    begin(2, 1);
    t = program_add_segments(
        &b, &(struct segment_table){.n_units = 3, .start = starts, .segments = segments});
    loop(LOOP_UNIT, 0, 3, false);
    o.coll = (struct collective){.kind = COLL_SEGMENT_GATHER, .table = t};
    program_add_op(&b, &o);
    o.name = "even";
    o.coll = (struct collective){.kind = COLL_ALL_GATHER, .unit_elements = bytes};
    program_add_op(&b, &o);
    program_close_loop(&b);
    o.name = "none";
    o.coll = (struct collective){.kind = COLL_ALL_GATHER};
    program_add_op(&b, &o);
    finish();
    walks(1, "seg0 even1 seg2");
    ck_assert_uint_eq(op_coll_bytes(&p, &p.ops[0], &(struct instance){.unit = 2}), 4 * 6);
    arena_release(&a);
}
END_TEST

static int stop_at_two(void *ctx, const struct instance *i)
{
    (void)i;
    return ++*(int *)ctx == 2 ? 42 : 0;
}

START_TEST(a_callback_can_stop_the_walk)
{
    int n = 0;

    begin(1, 1);
    loop(LOOP_UNIT, 0, 3, false);
    op("x");
    program_close_loop(&b);
    op("y");
    finish();
    ck_assert_int_eq(program_walk(&p, 0, stop_at_two, &n), 42);
    ck_assert_int_eq(n, 2);
    arena_release(&a);
}
END_TEST

/* Two stages of two ranks each, ranks interleaved. */
START_TEST(roles_run_their_own_parts)
{
    begin(4, 1);
    op("a");
    loop(LOOP_UNIT, 0, 3, false);
    op("x");
    program_close_loop(&b);
    loop(LOOP_UNIT, 0, 3, true);
    op("y");
    program_close_loop(&b);
    p.roles = ARENA_NEW(&a, struct role, 2);
    p.roles[0] =
        (struct role){.name = "even", .n_ranks = 2, .rank_stride = 2, .first_op = 0, .n_ops = 2};
    p.roles[1] = (struct role){
        .name = "odd", .first_rank = 1, .n_ranks = 2, .rank_stride = 2, .first_op = 2, .n_ops = 1};
    p.n_roles = 2;
    ck_assert_msg(program_builder_finish(&b, &e) == 0, "%s", e.msg);
    walks(0, "a x0 x1 x2");
    walks(2, "a x0 x1 x2");
    walks(1, "y2 y1 y0");
    walks(3, "y2 y1 y0");
    ck_assert_str_eq(program_role(&p, 3)->name, "odd");
    ck_assert(program_role(&p, 4) == NULL);
    arena_release(&a);
}
END_TEST

START_TEST(a_rank_table_is_one_value_but_for_some)
{
    static const struct rank_value only[] = {{2, 20}, {3, 30}, {9, 90}};
    const struct rank_table t = {.every = 1, .n_only = 3, .only = only}, u = {.every = 5};

    ck_assert_uint_eq(rank_table_get(&t, 0), 1);
    ck_assert_uint_eq(rank_table_get(&t, 2), 20);
    ck_assert_uint_eq(rank_table_get(&t, 3), 30);
    ck_assert_uint_eq(rank_table_get(&t, 4), 1);
    ck_assert_uint_eq(rank_table_get(&t, 9), 90);
    ck_assert_uint_eq(rank_table_get(&t, 10), 1);
    ck_assert_uint_eq(rank_table_get(&u, 3), 5);
}
END_TEST

/* Spans: of an operation of unit 2 and micro-batch 1, what a buffer of each span is told apart by; and one unit further on,
 * behind the last. */
START_TEST(a_span_says_what_tells_instances_apart)
{
    static const struct buffer_at want[] = {
        [SPAN_RESIDENT] = {0, 0}, [SPAN_STEP] = {0, 0},       [SPAN_UNIT] = {2, 0},
        [SPAN_MICRO] = {0, 1},    [SPAN_UNIT_MICRO] = {2, 1}, [SPAN_ITEM] = {0, 0}};
    const struct instance i = {.unit = 2, .micro = 1, .item = 5};
    struct buffer v = {.name = "v"};
    const struct program q = {.model = &model, .buffers = &v, .n_buffers = 1};

    for (int k = 0; k <= SPAN_ITEM; k++) {
        bool by_unit = k == SPAN_UNIT || k == SPAN_UNIT_MICRO;
        struct buffer_at at;

        v.span = (enum span)k;
        ck_assert(buffer_instance(&q, 0, &i, 0, &at));
        ck_assert_uint_eq(at.unit, want[k].unit);
        ck_assert_uint_eq(at.micro, want[k].micro);
        ck_assert_int_eq(buffer_instance(&q, 0, &i, 1, &at), !by_unit);
        ck_assert_int_eq(buffer_instance(&q, 0, &i, -3, &at), !by_unit);
        ck_assert(buffer_instance(&q, 0, &i, -2, &at) && at.unit == 0);
    }
}
END_TEST

/* ---- refusals ---- */

/* A rank has one item's instance at a time: what an item reserves is released in the same loop. */
START_TEST(what_one_item_holds_no_other_loop_releases)
{
    static const uint64_t item_bytes[] = {1, 2, 3};

    begin(1, 1);
    program_add_work(&b, &(struct work_table){.n_items = 3, .items = items});
    program_add_buffer(
        &b, &(struct buffer){
                .name = "item", .rule = SIZE_BY_ITEM, .span = SPAN_ITEM, .item_bytes = item_bytes});
    for (int k = 0; k < 2; k++) {
        program_open_loop(&b, &(struct loop){.kind = LOOP_ITEM, .work = 0});
        program_op_life(&b, op(k ? "second" : "first"),
                        (struct life){.buffer = 0, .release = k > 0});
        program_close_loop(&b);
    }
    one_role();
    ck_assert_int_eq(program_builder_finish(&b, &e), -1);
    ck_assert_str_eq(e.msg, "buffer 'item' is one an item, but op 'second' holds it in another "
                            "loop");
    arena_release(&a);
}
END_TEST

/* A good program with one of everything; each fault below breaks one thing of it. */
enum { OP_A, OP_SEG, OP_EVEN, OP_NS, OP_Z };

static void good(void)
{
    static const uint32_t start[] = {0, 2, 2, 2, 3}, list[] = {2, 0, 1};
    static const uint64_t item_bytes[] = {1, 2, 3}, unit_bytes[] = {4, 5, 6};
    struct op o = {.name = "seg", .kind = OP_COLLECTIVE, .guard = {.unit_class = PROGRAM_NONE}};

    begin(4, 2);
    program_add_segments(
        &b, &(struct segment_table){.n_units = 3, .start = starts, .segments = segments});
    program_add_work(
        &b, &(struct work_table){.n_items = 3, .items = items, .start = start, .list = list});
    program_add_buffer(&b, &(struct buffer){.name = "resident",
                                            .rule = SIZE_BY_RANK,
                                            .ranks = {.every = 7},
                                            .span = SPAN_RESIDENT});
    program_add_buffer(&b, &(struct buffer){.name = "unit",
                                            .rule = SIZE_BY_UNIT,
                                            .span = SPAN_UNIT_MICRO,
                                            .unit_bytes = unit_bytes});
    program_add_buffer(
        &b, &(struct buffer){
                .name = "item", .rule = SIZE_BY_ITEM, .span = SPAN_ITEM, .item_bytes = item_bytes});
    loop(LOOP_MICRO, 0, 2, false);
    op("a");
    loop(LOOP_UNIT, 0, 3, false);
    o.coll = (struct collective){.kind = COLL_SEGMENT_GATHER, .peer_op = PROGRAM_NONE};
    program_op_life(&b, program_add_op(&b, &o), (struct life){.buffer = 1});
    o.name = "even";
    o.coll = (struct collective){
        .kind = COLL_ALL_GATHER, .elements = 8, .table = PROGRAM_NONE, .peer_op = PROGRAM_NONE};
    program_op_life(&b, program_add_op(&b, &o), (struct life){.buffer = 1, .release = true});
    program_op_wait(&b, OP_EVEN, (struct wait){.op = OP_SEG, .d_unit = -1});
    program_op_operand(
        &b, OP_EVEN, (struct operand){.buffer = 1, .tensor = OPERAND_WHOLE, .access = ACCESS_READ});
    program_close_loop(&b);
    program_close_loop(&b);
    program_open_loop(&b, &(struct loop){.kind = LOOP_ITEM, .work = 0});
    program_add_op(&b, &(struct op){.name = "ns",
                                    .kind = OP_COMPUTE,
                                    .guard = {.unit_class = PROGRAM_NONE},
                                    .by_item = true});
    program_op_life(&b, OP_NS, (struct life){.buffer = 2});
    program_op_life(&b, OP_NS, (struct life){.buffer = 2, .release = true});
    program_close_loop(&b);
    op("z");
    finish();
}

static struct segment bad_segments[3];
static uint32_t bad_start[] = {0, 2, 1, 2, 3}, bad_list[] = {2, 9, 1}, bad_order[] = {0, 3};

static struct segment *segment(int i)
{
    memcpy(bad_segments, segments, sizeof(segments));
    p.segment_tables[0].segments = bad_segments;
    return &bad_segments[i];
}

#define WAITS(o)    ((struct wait *)(uintptr_t)p.ops[o].waits)
#define LIVES(o)    ((struct life *)(uintptr_t)p.ops[o].lives)
#define OPERANDS(o) ((struct operand *)(uintptr_t)p.ops[o].operands)
#define FAULTS(X)                                                                                  \
    X(p.n_micro = 0, "4 ranks, 8 a node, 0 micro-batches")                                         \
    X(p.gpus_per_node = 0, "0 a node")                                                             \
    X(p.roles[0].n_ranks = 5, "role 'rank' has ranks 0 + 5 x 1 of 4")                              \
    X(p.roles[0].rank_stride = 0, "ranks 0 + 4 x 0 of 4")                                          \
    X(p.roles[0].n_ranks = 3, "rank 3 has no role")                                                \
    X(p.roles[0].first_op = 1, "has ops 1+5 of 5, expected from 0 on")                             \
    X(p.roles[0].n_ops = 4, "the roles run 4 of 5 ops")                                            \
    X(p.n_roles = 0, "the roles run 0 of 5 ops")                                                   \
    X(p.ops[3].id = 2, "op 3 has id 2")                                                            \
    X(p.ops[4].name = "a", "ops 0 and 4 are both called 'a'")                                      \
    X(p.segment_tables[0].n_units = 2, "segment table 0 has 2 rows, expected 1 or 3")              \
    X(segment(2)->offset = 1, "segment table 0: segments 1 and 2 of unit 2 overlap")               \
    X(p.work_tables[0].start = bad_start, "work table 0: rank 1 has items 2 to 1")                 \
    X(p.work_tables[0].list = bad_list, "work table 0 lists item 9 of 3")                          \
    X(p.groups[0].n_axes = 0, "group 'world' has 0 axes")                                          \
    X(p.groups[0].n_axes = 4, "group 'world' has 4 axes")                                          \
    X(p.groups[0].size[0] = 3, "group 'world' shares out 3 ranks, the world has 4")                \
    X(p.groups[0].size[0] = 8, "group 'world' shares out 8 ranks, the world has 4")                \
    X(p.groups[0].stride[0] = 0, "axis 0 is 4 with stride 0")                                      \
    X(p.groups[0].n_members = 3, "says 3 members, its axes make 4")                                \
    X((p.groups[0].n_axes = 2, p.groups[0].size[0] = p.groups[0].size[1] = 2,                      \
       p.groups[0].stride[0] = 2, p.groups[0].stride[1] = 1),                                      \
      "axis 1 is 2 with stride 1, expected strides that are multiples of 4")                       \
    X(p.loops[0].n_ops = 9, "loop 0 holds ops 0+9 of 5")                                           \
    X(p.loops[1].n_ops = 0, "loop 1 holds ops 1+0 of 5")                                           \
    X(p.loops[1].parent = 7, "loop 1 leaves its parent")                                           \
    X(p.loops[1].n_ops = 3, "loop 1 leaves its parent")                                            \
    X(p.loops[1].kind = LOOP_MICRO, "loop 1 counts what loop 0 around it counts")                  \
    X(p.loops[2].work = 1, "loop 2 walks work table 1 of 1")                                       \
    X(p.loops[1].end = 4, "loop 1 runs from 0 to 4 of 3")                                          \
    X(p.loops[1].begin = 4, "loop 1 runs from 4 to 3 of 3")                                        \
    X(p.loops[0].end = 3, "loop 0 runs from 0 to 3 of 2")                                          \
    X((p.loops[1].list = bad_order, p.loops[1].n_list = 2), "loop 1 lists 3 of 3")                 \
    X(p.ops[OP_A].loop = 3, "op 'a' is in loop 3 of 3")                                            \
    X(p.ops[OP_A].loop = 1, "op 'a' stands outside loop 1")                                        \
    X(p.ops[OP_SEG].loop = 0, "op 'seg' stands in loop 1")                                         \
    X(p.ops[OP_Z].loop = 0, "op 'z' stands outside loop 0")                                        \
    X(WAITS(OP_EVEN)[0].op = 5, "op 'even' waits for op 5 of 5")                                   \
    X(OPERANDS(OP_EVEN)[0].buffer = 3, "op 'even' uses buffer 3 of 3")                             \
    X(LIVES(OP_EVEN)[0].buffer = 3, "op 'even' releases buffer 3 of 3")                            \
    X(LIVES(OP_SEG)[0].buffer = 3, "op 'seg' reserves buffer 3 of 3")                              \
    X(LIVES(OP_SEG)[0].buffer = 2, "op 'seg' holds 'item', one an item, but is in no "             \
                                   "loop")                                                         \
    X(p.ops[OP_Z].by_item = true, "op 'z' works by item, but is in no loop")                       \
    X(p.ops[OP_EVEN].coll.group = 1, "op 'even' has no group")                                     \
    X(p.ops[OP_SEG].coll.table = 1, "op 'seg' uses segment table 1 of 1")                          \
    X(p.ops[OP_EVEN].coll.item_elements = p.buffers[2].item_bytes,                                 \
      "'even' moves elements by item")                                                             \
    X((p.ops[OP_EVEN].coll.kind = COLL_SEND), "op 'even' has no peer")                             \
    X(segment(1)->root = 2, "segment 1 of unit 2: 2 elements, root 2, range 0+2 of 4")             \
    X(segment(1)->elements = 0, "segment 1 of unit 2: 0 elements")                                 \
    X(segment(0)->to_n = 5, "root 1, range 0+5 of 4")                                              \
    X(segment(0)->to_first = UINT32_MAX, "root 1, range 4294967295+2 of 4")                        \
    X(p.buffers[0].span = SPAN_STEP, "buffer 'resident' is one a step, but its size is by rank")   \
    X(p.buffers[0].rule = SIZE_CONST, "'resident' is resident, but its size is constant")          \
    X(p.buffers[1].span = SPAN_RESIDENT, "'unit' is resident, but its size is by unit")            \
    X(p.buffers[1].span = SPAN_MICRO, "'unit' is one a micro-batch, but its size is by unit")      \
    X(p.buffers[2].span = SPAN_UNIT, "op 'ns' holds 'item', one a unit, but is in no loop over "   \
                                     "units")                                                      \
    X(p.buffers[2].span = SPAN_MICRO, "'item', one a micro-batch, but is in no loop over micro-")  \
    X(p.buffers[2].span = SPAN_STEP, "'item' is one a step, but its size is by item")              \
    X(p.buffers[1].unit_bytes = NULL, "buffer 'unit' has no table of its sizes")                   \
    X((p.buffers[1].rule = SIZE_SEGMENTS, p.buffers[1].table = 4), "'unit' has no table")          \
    X(p.buffers[1].holds = HOLDS_MODEL, "'unit' holds all tensors, but is one a unit and micro-")  \
    X(p.buffers[0].holds = HOLDS_UNIT, "'resident' holds a unit's tensors, but is resident")       \
    X(p.buffers[1].holds = HOLDS_UNIT, "'unit' holds unit 0, 0 bytes, and has 4")                  \
    X(p.buffers[0].holds = HOLDS_MODEL, "'resident' holds all tensors, 0 bytes, and has 7")        \
    X((p.buffers[1].rule = SIZE_CONST, p.buffers[1].holds = HOLDS_UNIT_SEGMENTS,                   \
       p.buffers[1].span = SPAN_UNIT),                                                             \
      "'unit' holds segments of a unit, but its size is constant")                                 \
    X(OPERANDS(OP_EVEN)[0].tensor = 0, "op 'even' uses tensor 0 of 'unit', which has no whole")    \
    X(OPERANDS(OP_EVEN)[0].tensor = OPERAND_ITEM, "uses the item's tensor of 'unit', which holds") \
    X((OPERANDS(OP_EVEN)[0].buffer = 2, OPERANDS(OP_EVEN)[0].tensor = OPERAND_ITEM,                \
       p.buffers[2].holds = HOLDS_MATRICES),                                                       \
      "'item' holds matrices of items, but is one an item")                                        \
    X(p.ops[OP_EVEN].n_lives = 0, "'unit' is one a unit and micro-batch, but reserved by 1 and "   \
                                  "released by 0 ops")                                             \
    X(LIVES(OP_EVEN)[0].buffer = 0, "'resident' is resident, but reserved by 0 and released by 1")

START_TEST(a_program_with_one_fault_is_refused)
{
    int n = 0;

    good();
    ck_assert_int_eq(program_check(&p, &e), 0);
    arena_release(&a);
#define X(fault, says)                                                                             \
    good();                                                                                        \
    (void)(fault);                                                                                 \
    n++;                                                                                           \
    ck_assert_msg(program_check(&p, &e) == -1, "%s: taken", #fault);                               \
    ck_assert_msg(strstr(e.msg, says) != NULL, "%s: '%s', expected '%s'", #fault, e.msg, says);    \
    arena_release(&a);
    FAULTS(X)
#undef X
    ck_assert_int_gt(n, 50);
}
END_TEST

SUITE_MAIN("model/program", loops_nest_and_descend, a_loop_that_starts_with_a_loop_starts_both,
           an_explicit_list_is_the_order, guards_take_out_instances,
           one_micro_batch_is_first_and_last, a_rank_walks_its_own_items,
           a_collective_without_bytes_does_not_exist, a_callback_can_stop_the_walk,
           roles_run_their_own_parts, a_rank_table_is_one_value_but_for_some,
           a_span_says_what_tells_instances_apart, what_one_item_holds_no_other_loop_releases,
           a_program_with_one_fault_is_refused)
