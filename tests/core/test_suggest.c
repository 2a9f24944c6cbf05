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

/* One slip in a short name, one in four characters of a longer one: what differs by more is
 * another name. */
START_TEST(only_slips_are_near)
{
    static const struct {
        const char *typed, *name;
        bool near;
    } rows[] = {
        {"lama", "llama", true},
        {"lllama", "llama", true},
        {"qwen3moe", "qwen3_moe", true},
        {"qwen3-moe", "qwen3_moe", true},
        {"deepsek_v3", "deepseek_v3", true},
        {"nemotron_hh", "nemotron_h", true},
        {"mirco-bacth", "micro-batch", true},
        {"overlap-redcue", "overlap-reduce", true},
        {"mamba", "gemma", false},
        {"smollm3", "olmo3", false},
        {"mimo", "olmo2", false},
        {"glm4_moe", "gemma", false},
        {"qwen3_vl", "qwen3_moe", false},
        {"internlm2", "gptj", false},
        {"baichuan", "bert", false},
        {"chatglm", "falcon", false},
        {"rwkv", "roberta", false},
        {"phimoe", "olmoe", false},
        {"gemma", "mamba", false},
        {"jamba", "gemma", false},
        {"olmoe", "phimoe", false},
        {"dbrx", "bert", false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ck_assert_msg(!suggest_nearest(rows[i].typed, &rows[i].name, 1) == !rows[i].near, "%s, %s",
                      rows[i].typed, rows[i].name);
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

SUITE_MAIN("core/suggest", a_slip_finds_its_name, nothing_near_gives_nothing, only_slips_are_near,
           the_hint_is_ready_for_a_message, ties_go_to_the_first, index_ignores_case)
