/* Constants and formulas against a program that shares nothing with ours: golden/make.py trains a tiny model under every optimizer
 * in float64, exec does so in fp32 by its own path (exec/update.c), and losses, parameters and states have to be the same. Each
 * constant has a fault that the comparison must catch. */
#include "core/json.h"
#include "exec/run.h"
#include "tests/exec/threads.h"
#include "tests/layouts/plans.h"

#include <math.h>

enum { MAX_STEPS = 16 };

/* What is compared of a tensor: runs of its parameter and states. */
struct digest {
    double norm, dot;
};
enum { MAX_DIGESTS = 8, MAX_TENSORS = 16 };

struct golden {
    struct json json;
    struct json_at top, steps;
    struct job job;
    char model[128];
    double lr;
    uint64_t seed, world;
    uint32_t n_steps;
};

struct trial {
    const struct golden *g;
    struct plan plan;
    struct program p;
    struct run_options o;
    double loss[MAX_STEPS];
    struct digest got[MAX_STEPS][MAX_TENSORS][MAX_DIGESTS];
    uint32_t n[MAX_TENSORS]; /* digests; 0: no rank holds all of it */
};

static struct err e;
#define OK(call) MUST((call) == 0, "%s", e.msg)

/* ---- the table ---- */

static uint64_t count(const struct json_at *at, const char *key)
{
    uint64_t v;

    OK(json_u64(at, key, 0, 1000, &v, &e));
    return v;
}

static void load(struct golden *g, const char *optimizer)
{
    char file[128];
    const char *s;
    size_t n;
    double lr;

    snprintf(file, sizeof(file), "tests/exec/golden/%s.json", optimizer);
    OK(json_load(&g->json, file, &e));
    g->top = json_top(&g->json);
    OK(json_str(&g->top, "model", &s, &e));
    snprintf(g->model, sizeof(g->model), "%s", s);
    OK(json_str(&g->top, "optimizer", &s, &e));
    ck_assert_str_eq(s, optimizer);
    OK(json_double(&g->top, "lr", 0, 10, &lr, &e));
    g->lr = lr;
    g->seed = count(&g->top, "seed");
    g->world = count(&g->top, "world");
    g->job = plans_job();
    for (int o = 0; o < OPTIMIZER_N; o++)
        if (!strcmp(optimizer_name((enum optimizer)o), optimizer))
            g->job.optimizer = (enum optimizer)o;
    g->job.seq_len = count(&g->top, "seq_len");
    g->job.micro_batch = count(&g->top, "micro_batch");
    g->job.grad_accum = count(&g->top, "grad_accum");
    g->job.param_dtype = g->job.grad_dtype = g->job.state_dtype = DTYPE_FP32;
    g->job.master_weights = false;
    OK(json_array(&g->top, "steps", &g->steps, &n, &e));
    ck_assert_uint_le(n, MAX_STEPS);
    g->n_steps = (uint32_t)n;
}

static struct digest wanted(const struct json_at *tensor, size_t k)
{
    struct json_at pair, x;
    struct digest d;

    OK(json_elem(tensor, k, &pair, &e));
    OK(json_elem(&pair, 0, &x, &e));
    OK(json_as_double(&x, -INFINITY, INFINITY, &d.norm, &e));
    OK(json_elem(&pair, 1, &x, &e));
    OK(json_as_double(&x, -INFINITY, INFINITY, &d.dot, &e));
    return d;
}

/* ---- the run ---- */

static struct digest digest_of(const float *x, uint64_t n)
{
    double squares = 0, dot = 0;

    for (uint64_t i = 0; i < n; i++) {
        squares += (double)x[i] * (double)x[i];
        dot += (double)x[i] * cos((double)(i + 1));
    }
    return (struct digest){sqrt(squares), dot};
}

/* Digests of tensor t in the order of make.py: the parameter, then states as kernels/optimizer.h lists them. */
static uint32_t digests(struct exec_run *r, uint32_t t, struct digest *to)
{
    const struct known_buffers *known = &r->p->known;
    const struct held_tensor *h = &r->held.t[t];
    const struct tensor *x = &r->p->model->tensors[t];
    const float *s = (const float *)(void *)run_tensor(r, run_find(r, known->states, 0, 0), t).data;
    const float *param =
        (const float *)(void *)run_tensor(r, run_find(r, known->params, 0, 0), t).data;
    uint64_t n = x->numel, rr = x->rows * x->rows, cc = x->cols * x->cols;
    enum optimizer o = r->plan->job.optimizer;
    uint32_t k = 0;

    to[k++] = digest_of(param, n);
    to[k++] = digest_of(s, n);
    if (h->matrix && o == OPTIMIZER_MUON)
        return k;
    to[k++] = digest_of(s + n, n);
    if (!h->matrix)
        return k;
    s += 2 * n;
    if (o == OPTIMIZER_SHAMPOO) {
        to[k++] = digest_of(s, rr);
        to[k++] = digest_of(s + rr, cc);
        to[k++] = digest_of(s + rr + cc, rr);
        to[k++] = digest_of(s + 2 * rr + cc, cc);
    } else { /* SOAP: L, its basis and eigenvalues, R */
        to[k - 1].dot = NAN;
        to[k++] = digest_of(s, rr);
        to[k++] = digest_of(s + 2 * rr + x->rows, cc);
    }
    return k;
}

static int one_rank(struct transport *t, void *ctx, struct err *err)
{
    struct trial *x = ctx;
    struct backend b;
    struct exec_run r;
    int status;

    open_cpu(&b, t, 0);
    status = exec_init(&r, &x->plan, &x->p, &b, &x->o, err);
    for (uint32_t s = 0; s < x->g->n_steps && !status; s++) {
        double loss;

        status = exec_step(&r, err) || exec_loss(&r, &loss, err);
        if (!status && t->rank == 0)
            x->loss[s] = loss;
        for (uint32_t i = 0; i < x->p.model->n_tensors && !status; i++) {
            struct held_tensor *h = &r.held.t[i];
            /* all of it, on the first rank that has so */
            if (h->n != x->p.model->tensors[i].numel ||
                (x->p.place[i].rule == PLACE_REPLICATED && t->rank))
                continue;
            x->n[i] = digests(&r, i, x->got[s][i]);
        }
    }
    exec_release(&r);
    backend_close(&b);
    return status;
}

static enum run_fault fault; /* of rank 0 */

static void train(struct trial *x, const struct golden *g, const char *layout,
                  const struct run_hyper *hyper, struct arena *a)
{
    memset(x, 0, sizeof(*x));
    x->g = g;
    x->o = (struct run_options){
        .seed = g->seed, .ordered = true, .lr = g->lr, .hyper = hyper, .fault = fault};
    plans_make(&x->plan, a, g->model, layout, &g->job, (uint32_t)g->world, 4);
    OK(layout_lower(&x->plan, a, &x->p, &e));
    ck_assert_uint_le(x->p.model->n_tensors, MAX_TENSORS);
    OK(threads_run((uint32_t)g->world, one_rank, x, &e));
}

/* ---- the comparison ---- */

/* Shares of a tensor's norm. Our fp32 against float64, largest measured: Muon 3e-8, 7e-6, 2e-5; AdamW 7e-8, 1e-5, 1e-5; Shampoo
 * 2e-5, 2e-3, 4e-3 (roots of eigenvalues that are a millionth of the largest); SOAP 3e-7, 6e-5, 1e-4. */
static const struct tolerance {
    double loss, param, state;
} tolerances[OPTIMIZER_N] = {
    [OPTIMIZER_MUON] = {1e-6, 5e-5, 1e-4},
    [OPTIMIZER_ADAMW] = {1e-6, 5e-5, 1e-4},
    [OPTIMIZER_SHAMPOO] = {1e-4, 1e-2, 2e-2},
    [OPTIMIZER_SOAP] = {1e-5, 5e-4, 1e-3},
};

static double largest[3];

static void off(int kind, double got, double want, double of, double allowed, uint32_t step,
                const char *what, uint32_t k, char *text, size_t n)
{
    double share = got == want ? 0 : fabs(got - want) / of;

    largest[kind] = fmax(largest[kind], share);
    if (!(share <= allowed) && !*text)
        snprintf(text, n, "step %u, %s %u: %.9g, expected %.9g within %g of %.3g", step + 1, what,
                 k, got, want, allowed, of);
}

/* The first difference, or "". */
static void compare(const struct trial *x, char *text, size_t n)
{
    const struct tolerance *tol = &tolerances[x->g->job.optimizer];

    *text = 0;
    memset(largest, 0, sizeof(largest));
    for (uint32_t s = 0; s < x->g->n_steps; s++) {
        struct json_at step, tensors, tensor;
        double loss;
        size_t len;

        OK(json_elem(&x->g->steps, s, &step, &e));
        OK(json_double(&step, "loss", 0, INFINITY, &loss, &e));
        off(0, x->loss[s], loss, loss, tol->loss, s, "loss", 0, text, n);
        OK(json_array(&step, "tensors", &tensors, &len, &e));
        ck_assert_uint_eq(len, x->p.model->n_tensors);
        for (uint32_t t = 0; t < len; t++) {
            OK(json_elem(&tensors, t, &tensor, &e));
            for (uint32_t k = 0; k < x->n[t]; k++) {
                struct digest want = wanted(&tensor, k), got = x->got[s][t][k];
                double allowed = k ? tol->state : tol->param;

                off(k ? 2 : 1, got.norm, want.norm, want.norm, allowed, s,
                    x->p.model->tensors[t].name, k, text, n);
                if (!isnan(got.dot))
                    off(k ? 2 : 1, got.dot, want.dot, want.norm, allowed, s,
                        x->p.model->tensors[t].name, k, text, n);
            }
        }
    }
}

static const char *const optimizers[] = {"muon", "adamw", "shampoo", "soap"};

START_TEST(every_optimizer_trains_as_another_program_does)
{
    static const char *const layouts[] = {"ddp", "zero1+owner", "zero3+owner", "zero2+owner"};
    static struct trial x;

    for (int o = 0; o < 4; o++)
        for (int l = 0; l < 4; l++) {
            struct golden g;
            struct arena a;
            char text[256];

            arena_init(&a);
            load(&g, optimizers[o]);
            train(&x, &g, layouts[l], NULL, &a);
            compare(&x, text, sizeof(text));
            if (getenv("SHOW"))
                fprintf(stderr, "%s %s: loss %.2g, parameters %.2g, states %.2g %s\n",
                        optimizers[o], layouts[l], largest[0], largest[1], largest[2], text);
            MUST(!*text, "%s under %s: %s", optimizers[o], layouts[l], text);
            json_release(&g.json);
            arena_release(&a);
        }
}
END_TEST

struct fault {
    const char *optimizer, *what;
    void (*plant)(struct run_hyper *h);
};

#define FAULT(name, change)                                                                        \
    static void name(struct run_hyper *h)                                                          \
    {                                                                                              \
        change;                                                                                    \
    }
FAULT(half_momentum, h->momentum = 0.5f)
FAULT(no_nesterov, h->nesterov = false)
FAULT(spectral, h->scaling = KERNEL_MUON_SPECTRAL)
FAULT(no_decay, h->decay = 0)
FAULT(tenfold_rate, h->adam_share = 1)
FAULT(other_beta1, h->beta1 = 0.95f)
FAULT(other_beta2, h->beta2 = 0.999f)
FAULT(other_eps, h->eps = 1e-6f)
FAULT(other_ns_a, h->ns.a = 3.4f)
FAULT(other_ns_b, h->ns.b = -4.7f)
FAULT(other_ns_c, h->ns.c = 2.0f)
FAULT(shampoo_beta1, h->shampoo.beta1 = 0.95f)
FAULT(shampoo_beta2, h->shampoo.beta2 = 0.95f)
FAULT(shampoo_eps, h->shampoo.eps = 1e-3f)
FAULT(shampoo_ridge, h->shampoo.ridge = 1e-3f)
FAULT(shampoo_often, h->shampoo.frequency = 5)
FAULT(shampoo_seldom, h->shampoo.frequency = 20)
FAULT(shampoo_alone, h->shampoo.graft = false)
FAULT(soap_beta1, h->soap.beta1 = 0.9f)
FAULT(soap_beta2, h->soap.beta2 = 0.999f)
FAULT(soap_beta, h->soap.beta_shampoo = 0.9f)
FAULT(soap_eps, h->soap.eps = 1e-5f)
FAULT(soap_often, h->soap.frequency = 5)
FAULT(soap_seldom, h->soap.frequency = 20)
FAULT(soap_first, h->soap.skip_first = false)

#define ROW(optimizer, name)                                                                       \
    {                                                                                              \
#optimizer, #name, name                                                                    \
    }
static const struct fault faults[] = {
    ROW(muon, half_momentum),    ROW(muon, no_nesterov),       ROW(muon, spectral),
    ROW(muon, no_decay),         ROW(muon, tenfold_rate),      ROW(muon, other_beta1),
    ROW(muon, other_beta2),      ROW(muon, other_eps),         ROW(muon, other_ns_a),
    ROW(muon, other_ns_b),       ROW(muon, other_ns_c),        ROW(adamw, no_decay),
    ROW(adamw, tenfold_rate),    ROW(adamw, other_beta1),      ROW(adamw, other_beta2),
    ROW(adamw, other_eps),       ROW(shampoo, no_decay),       ROW(shampoo, tenfold_rate),
    ROW(shampoo, other_beta1),   ROW(shampoo, other_beta2),    ROW(shampoo, shampoo_beta1),
    ROW(shampoo, shampoo_beta2), ROW(shampoo, shampoo_eps),    ROW(shampoo, shampoo_ridge),
    ROW(shampoo, shampoo_often), ROW(shampoo, shampoo_seldom), ROW(shampoo, shampoo_alone),
    ROW(soap, no_decay),         ROW(soap, tenfold_rate),      ROW(soap, soap_beta1),
    ROW(soap, soap_beta2),       ROW(soap, soap_beta),         ROW(soap, soap_eps),
    ROW(soap, soap_often),       ROW(soap, soap_seldom),       ROW(soap, soap_first),
};

/* One constant is another, and nothing else: the comparison above has to see it. (Rows and columns exchanged are no fault of
 * max(rows, cols); where they are one, of Jordan's scale, tests/kernels/golden/muon.json has it.) */
START_TEST(another_constant_is_caught)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        const struct fault *f = &faults[i];
        static struct trial x;
        struct run_hyper h = run_hyper;
        struct golden g;
        struct arena a;
        char text[256];

        arena_init(&a);
        load(&g, f->optimizer);
        f->plant(&h);
        train(&x, &g, "ddp", &h, &a);
        compare(&x, text, sizeof(text));
        if (getenv("SHOW"))
            fprintf(stderr, "%s %s: %s\n", f->optimizer, f->what, *text ? text : "NOT SEEN");
        else
            MUST(*text, "%s, %s: not seen", f->optimizer, f->what);
        json_release(&g.json);
        arena_release(&a);
    }
}
END_TEST

/* As the planted ones, but in the arithmetic: a sum over ranks in place of a mean, twice the mean, states that are lost. */
START_TEST(another_reduction_is_caught)
{
    static const enum run_fault kinds[] = {RUN_SUM, RUN_TWICE, RUN_LOSE, RUN_SKIP};

    for (int k = 0; k < 4; k++)
        for (int o = 0; o < 4; o++) {
            static struct trial x;
            struct golden g;
            struct arena a;
            char text[256];

            arena_init(&a);
            load(&g, optimizers[o]);
            fault = kinds[k];
            train(&x, &g, "ddp", NULL, &a);
            fault = RUN_RIGHT;
            compare(&x, text, sizeof(text));
            if (optimizers[o][0] == 'a' && kinds[k] == RUN_SKIP)
                MUST(!*text, "AdamW has no matrices to skip: %s", text);
            else
                MUST(*text, "%s, fault %d: not seen", optimizers[o], kinds[k]);
            json_release(&g.json);
            arena_release(&a);
        }
}
END_TEST

SUITE_MAIN("exec/trajectory", every_optimizer_trains_as_another_program_does,
           another_constant_is_caught, another_reduction_is_caught)
