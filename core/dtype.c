#include "core/dtype.h"

#include "core/err.h"
#include "core/num.h"

#include <string.h>
#include <strings.h>

const char *dtype_name(enum dtype d)
{
    switch (d) {
#define X(v, name, bits)                                                                           \
    case v:                                                                                        \
        return name;
        DTYPES(X)
#undef X
    case DTYPE_N:
        break;
    }
    return "?";
}

static uint32_t dtype_bits(enum dtype d)
{
    switch (d) {
#define X(v, name, bits)                                                                           \
    case v:                                                                                        \
        return bits;
        DTYPES(X)
#undef X
    case DTYPE_N:
        break;
    }
    return 0;
}

uint64_t dtype_bytes(enum dtype d, uint64_t n)
{
    uint64_t bits;

    if (!num_mul(n, dtype_bits(d), &bits))
        return dtype_bits(d) >= 8 ? n * (dtype_bits(d) / 8) : n / 2 + n % 2;
    return num_ceil_div(bits, 8);
}

int dtype_parse(const char *s, enum dtype *d)
{
    for (int i = 0; i < DTYPE_N; i++)
        if (!strcasecmp(s, dtype_name((enum dtype)i))) {
            *d = (enum dtype)i;
            return 0;
        }
    return -1;
}

/* ---- conversion ---- */

static uint32_t bits_of(float x)
{
    uint32_t u;

    memcpy(&u, &x, sizeof(u));
    return u;
}

static float float_of(uint32_t u)
{
    float x;

    memcpy(&x, &u, sizeof(x));
    return x;
}

static uint16_t to_bf16(float x)
{
    uint32_t u = bits_of(x);

    if ((u & 0x7fffffffu) > 0x7f800000u) /* NaN: keep it one */
        return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static uint16_t to_fp16(float x)
{
    uint32_t u = bits_of(x), sign = u >> 16 & 0x8000, a = u & 0x7fffffffu, mant, shift, half;

    if (a > 0x7f800000u)
        return (uint16_t)(sign | 0x7e00);
    if (a >= 0x477ff000u) /* rounds to 65536 or more */
        return (uint16_t)(sign | 0x7c00);
    if (a >= 0x38800000u) /* normal */
        return (uint16_t)(sign | (((a - 0x38000000u) + 0xfffu + (a >> 13 & 1)) >> 13));
    if (a < 0x33000000u) /* less than half of the smallest */
        return (uint16_t)sign;
    mant = (a & 0x7fffffu) | 0x800000u;
    shift = 126 - (a >> 23); /* 14 .. 24 */
    half = mant >> shift;
    mant &= (1u << shift) - 1;
    half += mant > 1u << (shift - 1) || (mant == 1u << (shift - 1) && (half & 1));
    return (uint16_t)(sign | half);
}

static float from_fp16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
    float x;

    if (e == 31)
        return float_of(sign | 0x7f800000u | m << 13 | (m ? 0x400000u : 0));
    if (e)
        return float_of(sign | (e + 112) << 23 | m << 13);
    x = (float)m * 0x1p-24f;
    return sign ? -x : x;
}

void dtype_load(enum dtype d, const void *from, float *to, size_t n)
{
    const uint16_t *h = from;

    BUG_ON(d != DTYPE_FP32 && d != DTYPE_BF16 && d != DTYPE_FP16);
    if (d == DTYPE_FP32) {
        memmove(to, from, n * sizeof(*to));
    } else if (d == DTYPE_BF16) {
        for (size_t i = 0; i < n; i++)
            to[i] = float_of((uint32_t)h[i] << 16);
    } else {
        for (size_t i = 0; i < n; i++)
            to[i] = from_fp16(h[i]);
    }
}

void dtype_store(enum dtype d, const float *from, void *to, size_t n)
{
    uint16_t *h = to;

    BUG_ON(d != DTYPE_FP32 && d != DTYPE_BF16 && d != DTYPE_FP16);
    if (d == DTYPE_FP32) {
        memmove(to, from, n * sizeof(*from));
    } else if (d == DTYPE_BF16) {
        for (size_t i = 0; i < n; i++)
            h[i] = to_bf16(from[i]);
    } else {
        for (size_t i = 0; i < n; i++)
            h[i] = to_fp16(from[i]);
    }
}
