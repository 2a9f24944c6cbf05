/* cli/evaluate.h - one plan, lowered and simulated (its columns: cli/metrics.h). */
#ifndef BALLAST_CLI_EVALUATE_H
#define BALLAST_CLI_EVALUATE_H

#include "core/table.h"
#include "model/plan/plan.h"
#include "planner/planner.h"
#include "sim/sim.h"

/* Does the step fit? YES: with 5 % head room. TIGHT: without it, which is less than predictions of memory miss by. */
enum fit { FIT_YES, FIT_TIGHT, FIT_NO };
const char *fit_name(enum fit f); /* "yes", "tight", "no" */

struct evaluation {
    struct plan *plan;
    struct program program;
    struct prediction p;
    enum fit fit;
    bool fits; /* fit == FIT_YES */
    double mfu, tokens_per_s_per_gpu, balance;
    char bottleneck[96];
};

/* Everything is in `a`. */
int evaluate(struct plan *plan, const struct sim_options *o, struct arena *a,
             struct evaluation *out, struct err *e);

/* Simulated step time of a candidate, for --objective time. */
extern const struct planner_time evaluate_time;

/* Ranks that update no matrix while others do. */
uint32_t evaluate_idle_ranks(const struct plan *plan);
/* A line where a rank holds 5 % more than the mean of what the layout cuts, or another less than half of it. */
void evaluate_say_uneven(const struct plan *plan, struct strbuf *out);

/* "NIC", for both directions. */
const char *evaluate_resource_name(enum sim_resource r);

/* Dollars per million tokens at the job's price. */
double evaluate_usd_per_mtok(const struct evaluation *x);

/* "llama-3.1-70b on 16 nodes of dgx-a100 (128 GPUs): muon, ..." */
void evaluate_title(const struct plan *plan, struct strbuf *out);

#endif
