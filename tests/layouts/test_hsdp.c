/* hsdp and mics: bytes against the closed formula and by hand, what each rank holds and updates, which groups are refused. */
#include "model/program/traffic.h"
#include "tests/layouts/formulas.h"
#include "tests/layouts/plans.h"

#include "core/num.h"

static struct arena a;
static struct err e;

static struct job grouped(uint32_t group)
{
    struct job j = plans_job();

    j.shard_group = group;
    return j;
}

/* Totals of all ranks, by phase; what is sent is received. */
static void totals(const struct program *p, uint64_t bytes[PHASE_N])
{
    struct traffic_bytes *rank = MEM_NEW(struct traffic_bytes, p->world);

    for (uint32_t ph = 0; ph < PHASE_N; ph++) {
        uint64_t received = 0;

        traffic_step(p, 1u << ph, NULL, NULL, rank);
        bytes[ph] = 0;
        for (uint32_t r = 0; r < p->world; r++) {
            bytes[ph] += rank[r].sent_intra + rank[r].sent_inter;
            received += rank[r].recv_intra + rank[r].recv_inter;
        }
        ck_assert_uint_eq(bytes[ph], received);
    }
    mem_free(rank);
}

static void agree(const char *model, const char *layout, const struct job *j, uint32_t world,
                  uint32_t gpn)
{
    uint64_t formula[PHASE_N], bytes[PHASE_N];
    struct program prog;
    struct plan p;

    arena_init(&a);
    plans_make(&p, &a, model, layout, j, world, gpn);
    plans_lower(&p, &a, &prog);
    formula_bytes(&p, formula);
    totals(&prog, bytes);
    for (uint32_t ph = 0; ph < PHASE_N; ph++)
        MUST(formula[ph] == bytes[ph],
             "%s %s %s, %u of %u a group, %u a node: %s: formula %llu, %llu", model, layout,
             optimizer_name(j->optimizer), j->shard_group, world, gpn, phase_name((enum phase)ph),
             (unsigned long long)formula[ph], (unsigned long long)bytes[ph]);
    arena_release(&a);
}

START_TEST(formulas_equal_programs)
{
    for (int m = 0; m < PLANS_N_MODELS; m++)
        for (uint32_t l = 0; plans_grouped(l); l++)
            for (int w = 0; w < PLANS_N_GROUP_WORLDS; w++)
                for (int o = 0; o < OPTIMIZER_N; o++) {
                    struct job j = grouped(plans_group_worlds[w][1]);

                    j.optimizer = (enum optimizer)o;
                    if (!plans_go_together(plans_grouped(l), j.optimizer))
                        continue;
                    j.grad_accum = w % 2 ? 3 : 1;
                    j.grad_dtype = o % 2 ? DTYPE_FP32 : DTYPE_BF16;
                    agree(plans_models[m], plans_grouped(l), &j, plans_group_worlds[w][0],
                          w % 3 ? 8 : 4);
                    j.reshard_never = true;
                    agree(plans_models[m], plans_grouped(l), &j, plans_group_worlds[w][0],
                          w % 3 ? 8 : 4);
                    j.sync_last = true;
                    agree(plans_models[m], plans_grouped(l), &j, plans_group_worlds[w][0],
                          w % 3 ? 8 : 4);
                }
}
END_TEST

/* Bytes of every rank in a phase. */
static void each_rank(const struct program *p, enum phase ph, uint64_t intra, uint64_t inter)
{
    struct traffic_bytes *rank = MEM_NEW(struct traffic_bytes, p->world);

    traffic_step(p, 1u << ph, NULL, NULL, rank);
    for (uint32_t r = 0; r < p->world; r++) {
        MUST(rank[r].sent_intra == intra && rank[r].sent_inter == inter,
             "%s, rank %u: sent %llu inside, %llu between, expected %llu and %llu", phase_name(ph),
             r, (unsigned long long)rank[r].sent_intra, (unsigned long long)rank[r].sent_inter,
             (unsigned long long)intra, (unsigned long long)inter);
        ck_assert_uint_eq(rank[r].recv_intra, intra);
        ck_assert_uint_eq(rank[r].recv_inter, inter);
    }
    mem_free(rank);
}

static const char tiny[] = "block:layers=2,hidden=2,ffn=4,heads=1";

/* 40 elements a layer: q k v proj up0 up1 [2,2], down [2,4], four vectors of 2. Two ranks share it in halves of 20, nothing
 * is padded; 2 bytes each. Nodes of 2, groups of 2, W = 4: a rank sends 40 bytes in its group for each gather and each
 * reduction: forward 80 (two units), backward 40 + 80 (the last unit stays gathered) inside the node. Its 20 reduced
 * elements go around the ring of the 2 ranks in its place of both nodes: 2 (2-1) ceil(20/2) = 20 elements, 40 bytes a
 * unit, 80 between nodes. Three micro-batches: all but that three times. */
START_TEST(a_node_a_group_by_hand)
{
    for (uint64_t accum = 1; accum <= 3; accum += 2) {
        struct job j = grouped(2);
        struct program prog;
        struct plan p;

        arena_init(&a);
        j.optimizer = OPTIMIZER_ADAMW;
        j.grad_accum = accum;
        plans_make(&p, &a, tiny, "hsdp", &j, 4, 2);
        plans_lower(&p, &a, &prog);
        each_rank(&prog, PHASE_FORWARD, accum * 80, 0);
        each_rank(&prog, PHASE_BACKWARD, accum * 120, 80);
        each_rank(&prog, PHASE_OPTIMIZER, 0, 0);
        j.reshard_never = true; /* 80 in backward, the reductions alone */
        plans_make(&p, &a, tiny, "hsdp", &j, 4, 2);
        plans_lower(&p, &a, &prog);
        each_rank(&prog, PHASE_FORWARD, accum * 80, 0);
        each_rank(&prog, PHASE_BACKWARD, accum * 80, 80);
        j.reshard_never = false;
        j.sync_last = true; /* 40 in each, and 80 in the last */
        plans_make(&p, &a, tiny, "hsdp", &j, 4, 2);
        plans_lower(&p, &a, &prog);
        each_rank(&prog, PHASE_FORWARD, accum * 80, 0);
        each_rank(&prog, PHASE_BACKWARD, accum * 40 + 80, 80);
        arena_release(&a);
    }
}
END_TEST

/* The same in one node of 4: nothing leaves it. */
START_TEST(two_groups_in_a_node_by_hand)
{
    struct job j = grouped(2);
    struct program prog;
    struct plan p;

    arena_init(&a);
    j.optimizer = OPTIMIZER_ADAMW;
    plans_make(&p, &a, tiny, "hsdp", &j, 4, 4);
    plans_lower(&p, &a, &prog);
    each_rank(&prog, PHASE_FORWARD, 80, 0);
    each_rank(&prog, PHASE_BACKWARD, 200, 0);
    arena_release(&a);
}
END_TEST

/* Groups of 4 over two nodes of 2, W = 8. Chunks of 4: [2,2] 1 row of 2, down 1 row of 4, vectors 1: 6*2 + 4 + 4 = 20
 * elements a rank, 3 * 20 * 2 = 120 bytes a gather. Rings cross the nodes on both rails: half of it each, 60 and 60. Forward two
 * of them, backward three. The two ranks in a place are on nodes 0 and 2, or 1 and 3: 40 bytes a unit, all between. */
START_TEST(a_group_over_two_nodes_by_hand)
{
    struct job j = grouped(4);
    struct program prog;
    struct plan p;

    arena_init(&a);
    j.optimizer = OPTIMIZER_ADAMW;
    plans_make(&p, &a, tiny, "hsdp", &j, 8, 2);
    plans_lower(&p, &a, &prog);
    each_rank(&prog, PHASE_FORWARD, 120, 120);
    each_rank(&prog, PHASE_BACKWARD, 180, 180 + 80);
    arena_release(&a);
}
END_TEST

/* Owners in groups of 2, nodes of 2, W = 4. Matrices of unit 0 (k = 0..6, (5k + 0) mod 2) are on places 0 1 0 1 0 1 0, of unit 1 (k
 * = 7..13, (5k + 1) mod 2) on 0 1 0 1 0 1 0, vectors on 1 and 0. So of unit 0 place 0 owns q v up0 down: 4+4+4+8 = 20, place 1
 * k proj up1 and 8 of vectors: 20; of unit 1 place 0 20 + 8 = 28, place 1 12. Reduced segments over the copies: 2 (2-1)
 * ceil(E/2) elements of 2 bytes: unit 0 40 each, unit 1 56 and 24. A gather on a ring sends what the successor does not own:
 * 40 bytes each in unit 0; in unit 1 place 0 56, place 1 24. */
START_TEST(owners_by_hand)
{
    struct job j = grouped(2);
    struct traffic_bytes rank[4];
    struct program prog;
    struct plan p;

    arena_init(&a);
    plans_make(&p, &a, tiny, "hsdp+owner", &j, 4, 2);
    plans_lower(&p, &a, &prog);
    traffic_step(&prog, 1u << PHASE_FORWARD, NULL, NULL, rank);
    for (uint32_t r = 0; r < 4; r++) {
        ck_assert_uint_eq(rank[r].sent_intra, 40 + (r % 2 ? 24 : 56));
        ck_assert_uint_eq(rank[r].sent_inter, 0);
    }
    traffic_step(&prog, 1u << PHASE_BACKWARD, NULL, NULL, rank);
    for (uint32_t r = 0; r < 4; r++)
        ck_assert_uint_eq(rank[r].sent_inter, 40 + (r % 2 ? 24 : 56));
    traffic_step(&prog, 1u << PHASE_OPTIMIZER, NULL, NULL, rank);
    for (uint32_t r = 0; r < 4; r++)
        ck_assert_uint_eq(rank[r].sent_intra + rank[r].sent_inter, 0);
    arena_release(&a);
}
END_TEST

/* Every matrix is worked once in every group, by the ranks in its owner's place. */
START_TEST(each_matrix_has_one_owner_a_group)
{
    for (int w = 0; w < PLANS_N_GROUP_WORLDS; w++) {
        uint32_t world = plans_group_worlds[w][0], group = plans_group_worlds[w][1];
        struct job j = grouped(group);
        struct program prog;
        struct plan p;

        arena_init(&a);
        plans_make(&p, &a, "llama", "hsdp+owner", &j, world, 8);
        plans_lower(&p, &a, &prog);
        for (uint32_t t = 0; t < prog.n_work_tables; t++) {
            const struct work_table *k = &prog.work_tables[t];
            uint32_t *times = ARENA_NEW(&a, uint32_t, (size_t)k->n_items * (world / group));

            ck_assert(k->start != NULL);
            for (uint32_t r = 0; r < world; r++)
                for (uint32_t i = k->start[r]; i < k->start[r + 1]; i++) {
                    uint32_t owner = p.place[k->items[k->list[i]].tensor].owner;

                    MUST(owner == r % group, "rank %u works what place %u owns", r, owner);
                    times[k->list[i] * (world / group) + r / group]++;
                }
            for (uint32_t i = 0; i < k->n_items * (world / group); i++)
                MUST(times[i] == 1, "%u groups of %u: worked %u times", world / group, group,
                     times[i]);
        }
        arena_release(&a);
    }
}
END_TEST

static uint64_t resident(const struct program *p, uint32_t buffer, uint32_t rank)
{
    return buffer == PROGRAM_NONE ? 0 : rank_table_get(&p->buffers[buffer].ranks, rank);
}

/* As zero3 over G ranks: parameters, states and master copies of a rank are those of its place in a world of G. With G = 1
 * they are ddp's. */
START_TEST(a_rank_holds_what_zero3_over_its_group_gives_it)
{
    for (uint32_t s = 0; plans_grouped(s); s++)
        for (int w = 0; w < PLANS_N_GROUP_WORLDS; w++) {
            uint32_t world = plans_group_worlds[w][0], group = plans_group_worlds[w][1];
            struct job j = grouped(group), alone = plans_job();
            const char *strategy = strchr(plans_grouped(s), '+');
            struct program prog, of;
            struct plan p, q;

            arena_init(&a);
            plans_make(&p, &a, "llama", plans_grouped(s), &j, world, 8);
            plans_make(&q, &a, "llama", group > 1 ? arena_printf(&a, "zero3%s", strategy) : "ddp",
                       &alone, group, 8);
            plans_lower(&p, &a, &prog);
            plans_lower(&q, &a, &of);
            for (uint32_t r = 0; r < world; r++) {
                const struct known_buffers *x = &prog.known, *y = &of.known;

                ck_assert_uint_eq(resident(&prog, x->params, r),
                                  resident(&of, y->params, r % group));
                ck_assert_uint_eq(resident(&prog, x->states, r),
                                  resident(&of, y->states, r % group));
                ck_assert_uint_eq(resident(&prog, x->master, r),
                                  resident(&of, y->master, r % group));
            }
            if (group == 1)
                ck_assert_uint_eq(resident(&prog, prog.known.grads, world - 1),
                                  2 * p.model.total_params);
            arena_release(&a);
        }
}
END_TEST

/* Loads of a plan repeat from group to group, and are those of zero3 over a group. */
START_TEST(loads_repeat_from_group_to_group)
{
    for (uint32_t l = 0; plans_grouped(l); l++)
        for (int w = 0; w < PLANS_N_GROUP_WORLDS; w++) {
            uint32_t world = plans_group_worlds[w][0], group = plans_group_worlds[w][1];
            struct job j = grouped(group), alone = plans_job();
            struct plan p, q;

            if (group == 1) /* zero3 of one rank is counted as cut in one part */
                continue;
            arena_init(&a);
            plans_make(&p, &a, "gpt2", plans_grouped(l), &j, world, 8);
            plans_make(&q, &a, "gpt2", arena_printf(&a, "zero3%s", strchr(plans_grouped(l), '+')),
                       &alone, group, 8);
            plans_loads(&p, &a);
            plans_loads(&q, &a);
            for (uint32_t r = 0; r < world; r++) {
                ck_assert_uint_eq(p.load_flops[r], q.load_flops[r % group]);
                ck_assert_uint_eq(p.load_bytes[r], q.load_bytes[r % group]);
            }
            arena_release(&a);
        }
}
END_TEST

/* Nothing is left to say: the same operations, groups and buffers as zero3's. */
START_TEST(one_group_of_all_ranks_is_zero3)
{
    for (uint32_t l = 0; plans_grouped(l); l++) {
        struct job j = grouped(6), alone = plans_job();
        struct program prog, of;
        struct plan p, q;

        arena_init(&a);
        plans_make(&p, &a, "llama", plans_grouped(l), &j, 6, 4);
        plans_make(&q, &a, "llama", arena_printf(&a, "zero3%s", strchr(plans_grouped(l), '+')),
                   &alone, 6, 4);
        plans_lower(&p, &a, &prog);
        plans_lower(&q, &a, &of);
        ck_assert_uint_eq(prog.n_ops, of.n_ops);
        ck_assert_uint_eq(prog.n_groups, of.n_groups);
        for (uint32_t i = 0; i < of.n_ops; i++) {
            ck_assert_str_eq(prog.ops[i].name, of.ops[i].name);
            ck_assert_uint_eq(prog.ops[i].n_waits, of.ops[i].n_waits);
            ck_assert_int_eq(prog.ops[i].stream, of.ops[i].stream);
        }
        arena_release(&a);
    }
}
END_TEST

static uint32_t find_op(const struct program *p, const char *name)
{
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (!strcmp(p->ops[i].name, name))
            return i;
    ck_abort_msg("no op '%s'", name);
    return PROGRAM_NONE;
}

/* hsdp's all-reduce has its own stream and nothing in backward waits for it; mics's stands before the mark that the next
 * unit's backward waits for. Both: strided ranks, the last micro-batch only. */
START_TEST(the_all_reduce_is_where_the_layout_says)
{
    static const char *const layouts[] = {"hsdp", "mics"};

    for (int l = 0; l < 2; l++) {
        struct job j = grouped(4);
        struct program prog;
        const struct op *o;
        struct plan p;
        uint32_t id;

        arena_init(&a);
        j.grad_accum = 2;
        plans_make(&p, &a, "llama", layouts[l], &j, 16, 8);
        plans_lower(&p, &a, &prog);
        id = find_op(&prog, "replicate");
        o = &prog.ops[id];
        ck_assert_int_eq(o->stream, l ? STREAM_REDUCE : STREAM_ALL_REDUCE);
        ck_assert_int_eq(o->guard.micro, WHEN_LAST);
        ck_assert_uint_eq(prog.groups[o->coll.group].stride[0], 4);
        ck_assert_uint_eq(prog.groups[o->coll.group].n_members, 4);
        ck_assert(l ? id < find_op(&prog, "reduce.end") : id > find_op(&prog, "reduce.end"));
        for (uint32_t i = 0; i < prog.n_ops; i++)
            for (uint32_t k = 0; k < prog.ops[i].n_waits; k++)
                MUST(prog.ops[i].waits[k].op != id || !strcmp(prog.ops[i].name, "optimizer.begin"),
                     "%s waits for it", prog.ops[i].name);
        arena_release(&a);
    }
}
END_TEST

static void place(const char *layout, enum optimizer o, uint32_t group, uint32_t world,
                  uint32_t want, const char *text)
{
    struct job j = grouped(group);
    const struct layout *l;
    enum strategy s;
    const char *full;
    uint32_t g;

    arena_init(&a);
    j.gpus = world;
    ck_assert_int_eq(layout_resolve(layout, o, &a, &l, &s, &full, &e), 0);
    j.optimizer = o;
    if (!text) {
        ck_assert_int_eq(layout_groups(l, &j, 8, &g, &e), 0);
        ck_assert_uint_eq(g, want);
    } else {
        ck_assert_int_ne(layout_groups(l, &j, 8, &g, &e), 0);
        MUST(strstr(e.msg, text), "%s", e.msg);
    }
    arena_release(&a);
}

START_TEST(groups_that_are_none_are_refused)
{
    place("hsdp", OPTIMIZER_MUON, 0, 64, 8, NULL); /* a node */
    place("mics+owner", OPTIMIZER_MUON, 0, 4, 4, NULL);
    place("hsdp", OPTIMIZER_ADAMW, 64, 64, 64, NULL);
    place("hsdp", OPTIMIZER_ADAMW, 1, 64, 1, NULL);
    place("zero1", OPTIMIZER_ADAMW, 0, 64, 0, NULL); /* all */
    place("zero1", OPTIMIZER_ADAMW, 64, 64, 0, NULL);
    place("zero3", OPTIMIZER_ADAMW, 64, 64, 0, NULL);
    place("hsdp", OPTIMIZER_MUON, 8, 2, 0, "a group of 8 on 2 GPUs");
    place("hsdp", OPTIMIZER_MUON, 5, 16, 0, "expected a divisor of the 16 ranks");
    place("hsdp", OPTIMIZER_MUON, 0, 12, 0, "a node's 8 GPUs do not share out 12 ranks");
    place("zero3", OPTIMIZER_MUON, 4, 16, 0, "only the whole world (16) with zero3");
    place("zero1", OPTIMIZER_MUON, 4, 16, 0, "only the whole world (16) with zero1");
}
END_TEST

SUITE_MAIN("layouts/hsdp", formulas_equal_programs, a_node_a_group_by_hand,
           two_groups_in_a_node_by_hand, a_group_over_two_nodes_by_hand, owners_by_hand,
           each_matrix_has_one_owner_a_group, a_rank_holds_what_zero3_over_its_group_gives_it,
           loads_repeat_from_group_to_group, one_group_of_all_ranks_is_zero3,
           the_all_reduce_is_where_the_layout_says, groups_that_are_none_are_refused)
