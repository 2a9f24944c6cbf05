/* ballast calibrate: measures this machine's constants and writes them as a cluster of one node, a rank a GPU.
 *
 * Small models are trained for a few steps under several layouts on the ranks of the job, and products, copies and
 * collectives run alone. Every time measured is, in the simulator's model (sim/device.c, sim/collective.c; docs/MODEL.md),
 * a sum of features (cli/calibrate_features.h) with the constants as coefficients, and these
 * are the ones, none negative, that minimise the squared error over the time, so that an operation counts by how long it
 * takes and not by how often it was seen. The one rate for all other kernels (hbm_efficiency, attention) is what all samples
 * together moved a second. What the model leaves out lands in the error that is printed: caches, and that a
 * byte of a sum costs more than a byte of a copy. */
#include "cli/calibrate_features.h"
#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/output.h"
#include "core/table.h"
#include "core/version.h"
#include "exec/sample.h"
#include "layouts/layout.h"
#include "model/plan/model_load.h"
#include "sim/sim.h"

#include <math.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const char *const dtypes[] = {"fp32", "bf16", "fp16", NULL};
static const enum dtype dtype_of[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
static const struct opt rows[] = {
    {.name = "dtype",
     .type = OPT_CHOICE,
     .choices = dtypes,
     .dflt_note = "fp32; bf16 on a GPU",
     .help = "of parameters and gradients of the steps that are measured"},
    {.name = "steps",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt = "5",
     .min = 1,
     .max = 1000,
     .help = "of each small model; times are medians"},
    {.name = "format",
     .type = OPT_CHOICE,
     .choices = table_formats,
     .dflt = "table",
     .help = "of the table on standard output"},
    {.name = "output",
     .letter = 'o',
     .type = OPT_STRING,
     .meta = "FILE",
     .dflt_note = "none",
     .help = "the cluster file",
     .own = true},
    OPT_HELP_ROW,
};

/* ---- what is measured ---- */

/* Models and products that fill the machine and take seconds in all. */
enum { N_MODELS = 3, N_GRID = 7 };
struct sizes {
    const char *models[N_MODELS];
    uint64_t seq_len, grid[N_GRID][3];
};
static const struct sizes on_cores = {
    .models = {"block:layers=2,hidden=256,ffn=1024,heads=4,mlp=swiglu,vocab=512",
               "block:layers=1,hidden=512,ffn=1024,heads=8,mlp=gelu,vocab=1024",
               "block:layers=3,hidden=128,ffn=512,heads=4,mlp=swiglu,vocab=256"},
    .seq_len = 256,
    .grid = {{256, 256, 256},
             {256, 1024, 256},
             {256, 256, 1024},
             {512, 512, 512},
             {1024, 1024, 256},
             {256, 1024, 1024},
             {1024, 1024, 1024}}};
static const struct sizes on_gpu = {
    .models = {"block:layers=2,hidden=4096,ffn=14336,heads=32,kv-heads=8,mlp=swiglu,vocab=32000",
               "block:layers=2,hidden=2048,ffn=8192,heads=16,mlp=gelu,vocab=50304",
               "block:layers=4,hidden=1024,ffn=4096,heads=16,mlp=swiglu,vocab=32000"},
    .seq_len = 2048,
    .grid = {{2048, 1024, 1024},
             {2048, 4096, 1024},
             {4096, 4096, 4096},
             {4096, 14336, 4096},
             {4096, 4096, 14336},
             {2048, 32000, 2048},
             {8192, 8192, 8192}}};

struct calibration {
    struct opts opts;
    struct arena arena;
    struct machine on;
    struct nonneg kernels, colls;
    const struct sizes *sizes;
    double peak_flops, copy_Bps, call_s, link_Bps;
    double fp32_share;     /* of the rate of products in dtype */
    struct gemm_grid grid; /* of a GPU */
    uint64_t n_steps;
    enum dtype dtype;
    struct cluster cluster;
    struct table table;
    struct strbuf out;
};

static bool is_gpu(const struct calibration *c)
{
    return c->on.b.device.n_sm > 1;
}

static struct kernel_call product(const struct calibration *c, int i)
{
    const uint64_t *g = c->sizes->grid[i];

    return (struct kernel_call){.kernel = KERNEL_GEMM,
                                .m = g[0],
                                .n = g[1],
                                .k = g[2],
                                .batch = 1,
                                .launches = 1,
                                .fp32 = c->dtype == DTYPE_FP32};
}

static const struct table_col cols[] = {
    {"what", "what", TABLE_TEXT, 0, TABLE_AUTO},
    {"shape", "shape", TABLE_TEXT, 0, TABLE_AUTO},
    {"measured", "measured", TABLE_FIXED, 3, TABLE_AUTO},
    {"fitted", "fitted", TABLE_FIXED, 3, TABLE_AUTO},
    {"unit", "unit", TABLE_TEXT, 0, TABLE_AUTO},
};

static void row(struct calibration *c, const char *what, const char *shape, double measured,
                double fitted, const char *unit)
{
    table_row(&c->table);
    table_set_str(&c->table, "what", what);
    table_set_str(&c->table, "shape", shape);
    if (measured >= 0)
        table_set_double(&c->table, "measured", measured);
    if (fitted >= 0)
        table_set_double(&c->table, "fitted", fitted);
    table_set_str(&c->table, "unit", unit);
}

static void make_job(const struct calibration *c, struct plan *p, const char *layout,
                     enum optimizer o)
{
    p->job = (struct job){.nodes = 1,
                          .gpus = c->on.t.size,
                          .layout = layout,
                          .optimizer = o,
                          .ns_steps = 5,
                          .seq_len = c->sizes->seq_len,
                          .micro_batch = 1,
                          .grad_accum = 1,
                          .param_dtype = c->dtype,
                          .grad_dtype = c->dtype,
                          .state_dtype = DTYPE_FP32,
                          .master_weights = c->dtype != DTYPE_FP32,
                          .recompute = RECOMPUTE_FULL,
                          .gather = ALGO_RING,
                          .prefetch = 1,
                          .bucket_bytes = 64 << 20,
                          .planner = "round-robin",
                          .objective = "flops,bytes",
                          .tp = 1,
                          .pp = 1,
                          .ep = 1,
                          .framework = FRAMEWORK_FSDP2};
    calibrate_unit_links(&p->cluster, c->on.t.size);
    p->cluster.name = p->cluster.summary = p->cluster.source = p->cluster.device.name = "this";
    p->cluster.nic_name = "";
}

/* Matrices in turn; a unit's vectors to one rank. */
static void choose_owners(struct plan *p)
{
    uint32_t k = 0;

    for (uint32_t i = 0; i < p->model.n_tensors; i++)
        if (p->place[i].rule == PLACE_OWNER)
            p->place[i].owner = layout_updates_as_matrix(p, &p->model.tensors[i])
                                    ? k++ % p->world
                                    : p->model.tensors[i].unit % p->world;
}

static int on_op(void *ctx, const struct exec_run *r, const struct instance *i, struct err *e)
{
    const struct op *o = &r->p->ops[i->op];

    (void)e;
    machine_doing(ctx, "%s of %s: %s of unit %s", phase_name(o->phase), r->plan->layout_full,
                  o->name, r->p->model->units[i->unit].name);
    return 0;
}

static int steps(struct calibration *c, const char *model, const char *layout, enum optimizer o,
                 struct err *e)
{
    struct run_options ro = {.seed = 1, .lr = 0.02, .on_op = on_op, .on_op_ctx = &c->on};
    double x[N_KERNEL];
    struct program p;
    struct plan plan;
    struct sample *s;
    struct arena a;
    size_t n;
    int status = -1;

    arena_init(&a);
    memset(&plan, 0, sizeof(plan));
    make_job(c, &plan, layout, o);
    if (model_load(model, plan.job.seq_len, &a, &plan.model, e) || layout_place(&plan, &a, e))
        goto out;
    choose_owners(&plan);
    if (layout_lower(&plan, &a, &p, e) ||
        sample_steps(&plan, &p, &c->on.b, &ro, (uint32_t)opts_get(&c->opts, "steps")->u64, &a, &s,
                     &n, e))
        goto out;
    for (size_t i = 0; i < n; i++) {
        const struct op *op = &p.ops[s[i].id.op];

        if (op->kind == OP_COMPUTE) {
            struct kernel_call call = op_call(&p, op, s[i].id.item);

            calibrate_kernel_features(&call, c->on.b.device.n_sm, x);
            nonneg_add(&c->kernels, x, s[i].s);
            if (calibrate_by_products(call.kernel) && call.flops)
                c->peak_flops = fmax(c->peak_flops, (double)call.flops / s[i].s);
        } else if (c->on.t.size > 1) {
            calibrate_coll_features(&p, op, &s[i].id, x);
            nonneg_add(&c->colls, x, s[i].s);
        }
    }
    c->n_steps += opts_get(&c->opts, "steps")->u64;
    status = 0;
out:
    arena_release(&a);
    return status;
}

static int all_steps(struct calibration *c, struct err *e)
{
    static const struct {
        const char *layout;
        enum optimizer optimizer;
    } many[] = {{"ddp", OPTIMIZER_MUON},
                {"zero3+gather", OPTIMIZER_MUON},
                {"zero1+owner", OPTIMIZER_MUON},
                {"zero3+owner", OPTIMIZER_MUON}};

    for (size_t m = 0; m < N_MODELS; m++)
        for (size_t l = 0; l < (c->on.t.size > 1 ? sizeof(many) / sizeof(many[0]) : 1); l++)
            if (steps(c, c->sizes->models[m], many[l].layout, many[l].optimizer, e))
                return err_prefix(e, "%s", many[l].layout);
    return 0;
}

/* What corrects the tile model by shape. A CPU's products follow their rate. */
static void measure_grid(struct calibration *c)
{
    static const double sizes[3][3] = {{1024, 8192}, {1024, 4096, 16384}, {1024, 4096, 16384}};
    struct gemm_grid *g = &c->grid;

    for (uint32_t i = 0; i < 3; i++) {
        g->n[i] = i ? 3 : 2;
        memcpy(g->at[i], sizes[i], sizeof(sizes[i]));
    }
    for (uint32_t m = 0; m < g->n[0]; m++)
        for (uint32_t n = 0; n < g->n[1]; n++)
            for (uint32_t k = 0; k < g->n[2]; k++)
                g->us[m][n][k] =
                    (float)(1e6 * sample_gemm(&c->on.b, c->dtype, (uint64_t)g->at[0][m],
                                              (uint64_t)g->at[1][n], (uint64_t)g->at[2][k]));
}

static void alone(struct calibration *c, double s[N_GRID])
{
    double x[N_KERNEL];

    machine_doing(&c->on, "products and copies alone");
    for (int i = 0; i < N_GRID; i++) {
        struct kernel_call k = product(c, i);

        s[i] = sample_gemm(&c->on.b, c->dtype, k.m, k.n, k.k);
        calibrate_kernel_features(&k, c->on.b.device.n_sm, x);
        nonneg_add(&c->kernels, x, s[i]);
        c->peak_flops = fmax(c->peak_flops, 2.0 * (double)(k.m * k.n * k.k) / s[i]);
    }
    if (c->dtype != DTYPE_FP32 && is_gpu(c)) {
        struct kernel_call k = product(c, N_GRID - 1);

        c->fp32_share = s[N_GRID - 1] / sample_gemm(&c->on.b, DTYPE_FP32, k.m, k.n, k.k);
    }
    if (is_gpu(c))
        measure_grid(c);
    c->copy_Bps = sample_copy_Bps(&c->on.b, is_gpu(c) ? 1 << 30 : 64 << 20);
    c->call_s = sample_launch_s(&c->on.b);
}

static const struct {
    enum coll_kind kind;
    double rounds, bytes; /* times n - 1, times (n - 1) / n; point-to-point: one, all */
} kinds[] = {{COLL_ALL_GATHER, 1, 1},
             {COLL_REDUCE_SCATTER, 1, 1},
             {COLL_ALL_REDUCE, 2, 2},
             {COLL_SEND, 0, 0}};
enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]), N_SIZES = 4 };

/* Rows of collectives alone; their fitted times come later, when there are constants. */
struct coll_row {
    uint32_t kind, n;
    size_t bytes;
    double s, x[N_COLL];
};

static int collectives_alone(struct calibration *c, struct coll_row **out, size_t *n_out,
                             struct err *e)
{
    size_t n = 0, cap = 0;

    *out = NULL;
    for (uint32_t r = 2; r <= c->on.t.size;
         r = r < c->on.t.size && 2 * r > c->on.t.size ? c->on.t.size : 2 * r)
        for (uint32_t k = 0; k < N_KINDS; k++)
            for (uint32_t z = 0; z < N_SIZES; z++) {
                struct coll_row x = {.kind = k, .n = r, .bytes = (size_t)4096 << 4 * z};

                machine_doing(&c->on, "%s alone on %u ranks", coll_kind_name(kinds[k].kind), r);
                if (sample_collective(&c->on.b, kinds[k].kind, r, x.bytes, &x.s, e))
                    return -1;
                x.x[Y_BASE] = 1;
                x.x[Y_STEP] = kinds[k].rounds * (r - 1);
                x.x[Y_BYTES] = kinds[k].kind == COLL_SEND
                                   ? (double)x.bytes
                                   : kinds[k].bytes * (double)x.bytes * (r - 1) / r;
                nonneg_add(&c->colls, x.x, x.s);
                c->link_Bps = fmax(c->link_Bps, x.x[Y_BYTES] / x.s);
                *out = mem_grow(*out, &cap, n + 1, sizeof(**out));
                (*out)[n++] = x;
            }
    *n_out = n;
    return 0;
}

/* ---- the cluster ---- */

/* "nvidia-h200": what a name of a cluster is made of. */
static const char *slug(struct arena *a, const char *name)
{
    char *s = arena_strdup(a, name), *to = s;

    for (const char *p = name; *p; p++)
        if ((*p >= 'a' && *p <= 'z') || (*p >= '0' && *p <= '9'))
            *to++ = *p;
        else if (*p >= 'A' && *p <= 'Z')
            *to++ = (char)(*p - 'A' + 'a');
        else if (to > s && to[-1] != '-')
            *to++ = '-';
    while (to > s && to[-1] == '-')
        to--;
    *to = 0;
    return s;
}

static uint64_t resident_bytes(void)
{
    unsigned long long pages = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");

    if (f) {
        if (fscanf(f, "%llu %llu", &pages, &resident) != 2)
            resident = 0;
        fclose(f);
    }
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* A part of a whole, in the range that a cluster file allows; the whole grows when the fit is above it. */
static double share(double fitted, double *whole)
{
    if (fitted > *whole)
        *whole = fitted;
    return fmax(fitted / *whole, 1e-3);
}

/* What is not fixed by what a rank is: one core, nothing fragmented, no protocols. */
static bool is_measured(const char *path)
{
    static const char *const fixed[] = {"device.tf32_share",
                                        "device.fragmentation",
                                        "device.sms",
                                        "device.sustained_factor",
                                        "node.gpus",
                                        "node.nvlink.kind",
                                        "collectives.rate_share",
                                        "collectives.ramp",
                                        "collectives.ramp_at"};

    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++)
        if (!strcmp(path, fixed[i]))
            return false;
    return true;
}

static void describe(struct calibration *c, uint64_t context)
{
    struct cluster *k = &c->cluster;
    struct device *d = &k->device;
    uint32_t ranks = c->on.t.size;
    const struct backend_device *on = &c->on.b.device;
    const char *cpu = on->name, **sources;

    calibrate_unit_links(k, ranks);
    k->name = is_gpu(c) ? arena_printf(&c->arena, "%s-x%u", slug(&c->arena, cpu), ranks)
                        : arena_printf(&c->arena, "cpu-%u", ranks);
    k->summary = arena_printf(&c->arena, "%u ranks on %s, %s products, %s%s", ranks, cpu,
                              is_gpu(c) ? "cuBLAS" : c->on.gemm_name, dtype_name(c->dtype),
                              c->on.b.cpu_clock ? ", CPU time" : "");
    k->source = arena_printf(&c->arena, "ballast calibrate %s", ballast_version);
    k->nic_name = "";
    d->name = is_gpu(c) ? cpu : arena_printf(&c->arena, "a rank on %s", cpu);
    d->memory_bytes = is_gpu(c) ? on->memory_bytes : on->memory_bytes / ranks;
    d->context_bytes = on->context_bytes ? on->context_bytes : context;
    d->peak_flops = c->peak_flops;
    d->n_sm = on->n_sm;
    d->tf32_share = fmin(c->fp32_share, 1);
    d->gemm_efficiency = share(1 / fmax(c->kernels.x[X_WORK], 1e-19), &d->peak_flops);
    d->gemm_k0 = fmin(c->kernels.x[X_AREA] / fmax(c->kernels.x[X_WORK], 1e-19), 1e6);
    d->hbm_Bps = c->copy_Bps;
    for (int i = 0; i < KERNEL_N; i++) {
        double s = c->kernels.x[X_RATE + i]; /* 0: not seen, or lost in its launches */

        if (s > 0 && kernel_bound((enum kernel)i) == 'A')
            d->kernel_rate[i] = fmin(1 / s, d->peak_flops);
        else if (s > 0)
            d->kernel_rate[i] = 1 / s;
        if (s > 0 && kernel_bound((enum kernel)i) == 'E')
            d->hbm_Bps = fmax(d->hbm_Bps, d->kernel_rate[i]); /* out of a cache */
    }
    d->hbm_efficiency = share(calibrate_common_rate(&c->kernels, 'E'), &d->hbm_Bps);
    d->attention_flops = fmin(calibrate_common_rate(&c->kernels, 'A'), d->peak_flops);
    d->sustained_factor = 1;
    d->launch_s = c->call_s;
    d->kernel_s = c->kernels.x[X_LAUNCH];
    if (c->grid.n[0]) {
        c->grid.model =
            (struct gemm_grid_model){.sm_flops = d->peak_flops * d->gemm_efficiency / d->n_sm,
                                     .sms = d->n_sm,
                                     .k0 = d->gemm_k0,
                                     .hbm_Bps = d->hbm_Bps * d->hbm_efficiency,
                                     .kernel_s = d->kernel_s};
        d->gemm_grid = &c->grid;
    }
    k->nvlink_Bps = ranks > 1 ? c->link_Bps : c->copy_Bps / 2;
    k->nvlink_efficiency =
        ranks > 1 ? share(1 / fmax(c->colls.x[Y_BYTES], 1e-15), &k->nvlink_Bps) : 1;
    for (int i = 0; i < PROTOCOL_N; i++) {
        k->coll.base_s[i] = ranks > 1 ? c->colls.x[Y_BASE] : 0;
        k->coll.step_s[i] = ranks > 1 ? c->colls.x[Y_STEP] : 0;
    }
    sources = ARENA_NEW(&c->arena, const char *, cluster_n_fields());
    for (size_t i = 0; i < cluster_n_fields(); i++) {
        struct cluster_field f;

        if (!cluster_field(k, i, &c->arena, &f))
            continue;
        sources[i] =
            !is_measured(f.path) ? arena_printf(&c->arena, "fixed by ballast calibrate on %s", cpu)
            : ranks == 1 && (!strncmp(f.path, "node.nvlink", 11) || !strncmp(f.path, "coll", 4))
                ? arena_printf(&c->arena,
                               "not measured by ballast calibrate on one rank of %s; mpirun -np N "
                               "measures transfers",
                               cpu)
                : arena_printf(&c->arena, "measured by ballast calibrate on %s", cpu);
    }
    k->sources = sources;
}

/* Written only when it reads back as the same. */
static int write_cluster(struct calibration *c, struct err *e)
{
    const char *path = opts_get(&c->opts, "output")->text;
    cJSON *doc = cluster_to_json(&c->cluster);
    struct cluster again;
    struct strbuf text;
    int status;

    strbuf_init(&text);
    json_print(doc, true, &text);
    strbuf_puts(&text, "\n");
    status = cluster_from_json(text.s, text.len, path ? path : "the cluster", &c->arena, &again, e);
    if (!status && path)
        status = output_write(path, &text, e);
    strbuf_release(&text);
    json_free(doc);
    return status;
}

/* ---- the table ---- */

static void tell(struct calibration *c, const double gemm[N_GRID], const struct coll_row *r,
                 size_t n)
{
    const struct device *d = &c->cluster.device;
    const double *y = c->colls.x;
    double x[N_KERNEL];

    for (int i = 0; i < N_GRID; i++) {
        struct kernel_call k = product(c, i);
        double flops = 2.0 * (double)(k.m * k.n * k.k);

        calibrate_kernel_features(&k, c->on.b.device.n_sm, x);
        row(c, "product",
            arena_printf(&c->arena, "%llu x %llu x %llu", (unsigned long long)k.m,
                         (unsigned long long)k.n, (unsigned long long)k.k),
            flops / gemm[i] / 1e9, flops / calibrate_seconds(d, &k) / 1e9, "GFLOP/s");
    }
    row(c, "product rate", "largest tile", c->peak_flops / 1e9,
        d->peak_flops * d->gemm_efficiency / 1e9, "GFLOP/s");
    row(c, "k0", "", -1, d->gemm_k0, "elements");
    row(c, "attention", "forward and backward", -1, d->attention_flops / 1e9, "GFLOP/s");
    row(c, "memory", "copy; elementwise kernels", c->copy_Bps / 1e9,
        d->hbm_Bps * d->hbm_efficiency / 1e9, "GB/s");
    for (int k = 0; k < KERNEL_N; k++)
        if (d->kernel_rate[k] > 0)
            row(c, "kernel", kernel_name((enum kernel)k), -1, d->kernel_rate[k] / 1e9,
                kernel_bound((enum kernel)k) == 'A' ? "GFLOP/s" : "GB/s");
    row(c, "kernel", "fixed time", -1, d->kernel_s * 1e6, "us");
    row(c, "launch", "a call", c->call_s * 1e6, d->launch_s * 1e6, "us");
    for (size_t i = 0; i < n; i++)
        row(c, coll_kind_name(kinds[r[i].kind].kind),
            arena_printf(&c->arena, "%u ranks, %zu bytes", r[i].n, r[i].bytes), r[i].s * 1e6,
            (y[Y_BASE] * r[i].x[Y_BASE] + y[Y_STEP] * r[i].x[Y_STEP] +
             y[Y_BYTES] * r[i].x[Y_BYTES]) *
                1e6,
            "us");
    if (c->on.t.size > 1) {
        row(c, "collective", "base", -1, y[Y_BASE] * 1e6, "us");
        row(c, "collective", "step", -1, y[Y_STEP] * 1e6, "us");
        row(c, "between ranks", "rate", c->link_Bps / 1e9,
            c->cluster.nvlink_Bps * c->cluster.nvlink_efficiency / 1e9, "GB/s");
    }
}

static void report(struct calibration *c)
{
    enum table_format f = (enum table_format)opts_get(&c->opts, "format")->u64;

    table_print(&c->table, f, &c->out);
    if (f != TABLE_AS_TABLE && f != TABLE_AS_MD)
        return;
    strbuf_printf(&c->out,
                  "\n%s: %llu steps of small models; the fit is off by %.1f %% of the time in "
                  "kernels (%zu samples)",
                  c->cluster.summary, (unsigned long long)c->n_steps,
                  100 * nonneg_error(&c->kernels), c->kernels.n_rows);
    if (c->on.t.size > 1)
        strbuf_printf(&c->out, " and %.1f %% in collectives (%zu)", 100 * nonneg_error(&c->colls),
                      c->colls.n_rows);
    strbuf_puts(&c->out, opts_get(&c->opts, "output")->set
                             ? "\n"
                             : "\n-o FILE writes it as a cluster, for --cluster FILE\n");
}

static int run(struct calibration *c, struct err *e)
{
    uint64_t context = resident_bytes();
    struct coll_row *r = NULL;
    double gemm[N_GRID];
    size_t n = 0;
    int status;

    nonneg_init(&c->kernels, N_KERNEL);
    nonneg_init(&c->colls, N_COLL);
    c->sizes = is_gpu(c) ? &on_gpu : &on_cores;
    c->fp32_share = 1; /* of a BLAS: products are fp32 whatever the storage is */
    c->dtype = opts_get(&c->opts, "dtype")->set ? dtype_of[opts_get(&c->opts, "dtype")->u64]
               : is_gpu(c)                      ? DTYPE_BF16
                                                : DTYPE_FP32;
    if (c->on.t.size > CLUSTER_MAX_GPUS_PER_NODE)
        return err_set(e, ERR_INVALID, "%u ranks; a node has at most %d", c->on.t.size,
                       CLUSTER_MAX_GPUS_PER_NODE);
    alone(c, gemm);
    status = all_steps(c, e);
    if (!status)
        status = collectives_alone(c, &r, &n, e);
    if (!status && c->on.t.rank == 0) {
        nonneg_solve(&c->kernels);
        nonneg_solve(&c->colls);
        describe(c, context);
        tell(c, gemm, r, n);
        report(c);
        status = write_cluster(c, e);
    }
    mem_free(r);
    return status;
}

static int help(const struct opts *o)
{
    printf("ballast-exec %s calibrate: measures this machine and writes it as a cluster\n\n"
           "usage: [mpirun -np N] ballast-exec calibrate [-o FILE] [options]\n\n"
           "A node of N GPUs is what N ranks of this machine are together; one rank measures no "
           "transfers.\n\n",
           ballast_version);
    opts_help(stdout, o);
    return 0;
}

int calibrate_main(int argc, char **argv)
{
    struct calibration c;
    struct err e = {.code = ERR_NONE};
    int status = -1;

    memset(&c, 0, sizeof(c));
    machine_init(&c.on);
    arena_init(&c.arena);
    strbuf_init(&c.out);
    table_init(&c.table, cols, sizeof(cols) / sizeof(cols[0]));
    opts_init(&c.opts);
    opts_add(&c.opts, "Options", rows, sizeof(rows) / sizeof(rows[0]));
    opts_add(&c.opts, "Where", machine_rows, machine_n_rows);
    if (opts_wants_help(argc - 1, argv + 1))
        status = help(&c.opts);
    else if (!opts_parse(&c.opts, argc - 1, argv + 1, &e) &&
             !opts_positionals(&c.opts, 0, 0, "", &e) && !output_check_targets(&c.opts, &e) &&
             !machine_open(&c.on, "calibrate", &c.opts, &e))
        status = run(&c, &e);
    if (!status && c.on.t.rank == 0 && output_write(NULL, &c.out, &e))
        status = -1;
    if (status < 0)
        status = machine_fail(&c.on, &e);
    machine_close(&c.on);
    nonneg_release(&c.kernels);
    nonneg_release(&c.colls);
    table_release(&c.table);
    strbuf_release(&c.out);
    opts_release(&c.opts);
    arena_release(&c.arena);
    return status;
}
