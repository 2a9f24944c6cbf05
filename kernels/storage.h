/* kernels/storage.h - fp32 in and out of the storage types, a chunk at a time; for the kernels only. */
#ifndef BALLAST_KERNELS_STORAGE_H
#define BALLAST_KERNELS_STORAGE_H

#include "core/dtype.h"
#include "core/err.h"

enum { CHUNK = 512 };

static inline size_t storage_bytes(enum dtype d)
{
    BUG_ON(d != DTYPE_FP32 && d != DTYPE_BF16 && d != DTYPE_FP16);
    return d == DTYPE_FP32 ? 4 : 2;
}

/* Element `at` of an array, as a pointer. */
static inline const void *at_const(enum dtype d, const void *p, size_t at)
{
    return (const char *)p + at * storage_bytes(d);
}

static inline void *at_ptr(enum dtype d, void *p, size_t at)
{
    return (char *)p + at * storage_bytes(d);
}

/* Elements [at, at+n) as fp32: in place when they are that already, else converted into tmp. */
static inline const float *load(enum dtype d, const void *p, size_t at, size_t n, float *tmp)
{
    if (d == DTYPE_FP32)
        return (const float *)p + at;
    dtype_load(d, at_const(d, p, at), tmp, n);
    return tmp;
}

static inline void store(enum dtype d, const float *x, void *p, size_t at, size_t n)
{
    dtype_store(d, x, at_ptr(d, p, at), n);
}

/* p[at .. at+n) += x, in fp32, rounded once. */
static inline void store_add(enum dtype d, const float *x, void *p, size_t at, size_t n)
{
    float tmp[CHUNK];

    if (d == DTYPE_FP32) {
        float *y = (float *)p + at;

        for (size_t i = 0; i < n; i++)
            y[i] += x[i];
        return;
    }
    for (size_t done = 0; done < n; done += CHUNK) {
        size_t len = n - done < CHUNK ? n - done : CHUNK;

        dtype_load(d, at_const(d, p, at + done), tmp, len);
        for (size_t i = 0; i < len; i++)
            tmp[i] += x[done + i];
        dtype_store(d, tmp, at_ptr(d, p, at + done), len);
    }
}

/* for (size_t i, len; chunks of [0, n)) */
#define FOR_CHUNKS(i, len, n)                                                                      \
    for (size_t i = 0, len = (n) < CHUNK ? (n) : CHUNK; i < (n);                                   \
         i += len, len = (n)-i < CHUNK ? (n)-i : CHUNK)

#endif
