/* Published parameter counts against the published config.json files, which are not part of the repository: they lie
 * in $BALLAST_SHARED, else in ../shared beside it (reference/param_counts.json and models/). Without them: status 77.
 *
 * The counts are of parameters: no buffers (rotary frequencies, causal masks), and a tied head once. Where a public
 * total differs for these reasons, the excess is below and must be exactly that. */
#include "core/json.h"
#include "model/tensors.h"

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

/* Entries without a config of their own name, and the config that they are of. Of Gemma 3 the text part is read; the
 * index's own total_parameters, 28,842,036,848, is that, a vision tower of 423,060,336, and the tied head a second time. */
static const struct {
    const char *config;
    uint64_t total;
} unnamed[] = {
    {"Qwen-72B.json", 72287920128},
    {"Qwen3.5-25B-REAP-A3B.json", 25091371648},
    {"medgemma-27b-it-Gemma-3-27B.json", UINT64_C(28842036848) - 423060336 - 262208 * 5376},
    {"DeepSeek-R1.json", 671026419200},
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
    const char *dir = getenv("BALLAST_SHARED"), *config;
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
        if (json_str_or(&it, "config", NULL, &config, &e) ||
            json_u64(&it, "total_params", 1, UINT64_MAX, &want, &e)) {
            printf("%s\n", e.msg);
            bad = 1;
        } else if (config) {
            bad |= check(dir, config, want, &read);
        }
    }
    json_release(&j);
    for (size_t i = 0; i < sizeof(unnamed) / sizeof(unnamed[0]); i++)
        bad |= check(dir, unnamed[i].config, unnamed[i].total, &read);
    bad |= check_indices(dir, &read);
    printf("%d models read\n", read);
    return bad || !read;
}
