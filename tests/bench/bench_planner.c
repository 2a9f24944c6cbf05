/* tests/bench/bench_planner.c - how good and how fast are the owner assignments?
 *
 * For models of published dimensions and 8 to 16384 ranks: the heaviest optimizer load of the ILP method, its proven
 * bound and gap, the solver that answered, its time, and each baseline's heaviest load as a ratio to that bound
 * (1.0000 is optimal). Load is Muon's: 5 Newton-Schulz steps of 4 m^2 n + 2 m^3; bytes are bf16 parameter and gradient,
 * fp32 momentum and master copy (12 a parameter). All matrices of a layer are one unit.
 * Expected: every dense model proven at every size, below 1 s in all on one core.
 * Run: bench_planner [name]   (name: only models that contain it)
 */
#include "planner/assign.h"

#include <stdio.h>
#include <string.h>

struct dims { /* hidden, heads*head, kv heads*head, feed-forward; experts 0: dense */
    const char *name;
    uint32_t layers, hidden, q, kv, ffn, experts;
};

static const struct dims models[] = {
    {"llama-2-7b", 32, 4096, 4096, 4096, 11008, 0},
    {"llama-3.1-8b", 32, 4096, 4096, 1024, 14336, 0},
    {"llama-3.1-70b", 80, 8192, 8192, 1024, 28672, 0},
    {"llama-3.1-405b", 126, 16384, 16384, 1024, 53248, 0},
    {"qwen3-1.7b", 28, 2048, 2048, 1024, 6144, 0},
    {"qwen3-4b", 36, 2560, 4096, 1024, 9728, 0},
    {"qwen3-8b", 36, 4096, 4096, 1024, 12288, 0},
    {"qwen3-14b", 40, 5120, 5120, 1024, 17408, 0},
    {"qwen3-32b", 64, 5120, 8192, 1024, 25600, 0},
    {"mixtral-8x7b", 32, 4096, 4096, 1024, 14336, 8},
    {"qwen3-30b-a3b", 48, 2048, 4096, 512, 768, 128},
    {"deepseek-v3", 61, 7168, 0, 0, 2048, 257}, /* latent attention: see add_latent() */
};

static const uint32_t world[] = {8, 12, 24, 48, 64, 512, 1024, 16384};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static void add(struct assign_item *items, uint32_t *n, uint32_t unit, uint32_t rows, uint32_t cols)
{
    uint64_t min = rows < cols ? rows : cols, max = rows < cols ? cols : rows;
    struct assign_item *it = &items[(*n)++];

    it->flops = 5 * (4 * min * min * max + 2 * min * min * min);
    it->numel = min * max;
    it->bytes = 12 * min * max;
    it->send_bytes = 2 * min * max;
    it->rows = rows;
    it->cols = cols;
    it->unit = unit;
}

/* DeepSeek-V3: latent attention, three dense layers, then 256 experts and a shared one; seven load classes */
static void add_latent(const struct dims *m, struct assign_item *items, uint32_t *n, uint32_t l)
{
    uint32_t copies = l < 3 ? 1 : m->experts, ffn = l < 3 ? 18432 : m->ffn;

    add(items, n, l, 1536, m->hidden);
    add(items, n, l, 24576, 1536);
    add(items, n, l, 576, m->hidden);
    add(items, n, l, 32768, 512);
    add(items, n, l, m->hidden, 16384);
    for (uint32_t i = 0; i < 3 * copies; i++)
        add(items, n, l, i % 3 == 2 ? m->hidden : ffn, i % 3 == 2 ? ffn : m->hidden);
}

static uint32_t build(const struct dims *m, struct assign_item *items)
{
    uint32_t n = 0, copies = m->experts ? m->experts : 1;

    for (uint32_t l = 0; l < m->layers; l++) {
        if (m->q == 0) {
            add_latent(m, items, &n, l);
            continue;
        }
        add(items, &n, l, m->q, m->hidden);
        add(items, &n, l, m->kv, m->hidden);
        add(items, &n, l, m->kv, m->hidden);
        add(items, &n, l, m->hidden, m->q);
        for (uint32_t i = 0; i < copies; i++) {
            add(items, &n, l, m->ffn, m->hidden);
            add(items, &n, l, m->ffn, m->hidden);
            add(items, &n, l, m->hidden, m->ffn);
        }
    }
    return n;
}

static int row(const struct dims *m, uint32_t n_ranks, struct assign_item *items)
{
    struct assign_problem p = {.items = items, .n_ranks = n_ranks};
    struct assign_result r, base;
    struct arena a;
    struct err e = {0};
    int rc = -1;

    arena_init(&a);
    p.n_items = build(m, items);
    if (assign_solve(&p, ASSIGN_ILP, &a, &r, &e))
        goto out;
    printf("%-14s %5u %6u %12.5g %12.5g %7.4f %-2s %8.4f %7llu %-18s %8.1f", m->name, p.n_items,
           n_ranks, (double)r.flops_max, (double)r.bound, r.gap_percent,
           r.optimal_second ? "2" : (r.optimal ? "1" : "-"), (double)r.bytes_max / r.bytes_mean,
           (unsigned long long)r.n_patterns, r.solver, r.solve_ms);
    for (uint32_t i = 0; i < ASSIGN_ILP; i++) {
        if (assign_solve(&p, (enum assign_method)i, &a, &base, &e))
            goto out;
        printf(" %7.4f", (double)base.flops_max / (double)r.bound);
    }
    printf("\n");
    fflush(stdout);
    rc = 0;
out:
    if (rc)
        fprintf(stderr, "error: %s at %u ranks: %s\n", m->name, n_ranks, e.msg);
    arena_release(&a);
    return rc;
}

int main(int argc, char **argv)
{
    struct assign_item *items = MEM_NEW(struct assign_item, 65536);
    int rc = 0;

    printf("%-14s %5s %6s %12s %12s %7s %-2s %8s %7s %-18s %8s", "model", "items", "ranks",
           "load max", "bound", "gap %", "ok", "bytes/av", "pattern", "solver", "ms");
    printf(" %7s %7s %7s %7s %7s %7s\n", "robin", "lpt-num", "role", "scope", "lpt-flo", "megatr");
    for (size_t i = 0; i < COUNT(models); i++)
        for (size_t j = 0; j < COUNT(world); j++)
            if (argc < 2 || strstr(models[i].name, argv[1]))
                rc |= row(&models[i], world[j], items);
    mem_free(items);
    return rc ? 1 : 0;
}
