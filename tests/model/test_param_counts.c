/* Published parameter counts against the published config.json files, which are not part of the repository: they lie
 * in $BALLAST_SHARED, else in ../shared beside it (reference/param_counts.json and models/). Without them: status 77.
 *
 * The counts are of parameters: no buffers (rotary frequencies, causal masks), and a tied head once. Where a public
 * total differs for these reasons, the excess is below and must be exactly that. */
#include "core/json.h"
#include "model/plan/model_load.h"
#include "model/tensors/tensors.h"
#include "tests/model/families.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Public totals that count something twice or that is no parameter: total + excess. */
static const struct {
    const char *config;
    uint64_t public_total, excess;
    const char *why;
} differ[] = {
    {"Llama-2-7B.json", 6738417664, 32 * 64, "rotary frequencies of 32 layers"},
    {"Llama-2-70B.json", 68976653312, 80 * 64, "rotary frequencies of 80 layers"},
    {"Qwen3-0.6B.json", 751632384, 151936 * 1024, "the tied head"},
    {"Qwen3-1.7B.json", 2031739904, 151936 * 2048, "the tied head"},
    {"Moonlight-16B-A3B.json", 15960111936, 27 * 64, "buffers in its repository's metadata"},
};
enum { N_DIFFER = sizeof(differ) / sizeof(differ[0]) };

/* Entries that name no config: the config or the family (families.h) that they are of, and what is not the same thing. */
static const struct {
    const char *model, *config, *family;
    int64_t more;
    const char *why;
} elsewhere[] = {
    {"Qwen/Qwen-72B (v1)", "Qwen-72B.json", NULL, 0, ""},
    {"Qwen3.5-25B-REAP-A3B", "Qwen3.5-25B-REAP-A3B.json", NULL, 0, ""},
    {"google/gemma-3-4b-it", "gemma-3-4b-text.json", NULL, -419816304 - 64 * 2560,
     "the text part, with 64 rows less in the vocabulary than the multimodal checkpoint"},
    {"google/gemma-3-27b / medgemma-27b-it", "medgemma-27b-it-Gemma-3-27B.json", NULL, -423060336,
     "the text part; its own metadata, 28,842,036,848, counts the tied head twice"},
    {"MosaicML MPT-70b bench", NULL, "mpt-70b, 2048 tokens", 0, ""},
    {"MosaicML MPT-7b bench (seq 2048)", NULL, "mpt-7b, 2048 tokens", 0, ""},
    {"Pythia-12b (non-embedding)", NULL, "pythia-12b", 2ll * 50688 * 5120, "both tables"},
    {"Llama-2-7B body, vocab 50257 tied, fused QKV (modded-llama2)", NULL, NULL, 0,
     "test_model_hf.c, llama_body_with_a_tied_vocabulary_of_50257"},
};
enum { N_ELSEWHERE = sizeof(elsewhere) / sizeof(elsewhere[0]) };

/* Configs without an entry: R1 has V3's shapes; the others by hand, as in families.h. */
static const struct {
    const char *config;
    uint64_t total;
} unlisted[] = {
    {"DeepSeek-R1.json", 671026419200},
    {"gemma-4-26B-A4B.json", 25233141760},
    {"pythia-1.4b-reward.json", 1311594497},
};

static int check(const char *dir, const char *config, uint64_t want, int *read)
{
    char path[700];
    struct arena a;
    struct model m;
    struct err e;
    int bad;

    arena_init(&a);
    snprintf(path, sizeof(path), "%s/models/%s", dir, config);
    if (access(path, R_OK)) {
        arena_release(&a);
        return 0;
    }
    if (model_load(path, 4096, &a, &m, &e)) {
        printf("%-40s FAILED: %s\n", config, e.msg);
        arena_release(&a);
        return 1;
    }
    (*read)++;
    bad = m.total_params != want;
    for (size_t i = 0; i < N_DIFFER; i++)
        if (!strcmp(config, differ[i].config)) {
            bad |= m.total_params + differ[i].excess != differ[i].public_total;
            printf("%-40s public total %llu has %llu more: %s\n", "",
                   (unsigned long long)differ[i].public_total, (unsigned long long)differ[i].excess,
                   differ[i].why);
        }
    printf("%-40s %15llu %15llu %s\n", config, (unsigned long long)want,
           (unsigned long long)m.total_params, bad ? "FAILED" : "");
    arena_release(&a);
    return bad;
}

static int check_family(const char *name, uint64_t want)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].name, name)) {
            printf("%-40s %15llu %15llu %s\n", name, (unsigned long long)want,
                   (unsigned long long)families[i].total,
                   families[i].total == want ? "" : "FAILED");
            return families[i].total != want;
        }
    printf("%-40s FAILED: not in families.h\n", name);
    return 1;
}

/* An entry without a config: of one by another name, or of a family's test. */
static int check_elsewhere(const char *dir, const char *model, uint64_t total, int *read)
{
    for (size_t i = 0; i < N_ELSEWHERE; i++) {
        uint64_t want = total + (uint64_t)elsewhere[i].more;

        if (strcmp(elsewhere[i].model, model) != 0)
            continue;
        if (*elsewhere[i].why)
            printf("%-40s %s\n", model, elsewhere[i].why);
        if (elsewhere[i].config)
            return check(dir, elsewhere[i].config, want, read);
        return elsewhere[i].family ? check_family(elsewhere[i].family, want) : 0;
    }
    printf("%-40s FAILED: names no config, and nothing here explains it\n", model);
    return 1;
}

/* Published indices against published configs of the same name: which names are in both, and what else there is. */
static int check_index(const char *dir, const char *stem, size_t extra_want, int *read)
{
    char path[700];
    struct tensor_list l;
    const char *missing, *differs;
    size_t extra = 0;
    struct json_at top;
    struct json j;
    struct arena a;
    struct model m;
    struct err e = {0};
    int bad = 1;

    snprintf(path, sizeof(path), "%s/models/index/%s.model.safetensors.index.json", dir, stem);
    if (access(path, R_OK))
        return 0;
    arena_init(&a);
    tensor_list_init(&l);
    if (json_load(&j, path, &e)) {
        printf("%s\n", e.msg);
        goto out;
    }
    top = json_top(&j);
    snprintf(path, sizeof(path), "%s/models/%s.json", dir, stem);
    if (!index_parse(&top, false, &a, &l, &missing, &e) && !model_load(path, 4096, &a, &m, &e)) {
        tensor_list_clean(&l, &a);
        differs = tensor_list_differs(&l, &m, &a, &extra);
        bad = differs != NULL || extra != extra_want || !missing;
        printf("%-40s %zu names, %zu of other parts, %zu buffers %s\n", stem, l.n, extra,
               l.n_buffers,
               differs ? differs
               : bad   ? "FAILED"
                       : "");
        (*read)++;
    } else {
        printf("%s\n", e.msg);
    }
    json_release(&j);
out:
    tensor_list_release(&l);
    arena_release(&a);
    return bad;
}

static int check_indices(const char *dir, int *read)
{
    static const struct {
        const char *stem;
        size_t extra; /* medgemma: vision tower and projector */
    } rows[] = {{"Devstral-Small-2507-Mistral-24B", 0},
                {"Llama-2-7B-fp32", 0},
                {"Llama-3.2-3B-published", 0},
                {"Qwen-72B", 0},
                {"Qwen3.5-25B-REAP-A3B", 0},
                {"Yi-1.5-6B", 0},
                {"cogito-qwen-14B-Qwen2.5-14B", 0},
                {"lzlv_70b-Llama-2-70B", 0},
                {"medgemma-27b-it-Gemma-3-27B", 439}};
    int bad = 0;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        bad |= check_index(dir, rows[i].stem, rows[i].extra, read);
    return bad;
}

int main(void)
{
    const char *dir = getenv("BALLAST_SHARED"), *config, *model;
    char path[600];
    struct json j;
    struct json_at top, it;
    struct err e;
    uint64_t want;
    int bad = 0, read = 0;
    bool ok;

    if (!dir || !*dir)
        dir = "../shared";
    snprintf(path, sizeof(path), "%s/reference/param_counts.json", dir);
    if (access(path, R_OK)) {
        printf("no reference/param_counts.json in BALLAST_SHARED or ../shared\n");
        return 77;
    }
    if (json_load(&j, path, &e)) {
        printf("%s\n", e.msg);
        return 1;
    }
    top = json_top(&j);
    for (ok = json_first(&top, &it); ok; ok = json_next(&it)) {
        if (json_str(&it, "model", &model, &e) || json_str_or(&it, "config", NULL, &config, &e) ||
            json_u64(&it, "total_params", 1, UINT64_MAX, &want, &e)) {
            printf("%s\n", e.msg);
            bad = 1;
        } else {
            bad |=
                config ? check(dir, config, want, &read) : check_elsewhere(dir, model, want, &read);
        }
    }
    json_release(&j);
    for (size_t i = 0; i < sizeof(unlisted) / sizeof(unlisted[0]); i++)
        bad |= check(dir, unlisted[i].config, unlisted[i].total, &read);
    bad |= check_indices(dir, &read);
    printf("%d models read\n", read);
    return bad || !read;
}
