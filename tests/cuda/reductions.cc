/* Kernels around cub::BlockReduce, which is tests/cuda/cub's here: right ones, and one for each way to use it wrongly. */
#include "tests/cuda/reductions.h"

#include "tests/cuda/emulate.h"

#include <cub/block/block_reduce.cuh>

namespace
{
template <class T, unsigned BLOCK> using reduction_of = cub::BlockReduce<T, (int)BLOCK>;

struct product {
    reduction_matrix operator()(reduction_matrix a, reduction_matrix b) const
    {
        reduction_matrix c = {};

        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 2; j++)
                c.m[i][j] =
                    (uint16_t)((unsigned)a.m[i][0] * b.m[0][j] + (unsigned)a.m[i][1] * b.m[1][j]);
        return c;
    }
};

struct sum_of_fives {
    reduction_five operator()(reduction_five a, reduction_five b) const
    {
        for (int i = 0; i < 5; i++)
            a.x[i] = (uint16_t)(a.x[i] + b.x[i]);
        return a;
    }
};

template <unsigned BLOCK, class T> __global__ void sum(const T *in, T *out)
{
    using storage = typename reduction_of<T, BLOCK>::TempStorage;
    SHARED(storage, room, 1);
    T all = reduction_of<T, BLOCK>(room[0]).Sum(in[threadIdx.x]);

    if (threadIdx.x == 0)
        out[0] = all;
}

template <unsigned BLOCK, class T, class F> __global__ void reduce(const T *in, T *out)
{
    using storage = typename reduction_of<T, BLOCK>::TempStorage;
    SHARED(storage, room, 1);
    T all = reduction_of<T, BLOCK>(room[0]).Reduce(in[threadIdx.x], F());

    if (threadIdx.x == 0)
        out[0] = all;
}

template <unsigned BLOCK, bool BARRIER> __global__ void twice(const double *in, double *out)
{
    using storage = typename reduction_of<double, BLOCK>::TempStorage;
    SHARED(storage, room, 1);
    double once = reduction_of<double, BLOCK>(room[0]).Sum(in[threadIdx.x]), again;

    if (BARRIER)
        __syncthreads();
    again = reduction_of<double, BLOCK>(room[0]).Sum(2 * in[threadIdx.x]);
    if (threadIdx.x == 0) {
        out[0] = once;
        out[1] = again;
    }
}

template <unsigned BLOCK> __global__ void every(const double *in, double *out)
{
    using storage = typename reduction_of<double, BLOCK>::TempStorage;
    SHARED(storage, room, 1);

    out[threadIdx.x] = reduction_of<double, BLOCK>(room[0]).Sum(in[threadIdx.x]);
}

template <unsigned BLOCK> __global__ void own_room(const double *in, double *out)
{
    typename reduction_of<double, BLOCK>::TempStorage room;

    out[0] = reduction_of<double, BLOCK>(room).Sum(in[threadIdx.x]);
}

template <unsigned BLOCK> __global__ void some(const double *in, double *out)
{
    using storage = typename reduction_of<double, BLOCK>::TempStorage;
    SHARED(storage, room, 1);

    if (threadIdx.x < BLOCK - 1)
        out[0] = reduction_of<double, BLOCK>(room[0]).Sum(in[threadIdx.x]);
}

template <class T>
void launch(void (*kernel)(const T *, T *), unsigned n, const void *in, void *out)
{
    const T *from = static_cast<const T *>(in);
    T *to = static_cast<T *>(out);

    LAUNCH(1, n, 0, nullptr, kernel, from, to);
}

template <unsigned BLOCK> void run(enum reduction which, const void *in, void *out)
{
    switch (which) {
    case REDUCTION_DOUBLES:
        return launch<double>(sum<BLOCK, double>, BLOCK, in, out);
    case REDUCTION_FLOATS:
        return launch<float>(sum<BLOCK, float>, BLOCK, in, out);
    case REDUCTION_MATRICES:
        return launch<reduction_matrix>(reduce<BLOCK, reduction_matrix, product>, BLOCK, in, out);
    case REDUCTION_FIVES:
        return launch<reduction_five>(reduce<BLOCK, reduction_five, sum_of_fives>, BLOCK, in, out);
    case REDUCTION_TWICE:
        return launch<double>(twice<BLOCK, true>, BLOCK, in, out);
    case REDUCTION_NO_BARRIER:
        return launch<double>(twice<BLOCK, false>, BLOCK, in, out);
    case REDUCTION_EVERY:
        return launch<double>(every<BLOCK>, BLOCK, in, out);
    case REDUCTION_OTHER_SIZE:
        return launch<double>(sum < BLOCK == 32 ? 64 : BLOCK / 64 * 32, double >, BLOCK, in, out);
    case REDUCTION_OWN_ROOM:
        return launch<double>(own_room<BLOCK>, BLOCK, in, out);
    case REDUCTION_SOME:
        return launch<double>(some<BLOCK>, BLOCK, in, out);
    }
}
} // namespace

void reduction_run(enum reduction which, unsigned block, const void *in, void *out)
{
    switch (block) {
    case 32:
        return run<32>(which, in, out);
    case 64:
        return run<64>(which, in, out);
    case 96:
        return run<96>(which, in, out);
    case 256:
        return run<256>(which, in, out);
    case 512:
        return run<512>(which, in, out);
    case 1024:
        return run<1024>(which, in, out);
    default:
        emulate_fail("no reduction by %u threads", block);
    }
}
