#include "tests/kernels/trial.h"

enum { MOST = 64 };
static struct kernel_choice choices[MOST];
static uint32_t offsets[MOST];

/* ---- route; s: tokens, experts, active, normalize. The weights are the output. ---- */

static struct kernel_route route_args(struct trial *t)
{
    return (struct kernel_route){.tokens = t->s[0],
                                 .n_experts = t->s[1],
                                 .n_active = t->s[2],
                                 .normalize = t->s[3],
                                 .logits = t->in[0].p,
                                 .choices = choices,
                                 .offsets = offsets,
                                 .d_choices = t->d_out,
                                 .d_logits = t->in[0].grad};
}

static void route_forward(struct trial *t)
{
    struct kernel_route a = route_args(t);
    float *w = t->out.p;

    kernel_route(&t->on, &a);
    for (size_t i = 0; i < t->out.n; i++)
        w[i] = choices[i].weight;
}

static void route_backward(struct trial *t)
{
    struct kernel_route a = route_args(t);

    kernel_route_backward(&t->on, &a);
}

/* How many of a row are ahead of expert e: that is its place. */
static size_t place_of(const double *x, size_t n, size_t e)
{
    size_t ahead = 0;

    for (size_t i = 0; i < n; i++)
        ahead += x[i] > x[e] || (x[i] == x[e] && i < e);
    return ahead;
}

static void route_naive(const struct trial *t, double *const *x, double *out)
{
    size_t n = t->s[1], active = t->s[2];

    for (size_t tok = 0; tok < t->s[0]; tok++) {
        const double *v = x[0] + tok * n;
        double below = 0;

        for (size_t i = 0; i < n; i++)
            below += !t->s[3] || place_of(v, n, i) < active ? exp(v[i]) : 0;
        for (size_t i = 0; i < n; i++)
            if (place_of(v, n, i) < active)
                out[tok * active + place_of(v, n, i)] = exp(v[i]) / below;
    }
}

START_TEST(routes_weigh_the_largest_and_sort_by_expert)
{
    FOR_TRIALS(i, 10)
    {
        struct trial t = trial_new("route", (uint64_t)i, trial_type(i));
        uint64_t s = t.seed + 77;

        t.s[0] = rng_size(&s, 1, 8);
        t.s[1] = rng_size(&s, 1, 7);
        t.s[2] = rng_size(&s, 1, t.s[1] < 4 ? t.s[1] : 4);
        t.s[3] = (size_t)i / 3 % 2;
        trial_in(&t, "logits", t.s[0] * t.s[1], t.on.act, -2, 2);
        trial_out(&t, t.s[0] * t.s[2], DTYPE_FP32);
        t.on.workspace_bytes = kernel_route_workspace(t.s[0], t.s[1], t.s[2]);
        t.forward = route_forward;
        /* 16-bit logits may tie: both sides take the lower index, but there is no slope */
        t.backward = t.on.act == DTYPE_FP32 ? route_backward : NULL;
        t.naive = route_naive;
        trial_run(&t);
    }
}
END_TEST

/* Slots: expert by expert, in each the tokens in order. */
START_TEST(slots_are_a_permutation_in_expert_order)
{
    FOR_TRIALS(i, 6)
    {
        uint64_t s = (uint64_t)i;
        enum dtype d = trial_type(i);
        size_t tokens = rng_size(&s, 1, 9), n = rng_size(&s, 2, 6), active = rng_size(&s, 1, 2);
        double x[MOST];
        char room[1024];
        void *logits = random_array(&s, d, tokens * n, -1, 1, x);
        struct kernel_on on = {.act = d, .workspace = room, .workspace_bytes = sizeof(room)};
        struct kernel_route a = {.tokens = tokens,
                                 .n_experts = n,
                                 .n_active = active,
                                 .logits = logits,
                                 .choices = choices,
                                 .offsets = offsets};
        uint32_t slot = 0;

        kernel_route(&on, &a);
        for (size_t e = 0; e < n; e++) {
            ck_assert_uint_eq(offsets[e], slot);
            for (size_t t = 0; t < tokens; t++) {
                size_t k = place_of(x + t * n, n, e);

                if (k < active)
                    MUST(choices[t * active + k].slot == slot++, "token %zu, seed %d", t, i);
            }
        }
        ck_assert_uint_eq(offsets[n], tokens * active);
        mem_free(logits);
    }
}
END_TEST

/* ---- dispatch and combine; s: tokens, hidden, active ---- */

static struct kernel_exchange exchange_args(struct trial *t)
{
    return (struct kernel_exchange){.tokens = t->s[0],
                                    .hidden = t->s[1],
                                    .n_active = t->s[2],
                                    .choices = choices,
                                    .in = t->in[0].p,
                                    .out = t->out.p,
                                    .d_out = t->d_out,
                                    .d_in = t->in[0].grad};
}

static void dispatch_forward(struct trial *t)
{
    struct kernel_exchange a = exchange_args(t);

    kernel_dispatch(&t->on, &a);
}

static void dispatch_backward(struct trial *t)
{
    struct kernel_exchange a = exchange_args(t);

    kernel_dispatch_backward(&t->on, &a);
}

static void dispatch_naive(const struct trial *t, double *const *x, double *out)
{
    for (size_t i = 0; i < t->s[0] * t->s[2]; i++)
        for (size_t c = 0; c < t->s[1]; c++)
            out[choices[i].slot * t->s[1] + c] = x[0][i / t->s[2] * t->s[1] + c];
}

/* The weights are an input with a gradient of its own. */
static void combine_forward(struct trial *t)
{
    struct kernel_exchange a = exchange_args(t);

    for (size_t i = 0; i < t->in[1].n; i++)
        choices[i].weight = value_at(DTYPE_FP32, t->in[1].p, i);
    kernel_combine(&t->on, &a);
}

static void combine_backward(struct trial *t)
{
    struct kernel_exchange a = exchange_args(t);

    a.d_choices = t->in[1].grad;
    kernel_combine_backward(&t->on, &a);
}

static void combine_naive(const struct trial *t, double *const *x, double *out)
{
    for (size_t i = 0; i < t->out.n; i++) {
        size_t token = i / t->s[1];

        out[i] = 0;
        for (size_t k = token * t->s[2]; k < (token + 1) * t->s[2]; k++)
            out[i] += x[1][k] * x[0][choices[k].slot * t->s[1] + i % t->s[1]];
    }
}

static void exchanges(bool combine)
{
    FOR_TRIALS(i, 6)
    {
        struct trial t = trial_new(combine ? "combine" : "dispatch", (uint64_t)i, trial_type(i));
        uint64_t s = t.seed + 13;
        size_t rows;

        t.s[0] = rng_size(&s, 1, 6);
        t.s[1] = i < 3 ? 515 : rng_size(&s, 1, 7);
        t.s[2] = rng_size(&s, 1, 3);
        rows = t.s[0] * t.s[2];
        for (size_t k = 0; k < rows; k++) { /* a random permutation */
            size_t j = rng_size(&s, 0, k);

            choices[k].slot = choices[j].slot;
            choices[j].slot = (uint32_t)k;
        }
        trial_in(&t, "in", (combine ? rows : t.s[0]) * t.s[1], t.on.act, -1, 1);
        if (combine) {
            trial_in(&t, "weights", rows, DTYPE_FP32, 0, 1);
            t.in[0].optional = t.in[1].optional = true;
        }
        trial_out(&t, (combine ? t.s[0] : rows) * t.s[1], t.on.act);
        t.forward = combine ? combine_forward : dispatch_forward;
        t.backward = i < 3 ? NULL : combine ? combine_backward : dispatch_backward;
        t.naive = combine ? combine_naive : dispatch_naive;
        trial_run(&t);
    }
}

START_TEST(dispatch_copies_tokens_to_their_slots)
{
    exchanges(false);
}
END_TEST

START_TEST(combine_weighs_the_slots_of_a_token)
{
    exchanges(true);
}
END_TEST

SUITE_MAIN("kernels/moe", routes_weigh_the_largest_and_sort_by_expert,
           slots_are_a_permutation_in_expert_order, dispatch_copies_tokens_to_their_slots,
           combine_weighs_the_slots_of_a_token)
