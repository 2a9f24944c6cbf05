/* model/plan/job.h - how it is trained: batch, precision, optimizer, layout. The names are the options of the command line
 * (docs/CLI.md) with underscores. */
#ifndef BALLAST_MODEL_PLAN_JOB_H
#define BALLAST_MODEL_PLAN_JOB_H

#include "model/cluster/cluster.h"
#include "model/graph/graph.h"
#include "model/tensors/model.h"

enum recompute { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };

/* How owner segments travel: enumerator and name, one row a way (model/plan/segment_algo.h). AUTO: what makes the step fastest, which
 * the row of the result names. */
#define SEGMENT_ALGOS(X)                                                                           \
    X(ALGO_P2P, p2p)                                                                               \
    X(ALGO_RING, ring)                                                                             \
    X(ALGO_TREE, tree)                                                                             \
    X(ALGO_HIERARCHICAL, hierarchical)                                                             \
    X(ALGO_PADDED, padded)
#define COLL_ALGO_ENUM(x, name) x,
enum coll_algo { ALGO_AUTO, SEGMENT_ALGOS(COLL_ALGO_ENUM) ALGO_N };
#undef COLL_ALGO_ENUM
const char *coll_algo_name(enum coll_algo a);

/* The framework whose habits and overheads are assumed: a name, a row of habits in
 * model/plan/frameworks.c and a row of costs in sim/framework.c each. */
#define FRAMEWORKS(X)                                                                              \
    X(FRAMEWORK_FSDP2, "fsdp2")                                                                    \
    X(FRAMEWORK_FSDP2_COMPILED, "fsdp2-compiled")                                                  \
    X(FRAMEWORK_MEGATRON, "megatron")                                                              \
    X(FRAMEWORK_MEGATRON_DEEPSPEED, "megatron-deepspeed")                                          \
    X(FRAMEWORK_DEEPSPEED, "deepspeed")
#define FRAMEWORK_ENUM(x, name) x,
enum framework { FRAMEWORKS(FRAMEWORK_ENUM) FRAMEWORK_N };
#undef FRAMEWORK_ENUM
const char *framework_name(enum framework f);

/* How AdamW goes over a parameter: one kernel; PyTorch's foreach (a pass an operation, over all tensors at once); the same tensor by
 * tensor. */
#define ADAMW_KERNELS(X)                                                                           \
    X(ADAMW_FUSED, "fused") X(ADAMW_FOREACH, "foreach") X(ADAMW_PER_TENSOR, "per-tensor")
#define ADAMW_ENUM(x, name) x,
enum adamw_kernels { ADAMW_KERNELS(ADAMW_ENUM) ADAMW_KERNELS_N };
#undef ADAMW_ENUM

/* One fused kernel, or scores that pass through memory and are kept for backward. AUTO: as the framework has it. */
#define ATTENTIONS(X)                                                                              \
    X(ATTENTION_AUTO, "auto") X(ATTENTION_FLASH, "flash") X(ATTENTION_UNFUSED, "unfused")
#define ATTENTION_ENUM(x, name) x,
enum attention { ATTENTIONS(ATTENTION_ENUM) ATTENTION_N };
#undef ATTENTION_ENUM

/* Cross entropy of PyTorch in fp32, a kernel an operation; or one kernel on 16-bit logits that keeps a number a token. AUTO: as the
 * framework has it, which is neither where layers are compiled. */
#define LOSSES(X)          X(LOSS_AUTO, "auto") X(LOSS_EAGER, "eager") X(LOSS_FUSED, "fused")
#define LOSS_ENUM(x, name) x,
enum loss { LOSSES(LOSS_ENUM) LOSS_N };
#undef LOSS_ENUM

/* Gradients are reduced while backward computes, or not: AUTO: as the framework has it. */
#define OVERLAPS(X)           X(OVERLAP_AUTO, "auto") X(OVERLAP_YES, "yes") X(OVERLAP_NO, "no")
#define OVERLAP_ENUM(x, name) x,
enum overlap { OVERLAPS(OVERLAP_ENUM) OVERLAP_N };
#undef OVERLAP_ENUM

struct job {
    uint32_t nodes, gpus; /* gpus: the world size */
    const char *layout;   /* as asked */
    enum optimizer optimizer;
    uint32_t ns_steps;
    uint64_t seq_len, micro_batch, grad_accum; /* micro_batch: sequences a rank and pass */
    uint64_t
        target_len; /* tokens of a decoder beside an encoder, whose are seq_len; 0: there is no such decoder */
    enum dtype param_dtype, grad_dtype, state_dtype;
    bool master_weights; /* fp32 copy of the parameters with the optimizer state */
    enum recompute recompute;
    enum coll_algo gather;
    bool
        gather_as_framework; /* where it is known what the framework does (plan_gathers_as_framework()); `gather` is AUTO */
    uint32_t prefetch; /* units gathered ahead */
    uint64_t bucket_bytes;
    const char *planner, *objective; /* as asked; planner/ knows the names */
    const char *mesh;                /* NULL: from the layout */
    uint32_t shard_group;            /* 0: from the layout */
    uint32_t tp, pp, ep;
    bool sequence_parallel; /* tensor-parallel ranks share the tokens between products */
    enum framework framework;
    enum attention attention;
    enum loss loss;
    enum adamw_kernels adamw;
    uint64_t
        ns_batch; /* workspace up to which matrices of one shape share a Newton-Schulz, bytes; 0: one by one */
    bool ns_symmetric; /* Newton-Schulz's symmetric products by kernels that work one triangle */
    bool cuda_graphs;  /* the host launches the step as a whole */
    bool
        sync_last; /* zero3 and its kin: gradients stay whole over the micro-batches, and are reduced in the last */
    bool
        reshard_never; /* zero3 and its kin: units stay gathered from forward to the end of their backward */
    enum overlap overlap_reduce;
    bool overlap_refresh; /* zero1, zero2: the last step's refresh beside forward, unit by unit */
    bool fp8;             /* products of layers, scaled as they come */
    double price_per_gpu_hour; /* 0: the cluster's */
};

/* Ranks that take different sequences: of tensor-parallel ranks one. */
static inline uint32_t job_data_ranks(const struct job *j)
{
    return j->gpus / j->tp;
}
/* Do tensor-parallel GPUs fill the job, and lie inside nodes? ERR_INVALID, ERR_UNSUPPORTED name the rule. */
int job_check_data_ranks(const struct job *j, uint32_t gpus_per_node, struct err *e);

/* What a rank takes at once. */
static inline struct graph_batch job_batch(const struct job *j)
{
    return (struct graph_batch){.micro_batch = j->micro_batch,
                                .seq_len = j->seq_len,
                                .target_len = j->target_len,
                                .tp = j->tp,
                                .sequence_parallel = j->sequence_parallel};
}

/* Is attention unfused: as asked, else by the framework's row, and in every framework where scores
 * have a bias of their own (T5's relative positions, whose kernels are PyTorch's eager ones)? */
bool job_unfused_attention(const struct job *j, const struct model *m);
/* Is the loss PyTorch's: as asked, else by the framework's row? */
bool job_eager_loss(const struct job *j);
/* Are gradients reduced when backward has ended: as asked, else by the framework's row? A framework
 * whose row says `waits` overlaps nothing, whatever this says. */
bool job_reduces_after(const struct job *j);

#endif
