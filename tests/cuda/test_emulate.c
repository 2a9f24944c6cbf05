/* The emulation sees what it is for: kernels with one fault each, and our own kernels with one barrier taken away. */
#include "tests/cuda/both.h"
#include "tests/cuda/faults.h"

enum { N = 64 };
static _Alignas(16) float x[N];

static const char *fault(enum fault which, uint64_t seed)
{
    for (int i = 0; i < N; i++)
        x[i] = (float)(i + 1);
    x[5] = which == FAULT_LEAVES ? -1 : x[5];
    emulate_reset(seed, 0);
    fault_run(which, x);
    return emulate_failure();
}

START_TEST(a_right_kernel_is_right_in_any_order)
{
    for (uint64_t seed = 0; seed < 50; seed++) {
        ck_assert_ptr_null(fault(FAULT_NONE, seed));
        for (int i = 0; i < N; i++)
            ck_assert(x[i] == (float)(N - i) + (float)((i ^ 1) + 1));
    }
}
END_TEST

START_TEST(a_missing_barrier_shows_in_the_result)
{
    int wrong = 0;

    for (uint64_t seed = 1; seed <= 50; seed++) {
        ck_assert_ptr_null(fault(FAULT_NO_BARRIER, seed));
        for (int i = 0; i < N; i++)
            if (!(x[i] == (float)(N - i))) {
                wrong++;
                break;
            }
    }
    ck_assert_int_eq(wrong, 50);
}
END_TEST

START_TEST(divergence_is_named_with_threads_and_lines)
{
    const char *why = fault(FAULT_LEAVES, 1);

    ck_assert_ptr_nonnull(why);
    ck_assert_ptr_nonnull(strstr(why, "thread (5,0,0) has ended"));
    ck_assert_ptr_nonnull(strstr(why, "faults.cc:"));
    why = fault(FAULT_TWO_BARRIERS, 1);
    ck_assert_ptr_nonnull(why);
    ck_assert_ptr_nonnull(strstr(why, "divergent barrier"));
}
END_TEST

START_TEST(shuffles_want_their_lanes)
{
    ck_assert_ptr_nonnull(strstr(fault(FAULT_ABSENT, 1), "not in its mask"));
    ck_assert_ptr_nonnull(strstr(fault(FAULT_ALONE, 1), "wait for ever"));
}
END_TEST

START_TEST(copies_arrive_when_they_are_waited_for)
{
    int numbers = 0;

    ck_assert_ptr_null(fault(FAULT_ON_ITS_WAY, 1));
    for (int i = 0; i < N; i++)
        numbers += !isnan(x[i]);
    ck_assert_int_eq(numbers, 0);
    ck_assert_ptr_nonnull(strstr(fault(FAULT_UNFINISHED, 1), "before its cp.async"));
}
END_TEST

START_TEST(shared_memory_has_an_end)
{
    ck_assert_ptr_nonnull(strstr(fault(FAULT_TOO_MUCH, 1), "too much"));
}
END_TEST

START_TEST(after_a_failure_nothing_runs_until_it_is_forgotten)
{
    ck_assert_ptr_nonnull(fault(FAULT_LEAVES, 1));
    x[0] = 7;
    fault_run(FAULT_NONE, x);
    ck_assert(x[0] == 7);
    ck_assert_uint_eq(emulate_counts().launches, 1);
    ck_assert_ptr_null(fault(FAULT_NONE, 1));
}
END_TEST

/* ---- one barrier taken away ---- */

/* Something with barriers, and what it writes. Without barriers [first, last] of a block it goes wrong; others before protect
 * what nobody has read yet, others behind what nobody writes any more. */
struct subject {
    const char *name;
    size_t n;
    void (*run)(float *out);
    uint64_t first, last;
};

static void run(enum kernel_function f, struct kernel_on on, const void *a)
{
    on.workspace_bytes = cuda_workspace(f, &on, a);
    on.workspace = mem_alloc(1, on.workspace_bytes + 1);
    memset(on.workspace, 0xff, on.workspace_bytes);
    switch (f) {
    case KERNEL_FN_normalize:
        cuda_normalize(&on, a);
        break;
    case KERNEL_FN_cross_entropy:
        cuda_cross_entropy(&on, a);
        break;
    case KERNEL_FN_attention:
        cuda_attention(&on, a);
        break;
    case KERNEL_FN_attention_backward:
        cuda_attention_backward(&on, a);
        break;
    case KERNEL_FN_embed_backward:
        cuda_embed_backward(&on, a);
        break;
    default:
        ck_abort_msg("no such subject");
    }
    mem_free(on.workspace);
}

static void fill(float *p, size_t n)
{
    uint64_t seed = 3;

    for (size_t i = 0; i < n; i++)
        p[i] = (float)rng_in(&seed, -1, 1);
}

static void normalize(float *out)
{
    const struct kernel_normalize a = {.n = 40000, .type = DTYPE_FP32, .eps = 1e-7f, .x = out};

    fill(out, a.n);
    run(KERNEL_FN_normalize, (struct kernel_on){.act = DTYPE_FP32}, &a);
}

enum { TOKENS = 600, VOCAB = 24 };

static void cross_entropy(float *out)
{
    static float logits[TOKENS * VOCAB];
    static int64_t targets[TOKENS];
    const struct kernel_cross_entropy a = {.tokens = TOKENS,
                                           .vocab = VOCAB,
                                           .logits = logits,
                                           .targets = targets,
                                           .log_probs = out,
                                           .loss = out + TOKENS * VOCAB};

    for (int i = 0; i < TOKENS; i++)
        targets[i] = i % 5 ? i % VOCAB : -1;
    fill(logits, TOKENS * VOCAB);
    run(KERNEL_FN_cross_entropy, (struct kernel_on){.act = DTYPE_FP32}, &a);
}

enum { SEQ = 130, DIM = 64 };

static struct kernel_attention attention_args(float *out)
{
    static float qkv[SEQ * 3 * DIM];
    struct kernel_attention a = {.batch = 1,
                                 .seq = SEQ,
                                 .heads = 1,
                                 .kv_heads = 1,
                                 .head_dim = DIM,
                                 .causal = true,
                                 .scale = 0.125f,
                                 .out = out,
                                 .lse = out + SEQ * DIM,
                                 .d_out = qkv};

    fill(qkv, SEQ * 3 * DIM);
    kernel_attention_fuse(&a, DTYPE_FP32, qkv, out + SEQ * (DIM + 1));
    return a;
}

static void attention(float *out)
{
    const struct kernel_attention a = attention_args(out);

    run(KERNEL_FN_attention, (struct kernel_on){.act = DTYPE_FP32}, &a);
}

static void attention_backward(float *out)
{
    const struct kernel_attention a = attention_args(out);

    fill(out, SEQ * (4 * DIM + 1));
    run(KERNEL_FN_attention_backward, (struct kernel_on){.act = DTYPE_FP32}, &a);
}

static void embed_backward(float *out)
{
    enum { IDS = 600, HIDDEN = 8 };
    static int64_t ids[IDS];
    static float d_out[IDS * HIDDEN];
    const struct kernel_embed a = {
        .tokens = IDS, .hidden = HIDDEN, .vocab = 9, .ids = ids, .d_out = d_out, .d_table = out};

    for (int i = 0; i < IDS; i++)
        ids[i] = i % 7 == 0 ? 0 : i % 5;
    fill(d_out, IDS * HIDDEN);
    fill(out, 9 * HIDDEN);
    run(KERNEL_FN_embed_backward, (struct kernel_on){.act = DTYPE_FP32, .grad = DTYPE_FP32}, &a);
}

/* Is the k-th barrier missed, in one of these orders? */
static bool missed(const struct subject *s, uint64_t k, const float *want, float *got)
{
    for (uint64_t seed = 1; seed <= 12; seed++) {
        memset(got, 0, s->n * sizeof(*got));
        emulate_reset(seed, 0);
        emulate_forget_barrier(k);
        s->run(got);
        if (emulate_failure() || memcmp(got, want, s->n * sizeof(*got)))
            return true;
    }
    return false;
}

START_TEST(every_barrier_of_our_kernels_is_missed)
{
    static const struct subject subjects[] = {
        {"normalize", 40000, normalize, 1, 2},
        {"cross_entropy", TOKENS * VOCAB + 1, cross_entropy, 1, 3},
        {"attention", SEQ * (DIM + 1), attention, 2, 8},
        {"attention_backward", SEQ * (4 * DIM + 1), attention_backward, 2, 10},
        {"embed_backward", 9 * 8, embed_backward, 1, 4},
    };

    for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
        const struct subject *s = &subjects[i];
        float *want = MEM_NEW(float, s->n), *got = MEM_NEW(float, s->n);

        emulate_reset(0, 0);
        s->run(want);
        ck_assert_ptr_null(emulate_failure());
        for (uint64_t k = s->first; k <= s->last; k++)
            ck_assert_msg(missed(s, k, want, got), "%s: nobody misses barrier %d", s->name, (int)k);
        mem_free(want);
        mem_free(got);
    }
}
END_TEST

SUITE_MAIN("cuda/emulate", a_right_kernel_is_right_in_any_order,
           a_missing_barrier_shows_in_the_result, divergence_is_named_with_threads_and_lines,
           shuffles_want_their_lanes, copies_arrive_when_they_are_waited_for,
           shared_memory_has_an_end, after_a_failure_nothing_runs_until_it_is_forgotten,
           every_barrier_of_our_kernels_is_missed)
