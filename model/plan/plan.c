/* What follows from a plan that is complete. */
#include "model/plan/plan.h"

#include "model/plan/frameworks.h"
#include "model/tensors/slice.h"

#include "model/plan/optimizers.h"
#include "model/plan/placement.h"
#include "model/plan/plan_json.h"

const char *place_rule_name(enum place_rule r)
{
    return plan_rules[r];
}

enum optimizer plan_optimizer_of(const struct plan *p, const struct tensor *t)
{
    return tensor_is_matrix(t) ? p->job.optimizer : optimizer_of_rest(p->job.optimizer);
}

uint64_t plan_flat_slice(const struct plan *p)
{
    for (uint32_t i = 0; i < p->model.n_tensors; i++)
        if (p->place[i].rule == PLACE_FLAT)
            return placement_slice(p, STATE);
    return 0;
}

void plan_segments(const struct plan *p, uint32_t u,
                   void (*fn)(void *ctx, uint32_t rank, uint64_t offset, uint64_t bytes), void *ctx)
{
    const struct unit *unit = &p->model.units[u];
    uint64_t offset = 0, bytes = 0;
    uint32_t rank = 0;

    for (uint32_t i = unit->first; i < unit->first + unit->n; i++) {
        const struct placement *at = &p->place[i];
        uint64_t more = dtype_bytes(p->job.param_dtype, p->model.tensors[i].numel);

        if (at->rule != PLACE_OWNER)
            continue;
        if (bytes && at->owner == rank && at->offset == offset + bytes) {
            bytes += more;
            continue;
        }
        if (bytes)
            fn(ctx, rank, offset, bytes);
        rank = at->owner;
        offset = at->offset;
        bytes = more;
    }
    if (bytes)
        fn(ctx, rank, offset, bytes);
}

bool plan_gathers_as_framework(const struct plan *p)
{
    return p->job.gather_as_framework && plan_sends_updates(p);
}

bool plan_sends_updates(const struct plan *p)
{
    return p->strategy == STRATEGY_OWNER && placement_parts(p, PARAM) == 1 &&
           placement_parts(p, STATE) > 1;
}

int plan_slice(struct plan *plan, struct arena *a, struct err *e)
{
    uint32_t tp = plan->job.tp;
    struct model *whole;

    if (tp == 1 || plan->whole)
        return 0;
    if (job_check_data_ranks(&plan->job, plan->cluster.gpus_per_node, e))
        return -1;
    if (plan->job.sequence_parallel && plan->job.seq_len % tp)
        return err_set(e, ERR_INVALID,
                       "--sp shares sequences of %llu tokens, which --tp %u does not divide",
                       (unsigned long long)plan->job.seq_len, tp);
    whole = ARENA_NEW(a, struct model, 1);
    *whole = plan->model;
    plan->whole = whole;
    return model_slice(whole, tp, framework_row(plan->job.framework)->vocab_multiple, a,
                       &plan->model, e)
               ? err_prefix(e, "--tp %u", tp)
               : 0;
}
