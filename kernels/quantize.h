/* kernels/quantize.h - block-wise int8 and int4: what optimizer states and gathered weights shrink to (Dettmers et al., 2022, with
 * linear codes in place of their dynamic ones).
 *
 * n elements in blocks of KERNEL_QUANT_BLOCK, the last one shorter. A block has one fp32 scale, absmax / L with L = 127 (int8)
 * or 7 (int4), and an element is the nearest integer to x / scale, ties to even, in [-L, L]: symmetric, zero is exact, and
 * -128 or -8 never occurs. int4 has two in a byte as two's complement, the even element low; an odd n leaves the last high
 * half zero. x comes back as q * scale: off by at most scale/2 and rounding. A block of zeros has scale 0. Where a block has an
 * infinity or NaN its scale is NaN and all of it comes back as NaN: states that went wrong have to show.
 */
#ifndef BALLAST_KERNELS_QUANTIZE_H
#define BALLAST_KERNELS_QUANTIZE_H

#include "kernels/kernels.h"

enum { KERNEL_QUANT_BLOCK = 256 };

struct kernel_quantize {
    size_t n;
    enum dtype type;  /* of x: fp32, bf16, fp16 */
    enum dtype codes; /* int8 or int4 */
    void *x;          /* (n): quantize reads it, dequantize writes it */
    void *q;          /* dtype_bytes(codes, n) */
    float *scale;     /* (kernel_quantize_blocks(n)) */
};
size_t kernel_quantize_blocks(size_t n);
void kernel_quantize(const struct kernel_on *on, const struct kernel_quantize *a);
void kernel_dequantize(const struct kernel_on *on, const struct kernel_quantize *a);

#endif
