/* tests/bench/bench_main_job.c - the main job and the speed of the commands, measured from outside.
 *
 * Runs build/ballast (or $BALLAST) as a child: wall time by clock_gettime around fork and wait4, peak memory from wait4.
 * Each command runs five times; the median and the spread (largest less smallest) are printed. Goals are printed as PASS
 * or FAIL and decide nothing: the exit status is 0 when all commands ran.
 * Expected: all PASS on one core, in about ten seconds.
 */
#include "model/tensors/model.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Not in every <sys/wait.h> under strict POSIX. */
pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage);

enum { REPEATS = 5, MAX_ARGS = 32, MAX_TEXT = 1 << 16 };

static const char *program;

struct measured {
    double ms[REPEATS]; /* sorted */
    long peak_kb;       /* the largest */
    int status;
    char out[MAX_TEXT]; /* of the last run */
};

static double now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* One run; stdout into out. */
static int run_once(const char *const *args, double *ms, long *kb, char *out)
{
    int to[2], status = 0;
    size_t len = 0;
    struct rusage u;
    double from = now_ms();
    pid_t pid;

    if (pipe(to))
        return -1;
    pid = fork();
    if (pid < 0)
        return -1;
    if (pid == 0) {
        dup2(to[1], 1);
        close(to[0]);
        close(to[1]);
        execv(program, (char *const *)args);
        _exit(127);
    }
    close(to[1]);
    for (;;) {
        char rest[4096];
        bool full = len + 1 >= MAX_TEXT;
        ssize_t k = read(to[0], full ? rest : out + len, full ? sizeof(rest) : MAX_TEXT - 1 - len);

        if (k <= 0)
            break;
        len += full ? 0 : (size_t)k;
    }
    out[len] = 0;
    close(to[0]);
    if (wait4(pid, &status, 0, &u) < 0)
        return -1;
    *ms = now_ms() - from;
    *kb = u.ru_maxrss;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int by_value(const void *x, const void *y)
{
    const double *a = x, *b = y;

    return *a < *b ? -1 : *a > *b;
}

/* Runs "ballast WORDS", split at blanks. False (with a line on stderr) when it fails: status 1 is an answer. */
static bool measure(struct measured *m, const char *words)
{
    char text[1024];
    const char *args[MAX_ARGS] = {"ballast"};
    int n = 1;

    snprintf(text, sizeof(text), "%s", words);
    for (char *w = strtok(text, " "); w && n + 1 < MAX_ARGS; w = strtok(NULL, " "))
        args[n++] = w;
    m->peak_kb = 0;
    for (int i = 0; i < REPEATS; i++) {
        long kb = 0;

        m->status = run_once(args, &m->ms[i], &kb, m->out);
        if (m->status < 0 || m->status > 1) {
            fprintf(stderr, "error: '%s %s' ended with status %d\n", program, words, m->status);
            return false;
        }
        m->peak_kb = kb > m->peak_kb ? kb : m->peak_kb;
    }
    qsort(m->ms, REPEATS, sizeof(m->ms[0]), by_value);
    return true;
}

/* The cell of a csv result: the row whose first cell is `row` (NULL: the first one), column `key`. */
static bool cell(const char *csv, const char *row, const char *key, char *out, size_t size)
{
    int column = 0, at;
    const char *line = csv;

    for (const char *p = csv; strncmp(p, key, strlen(key)) || !strchr(",\n", p[strlen(key)]);) {
        p += strcspn(p, ",\n");
        if (*p != ',')
            return false;
        p++;
        column++;
    }
    do {
        line = strchr(line, '\n');
        if (!line || !line[1])
            return false;
        line++;
    } while (row && (strncmp(line, row, strlen(row)) || line[strlen(row)] != ','));
    for (at = 0; at < column; at++) { /* what holds commas comes last */
        line += strcspn(line, ",\n");
        if (*line++ != ',')
            return false;
    }
    snprintf(out, size, "%.*s", (int)strcspn(line, ",\n"), line);
    return true;
}

static double number(const char *csv, const char *row, const char *key)
{
    char text[64];

    return cell(csv, row, key, text, sizeof(text)) ? strtod(text, NULL) : -1;
}

static bool yes(const char *csv, const char *row, const char *key)
{
    char text[64];

    return cell(csv, row, key, text, sizeof(text)) && !strcmp(text, "true");
}

static const char *verdict(bool ok)
{
    return ok ? "PASS" : "FAIL";
}

static void speed(const char *what, const struct measured *m, double goal_ms, long goal_kb)
{
    printf("%-58s %9.1f ms (spread %.1f), %.1f MB", what, m->ms[REPEATS / 2],
           m->ms[REPEATS - 1] - m->ms[0], (double)m->peak_kb / 1e3);
    if (goal_ms > 0)
        printf("  goal %g ms%s: %s", goal_ms, goal_kb ? ", 100 MB" : "",
               verdict(m->ms[REPEATS / 2] < goal_ms && (!goal_kb || m->peak_kb < goal_kb)));
    printf("\n");
}

/* (a) */
static int main_job(struct measured *m)
{
    static const char *const layouts[] = {"ddp", "zero1", "zero1-owner", "zero3", "owner"};

    if (!measure(m, "compare qwen3-32b --cluster dgx-a100 --nodes 8 --state-dtype bf16 "
                    "--master-weights no --format csv"))
        return -1;
    printf("qwen3-32b on 8 x dgx-a100, muon, bf16 states, no master copy\n");
    for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
        printf("  %-12s %7.2f GiB  %-4s %10.1f ms\n", layouts[i],
               number(m->out, layouts[i], "memory_gib"),
               yes(m->out, layouts[i], "fits") ? "fits" : "no",
               number(m->out, layouts[i], "step_ms"));
    printf("  owner fits, zero1 and zero1-owner do not: %s\n\n",
           verdict(yes(m->out, "owner", "fits") && !yes(m->out, "zero1", "fits") &&
                   !yes(m->out, "zero1-owner", "fits")));
    return 0;
}

/* (b) Published: MatrixFSDP, arXiv 2607.05895. */
static int weak_scaling(struct measured *m)
{
    static const double optimizer[] = {4.2, 14.5, 34.0, 54.6}, step[] = {1.37, 1.75, 2.15, 2.01};

    printf("MatrixFSDP weak scaling, stock over owner: predicted (published)\n");
    for (int i = 0; i < 4; i++) {
        char words[512];

        snprintf(words, sizeof(words),
                 "compare block:layers=%d,hidden=4096,ffn=16384,heads=32,mlp=split-up "
                 "--cluster matrixfsdp-a100 --nodes %d --ns-steps 2 --state-dtype bf16 "
                 "--master-weights no --planner role-greedy --layouts zero3,owner --format csv",
                 16 << i, 1 << i);
        if (!measure(m, words))
            return -1;
        printf("  %d nodes: optimizer %5.1f (%.1f), step %.2f (%.2f)\n", 1 << i,
               number(m->out, "zero3", "optimizer_ms") / number(m->out, "owner", "optimizer_ms"),
               optimizer[i],
               number(m->out, "zero3", "step_ms") / number(m->out, "owner", "step_ms"), step[i]);
    }
    printf("\n");
    return 0;
}

/* (c) */
static int speeds(struct measured *m)
{
    printf("speed, %d runs each: median wall time, peak memory\n", REPEATS);
    if (!measure(m, "--help"))
        return -1;
    speed("ballast --help", m, 10, 0);
    if (!measure(m, "compare qwen3-32b --nodes 8"))
        return -1;
    speed("compare, 5 layouts of qwen3-32b on 64 GPUs", m, 0, 0);
    if (!measure(m, "compare llama-3.1-70b --nodes 128"))
        return -1;
    speed("compare, 5 layouts of llama-3.1-70b on 1,024 GPUs", m, 1000, 100000);
    if (!measure(m, "compare llama-3.1-70b --nodes 2048"))
        return -1;
    speed("compare, 5 layouts of llama-3.1-70b on 16,384 GPUs", m, 10000, 0);
    printf("\n");
    return 0;
}

/* (d) */
static int plans(struct measured *m)
{
    static const unsigned ranks[] = {8, 64, 512, 1024};
    const char *const *names = model_bundled_names();

    printf("plans (ilp): heaviest rank's TFLOP, its bound, gap, proven, whole command\n");
    for (size_t i = 0; names[i]; i++)
        for (size_t k = 0; k < sizeof(ranks) / sizeof(ranks[0]); k++) {
            char words[256];
            bool dense = strncmp(names[i], "mixtral", 7) != 0;

            snprintf(words, sizeof(words), "plan %s --gpus %u --format csv", names[i], ranks[k]);
            if (!measure(m, words))
                return -1;
            printf("  %-16s %5u ranks %12.3f %12.3f %8.4f %% %-4s %8.1f ms%s%s\n", names[i],
                   ranks[k], number(m->out, NULL, "flops_max") / 1e12,
                   number(m->out, NULL, "bound") / 1e12, number(m->out, NULL, "gap_percent"),
                   yes(m->out, NULL, "optimal") ? "yes" : "no", m->ms[REPEATS / 2],
                   dense ? "  goal 1000 ms: " : "",
                   dense ? verdict(m->ms[REPEATS / 2] < 1000) : "");
        }
    return 0;
}

int main(void)
{
    static struct measured m;
    const char *named = getenv("BALLAST");

    program = named ? named : "build/ballast";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (main_job(&m) || weak_scaling(&m) || speeds(&m) || plans(&m))
        return 1;
    return 0;
}
