/* tests/cuda/emulate_mma.h - what kernels/cuda_mma.cuh has in PTX, as the PTX manual describes it: which lane holds which element of
 * the operands of mma.sync.m16n8k16 and ldmatrix. Included by emulate.h. Products are summed one by one in fp32.
 */
#ifndef BALLAST_TESTS_CUDA_EMULATE_MMA_H
#define BALLAST_TESTS_CUDA_EMULATE_MMA_H

#include "tests/cuda/emulate.h"

/* One of the two halves of a register. */
static inline float emulate_bf16(unsigned pair, unsigned which)
{
    return __uint_as_float((which ? pair >> 16 : pair & 0xffff) << 16);
}

static inline float emulate_fp16(unsigned pair, unsigned which)
{
    unsigned h = which ? pair >> 16 : pair & 0xffff, e = h >> 10 & 31, m = h & 0x3ff;
    float x =
        e == 31 ? (m ? NAN : INFINITY) : ldexpf((float)(e ? m + 1024 : m), (int)(e ? e : 1) - 25);

    return h & 0x8000 ? -x : x;
}

struct emulate_product {
    float (*half)(unsigned pair, unsigned which);
    const unsigned *a, *b;
    float *d;
};

static inline void emulate_multiply(const void *const operands[32])
{
    float a[16][16], b[16][8];

    for (unsigned lane = 0; lane < 32; lane++) {
        const emulate_product *p = static_cast<const emulate_product *>(operands[lane]);
        unsigned g = lane / 4, t = lane % 4;

        for (unsigned i = 0; i < 8; i++) { /* a0 .. a7 of the manual */
            unsigned row = i % 4 < 2 ? g : g + 8, col = t * 2 + (i & 1) + (i < 4 ? 0 : 8);

            a[row][col] = p->half(p->a[i / 2], i & 1);
        }
        for (unsigned i = 0; i < 4; i++)
            b[t * 2 + (i & 1) + (i < 2 ? 0 : 8)][g] = p->half(p->b[i / 2], i & 1);
    }
    for (unsigned lane = 0; lane < 32; lane++) {
        const emulate_product *p = static_cast<const emulate_product *>(operands[lane]);

        for (unsigned i = 0; i < 4; i++) {
            unsigned row = lane / 4 + (i < 2 ? 0 : 8), col = lane % 4 * 2 + (i & 1);

            for (unsigned k = 0; k < 16; k++)
                p->d[i] += a[row][k] * b[k][col];
        }
    }
}

#define mma_bf16(d, a, b) emulate_mma(emulate_bf16, d, a, b, __FILE__, __LINE__)
#define mma_fp16(d, a, b) emulate_mma(emulate_fp16, d, a, b, __FILE__, __LINE__)
static inline void emulate_mma(float (*half)(unsigned, unsigned), float d[4], const unsigned a[4],
                               const unsigned b[2], const char *file, int line)
{
    emulate_product p = {half, a, b, d};
    emulate_exchange x = {};

    x.operands = &p;
    x.work = emulate_multiply;
    emulate_wait(EMULATE_MATRICES, 0xffffffffu, &x, file, line);
}

struct emulate_rows {
    const void *row; /* that this lane names */
    unsigned *r;
    bool transposed;
};

static inline unsigned emulate_half(const void *const operands[32], unsigned matrix, unsigned row,
                                    unsigned col)
{
    const emulate_rows *from = static_cast<const emulate_rows *>(operands[8 * matrix + row]);

    return static_cast<const uint16_t *>(from->row)[col];
}

static inline void emulate_gather(const void *const operands[32])
{
    for (unsigned lane = 0; lane < 32; lane++) {
        const emulate_rows *p = static_cast<const emulate_rows *>(operands[lane]);
        unsigned g = lane / 4, t = lane % 4;

        if ((uintptr_t)p->row % 16)
            emulate_fail("ldmatrix of a row that is not aligned");
        for (unsigned m = 0; m < 4; m++)
            p->r[m] = p->transposed ? emulate_half(operands, m, 2 * t, g) |
                                          emulate_half(operands, m, 2 * t + 1, g) << 16
                                    : emulate_half(operands, m, g, 2 * t) |
                                          emulate_half(operands, m, g, 2 * t + 1) << 16;
    }
}

static inline void emulate_load(unsigned r[4], const void *row, bool transposed, const char *file,
                                int line)
{
    emulate_rows p = {row, r, transposed};
    emulate_exchange x = {};

    x.operands = &p;
    x.work = emulate_gather;
    emulate_wait(EMULATE_MATRICES, 0xffffffffu, &x, file, line);
}
#define load_matrices(r, row)            emulate_load(r, row, false, __FILE__, __LINE__)
#define load_matrices_transposed(r, row) emulate_load(r, row, true, __FILE__, __LINE__)

static inline void copy_async(void *to, const void *from)
{
    emulate_copy_async(to, from, 16);
}

static inline void copy_commit()
{
    emulate_copy_commit();
}

template <int N> static inline void copy_wait()
{
    emulate_copy_wait(N);
}

#endif
