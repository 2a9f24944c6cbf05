#include "cli/model_opts.h"

#include "model/plan/job_options.h"

#include <string.h>

static int read_roles(const struct opts *o, uint32_t *roles, struct err *e)
{
    static const enum tensor_role of[] = {ROLE_EMBEDDING, ROLE_POSITION, ROLE_HEAD, ROLE_ROUTER};
    const struct opt_val *v = opts_get(o, "also-matrices");

    for (size_t i = 0; i < v->n_list; i++)
        for (size_t k = 0; job_matrix_roles[k]; k++) {
            if (v->list[i] != job_matrix_roles[k])
                continue;
            if (*roles >> of[k] & 1)
                return err_set(e, opts_fault(o, "also-matrices"), "%s names %s twice",
                               opts_said(o, "also-matrices").s, v->list[i]);
            *roles |= 1u << of[k];
        }
    return 0;
}

int model_opts_read(const struct opts *o, struct model_options *out, struct err *e)
{
    memset(out, 0, sizeof(*out));
    out->mtp = opts_get(o, "mtp")->u64;
    out->names = opts_get(o, "names")->text;
    out->as = opts_get(o, "as")->text;
    if (out->as && model_family_check(out->as, e)) {
        e->code = opts_fault(o, "as");
        return err_prefix(e, "%s", opts_said(o, "as").s);
    }
    out->split_fused = opts_get(o, "split-fused")->u64;
    return read_roles(o, &out->also_matrices, e);
}
