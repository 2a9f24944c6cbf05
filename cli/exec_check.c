#include "cli/exec_check.h"

#include "cli/output.h"
#include "exec/check.h"

struct proof {
    const struct plan *plan;
    const struct machine *on;
    const struct run_options *o;
};

static const char *const evidences[] = {NULL, "gathered", "reduced",
                                        "updated"}; /* enum check_evidence */

enum verdict {
    VERDICT_EQUAL,
    VERDICT_WITHIN,
    VERDICT_BYTES,
    VERDICT_ENDLESS,
    VERDICT_NUMBERS,
    VERDICT_LOSSES
};
static const char *const verdicts[] = {"bitwise equal",      "within the allowed ulp",
                                       "bytes moved differ", "not finite",
                                       "numbers differ",     "losses differ"};

static enum verdict verdict_of(const struct check_result *c)
{
    if (!c->bytes_equal)
        return VERDICT_BYTES;
    if (c->endless_step)
        return VERDICT_ENDLESS;
    if (check_bits(c))
        return VERDICT_EQUAL;
    if (check_holds(c))
        return VERDICT_WITHIN;
    return c->evidence != CHECK_NOTHING ? VERDICT_NUMBERS : VERDICT_LOSSES;
}

static uint64_t states_that_differ(const struct check_result *c)
{
    return c->n_differ[COMPARE_STATE] + c->n_differ[COMPARE_MASTER];
}

static void numbers_differ(const struct check_result *c, struct strbuf *b)
{
    static const char *const did[] = {
        NULL, "gathers of step %u brought wrong: ", "reductions of step %u left wrong gradients: ",
        "updates of step %u left wrong: "};

    strbuf_printf(b, "check: DIFFERS in %llu parameters by up to %llu ulp",
                  (unsigned long long)c->n_differ[COMPARE_PARAMETER],
                  (unsigned long long)c->max_ulp);
    if (states_that_differ(c))
        strbuf_printf(b, ", %llu numbers of optimizer states",
                      (unsigned long long)states_that_differ(c));
    if (c->n_differ[COMPARE_GRADIENT])
        strbuf_printf(b, ", %llu reduced gradients",
                      (unsigned long long)c->n_differ[COMPARE_GRADIENT]);
    if (c->allowed_ulp)
        strbuf_printf(b,
                      " (allowed: %llu ulp of a parameter, %.2g of a tensor's largest number of "
                      "gradients and "
                      "states, which are off by up to %.2g; rounding grows with steps and rate)",
                      (unsigned long long)c->allowed_ulp, c->allowed, c->worst);
    strbuf_puts(b, "; ");
    strbuf_printf(b, did[c->evidence], c->evidence_step);
    strbuf_printf(b, "%s%s%s\n", c->concerned, c->first[0] ? "; after " : "", c->first);
}

static void as_text(const struct proof *s, const struct check_result *c, struct strbuf *b)
{
    char groups[64] = "";

    if (c->group < s->plan->world)
        snprintf(groups, sizeof(groups), ", ddp too reducing in groups of %u first", c->group);
    strbuf_printf(b,
                  "%s under %s and under ddp: %u ranks, %u steps, seed %llu, %s products, ordered "
                  "reductions%s%s\n\n",
                  s->plan->model.name, s->plan->layout_full, s->plan->world, c->steps,
                  (unsigned long long)s->o->seed, s->on->gemm_name,
                  c->every_micro ? ", ddp too reducing every micro-batch" : "", groups);
    strbuf_printf(b, "step  %-24s  %-24s\n", s->plan->layout_full, "ddp");
    for (uint32_t i = 0; i < c->steps; i++)
        strbuf_printf(b, "%4u  %-24.17g  %-24.17g\n", i + 1, c->loss[i], c->loss_ddp[i]);
    strbuf_printf(
        b, "\nbytes a step, largest over ranks: sent %llu, received %llu: %s the program's table\n",
        (unsigned long long)c->sent, (unsigned long long)c->received,
        c->bytes_equal ? "equal to" : "DIFFERENT from");
    switch (verdict_of(c)) {
    case VERDICT_EQUAL:
        strbuf_puts(b, "check: bitwise equal\n");
        break;
    case VERDICT_WITHIN:
        strbuf_printf(b, "check: within %llu ulp (%llu allowed, docs/MODEL.md)\n",
                      (unsigned long long)c->max_ulp, (unsigned long long)c->allowed_ulp);
        break;
    case VERDICT_BYTES:
        strbuf_puts(b, "check: DIFFERS in bytes moved\n");
        break;
    case VERDICT_ENDLESS:
        strbuf_printf(b, "check: not finite from step %u, first in %s\n", c->endless_step,
                      c->endless);
        break;
    case VERDICT_NUMBERS:
        numbers_differ(c, b);
        break;
    case VERDICT_LOSSES:
        strbuf_puts(b, "check: DIFFERS in the losses\n");
        break;
    }
}

static void as_json(const struct proof *s, const struct check_result *c, int argc, char **argv,
                    struct strbuf *b)
{
    cJSON *doc = output_document_of_seed("ballast-exec-check", 1, &s->o->seed, argc, argv), *x;

    json_add_str(doc, "layout", s->plan->layout_full);
    json_add_u64(doc, "ranks", s->plan->world);
    json_add_str(doc, "gemm", s->on->gemm_name);
    json_add_str(doc, "ddp_reduces", c->every_micro ? "every micro-batch" : "last micro-batch");
    json_add_u64(doc, "ddp_reduces_in_groups_of", c->group);
    x = json_add_array(doc, "loss");
    for (uint32_t i = 0; i < c->steps; i++)
        json_add_double(x, NULL, c->loss[i]);
    x = json_add_array(doc, "loss_ddp");
    for (uint32_t i = 0; i < c->steps; i++)
        json_add_double(x, NULL, c->loss_ddp[i]);
    json_add_str(doc, "verdict", verdicts[verdict_of(c)]);
    json_add_u64(doc, "not_finite_from_step", c->endless_step);
    json_add_str(doc, "not_finite_first", c->endless_step ? c->endless : NULL);
    json_add_u64(doc, "parameters_that_differ", c->n_differ[COMPARE_PARAMETER]);
    json_add_u64(doc, "states_that_differ", states_that_differ(c));
    json_add_u64(doc, "gradients_that_differ", c->n_differ[COMPARE_GRADIENT]);
    json_add_u64(doc, "max_ulp", c->max_ulp);
    json_add_u64(doc, "allowed_ulp", c->allowed_ulp);
    json_add_double(doc, "max_share", c->worst);
    json_add_double(doc, "allowed_share", c->allowed_ulp ? c->allowed : 0);
    json_add_str(doc, "evidence", evidences[c->evidence]);
    json_add_u64(doc, "evidence_step", c->evidence_step);
    json_add_str(doc, "first_difference", c->first[0] ? c->first : NULL);
    json_add_str(doc, "tensors_concerned", c->concerned[0] ? c->concerned : NULL);
    json_add_bool(doc, "bytes_equal", c->bytes_equal);
    json_add_u64(doc, "bytes_sent_max", c->sent);
    json_add_u64(doc, "bytes_received_max", c->received);
    json_print(doc, true, b);
    strbuf_puts(b, "\n");
    json_free(doc);
}

int exec_check(const struct plan *plan, struct machine *on, const struct run_options *o,
               uint32_t steps, enum table_format f, int argc, char **argv, struct strbuf *out,
               struct err *e)
{
    const struct proof p = {plan, on, o};
    struct check_result c;
    struct arena a;
    int status;

    arena_init(&a);
    status = check_run(plan, &on->b, o, steps, &a, &c, e);
    if (!status) {
        status = check_holds(&c) ? 0 : 1;
        if (f == TABLE_AS_JSON)
            as_json(&p, &c, argc, argv, out);
        else
            as_text(&p, &c, out);
    }
    arena_release(&a);
    return status;
}
