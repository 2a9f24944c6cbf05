/* kernels/cuda_mma.cuh - tensor cores. First the instructions that CUDA C++ has no name for, as functions: tensor cores, loads of their operands, and
 * copies past the registers. tests/cuda/emulate_mma.h has the same for a CPU. (PTX ISA: mma.m16n8k16, ldmatrix, cp.async) Then
 * what is made of them: tiles of 16-bit elements in shared memory, and operands out of such tiles.
 */
#ifndef BALLAST_KERNELS_CUDA_MMA_CUH
#define BALLAST_KERNELS_CUDA_MMA_CUH

#include "kernels/cuda_common.cuh"

#ifndef BALLAST_EMULATED
__device__ __forceinline__ unsigned shared_address(const void *p)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

/* d += a b by a warp: a (16,16) and b (16,8) bf16, d (16,8) fp32. With g = lane / 4 and t = lane % 4, a lane has two elements a
 * register, the lower one first:
 *   a  rows g, g+8, g, g+8 at columns 2t, 2t, 2t+8, 2t+8     b  rows 2t, 2t+8 of column g     d  row g, then g+8, columns 2t, 2t+1 */
__device__ __forceinline__ void mma_bf16(float d[4], const unsigned a[4], const unsigned b[2])
{
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
        "{%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ __forceinline__ void mma_fp16(float d[4], const unsigned a[4], const unsigned b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Four matrices of 8 x 8 halves from shared memory: lane 8i + j says where row j of matrix i is, 16 bytes. A lane gets, of
 * each, elements 2t and 2t+1 of row g; transposed: of column g. */
__device__ __forceinline__ void load_matrices(unsigned r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

__device__ __forceinline__ void load_matrices_transposed(unsigned r[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* 16 bytes, both aligned to 16, from global to shared memory; there after copy_wait() of the thread and a barrier. */
__device__ __forceinline__ void copy_async(void *to, const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from)
                 : "memory");
}

__device__ __forceinline__ void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Until at most N groups are under way. */
template <int N> __device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}
#endif

/* 8 elements from `from` to shared memory, of which len are there; the rest become 0. */
__device__ __forceinline__ void take_pack(const uint16_t *from, unsigned len, uint16_t *to)
{
    if (len == PACK && reinterpret_cast<uintptr_t>(from) % 16 == 0) {
        copy_async(to, from);
        return;
    }
#pragma unroll
    for (unsigned j = 0; j < PACK; j++)
        to[j] = j < len ? from[j] : 0;
}

/* 16 rows by 16 of k of a tile as the first operand, or as two second ones (r, r + 2), their columns being the rows. The tile
 * has its rows one behind the other, `stride` elements each; transposed, its k. */
template <bool TRANSPOSED, bool SECOND>
__device__ __forceinline__ void take_operand(const uint16_t *tile, unsigned stride, unsigned row,
                                             unsigned k, unsigned r[4])
{
    unsigned lane = threadIdx.x % WARP, m = lane / 8, j = lane % 8;
    /* of the matrices 0 .. 3, which are the lower rows, which the higher k */
    unsigned low = (SECOND ? m / 2 : m % 2) * 8, high = (SECOND ? m % 2 : m / 2) * 8;

    if (TRANSPOSED)
        load_matrices_transposed(r, tile + (k + high + j) * stride + row + low);
    else
        load_matrices(r, tile + (row + low + j) * stride + k + high);
}

#endif
