/* bench_sim [NAME] - how fast the simulator is, on one core. All rows, or those whose name contains NAME. About 2 minutes.
 *
 * Engine: flow completions (activities for the step rows) per second of processor time, building excluded; the best of
 * up to five. Rows of flows run once more the general way (sim/maxmin.h instead of sim/bottleneck.h), for comparison. RSS is the peak of a process of its own that builds and runs the row once, minus the peak of one that does
 * nothing. Steps: processor time and peak of `ballast sim` ($BALLAST, default build/ballast) as a whole, best of five.
 * Goals are printed as PASS or FAIL and decide nothing. Method and figures: docs/ENGINE.md.
 */
#include "sim/fluid.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Not in every <sys/wait.h> under strict POSIX. */
pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage);

struct load {
    struct fluid *f;
    struct arena a;
    uint32_t n; /* activities */
    bool weighted;
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

/* The fabric: NICs of 50 GB/s; 32 ranks a leaf (up and down as one link of their sum), over a spine that carries
 * 1 / oversubscription of it. */
enum { RANKS = 1024, PER_LEAF = 32, TX = 0, RX, UP, DOWN };

static void fabric(struct load *l, uint32_t ranks, double oversubscription)
{
    const double nic = 0.05;

    fluid_kind(l->f, "tx", ranks, nic);
    fluid_kind(l->f, "rx", ranks, nic);
    fluid_kind(l->f, "up", (ranks + PER_LEAF - 1) / PER_LEAF, nic * PER_LEAF / oversubscription);
    fluid_kind(l->f, "down", (ranks + PER_LEAF - 1) / PER_LEAF, nic * PER_LEAF / oversubscription);
}

/* The links from src to dst. */
static struct fluid_use *path(struct load *l, uint32_t src, uint32_t dst, uint32_t *n_uses)
{
    struct fluid_use *u;
    struct fluid_amount *at;
    const uint32_t link[] = {src, dst, src / PER_LEAF, dst / PER_LEAF};
    uint32_t n = link[UP] == link[DOWN] ? 2 : 4;

    u = ARENA_NEW(&l->a, struct fluid_use, n);
    at = ARENA_NEW(&l->a, struct fluid_amount, n);
    for (uint32_t i = 0; i < n; i++) {
        at[i] = (struct fluid_amount){link[i], 1};
        u[i] = (struct fluid_use){.kind = i, .n_only = 1, .only = &at[i]};
    }
    *n_uses = n;
    return u;
}

/* A flow of 64 KiB to 64 MiB, log-uniform; of weight 1, or 0.1 to 10 in no order, log-uniform. */
static uint32_t flow(struct load *l, uint32_t src, uint32_t dst)
{
    struct fluid_activity a = {.work = log_uniform(65536, 67108864)};

    if (l->weighted)
        a.weight = 0.1 * pow(100, l->n * 617 % 1000 / 1e3);
    a.uses = path(l, src, dst, &a.n_uses);
    l->n++;
    return fluid_add(l->f, &a, 0);
}

/* Random permutations of the ranks; every rank sends its flows one after the other, or all at once. */
static void permutations(struct load *l, uint32_t n, double oversubscription, bool at_once)
{
    uint32_t to[RANKS], before[RANKS], i, j, k, id;

    fabric(l, RANKS, oversubscription);
    for (k = 0; k < n; k++) {
        for (i = 0; i < RANKS; i++) {
            j = rng(i + 1);
            to[i] = to[j];
            to[j] = i;
        }
        for (i = 0; i < RANKS; i++) {
            id = flow(l, i, to[i]);
            if (k && !at_once)
                fluid_after(l->f, id, before[i]);
            before[i] = id;
        }
    }
}

static void permutations_1(struct load *l)
{
    permutations(l, 64, 1, false);
}

static void permutations_2(struct load *l)
{
    permutations(l, 64, 2, false);
}

static void at_once_1(struct load *l)
{
    permutations(l, 8, 1, true);
}

static void at_once_2(struct load *l)
{
    permutations(l, 8, 2, true);
}

static void permutations_2_weighted(struct load *l)
{
    l->weighted = true;
    permutations_2(l);
}

static void at_once_2_weighted(struct load *l)
{
    l->weighted = true;
    at_once_2(l);
}

/* 64 senders to each of 16 receivers, again and again: whoever is done goes on to its next receiver. */
static void incast(struct load *l)
{
    uint32_t to[16], before[RANKS], id;

    fabric(l, RANKS, 1);
    for (uint32_t k = 0; k < 64; k++) {
        for (uint32_t i = 0; i < 16; i++)
            to[i] = rng(RANKS);
        for (uint32_t i = 0; i < RANKS; i++) {
            id = flow(l, i, to[i / 64]);
            if (k)
                fluid_after(l->f, id, before[i]);
            before[i] = id;
        }
    }
}

/* 64 senders to each of 128 receivers, all at once. */
static void incast_at_once(struct load *l)
{
    fabric(l, RANKS, 1);
    for (uint32_t i = 0; i < 8192; i++)
        flow(l, rng(RANKS), i / 64 * 8);
}

static void ring(struct load *l, uint32_t n)
{
    struct fluid_use **u = MEM_NEW(struct fluid_use *, n);
    uint32_t *n_uses = MEM_NEW(uint32_t, n), r, s;

    fabric(l, n, 1);
    for (r = 0; r < n; r++)
        u[r] = path(l, r, (r + 1) % n, &n_uses[r]);
    for (s = 0; s + 1 < n; s++)
        for (r = 0; r < n; r++) {
            fluid_add(l->f,
                      &(struct fluid_activity){
                          .latency_ps = 500000, .work = 1048576, .uses = u[r], .n_uses = n_uses[r]},
                      0);
            if (s)
                fluid_after(l->f, s * n + r, (s - 1) * n + (r + n - 1) % n);
        }
    l->n = n * (n - 1);
    mem_free(u);
    mem_free(n_uses);
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
    bool flows_only;
    bool goal; /* 1 M completions/s in 100 MB */
} ROWS[] = {
    {"64 permutations, spine 1:1", permutations_1, true, true},
    {"64-way incast", incast, true, true},
    {"64 permutations, spine 2:1", permutations_2, true, true},
    {"64 permutations, 2:1, weights", permutations_2_weighted, true, false},
    {"8 permutations at once, 1:1", at_once_1, true, true},
    {"8 permutations at once, 2:1", at_once_2, true, true},
    {"8 permutations at once, 2:1, weights", at_once_2_weighted, true, false},
    {"128 64-way incasts at once", incast_at_once, true, true},
    {"ring all-gather, 64 ranks", ring_64, true, false},
    {"ring all-gather, 256 ranks", ring_256, true, false},
    {"ring all-gather, 1,024 ranks", ring_1024, true, false},
    {"step, 3 at once, 16,384 instances", step_plain, false, false},
    {"step, 500 instances singled out", step_500, false, false},
    {"unfolded, 16,384 chains", unfolded, false, false},
};
enum { N_ROWS = sizeof(ROWS) / sizeof(ROWS[0]), REPEATS = 5 };

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double run_row(const struct row *row, bool general, uint32_t *n, double *makespan_ms)
{
    struct load l = {0};
    struct err e = {0};
    double t;

    rng_state = 1;
    arena_init(&l.a);
    l.f = fluid_new();
    row->build(&l);
    if (general) /* one that is no flow, as it has a cap */
        fluid_add(l.f, &(struct fluid_activity){.work = 1, .cap = 1}, 0);
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
            run_row(row, false, &n, &ms);
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

/* The best of up to five, and no more than 3 s of them. */
static double best_s(const struct row *row, bool general, uint32_t *n, double *makespan_ms)
{
    double best = INFINITY, spent = 0, t;

    for (int rep = 0; rep < REPEATS && spent < 3; rep++) {
        t = run_row(row, general, n, makespan_ms);
        best = t < best ? t : best;
        spent += t;
    }
    return best;
}

static void engine(const char *only)
{
    double best, ms, nothing = rss_MB(NULL), mem[N_ROWS] = {0};
    uint32_t n;

    printf("\n%-36s %10s %12s %10s %12s %8s %12s\n", "engine", "activities", "makespan ms",
           "run ms", "done/s", "RSS MB", "general/s");
    for (size_t i = 0; i < N_ROWS; i++) /* before this process grows */
        if (!only || strstr(ROWS[i].name, only))
            mem[i] = rss_MB(&ROWS[i]) - nothing;
    for (size_t i = 0; i < N_ROWS; i++) {
        if (only && !strstr(ROWS[i].name, only))
            continue;
        best = best_s(&ROWS[i], false, &n, &ms);
        printf("%-36s %10u %12.6g %10.1f %12.0f %8.1f", ROWS[i].name, n, ms, best * 1e3, n / best,
               mem[i]);
        if (ROWS[i].flows_only)
            printf(" %12.0f", n / best_s(&ROWS[i], true, &n, &ms));
        if (ROWS[i].goal)
            printf("  goal 1 M/s, 100 MB: %s", n / best >= 1e6 && mem[i] < 100 ? "PASS" : "FAIL");
        printf("\n");
    }
}

/* ---- folded steps ---- */

/* Processor seconds and peak MB of one run of `ballast sim`; its output is thrown away. */
static double run_sim(const char *program, const char *layout, const char *gather,
                      const char *nodes, double *MB)
{
    struct rusage use;
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        if (!freopen("/dev/null", "w", stdout))
            _exit(127);
        execl(program, "ballast", "sim", "llama-3.1-70b", "--cluster", "dgx-a100", "--nodes", nodes,
              "--layout", layout, gather ? "--gather" : NULL, gather, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || wait4(pid, &status, 0, &use) < 0 || !WIFEXITED(status) ||
        WEXITSTATUS(status) > 1) {
        fprintf(stderr, "'%s sim' did not run\n", program);
        exit(EXIT_FAILURE);
    }
    *MB = (double)use.ru_maxrss / 1e3;
    return (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
           (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec) * 1e-6;
}

static void steps(const char *only)
{
    static const char *const layouts[][2] = {
        {"ddp", NULL},   {"zero1", NULL},  {"zero1-owner", NULL},    {"zero3", NULL},
        {"owner", NULL}, {"owner", "p2p"}, {"owner", "hierarchical"}};
    static const struct {
        const char *nodes, *gpus;
        double goal_s;
    } sizes[] = {{"128", "1,024", 0.3}, {"2048", "16,384", 3}};
    const char *named = getenv("BALLAST"), *program = named ? named : "build/ballast";

    printf("%-42s %10s %8s\n", "ballast sim, 80 layers, folded", "ms", "RSS MB");
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
            double best = INFINITY, MB = 0;
            char name[80];

            snprintf(name, sizeof(name), "step of %s GPUs, %s%s%s", sizes[k].gpus, layouts[i][0],
                     layouts[i][1] ? ", " : "", layouts[i][1] ? layouts[i][1] : "");
            if (only && !strstr(name, only))
                continue;
            for (int rep = 0; rep < REPEATS; rep++)
                best =
                    fmin(best, run_sim(program, layouts[i][0], layouts[i][1], sizes[k].nodes, &MB));
            printf("%-42s %10.1f %8.1f  goal %g s: %s\n", name, best * 1e3, MB, sizes[k].goal_s,
                   best < sizes[k].goal_s ? "PASS" : "FAIL");
        }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    steps(argc > 1 ? argv[1] : NULL); /* first: a child's peak starts at its parent's size */
    engine(argc > 1 ? argv[1] : NULL);
    return EXIT_SUCCESS;
}
