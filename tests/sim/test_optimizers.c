/* Every optimizer under every layout and strategy, and optimizers that the product does not
 * have.
 *
 * This program is linked with -Wl,--wrap=optimizer_row: every reader's call of optimizer_row()
 * comes here, where OPTIMIZER_N has a row too. A reader that asks which optimizer it is, instead
 * of reading fields, tells a row from its twin. */
#include "cli/evaluate.h"
#include "cli/step_band.h"
#include "core/strbuf.h"
#include "exec/run.h"
#include "model/plan/optimizers.h"
#include "planner/planner.h"
#include "sim/sim.h"
#include "tests/layouts/plans.h"
#include "tests/layouts/program_text.h"

const struct optimizer_row *__real_optimizer_row(enum optimizer o);
const struct optimizer_row *__wrap_optimizer_row(enum optimizer o);

#define UNKNOWN OPTIMIZER_N
static struct optimizer_row unknown; /* what OPTIMIZER_N is */
static bool normuon_claims;          /* NorMuon's row says that exec runs it */

const struct optimizer_row *__wrap_optimizer_row(enum optimizer o)
{
    static struct optimizer_row claims;

    if (o == UNKNOWN)
        return &unknown;
    if (o != OPTIMIZER_NORMUON || !normuon_claims)
        return __real_optimizer_row(o);
    claims = *__real_optimizer_row(o);
    claims.exec = true;
    return &claims;
}

/* ---- all pairs ---- */

struct outcome {
    struct plan plan;
    struct program prog;
    struct prediction pr;
};

/* Plans, lowers and simulates; false when the layout's name refuses the optimizer. */
static bool outcome(struct outcome *x, enum optimizer o, const char *layout, uint32_t world,
                    struct arena *a)
{
    const struct sim_options options = {0};
    const struct layout *l;
    struct job j = plans_job();
    enum strategy s;
    const char *full;
    struct err e;

    if (layout_resolve(layout, o, a, &l, &s, &full, &e))
        return false;
    j.optimizer = o;
    j.ns_batch = 1 << 20;
    j.ns_symmetric = true;
    j.adamw = ADAMW_FOREACH;
    plans_fit(&j, layout, world, 4, 1);
    plans_make(&x->plan, a, "llama", layout, &j, world, 4);
    MUST(planner_plan(&x->plan, NULL, a, &e) == 0, "%s: %s", layout, e.msg);
    MUST(layout_check(&x->plan, &e) == 0, "%s %s: %s", layout, optimizer_name(o), e.msg);
    plans_lower(&x->plan, a, &x->prog);
    plans_rename_ops(&x->prog, a);
    MUST(program_check(&x->prog, &e) == 0, "%s: %s", layout, e.msg);
    MUST(sim_predict(&x->prog, &x->plan.cluster, &options, a, &x->pr, &e) == 0, "%s: %s", layout,
         e.msg);
    return true;
}

/* Bytes of all states: a part of them, and not less than its share, is on the fullest rank. */
static uint64_t all_states(const struct plan *p)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < p->model.n_tensors; i++)
        sum += layout_state_bytes(&p->job, &p->model.tensors[i]);
    return sum;
}

START_TEST(every_optimizer_is_planned_lowered_and_simulated_under_every_layout)
{
    static const uint32_t worlds[] = {1, 4, 8};
    static struct outcome x;
    uint32_t n = 0, n_names = 0;

    while (plans_name(n_names))
        n_names++;
    for (int o = 0; o < OPTIMIZER_N; o++)
        for (uint32_t l = 0; plans_name(l); l++)
            for (int w = 0; w < 3; w++) {
                bool matrices = optimizer_row((enum optimizer)o)->matrices;
                struct arena a;
                uint64_t states;

                arena_init(&a);
                if (!outcome(&x, (enum optimizer)o, plans_name(l), worlds[w], &a)) {
                    MUST(o == OPTIMIZER_SHAMPOO || o == OPTIMIZER_SOAP, "%s refuses %s",
                         plans_name(l), optimizer_name((enum optimizer)o));
                    arena_release(&a);
                    continue;
                }
                states = num_ceil_div(all_states(&x.plan), placement_parts(&x.plan, STATE));
                MUST(x.pr.memory.parts[MEM_STATES] >= states &&
                         x.pr.memory.peak_bytes >= x.pr.memory.parts[MEM_STATES],
                     "%s %s: %llu of %llu", x.plan.layout_full, optimizer_name((enum optimizer)o),
                     (unsigned long long)x.pr.memory.parts[MEM_STATES], (unsigned long long)states);
                MUST(x.pr.optimizer_ps > 0 && x.pr.step_ps > x.pr.optimizer_ps, "%s: times",
                     x.plan.layout_full);
                MUST((x.plan.load_flops[0] > 0 || worlds[w] > 1) || !matrices, "%s: FLOPs",
                     x.plan.layout_full);
                MUST((x.plan.flops_max > 0) == matrices, "%s %s: %llu FLOPs", x.plan.layout_full,
                     optimizer_name((enum optimizer)o), (unsigned long long)x.plan.flops_max);
                n++;
                arena_release(&a);
            }
    /* Shampoo and SOAP have no products to cut and no momentum to send: not +stock and +alltoall of zero3, hsdp, mics */
    ck_assert_uint_eq(n, (OPTIMIZER_N * n_names - 2 * 6) * 3);
}
END_TEST

/* ---- rows that nobody has heard of ---- */

static void same_title(const struct outcome *x, const struct outcome *y)
{
    struct step_band b = step_band(&y->plan);
    struct strbuf s, t;

    strbuf_init(&s);
    strbuf_init(&t);
    evaluate_title(&x->plan, &s);
    evaluate_title(&y->plan, &t);
    MUST(strstr(t.s, "\nunknown") != NULL, "the title is '%s'", t.s);
    MUST((strstr(s.s, "NS steps") != NULL) == (strstr(t.s, "NS steps") != NULL), "'%s'", t.s);
    ck_assert_str_eq(b.basis, "unvalidated"); /* no measurement is of it */
    strbuf_release(&s);
    strbuf_release(&t);
}

/* Of a row under another name and number everything must come out as of the row itself. */
START_TEST(a_twin_of_a_row_has_the_same_plan_program_and_times)
{
    static struct outcome x, y;

    for (int o = 0; o < OPTIMIZER_N; o++)
        for (uint32_t l = 0; plans_name(l); l++) {
            char *s, *t;
            struct arena a;

            unknown = *__real_optimizer_row((enum optimizer)o);
            unknown.name = "unknown";
            arena_init(&a);
            if (!outcome(&x, (enum optimizer)o, plans_name(l), 8, &a)) {
                MUST(!outcome(&y, UNKNOWN, plans_name(l), 8, &a), "%s takes the twin",
                     plans_name(l));
                arena_release(&a);
                continue;
            }
            MUST(outcome(&y, UNKNOWN, plans_name(l), 8, &a), "%s refuses the twin", plans_name(l));
            ck_assert_str_eq(x.plan.layout_full, y.plan.layout_full);
            s = program_text(&x.prog);
            t = program_text(&y.prog);
            MUST(!strcmp(s, t), "%s: %s's program is another", x.plan.layout_full,
                 optimizer_name((enum optimizer)o));
            mem_free(s);
            mem_free(t);
            MUST(!memcmp(x.plan.load_flops, y.plan.load_flops, 8 * sizeof(uint64_t)) &&
                     !memcmp(x.plan.load_bytes, y.plan.load_bytes, 8 * sizeof(uint64_t)),
                 "%s: loads", x.plan.layout_full);
            MUST(x.plan.job.ns_batch == y.plan.job.ns_batch &&
                     x.plan.job.ns_symmetric == y.plan.job.ns_symmetric &&
                     x.plan.job.adamw == y.plan.job.adamw,
                 "%s: options without a use", x.plan.layout_full);
            MUST(x.pr.step_ps == y.pr.step_ps && x.pr.optimizer_ps == y.pr.optimizer_ps &&
                     x.pr.memory.peak_bytes == y.pr.memory.peak_bytes &&
                     x.pr.optimizer_bytes == y.pr.optimizer_bytes,
                 "%s: times", x.plan.layout_full);
            same_title(&x, &y);
            arena_release(&a);
        }
}
END_TEST

static uint64_t odd_states(uint64_t rows, uint64_t cols)
{
    return 3 * rows * cols + 7 * rows;
}

static double odd_flops(uint32_t ns_steps, uint64_t rows, uint64_t cols)
{
    return 1000.0 * (double)rows + (double)cols + ns_steps;
}

static uint64_t odd_workspace(uint64_t m, uint64_t n, uint64_t batch)
{
    return batch * (m + n) << 20;
}

/* Fields that no row has together: what comes out is theirs. */
START_TEST(an_unknown_row_is_handled_by_its_fields)
{
    static struct outcome x;
    struct arena a;
    uint64_t numel = 0, rows = 0, flops = 0;

    unknown = (struct optimizer_row){
        .name = "unknown",
        .line = "a test's",
        .matrices = true,
        .start = START_GRADIENT,
        .states = STATES_BY_ROWS,
        .strategies = 1u << STRATEGY_GATHER | 1u << STRATEGY_OWNER,
        .sharded = STRATEGY_OWNER,
        .flops = odd_flops,
        .state_elements = odd_states,
        .workspace = odd_workspace,
        .products = KERNEL_SHAMPOO,
        .launches = 1,
        .update = {.param = 2, .fixed = 2},
    };
    arena_init(&a);
    ck_assert(!outcome(&x, UNKNOWN, "zero3+stock", 4, &a));
    ck_assert(!outcome(&x, UNKNOWN, "zero3+gather-once", 4, &a));
    ck_assert(outcome(&x, UNKNOWN, "zero3", 4, &a));
    ck_assert_str_eq(x.plan.layout_full, "zero3+owner");
    ck_assert(outcome(&x, UNKNOWN, "ddp", 4, &a));
    for (uint32_t i = 0; i < x.plan.model.n_tensors; i++) {
        const struct tensor *t = &x.plan.model.tensors[i];

        if (!tensor_is_matrix(t))
            continue;
        numel += t->numel;
        rows += t->rows;
        flops += 1000 * t->rows + t->cols + 5;
    }
    ck_assert_uint_eq(x.pr.memory.parts[MEM_STATES],
                      4 * (3 * numel + 7 * rows + 2 * x.plan.model.tail_params));
    ck_assert_uint_eq(x.plan.flops_max, flops);
    ck_assert_uint_ge(x.pr.memory.peak_bytes, (40 + 104)
                                                  << 20); /* the largest matrix's workspace */
    arena_release(&a);
}
END_TEST

/* exec has functions of its own: it takes neither a row that it was not taught nor one that says
 * that it was. */
START_TEST(exec_refuses_a_row_by_name)
{
    struct job j = plans_job();
    struct err e;

    for (int o = 0; o < OPTIMIZER_N; o++) {
        j.optimizer = (enum optimizer)o;
        MUST(run_implements(j.optimizer) == optimizer_row(j.optimizer)->exec,
             "%s: its row and exec differ", optimizer_name(j.optimizer));
        MUST((exec_job(&j, &e) == 0) == run_implements(j.optimizer), "%s", e.msg);
    }
    j.optimizer = UNKNOWN;
    for (int says = 0; says < 2; says++) {
        unknown = *optimizer_row(OPTIMIZER_MUON);
        unknown.name = "unknown";
        unknown.exec = says;
        ck_assert_int_eq(exec_job(&j, &e), -1);
        MUST(strstr(e.msg, "exec does not run unknown"), "%s", e.msg);
        ck_assert_int_eq(e.code, ERR_UNSUPPORTED);
    }
    normuon_claims = true;
    j.optimizer = OPTIMIZER_NORMUON;
    ck_assert_int_eq(exec_job(&j, &e), -1);
    MUST(strstr(e.msg, "exec does not run normuon"), "%s", e.msg);
}
END_TEST

SUITE_MAIN("sim/optimizers", every_optimizer_is_planned_lowered_and_simulated_under_every_layout,
           a_twin_of_a_row_has_the_same_plan_program_and_times,
           an_unknown_row_is_handled_by_its_fields, exec_refuses_a_row_by_name)
