/* sim/fastest.c - which way owners' segments should travel for the step to be fastest.
 *
 * ALGO_AUTO lets each call take what is fastest for it alone. A step may be faster when all calls go the same way, because
 * others then have the links. So the step is simulated once as the calls choose, and once more for each single way that is not
 * far slower alone. Cost: up to five simulations, one where the step hardly waits for segments.
 */
#include "model/plan/segment_algo.h"
#include "sim/sim.h"

static bool is_auto(const struct op *o)
{
    return o->kind == OP_COLLECTIVE && o->coll.algo == ALGO_AUTO &&
           (o->coll.kind == COLL_SEGMENT_GATHER || o->coll.kind == COLL_SEGMENT_REDUCE);
}

/* Waiting for segments, a share of the step, below which another way to send them is not worth a simulation. */
static const double WORTH_IT = 2e-3;

static bool waits_for_segments(const struct prediction *p)
{
    int64_t sum = 0;

    for (int ph = 0; ph < PHASE_N; ph++)
        sum += p->exposed_ps[ph][COLL_SEGMENT_GATHER] + p->exposed_ps[ph][COLL_SEGMENT_REDUCE];
    return (double)sum > WORTH_IT * (double)p->step_ps;
}

static void set_ways(struct program *p, const bool *free_choice, enum coll_algo way)
{
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (free_choice[i])
            p->ops[i].coll.algo = way;
}

/* A way whose calls take so many times as long alone is not tried: it would have to hide all of that. */
static const double FAR = 1.3;

int sim_predict_fastest(struct program *p, const struct cluster *c, const struct sim_options *o,
                        struct arena *a, struct prediction *out, struct err *e)
{
    bool *free_choice = ARENA_NEW(a, bool, p->n_ops), any = false;
    struct sim_options once = *o;
    enum coll_algo best = ALGO_AUTO;
    int64_t best_ps;
    bool sent = false; /* the framework sends owners' updates its way */

    for (uint32_t i = 0; i < p->n_ops; i++) {
        const struct collective *x = &p->ops[i].coll;

        any |= free_choice[i] = is_auto(&p->ops[i]);
        sent |= x->calls == CALLS_BROADCASTS && x->kind == COLL_SEGMENT_GATHER && !free_choice[i];
    }
    if (sim_predict(p, c, o, a, out, e))
        return -1;
    if (!any || sent || !waits_for_segments(out))
        return 0;
    best_ps = out->step_ps;
    once.keep_trace = false;
    for (const enum coll_algo *way = segment_algo_choices; *way != ALGO_AUTO; way++) {
        struct prediction other;
        struct arena scratch;
        int status;

        if (out->gather_algos == 1u << *way ||
            out->segments_ps[*way] > FAR * out->segments_ps[ALGO_AUTO])
            continue;
        set_ways(p, free_choice, *way);
        arena_init(&scratch);
        status = sim_predict(p, c, &once, &scratch, &other, e);
        arena_release(&scratch);
        if (status)
            return -1;
        if (other.step_ps < best_ps) {
            best_ps = other.step_ps;
            best = *way;
        }
    }
    set_ways(p, free_choice, best);
    return best == ALGO_AUTO ? 0 : sim_predict(p, c, o, a, out, e);
}
