#include "exec/peak.h"

#include <stddef.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* 12 sums that do not wait for each other: two pipes of four to five cycles each; with both constants they fit 16 registers. */
enum { SUMS = 12, TIMES = 20000, RUNS = 8 };

/* The loop is written out by the compiler; each sum stays in a register of its own. What comes out is used, so that the work is
 * done: sums go towards 2, whatever they start from. */
#define PEAK_LOOP(name, isa, vector, set, fma, lanes)                                              \
    __attribute__((target(isa))) static float name(void)                                           \
    {                                                                                              \
        vector x[SUMS], half = set(0.5f), one = set(1);                                            \
        float out[lanes], all = 0;                                                                 \
                                                                                                   \
        for (int i = 0; i < SUMS; i++)                                                             \
            x[i] = set((float)i);                                                                  \
        for (int t = 0; t < TIMES; t++) {                                                          \
            _Pragma("GCC unroll 12") for (int i = 0; i < SUMS; i++) x[i] = fma(x[i], half, one);   \
        }                                                                                          \
        for (int i = 0; i < SUMS; i++) {                                                           \
            __builtin_memcpy(out, &x[i], sizeof(out));                                             \
            all += out[0];                                                                         \
        }                                                                                          \
        return all;                                                                                \
    }
PEAK_LOOP(wide, "avx512f", __m512, _mm512_set1_ps, _mm512_fmadd_ps, 16)
PEAK_LOOP(narrow, "avx2,fma", __m256, _mm256_set1_ps, _mm256_fmadd_ps, 8)

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double peak_flops(const char **how)
{
    float (*loop)(void) = NULL;
    volatile float used = 0;
    double best = 0;
    int lanes = 0;

    if (__builtin_cpu_supports("avx512f")) {
        loop = wide;
        lanes = 16;
        *how = "16 lanes (AVX-512)";
    } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        loop = narrow;
        lanes = 8;
        *how = "8 lanes (AVX2)";
    }
    for (int i = 0; i < RUNS && loop; i++) {
        double start = now_s(), rate;

        used = used + loop();
        rate = 2.0 * lanes * SUMS * TIMES / (now_s() - start);
        best = rate > best ? rate : best;
    }
    return best;
}

#else

double peak_flops(const char **how)
{
    *how = "not measured on this kind of processor";
    return 0;
}

#endif
