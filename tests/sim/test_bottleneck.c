#include "sim/bottleneck.h"
#include "sim/fluid.h"
#include "tests/sim/fair.h"
#include "tests/suite.h"

#include <string.h>

static uint64_t rng_state;

static uint32_t rng(uint32_t n)
{
    rng_state = rng_state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)((rng_state >> 33) % n);
}

static void solve(struct bottleneck *b)
{
    bottleneck_solve(b);
    MUST(bottleneck_next(b) == UINT32_MAX || bottleneck_next_ps(b) < INT64_MAX,
         "flow %u ends beyond 2^63 ps", bottleneck_next(b));
}

/* Flows that come and go by chance, and what they are checked with. */
enum { FLOWS = FAIR_MAX_ACTIVITIES, LINKS = FAIR_MAX_INSTANCES, HOPS = 5 };

struct life {
    struct bottleneck *b;
    uint32_t n_links, n_flows;
    double capacity[LINKS];
    bool runs[FLOWS];
    int changed[FLOWS]; /* in this step, + 1 */
    uint32_t slot[FLOWS], n_hops[FLOWS], hops[FLOWS][HOPS];
    double spread; /* of the weights: heaviest over lightest; 0: all are 1 */
    double work, weight[FLOWS];
};

static struct life life;

/* `work` so large that none ends, and so small that all would end in time. */
static void life_begin(uint32_t n_links, uint32_t n_flows, double work)
{
    memset(&life, 0, sizeof(life));
    life.n_links = n_links;
    life.n_flows = n_flows;
    life.work = work;
    life.b = bottleneck_new(n_links, HOPS);
    for (uint32_t i = 0; i < n_links; i++)
        bottleneck_capacity(life.b, i, life.capacity[i]);
}

static void capacity(uint32_t link, double x)
{
    life.capacity[link] = x;
    bottleneck_capacity(life.b, link, x);
}

/* 1, or one of few that tie, or any. */
static double random_weight(void)
{
    if (life.spread == 0)
        return 1;
    return rng(3) ? pow(life.spread, rng(1 << 20) / (double)(1 << 20))
                  : pow(life.spread, rng(3) / 2.0);
}

static void start(uint32_t f)
{
    life.weight[f] = random_weight();
    life.slot[f] =
        bottleneck_start(life.b, f, life.hops[f], life.n_hops[f], life.work, life.weight[f]);
    life.runs[f] = true;
}

static void stop(uint32_t f)
{
    bottleneck_stop(life.b, life.slot[f]);
    life.runs[f] = false;
}

static void life_check(uint32_t seed, int step, bool against_filling)
{
    static struct fair s;
    static double rate[FLOWS];
    long double want[FLOWS];
    const char *wrong;
    double tol = life.spread > 1e3 ? 1e-12 * life.spread : 1e-9;
    uint32_t f, i;

    s.n_instances = life.n_links;
    s.n_activities = 0;
    memcpy(s.capacity, life.capacity, sizeof(s.capacity));
    for (f = 0; f < life.n_flows; f++) {
        if (!life.runs[f])
            continue;
        memset(s.amount[s.n_activities], 0, sizeof(s.amount[0]));
        for (i = 0; i < life.n_hops[f]; i++)
            s.amount[s.n_activities][life.hops[f][i]] = 1;
        s.weight[s.n_activities] = life.weight[f];
        s.cap[s.n_activities] = 0;
        rate[s.n_activities++] = bottleneck_rate(life.b, life.slot[f]);
    }
    wrong = fair_check(&s, rate, tol);
    MUST(!wrong, "seed %u, step %d: %s", seed, step, wrong);
    if (!against_filling)
        return;
    fair_fill(&s, want);
    for (i = 0; i < s.n_activities; i++)
        MUST(fabsl(rate[i] - want[i]) <= tol * want[i],
             "seed %u, step %d: rate %.17g, expected %.17Lg", seed, step, rate[i], want[i]);
}

/* Each link with a chance of one in `sparse`. */
static void random_path(uint32_t f, uint32_t sparse)
{
    life.n_hops[f] = 0;
    for (uint32_t i = 0; i < life.n_links && life.n_hops[f] < HOPS; i++)
        if (rng(sparse) == 0)
            life.hops[f][life.n_hops[f]++] = i;
    if (!life.n_hops[f])
        life.hops[f][life.n_hops[f]++] = rng(life.n_links);
}

/* Spreads of weights of every fourth seed: none, a few, a thousand, all that is allowed. */
static const double SPREADS[] = {0, 8, 1e3, 1e6};

/* Several changes at a time; lives of links of 10^-4 to 10^4, of few different ones, so that levels tie, and of any. */
START_TEST(rates_agree_with_naive_filling_through_random_lives)
{
    uint32_t seed, n, f, i;
    int64_t now_ps;

    for (seed = 1; seed <= 1500; seed++) {
        rng_state = seed;
        now_ps = 0;
        n = 2 + rng(14);
        life_begin(n, 1 + rng(24), 1e7);
        life.spread = SPREADS[seed % 4];
        for (i = 0; i < n; i++)
            capacity(i, seed % 3 == 0   ? pow(10, (double)rng(9) - 4)
                        : seed % 3 == 1 ? 1 + rng(3)
                                        : 0.5 + rng(1000000) / 5e5);
        for (int step = 0; step < 60; step++) {
            bottleneck_advance(life.b, now_ps += rng(10));
            for (uint32_t k = 1 + rng(4); k > 0; k--) {
                f = rng(life.n_flows);
                if (life.changed[f] == step + 1) /* not twice before a solve */
                    continue;
                life.changed[f] = step + 1;
                if (life.runs[f]) {
                    stop(f);
                    continue;
                }
                random_path(f, 3);
                start(f);
            }
            solve(life.b);
            life_check(seed, step, true);
        }
        bottleneck_free(life.b);
    }
}
END_TEST

/* Up to 190 flows over few links: so many users that they are counted by holder, and links so far from full that they
 * are quiet, until in another part of the life most flows use just those. */
START_TEST(crowds_are_shared_fairly)
{
    uint32_t f, i, n;
    int64_t now_ps;

    for (uint32_t seed = 1; seed <= 24; seed++) {
        rng_state = seed;
        now_ps = 0;
        n = 6 + rng(24);
        life_begin(n, 190, 1e10);
        life.spread = SPREADS[seed / 3 % 4];
        for (i = 0; i < n; i++)
            capacity(i, (i % 2 ? 1 : 8 << rng(4)) * (seed % 3 ? 1 + rng(1000) / 1e3 : 1));
        for (int step = 0; step < 3000; step++) {
            bottleneck_advance(life.b, now_ps += rng(1000));
            f = rng(life.n_flows);
            if (life.runs[f]) {
                stop(f);
            } else {
                random_path(f, n / 4);
                for (i = 0; i < life.n_hops[f] && step / 500 % 2; i++)
                    life.hops[f][i] &= ~1U; /* the wide ones */
                for (i = 1; i < life.n_hops[f]; i++)
                    if (life.hops[f][i] == life.hops[f][i - 1])
                        life.n_hops[f] = i;
                start(f);
            }
            solve(life.b);
            if (step % 5 == 0)
                life_check(seed, step, step % 100 == 0);
        }
        bottleneck_free(life.b);
    }
}
END_TEST

/* 180 flows between 32 hosts over 16 leaves: many equally fast but for rounding, long chains of consequences. */
START_TEST(many_flows_stay_fair_through_a_long_life)
{
    enum { HOSTS = 32 };
    uint32_t f, src, dst;

    rng_state = 1;
    life_begin(3 * HOSTS, 180, 1e12);
    for (f = 0; f < 3 * HOSTS; f++)
        capacity(f, f < 2 * HOSTS ? 1 : 2);
    for (int step = 0; step < 20000; step++) {
        f = rng(life.n_flows);
        if (life.runs[f]) {
            stop(f);
        } else {
            src = rng(HOSTS);
            dst = rng(HOSTS);
            life.n_hops[f] = 4;
            life.hops[f][0] = src;
            life.hops[f][1] = HOSTS + dst;
            life.hops[f][2] = 2 * HOSTS + src / 2;
            life.hops[f][3] = 2 * HOSTS + 16 + dst / 2;
            start(f);
        }
        solve(life.b);
        if (step % 4 == 0)
            life_check(1, step, step % 400 == 0);
    }
    bottleneck_free(life.b);
}
END_TEST

/* Links of 1, 2 and 4; one flow over all, one more on each: 1/2, and what that leaves. A fourth on the last link shares
 * its 3.5. When the first short one goes, the long one and the one on link 1 share that: 1, 1, and 3/2 each on the
 * last. */
START_TEST(a_parking_lot_by_hand)
{
    static const uint32_t all[] = {0, 1, 2};
    struct bottleneck *b = bottleneck_new(3, 3);
    uint32_t i, slot[5];

    for (i = 0; i < 3; i++)
        bottleneck_capacity(b, i, 1 << i);
    slot[0] = bottleneck_start(b, 0, all, 3, 100, 1);
    for (i = 0; i < 3; i++)
        slot[1 + i] = bottleneck_start(b, 1 + i, &all[i], 1, 100, 1);
    slot[4] = bottleneck_start(b, 4, &all[2], 1, 100, 1);
    solve(b);
    ck_assert(bottleneck_rate(b, slot[0]) == 0.5 && bottleneck_rate(b, slot[1]) == 0.5);
    ck_assert(bottleneck_rate(b, slot[2]) == 1.5);
    ck_assert(bottleneck_rate(b, slot[3]) == 1.75 && bottleneck_rate(b, slot[4]) == 1.75);
    bottleneck_stop(b, slot[1]);
    solve(b);
    ck_assert(bottleneck_rate(b, slot[0]) == 1 && bottleneck_rate(b, slot[2]) == 1);
    ck_assert(bottleneck_rate(b, slot[3]) == 1.5 && bottleneck_rate(b, slot[4]) == 1.5);
    ck_assert(bottleneck_next_ps(b) == 67); /* 100 / 1.5 */
    bottleneck_free(b);
}
END_TEST

/* Weights 2, 1 and 4 over links of 6 and 15: the flow of 2 shares the 6 with that of 1, two to one, 4 and 2; that of 4 gets
 * what is left of the 15. Once the flow of 1 is gone the level of the 15 is 2.5 and the flow of 2 would have 5 of the 6: the
 * 15 holds both, 5 and 10. 90 units over 10: 9 ps more. */
START_TEST(weights_by_hand)
{
    static const uint32_t both[] = {0, 1};
    struct bottleneck *b = bottleneck_new(2, 2);
    uint32_t slot[3];

    bottleneck_capacity(b, 0, 6);
    bottleneck_capacity(b, 1, 15);
    slot[0] = bottleneck_start(b, 0, both, 2, 1000, 2);
    slot[1] = bottleneck_start(b, 1, &both[0], 1, 1000, 1);
    slot[2] = bottleneck_start(b, 2, &both[1], 1, 200, 4);
    solve(b);
    ck_assert(bottleneck_rate(b, slot[0]) == 4 && bottleneck_rate(b, slot[1]) == 2);
    ck_assert(bottleneck_rate(b, slot[2]) == 11);
    ck_assert(bottleneck_next_ps(b) == 19); /* 200 / 11 */
    bottleneck_advance(b, 10);
    bottleneck_stop(b, slot[1]);
    solve(b);
    ck_assert(bottleneck_rate(b, slot[0]) == 5 && bottleneck_rate(b, slot[2]) == 10);
    ck_assert(bottleneck_next_ps(b) == 19); /* 200 - 110 are left */
    bottleneck_free(b);
}
END_TEST

/* A flow of weight 10^6 beside one of weight 1 that stays, a million times: the sums of weights end where they began. */
START_TEST(a_heavy_flow_leaves_no_trace_in_the_sums)
{
    static const uint32_t link = 0;
    struct bottleneck *b = bottleneck_new(1, 1);
    uint32_t light, heavy;

    bottleneck_capacity(b, 0, 1);
    light = bottleneck_start(b, 0, &link, 1, 1e12, 1.1);
    for (uint32_t i = 0; i < 1000000; i++) {
        heavy = bottleneck_start(b, 1, &link, 1, 1e12, 1e6 - i * 0.3);
        solve(b);
        bottleneck_stop(b, heavy);
        solve(b);
        MUST(bottleneck_rate(b, light) == 1, "after %u: %.17g", i, bottleneck_rate(b, light));
    }
    bottleneck_free(b);
}
END_TEST

/* A long flow keeps the clock of its link going while 100,000 short ones of 1,000 come one after the other: at half the
 * link each, so that the n-th ends at 2,000 n; the long one has moved as much, and goes on alone with its last 500. */
START_TEST(a_clock_that_never_stops_keeps_its_digits)
{
    enum { N = 100000 };
    static const struct fluid_amount at = {0, 1};
    static const struct fluid_use use = {.n_only = 1, .only = &at};
    struct fluid_activity a = {.uses = &use, .n_uses = 1};
    struct fluid *f = fluid_new();
    struct err e = {0};

    fluid_kind(f, "link", 1, 1);
    a.work = 1000.0 * N + 500;
    fluid_add(f, &a, 0);
    a.work = 1000;
    for (uint32_t i = 1; i <= N; i++) {
        fluid_add(f, &a, 0);
        if (i > 1)
            fluid_after(f, i, i - 1);
    }
    ck_assert(fluid_run(f, &e) == 0);
    for (uint32_t i = 1; i <= N; i++)
        MUST(fluid_end_ps(f, i) == 2000 * (int64_t)i, "flow %u ends at %lld", i,
             (long long)fluid_end_ps(f, i));
    ck_assert(fluid_end_ps(f, 0) == 2000LL * N + 500);
    fluid_free(f);
}
END_TEST

/* The same random flows through fluid_run() on its own and with one more activity far away that is no flow (it has a
 * cap), which makes sim/maxmin.h do the work: leaves of 8, some oversubscribed, chains and late starts. */
enum { RANKS = 64, N_FLOWS = 1500 };

static void run_flows(uint32_t seed, double spread, bool general, int64_t *end_ps)
{
    static struct fluid_amount at[N_FLOWS][4];
    static struct fluid_use use[N_FLOWS][4];
    struct fluid_activity a = {.n_uses = 0}, far = {.work = 1000, .cap = 1};
    struct fluid *f = fluid_new();
    struct err e = {0};
    uint32_t i, k, src, dst, before[RANKS], kinds = 0;
    const uint32_t n[] = {RANKS, RANKS, RANKS / 8, RANKS / 8};
    const double x[] = {0.05, 0.05, seed % 3 ? 0.2 : 0.4, seed % 3 ? 0.2 : 0.4};
    bool started[RANKS] = {false};

    rng_state = seed;
    for (; kinds < 4; kinds++)
        fluid_kind(f, "links", n[kinds], x[kinds]);
    for (i = 0; i < N_FLOWS; i++) {
        src = rng(RANKS);
        dst = seed % 2 ? rng(RANKS) : rng(4);
        a.uses = use[i];
        a.n_uses = src / 8 == dst / 8 ? 2 : 4;
        a.work = rng(8) ? 65536 + rng(1 << 26) : 1 << 20;
        a.weight = spread > 0 ? pow(spread, rng(1000) / 1e3) : 0;
        for (k = 0; k < a.n_uses; k++) {
            at[i][k] = (struct fluid_amount){k == 0   ? src
                                             : k == 1 ? dst
                                             : k == 2 ? src / 8
                                                      : dst / 8,
                                             1};
            use[i][k] = (struct fluid_use){.kind = k, .n_only = 1, .only = &at[i][k]};
        }
        fluid_add(f, &a, rng(4) ? 0 : rng(1000000000));
        if (started[src] && rng(2))
            fluid_after(f, i, before[src]);
        started[src] = true;
        before[src] = i;
    }
    far.weight = spread > 0 ? spread / 2 : 1; /* what weighs most or least is no news */
    if (general)
        fluid_add(f, &far, 0);
    ck_assert_msg(fluid_run(f, &e) == 0, "%s", e.msg);
    for (i = 0; i < N_FLOWS; i++)
        end_ps[i] = fluid_end_ps(f, i);
    fluid_free(f);
}

/* A heavy flow that ends a ps later takes what a light one beside it needs `spread` ps for. */
START_TEST(flows_end_when_the_general_way_says)
{
    static int64_t fast[N_FLOWS], again[N_FLOWS], general[N_FLOWS];
    double off;

    for (uint32_t seed = 1; seed <= 16; seed++) {
        run_flows(seed, SPREADS[seed % 4], false, fast);
        run_flows(seed, SPREADS[seed % 4], false, again);
        ck_assert_mem_eq(fast, again, sizeof(fast));
        run_flows(seed, SPREADS[seed % 4], true, general);
        for (uint32_t i = 0; i < N_FLOWS; i++) {
            off = fabs((double)(fast[i] - general[i]));
            MUST(off <= 2 + SPREADS[seed % 4] + 1e-10 * (double)general[i],
                 "seed %u, flow %u: %lld, expected %lld", seed, i, (long long)fast[i],
                 (long long)general[i]);
        }
    }
}
END_TEST

SUITE_MAIN("sim/bottleneck", rates_agree_with_naive_filling_through_random_lives,
           crowds_are_shared_fairly, many_flows_stay_fair_through_a_long_life,
           a_parking_lot_by_hand, weights_by_hand, a_heavy_flow_leaves_no_trace_in_the_sums,
           a_clock_that_never_stops_keeps_its_digits, flows_end_when_the_general_way_says)
