#include "core/json.h"
#include "core/suggest.h"
#include "sim/flows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double MAX_S = 9e6; /* 2^63 ps are 9.2e6 s */

struct named { /* a link, for look-ups */
    const char *name;
    uint32_t link;
};

static int named_order(const void *a, const void *b)
{
    return strcmp(((const struct named *)a)->name, ((const struct named *)b)->name);
}

struct reader {
    struct arena *arena;
    struct named *named; /* owned, [n_links] by name; of the scenario at hand */
    const char **names;  /* owned, [n_links] */
    uint32_t n_links;
};

static uint32_t count(const struct json_at *at)
{
    struct json_at it;
    uint32_t n = 0;
    bool ok;

    for (ok = json_first(at, &it); ok; ok = json_next(&it))
        n++;
    return n;
}

static int read_links(struct reader *r, const struct json_at *top, struct flows_scenario *s,
                      struct err *e)
{
    struct json_at links, it;
    struct flows_link *l;
    uint32_t i = 0;
    bool ok;

    if (json_object(top, "links_Bps", &links, e))
        return -1;
    r->n_links = s->n_links = count(&links);
    r->named = MEM_NEW(struct named, s->n_links);
    r->names = MEM_NEW(const char *, s->n_links);
    s->links = l = ARENA_NEW(r->arena, struct flows_link, s->n_links);
    for (ok = json_first(&links, &it); ok; ok = json_next(&it), i++) {
        l[i].name = r->names[i] = arena_strdup(r->arena, json_key(&it));
        r->named[i] = (struct named){.name = l[i].name, .link = i};
        if (json_as_double(&it, JSON_ABOVE_0, INFINITY, &l[i].bw_Bps, e))
            return -1;
    }
    qsort(r->named, s->n_links, sizeof(*r->named), named_order);
    return 0;
}

static int read_path(const struct reader *r, const struct json_at *at, struct flows_flow *flow,
                     struct err *e)
{
    struct json_at path, it;
    struct named key = {0};
    const struct named *found;
    uint32_t *out;
    size_t n;
    bool ok;

    if (json_array(at, "path", &path, &n, e))
        return -1;
    if (!n || n > UINT32_MAX)
        return json_err(&path, ERR_INVALID, e, "has %zu links, expected at least 1", n);
    flow->path = out = ARENA_NEW(r->arena, uint32_t, n);
    for (ok = json_first(&path, &it); ok; ok = json_next(&it)) {
        if (json_as_str(&it, &key.name, e))
            return -1;
        found = bsearch(&key, r->named, r->n_links, sizeof(*r->named), named_order);
        if (!found)
            return json_err(&it, ERR_UNKNOWN, e, "is '%s', which is no link%s", key.name,
                            suggest(key.name, r->names, r->n_links).s);
        out[flow->n_path++] = found->link;
    }
    return 0;
}

static int read_flow(const struct reader *r, const struct json_at *at, struct flows_flow *flow,
                     struct err *e)
{
    static const char *const keys[] = {"path", "bytes", "weight", "start_s", "finish_s"};
    double start_s;

    if (json_is_object(at, e) || json_only_keys(at, keys, 5, e) || read_path(r, at, flow, e) ||
        json_u64(at, "bytes", 1, UINT64_MAX, &flow->n_bytes, e) ||
        json_double_or(at, "weight", FLOWS_MIN_WEIGHT, FLOWS_MAX_WEIGHT, 1, &flow->weight, e) ||
        json_double_or(at, "start_s", 0, MAX_S, 0, &start_s, e) ||
        json_double_or(at, "finish_s", JSON_ABOVE_0, INFINITY, NAN, &flow->finish_s, e))
        return -1;
    if (flow->finish_s <= start_s)
        return json_err(at, ERR_INVALID, e,
                        "has finish_s %.12g, expected a time after start_s %.12g", flow->finish_s,
                        start_s);
    flow->start_ps = llround(start_s * 1e12);
    return 0;
}

static int read_scenario(struct reader *r, const struct json_at *at, struct flows_scenario *s,
                         struct err *e)
{
    static const char *const keys[] = {"id", "links_Bps", "flows"};
    struct json_at flows, it;
    const char *id;
    size_t n;
    bool ok;

    if (json_is_object(at, e) || json_only_keys(at, keys, 3, e) || json_str(at, "id", &id, e) ||
        read_links(r, at, s, e) || json_array(at, "flows", &flows, &n, e))
        return -1;
    if (n >= UINT32_MAX)
        return json_err(&flows, ERR_UNSUPPORTED, e, "has %zu flows, expected less than 2^32", n);
    s->id = arena_strdup(r->arena, id);
    s->flows = ARENA_NEW(r->arena, struct flows_flow, n);
    for (ok = json_first(&flows, &it); ok; ok = json_next(&it))
        if (read_flow(r, &it, &s->flows[s->n_flows++], e))
            return -1;
    return 0;
}

static int read_file(const struct json_at *top, struct arena *a, struct flows_file *out,
                     struct err *e)
{
    static const char *const keys[] = {"what",   "units",          "scenarios",
                                       "format", "format_version", "ballast_version",
                                       "argv",   "seed",           "check"};
    static const char *const formats[] = {"ballast-flows", NULL};
    struct reader r = {.arena = a};
    struct json_at list, it;
    const char *what, *units;
    size_t n;
    bool ok;
    int rc = 0, format;

    memset(out, 0, sizeof(*out));
    if (json_is_object(top, e) ||
        json_only_keys_or_null(top, keys, sizeof(keys) / sizeof(keys[0]), "seed", e) ||
        json_enum_or(top, "format", formats, 0, &format, e) ||
        json_str_or(top, "what", NULL, &what, e) || json_str_or(top, "units", NULL, &units, e) ||
        json_array(top, "scenarios", &list, &n, e) || json_distinct(&list, "id", e))
        return -1;
    out->what = what ? arena_strdup(a, what) : NULL;
    out->units = units ? arena_strdup(a, units) : NULL;
    out->scenarios = ARENA_NEW(a, struct flows_scenario, n);
    for (ok = json_first(&list, &it); ok && !rc; ok = json_next(&it)) {
        rc = read_scenario(&r, &it, &out->scenarios[out->n_scenarios++], e);
        mem_free(r.named);
        mem_free(r.names);
        r.named = NULL;
        r.names = NULL;
    }
    return rc;
}

int flows_parse_json(const char *name, const char *text, size_t len, struct arena *a,
                     struct flows_file *out, struct err *e)
{
    struct json j;
    struct json_at top;
    int rc;

    if (json_parse(&j, name, text, len, e))
        return -1;
    top = json_top(&j);
    rc = read_file(&top, a, out, e);
    json_release(&j);
    return rc;
}

int flows_read_json(const char *path, struct arena *a, struct flows_file *out, struct err *e)
{
    struct json j;
    struct json_at top;
    int rc;

    if (json_load(&j, path, e))
        return -1;
    top = json_top(&j);
    rc = read_file(&top, a, out, e);
    json_release(&j);
    return rc;
}

static void add_flow(cJSON *to, const struct flows_scenario *s, const struct flows_flow *flow)
{
    cJSON *o = json_add_object(to, NULL), *path = json_add_array(o, "path");
    uint32_t i;

    for (i = 0; i < flow->n_path; i++)
        json_add_str(path, NULL, s->links[flow->path[i]].name);
    json_add_u64(o, "bytes", flow->n_bytes);
    if (flow->weight != 0 && flow->weight != 1)
        json_add_double(o, "weight", flow->weight);
    json_add_double(o, "start_s", (double)flow->start_ps / 1e12);
    if (!isnan(flow->finish_s))
        json_add_double(o, "finish_s", flow->finish_s);
}

static void add_scenario(cJSON *to, const struct flows_scenario *s)
{
    cJSON *o = json_add_object(to, NULL), *links, *flows;
    uint32_t i;

    json_add_str(o, "id", s->id);
    links = json_add_object(o, "links_Bps");
    for (i = 0; i < s->n_links; i++)
        json_add_double(links, s->links[i].name, s->links[i].bw_Bps);
    flows = json_add_array(o, "flows");
    for (i = 0; i < s->n_flows; i++)
        add_flow(flows, s, &s->flows[i]);
}

void flows_add_json(const struct flows_file *file, cJSON *to)
{
    cJSON *list;

    if (file->what)
        json_add_str(to, "what", file->what);
    if (file->units)
        json_add_str(to, "units", file->units);
    list = json_add_array(to, "scenarios");
    for (uint32_t i = 0; i < file->n_scenarios; i++)
        add_scenario(list, &file->scenarios[i]);
}
