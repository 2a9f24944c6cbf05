/* tests/cuda/standin.h - a machine with GPUs that is not there: the functions of the CUDA runtime, cuBLAS and NCCL that
 * exec/lib_cuda.c and kernels/cuda_*.c call, on host memory, for tests.
 *
 * Every rank is a thread, and a thread has a device of its own. A stream is a list of tasks; nothing runs when it is issued.
 * Who waits (cudaStreamSynchronize, cudaStreamQuery) runs tasks of all streams of its device in an order drawn from a seed,
 * among those that streams and events allow. Kernels are the CPU's references.
 * NCCL calls meet as NCCL's do: collectives of a communicator by their order, with equal kind, count, type and root; sends
 * and receives by pair, in order, with equal bytes; a group's calls at the same time. What does not fit is a failure, and so is
 * a wait that nobody ends.
 *
 * Every task says which memory it reads and writes. Vector clocks tell whether two tasks of different streams are ordered by
 * events or by the host; when they are not, and one writes what the other touches, that is a failure, whatever order was
 * drawn. So is touching memory that is not (or no longer) allocated.
 */
#ifndef BALLAST_TESTS_CUDA_STANDIN_H
#define BALLAST_TESTS_CUDA_STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Forget everything; draws come from the seed. Before threads start. */
void standin_reset(uint64_t seed);
/* The first failure of any rank, or NULL. */
const char *standin_failure(void);
/* Calls so far, of all ranks: kernels and products, copies, NCCL calls, events waited for. */
struct standin_calls {
    uint64_t kernels, copies, collectives, messages, waits;
};
struct standin_calls standin_calls(void);
/* A fault of the program: the k-th cudaStreamWaitEvent of each rank is forgotten; 0: none. */
void standin_forget_wait(uint64_t k);

/* A fault of the world, on one rank; until standin_reset(). A backend that has failed drops waits and keeps memory: neither is checked. */
enum standin_plant {
    STANDIN_WELL,
    STANDIN_NO_COMM,   /* ncclCommInitRank fails */
    STANDIN_NO_CALL,   /* so does every NCCL call after it */
    STANDIN_SILENT,    /* its calls never reach the others */
    STANDIN_DIED,      /* nor do they, and the others' communicators say that it is gone */
    STANDIN_NO_ANSWER, /* nor do they, and the others' ncclCommGetAsyncError fails */
};
void standin_plant(enum standin_plant what, int rank);
/* Every kernel, copy and meeting takes so long, on all ranks. */
void standin_slow(unsigned ms);
/* What cudaGetDeviceCount says; 64 until then. */
void standin_devices(int n);

/* ---- inside tests/cuda/ ---- */

struct CUstream_st;
enum { STANDIN_RANGES = 24 };
struct standin_range {
    const void *p;
    size_t n;
    bool write;
};
struct standin_task {
    const char *name;
    void (*run)(void *args);
    void *args; /* n_args bytes, copied */
    size_t n_args;
    struct standin_range range[STANDIN_RANGES];
    unsigned n_ranges;
    /* NCCL: what to do when its turn has come, and whether it is done; NULL for others. Called with the lock held. */
    void (*begin)(void *args);
    bool (*done)(void *args);
};
void standin_touch(struct standin_task *t, const void *p, size_t n, bool write); /* NULL: nothing */
void standin_issue(struct CUstream_st *s, const struct standin_task *t);
void standin_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void standin_lock(void);
void standin_unlock(void);
void standin_count(uint64_t *which);
extern struct standin_calls standin_counters;
int standin_rank(void);     /* of this thread's device */
void standin_keep(void *p); /* for ever: somebody may still look at it */
void standin_reset_nccl(void);
bool standin_is_planted(void);

#endif
