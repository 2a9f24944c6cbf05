#include "cli/output.h"

#include "core/file.h"
#include "core/version.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int output_flush(struct err *e)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    return err_set(e, ERR_EXTERNAL, "cannot write to standard output%s%s", errno ? ": " : "",
                   errno ? strerror(errno) : "");
}

int output_write(const char *path, const struct strbuf *text, struct err *e)
{
    if (path && strcmp(path, "-") != 0)
        return file_write(path, text->s, text->len, e);
    errno = 0;
    if (fwrite(text->s, 1, text->len, stdout) != text->len && errno)
        return err_set(e, ERR_EXTERNAL, "cannot write to standard output: %s", strerror(errno));
    return output_flush(e);
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;

    return !stat(a, &x) && !stat(b, &y) && S_ISREG(x.st_mode) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* The value of an option that this command may not have. */
static const char *value_of(const struct opts *o, const char *name)
{
    for (size_t i = 0; i < o->n; i++)
        if (!strcmp(o->opt[i]->name, name) && o->val[i].set)
            return o->val[i].text;
    return NULL;
}

/* Nothing of it stays. A pipe or a device is not opened twice. */
static int check_writable(const char *path, struct err *e)
{
    struct file_out f;
    struct stat st;

    if (!stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return 0;
    if (file_out_open(&f, path, e))
        return -1;
    file_out_abort(&f);
    return 0;
}

int output_check_targets(const struct opts *o, struct err *e)
{
    static const char *const outs[] = {"output", "trace", "steps-file"};
    static const char *const ins[] = {"cluster", "job", "plan", "tokens", "measured", "calibrate"};
    char config[4096];

    for (size_t i = 0; i < sizeof(outs) / sizeof(outs[0]); i++) {
        const char *out = value_of(o, outs[i]), *hit = NULL;

        for (size_t k = 0; out && k < sizeof(ins) / sizeof(ins[0]); k++) {
            const char *in = value_of(o, ins[k]);

            if (in && same_file(out, in))
                hit = in;
        }
        for (size_t k = 0; out && k < o->n_pos; k++) {
            snprintf(config, sizeof(config), "%s/config.json", o->pos[k]);
            if (same_file(out, o->pos[k]) || same_file(out, config))
                hit = o->pos[k];
        }
        for (size_t k = 0; out && k < i; k++) {
            const char *other = value_of(o, outs[k]);

            if (other && strcmp(out, "-") && (!strcmp(out, other) || same_file(out, other)))
                return err_set(e, ERR_INVALID, "--%s and --%s name the same file '%s'", outs[k],
                               outs[i], out);
        }
        if (hit)
            return err_set(e, ERR_INVALID, "--%s '%s' is the input '%s'; expected another file",
                           outs[i], out, hit);
        if (out && strcmp(out, "-") && check_writable(out, e))
            return err_prefix(e, "--%s", outs[i]);
    }
    return 0;
}

cJSON *output_document(const char *format, uint64_t format_version, int argc, char *const *argv)
{
    return output_document_of_seed(format, format_version, NULL, argc, argv);
}

cJSON *output_document_of_seed(const char *format, uint64_t format_version, const uint64_t *seed,
                               int argc, char *const *argv)
{
    cJSON *doc = json_new_object(), *args;

    json_add_str(doc, "format", format);
    json_add_u64(doc, "format_version", format_version);
    json_add_str(doc, "ballast_version", ballast_version);
    args = json_add_array(doc, "argv");
    json_add_str(args, NULL, "ballast");
    for (int i = 0; i < argc; i++)
        json_add_str(args, NULL, argv[i]);
    if (seed)
        json_add_u64(doc, "seed", *seed);
    else
        json_add_null(doc, "seed");
    return doc;
}
