/* Instances that are used alike, as one: against a comparison of every two, and whole runs against runs too small to fold. */
#include "sim/fold.h"
#include "tests/suite.h"

#include <string.h>

static uint64_t rng_state;

static uint32_t rng(uint32_t n)
{
    rng_state = rng_state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)((rng_state >> 33) % n);
}

enum { N = 200, LISTS = 6 };

/* Amounts of N instances in LISTS lists, -1: not in it; instances of one pattern out of a few have the same. */
static double amount[LISTS][N], capacity[N];
static struct fluid_amount only[LISTS][N];
static struct fluid_use uses[LISTS];

static void random_lists(void)
{
    double of[12][LISTS];
    uint32_t n_patterns = 2 + rng(10), pattern;

    for (uint32_t p = 0; p < n_patterns; p++)
        for (int l = 0; l < LISTS; l++)
            of[p][l] = (double)rng(4) - 1;
    memset(uses, 0, sizeof(uses));
    for (uint32_t i = 0; i < N; i++) {
        pattern = rng(n_patterns);
        capacity[i] = rng(20) ? 1 : 2;
        for (int l = 0; l < LISTS; l++) {
            amount[l][i] = of[pattern][l];
            if (amount[l][i] >= 0)
                only[l][uses[l].n_only++] = (struct fluid_amount){i, amount[l][i]};
        }
    }
    for (int l = 0; l < LISTS; l++) {
        uses[l].every = 0.5;
        uses[l].only = only[l];
    }
}

static bool alike(uint32_t i, uint32_t j)
{
    for (int l = 0; l < LISTS; l++)
        if (amount[l][i] != amount[l][j])
            return false;
    return capacity[i] == capacity[j];
}

/* Two instances are in one class if and only if they are alike, and a list names each of its classes once. */
START_TEST(one_class_is_what_every_list_has_alike)
{
    const uint32_t n = N;

    for (uint32_t seed = 1; seed <= 200; seed++) {
        struct fold *f = fold_new(&n, 1);
        bool folds = false;

        rng_state = seed;
        random_lists();
        for (uint32_t i = 0; i < N; i++)
            if (capacity[i] > 1)
                fold_capacity(f, 0, i, capacity[i]);
        for (int l = 0; l < LISTS; l++) {
            fold_note(f, &uses[l], 1);
            fold_note(f, &uses[l], 1); /* many activities have the same */
            folds |= uses[l].n_only >= FOLD_LONG;
        }
        fold_close(f);
        ck_assert(folds || fold_n(f, 0) == N);
        for (uint32_t i = 0; i < N && folds; i++)
            for (uint32_t j = 0; j < N; j++)
                MUST((fold_class(f, 0, i) == fold_class(f, 0, j)) == alike(i, j),
                     "seed %u: instances %u and %u", seed, i, j);
        for (int l = 0; l < LISTS && folds; l++) {
            const struct fluid_use *u = fold_uses(f, &uses[l]);
            bool named[N] = {false};

            ck_assert(u->every == 0.5);
            for (uint32_t k = 0; k < u->n_only; k++) {
                ck_assert(u->only[k].instance < fold_n(f, 0));
                ck_assert(k == 0 || u->only[k].instance > u->only[k - 1].instance);
                named[u->only[k].instance] = true;
            }
            for (uint32_t k = 0; k < uses[l].n_only; k++)
                ck_assert(named[fold_class(f, 0, uses[l].only[k].instance)]);
        }
        fold_free(f);
    }
}
END_TEST

/* Random activities over 16 instances, whose lists are too short to fold, and over 16 x `times`: instance i and those of the same
 * remainder alike, with capacities that differ by instance too. */
enum { SMALL = 16, TIMES = 8, ACTIVITIES = 60 };

static void run(uint32_t seed, uint32_t times, int64_t *end_ps, double *used)
{
    static struct fluid_amount list[ACTIVITIES][2][SMALL * TIMES];
    static struct fluid_use use[ACTIVITIES][2];
    struct fluid *f = fluid_new();
    struct err e = {0};

    rng_state = seed;
    for (uint32_t kind = 0; kind < 2; kind++)
        fluid_kind(f, "links", SMALL * times, 0.7);
    for (uint32_t i = 0; i < SMALL * times; i++)
        if (i % SMALL % 5 == 0)
            fluid_capacity(f, 1, i, 0.3);
    for (uint32_t a = 0; a < ACTIVITIES; a++) {
        struct fluid_activity x = {.uses = use[a], .n_uses = 2};

        for (uint32_t kind = 0; kind < 2; kind++) {
            double of[SMALL];
            uint32_t n = 0;

            for (uint32_t i = 0; i < SMALL; i++)
                of[i] = rng(3) ? -1 : 0.1 * (1 + rng(5));
            for (uint32_t i = 0; i < SMALL * times; i++)
                if (of[i % SMALL] > 0)
                    list[a][kind][n++] = (struct fluid_amount){i, of[i % SMALL]};
            use[a][kind] = (struct fluid_use){
                .kind = kind, .every = rng(2) ? 0.2 : 0, .n_only = n, .only = list[a][kind]};
        }
        x.work = 1000 + rng(100000);
        x.cap = rng(2) ? 0.5 : 0;
        x.weight = 1 + rng(3);
        fluid_add(f, &x, rng(100000));
        if (a > 3 && rng(2))
            fluid_after(f, a, a - 1 - rng(3));
    }
    ck_assert_msg(fluid_run(f, &e) == 0, "%s", e.msg);
    for (uint32_t a = 0; a < ACTIVITIES; a++)
        end_ps[a] = fluid_end_ps(f, a);
    for (uint32_t i = 0; i < SMALL; i++)
        used[i] = fluid_used(f, 1, SMALL * (times - 1) + i);
    fluid_free(f);
}

START_TEST(a_folded_run_has_the_bits_of_one_without_repeats)
{
    int64_t once[ACTIVITIES], often[ACTIVITIES];
    double used_once[SMALL], used_often[SMALL];

    for (uint32_t seed = 1; seed <= 300; seed++) {
        run(seed, 1, once, used_once);
        run(seed, TIMES, often, used_often);
        for (uint32_t a = 0; a < ACTIVITIES; a++)
            MUST(once[a] == often[a], "seed %u: activity %u ends at %lld, repeated %lld", seed, a,
                 (long long)once[a], (long long)often[a]);
        ck_assert_mem_eq(used_once, used_often, sizeof(used_once));
    }
}
END_TEST

SUITE_MAIN("sim/fold", one_class_is_what_every_list_has_alike,
           a_folded_run_has_the_bits_of_one_without_repeats)
