/* kernels/cuda_mma.cuh - the instructions that CUDA C++ has no name for, as functions: tensor cores, loads of their operands, and
 * copies past the registers. tests/cuda/emulate_mma.h has the same for a CPU. (PTX ISA: mma.m16n8k16, ldmatrix, cp.async)
 */
#ifndef BALLAST_KERNELS_CUDA_MMA_CUH
#define BALLAST_KERNELS_CUDA_MMA_CUH

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

#endif
