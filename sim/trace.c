/* Chrome trace: a process a rank, one row a stream, complete events in microseconds. */
#include "sim/sim.h"

#include "core/file.h"
#include "core/mem.h"

#include <stdio.h>

static void write_name(FILE *f, const char *what, uint32_t pid, uint32_t tid, const char *name)
{
    fprintf(f, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"%s\"}},\n",
            what, pid, tid, name);
}

static void write_event(FILE *f, const struct program *p, uint32_t pid,
                        const struct sim_instance *x)
{
    const struct op *o = &p->ops[x->id.op];
    bool segments = o->coll.kind == COLL_SEGMENT_GATHER || o->coll.kind == COLL_SEGMENT_REDUCE;
    const char *algo = segments && x->algo ? coll_algo_name(x->algo) : NULL;
    uint32_t calls = o->kind == OP_COLLECTIVE ? op_calls(p, o, &x->id) : 1;
    char of[48] = "";

    if (o->coll.calls != CALLS_USUAL)
        snprintf(of, sizeof(of), ",\"%s\":%u",
                 o->coll.calls == CALLS_PIECES ? "pieces" : "broadcasts", calls);

    fprintf(f,
            "{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.6f,"
            "\"dur\":%.6f,"
            "\"args\":{\"op\":%u,\"unit\":%u,\"micro_batch\":%u,\"item\":%u%s%s%s%s}},\n",
            o->name, phase_name(o->phase), pid, (unsigned)o->stream, (double)x->start_ps / 1e6,
            (double)(x->end_ps - x->start_ps) / 1e6, x->id.op, x->id.unit, x->id.micro, x->id.item,
            algo ? ",\"algorithm\":\"" : "", algo ? algo : "", algo ? "\"" : "", of);
}

int sim_write_processes(const char *path, const struct program *p,
                        const struct sim_trace_process *list, uint32_t n, struct err *e)
{
    struct file_out out;

    if (file_out_open(&out, path, e))
        return -1;
    fprintf(out.f, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    for (uint32_t k = 0; k < n; k++) {
        const struct sim_trace_process *q = &list[k];

        write_name(out.f, "process_name", q->pid, 0, q->name);
        for (uint32_t s = 0; s < STREAM_N; s++)
            write_name(out.f, "thread_name", q->pid, s, stream_name((enum stream)s));
        for (size_t i = 0; i < q->n; i++)
            if (q->instances[i].shared ? q->with_shared : q->instances[i].rank == q->rank)
                write_event(out.f, p, q->pid, &q->instances[i]);
    }
    for (uint32_t k = 0; k < n; k++)
        fprintf(
            out.f,
            "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":%u,\"args\":{\"sort_index\":%u}}"
            "%s\n",
            list[k].pid, k, k + 1 < n ? "," : "");
    fprintf(out.f, "]}\n");
    return file_out_commit(&out, e);
}

int sim_write_trace(const char *path, const struct program *p, const struct prediction *pr,
                    struct err *e)
{
    bool *is_rep = MEM_NEW(bool, p->world);
    struct sim_trace_process *list = NULL;
    struct arena a;
    size_t cap = 0;
    uint32_t n = 0;
    int status;

    arena_init(&a);
    is_rep[0] = true;
    for (size_t i = 0; i < pr->n_instances; i++)
        is_rep[pr->instances[i].rank] = true;
    for (uint32_t r = 0; r < p->world; r++) {
        if (!is_rep[r])
            continue;
        list = mem_grow(list, &cap, n + 1, sizeof(*list));
        list[n++] = (struct sim_trace_process){.pid = r,
                                               .name = arena_printf(&a, "rank %u (predicted)", r),
                                               .instances = pr->instances,
                                               .n = pr->n_instances,
                                               .rank = r,
                                               .with_shared = r == 0};
    }
    status = sim_write_processes(path, p, list, n, e);
    mem_free(is_rep);
    mem_free(list);
    arena_release(&a);
    return status;
}
