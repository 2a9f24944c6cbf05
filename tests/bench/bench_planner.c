/* tests/bench/bench_planner.c - how good and how fast are the owner assignments?
 *
 * For the bundled models, two more of published dimensions, and 8 to 16384 ranks: the heaviest optimizer load of the
 * ILP method, its proven bound and gap, the solver that answered, its time, and each baseline's heaviest load as a ratio
 * to that bound (1.0000 is optimal). Load is Muon's: 5 Newton-Schulz steps of 4 m^2 n + 2 m^3; bytes are bf16 parameter and gradient,
 * fp32 momentum and master copy (12 a parameter). All matrices of a layer are one unit.
 * Expected: every dense model proven at every size, below 1 s in all on one core.
 * Run: bench_planner [name]   (name: only models that contain it)
 */
#include "model/plan/model_load.h"
#include "model/tensors/model.h"
#include "planner/assign.h"

#include <stdio.h>
#include <string.h>

/* Models that are not bundled: one as a config.json, one by hand (see add_latent()). */
static const char qwen3_30b_a3b[] =
    "{\"model_type\":\"qwen3_moe\",\"hidden_size\":2048,\"intermediate_size\":6144,"
    "\"moe_intermediate_size\":768,\"num_hidden_layers\":48,\"num_attention_heads\":32,"
    "\"num_key_value_heads\":4,\"head_dim\":128,\"vocab_size\":151936,\"num_experts\":128,"
    "\"num_experts_per_tok\":8,\"tie_word_embeddings\":false,\"hidden_act\":\"silu\"}";

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
static void add_latent(struct assign_item *items, uint32_t *n, uint32_t l)
{
    uint32_t copies = l < 3 ? 1 : 257, ffn = l < 3 ? 18432 : 2048, hidden = 7168;

    add(items, n, l, 1536, hidden);
    add(items, n, l, 24576, 1536);
    add(items, n, l, 576, hidden);
    add(items, n, l, 32768, 512);
    add(items, n, l, hidden, 16384);
    for (uint32_t i = 0; i < 3 * copies; i++)
        add(items, n, l, i % 3 == 2 ? hidden : ffn, i % 3 == 2 ? ffn : hidden);
}

static uint32_t build(const struct model *m, struct assign_item *items)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < m->n_tensors; i++)
        if (tensor_is_matrix(&m->tensors[i]))
            add(items, &n, m->tensors[i].unit, (uint32_t)m->tensors[i].rows,
                (uint32_t)m->tensors[i].cols);
    return n;
}

static int row(const char *name, uint32_t n_ranks, const struct assign_item *items, uint32_t n)
{
    struct assign_problem p = {.items = items, .n_items = n, .n_ranks = n_ranks};
    struct assign_result r, base;
    struct arena a;
    struct err e = {0};
    int rc = -1;

    arena_init(&a);
    if (assign_solve(&p, ASSIGN_ILP, &a, &r, &e))
        goto out;
    printf("%-14s %5u %6u %12.5g %12.5g %7.4f %-2s %8.4f %7llu %-18s %8.1f", name, p.n_items,
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
        fprintf(stderr, "error: %s at %u ranks: %s\n", name, n_ranks, e.msg);
    arena_release(&a);
    return rc;
}

static int rows(const char *name, const char *only, const struct assign_item *items, uint32_t n)
{
    int rc = 0;

    for (size_t j = 0; j < COUNT(world); j++)
        if (!only || strstr(name, only))
            rc |= row(name, world[j], items, n);
    return rc;
}

int main(int argc, char **argv)
{
    struct assign_item *items = MEM_NEW(struct assign_item, 65536);
    const char *const *names = model_bundled_names();
    const char *only = argc > 1 ? argv[1] : NULL;
    struct model m;
    struct arena a;
    struct err e = {0};
    uint32_t n = 0;
    int rc = 0;

    printf("%-14s %5s %6s %12s %12s %7s %-2s %8s %7s %-18s %8s", "model", "items", "ranks",
           "load max", "bound", "gap %", "ok", "bytes/av", "pattern", "solver", "ms");
    printf(" %7s %7s %7s %7s %7s %7s\n", "robin", "lpt-num", "role", "scope", "lpt-flo", "megatr");
    arena_init(&a);
    for (size_t i = 0; names[i]; i++) {
        if (model_load(names[i], 1024, &a, &m, &e)) {
            fprintf(stderr, "error: %s\n", e.msg);
            rc = 1;
            continue;
        }
        rc |= rows(names[i], only, items, build(&m, items));
    }
    if (model_from_config(qwen3_30b_a3b, sizeof(qwen3_30b_a3b) - 1, "qwen3-30b-a3b", &a, &m, &e)) {
        fprintf(stderr, "error: %s\n", e.msg);
        rc = 1;
    } else {
        rc |= rows("qwen3-30b-a3b", only, items, build(&m, items));
    }
    for (uint32_t l = 0; l < 61; l++)
        add_latent(items, &n, l);
    rc |= rows("deepseek-v3", only, items, n);
    arena_release(&a);
    mem_free(items);
    return rc ? 1 : 0;
}
