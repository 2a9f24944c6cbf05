/* bench_fluid [NAME] - how fast the fluid engine is. All rows, or those whose name contains NAME. About 10 s.
 *
 * Flow completions (activities for the step) per second of run time, building excluded; the best of three. RSS is the
 * peak of a process of its own that builds and runs the row once, minus the peak of one that does nothing.
 */
#include "sim/fluid.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct load {
    struct fluid *f;
    struct arena a;
    uint32_t n; /* activities */
};

static uint64_t rng_state;

static uint32_t rng(uint32_t n)
{
    rng_state = rng_state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)((rng_state >> 33) % n);
}

static double log_uniform(double lo, double hi)
{
    return ceil(lo * pow(hi / lo, rng(1U << 30) / (double)(1U << 30)));
}

static struct fluid_use *ends(struct load *l, uint32_t src, uint32_t dst)
{
    struct fluid_use *u = ARENA_NEW(&l->a, struct fluid_use, 2);
    struct fluid_amount *at = ARENA_NEW(&l->a, struct fluid_amount, 2);

    at[0] = (struct fluid_amount){src, 1};
    at[1] = (struct fluid_amount){dst, 1};
    u[0] = (struct fluid_use){.kind = 0, .n_only = 1, .only = &at[0]};
    u[1] = (struct fluid_use){.kind = 1, .n_only = 1, .only = &at[1]};
    return u;
}

static void nics(struct load *l, uint32_t ranks)
{
    fluid_kind(l->f, "tx", ranks, 0.05);
    fluid_kind(l->f, "rx", ranks, 0.05);
}

/* `per` random permutations of the ranks at once, sizes from 64 KiB to 64 MiB. */
static void permutation(struct load *l, uint32_t ranks, uint32_t per)
{
    uint32_t *to = MEM_NEW(uint32_t, ranks), i, j, k;

    nics(l, ranks);
    for (k = 0; k < per; k++) {
        for (i = 0; i < ranks; i++) {
            j = rng(i + 1);
            to[i] = to[j];
            to[j] = i;
        }
        for (i = 0; i < ranks; i++)
            fluid_add(l->f,
                      &(struct fluid_activity){.work = log_uniform(65536, 67108864),
                                               .uses = ends(l, i, to[i]),
                                               .n_uses = 2},
                      0);
    }
    l->n = ranks * per;
    mem_free(to);
}

/* 8,192 flows over a two-level fat tree of 1,024 ranks, 32 a leaf, half the bisection: tx, leaf up, leaf down, rx. */
static void fat_tree(struct load *l)
{
    struct fluid_use *u;
    struct fluid_amount *at;
    uint32_t i, src, dst;

    nics(l, 1024);
    fluid_kind(l->f, "up", 32, 0.8);
    fluid_kind(l->f, "down", 32, 0.8);
    l->n = 8192;
    for (i = 0; i < l->n; i++) {
        src = i % 1024;
        dst = rng(1024);
        u = ARENA_NEW(&l->a, struct fluid_use, 4);
        at = ARENA_NEW(&l->a, struct fluid_amount, 4);
        memcpy(u, ends(l, src, dst), 2 * sizeof(*u));
        at[2] = (struct fluid_amount){src / 32, 1};
        at[3] = (struct fluid_amount){dst / 32, 1};
        u[2] = (struct fluid_use){.kind = 2, .n_only = 1, .only = &at[2]};
        u[3] = (struct fluid_use){.kind = 3, .n_only = 1, .only = &at[3]};
        fluid_add(l->f,
                  &(struct fluid_activity){.work = log_uniform(65536, 67108864),
                                           .uses = u,
                                           .n_uses = src / 32 == dst / 32 ? 2 : 4},
                  0);
    }
}

static void permutation_1024(struct load *l)
{
    permutation(l, 1024, 8);
}

/* 64 senders to each of 128 receivers. */
static void incast(struct load *l)
{
    uint32_t i;

    nics(l, 1024);
    l->n = 8192;
    for (i = 0; i < l->n; i++)
        fluid_add(l->f,
                  &(struct fluid_activity){.work = log_uniform(65536, 67108864),
                                           .uses = ends(l, rng(1024), i / 64 * 8),
                                           .n_uses = 2},
                  0);
}

static void ring(struct load *l, uint32_t n)
{
    struct fluid_use **u = MEM_NEW(struct fluid_use *, n);
    uint32_t r, s;

    nics(l, n);
    for (r = 0; r < n; r++)
        u[r] = ends(l, r, (r + 1) % n);
    for (s = 0; s + 1 < n; s++)
        for (r = 0; r < n; r++) {
            fluid_add(l->f,
                      &(struct fluid_activity){
                          .latency_ps = 500000, .work = 1048576, .uses = u[r], .n_uses = 2},
                      0);
            if (s)
                fluid_after(l->f, s * n + r, (s - 1) * n + (r + n - 1) % n);
        }
    l->n = n * (n - 1);
    mem_free(u);
}

static void ring_64(struct load *l)
{
    ring(l, 64);
}

static void ring_256(struct load *l)
{
    ring(l, 256);
}

static void ring_1024(struct load *l)
{
    ring(l, 1024);
}

/* A step of 16,384 devices: three streams (compute on SM and HBM, two of collectives on NIC and HBM) of `every`
 * activities, 100,000 in all; collectives single out n_only instances. */
static void step(struct load *l, uint32_t n_only)
{
    struct fluid_use u[3][2];
    struct fluid_use *use;
    struct fluid_amount *at = ARENA_NEW(&l->a, struct fluid_amount, n_only);
    uint32_t i, stream;

    fluid_kind(l->f, "SM", 16384, 1);
    fluid_kind(l->f, "HBM", 16384, 1);
    fluid_kind(l->f, "NIC", 16384, 1);
    for (i = 0; i < n_only; i++)
        at[i] = (struct fluid_amount){i * (16384 / n_only), 1.5};
    for (stream = 0; stream < 3; stream++) {
        u[stream][0] = (struct fluid_use){.kind = stream ? 2 : 0, .every = 1};
        u[stream][1] = (struct fluid_use){.kind = 1, .every = 0.4};
        if (stream) {
            u[stream][0].only = at;
            u[stream][0].n_only = n_only;
        }
    }
    use = ARENA_NEW(&l->a, struct fluid_use, 6);
    memcpy(use, u, sizeof(u));
    l->n = 100000;
    for (i = 0; i < l->n; i++) {
        fluid_add(l->f,
                  &(struct fluid_activity){
                      .work = 1000 + rng(1000000), .uses = use + i % 3 * 2, .n_uses = 2},
                  0);
        if (i >= 3)
            fluid_after(l->f, i, i - 3);
        if (i >= 3 && rng(4) == 0)
            fluid_after(l->f, i, i - 1 - rng(2));
    }
}

static void step_plain(struct load *l)
{
    step(l, 0);
}

static void step_500(struct load *l)
{
    step(l, 500);
}

/* 16,384 unfolded devices, each its own chain of four compute activities of random work, while collectives with
 * `every` on the same HBM come and go. */
static void unfolded(struct load *l)
{
    struct fluid_use *u, all[2] = {{.kind = 1, .every = 0.2}, {.kind = 2, .every = 1}}, *c;
    struct fluid_amount *at;
    uint32_t i, j;

    fluid_kind(l->f, "SM", 16384, 1);
    fluid_kind(l->f, "HBM", 16384, 1);
    fluid_kind(l->f, "NIC", 16384, 1);
    c = ARENA_NEW(&l->a, struct fluid_use, 2);
    memcpy(c, all, sizeof(all));
    for (i = 0; i < 20; i++) {
        fluid_add(l->f, &(struct fluid_activity){.work = 100000, .uses = c, .n_uses = 2}, 0);
        if (i)
            fluid_after(l->f, i, i - 1);
    }
    for (i = 0; i < 16384; i++) {
        u = ARENA_NEW(&l->a, struct fluid_use, 2);
        at = ARENA_NEW(&l->a, struct fluid_amount, 2);
        at[0] = (struct fluid_amount){i, 1};
        at[1] = (struct fluid_amount){i, 0.5};
        u[0] = (struct fluid_use){.kind = 0, .n_only = 1, .only = &at[0]};
        u[1] = (struct fluid_use){.kind = 1, .n_only = 1, .only = &at[1]};
        for (j = 0; j < 4; j++) {
            fluid_add(
                l->f,
                &(struct fluid_activity){.work = 400000 + rng(200000), .uses = u, .n_uses = 2}, 0);
            if (j)
                fluid_after(l->f, 20 + i * 4 + j, 20 + i * 4 + j - 1);
        }
    }
    l->n = 20 + 4 * 16384;
}

static const struct row {
    const char *name;
    void (*build)(struct load *);
} ROWS[] = {
    {"8 permutations of 1,024 ranks", permutation_1024},
    {"fat tree 2:1, 8,192 random flows", fat_tree},
    {"64-way incast, 8,192 flows", incast},
    {"ring all-gather, 64 ranks", ring_64},
    {"ring all-gather, 256 ranks", ring_256},
    {"ring all-gather, 1,024 ranks", ring_1024},
    {"step, 3 at once, 16,384 instances", step_plain},
    {"step, 500 instances singled out", step_500},
    {"unfolded, 16,384 chains", unfolded},
};

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double run_row(const struct row *row, uint32_t *n, double *makespan_ms)
{
    struct load l = {0};
    struct err e = {0};
    double t;

    rng_state = 1;
    arena_init(&l.a);
    l.f = fluid_new();
    row->build(&l);
    t = now_s();
    if (fluid_run(l.f, &e)) {
        fprintf(stderr, "%s: %s\n", row->name, e.msg);
        exit(EXIT_FAILURE);
    }
    t = now_s() - t;
    *n = l.n;
    *makespan_ms = (double)fluid_makespan_ps(l.f) * 1e-9;
    fluid_free(l.f);
    arena_release(&l.a);
    return t;
}

/* Peak MB of a process of its own that runs the row (NULL: nothing). */
static double rss_MB(const struct row *row)
{
    struct rusage use = {0};
    double ms;
    uint32_t n;
    int fd[2];
    pid_t pid;

    if (pipe(fd) || (pid = fork()) < 0)
        exit(EXIT_FAILURE);
    if (pid == 0) {
        if (row)
            run_row(row, &n, &ms);
        getrusage(RUSAGE_SELF, &use);
        _exit(write(fd[1], &use, sizeof(use)) != (ssize_t)sizeof(use));
    }
    close(fd[1]);
    if (read(fd[0], &use, sizeof(use)) != (ssize_t)sizeof(use))
        exit(EXIT_FAILURE);
    close(fd[0]);
    waitpid(pid, NULL, 0);
    return (double)use.ru_maxrss / 1e3;
}

int main(int argc, char **argv)
{
    enum { N_ROWS = sizeof(ROWS) / sizeof(ROWS[0]) };
    double t, best, ms, nothing = rss_MB(NULL), mem[N_ROWS] = {0};
    uint32_t n;

    printf("%-36s %10s %12s %10s %12s %8s\n", "fluid engine", "activities", "makespan ms", "run ms",
           "done/s", "RSS MB");
    for (size_t i = 0; i < N_ROWS; i++) /* before this process grows */
        if (argc < 2 || strstr(ROWS[i].name, argv[1]))
            mem[i] = rss_MB(&ROWS[i]) - nothing;
    for (size_t i = 0; i < N_ROWS; i++) {
        if (argc > 1 && !strstr(ROWS[i].name, argv[1]))
            continue;
        best = INFINITY;
        for (int rep = 0; rep < 3; rep++) {
            t = run_row(&ROWS[i], &n, &ms);
            best = t < best ? t : best;
        }
        printf("%-36s %10u %12.6g %10.1f %12.0f %8.1f\n", ROWS[i].name, n, ms, best * 1e3, n / best,
               mem[i]);
    }
    return EXIT_SUCCESS;
}
