#include "cli/exec_trace.h"

#include "core/num.h"

#include <math.h>
#include <string.h>

/* The last step's operations of every rank: [size][most], the first n[rank] of each. Collective. */
static int all_times(const struct exec_run *r, struct run_time **out, size_t *most, uint64_t **n,
                     struct err *e)
{
    uint64_t mine = r->n_times;
    struct run_time *padded;
    int status;

    *n = MEM_NEW(uint64_t, r->t->size);
    *out = NULL;
    *most = 0;
    if (transport_all_gather_control(r->t, &mine, sizeof(mine), *n, e))
        return -1;
    for (uint32_t i = 0; i < r->t->size; i++)
        *most = num_max(*most, (*n)[i]);
    padded = MEM_NEW(struct run_time, *most);
    memcpy(padded, r->times, mine * sizeof(*padded));
    *out = MEM_NEW(struct run_time, *most * r->t->size);
    status = transport_all_gather_control(r->t, padded, *most * sizeof(*padded), *out, e);
    mem_free(padded);
    return status;
}

static bool same(const struct instance *a, const struct instance *b)
{
    return a->op == b->op && a->unit == b->unit && a->micro == b->micro && a->item == b->item;
}

/* As instances of a trace; of collectives, the algorithm that the prediction names for the same one. Both are in walking
 * order, so that the search starts where the last one ended. */
static struct sim_instance *as_instances(const struct measured *m, const struct run_time *t,
                                         size_t n, uint32_t rank)
{
    struct sim_instance *x = MEM_NEW(struct sim_instance, n);
    const struct prediction *p = &m->predicted;
    double first = n ? t[0].start_s : 0;
    size_t at = 0;

    for (size_t i = 1; i < n; i++)
        first = fmin(first, t[i].start_s);
    for (size_t i = 0; i < n; i++) {
        x[i] = (struct sim_instance){.id = t[i].id,
                                     .rank = rank,
                                     .start_ps = llround((t[i].start_s - first) * 1e12),
                                     .end_ps = llround((t[i].end_s - first) * 1e12)};
        for (size_t k = 0; k < p->n_instances; k++, at++) {
            at %= p->n_instances;
            if (same(&p->instances[at].id, &t[i].id)) {
                x[i].algo = p->instances[at].algo;
                break;
            }
        }
    }
    return x;
}

static int write(const char *path, const struct measured *m, const struct run_time *times,
                 size_t most, const uint64_t *n, struct err *e)
{
    uint32_t world = m->p->world, n_list = 0;
    struct sim_trace_process *list = MEM_NEW(struct sim_trace_process, 2 * world);
    struct sim_instance **own = MEM_NEW(struct sim_instance *, world);
    bool *is_rep = MEM_NEW(bool, world);
    struct arena a;
    int status;

    arena_init(&a);
    for (size_t i = 0; i < m->predicted.n_instances; i++)
        is_rep[m->predicted.instances[i].rank] = true;
    for (uint32_t r = 0; r < world; r++) {
        if (!is_rep[r])
            continue;
        own[r] = as_instances(m, times + r * most, n[r], r);
        list[n_list++] =
            (struct sim_trace_process){.pid = 2 * r,
                                       .name = arena_printf(&a, "rank %u (predicted)", r),
                                       .instances = m->predicted.instances,
                                       .n = m->predicted.n_instances,
                                       .rank = r,
                                       .with_shared = true};
        list[n_list++] =
            (struct sim_trace_process){.pid = 2 * r + 1,
                                       .name = arena_printf(&a, "rank %u (measured)", r),
                                       .instances = own[r],
                                       .n = n[r],
                                       .rank = r};
    }
    status = sim_write_processes(path, m->p, list, n_list, e);
    for (uint32_t r = 0; r < world; r++)
        mem_free(own[r]);
    mem_free(own);
    mem_free(is_rep);
    mem_free(list);
    arena_release(&a);
    return status;
}

int exec_trace(const char *path, const struct measured *m, const struct exec_run *r, struct err *e)
{
    struct run_time *times;
    uint64_t *n;
    size_t most;
    int status = all_times(r, &times, &most, &n, e);

    if (!status && r->t->rank == 0)
        status = write(path, m, times, most, n, e);
    mem_free(times);
    mem_free(n);
    return status;
}
