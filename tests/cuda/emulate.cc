#include "tests/cuda/emulate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif
#if defined(__SANITIZE_ADDRESS__)
#define EMULATE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EMULATE_ASAN 1
#endif
#endif
#ifdef EMULATE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

uint3 emulate_thread_index;
dim3 emulate_block_index, emulate_block_size, emulate_grid_size;

namespace
{
enum {
    MAX_THREADS = 1024,
    STACK = 256 << 10,
    MAX_SHARED = 163 << 10 /* of sm_80 */,
    MAX_STATIC = 48 << 10
};
enum { MAX_SITES = 32, MAX_COPIES = 64 };

struct copy {
    void *to;
    const void *from;
    unsigned bytes;
    unsigned group;
};

struct fiber {
#if defined(__x86_64__)
    void *sp;
#else
    ucontext_t context;
#endif
    char *stack; /* owned, for ever */
    void *fake;  /* AddressSanitizer's own stack */
    uint3 index;
    bool waiting, done;
    emulate_kind kind;
    unsigned mask;
    emulate_exchange *x;
    const char *file;
    int line;
    bool predicate;
    copy copies[MAX_COPIES]; /* of cp.async, not done yet */
    unsigned n_copies, group;
    uint64_t barriers; /* that it came to */
};

struct site {
    const void *key;
    void *p; /* owned */
    size_t bytes;
};

struct {
    fiber fibers[MAX_THREADS], host;
    fiber *now; /* who runs; NULL: the host */
    size_t host_bytes;
    unsigned n, arrived, n_true;
    void (*thread)(void *);
    void *arguments;
    site sites[MAX_SITES];
    unsigned n_sites;
    uint64_t random;
    unsigned block;
    uint64_t forget;
    bool aborted;
    char failure[400];
    struct emulate_counts counts;
} e;

uint64_t draw()
{
    uint64_t z = e.random += 0x9e3779b97f4a7c15u;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- fibers ---- */

#if defined(__x86_64__)
extern "C" void emulate_switch(void **save, void *to);
/* What the System V ABI lets a callee expect to find again; the rest the compiler has saved. */
asm(".text\n"
    ".globl emulate_switch\n"
    ".type emulate_switch,@function\n"
    "emulate_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\n"
    "mov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\n"
    "ret\n"
    ".size emulate_switch,.-emulate_switch\n");
#endif

/* From one to the other; `last`: never comes back. */
void change(fiber *from, fiber *to, bool last)
{
#ifdef EMULATE_ASAN
    __sanitizer_start_switch_fiber(last ? nullptr : &from->fake, to->stack,
                                   to == &e.host ? e.host_bytes : (size_t)STACK);
#endif
    (void)last;
#if defined(__x86_64__)
    emulate_switch(&from->sp, to->sp);
#else
    swapcontext(&from->context, &to->context);
#endif
#ifdef EMULATE_ASAN
    __sanitizer_finish_switch_fiber(from->fake, nullptr, nullptr);
#endif
}

void finish_copies(fiber *f, unsigned before)
{
    unsigned kept = 0;

    for (unsigned i = 0; i < f->n_copies; i++)
        if (f->copies[i].group < before)
            memcpy(f->copies[i].to, f->copies[i].from, f->copies[i].bytes);
        else
            f->copies[kept++] = f->copies[i];
    f->n_copies = kept;
}

[[noreturn]] void leave()
{
    e.now->done = true;
    change(e.now, &e.host, true);
    abort();
}

void begin()
{
#ifdef EMULATE_ASAN
    const void *bottom;

    /* it tells where we come from: the host's stack */
    __sanitizer_finish_switch_fiber(nullptr, &bottom, &e.host_bytes);
    e.host.stack = (char *)bottom;
#endif
    e.thread(e.arguments);
    if (e.now->n_copies)
        emulate_fail("thread (%u,%u,%u) ended before its cp.async", threadIdx.x, threadIdx.y,
                     threadIdx.z);
    leave();
}

void prepare(fiber *f)
{
    if (!f->stack) {
        void *p = mmap(nullptr, STACK, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (p == MAP_FAILED)
            abort();
        f->stack = (char *)p;
    }
#ifdef EMULATE_ASAN
    /* a block that failed left its frames as they were */
    __asan_unpoison_memory_region(f->stack, STACK);
#endif
#if defined(__x86_64__)
    void **top = (void **)(void *)(f->stack + STACK - 64);

    /* six registers, where to go, and where that would return to: the stack is then as after a call */
    top[-1] = nullptr;
    top[-2] = (void *)begin;
    for (int i = 3; i <= 8; i++)
        top[-i] = nullptr;
    f->sp = top - 8;
#else
    getcontext(&f->context);
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK;
    makecontext(&f->context, begin, 0);
#endif
}

/* ---- who may go on ---- */

void describe(char *to, size_t n, const fiber *f)
{
    static const char *const names[] = {"__syncthreads", "__syncwarp", "a shuffle", "a vote",
                                        "a product of matrices"};

    if (f->done)
        snprintf(to, n, "thread (%u,%u,%u) has ended", f->index.x, f->index.y, f->index.z);
    else
        snprintf(to, n, "thread (%u,%u,%u) waits at %s of %s:%d", f->index.x, f->index.y,
                 f->index.z, names[f->kind], f->file, f->line);
}

void say_apart(const char *what, const fiber *f, const fiber *g)
{
    char a[160], b[160];

    describe(a, sizeof(a), f);
    describe(b, sizeof(b), g);
    emulate_fail("%s: %s, %s", what, a, b);
}

bool same_place(const fiber *f, const fiber *g)
{
    return f->kind == g->kind && f->mask == g->mask && f->file == g->file && f->line == g->line;
}

/* All threads are at a barrier: at one line? */
void release_block()
{
    for (unsigned i = 1; i < e.n; i++)
        if (!same_place(&e.fibers[0], &e.fibers[i])) {
            say_apart("divergent barrier", &e.fibers[0], &e.fibers[i]);
            return;
        }
    for (unsigned i = 0; i < e.n; i++) {
        e.fibers[i].waiting = false;
        if (e.fibers[i].x)
            e.fibers[i].x->result = e.n_true;
    }
    e.arrived = e.n_true = 0;
    e.counts.barriers++;
}

void release_warp(fiber *first, unsigned mask)
{
    const void *operands[32];
    uint64_t ballot = 0;

    e.counts.warp_operations++;
    for (unsigned l = 0; l < 32; l++)
        if (mask >> l & 1) {
            first[l].waiting = false;
            if (first[l].kind == EMULATE_VOTE)
                ballot |= first[l].x->value << l;
            operands[l] = first[l].x ? first[l].x->operands : nullptr;
        }
    for (unsigned l = 0; l < 32; l++) {
        emulate_exchange *x = first[l].x;

        if (!(mask >> l & 1) || !x)
            continue;
        x->result = ballot;
        if (first[l].kind != EMULATE_SHUFFLE)
            continue;
        if (!(mask >> x->source & 1)) {
            emulate_fail("a shuffle at %s:%d wants lane %u, which is not in its mask %08x",
                         first[l].file, first[l].line, x->source, mask);
            return;
        }
        x->result = first[x->source].x->value;
    }
    if (e.now->kind == EMULATE_MATRICES) {
        if (mask != 0xffffffffu)
            emulate_fail("a product of matrices at %s:%d by part of a warp", e.now->file,
                         e.now->line);
        else
            e.now->x->work(operands);
    }
}

/* Of the warp of who runs: has everybody of its mask come? */
void try_warp()
{
    unsigned self = (unsigned)(e.now - e.fibers), first = self / 32 * 32;

    if (!(e.now->mask >> (self - first) & 1))
        emulate_fail("%s:%d: a lane that is not in its own mask %08x", e.now->file, e.now->line,
                     e.now->mask);
    for (unsigned l = 0; l < 32 && !e.aborted; l++) {
        fiber *f = &e.fibers[first + l];

        if (!(e.now->mask >> l & 1))
            continue;
        if (first + l >= e.n)
            emulate_fail("%s:%d: lane %u of the mask is beyond the block's %u threads", e.now->file,
                         e.now->line, l, e.n);
        else if (!f->waiting || !same_place(f, e.now))
            return;
    }
    if (!e.aborted)
        release_warp(&e.fibers[first], e.now->mask);
}

void wait_here(emulate_kind kind, unsigned mask, emulate_exchange *x, const char *file, int line)
{
    fiber *f = e.now;

    if (kind == EMULATE_BARRIER && ++f->barriers == e.forget)
        return;
    f->waiting = true;
    f->kind = kind;
    f->mask = mask;
    f->x = x;
    f->file = file;
    f->line = line;
    if (kind != EMULATE_BARRIER)
        try_warp();
    else if (++e.arrived == e.n)
        release_block();
    change(f, &e.host, false);
}

/* ---- blocks ---- */

void run_fiber(fiber *f)
{
    e.now = f;
    emulate_thread_index = f->index;
    change(&e.host, f, false);
    e.now = nullptr;
}

/* Nobody can go on, and not all are done. */
void stuck()
{
    fiber *one = nullptr;

    for (unsigned i = 0; i < e.n; i++)
        if (e.fibers[i].waiting && !one)
            one = &e.fibers[i];
    for (unsigned i = 0; i < e.n; i++)
        if (e.fibers[i].done || !same_place(&e.fibers[i], one)) {
            say_apart("threads wait for ever", one, &e.fibers[i]);
            return;
        }
    say_apart("threads wait for ever", one, one);
}

void shuffle(unsigned *order, unsigned n)
{
    for (unsigned i = n; i > 1 && e.random; i--) {
        unsigned j = (unsigned)(draw() % i), keep = order[i - 1];

        order[i - 1] = order[j];
        order[j] = keep;
    }
}

/* As far as it comes without others: into the next barriers too when they let it. How many turns its threads had. */
unsigned run_warp(unsigned warp, unsigned *left)
{
    unsigned lanes[32], turns = 0, before;

    for (unsigned l = 0; l < 32; l++)
        lanes[l] = l;
    do {
        before = turns;
        shuffle(lanes, 32);
        for (unsigned l = 0; l < 32 && !e.aborted; l++) {
            fiber *f = &e.fibers[warp * 32 + lanes[l]];

            if (warp * 32 + lanes[l] >= e.n || f->waiting || f->done)
                continue;
            turns++;
            run_fiber(f);
            *left -= f->done;
        }
    } while (turns > before && !e.aborted);
    return turns;
}

void run_block()
{
    unsigned warps[MAX_THREADS / 32], n_warps = (e.n + 31) / 32, left = e.n;

    e.arrived = e.n_true = 0;
    e.counts.blocks++;
    for (unsigned i = 0; i < e.n_sites; i++)
        memset(e.sites[i].p, 0xff, e.sites[i].bytes);
    for (unsigned i = 0; i < e.n; i++) {
        fiber *f = &e.fibers[i];

        prepare(f);
        f->index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y};
        f->waiting = f->done = false;
        f->n_copies = f->group = 0;
        f->barriers = 0;
        warps[i / 32] = i / 32;
    }
    while (left && !e.aborted) {
        unsigned ran = 0;

        shuffle(warps, n_warps);
        for (unsigned w = 0; w < n_warps && !e.aborted; w++)
            ran += run_warp(warps[w], &left);
        if (!ran)
            stuck();
    }
}
} // namespace

void emulate_wait(enum emulate_kind kind, unsigned mask, struct emulate_exchange *x,
                  const char *file, int line)
{
    wait_here(kind, mask, x, file, line);
}

int emulate_count_wait(int predicate, const char *file, int line)
{
    emulate_exchange x = {};

    if (e.now->barriers + 1 != e.forget)
        e.n_true += predicate != 0;
    x.result = predicate != 0;
    wait_here(EMULATE_BARRIER, 0xffffffffu, &x, file, line);
    return (int)x.result;
}

void emulate_copy_async(void *to, const void *from, unsigned bytes)
{
    fiber *f = e.now;

    if (f->n_copies == MAX_COPIES)
        emulate_fail("more than %d cp.async of one thread under way", MAX_COPIES);
    if ((uintptr_t)to % bytes || (uintptr_t)from % bytes)
        emulate_fail("cp.async of %u bytes is not aligned", bytes);
    f->copies[f->n_copies++] = {to, from, bytes, f->group};
}

void emulate_copy_commit()
{
    e.now->group++;
}

void emulate_copy_wait(unsigned pending)
{
    finish_copies(e.now, e.now->group > pending ? e.now->group - pending : 0);
}

void emulate_fail(const char *fmt, ...)
{
    va_list ap;

    if (!e.failure[0]) {
        va_start(ap, fmt);
        vsnprintf(e.failure, sizeof(e.failure), fmt, ap);
        va_end(ap);
    }
    e.aborted = true;
    if (e.now)
        leave();
}

/* Key NULL: what the launch asks for, as much as it likes up to all there is. */
static void *add_shared(const void *key, size_t bytes)
{
    size_t all = bytes, statics = key ? bytes : 0;
    void *p = nullptr;

    for (unsigned i = 0; i < e.n_sites; i++) {
        all += e.sites[i].bytes;
        statics += e.sites[i].key ? e.sites[i].bytes : 0;
    }
    if (e.n_sites == MAX_SITES || all > MAX_SHARED || statics > MAX_STATIC)
        emulate_fail("%zu bytes of shared memory, of them %zu without asking, are too much", all,
                     statics);
    if (posix_memalign(&p, 16, bytes))
        abort();
    memset(p, 0xff, bytes);
    e.sites[e.n_sites++] = {key, p, bytes};
    return p;
}

void *emulate_shared(const void *key, size_t bytes)
{
    for (unsigned i = 0; i < e.n_sites; i++)
        if (e.sites[i].key == key)
            return e.sites[i].p;
    if (!key)
        emulate_fail("dynamic shared memory that the launch did not ask for");
    return add_shared(key, bytes);
}

bool emulate_is_shared(const void *p, size_t bytes)
{
    for (unsigned i = 0; i < e.n_sites; i++) {
        const char *first = static_cast<const char *>(e.sites[i].p);
        const char *at = static_cast<const char *>(p);

        if (at >= first && at + bytes <= first + e.sites[i].bytes)
            return true;
    }
    return false;
}

void emulate_run(dim3 grid, dim3 block, size_t shared, void (*thread)(void *), void *arguments)
{
    uint64_t n = (uint64_t)block.x * block.y * block.z;

    if (e.failure[0])
        return;
    e.aborted = false;
    if (n < 1 || n > MAX_THREADS || !grid.x || !grid.y || !grid.z || grid.x > 0x7fffffff ||
        grid.y > 65535 || grid.z > 65535 || shared > MAX_SHARED) {
        emulate_fail("a launch of (%u,%u,%u) blocks of (%u,%u,%u) threads with %zu bytes", grid.x,
                     grid.y, grid.z, block.x, block.y, block.z, shared);
        return;
    }
    e.n = (unsigned)n;
    e.thread = thread;
    e.arguments = arguments;
    e.counts.launches++;
    emulate_block_size = block;
    emulate_grid_size = grid;
    if (shared)
        add_shared(nullptr, shared);
    for (unsigned z = 0; z < grid.z; z++)
        for (unsigned y = 0; y < grid.y; y++)
            for (unsigned x = 0; x < grid.x && !e.aborted; x++) {
                emulate_block_index = dim3(x, y, z);
                run_block();
            }
    for (unsigned i = 0; i < e.n_sites; i++)
        free(e.sites[i].p);
    e.n_sites = 0;
}

unsigned emulate_block(unsigned asked)
{
    return e.block ? e.block : asked;
}

void emulate_reset(uint64_t seed, unsigned block)
{
    e.random = seed;
    e.block = block;
    e.forget = 0;
    e.failure[0] = 0;
    e.counts = {};
}

void emulate_forget_barrier(uint64_t k)
{
    e.forget = k;
}

const char *emulate_failure(void)
{
    return e.failure[0] ? e.failure : nullptr;
}

struct emulate_counts emulate_counts(void)
{
    return e.counts;
}
