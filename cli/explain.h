/* cli/explain.h - a prediction in words: what the step is spent on, what limits it, and what would help.
 *
 * What would help is found by simulating it: each candidate differs from the job in one option (or, as a what-if, in one
 * part of the machine), is planned and simulated as `ballast sim` would with that option, and is compared by the time
 * that the job's tokens take. Changes are not combined. At most EXPLAIN_MAX simulations; no clock, no randomness.
 */
#ifndef BALLAST_CLI_EXPLAIN_H
#define BALLAST_CLI_EXPLAIN_H

#include "cli/evaluate.h"

enum { EXPLAIN_MAX = 32, EXPLAIN_BEST = 3 };

struct explain_change {
    const char *option; /* as typed: "--gather ring"; of a what-if in words */
    const char *note;   /* what else changes with it, or NULL */
    const char *failed; /* why it cannot be simulated, or NULL: then what follows holds */
    bool what_if;       /* another machine, not an option */
    bool fits;
    int64_t step_ps;
    uint64_t memory_bytes; /* of the fullest rank, as evaluation's memory_gib */
    double gain_ms;        /* the job's step less the time of as many tokens; negative: slower */
    double gain_percent;   /* of the job's step */
    double tokens_per_s_per_gpu;
};

struct explanation {
    const struct evaluation *base; /* borrowed */
    struct explain_change *list;   /* in arena, best first */
    uint32_t n, n_best; /* the first n_best are worth it: EXPLAIN_BEST, the best of each kind */
};

/* Simulates the candidates that make sense for the job. Everything is in `a`. */
void explain_find(const struct evaluation *base, struct arena *a, struct explanation *out);

/* Sentences and a table of the best changes, as text or (TABLE_AS_MD) as Markdown. */
void explain_print(const struct explanation *x, enum table_format f, struct strbuf *out);
/* The value of `explain` in the document (docs/METRICS.md). */
cJSON *explain_json(const struct explanation *x);

#endif
