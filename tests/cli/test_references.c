/* experiments/03-steps/references.txt against what it is about: each right-hand side is a bundled row or a declared reason; and, where
 * the files of published runs are there (BALLAST_SHARED, or ../shared), each of their rows has one outcome, and each scored one the
 * bundled row's value. Without them: status 77 when the first holds. */
#include "core/json.h"
#include "core/mem.h"
#include "model/cluster/bundled.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

enum { MAX_LINES = 400, MAX_ROWS = 1000 };

static struct line {
    char file[32], ids[1200], what[64];
    uint32_t used;
} lines[MAX_LINES];
static struct {
    char key[64];
    uint32_t used;
} reasons[64];
static struct {
    char set[64], id[96];
    double value;
    bool used;
} bundled[MAX_ROWS];
static size_t n_lines, n_reasons, n_bundled;
static struct err err;

static void read_lines(void)
{
    FILE *f = fopen("experiments/03-steps/references.txt", "r");
    char text[2000];

    ck_assert_msg(f != NULL, "no experiments/03-steps/references.txt here");
    for (n_lines = n_reasons = 0; fgets(text, sizeof(text), f);) {
        struct line *l = &lines[n_lines];
        char tail[2];

        if (text[0] == '#')
            continue;
        if (!strncmp(text, "reason ", 7)) {
            ck_assert_uint_lt(n_reasons, sizeof(reasons) / sizeof(reasons[0]));
            ck_assert_int_eq(sscanf(text, "reason %63s %1s", reasons[n_reasons].key, tail), 2);
            reasons[n_reasons++].used = 0;
            continue;
        }
        ck_assert_uint_lt(n_lines, MAX_LINES);
        memset(l, 0, sizeof(*l));
        MUST(sscanf(text, "%31s %1199s %63s %1s", l->file, l->ids, l->what, tail) == 3, "%s", text);
        n_lines++;
    }
    fclose(f);
}

static void read_bundled(void)
{
    n_bundled = 0;
    for (size_t i = 0; i < bundled_measurements_n; i++) {
        const struct bundled_file *b = &bundled_measurements[i];
        struct json_at top, rows, it;
        struct json j;
        const char *id;

        if (json_parse(&j, b->name, (const char *)b->text, b->len, &err))
            ck_abort_msg("%s", err.msg);
        top = json_top(&j);
        if (!json_is_array(&top, NULL, &err)) { /* tables of collectives */
            json_release(&j);
            continue;
        }
        if (json_array(&top, "rows", &rows, NULL, &err))
            ck_abort_msg("%s", err.msg);
        for (bool more = json_first(&rows, &it); more; more = json_next(&it)) {
            ck_assert_uint_lt(n_bundled, MAX_ROWS);
            if (json_str(&it, "id", &id, &err) ||
                json_double(&it, "value", 0, INFINITY, &bundled[n_bundled].value, &err))
                ck_abort_msg("%s", err.msg);
            snprintf(bundled[n_bundled].set, sizeof(bundled[0].set), "%s", b->name);
            snprintf(bundled[n_bundled].id, sizeof(bundled[0].id), "%s", id);
            bundled[n_bundled++].used = false;
        }
        json_release(&j);
    }
    ck_assert_uint_gt(n_bundled, 200);
}

static int reason_of(const char *what)
{
    for (size_t i = 0; i < n_reasons; i++)
        if (!strcmp(reasons[i].key, what))
            return (int)i;
    return -1;
}

static int bundled_of(const char *what)
{
    for (size_t i = 0; i < n_bundled; i++)
        if (!strcmp(bundled[i].id, what))
            return (int)i;
    return -1;
}

static bool is_set(const char *what)
{
    for (size_t i = 0; i < n_bundled; i++)
        if (!strcmp(bundled[i].set, what))
            return true;
    return false;
}

START_TEST(every_outcome_is_a_bundled_row_or_a_reason)
{
    read_lines();
    read_bundled();
    for (size_t i = 0; i < n_lines; i++) {
        int reason = reason_of(lines[i].what);
        bool counted = strchr(lines[i].ids, ':') != NULL;

        if (reason >= 0)
            reasons[reason].used++;
        else
            MUST(counted ? is_set(lines[i].what) : bundled_of(lines[i].what) >= 0,
                 "'%s' is neither a reason nor a bundled %s", lines[i].what,
                 counted ? "set" : "row");
        for (size_t k = 0; k < i && reason < 0; k++) /* files may share a row, ids of one may not */
            MUST(strcmp(lines[k].what, lines[i].what) != 0 ||
                     strcmp(lines[k].file, lines[i].file) != 0,
                 "'%s' is scored by two rows of %s", lines[i].what, lines[i].file);
    }
    for (size_t i = 0; i < n_reasons; i++)
        MUST(reasons[i].used, "reason '%s' has no rows", reasons[i].key);
}
END_TEST

/* The outcome of one id, which must stand in one line alone. */
static struct line *line_of(const char *file, const char *id)
{
    struct line *found = NULL;
    size_t len = strlen(id);

    for (size_t i = 0; i < n_lines; i++) {
        if (strcmp(lines[i].file, file) != 0)
            continue;
        for (const char *at = lines[i].ids; at; at = strchr(at, ',')) {
            at += *at == ',';
            if (strncmp(at, id, len) != 0 || (at[len] && at[len] != ','))
                continue;
            MUST(!found, "%s %s has two outcomes", file, id);
            found = &lines[i];
        }
    }
    MUST(found, "%s %s has no outcome", file, id);
    return found;
}

static size_t n_ids(const char *file)
{
    size_t n = 0;

    for (size_t i = 0; i < n_lines; i++)
        if (!strcmp(lines[i].file, file)) {
            n++;
            for (const char *c = lines[i].ids; *c; c++)
                n += *c == ',';
        }
    return n;
}

static bool near(double a, double b, double tolerance)
{
    return fabs(a / b - 1) <= tolerance;
}

/* As it is, TFLOPS of an A100's 312, or bytes of 10^9 in 2^30; bundled to three digits and more. */
static bool same_value(double published, double ours)
{
    return near(published, ours, 1e-4) || near(published / 312, ours, 2e-4) ||
           near(published * 1e9 / 0x1p30, ours, 1e-4);
}

/* Has the object such a number anywhere? */
static bool has_value(const struct json_at *row, double ours)
{
    struct json_at it;
    double v;

    for (bool more = json_first(row, &it); more; more = json_next(&it))
        if (!json_as_double(&it, -INFINITY, INFINITY, &v, &err) && same_value(v, ours))
            return true;
    return false;
}

static void outcome(const struct json_at *row, const char *file, const char *id)
{
    struct line *l = line_of(file, id);

    if (reason_of(l->what) < 0)
        MUST(has_value(row, bundled[bundled_of(l->what)].value),
             "%s %s does not have the %g of '%s'", file, id, bundled[bundled_of(l->what)].value,
             l->what);
}

static void load(const char *name, struct json *j)
{
    char path[4096];

    ck_assert(suite_shared(name, path));
    if (json_load(j, path, &err))
        ck_abort_msg("%s", err.msg);
}

START_TEST(every_published_row_has_one_outcome)
{
    struct json_at top, it, rows, row;
    const char *id;
    char text[64];
    size_t n = 0;
    struct json j;

    read_lines();
    read_bundled();
    load("reference/published_numbers.json", &j);
    top = json_top(&j);
    for (bool more = json_first(&top, &it); more; more = json_next(&it), n++) {
        ck_assert(!json_str(&it, "id", &id, &err));
        outcome(&it, "published", id);
    }
    ck_assert_uint_eq(n, n_ids("published"));
    json_release(&j);
    load("reference/training_measurements.json", &j);
    top = json_top(&j);
    n = 0;
    for (bool more = json_first(&top, &it); more; more = json_next(&it)) {
        ck_assert(!json_array(&it, "rows", &rows, NULL, &err));
        for (bool inner = json_first(&rows, &row); inner; inner = json_next(&row), n++) {
            snprintf(text, sizeof(text), "%zu.%zu", it.index, row.index);
            outcome(&row, "training", text);
        }
    }
    ck_assert_uint_eq(n, n_ids("training"));
    json_release(&j);
}
END_TEST

/* A run of data parallelism alone is a row of the set, and each is one. */
static void find_in_set(const char *set, double ms)
{
    for (size_t i = 0; i < n_bundled; i++)
        if (!strcmp(bundled[i].set, set) && !bundled[i].used && near(ms, bundled[i].value, 1e-4)) {
            bundled[i].used = true;
            return;
        }
    ck_abort_msg("%s has no row of %g ms", set, ms);
}

static void count_runs(const char *file, const char *set)
{
    static const char *const kinds[] = {"data", "tensor", "pipeline"};
    uint64_t n[3] = {0}, tp, pp;
    struct json_at top, rows, it;
    char name[64], text[64];
    struct json j;
    double ms;

    snprintf(name, sizeof(name), "reference/%s.json", file);
    load(name, &j);
    top = json_top(&j);
    ck_assert(!json_array(&top, "rows", &rows, NULL, &err));
    for (bool more = json_first(&rows, &it); more; more = json_next(&it)) {
        ck_assert(!json_u64(&it, "tp", 1, UINT64_MAX, &tp, &err) &&
                  !json_u64(&it, "pp", 1, UINT64_MAX, &pp, &err) &&
                  !json_double(&it, "iteration_ms", 0, INFINITY, &ms, &err));
        n[tp > 1 ? 1 : pp > 1 ? 2 : 0]++;
        if (tp == 1 && pp == 1)
            find_in_set(set, ms);
    }
    for (int k = 0; k < 3; k++) {
        snprintf(text, sizeof(text), "%s:%llu", kinds[k], (unsigned long long)n[k]);
        MUST(!strcmp(line_of(file, text)->what, k ? kinds[k] : set), "%s %s", file, text);
    }
    ck_assert_uint_eq(n_ids(file), 3);
    for (size_t i = 0; i < n_bundled; i++)
        MUST(strcmp(bundled[i].set, set) != 0 || bundled[i].used, "'%s' is no run of %s",
             bundled[i].id, file);
    json_release(&j);
}

START_TEST(every_run_of_vtrain_is_counted)
{
    read_lines();
    read_bundled();
    count_runs("vtrain_single", "vtrain");
    count_runs("vtrain_multi", "vtrain-multi");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {every_outcome_is_a_bundled_row_or_a_reason,
                                  every_published_row_has_one_outcome,
                                  every_run_of_vtrain_is_counted};
    static const char *const files[] = {
        "reference/published_numbers.json", "reference/training_measurements.json",
        "reference/vtrain_single.json", "reference/vtrain_multi.json"};
    bool there = true;
    char path[4096];
    int status;

    for (int i = 0; i < 4; i++)
        there &= suite_shared(files[i], path);
    status = suite_run("cli/references", tests, there ? 3 : 1);
    return status || there ? status : 77;
}
