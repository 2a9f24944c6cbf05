/* kernels/cuda_quantize.cu against kernels/quantize.c: codes and scales have to be the same bits. */
#include "tests/cuda/both.h"

START_TEST(codes_and_scales_are_the_cpus)
{
    static const size_t sizes[] = {1, 7, 256, 257, 2000};

    EVERY_WAY(w, d)
    for (int k = 0; k < 10; k++) {
        size_t n = sizes[k % 5], x, q, scale, back, bytes;
        enum dtype codes = k < 5 ? DTYPE_INT8 : DTYPE_INT4;
        void *nothing;
        struct both b;

        both_begin(&b, w, d);
        x = both_in(&b, d, n, -3, 3);
        back = both_out(&b, d, n);
        bytes = (size_t)dtype_bytes(codes, n);
        nothing = MEM_NEW(char, bytes);
        q = both_bytes(&b, BOTH_CHANGED, nothing, bytes);
        scale = both_out(&b, DTYPE_FP32, kernel_quantize_blocks(n));
        for (int side = 0; side < 2 && k == 9; side++) {
            const float spoil = -INFINITY;

            dtype_store(d, &spoil, (char *)b.array[x].p[side] + 300 * dtype_bytes(d, 1), 1);
            memcpy(b.array[x].start, b.array[x].p[side], b.array[x].bytes);
        }
        BOTH(&b, quantize, kernel_quantize, .n = n, .type = d, .codes = codes, .x = P(x), .q = P(q),
             .scale = P(scale));
        MUST(k == 9 || !memcmp(b.array[scale].p[0], b.array[scale].p[1], b.array[scale].bytes),
             "scales differ");
        BOTH(&b, dequantize, kernel_quantize, .n = n, .type = d, .codes = codes, .x = P(back),
             .q = P(q), .scale = P(scale));
        both_end(&b, 0);
        mem_free(nothing);
    }
}
END_TEST

SUITE_MAIN("cuda/quantize", codes_and_scales_are_the_cpus)
