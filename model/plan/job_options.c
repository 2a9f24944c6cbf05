#include "model/plan/job_options.h"

#include "model/plan/assign_names.h"
#include "model/plan/job_rows.h"
#include "model/plan/optimizers.h"
#include "model/plan/precision.h"

/* ---- choices, indexed by the enum ---- */

#define X(v, name) name,
static const char *const frameworks[] = {FRAMEWORKS(X) NULL};
static const char *const attentions[] = {ATTENTIONS(X) NULL};
static const char *const losses[] = {LOSSES(X) NULL};
static const char *const overlaps[] = {OVERLAPS(X) NULL};
static const char *const adamw_kernels[] = {ADAMW_KERNELS(X) NULL};
const char *const assign_objective_names[] = {ASSIGN_OBJECTIVES(X) NULL};
#undef X
#define X(v, name, help) name,
const char *const assign_method_names[] = {ASSIGN_METHODS(X) NULL};
#undef X
#define X(v, name) #name,
static const char *const gathers[] = {"auto", SEGMENT_ALGOS(X) "framework", NULL}; /* ALGO_N */
#undef X
static const char *const grad_syncs[] = {"every", "last", NULL};
static const char *const reshards[] = {"always", "never", NULL};
static const char *const ns_kernels[] = {"gemm", "symmetric", NULL};
static const char *const dtypes[] = {"fp32", "bf16", "fp16", NULL};
static const char *const yes_no[] = {"no", "yes", NULL};
static const char *const recomputes[] = {"none", "selective", "full", NULL};
const char *const job_matrix_roles[] = {"embedding", "position", "head", "router", NULL};

/* ---- rows ---- */

/* The field of a row. A member of another type does not compile; an enum is a uint32_t to it. */
#define AT(member)                                                                                 \
    .field = _Generic(((struct job *)0)->member,                                                   \
        bool: FIELD_BOOL,                                                                          \
        uint64_t: FIELD_64,                                                                        \
        double: FIELD_DOUBLE,                                                                      \
        const char *: FIELD_TEXT,                                                                  \
        uint32_t: FIELD_32),                                                                       \
    .at = offsetof(struct job, member)
#define CHOICE(list, value) .type = OPT_CHOICE, .choices = (list), .dflt = (value)
#define COUNT(what, value, least, most)                                                            \
    .type = OPT_COUNT, .meta = (what), .dflt = (value), .min = (least), .max = (most)
#define TEXT(what)  .type = OPT_STRING, .meta = (what)
#define USE(who)    .use = job_use_##who
#define CHECK(what) .check = job_check_##what
#define READ(how)   .read = job_read_##how
#define SEEN(how)   .seen = job_seen_##how

/* Options that are no field of the job: they say which model and cluster it is of. */
#define BESIDE .band = BAND_BESIDE, USE(always)

enum { MAX_SIZE = 1 << 30, MAX_DEGREE = 4096 };

/* clang-format off */
static const struct job_option job_options[] = {
    {.opt = {.name = "cluster", .letter = 'c', TEXT("CLUSTER"), .dflt = "dgx-a100",
             .help = "bundled name (ballast topo --list), file, or BASE:key=value,..."},
     .group = GROUP_CLUSTER, BESIDE},
    {.opt = {.name = "nodes", .letter = 'n', .type = OPT_COUNTS, .meta = "N[,N...]",
             .dflt_note = "1", .min = 1, .max = CLUSTER_MAX_NODES,
             .help = "number of nodes; compare takes several"},
     .group = GROUP_CLUSTER, AT(nodes), USE(always), READ(with_size), .always = true,
     .exec = EXEC_ALL, .band = BAND_BESIDE},
    {.opt = {.name = "gpus-per-node", .type = OPT_COUNT, .meta = "N", .dflt_note = "the cluster's",
             .min = 1, .max = CLUSTER_MAX_GPUS_PER_NODE,
             .help = "use only this many GPUs of a node"},
     .group = GROUP_CLUSTER, BESIDE},
    {.opt = {.name = "gpus", .type = OPT_COUNT, .meta = "N", .dflt_note = "nodes x GPUs a node",
             .min = 1, .max = CLUSTER_MAX_RANKS,
             .help = "number of GPUs in all; ranks fill nodes in order"},
     .group = GROUP_CLUSTER, AT(gpus), USE(always), READ(with_size), .always = true,
     .exec = EXEC_ALL, .band = BAND_BETWEEN},
    {.opt = {.name = "layout", .type = OPT_STRING},
     .group = GROUP_LAYOUT, AT(layout), USE(always), READ(with_size), .of_command = true,
     .always = true, .exec = EXEC_ALL, .band = BAND_BESIDE},
    {.opt = {.name = "optimizer", CHOICE(optimizer_names, "muon"),
             .help = "optimizer of the matrices, beside AdamW for the rest; an elementwise one "
                     "updates all tensors"},
     .group = GROUP_OPTIMIZER, AT(optimizer), USE(always), .always = true, .exec = EXEC_ALL},
    {.opt = {.name = "ns-steps", COUNT("N", "5", 1, 100), .help = "Newton-Schulz steps"},
     .group = GROUP_OPTIMIZER, AT(ns_steps), .neutral = 5, USE(newton_schulz), .always = true,
     .hi = 1000, .exec = EXEC_ALL},
    {.opt = {.name = "seq-len", COUNT("TOKENS", "4096", 1, MAX_SIZE),
             .help = "tokens of a sequence (at most a model's learned positions)"},
     .group = GROUP_BATCH, AT(seq_len), .neutral = 4096, USE(always), READ(seq_len),
     .always = true, .exec = EXEC_ALL, .band = BAND_BETWEEN},
    {.opt = {.name = "target-len", .type = OPT_COUNT, .meta = "TOKENS",
             .dflt_note = "as seq-len", .min = 1, .max = MAX_SIZE,
             .help = "tokens of a sequence of the decoder, where seq-len is the encoder's (T5)"},
     .group = GROUP_BATCH, AT(target_len), USE(always), READ(target_len), .unless_zero = true,
     .exec = EXEC_ALL},
    {.opt = {.name = "micro-batch", COUNT("SEQUENCES", "1", 1, MAX_SIZE),
             .help = "sequences that a GPU processes at once"},
     .group = GROUP_BATCH, AT(micro_batch), .neutral = 1, USE(always), .always = true,
     .exec = EXEC_ALL, .band = BAND_BETWEEN},
    {.opt = {.name = "grad-accum", COUNT("N", "1", 1, 4096), .help = "micro-batches a step"},
     .group = GROUP_BATCH, AT(grad_accum), .neutral = 1, USE(always), .always = true, .lo = 1,
     .hi = MAX_SIZE, .exec = EXEC_ALL, .band = BAND_BETWEEN},
    {.opt = {.name = "global-batch", TEXT("N|Ntok"),
             .help = "sequences (1024) or tokens (4Mitok) a step; sets grad-accum"},
     .group = GROUP_BATCH, BESIDE},
    {.opt = {.name = "precision", .type = OPT_CHOICE, .choices = precision_names,
             .dflt_note = "as the next four say",
             .help = "dtypes as a framework sets them; the next four override it"},
     .group = GROUP_PRECISION, BESIDE},
    {.opt = {.name = "param-dtype", CHOICE(dtypes, "bf16"),
             .help = "dtype of parameters and computation"},
     .group = GROUP_PRECISION, AT(param_dtype), .neutral = DTYPE_BF16, USE(always),
     READ(param_dtype), .always = true, .exec = EXEC_ALL},
    {.opt = {.name = "grad-dtype", CHOICE(dtypes, "bf16"),
             .help = "dtype of gradients, in memory and on the wire"},
     .group = GROUP_PRECISION, AT(grad_dtype), .neutral = DTYPE_BF16, USE(always),
     READ(grad_dtype), .always = true, .exec = EXEC_ALL},
    {.opt = {.name = "state-dtype", CHOICE(dtypes, "fp32"), .help = "dtype of optimizer states"},
     .group = GROUP_PRECISION, AT(state_dtype), .neutral = DTYPE_FP32, USE(always),
     READ(state_dtype), .always = true, .exec = EXEC_ALL},
    {.opt = {.name = "master-weights", .type = OPT_CHOICE, .choices = yes_no,
             .dflt_note = "yes, no with fp32 parameters",
             .help = "keep an fp32 copy of the parameters beside the optimizer states"},
     .group = GROUP_PRECISION, AT(master_weights), USE(always), CHECK(master),
     .with = "param-dtype", READ(master_weights), .always = true, .exec = EXEC_ALL},
    {.opt = {.name = "recompute", CHOICE(recomputes, "full"),
             .help = "activations that backward recomputes: none, those that the framework's "
                     "policy does not save, or all"},
     .group = GROUP_LAYOUT, AT(recompute), .neutral = RECOMPUTE_FULL, USE(always), .always = true,
     .exec = EXEC_ALL},
    {.opt = {.name = "gather", .type = OPT_CHOICE, .choices = gathers,
             .dflt_note = "auto; framework where it is known",
             .help = "how owner segments are sent; auto is the fastest but padded (a baseline), "
                     "framework is what the framework does, where that is known"},
     .group = GROUP_OWNERS, AT(gather), USE(owners), READ(gather), .written = job_written_gather,
     .set = job_set_gather, .always = true, .exec = EXEC_ALL, .exec_as = ALGO_RING},
    {.opt = {.name = "prefetch", COUNT("UNITS", "1", 0, 64),
             .help = "units gathered ahead of the one that is computed"},
     .group = GROUP_OVERLAP, AT(prefetch), .neutral = 1, USE(gathered_params), .always = true,
     .hi = 1 << 20, .exec = EXEC_ALL},
    {.opt = {.name = "bucket", .type = OPT_BYTES, .meta = "BYTES",
             .dflt_note = "64MiB, or 1MiB a rank if more", .min = 4096, .max = UINT64_C(1) << 50,
             .help = "gradient bucket of ddp, zero1 and zero2, and the piece in which their "
                     "updated parameters are gathered"},
     .group = GROUP_OVERLAP, AT(bucket_bytes), .neutral_of = job_default_bucket, USE(buckets),
     READ(with_size), .always = true, .hi = JSON_EXACT, .exec = EXEC_ALL, .band = BAND_BETWEEN},
    {.opt = {.name = "planner", CHOICE(assign_method_names, "ilp"),
             .help = "method that assigns matrices to owners"},
     .group = GROUP_OWNERS, AT(planner), USE(owners), .always = true, .exec = EXEC_ALL},
    {.opt = {.name = "objective", .type = OPT_LIST, .choices = assign_objective_names,
             .dflt = "flops,bytes", .help = "what the planner minimises, in order"},
     .group = GROUP_OWNERS, AT(objective), USE(owners), .always = true, .exec = EXEC_ALL},
    {.opt = {.name = "mesh", TEXT("p=AxB,..."),
             .dflt_note = "the layout's; of mesh p a node, g as p, os all",
             .help = "sharding factors of parameters, gradients and states, each GPUs in a node x "
                     "nodes: layout mesh takes them, other layouts must have them"},
     .group = GROUP_LAYOUT, AT(mesh), USE(always), .exec = EXEC_ALL,
     .band = BAND_BESIDE},
    {.opt = {.name = "shard-group", .type = OPT_COUNT, .meta = "G",
             .dflt_note = "from the layout", .min = 1, .max = CLUSTER_MAX_RANKS,
             .help = "neighbours that share one copy: hsdp, mics (a node), zero1 with an "
                     "elementwise optimizer (all)"},
     .group = GROUP_LAYOUT, AT(shard_group), USE(always), READ(with_size), .always = true,
     .hi = CLUSTER_MAX_RANKS, .exec = EXEC_ALL, SEEN(shard_group)},
    {.opt = {.name = "tp", COUNT("N", "1", 1, MAX_DEGREE),
             .help = "GPUs of a node that share each layer's products (tensor parallelism)"},
     .group = GROUP_LAYOUT, AT(tp), .neutral = 1, USE(always), CHECK(tp), READ(tp),
     .always = true},
    {.opt = {.name = "sp", CHOICE(yes_no, "no"),
             .help = "tensor-parallel GPUs share the tokens of what lies between products too "
                     "(sequence parallelism)"},
     .group = GROUP_LAYOUT, AT(sequence_parallel), USE(tensor_parallel)},
    {.opt = {.name = "pp", COUNT("N", "1", 1, MAX_DEGREE),
             .help = "pipeline parallel degree; only 1 in this version"},
     .group = GROUP_LAYOUT, AT(pp), .neutral = 1, USE(always), CHECK(pp), .always = true},
    {.opt = {.name = "ep", COUNT("N", "1", 1, MAX_DEGREE),
             .help = "expert parallel degree; only 1 in this version"},
     .group = GROUP_LAYOUT, AT(ep), .neutral = 1, USE(always), CHECK(ep), .always = true},
    {.opt = {.name = "framework", CHOICE(frameworks, "fsdp2"),
             .help = "framework whose overheads, kernels and overlap are assumed (docs/MODEL.md)"},
     .group = GROUP_FRAMEWORK, AT(framework), USE(always), .always = true,
     .exec_ignores = true},
    {.opt = {.name = "attention", CHOICE(attentions, "auto"),
             .help = "one fused kernel, or scores in memory that are kept for backward; auto is "
                     "the framework's, and unfused with relative positions"},
     .group = GROUP_FRAMEWORK, AT(attention), USE(attention), .exec_as = ATTENTION_FLASH,
     .exec = 1u << ATTENTION_AUTO | 1u << ATTENTION_FLASH, SEEN(attention)},
    {.opt = {.name = "loss", CHOICE(losses, "auto"),
             .help = "cross entropy as PyTorch's in fp32, or as one kernel on 16-bit logits; auto "
                     "is the framework's"},
     .group = GROUP_FRAMEWORK, AT(loss), USE(head), SEEN(loss)},
    {.opt = {.name = "adamw", CHOICE(adamw_kernels, "fused"),
             .help = "AdamW's kernels as PyTorch names them: one, one an operation, one an "
                     "operation and tensor"},
     .group = GROUP_OPTIMIZER, AT(adamw), USE(adamw)},
    {.opt = {.name = "ns-batch", .type = OPT_BYTES, .meta = "BYTES", .dflt = "0", .max = 1e12,
             .help = "batch the Newton-Schulz of matrices of one shape on a rank, up to this "
                     "workspace; 0 runs them one by one"},
     .group = GROUP_OPTIMIZER, AT(ns_batch), USE(batched_newton_schulz)},
    {.opt = {.name = "ns-kernels", CHOICE(ns_kernels, "gemm"),
             .help = "compute Newton-Schulz's X X^T and A A whole, or one triangle by symmetric "
                     "kernels"},
     .group = GROUP_OPTIMIZER, AT(ns_symmetric), USE(symmetric_newton_schulz)},
    {.opt = {.name = "cuda-graphs", CHOICE(yes_no, "no"),
             .help = "launch a step's kernels as graphs, so that no kernel waits for its launch"},
     .group = GROUP_FRAMEWORK, AT(cuda_graphs), USE(always)},
    {.opt = {.name = "fp8", CHOICE(yes_no, "no"),
             .help = "run the layers' matrix multiplications in fp8 with per-tensor scaling (rate "
                     "from the data sheet, not validated)"},
     .group = GROUP_PRECISION, AT(fp8), USE(always), CHECK(fp8)},
    {.opt = {.name = "overlap-reduce", CHOICE(overlaps, "auto"),
             .help = "reduce gradients beside backward, or while nothing is computed; auto is the "
                     "framework's, no in megatron-deepspeed alone"},
     .group = GROUP_OVERLAP, AT(overlap_reduce), USE(several_ranks), CHECK(overlap_reduce),
     .exec = EXEC_ALL, SEEN(overlap_reduce)},
    {.opt = {.name = "overlap-refresh", CHOICE(yes_no, "no"),
             .help = "zero1, zero2: gather updated parameters beside the next forward, unit by "
                     "unit"},
     .group = GROUP_OVERLAP, AT(overlap_refresh), USE(refresh)},
    {.opt = {.name = "grad-sync", CHOICE(grad_syncs, "every"),
             .help = "zero3, hsdp, mics: reduce gradients in every micro-batch, or keep them whole "
                     "and reduce them in the last (no_sync)"},
     .group = GROUP_OVERLAP, AT(sync_last), USE(sync_last), .exec = EXEC_ALL, SEEN(grad_sync)},
    {.opt = {.name = "reshard", CHOICE(reshards, "always"),
             .help = "zero3, hsdp, mics: free a unit's parameters after forward and gather them "
                     "again, or keep them until its backward ends (reshard_after_forward)"},
     .group = GROUP_OVERLAP, AT(reshard_never), USE(gathered_params), .exec = EXEC_ALL},
    {.opt = {.name = "split-fused", .type = OPT_FLAG,
             .help = "treat fused q, k, v and fused gate, up as separate matrices"},
     .group = GROUP_MODEL, BESIDE},
    {.opt = {.name = "as", TEXT("FAMILY"), .dflt_note = "its model_type",
             .help = "read a config.json as this family, for types that are not known"},
     .group = GROUP_MODEL, BESIDE},
    {.opt = {.name = "mtp", .type = OPT_FLAG,
             .help = "include the layers of multi-token prediction"},
     .group = GROUP_MODEL, BESIDE},
    {.opt = {.name = "names", TEXT("FILE"),
             .help = "patterns that give a list of tensors roles and units (docs/MODELS.md)"},
     .group = GROUP_MODEL, BESIDE},
    {.opt = {.name = "also-matrices", .type = OPT_LIST, .choices = job_matrix_roles,
             .dflt_note = "none", .help = "roles that the matrix optimizer also updates"},
     .group = GROUP_MODEL, BESIDE},
    {.opt = {.name = "price", .type = OPT_DOUBLE, .meta = "$", .dflt_note = "the cluster's",
             .hi = 1e6, .help = "price of a GPU per hour"},
     .group = GROUP_OTHER, AT(price_per_gpu_hour), USE(always), READ(price), .always = true,
     .exec_ignores = true, .band = BAND_BESIDE},
    {.opt = {.name = "job", TEXT("FILE"), .cli_only = true,
             .help = "read these options from JSON (seq_len, ...); the command line wins"},
     .group = GROUP_OTHER, BESIDE},
};
/* clang-format on */
const struct job_option *job_option_at(size_t i)
{
    return i < sizeof(job_options) / sizeof(job_options[0]) ? &job_options[i] : NULL;
}

bool job_option_is_truth(const struct job_option *o)
{
    return o->opt.choices == yes_no && o->field == FIELD_BOOL;
}
