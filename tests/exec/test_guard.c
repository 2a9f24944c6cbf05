/* The guard: told when a call lasts too long, and never otherwise. */
#include "exec/guard.h"
#include "tests/suite.h"

#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int told; /* atomic */
static const char *whose;
static double after;

static void give_up(const char *what, double seconds)
{
    whose = what;
    after = seconds;
    __atomic_add_fetch(&told, 1, __ATOMIC_SEQ_CST);
}

static bool waits_for_it(double seconds)
{
    for (int i = 0; i < seconds * 100 && !__atomic_load_n(&told, __ATOMIC_SEQ_CST); i++)
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    return __atomic_load_n(&told, __ATOMIC_SEQ_CST) > 0;
}

START_TEST(a_call_that_does_not_return_is_told_with_its_name)
{
    struct guard *g = guard_open(0.2, give_up);

    guard_enter(g, "short");
    guard_leave(g);
    guard_enter(g, "long");
    ck_assert(waits_for_it(10));
    ck_assert_str_eq(whose, "long");
    ck_assert(after == 0.2);
    guard_leave(g);
    guard_close(g);
}
END_TEST

START_TEST(calls_that_return_are_not_however_many)
{
    struct guard *g = guard_open(0.4, give_up);

    /* longer in all than one may last */
    for (int i = 0; i < 20; i++) {
        guard_enter(g, "a call");
        nanosleep(&(struct timespec){0, 50000000}, NULL);
        guard_leave(g);
    }
    ck_assert(!waits_for_it(0.6));
    guard_close(g);
}
END_TEST

START_TEST(without_anybody_to_tell_there_is_none)
{
    struct guard *g = guard_open(0.1, NULL);

    ck_assert_ptr_null(g);
    guard_enter(g, "a call");
    guard_leave(g);
    guard_close(g);
}
END_TEST

SUITE_MAIN("exec/guard", a_call_that_does_not_return_is_told_with_its_name,
           calls_that_return_are_not_however_many, without_anybody_to_tell_there_is_none)
