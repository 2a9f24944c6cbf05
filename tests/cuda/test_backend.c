/* The cuda backend on a machine without a GPU: exec/lib_cuda.c and the host code of kernels/ run on the stand-in, for every
 * layout, gather algorithm and number of ranks. Losses and weights have to be those of the cpu backend to the last bit, bytes
 * those of the program; the stand-in fails on calls that do not meet, and on accesses that no event orders. */
#include "exec/check.h"
#include "exec/run.h"
#include "exec/sample.h"
#include "model/program/traffic.h"
#include "tests/cuda/standin.h"
#include "tests/exec/threads.h"
#include "tests/layouts/plans.h"

#include <stdio.h>

extern const struct backend_library backend_library;

enum { STEPS = 2, MAX_WORLD = 8 };

struct outcome {
    const struct plan *plan;
    const struct program *p;
    struct run_options o;
    bool cuda;
    double loss[STEPS];
    char *weights[MAX_WORLD]; /* resident parameters; owned */
    uint64_t n_bytes[MAX_WORLD], sent[MAX_WORLD], received[MAX_WORLD];
};

static int open_cuda(struct backend *b, struct transport *t, struct err *e)
{
    const struct backend_options o = {.transport = t};

    *b = (struct backend){.lib = &backend_library, .t = t};
    return b->lib->open(b, &o, e);
}

static int one_rank(struct transport *t, void *ctx, struct err *e)
{
    struct outcome *x = ctx;
    struct exec_run r = {0};
    struct run_buffer *params;
    struct backend b;
    uint64_t sent, received;
    int status = 0;

    if (!x->cuda)
        open_cpu(&b, t, 0);
    else if (open_cuda(&b, t, e))
        return -1;
    status = exec_init(&r, x->plan, x->p, &b, &x->o, e);
    for (int s = 0; s < STEPS && !status; s++) {
        sent = b.n_sent;
        received = b.n_received;
        status = exec_step(&r, e) || exec_loss(&r, &x->loss[s], e) ? -1 : 0;
        x->sent[t->rank] = b.n_sent - sent;
        x->received[t->rank] = b.n_received - received;
    }
    if (!status) {
        params = run_find(&r, x->p->known.params, 0, 0);
        x->n_bytes[t->rank] = params->bytes;
        x->weights[t->rank] = mem_alloc(1, params->bytes);
        b.lib->download(&b, STREAM_COMPUTE, x->weights[t->rank], params->data, params->bytes);
    }
    exec_release(&r);
    backend_close(&b);
    return status;
}

static void release(struct outcome *x)
{
    for (int i = 0; i < MAX_WORLD; i++)
        mem_free(x->weights[i]);
}

struct setting {
    const char *model, *layout;
    uint32_t world;
    struct job job;
    uint64_t seed;
    bool unordered;
};

static struct setting small(const char *model, const char *layout, uint32_t world)
{
    struct setting s = {.model = model, .layout = layout, .world = world, .job = plans_job()};

    s.seed = 1;
    s.job.seq_len = 8;
    s.job.micro_batch = 1;
    s.job.param_dtype = s.job.grad_dtype = DTYPE_FP32;
    s.job.recompute = RECOMPUTE_NONE;
    return s;
}

static int run(const struct setting *s, bool cuda, struct arena *a, struct outcome *x,
               struct err *e)
{
    struct plan *plan = ARENA_NEW(a, struct plan, 1);
    struct program *p = ARENA_NEW(a, struct program, 1);

    memset(x, 0, sizeof(*x));
    plans_make(plan, a, s->model, s->layout, &s->job, s->world, 4);
    if (layout_lower(plan, a, p, e))
        ck_abort_msg("%s", e->msg);
    x->plan = plan;
    x->p = p;
    x->cuda = cuda;
    x->o = (struct run_options){.seed = 7, .ordered = !s->unordered, .lr = 0.02};
    return threads_run(s->world, one_rank, x, e);
}

/* A line of `make standin`: what the run called, of all ranks and steps. */
static void tell(const struct setting *s, const struct outcome *x)
{
    struct standin_calls c = standin_calls();
    uint64_t sent = 0;
    char layout[32];

    if (!getenv("STANDIN_TABLE"))
        return;
    snprintf(layout, sizeof(layout), "%s", s->layout);
    for (uint32_t r = 0; r < s->world; r++)
        sent = x->sent[r] > sent ? x->sent[r] : sent;
    if (placement_parts(x->plan, STATE) < s->world)
        snprintf(layout, sizeof(layout), "%s/%u", s->layout, placement_parts(x->plan, STATE));
    printf("%-18s %-12s %-9s %5u %8llu %7llu %11llu %9llu %6llu %12llu  equal\n", layout,
           coll_algo_name(s->job.gather), s->model, s->world, (unsigned long long)c.kernels,
           (unsigned long long)c.copies, (unsigned long long)c.collectives,
           (unsigned long long)c.messages, (unsigned long long)c.waits, (unsigned long long)sent);
    fflush(stdout);
}

/* Aborts unless both are the same, bit for bit, and the bytes the program's. */
static void compare(const struct setting *s, struct outcome *cpu)
{
    struct outcome x;
    struct arena a;
    struct err e = {0};

    arena_init(&a);
    standin_reset(s->seed);
    if (run(s, true, &a, &x, &e))
        ck_abort_msg("%s %s world %u gather %d: %s", s->model, s->layout, s->world,
                     (int)s->job.gather, standin_failure() ? standin_failure() : e.msg);
    if (standin_failure())
        ck_abort_msg("%s %s world %u: %s", s->model, s->layout, s->world, standin_failure());
    for (int i = 0; i < STEPS; i++)
        if (memcmp(&x.loss[i], &cpu->loss[i], sizeof(x.loss[i])))
            ck_abort_msg("%s %s world %u gather %d: loss of step %d is %.17g, cpu %.17g", s->model,
                         s->layout, s->world, (int)s->job.gather, i + 1, x.loss[i], cpu->loss[i]);
    for (uint32_t r = 0; r < s->world; r++) {
        struct traffic_bytes b = check_expected_bytes(x.p, r);

        if (x.n_bytes[r] != cpu->n_bytes[r] || memcmp(x.weights[r], cpu->weights[r], x.n_bytes[r]))
            ck_abort_msg("%s %s world %u: rank %u has other weights than on the cpu", s->model,
                         s->layout, s->world, r);
        if (x.sent[r] != b.sent_intra + b.sent_inter ||
            x.received[r] != b.recv_intra + b.recv_inter)
            ck_abort_msg("%s %s world %u: rank %u sent %llu, the program says %llu", s->model,
                         s->layout, s->world, r, (unsigned long long)x.sent[r],
                         (unsigned long long)(b.sent_intra + b.sent_inter));
    }
    tell(s, &x);
    release(&x);
    arena_release(&a);
}

static void cpu_and_cuda(const struct setting *s)
{
    struct outcome cpu;
    struct arena a;
    struct err e = {0};

    arena_init(&a);
    if (run(s, false, &a, &cpu, &e))
        ck_abort_msg("%s", e.msg);
    compare(s, &cpu);
    release(&cpu);
    arena_release(&a);
}

START_TEST(every_layout_has_the_bits_of_the_cpu_backend)
{
    static const uint32_t worlds[] = {1, 2, 4, 8};
    static const char *const models[] = {"llama", "gpt2", "block"};

    for (int w = 0; w < 4; w++)
        for (uint32_t l = 0; plans_name(l); l++) {
            struct setting s = small(models[((uint32_t)w + l) % 3], plans_name(l), worlds[w]);

            if ((l + (uint32_t)w) % 3) /* a third of them: all take long */
                continue;
            plans_fit(&s.job, s.layout, s.world, 4, l);
            s.job.grad_accum = 1 + l % 2;
            s.seed = 10 * (uint64_t)w + l + 1;
            s.job.param_dtype = s.job.grad_dtype = l % 2 ? DTYPE_BF16 : DTYPE_FP32;
            s.job.recompute = w % 2 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
            s.job.bucket_bytes = 20000;
            cpu_and_cuda(&s);
        }
}
END_TEST

START_TEST(every_gather_algorithm_has_them)
{
    static const enum coll_algo algos[] = {ALGO_P2P, ALGO_RING, ALGO_TREE, ALGO_HIERARCHICAL,
                                           ALGO_PADDED};

    for (int k = 0; k < 5; k++)
        for (int l = 0; l < 2; l++)
            for (uint32_t world = 2; world <= 8; world *= 2) {
                struct setting s = small("one-layer", l ? "zero3+owner" : "zero1+owner", world);

                s.job.gather = algos[k];
                cpu_and_cuda(&s);
            }
}
END_TEST

static uint64_t nccl_calls(struct setting *s, enum framework f)
{
    struct outcome x;
    struct arena a;
    struct err e = {0};
    uint64_t n;

    arena_init(&a);
    s->job.framework = f;
    s->job.gather_as_framework = true;
    standin_reset(s->seed);
    MUST(!run(s, true, &a, &x, &e), "%s", e.msg);
    n = standin_calls().collectives;
    release(&x);
    arena_release(&a);
    return n;
}

/* FSDP2's refresh is an ncclBroadcast a rank where Megatron's is an ncclAllGather, on each rank in each step; bits and bytes are those of
 * the cpu backend, and of its broadcasts. */
START_TEST(a_frameworks_broadcasts_are_nccls)
{
    struct setting s = small("llama", "zero1+gather", 4);
    uint64_t one, each;

    s.job.bucket_bytes = UINT64_C(1) << 40;
    one = nccl_calls(&s, FRAMEWORK_MEGATRON);
    each = nccl_calls(&s, FRAMEWORK_FSDP2);
    ck_assert_uint_eq(each - one, STEPS * 4 * (4 - 1));
    cpu_and_cuda(&s);
    s.layout = "zero1+owner";
    cpu_and_cuda(&s);
    s.job.framework = FRAMEWORK_DEEPSPEED;
    cpu_and_cuda(&s);
}
END_TEST

START_TEST(experts_have_them)
{
    for (uint32_t l = 0; plans_name(l); l += 2) {
        struct setting s = small(l % 4 ? "qwen-moe" : "moe", plans_name(l), 4);

        plans_fit(&s.job, s.layout, s.world, 4, l);
        cpu_and_cuda(&s);
    }
}
END_TEST

/* NCCL communicators of a group and of its copies, on the gather, reduce and all-reduce streams: copies a rank, several a node of 4, one a
 * node. Ordered and, by NCCL's own reductions, not. */
START_TEST(shard_groups_have_them)
{
    static const uint32_t worlds[][2] = {{4, 1}, {4, 2}, {8, 2}, {8, 4}};

    for (uint32_t w = 0; w < 4; w++)
        for (uint32_t l = w % 2; plans_grouped(l); l += 2) {
            struct setting s = small(l % 2 ? "llama" : "one-layer", plans_grouped(l), worlds[w][0]);
            struct outcome x;
            struct arena a;
            struct err e = {0};

            s.seed = 10 * (uint64_t)w + l + 1;
            s.job.shard_group = worlds[w][1];
            s.job.grad_accum = 1 + (w + l / 2) % 2;
            s.job.grad_dtype = l % 2 ? DTYPE_BF16 : DTYPE_FP32;
            s.job.sync_last = w % 2; /* with two micro-batches whole gradients, else nothing */
            s.job.reshard_never = w > 1;
            cpu_and_cuda(&s);
            arena_init(&a);
            s.unordered = true;
            standin_reset(s.seed);
            if (run(&s, true, &a, &x, &e))
                ck_abort_msg("%s: %s", s.layout, standin_failure() ? standin_failure() : e.msg);
            ck_assert_ptr_null(standin_failure());
            release(&x);
            arena_release(&a);
        }
}
END_TEST

/* NCCL's own reductions, and more than one order of the streams. */
START_TEST(unordered_reductions_and_other_orders_of_the_streams)
{
    for (uint32_t l = 0; plans_name(l); l++)
        for (uint64_t seed = 1 + l % 2; seed <= 3; seed += 2) {
            struct setting s = small("one-layer", plans_name(l), 4);
            struct outcome x;
            struct arena a;
            struct err e = {0};

            arena_init(&a);
            s.unordered = true;
            standin_reset(seed);
            if (run(&s, true, &a, &x, &e))
                ck_abort_msg("%s: %s", s.layout, standin_failure() ? standin_failure() : e.msg);
            ck_assert_ptr_null(standin_failure());
            release(&x);
            arena_release(&a);
        }
}
END_TEST

/* Some waits are for what has ended long ago in every order; most are not, and the clocks see those whatever is drawn. */
START_TEST(a_forgotten_event_is_caught)
{
    uint64_t n, found = 0;

    for (uint64_t k = 0, total = 1; k <= total; k++) {
        struct setting s = small("one-layer", "zero3+owner", 2);
        struct outcome x;
        struct arena a;
        struct err e = {0};

        arena_init(&a);
        standin_reset(k + 1);
        standin_forget_wait(k);
        run(&s, true, &a, &x, &e);
        n = standin_calls().waits / s.world;
        if (k == 0) {
            ck_assert_ptr_null(standin_failure());
            total = n / STEPS; /* of the first step */
        } else {
            found += standin_failure() != NULL;
        }
        release(&x);
        arena_release(&a);
    }
    ck_assert_uint_gt(found, n / STEPS / 2);
}
END_TEST

/* ---- groups of some ranks ---- */

enum pattern { PAIRS, STRIDED, HALVES, PARITY, FIRST_THREE, ALL, N_PATTERNS };

/* The group of `rank`; n = 0: it is in none. */
static struct coll_group group_of(enum pattern p, uint32_t world, uint32_t rank, uint32_t *ranks)
{
    struct coll_group g = {.ranks = ranks, .gpus_per_node = 4};

    for (uint32_t r = 0; r < world; r++) {
        bool in = p == PAIRS     ? r / 2 == rank / 2
                  : p == STRIDED ? r % (world / 2) == rank % (world / 2)
                  : p == HALVES  ? r / (world / 2) == rank / (world / 2)
                  : p == PARITY  ? r % 2 == rank % 2
                                 : p == ALL || (r < 3 && rank < 3);

        if (r == rank)
            g.self = g.n;
        if (in)
            ranks[g.n++] = r;
    }
    return g;
}

enum { CHUNK = 5 };

/* Element i of place k's part as rank r has it before: small whole numbers, so that any order of sums is exact. */
static float begin_with(uint32_t r, uint32_t i)
{
    return (float)(r * 17 + i);
}

static float sum_over(const struct coll_group *g, uint32_t i)
{
    float sum = 0;

    for (uint32_t k = 0; k < g->n; k++)
        sum += begin_with(g->ranks[k], i);
    return sum;
}

/* One collective in the rank's group, against the numbers that it means. */
static int in_a_group(struct backend *b, const struct coll_group *g, enum coll_kind kind,
                      enum coll_algo algo, bool ordered, struct err *e)
{
    float x[8 * CHUNK];
    struct wire_segment s[8];
    struct coll_call c = {.kind = kind,
                          .algo = algo,
                          .ordered = ordered,
                          .dtype = DTYPE_FP32,
                          .chunk_bytes = CHUNK * sizeof(float),
                          .segments = s,
                          .n_segments = g->n};
    bool gather = kind == COLL_ALL_GATHER || kind == COLL_SEGMENT_GATHER;
    bool everywhere = gather || kind == COLL_ALL_REDUCE;

    c.data = backend_alloc(b, STREAM_GATHER, sizeof(x));
    for (uint32_t k = 0; k < g->n; k++) {
        s[k] = (struct wire_segment){k, 0, g->n, PROGRAM_NONE, k * c.chunk_bytes, c.chunk_bytes};
        for (uint32_t i = k * CHUNK; i < (k + 1) * CHUNK; i++)
            x[i] = gather && k != g->self ? -1 : begin_with(g->ranks[g->self], i);
    }
    b->lib->upload(b, STREAM_GATHER, c.data, x, g->n * c.chunk_bytes);
    b->lib->collective(b, STREAM_GATHER, g, &c);
    b->lib->download(b, STREAM_GATHER, x, c.data, g->n * c.chunk_bytes);
    backend_free(b, STREAM_GATHER, c.data, sizeof(x));
    if (backend_status(b, e))
        return -1;
    for (uint32_t i = 0; i < g->n * CHUNK; i++) {
        uint32_t k = i / CHUNK;
        float want = gather ? begin_with(g->ranks[k], i) : sum_over(g, i);

        if ((everywhere || k == g->self) && (x[i] < want || x[i] > want))
            return err_set(e, ERR_INVALID, "%s: place %u of %u has [%u] = %g, expected %g",
                           coll_kind_name(kind), g->self, g->n, i, (double)x[i], (double)want);
    }
    return 0;
}

/* What HSDP does: a sum over a node's ranks, each its part; the parts over the nodes; together again. */
static int in_two_levels(struct backend *b, uint32_t world, struct err *e)
{
    uint32_t node_ranks[8], across_ranks[8];
    struct coll_group node = group_of(HALVES, world, b->t->rank, node_ranks);
    struct coll_group across = group_of(STRIDED, world, b->t->rank, across_ranks);
    float x[8 * CHUNK];
    uint32_t n = node.n * CHUNK * across.n;
    struct coll_call c = {.kind = COLL_REDUCE_SCATTER, .dtype = DTYPE_FP32};

    for (uint32_t i = 0; i < n; i++)
        x[i] = begin_with(b->t->rank, i);
    c.chunk_bytes = n / node.n * sizeof(float);
    c.data = backend_alloc(b, STREAM_GATHER, sizeof(x));
    b->lib->upload(b, STREAM_GATHER, c.data, x, n * sizeof(float));
    b->lib->collective(b, STREAM_GATHER, &node, &c);
    c.kind = COLL_ALL_REDUCE;
    c.data = (char *)c.data + node.self * c.chunk_bytes;
    c.chunk_bytes /= across.n;
    b->lib->collective(b, STREAM_GATHER, &across, &c);
    c.chunk_bytes *= across.n;
    c.data = (char *)c.data - node.self * c.chunk_bytes;
    c.kind = COLL_ALL_GATHER;
    b->lib->collective(b, STREAM_GATHER, &node, &c);
    b->lib->download(b, STREAM_GATHER, x, c.data, n * sizeof(float));
    backend_free(b, STREAM_GATHER, c.data, sizeof(x));
    for (uint32_t i = 0; i < n; i++) {
        float want = 0;

        for (uint32_t r = 0; r < world; r++)
            want += begin_with(r, i);
        if (x[i] < want || x[i] > want)
            return err_set(e, ERR_INVALID, "two levels: [%u] = %g, expected %g", i, (double)x[i],
                           (double)want);
    }
    return backend_status(b, e);
}

static int groups_of_a_rank(struct transport *t, void *ctx, struct err *e)
{
    static const struct {
        enum coll_kind kind;
        enum coll_algo algo;
    } calls[] = {{COLL_ALL_GATHER, ALGO_RING},     {COLL_REDUCE_SCATTER, ALGO_RING},
                 {COLL_ALL_REDUCE, ALGO_RING},     {COLL_SEGMENT_GATHER, ALGO_RING},
                 {COLL_SEGMENT_GATHER, ALGO_TREE}, {COLL_SEGMENT_REDUCE, ALGO_RING}};
    const bool cuda = *(const bool *)ctx;
    struct backend b;
    int status = 0;

    if (!cuda)
        open_cpu(&b, t, 0);
    else if (open_cuda(&b, t, e))
        return -1;
    for (int p = 0; p < N_PATTERNS && !status; p++) {
        uint32_t ranks[8];
        struct coll_group g = group_of((enum pattern)p, t->size, t->rank, ranks);

        for (size_t k = 0; k < 2 * sizeof(calls) / sizeof(calls[0]) && g.n && !status; k++)
            status = in_a_group(&b, &g, calls[k / 2].kind, calls[k / 2].algo, k % 2, e);
    }
    if (!status)
        status = in_two_levels(&b, t->size, e);
    for (uint32_t n = 2; n <= t->size && !status; n *= 2) { /* as calibrate does */
        double s;

        status = sample_collective(&b, COLL_ALL_REDUCE, n, 1 << 12, &s, e);
    }
    backend_close(&b);
    return status;
}

/* Every kind of collective in groups of two, of three, of halves, near and strided, several at a time, and two levels of
 * groups one after the other; on both backends. */
START_TEST(groups_of_some_ranks_mean_what_they_say)
{
    for (uint32_t world = 4; world <= 8; world *= 2)
        for (uint64_t seed = 0; seed <= 3; seed++) {
            struct err e = {0};
            bool cuda = seed > 0;

            standin_reset(seed);
            if (threads_run(world, groups_of_a_rank, &cuda, &e))
                ck_abort_msg("%u ranks: %s", world, standin_failure() ? standin_failure() : e.msg);
            ck_assert_ptr_null(standin_failure());
        }
}
END_TEST

/* NCCL is in this program. */
__attribute__((constructor)) static void setup(void)
{
    setenv("BALLAST_NCCL", "", 1);
}

SUITE_MAIN("cuda/backend", every_layout_has_the_bits_of_the_cpu_backend,
           every_gather_algorithm_has_them, a_frameworks_broadcasts_are_nccls, experts_have_them,
           shard_groups_have_them, unordered_reductions_and_other_orders_of_the_streams,
           a_forgotten_event_is_caught, groups_of_some_ranks_mean_what_they_say)
