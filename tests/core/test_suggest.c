#include "core/suggest.h"
#include "tests/suite.h"

#include <string.h>

static const char *const names[] = {"muon",    "shampoo",     "soap", "adamw",
                                    "seq-len", "micro-batch", NULL};
enum { N = 6 };

START_TEST(a_slip_finds_its_name)
{
    static const struct {
        const char *typed, *meant;
    } rows[] = {
        {"moun", "muon"},      {"MUON", "muon"},  {"mun", "muon"},
        {"shampo", "shampoo"}, {"adam", "adamw"}, {"seq_len", "seq-len"},
        {"seqlen", "seq-len"}, {"soup", "soap"},  {"mirco-batch", "micro-batch"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *found = suggest_nearest(rows[i].typed, names, N);

        ck_assert_msg(found && strcmp(found, rows[i].meant) == 0, "%s -> %s", rows[i].typed,
                      found ? found : "nothing");
    }
}
END_TEST

START_TEST(nothing_near_gives_nothing)
{
    char longer[200];

    memset(longer, 'm', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = 0;
    ck_assert_ptr_null(suggest_nearest("lion", names + 4, 2));
    ck_assert_ptr_null(suggest_nearest("", names, N));
    ck_assert_ptr_null(suggest_nearest("x", names, N));
    ck_assert_ptr_null(suggest_nearest(longer, names, N));
    ck_assert_ptr_null(suggest_nearest("muon", names, 0));
    ck_assert_str_eq(suggest("zzzzzz", names, N).s, "");
}
END_TEST

START_TEST(the_hint_is_ready_for_a_message)
{
    ck_assert_str_eq(suggest("moun", names, N).s, " (did you mean 'muon'?)");
}
END_TEST

START_TEST(ties_go_to_the_first)
{
    static const char *const two[] = {"cab", "cat"};

    ck_assert_str_eq(suggest_nearest("cax", two, 2), "cab");
}
END_TEST

START_TEST(index_ignores_case)
{
    ck_assert_int_eq(suggest_index("SOAP", names), 2);
    ck_assert_int_eq(suggest_index("soa", names), -1);
    ck_assert_uint_eq(suggest_count(names), N);
}
END_TEST

SUITE_MAIN("core/suggest", a_slip_finds_its_name, nothing_near_gives_nothing,
           the_hint_is_ready_for_a_message, ties_go_to_the_first, index_ignores_case)
