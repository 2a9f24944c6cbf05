#include "cli/step_predict.h"

#include "cli/evaluate.h"
#include "cli/setup.h"
#include "cli/step_band.h"
#include "planner/planner.h"

#include <math.h>
#include <string.h>

static int predict(void *ctx, struct step_row *m, struct setup *s, struct err *e)
{
    struct sim_options so = {.serial = m->serial};
    struct plan *plan = ARENA_NEW(&s->arena, struct plan, 1);
    struct evaluation x;

    (void)ctx;
    if (setup_plan(s, m->nodes, m->layout, &s->arena, plan, e) ||
        planner_plan(plan, &evaluate_time, &s->arena, e) || evaluate(plan, &so, &s->arena, &x, e))
        return -1;
    m->predicted = metric_number(m->metric, &x);
    m->world = plan->world;
    if (step_metric_is_time(m->metric) && !m->serial) {
        struct step_band band = step_band(plan);

        m->band = band.percent;
        m->basis = band.basis;
    }
    return 0;
}

static const char *set_name(const char *file, struct arena *a)
{
    const char *slash = strrchr(file, '/'), *name = slash ? slash + 1 : file;
    size_t len = strlen(name);

    if (len > 5 && !strcmp(name + len - 5, ".json"))
        len -= 5;
    return arena_printf(a, "%.*s", (int)len, name);
}

int step_rows_read(const struct json_at *top, struct arena *a, struct step_rows *to, struct err *e)
{
    struct step_set set = {.name = set_name(top->file, a), .first = to->n};
    struct json_at array, it;
    struct step_row *row;
    const char *what;

    if (step_rows_open(top, &array, e))
        return -1;
    if (json_opt(top, "what", &it)) {
        if (json_str(top, "what", &what, e))
            return -1;
        set.what = arena_strdup(a, what);
    }
    for (bool more = json_first(&array, &it); more; more = json_next(&it)) {
        to->rows = mem_grow(to->rows, &to->cap, to->n + 1, sizeof(*to->rows));
        row = &to->rows[to->n++];
        if (step_row_read(&it, row, a, e) || step_row_with_setup(&it, row, a, predict, NULL, e))
            return -1;
    }
    set.n = to->n - set.first;
    to->sets = mem_grow(to->sets, &to->cap_sets, to->n_sets + 1, sizeof(*to->sets));
    to->sets[to->n_sets++] = set;
    return 0;
}

void step_rows_release(struct step_rows *s)
{
    mem_free(s->rows);
    mem_free(s->sets);
    memset(s, 0, sizeof(*s));
}
