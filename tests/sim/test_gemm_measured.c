/* Products measured on A100, H100 and H200 (reference/gemm_measurements.json, where the file is there: BALLAST_SHARED, or ../shared, is
 * the folder that holds reference/) against the tile model alone, and corrected by the bundled grid: on the grid's own
 * shapes and, what it was not made of, off them. */
#include "core/json.h"
#include "sim/framework.h"
#include "sim/sim.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

static struct arena arena;
static struct json file;
static struct err err;

/* Errors in percent as they are, mean of |predicted/measured - 1| over bf16 products in bursts: more than a tenth above them fails. */
static const struct {
    const char *id, *cluster;
    double tiles, on_grid, off_grid;
} devices[] = {{"aiconf-a100-80g-bf16-vllm", "dgx-a100", 14.8, 0.1, 5.6},
               {"aiconf-h100-bf16-vllm", "hgx-h100-ndr", 10.9, 0.1, 7.2},
               {"aiconf-h200-bf16-vllm", "hgx-h200-ndr", 13.2, 0.1, 7.4}};

static bool listed(const struct gemm_grid *g, int axis, uint64_t size)
{
    for (uint32_t i = 0; i < g->n[axis]; i++)
        if (g->at[axis][i] == (double)size)
            return true;
    return false;
}

struct mean {
    double sum;
    uint32_t n;
};

static void add(struct mean *m, const struct device *d, const struct kernel_call *call,
                double measured_s)
{
    const struct framework_costs burst = {.sustained = 1};
    double s = (double)sim_kernel_time(d, &burst, call).alone_ps / 1e12;

    m->sum += 100 * fabs(s / measured_s - 1);
    m->n++;
}

static void within(const char *id, const char *what, struct mean m, double was)
{
    ck_assert_uint_gt(m.n, 50);
    printf("%s: %s %.1f %% of %u products\n", id, what, m.sum / m.n, m.n);
    ck_assert_msg(m.sum / m.n <= 1.1 * was, "%s: %s %.1f %%, was %.1f", id, what, m.sum / m.n, was);
}

static void table(const struct json_at *t, const char *id, struct json_at *rows, size_t *n)
{
    const char *is;

    MUST(json_str(t, "id", &is, &err) == 0, "%s", err.msg);
    if (!strcmp(is, id))
        MUST(json_array(t, "rows", rows, n, &err) == 0, "%s", err.msg);
}

START_TEST(grids_correct_what_they_were_not_made_of)
{
    struct mean tiles = {0}, on = {0}, off = {0};
    struct device plain;
    struct json_at top = json_top(&file), t, rows, row;
    struct cluster c;
    size_t n_tables, n = 0;

    MUST(json_is_array(&top, &n_tables, &err) == 0, "%s", err.msg);
    MUST(cluster_load(devices[_i].cluster, &arena, &c, &err) == 0, "%s", err.msg);
    ck_assert_ptr_nonnull(c.device.gemm_grid);
    plain = c.device;
    plain.gemm_grid = NULL;
    for (size_t i = 0; i < n_tables; i++) {
        MUST(json_elem(&top, i, &t, &err) == 0, "%s", err.msg);
        table(&t, devices[_i].id, &rows, &n);
    }
    for (size_t i = 0; i < n; i++) {
        struct kernel_call call = {.kernel = KERNEL_GEMM, .batch = 1}; /* launched ahead */
        double ms;

        MUST(json_elem(&rows, i, &row, &err) == 0 &&
                 json_u64(&row, "m", 1, UINT32_MAX, &call.m, &err) == 0 &&
                 json_u64(&row, "n", 1, UINT32_MAX, &call.n, &err) == 0 &&
                 json_u64(&row, "k", 1, UINT32_MAX, &call.k, &err) == 0 &&
                 json_double(&row, "time_ms", 0, 1e9, &ms, &err) == 0,
             "%s", err.msg);
        add(&tiles, &plain, &call, ms / 1e3);
        add(listed(c.device.gemm_grid, 0, call.m) && listed(c.device.gemm_grid, 1, call.n) &&
                    listed(c.device.gemm_grid, 2, call.k)
                ? &on
                : &off,
            &c.device, &call, ms / 1e3);
    }
    within(devices[_i].id, "tiles alone", tiles, devices[_i].tiles);
    within(devices[_i].id, "with the grid, on it", on, devices[_i].on_grid);
    within(devices[_i].id, "with the grid, off it", off, devices[_i].off_grid);
}
END_TEST

int main(void)
{
    char path[4096];
    int status;

    if (!suite_shared("reference/gemm_measurements.json", path))
        return 77;
    arena_init(&arena);
    if (json_load(&file, path, &err)) {
        fprintf(stderr, "%s\n", err.msg);
        return EXIT_FAILURE;
    }
    status = suite_run_loop("sim/gemm: measured", grids_correct_what_they_were_not_made_of,
                            sizeof(devices) / sizeof(devices[0]));
    json_release(&file);
    arena_release(&arena);
    return status;
}
