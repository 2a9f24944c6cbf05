/* Grids of measured products: reading, refusals, corners by hand, and the bundled ones. */
#include "model/cluster/gemm_grid.h"

#include "model/cluster/bundled.h"
#include "tests/suite.h"

#include <string.h>

static struct gemm_grid g, again;
static struct err err;

static int parse(const char *text, struct gemm_grid *into)
{
    struct json_at at;
    struct json j;
    int rc;

    if (json_parse(&j, "grid", text, strlen(text), &err))
        ck_abort_msg("%s", err.msg);
    at = json_top(&j);
    ck_assert_int_eq(json_get(&at, "g", &at, &err), 0);
    rc = gemm_grid_read(&at, into, &err);
    json_release(&j);
    return rc;
}

#define MODEL "\"model\":{\"sm_flops\":1e12,\"sms\":8,\"k0\":1,\"hbm\":1e12,\"kernel\":1e-6},"
#define SMALL                                                                                      \
    "{\"g\":{" MODEL "\"m\":[128,512],\"n\":[256,1024],\"k\":[64,256,4096],"                       \
    "\"us\":[[[1,2,3],[4,5,6]],[[7,8,9],[10,null,12]]]}}"

static double weight_of(const struct gemm_corner *c, int n, double m, double nn, double k)
{
    for (int i = 0; i < n; i++)
        if (c[i].m == m && c[i].n == nn && c[i].k == k)
            return c[i].weight;
    return -1;
}

/* m 256 lies halfway between 128 and 512 in log2, n 256 on the border, k 128 halfway between 64 and 256. */
START_TEST(corners_are_weighted_in_log2)
{
    struct gemm_corner c[8];
    int n;

    ck_assert_int_eq(parse(SMALL, &g), 0);
    n = gemm_grid_around(&g, 256, 256, 128, c);
    ck_assert_int_eq(n, 4);
    ck_assert_double_eq_tol(weight_of(c, n, 128, 256, 64), 0.25, 1e-12);
    ck_assert_double_eq_tol(weight_of(c, n, 512, 256, 256), 0.25, 1e-12);
    n = gemm_grid_around(&g, 512, 256, 4096, c);
    ck_assert_int_eq(n, 1);
    ck_assert_double_eq_tol(c[0].s, 9e-6, 1e-12);
}
END_TEST

/* Beyond the grid its border counts; of a cell with a hole the other corners do; a hole alone says nothing. */
START_TEST(borders_and_holes)
{
    struct gemm_corner c[8];
    int n;

    ck_assert_int_eq(parse(SMALL, &g), 0);
    n = gemm_grid_around(&g, 1, 1e9, 1, c);
    ck_assert_int_eq(n, 1);
    ck_assert_double_eq_tol(c[0].s, 4e-6, 1e-12);
    n = gemm_grid_around(&g, 512, 1024, 128, c); /* half 10, half not measured */
    ck_assert_int_eq(n, 1);
    ck_assert_double_eq_tol(c[0].weight, 1, 1e-12);
    ck_assert_double_eq_tol(c[0].s, 10e-6, 1e-12);
    ck_assert_int_eq(gemm_grid_around(&g, 512, 1024, 256, c), 0);
    ck_assert_int_eq(gemm_grid_around(NULL, 512, 1024, 256, c), 0);
}
END_TEST

START_TEST(what_is_written_reads_back)
{
    cJSON *tree = json_new_object();
    struct json_at at, v;

    ck_assert_int_eq(parse(SMALL, &g), 0);
    gemm_grid_add(tree, "g", &g);
    at = json_at_tree(tree, "tree");
    ck_assert_int_eq(json_get(&at, "g", &v, &err), 0);
    ck_assert_int_eq(gemm_grid_read(&v, &again, &err), 0);
    ck_assert_mem_eq(&g, &again, sizeof(g));
    json_free(tree);
}
END_TEST

START_TEST(every_bundled_grid_is_read_by_its_name)
{
    char text[128];

    ck_assert_uint_ge(bundled_grids_n, 3);
    for (size_t i = 0; i < bundled_grids_n; i++) {
        snprintf(text, sizeof(text), "{\"g\":\"%s\"}", bundled_grids[i].name);
        if (parse(text, &g))
            ck_abort_msg("%s", err.msg);
        ck_assert_str_eq(g.name, bundled_grids[i].name);
        /* more work never takes less than half the time of a product of half the size along k */
        for (uint32_t m = 0; m < g.n[0]; m++)
            for (uint32_t n = 0; n < g.n[1]; n++)
                for (uint32_t k = 1; k < g.n[2]; k++)
                    ck_assert_msg(g.us[m][n][k] > 0.5F * g.us[m][n][k - 1], "%s: %u %u %u", g.name,
                                  m, n, k);
    }
}
END_TEST

START_TEST(wrong_grids_are_refused)
{
    static const struct {
        const char *text, *says;
        enum err_code code;
    } rows[] = {
        {"{\"m\":[1,2]}", "'model'", ERR_PARSE},
        {"\"a100-sxn\"", "nearest: 'a100-sxm'", ERR_UNKNOWN},
        {"1", "", ERR_PARSE},
        {"{" MODEL "\"m\":[1,2],\"n\":[1,2],\"k\":[1,2]}", "'us'", ERR_PARSE},
        {"{" MODEL "\"m\":[2,1],\"n\":[1,2],\"k\":[1,2],\"us\":[]}", "sizes that ascend",
         ERR_INVALID},
        {"{" MODEL "\"m\":[1],\"n\":[1,2],\"k\":[1,2],\"us\":[]}", "has 1 sizes, expected 2 to",
         ERR_INVALID},
        {"{" MODEL "\"m\":[1,2],\"n\":[1,2],\"k\":[1,2],\"us\":[[[1,2],[3,4]]]}",
         "has 1 entries, expected one a size of m: 2", ERR_INVALID},
        {"{" MODEL "\"m\":[1,2],\"n\":[1,2],\"k\":[1,2],\"us\":[[[1,2],[3,4]],[[1,2],[3]]]}",
         "one a size of k: 2", ERR_INVALID},
        {"{" MODEL "\"m\":[1,2],\"n\":[1,2],\"k\":[1,2],\"us\":[[[1,2],[3,4]],[[1,2],[3,-4]]]}",
         "is -4", ERR_INVALID},
        {"{" MODEL "\"m\":[1,2],\"n\":[1,2],\"k\":[1,2],\"us\":[],\"mss\":1}", "unknown key 'mss'",
         ERR_UNKNOWN},
    };
    char text[512];

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(text, sizeof(text), "{\"g\":%s}", rows[i].text);
        ck_assert_msg(parse(text, &g) == -1, "%s", rows[i].text);
        ck_assert_msg(err.code == rows[i].code && strstr(err.msg, rows[i].says), "%s: %s",
                      rows[i].text, err.msg);
    }
}
END_TEST

SUITE_MAIN("model/gemm_grid", corners_are_weighted_in_log2, borders_and_holes,
           what_is_written_reads_back, every_bundled_grid_is_read_by_its_name,
           wrong_grids_are_refused)
