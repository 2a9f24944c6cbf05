#include "cli/step_band.h"

#include "core/strbuf.h"

#include <math.h>
#include <string.h>

/* Wider than the fitted rows miss: nine in ten of rows that were not fitted should lie within. */
static const struct {
    const char *device, *layout;
    bool muon;
    enum framework framework;
    uint32_t most_gpus;
    double percent;
    const char *basis;
} covered[] = {
    {"A100", "ddp", false, FRAMEWORK_MEGATRON_DEEPSPEED, 8, 4,
     "vtrain: 120 runs of GPT on 2 to 8 A100; Megatron-DeepSpeed"},
    {"A100", "zero3", false, FRAMEWORK_FSDP2, 8, 8, "llm-foundry: 11 runs of MPT on 8 A100; FSDP"},
    {"A100", "zero1", false, FRAMEWORK_FSDP2, 1024, 8,
     "internevo: InternLM-7B on 8 to 1024 A100; ZeRO-1"},
    {"A800", "zero1", false, FRAMEWORK_FSDP2, 1024, 10,
     "amsp: LLaMA-7B on 8 and 1024 A800; ZeRO-1"},
    {"A800", "zero3", false, FRAMEWORK_DEEPSPEED, 1024, 50,
     "amsp: LLaMA-7B on 1024 A800; ZeRO-3 through DeepSpeed"},
    {"A800", "mics", false, FRAMEWORK_DEEPSPEED, 1024, 20,
     "amsp: LLaMA-7B on 8 and 1024 A800; MiCS through DeepSpeed"},
    {"A100", "hsdp", false, FRAMEWORK_FSDP2_COMPILED, 128, 12,
     "fms-fsdp: Llama 2 7B on 128 A100; HSDP, torch.compile"},
    {"H100", "hsdp", false, FRAMEWORK_FSDP2_COMPILED, 96, 12,
     "fms-fsdp: Llama 2 7B on 96 H100; HSDP, torch.compile"},
    {"A100", "zero3+owner", true, FRAMEWORK_FSDP2, 64, 10,
     "matrixfsdp: blocks of 16 to 128 layers on 8 to 64 A100; owners"},
    {"A100", "zero3+stock", true, FRAMEWORK_FSDP2, 64, 15,
     "matrixfsdp: blocks of 16 to 128 layers on 8 to 64 A100; stock"},
};

/* What a cluster is made of, without where its numbers come from. */
static void describe(const struct cluster *c, struct strbuf *text)
{
    struct cluster bare = *c;
    cJSON *tree;

    bare.sources = NULL;
    bare.summary = bare.source = "";
    tree = cluster_to_json(&bare);
    json_print(tree, false, text);
    json_free(tree);
}

/* A bundled machine as it is: an edited file keeps the name, and not what was measured. */
static bool as_bundled(const struct cluster *c)
{
    struct strbuf one, two;
    struct cluster bundled;
    struct arena a;
    struct err e;
    bool same = false;

    if (strpbrk(c->name, ":/."))
        return false;
    arena_init(&a);
    strbuf_init(&one);
    strbuf_init(&two);
    if (!cluster_load(c->name, &a, &bundled, &e)) {
        describe(c, &one);
        describe(&bundled, &two);
        same = one.len == two.len && !memcmp(one.s, two.s, one.len);
    }
    strbuf_release(&one);
    strbuf_release(&two);
    arena_release(&a);
    return same;
}

/* Whether asked for or not. */
static bool as_the_framework_has_it(const struct job *j, const struct model *m)
{
    struct job unasked = *j;

    unasked.attention = ATTENTION_AUTO;
    unasked.loss = LOSS_AUTO;
    unasked.overlap_reduce = OVERLAP_AUTO;
    return job_unfused_attention(j, m) == job_unfused_attention(&unasked, m) &&
           job_reduces_after(j) == job_reduces_after(&unasked) &&
           job_eager_loss(j) == job_eager_loss(&unasked) && j->loss != LOSS_FUSED;
}

/* No run of an encoder of words is among those that were measured. */
static bool has_encoder(const struct model *m)
{
    bool words = false, full = false;

    for (uint32_t c = 0; c < m->n_classes; c++) {
        words |= m->classes[c].kind == UNIT_EMBED;
        full |= m->classes[c].kind == UNIT_LAYER && !m->classes[c].causal;
    }
    return words && full;
}

/* Jobs of the kind that was measured: a bundled machine as it is, models and sequences of the size of the rows, 16-bit parameters. */
static bool usual(const struct plan *plan, bool muon)
{
    const struct job *j = &plan->job;

    return !has_encoder(&plan->model) && plan->model.total_params >= (muon ? 1e9 : 1e8) &&
           j->seq_len >= 1024 && j->seq_len <= 16384 && j->param_dtype != DTYPE_FP32 &&
           j->ns_steps <= 5 && as_the_framework_has_it(j, &plan->model) && !j->ns_symmetric &&
           !j->cuda_graphs && !j->fp8 && !j->overlap_refresh &&
           !(j->sync_last && j->grad_accum > 1) && !j->reshard_never;
}

double step_band(const struct plan *plan, const char **basis)
{
    const struct job *j = &plan->job;

    for (size_t i = 0; i < sizeof(covered) / sizeof(covered[0]); i++)
        if (usual(plan, covered[i].muon) && strstr(plan->cluster.device.name, covered[i].device) &&
            !strcmp(plan->layout_full, covered[i].layout) &&
            (j->optimizer == OPTIMIZER_MUON) == covered[i].muon &&
            (j->optimizer == OPTIMIZER_ADAMW) != covered[i].muon &&
            j->framework == covered[i].framework && j->gpus <= covered[i].most_gpus &&
            as_bundled(&plan->cluster)) {
            *basis = covered[i].basis;
            return covered[i].percent;
        }
    *basis = "unvalidated";
    return NAN;
}
