/* From what the user wrote to a model: one-line form, path, bundled name, in this order. */
#include "model/plan/model_load.h"

#include "core/file.h"
#include "core/json.h"
#include "core/suggest.h"
#include "core/utf8.h"
#include "model/plan/plan.h"
#include "model/tensors/tensors.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n >= k && !strcmp(s + n - k, end);
}

/* The name to show: files that are called alike everywhere have that of their folder, another its own without what
 * says its kind. */
static const char *name_of(const char *path, struct arena *a)
{
    static const char *const usual[] = {"config.json", "model.safetensors.index.json",
                                        "model.safetensors"};
    static const char *const ends[] = {".model.safetensors.index.json", ".safetensors.index.json",
                                       ".safetensors", ".json"};
    char *s = arena_strdup(a, path), *slash;
    size_t n = strlen(s);

    while (n > 1 && s[n - 1] == '/')
        s[--n] = 0;
    slash = strrchr(s, '/');
    for (size_t i = 0; slash && slash > s && i < sizeof(usual) / sizeof(usual[0]); i++)
        if (!strcmp(slash + 1, usual[i])) {
            *slash = 0;
            slash = strrchr(s, '/');
            break;
        }
    if (slash && slash[1] && strcmp(slash + 1, ".") != 0 && strcmp(slash + 1, "..") != 0)
        s = slash + 1;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (ends_with(s, ends[i]) && strlen(s) > strlen(ends[i])) {
            s[strlen(s) - strlen(ends[i])] = 0;
            break;
        }
    return s;
}

/* ---- what a JSON file is ---- */

enum content { IS_CONFIG, IS_PLAN, IS_INDEX, IS_LIST };

static enum content content_of(const struct json_at *top)
{
    const char *format = "";
    struct json_at at;
    struct err e;

    if (!cJSON_IsObject(top->node))
        return IS_CONFIG; /* says what was expected */
    if (!json_str_or(top, "format", "", &format, &e) && !strcmp(format, "ballast-plan"))
        return IS_PLAN;
    if (json_opt(top, "weight_map", &at))
        return IS_INDEX;
    return is_tensor_list(top) ? IS_LIST : IS_CONFIG;
}

static int load_plan(const char *text, size_t len, const char *path, struct arena *a,
                     struct model *m, struct err *e)
{
    struct plan p;

    if (plan_from_json(text, len, path, a, &p, e))
        return -1;
    *m = *plan_whole(&p);
    return 0;
}

/* ---- lists of tensors ---- */

static const char *beside(const char *path, const char *name, struct arena *a)
{
    const char *slash = strrchr(path, '/');

    return slash ? arena_printf(a, "%.*s/%s", (int)(slash - path), path, name) : name;
}

/* The model of the config.json beside a list, where it is that of the list's tensors; 1: there is none, or it is of
 * another model, and a note of it is in *why. */
static int config_beside(const struct tensor_list *l, const char *path,
                         const struct model_options *o, struct arena *a, struct model *m,
                         const char **why, struct err *e)
{
    const char *config = beside(path, "config.json", a), *differs;
    size_t len, extra;
    struct err own;
    char *text;
    int rc;

    *why = NULL;
    if (o->names || access(config, F_OK))
        return 1;
    if (file_read(config, JSON_MAX_BYTES, &text, &len, e))
        return -1;
    rc = model_from_config_with(text, len, config, o, a, m, &own);
    mem_free(text);
    if (rc) {
        *why = arena_printf(a, "the config.json beside it is not used: %.200s", own.msg);
        return 1;
    }
    differs = tensor_list_differs(
        l, &(struct model){.tensors = m->tensors, .n_tensors = m->n_tensors}, a, &extra);
    if (differs && !l->has_shapes)
        return err_set(e, ERR_INVALID,
                       "'%.300s': %s: the config.json beside it is of another model", l->file,
                       differs);
    if (differs) {
        *why = arena_printf(a, "the config.json beside it is not used: %s", differs);
        return 1;
    }
    model_note(m, a, "shapes %s",
               l->has_shapes && !l->packed
                   ? "of the headers; heads and routing of the config.json beside them"
                   : "of the config.json beside it");
    if (extra)
        model_note(m, a, "%zu tensor%s of other parts left out", extra, extra == 1 ? "" : "s");
    if (l->n_buffers)
        model_note(m, a, "%zu buffer%s left out (rotary frequencies, masks): no parameters",
                   l->n_buffers, l->n_buffers == 1 ? "" : "s");
    if (l->quantization && !m->quantization)
        m->quantization = l->quantization;
    return 0;
}

static int from_list(struct tensor_list *l, const char *path, const char *missing,
                     const struct model_options *o, struct arena *a, struct model *m, struct err *e)
{
    struct name_patterns p, *patterns = NULL;
    const char *why;
    int rc;

    l->file = path;
    tensor_list_clean(l, a);
    rc = config_beside(l, path, o, a, m, &why, e);
    if (rc <= 0)
        return rc;
    if (o->as)
        return err_set(e, ERR_INVALID, "--as is for a config.json, and beside '%.300s' %s%.300s",
                       path, why ? "" : "there is none", why ? why : "");
    if (o->names) {
        if (name_patterns_load(o->names, a, &p, e))
            return -1;
        patterns = &p;
    }
    if (model_from_tensors(l, patterns, a, m, e))
        return -1;
    if (why)
        model_note(m, a, "%s", why);
    if (missing) {
        m->incomplete = arena_printf(
            a,
            "an index has names only, and %s that would have the shapes %s missing; give them, or "
            "a config.json, beside it",
            missing, strstr(missing, " more ") ? "are" : "is");
        model_note(m, a, "names only: %s missing", missing);
    }
    return 0;
}

static int load_safetensors(const char *path, const struct model_options *o, struct arena *a,
                            struct model *m, struct err *e)
{
    struct tensor_list l;
    int rc;

    tensor_list_init(&l);
    rc = safetensors_read(path, a, &l, e) || from_list(&l, path, NULL, o, a, m, e) ? -1 : 0;
    tensor_list_release(&l);
    return rc;
}

static int load_index(const struct json_at *top, const char *path, const struct model_options *o,
                      struct arena *a, struct model *m, struct err *e)
{
    const char *missing;
    struct tensor_list l;
    int rc;

    tensor_list_init(&l);
    rc = index_parse(top, true, a, &l, &missing, e) || from_list(&l, path, missing, o, a, m, e) ? -1
                                                                                                : 0;
    tensor_list_release(&l);
    return rc;
}

static int load_list(const struct json_at *top, const char *path, const struct model_options *o,
                     struct arena *a, struct model *m, struct err *e)
{
    struct tensor_list l;
    int rc;

    tensor_list_init(&l);
    rc = tensor_list_parse(top, a, &l, e) || from_list(&l, path, NULL, o, a, m, e) ? -1 : 0;
    tensor_list_release(&l);
    return rc;
}

/* ---- files and folders ---- */

static int names_without_list(const char *what, struct err *e)
{
    return err_set(e, ERR_INVALID,
                   "--names is for lists of tensors (.safetensors, an index, a list in JSON), and "
                   "'%.300s' is none",
                   what);
}

static int as_without_config(const char *what, struct err *e)
{
    return err_set(e, ERR_INVALID, "--as is for a config.json, and '%.300s' is none", what);
}

static int load_text(const char *text, size_t len, const char *path, const char *shown,
                     const struct model_options *o, struct arena *a, struct model *m, struct err *e)
{
    enum content content;
    struct json_at top;
    struct json j;
    int rc = 0;

    if (json_parse_foreign(&j, path, text, len, e))
        return -1;
    top = json_top(&j);
    content = content_of(&top);
    if (j.nonfinite && content != IS_CONFIG) { /* only Python's config.json may have such words */
        json_release(&j);
        if (json_parse(&j, path, text, len, e))
            return -1;
        BUG_ON(true);
    }
    if (o->names && (content == IS_CONFIG || content == IS_PLAN)) {
        json_release(&j);
        return names_without_list(path, e);
    }
    if (o->as && content == IS_PLAN) {
        json_release(&j);
        return as_without_config(path, e);
    }
    if (content == IS_LIST)
        rc = load_list(&top, path, o, a, m, e);
    else if (content == IS_INDEX)
        rc = load_index(&top, path, o, a, m, e);
    else if (content == IS_CONFIG)
        rc = model_from_config_tree(&top, o, a, m, e);
    json_release(&j);
    if (content == IS_PLAN)
        return load_plan(text, len, path, a, m, e);
    if (!rc)
        m->name = utf8_clean(a, name_of(shown, a));
    return rc;
}

static int load_file(const char *path, const char *shown, const struct model_options *o,
                     struct arena *a, struct model *m, struct err *e)
{
    char *text;
    size_t len;
    int rc;

    if (ends_with(path, ".safetensors")) {
        if (load_safetensors(path, o, a, m, e))
            return -1;
        m->name = utf8_clean(a, name_of(shown, a));
        return 0;
    }
    if (file_read(path, JSON_MAX_BYTES, &text, &len, e))
        return -1;
    rc = load_text(text, len, path, shown, o, a, m, e);
    mem_free(text);
    return rc;
}

/* A folder is its config.json, else its index, else its only weights. */
static int load_path(const char *path, bool is_folder, const struct model_options *o,
                     struct arena *a, struct model *m, struct err *e)
{
    static const char *const files[] = {"config.json", "model.safetensors.index.json",
                                        "model.safetensors"};
    struct stat st;

    if (!is_folder)
        return load_file(path, path, o, a, m, e);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const char *file =
            arena_printf(a, "%s%s%s", path, ends_with(path, "/") ? "" : "/", files[i]);

        if (!stat(file, &st))
            return load_file(file, path, o, a, m, e);
    }
    return err_set(e, ERR_IO,
                   "the folder '%.300s' has no config.json, model.safetensors.index.json or "
                   "model.safetensors",
                   path);
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
    bool line = !strncmp(what, "block", 5) && strchr(what, ':');
    const char *text = line ? NULL : model_bundled_config(what);
    struct stat st;

    if (o->names && (line || (text && stat(what, &st))))
        return names_without_list(what, e);
    if (o->as && line)
        return as_without_config(what, e);
    if (line)
        return model_from_synthetic(what, o->seq_len, a, m, e);
    if (stat(what, &st) == 0)
        return load_path(what, S_ISDIR(st.st_mode), o, a, m, e);
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

/* A config.json refuses it itself; lines, lists and plans have none to take in. */
static int check_mtp(const struct model *m, struct err *e)
{
    for (uint32_t i = 0; i < m->n_classes; i++)
        if (!strcmp(m->classes[i].name, "mtp"))
            return 0;
    return err_set(e, ERR_INVALID, "'%.100s' has no layers of multi-token prediction to take in",
                   m->name);
}

int model_load_with(const char *what, const struct model_options *o, struct arena *a,
                    struct model *m, struct err *e)
{
    if (load(what, o, a, m, e) || also_matrices(m, o->also_matrices, e))
        return -1;
    if (m->incomplete && !o->incomplete_ok)
        return err_set(e, ERR_INVALID, "'%.300s': %s", what, m->incomplete);
    if (o->split_fused && check_split(m, e))
        return -1;
    return o->mtp ? check_mtp(m, e) : 0;
}

int model_load(const char *what, uint64_t seq_len, struct arena *a, struct model *m, struct err *e)
{
    return model_load_with(what, &(struct model_options){.seq_len = seq_len}, a, m, e);
}
