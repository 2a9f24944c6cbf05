/* tests/layouts/plans.h - small plans for tests: models, a cluster without surprises, owners by a fixed rule, and the
 * names of all layouts, read off their table. */
#ifndef BALLAST_TESTS_LAYOUTS_PLANS_H
#define BALLAST_TESTS_LAYOUTS_PLANS_H

#include "core/num.h"
#include "layouts/layout.h"
#include "model/plan/model_load.h"
#include "model/plan/optimizers.h"
#include "tests/suite.h"

#include <stdio.h>
#include <string.h>

/* Models by a short name: with and without vocabulary, tied, experts. Everything is small and nothing is round. */
static inline const char *plans_text(const char *name)
{
    if (!strcmp(name, "block"))
        return "block:layers=3,hidden=48,ffn=160,heads=4";
    if (!strcmp(name, "one-layer"))
        return "block:layers=1,hidden=16,ffn=64,heads=2";
    if (!strcmp(name, "llama"))
        return "block:layers=4,hidden=40,ffn=104,heads=4,kv-heads=2,mlp=swiglu,vocab=331";
    if (!strcmp(name, "gpt2"))
        return "block:layers=2,hidden=36,ffn=144,heads=6,mlp=gelu,vocab=257";
    return name;
}

static const char plans_moe[] =
    "{\"model_type\":\"mixtral\",\"vocab_size\":97,\"hidden_size\":32,\"intermediate_size\":56,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
    "\"num_local_experts\":4,\"num_experts_per_tok\":2,\"tie_word_embeddings\":false}";

static const char plans_qwen_moe[] =
    "{\"model_type\":\"qwen3_moe\",\"vocab_size\":89,\"hidden_size\":24,\"intermediate_size\":40,"
    "\"moe_intermediate_size\":20,\"num_hidden_layers\":2,\"num_attention_heads\":3,"
    "\"num_key_value_heads\":1,\"head_dim\":8,\"num_experts\":6,\"num_experts_per_tok\":3,\"norm_"
    "topk_prob\":true,"
    "\"tie_word_embeddings\":false}";

/* An encoder and its decoder, of different depths and lengths, with heads wider than the hidden size. */
static const char plans_t5[] =
    "{\"model_type\":\"t5\",\"vocab_size\":83,\"d_model\":24,\"d_kv\":16,\"d_ff\":52,"
    "\"num_layers\":3,\"num_decoder_layers\":2,\"num_heads\":3}";
enum { PLANS_TARGET = 20 };

/* Its other form: a head of its own, gated MLPs. */
static const char plans_t5_gated[] =
    "{\"model_type\":\"t5\",\"vocab_size\":83,\"d_model\":24,\"d_kv\":8,\"d_ff\":52,"
    "\"num_layers\":2,\"num_heads\":3,\"feed_forward_proj\":\"gated-gelu\","
    "\"tie_word_embeddings\":false}";

static const char plans_bert[] =
    "{\"model_type\":\"bert\",\"vocab_size\":91,\"hidden_size\":24,\"intermediate_size\":88,"
    "\"num_hidden_layers\":2,\"num_attention_heads\":3,\"architectures\":[\"BertForPreTraining\"]}";

static const char *const plans_models[] = {"block",  "llama",        "gpt2",    "moe",
                                           plans_t5, plans_t5_gated, plans_bert};

static inline struct job plans_job(void)
{
    return (struct job){.optimizer = OPTIMIZER_MUON,
                        .ns_steps = 5,
                        .seq_len = 32,
                        .micro_batch = 2,
                        .grad_accum = 1,
                        .param_dtype = DTYPE_BF16,
                        .grad_dtype = DTYPE_BF16,
                        .state_dtype = DTYPE_FP32,
                        .master_weights = true,
                        .recompute = RECOMPUTE_FULL,
                        .gather = ALGO_AUTO,
                        .prefetch = 1,
                        .bucket_bytes = 64 << 20,
                        .planner = "ilp",
                        .objective = "flops,bytes",
                        .tp = 1,
                        .pp = 1,
                        .ep = 1,
                        .framework = FRAMEWORK_FSDP2};
}

/* No latency, no efficiency below 1, nothing but rates: times follow by division. One NIC a GPU. */
static inline void plans_ideal_cluster(struct cluster *c, uint32_t gpus_per_node, uint32_t world)
{
    memset(c, 0, sizeof(*c));
    c->name = c->summary = c->source = "ideal";
    c->device = (struct device){.name = "ideal",
                                .memory_bytes = UINT64_C(80) << 30,
                                .peak_flops = 1e14,
                                .tf32_share = 0.5,
                                .hbm_Bps = 1e12,
                                .n_sm = 1,
                                .gemm_efficiency = 1,
                                .hbm_efficiency = 1,
                                .attention_flops = 1e14,
                                .sustained_factor = 1};
    c->gpus_per_node = gpus_per_node;
    c->nics_per_node = gpus_per_node;
    c->n_nodes = (world + gpus_per_node - 1) / gpus_per_node;
    c->nvswitch = true;
    c->nvlink_Bps = 1e11;
    c->nvlink_efficiency = 1;
    c->nic_Bps = 1e10;
    c->nic_efficiency = 1;
    for (uint32_t i = 0; i < gpus_per_node; i++)
        c->nic_of_gpu[i] = (uint8_t)i;
    c->oversubscription = 1;
    for (int i = 0; i < PROTOCOL_N; i++)
        c->coll.rate_share[i] = 1;
}

/* Owners: the k-th owned matrix goes to place (5k + unit) mod G, a unit's vectors to (3 unit + 1) mod G. */
static inline void plans_owners(struct plan *p)
{
    uint32_t k = 0, n = placement_parts(p, STATE);

    for (uint32_t i = 0; i < p->model.n_tensors; i++) {
        const struct tensor *t = &p->model.tensors[i];

        if (p->place[i].rule != PLACE_OWNER)
            continue;
        if (layout_updates_as_matrix(p, t))
            p->place[i].owner = (5 * k++ + t->unit) % n;
        else
            p->place[i].owner = (3 * t->unit + 1) % n;
    }
}

/* A short name, or the text of a config.json; behind "split ": fused projections split. */
static inline int plans_model(struct model *m, const char *name, struct arena *a, struct err *e)
{
    const struct model_options split = {.split_fused = true}, none = {0};

    if (!strncmp(name, "split {", 7))
        return model_from_config_with(name + 6, strlen(name + 6), "split", &split, a, m, e);
    if (*name == '{')
        return model_from_config_with(name, strlen(name), "config", &none, a, m, e);
    if (!strcmp(name, "qwen-moe"))
        return model_from_config(plans_qwen_moe, sizeof(plans_qwen_moe) - 1, name, a, m, e);
    return !strcmp(name, "moe")
               ? model_from_config(plans_moe, sizeof(plans_moe) - 1, "moe", a, m, e)
               : model_load(plans_text(name), 64, a, m, e);
}

/* ---- layouts ---- */

/* Every layout with every strategy that its row allows, as typed, off the table; NULL past the last. */
static inline const char *plans_name(uint32_t i)
{
    static char names[64][32];
    uint32_t n = 0;

    for (size_t l = 0; layouts_all[l]; l++)
        for (int s = 0; s < STRATEGY_N; s++)
            if (layouts_all[l]->allowed & 1u << s) {
                MUST(n < 64, "more than 64 names of layouts");
                if (n == i) {
                    snprintf(names[n], sizeof(names[n]), "%s%s%s", layouts_all[l]->name,
                             s ? "+" : "", strategy_name((enum strategy)s));
                    return names[n];
                }
                n++;
            }
    return NULL;
}

/* The row of a name. */
static inline const struct layout *plans_row(const char *layout)
{
    const struct layout *l;
    enum strategy s;
    const char *full;
    struct arena a;
    struct err e;

    arena_init(&a);
    MUST(!layout_resolve(layout, OPTIMIZER_MUON, &a, &l, &s, &full, &e), "%s: %s", layout, e.msg);
    arena_release(&a);
    return l;
}

/* The names of layouts that always share out the ranks in groups; NULL past the last. */
static inline const char *plans_grouped(uint32_t i)
{
    const char *name;

    for (uint32_t l = 0; (name = plans_name(l)); l++)
        if (plans_row(name)->groups == GROUPS_NODE && i-- == 0)
            return name;
    return NULL;
}

static inline uint32_t plans_divisor(uint32_t n, uint32_t *seed)
{
    uint32_t k = 0, at;

    for (uint32_t d = 1; d <= n; d++)
        k += n % d == 0;
    *seed = *seed * 1664525u + 1013904223u;
    at = (*seed >> 16) % k;
    for (uint32_t d = 1;; d++)
        if (n % d == 0 && at-- == 0)
            return d;
}

/* The GPUs of a node, at most so many, that the ranks fill nodes of. */
static inline uint32_t plans_node(uint32_t world, uint32_t gpus_per_node)
{
    uint32_t n = (uint32_t)num_min(world, gpus_per_node);

    while (world % n)
        n--;
    return n;
}

/* Gives the layout what it takes: a shard group, or factors that nest, chosen by the seed. Of other layouts neither. The text of
 * the factors is good until the next call; plans are made before. */
static inline void plans_fit(struct job *j, const char *layout, uint32_t world,
                             uint32_t gpus_per_node, uint32_t seed)
{
    static char text[80];
    const struct layout *l = plans_row(layout);
    uint32_t node = plans_node(world, gpus_per_node), in[3], nodes[3];

    seed = seed * 2654435761u + world;
    j->shard_group = l->groups == GROUPS_NODE ? plans_divisor(world, &seed) : 0;
    j->mesh = NULL;
    if (!l->nested)
        return;
    for (int k = 2; k >= 0; k--) {
        in[k] = plans_divisor(k == 2 ? node : in[k + 1], &seed);
        nodes[k] = plans_divisor(k == 2 ? world / node : nodes[k + 1], &seed);
    }
    snprintf(text, sizeof(text), "p=%ux%u,g=%ux%u,os=%ux%u", in[0], nodes[0], in[1], nodes[1],
             in[2], nodes[2]);
    j->mesh = text;
}

/* Layouts that share out nodes, and are not told how, get nodes that the ranks fill. */
static inline void plans_make(struct plan *p, struct arena *a, const char *model,
                              const char *layout, const struct job *j, uint32_t world,
                              uint32_t gpus_per_node)
{
    struct err e;

    memset(p, 0, sizeof(*p));
    MUST(plans_model(&p->model, model, a, &e) == 0, "%s: %s", model, e.msg);
    if (plans_row(layout)->nested || (plans_row(layout)->groups == GROUPS_NODE && !j->shard_group))
        gpus_per_node = world > gpus_per_node ? plans_node(world, gpus_per_node) : gpus_per_node;
    plans_ideal_cluster(&p->cluster, gpus_per_node, world);
    p->job = *j;
    if (model_bridge(&p->model) != MODEL_NONE && !p->job.target_len)
        p->job.target_len = PLANS_TARGET;
    p->job.layout = layout;
    p->job.gpus = world;
    p->job.nodes = p->cluster.n_nodes;
    MUST(layout_place(p, a, &e) == 0, "%s: %s", layout, e.msg);
    plans_owners(p);
    p->solver = "by hand";
    p->reproducible = true;
}

/* Loads as the layout has them, for a plan that is to be read back. */
static inline void plans_loads(struct plan *p, struct arena *a)
{
    p->load_flops = ARENA_NEW(a, uint64_t, p->world);
    p->load_bytes = ARENA_NEW(a, uint64_t, p->world);
    layout_loads(p, p->load_flops, p->load_bytes);
    for (uint32_t r = 0; r < p->world; r++) {
        p->flops_max = num_max(p->flops_max, p->load_flops[r]);
        p->bytes_max = num_max(p->bytes_max, p->load_bytes[r]);
        p->flops_mean += (double)p->load_flops[r] / p->world;
        p->bytes_mean += (double)p->load_bytes[r] / p->world;
    }
    p->bound = p->flops_max;
    p->optimal = true;
}

static inline void plans_lower(const struct plan *p, struct arena *a, struct program *prog)
{
    struct err e;

    MUST(layout_lower(p, a, prog, &e) == 0, "%s: %s", p->layout_full, e.msg);
}

static const uint32_t plans_worlds[] = {1, 2, 3, 5, 7, 8, 63, 64};

/* (world, group) that go together on nodes of 4 or 8: one a rank, several a node, a node, over nodes, over parts of nodes,
 * all. */
static const uint32_t plans_group_worlds[][2] = {{1, 1},  {2, 1},   {4, 2},   {6, 3},   {8, 4},
                                                 {16, 8}, {32, 16}, {12, 6},  {36, 12}, {8, 8},
                                                 {7, 1},  {64, 8},  {12, 12}, {24, 4}};
enum { PLANS_N_GROUP_WORLDS = 14 };

/* Does the layout's own table let this optimizer take this name? */
static inline bool plans_go_together(const char *layout, enum optimizer o)
{
    const struct layout *l;
    enum strategy s;
    const char *full;
    struct arena a;
    struct err e;
    bool go;

    arena_init(&a);
    go = !layout_resolve(layout, o, &a, &l, &s, &full, &e);
    arena_release(&a);
    return go;
}

enum { PLANS_N_MODELS = 7, PLANS_N_WORLDS = 8 };

/* Names are for people: with these no reader may do anything else. */
static inline void plans_rename_ops(struct program *p, struct arena *a)
{
    for (uint32_t i = 0; i < p->n_ops; i++)
        p->ops[i].name = arena_printf(a, "op %u", i);
}

#endif
