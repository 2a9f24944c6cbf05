/* core/num.h - integer arithmetic that says when it does not fit. Sizes are uint64_t; anything at or beyond 2^63 is
 * refused, so that differences fit int64_t. */
#ifndef BALLAST_CORE_NUM_H
#define BALLAST_CORE_NUM_H

#include <stdbool.h>
#include <stdint.h>

#define NUM_MAX ((uint64_t)INT64_MAX)

/* *out = a*b (a+b); false when the result is beyond 2^63-1 (then *out is NUM_MAX). */
static inline bool num_mul(uint64_t a, uint64_t b, uint64_t *out)
{
    bool over = __builtin_mul_overflow(a, b, out) || *out > NUM_MAX;

    if (over)
        *out = NUM_MAX;
    return !over;
}

static inline bool num_add(uint64_t a, uint64_t b, uint64_t *out)
{
    bool over = __builtin_add_overflow(a, b, out) || *out > NUM_MAX;

    if (over)
        *out = NUM_MAX;
    return !over;
}

static inline uint64_t num_ceil_div(uint64_t a, uint64_t b)
{
    return a / b + (a % b != 0);
}

static inline uint64_t num_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t num_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* First element of part i when n elements are cut into `parts` nearly equal parts (floor rule). */
static inline uint64_t num_part(uint64_t n, uint64_t parts, uint64_t i)
{
    return (uint64_t)((unsigned __int128)n * i / parts);
}

#endif
