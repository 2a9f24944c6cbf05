#include "model/plan/job.h"

#include "model/plan/frameworks.h"
#include "model/plan/segment_algo.h"

const char *coll_algo_name(enum coll_algo a)
{
    return a == ALGO_AUTO ? "auto" : segment_algo(a)->name;
}

bool job_unfused_attention(const struct job *j, const struct model *m)
{
    return j->attention == ATTENTION_UNFUSED ||
           (j->attention == ATTENTION_AUTO &&
            (framework_row(j->framework)->unfused_attention || model_has_biased_scores(m)));
}

bool job_eager_loss(const struct job *j)
{
    return j->loss == LOSS_EAGER ||
           (j->loss == LOSS_AUTO && framework_row(j->framework)->eager_loss);
}

bool job_reduces_after(const struct job *j)
{
    return j->overlap_reduce == OVERLAP_NO ||
           (j->overlap_reduce == OVERLAP_AUTO && framework_row(j->framework)->reduces_after);
}
