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

/* What a name means: of a file that is there its identity, of one that is not yet its folder's and its own name. */
static bool same_file(const char *a, const char *b)
{
    const char *slash[2] = {strrchr(a, '/'), strrchr(b, '/')};
    const char *name[2] = {a, b};
    struct stat x[2];
    char folder[4096];
    bool there = !stat(a, &x[0]);

    if (there != !stat(b, &x[1]))
        return false;
    for (int i = 0; i < 2 && !there; i++) {
        snprintf(folder, sizeof(folder), "%.*s", slash[i] ? (int)(slash[i] - name[i] + 1) : 1,
                 slash[i] ? name[i] : ".");
        if (stat(folder, &x[i]))
            return false;
    }
    if (there && (!S_ISREG(x[0].st_mode) || !S_ISREG(x[1].st_mode)))
        return false;
    return x[0].st_dev == x[1].st_dev && x[0].st_ino == x[1].st_ino &&
           (there || !strcmp(slash[0] ? slash[0] + 1 : a, slash[1] ? slash[1] + 1 : b));
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

/* The input that a target is, or NULL; inputs that files name are known later (core/file.h). */
static const char *input_at(const struct opts *o, const char *out)
{
    static const char *const ins[] = {"cluster",  "job",       "plan", "tokens",
                                      "measured", "calibrate", "names"};
    char config[4096];

    for (size_t k = 0; k < sizeof(ins) / sizeof(ins[0]); k++) {
        const char *in = value_of(o, ins[k]);
        struct stat st;

        if (in && !stat(in, &st) && same_file(out, in))
            return in;
    }
    for (size_t k = 0; k < o->n_pos; k++) {
        struct stat st;

        snprintf(config, sizeof(config), "%s/config.json", o->pos[k]);
        if ((!stat(o->pos[k], &st) && same_file(out, o->pos[k])) ||
            (!stat(config, &st) && same_file(out, config)))
            return o->pos[k];
    }
    return NULL;
}

int output_check_targets(const struct opts *o, struct err *e)
{
    static const struct {
        const char *option, *end;
    } outs[] = {
        {"output", ""}, {"trace", ""}, {"steps-file", ""}, {"plot", ".svg"}, {"plot", ".png"}};
    enum { N = sizeof(outs) / sizeof(outs[0]) };
    char path[N][4096];

    for (size_t i = 0; i < N; i++) {
        const char *value = value_of(o, outs[i].option), *hit;

        path[i][0] = 0;
        if (!value || !strcmp(value, "-"))
            continue;
        snprintf(path[i], sizeof(path[i]), "%s%s", value, outs[i].end);
        hit = input_at(o, path[i]);
        if (hit)
            return err_set(e, ERR_INVALID,
                           "--%s '%.300s' is the input '%.300s'; expected another file",
                           outs[i].option, path[i], hit);
        for (size_t k = 0; k < i; k++)
            if (*path[k] && (!strcmp(path[k], path[i]) || same_file(path[k], path[i])))
                return err_set(e, ERR_INVALID, "--%s and --%s name the same file '%.300s'",
                               outs[k].option, outs[i].option, path[i]);
        if (!*outs[i].end && check_writable(path[i], e)) /* gnuplot says it of pictures */
            return err_prefix(e, "--%s", outs[i].option);
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
