/* exec/cuda_inner.h - what the two files of the backend for NVIDIA GPUs share: exec/lib_cuda.c, the device, and
 * exec/cuda_nccl.c, what moves between devices. Needs no CUDA header. */
#ifndef BALLAST_EXEC_CUDA_INNER_H
#define BALLAST_EXEC_CUDA_INNER_H

#include "exec/backend.h"
#include "kernels/cuda_optimizer.h"

/* CUDA's own names of what a cudaStream_t, cudaEvent_t and cudaMemPool_t point to. */
struct CUstream_st;
struct CUevent_st;
struct CUmemPoolHandle_st;
struct cuda_nccl;

struct cuda_room {
    void *p; /* owned, of its stream */
    size_t cap;
};

struct cuda {
    struct backend *b;
    int device;
    struct CUstream_st *stream[STREAM_N];
    struct cuda_handles handles[STREAM_N]; /* a cuBLAS handle has one workspace: one a stream */
    struct CUmemPoolHandle_st *pool;
    struct CUevent_st **events; /* owned */
    size_t n_events, made_events, cap_events;
    struct cuda_room work[STREAM_N], operand[STREAM_N][3], scratch[STREAM_N];
    struct cuda_nccl *nccl; /* owned; NULL: one rank */
    double watchdog_s;
};

static inline struct cuda *cuda_of(struct backend *b)
{
    return b->ctx;
}

/* ---- lib_cuda.c ---- */

/* The first one stays with the backend. */
void cuda_fail(struct backend *b, const char *what, const char *why);
/* n bytes; contents are lost when it grows. */
void *cuda_room(struct backend *b, struct cuda_room *r, enum stream s, size_t n);
void cuda_zero(struct backend *b, enum stream s, void *p, size_t n);
void cuda_copy(struct backend *b, enum stream s, void *to, const void *from, size_t n);
void cuda_launch(struct backend *b, enum stream s, enum kernel_function k,
                 const struct kernel_on *on, const void *a);

/* ---- cuda_nccl.c ---- */

/* NCCL as dlopen() returns it, or NULL. */
void *cuda_nccl_file(struct err *e);
/* Collective: load NCCL and make a communicator of all ranks for each stream. */
int cuda_nccl_open(struct backend *b, const struct backend_options *o, struct err *e);
/* Leave the communicators: what is under way is aborted when the backend has failed. Then, streams being empty, the library. */
void cuda_nccl_close(struct backend *b);
void cuda_nccl_unload(struct backend *b);
/* What went wrong behind NCCL's back since the last look becomes the backend's failure. */
void cuda_nccl_look(struct backend *b);
void cuda_collective(struct backend *b, enum stream s, const struct coll_group *g,
                     const struct coll_call *c);

#endif
