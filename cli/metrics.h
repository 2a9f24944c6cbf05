/* cli/metrics.h - the columns of sim, compare, recommend and validate: one row of a table each.
 *
 * A metric says its key (JSON, csv, measured rows), its header and format (tables, md), how it is
 * read off an evaluation, and how a plot shows it. Every table and plot picks metrics from this
 * list by name. To add a column: a row in METRICS (cli/metrics.c) and its line in docs/METRICS.md,
 * which tests/cli/test_metrics.c asks for; for a table that people read, its name in that view.
 */
#ifndef BALLAST_CLI_METRICS_H
#define BALLAST_CLI_METRICS_H

#include "cli/evaluate.h"
#include "cli/step_band.h"

/* Where a metric stands for programs: JSON and csv of all commands, or of recommend alone; or only
 * in views for people. */
enum metric_in { METRIC_IN_VIEWS, METRIC_IN_ROWS = 1, METRIC_IN_RECOMMEND = 2 };

/* What a column is of, and what several columns share. */
struct metric_source {
    const struct evaluation *x;
    double base_rate; /* tokens a second and GPU that scaling_percent is against */
    bool has_band;    /* of `band`, which is costly to find */
    struct step_band band;
    char via[64];
};

struct metric {
    struct table_col col;
    enum metric_in in;
    struct table_cell (*get)(struct metric_source *s);
    const char *title, *colour; /* in a plot; NULL: in none */
};

/* X(key, header or NULL, kind, decimals, where, value): `value` of evaluation `x` or source `s` is
 * spelled with the functions of cli/metrics.c. ROWS keeps this order in JSON and csv. */
#define METRICS(X)                                                                                 \
    /* recommend's own */                                                                          \
    X(recompute, "recompute", TEXT, 0, RECOMMEND, text(recompute_name(x->plan->job.recompute)))    \
    X(tokens_per_s, "tok/s", COUNT, 0, RECOMMEND,                                                  \
      number(x->tokens_per_s_per_gpu * x->plan->job.gpus))                                         \
    X(scaling_percent, "scaling %", FIXED, 1, RECOMMEND,                                           \
      number(100 * (x->tokens_per_s_per_gpu / s->base_rate)))                                      \
    /* the job */                                                                                  \
    X(layout, "layout", TEXT, 0, ROWS, text(x->plan->job.layout))                                  \
    X(layout_full, NULL, TEXT, 0, ROWS, text(x->plan->layout_full))                                \
    X(optimizer, NULL, TEXT, 0, ROWS, text(optimizer_name(x->plan->job.optimizer)))                \
    X(nodes, "nodes", INT, 0, ROWS, count(x->plan->job.nodes))                                     \
    X(gpus, "GPUs", INT, 0, ROWS, count(x->plan->job.gpus))                                        \
    /* time */                                                                                     \
    X(step_ms, "step ms", FIXED, 1, ROWS, ms(x->p.step_ps))                                        \
    X(forward_ms, "forward", FIXED, 1, ROWS, ms(x->p.forward_ps))                                  \
    X(backward_ms, "backward", FIXED, 1, ROWS, ms(x->p.backward_ps))                               \
    X(optimizer_ms, "optimizer", FIXED, 1, ROWS, ms(x->p.optimizer_ps))                            \
    X(exposed_comm_ms, "exposed", FIXED, 1, ROWS, ms(x->p.exposed_comm_ps))                        \
    /* memory */                                                                                   \
    X(memory_gib, "GiB", GIB, 1, ROWS, count(x->p.memory.driver_bytes))                            \
    X(memory_alloc_gib, NULL, GIB, 2, ROWS, count(x->p.memory.peak_bytes))                         \
    X(memory_min_gib, NULL, GIB, 2, ROWS, count(x->p.memory.driver_min_bytes))                     \
    X(fits, NULL, BOOL, 0, ROWS, yes(x->fits))                                                     \
    X(fit, "fits", TEXT, 0, ROWS, text(fit_name(x->fit)))                                          \
    X(capacity_gib, NULL, GIB, 2, ROWS, count(x->plan->cluster.device.memory_bytes))               \
    /* speed */                                                                                    \
    X(mfu, NULL, FIXED, 4, ROWS, number(x->mfu))                                                   \
    X(mfu_percent, "MFU %", FIXED, 1, ROWS, number(100 * x->mfu))                                  \
    X(mfu_basis, NULL, TEXT, 0, ROWS, text(MFU_BASIS))                                             \
    X(tokens_per_s_per_gpu, "tok/s/GPU", FIXED, 0, ROWS, number(x->tokens_per_s_per_gpu))          \
    /* bytes and balance */                                                                        \
    X(bytes_per_rank_intra, NULL, INT, 0, ROWS, count(x->p.bytes_max.sent_intra))                  \
    X(bytes_per_rank_inter, NULL, INT, 0, ROWS, count(x->p.bytes_max.sent_inter))                  \
    X(bytes_per_rank_intra_recv, NULL, INT, 0, ROWS, count(x->p.bytes_max.recv_intra))             \
    X(bytes_per_rank_inter_recv, NULL, INT, 0, ROWS, count(x->p.bytes_max.recv_inter))             \
    X(optimizer_bytes, NULL, INT, 0, ROWS, count(x->p.optimizer_bytes))                            \
    X(ns_flops_max, NULL, INT, 0, ROWS, count(x->plan->flops_max))                                 \
    X(ns_flops_mean, NULL, FIXED, 0, ROWS, number(x->plan->flops_mean))                            \
    X(balance, "bal.", FIXED, 2, ROWS, number(x->balance))                                         \
    X(idle_ranks, NULL, INT, 0, ROWS, count(evaluate_idle_ranks(x->plan)))                         \
    X(empty_ranks, NULL, INT, 0, ROWS, count(layout_held(x->plan).empty))                          \
    X(held_balance, NULL, FIXED, 2, ROWS, number(held_balance(x->plan)))                           \
    X(gather_algorithm, NULL, TEXT, 0, ROWS, text(owner_algorithm(s)))                             \
    X(gather_choice, NULL, TEXT, 0, ROWS, text(owner_choice(x)))                                   \
    /* how far to trust it, and what limits it */                                                  \
    X(error_percent, "+-%", FIXED, 0, ROWS, number(band(s)->percent))                              \
    X(bottleneck, "limited by", TEXT, 0, ROWS, text(x->bottleneck))                                \
    X(usd_per_million_tokens, "$/Mtok", FIXED, 3, ROWS, number(usd_per_mtok(x)))                   \
    X(error_basis, NULL, TEXT, 0, ROWS, text(band(s)->basis))                                      \
    X(error_missing, NULL, TEXT, 0, ROWS, text(missing(s)))                                        \
    X(peak_at, NULL, TEXT, 0, ROWS, text(x->program.ops[x->p.memory.at.op].name))                  \
    X(rank_classes, NULL, INT, 0, ROWS, count(x->p.n_classes))                                     \
    /* objects last: in csv their commas stand in nobody's way */                                  \
    X(memory_parts, NULL, JSON, 0, ROWS, tree(memory_parts(x)))                                    \
    X(time_ms, NULL, JSON, 0, ROWS, tree(by_category(x->p.time_ps)))                               \
    X(path_ms, NULL, JSON, 0, ROWS, tree(by_category(x->p.path_ps)))                               \
    X(wait_ms, NULL, JSON, 0, ROWS, tree(by_limit(&x->p)))                                         \
    X(mesh, NULL, JSON, 0, ROWS, tree(mesh(x->plan)))                                              \
    /* of the tables that people read */                                                           \
    X(gb_intra, "GB: node", FIXED, 1, VIEWS, number((double)x->p.bytes_max.sent_intra / 1e9))      \
    X(gb_inter, "between", FIXED, 1, VIEWS, number((double)x->p.bytes_max.sent_inter / 1e9))       \
    X(gb_optimizer, "step", FIXED, 1, VIEWS, number((double)x->p.optimizer_bytes / 1e9))           \
    X(via, "via", TEXT, 0, VIEWS, text(via(s)))                                                    \
    X(fragmentation, "frag.", GIB, 1, VIEWS, count(fragmentation(&x->p.memory)))                   \
    X(peak_phase, "peak in", TEXT, 0, VIEWS,                                                       \
      text(phase_name(x->program.ops[x->p.memory.at.op].phase)))

/* X(category, key, header, title and colour of its bar): the step's time by cause. Okabe and Ito's
 * colours, which colour-blind readers can tell apart, and tints of them. */
#define TIME_METRICS(X)                                                                            \
    X(TIME_GEMM, time_gemm, "GEMM", "GEMM", "#0072B2")                                             \
    X(TIME_ATTENTION, time_attention, "attn.", "attention", "#56B4E9")                             \
    X(TIME_ELEMENTWISE, time_elementwise, "elem.", "elementwise", "#B3D4EA")                       \
    X(TIME_OPTIMIZER, time_optimizer, "optim.", "optimizer arithmetic", "#009E73")                 \
    X(TIME_GATHER, time_gather, "gather", "waiting: gather", "#E69F00")                            \
    X(TIME_REDUCE, time_reduce, "reduce", "waiting: reduce", "#D55E00")                            \
    X(TIME_REFRESH, time_refresh, "refresh", "waiting: refresh", "#CC79A7")                        \
    X(TIME_TENSOR, time_tp, "tp", "waiting: tensor parallelism", "#999933")

/* X(part, key, header, title and colour of its bar): memory of the fullest rank. */
#define MEMORY_METRICS(X)                                                                          \
    X(MEM_PARAMS, memory_params, "params", "params", "#0072B2")                                    \
    X(MEM_GRADS, memory_grads, "grads", "grads", "#D55E00")                                        \
    X(MEM_STATES, memory_states, "states", "states", "#009E73")                                    \
    X(MEM_MASTER, memory_master, "master", "master", "#66C2A5")                                    \
    X(MEM_ACTIVATIONS, memory_activations, "activ.", "activations", "#E69F00")                     \
    X(MEM_GATHERED, memory_gathered, "gathered", "gathered", "#56B4E9")                            \
    X(MEM_WORKSPACE, memory_workspace, "worksp.", "workspace", "#CC79A7")                          \
    X(MEM_LOGITS, memory_logits, "logits", "logits", "#F0E442")                                    \
    X(MEM_BUFFERS, memory_buffers, "buffers", "buffers", "#999999")                                \
    X(MEM_CONTEXT, memory_context, "context", NULL, NULL)

enum metric_id {
#define X(key, head, kind, decimals, in, value) METRIC_##key,
    METRICS(X)
#undef X
#define X(of, key, head, title, colour) METRIC_##key,
        TIME_METRICS(X) MEMORY_METRICS(X)
#undef X
            METRIC_memory_outside, /* of the driver's bytes those outside the allocator: a bar */
    METRIC_N
};

const struct metric *metric(enum metric_id id);
/* The value of a metric that is a number, in the unit of its key; NAN: missing. */
double metric_number(enum metric_id id, const struct evaluation *x);

/* A table whose columns are metrics. */
struct metric_table {
    struct table t;
    struct table_col cols[METRIC_N];
    enum metric_id ids[METRIC_N];
    size_t n;
    double base_rate; /* set before rows are added; 0: scaling_percent is missing */
};

/* All metrics of these places, for programs. */
void metric_table_rows(struct metric_table *t, unsigned in);
/* These metrics, for people; `corner`: header of the first column in place of its own, or NULL. */
void metric_table_view(struct metric_table *t, const enum metric_id *ids, size_t n,
                       const char *corner);
void metric_table_add(struct metric_table *t, const struct evaluation *x);
void metric_table_release(struct metric_table *t);

/* The three tables of sim and compare, one row an evaluation: the step; its time by cause, bytes
 * and balance; memory by part of the fullest rank. */
void metric_print_views(const struct evaluation *x, size_t n, enum table_format f,
                        struct strbuf *out);

/* The bars of a plot, in order: time by cause in ms, memory by part in GiB. */
extern const enum metric_id metric_time_bars[TIME_N], metric_memory_bars[MEM_PART_N];

#endif
