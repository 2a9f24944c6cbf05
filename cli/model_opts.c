#include "cli/model_opts.h"

#include "core/suggest.h"

#include <string.h>

static int read_roles(const char *list, uint32_t *roles, struct err *e)
{
    static const enum tensor_role may[] = {ROLE_EMBEDDING, ROLE_POSITION, ROLE_HEAD, ROLE_ROUTER};
    const char *names[5] = {0};
    char name[32];
    size_t n;

    for (size_t i = 0; i < 4; i++)
        names[i] = tensor_role_name(may[i]);
    for (const char *p = list; *p; p += n + (p[n] == ',')) {
        size_t i = 0;

        n = strcspn(p, ",");
        snprintf(name, sizeof(name), "%.*s", (int)n, p);
        while (i < 4 && strcmp(name, names[i]) != 0)
            i++;
        if (i == 4)
            return err_set(
                e, ERR_USAGE,
                "--also-matrices: '%s' is not one of embedding, position, head, router%s", name,
                suggest(name, names, 4).s);
        if (*roles >> may[i] & 1)
            return err_set(e, ERR_USAGE, "--also-matrices names %s twice", name);
        *roles |= 1u << may[i];
    }
    return 0;
}

int model_opts_read(const struct opts *o, struct model_options *out, struct err *e)
{
    const struct opt_val *also = opts_get(o, "also-matrices");

    memset(out, 0, sizeof(*out));
    out->mtp = opts_get(o, "mtp")->u64;
    out->names = opts_get(o, "names")->text;
    out->split_fused = opts_get(o, "split-fused")->u64;
    return also->set ? read_roles(also->text, &out->also_matrices, e) : 0;
}
