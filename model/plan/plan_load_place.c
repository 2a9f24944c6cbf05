/* Who holds what in a plan file: layout and mesh, offsets and segments, which must be those that placement gives, and loads. */
#include "model/plan/plan_load.h"

#include "core/num.h"
#include "model/plan/placement.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- placement ---- */

struct segment_check {
    struct json_at list, row;
    bool more, wrong;
    struct err *e;
};

static int one_segment(struct json_at *row, uint64_t v[3], struct err *e)
{
    struct json_at cell;
    size_t n;

    if (json_is_array(row, &n, e))
        return -1;
    if (n != 3)
        return json_err(row, ERR_INVALID, e, "has %zu values, expected rank, offset and bytes", n);
    json_first(row, &cell);
    for (int i = 0; i < 3; i++, json_next(&cell))
        if (plan_as_count(&cell, &v[i], e))
            return -1;
    return 0;
}

static void check_segment(void *ctx, uint32_t rank, uint64_t offset, uint64_t bytes)
{
    struct segment_check *c = ctx;
    uint64_t v[3];

    if (c->wrong)
        return;
    c->wrong = true;
    if (!c->more) {
        json_err(&c->list, ERR_INVALID, c->e,
                 "ends before the segment of rank %" PRIu32 " at offset %" PRIu64, rank, offset);
        return;
    }
    if (one_segment(&c->row, v, c->e))
        return;
    if (v[0] != rank || v[1] != offset || v[2] != bytes) {
        json_err(&c->row, ERR_INVALID, c->e,
                 "is [%" PRIu64 ", %" PRIu64 ", %" PRIu64 "], but the tensors say [%" PRIu32
                 ", %" PRIu64 ", %" PRIu64 "]",
                 v[0], v[1], v[2], rank, offset, bytes);
        return;
    }
    c->wrong = false;
    c->more = json_next(&c->row);
}

/* Offsets: every tensor begins where the one before it in its unit ends. */
int plan_check_offsets(const struct plan_reader *r, const struct plan_tables *t)
{
    const struct plan *p = r->p;
    uint64_t offset = 0;
    struct json_at row;

    for (bool ok = json_first(&t->tensors, &row); ok; ok = json_next(&row)) {
        const struct tensor *x = &p->model.tensors[row.index];

        if (p->model.units[x->unit].first == row.index)
            offset = 0;
        if (p->place[row.index].offset != offset)
            return json_err(&row, ERR_INVALID, r->e,
                            "has offset %" PRIu64 ", expected %" PRIu64
                            ": tensors lie one after another in their unit",
                            p->place[row.index].offset, offset);
        offset += dtype_bytes(p->job.param_dtype, x->numel);
    }
    return 0;
}

int plan_check_units(const struct plan_reader *r, const struct plan_tables *t)
{
    const struct plan *p = r->p;
    uint64_t element = 0;
    struct json_at unit;

    for (bool ok = json_first(&t->units, &unit); ok; ok = json_next(&unit)) {
        const struct unit *u = &p->model.units[unit.index];
        struct segment_check c = {.e = r->e};

        if (plan_expect(&unit, "bytes", dtype_bytes(p->job.param_dtype, u->numel), r->e) ||
            plan_expect(&unit, "first_element", element, r->e) ||
            json_array(&unit, "segments", &c.list, NULL, r->e))
            return -1;
        c.more = json_first(&c.list, &c.row);
        plan_segments(p, (uint32_t)unit.index, check_segment, &c);
        if (c.wrong)
            return -1;
        if (c.more)
            return json_err(&c.row, ERR_INVALID, r->e, "is a segment that no tensor makes");
        element += u->numel;
    }
    return 0;
}

static int read_factor(const struct plan_reader *r, const struct json_at *mesh, const char *key,
                       struct factor *f)
{
    const struct cluster *c = &r->p->cluster;
    struct json_at at;
    uint64_t *v;
    size_t n;

    if (json_u64_array(mesh, key, 1, CLUSTER_MAX_RANKS, r->a, &v, &n, r->e) ||
        json_get(mesh, key, &at, r->e))
        return -1;
    if (n != 2 || v[0] > c->gpus_per_node || v[1] > c->n_nodes)
        return json_err(&at, ERR_INVALID, r->e,
                        "is no factor of %" PRIu32 " GPUs in a node and %" PRIu32
                        " nodes, expected [in node, nodes]",
                        c->gpus_per_node, c->n_nodes);
    *f = (struct factor){(uint32_t)v[0], (uint32_t)v[1]};
    return 0;
}

int plan_read_layout(struct plan_reader *r, const struct json_at *top)
{
    struct plan *p = r->p;
    struct json_at mesh;
    struct err why;
    int choice;

    if (plan_text(r, top, "layout", &p->layout) ||
        plan_text(r, top, "layout_full", &p->layout_full) ||
        ENUM(top, "strategy", plan_strategies, p->strategy, r->e) ||
        plan_expect(top, "world", p->job.gpus, r->e) || json_object(top, "mesh", &mesh, r->e) ||
        KEYS(&mesh, r->e, "p", "g", "os") || read_factor(r, &mesh, "p", &p->factor[PARAM]) ||
        read_factor(r, &mesh, "g", &p->factor[GRAD]) ||
        read_factor(r, &mesh, "os", &p->factor[STATE]))
        return -1;
    if (placement_set_mesh(p, &why))
        return json_err(&mesh, ERR_INVALID, r->e, "has factors that do not nest: %s", why.msg);
    return 0;
}

int plan_check_columns(const struct plan_reader *r, const struct json_at *top)
{
    struct json_at list, it;
    const char *s;
    size_t n;

    if (json_array(top, "columns", &list, &n, r->e))
        return -1;
    if (n != PLAN_COLUMNS)
        return json_err(&list, ERR_INVALID, r->e, "has %zu names, expected %d", n, PLAN_COLUMNS);
    for (bool ok = json_first(&list, &it); ok; ok = json_next(&it)) {
        if (json_as_str(&it, &s, r->e))
            return -1;
        if (strcmp(s, plan_columns[it.index]) != 0)
            return json_err(&it, ERR_INVALID, r->e, "is '%.40s', expected '%s'", s,
                            plan_columns[it.index]);
    }
    return 0;
}

/* ---- loads ---- */

static int read_run(struct json_at *row, uint64_t *value, uint64_t *n, uint64_t most, struct err *e)
{
    struct json_at cell;
    size_t len;

    if (json_is_array(row, &len, e))
        return -1;
    if (len != 2)
        return json_err(row, ERR_INVALID, e,
                        "has %zu values, expected a load and a number of ranks", len);
    json_first(row, &cell);
    if (plan_as_count(&cell, value, e))
        return -1;
    json_next(&cell);
    return json_as_u64(&cell, 1, most, n, e);
}

static int read_by_rank(struct plan_reader *r, const struct json_at *loads, const char *key,
                        uint64_t **out)
{
    uint64_t value, n, sum = 0, world = r->p->world, *v;
    struct json_at list, row;

    if (json_array(loads, key, &list, NULL, r->e))
        return -1;
    for (bool ok = json_first(&list, &row); ok; ok = json_next(&row), sum += n)
        if (read_run(&row, &value, &n, world - num_min(sum, world), r->e))
            return -1;
    if (sum != world)
        return json_err(&list, ERR_INVALID, r->e, "is for %" PRIu64 " ranks, expected %" PRIu64,
                        sum, world);
    *out = v = ARENA_NEW(r->a, uint64_t, world);
    for (bool ok = json_first(&list, &row); ok; ok = json_next(&row))
        for (read_run(&row, &value, &n, world, r->e); n; n--)
            *v++ = value;
    return 0;
}

/* The maximum and mean that a file claims, against its ranks. */
static int check_sums(struct plan_reader *r, const struct json_at *loads, const char *max_key,
                      const char *mean_key, const uint64_t *v, uint64_t *max, double *mean)
{
    struct json_at at;
    double sum = 0;

    *max = 0;
    for (uint32_t i = 0; i < r->p->world; i++) {
        *max = num_max(*max, v[i]);
        sum += (double)v[i] / r->p->world;
    }
    if (plan_expect(loads, max_key, *max, r->e) ||
        json_double(loads, mean_key, 0, INFINITY, mean, r->e) ||
        json_get(loads, mean_key, &at, r->e))
        return -1;
    if (fabs(*mean - sum) > 1e-9 * sum)
        return json_err(&at, ERR_INVALID, r->e,
                        "is %.17g, but the ranks' loads have a mean of %.17g", *mean, sum);
    return 0;
}

int plan_read_loads(struct plan_reader *r, const struct json_at *top)
{
    struct plan *p = r->p;
    struct json_at at;

    if (json_object(top, "loads", &at, r->e) ||
        KEYS(&at, r->e, "solver", "reproducible", "optimal", "over_capacity", "flops_max",
             "flops_mean", "bytes_max", "bytes_mean", "bound", "gap_percent", "load_flops",
             "load_bytes") ||
        plan_text(r, &at, "solver", &p->solver) ||
        json_bool(&at, "reproducible", &p->reproducible, r->e) ||
        json_bool(&at, "optimal", &p->optimal, r->e) ||
        json_bool(&at, "over_capacity", &p->over_capacity, r->e) ||
        read_by_rank(r, &at, "load_flops", &p->load_flops) ||
        read_by_rank(r, &at, "load_bytes", &p->load_bytes) ||
        check_sums(r, &at, "flops_max", "flops_mean", p->load_flops, &p->flops_max,
                   &p->flops_mean) ||
        check_sums(r, &at, "bytes_max", "bytes_mean", p->load_bytes, &p->bytes_max,
                   &p->bytes_mean) ||
        plan_count(&at, "bound", &p->bound, r->e) ||
        json_double(&at, "gap_percent", 0, INFINITY, &p->gap_percent, r->e))
        return -1;
    return 0;
}
