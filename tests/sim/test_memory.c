/* What a rank holds at its fullest instant, by hand (docs/MODEL.md), on a device and links without surprises (tests/layouts/plans.h). */
#include "sim/sim.h"
#include "tests/layouts/plans.h"

static struct arena a;
static struct plan plan;
static struct program prog;
static struct prediction pr;
static struct err e;

static void predict(bool unfold)
{
    const struct sim_options o = {.unfold = unfold};

    MUST(sim_predict(&prog, &plan.cluster, &o, &a, &pr, &e) == 0, "%s", e.msg);
}

static void make(const char *model, const char *layout, const struct job *j, uint32_t world,
                 uint32_t gpn)
{
    arena_init(&a);
    plans_make(&plan, &a, model, layout, j, world, gpn);
    plans_lower(&plan, &a, &prog);
}

/* block:layers=L,hidden=2,ffn=4,heads=1, 4 tokens, everything bf16 (2 bytes). A layer: 32 matrix elements in seven
 * matrices, 8 in four vectors. Values of a layer, bytes: x, norm1, q, k, v, o, x2, norm2, up0, up1, down 16 each;
 * act 32; attention 16, and its softmax sums, fp32, 4 a token and head, 16.
 * Backward needs x norm1 q k v attention x2 norm2 up0 up1 act. */
static void tiny(uint32_t layers, const char *layout, enum recompute r, uint32_t world)
{
    struct job j = plans_job();
    char text[64];

    snprintf(text, sizeof(text), "block:layers=%u,hidden=2,ffn=4,heads=1", layers);
    j.seq_len = 4;
    j.micro_batch = 1;
    j.recompute = r;
    make(text, layout, &j, world, 8);
    plan.cluster.nvlink_Bps = 1e15; /* transfers are over before a kernel is */
    plan.cluster.device.hbm_Bps = 1e12;
    predict(false);
}

/* One layer on one rank, nothing recomputed. Resident: params 2*40, grads 2*40, states 4*32 + 8*8, master 4*40. The
 * peak is at down's dgrad: kept values 16*8 (norm1 q k v x2 norm2 up0 up1) + act 32 + attention 16 + softmax sums (4
 * bytes a token and head: 16) + x 16 = 208; the gradients of x2 16, down 16 and act 32: 272. */
START_TEST(memory_of_ddp_by_hand)
{
    tiny(1, "ddp", RECOMPUTE_NONE, 1);
    ck_assert_str_eq(prog.ops[pr.memory.at.op].name, "backward.layer.down.dgrad");
    ck_assert_uint_eq(pr.memory.parts[MEM_PARAMS], 80);
    ck_assert_uint_eq(pr.memory.parts[MEM_GRADS], 80);
    ck_assert_uint_eq(pr.memory.parts[MEM_STATES], 4 * 32 + 8 * 8);
    ck_assert_uint_eq(pr.memory.parts[MEM_MASTER], 160);
    ck_assert_uint_eq(pr.memory.parts[MEM_ACTIVATIONS], 272);
    ck_assert_uint_eq(pr.memory.parts[MEM_GATHERED], 0);
    ck_assert_uint_eq(pr.memory.parts[MEM_WORKSPACE], 0);
    ck_assert_uint_eq(pr.memory.peak_bytes, 80 + 80 + 192 + 160 + 272);
    ck_assert_uint_eq(pr.memory.min_peak_bytes, pr.memory.peak_bytes);
    arena_release(&a);
}
END_TEST

/* Two layers: unit 0 keeps its 192 + 16 while unit 1 is at the peak: 480. With full recomputation only its input, 16:
 * 288. The last layer's peak is the highest: unit 1's input and gradient are gone when unit 0 is there. */
START_TEST(memory_of_recomputation_by_hand)
{
    tiny(2, "ddp", RECOMPUTE_NONE, 1);
    ck_assert_uint_eq(pr.memory.parts[MEM_ACTIVATIONS], 480);
    arena_release(&a);
    tiny(2, "ddp", RECOMPUTE_FULL, 1);
    ck_assert_uint_eq(pr.memory.parts[MEM_ACTIVATIONS], 288);
    ck_assert_uint_eq(pr.memory.peak_bytes, 160 + 160 + 384 + 320 + 288);
    arena_release(&a);
}
END_TEST

/* zero3+owner, two layers on two ranks, full recomputation. At unit 0's down.wgrad: unit 0 gathered, 80; unit 1's
 * gradients on their way to the owners, 80, what of them is the rank's own, and down's of unit 0, the first of its unit,
 * 16; activations 272, as unit 1's input is gone. Resident is what a rank owns: 2 bytes of parameter, 4 of master and 4
 * (matrix) or 8 (vector) of state. (At unit 1's, both units are gathered, 160, and only 16 bytes of gradients there.) */
START_TEST(memory_of_owners_by_hand)
{
    uint64_t owned[2] = {0}, of_unit_1[2] = {0}, states[2] = {0}, most;

    tiny(2, "owner", RECOMPUTE_FULL, 2);
    for (uint32_t i = 0; i < plan.model.n_tensors; i++) {
        const struct tensor *t = &plan.model.tensors[i];

        owned[plan.place[i].owner] += t->numel;
        of_unit_1[plan.place[i].owner] += t->unit == 1 ? t->numel : 0;
        states[plan.place[i].owner] += t->numel * (tensor_is_matrix(t) ? 4 : 8);
    }
    ck_assert_uint_eq(owned[0] + owned[1], 80);
    most = 6 * owned[0] + states[0] > 6 * owned[1] + states[1] ? 0 : 1;
    ck_assert_uint_eq(pr.memory.rank, most);
    ck_assert_str_eq(prog.ops[pr.memory.at.op].name, "backward.layer.down.wgrad");
    ck_assert_uint_eq(pr.memory.at.unit, 0);
    ck_assert_uint_eq(pr.memory.parts[MEM_PARAMS], 2 * owned[most]);
    ck_assert_uint_eq(pr.memory.parts[MEM_MASTER], 4 * owned[most]);
    ck_assert_uint_eq(pr.memory.parts[MEM_STATES], states[most]);
    ck_assert_uint_eq(pr.memory.parts[MEM_GATHERED], 80);
    ck_assert_uint_eq(pr.memory.parts[MEM_GRADS], 80 + 2 * of_unit_1[most] + 16);
    ck_assert_uint_eq(pr.memory.parts[MEM_ACTIVATIONS], 272);
    arena_release(&a);
}
END_TEST

/* zero2, the same: slices of 40 elements are the layers. Rank 1, whose layer is reduced first, is the fullest, at unit 0's
 * down.wgrad: parameters of both, 160; unit 1's gradients on their way, 80, what arrived of them, 80, down's of unit 0, 16; 4
 * bytes of state a matrix element, 8 a vector's. zero1 has all gradients, 160, and rank 0 holds as much. The last of two micro-batches
 * begins with the slice's gradients there: rank 0 has 80 + 80 + 16 then, too. */
START_TEST(memory_of_zero2_by_hand)
{
    for (uint64_t accum = 1; accum <= 2; accum++) {
        struct job j = plans_job();

        j.seq_len = 4;
        j.micro_batch = 1;
        j.grad_accum = accum;
        make("block:layers=2,hidden=2,ffn=4,heads=1", "zero2", &j, 2, 8);
        plan.cluster.nvlink_Bps = 1e15;
        predict(false);
        ck_assert_uint_eq(pr.memory.rank, accum == 1);
        ck_assert_str_eq(prog.ops[pr.memory.at.op].name, "backward.layer.down.wgrad");
        ck_assert_uint_eq(pr.memory.at.unit, 0);
        ck_assert_uint_eq(pr.memory.parts[MEM_PARAMS], 160);
        ck_assert_uint_eq(pr.memory.parts[MEM_MASTER], 160);
        ck_assert_uint_eq(pr.memory.parts[MEM_STATES], 4 * 32 + 8 * 8);
        ck_assert_uint_eq(pr.memory.parts[MEM_GATHERED], 0);
        ck_assert_uint_eq(pr.memory.parts[MEM_GRADS], 80 + 80 + 16);
        ck_assert_uint_eq(pr.memory.parts[MEM_ACTIVATIONS], 272);
        ck_assert_uint_eq(pr.memory.peak_bytes, 160 + 160 + 192 + 176 + 272);
        arena_release(&a);
    }
}
END_TEST

/* zero3+gather, six layers on two ranks, half of each a rank: 2 + 4 bytes of 120 elements, and 4 (matrix) or 8 (vector) of
 * state. With units that stay gathered the peak is at unit 4's down.wgrad: units 0 to 4, 400; unit 5's gradients on their way,
 * 80, half of them arrived, 40, down's of unit 4, 16; activations 272, and the inputs of units 0 to 3, 64. At unit 5's there
 * are 80 + 16 more, but no 80 + 40. With units that are gathered again, this one and the next, 160, what arrived decides: unit
 * 1's, 40 of four units, the input of one. */
START_TEST(memory_of_units_that_stay_gathered_by_hand)
{
    for (int never = 0; never < 2; never++) {
        struct job j = plans_job();

        j.seq_len = 4;
        j.micro_batch = 1;
        j.reshard_never = never;
        make("block:layers=6,hidden=2,ffn=4,heads=1", "zero3+gather", &j, 2, 8);
        plan.cluster.nvlink_Bps = 1e15;
        predict(false);
        ck_assert_str_eq(prog.ops[pr.memory.at.op].name, "backward.layer.down.wgrad");
        ck_assert_uint_eq(pr.memory.at.unit, never ? 4 : 1);
        ck_assert_uint_eq(pr.memory.parts[MEM_PARAMS], 240);
        ck_assert_uint_eq(pr.memory.parts[MEM_MASTER], 480);
        ck_assert_uint_eq(pr.memory.parts[MEM_STATES], 6 * (16 * 4 + 4 * 8));
        ck_assert_uint_eq(pr.memory.parts[MEM_GATHERED], never ? 400 : 160);
        ck_assert_uint_eq(pr.memory.parts[MEM_GRADS], 80 + 16 + (never ? 40 : 160));
        ck_assert_uint_eq(pr.memory.parts[MEM_ACTIVATIONS], 272 + (never ? 64 : 16));
        arena_release(&a);
    }
}
END_TEST

/* One token, so that the optimizer holds most. Workspace of down [64,256] in bf16: 2*64*64 + 64*256 elements, 49,152 bytes;
 * gather-once keeps every matrix in bf16 beside it: 2 bytes an element. Gradients are a rank's half. */
START_TEST(memory_of_the_optimizer_by_hand)
{
    static const char text[] = "block:layers=2,hidden=64,ffn=256,heads=4";
    struct job j = plans_job();

    j.seq_len = j.micro_batch = 1;
    make(text, "ddp", &j, 1, 8);
    predict(false);
    ck_assert_uint_eq(pr.memory.parts[MEM_WORKSPACE], 49152);
    ck_assert_uint_eq(pr.memory.parts[MEM_ACTIVATIONS], 0);
    ck_assert_uint_eq(pr.memory.peak_bytes, 8 * plan.model.total_params +
                                                4 * plan.model.matrix_params +
                                                8 * plan.model.tail_params + 49152);
    arena_release(&a);
    make("block:layers=8,hidden=64,ffn=256,heads=4", "zero3+gather-once", &j, 2, 8);
    predict(false);
    ck_assert_uint_eq(pr.memory.parts[MEM_WORKSPACE], 2 * plan.model.matrix_params + 49152);
    ck_assert_uint_eq(pr.memory.parts[MEM_GRADS], plan.model.total_params);
    ck_assert_uint_eq(pr.memory.parts[MEM_GATHERED], 0);
    arena_release(&a);
    /* A rank's half of every matrix, and workspaces of the batch that is worked, down, the one that comes, [64,64], and the one
     * that goes back, up: 49,152, 2 (3*64*64) and 2 (128*64 + 2*64*64) */
    make("block:layers=8,hidden=64,ffn=256,heads=4", "zero3+alltoall", &j, 2, 8);
    predict(false);
    ck_assert_uint_eq(pr.memory.parts[MEM_WORKSPACE],
                      plan.model.matrix_params + 49152 + 24576 + 32768);
    ck_assert_uint_eq(pr.memory.parts[MEM_GRADS], plan.model.total_params);
    arena_release(&a);
}
END_TEST

/* A padded gather on 8 ranks: down [64,256] is the largest share, 32,768 bytes, so 262,144 land beside the unit. */
START_TEST(memory_of_a_padded_gather_by_hand)
{
    struct job j = plans_job();

    j.seq_len = j.micro_batch = 1;
    j.gather = ALGO_PADDED;
    make("block:layers=1,hidden=64,ffn=256,heads=4", "owner", &j, 8, 8);
    predict(false);
    ck_assert_uint_eq(pr.memory.parts[MEM_BUFFERS], 262144);
    ck_assert_uint_eq(pr.memory.parts[MEM_GATHERED], 2 * plan.model.total_params);
    ck_assert_uint_eq(pr.memory.parts[MEM_GRADS], 0);
    arena_release(&a);
}
END_TEST

/* 4 tokens, 1000 words: the fp32 loss buffer, 16,000 bytes, meets the logits, 8000, then their gradient, 8000. In eager
 * PyTorch log-softmax, its gradient and that of the fp32 logits meet, 16,000 each. */
START_TEST(memory_of_logits_by_hand)
{
    static const struct {
        enum framework f;
        uint64_t bytes;
    } rows[] = {{FRAMEWORK_FSDP2_COMPILED, 24000},
                {FRAMEWORK_MEGATRON, 24000},
                {FRAMEWORK_FSDP2, 48000},
                {FRAMEWORK_DEEPSPEED, 48000}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job j = plans_job();

        j.seq_len = 4;
        j.micro_batch = 1;
        j.framework = rows[i].f;
        make("block:layers=1,hidden=2,ffn=4,heads=1,mlp=swiglu,vocab=1000", "ddp", &j, 1, 8);
        predict(false);
        ck_assert_uint_eq(pr.memory.parts[MEM_LOGITS], rows[i].bytes);
        arena_release(&a);
    }
}
END_TEST

START_TEST(context_and_fragmentation_come_on_top)
{
    tiny(1, "ddp", RECOMPUTE_NONE, 1);
    plan.cluster.device.context_bytes = 1000;
    plan.cluster.device.fragmentation = 0.5;
    predict(false);
    ck_assert_uint_eq(pr.memory.parts[MEM_CONTEXT], 1000);
    ck_assert_uint_eq(pr.memory.driver_bytes, 1000 + 784 * 3 / 2);
    ck_assert_uint_eq(pr.memory.peak_bytes, 784);
    arena_release(&a);
}
END_TEST

SUITE_MAIN("sim/memory", memory_of_ddp_by_hand, memory_of_recomputation_by_hand,
           memory_of_owners_by_hand, memory_of_zero2_by_hand,
           memory_of_units_that_stay_gathered_by_hand, memory_of_the_optimizer_by_hand,
           memory_of_a_padded_gather_by_hand, memory_of_logits_by_hand,
           context_and_fragmentation_come_on_top)
