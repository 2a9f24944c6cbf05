/* Published parameter counts against the published config.json files, which are not part of the repository: they lie
 * in $BALLAST_SHARED, else in ../shared beside it (reference/param_counts.json and models/). Without them: status 77.
 *
 * The counts are of parameters: no buffers (rotary frequencies, causal masks), and a tied head once. Where a public
 * total differs for these reasons, the excess is below and must be exactly that. */
#include "core/json.h"
#include "model/model.h"

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
    printf("%d models read\n", read);
    return bad || !read;
}
