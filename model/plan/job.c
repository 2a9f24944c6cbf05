#include "model/plan/job.h"

#include "model/plan/segment_algo.h"

const char *coll_algo_name(enum coll_algo a)
{
    return a == ALGO_AUTO ? "auto" : segment_algo(a)->name;
}

const char *framework_name(enum framework f)
{
    switch (f) {
#define X(v, name)                                                                                 \
    case v:                                                                                        \
        return name;
        FRAMEWORKS(X)
#undef X
    case FRAMEWORK_N:
        break;
    }
    return "?";
}

bool job_unfused_attention(const struct job *j, const struct model *m)
{
    return j->attention == ATTENTION_UNFUSED ||
           (j->attention == ATTENTION_AUTO &&
            (j->framework == FRAMEWORK_MEGATRON_DEEPSPEED || model_has_biased_scores(m)));
}

bool job_eager_loss(const struct job *j)
{
    return j->loss == LOSS_EAGER || (j->loss == LOSS_AUTO && (j->framework == FRAMEWORK_FSDP2 ||
                                                              j->framework == FRAMEWORK_DEEPSPEED));
}

bool job_reduces_after(const struct job *j)
{
    return j->overlap_reduce == OVERLAP_NO ||
           (j->overlap_reduce == OVERLAP_AUTO && j->framework == FRAMEWORK_MEGATRON_DEEPSPEED);
}
