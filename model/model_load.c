/* From what the user wrote to a model: one-line form, path, bundled name, in this order. */
#include "core/file.h"
#include "core/json.h"
#include "core/suggest.h"
#include "core/utf8.h"
#include "model/plan.h"

#include <string.h>
#include <sys/stat.h>

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n >= k && !strcmp(s + n - k, end);
}

/* The name to show: a config.json is called by its folder, another file by its own name without .json. */
static const char *name_of(const char *path, struct arena *a)
{
    char *s = arena_strdup(a, path), *slash;
    size_t n = strlen(s);

    while (n > 1 && s[n - 1] == '/')
        s[--n] = 0;
    slash = strrchr(s, '/');
    if (slash && slash > s && !strcmp(slash, "/config.json")) {
        *slash = 0;
        slash = strrchr(s, '/');
    }
    if (slash && slash[1] && strcmp(slash + 1, ".") != 0 && strcmp(slash + 1, "..") != 0)
        s = slash + 1;
    if (ends_with(s, ".json") && strlen(s) > 5)
        s[strlen(s) - 5] = 0;
    return s;
}

static bool is_plan(const char *text, size_t len, const char *path)
{
    const char *format = "";
    struct json_at top;
    struct json j;
    struct err e;
    bool plan;

    if (json_parse(&j, path, text, len, &e))
        return false;
    top = json_top(&j);
    plan = json_is_object(&top, &e) == 0 && json_str_or(&top, "format", "", &format, &e) == 0 &&
           !strcmp(format, "ballast-plan");
    json_release(&j);
    return plan;
}

static int load_plan(const char *text, size_t len, const char *path, struct arena *a,
                     struct model *m, struct err *e)
{
    struct plan p;

    if (plan_from_json(text, len, path, a, &p, e))
        return -1;
    *m = p.model;
    return 0;
}

static int load_file(const char *path, const char *shown, const struct model_options *o,
                     struct arena *a, struct model *m, struct err *e)
{
    char *text;
    size_t len;
    bool plan;
    int rc;

    if (file_read(path, JSON_MAX_BYTES, &text, &len, e))
        return -1;
    plan = is_plan(text, len, path);
    rc = plan ? load_plan(text, len, path, a, m, e)
              : model_from_config_with(text, len, path, o, a, m, e);
    mem_free(text);
    if (!rc && !plan)
        m->name = utf8_clean(a, name_of(shown, a));
    return rc;
}

static int load_path(const char *path, bool is_folder, const struct model_options *o,
                     struct arena *a, struct model *m, struct err *e)
{
    struct stat st;
    const char *config;

    if (!is_folder) {
        if (ends_with(path, ".safetensors") || ends_with(path, ".index.json"))
            return err_set(e, ERR_UNSUPPORTED,
                           "'%.300s': this version reads a model from its config.json only; give "
                           "that file or its folder",
                           path);
        return load_file(path, path, o, a, m, e);
    }
    config = arena_printf(a, "%s%sconfig.json", path, ends_with(path, "/") ? "" : "/");
    if (stat(config, &st))
        return err_set(e, ERR_IO, "the folder '%.300s' has no config.json", path);
    return load_file(config, path, o, a, m, e);
}

static int unknown(const char *what, struct err *e)
{
    const char *const *names = model_bundled_names();
    const char *base = strrchr(what, '/'); /* "meta-llama/Llama-2-7b" */
    struct suggest_text hint = suggest(what, names, suggest_count(names));

    if (!*hint.s && base)
        hint = suggest(base + 1, names, suggest_count(names));
    return err_set(
        e, ERR_UNKNOWN,
        "model '%.200s' is neither a file nor a bundled name%s; give a config.json, its "
        "folder, block:layers=L,hidden=H,heads=A,... or a name of 'ballast model --list'",
        what, hint.s);
}

static int load(const char *what, const struct model_options *o, struct arena *a, struct model *m,
                struct err *e)
{
    const char *text;
    struct stat st;

    if (!strncmp(what, "block", 5) && strchr(what, ':'))
        return model_from_synthetic(what, o->seq_len, a, m, e);
    if (stat(what, &st) == 0)
        return load_path(what, S_ISDIR(st.st_mode), o, a, m, e);
    text = model_bundled_config(what);
    if (text) {
        if (model_from_config_with(text, strlen(text), what, o, a, m, e))
            return -1;
        for (const char *const *n = model_bundled_names(); *n; n++)
            if (model_bundled_config(*n) == text)
                m->name = *n;
        return 0;
    }
    if (ends_with(what, ".json") || ends_with(what, ".safetensors"))
        return load_file(what, what, o, a, m, e); /* says why it cannot be read */
    return unknown(what, e);
}

static int also_matrices(struct model *m, uint32_t roles, struct err *e)
{
    uint32_t there = 0, missing;

    if (!roles) /* a plan file's model keeps its own */
        return 0;
    for (uint32_t i = 0; i < m->n_tensors; i++)
        there |= 1u << m->tensors[i].role;
    missing = roles & ~there;
    for (int r = 0; r < ROLE_N; r++)
        if (missing >> r & 1)
            return err_set(e, ERR_INVALID, "'%.100s' has no tensor of role %s%s", m->name,
                           tensor_role_name((enum tensor_role)r),
                           r == ROLE_HEAD && m->tied ? ": its head is tied to the embedding" : "");
    model_set_matrix_roles(m, roles);
    return 0;
}

/* Parts of a fused projection have names of their own. */
static int check_split(const struct model *m, struct err *e)
{
    for (uint32_t i = 0; i < m->n_tensors; i++)
        if (ends_with(m->tensors[i].name, "[q]") || ends_with(m->tensors[i].name, "[gate]"))
            return 0;
    return err_set(e, ERR_INVALID, "'%.100s' has no fused projection to split", m->name);
}

int model_load_with(const char *what, const struct model_options *o, struct arena *a,
                    struct model *m, struct err *e)
{
    if (load(what, o, a, m, e) || also_matrices(m, o->also_matrices, e))
        return -1;
    return o->split_fused ? check_split(m, e) : 0;
}

int model_load(const char *what, uint64_t seq_len, struct arena *a, struct model *m, struct err *e)
{
    return model_load_with(what, &(struct model_options){.seq_len = seq_len}, a, m, e);
}
