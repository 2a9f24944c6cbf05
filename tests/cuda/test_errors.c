/* The cuda backend when the world is not well: no GPU, too few, no NCCL, and NCCL's errors and silences, on the stand-in. Every
 * rank has to come to an end, soon, with a line that says what happened; a job of processes is ended by the first of them. */
#include "exec/run.h"
#include "tests/cuda/standin.h"
#include "tests/exec/threads.h"
#include "tests/layouts/plans.h"

#include <stdio.h>

extern const struct backend_library backend_library;

enum { WORLD = 4 };

struct trial {
    const struct plan *plan;
    const struct program *p;
    bool unordered;
    struct err e[WORLD];
    int status[WORLD];
};

static int step(struct transport *t, void *ctx, struct err *e)
{
    struct trial *j = ctx;
    const struct backend_options o = {.transport = t};
    const struct run_options how = {.seed = 7, .ordered = !j->unordered, .lr = 0.02};
    struct backend b = {.lib = &backend_library, .t = t};
    struct exec_run r = {0};
    int status;

    t->watchdog_s = 0.5;
    status = b.lib->open(&b, &o, e);
    if (!status) {
        status = exec_init(&r, j->plan, j->p, &b, &how, e) || exec_step(&r, e) ? -1 : 0;
        exec_release(&r);
        backend_close(&b);
    }
    j->e[t->rank] = *e;
    j->status[t->rank] = status;
    return 0;
}

/* A step on four ranks under zero3+owner, and what each of them says of it. Ordered reductions are messages, others NCCL's. */
static void try_step(struct trial *j, bool unordered)
{
    struct job job = plans_job();
    struct plan plan;
    struct program p;
    struct arena a;
    struct err e = {0};

    arena_init(&a);
    job.seq_len = 8;
    job.micro_batch = 1;
    job.param_dtype = job.grad_dtype = DTYPE_FP32;
    job.recompute = RECOMPUTE_NONE;
    plans_make(&plan, &a, "one-layer", "zero3+owner", &job, WORLD, 4);
    if (layout_lower(&plan, &a, &p, &e))
        ck_abort_msg("%s", e.msg);
    *j = (struct trial){.plan = &plan, .p = &p, .unordered = unordered};
    /* messages that a rank in trouble never received are no news */
    threads_run(WORLD, step, j, &e);
    arena_release(&a);
}

static void expect(const struct trial *j, int rank, const char *text)
{
    ck_assert_msg(j->status[rank] && strstr(j->e[rank].msg, text), "rank %d: '%s', expected '%s'",
                  rank, j->e[rank].msg, text);
    ck_assert_int_eq(j->e[rank].code, ERR_EXTERNAL);
    ck_assert_ptr_null(strchr(j->e[rank].msg, '\n'));
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

START_TEST(nothing_wrong_is_no_error)
{
    struct trial j;

    standin_reset(1);
    try_step(&j, false);
    for (int r = 0; r < WORLD; r++)
        ck_assert_msg(!j.status[r], "rank %d: %s", r, j.e[r].msg);
    ck_assert_ptr_null(standin_failure());
}
END_TEST

/* The watchdog looks for something that moves, not for the end. */
START_TEST(a_step_may_last_longer_than_the_watchdog)
{
    double start = now_s();
    struct trial j;

    standin_reset(1);
    standin_slow(4);
    try_step(&j, false);
    for (int r = 0; r < WORLD; r++)
        ck_assert_msg(!j.status[r], "rank %d: %s", r, j.e[r].msg);
    ck_assert_double_gt(now_s() - start, 1);
}
END_TEST

START_TEST(every_rank_ends_when_nccl_does_not_work_on_one)
{
    static const struct {
        enum standin_plant plant;
        const char *own, *others;
    } rows[] = {
        {STANDIN_NO_COMM,
         "rank 2 of 4 (NCCL_DEBUG=WARN says more): ncclCommInitRank: a system's error",
         "nothing moved for 0.5 s"},
        {STANDIN_NO_CALL, ": a wrong use", "nothing moved for 0.5 s"},
        {STANDIN_SILENT, "nothing moved for 0.5 s", "nothing moved for 0.5 s"},
        {STANDIN_DIED, "nothing moved for 0.5 s", "NCCL: another rank is gone"},
        {STANDIN_NO_ANSWER, "nothing moved for 0.5 s", "NCCL: a wrong argument"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int unordered = 0; unordered < 2; unordered++) {
            double start = now_s();
            struct trial j;

            standin_reset(i + 1);
            standin_plant(rows[i].plant, 2);
            try_step(&j, unordered);
            for (int r = 0; r < WORLD; r++)
                expect(&j, r, r == 2 ? rows[i].own : rows[i].others);
            ck_assert_double_lt(now_s() - start, 8);
            /* with who it was and where */
            for (int r = 0; r < WORLD; r++) {
                char rank[16];

                snprintf(rank, sizeof(rank), "rank %d", r);
                ck_assert_msg(!strncmp(j.e[r].msg, rank, strlen(rank)), "%s", j.e[r].msg);
                ck_assert_msg(rows[i].plant == STANDIN_NO_COMM || strstr(j.e[r].msg, " of unit ") ||
                                  strstr(j.e[r].msg, ": start: "),
                              "%s", j.e[r].msg);
            }
        }
}
END_TEST

/* What one rank says when it cannot begin. */
static void expect_start(const char *text)
{
    struct trial j;

    try_step(&j, false);
    for (int r = 0; r < WORLD; r++)
        expect(&j, r, text);
}

START_TEST(what_is_missing_is_named)
{
    standin_reset(1);
    standin_devices(0);
    expect_start("there is no NVIDIA GPU, or no driver for it, here");
    standin_reset(1);
    setenv("BALLAST_NCCL", "/nonexistent/libnccl.so.2", 1);
    expect_start("several ranks need NCCL: /nonexistent/libnccl.so.2: cannot open");
    setenv("BALLAST_NCCL", "libm.so.6", 1);
    expect_start("NCCL has no ncclGetUniqueId");
    setenv("BALLAST_NCCL", "", 1);
}
END_TEST

START_TEST(a_rank_takes_the_gpu_of_its_place_on_the_node)
{
    struct trial j;

    standin_reset(1);
    standin_devices(3);
    try_step(&j, false);
    expect(&j, 3, "rank 3 is number 4 on its node, which shows 3 GPUs");
    /* a launcher that binds shows each rank its own */
    standin_reset(1);
    standin_devices(1);
    try_step(&j, false);
    for (int r = 0; r < WORLD; r++)
        ck_assert_msg(!j.status[r], "rank %d: %s", r, j.e[r].msg);
}
END_TEST

START_TEST(usable_says_what_a_rank_knows_alone)
{
    struct transport t = {.size = 2};
    struct backend_options o = {.transport = &t};
    struct err e = {0};

    standin_reset(1);
    ck_assert_int_eq(backend_library.usable(&o, &e), 0);
    setenv("BALLAST_NCCL", "/nonexistent/libnccl.so.2", 1);
    ck_assert_int_eq(backend_library.usable(&o, &e), -1);
    ck_assert_ptr_nonnull(strstr(e.msg, "several ranks need NCCL"));
    t.size = 1;
    ck_assert_int_eq(backend_library.usable(&o, &e), 0);
    standin_devices(0);
    ck_assert_int_eq(backend_library.usable(&o, &e), -1);
    ck_assert_ptr_nonnull(strstr(e.msg, "no NVIDIA GPU"));
    setenv("BALLAST_NCCL", "", 1);
}
END_TEST

/* NCCL is in this program. */
__attribute__((constructor)) static void setup(void)
{
    setenv("BALLAST_NCCL", "", 1);
}

SUITE_MAIN("cuda/errors", nothing_wrong_is_no_error, a_step_may_last_longer_than_the_watchdog,
           every_rank_ends_when_nccl_does_not_work_on_one, what_is_missing_is_named,
           a_rank_takes_the_gpu_of_its_place_on_the_node, usable_says_what_a_rank_knows_alone)
