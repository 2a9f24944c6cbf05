/* The cpu backend: streams are lists of tasks. At once, a task runs when it is issued: the order of issue is one order
 * that streams and events allow. Shuffled, tasks wait in their streams until somebody waits for one; then, again and again,
 * a stream whose first task may run is drawn and runs it. Collectives keep the order in which they were issued, as those of one
 * communicator do, so that ranks which draw differently meet. */
#include "exec/backend.h"

#include "core/mem.h"
#include "kernels/operands.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NONE = UINT32_MAX, ARGS = 192 };

typedef void task_fn(struct backend *b, void *args);
struct task {
    task_fn *fn;
    void *args;     /* owned */
    uint32_t event; /* runs after it; or NONE */
    uint32_t turn;  /* of a collective; or NONE */
};
struct queue {
    struct task *list; /* owned */
    size_t head, n, cap;
};
struct mark {
    bool passed;
    double at;
};

enum room { ROOM_WORKSPACE, ROOM_A, ROOM_B, ROOM_C, ROOM_COLLECTIVE, ROOM_N };
struct cpu {
    const struct kernel_gemm *gemm;
    struct transport *t;
    uint64_t random; /* 0: at once */
    struct queue queues[STREAM_N];
    struct mark *marks; /* owned */
    size_t n_marks, cap_marks;
    void *room[ROOM_N]; /* owned: what the task at work needs */
    size_t cap_room[ROOM_N];
    uint32_t issued, turn; /* of collectives: given out, the next one to run */
};

static struct cpu *cpu_of(struct backend *b)
{
    return b->ctx;
}

static void *room(struct backend *b, enum room which, size_t n)
{
    struct cpu *x = cpu_of(b);

    if (n > x->cap_room[which]) {
        mem_free(x->room[which]);
        x->room[which] = mem_alloc(1, n);
        b->own_bytes += n - x->cap_room[which];
        x->cap_room[which] = n;
    }
    return x->room[which];
}

/* ---- streams ---- */

static void pass(struct backend *b, void *args);
static void give_back(struct backend *b, void *args);

/* What is done after an error too, so that streams come to their end and nothing leaks. */
static bool unconditional(task_fn *fn)
{
    return fn == pass || fn == give_back;
}

/* args: n bytes, copied when the task has to wait. */
static void issue(struct backend *b, enum stream s, task_fn *fn, void *args, size_t n,
                  uint32_t event, uint32_t turn)
{
    struct cpu *x = cpu_of(b);
    struct queue *q = &x->queues[s];
    struct task t = {.fn = fn, .event = event, .turn = turn};

    if (!x->random) {
        BUG_ON(event != NONE && !x->marks[event].passed);
        if (fn && (!b->failed || unconditional(fn)))
            fn(b, args);
        return;
    }
    if (n)
        t.args = memcpy(mem_alloc(1, n), args, n);
    q->list = mem_grow(q->list, &q->cap, q->n + 1, sizeof(*q->list));
    q->list[q->n++] = t;
}

static bool may_run(const struct cpu *x, const struct queue *q)
{
    const struct task *t = &q->list[q->head];

    return q->head < q->n && (t->event == NONE || x->marks[t->event].passed) &&
           (t->turn == NONE || t->turn == x->turn);
}

static uint64_t draw(struct cpu *x)
{
    x->random ^= x->random << 13;
    x->random ^= x->random >> 7;
    x->random ^= x->random << 17;
    return x->random;
}

static void run_first(struct backend *b, struct queue *q)
{
    struct cpu *x = cpu_of(b);
    struct task t = q->list[q->head++];

    if (q->head == q->n)
        q->head = q->n = 0;
    if (t.fn && (!b->failed || unconditional(t.fn)))
        t.fn(b, t.args);
    x->turn += t.turn != NONE;
    mem_free(t.args);
}

/* Until stream s is empty; STREAM_N: all. */
static void drain(struct backend *b, enum stream s)
{
    struct cpu *x = cpu_of(b);

    for (;;) {
        uint32_t can[STREAM_N], n = 0;
        bool left = false;

        for (uint32_t k = 0; k < STREAM_N; k++) {
            if (x->queues[k].head < x->queues[k].n && (s == STREAM_N || k == (uint32_t)s))
                left = true;
            if (may_run(x, &x->queues[k]))
                can[n++] = k;
        }
        if (!left)
            return;
        BUG_ON(!n); /* a wait for an event that nobody will pass */
        run_first(b, &x->queues[can[draw(x) % n]]);
    }
}

static uint32_t record_slot(struct cpu *x)
{
    x->marks = mem_grow(x->marks, &x->cap_marks, x->n_marks + 1, sizeof(*x->marks));
    x->marks[x->n_marks] = (struct mark){0};
    return (uint32_t)x->n_marks++;
}

static void pass(struct backend *b, void *args)
{
    cpu_of(b)->marks[*(uint32_t *)args] = (struct mark){true, backend_now_s(b)};
}

static uint32_t cpu_record(struct backend *b, enum stream s)
{
    uint32_t event = record_slot(cpu_of(b));

    issue(b, s, pass, &event, sizeof(event), NONE, NONE);
    return event;
}

static void cpu_wait(struct backend *b, enum stream s, uint32_t event)
{
    BUG_ON(event >= cpu_of(b)->n_marks);
    issue(b, s, NULL, NULL, 0, event, NONE);
}

static void cpu_sync(struct backend *b)
{
    drain(b, STREAM_N);
}

static double cpu_seconds(struct backend *b, uint32_t event)
{
    BUG_ON(event >= cpu_of(b)->n_marks);
    return cpu_of(b)->marks[event].at;
}

static bool cpu_passed(struct backend *b, uint32_t event)
{
    BUG_ON(event >= cpu_of(b)->n_marks);
    return cpu_of(b)->marks[event].passed;
}

static void cpu_forget(struct backend *b)
{
    cpu_of(b)->n_marks = 0;
}

/* ---- memory ---- */

static void *cpu_alloc(struct backend *b, enum stream s, size_t n)
{
    void *p = mem_alloc(1, n);

    (void)s;
    if (cpu_of(b)->random) /* nobody should find zeros by luck */
        memset(p, 0xa5, n);
    return p;
}

static void give_back(struct backend *b, void *args)
{
    (void)b;
    mem_free(*(void **)args);
}

static void cpu_free(struct backend *b, enum stream s, void *p)
{
    issue(b, s, give_back, &p, sizeof(p), NONE, NONE);
}

static uint64_t cpu_device_peak(struct backend *b)
{
    return b->peak + b->own_bytes;
}

/* ---- copies ---- */

struct copy {
    void *to;
    const void *from;
    size_t n;
};

static void zero(struct backend *b, void *args)
{
    const struct copy *c = args;

    (void)b;
    memset(c->to, 0, c->n);
}

static void copy(struct backend *b, void *args)
{
    const struct copy *c = args;

    (void)b;
    memcpy(c->to, c->from, c->n);
}

/* The bytes stand behind the struct. */
static void put(struct backend *b, void *args)
{
    const struct copy *c = args;

    (void)b;
    memcpy(c->to, (char *)args + sizeof(*c), c->n);
}

static void cpu_zero(struct backend *b, enum stream s, void *p, size_t n)
{
    struct copy c = {.to = p, .n = n};

    if (n)
        issue(b, s, zero, &c, sizeof(c), NONE, NONE);
}

static void cpu_copy(struct backend *b, enum stream s, void *to, const void *from, size_t n)
{
    struct copy c = {to, from, n};

    if (n)
        issue(b, s, copy, &c, sizeof(c), NONE, NONE);
}

static void cpu_upload(struct backend *b, enum stream s, void *to, const void *from_host, size_t n)
{
    struct copy c = {to, from_host, n}, *staged;

    if (!cpu_of(b)->random) {
        cpu_copy(b, s, to, from_host, n);
        return;
    }
    staged = mem_alloc(1, sizeof(c) + n);
    *staged = c;
    memcpy(staged + 1, from_host, n);
    issue(b, s, put, staged, sizeof(c) + n, NONE, NONE);
    mem_free(staged);
}

static void cpu_download(struct backend *b, enum stream s, void *to_host, const void *from,
                         size_t n)
{
    drain(b, s);
    if (!b->failed && n)
        memcpy(to_host, from, n);
}

/* ---- work ---- */

static const float *widen(struct backend *b, enum room where, enum dtype d, const void *data,
                          uint64_t rows, uint64_t cols, uint64_t ld)
{
    uint64_t n = rows ? (rows - 1) * ld + cols : 0;
    float *f;

    if (d == DTYPE_FP32)
        return data;
    f = room(b, where, n * sizeof(*f));
    dtype_load(d, data, f, n);
    return f;
}

/* Other types are converted around an fp32 product; a stored result has no gaps between its rows. */
static void gemm(struct backend *b, void *args)
{
    struct cpu *x = cpu_of(b);
    const struct backend_gemm *g = args;
    const float *fa =
        widen(b, ROOM_A, g->a_type, g->a, g->ta ? g->k : g->m, g->ta ? g->m : g->k, g->lda);
    const float *fb =
        widen(b, ROOM_B, g->b_type, g->b, g->tb ? g->n : g->k, g->tb ? g->k : g->n, g->ldb);
    bool wide = g->c_type == DTYPE_FP32, keeps = g->beta > 0 || g->beta < 0;
    float *fc = wide ? g->c : room(b, ROOM_C, g->m * g->n * sizeof(*fc));

    BUG_ON(!wide && g->ldc != g->n);
    if (!wide && keeps)
        dtype_load(g->c_type, g->c, fc, g->m * g->n);
    x->gemm->fn(x->gemm->ctx, g->ta, g->tb, g->m, g->n, g->k, g->alpha, fa, g->lda, fb, g->ldb,
                g->beta, fc, g->ldc);
    if (!wide)
        dtype_store(g->c_type, fc, g->c, g->m * g->n);
}

static void cpu_gemm(struct backend *b, enum stream s, const struct backend_gemm *g)
{
    struct backend_gemm copy_of = *g;

    if (g->m && g->n)
        issue(b, s, gemm, &copy_of, sizeof(copy_of), NONE, NONE);
}

struct launch {
    enum kernel_function kernel;
    struct kernel_on on;
    _Alignas(16) char args[ARGS];
};

static void kernel(struct backend *b, void *args)
{
    struct cpu *x = cpu_of(b);
    struct launch *l = args;

    l->on.gemm = x->gemm;
    l->on.workspace = room(b, ROOM_WORKSPACE, l->on.workspace_bytes);
    kernel_call(l->kernel, &l->on, l->args);
}

static void cpu_launch(struct backend *b, enum stream s, enum kernel_function k,
                       const struct kernel_on *on, const void *args)
{
    struct launch l = {.kernel = k, .on = *on};

    BUG_ON(kernel_arguments_bytes(k) > sizeof(l.args));
    memcpy(l.args, args, kernel_arguments_bytes(k));
    issue(b, s, kernel, &l, sizeof(l), NONE, NONE);
}

struct meeting {
    struct coll_group g;
    struct coll_call c; /* its segments stand behind the struct, when the call has to wait */
};

static void meet(struct backend *b, void *args)
{
    struct cpu *x = cpu_of(b);
    struct meeting *m = args;
    uint64_t sent = x->t->n_sent, received = x->t->n_received;
    struct err e = {.code = ERR_NONE};

    if (x->random && m->c.n_segments)
        m->c.segments = (const struct wire_segment *)(const void *)(m + 1);
    m->c.scratch = room(b, ROOM_COLLECTIVE, collective_scratch_bytes(&m->c, &m->g));
    if (collective_run(x->t, &m->g, &m->c, &e))
        backend_fail(b, &e);
    b->n_sent += x->t->n_sent - sent;
    b->n_received += x->t->n_received - received;
}

static void cpu_collective(struct backend *b, enum stream s, const struct coll_group *g,
                           const struct coll_call *c)
{
    struct cpu *x = cpu_of(b);
    struct meeting m = {*g, *c}, *staged;
    size_t n = c->n_segments * sizeof(*c->segments);

    /* Calls run one after the other, so a pair's messages are told apart by their order. A number that counts calls would
     * differ between ranks that have been in other groups. */
    m.c.tag = 1;
    if (!x->random) {
        issue(b, s, meet, &m, 0, NONE, NONE);
        return;
    }
    staged = mem_alloc(1, sizeof(m) + n);
    *staged = m;
    if (n)
        memcpy(staged + 1, c->segments, n);
    issue(b, s, meet, staged, sizeof(m) + n, NONE, x->issued++);
    mem_free(staged);
}

/* ---- start and end ---- */

static void describe(struct backend_device *d)
{
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[8192], *v;

    *d = (struct backend_device){.name = "this machine",
                                 .memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) *
                                                 (uint64_t)sysconf(_SC_PAGESIZE),
                                 .n_sm = 1};
    while (f && fgets(line, sizeof(line), f))
        if (!strncmp(line, "model name", 10) && (v = strchr(line, ':'))) {
            v[strcspn(v, "\n")] = 0;
            snprintf(d->name, sizeof(d->name), "%s", v + 1 + strspn(v + 1, " "));
            break;
        }
    if (f)
        fclose(f);
}

static int cpu_open(struct backend *b, const struct backend_options *o, struct err *e)
{
    struct cpu *x = MEM_NEW(struct cpu, 1);

    (void)e;
    x->gemm = o->gemm;
    x->t = o->transport;
    x->random = o->shuffle ? (o->shuffle * UINT64_C(0x9e3779b97f4a7c15)) | 1 : 0;
    b->ctx = x;
    describe(&b->device);
    return 0;
}

static void cpu_close(struct backend *b)
{
    struct cpu *x = cpu_of(b);

    drain(b, STREAM_N);
    for (int s = 0; s < STREAM_N; s++)
        mem_free(x->queues[s].list);
    for (int k = 0; k < ROOM_N; k++)
        mem_free(x->room[k]);
    mem_free(x->marks);
    mem_free(x);
}

const struct backend_library backend_cpu = {
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .device_peak = cpu_device_peak,
    .zero = cpu_zero,
    .copy = cpu_copy,
    .upload = cpu_upload,
    .download = cpu_download,
    .record = cpu_record,
    .wait = cpu_wait,
    .sync = cpu_sync,
    .seconds = cpu_seconds,
    .passed = cpu_passed,
    .forget = cpu_forget,
    .gemm = cpu_gemm,
    .launch = cpu_launch,
    .collective = cpu_collective,
};
