#include "model/cluster/gemm_grid.h"

#include "core/suggest.h"
#include "model/cluster/bundled.h"

#include <math.h>
#include <string.h>

static const char *const axes[] = {"m", "n", "k"};

static int read_axis(const struct json_at *v, int i, struct gemm_grid *g, struct err *e)
{
    struct json_at list, it;
    size_t n;

    if (json_array(v, axes[i], &list, &n, e))
        return -1;
    if (n < 2 || n > GEMM_GRID_MAX)
        return json_err(&list, ERR_INVALID, e, "has %zu sizes, expected 2 to %d", n, GEMM_GRID_MAX);
    for (bool ok = json_first(&list, &it); ok; ok = json_next(&it)) {
        uint64_t size;

        if (json_as_u64(&it, 1, 1u << 30, &size, e))
            return -1;
        if (g->n[i] && (double)size <= g->at[i][g->n[i] - 1])
            return json_err(&it, ERR_INVALID, e, "is %llu, expected sizes that ascend",
                            (unsigned long long)size);
        g->at[i][g->n[i]++] = (double)size;
    }
    return 0;
}

static int is_list_of(const struct json_at *v, const struct gemm_grid *g, int axis, struct err *e)
{
    size_t n;

    if (json_is_array(v, &n, e))
        return -1;
    if (n != g->n[axis])
        return json_err(v, ERR_INVALID, e, "has %zu entries, expected one a size of %s: %u", n,
                        axes[axis], g->n[axis]);
    return 0;
}

static int read_times(const struct json_at *v, struct gemm_grid *g, struct err *e)
{
    struct json_at by_m, by_n, by_k, it;
    uint32_t at[3] = {0, 0, 0};
    double us;

    if (json_array(v, "us", &by_m, NULL, e) || is_list_of(&by_m, g, 0, e))
        return -1;
    for (bool a = json_first(&by_m, &by_n); a; a = json_next(&by_n), at[0]++) {
        if (is_list_of(&by_n, g, 1, e))
            return -1;
        at[1] = 0;
        for (bool b = json_first(&by_n, &by_k); b; b = json_next(&by_k), at[1]++) {
            if (is_list_of(&by_k, g, 2, e))
                return -1;
            at[2] = 0;
            for (bool c = json_first(&by_k, &it); c; c = json_next(&it), at[2]++) {
                if (json_is_null(&it))
                    continue;
                if (json_as_double(&it, 1e-3, 1e12, &us, e))
                    return -1;
                g->us[at[0]][at[1]][at[2]] = (float)us;
            }
        }
    }
    return 0;
}

static int read_model(const struct json_at *v, struct gemm_grid_model *m, struct err *e)
{
    static const char *const keys[] = {"sm_flops", "sms", "k0", "hbm", "kernel"};
    struct json_at at;

    return json_object(v, "model", &at, e) || json_only_keys(&at, keys, 5, e) ||
                   json_double(&at, "sm_flops", 1e3, 1e17, &m->sm_flops, e) ||
                   json_double(&at, "sms", 1, 65536, &m->sms, e) ||
                   json_double(&at, "k0", 0, 1e6, &m->k0, e) ||
                   json_double(&at, "hbm", 1e3, 1e17, &m->hbm_Bps, e) ||
                   json_double(&at, "kernel", 0, 1, &m->kernel_s, e)
               ? -1
               : 0;
}

static int read_grid(const struct json_at *v, struct gemm_grid *g, struct err *e)
{
    if (read_model(v, &g->model, e))
        return -1;
    for (int i = 0; i < 3; i++)
        if (read_axis(v, i, g, e))
            return -1;
    return read_times(v, g, e);
}

static int read_bundled(const struct json_at *v, struct gemm_grid *g, struct err *e)
{
    const char *name, *near, *names[64];
    struct json_at top;
    struct json j;
    size_t n = 0;
    int rc;

    if (json_as_str(v, &name, e))
        return -1;
    for (size_t i = 0; i < bundled_grids_n; i++) {
        if (strcmp(bundled_grids[i].name, name)) {
            if (n < 64)
                names[n++] = bundled_grids[i].name;
            continue;
        }
        if (json_parse(&j, bundled_grids[i].name, (const char *)bundled_grids[i].text,
                       bundled_grids[i].len, e))
            return -1;
        top = json_top(&j);
        rc = read_grid(&top, g, e);
        json_release(&j);
        g->name = bundled_grids[i].name;
        return rc;
    }
    near = suggest_nearest(name, names, n);
    return json_err(v, ERR_UNKNOWN, e, "is '%s', expected the name of a bundled grid%s%s%s", name,
                    near ? " (nearest: '" : "", near ? near : "", near ? "')" : "");
}

int gemm_grid_read(const struct json_at *v, struct gemm_grid *g, struct err *e)
{
    static const char *const keys[] = {"model", "m", "n", "k", "us"};

    memset(g, 0, sizeof(*g));
    if (!json_is_str(v))
        return json_only_keys(v, keys, 5, e) || read_grid(v, g, e) ? -1 : 0;
    return read_bundled(v, g, e);
}

void gemm_grid_add(cJSON *to, const char *key, const struct gemm_grid *g)
{
    cJSON *o, *model, *by_m;

    if (g->name) {
        json_add_str(to, key, g->name);
        return;
    }
    o = json_add_object(to, key);
    model = json_add_object(o, "model");
    json_add_double(model, "sm_flops", g->model.sm_flops);
    json_add_double(model, "sms", g->model.sms);
    json_add_double(model, "k0", g->model.k0);
    json_add_double(model, "hbm", g->model.hbm_Bps);
    json_add_double(model, "kernel", g->model.kernel_s);
    for (int i = 0; i < 3; i++) {
        cJSON *list = json_add_array(o, axes[i]);

        for (uint32_t k = 0; k < g->n[i]; k++)
            json_add_u64(list, NULL, (uint64_t)g->at[i][k]);
    }
    by_m = json_add_array(o, "us");
    for (uint32_t m = 0; m < g->n[0]; m++) {
        cJSON *by_n = json_add_array(by_m, NULL);

        for (uint32_t n = 0; n < g->n[1]; n++) {
            cJSON *by_k = json_add_array(by_n, NULL);

            for (uint32_t k = 0; k < g->n[2]; k++)
                if (g->us[m][n][k] > 0)
                    json_add_double(by_k, NULL, (double)g->us[m][n][k]);
                else
                    json_add_null(by_k, NULL);
        }
    }
}

/* The cell of x on an axis, and how far x is into it. */
static uint32_t cell(const struct gemm_grid *g, int axis, double x, double *part)
{
    const double *at = g->at[axis];
    uint32_t i = 0, n = g->n[axis];

    x = fmin(fmax(x, at[0]), at[n - 1]);
    while (i + 2 < n && x > at[i + 1])
        i++;
    *part = log2(x / at[i]) / log2(at[i + 1] / at[i]);
    return i;
}

int gemm_grid_around(const struct gemm_grid *g, double m, double n, double k,
                     struct gemm_corner out[8])
{
    double part[3], sum = 0;
    uint32_t at[3];
    int count = 0;

    if (!g)
        return 0;
    at[0] = cell(g, 0, m, &part[0]);
    at[1] = cell(g, 1, n, &part[1]);
    at[2] = cell(g, 2, k, &part[2]);
    for (uint32_t c = 0; c < 8; c++) {
        uint32_t i = at[0] + (c & 1), j = at[1] + (c >> 1 & 1), l = at[2] + (c >> 2 & 1);
        double w = 1;

        for (int a = 0; a < 3; a++)
            w *= c >> a & 1 ? part[a] : 1 - part[a];
        if (w <= 0 || g->us[i][j][l] <= 0)
            continue;
        out[count++] = (struct gemm_corner){.m = g->at[0][i],
                                            .n = g->at[1][j],
                                            .k = g->at[2][l],
                                            .s = (double)g->us[i][j][l] * 1e-6,
                                            .weight = w};
        sum += w;
    }
    for (int i = 0; i < count; i++)
        out[i].weight /= sum;
    return count;
}
