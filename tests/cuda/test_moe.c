/* kernels/cuda_moe.cu against kernels/moe.c. Logits are multiples of 1/4, so that equal probabilities occur, and are equal on
 * both sides. */
#include "tests/cuda/both.h"

struct shape {
    size_t tokens, n_experts, n_active, hidden;
};
static const struct shape shapes[] = {
    {1, 1, 1, 1}, {7, 4, 2, 9}, {150, 40, 8, 24}, {9, 300, 3, 17}, {700, 5, 2, 1}};
enum { N_SHAPES = sizeof(shapes) / sizeof(shapes[0]) };

static size_t quarters(struct both *b, enum dtype d, size_t n)
{
    float *x = MEM_NEW(float, n);
    void *p = mem_alloc(n, 4);
    size_t i;

    for (size_t k = 0; k < n; k++)
        x[k] = 0.25f * (float)rng_size(&b->seed, 0, 24);
    dtype_store(d, x, p, n);
    i = both_make(b, BOTH_IN, d, n, p);
    mem_free(x);
    mem_free(p);
    return i;
}

/* Slots have to be the same, weights close. */
static void same_choices(struct both *b, size_t i, size_t n)
{
    struct kernel_choice *cpu = b->array[i].p[0], *device = b->array[i].p[1];

    MUST(!emulate_failure(), "%s", emulate_failure());
    for (size_t k = 0; k < n; k++) {
        MUST(cpu[k].slot == device[k].slot, "choice %zu has slot %u, the CPU's %u", k,
             device[k].slot, cpu[k].slot);
        MUST(fabs((double)cpu[k].weight - (double)device[k].weight) <= 1e-6,
             "weight %zu: %g, the CPU's %g", k, (double)device[k].weight, (double)cpu[k].weight);
        device[k].weight = cpu[k].weight;
    }
}

START_TEST(routes_are_the_cpus)
{
    EVERY_WAY(w, d)
    for (int k = 0; k < 2 * N_SHAPES; k++) {
        struct shape s = shapes[k % N_SHAPES];
        size_t n = s.tokens * s.n_active, logits, choices, offsets, d_choices, d_logits;
        void *nothing = MEM_NEW(char, (n + s.n_experts + 1) * sizeof(struct kernel_choice));
        struct both b;

        both_begin(&b, w, d);
        logits = quarters(&b, d, s.tokens * s.n_experts);
        choices = both_bytes(&b, BOTH_CHANGED, nothing, n * sizeof(struct kernel_choice));
        offsets = both_bytes(&b, BOTH_CHANGED, nothing, (s.n_experts + 1) * sizeof(uint32_t));
        d_choices = both_in(&b, DTYPE_FP32, n, -1, 1);
        d_logits = both_changed(&b, d, s.tokens * s.n_experts, -0.1, 0.1);
        BOTH(&b, route, kernel_route, .tokens = s.tokens, .n_experts = s.n_experts,
             .n_active = s.n_active, .normalize = k < N_SHAPES, .logits = P(logits),
             .choices = P(choices), .offsets = P(offsets));
        same_choices(&b, choices, n);
        BOTH(&b, route_backward, kernel_route, .tokens = s.tokens, .n_experts = s.n_experts,
             .n_active = s.n_active, .normalize = k < N_SHAPES, .logits = P(logits),
             .choices = P(choices), .offsets = P(offsets), .d_choices = P(d_choices),
             .d_logits = P(d_logits));
        both_end(&b, 20);
        mem_free(nothing);
    }
}
END_TEST

START_TEST(logits_that_are_no_numbers_take_experts_in_turn)
{
    enum { TOKENS = 3, EXPERTS = 4, ACTIVE = 2 };
    float logits[TOKENS * EXPERTS];
    struct kernel_choice choices[TOKENS * ACTIVE];
    uint32_t offsets[EXPERTS + 1];
    struct kernel_on on = {.act = DTYPE_FP32};
    const struct kernel_route a = {.tokens = TOKENS,
                                   .n_experts = EXPERTS,
                                   .n_active = ACTIVE,
                                   .logits = logits,
                                   .choices = choices,
                                   .offsets = offsets};

    for (int i = 0; i < TOKENS * EXPERTS; i++)
        logits[i] = NAN;
    on.workspace = mem_alloc(1, cuda_workspace(KERNEL_FN_route, &on, &a));
    emulate_reset(3, 0);
    cuda_route(&on, &a);
    ck_assert_ptr_null(emulate_failure());
    for (int e = 0; e <= EXPERTS; e++)
        ck_assert_uint_eq(offsets[e], e < 2 ? e * TOKENS : 2 * TOKENS);
    mem_free(on.workspace);
}
END_TEST

/* Every slot once, in any order. */
static size_t any_choices(struct both *b, size_t n)
{
    struct kernel_choice *c = MEM_NEW(struct kernel_choice, n);
    size_t i;

    for (size_t k = 0; k < n; k++) {
        size_t j = rng_size(&b->seed, 0, k);

        c[k].slot = c[j].slot;
        c[j].slot = (uint32_t)k;
        c[k].weight = (float)rng_in(&b->seed, 0, 1);
    }
    i = both_bytes(b, BOTH_IN, c, n * sizeof(*c));
    mem_free(c);
    return i;
}

START_TEST(exchanges_are_the_cpus)
{
    EVERY_WAY(w, d)
    for (int k = 0; k < N_SHAPES - 1; k++) {
        struct shape s = shapes[k];
        size_t n = s.tokens * s.n_active, few = s.tokens * s.hidden, many = n * s.hidden, choices,
               x, y;
        size_t sent, back, d_x, d_y, d_choices;
        struct both b;

        both_begin(&b, w, d);
        choices = any_choices(&b, n);
        x = both_in(&b, d, few, -1, 1);
        y = both_in(&b, d, many, -1, 1);
        sent = both_out(&b, d, many);
        back = both_out(&b, d, few);
        d_x = both_changed(&b, d, few, -1, 1);
        d_y = both_changed(&b, d, many, -1, 1);
        d_choices = both_changed(&b, DTYPE_FP32, n, -1, 1);
#define EXCHANGE                                                                                   \
    .tokens = s.tokens, .hidden = s.hidden, .n_active = s.n_active, .choices = P(choices)
        BOTH(&b, dispatch, kernel_exchange, EXCHANGE, .in = P(x), .out = P(sent));
        BOTH(&b, dispatch_backward, kernel_exchange, EXCHANGE, .d_out = P(y), .d_in = P(d_x));
        BOTH(&b, combine, kernel_exchange, EXCHANGE, .in = P(y), .out = P(back));
        BOTH(&b, combine_backward, kernel_exchange, EXCHANGE, .in = P(y), .d_out = P(x),
             .d_in = P(d_y), .d_choices = P(d_choices));
        BOTH(&b, combine_backward, kernel_exchange, EXCHANGE, .in = P(y), .d_out = P(x),
             .d_choices = P(d_choices));
        both_end(&b, 20);
    }
}
END_TEST

SUITE_MAIN("cuda/moe", routes_are_the_cpus, logits_that_are_no_numbers_take_experts_in_turn,
           exchanges_are_the_cpus)
