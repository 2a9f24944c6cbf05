/* What names of tensors say: buffers, packed weights, and the patterns of a user. */
#include "core/suggest.h"
#include "model/tensors/tensors.h"

#include <string.h>

bool name_matches(const char *p, const char *s)
{
    const char *star = NULL, *retry = NULL;

    while (*s) {
        if (*p == '*') { /* the last star takes one character more at each retry */
            star = ++p;
            retry = s;
        } else if (*p == *s) {
            p++;
            s++;
        } else if (star) {
            p = star;
            s = ++retry;
        } else {
            return false;
        }
    }
    while (*p == '*')
        p++;
    return !*p;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);

    return n >= k && !strcmp(s + n - k, end);
}

/* Made when the model is, not trained: rotary frequencies, causal masks, positions' numbers. */
static bool is_buffer(const char *name)
{
    static const char *const ends[] = {".inv_freq", ".masked_bias", ".position_ids",
                                       ".attention.bias", ".layer_scalar"};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (ends_with(name, ends[i]))
            return true;
    /* GPT-2's mask; its attention has no bias of that name */
    return ends_with(name, ".attn.bias") && (name[0] == 'h' || strstr(name, ".h."));
}

/* Beside a weight of true shape: scales and zero points of fp8 and int8. */
static bool is_scale(const char *name)
{
    static const char *const ends[] = {
        ".weight_scale_inv", ".weight_scale", ".input_scale", ".weight_zero_point", ".SCB",
        ".k_scale",          ".v_scale"};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (ends_with(name, ends[i]))
            return true;
    return false;
}

/* Packed in a way whose shape says too little: the method's name, or NULL. */
static const char *packing(const char *name)
{
    static const struct {
        const char *end, *method;
    } ends[] = {{".qweight", "gptq or awq"}, {".qzeros", "gptq or awq"},
                {".g_idx", "gptq or awq"},   {".weight_packed", "compressed-tensors"},
                {".absmax", "bitsandbytes"}, {".weight.quant_map", "bitsandbytes"}};

    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        if (ends_with(name, ends[i].end))
            return ends[i].method;
    return NULL;
}

/* mxfp4: blocks [..., n, 16] of bytes hold [..., 32 n] weights; their scales lie beside them. */
static bool unpack_mxfp4(struct file_tensor *t, struct arena *a)
{
    size_t n = strlen(t->name);

    if (!ends_with(t->name, "_blocks"))
        return false;
    if (t->n_dims && (t->n_dims < 2 || t->shape[t->n_dims - 1] != 16))
        return false;
    t->name = arena_strndup(a, t->name, n - strlen("_blocks"));
    if (t->n_dims) {
        t->n_dims--;
        t->shape[t->n_dims - 1] *= 32;
    }
    return true;
}

/* What BERT's norms were called where its files were first made. */
static void rename_norm(struct file_tensor *t, struct arena *a)
{
    size_t n = strlen(t->name);

    if (ends_with(t->name, "LayerNorm.gamma"))
        t->name = arena_printf(a, "%.*sweight", (int)(n - strlen("gamma")), t->name);
    else if (ends_with(t->name, "LayerNorm.beta"))
        t->name = arena_printf(a, "%.*sbias", (int)(n - strlen("beta")), t->name);
}

void tensor_list_clean(struct tensor_list *l, struct arena *a)
{
    bool mxfp4 = false;
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++) {
        mxfp4 |= unpack_mxfp4(&l->v[i], a);
        rename_norm(&l->v[i], a);
    }
    if (mxfp4)
        l->quantization = "mxfp4";
    for (size_t i = 0; i < l->n; i++) {
        const char *name = l->v[i].name, *method = packing(name);

        if (is_buffer(name)) {
            l->n_buffers++;
            continue;
        }
        if (is_scale(name) || (mxfp4 && ends_with(name, "_scales"))) {
            l->n_scales++;
            if (!l->quantization)
                l->quantization = "scaled weights";
            continue;
        }
        if (method && !l->packed) {
            l->packed = name;
            l->quantization = method;
        }
        l->v[n++] = l->v[i];
    }
    l->n = n;
}

/* ---- patterns of a user ---- */

static int read_pattern(const struct json_at *it, struct arena *a, struct name_pattern *p,
                        struct err *e)
{
    static const char *const keys[] = {"match", "role", "unit"};
    const char *match, *role, *unit, *names[ROLE_N + 1];
    struct json_at at;

    if (json_is_object(it, e) || json_only_keys(it, keys, 3, e) ||
        json_str(it, "match", &match, e) || json_str_or(it, "role", NULL, &role, e) ||
        json_str_or(it, "unit", NULL, &unit, e))
        return -1;
    for (int r = 0; r < ROLE_N; r++)
        names[r] = tensor_role_name((enum tensor_role)r);
    names[ROLE_N] = "buffer";
    if (role) {
        int r = 0;

        while (r <= ROLE_N && strcmp(role, names[r]) != 0)
            r++;
        if (r > ROLE_N && !json_get(it, "role", &at, e))
            return json_err(&at, ERR_UNKNOWN, e, "is '%.40s'%s, expected a role of docs/MODELS.md",
                            role, suggest(role, names, ROLE_N + 1).s);
    }
    if (!role && !unit)
        return json_err(it, ERR_INVALID, e, "has neither role nor unit");
    if (unit && !*unit && !json_get(it, "unit", &at, e))
        return json_err(&at, ERR_INVALID, e, "is empty, expected a name");
    *p = (struct name_pattern){.match = arena_strdup(a, match),
                               .role = role ? arena_strdup(a, role) : NULL,
                               .unit = unit ? arena_strdup(a, unit) : NULL};
    return 0;
}

int name_patterns_parse(const struct json_at *top, struct arena *a, struct name_patterns *p,
                        struct err *e)
{
    static const char *const keys[] = {"format", "format_version", "patterns", "active_experts"};
    struct json_at list, it;
    const char *format;
    uint64_t version;

    memset(p, 0, sizeof(*p));
    p->file = arena_strdup(a, top->file);
    if (json_is_object(top, e) || json_only_keys(top, keys, 4, e) ||
        json_str_or(top, "format", "ballast-names", &format, e) ||
        json_u64_or(top, "format_version", 1, 1, 1, &version, e) ||
        json_u64_or(top, "active_experts", 1, 1 << 16, 0, &p->active_experts, e))
        return -1;
    if (strcmp(format, "ballast-names") != 0)
        return json_err(top, ERR_INVALID, e, "has format '%.40s', expected 'ballast-names'",
                        format);
    if (!json_opt(top, "patterns", &list))
        return 0;
    if (json_is_array(&list, &p->n, e))
        return -1;
    p->v = ARENA_NEW(a, struct name_pattern, p->n);
    for (bool ok = json_first(&list, &it); ok; ok = json_next(&it))
        if (read_pattern(&it, a, &p->v[it.index], e))
            return -1;
    return 0;
}

int name_patterns_load(const char *path, struct arena *a, struct name_patterns *p, struct err *e)
{
    struct json_at top;
    struct json j;
    int rc;

    if (json_load(&j, path, e))
        return -1;
    top = json_top(&j);
    rc = name_patterns_parse(&top, a, p, e);
    json_release(&j);
    return rc;
}
