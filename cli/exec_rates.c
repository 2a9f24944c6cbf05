/* ballast-exec rates: Newton-Schulz beside the library's own products on the same shapes, memory and launches, on the device at
 * hand. */
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/machine.h"
#include "cli/output.h"
#include "core/table.h"
#include "core/version.h"
#include "exec/peak.h"
#include "exec/sample.h"

#include <signal.h>
#include <string.h>

static const char *const dtypes[] = {"fp32", "bf16", "fp16", NULL};
static const enum dtype dtype_of[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
static const struct opt rows[] = {
    {.name = "dtype",
     .type = OPT_CHOICE,
     .choices = dtypes,
     .dflt_note = "fp32; bf16 on a GPU",
     .help = "of the matrices"},
    {.name = "ns-steps",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt = "5",
     .min = 1,
     .max = 100,
     .help = "of Newton-Schulz"},
    COMMAND_OUTPUT_ROWS,
};

static const struct table_col cols[] = {
    {"shape", "shape", TABLE_TEXT, 0, TABLE_AUTO},
    {"newton_schulz_ms", "Newton-Schulz ms", TABLE_FIXED, 3, TABLE_AUTO},
    {"newton_schulz_tflops", "TFLOP/s", TABLE_FIXED, 3, TABLE_AUTO},
    {"product_tflops", "X X^T TFLOP/s", TABLE_FIXED, 3, TABLE_AUTO},
    {"share_percent", "share %", TABLE_FIXED, 1, TABLE_AUTO},
    {"gram_ms", "Gram form ms", TABLE_FIXED, 3, TABLE_AUTO},
    {"symmetric_tflops", "our X X^T TFLOP/s", TABLE_FIXED, 3, TABLE_AUTO},
    {"symmetric_ratio", "ours/library", TABLE_FIXED, 2, TABLE_AUTO},
};

enum { N_SHAPES = 7 };
static const uint64_t on_cores[N_SHAPES][2] = {{128, 128},  {256, 256}, {256, 1024}, {512, 512},
                                               {512, 2048}, {768, 768}, {1024, 1024}};
static const uint64_t on_gpu[N_SHAPES][2] = {{1024, 1024}, {2048, 2048},  {1024, 4096},
                                             {4096, 4096}, {4096, 11008}, {4096, 14336},
                                             {5120, 25600}};

/* A step: X X^T and B X on (m, n), A A on (m, m). */
static double ns_flops(uint64_t m, uint64_t n, uint32_t steps)
{
    return steps * (4.0 * (double)(m * m) * (double)n + 2.0 * (double)(m * m) * (double)m);
}

struct rates {
    struct opts opts;
    struct machine on;
    struct table table;
    struct strbuf out;
};

/* Shapes on which our kernel is faster than the library's product. */
static uint32_t measure(struct rates *x, enum dtype d)
{
    bool gpu = x->on.b.device.n_sm > 1;
    uint32_t steps = (uint32_t)opts_get(&x->opts, "ns-steps")->u64, faster = 0;

    for (int i = 0; i < N_SHAPES && !x->on.b.failed; i++) {
        const uint64_t *s = gpu ? on_gpu[i] : on_cores[i];
        double ns = sample_orthogonalize(&x->on.b, d, KERNEL_NS_STANDARD, s[0], s[1], steps),
               gram = sample_orthogonalize(&x->on.b, d, KERNEL_NS_GRAM, s[0], s[1], steps),
               gemm = sample_gemm(&x->on.b, d, s[0], s[0], s[1]);
        double rate = ns_flops(s[0], s[1], steps) / ns,
               own = 2.0 * (double)(s[0] * s[0]) * (double)s[1] / gemm, ours;
        char text[48];

        snprintf(text, sizeof(text), "%llu x %llu", (unsigned long long)s[0],
                 (unsigned long long)s[1]);
        table_row(&x->table);
        table_set_str(&x->table, "shape", text);
        table_set_double(&x->table, "newton_schulz_ms", ns * 1e3);
        table_set_double(&x->table, "newton_schulz_tflops", rate / 1e12);
        table_set_double(&x->table, "product_tflops", own / 1e12);
        table_set_double(&x->table, "share_percent", 100 * rate / own);
        table_set_double(&x->table, "gram_ms", gram * 1e3);
        if (!gpu || d != DTYPE_BF16) /* on a CPU it is the reference that tests use */
            continue;
        gemm = sample_symmetric(&x->on.b, s[0], s[1]);
        ours = 2.0 * (double)(s[0] * s[0]) * (double)s[1] / gemm;
        table_set_double(&x->table, "symmetric_tflops", ours / 1e12);
        table_set_double(&x->table, "symmetric_ratio", ours / own);
        faster += ours > own;
    }
    return faster;
}

static int run(struct rates *x, int argc, char **argv, struct err *e)
{
    struct backend *b = &x->on.b;
    const struct opt_val *choice = opts_get(&x->opts, "dtype");
    enum dtype d = choice->set          ? dtype_of[choice->u64]
                   : b->device.n_sm > 1 ? DTYPE_BF16
                                        : DTYPE_FP32;
    enum table_format f = (enum table_format)opts_get(&x->opts, "format")->u64;
    const char *how = NULL;
    double copy, launch, peak;
    uint32_t faster;

    if (x->on.t.size > 1)
        return err_set(e, ERR_USAGE, "rates measures one device: no mpirun");
    faster = measure(x, d);
    copy = sample_copy_Bps(b, b->device.n_sm > 1 ? 1 << 30 : 64 << 20);
    launch = sample_launch_s(b);
    peak = b->device.n_sm > 1 ? 0 : peak_flops(&how); /* of a core */
    if (backend_status(b, e))
        return -1;
    if (f == TABLE_AS_JSON) {
        cJSON *doc = output_document("ballast-exec-rates", 1, argc, argv);

        json_add_str(doc, "device", b->device.name);
        json_add_str(doc, "backend", b->lib->name);
        json_add_str(doc, "dtype", dtype_name(d));
        json_add_str(doc, "gemm", b->device.n_sm > 1 ? NULL : x->on.gemm_name);
        if (peak > 0)
            json_add_double(doc, "core_peak_tflops", peak / 1e12);
        json_add_double(doc, "copy_GBps", copy / 1e9);
        json_add_double(doc, "launch_us", launch * 1e6);
        json_add_str(doc, "symmetric_default", "library");
        json_add_tree(doc, "rows", table_to_json(&x->table));
        json_print(doc, true, &x->out);
        strbuf_puts(&x->out, "\n");
        json_free(doc);
        return 0;
    }
    if (f != TABLE_AS_CSV)
        strbuf_printf(&x->out, "%s (%s), %s, Newton-Schulz of %llu steps\n\n", b->device.name,
                      b->lib->name, dtype_name(d),
                      (unsigned long long)opts_get(&x->opts, "ns-steps")->u64);
    table_print(&x->table, f, &x->out);
    if (f != TABLE_AS_CSV)
        strbuf_printf(&x->out, "\ncopy in memory: %.1f GB/s read and written; a launch: %.2f us\n",
                      copy / 1e9, launch * 1e6);
    if (f != TABLE_AS_CSV && how)
        strbuf_printf(&x->out, "%s products on a core whose peak is %.3f TFLOP/s: %s%s\n",
                      x->on.gemm_name, peak / 1e12,
                      peak > 0 ? "measured, fused multiply-adds on registers of " : "", how);
    if (f != TABLE_AS_CSV && b->device.n_sm > 1 && d == DTYPE_BF16)
        strbuf_printf(&x->out,
                      "X X^T of Newton-Schulz is the library's; our kernel (both count all n^2 k "
                      "products) is faster on %u of %d shapes, and becomes the default where it is "
                      "measured to be\n",
                      faster, N_SHAPES);
    return 0;
}

static int help(const struct opts *o)
{
    printf("ballast-exec %s rates: what Newton-Schulz and products reach on this device\n\n"
           "usage: ballast-exec rates [options]\n\n",
           ballast_version);
    opts_help(stdout, o);
    return 0;
}

int rates_main(int argc, char **argv)
{
    struct rates x;
    struct err e = {.code = ERR_NONE};
    int status = -1;

    memset(&x, 0, sizeof(x));
    machine_init(&x.on);
    strbuf_init(&x.out);
    table_init(&x.table, cols, sizeof(cols) / sizeof(cols[0]));
    opts_init(&x.opts);
    opts_add(&x.opts, "Options", rows, sizeof(rows) / sizeof(rows[0]));
    opts_add(&x.opts, "Where", machine_rows, machine_n_rows);
    if (opts_wants_help(argc - 1, argv + 1))
        status = help(&x.opts);
    else if (!opts_parse(&x.opts, argc - 1, argv + 1, &e) &&
             !opts_positionals(&x.opts, 0, 0, NULL, &e) &&
             !machine_open(&x.on, "rates", &x.opts, &e))
        status = run(&x, argc, argv, &e);
    if (status >= 0 && output_write(opts_get(&x.opts, "output")->text, &x.out, &e))
        status = -1;
    if (status < 0)
        status = machine_fail(&x.on, &e);
    machine_close(&x.on);
    table_release(&x.table);
    strbuf_release(&x.out);
    opts_release(&x.opts);
    return status;
}
