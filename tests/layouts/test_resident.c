/* Bytes that a rank holds, against formulas that frameworks and users published (each with its source): which bytes a
 * parameter has is said by a precision's name, what of them is cut by the layout. */
#include "model/plan/precision.h"
#include "layouts/step.h"
#include "tests/layouts/plans.h"

#include <math.h>

static struct arena a;
static struct plan plan;
static struct program prog;

static struct job job_of(const char *precision, enum optimizer o)
{
    struct job j = plans_job();
    int i = 0;

    while (strcmp(precisions[i].name, precision))
        i++;
    ck_assert_str_eq(precision_names[i], precision);
    j.optimizer = o;
    j.param_dtype = precisions[i].param_dtype;
    j.grad_dtype = precisions[i].grad_dtype;
    j.state_dtype = precisions[i].state_dtype;
    j.master_weights = precisions[i].master_weights;
    j.micro_batch = 1;
    return j;
}

static void lower(const char *model, const char *layout, const struct job *j, uint32_t world)
{
    arena_init(&a);
    plans_make(&plan, &a, model, layout, j, world, world < 8 ? world : 8);
    plans_lower(&plan, &a, &prog);
}

/* What rank 1 (0 where it is alone) holds of a part at the optimizer's step: resident, and reduced gradients. */
static double part(enum mem_part p)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < prog.n_buffers; i++)
        if (prog.buffers[i].span == SPAN_RESIDENT && prog.buffers[i].part == p)
            sum += rank_table_get(&prog.buffers[i].ranks, prog.world > 1);
    if (p == MEM_GRADS && prog.known.grad_shard != PROGRAM_NONE)
        for (uint32_t u = 0; u < prog.model->n_units; u++)
            sum += prog.buffers[prog.known.grad_shard].unit_bytes[u];
    if (p == MEM_GRADS && prog.known.grad_owned != PROGRAM_NONE)
        for (uint32_t u = 0; u < prog.model->n_units; u++)
            sum += dtype_bytes(prog.buffers[prog.known.grad_owned].dtype,
                               segment_table_rooted(
                                   &prog.segment_tables[prog.buffers[prog.known.grad_owned].table],
                                   u, prog.world > 1));
    return (double)sum;
}

static double held(const char *model, const char *layout, const char *precision, uint32_t world)
{
    struct job j = job_of(precision, OPTIMIZER_ADAMW);
    double sum;

    lower(model, layout, &j, world);
    sum = part(MEM_PARAMS) + part(MEM_GRADS) + part(MEM_STATES) + part(MEM_MASTER);
    arena_release(&a);
    return sum;
}

static void near(double got, double want, double tolerance)
{
    ck_assert_msg(fabs(got / want - 1) <= tolerance, "%.6g bytes, expected %.6g", got, want);
}

static const double llama = 8030261248.0; /* parameters of llama-3.1-8b */

/* Megatron-LM docs, dist_optimizer: 6 + 12/d bytes a parameter; 64 ranks of Llama-3.1-8B 46.27 GiB. */
START_TEST(megatron_is_6_and_12_over_d)
{
    double got = held("llama-3.1-8b", "zero1", "megatron", 64);

    near(got, (6 + 12.0 / 64) * llama, 1e-7);
    ck_assert_int_eq((int)(100 * got / 0x1p30 + 0.5), 4627);
}
END_TEST

/* ZeRO, arXiv 1910.02054, section 3: 16 bytes a parameter; with states cut 4 + 12/N, all cut 16/N. DeepSpeed's estimator
 * (docs, memory.rst) counts 18/N, with fp32 gradients. */
START_TEST(deepspeed_is_as_its_formulas)
{
    near(held("llama-3.1-8b", "ddp", "deepspeed-fp16", 8), 16 * llama, 0);
    near(held("llama-3.1-8b", "zero1", "deepspeed-fp16", 8), (4 + 12.0 / 8) * llama, 1e-7);
    near(held("llama-3.1-8b", "zero3", "deepspeed-fp16", 8), 16 * llama / 8, 0);
    near(held("llama-3.1-8b", "zero3", "deepspeed-bf16", 8), 18 * llama / 8, 0);
}
END_TEST

/* ZeRO, figure 1: 7.5 G parameters on 64 GPUs, 120, 31.4, 16.6 and 1.9 GB by stage: 2 + 2 + 12 bytes a parameter, of which
 * the stages cut the last, the last two, all. */
START_TEST(stages_are_as_in_the_paper)
{
    static const char *const stages[] = {"ddp", "zero1", "zero2", "zero3"};
    static const double want[] = {120, 31.4, 16.6, 1.9};

    for (int i = 0; i < 4; i++) {
        double got = held("llama-3.1-8b", stages[i], "deepspeed-fp16", 64) / llama * 7.5;

        ck_assert_msg(fabs(got - want[i]) < 0.05, "%s: %g GB", stages[i], got);
    }
    near(held("llama-3.1-8b", "zero2", "deepspeed-fp16", 8), (2 + 14.0 / 8) * llama, 1e-7);
}
END_TEST

/* memory.rst: 2851 M parameters, largest layer 32 M, 8 GPUs. ZeRO-3: 18P/W + 4 of the largest, gathered with its gradient,
 * 6.093 GiB ('GB' there). ZeRO-2, older: 4P + 16P/W, 15.931 GiB: zero2's, an fp32 copy of the slice's gradients in place of
 * theirs, and all gradients whole for a moment (one bucket, where it is as large as the model). */
START_TEST(deepspeeds_own_example)
{
    double p = 2851e6, three = held("llama-3.1-8b", "zero3", "deepspeed-bf16", 8) / llama,
           two = held("llama-3.1-8b", "zero2", "deepspeed-fp16", 8) / llama;
    struct job j = job_of("deepspeed-fp16", OPTIMIZER_ADAMW);
    double largest;

    lower("llama-3.1-8b", "zero3", &j, 8);
    largest = (double)(prog.buffers[prog.known.weights].unit_bytes[1] +
                       prog.buffers[prog.known.grads].unit_bytes[1]) /
              (double)prog.model->units[1].numel;
    arena_release(&a);
    ck_assert_int_eq((int)(1000 * (p * three + 32e6 * largest) / 0x1p30 + 0.5), 6093);
    ck_assert_int_eq((int)(1000 * (p * (two - 2.0 / 8 + 4.0 / 8 + 2)) / 0x1p30 + 0.5), 15931);
}
END_TEST

/* hiyouga/LlamaFactory 6999: a 32B model of 32.76 G parameters (Qwen2.5's; Qwen3's has 0.005 % fewer) on 7 and 8 GPUs of
 * 80 GB: 69.7 and 61.0 GiB before the first activation. 7 pads rows. */
START_TEST(seven_ranks_hold_a_seventh)
{
    near(held("qwen3-32b", "zero3", "deepspeed-fp16", 7) / 0x1p30, 69.74, 1e-3);
    near(held("qwen3-32b", "zero3", "deepspeed-fp16", 8) / 0x1p30, 61.02, 1e-3);
}
END_TEST

/* AI-Hypercomputer/maxtext 606: Llama-2-7B in fp32, weights and moments 12 bytes a parameter, 80.9 GB; gradients 4 more. */
START_TEST(fsdp2_in_fp32_and_bf16)
{
    struct job j = job_of("fsdp2-fp32", OPTIMIZER_ADAMW);

    lower("llama-2-7b", "ddp", &j, 1);
    near(part(MEM_PARAMS) + part(MEM_STATES), 12 * 6738415616.0, 0);
    near(part(MEM_GRADS), 4 * 6738415616.0, 0);
    ck_assert(part(MEM_MASTER) == 0);
    arena_release(&a);
    near(held("llama-3.1-8b", "zero3", "fsdp2-fp32", 8), 16 * llama / 8, 0);
    near(held("llama-3.1-8b", "zero3", "fsdp2-bf16", 8), 8 * llama / 8, 0);
}
END_TEST

/* MatrixFSDP, arXiv 2607.05895: bf16 parameters, gradients and states, no master: 6 bytes of a matrix element, and 8 of the
 * tail's under AdamW. */
START_TEST(muon_in_bf16_is_6_bytes)
{
    struct job j = job_of("muon-bf16", OPTIMIZER_MUON);

    lower("block:layers=2,hidden=64,ffn=256,heads=4", "zero3", &j, 8);
    near(part(MEM_PARAMS) + part(MEM_GRADS) + part(MEM_STATES) + part(MEM_MASTER),
         (double)(6 * plan.model.matrix_params + 8 * plan.model.tail_params) / 8, 0);
    arena_release(&a);
}
END_TEST

/* DeepSpeed's Muon blog: Qwen2.5-3B's 2,774,532,096 elements of hidden matrices (these dimensions) on 8 GPUs: one fp32
 * state fewer than AdamW, 1.29 GiB a rank. */
START_TEST(muon_saves_one_state_of_the_matrices)
{
    static const char model[] =
        "block:layers=36,hidden=2048,ffn=11008,heads=16,kv-heads=2,mlp=swiglu";
    double states[2];

    for (int i = 0; i < 2; i++) {
        struct job j = job_of("deepspeed-bf16", i ? OPTIMIZER_ADAMW : OPTIMIZER_MUON);

        lower(model, "zero3", &j, 8);
        ck_assert_uint_eq(plan.model.matrix_params, 2774532096);
        states[i] = part(MEM_STATES);
        arena_release(&a);
    }
    near(states[1] - states[0], 4 * 2774532096.0 / 8, 0);
    ck_assert_int_eq((int)(100 * (states[1] - states[0]) / 0x1p30 + 0.5), 129);
}
END_TEST

/* google-deepmind/optax 1650: (2 min^2 + m n) elements; 2048 x 6144 in bf16 41.9 MB. */
static uint64_t most_workspace(const char *model, enum optimizer o)
{
    struct job j = job_of("muon-bf16", o);
    uint64_t most = 0;

    lower(model, "ddp", &j, 1);
    for (uint32_t i = 0; i < prog.n_buffers; i++)
        for (uint32_t k = 0; prog.buffers[i].item_bytes && k < prog.work_tables[0].n_items; k++)
            most = num_max(most, prog.buffers[i].item_bytes[k]);
    arena_release(&a);
    return most;
}

START_TEST(newton_schulz_workspace_of_one_matrix)
{
    ck_assert_uint_eq(
        most_workspace("block:layers=1,hidden=2048,ffn=6144,heads=16", OPTIMIZER_MUON),
        2 * (2 * 2048 * 2048 + 2048 * 6144));
}
END_TEST

/* fp32: an update and scratch of its shape, two matrices of the largest preconditioner. Llama-3.1-70B's 8192 x 28672: SOAP keeps
 * none of the longer side, Shampoo cuts it into blocks of 8192: 1.75 + 0.5 GiB, and not the 7.875 of sides of 28672. */
START_TEST(a_preconditioner_that_is_not_kept_has_no_workspace)
{
    static const char large[] = "block:layers=1,hidden=8192,ffn=28672,heads=64,mlp=swiglu";

    ck_assert_uint_eq(most_workspace(large, OPTIMIZER_SOAP), UINT64_C(9) << 28);
    ck_assert_uint_eq(most_workspace(large, OPTIMIZER_SHAMPOO), UINT64_C(9) << 28);
    /* sides of 2048 and 6144: both are kept whole */
    ck_assert_uint_eq(
        most_workspace("block:layers=1,hidden=2048,ffn=6144,heads=16", OPTIMIZER_SOAP),
        4 * (2 * 2048 * 6144 + 2 * 6144 * 6144));
    /* both sides beyond 10,000: SOAP is Adam */
    ck_assert_uint_eq(
        most_workspace("block:layers=1,hidden=12288,ffn=16384,heads=96", OPTIMIZER_SOAP),
        UINT64_C(4) * 2 * 12288 * 16384);
}
END_TEST

/* FSDP2 gives the first ranks ceil(rows/G) rows each: 64 rows over 7 ranks are 10 each and 4 for the last; over 100 ranks one
 * each for 64 ranks, and none for 36. */
START_TEST(rows_that_do_not_divide_leave_the_last_ranks_less)
{
    struct job j = job_of("muon-bf16", OPTIMIZER_ADAMW);
    struct layout_held held;

    lower("block:layers=1,hidden=64,ffn=64,heads=4,mlp=swiglu", "zero3", &j, 100);
    held = layout_held(&plan);
    /* 7 matrices of 64 x 64 and 2 norms of 64, a row each on 64 ranks */
    ck_assert_uint_eq(held.most, 7 * 64 + 2);
    ck_assert_uint_eq(held.least, 0);
    ck_assert_uint_eq(held.empty, 36);
    ck_assert_uint_eq(held.fullest, 0);
    arena_release(&a);
    lower("block:layers=1,hidden=64,ffn=64,heads=4,mlp=swiglu", "zero3", &j, 7);
    held = layout_held(&plan);
    ck_assert_uint_eq(held.most, 10 * (7 * 64 + 2));
    ck_assert_uint_eq(held.least, 4 * (7 * 64 + 2));
    ck_assert_uint_eq(held.emptiest, 6);
    ck_assert_uint_eq(held.empty, 0);
    near(held.mean, (7 * 4096 + 2 * 64) / 7.0, 1e-9);
    arena_release(&a);
    /* equal slices of ceil(N/7) elements: the last has what is left */
    lower("block:layers=1,hidden=64,ffn=64,heads=4,mlp=swiglu", "zero1", &j, 7);
    held = layout_held(&plan);
    ck_assert_uint_eq(held.most, (7 * 4096 + 2 * 64 + 6) / 7);
    ck_assert_uint_eq(held.least, 7 * 4096 + 2 * 64 - 6 * held.most);
    arena_release(&a);
    lower("block:layers=1,hidden=64,ffn=64,heads=4,mlp=swiglu", "ddp", &j, 7);
    held = layout_held(&plan);
    ck_assert_uint_eq(held.most + held.empty, 0);
    arena_release(&a);
}
END_TEST

/* karpathy/nanochat 443: 32 x 2048 tokens, 65536 words: the allocation that failed was one buffer of bf16 logits, 8.00 GiB;
 * half the batch fitted. */
START_TEST(logits_of_a_batch_are_one_buffer)
{
    struct job j = job_of("muon-bf16", OPTIMIZER_MUON);

    j.seq_len = 2048;
    for (j.micro_batch = 32; j.micro_batch >= 16; j.micro_batch /= 2) {
        bool seen = false;

        lower("block:layers=1,hidden=1280,ffn=5120,heads=10,vocab=65536", "ddp", &j, 1);
        for (uint32_t i = 0; i < prog.n_buffers; i++)
            seen |= prog.buffers[i].part == MEM_LOGITS &&
                    prog.buffers[i].bytes == (j.micro_batch << 28);
        ck_assert(seen);
        arena_release(&a);
    }
}
END_TEST

SUITE_MAIN("layouts/resident", megatron_is_6_and_12_over_d, deepspeed_is_as_its_formulas,
           stages_are_as_in_the_paper, deepspeeds_own_example, seven_ranks_hold_a_seventh,
           fsdp2_in_fp32_and_bf16, muon_in_bf16_is_6_bytes, muon_saves_one_state_of_the_matrices,
           newton_schulz_workspace_of_one_matrix,
           a_preconditioner_that_is_not_kept_has_no_workspace,
           rows_that_do_not_divide_leave_the_last_ranks_less, logits_of_a_batch_are_one_buffer)
