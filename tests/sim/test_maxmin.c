#include "sim/maxmin.h"
#include "tests/sim/fair.h"
#include "tests/suite.h"

#include <string.h>

/* Random activities come and go; after each change the rates are checked against the definition and against naive
 * progressive filling, and compared to the bit with the same system in which every use is by `only` (these seeds have
 * no case of the weakness that maxmin.h states). */

enum { KINDS = 3, N = 6, SLOTS = 16 };

static uint64_t rng_state;

static uint32_t rng(uint32_t n)
{
    rng_state = rng_state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)((rng_state >> 33) % n);
}

static bool coarse; /* few different numbers: many ties */
static bool plain;  /* flows only: no caps, no `every` */
static bool sparse; /* mostly flows: an `every` now and then */

static double any(double lo, double hi)
{
    return coarse ? lo + (hi - lo) * (1 + rng(3)) / 4 : lo + (hi - lo) * rng(1000000) / 1e6;
}

struct act {
    bool runs;
    uint32_t slot[2], id;
    double weight, cap;
    uint32_t n_uses;
    struct fluid_use use[2][KINDS]; /* folded, unfolded */
    struct fluid_amount only[2][KINDS][N];
};

static struct act acts[SLOTS];
static double capacity[KINDS][N];

static void act_random(struct act *a, uint32_t id)
{
    uint32_t k, i, j;

    memset(a, 0, sizeof(*a));
    a->id = id;
    a->weight = rng(2) ? 1 : any(0.1, 4);
    a->cap = rng(4) || plain ? 0 : any(0.01, 1);
    for (k = 0; k < KINDS; k++) {
        struct fluid_use *u = &a->use[0][a->n_uses], *v = &a->use[1][a->n_uses];

        if (rng(2))
            continue;
        *u = (struct fluid_use){.kind = k,
                                .every = rng(sparse ? 12 : 2) == 1 && !plain ? any(0, 2) : 0,
                                .only = a->only[0][a->n_uses]};
        for (i = 0; i < N; i++)
            if (rng(4) == 0)
                a->only[0][a->n_uses][u->n_only++] =
                    (struct fluid_amount){i, rng(4) ? any(0, 2) : 0};
        *v = (struct fluid_use){.kind = k, .n_only = N, .only = a->only[1][a->n_uses]};
        for (i = j = 0; i < N; i++) {
            a->only[1][a->n_uses][i] = (struct fluid_amount){i, u->every};
            if (j < u->n_only && u->only[j].instance == i)
                a->only[1][a->n_uses][i] = u->only[j++];
        }
        a->n_uses++;
    }
}

static void dense(struct fair *s, double *rate, const struct maxmin *m)
{
    uint32_t a, u, i, n = 0;

    memset(s, 0, sizeof(*s));
    s->n_instances = KINDS * N;
    memcpy(s->capacity, capacity, sizeof(capacity));
    for (a = 0; a < SLOTS; a++) {
        if (!acts[a].runs)
            continue;
        s->weight[n] = acts[a].weight;
        s->cap[n] = acts[a].cap;
        for (u = 0; u < acts[a].n_uses; u++)
            for (i = 0; i < N; i++)
                s->amount[n][acts[a].use[1][u].kind * N + i] = acts[a].only[1][u][i].amount;
        rate[n++] = maxmin_rate(m, acts[a].slot[0]);
    }
    s->n_activities = n;
}

static void compare(struct maxmin *const *m, uint32_t seed, int step)
{
    double rate[SLOTS];
    long double want[SLOTS];
    static struct fair s;
    const char *wrong;
    uint32_t a;

    dense(&s, rate, m[0]);
    wrong = fair_check(&s, rate, 1e-9);
    ck_assert_msg(!wrong, "seed %u, step %d: %s", seed, step, wrong);
    fair_fill(&s, want);
    for (a = 0; a < s.n_activities; a++)
        ck_assert_msg(fabsl(rate[a] - want[a]) <= 1e-9L * want[a],
                      "seed %u, step %d: rate %g, expected %Lg", seed, step, rate[a], want[a]);
    for (a = 0; a < SLOTS; a++)
        if (acts[a].runs)
            ck_assert_msg(maxmin_rate(m[0], acts[a].slot[0]) == maxmin_rate(m[1], acts[a].slot[1]),
                          "seed %u, step %d: %.17g folded, %.17g unfolded", seed, step,
                          maxmin_rate(m[0], acts[a].slot[0]), maxmin_rate(m[1], acts[a].slot[1]));
}

static void change(struct maxmin *const *m, uint32_t *id)
{
    struct act *a = &acts[rng(SLOTS)];
    int form;

    if (a->runs) {
        for (form = 0; form < 2; form++)
            maxmin_end(m[form], a->slot[form]);
        a->runs = false;
        return;
    }
    act_random(a, (*id)++);
    for (form = 0; form < 2; form++)
        a->slot[form] = maxmin_start(m[form], a->id, a->use[form], a->n_uses, a->weight, a->cap);
    ck_assert((a->slot[0] == UINT32_MAX) == (a->slot[1] == UINT32_MAX));
    a->runs = a->slot[0] != UINT32_MAX;
}

static void random_life(uint32_t seed, int n_steps)
{
    struct maxmin *m[2];
    const uint32_t *slots;
    uint32_t k, i, id = 0;
    int form, step, n;

    rng_state = seed;
    coarse = seed % 2;
    plain = seed > 600 && seed <= 1200;
    sparse = seed > 1200;
    memset(acts, 0, sizeof(acts));
    for (form = 0; form < 2; form++)
        m[form] = maxmin_new();
    for (k = 0; k < KINDS; k++) {
        capacity[k][0] = any(0.5, 2);
        for (form = 0; form < 2; form++)
            maxmin_kind(m[form], N, capacity[k][0]);
        for (i = 1; i < N; i++) {
            capacity[k][i] = capacity[k][0];
            if (rng(4))
                continue;
            capacity[k][i] = any(0.5, 2);
            for (form = 0; form < 2; form++)
                maxmin_capacity(m[form], k, i, capacity[k][i]);
        }
    }
    for (step = 0; step < n_steps; step++) {
        for (n = 1 + (int)rng(3); n > 0; n--)
            change(m, &id);
        for (form = 0; form < 2; form++)
            maxmin_solve(m[form], &slots);
        compare(m, seed, step);
    }
    for (form = 0; form < 2; form++)
        maxmin_free(m[form]);
}

START_TEST(rates_agree_with_naive_filling_through_random_lives)
{
    uint32_t seed;

    for (seed = 1; seed <= 1560; seed++)
        random_life(seed, 50);
}
END_TEST

/* Flows through two stages of equal links come and go, many at a time equally fast but for rounding: long chains of
 * consequences. Flow f: up[f / 8], down of a random one, two spine links. */
START_TEST(many_flows_stay_fair_through_a_long_life)
{
    enum { HOSTS = 32, FLOWS = 180 };
    static struct fluid_amount only[FLOWS][4];
    static struct fluid_use use[FLOWS];
    static struct fair s;
    static double rate[FLOWS];
    uint32_t slot[FLOWS], f, i, n, host, dst, id = 0;
    bool runs[FLOWS] = {false};
    const uint32_t *slots;
    const char *wrong;
    struct maxmin *m = maxmin_new();

    rng_state = 1;
    maxmin_kind(m, 3 * HOSTS, 1);
    for (i = 2 * HOSTS; i < 3 * HOSTS; i++)
        maxmin_capacity(m, 0, i, 2);
    for (int step = 0; step < 20000; step++) {
        f = rng(FLOWS);
        if (runs[f]) {
            maxmin_end(m, slot[f]);
        } else {
            host = rng(HOSTS);
            dst = rng(HOSTS);
            n = 0;
            only[f][n++] = (struct fluid_amount){host, 1};
            only[f][n++] = (struct fluid_amount){HOSTS + dst, 1};
            only[f][n++] = (struct fluid_amount){2 * HOSTS + host / 2, 1};
            only[f][n++] = (struct fluid_amount){2 * HOSTS + 16 + dst / 2, 1};
            use[f] = (struct fluid_use){.n_only = n, .only = only[f]};
            slot[f] = maxmin_start(m, id++, &use[f], 1, 1, 0);
        }
        runs[f] = !runs[f];
        maxmin_solve(m, &slots);
        if (step % 4)
            continue;
        s.n_instances = 3 * HOSTS;
        s.n_activities = 0;
        for (i = 0; i < 3 * HOSTS; i++)
            s.capacity[i] = i < 2 * HOSTS ? 1 : 2;
        for (f = 0; f < FLOWS; f++) {
            if (!runs[f])
                continue;
            memset(s.amount[s.n_activities], 0, sizeof(s.amount[0]));
            for (i = 0; i < 4; i++)
                s.amount[s.n_activities][only[f][i].instance] = 1;
            s.weight[s.n_activities] = 1;
            rate[s.n_activities++] = maxmin_rate(m, slot[f]);
        }
        wrong = fair_check(&s, rate, 1e-9);
        ck_assert_msg(!wrong, "step %d: %s", step, wrong);
    }
    maxmin_free(m);
}
END_TEST

static bool finds(const struct fair *s, const double *rate, const char *want)
{
    const char *wrong = fair_check(s, rate, 1e-9);

    return wrong && strstr(wrong, want) == wrong;
}

/* A link of 1 with three users, one of them capped at 0.2: 0.2, 0.4, 0.4. Each fault is small and must be seen. */
START_TEST(a_planted_fault_of_1e_6_is_seen)
{
    static struct fair s = {.n_instances = 1,
                            .n_activities = 3,
                            .capacity = {1},
                            .amount = {{1}, {1}, {1}},
                            .weight = {1, 1, 1},
                            .cap = {0.2, 0, 0}};
    double rate[3] = {0.2, 0.4, 0.4};
    long double fill[3];

    ck_assert(!fair_check(&s, rate, 1e-9));
    rate[1] *= 1 + 1e-6;
    ck_assert(finds(&s, rate, "an instance is above its capacity"));
    rate[2] -= 0.4e-6; /* full again, but not fair */
    ck_assert(finds(&s, rate, "an activity could have more"));
    rate[1] = 0.4 * (1 - 1e-6);
    ck_assert(finds(&s, rate, "an activity could have more"));
    rate[0] *= 1 + 1e-6;
    ck_assert(finds(&s, rate, "an activity is above its cap"));
    fair_fill(&s, fill);
    ck_assert(fabsl(fill[0] - 0.2L) < 1e-15L && fabsl(fill[1] - 0.4L) < 1e-15L);
}
END_TEST

/* Flow 0 on link 0, flow 1 on link 1: a change on link 0 must not report flow 1. */
START_TEST(only_what_a_change_reaches_is_reported)
{
    static const struct fluid_amount at[] = {{0, 1}, {1, 1}};
    struct fluid_use u[] = {{.kind = 0, .n_only = 1, .only = &at[0]},
                            {.kind = 0, .n_only = 1, .only = &at[1]}};
    struct maxmin *m = maxmin_new();
    const uint32_t *slots;
    uint32_t a, b, c;

    maxmin_kind(m, 2, 1);
    a = maxmin_start(m, 0, &u[0], 1, 1, 0);
    b = maxmin_start(m, 1, &u[1], 1, 1, 0);
    ck_assert_uint_eq(maxmin_solve(m, &slots), 2);
    ck_assert(maxmin_rate(m, b) == 1);
    c = maxmin_start(m, 2, &u[0], 1, 1, 0);
    ck_assert_uint_eq(maxmin_solve(m, &slots), 2);
    ck_assert(maxmin_rate(m, a) == 0.5 && maxmin_rate(m, c) == 0.5);
    maxmin_end(m, b);
    ck_assert_uint_eq(maxmin_solve(m, &slots), 0);
    maxmin_free(m);
}
END_TEST

/* A over c (0.8) and d (1); B over c halves it; E spends 0.1 of every instance of d's kind for a while, and B ends meanwhile. When
 * F comes, over d and a link of 0.45, they share d: F has its 0.45, A the rest. */
START_TEST(what_comes_and_goes_leaves_nothing_behind)
{
    static const struct fluid_amount first = {0, 1};
    static const struct fluid_use a_uses[] = {{.kind = 0, .n_only = 1, .only = &first},
                                              {.kind = 1, .n_only = 1, .only = &first}},
                                  f_uses[] = {{.kind = 1, .n_only = 1, .only = &first},
                                              {.kind = 2, .n_only = 1, .only = &first}},
                                  e_uses[] = {{.kind = 1, .every = 1}};
    struct maxmin *m = maxmin_new();
    const uint32_t *slots;
    uint32_t a, b, e, f;

    maxmin_kind(m, 1, 0.8);
    maxmin_kind(m, 2, 1);
    maxmin_kind(m, 1, 0.45);
    a = maxmin_start(m, 0, a_uses, 2, 1, 0);
    maxmin_solve(m, &slots);
    b = maxmin_start(m, 1, a_uses, 1, 1, 0);
    maxmin_solve(m, &slots);
    ck_assert(maxmin_rate(m, a) == 0.4 && maxmin_rate(m, b) == 0.4);
    e = maxmin_start(m, 2, e_uses, 1, 1, 0.1);
    maxmin_solve(m, &slots);
    ck_assert(maxmin_rate(m, e) == 0.1);
    maxmin_end(m, b);
    maxmin_solve(m, &slots);
    ck_assert(maxmin_rate(m, a) == 0.8);
    maxmin_end(m, e);
    maxmin_solve(m, &slots);
    f = maxmin_start(m, 3, f_uses, 2, 1, 0);
    maxmin_solve(m, &slots);
    ck_assert_msg(fabs(maxmin_rate(m, a) - 0.55) < 1e-12 && fabs(maxmin_rate(m, f) - 0.45) < 1e-12,
                  "A %g, F %g", maxmin_rate(m, a), maxmin_rate(m, f));
    maxmin_free(m);
}
END_TEST

SUITE_MAIN("sim/maxmin", rates_agree_with_naive_filling_through_random_lives,
           many_flows_stay_fair_through_a_long_life, a_planted_fault_of_1e_6_is_seen,
           only_what_a_change_reaches_is_reported, what_comes_and_goes_leaves_nothing_behind)
