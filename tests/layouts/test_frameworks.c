/* What the framework of a job adds to its program: what selective recomputation makes again, copies around collectives, and
 * AdamW's kernels. By hand. */
#include "layouts/step.h"
#include "model/plan/optimizers.h"
#include "tests/layouts/plans.h"

static struct arena a;
static struct plan plan;
static struct program prog;

static void lower(const char *model, const char *layout, const struct job *j, uint32_t world)
{
    arena_init(&a);
    plans_make(&plan, &a, model, layout, j, world, 8);
    plans_lower(&plan, &a, &prog);
}

/* Operations of the layers' class whose names begin so and that run kernel k (KERNEL_N: any). */
static uint32_t count(const char *prefix, enum kernel k)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < prog.n_ops; i++)
        n += prog.ops[i].kind == OP_COMPUTE && !strncmp(prog.ops[i].name, prefix, strlen(prefix)) &&
             (k == KERNEL_N || prog.ops[i].call.kernel == k);
    return n;
}

static bool has(const char *name)
{
    return count(name, KERNEL_N) > 0;
}

/* A Llama layer's products in order: q, k, v, o, gate, up, down. torchtitan's policy saves the first, third, fifth and seventh,
 * and attention: k, o and up are made again, with the norms in front of k and up. */
START_TEST(torchtitans_policy_saves_every_other_product)
{
    struct job j = plans_job();

    j.recompute = RECOMPUTE_SELECTIVE;
    lower("llama", "zero3+gather", &j, 4);
    ck_assert_uint_eq(count("recompute.", KERNEL_GEMM), 3);
    ck_assert(has("recompute.layer.k") && has("recompute.layer.o") && has("recompute.layer.up"));
    ck_assert_uint_eq(count("recompute.", KERNEL_ATTENTION), 0);
    ck_assert_uint_gt(count("recompute.", KERNEL_RMSNORM), 0);
    arena_release(&a);
}
END_TEST

/* Megatron-LM's makes attention again and keeps the rest. */
START_TEST(megatrons_policy_repeats_attention)
{
    struct job j = plans_job();

    j.recompute = RECOMPUTE_SELECTIVE;
    j.framework = FRAMEWORK_MEGATRON;
    lower("llama", "zero1", &j, 4);
    ck_assert_uint_eq(count("recompute.", KERNEL_ATTENTION), 1);
    ck_assert_uint_eq(count("recompute.", KERNEL_N), 1);
    arena_release(&a);
}
END_TEST

/* A layer of "block" has 4 * 48^2 + 2 * 48 * 160 weights in matrices and 4 * 48 in norms: 24,768. FSDP2 reads and writes them in forward,
 * in backward, and as gradients; a layout that cuts nothing, and a framework that gathers in place, copies nothing. */
START_TEST(fsdp2_copies_what_it_gathers_and_reduces)
{
    struct job j = plans_job();
    uint64_t unit = 4 * 48 * 48 + 2 * 48 * 160 + 4 * 48;

    lower("block", "owner", &j, 2); /* no padding: owners have whole tensors */
    ck_assert_uint_eq(count("", KERNEL_COPY), 3);
    for (uint32_t i = 0; i < prog.n_ops; i++)
        if (prog.ops[i].call.kernel == KERNEL_COPY)
            ck_assert_uint_eq(prog.ops[i].call.hbm_bytes, 2 * 2 * unit);
    arena_release(&a);
    lower("block", "ddp", &j, 2);
    ck_assert_uint_eq(count("", KERNEL_COPY), 0);
    arena_release(&a);
    j.framework = FRAMEWORK_DEEPSPEED;
    lower("block", "owner", &j, 2);
    ck_assert_uint_eq(count("", KERNEL_COPY), 0);
    arena_release(&a);
}
END_TEST

static uint32_t op_named(const char *name)
{
    for (uint32_t i = 0; i < prog.n_ops; i++)
        if (!strcmp(prog.ops[i].name, name))
            return i;
    return PROGRAM_NONE;
}

/* What frameworks make of a refresh: FSDP2's broadcasts go along rings unless the job says how, a segment a tensor; what has no owner is
 * one call. Megatron's is one call, and neighbours of one owner are one segment. */
START_TEST(broadcasts_are_operations_where_a_framework_has_them)
{
    for (int f = 0; f < FRAMEWORK_N; f++) {
        bool broadcasts = f == FRAMEWORK_FSDP2 || f == FRAMEWORK_FSDP2_COMPILED;
        enum coll_calls calls = broadcasts ? CALLS_BROADCASTS : CALLS_USUAL;
        struct job j = plans_job();
        const struct collective *c;

        j.framework = (enum framework)f;
        j.gather_as_framework = broadcasts;
        lower("llama", "zero1", &j, 4);
        ck_assert_int_eq(prog.ops[op_named("refresh")].coll.calls, calls);
        arena_release(&a);
        lower("llama", "zero1+owner", &j,
              2); /* 7 matrices and 2 norms a layer, 2 owners: some merge */
        c = &prog.ops[op_named("refresh")].coll;
        ck_assert_int_eq(c->calls, calls);
        ck_assert_int_eq(c->algo, broadcasts ? ALGO_RING : ALGO_AUTO);
        ck_assert_int_eq(prog.ops[op_named("refresh.tail")].coll.calls, CALLS_USUAL);
        for (uint32_t u = 1; u < 5; u++) {
            const struct segment_table *t = &prog.segment_tables[c->table];

            ck_assert(broadcasts ? t->start[u + 1] - t->start[u] == 9
                                 : t->start[u + 1] - t->start[u] < 9);
        }
        arena_release(&a);
        j.gather_as_framework = false;
        lower("llama", "zero1+owner", &j, 2);
        c = &prog.ops[op_named("refresh")].coll;
        ck_assert_int_eq(c->calls, calls);
        ck_assert_int_eq(c->algo, ALGO_AUTO);
        arena_release(&a);
    }
}
END_TEST

/* DeepSpeed moves units in lists of pieces and waits for every call; between replicas go shards, which are one piece. */
START_TEST(pieces_and_waiting_are_deepspeeds)
{
    for (int f = 0; f < FRAMEWORK_N; f++) {
        enum coll_calls calls = f == FRAMEWORK_DEEPSPEED ? CALLS_PIECES : CALLS_USUAL;
        static const char *const moves[] = {"gather.forward", "gather.backward", "reduce"};
        struct job j = plans_job();

        j.framework = (enum framework)f;
        j.optimizer = OPTIMIZER_ADAMW;
        j.shard_group = 4;
        lower("llama", "mics", &j, 8);
        ck_assert_int_eq(prog.in_order, f == FRAMEWORK_DEEPSPEED);
        for (int k = 0; k < 3; k++)
            ck_assert_int_eq(prog.ops[op_named(moves[k])].coll.calls, calls);
        ck_assert_int_eq(prog.ops[op_named("replicate")].coll.calls, CALLS_USUAL);
        arena_release(&a);
    }
}
END_TEST

/* The refresh of the step before comes first; forward waits for its unit's, the optimizer's end for nothing more. */
START_TEST(an_overlapped_refresh_is_waited_for_unit_by_unit)
{
    static const char *const layouts[] = {"zero1", "zero1-owner"};

    for (int l = 0; l < 2; l++) {
        struct job j = plans_job();
        uint32_t refresh, begin, found = 0;

        j.overlap_refresh = true;
        lower("llama", layouts[l], &j, 4);
        refresh = op_named("refresh");
        begin = op_named("forward.begin");
        ck_assert_uint_lt(refresh, begin);
        ck_assert_uint_eq(prog.ops[refresh].n_waits, 0);
        for (uint32_t w = 0; w < prog.ops[begin].n_waits; w++)
            found += prog.ops[begin].waits[w].op == refresh && prog.ops[begin].waits[w].d_unit == 0;
        ck_assert_uint_eq(found, 1);
        for (uint32_t i = op_named("optimizer.end"); i < prog.n_ops; i++)
            ck_assert(prog.ops[i].phase != PHASE_REFRESH);
        arena_release(&a);
    }
}
END_TEST

static bool waits_for(uint32_t op, uint32_t on, int32_t d_unit)
{
    for (uint32_t w = 0; w < prog.ops[op].n_waits; w++)
        if (prog.ops[op].waits[w].op == on && prog.ops[op].waits[w].d_unit == d_unit)
            return true;
    return false;
}

/* Whole gradients leave when backward is done with all units, cut ones before the next unit's backward; where nobody says, as the framework
 * has it. */
START_TEST(reductions_wait_for_backward_or_backward_for_them)
{
    static const char *const layouts[] = {"ddp",   "zero1", "zero1-owner", "zero2",
                                          "zero3", "owner", "hsdp",        "mics"};

    for (int l = 0; l < 8; l++)
        for (int f = 0; f < FRAMEWORK_N; f++)
            for (int asked = 0; asked < OVERLAP_N; asked++) {
                struct job j = plans_job();
                bool after = asked == OVERLAP_NO ||
                             (asked == OVERLAP_AUTO && f == FRAMEWORK_MEGATRON_DEEPSPEED);
                uint32_t done, end;

                j.framework = (enum framework)f;
                j.overlap_reduce = (enum overlap)asked;
                j.shard_group = l < 6 ? 0 : 2;
                lower("llama", layouts[l], &j, 4);
                done = op_named("backward.done");
                end = op_named("reduce.end");
                ck_assert(l < 3 ? end == PROGRAM_NONE : done == PROGRAM_NONE);
                if (l < 3) {
                    ck_assert_int_eq(done != PROGRAM_NONE, after);
                    ck_assert(
                        waits_for(op_named("reduce"), after ? done : op_named("backward.end"), 0));
                } else {
                    ck_assert_int_eq(waits_for(op_named("backward.begin"), end, +1), after);
                    if (l == 6) /* on a stream of its own */
                        ck_assert_int_eq(
                            waits_for(op_named("backward.begin"), op_named("replicate"), +1),
                            after);
                }
                arena_release(&a);
            }
}
END_TEST

/* "block" has in each of 3 layers 4 matrices of 48 x 48, 2 of 80 x 48, 1 of 48 x 160: three shapes. Workspaces are 2 (2 m^2 + m n)
 * bytes: 13,824 of a square one, so 27,648 hold two; 16,896 of the next, of which that holds one. */
START_TEST(a_batch_is_of_one_shape_and_within_its_workspace)
{
    static const struct {
        uint64_t cap;
        uint32_t items, squares; /* of the first item */
    } rows[] = {{0, 21, 1}, {1 << 20, 3, 12}, {27648, 6 + 6 + 3, 2}, {27647, 21, 1}};
    static const char *const layouts[] = {"ddp", "owner"};

    for (int l = 0; l < 2; l++)
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            const struct work_table *w;
            struct job j = plans_job();
            uint64_t flops = 0, elements = 0;
            uint32_t matrices = 0;

            j.ns_batch = rows[i].cap;
            lower("block", layouts[l], &j, 1);
            w = &prog.work_tables[0];
            for (uint32_t k = 0; k < w->n_items; k++) {
                flops += w->items[k].flops;
                elements += w->items[k].elements;
                matrices += 1 + w->items[k].more;
            }
            ck_assert_uint_eq(w->n_items, rows[i].items);
            ck_assert_uint_eq(w->items[0].more + 1, rows[i].squares);
            ck_assert_uint_eq(matrices, 21);
            ck_assert_uint_eq(elements, plan.model.matrix_params);
            ck_assert_uint_eq(flops, 3 * (4 * optimizer_flops(OPTIMIZER_MUON, 5, 48, 48) +
                                          2 * optimizer_flops(OPTIMIZER_MUON, 5, 48, 80) +
                                          optimizer_flops(OPTIMIZER_MUON, 5, 48, 160)));
            arena_release(&a);
        }
}
END_TEST

static const struct kernel_call *adamw(void)
{
    for (uint32_t i = 0; i < prog.n_ops; i++)
        if (prog.ops[i].call.kernel == KERNEL_ADAMW)
            return &prog.ops[i].call;
    ck_abort_msg("no AdamW");
    return NULL;
}

/* Bytes an element in fp32 without a master copy: fused 7 accesses, 28; foreach 4 of p, 2 of g, 14 of states and the temporary, 80.
 * bf16 with a master copy and fp32 states: 2 * 2 + 2 + 4 * 4 + 8 = 30; 4 * 4 + 2 * 2 + 14 * 4, the parameter written from a copy that is
 * read, 4 + 2: 82. */
START_TEST(adamw_moves_what_its_kernels_touch)
{
    static const struct {
        enum dtype d;
        enum adamw_kernels kernels;
        uint64_t bytes;
    } rows[] = {{DTYPE_FP32, ADAMW_FUSED, 28},
                {DTYPE_FP32, ADAMW_FOREACH, 80},
                {DTYPE_FP32, ADAMW_PER_TENSOR, 80},
                {DTYPE_BF16, ADAMW_FUSED, 30},
                {DTYPE_BF16, ADAMW_FOREACH, 82}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct job j = plans_job();
        uint32_t launches = 1;

        j.optimizer = OPTIMIZER_ADAMW;
        j.param_dtype = j.grad_dtype = rows[i].d;
        j.master_weights = rows[i].d != DTYPE_FP32;
        j.adamw = rows[i].kernels;
        lower("llama", "ddp", &j, 1);
        if (j.adamw != ADAMW_FUSED)
            launches = j.adamw == ADAMW_FOREACH ? 8 : 8 * plan.model.n_tensors;
        ck_assert_uint_eq(adamw()->hbm_bytes, rows[i].bytes * plan.model.total_params);
        ck_assert_uint_eq(adamw()->launches, launches);
        arena_release(&a);
    }
}
END_TEST

static const struct buffer *buffer_named(const char *name)
{
    for (uint32_t i = 0; i < prog.n_buffers; i++)
        if (!strcmp(prog.buffers[i].name, name))
            return &prog.buffers[i];
    return NULL;
}

/* Whatever is recomputed: scores are kept only without recomputation, else attention runs again; Megatron-DeepSpeed's attention is
 * unfused unasked, and fused where it is asked for. */
START_TEST(unfused_attention_keeps_scores_or_runs_again)
{
    for (int mode = RECOMPUTE_NONE; mode <= RECOMPUTE_FULL; mode++)
        for (int f = 0; f < FRAMEWORK_N; f++)
            for (int asked = 0; asked < ATTENTION_N; asked++) {
                struct job j = plans_job();
                bool unfused = asked == ATTENTION_UNFUSED ||
                               (asked == ATTENTION_AUTO && f == FRAMEWORK_MEGATRON_DEEPSPEED);

                j.recompute = (enum recompute)mode;
                j.framework = (enum framework)f;
                j.attention = (enum attention)asked;
                lower("llama", "zero1", &j, 4);
                ck_assert_int_eq(buffer_named("act.layer.scores") != NULL, unfused);
                ck_assert_int_eq(buffer_named("attention.scores") != NULL, unfused);
                if (unfused)
                    ck_assert_uint_eq(count("recompute.", KERNEL_ATTENTION),
                                      mode != RECOMPUTE_NONE);
                arena_release(&a);
            }
}
END_TEST

/* Two fp32 copies more in PyTorch's loss, whatever surrounds it; none in a fused one. */
START_TEST(an_eager_loss_holds_copies)
{
    for (int f = 0; f < FRAMEWORK_N; f++)
        for (int asked = 0; asked < LOSS_N; asked++) {
            struct job j = plans_job();
            bool pytorch = f == FRAMEWORK_FSDP2 || f == FRAMEWORK_DEEPSPEED;

            j.framework = (enum framework)f;
            j.loss = (enum loss)asked;
            lower("llama", "zero1", &j, 4);
            ck_assert_int_eq(buffer_named("loss.eager") != NULL,
                             asked == LOSS_EAGER || (asked == LOSS_AUTO && pytorch));
            ck_assert_int_eq(buffer_named("act.head.loss_fp32")->bytes ==
                                 4 * j.seq_len * j.micro_batch,
                             asked == LOSS_FUSED);
            arena_release(&a);
        }
}
END_TEST

SUITE_MAIN("layouts/frameworks", broadcasts_are_operations_where_a_framework_has_them,
           pieces_and_waiting_are_deepspeeds, torchtitans_policy_saves_every_other_product,
           megatrons_policy_repeats_attention, fsdp2_copies_what_it_gathers_and_reduces,
           an_overlapped_refresh_is_waited_for_unit_by_unit,
           reductions_wait_for_backward_or_backward_for_them,
           a_batch_is_of_one_shape_and_within_its_workspace, adamw_moves_what_its_kernels_touch,
           unfused_attention_keeps_scores_or_runs_again, an_eager_loss_holds_copies)
