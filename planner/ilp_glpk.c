/* planner/ilp_glpk.c - planner/ilp.h on GLPK 5.0; the only file that includes glpk.h.
 *
 * Lessons this file knows:
 * - GLPK calls abort() on a fatal error unless its hook jumps out; after the jump glp_free_env() is mandatory, and it
 *   frees every problem and index GLPK ever handed out, so nothing of GLPK is kept between calls.
 * - Presolve with unscaled rows returned a wrong optimum once: rows are scaled to about 1 by powers of two (exact),
 *   presolve stays off, glp_simplex runs first and glp_intopt starts from its basis.
 * - The branch and bound has no pivot limit of its own: the callback counts and terminates.
 * - Integer answers are recomputed with integers; one that fails is reported as "nothing known".
 */
#include "planner/ilp.h"

#include <glpk.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <string.h>

struct search_limits {
    uint64_t max_pivots, max_nodes;
    uint64_t nodes;
    bool stopped; /* by a limit */
};

struct glpk_exit {
    jmp_buf env;
    char text[200]; /* the last line GLPK said: only errors get this far */
};

static void jump_out(void *info)
{
    struct glpk_exit *out = info;

    longjmp(out->env, 1);
}

/* Swallow terminal output; GLPK turns it on by itself before an error. */
static int keep_text(void *info, const char *text)
{
    struct glpk_exit *out = info;

    if (!out->text[0])
        snprintf(out->text, sizeof(out->text), "%.*s", (int)strcspn(text, "\n"), text);
    return 1;
}

/* Largest power of two <= 1/max coefficient of the row. */
static double row_scale(const struct ilp *p, uint32_t row)
{
    uint32_t big = 1;

    for (uint32_t j = 0; j < p->n_cols; j++)
        if (p->a[(size_t)j * p->n_rows + row] > big)
            big = p->a[(size_t)j * p->n_rows + row];
    return ldexp(1.0, -ilogb((double)big));
}

static void set_row(glp_prob *lp, int i, int64_t lo, int64_t hi, double scale)
{
    if (hi == ILP_FREE)
        glp_set_row_bnds(lp, i, GLP_LO, (double)lo * scale, 0.0);
    else if (hi == lo)
        glp_set_row_bnds(lp, i, GLP_FX, (double)lo * scale, (double)hi * scale);
    else
        glp_set_row_bnds(lp, i, GLP_DB, (double)lo * scale, (double)hi * scale);
}

static glp_prob *build(const struct ilp *p, const double *scale, int *ind, double *val)
{
    glp_prob *lp = glp_create_prob();

    glp_set_obj_dir(lp, GLP_MIN);
    glp_add_rows(lp, (int)p->n_rows);
    glp_add_cols(lp, (int)p->n_cols);
    for (uint32_t i = 0; i < p->n_rows; i++)
        set_row(lp, (int)i + 1, p->row_min[i], p->row_max[i], scale[i]);
    for (uint32_t j = 0; j < p->n_cols; j++) {
        int len = 0;

        for (uint32_t i = 0; i < p->n_rows; i++) {
            uint32_t coef = p->a[(size_t)j * p->n_rows + i];

            if (coef == 0)
                continue;
            len++;
            ind[len] = (int)i + 1;
            val[len] = (double)coef * scale[i];
        }
        glp_set_mat_col(lp, (int)j + 1, len, ind, val);
        glp_set_obj_coef(lp, (int)j + 1, 1.0);
        if (p->col_max[j] == ILP_FREE)
            glp_set_col_bnds(lp, (int)j + 1, GLP_LO, 0.0, 0.0);
        else if (p->col_max[j] == 0)
            glp_set_col_bnds(lp, (int)j + 1, GLP_FX, 0.0, 0.0);
        else
            glp_set_col_bnds(lp, (int)j + 1, GLP_DB, 0.0, (double)p->col_max[j]);
    }
    return lp;
}

static int simplex(glp_prob *lp, uint64_t max_pivots)
{
    glp_smcp parm;

    glp_init_smcp(&parm);
    parm.msg_lev = GLP_MSG_OFF;
    parm.presolve = GLP_OFF;
    parm.tm_lim = INT_MAX;
    parm.it_lim = max_pivots > INT_MAX ? INT_MAX : (int)max_pivots;
    glp_std_basis(lp);
    return glp_simplex(lp, &parm);
}

static void on_node(glp_tree *tree, void *info)
{
    struct search_limits *lim = info;
    int it = glp_get_it_cnt(glp_ios_get_prob(tree));

    switch (glp_ios_reason(tree)) {
    case GLP_IBINGO: /* the first one is good enough */
        glp_ios_terminate(tree);
        break;
    case GLP_ISELECT:
        lim->nodes++;
        if (lim->nodes > lim->max_nodes || (uint64_t)it > lim->max_pivots) {
            lim->stopped = true;
            glp_ios_terminate(tree);
        }
        break;
    default:
        break;
    }
}

static bool satisfies(const struct ilp *p, const int64_t *x)
{
    for (uint32_t j = 0; j < p->n_cols; j++)
        if (x[j] < 0 || x[j] > p->col_max[j])
            return false;
    for (uint32_t i = 0; i < p->n_rows; i++) {
        __int128 sum = 0;

        for (uint32_t j = 0; j < p->n_cols; j++)
            sum += (__int128)x[j] * p->a[(size_t)j * p->n_rows + i];
        if (sum < p->row_min[i] || (p->row_max[i] != ILP_FREE && sum > p->row_max[i]))
            return false;
    }
    return true;
}

static void relax_inside(const struct ilp *p, glp_prob *lp, const double *scale,
                         uint64_t max_pivots, struct ilp_answer *out)
{
    int rc = simplex(lp, max_pivots);
    int status = glp_get_status(lp);

    out->pivots = (uint64_t)glp_get_it_cnt(lp);
    if (rc == 0 && status == GLP_OPT) {
        out->status = ILP_FOUND;
        out->value = glp_get_obj_val(lp);
        for (uint32_t j = 0; j < p->n_cols; j++)
            out->x[j] = glp_get_col_prim(lp, (int)j + 1);
        for (uint32_t i = 0; i < p->n_rows; i++)
            out->dual[i] = glp_get_row_dual(lp, (int)i + 1) * scale[i];
    } else if (rc == 0 && status == GLP_NOFEAS) {
        out->status = ILP_INFEASIBLE;
    }
}

static void search_inside(const struct ilp *p, glp_prob *lp, struct search_limits *lim,
                          struct ilp_answer *out)
{
    glp_iocp parm;
    int rc = simplex(lp, lim->max_pivots);
    int status = glp_get_status(lp);

    out->pivots = (uint64_t)glp_get_it_cnt(lp);
    if (rc == 0 && status == GLP_NOFEAS)
        out->status = ILP_INFEASIBLE;
    if (rc != 0 || status != GLP_OPT)
        return;
    for (uint32_t j = 0; j < p->n_cols; j++)
        glp_set_col_kind(lp, (int)j + 1, GLP_IV);
    glp_init_iocp(&parm);
    parm.msg_lev = GLP_MSG_OFF;
    parm.presolve = GLP_OFF;
    parm.tm_lim = INT_MAX;
    parm.br_tech = GLP_BR_MFV; /* 5 to 60 times faster here than GLPK's default */
    parm.bt_tech = GLP_BT_DFS;
    parm.cb_func = on_node;
    parm.cb_info = lim;
    rc = glp_intopt(lp, &parm);
    out->pivots = (uint64_t)glp_get_it_cnt(lp);
    out->nodes = lim->nodes;
    status = glp_mip_status(lp);
    if (status == GLP_FEAS || status == GLP_OPT) {
        for (uint32_t j = 0; j < p->n_cols; j++)
            out->whole[j] = llround(glp_mip_col_val(lp, (int)j + 1));
        out->status = satisfies(p, out->whole) ? ILP_FOUND : ILP_LIMIT;
    } else if (rc == 0 && status == GLP_NOFEAS && !lim->stopped) {
        out->status = ILP_INFEASIBLE;
    }
}

/* `lim` NULL: the relaxation only. */
static int inside_glpk(const struct ilp *p, uint64_t max_pivots, struct search_limits *lim,
                       struct ilp_answer *out, struct err *e)
{
    double *scale = MEM_NEW(double, p->n_rows + 1);
    double *val = MEM_NEW(double, p->n_rows + 1);
    int *ind = MEM_NEW(int, p->n_rows + 1);
    struct glpk_exit exit_by;
    int rc = 0;

    for (uint32_t i = 0; i < p->n_rows; i++)
        scale[i] = row_scale(p, i);
    exit_by.text[0] = '\0';
    if (glp_init_env() > 1) { /* before anything that would abort for want of it */
        mem_free(scale);
        mem_free(val);
        mem_free(ind);
        return err_set(e, ERR_EXTERNAL, "out of memory: GLPK cannot start");
    }
    if (setjmp(exit_by.env) == 0) {
        glp_prob *lp;

        glp_term_out(GLP_OFF);
        glp_term_hook(keep_text, &exit_by);
        glp_error_hook(jump_out, &exit_by);
        lp = build(p, scale, ind, val);
        if (lim)
            search_inside(p, lp, lim, out);
        else
            relax_inside(p, lp, scale, max_pivots, out);
        glp_delete_prob(lp);
    } else {
        rc = err_set(e, ERR_EXTERNAL, "GLPK gave up on a program of %u rows and %u columns: %s",
                     p->n_rows, p->n_cols, exit_by.text);
    }
    glp_free_env();
    mem_free(scale);
    mem_free(val);
    mem_free(ind);
    return rc;
}

int ilp_relax(const struct ilp *p, uint64_t max_pivots, struct arena *a, struct ilp_answer *out,
              struct err *e)
{
    memset(out, 0, sizeof(*out));
    out->status = ILP_LIMIT;
    out->x = ARENA_NEW(a, double, p->n_cols);
    out->dual = ARENA_NEW(a, double, p->n_rows);
    if (p->n_cols == 0) {
        out->status = ILP_INFEASIBLE;
        return 0;
    }
    return inside_glpk(p, max_pivots, NULL, out, e);
}

int ilp_search(const struct ilp *p, uint64_t max_pivots, uint64_t max_nodes, struct arena *a,
               struct ilp_answer *out, struct err *e)
{
    struct search_limits lim = {.max_pivots = max_pivots, .max_nodes = max_nodes};

    memset(out, 0, sizeof(*out));
    out->status = ILP_LIMIT;
    out->whole = ARENA_NEW(a, int64_t, p->n_cols);
    if (p->n_cols == 0) {
        out->status = ILP_INFEASIBLE;
        return 0;
    }
    return inside_glpk(p, max_pivots, &lim, out, e);
}

const char *ilp_library_version(void)
{
    return glp_version();
}
