#include "exec/plant.h"

#include "core/suggest.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define PLANT_NAME(k, name) name,
static const char *const kinds[] = {PLANT_KINDS(PLANT_NAME) NULL};

static int parse_phase(const char *text, enum phase *to, struct err *e)
{
    const char *names[PHASE_N];

    for (int p = 0; p < PHASE_N; p++) {
        names[p] = phase_name((enum phase)p);
        if (!strcmp(text, names[p])) {
            *to = (enum phase)p;
            return 0;
        }
    }
    return err_set(e, ERR_USAGE, "--plant: there is no phase '%.40s'%s", text,
                   suggest(text, names, PHASE_N).s);
}

enum run_fault plant_fault(const struct plant *p)
{
    static const enum run_fault faults[PLANT_N] = {
        [PLANT_SKIP] = RUN_SKIP, [PLANT_SHIFT] = RUN_SHIFT, [PLANT_STALE] = RUN_STALE,
        [PLANT_SUM] = RUN_SUM,   [PLANT_TWICE] = RUN_TWICE, [PLANT_LOSE] = RUN_LOSE,
    };

    return faults[p->kind];
}

int plant_parse(const char *text, struct plant *p, struct err *e)
{
    char kind[32];
    size_t n = strcspn(text, ":");
    const char *rank = text[n] ? text + n + 1 : NULL, *phase = rank ? strchr(rank, ':') : NULL;
    char *end;
    int k;

    n = n < sizeof(kind) ? n : sizeof(kind) - 1;
    memcpy(kind, text, n);
    kind[n] = 0;
    k = suggest_index(kind, kinds);
    if (k < 0)
        return err_set(e, ERR_USAGE,
                       "--plant: there is no fault '%s'%s; expected KIND[:RANK[:PHASE]]", kind,
                       suggest(kind, kinds, PLANT_N).s);
    *p = (struct plant){.kind = (enum plant_kind)k,
                        .phase = k == PLANT_SKIP ? PHASE_OPTIMIZER : PHASE_FORWARD};
    if (rank) {
        unsigned long x = strtoul(rank, &end, 10);

        if (*rank < '0' || *rank > '9' || (*end && end != phase) || x >= PROGRAM_NONE)
            return err_set(e, ERR_USAGE, "--plant: '%.40s' does not start with a rank", rank);
        p->rank = (uint32_t)x;
    }
    if (phase && parse_phase(phase + 1, &p->phase, e))
        return -1;
    if (p->kind == PLANT_SKIP && p->phase != PHASE_OPTIMIZER)
        return err_set(e, ERR_USAGE, "--plant: skip is in the optimizer");
    if (phase && p->kind != PLANT_SKIP && plant_fault(p) != RUN_RIGHT)
        return err_set(e, ERR_USAGE,
                       "--plant: %s is where numbers are gathered, reduced or kept; it takes no "
                       "phase",
                       kinds[p->kind]);
    return 0;
}

/* Is there a gather of owner segments for the unit that plants spoil (move.c)? */
static bool gathers_segments(const struct program *p)
{
    uint32_t unit = p->model->n_units > 1;

    for (uint32_t i = 0; i < p->n_ops; i++) {
        const struct op *o = &p->ops[i];
        const struct segment_table *t = &p->segment_tables[o->coll.table];

        if (o->kind == OP_COLLECTIVE && o->coll.kind == COLL_SEGMENT_GATHER &&
            o->phase != PHASE_OPTIMIZER && unit < t->n_units && t->start[unit] < t->start[unit + 1])
            return true;
    }
    return false;
}

int plant_fits(const struct plant *p, const struct program *program, uint64_t steps, struct err *e)
{
    if (p->kind == PLANT_NONE)
        return 0;
    if (p->rank >= program->world)
        return err_set(e, ERR_INVALID, "--plant: there is no rank %u, the plan has %u", p->rank,
                       program->world);
    if (program->world == 1 && (p->kind == PLANT_STALL || p->kind == PLANT_MPI))
        return err_set(e, ERR_INVALID,
                       "--plant: %s needs another rank that notices, the plan has one",
                       kinds[p->kind]);
    if ((p->kind == PLANT_SHIFT || p->kind == PLANT_STALE) && !gathers_segments(program))
        return err_set(
            e, ERR_INVALID,
            "--plant: %s needs gathers of owner segments, this plan has none; expected a "
            "layout with owners on several ranks",
            kinds[p->kind]);
    if (program->world == 1 && p->kind == PLANT_SUM)
        return err_set(e, ERR_INVALID, "--plant: the sum of one rank is its mean");
    /* the first step's weights of a norm are all 1, wherever they are put */
    if ((p->kind == PLANT_STALE || p->kind == PLANT_SHIFT) && steps < 2)
        return err_set(e, ERR_INVALID,
                       "--plant: %s shows from the second step on, and there is %llu",
                       kinds[p->kind], (unsigned long long)steps);
    for (uint32_t i = 0; i < program->n_ops; i++)
        if (program->ops[i].phase == p->phase)
            return 0;
    return err_set(e, ERR_INVALID, "--plant: this plan has no %s", phase_name(p->phase));
}

int plant_happen(const struct plant *p, const struct exec_run *r, enum phase phase, struct err *e)
{
    struct transport_request none = {0};
    char byte = 0;

    if (p->rank != r->t->rank || p->phase != phase)
        return 0;
    switch (p->kind) {
    case PLANT_KILL:
        kill(getpid(), SIGKILL);
        pause();
        return 0;
    case PLANT_OOM:
        mem_free(mem_alloc(SIZE_MAX / 4, 1));
        return 0;
    case PLANT_MPI:
        return r->t->lib->isend(r->t, r->t->size + 7, 0, &byte, 1, &none, e);
    case PLANT_STALL:
        for (;;)
            pause();
    default:
        return 0;
    }
}

/* ---- in a run ---- */

void plant_gather(struct exec_run *r, const struct instance *i, const struct coll_call *c)
{
    const struct model *m = r->p->model;
    size_t size = dtype_bytes(c->dtype, 1), bytes = m->units[i->unit].numel * size;
    const struct wire_segment *s = c->segments;

    if (i->unit != (m->n_units > 1))
        return;
    if (run_has(r, RUN_SHIFT) && c->n_segments) {
        char *aside = run_scratch(r, SCRATCH_PACK, s->bytes);

        run_copy(r, aside, (char *)c->data + s->offset, s->bytes);
        run_copy(r, (char *)c->data + s->offset + size, aside, s->bytes - size);
    }
    if (!run_has(r, RUN_STALE))
        return;
    if (r->stale) {
        run_copy(r, c->data, r->stale, bytes);
        return;
    }
    r->stale = backend_alloc(r->b, r->stream, bytes);
    r->stale_bytes = bytes;
    run_copy(r, r->stale, c->data, bytes);
}
