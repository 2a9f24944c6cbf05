/* The kernels that no step launches by itself, launched by themselves: a backend that leaves one of them out is found, whichever it is. */
#include "exec/pieces.h"
#include "exec/shadow.h"
#include "kernels/operands.h"
#include "tests/suite.h"

#include <string.h>

static struct backend_library faulty;
static enum kernel_function victim;
static unsigned n_launched[KERNEL_FN_N];

static void launch(struct backend *b, enum stream s, enum kernel_function f,
                   const struct kernel_on *on, const void *a)
{
    n_launched[f]++;
    if (f != victim)
        backend_cpu.launch(b, s, f, on, a);
}

/* Which are wrong when `without` is left out. */
static void play(enum kernel_function without, uint64_t seed, bool wrong[KERNEL_FN_N])
{
    struct transport t = {.lib = &transport_self, .size = 1};
    const struct backend_options o = {.transport = &t, .gemm = &kernel_gemm_reference};
    struct backend b;
    struct shadow *s;
    const struct shadow_row *r;
    struct err e = {0};
    size_t n;

    ck_assert_int_eq(backend_open(&b, NULL, &o, &e), 0);
    faulty = backend_cpu;
    faulty.launch = launch;
    victim = without;
    b.lib = &faulty;
    s = shadow_begin(&b);
    pieces_launch(&b, 24, seed);
    r = shadow_rows(s, &n);
    memset(wrong, 0, KERNEL_FN_N * sizeof(*wrong));
    for (size_t i = 0; i < n; i++)
        for (int f = 0; f < KERNEL_FN_N; f++)
            wrong[f] |=
                r[i].wrong && !strcmp(r[i].name, kernel_function_name((enum kernel_function)f));
    shadow_end(s);
    ck_assert_uint_eq(b.bytes, 0);
    backend_close(&b);
}

START_TEST(right_ones_are_right)
{
    for (uint64_t seed = 1; seed <= 5; seed++) {
        bool wrong[KERNEL_FN_N];

        play(KERNEL_FN_N, seed, wrong);
        for (int f = 0; f < KERNEL_FN_N; f++)
            ck_assert_msg(!wrong[f], "%s", kernel_function_name((enum kernel_function)f));
    }
}
END_TEST

START_TEST(whichever_writes_nothing_is_found_alone)
{
    bool wrong[KERNEL_FN_N];
    unsigned kinds = 0;

    memset(n_launched, 0, sizeof(n_launched));
    play(KERNEL_FN_N, 1, wrong);
    for (int f = 0; f < KERNEL_FN_N; f++)
        kinds += n_launched[f] > 0;
    for (int f = 0; f < KERNEL_FN_N; f++) {
        if (!n_launched[f])
            continue;
        play((enum kernel_function)f, 1, wrong);
        for (int k = 0; k < KERNEL_FN_N; k++)
            ck_assert_msg(wrong[k] == (k == f), "without %s: %s is %s",
                          kernel_function_name((enum kernel_function)f),
                          kernel_function_name((enum kernel_function)k),
                          wrong[k] ? "wrong" : "right");
    }
    /* tests/gpu/check.sh has the steps' beside them, and wants all there are */
    ck_assert_uint_ge(kinds, 17);
}
END_TEST

SUITE_MAIN("exec/pieces", right_ones_are_right, whichever_writes_nothing_is_found_alone)
