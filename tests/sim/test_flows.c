#include "sim/flows.h"
#include "tests/suite.h"

#include <math.h>
#include <string.h>

static const struct flows_link LINKS[] = {{"a", 1e9}, {"b", 2e9}, {"c", 4e9}};
static const uint32_t PATH[] = {0, 1, 2};

static struct flows_flow flow(uint32_t first, uint32_t n, uint64_t n_bytes, int64_t start_ps)
{
    return (struct flows_flow){.path = PATH + first,
                               .n_path = n,
                               .n_bytes = n_bytes,
                               .start_ps = start_ps,
                               .finish_s = NAN};
}

static void ck_run(struct flows_flow *flows, uint32_t n, const int64_t *want_ps)
{
    struct flows_scenario s = {
        .id = "by hand", .n_links = 3, .links = LINKS, .n_flows = n, .flows = flows};
    int64_t end[8] = {0};
    struct err e = {0};

    ck_assert_msg(flows_run(&s, end, &e) == 0, "%s", e.msg);
    for (uint32_t i = 0; i < n; i++)
        ck_assert_msg(end[i] == want_ps[i], "flow %u ends at %lld, expected %lld", i,
                      (long long)end[i], (long long)want_ps[i]);
}

/* 1e9 B/s is 1 byte per 1000 ps. */
START_TEST(a_flow_alone_takes_bytes_over_the_slowest_link)
{
    struct flows_flow f[] = {flow(0, 3, 1000000, 5)};

    ck_run(f, 1, (int64_t[]){1000000005});
}
END_TEST

/* On a: x + y = 1 GB/s, 0.5 each. 1 MB takes 2 ms; the other has 1 MB left then, alone: 1 ms more. */
START_TEST(two_flows_share_a_link)
{
    struct flows_flow f[] = {flow(0, 1, 1000000, 0), flow(0, 1, 2000000, 0)};

    ck_run(f, 2, (int64_t[]){2000000000, 3000000000});
}
END_TEST

/* Long x over a, b, c; y on a; z on b. a is full at x = y = 0.5; b leaves z = 1.5. In 2 ms x moves 1 MB, y 1 MB,
 * z 3 MB: all end together. */
START_TEST(the_first_link_of_a_parking_lot_holds_the_long_flow)
{
    struct flows_flow f[] = {flow(0, 3, 1000000, 0), flow(0, 1, 1000000, 0),
                             flow(1, 1, 3000000, 0)};

    ck_run(f, 3, (int64_t[]){2000000000, 2000000000, 2000000000});
}
END_TEST

/* Alone for 1 ms (1 of 2 MB), then shared: 1 MB at 0.5 takes 2 ms. The late one has 1 of 3 MB by then, and 2 ms more. */
START_TEST(a_late_flow_takes_its_share_when_it_comes)
{
    struct flows_flow f[] = {flow(0, 1, 2000000, 0), flow(0, 1, 3000000, 1000000000)};

    ck_run(f, 2, (int64_t[]){3000000000, 5000000000});
}
END_TEST

/* b comes twice: each byte takes two bytes of its 2 GB/s. */
START_TEST(a_link_that_comes_twice_carries_twice)
{
    static const uint32_t twice[] = {2, 1, 2, 1};
    struct flows_flow f[] = {flow(0, 1, 1000000, 0)};

    f[0].path = twice;
    f[0].n_path = 4;
    ck_run(f, 1, (int64_t[]){1000000000});
}
END_TEST

/* On a, 1 GB/s: 1/4 and 3/4. 3 MB of the heavy one take 4 ms; the other has moved 1 of its 2 MB then, and takes 1 ms for
 * the rest alone. */
START_TEST(a_weight_of_three_takes_three_quarters)
{
    struct flows_flow f[] = {flow(0, 1, 2000000, 0), flow(0, 1, 3000000, 0)};

    f[1].weight = 3;
    ck_run(f, 2, (int64_t[]){5000000000, 4000000000});
}
END_TEST

/* x, weight 2, over a, b and c; y, weight 3, on a; z, weight 1, on b; v and w, weights 1 and 4, on c. a (1) fills first:
 * x = 0.4, y = 0.6. b leaves z = 1.6, c leaves 3.6: v = 0.72, w = 2.88. y (1.8 MB) ends at 3 ms. x has 0.8 MB left and
 * could have 4/3 on b, 8/7 on c, but a holds it at 1: 0.8 ms. Meanwhile z has 1, v and w share 3: 0.6, 2.4. At 3.8 ms z
 * has 8 - 4.8 - 0.8 = 2.4 left at 2, v 3.6 - 2.16 - 0.48 = 0.96 at 0.8, w 14.4 - 8.64 - 1.92 = 3.84 at 3.2: 1.2 ms. */
START_TEST(a_weighted_parking_lot)
{
    struct flows_flow f[] = {flow(0, 3, 2000000, 0), flow(0, 1, 1800000, 0), flow(1, 1, 8000000, 0),
                             flow(2, 1, 3600000, 0), flow(2, 1, 14400000, 0)};

    f[0].weight = 2;
    f[1].weight = 3;
    f[4].weight = 4;
    ck_run(f, 5, (int64_t[]){3800000000, 3000000000, 5000000000, 5000000000, 5000000000});
}
END_TEST

START_TEST(a_flow_beyond_the_clock_is_refused)
{
    static const struct flows_link slow[] = {{"a", 1e9}, {"b", 1e-300}, {"c", 1}};
    struct flows_flow f = flow(0, 3, 1, 0);
    struct flows_scenario s = {.id = "x", .n_links = 3, .links = slow, .n_flows = 1, .flows = &f};
    int64_t end;
    struct err e = {0};

    ck_assert(flows_run(&s, &end, &e) == -1 && e.code == ERR_OVERFLOW);
    ck_assert_str_eq(e.msg, "scenario 'x': flow 0: 1 bytes over link 'b' of 1e-300 bytes/s take "
                            "longer than 2^63 picoseconds (106 days)");
}
END_TEST

START_TEST(values_out_of_range_are_refused)
{
    static const uint32_t beyond[] = {3};
    static const struct flows_link broken[] = {{"a", 1e9}, {"b", 0}, {"c", 1}};
    struct flows_flow f = flow(0, 1, 0, 0);
    struct flows_scenario s = {.id = "x", .n_links = 3, .links = LINKS, .n_flows = 1, .flows = &f};
    int64_t end;
    struct err e = {0};

    ck_assert(flows_run(&s, &end, &e) == -1 && e.code == ERR_INVALID);
    ck_assert_str_eq(e.msg, "scenario 'x': flow 0: bytes is 0, expected > 0");
    f = flow(0, 0, 1, 0);
    ck_assert(flows_run(&s, &end, &e) == -1);
    ck_assert_str_eq(e.msg, "scenario 'x': flow 0: the path is empty");
    f = flow(0, 1, 1, -1);
    ck_assert(flows_run(&s, &end, &e) == -1);
    ck_assert_str_eq(e.msg, "scenario 'x': flow 0: starts at -1 ps, expected >= 0");
    f = flow(0, 1, 1, 0);
    f.weight = -1;
    ck_assert(flows_run(&s, &end, &e) == -1);
    ck_assert_str_eq(e.msg, "scenario 'x': flow 0: weight is -1, expected 1e-06 to 1e+06");
    f.weight = NAN;
    ck_assert(flows_run(&s, &end, &e) == -1);
    f = flow(0, 1, 1, 0);
    f.path = beyond;
    ck_assert(flows_run(&s, &end, &e) == -1);
    ck_assert_str_eq(e.msg, "scenario 'x': flow 0: link 3, expected one of 3");
    s.links = broken;
    ck_assert(flows_run(&s, &end, &e) == -1);
    ck_assert_str_eq(e.msg, "scenario 'x': link 'b': bandwidth is 0, expected > 0 bytes/s");
}
END_TEST

/* ---- scenarios by hand, as files with expected times ---- */

/* Hosts 0 and 1 under leaf 0, 2 and 3 under leaf 1; every link 1 GB/s = 1 MB/ms. */
#define LEAF_SPINE                                                                                 \
    "{\"scenarios\": [{\"id\": \"s\", \"links_Bps\": {"                                            \
    "\"up0\": 1e9, \"up1\": 1e9, \"up2\": 1e9, \"up3\": 1e9, \"lu0\": 1e9, \"lu1\": 1e9,"          \
    "\"dn0\": 1e9, \"dn1\": 1e9, \"dn2\": 1e9, \"dn3\": 1e9, \"ld0\": 1e9, \"ld1\": 1e9}, "        \
    "\"flows\": ["

static const char *const BY_HAND[] = {
    /* A permutation across: two on each leaf's uplink, 0.5 each. 1 MB takes 2 ms; the other of 3 MB has 2 left, alone. */
    LEAF_SPINE
    "{\"path\": [\"up0\", \"lu0\", \"ld1\", \"dn2\"], \"bytes\": 1000000, \"finish_s\": 2e-3},"
    "{\"path\": [\"up1\", \"lu0\", \"ld1\", \"dn3\"], \"bytes\": 3000000, \"finish_s\": 4e-3},"
    "{\"path\": [\"up2\", \"lu1\", \"ld0\", \"dn0\"], \"bytes\": 2000000, \"finish_s\": 4e-3},"
    "{\"path\": [\"up3\", \"lu1\", \"ld0\", \"dn1\"], \"bytes\": 2000000, \"finish_s\": 4e-3}]}]}",
    /* Incast to host 3: a third each for 3 ms, then a half each for 2 ms, then one alone for 1 ms. */
    LEAF_SPINE
    "{\"path\": [\"up0\", \"lu0\", \"ld1\", \"dn3\"], \"bytes\": 1000000, \"finish_s\": 3e-3},"
    "{\"path\": [\"up1\", \"lu0\", \"ld1\", \"dn3\"], \"bytes\": 2000000, \"finish_s\": 5e-3},"
    "{\"path\": [\"up2\", \"dn3\"], \"bytes\": 3000000, \"finish_s\": 6e-3}]}]}",
    /* Owner 0 sends 1 MB to each: its port holds them to a third each, 3 ms. Host 3 sends 6 MB to host 2 beside it: 2/3
     * are left there for 3 ms, then 4 MB alone. */
    LEAF_SPINE
    "{\"path\": [\"up0\", \"dn1\"], \"bytes\": 1000000, \"finish_s\": 3e-3},"
    "{\"path\": [\"up0\", \"lu0\", \"ld1\", \"dn2\"], \"bytes\": 1000000, \"finish_s\": 3e-3},"
    "{\"path\": [\"up0\", \"lu0\", \"ld1\", \"dn3\"], \"bytes\": 1000000, \"finish_s\": 3e-3},"
    "{\"path\": [\"up3\", \"dn2\"], \"bytes\": 6000000, \"finish_s\": 7e-3}]}]}",
    /* Two flows on one path, of which one is late: alone for 1 ms, then 0.5 each: 2 ms for the first's other MB; the
     * second has 1 of 2 MB by then. */
    LEAF_SPINE
    "{\"path\": [\"up0\", \"dn1\"], \"bytes\": 2000000, \"finish_s\": 3e-3},"
    "{\"path\": [\"up0\", \"dn1\"], \"bytes\": 2000000, \"start_s\": 1e-3, \"finish_s\": 4e-3}]}]}",
};

START_TEST(permutation_incast_and_fan_out_finish_as_calculated_by_hand)
{
    int64_t end[8];
    struct arena a;
    struct flows_file f;
    struct err e = {0};

    arena_init(&a);
    for (size_t i = 0; i < sizeof(BY_HAND) / sizeof(BY_HAND[0]); i++) {
        ck_assert_msg(!flows_parse_json("by hand", BY_HAND[i], strlen(BY_HAND[i]), &a, &f, &e) &&
                          !flows_run(&f.scenarios[0], end, &e),
                      "%s", e.msg);
        for (uint32_t k = 0; k < f.scenarios[0].n_flows; k++)
            ck_assert_msg(end[k] == llround(f.scenarios[0].flows[k].finish_s * 1e12),
                          "scenario %zu: flow %u ends at %lld ps", i, k, (long long)end[k]);
    }
    arena_release(&a);
}
END_TEST

/* ---- JSON ---- */

static const char GOOD[] = "{\"what\": \"two\", \"scenarios\": [{\"id\": \"s\", \"links_Bps\": "
                           "{\"core\": 1e9, \"edge\": 2.5e10},"
                           "\"flows\": [{\"path\": [\"edge\", \"core\"], \"bytes\": 1000, "
                           "\"start_s\": 0.25, \"finish_s\": 0.250001},"
                           "{\"path\": [\"edge\"], \"bytes\": 7, \"weight\": 2.5}]}]}";

START_TEST(what_is_written_is_read_back)
{
    struct arena a;
    struct flows_file f, g;
    struct err e = {0};
    struct strbuf text[2];

    arena_init(&a);
    ck_assert_msg(flows_parse_json("good", GOOD, strlen(GOOD), &a, &f, &e) == 0, "%s", e.msg);
    ck_assert_str_eq(f.what, "two");
    ck_assert(!f.units && f.n_scenarios == 1);
    ck_assert_uint_eq(f.scenarios[0].n_links, 2);
    ck_assert_uint_eq(f.scenarios[0].n_flows, 2);
    ck_assert(f.scenarios[0].flows[0].start_ps == 250000000000);
    ck_assert(f.scenarios[0].flows[0].path[0] == 1 && f.scenarios[0].flows[0].path[1] == 0);
    ck_assert(f.scenarios[0].flows[1].start_ps == 0 && isnan(f.scenarios[0].flows[1].finish_s));
    for (int i = 0; i < 2; i++) {
        cJSON *doc = json_new_object();

        strbuf_init(&text[i]);
        flows_add_json(i ? &g : &f, doc);
        json_print(doc, true, &text[i]);
        json_free(doc);
        if (!i)
            ck_assert_msg(flows_parse_json("again", text[0].s, text[0].len, &a, &g, &e) == 0, "%s",
                          e.msg);
    }
    ck_assert_str_eq(text[0].s, text[1].s);
    ck_assert(g.scenarios[0].flows[0].n_bytes == 1000 &&
              g.scenarios[0].flows[0].finish_s == 0.250001);
    ck_assert(g.scenarios[0].flows[0].weight == 1 && g.scenarios[0].flows[1].weight == 2.5);
    ck_assert(g.scenarios[0].links[1].bw_Bps == 2.5e10);
    strbuf_release(&text[0]);
    strbuf_release(&text[1]);
    arena_release(&a);
}
END_TEST

static void ck_refused(const char *scenario, enum err_code code, const char *want)
{
    char text[600];
    struct arena a;
    struct flows_file f;
    struct err e = {0};

    arena_init(&a);
    snprintf(text, sizeof(text), "{\"scenarios\": [{\"id\": \"s\", %s}]}", scenario);
    ck_assert_msg(flows_parse_json("f", text, strlen(text), &a, &f, &e) == -1, "expected: %s",
                  want);
    ck_assert_msg(strstr(e.msg, want) && e.code == code, "%s: %s, expected: %s", err_name(e.code),
                  e.msg, want);
    arena_release(&a);
}

START_TEST(what_is_wrong_in_a_file_is_refused_by_name)
{
    ck_refused("\"links_Bps\": {\"core\": 1e9}, \"flows\": [{\"path\": [\"cor\"], \"bytes\": 1}]",
               ERR_UNKNOWN,
               "scenarios[0].flows[0].path[0] is 'cor', which is no link (did you mean 'core'?)");
    ck_refused("\"links_Bps\": {\"core\": 0}, \"flows\": []", ERR_INVALID,
               "scenarios[0].links_Bps.core is 0");
    ck_refused("\"links_Bps\": {\"core\": 1}, \"flows\": [{\"path\": [\"core\"], \"bytes\": 0}]",
               ERR_INVALID, "scenarios[0].flows[0].bytes is 0");
    ck_refused("\"links_Bps\": {\"core\": 1}, \"flows\": [{\"path\": [], \"bytes\": 1}]",
               ERR_INVALID, "scenarios[0].flows[0].path has 0 links");
    ck_refused("\"links_Bps\": {\"core\": 1}, \"flows\": [{\"path\": [\"core\"], \"byte\": 1}]",
               ERR_UNKNOWN, "byte");
    ck_refused("\"links_Bps\": {\"core\": 1}, \"flows\": [{\"path\": [\"core\"], \"bytes\": 1, "
               "\"start_s\": -1}]",
               ERR_INVALID, "start_s is -1");
    ck_refused("\"links_Bps\": {\"core\": 1}, \"flows\": [{\"path\": [\"core\"], \"bytes\": 1, "
               "\"weight\": 0}]",
               ERR_INVALID, "weight is 0");
    ck_refused("\"links_Bps\": {\"core\": 1}, \"flows\": [], \"colour\": 1", ERR_UNKNOWN, "colour");
    ck_refused("\"flows\": []", ERR_PARSE, "links_Bps");
    ck_refused("\"links_Bps\": {\"core\": 1, \"core\": 2}, \"flows\": []", ERR_PARSE, "core");
}
END_TEST

SUITE_MAIN("sim/flows", a_flow_alone_takes_bytes_over_the_slowest_link, two_flows_share_a_link,
           the_first_link_of_a_parking_lot_holds_the_long_flow,
           a_late_flow_takes_its_share_when_it_comes, a_link_that_comes_twice_carries_twice,
           permutation_incast_and_fan_out_finish_as_calculated_by_hand,
           a_weight_of_three_takes_three_quarters, a_weighted_parking_lot,
           a_flow_beyond_the_clock_is_refused, values_out_of_range_are_refused,
           what_is_written_is_read_back, what_is_wrong_in_a_file_is_refused_by_name)
