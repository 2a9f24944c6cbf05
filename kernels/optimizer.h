/* kernels/optimizer.h - the matrix algebra of Muon, Shampoo and SOAP, for one matrix on one rank.
 *
 * A step of a matrix (rows, cols) is: momentum (Muon only: kernel_momentum), the algebra here, which leaves an fp32 update
 * (rows, cols), and kernel_matrix_update, which applies it with learning rate and decay. All products go through
 * on->gemm, so a step is as deterministic as that is; the rest has one order. Rank-deficient and zero matrices give
 * finite updates, the zero matrix a zero one.
 *
 * Hyper-parameters come in structs with the usual values in KERNEL_*_DEFAULTS.
 */
#ifndef BALLAST_KERNELS_OPTIMIZER_H
#define BALLAST_KERNELS_OPTIMIZER_H

#include "kernels/kernels.h"

/* ---- Muon: Newton-Schulz (Jordan et al., 2024) ---- */

enum kernel_ns_form {
    KERNEL_NS_STANDARD, /* per step A = X X^T, X = a X + (b A + c A A) X */
    KERNEL_NS_GRAM, /* the same on G = X X^T alone: P = a I + b G + c G G, Q = P Q, G = P G P; X = Q X at the end */
};

/* Towards the nearest semi-orthogonal matrix: every singular value s, after X / max(|X|_F, eps), goes through
 * a s + b s^3 + c s^5 `steps` times. Works on the smaller side, whichever that is. */
struct kernel_ns_hyper {
    uint32_t steps;
    float a, b, c, eps;
    enum kernel_ns_form form;
    uint32_t
        restart; /* Gram: take G from X again every so many steps; 0: never. Rounding in G grows about tenfold a
                        * step where X has nothing: beyond 6 steps, restart */
    enum dtype stored; /* products are rounded to it, as a device in bf16 does; fp32: not at all */
};
#define KERNEL_NS_DEFAULTS                                                                         \
    {                                                                                              \
        .steps = 5, .a = 3.4445f, .b = -4.7750f, .c = 2.0315f, .eps = 1e-7f,                       \
        .form = KERNEL_NS_STANDARD, .restart = 0, .stored = DTYPE_FP32                             \
    }

struct kernel_newton_schulz {
    size_t rows, cols;
    struct kernel_ns_hyper hyper;
    float *x;            /* (rows, cols), in and out */
    const double *norm2; /* |x|^2 where momentum has left it, or NULL */
};
size_t kernel_newton_schulz_workspace(size_t rows, size_t cols);
void kernel_newton_schulz(const struct kernel_on *on, const struct kernel_newton_schulz *a);

/* The same on a matrix as it is stored. */
struct kernel_orthogonalize {
    size_t rows, cols;
    struct kernel_ns_hyper hyper;
    enum dtype type;
    void *matrix;        /* (rows, cols), in and out */
    const double *norm2; /* |matrix|^2 where momentum has left it, or NULL */
};
size_t kernel_orthogonalize_workspace(size_t rows, size_t cols);
void kernel_orthogonalize(const struct kernel_on *on, const struct kernel_orthogonalize *a);

/* SPECTRAL: sqrt(max(1, rows/cols)) (Jordan). RMS: 0.2 sqrt(max(rows, cols)), the size of an AdamW step (Moonlight). */
enum kernel_muon_scaling { KERNEL_MUON_SPECTRAL, KERNEL_MUON_RMS };
float kernel_muon_scale(enum kernel_muon_scaling s, size_t rows, size_t cols);

/* ---- Shampoo ---- */

/* Shampoo with a grafted step size (Gupta et al., 2018; Anil et al., 2020; Shi et al., 2023), on blocks of at most max_dim:
 *   m = b1 m + (1-b1) g, v = b2 v + (1-b2) g^2, L = b2 L + (1-b2) g g^T, R = b2 R + (1-b2) g^T g
 *   every `frequency` steps, from the first: L' = (L/(1-b2^t) + ridge l I)^(-1/4), l its largest eigenvalue; R' alike;
 *   I where l is 0
 *   update = L' m/(1-b1^t) R'; with `graft` scaled to the norm of Adam's m/(1-b1^t) / (sqrt(v/(1-b2^t)) + eps), a block */
struct kernel_shampoo_hyper {
    float beta1, beta2, eps, ridge;
    uint32_t frequency;
    size_t max_dim;
    bool graft;
};
#define KERNEL_SHAMPOO_DEFAULTS                                                                    \
    {                                                                                              \
        .beta1 = 0.9f, .beta2 = 0.999f, .eps = 1e-8f, .ridge = 1e-6f, .frequency = 10,             \
        .max_dim = 8192, .graft = true                                                             \
    }

struct kernel_shampoo {
    size_t rows, cols;
    struct kernel_shampoo_hyper hyper;
    uint64_t step; /* 1 for the first */
    enum dtype grad_type, state_type;
    float grad_scale;
    const void *grad; /* (rows, cols) */
    void *
        state; /* kernel_shampoo_state() elements, zero before the first step: m, v, then L, R, L', R' a block */
    float *update; /* (rows, cols), written */
};
size_t kernel_shampoo_state(size_t rows, size_t cols, const struct kernel_shampoo_hyper *h);
size_t kernel_shampoo_workspace(size_t rows, size_t cols, const struct kernel_shampoo_hyper *h);
void kernel_shampoo(const struct kernel_on *on, const struct kernel_shampoo *a);

/* ---- SOAP ---- */

/* Adam in the eigenbasis of Shampoo's preconditioners (Vyas et al., 2024). First step: L, R from g, QL, QR their
 * eigenvectors; with skip_first (as the authors do) no update, and t below counts from the second. Then:
 *   m = b1 m + (1-b1) g, v = b2 v + (1-b2) (QL^T g QR)^2
 *   update = QL (QL^T m QR / (sqrt(v) + eps)) QR^T * sqrt(1-b2^t) / (1-b1^t)
 *   L = bs L + (1-bs) g g^T, R alike (not in the first step again)
 *   every `frequency` t: columns of QL by descending diag(QL^T L QL), v's rows with them, QL = qr(L QL); QR alike
 * A side longer than max_dim keeps its axes. */
struct kernel_soap_hyper {
    float beta1, beta2, beta_shampoo, eps;
    uint32_t frequency;
    size_t max_dim;
    bool skip_first;
};
#define KERNEL_SOAP_DEFAULTS                                                                       \
    {                                                                                              \
        .beta1 = 0.95f, .beta2 = 0.95f, .beta_shampoo = 0.95f, .eps = 1e-8f, .frequency = 10,      \
        .max_dim = 10000, .skip_first = true                                                       \
    }

struct kernel_soap {
    size_t rows, cols;
    struct kernel_soap_hyper hyper;
    uint64_t step; /* 1 for the first */
    enum dtype grad_type, state_type;
    float grad_scale;
    const void *grad; /* (rows, cols) */
    void *
        state; /* kernel_soap_state() elements: m, v, then for rows and for cols: L, QL, eigenvalues */
    float *update; /* (rows, cols), written */
};
size_t kernel_soap_state(size_t rows, size_t cols, const struct kernel_soap_hyper *h);
size_t kernel_soap_workspace(size_t rows, size_t cols, const struct kernel_soap_hyper *h);
void kernel_soap(const struct kernel_on *on, const struct kernel_soap *a);

#endif
