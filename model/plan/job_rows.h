/* model/plan/job_rows.h - the functions that rows of job_options.c name: who has a use for an
 * option (job_use.c), and how it is read where that is particular (job_read.c). */
#ifndef BALLAST_MODEL_PLAN_JOB_ROWS_H
#define BALLAST_MODEL_PLAN_JOB_ROWS_H

#include "model/plan/job_options.h"

/* ---- who has a use for it ---- */

#define JOB_USES(X)                                                                                \
    X(always)                                                                                      \
    X(owners)                                                                                      \
    X(gathered_params)                                                                             \
    X(buckets)                                                                                     \
    X(newton_schulz)                                                                               \
    X(symmetric_newton_schulz)                                                                     \
    X(batched_newton_schulz)                                                                       \
    X(adamw)                                                                                       \
    X(attention)                                                                                   \
    X(head)                                                                                        \
    X(tensor_parallel)                                                                             \
    X(sync_last)                                                                                   \
    X(several_ranks)                                                                               \
    X(refresh)
#define JOB_USE_FUNCTION(name) struct job_text job_use_##name(const struct job_use *u);
JOB_USES(JOB_USE_FUNCTION)
#undef JOB_USE_FUNCTION

/* ---- contradictions ---- */

int job_check_master(const struct job *j, const struct cluster *c, struct err *e);
int job_check_fp8(const struct job *j, const struct cluster *c, struct err *e);
int job_check_overlap_reduce(const struct job *j, const struct cluster *c, struct err *e);
int job_check_tp(const struct job *j, const struct cluster *c, struct err *e);
int job_check_pp(const struct job *j, const struct cluster *c, struct err *e);
int job_check_ep(const struct job *j, const struct cluster *c, struct err *e);

/* ---- what a job comes to ---- */

uint64_t job_written_gather(const struct plan *p);
void job_set_gather(struct job *j, uint64_t value);
void job_seen_attention(const struct plan *p, cJSON *to, const char *key);
void job_seen_loss(const struct plan *p, cJSON *to, const char *key);
void job_seen_overlap_reduce(const struct plan *p, cJSON *to, const char *key);
void job_seen_grad_sync(const struct plan *p, cJSON *to, const char *key);
void job_seen_shard_group(const struct plan *p, cJSON *to, const char *key);

/* ---- particular readers ---- */

#define JOB_READERS(X)                                                                             \
    X(with_size) /* nothing: it depends on size and layout, and cli/setup.c resolves it */         \
    X(tp)                                                                                          \
    X(seq_len)                                                                                     \
    X(target_len)                                                                                  \
    X(param_dtype)                                                                                 \
    X(grad_dtype)                                                                                  \
    X(state_dtype)                                                                                 \
    X(master_weights)                                                                              \
    X(gather)                                                                                      \
    X(price)
#define JOB_READER_FUNCTION(name)                                                                  \
    int job_read_##name(const struct job_reading *r, const struct job_option *o, struct job *j,    \
                        struct err *e);
JOB_READERS(JOB_READER_FUNCTION)
#undef JOB_READER_FUNCTION

#endif
