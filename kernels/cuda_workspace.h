/* kernels/cuda_workspace.h - how kernels on a GPU split their sums, and what lies where in their workspaces; for kernels/cuda_*
 * alone. A sum is cut into parts by its length and nothing else: the same on every GPU, so the bits are too.
 */
#ifndef BALLAST_KERNELS_CUDA_WORKSPACE_H
#define BALLAST_KERNELS_CUDA_WORKSPACE_H

#include "kernels/functions.h"

enum {
    CUDA_PART = 8192,          /* elements of a part of a sum, when there are few */
    CUDA_MAX_PARTS = 1024,     /* of a sum over elements */
    CUDA_ROWS_PART = 32,       /* rows of a part of a sum over rows, when there are few */
    CUDA_MAX_ROW_PARTS = 256,  /* of a sum over rows */
    CUDA_CHOICES_CHUNK = 1024, /* choices of experts that one block puts into order */
};

static inline size_t cuda_least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t cuda_ceil(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

/* Where the next thing may lie. */
static inline size_t cuda_round(size_t bytes)
{
    return cuda_ceil(bytes, 256) * 256;
}

static inline size_t cuda_parts(size_t n)
{
    return cuda_least(cuda_ceil(n, CUDA_PART), CUDA_MAX_PARTS);
}

/* Its rows are filled up to packs of 8: at least as many parts as of a sum over the same elements without gaps. */
static inline size_t cuda_moments_parts(size_t rows, size_t cols)
{
    return cuda_parts(rows * cuda_ceil(cols, 8) * 8);
}

static inline size_t cuda_row_parts(size_t rows)
{
    return cuda_least(cuda_ceil(rows, CUDA_ROWS_PART), CUDA_MAX_ROW_PARTS);
}

static inline size_t cuda_choice_chunks(size_t n)
{
    return cuda_ceil(n, CUDA_CHOICES_CHUNK);
}

/* Offsets in bytes. Of Shampoo, for its largest block; d is the longer side. */
struct cuda_shampoo_room {
    size_t g, m, t;      /* (r,c) */
    size_t p, q, values; /* (d,d), (d,d), (d) */
    size_t adam;         /* one double */
    size_t inner;        /* the workspace of the kernels that it launches */
    size_t bytes;
};
struct cuda_shampoo_room cuda_shampoo_room(const struct kernel_shampoo *a);

/* Of SOAP; d is the longest side that has a basis, 1 if none has. */
struct cuda_soap_room {
    size_t g, m, v, x, t;         /* (rows, cols) */
    size_t l, q, p;               /* (d,d) */
    size_t values, sorted, place; /* (d) */
    size_t bytes;
};
struct cuda_soap_room cuda_soap_room(const struct kernel_soap *a);

#endif
