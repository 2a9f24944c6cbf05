/* Lists of tensors: an index of shards (model.safetensors.index.json), a plain list in JSON, and what of a list is not as
 * a config.json says. */
#include "model/tensors/tensors.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tensor_list_init(struct tensor_list *l)
{
    memset(l, 0, sizeof(*l));
}

void tensor_list_release(struct tensor_list *l)
{
    mem_free(l->v);
    memset(l, 0, sizeof(*l));
}

struct file_tensor *tensor_list_add(struct tensor_list *l, const char *name, struct arena *a)
{
    struct file_tensor *t;

    l->v = mem_grow(l->v, &l->cap, l->n + 1, sizeof(*l->v));
    t = &l->v[l->n++];
    *t = (struct file_tensor){.name = arena_strdup(a, name), .dtype = ""};
    return t;
}

int tensor_shape(const struct json_at *at, struct file_tensor *t, struct err *e)
{
    struct json_at it;
    uint64_t v;
    size_t n;

    if (json_is_array(at, &n, e))
        return -1;
    if (n > 8)
        return json_err(at, ERR_INVALID, e, "has %zu dimensions, expected at most 8", n);
    t->n_dims = 1;
    t->shape[0] = 1;
    for (bool ok = json_first(at, &it); ok; ok = json_next(&it)) {
        if (json_as_u64(&it, 1, UINT64_C(1) << 48, &v, e))
            return -1;
        if (it.index < 4)
            t->shape[it.index] = v;
        else if (__builtin_mul_overflow(t->shape[3], v, &t->shape[3]) || t->shape[3] >> 48)
            return json_err(at, ERR_OVERFLOW, e, "has more than 2^48 elements a row");
        t->n_dims = it.index < 4 ? (uint32_t)it.index + 1 : 4;
    }
    return 0;
}

/* ---- an index ---- */

struct shard {
    const char *file, *path;
    bool missing;
};

struct shards {
    struct shard *v; /* owned */
    size_t n, cap;
};

/* Shards are few, and runs of tensors are in one: the last one is looked at first. */
static struct shard *shard_of(struct shards *s, const char *file, const char *index,
                              struct arena *a)
{
    const char *slash = strrchr(index, '/');

    for (size_t i = s->n; i-- > 0;)
        if (!strcmp(s->v[i].file, file))
            return &s->v[i];
    s->v = mem_grow(s->v, &s->cap, s->n + 1, sizeof(*s->v));
    s->v[s->n] = (struct shard){.file = arena_strdup(a, file)};
    s->v[s->n].path =
        slash ? arena_printf(a, "%.*s/%s", (int)(slash - index), index, file) : s->v[s->n].file;
    s->v[s->n].missing = access(s->v[s->n].path, R_OK) != 0;
    return &s->v[s->n++];
}

static int weight_map(const struct json_at *map, const char *index, struct arena *a,
                      struct tensor_list *l, struct shards *s, struct err *e)
{
    struct json_at it;
    const char *file;

    for (bool ok = json_first(map, &it); ok; ok = json_next(&it)) {
        if (json_as_str(&it, &file, e))
            return -1;
        if (!*file || strchr(file, '/') || !strcmp(file, "..") || !strcmp(file, "."))
            return json_err(&it, ERR_INVALID, e,
                            "is '%.60s', expected the name of a file beside the index", file);
        tensor_list_add(l, json_key(&it), a);
        shard_of(s, file, index, a);
    }
    if (!l->n)
        return json_err(map, ERR_INVALID, e, "names no tensors");
    return 0;
}

static int by_name(const void *x, const void *y)
{
    return strcmp(((const struct file_tensor *)x)->name, ((const struct file_tensor *)y)->name);
}

/* Shapes of the shards' headers in place of names alone; both must name the same tensors. */
static int read_shards_of(struct tensor_list *l, const struct shards *s, struct arena *a,
                          struct err *e)
{
    struct tensor_list all;
    size_t i = 0, k = 0;
    int rc = -1;

    tensor_list_init(&all);
    for (size_t f = 0; f < s->n; f++)
        if (safetensors_read(s->v[f].path, a, &all, e))
            goto out;
    qsort(all.v, all.n, sizeof(*all.v), by_name);
    qsort(l->v, l->n, sizeof(*l->v), by_name);
    while (i < l->n || k < all.n) {
        int order = i == l->n ? 1 : k == all.n ? -1 : strcmp(l->v[i].name, all.v[k].name);

        if (order) {
            err_set(e, ERR_INVALID, "'%.300s': tensor '%.200s' is %s, but not %s", l->file,
                    order < 0 ? l->v[i].name : all.v[k].name,
                    order < 0 ? "in the index" : "in a shard",
                    order < 0 ? "in its shard" : "in the index");
            goto out;
        }
        l->v[i++] = all.v[k++];
        if (k < all.n && !strcmp(all.v[k].name, all.v[k - 1].name)) {
            err_set(e, ERR_INVALID, "'%.300s': tensor '%.200s' is in two shards", l->file,
                    all.v[k].name);
            goto out;
        }
    }
    l->has_shapes = true;
    rc = 0;
out:
    tensor_list_release(&all);
    return rc;
}

static const char *missing_text(const struct shards *s, struct arena *a)
{
    const char *first = NULL;
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++)
        if (s->v[i].missing) {
            if (!n++)
                first = s->v[i].path;
        }
    if (!n)
        return NULL;
    return n == 1
               ? arena_printf(a, "'%.200s'", first)
               : arena_printf(a, "'%.200s' and %zu more shard%s", first, n - 1, n == 2 ? "" : "s");
}

int index_parse(const struct json_at *top, bool read_shards, struct arena *a, struct tensor_list *l,
                const char **missing, struct err *e)
{
    struct json_at map, meta, total;
    struct shards s = {0};
    struct err ignored;
    int rc = -1;

    *missing = NULL;
    l->file = arena_strdup(a, top->file);
    if (json_is_object(top, e) || json_object(top, "weight_map", &map, e) ||
        weight_map(&map, top->file, a, l, &s, e))
        goto out;
    if (json_opt(top, "metadata", &meta) && !json_is_object(&meta, &ignored) &&
        json_opt(&meta, "total_parameters", &total) &&
        json_as_u64(&total, 1, JSON_EXACT, &l->total_parameters, e))
        goto out;
    *missing = missing_text(&s, a);
    rc = read_shards && !*missing ? read_shards_of(l, &s, a, e) : 0;
out:
    mem_free(s.v);
    return rc;
}

/* ---- a plain list ---- */

bool is_tensor_list(const struct json_at *top)
{
    struct json_at at;

    return cJSON_IsObject(top->node) && json_opt(top, "tensors", &at) &&
           !json_opt(top, "model_type", &at);
}

static int list_row(const struct json_at *it, struct arena *a, struct tensor_list *l, struct err *e)
{
    const char *name, *role, *unit, *dtype;
    struct file_tensor *t;
    struct json_at shape;

    if (json_is_object(it, e) || json_str(it, "name", &name, e) ||
        json_get(it, "shape", &shape, e) || json_str_or(it, "role", NULL, &role, e) ||
        json_str_or(it, "unit", NULL, &unit, e) || json_str_or(it, "dtype", "", &dtype, e))
        return -1;
    t = tensor_list_add(l, name, a);
    t->role = role ? arena_strdup(a, role) : NULL;
    t->unit = unit ? arena_strdup(a, unit) : NULL;
    t->dtype = arena_strdup(a, dtype);
    return tensor_shape(&shape, t, e);
}

int tensor_list_parse(const struct json_at *top, struct arena *a, struct tensor_list *l,
                      struct err *e)
{
    struct json_at list, it;
    int rc = 0;

    l->file = arena_strdup(a, top->file);
    l->has_shapes = true;
    if (json_get(top, "tensors", &list, e))
        return -1;
    if (!cJSON_IsObject(list.node) && json_is_array(&list, NULL, e))
        return -1;
    for (bool ok = json_first(&list, &it); ok && !rc; ok = json_next(&it))
        rc = cJSON_IsObject(list.node) ? tensor_shape(&it, tensor_list_add(l, json_key(&it), a), e)
                                       : list_row(&it, a, l, e);
    if (!rc && !l->n)
        return json_err(&list, ERR_INVALID, e, "names no tensors");
    return rc;
}

/* ---- against a config.json ---- */

static int by_name_of(const void *x, const void *y)
{
    return strcmp((*(const struct file_tensor *const *)x)->name,
                  (*(const struct file_tensor *const *)y)->name);
}

/* The name in the file: without the number of a slice, "experts.down_proj[3]". */
static const struct file_tensor *find(const struct file_tensor **sorted, size_t n, const char *name,
                                      bool *slice)
{
    const char *bracket = strchr(name, '[');
    size_t len = bracket ? (size_t)(bracket - name) : strlen(name), lo = 0, hi = n;

    *slice = bracket != NULL;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        int order = strncmp(sorted[mid]->name, name, len);

        if (!order && sorted[mid]->name[len])
            order = 1;
        if (!order)
            return sorted[mid];
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

static bool same_shape(const struct file_tensor *f, const struct tensor *t, bool slice)
{
    uint32_t skip = slice && f->n_dims == t->n_dims + 1;

    return f->n_dims == t->n_dims + skip &&
           !memcmp(f->shape + skip, t->shape, t->n_dims * sizeof(t->shape[0]));
}

const char *tensor_list_differs(const struct tensor_list *l, const struct model *m, struct arena *a,
                                size_t *extra)
{
    const struct file_tensor **sorted = mem_alloc(l->n, sizeof(*sorted)), *last = NULL;
    const char *text = NULL;
    size_t met = 0;

    for (size_t i = 0; i < l->n; i++)
        sorted[i] = &l->v[i];
    qsort(sorted, l->n, sizeof(*sorted), by_name_of);
    for (uint32_t i = 0; i < m->n_tensors && !text; i++) {
        const struct tensor *t = &m->tensors[i];
        const struct file_tensor *f;
        bool slice;

        f = find(sorted, l->n, t->name, &slice);
        if (!f)
            text = arena_printf(a, "'%.150s' of the config.json is not there", t->name);
        else if (l->has_shapes && !l->packed && !same_shape(f, t, slice))
            text = arena_printf(a, "'%.150s' has another shape than by the config.json", t->name);
        met += f != last && (!slice || t->expert == 0);
        last = f;
    }
    *extra = l->n > met ? l->n - met : 0;
    mem_free(sorted);
    return text;
}
