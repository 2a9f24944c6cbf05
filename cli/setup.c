#include "cli/setup.h"

#include "cli/mesh.h"
#include "cli/model_opts.h"
#include "core/num.h"
#include "core/suggest.h"
#include "core/units.h"
#include "layouts/layout.h"
#include "model/plan/model_load.h"
#include "model/plan/frameworks.h"
#include "model/plan/optimizers.h"
#include "model/plan/precision.h"
#include "planner/planner.h"

#include <string.h>
#include <strings.h>

static const char *const algos[] = {"auto",
#define X(v, name) #name,
                                    SEGMENT_ALGOS(X)
#undef X
                                        "framework", /* index ALGO_N */
                                    NULL};
static const char *const frameworks[] = {
#define X(v, name) name,
    FRAMEWORKS(X)
#undef X
        NULL};
static const char *const attentions[] = {
#define X(v, name) name,
    ATTENTIONS(X)
#undef X
        NULL};
static const char *const losses[] = {
#define X(v, name) name,
    LOSSES(X)
#undef X
        NULL};
static const char *const overlaps[] = {
#define X(v, name) name,
    OVERLAPS(X)
#undef X
        NULL};
static const char *const adamw_kernels[] = {
#define X(v, name) name,
    ADAMW_KERNELS(X)
#undef X
        NULL};
static const char *const grad_syncs[] = {"every", "last", NULL};
static const char *const reshards[] = {"always", "never", NULL};
static const char *const ns_kernels[] = {"gemm", "symmetric", NULL};
static const char *const dtypes[] = {"fp32", "bf16", "fp16", NULL};
static const char *const yes_no[] = {"no", "yes", NULL};
static const char *const recomputes[] = {"none", "selective", "full", NULL};
static const char *const planners[] = {
#define X(v, name, help) name,
    ASSIGN_METHODS(X)
#undef X
        NULL};

enum { MAX_GPUS = 1 << 24, MAX_SIZE = 1 << 30 };

const struct opt setup_options[] = {
    {.name = "cluster",
     .letter = 'c',
     .type = OPT_STRING,
     .meta = "CLUSTER",
     .dflt = "dgx-a100",
     .help = "bundled name (ballast topo --list), file, or BASE:key=value,..."},
    {.name = "nodes",
     .letter = 'n',
     .type = OPT_COUNTS,
     .meta = "N[,N...]",
     .dflt_note = "1",
     .min = 1,
     .max = 131072,
     .help = "nodes; compare takes several"},
    {.name = "gpus-per-node",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt_note = "the cluster's",
     .min = 1,
     .max = CLUSTER_MAX_GPUS_PER_NODE,
     .help = "use only so many GPUs of a node"},
    {.name = "gpus",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt_note = "nodes x GPUs a node",
     .min = 1,
     .max = MAX_GPUS,
     .help = "GPUs in all; ranks fill nodes in order"},
    {.name = "optimizer",
     .type = OPT_CHOICE,
     .choices = optimizer_names,
     .dflt = "muon",
     .help = "of matrices, beside AdamW for the rest; elementwise ones: of all tensors"},
    {.name = "ns-steps",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt = "5",
     .min = 1,
     .max = 100,
     .help = "Newton-Schulz steps"},
    {.name = "seq-len",
     .type = OPT_COUNT,
     .meta = "TOKENS",
     .dflt = "4096",
     .min = 1,
     .max = MAX_SIZE,
     .help = "tokens of a sequence (at most a model's learned positions)"},
    {.name = "target-len",
     .type = OPT_COUNT,
     .meta = "TOKENS",
     .dflt_note = "as seq-len",
     .min = 1,
     .max = MAX_SIZE,
     .help = "tokens of a sequence of the decoder, where seq-len is the encoder's (T5)"},
    {.name = "micro-batch",
     .type = OPT_COUNT,
     .meta = "SEQUENCES",
     .dflt = "1",
     .min = 1,
     .max = MAX_SIZE,
     .help = "sequences a GPU takes at once"},
    {.name = "grad-accum",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt = "1",
     .min = 1,
     .max = 4096,
     .help = "micro-batches a step"},
    {.name = "global-batch",
     .type = OPT_STRING,
     .meta = "N|Ntok",
     .help = "sequences (1024) or tokens (4Mitok) a step; sets grad-accum"},
    {.name = "precision",
     .type = OPT_CHOICE,
     .choices = precision_names,
     .dflt_note = "as the next four say",
     .help = "dtypes as a framework has them; the next four win over it"},
    {.name = "param-dtype",
     .type = OPT_CHOICE,
     .choices = dtypes,
     .dflt = "bf16",
     .help = "parameters and compute"},
    {.name = "grad-dtype",
     .type = OPT_CHOICE,
     .choices = dtypes,
     .dflt = "bf16",
     .help = "gradients, also on the wire"},
    {.name = "state-dtype",
     .type = OPT_CHOICE,
     .choices = dtypes,
     .dflt = "fp32",
     .help = "optimizer states"},
    {.name = "master-weights",
     .type = OPT_CHOICE,
     .choices = yes_no,
     .dflt_note = "yes, no with fp32 parameters",
     .help = "an fp32 copy of the parameters beside the states"},
    {.name = "recompute",
     .type = OPT_CHOICE,
     .choices = recomputes,
     .dflt = "full",
     .help = "activations made again in backward: none, what the framework's policy does not save, "
             "all"},
    {.name = "gather",
     .type = OPT_CHOICE,
     .choices = algos,
     .dflt_note = "auto; framework where it is known",
     .help = "how owner segments travel; auto: as makes the step fastest (padded is a baseline); "
             "framework: as the "
             "framework is known to send them, broadcasts after zero1's and zero2's step"},
    {.name = "prefetch",
     .type = OPT_COUNT,
     .meta = "UNITS",
     .dflt = "1",
     .max = 64,
     .help = "units gathered ahead of the one that computes"},
    {.name = "bucket",
     .type = OPT_BYTES,
     .meta = "BYTES",
     .dflt_note = "64MiB, or 1MiB a rank if more",
     .min = 4096,
     .max = UINT64_C(1) << 50,
     .help = "gradient bucket of ddp and zero1, largest reduction of zero2; their refresh goes in "
             "such pieces"},
    {.name = "planner",
     .type = OPT_CHOICE,
     .choices = planners,
     .dflt = "ilp",
     .help = "who chooses owners"},
    {.name = "objective",
     .type = OPT_LIST,
     .choices = planner_objective_names,
     .dflt = "flops,bytes",
     .help = "what it minimises, in order"},
    {.name = "mesh",
     .type = OPT_STRING,
     .meta = "p=AxB,...",
     .dflt_note = "from the layout",
     .help = "sharding factors in a node x nodes, checked: p=8x1,g=8x1,os=8x1"},
    {.name = "shard-group",
     .type = OPT_COUNT,
     .meta = "G",
     .dflt_note = "from the layout",
     .min = 1,
     .max = MAX_GPUS,
     .help = "neighbours that share one copy: hsdp, mics (a node), zero1 with an elementwise "
             "optimizer (all)"},
    {.name = "tp",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt = "1",
     .min = 1,
     .max = 4096,
     .help = "tensor parallel degree; only 1 in this version"},
    {.name = "pp",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt = "1",
     .min = 1,
     .max = 4096,
     .help = "pipeline parallel degree; only 1 in this version"},
    {.name = "ep",
     .type = OPT_COUNT,
     .meta = "N",
     .dflt = "1",
     .min = 1,
     .max = 4096,
     .help = "expert parallel degree; only 1 in this version"},
    {.name = "framework",
     .type = OPT_CHOICE,
     .choices = frameworks,
     .dflt = "fsdp2",
     .help = "what surrounds the arithmetic: launch costs, extra traffic, overlap (docs/MODEL.md)"},
    {.name = "attention",
     .type = OPT_CHOICE,
     .choices = attentions,
     .dflt = "auto",
     .help = "one fused kernel, or scores that pass through memory and are kept for backward; "
             "auto: the framework's, unfused in megatron-deepspeed, and with relative positions"},
    {.name = "loss",
     .type = OPT_CHOICE,
     .choices = losses,
     .dflt = "auto",
     .help =
         "cross entropy: PyTorch's in fp32, or one kernel on 16-bit logits; auto: the framework's"},
    {.name = "adamw",
     .type = OPT_CHOICE,
     .choices = adamw_kernels,
     .dflt = "fused",
     .help = "AdamW's kernels, as PyTorch names them: one, one an operation, one an operation and "
             "tensor"},
    {.name = "ns-kernels",
     .type = OPT_CHOICE,
     .choices = ns_kernels,
     .dflt = "gemm",
     .help = "Newton-Schulz's X X^T and A A: whole, or one triangle by kernels of their own"},
    {.name = "ns-batch",
     .type = OPT_BYTES,
     .meta = "BYTES",
     .dflt = "0",
     .max = 1e12,
     .help = "matrices of one shape on a rank share a Newton-Schulz, up to so much workspace; 0: "
             "one by one"},
    {.name = "cuda-graphs",
     .type = OPT_CHOICE,
     .choices = yes_no,
     .dflt = "no",
     .help = "launch a step's kernels as graphs: none waits for its launch"},
    {.name = "fp8",
     .type = OPT_CHOICE,
     .choices = yes_no,
     .dflt = "no",
     .help =
         "products of layers in fp8, scaled as they come: the device's rate, compared with no run"},
    {.name = "grad-sync",
     .type = OPT_CHOICE,
     .choices = grad_syncs,
     .dflt = "every",
     .help = "zero3, hsdp, mics: gradients are reduced in every micro-batch, or stay whole and are "
             "in the last "
             "(no_sync)"},
    {.name = "reshard",
     .type = OPT_CHOICE,
     .choices = reshards,
     .dflt = "always",
     .help =
         "zero3, hsdp, mics: units are let go of after forward and gathered again, or stay until "
         "their backward ends (FSDP2's reshard_after_forward)"},
    {.name = "overlap-reduce",
     .type = OPT_CHOICE,
     .choices = overlaps,
     .dflt = "auto",
     .help = "gradients are reduced beside backward, or while nothing computes; auto: the "
             "framework's, no in megatron-deepspeed alone"},
    {.name = "overlap-refresh",
     .type = OPT_CHOICE,
     .choices = yes_no,
     .dflt = "no",
     .help = "zero1, zero2: updated parameters travel beside the next forward, unit by unit"},
    MODEL_OPTION_ROWS,
    {.name = "price",
     .type = OPT_DOUBLE,
     .meta = "$",
     .dflt_note = "the cluster's",
     .hi = 1e6,
     .help = "per GPU and hour"},
    {.name = "job",
     .type = OPT_STRING,
     .meta = "FILE",
     .cli_only = true,
     .help = "these options from JSON (seq_len, ...); the command line wins"},
};
const size_t setup_options_n = sizeof(setup_options) / sizeof(setup_options[0]);

static int refuse_later(const struct opts *o, struct err *e)
{
    static const char *const degrees[] = {"tp", "pp", "ep"};
    static const char *const what[] = {"tensor", "pipeline", "expert"};

    for (size_t i = 0; i < 3; i++)
        if (opts_get(o, degrees[i])->u64 != 1)
            return err_set(e, ERR_UNSUPPORTED,
                           "%s %llu: %s parallelism is not in this version; expected 1",
                           opts_said(o, degrees[i]).s,
                           (unsigned long long)opts_get(o, degrees[i])->u64, what[i]);
    return 0;
}

static int read_job_file(struct opts *o, struct err *e)
{
    const struct opt_val *v = opts_get(o, "job");
    struct json j;
    struct json_at top;
    int status;

    if (!v->set)
        return 0;
    if (json_load(&j, v->text, e))
        return -1;
    top = json_top(&j);
    status = opts_apply_json(o, &top, e);
    json_release(&j);
    return status;
}

static bool learned_positions(const struct model *m)
{
    for (uint32_t i = 0; i < m->n_classes; i++)
        if (m->classes[i].position == POSITION_LEARNED)
            return true;
    return false;
}

/* What an option says wins over --precision, but not a job file's over the command line's. */
static bool said(const struct opts *o, const char *name)
{
    const struct opt_val *v = opts_get(o, name);

    return v->set && !(v->set == OPT_FROM_JSON && opts_get(o, "precision")->set == OPT_FROM_CLI);
}

static void read_precision(const struct opts *o, struct job *j)
{
    const struct opt_val *name = opts_get(o, "precision");
    const struct precision *p = &precisions[name->u64];

    j->param_dtype = (enum dtype)opts_get(o, "param-dtype")->u64;
    j->grad_dtype = (enum dtype)opts_get(o, "grad-dtype")->u64;
    j->state_dtype = (enum dtype)opts_get(o, "state-dtype")->u64;
    if (name->set) {
        j->param_dtype = said(o, "param-dtype") ? j->param_dtype : p->param_dtype;
        j->grad_dtype = said(o, "grad-dtype") ? j->grad_dtype : p->grad_dtype;
        j->state_dtype = said(o, "state-dtype") ? j->state_dtype : p->state_dtype;
    }
    j->master_weights = j->param_dtype != DTYPE_FP32 && (!name->set || p->master_weights);
    if (said(o, "master-weights"))
        j->master_weights = opts_get(o, "master-weights")->u64 == 1;
}

/* Broadcasts are what is known of frameworks; where they have no place the layout leaves them out. */
static void read_gather(const struct opts *o, struct job *j)
{
    const struct opt_val *v = opts_get(o, "gather");

    j->gather = v->set && v->u64 < ALGO_N ? (enum coll_algo)v->u64 : ALGO_AUTO;
    j->gather_as_framework = v->set ? v->u64 == ALGO_N : framework_row(j->framework)->broadcasts;
}

static int read_job(struct setup *s, struct err *e)
{
    const struct opts *o = s->opts;
    struct job *j = &s->job;
    enum assign_objective order[4];
    uint32_t n;

    *j = (struct job){
        .optimizer = (enum optimizer)opts_get(o, "optimizer")->u64,
        .ns_steps = (uint32_t)opts_get(o, "ns-steps")->u64,
        .seq_len = opts_get(o, "seq-len")->u64,
        .micro_batch = opts_get(o, "micro-batch")->u64,
        .grad_accum = opts_get(o, "grad-accum")->u64,
        .recompute = (enum recompute)opts_get(o, "recompute")->u64,
        .prefetch = (uint32_t)opts_get(o, "prefetch")->u64,
        .planner = opts_get(o, "planner")->text,
        .objective = opts_get(o, "objective")->text,
        .tp = 1,
        .pp = 1,
        .ep = 1,
        .framework = (enum framework)opts_get(o, "framework")->u64,
        .attention = (enum attention)opts_get(o, "attention")->u64,
        .loss = (enum loss)opts_get(o, "loss")->u64,
        .adamw = (enum adamw_kernels)opts_get(o, "adamw")->u64,
        .ns_batch = opts_get(o, "ns-batch")->u64,
        .ns_symmetric = opts_get(o, "ns-kernels")->u64 == 1,
        .cuda_graphs = opts_get(o, "cuda-graphs")->u64 == 1,
        .fp8 = opts_get(o, "fp8")->u64 == 1,
        .sync_last = opts_get(o, "grad-sync")->u64 == 1,
        .reshard_never = opts_get(o, "reshard")->u64 == 1,
        .overlap_reduce = (enum overlap)opts_get(o, "overlap-reduce")->u64,
        .overlap_refresh = opts_get(o, "overlap-refresh")->u64 == 1,
        .price_per_gpu_hour =
            opts_get(o, "price")->set ? opts_get(o, "price")->d : s->cluster.price_per_gpu_hour,
    };
    read_precision(o, j);
    read_gather(o, j);
    if (model_bridge(&s->model) != MODEL_NONE)
        j->target_len =
            opts_get(o, "target-len")->set ? opts_get(o, "target-len")->u64 : j->seq_len;
    else if (opts_get(o, "target-len")->set)
        return err_set(e, ERR_INVALID, "%s %llu: '%s' has no decoder beside an encoder",
                       opts_said(o, "target-len").s,
                       (unsigned long long)opts_get(o, "target-len")->u64, s->model.name);
    if (planner_objectives(j->objective, order, &n, e))
        return opts_get(o, "objective")->set == OPT_FROM_JSON
                   ? err_prefix(e, "'%s'", opts_get(o, "job")->text)
                   : -1;
    if (j->master_weights && j->param_dtype == DTYPE_FP32)
        return err_set(e, ERR_INVALID, "%s yes: parameters are fp32 already (%s fp32)",
                       opts_said(o, "master-weights").s, opts_said(o, "param-dtype").s);
    if (j->overlap_reduce == OVERLAP_YES && framework_row(j->framework)->waits)
        return err_set(e, ERR_INVALID,
                       "%s yes: '%s' waits for every reduction, so nothing runs beside one",
                       opts_said(o, "overlap-reduce").s, framework_name(j->framework));
    if (j->fp8 && s->cluster.device.fp8_share <= 0)
        return err_set(e, ERR_INVALID, "%s yes: '%s' has no fp8 (device.fp8_share of '%s')",
                       opts_said(o, "fp8").s, s->cluster.device.name, s->cluster.name);
    if (j->fp8 && j->param_dtype == DTYPE_FP32)
        return err_set(e, ERR_INVALID, "%s yes: parameters are fp32, expected bf16 or fp16",
                       opts_said(o, "fp8").s);
    /* a stack without an embedding has no table of positions */
    if (learned_positions(&s->model) && s->model.max_seq_len && j->seq_len > s->model.max_seq_len) {
        if (opts_get(o, "seq-len")->set)
            return err_set(e, ERR_INVALID, "%s %llu: '%s' has learned positions for %llu tokens",
                           opts_said(o, "seq-len").s, (unsigned long long)j->seq_len, s->model.name,
                           (unsigned long long)s->model.max_seq_len);
        j->seq_len = s->model.max_seq_len;
    }
    return 0;
}

const char *setup_path(const char *file, const char *what, struct arena *a)
{
    const char *slash = strrchr(file, '/');
    size_t len = strlen(what);
    bool path = strchr(what, '/') || (len > 5 && !strcmp(what + len - 5, ".json"));

    if (!slash || !path || what[0] == '/' || !strncmp(what, "block:", 6))
        return what;
    return arena_printf(a, "%.*s/%s", (int)(slash - file), file, what);
}

static const char *cluster_path(const struct opts *o, struct arena *a)
{
    const struct opt_val *v = opts_get(o, "cluster"), *job = opts_get(o, "job");

    return v->set == OPT_FROM_JSON && job->text ? setup_path(job->text, v->text, a) : v->text;
}

int setup_init(struct setup *s, struct opts *o, const char *model, struct err *e)
{
    struct model_options mo;
    uint64_t gpn;

    memset(s, 0, sizeof(*s));
    arena_init(&s->arena);
    s->opts = o;
    if (read_job_file(o, e) || refuse_later(o, e) || model_opts_read(o, &mo, e))
        goto fail;
    if (opts_get(o, "names")->set == OPT_FROM_JSON)
        mo.names = setup_path(o->json_file, mo.names, &s->arena);
    mo.seq_len = opts_get(o, "seq-len")->u64;
    if (model_load_with(model, &mo, &s->arena, &s->model, e) ||
        cluster_load(cluster_path(o, &s->arena), &s->arena, &s->cluster, e))
        goto fail;
    if (opts_get(o, "gpus-per-node")->set) {
        gpn = opts_get(o, "gpus-per-node")->u64;
        if (gpn > s->cluster.gpus_per_node) {
            err_set(e, ERR_INVALID, "%s %llu: a node of '%s' has %u",
                    opts_said(o, "gpus-per-node").s, (unsigned long long)gpn, s->cluster.name,
                    s->cluster.gpus_per_node);
            goto fail;
        }
        s->cluster.gpus_per_node = (uint32_t)gpn;
    }
    if (read_job(s, e))
        goto fail;
    return 0;
fail:
    arena_release(&s->arena);
    return -1;
}

void setup_release(struct setup *s)
{
    arena_release(&s->arena);
}

/* ---- sizes ---- */

/* G neighbours share a copy of what the layout cuts, and there are W/G copies. Of several layouts those that have one copy
 * leave it to the others. */
static int resolve_shard_group(const struct setup *s, struct job *j, struct err *e)
{
    const struct opt_val *v = opts_get(s->opts, "shard-group");
    const struct layout *l;
    enum strategy strategy;
    const char *full;
    struct arena a;
    int status;

    arena_init(&a);
    status = layout_resolve(j->layout, j->optimizer, &a, &l, &strategy, &full, e);
    arena_release(&a);
    if (status)
        return -1;
    if (v->set)
        j->shard_group = (uint32_t)v->u64;
    if (s->some_have_groups && !layout_has_groups(l, j->optimizer))
        j->shard_group = 0;
    if (layout_groups(l, j, s->cluster.gpus_per_node, &j->shard_group, e))
        return v->set ? err_prefix(e, "%s %llu", opts_said(s->opts, "shard-group").s,
                                   (unsigned long long)v->u64)
                      : -1;
    return 0;
}

static int resolve_size(const struct setup *s, uint64_t nodes, struct job *j, struct err *e)
{
    const struct opt_val *v = opts_get(s->opts, "gpus");
    uint64_t gpn = s->cluster.gpus_per_node, gpus = v->u64;

    /* of a pair that differs, what the command line says beats what a job file says */
    if (v->set && nodes && !s->whole_nodes && num_ceil_div(gpus, gpn) != nodes &&
        v->set != opts_get(s->opts, "nodes")->set) {
        if (v->set == OPT_FROM_JSON)
            gpus = nodes * gpn;
        else
            nodes = 0;
    }
    if (!v->set || s->whole_nodes)
        gpus = (nodes ? nodes : 1) * gpn;
    if (gpus > MAX_GPUS)
        return err_set(e, ERR_INVALID, "%llu GPUs are more than 2^24", (unsigned long long)gpus);
    if (nodes && num_ceil_div(gpus, gpn) != nodes)
        return err_set(e, ERR_INVALID, "%s %llu at %llu a node fill %llu nodes, and %s is %llu",
                       opts_said(s->opts, "gpus").s, (unsigned long long)gpus,
                       (unsigned long long)gpn, (unsigned long long)num_ceil_div(gpus, gpn),
                       opts_said(s->opts, "nodes").s, (unsigned long long)nodes);
    j->gpus = (uint32_t)gpus;
    j->nodes = (uint32_t)num_ceil_div(gpus, gpn);
    return resolve_shard_group(s, j, e);
}

static int resolve_batch(const struct setup *s, struct job *j, struct err *e)
{
    const struct opt_val *v = opts_get(s->opts, "global-batch");
    const struct opt_val *accum = opts_get(s->opts, "grad-accum");
    uint64_t step, batch, tokens = 1, below;
    char number[64];
    size_t len;

    if (!v->set || (v->set == OPT_FROM_JSON && accum->set == OPT_FROM_CLI))
        return 0;
    if (accum->set == OPT_FROM_JSON && v->set == OPT_FROM_JSON)
        return err_set(e, ERR_INVALID,
                       "'%s': global_batch and grad_accum say the same thing twice; give one",
                       opts_get(s->opts, "job")->text);
    if (accum->set == OPT_FROM_CLI)
        return err_set(e, ERR_USAGE,
                       "--global-batch and --grad-accum say the same thing twice; give one");
    len = strlen(v->text);
    if (len > 3 && !strcasecmp(v->text + len - 3, "tok")) {
        tokens = j->seq_len;
        len -= 3;
    }
    snprintf(number, sizeof(number), "%.*s", (int)num_min(len, sizeof(number) - 1), v->text);
    if (units_count(number, &batch, e))
        return err_prefix(e, "%s %s", opts_said(s->opts, "global-batch").s, v->text);
    if (!num_mul(j->micro_batch, j->gpus, &step) || !num_mul(step, tokens, &step) ||
        step > NUM_MAX / 2)
        return err_set(e, ERR_OVERFLOW, "%s %s: micro-batch x GPUs%s passes 2^62",
                       opts_said(s->opts, "global-batch").s, v->text,
                       tokens > 1 ? " x seq-len" : "");
    below = num_max(batch / step, 1) * step; /* 0 is no batch */
    if (batch % step || !batch)
        return err_set(e, ERR_INVALID,
                       "%s %s is no multiple of micro-batch x GPUs%s (%llu); nearest: "
                       "%llu%s and %llu%s",
                       opts_said(s->opts, "global-batch").s, v->text,
                       tokens > 1 ? " x seq-len" : "", (unsigned long long)step,
                       (unsigned long long)below, tokens > 1 ? "tok" : "",
                       (unsigned long long)(below + step), tokens > 1 ? "tok" : "");
    j->grad_accum = batch / step;
    if (j->grad_accum > 4096)
        return err_set(e, ERR_INVALID, "%s %s needs %llu micro-batches a step, more than 4096",
                       opts_said(s->opts, "global-batch").s, v->text,
                       (unsigned long long)j->grad_accum);
    return 0;
}

int setup_plan(const struct setup *s, uint64_t nodes, const char *layout, struct arena *a,
               struct plan *plan, struct err *e)
{
    struct job *j = &plan->job;

    memset(plan, 0, sizeof(*plan));
    plan->model = s->model;
    plan->cluster = s->cluster;
    *j = s->job;
    j->layout = arena_strdup(a, layout);
    if (resolve_size(s, nodes, j, e) || resolve_batch(s, j, e) ||
        cluster_resize(&plan->cluster, j->nodes, e) || mesh_check(s->opts, plan, e))
        return -1;
    /* As Megatron does, the default bucket grows with the ranks: a ring's latency does too. */
    j->bucket_bytes = opts_get(s->opts, "bucket")->set
                          ? opts_get(s->opts, "bucket")->u64
                          : num_max(UINT64_C(64) << 20, (uint64_t)j->gpus << 20);
    return 0;
}

/* ---- options without effect ---- */

static bool one_rank(const struct setup *s)
{
    const struct opt_val *gpus = opts_get(s->opts, "gpus"), *nodes = opts_get(s->opts, "nodes");

    return gpus->set ? gpus->u64 == 1 : s->cluster.gpus_per_node == 1 && !nodes->set;
}

int setup_check_used(struct setup *s, const char *const *layouts, size_t n, struct err *e)
{
    const struct optimizer_row *row = optimizer_row(s->job.optimizer),
                               *rest = optimizer_row(optimizer_of_rest(s->job.optimizer));
    const char *under = row->matrices ? "" : " of matrices under ", *name = *under ? row->name : "";
    bool owner = false, owner_refresh = false, bucket = false, cut = false, whole = false,
         refresh = false, local = false, syncs = false;
    struct arena a;

    arena_init(&a);
    for (size_t i = 0; i < n; i++) {
        const struct layout *l;
        enum strategy st;
        const char *full;

        if (layout_resolve(layouts[i], s->job.optimizer, &a, &l, &st, &full, e)) {
            arena_release(&a);
            return -1;
        }
        for (size_t k = 0; k < i; k++)
            if (!strcasecmp(layouts[k], layouts[i])) {
                arena_release(&a);
                return err_set(e, ERR_USAGE, "layout '%s' is named twice", layouts[i]);
            }
        owner |= st == STRATEGY_OWNER && row->matrices;
        owner_refresh |= st == STRATEGY_OWNER && layout_refreshes(l);
        whole |= st != STRATEGY_STOCK;
        local |= st == STRATEGY_OWNER || st == STRATEGY_REPLICATED;
        syncs |= layout_may_sync_last(l);
        refresh |= layout_refreshes(l);
        bucket |= layout_has_buckets(l, st);
        cut |= l->cut[PARAM];
        s->some_have_groups |= layout_has_groups(l, s->job.optimizer);
    }
    arena_release(&a);
    if (opts_get(s->opts, "gather")->set == OPT_FROM_CLI && !owner)
        return err_set(e, ERR_INVALID, "--gather has no effect: no layout here has owners%s%s",
                       under, name);
    if (opts_get(s->opts, "gather")->set == OPT_FROM_CLI && s->job.gather_as_framework &&
        (!owner_refresh || !framework_row(s->job.framework)->broadcasts))
        return err_set(e, ERR_INVALID,
                       "--gather framework has no effect: it is known of fsdp2 and fsdp2-compiled, "
                       "under zero1-owner and zero2-owner");
    if (opts_get(s->opts, "planner")->set == OPT_FROM_CLI && !owner)
        return err_set(e, ERR_INVALID, "--planner has no effect: no layout here has owners%s%s",
                       under, name);
    if (opts_get(s->opts, "objective")->set == OPT_FROM_CLI && !owner)
        return err_set(e, ERR_INVALID, "--objective has no effect: no layout here has owners%s%s",
                       under, name);
    if (opts_get(s->opts, "attention")->set == OPT_FROM_CLI && !model_has_attention(&s->model))
        return err_set(e, ERR_INVALID, "--attention has no effect: '%s' has none", s->model.name);
    if (opts_get(s->opts, "loss")->set == OPT_FROM_CLI && !model_has_head(&s->model))
        return err_set(e, ERR_INVALID, "--loss has no effect: '%s' has no head", s->model.name);
    if (opts_get(s->opts, "bucket")->set == OPT_FROM_CLI && !bucket)
        return err_set(
            e, ERR_INVALID,
            "--bucket has no effect: only ddp, zero1 and zero2, without owners, reduce in "
            "buckets");
    if (opts_get(s->opts, "prefetch")->set == OPT_FROM_CLI && !cut)
        return err_set(e, ERR_INVALID,
                       "--prefetch has no effect: no layout here gathers parameters");
    if (opts_get(s->opts, "reshard")->set == OPT_FROM_CLI && !cut)
        return err_set(e, ERR_INVALID,
                       "--reshard has no effect: no layout here gathers parameters");
    if (opts_get(s->opts, "ns-steps")->set == OPT_FROM_CLI && !row->newton_schulz)
        return err_set(e, ERR_INVALID, "--ns-steps has no effect: %s has no Newton-Schulz steps",
                       row->name);
    if (opts_get(s->opts, "ns-kernels")->set == OPT_FROM_CLI && !row->newton_schulz)
        return err_set(e, ERR_INVALID,
                       "--ns-kernels has no effect: %s has no Newton-Schulz products", row->name);
    if (opts_get(s->opts, "ns-batch")->set == OPT_FROM_CLI && !row->newton_schulz)
        return err_set(e, ERR_INVALID, "--ns-batch has no effect: %s has no Newton-Schulz steps",
                       row->name);
    if (opts_get(s->opts, "ns-batch")->set == OPT_FROM_CLI && !local)
        return err_set(
            e, ERR_INVALID,
            "--ns-batch has no effect: only whole matrices, under ddp or owners, are batched");
    if (opts_get(s->opts, "adamw")->set == OPT_FROM_CLI && !rest->each.operations)
        return err_set(e, ERR_INVALID,
                       "--adamw has no effect: %s updates all tensors, in one kernel", rest->name);
    if (opts_get(s->opts, "grad-sync")->set == OPT_FROM_CLI && !syncs)
        return err_set(
            e, ERR_INVALID,
            "--grad-sync has no effect: only zero3, hsdp and mics can leave out reductions");
    if (opts_get(s->opts, "overlap-reduce")->set == OPT_FROM_CLI && one_rank(s))
        return err_set(e, ERR_INVALID,
                       "--overlap-reduce has no effect: one GPU has nothing to reduce");
    if (opts_get(s->opts, "overlap-refresh")->set == OPT_FROM_CLI && !refresh)
        return err_set(e, ERR_INVALID,
                       "--overlap-refresh has no effect: only zero1 and zero2 refresh parameters");
    if (opts_get(s->opts, "ns-kernels")->set == OPT_FROM_CLI && !whole)
        return err_set(e, ERR_INVALID,
                       "--ns-kernels has no effect: stock's products are cut, and not symmetric");
    return 0;
}
