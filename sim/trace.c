/* Chrome trace: one process a class of ranks (its representative), one row a stream, complete events in microseconds. */
#include "sim/sim.h"

#include "core/file.h"

#include <stdio.h>

static void write_name(FILE *f, const char *what, uint32_t pid, uint32_t tid, const char *name)
{
    fprintf(f, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"%s\"}},\n",
            what, pid, tid, name);
}

static void write_rows(FILE *f, uint32_t rank)
{
    char name[32];

    snprintf(name, sizeof(name), "rank %u (predicted)", rank);
    write_name(f, "process_name", rank, 0, name);
    for (uint32_t s = 0; s < STREAM_N; s++)
        write_name(f, "thread_name", rank, s, stream_name((enum stream)s));
}

int sim_write_trace(const char *path, const struct program *p, const struct prediction *pr,
                    struct err *e)
{
    struct file_out out;
    uint32_t named = 0;

    if (file_out_open(&out, path, e))
        return -1;
    fprintf(out.f, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
    write_rows(out.f, 0);
    for (size_t i = 0; i < pr->n_instances; i++) {
        const struct sim_instance *x = &pr->instances[i];
        const struct op *o = &p->ops[x->id.op];

        if (x->rank > named) {
            named = x->rank;
            write_rows(out.f, x->rank);
        }
        fprintf(out.f,
                "{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"pid\":%u,\"tid\":%u,\"ts\":%.6f,"
                "\"dur\":%.6f,"
                "\"args\":{\"op\":%u,\"unit\":%u,\"micro_batch\":%u,\"item\":%u%s%s%s}},\n",
                o->name, phase_name(o->phase), x->rank, (unsigned)o->stream,
                (double)x->start_ps / 1e6, (double)(x->end_ps - x->start_ps) / 1e6, x->id.op,
                x->id.unit, x->id.micro, x->id.item, x->algo ? ",\"algorithm\":\"" : "",
                x->algo ? coll_algo_name(x->algo) : "", x->algo ? "\"" : "");
    }
    fprintf(out.f, "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":0,\"args\":{\"sort_"
                   "index\":0}}\n]}\n");
    return file_out_commit(&out, e);
}
