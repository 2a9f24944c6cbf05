/* Closed byte formulas against the programs, for every layout, and against hand counts for one tiny case each. */
#include "model/program/traffic.h"
#include "tests/layouts/formulas.h"
#include "tests/layouts/plans.h"

#include "core/num.h"

static struct arena a;
static struct err e;

static enum coll_algo fixed(void *ctx, const struct instance *i)
{
    (void)i;
    return *(enum coll_algo *)ctx;
}

/* Totals of all ranks, by phase; checks that what is sent is received. */
static void program_bytes(const struct program *p, enum coll_algo algo, uint64_t bytes[PHASE_N])
{
    struct traffic_bytes *rank = MEM_NEW(struct traffic_bytes, p->world);

    for (uint32_t ph = 0; ph < PHASE_N; ph++) {
        uint64_t recv = 0;

        traffic_step(p, 1u << ph, algo == ALGO_AUTO ? NULL : fixed, &algo, rank);
        bytes[ph] = 0;
        for (uint32_t r = 0; r < p->world; r++) {
            bytes[ph] += rank[r].sent_intra + rank[r].sent_inter;
            recv += rank[r].recv_intra + rank[r].recv_inter;
        }
        ck_assert_uint_eq(bytes[ph], recv);
    }
    mem_free(rank);
}

/* Does a program move anything else than the plan's formula says? */
static bool contradicts(const struct plan *p, const struct program *prog)
{
    uint64_t formula[PHASE_N], bytes[PHASE_N];

    formula_bytes(p, formula);
    program_bytes(prog, ALGO_AUTO, bytes);
    return memcmp(formula, bytes, sizeof(bytes)) != 0;
}

static void agree_on(const char *model, const char *layout, const struct job *j, uint32_t world,
                     uint32_t gpus_per_node, enum coll_algo algo)
{
    uint64_t formula[PHASE_N], bytes[PHASE_N];
    struct program prog;
    struct plan p;

    arena_init(&a);
    plans_make(&p, &a, model, layout, j, world, gpus_per_node);
    plans_lower(&p, &a, &prog);
    formula_bytes(&p, formula);
    program_bytes(&prog, algo, bytes);
    for (uint32_t ph = 0; ph < PHASE_N; ph++)
        MUST(formula[ph] == bytes[ph],
             "%s %s (%s %s) %s world %u accum %llu bucket %llu: %s: formula %llu, program %llu",
             model, layout, p.layout_full, p.job.mesh ? p.job.mesh : "",
             optimizer_name(j->optimizer), world, (unsigned long long)j->grad_accum,
             (unsigned long long)j->bucket_bytes, phase_name((enum phase)ph),
             (unsigned long long)formula[ph], (unsigned long long)bytes[ph]);
    arena_release(&a);
}

static void agree(const char *model, const char *layout, const struct job *j, uint32_t world,
                  enum coll_algo algo)
{
    agree_on(model, layout, j, world, 8, algo);
}

/* Every second of them: all take more than ten seconds. */
START_TEST(formulas_equal_programs_for_every_layout_optimizer_world_and_model)
{
    struct job j = plans_job();

    for (int m = 0; m < PLANS_N_MODELS; m++)
        for (uint32_t l = 0; plans_name(l); l++)
            for (int o = 0; o < OPTIMIZER_N; o++)
                for (int w = 0; w < PLANS_N_WORLDS; w++) {
                    j.optimizer = (enum optimizer)o;
                    if (((uint32_t)(m + o + w) + l) % 2 ||
                        !plans_go_together(plans_name(l), j.optimizer))
                        continue;
                    plans_fit(&j, plans_name(l), plans_worlds[w], 8, (uint32_t)(m + o));
                    j.grad_accum = w % 2 ? 3 : 1;
                    agree(plans_models[m], plans_name(l), &j, plans_worlds[w], ALGO_AUTO);
                    j.overlap_refresh = true;
                    agree(plans_models[m], plans_name(l), &j, plans_worlds[w], ALGO_AUTO);
                    j.overlap_refresh = false;
                    j.overlap_reduce = OVERLAP_NO; /* moves the same */
                    agree(plans_models[m], plans_name(l), &j, plans_worlds[w], ALGO_AUTO);
                    j.overlap_reduce = OVERLAP_AUTO;
                    j.reshard_never = true;
                    agree(plans_models[m], plans_name(l), &j, plans_worlds[w], ALGO_AUTO);
                    j.reshard_never = w % 3 == 0;
                    j.sync_last = true;
                    if (strncmp(plans_name(l), "zero2", 5)) /* it has none */
                        agree(plans_models[m], plans_name(l), &j, plans_worlds[w], ALGO_AUTO);
                    j.sync_last = j.reshard_never = false;
                }
}
END_TEST

START_TEST(formulas_equal_programs_for_every_bucket_and_dtype)
{
    static const uint64_t buckets[] = {0, 1, 2, 3, 1000, 4096, 65537, 1 << 20};
    static const uint32_t worlds[] = {2, 7, 8};
    struct job j = plans_job();

    for (int m = 0; m < PLANS_N_MODELS; m++)
        for (uint32_t l = 0; plans_name(l); l++)
            for (int b = 0; b < 8; b++)
                for (int w = 0; w < 3; w++)
                    for (int d = 0; d < 3; d++) {
                        j.bucket_bytes = buckets[b];
                        j.param_dtype = d == 1 ? DTYPE_FP32 : DTYPE_BF16;
                        j.grad_dtype = d == 2 ? DTYPE_FP32 : DTYPE_BF16;
                        j.grad_accum = d == 1 ? 3 : 1;
                        plans_fit(&j, plans_name(l), worlds[w], 8, (uint32_t)(m + b));
                        agree(plans_models[m], plans_name(l), &j, worlds[w], ALGO_AUTO);
                    }
}
END_TEST

/* ---- mesh ---- */

/* Ranks, GPUs of a node, factors: of 2, 4 and 6 nodes; all in a node, over nodes, gradients inside the node that parameters
 * leave room in and over nodes at once, copies in and over nodes, everything whole, everything over all. */
static const struct {
    uint32_t world, gpus;
    const char *mesh;
} meshes[] = {
    {8, 4, "p=4x1,g=4x1,os=4x2"},  {8, 4, "p=2x1,g=4x1,os=4x2"},  {8, 4, "p=1x1,g=1x1,os=4x2"},
    {8, 4, "p=1x1,g=4x1,os=4x2"},  {8, 4, "p=2x1,g=2x2,os=4x2"},  {8, 4, "p=2x1,g=2x1,os=2x1"},
    {16, 8, "p=8x1,g=8x1,os=8x2"}, {16, 8, "p=2x1,g=4x1,os=8x1"}, {16, 8, "p=4x1,g=8x2,os=8x2"},
    {16, 4, "p=4x1,g=4x2,os=4x4"}, {16, 4, "p=2x1,g=4x2,os=4x4"}, {16, 4, "p=1x1,g=2x1,os=2x2"},
    {32, 8, "p=8x1,g=8x2,os=8x4"}, {32, 8, "p=2x2,g=4x2,os=4x2"}, {32, 8, "p=1x2,g=2x2,os=4x4"},
    {24, 4, "p=4x1,g=4x3,os=4x6"}, {24, 4, "p=2x3,g=2x3,os=4x3"}, {24, 4, "p=1x2,g=1x6,os=4x6"},
    {48, 8, "p=8x1,g=8x2,os=8x6"}, {48, 8, "p=4x1,g=8x3,os=8x3"}, {48, 8, "p=1x1,g=1x1,os=1x1"},
    {48, 8, "p=8x6,g=8x6,os=8x6"}, {12, 6, "p=3x1,g=6x1,os=6x2"}, {1, 8, "p=1x1,g=1x1,os=1x1"},
    {48, 8, "p=1x1,g=1x1,os=8x3"}, {48, 8, "p=1x1,g=2x3,os=2x3"}};
enum { N_MESHES = sizeof(meshes) / sizeof(meshes[0]) };

START_TEST(formulas_equal_programs_for_nested_factors)
{
    struct job j = plans_job();

    for (int m = 0; m < PLANS_N_MODELS; m++)
        for (int k = 0; k < N_MESHES; k++)
            for (int v = 0; v < 8; v++) {
                j.mesh = meshes[k].mesh;
                j.optimizer = v % 2 ? OPTIMIZER_ADAMW : v % 3 ? OPTIMIZER_MUON : OPTIMIZER_SOAP;
                j.grad_accum = v / 2 % 2 ? 3 : 1;
                j.grad_dtype = v / 4 ? DTYPE_FP32 : DTYPE_BF16;
                j.reshard_never = v == 5;
                j.overlap_refresh = v == 6;
                j.sync_last = v == 3 || v == 7;
                agree_on(plans_models[m], "mesh", &j, meshes[k].world, meshes[k].gpus, ALGO_AUTO);
            }
}
END_TEST

/* The formula and a program of other factors, or without one of its collectives, differ: each thing that moves is in both. */
START_TEST(a_level_that_is_left_out_or_a_factor_that_is_off_is_seen)
{
    static const char *const others[] = {"p=4x1,g=4x1,os=4x4", "p=2x1,g=4x2,os=4x4",
                                         "p=2x1,g=4x1,os=4x2", "p=2x1,g=2x1,os=4x4"};
    struct job j = plans_job();
    struct program prog, off;
    struct plan p, q;
    uint32_t n = 0;

    arena_init(&a);
    j.grad_accum = 3;
    j.mesh = "p=2x1,g=4x1,os=4x4";
    plans_make(&p, &a, "llama", "mesh", &j, 16, 4);
    for (int k = 0; k < 4; k++) {
        j.mesh = others[k];
        plans_make(&q, &a, "llama", "mesh", &j, 16, 4);
        plans_lower(&q, &a, &off);
        MUST(contradicts(&p, &off), "%s is as good", others[k]);
    }
    j.mesh = "p=2x1,g=4x1,os=4x2"; /* and copies */
    plans_make(&p, &a, "llama", "mesh", &j, 16, 4);
    plans_lower(&p, &a, &prog);
    ck_assert(!contradicts(&p, &prog));
    for (uint32_t i = 0; i < prog.n_ops; i++) {
        if (prog.ops[i].kind != OP_COLLECTIVE)
            continue;
        prog.ops[i].kind = OP_MARK;
        MUST(contradicts(&p, &prog), "nobody misses %s", prog.ops[i].name);
        prog.ops[i].kind = OP_COLLECTIVE;
        n++;
    }
    /* two gathers, three levels of gradients, the refresh, a gather of matrices */
    ck_assert_uint_eq(n, 2 + 3 + 1 + 1);
    arena_release(&a);
}
END_TEST

/* Every rank has to receive what it does not hold: no algorithm changes the total but padding. */
START_TEST(no_algorithm_but_padding_changes_the_total)
{
    static const enum coll_algo algos[] = {ALGO_P2P, ALGO_RING, ALGO_TREE, ALGO_HIERARCHICAL};
    struct job j = plans_job();

    for (int m = 0; m < PLANS_N_MODELS; m++)
        for (int w = 1; w < PLANS_N_WORLDS; w++)
            for (int k = 0; k < 4; k++) {
                agree(plans_models[m], "owner", &j, plans_worlds[w], algos[k]);
                agree(plans_models[m], "zero1-owner", &j, plans_worlds[w], algos[k]);
                agree(plans_models[m], "zero2-owner", &j, plans_worlds[w], algos[k]);
            }
}
END_TEST

/* A padded gather carries the largest share from every rank. By hand, W = 3, tiny (below), owners by plans_owners():
 * matrices q k v o up0 up1 down on 0 2 1 0 2 1 0 of unit 0, the 8 vector elements on 1: shares of 4+4+8, 4+4+8, 4+4
 * elements; the largest is 16, so 48 elements travel instead of 40. In unit 1 matrices 7.. are on 0 2 1 0 2 1 0 again
 * (36 mod 3 = 0), vectors on 1: 48. Forward 2 units x 48 x 2 bytes over 2 edges: 384. */
/* ZeRO-1 in shard groups: 16 ranks in groups of 1, 2, 8 and, as without groups, 16. */
START_TEST(formulas_equal_programs_for_shard_groups)
{
    static const uint32_t groups[] = {1, 2, 8};
    struct job j = plans_job();

    j.optimizer = OPTIMIZER_ADAMW;
    for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]); i++)
        for (uint64_t bucket = 4096; bucket <= 1 << 26; bucket <<= 14) {
            j.shard_group = groups[i];
            j.bucket_bytes = bucket;
            agree("block:layers=2,hidden=64,ffn=256,heads=4,mlp=gelu,vocab=100", "zero1", &j, 16,
                  ALGO_RING);
        }
}
END_TEST

START_TEST(padding_is_in_the_formula)
{
    struct job j = plans_job();
    uint64_t formula[PHASE_N];
    struct plan p;

    j.gather = ALGO_PADDED;
    arena_init(&a);
    plans_make(&p, &a, "block:layers=2,hidden=2,ffn=4,heads=1", "owner", &j, 3, 8);
    formula_bytes(&p, formula);
    ck_assert_uint_eq(formula[PHASE_FORWARD], 384);
    arena_release(&a);
    for (int m = 0; m < PLANS_N_MODELS; m++)
        for (int w = 0; w < PLANS_N_WORLDS; w++) {
            j.grad_dtype = w % 2 ? DTYPE_FP32 : DTYPE_BF16;
            agree(plans_models[m], "owner", &j, plans_worlds[w], ALGO_AUTO);
            agree(plans_models[m], "zero1-owner", &j, plans_worlds[w], ALGO_AUTO);
            agree(plans_models[m], "zero1", &j, plans_worlds[w], ALGO_AUTO);
        }
}
END_TEST

/* ---- by hand ----
 *
 * block:layers=2,hidden=2,ffn=4,heads=1 (split-up): a layer is q, k, v, o [2,2], up0, up1 [2,2] each, down [2,4], and
 * two LayerNorms with bias, 4 vectors of 2: in all 4*4 + 2*4 + 8 + 8 = 40 elements, 32 in matrices. Two layers: 80. */
static const char tiny[] = "block:layers=2,hidden=2,ffn=4,heads=1";

static void expect_on(const char *layout, const struct job *j, uint32_t world,
                      uint32_t gpus_per_node, uint64_t forward, uint64_t backward,
                      uint64_t optimizer, uint64_t refresh)
{
    const uint64_t want[PHASE_N] = {forward, backward, optimizer, refresh};
    uint64_t formula[PHASE_N], bytes[PHASE_N];
    struct program prog;
    struct plan p;

    arena_init(&a);
    plans_make(&p, &a, tiny, layout, j, world, gpus_per_node);
    ck_assert_uint_eq(p.model.total_params, 80);
    ck_assert_uint_eq(p.model.matrix_params, 64);
    plans_lower(&p, &a, &prog);
    formula_bytes(&p, formula);
    program_bytes(&prog, ALGO_AUTO, bytes);
    for (int ph = 0; ph < PHASE_N; ph++) {
        MUST(formula[ph] == want[ph] && bytes[ph] == want[ph],
             "%s: %s: formula %llu, program %llu, by hand %llu", layout, phase_name((enum phase)ph),
             (unsigned long long)formula[ph], (unsigned long long)bytes[ph],
             (unsigned long long)want[ph]);
    }
    arena_release(&a);
}

static void expect(const char *layout, const struct job *j, uint32_t world, uint64_t forward,
                   uint64_t backward, uint64_t optimizer, uint64_t refresh)
{
    expect_on(layout, j, world, 8, forward, backward, optimizer, refresh);
}

/* ddp, W = 3, one bucket of 80 elements: all-reduce of ceil(80/3) = 27 elements of 2 bytes, 2*(W-1) = 4 times on 3
 * ranks: 4*3*54 = 648. Buckets of 100 bytes: 40 elements of a layer are 80 < 100, so both layers are one bucket of 80
 * elements, cut into pieces of 50 and 30: 17 + 10 = 27 elements again. Buckets of 60: each layer alone, 30 + 10: (10 +
 * 4) elements twice: 4*3*28*2 = 672. */
START_TEST(ddp_by_hand)
{
    struct job j = plans_job();

    expect("ddp", &j, 3, 0, 648, 0, 0);
    j.grad_accum = 4; /* only the last micro-batch reduces */
    expect("ddp", &j, 3, 0, 648, 0, 0);
    j.bucket_bytes = 100;
    expect("ddp", &j, 3, 0, 648, 0, 0);
    j.bucket_bytes = 60;
    expect("ddp", &j, 3, 0, 672, 0, 0);
}
END_TEST

/* zero1, W = 3: slices of 27 elements. Reduction: each of 80 gradients travels to its slice over 2 edges: 80*2*2 = 320.
 * Refresh: slices padded to 27*3 = 81 elements, each over 2 edges: 324. Cut matrices: order of tensors in a layer is
 * the benchmark's; boundaries at elements 27 and 54; each matrix that one of them cuts goes over one edge. */
START_TEST(zero1_by_hand)
{
    struct job j = plans_job();
    uint64_t at = 0, cut = 0;
    struct model m;

    arena_init(&a);
    ck_assert(plans_model(&m, tiny, &a, &e) == 0);
    for (uint32_t i = 0; i < m.n_tensors; at += m.tensors[i++].numel)
        for (uint64_t b = 27; b < 80; b += 27)
            if (tensor_is_matrix(&m.tensors[i]) && b > at && b < at + m.tensors[i].numel)
                cut += 2 * m.tensors[i].numel;
    arena_release(&a);
    ck_assert_uint_le(cut, 2 * 2 * 8);
    expect("zero1", &j, 3, 0, 320, cut, 324);
    j.optimizer = OPTIMIZER_ADAMW;
    expect("zero1", &j, 3, 0, 320, 0, 324);
}
END_TEST

/* zero1+owner, W = 3: 80 gradients to their owners over 2 edges each, 320; 80 parameters back, 320. */
START_TEST(zero1_owner_by_hand)
{
    struct job j = plans_job();

    expect("zero1-owner", &j, 3, 0, 320, 0, 320);
}
END_TEST

/* zero2, W = 3: what zero1 moves, and the reduction once a micro-batch. With AdamW no matrix has an owner: chunks of rows, 60
 * elements a layer with padding (below), over 2 edges: 2*60*2*2 = 480 each way. */
START_TEST(zero2_by_hand)
{
    struct job j = plans_job();

    j.optimizer = OPTIMIZER_ADAMW;
    expect("zero2", &j, 3, 0, 320, 0, 324);
    expect("zero2-owner", &j, 3, 0, 480, 0, 480);
    j.grad_accum = 3;
    expect("zero1", &j, 3, 0, 320, 0, 324);
    expect("zero2", &j, 3, 0, 960, 0, 324);
    j.optimizer = OPTIMIZER_MUON;
    expect("zero1-owner", &j, 3, 0, 320, 0, 320);
    expect("zero2-owner", &j, 3, 0, 960, 0, 320);
}
END_TEST

/* zero3, W = 3: chunks of a layer: [2,2] has ceil(2/3) = 1 row of 2 elements, down [2,4] 1 row of 4, vectors 1 element:
 * six matrices 2 each, one 4, four vectors 1 each: 20 elements, 60 padded, 120 bytes. An even all-gather of them: 2*3
 * times 20 elements = 240 bytes a unit. Forward: 2 units, 480. Backward: unit 1 is kept, so 1 gather and 2
 * reductions: 720. Optimizer, gather: padded matrices, per layer 6*[3,2] + [3,4] = 48 elements, two layers 96, over 2
 * edges at 2 bytes: 384. Stock, 5 steps: X twice a step, A (ceil(2/3)*3 = 3 rows of 2) once: per layer 10*48 + 5*7*6 =
 * 690 elements, two layers 1380, over 2 edges: 5520. All-to-all: twelve [2,2] are 4 batches of 6 padded elements, two [2,4] one of
 * 12; 36 elements, there and back over 2 edges: 288. */
START_TEST(zero3_by_hand)
{
    struct job j = plans_job();

    expect("zero3+gather", &j, 3, 480, 720, 384, 0);
    expect("zero3+gather-once", &j, 3, 480, 720, 384, 0);
    expect("zero3+stock", &j, 3, 480, 720, 5520, 0);
    expect("zero3+alltoall", &j, 3, 480, 720, 288, 0);
    j.grad_accum = 3; /* everything but the step three times */
    expect("zero3+stock", &j, 3, 1440, 2160, 5520, 0);
    j.optimizer = OPTIMIZER_ADAMW;
    expect("zero3", &j, 3, 1440, 2160, 0, 0);
}
END_TEST

/* Units that stay gathered are not gathered again: of zero3's 720 and owner's 480 in backward 240 and 160 were that. */
START_TEST(one_gather_and_one_reduction_by_hand)
{
    struct job j = plans_job();

    j.reshard_never = true;
    expect("zero3+gather", &j, 3, 480, 480, 384, 0);
    expect("owner", &j, 3, 320, 320, 0, 0);
    j.grad_accum = 3;
    expect("zero3+stock", &j, 3, 1440, 1440, 5520, 0);
    expect("owner", &j, 3, 960, 960, 0, 0);
    j.sync_last = true;
    expect("owner", &j, 3, 960, 320, 0, 0);
}
END_TEST

/* owner, W = 3: 40 elements of a layer to 2 others: 160 bytes a unit. Forward 320; backward 1 gather, 2 reductions, 480;
 * the step moves nothing. */
START_TEST(owner_by_hand)
{
    struct job j = plans_job();

    expect("owner", &j, 3, 320, 480, 0, 0);
}
END_TEST

/* W = 4 in 2 nodes of 2, parameters in halves of a node, states in quarters: chunks of 20 elements a layer in halves
 * (tests/layouts/test_hsdp.c); quarters of [2,2] and of vectors are 1 row of 1 row: as large as the halves, 20. A gather
 * in a node is 20 elements of 2 bytes on every rank: 160; forward two, backward one. Reduction in a node: 160 a unit
 * and micro-batch, to the states 20 elements to one other: 160 a unit once. The same back after the step. Matrices over
 * all four: per layer six of 1 row of 2, one of 1 row of 4, 16 elements; 3 edges and 4 ranks, 2 bytes: 384 a layer. */
START_TEST(mesh_by_hand)
{
    struct job j = plans_job();

    j.mesh = "p=2x1,g=2x1,os=2x2";
    expect_on("mesh", &j, 4, 2, 320, 160 + 320 + 320, 768, 320);
    j.grad_accum = 3;
    expect_on("mesh", &j, 4, 2, 960, 3 * (160 + 320) + 320, 768, 320);
    j.mesh =
        "p=2x1,g=2x2,os=2x2"; /* gradients over all at once: 3 edges of 20 elements on 4 ranks, 480 a unit */
    expect_on("mesh", &j, 4, 2, 960, 3 * (160 + 960), 768, 320);
    j.mesh =
        "p=1x1,g=1x1,os=2x1"; /* whole until the last: halves, 160 a unit, and copies: 2 (2-1) 10 on 4, 160 a unit */
    expect_on("mesh", &j, 4, 2, 0, 320 + 320, 256, 320);
}
END_TEST

/* FSDP2's chunking (c16): 18 rows over 8 ranks are 3,3,3,3,3,3,0,0, and the wire carries 24; 9 rows are two each for
 * four ranks and one, so 16. hidden=18, ffn=18: q, k, v, o, down [18,18], up0, up1 [9,18], four vectors of 18:
 * 5*24*18 + 2*16*18 + 4*24 = 2832 elements. */
START_TEST(uneven_rows_are_padded_on_the_wire)
{
    struct job j = plans_job();
    struct program prog;
    struct plan p;
    bool seen = false;

    arena_init(&a);
    plans_make(&p, &a, "block:layers=1,hidden=18,ffn=18,heads=1", "zero3+gather", &j, 8, 8);
    plans_lower(&p, &a, &prog);
    for (uint32_t i = 0; i < prog.n_ops; i++)
        if (!strcmp(prog.ops[i].name, "gather.forward")) {
            ck_assert_uint_eq(prog.ops[i].coll.unit_elements[0], 2832);
            seen = true;
        }
    ck_assert(seen);
    arena_release(&a);
}
END_TEST

/* c20: of the matrices only those that a slice boundary cuts are gathered, and there are at most W-1 boundaries. */
START_TEST(zero1_gathers_at_most_one_matrix_a_boundary)
{
    struct job j = plans_job();

    for (int m = 0; m < PLANS_N_MODELS; m++)
        for (int w = 1; w < PLANS_N_WORLDS; w++) {
            struct program prog;
            struct plan p;
            uint64_t slice, at = 0, cut = 0, n = 0, bytes[PHASE_N];

            arena_init(&a);
            plans_make(&p, &a, plans_models[m], "zero1", &j, plans_worlds[w], 8);
            plans_lower(&p, &a, &prog);
            slice = (p.model.total_params + p.world - 1) / p.world;
            for (uint32_t i = 0; i < p.model.n_tensors; at += p.model.tensors[i++].numel) {
                uint64_t boundaries = 0;

                for (uint64_t b = slice; b < p.model.total_params; b += slice)
                    boundaries += b > at && b < at + p.model.tensors[i].numel;
                if (!boundaries || !tensor_is_matrix(&p.model.tensors[i]))
                    continue;
                n++;
                cut += 2 * p.model.tensors[i].numel * boundaries;
            }
            ck_assert_uint_le(n, p.world - 1);
            program_bytes(&prog, ALGO_AUTO, bytes);
            ck_assert_uint_eq(bytes[PHASE_OPTIMIZER], cut);
            arena_release(&a);
        }
}
END_TEST

SUITE_MAIN("layouts/bytes", formulas_equal_programs_for_every_layout_optimizer_world_and_model,
           formulas_equal_programs_for_every_bucket_and_dtype,
           formulas_equal_programs_for_nested_factors,
           a_level_that_is_left_out_or_a_factor_that_is_off_is_seen, mesh_by_hand,
           formulas_equal_programs_for_shard_groups, no_algorithm_but_padding_changes_the_total,
           padding_is_in_the_formula, ddp_by_hand, zero1_by_hand, zero1_owner_by_hand,
           zero2_by_hand, zero3_by_hand, one_gather_and_one_reduction_by_hand, owner_by_hand,
           uneven_rows_are_padded_on_the_wire, zero1_gathers_at_most_one_matrix_a_boundary)
