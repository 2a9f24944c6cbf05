/* The shadow: silent about a backend that is right, and naming the kernel of one that is not. */
#include "exec/shadow.h"
#include "exec/run.h"
#include "tests/exec/threads.h"
#include "tests/layouts/plans.h"

enum fault { NONE, NOTHING_WRITTEN, ONE_ELEMENT, WRONG_PRODUCT };

static struct backend_library faulty;
static enum fault fault;
static enum kernel_function victim;

static void launch(struct backend *b, enum stream s, enum kernel_function f,
                   const struct kernel_on *on, const void *a)
{
    if (f == victim && fault == NOTHING_WRITTEN)
        return;
    backend_cpu.launch(b, s, f, on, a);
    if (f == KERNEL_FN_swiglu && f == victim && fault == ONE_ELEMENT)
        backend_cpu.zero(b, s, (char *)((const struct kernel_swiglu *)a)->out + 40, 4);
}

static void gemm(struct backend *b, enum stream s, const struct backend_gemm *g)
{
    struct backend_gemm x = *g;

    if (fault == WRONG_PRODUCT)
        x.alpha *= 1.01f;
    backend_cpu.gemm(b, s, &x);
}

/* Names of kernels that are wrong, in one text. */
static void names_of_wrong(const struct shadow *s, char *text, size_t n)
{
    size_t rows, at = 0;
    const struct shadow_row *r = shadow_rows(s, &rows);

    text[0] = 0;
    for (size_t i = 0; i < rows && at < n; i++)
        if (r[i].wrong)
            at += (size_t)snprintf(text + at, n - at, "%s ", r[i].name);
}

struct trial {
    struct plan plan;
    struct program p;
    char *wrong;
    size_t n;
};

static int one_rank(struct transport *t, void *ctx, struct err *e)
{
    const struct run_options ro = {.seed = 3, .lr = 0.02};
    struct trial *x = ctx;
    struct backend b;
    struct shadow *s;
    struct exec_run r;
    int status;

    open_cpu(&b, t, 0);
    faulty = backend_cpu;
    faulty.launch = launch;
    faulty.gemm = gemm;
    b.lib = &faulty;
    s = shadow_begin(&b);
    status = exec_init(&r, &x->plan, &x->p, &b, &ro, e) || exec_step(&r, e) ? -1 : 0;
    exec_release(&r);
    names_of_wrong(s, x->wrong, x->n);
    shadow_end(s);
    ck_assert_ptr_eq(b.lib, &faulty);
    ck_assert_uint_eq(b.bytes, 0);
    backend_close(&b);
    return status;
}

static void run(const char *model, enum optimizer o, enum dtype d, enum fault what,
                enum kernel_function who, char *wrong, size_t n)
{
    struct trial x = {.wrong = wrong, .n = n};
    struct job j = plans_job();
    struct arena a;
    struct err e = {0};

    arena_init(&a);
    j.optimizer = o;
    j.seq_len = 16;
    j.param_dtype = j.grad_dtype = d;
    plans_make(&x.plan, &a, model, "ddp", &j, 1, 1);
    ck_assert_int_eq(layout_lower(&x.plan, &a, &x.p, &e), 0);
    fault = what;
    victim = who;
    if (threads_run(1, one_rank, &x, &e))
        ck_abort_msg("%s: %s", model, e.msg);
    arena_release(&a);
}

START_TEST(nothing_is_wrong_with_the_references_themselves)
{
    static const char *const models[] = {"llama", "gpt2", "moe", "block"};
    static const enum optimizer optimizers[] = {OPTIMIZER_MUON, OPTIMIZER_SHAMPOO, OPTIMIZER_SOAP,
                                                OPTIMIZER_ADAMW};
    static const enum dtype types[] = {DTYPE_FP32, DTYPE_BF16, DTYPE_FP16};
    char wrong[200];

    for (int m = 0; m < 4; m++)
        for (int d = 0; d < 3; d++) {
            run(models[m], optimizers[(m + d) % 4], types[d], NONE, KERNEL_FN_N, wrong,
                sizeof(wrong));
            ck_assert_str_eq(wrong, "");
        }
}
END_TEST

START_TEST(what_is_not_written_is_found)
{
    char wrong[200];

    run("llama", OPTIMIZER_MUON, DTYPE_BF16, NOTHING_WRITTEN, KERNEL_FN_rope, wrong, sizeof(wrong));
    ck_assert_str_eq(wrong, "rope ");
    run("llama", OPTIMIZER_MUON, DTYPE_FP32, NOTHING_WRITTEN, KERNEL_FN_orthogonalize, wrong,
        sizeof(wrong));
    ck_assert_str_eq(wrong, "orthogonalize ");
    run("gpt2", OPTIMIZER_MUON, DTYPE_FP32, NOTHING_WRITTEN, KERNEL_FN_attention_backward, wrong,
        sizeof(wrong));
    ck_assert_str_eq(wrong, "attention_backward ");
}
END_TEST

START_TEST(one_wrong_element_and_a_wrong_factor_are_found)
{
    char wrong[200];

    run("llama", OPTIMIZER_MUON, DTYPE_FP32, ONE_ELEMENT, KERNEL_FN_swiglu, wrong, sizeof(wrong));
    ck_assert_str_eq(wrong, "swiglu ");
    run("llama", OPTIMIZER_MUON, DTYPE_FP32, WRONG_PRODUCT, KERNEL_FN_N, wrong, sizeof(wrong));
    ck_assert_str_eq(wrong, "product ");
}
END_TEST

SUITE_MAIN("exec/shadow", nothing_is_wrong_with_the_references_themselves,
           what_is_not_written_is_found, one_wrong_element_and_a_wrong_factor_are_found)
