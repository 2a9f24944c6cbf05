/* What a framework makes of a collective is what exec calls: broadcasts one by one, and one queue where the host waits. */
#include "tests/exec/runs.h"

static uint64_t all_calls(const struct outcome *x, uint32_t rank)
{
    uint64_t sum = 0;

    for (int s = 0; s < STREAM_N; s++)
        sum += x->calls[rank][s];
    return sum;
}

static void run_as(struct setting *s, enum framework f, struct arena *a, struct outcome *x)
{
    s->job.framework = f;
    s->job.gather_as_framework = true;
    run(s, s->layout, a, x);
}

/* Beside Megatron's one call a refresh, FSDP2 calls once for each rank's part (in each piece of a bucket), or for each tensor that has an
 * owner; the weights are the same. */
START_TEST(every_broadcast_is_a_call)
{
    static const struct {
        const char *layout;
        uint64_t bucket;
    } rows[] = {{"zero1+gather", 0}, {"zero1+gather", 20000}, {"zero2+owner", 0}};

    for (int i = 0; i < 3; i++)
        for (uint32_t world = 2; world <= 4; world++) {
            struct setting s = small("llama", rows[i].layout, world);
            struct outcome one, each;
            struct arena a;
            char text[256];
            uint64_t pieces, owned = 0, units = 0, more;

            arena_init(&a);
            s.job.bucket_bytes = rows[i].bucket ? rows[i].bucket : UINT64_C(1) << 40;
            run_as(&s, FRAMEWORK_MEGATRON, &a, &one);
            run_as(&s, FRAMEWORK_FSDP2, &a, &each);
            for (uint32_t u = 0; u < each.plan->model.n_units; u++) {
                const struct unit *x = &each.plan->model.units[u];
                uint32_t n = 0;

                for (uint32_t t = x->first; t < x->first + x->n; t++)
                    n += each.plan->place[t].rule == PLACE_OWNER;
                owned += n;
                units += n > 0;
            }
            pieces = num_ceil_div(num_ceil_div(each.plan->model.total_params, world) * world * 4,
                                  s.job.bucket_bytes);
            more = i == 2 ? owned - units : pieces * (world - 1);
            for (uint32_t r = 0; r < world; r++)
                MUST(all_calls(&each, r) == all_calls(&one, r) + more,
                     "%s, %u ranks: %llu calls, in one %llu, expected %llu more", rows[i].layout,
                     world, (unsigned long long)all_calls(&each, r),
                     (unsigned long long)all_calls(&one, r), (unsigned long long)more);
            MUST(!differs(&s, &each, &one, text, sizeof(text)), "%s", text);
            check_bytes(&s, &each);
            release(&one);
            release(&each);
            arena_release(&a);
        }
}
END_TEST

/* DeepSpeed's collectives stand in the queue of its kernels, FSDP2's in queues of their own; the weights are the same, whatever order of
 * queues a backend takes. */
START_TEST(a_host_that_waits_has_one_queue)
{
    struct setting s = small("llama", "zero3+gather", 4);
    struct outcome own, one, ddp;
    struct arena a;
    char text[256];

    arena_init(&a);
    run(&s, "ddp", &a, &ddp);
    s.shuffle = 11;
    run_as(&s, FRAMEWORK_FSDP2, &a, &own);
    run_as(&s, FRAMEWORK_DEEPSPEED, &a, &one);
    ck_assert_uint_gt(own.calls[0][STREAM_GATHER], 0);
    ck_assert_uint_gt(own.calls[0][STREAM_REDUCE], 0);
    ck_assert_uint_eq(one.calls[0][STREAM_COMPUTE], all_calls(&own, 0));
    ck_assert_uint_eq(one.calls[0][STREAM_COMPUTE], all_calls(&one, 0));
    MUST(!differs(&s, &one, &ddp, text, sizeof(text)), "%s", text);
    check_bytes(&s, &one);
    release(&ddp);
    release(&own);
    release(&one);
    arena_release(&a);
}
END_TEST

/* What can be predicted and is not run is refused before the first step, by the name of the operation. */
START_TEST(a_wire_that_exec_does_not_have_is_refused)
{
    static const struct wire wires[] = {
        {.dtype = DTYPE_INT8}, {DTYPE_BF16, 256, DTYPE_FP16}, {DTYPE_INT4, 128, DTYPE_FP32}};

    for (size_t k = 0; k < sizeof(wires) / sizeof(wires[0]); k++) {
        struct setting s = small("block", "zero3+gather", 2);
        struct outcome x = {.steps = 1, .o = {.seed = 1, .ordered = true, .lr = 0.02}};
        struct plan plan;
        struct program p;
        struct arena a;
        struct err e = {0};

        arena_init(&a);
        plans_make(&plan, &a, s.model, s.layout, &s.job, 2, 4);
        plans_lower(&plan, &a, &p);
        x.plan = &plan;
        x.p = &p;
        for (uint32_t i = 0; i < p.n_ops; i++)
            if (!strcmp(p.ops[i].name, "gather.forward"))
                p.ops[i].coll.wire = wires[k];
        ck_assert_int_eq(threads_run(2, one_rank, &x, &e), -1);
        MUST(strstr(e.msg, "'gather.forward' travels as"), "%s", e.msg);
        release(&x);
        arena_release(&a);
    }
}
END_TEST

SUITE_MAIN("exec/calls", every_broadcast_is_a_call, a_host_that_waits_has_one_queue,
           a_wire_that_exec_does_not_have_is_refused)
