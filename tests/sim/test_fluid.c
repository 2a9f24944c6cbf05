#include "sim/fluid.h"
#include "tests/suite.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

/* Capacities and works are chosen so that a hand calculation is exact; 1 unit per ps unless said. */

static uint64_t rng_state;

static uint32_t rng(uint32_t n)
{
    rng_state = rng_state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)((rng_state >> 33) % n);
}

static uint32_t add(struct fluid *f, const struct fluid_use *uses, uint32_t n_uses, double work)
{
    struct fluid_activity a = {.work = work, .uses = uses, .n_uses = n_uses};

    return fluid_add(f, &a, 0);
}

static void run(struct fluid *f)
{
    struct err e = {0};

    ck_assert_msg(fluid_run(f, &e) == 0, "%s", e.msg);
}

static void ck_end(const struct fluid *f, uint32_t a, int64_t want_ps)
{
    ck_assert_msg(fluid_end_ps(f, a) == want_ps, "activity %u ends at %lld, expected %lld", a,
                  (long long)fluid_end_ps(f, a), (long long)want_ps);
}

static const struct fluid_amount INST[8] = {{0, 1}, {1, 1}, {2, 1}, {3, 1},
                                            {4, 1}, {5, 1}, {6, 1}, {7, 1}};

static struct fluid_use one(uint32_t kind, uint32_t instance)
{
    return (struct fluid_use){.kind = kind, .n_only = 1, .only = &INST[instance]};
}

/* x_a + x_b = 1, x_a = x_b: both at 1/2. The short one (1000) ends at 2000; the long one (3000) has 2000 left then,
 * alone: 4000. */
START_TEST(two_flows_over_one_link_share_it)
{
    struct fluid *f = fluid_new();
    uint32_t link = fluid_kind(f, "link", 1, 1);
    struct fluid_use u = one(link, 0);
    uint32_t a = add(f, &u, 1, 1000), b = add(f, &u, 1, 3000);

    run(f);
    ck_end(f, a, 2000);
    ck_end(f, b, 4000);
    ck_assert(fluid_makespan_ps(f) == 4000);
    ck_assert(fluid_used(f, link, 0) == 4000);
    ck_assert(fluid_n_events(f) == 4);
    fluid_free(f);
}
END_TEST

/* Links 1, 2, 4; a long flow over all and one short on each. Link 0 fills at 1/2 and holds the long one, the others
 * get 1/2, 3/2, 7/2. Works 1000 for the long and 500, 3000, 7000: all end at 1000/(1/2) = 2000, but the first short
 * one at 1000; then the long one has 500 left and takes 3/4... no: link 1 is shared with 3/2 until link 0 is free, then
 * link 1 (x + y = 2) gives both 1. At 1000: long 500 left, rate 1 -> 1500. Short 1: 1500 done at 1000, rate 1 until
 * 1500 -> 2000 done, then 2 -> 1000/2 = 500 more: 2000. Short 2: 3500 done at 1000, rate 3 until 1500 -> 5000, then
 * 4: 2000/4 = 500 more: 2000. */
START_TEST(parking_lot)
{
    struct fluid *f = fluid_new();
    uint32_t link = fluid_kind(f, "link", 3, 1);
    struct fluid_use all = {.kind = link, .n_only = 3, .only = INST};
    struct fluid_use u0 = one(link, 0), u1 = one(link, 1), u2 = one(link, 2);

    fluid_capacity(f, link, 1, 2);
    fluid_capacity(f, link, 2, 4);
    add(f, &all, 1, 1000);
    add(f, &u0, 1, 500);
    add(f, &u1, 1, 3000);
    add(f, &u2, 1, 7000);
    run(f);
    ck_end(f, 1, 1000);
    ck_end(f, 0, 1500);
    ck_end(f, 2, 2000);
    ck_end(f, 3, 2000);
    fluid_free(f);
}
END_TEST

/* x_a = 3 x_b, x_a + x_b = 1: rates 3/4, 1/4. */
START_TEST(weights_scale_the_share)
{
    struct fluid *f = fluid_new();
    struct fluid_use u = one(fluid_kind(f, "link", 1, 1), 0);
    struct fluid_activity a = {.work = 3000, .weight = 3, .uses = &u, .n_uses = 1};

    fluid_add(f, &a, 0);
    add(f, &u, 1, 1000);
    run(f);
    ck_end(f, 0, 4000);
    ck_end(f, 1, 4000);
    fluid_free(f);
}
END_TEST

/* x_a <= 1/8, so x_b = 7/8 until a ends; a: 1000 * 8 = 8000. b: 7000 at 8000. */
START_TEST(a_cap_leaves_the_rest_to_others)
{
    struct fluid *f = fluid_new();
    struct fluid_use u = one(fluid_kind(f, "link", 1, 1), 0);
    struct fluid_activity a = {.work = 1000, .cap = 0.125, .uses = &u, .n_uses = 1};

    fluid_add(f, &a, 0);
    add(f, &u, 1, 7500);
    run(f);
    ck_end(f, 0, 8000);
    ck_end(f, 1, 8500);
    fluid_free(f);
}
END_TEST

/* A cap alone is a delay of work / cap. */
START_TEST(a_cap_without_a_use_holds)
{
    struct fluid *f = fluid_new();
    struct fluid_activity a = {.work = 1000, .cap = 0.25};

    fluid_add(f, &a, 7);
    run(f);
    ck_end(f, 0, 4007);
    fluid_free(f);
}
END_TEST

/* b comes 100 later and waits 300 more: a is alone until 400 (400 done), then they share: a has 600 left -> 1600;
 * b has done 600 of 1000 by then -> 2000. */
START_TEST(latency_delays_the_first_unit)
{
    struct fluid *f = fluid_new();
    struct fluid_use u = one(fluid_kind(f, "link", 1, 1), 0);
    struct fluid_activity b = {.latency_ps = 300, .work = 1000, .uses = &u, .n_uses = 1};

    add(f, &u, 1, 1000);
    fluid_add(f, &b, 100);
    run(f);
    ck_end(f, 0, 1600);
    ck_end(f, 1, 2000);
    ck_assert(fluid_ready_ps(f, 1) == 100);
    fluid_free(f);
}
END_TEST

START_TEST(zero_work_is_done_after_its_latency)
{
    struct fluid *f = fluid_new();
    struct fluid_use u = one(fluid_kind(f, "link", 1, 1), 0);
    struct fluid_activity a = {.latency_ps = 42, .uses = &u, .n_uses = 1};

    fluid_add(f, &a, 8);
    run(f);
    ck_end(f, 0, 50);
    fluid_free(f);
}
END_TEST

START_TEST(work_that_nothing_holds_takes_no_time)
{
    struct fluid *f = fluid_new();
    uint32_t link = fluid_kind(f, "link", 2, 1);
    static const struct fluid_amount none[] = {{0, 0}, {1, 0}};
    struct fluid_use u = {.kind = link, .every = 1, .n_only = 2, .only = none};

    add(f, NULL, 0, 1000);
    add(f, &u, 1, 1000);
    run(f);
    ck_end(f, 0, 0);
    ck_end(f, 1, 0);
    fluid_free(f);
}
END_TEST

START_TEST(an_empty_run_ends_at_zero)
{
    struct fluid *f = fluid_new();

    run(f);
    ck_assert(fluid_makespan_ps(f) == 0);
    fluid_free(f);
}
END_TEST

/* A diamond: 0 -> {1, 2} -> 3; 1 takes 100, 2 takes 200 on links of their own. */
START_TEST(successors_wait_for_the_last_predecessor)
{
    struct fluid *f = fluid_new();
    uint32_t link = fluid_kind(f, "link", 4, 1), i;
    struct fluid_use u[4];

    for (i = 0; i < 4; i++) {
        u[i] = one(link, i);
        add(f, &u[i], 1, 100 * (i == 2 ? 2 : 1));
    }
    fluid_after(f, 3, 1);
    fluid_after(f, 3, 2);
    fluid_after(f, 1, 0);
    fluid_after(f, 2, 0);
    run(f);
    ck_assert(fluid_ready_ps(f, 3) == 300);
    ck_end(f, 3, 400);
    ck_assert_uint_eq(fluid_last_before(f, 3), 2);
    ck_assert_uint_eq(fluid_last_before(f, 2), 0);
    ck_assert_uint_eq(fluid_last_before(f, 0), UINT32_MAX);
    fluid_free(f);
}
END_TEST

START_TEST(of_predecessors_that_end_together_the_lowest_is_the_last)
{
    struct fluid *f = fluid_new();
    uint32_t link = fluid_kind(f, "link", 3, 1), i;
    struct fluid_use u[3];

    for (i = 0; i < 3; i++) {
        u[i] = one(link, i);
        add(f, &u[i], 1, 100);
    }
    i = add(f, NULL, 0, 0);
    fluid_after(f, i, 2);
    fluid_after(f, i, 1);
    fluid_after(f, i, 0);
    run(f);
    ck_assert_uint_eq(fluid_last_before(f, i), 0);
    fluid_free(f);
}
END_TEST

START_TEST(a_circle_is_refused_by_name)
{
    struct fluid *f = fluid_new();
    struct err e = {0};
    uint32_t i;

    for (i = 0; i < 6; i++)
        add(f, NULL, 0, 0);
    fluid_after(f, 1, 0);
    fluid_after(f, 4, 2); /* 2 -> 4 -> 3 -> 2 */
    fluid_after(f, 3, 4);
    fluid_after(f, 2, 3);
    fluid_after(f, 1, 2); /* behind it, not in it */
    ck_assert(fluid_run(f, &e) == -1);
    ck_assert_int_eq(e.code, ERR_INVALID);
    ck_assert_str_eq(e.msg, "activities wait for each other in a circle: 2 for 3 for 4 for 2");
    fluid_free(f);
}
END_TEST

START_TEST(an_activity_that_waits_for_itself_is_refused)
{
    struct fluid *f = fluid_new();
    struct err e = {0};

    add(f, NULL, 0, 0);
    fluid_after(f, 0, 0);
    ck_assert(fluid_run(f, &e) == -1);
    ck_assert_str_eq(e.msg, "activities wait for each other in a circle: 0 for 0");
    fluid_free(f);
}
END_TEST

START_TEST(a_used_instance_of_capacity_zero_is_refused)
{
    static const struct fluid_amount skip5[] = {{5, 0}};
    struct fluid *f;
    struct fluid_use u;
    struct err e;
    uint32_t kind, i;

    for (i = 0; i < 5; i++) {
        f = fluid_new();
        kind = fluid_kind(f, "nic", 8, i == 4 ? 0 : 1);
        fluid_capacity(f, kind, i == 4 ? 0 : 5, i == 4 ? 1 : 0);
        u = (struct fluid_use){.kind = kind, .every = 1};
        if (i == 1) /* leaves it out: fine */
            u = (struct fluid_use){.kind = kind, .every = 1, .n_only = 1, .only = skip5};
        if (i == 2)
            u = one(kind, 5);
        if (i == 3) /* another one: fine */
            u = one(kind, 4);
        add(f, &u, 1, 8);
        if (i == 1 || i == 3) {
            run(f);
            ck_end(f, 0, 8);
        } else {
            ck_assert(fluid_run(f, &e) == -1);
            ck_assert_int_eq(e.code, ERR_INVALID);
            ck_assert_str_eq(e.msg, i == 4 ? "activity 0 uses nic[1], whose capacity is 0"
                                           : "activity 0 uses nic[5], whose capacity is 0");
        }
        fluid_free(f);
    }
}
END_TEST

START_TEST(a_time_beyond_the_clock_is_refused)
{
    struct fluid *f = fluid_new();
    struct fluid_use u = one(fluid_kind(f, "link", 1, 1e-9), 0);
    struct err e = {0};

    add(f, &u, 1, 1e12);
    ck_assert(fluid_run(f, &e) == -1);
    ck_assert_int_eq(e.code, ERR_OVERFLOW);
    fluid_free(f);
}
END_TEST

/* `every` 1 on four instances, 4 on instance 2: the collective moves at 1/4, held by instance 2. A flow on instance 0
 * gets 3/4. */
START_TEST(a_collective_is_held_by_its_worst_instance)
{
    static const struct fluid_amount worst[] = {{2, 4}};
    struct fluid *f = fluid_new();
    uint32_t nic = fluid_kind(f, "nic", 4, 1);
    struct fluid_use c = {.kind = nic, .every = 1, .n_only = 1, .only = worst}, u = one(nic, 0);

    add(f, &c, 1, 1000);
    add(f, &u, 1, 3000);
    run(f);
    ck_end(f, 0, 4000);
    ck_end(f, 1, 4000);
    ck_assert(fluid_used(f, nic, 0) == 4000);
    ck_assert(fluid_used(f, nic, 1) == 1000);
    ck_assert(fluid_used(f, nic, 2) == 4000);
    fluid_free(f);
}
END_TEST

/* A collective of amount 1 on 3 instances, one of which has capacity 1/2: rate 1/2. */
START_TEST(an_instance_with_its_own_capacity_holds_a_collective)
{
    struct fluid *f = fluid_new();
    uint32_t nic = fluid_kind(f, "nic", 3, 1);
    struct fluid_use c = {.kind = nic, .every = 1};

    fluid_capacity(f, nic, 1, 0.5);
    add(f, &c, 1, 1000);
    run(f);
    ck_end(f, 0, 2000);
    fluid_free(f);
}
END_TEST

/* Once all instances are singled out, nothing is left that only the rest of the kind would hold. Collective c takes 1
 * of both instances, flows a and b take 1 of one each: x_c = x_a = x_b = 1/2 until 2000. */
START_TEST(a_kind_may_be_singled_out_entirely)
{
    struct fluid *f = fluid_new();
    uint32_t nic = fluid_kind(f, "nic", 2, 1);
    struct fluid_use c = {.kind = nic, .every = 1}, a = one(nic, 0), b = one(nic, 1);

    add(f, &c, 1, 2000);
    add(f, &a, 1, 1000);
    add(f, &b, 1, 1000);
    run(f);
    ck_end(f, 1, 2000);
    ck_end(f, 2, 2000);
    ck_end(f, 0, 3000);
    fluid_free(f);
}
END_TEST

/* An untouched flow has no rounding drift: 1/3 of its work a ps, 10^9 units, while a thousand others come and go
 * elsewhere. */
START_TEST(an_undisturbed_activity_ends_to_the_picosecond)
{
    struct fluid *f = fluid_new();
    uint32_t link = fluid_kind(f, "link", 2, 1.0 / 3), i;
    struct fluid_use u0 = one(link, 0), u1 = one(link, 1);
    struct fluid_activity a = {.work = 12345, .uses = &u1, .n_uses = 1};

    add(f, &u0, 1, 1000000000);
    for (i = 0; i < 1000; i++)
        fluid_add(f, &a, (int64_t)i * 7777);
    run(f);
    ck_end(f, 0, 3000000000);
    fluid_free(f);
}
END_TEST

/* ---- an all-gather ring as flows ----
 * In step s rank r sends a chunk to r + 1, when the chunk of step s - 1 has come from r - 1. No link is ever shared, so
 * each step takes latency + c/bw and the whole takes (n-1)(c/bw + hops * latency). */
static int64_t ring_ps(uint32_t n, double chunk, double bw, int64_t latency_ps)
{
    struct fluid *f = fluid_new();
    uint32_t tx = fluid_kind(f, "tx", n, bw), rx = fluid_kind(f, "rx", n, bw), r, s;
    struct fluid_amount *amount = MEM_NEW(struct fluid_amount, n);
    struct fluid_use *uses = MEM_NEW(struct fluid_use, 2 * n);
    int64_t end;

    for (r = 0; r < n; r++)
        amount[r] = (struct fluid_amount){r, 1};
    for (r = 0; r < n; r++) {
        uses[2 * r] = (struct fluid_use){.kind = tx, .n_only = 1, .only = &amount[r]};
        uses[2 * r + 1] = (struct fluid_use){.kind = rx, .n_only = 1, .only = &amount[(r + 1) % n]};
    }
    for (s = 0; s + 1 < n; s++)
        for (r = 0; r < n; r++) {
            struct fluid_activity a = {
                .latency_ps = latency_ps, .work = chunk, .uses = &uses[2 * r], .n_uses = 2};

            fluid_add(f, &a, 0);
            if (s > 0)
                fluid_after(f, s * n + r, (s - 1) * n + (r + n - 1) % n);
        }
    run(f);
    end = fluid_makespan_ps(f);
    for (r = 0; r < n; r++)
        ck_assert(fluid_used(f, tx, r) == chunk * (n - 1));
    fluid_free(f);
    mem_free(amount);
    mem_free(uses);
    return end;
}

START_TEST(a_ring_takes_n_minus_1_steps_to_the_picosecond)
{
    static const uint32_t n[] = {2, 3, 7, 63};
    static const struct {
        double chunk, bw;
        int64_t step_ps, hop_ps;
    } c[] = {
        {1048576, 0.025, 41943040, 500000},   /* 1 MiB at 25 GB/s */
        {1, 0.0125, 80, 0},                   /* one byte at 12.5 GB/s */
        {3e9, 0.003, 1000000000000, 700001},  /* a second at 3 GB/s */
        {123456700, 0.05, 2469134000, 1},     /* 50 GB/s */
        {70000, 0.0035, 20000000, 123456789}, /* 3.5 GB/s */
    };
    size_t i, j;
    int hops;

    for (i = 0; i < 4; i++)
        for (j = 0; j < sizeof(c) / sizeof(c[0]); j++)
            for (hops = 1; hops <= 3; hops++)
                ck_assert_msg(ring_ps(n[i], c[j].chunk, c[j].bw, hops * c[j].hop_ps) ==
                                  (n[i] - 1) * (c[j].step_ps + hops * c[j].hop_ps),
                              "n %u, case %zu, %d hops", n[i], j, hops);
}
END_TEST

/* ---- random systems in two forms ---- */

enum { MAX_KINDS = 4, MAX_N = 6, MAX_ACTS = 24 };

struct spec { /* a random system */
    uint32_t n_kinds, n, n_acts;
    double capacity[MAX_KINDS], own[MAX_KINDS][MAX_N]; /* own 0: none */
    struct fluid_activity act[MAX_ACTS];
    int64_t not_before[MAX_ACTS];
    struct fluid_use use[MAX_ACTS][MAX_KINDS];
    struct fluid_amount only[MAX_ACTS][MAX_KINDS][MAX_N];
    uint32_t before[MAX_ACTS]; /* or itself: none */
};

static double any_amount(void)
{
    static const double nice[] = {0, 1, 1, 1, 2, 0.5};

    return rng(3) ? nice[rng(6)] : 0.001 * (1 + rng(3000));
}

static void spec_use(struct spec *s, uint32_t a, uint32_t u, uint32_t kind, bool plain)
{
    struct fluid_use *use = &s->use[a][u];
    uint32_t i;

    *use = (struct fluid_use){.kind = kind, .only = s->only[a][u]};
    use->every = rng(2) ? any_amount() : 0;
    for (i = 0; i < s->n; i++)
        if (rng(plain ? 6 : 3) == 0)
            s->only[a][u][use->n_only++] = (struct fluid_amount){i, any_amount()};
}

static void spec_random(struct spec *s)
{
    uint32_t k, i, a;

    memset(s, 0, sizeof(*s));
    s->n_kinds = 1 + rng(MAX_KINDS);
    s->n = 1 + rng(MAX_N);
    s->n_acts = 1 + rng(MAX_ACTS);
    for (k = 0; k < s->n_kinds; k++) {
        s->capacity[k] = rng(2) ? 1 : 0.01 * (1 + rng(500));
        for (i = 0; i < s->n; i++)
            s->own[k][i] = rng(5) ? 0 : 0.01 * (1 + rng(500));
    }
    for (a = 0; a < s->n_acts; a++) {
        s->act[a].work = rng(10) ? 1 + rng(1000000) : 0;
        s->act[a].latency_ps = rng(3) ? 0 : rng(100000);
        s->act[a].cap = rng(4) ? 0 : 0.001 * (1 + rng(500));
        s->act[a].weight = rng(4) ? 0 : 0.1 * (1 + rng(50));
        s->not_before[a] = rng(2) ? 0 : rng(1000000);
        s->act[a].uses = s->use[a];
        for (k = 0; k < s->n_kinds; k++)
            if (rng(2))
                spec_use(s, a, s->act[a].n_uses++, k, rng(2));
        s->before[a] = a && rng(2) ? rng(a) : a;
    }
}

/* Every use by `only` on all instances. */
static void spec_unfold(struct spec *s)
{
    uint32_t a, u, i, j;
    struct fluid_amount full[MAX_N];

    for (a = 0; a < s->n_acts; a++)
        for (u = 0; u < s->act[a].n_uses; u++) {
            for (i = j = 0; i < s->n; i++) {
                full[i] = (struct fluid_amount){i, s->use[a][u].every};
                if (j < s->use[a][u].n_only && s->only[a][u][j].instance == i)
                    full[i] = s->only[a][u][j++];
            }
            memcpy(s->only[a][u], full, sizeof(full));
            s->use[a][u].n_only = s->n;
            s->use[a][u].every = 0;
        }
}

/* Instances in another order. */
static void spec_relabel(struct spec *s)
{
    uint32_t perm[MAX_N], a, u, k, i, j;
    struct fluid_amount t;
    double own[MAX_N];

    for (i = 0; i < s->n; i++) {
        j = rng(i + 1);
        perm[i] = perm[j];
        perm[j] = i;
    }
    for (k = 0; k < s->n_kinds; k++) {
        memcpy(own, s->own[k], sizeof(own));
        for (i = 0; i < s->n; i++)
            s->own[k][perm[i]] = own[i];
    }
    for (a = 0; a < s->n_acts; a++)
        for (u = 0; u < s->act[a].n_uses; u++)
            for (i = 0; i < s->use[a][u].n_only; i++) {
                t = s->only[a][u][i];
                t.instance = perm[t.instance];
                for (j = i; j > 0 && s->only[a][u][j - 1].instance > t.instance; j--)
                    s->only[a][u][j] = s->only[a][u][j - 1];
                s->only[a][u][j] = t;
            }
}

static struct fluid *spec_build(const struct spec *s)
{
    struct fluid *f = fluid_new();
    uint32_t k, i, a;

    for (k = 0; k < s->n_kinds; k++) {
        fluid_kind(f, "kind", s->n, s->capacity[k]);
        for (i = 0; i < s->n; i++)
            if (s->own[k][i] > 0)
                fluid_capacity(f, k, i, s->own[k][i]);
    }
    for (a = 0; a < s->n_acts; a++)
        fluid_add(f, &s->act[a], s->not_before[a]);
    for (a = 0; a < s->n_acts; a++)
        if (s->before[a] != a)
            fluid_after(f, a, s->before[a]);
    return f;
}

static void ck_same_ends(const struct spec *s, const struct spec *t, uint32_t seed)
{
    struct fluid *f = spec_build(s), *g = spec_build(t);
    uint32_t a;

    run(f);
    run(g);
    for (a = 0; a < s->n_acts; a++)
        ck_assert_msg(fluid_end_ps(f, a) == fluid_end_ps(g, a),
                      "seed %u: activity %u ends at %lld or %lld", seed, a,
                      (long long)fluid_end_ps(f, a), (long long)fluid_end_ps(g, a));
    fluid_free(f);
    fluid_free(g);
}

enum { SEEDS = 3000 };
static struct spec spec_a, spec_b;

START_TEST(every_and_only_for_each_instance_are_the_same)
{
    uint32_t seed;

    for (seed = 1; seed <= SEEDS; seed++) {
        rng_state = seed;
        spec_random(&spec_a);
        spec_b = spec_a;
        for (uint32_t a = 0; a < spec_b.n_acts; a++)
            spec_b.act[a].uses = spec_b.use[a];
        for (uint32_t a = 0; a < spec_b.n_acts; a++)
            for (uint32_t u = 0; u < spec_b.act[a].n_uses; u++)
                spec_b.use[a][u].only = spec_b.only[a][u];
        spec_unfold(&spec_b);
        ck_same_ends(&spec_a, &spec_b, seed);
    }
}
END_TEST

START_TEST(relabelling_instances_changes_nothing)
{
    uint32_t seed, a, u;

    for (seed = 1; seed <= SEEDS; seed++) {
        rng_state = seed;
        spec_random(&spec_a);
        spec_b = spec_a;
        for (a = 0; a < spec_b.n_acts; a++) {
            spec_b.act[a].uses = spec_b.use[a];
            for (u = 0; u < spec_b.act[a].n_uses; u++)
                spec_b.use[a][u].only = spec_b.only[a][u];
        }
        spec_relabel(&spec_b);
        ck_same_ends(&spec_a, &spec_b, seed);
    }
}
END_TEST

START_TEST(two_runs_are_the_same)
{
    for (uint32_t seed = 1; seed <= 100; seed++) {
        rng_state = seed;
        spec_random(&spec_a);
        ck_same_ends(&spec_a, &spec_a, seed);
    }
}
END_TEST

/* used = sum of amount * work, and no instance works above its capacity. */
START_TEST(what_went_through_is_amounts_times_work)
{
    struct fluid *f;
    uint32_t seed, k, i, a, u, j;
    double want, amount, cap;

    for (seed = 1; seed <= 500; seed++) {
        rng_state = seed;
        spec_random(&spec_a);
        f = spec_build(&spec_a);
        run(f);
        for (k = 0; k < spec_a.n_kinds; k++)
            for (i = 0; i < spec_a.n; i++) {
                for (want = 0, a = 0; a < spec_a.n_acts; a++)
                    for (u = 0; u < spec_a.act[a].n_uses; u++) {
                        if (spec_a.use[a][u].kind != k)
                            continue;
                        amount = spec_a.use[a][u].every;
                        for (j = 0; j < spec_a.use[a][u].n_only; j++)
                            if (spec_a.only[a][u][j].instance == i)
                                amount = spec_a.only[a][u][j].amount;
                        want += amount * spec_a.act[a].work;
                    }
                cap = spec_a.own[k][i] > 0 ? spec_a.own[k][i] : spec_a.capacity[k];
                ck_assert_msg(fabs(fluid_used(f, k, i) - want) <= 1e-9 * want + 1e-6, "seed %u",
                              seed);
                ck_assert_msg(want <= cap * (double)fluid_makespan_ps(f) * (1 + 1e-9) + 1e-3,
                              "seed %u", seed);
            }
        fluid_free(f);
    }
}
END_TEST

/* One activity with `every` on n instances of two kinds, against n activities with one `only` each: a compute step of
 * a folded and an unfolded cluster. Others of the same form share with it. */
START_TEST(one_folded_activity_and_n_unfolded_ones_end_together)
{
    enum { N = 5, A = 6 };
    static struct fluid_amount amount[A][2][N];
    static struct fluid_use folded[A][2], unfolded[A][N][2];
    struct fluid_activity act;
    struct fluid *f, *g;
    uint32_t seed, a, i, k;
    double x, work;
    int64_t t0;

    for (seed = 1; seed <= 1000; seed++) {
        rng_state = seed;
        f = fluid_new();
        g = fluid_new();
        for (k = 0; k < 2; k++) {
            x = 0.01 * (1 + rng(300));
            fluid_kind(f, "kind", N, x);
            fluid_kind(g, "kind", N, x);
        }
        for (a = 0; a < A; a++) {
            for (k = 0; k < 2; k++) {
                x = 0.001 * (1 + rng(3000));
                folded[a][k] = (struct fluid_use){.kind = k, .every = x};
                for (i = 0; i < N; i++) {
                    amount[a][k][i] = (struct fluid_amount){i, x};
                    unfolded[a][i][k] =
                        (struct fluid_use){.kind = k, .n_only = 1, .only = &amount[a][k][i]};
                }
            }
            work = 1 + rng(1000000);
            t0 = rng(2) ? 0 : rng(1000000);
            act = (struct fluid_activity){
                .work = work, .uses = folded[a], .n_uses = 2, .weight = 0.1 * (1 + rng(30))};
            if (rng(2))
                act.cap = 0.001 * (1 + rng(300));
            fluid_add(f, &act, t0);
            for (i = 0; i < N; i++) {
                act.uses = unfolded[a][i];
                fluid_add(g, &act, t0);
            }
        }
        run(f);
        run(g);
        for (a = 0; a < A; a++)
            for (i = 0; i < N; i++)
                ck_assert_msg(fluid_end_ps(f, a) == fluid_end_ps(g, a * N + i), "seed %u: %u", seed,
                              a);
        fluid_free(f);
        fluid_free(g);
    }
}
END_TEST

SUITE_MAIN("sim/fluid", two_flows_over_one_link_share_it, parking_lot, weights_scale_the_share,
           a_cap_leaves_the_rest_to_others, a_cap_without_a_use_holds,
           latency_delays_the_first_unit, zero_work_is_done_after_its_latency,
           work_that_nothing_holds_takes_no_time, an_empty_run_ends_at_zero,
           successors_wait_for_the_last_predecessor,
           of_predecessors_that_end_together_the_lowest_is_the_last, a_circle_is_refused_by_name,
           an_activity_that_waits_for_itself_is_refused,
           a_used_instance_of_capacity_zero_is_refused, a_time_beyond_the_clock_is_refused,
           a_collective_is_held_by_its_worst_instance,
           an_instance_with_its_own_capacity_holds_a_collective, a_kind_may_be_singled_out_entirely,
           an_undisturbed_activity_ends_to_the_picosecond,
           a_ring_takes_n_minus_1_steps_to_the_picosecond,
           every_and_only_for_each_instance_are_the_same, relabelling_instances_changes_nothing,
           two_runs_are_the_same, what_went_through_is_amounts_times_work,
           one_folded_activity_and_n_unfolded_ones_end_together)
