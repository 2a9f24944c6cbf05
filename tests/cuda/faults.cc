/* Kernels that are wrong, each in one way, and one that is right: the emulation has to tell them apart (test_emulate.c). */
#include "tests/cuda/faults.h"

#include "tests/cuda/emulate.h"

__global__ void right(float *x)
{
    SHARED(float, all, 64);

    all[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = all[63 - threadIdx.x] + __shfl_xor_sync(0xffffffffu, all[threadIdx.x], 1);
}

__global__ void forgets_a_barrier(float *x)
{
    SHARED(float, all, 64);

    all[threadIdx.x] = x[threadIdx.x];
    x[threadIdx.x] = all[63 - threadIdx.x];
}

__global__ void leaves_before_the_barrier(float *x)
{
    if (x[threadIdx.x] < 0)
        return;
    __syncthreads();
    x[threadIdx.x] += 1;
}

__global__ void waits_at_two_barriers(float *x)
{
    if (threadIdx.x < 32) {
        __syncthreads();
        x[threadIdx.x] += 1;
    } else {
        __syncthreads();
        x[threadIdx.x] -= 1;
    }
}

__global__ void shuffles_with_the_absent(float *x)
{
    if (threadIdx.x % 32 < 16)
        x[threadIdx.x] = __shfl_xor_sync(0x0000ffffu, x[threadIdx.x], 16);
}

__global__ void shuffles_alone(float *x)
{
    if (threadIdx.x == 3)
        x[3] = __shfl_xor_sync(0xffffffffu, x[3], 1);
}

__global__ void reads_what_is_on_its_way(float *x)
{
    SHARED(float, all, 64 * 4);

    emulate_copy_async(all + threadIdx.x * 4, x + threadIdx.x / 4 * 4, 16);
    emulate_copy_commit();
    __syncthreads();
    x[threadIdx.x] = all[threadIdx.x * 4];
    emulate_copy_wait(0);
}

__global__ void ends_before_its_copy(float *x)
{
    SHARED(float, all, 64 * 4);

    emulate_copy_async(all + threadIdx.x * 4, x, 16);
}

__global__ void takes_too_much(float *x)
{
    SHARED(float, all, 13 << 10);

    all[threadIdx.x] = x[threadIdx.x];
}

void fault_run(enum fault which, float *x)
{
    static void (*const kernels[])(float *) = {right,
                                               forgets_a_barrier,
                                               leaves_before_the_barrier,
                                               waits_at_two_barriers,
                                               shuffles_with_the_absent,
                                               shuffles_alone,
                                               reads_what_is_on_its_way,
                                               ends_before_its_copy,
                                               takes_too_much};
    void (*kernel)(float *) = kernels[which];

    LAUNCH(1, 64, 0, nullptr, kernel, x);
}
