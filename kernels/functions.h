/* kernels/functions.h - all kernels by name: X(name, struct of its arguments), for tables and for what wraps each of them. The
 * CPU's are kernel_NAME() of kernels.h, precondition.h, quantize.h, symmetric.h and optimizer.h, a device's cuda_NAME() of kernels/cuda.h.
 */
#ifndef BALLAST_KERNELS_FUNCTIONS_H
#define BALLAST_KERNELS_FUNCTIONS_H

#include "kernels/kernels.h"
#include "kernels/optimizer.h"
#include "kernels/precondition.h"
#include "kernels/quantize.h"
#include "kernels/symmetric.h"

/* Those that are one kernel, or a few without products. */
#define KERNEL_SIMPLE_FUNCTIONS(X)                                                                 \
    X(embed, kernel_embed)                                                                         \
    X(embed_backward, kernel_embed)                                                                \
    X(position, kernel_position)                                                                   \
    X(position_backward, kernel_position)                                                          \
    X(rmsnorm, kernel_norm)                                                                        \
    X(rmsnorm_backward, kernel_norm)                                                               \
    X(layernorm, kernel_norm)                                                                      \
    X(layernorm_backward, kernel_norm)                                                             \
    X(rope, kernel_rope)                                                                           \
    X(rope_backward, kernel_rope)                                                                  \
    X(attention, kernel_attention)                                                                 \
    X(attention_backward, kernel_attention)                                                        \
    X(swiglu, kernel_swiglu)                                                                       \
    X(swiglu_backward, kernel_swiglu)                                                              \
    X(gelu, kernel_gelu)                                                                           \
    X(gelu_backward, kernel_gelu)                                                                  \
    X(add, kernel_add)                                                                             \
    X(add_backward, kernel_add)                                                                    \
    X(bias, kernel_bias)                                                                           \
    X(bias_backward, kernel_bias)                                                                  \
    X(route, kernel_route)                                                                         \
    X(route_backward, kernel_route)                                                                \
    X(dispatch, kernel_exchange)                                                                   \
    X(dispatch_backward, kernel_exchange)                                                          \
    X(combine, kernel_exchange)                                                                    \
    X(combine_backward, kernel_exchange)                                                           \
    X(cross_entropy, kernel_cross_entropy)                                                         \
    X(cross_entropy_backward, kernel_cross_entropy)                                                \
    X(squared_error, kernel_squared_error)                                                         \
    X(squared_error_backward, kernel_squared_error)                                                \
    X(momentum, kernel_momentum)                                                                   \
    X(matrix_update, kernel_matrix_update)                                                         \
    X(adamw, kernel_adamw)                                                                         \
    X(cast, kernel_cast)                                                                           \
    X(scale, kernel_scale)                                                                         \
    X(normalize, kernel_normalize)                                                                 \
    X(diagonal, kernel_diagonal)                                                                   \
    X(axpy, kernel_axpy)                                                                           \
    X(sum, kernel_sum)                                                                             \
    X(reduce, kernel_reduce)                                                                       \
    X(moments, kernel_moments)                                                                     \
    X(root, kernel_root)                                                                           \
    X(graft, kernel_graft)                                                                         \
    X(average, kernel_average)                                                                     \
    X(adam_step, kernel_adam_step)                                                                 \
    X(order, kernel_order)                                                                         \
    X(permute, kernel_permute)                                                                     \
    X(quantize, kernel_quantize)                                                                   \
    X(dequantize, kernel_quantize)                                                                 \
    X(symmetric, kernel_symmetric)
/* Those that are made of products, decompositions and simple ones. */
#define KERNEL_COMPOSED_FUNCTIONS(X)                                                               \
    X(orthogonalize, kernel_orthogonalize)                                                         \
    X(shampoo, kernel_shampoo)                                                                     \
    X(soap, kernel_soap)
#define KERNEL_FUNCTIONS(X) KERNEL_SIMPLE_FUNCTIONS(X) KERNEL_COMPOSED_FUNCTIONS(X)

#define KERNEL_FUNCTION_ENUM(name, type) KERNEL_FN_##name,
enum kernel_function { KERNEL_FUNCTIONS(KERNEL_FUNCTION_ENUM) KERNEL_FN_N };
#undef KERNEL_FUNCTION_ENUM

#endif
