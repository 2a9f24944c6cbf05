/* core/dtype.h - element types, their sizes, and fp32 <-> bf16/fp16. */
#ifndef BALLAST_CORE_DTYPE_H
#define BALLAST_CORE_DTYPE_H

#include <stddef.h>
#include <stdint.h>

/* dtype, name, bits */
#define DTYPES(X)                                                                                  \
    X(DTYPE_FP32, "fp32", 32)                                                                      \
    X(DTYPE_BF16, "bf16", 16)                                                                      \
    X(DTYPE_FP16, "fp16", 16)                                                                      \
    X(DTYPE_INT8, "int8", 8)                                                                       \
    X(DTYPE_INT4, "int4", 4)
#define DTYPE_ENUM(d, name, bits) d,
enum dtype { DTYPES(DTYPE_ENUM) DTYPE_N };
#undef DTYPE_ENUM

const char *dtype_name(enum dtype d);
/* Bytes of n elements, rounded up (int4: two in a byte). */
uint64_t dtype_bytes(enum dtype d, uint64_t n);
int dtype_parse(const char *s, enum dtype *d); /* -1: no such name */

/* n elements of storage type d (fp32, bf16, fp16) to and from fp32; store rounds to nearest, ties to even, keeps
 * infinities, and makes every NaN quiet. Types without arithmetic (int8, int4) are a bug. */
void dtype_load(enum dtype d, const void *from, float *to, size_t n);
void dtype_store(enum dtype d, const float *from, void *to, size_t n);

#endif
