/* The optimizers, one row each (docs/MODEL.md, "Optimizer"). */
#include "model/plan/optimizers.h"

#include "core/num.h"

enum {
    SHAMPOO_MAX_DIM = 8192, /* max_preconditioner_dim: larger sides are cut into blocks */
    SOAP_MAX_DIM = 10000,   /* larger sides keep no preconditioner */
    REFRESH_STEPS = 10,     /* roots and bases are renewed every 10 steps; costs are averaged */
    EIGEN_FLOPS = 9,        /* symmetric eigendecomposition with vectors, per n^3 */
};

#define STRATEGY_BIT(s) (1u << (s))
#define WHOLE_STRATEGIES                                                                           \
    (STRATEGY_BIT(STRATEGY_GATHER) | STRATEGY_BIT(STRATEGY_GATHER_ONCE) |                          \
     STRATEGY_BIT(STRATEGY_OWNER))
#define ALL_STRATEGIES                                                                             \
    (WHOLE_STRATEGIES | STRATEGY_BIT(STRATEGY_STOCK) | STRATEGY_BIT(STRATEGY_ALLTOALL))

/* ---- elementwise ---- */

/* Fused: p, m and v read and written, g read. Without fusion it is 8 operations
 * (layouts/optimizer_tail.c). */
static const struct optimizer_row adamw = {
    .name = "adamw",
    .line = "elementwise: two moments (arXiv 1711.05101)",
    .each = {.kernel = KERNEL_ADAMW,
             .states = 2,
             .flops = 12,
             .bytes = {.param = 2, .grad = 1, .state = 4},
             .operations = 8},
    .exec = true,
};

/* c = b1 m + (1-b1) g: 3; its sign: 1; p -= lr (sign + decay p): 4; m = b2 m + (1-b2) g: 3. One
 * fused kernel: p and m read and written, g read. */
static const struct optimizer_row lion = {
    .name = "lion",
    .line = "elementwise: the sign of one moment (arXiv 2302.06675)",
    .each = {.kernel = KERNEL_LION,
             .states = 1,
             .flops = 11,
             .bytes = {.param = 2, .grad = 1, .state = 2}},
};

/* ---- Newton-Schulz ---- */

/* X X^T (2 m^2 n), A A (2 m^3) and B X (2 m^2 n) in each step; m <= n. */
static double newton_schulz_flops(uint32_t ns_steps, uint64_t rows, uint64_t cols)
{
    double m = (double)num_min(rows, cols), n = (double)num_max(rows, cols);

    return ns_steps * (4 * m * m * n + 2 * m * m * m);
}

/* bf16: X (m x n), A and B (m x m), of each matrix of a batch. */
static uint64_t newton_schulz_workspace(uint64_t m, uint64_t n, uint64_t batch)
{
    return dtype_bytes(DTYPE_BF16, batch * (2 * m * m + m * n));
}

static uint64_t muon_states(uint64_t rows, uint64_t cols)
{
    return rows * cols;
}

static const struct optimizer_row muon = {
    .name = "muon",
    .line = "momentum, orthogonalized by Newton-Schulz (arXiv 2502.16982)",
    .matrices = true,
    .start = START_MOMENTUM,
    .states = STATES_BY_ROWS,
    .strategies = ALL_STRATEGIES,
    .sharded = STRATEGY_STOCK,
    .newton_schulz = true,
    .flops = newton_schulz_flops,
    .state_elements = muon_states,
    .workspace = newton_schulz_workspace,
    .products = KERNEL_NEWTON_SCHULZ,
    .products_sharded = KERNEL_NEWTON_SCHULZ_SHARDED,
    .launches = 4,
    .launches_a_step = 3,
    .momentum = {.grad = 1, .state = 2, .fixed = 2},
    .update = {.param = 2, .fixed = 2},
    .exec = true,
};

/* Muon's products, then O's rows divided by the roots of their second moments. An element: mean
 * of squares 2, division 1, the result's norm 2. A row: its moment's average 3, root 1, epsilon
 * 1. */
static double normuon_flops(uint32_t ns_steps, uint64_t rows, uint64_t cols)
{
    return newton_schulz_flops(ns_steps, rows, cols) + 5 * (double)rows * ((double)cols + 1);
}

/* The momentum, and a second moment of each row: of each output, where matrices are stored as
 * (outputs, inputs). */
static uint64_t normuon_states(uint64_t rows, uint64_t cols)
{
    return rows * cols + rows;
}

/* A row fits into a block, so that it is read and written once. Where ranks hold rows, each
 * scales by the norm of its own, as the authors' code for FSDP2 does (microsoft/dion): nothing
 * is sent. */
static const struct optimizer_row normuon = {
    .name = "normuon",
    .line = "muon, and a second moment a row (arXiv 2510.05491)",
    .matrices = true,
    .start = START_MOMENTUM,
    .states = STATES_BY_ROWS,
    .strategies = ALL_STRATEGIES,
    .sharded = STRATEGY_STOCK,
    .newton_schulz = true,
    .flops = normuon_flops,
    .state_elements = normuon_states,
    .workspace = newton_schulz_workspace,
    .products = KERNEL_NEWTON_SCHULZ,
    .products_sharded = KERNEL_NEWTON_SCHULZ_SHARDED,
    .launches = 4,
    .launches_a_step = 3,
    .momentum = {.grad = 1, .state = 2, .fixed = 2},
    .normalize = KERNEL_ROW_NORMALIZE,
    .normalize_bytes = {.fixed = 4},
    .normalize_row = {.state = 2},
    .update = {.param = 2, .fixed = 2},
};

/* ---- preconditioners ---- */

/* Sum over blocks of a side of length n of block^3 (cubic work) or block^2. */
static double block_sum(uint64_t n, uint64_t max, int power)
{
    double full = (double)(n / max), rest = (double)(n % max), b = (double)max;

    return power == 2 ? full * b * b + rest * rest : full * b * b * b + rest * rest * rest;
}

/* An update, a scratch matrix of its shape and two scratch matrices of the largest
 * preconditioner, in fp32. */
static uint64_t preconditioned_workspace(uint64_t m, uint64_t n, uint64_t side)
{
    return dtype_bytes(DTYPE_FP32, 2 * m * n + 2 * side * side);
}

static double shampoo_flops(uint32_t ns_steps, uint64_t rows, uint64_t cols)
{
    uint64_t m = num_min(rows, cols), n = num_max(rows, cols);
    double dm = (double)m, dn = (double)n, bm = m < SHAMPOO_MAX_DIM ? dm : SHAMPOO_MAX_DIM,
           bn = n < SHAMPOO_MAX_DIM ? dn : SHAMPOO_MAX_DIM;

    (void)ns_steps;
    return 4 * bm * dm * dn + 4 * dm * dn * bn +
           EIGEN_FLOPS *
               (block_sum(m, SHAMPOO_MAX_DIM, 3) * (double)num_ceil_div(n, SHAMPOO_MAX_DIM) +
                block_sum(n, SHAMPOO_MAX_DIM, 3) * (double)num_ceil_div(m, SHAMPOO_MAX_DIM)) /
               REFRESH_STEPS;
}

static uint64_t shampoo_states(uint64_t rows, uint64_t cols)
{
    uint64_t m = num_min(rows, cols), n = num_max(rows, cols);

    return optimizer_whole(
               2 * block_sum(m, SHAMPOO_MAX_DIM, 2) * (double)num_ceil_div(n, SHAMPOO_MAX_DIM) +
               2 * block_sum(n, SHAMPOO_MAX_DIM, 2) * (double)num_ceil_div(m, SHAMPOO_MAX_DIM)) +
           2 * rows * cols;
}

/* A side beyond SHAMPOO_MAX_DIM has blocks of that length. */
static uint64_t shampoo_workspace(uint64_t m, uint64_t n, uint64_t batch)
{
    (void)batch; /* one by one */
    return preconditioned_workspace(m, n, num_min(num_max(m, n), SHAMPOO_MAX_DIM));
}

static const struct optimizer_row shampoo = {
    .name = "shampoo",
    .line = "a preconditioner a side, roots every 10 steps (arXiv 1802.09568)",
    .matrices = true,
    .start = START_GRADIENT,
    .states = STATES_WHOLE,
    .strategies = WHOLE_STRATEGIES,
    .sharded = STRATEGY_GATHER,
    .flops = shampoo_flops,
    .state_elements = shampoo_states,
    .workspace = shampoo_workspace,
    .products = KERNEL_SHAMPOO,
    .launches = 16,
    .product_bytes = {.grad = 1, .state = 4, .fixed = 4},
    .update = {.param = 2, .fixed = 4},
    .exec = true,
};

static double soap_flops(uint32_t ns_steps, uint64_t rows, uint64_t cols)
{
    uint64_t m = num_min(rows, cols), n = num_max(rows, cols);
    double dm = (double)m, dn = (double)n, bm = m <= SOAP_MAX_DIM ? dm : 0,
           bn = n <= SOAP_MAX_DIM ? dn : 0;

    (void)ns_steps;
    return 6 * bm * dm * dn + 6 * dm * dn * bn +
           (4 + 2 + 8.0 / 3) * (bm * bm * bm + bn * bn * bn) / REFRESH_STEPS;
}

/* A side beyond SOAP_MAX_DIM keeps no preconditioner. */
static uint64_t soap_states(uint64_t rows, uint64_t cols)
{
    uint64_t m = num_min(rows, cols), n = num_max(rows, cols);
    double elements = 0;

    if (m <= SOAP_MAX_DIM)
        elements += 2.0 * (double)m * (double)m + (double)m;
    if (n <= SOAP_MAX_DIM)
        elements += 2.0 * (double)n * (double)n + (double)n;
    return optimizer_whole(elements) + 2 * rows * cols;
}

static uint64_t soap_workspace(uint64_t m, uint64_t n, uint64_t batch)
{
    (void)batch; /* one by one */
    return preconditioned_workspace(m, n,
                                    num_max(m <= SOAP_MAX_DIM ? m : 0, n <= SOAP_MAX_DIM ? n : 0));
}

static const struct optimizer_row soap = {
    .name = "soap",
    .line = "Adam in Shampoo's bases (arXiv 2409.11321)",
    .matrices = true,
    .start = START_GRADIENT,
    .states = STATES_WHOLE,
    .strategies = WHOLE_STRATEGIES,
    .sharded = STRATEGY_GATHER,
    .flops = soap_flops,
    .state_elements = soap_states,
    .workspace = soap_workspace,
    .products = KERNEL_SOAP,
    .launches = 16,
    .product_bytes = {.grad = 1, .state = 4, .fixed = 4},
    .update = {.param = 2, .fixed = 4},
    .exec = true,
};

/* ---- reading rows ---- */

const char *const optimizer_names[] = {
#define X(o, row) #row,
    OPTIMIZERS(X)
#undef X
        NULL};

static const struct optimizer_row *const rows[OPTIMIZER_N] = {
#define X(o, row) [o] = &row,
    OPTIMIZERS(X)
#undef X
};

const struct optimizer_row *optimizer_row(enum optimizer o)
{
    BUG_ON((unsigned)o >= OPTIMIZER_N);
    return rows[o];
}
