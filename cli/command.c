#include "cli/command.h"

#include "cli/output.h"

#include <string.h>

static bool wants_list(const struct command_frame *f, const struct opts *o)
{
    const struct opt_val *v = opts_get(o, f->layouts);

    if (v->list)
        return v->n_list == 1 && !strcmp(v->list[0], "list");
    return v->text && !strcmp(v->text, "list");
}

static int with_setup(const struct command_frame *f, struct opts *o, int argc, char **argv,
                      struct strbuf *out, struct err *e)
{
    struct setup s;
    int status;

    if (wants_list(f, o)) {
        setup_list_layouts(out);
        return 0;
    }
    if (f->instead && opts_get(o, f->instead)->set) {
        if (opts_positionals(o, 0, 0, "no MODEL beside a plan", e))
            return -1;
        memset(&s, 0, sizeof(s));
        arena_init(&s.arena);
        s.opts = o;
    } else if (opts_positionals(o, 1, 1, "MODEL", e) || setup_init(&s, o, o->pos[0], e)) {
        return -1;
    }
    status = f->run(&s, o, argc, argv, out, e);
    setup_release(&s);
    return status;
}

int command_run(const struct command_frame *f, int argc, char **argv, struct err *e)
{
    struct strbuf out;
    struct opts o;
    int status;

    opts_init(&o);
    job_options_add(&o);
    opts_add(&o, "Options", f->rows, f->n_rows);
    if (opts_wants_help(argc - 1, argv + 1)) {
        fputs(f->usage, stdout);
        opts_help(stdout, &o);
        opts_release(&o);
        return 0;
    }
    strbuf_init(&out);
    status = opts_parse(&o, argc - 1, argv + 1, e) || output_check_targets(&o, e) ? -1 : 0;
    if (!status)
        status = with_setup(f, &o, argc, argv, &out, e);
    /* A result that a later step (a picture) could not follow is printed all the same; the first error stays. */
    if (status >= 0 || out.len) {
        struct err late = {.code = ERR_NONE};

        if (output_write(f->own_output ? NULL : opts_get(&o, "output")->text, &out, &late) &&
            status >= 0) {
            *e = late;
            status = -1;
        }
    }
    strbuf_release(&out);
    opts_release(&o);
    return status;
}

static int list_bundled(const struct plain_command *c, const struct opts *o, struct arena *a,
                        int argc, char **argv, struct strbuf *out, struct err *e)
{
    enum table_format format = (enum table_format)opts_get(o, "format")->u64;
    struct table t;
    int rc;

    if (opts_positionals(o, 0, 0, "--list", e))
        return -1;
    for (size_t i = 0; i < o->n; i++) {
        const char *name = o->opt[i]->name;

        if (o->val[i].set && strcmp(name, "list") && strcmp(name, "format") &&
            strcmp(name, "output"))
            return err_set(e, ERR_USAGE, "--%s has no effect beside --list", name);
    }
    rc = c->list(a, &t, e);
    if (!rc && format == TABLE_AS_JSON) {
        cJSON *doc = output_document(arena_printf(a, "ballast-%s", c->bundled), 1, argc, argv);

        json_add_tree(doc, c->bundled, table_to_json(&t));
        json_print(doc, true, out);
        strbuf_putc(out, '\n');
        json_free(doc);
    } else if (!rc) {
        table_print(&t, format, out);
        if (c->below && format != TABLE_AS_CSV)
            strbuf_printf(out, "\n%s\n", c->below(a));
    }
    table_release(&t);
    return rc;
}

int command_plain(const struct plain_command *c, int argc, char **argv, struct err *e)
{
    struct strbuf out;
    struct arena a;
    struct opts o;
    int status;

    opts_init(&o);
    opts_add(&o, "Options", c->rows, c->n_rows);
    for (size_t i = 0; c->job_options && c->job_options[i]; i++)
        opts_add(&o, i ? NULL : "Job options", &job_option(c->job_options[i])->opt, 1);
    if (opts_wants_help(argc - 1, argv + 1)) {
        fputs(c->usage, stdout);
        opts_help(stdout, &o);
        opts_release(&o);
        return 0;
    }
    arena_init(&a);
    strbuf_init(&out);
    status = opts_parse(&o, argc - 1, argv + 1, e) || output_check_targets(&o, e) ? -1 : 0;
    if (!status)
        status = c->list && opts_get(&o, "list")->set ? list_bundled(c, &o, &a, argc, argv, &out, e)
                                                      : c->run(&o, &a, argc, argv, &out, e);
    if (status >= 0 && output_write(opts_get(&o, "output")->text, &out, e))
        status = -1;
    strbuf_release(&out);
    arena_release(&a);
    opts_release(&o);
    return status;
}
