#include "core/opts.h"
#include "core/num.h"
#include "core/suggest.h"
#include "core/units.h"

#include <math.h>
#include <string.h>

void opts_init(struct opts *o)
{
    memset(o, 0, sizeof(*o));
    arena_init(&o->arena);
}

void opts_release(struct opts *o)
{
    mem_free(o->opt);
    mem_free(o->val);
    mem_free(o->heading);
    mem_free(o->pos);
    arena_release(&o->arena);
    memset(o, 0, sizeof(*o));
}

static size_t find(const struct opts *o, const char *name)
{
    size_t i = 0;

    while (i < o->n && strcmp(o->opt[i]->name, name) != 0 &&
           (!o->opt[i]->alias || strcmp(o->opt[i]->alias, name) != 0))
        i++;
    return i;
}

static size_t find_letter(const struct opts *o, char letter)
{
    size_t i = 0;

    while (i < o->n && o->opt[i]->letter != letter)
        i++;
    return i;
}

/* ---- one value ---- */

static int check_u64(const struct opt *opt, const char *text, uint64_t *out, struct err *e)
{
    uint64_t max = opt->max ? opt->max : NUM_MAX;
    int rc = opt->type == OPT_BYTES ? units_bytes(text, out, e)
             : opt->type == OPT_U64 ? units_integer(text, out, e)
                                    : units_count(text, out, e);

    if (rc)
        return -1;
    if (*out >= opt->min && *out <= max)
        return 0;
    if (!opt->max)
        return err_set(e, ERR_INVALID, "'%.60s' is too small, expected at least %llu", text,
                       (unsigned long long)opt->min);
    return err_set(e, ERR_INVALID, "'%.60s' is out of range, expected %llu to %llu", text,
                   (unsigned long long)opt->min, (unsigned long long)max);
}

static int check_double(const struct opt *opt, const char *text, double *out, struct err *e)
{
    double hi = opt->hi != 0 ? opt->hi : INFINITY;
    int rc = opt->type == OPT_BANDWIDTH ? units_bandwidth(text, out, e)
             : opt->type == OPT_TIME    ? units_time(text, out, e)
                                        : units_number(text, out, e);

    if (rc)
        return -1;
    if (*out >= opt->lo && *out <= hi)
        return 0;
    if (isinf(hi))
        return err_set(e, ERR_INVALID, "'%.60s' is too small, expected %s", text,
                       opt->lo == JSON_ABOVE_0 ? "more than 0" : units_show_double(opt->lo).s);
    return err_set(e, ERR_INVALID, "'%.60s' is out of range, expected %s to %s", text,
                   units_show_double(opt->lo).s, units_show_double(hi).s);
}

static void join(const char *const *names, const char *between, struct strbuf *out)
{
    for (size_t i = 0; names[i]; i++) {
        if (i)
            strbuf_puts(out, between);
        strbuf_puts(out, names[i]);
    }
}

static int check_choice(const struct opt *opt, const char *text, int *out, struct err *e)
{
    struct strbuf b;

    *out = suggest_index(text, opt->choices);
    if (*out >= 0)
        return 0;
    strbuf_init(&b);
    join(opt->choices, ", ", &b);
    err_set(e, ERR_INVALID, "'%.60s' is not one of %s%s", text, b.s,
            suggest(text, opt->choices, suggest_count(opt->choices)).s);
    strbuf_release(&b);
    return -1;
}

static int set_list(struct opts *o, const struct opt *opt, const char *text, struct opt_val *v,
                    struct err *e)
{
    size_t n = 1, i = 0;

    for (const char *p = text; *p; p++)
        n += *p == ',';
    v->list = ARENA_NEW(&o->arena, const char *, n);
    v->u64s = opt->type == OPT_COUNTS ? ARENA_NEW(&o->arena, uint64_t, n) : NULL;
    v->n_list = n;
    for (const char *p = text; i < n; i++) {
        size_t len = strcspn(p, ",");
        int k;

        if (len == 0)
            return err_set(e, ERR_INVALID, "'%.60s' has an empty element, expected a,b,c", text);
        v->list[i] = arena_strndup(&o->arena, p, len);
        p += len + 1;
        if (v->u64s && check_u64(opt, v->list[i], &v->u64s[i], e))
            return -1;
        if (opt->choices) {
            if (check_choice(opt, v->list[i], &k, e))
                return -1;
            v->list[i] = opt->choices[k];
        }
    }
    return 0;
}

/* Parse text into *v; on failure *e has the text without the option's name. */
static int parse_value(struct opts *o, const struct opt *opt, const char *text, struct opt_val *v,
                       struct err *e)
{
    int k;

    memset(v, 0, sizeof(*v));
    v->text = arena_strdup(&o->arena, text);
    switch (opt->type) {
    case OPT_FLAG:
        v->u64 = 1;
        return 0;
    case OPT_STRING:
        return *text ? 0 : err_set(e, ERR_INVALID, "is empty, expected a text");
    case OPT_U64:
    case OPT_COUNT:
    case OPT_BYTES:
        return check_u64(opt, text, &v->u64, e);
    case OPT_DOUBLE:
    case OPT_BANDWIDTH:
    case OPT_TIME:
        return check_double(opt, text, &v->d, e);
    case OPT_CHOICE:
        if (check_choice(opt, text, &k, e))
            return -1;
        v->text = opt->choices[k];
        v->u64 = (uint64_t)k;
        return 0;
    case OPT_LIST:
    case OPT_COUNTS:
        return set_list(o, opt, text, v, e);
    }
    return 0;
}

void opts_add(struct opts *o, const char *heading, const struct opt *rows, size_t n)
{
    struct err e;

    for (size_t i = 0; i < n; i++) {
        const struct opt *opt = &rows[i];

        BUG_ON(find(o, opt->name) < o->n);
        BUG_ON(opt->letter && find_letter(o, opt->letter) < o->n);
        BUG_ON(opt->type == OPT_CHOICE && !opt->choices);
        o->opt = mem_grow(o->opt, &o->cap, o->n + 1, sizeof(*o->opt));
        o->val = mem_grow(o->val, &o->cap_val, o->n + 1, sizeof(*o->val));
        o->heading = mem_grow(o->heading, &o->cap_heading, o->n + 1, sizeof(*o->heading));
        o->opt[o->n] = opt;
        o->heading[o->n] = i == 0 ? heading : NULL;
        memset(&o->val[o->n], 0, sizeof(*o->val));
        if (opt->dflt)
            BUG_ON(parse_value(o, opt, opt->dflt, &o->val[o->n], &e));
        o->n++;
    }
}

/* ---- the command line ---- */

bool opts_wants_help(int argc, char *const *argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static int unknown(const struct opts *o, const char *name, struct err *e)
{
    const char **names = mem_alloc(o->n, sizeof(*names));
    const char *near;

    for (size_t i = 0; i < o->n; i++)
        names[i] = o->opt[i]->name;
    near = suggest_nearest(name, names, o->n);
    mem_free(names);
    if (near)
        return err_set(e, ERR_USAGE, "unknown option '--%.60s' (did you mean '--%s'?)", name, near);
    return err_set(e, ERR_USAGE, "unknown option '--%.60s', see --help", name);
}

static int set_from_cli(struct opts *o, size_t i, const char *text, struct err *e)
{
    struct opt_val v;

    if (o->val[i].set == OPT_FROM_CLI)
        return err_set(e, ERR_USAGE, "--%s is given twice", o->opt[i]->name);
    if (parse_value(o, o->opt[i], text, &v, e)) {
        err_prefix(e, "--%s", o->opt[i]->name);
        e->code = ERR_USAGE;
        return -1;
    }
    v.set = OPT_FROM_CLI;
    o->val[i] = v;
    return 0;
}

/* "-" is a value (standard input), and so is -5; -o and --name are not. */
static bool looks_like_option(const char *s)
{
    return s[0] == '-' && s[1] && !(s[1] >= '0' && s[1] <= '9') && s[1] != '.';
}

static void add_positional(struct opts *o, const char *s)
{
    o->pos = mem_grow(o->pos, &o->cap_pos, o->n_pos + 1, sizeof(*o->pos));
    o->pos[o->n_pos++] = s;
}

int opts_parse(struct opts *o, int argc, char *const *argv, struct err *e)
{
    for (int a = 0; a < argc; a++) {
        const char *arg = argv[a], *text = NULL;
        size_t i;

        if (strcmp(arg, "--") == 0) {
            while (++a < argc)
                add_positional(o, argv[a]);
            break;
        }
        if (arg[0] != '-' || !arg[1]) {
            add_positional(o, arg);
            continue;
        }
        if (arg[1] == '-') {
            char name[64];
            size_t len = strcspn(arg + 2, "=");

            snprintf(name, sizeof(name), "%.*s", len < 63 ? (int)len : 63, arg + 2);
            i = len < sizeof(name) ? find(o, name) : o->n;
            if (i == o->n)
                return unknown(o, name, e);
            if (arg[2 + len] == '=')
                text = arg + 2 + len + 1;
        } else {
            i = find_letter(o, arg[1]);
            if (i == o->n)
                return err_set(e, ERR_USAGE, "unknown option '%.60s', see --help", arg);
            if (arg[2])
                text = arg + 2;
        }
        if (o->opt[i]->type == OPT_FLAG) {
            if (text)
                return err_set(e, ERR_USAGE, "--%s takes no value", o->opt[i]->name);
            text = "yes";
        } else if (!text) {
            if (a + 1 >= argc || looks_like_option(argv[a + 1]))
                return err_set(e, ERR_USAGE, "--%s needs a value", o->opt[i]->name);
            text = argv[++a];
        }
        if (set_from_cli(o, i, text, e))
            return -1;
    }
    return 0;
}

int opts_positionals(const struct opts *o, size_t min, size_t max, const char *what, struct err *e)
{
    if (o->n_pos < min)
        return err_set(e, ERR_USAGE, "%s is missing, see --help", what);
    if (o->n_pos <= max)
        return 0;
    if (max == 0)
        return err_set(e, ERR_USAGE, "unexpected argument '%.60s', see --help", o->pos[0]);
    return err_set(e, ERR_USAGE, "unexpected argument '%.60s' after %s", o->pos[max], what);
}

int opts_set(struct opts *o, const char *name, const char *text, enum opt_from from, struct err *e)
{
    size_t i = find(o, name);
    struct opt_val v;

    BUG_ON(i == o->n);
    if (parse_value(o, o->opt[i], text, &v, e))
        return err_prefix(e, "--%s", name);
    v.set = from;
    o->val[i] = v;
    return 0;
}

const struct opt_val *opts_get(const struct opts *o, const char *name)
{
    size_t i = find(o, name);

    BUG_ON(i == o->n);
    return &o->val[i];
}

/* ---- JSON ---- */

static void underscores(char *s)
{
    for (; *s; s++)
        if (*s == '-')
            *s = '_';
}

struct opts_said opts_said(const struct opts *o, const char *name)
{
    struct opts_said said;
    char key[64];

    snprintf(key, sizeof(key), "%s", name);
    underscores(key);
    if (opts_get(o, name)->set == OPT_FROM_JSON && o->json_file)
        snprintf(said.s, sizeof(said.s), "'%.300s': %s", o->json_file, key);
    else
        snprintf(said.s, sizeof(said.s), "--%s", name);
    return said;
}

enum err_code opts_fault(const struct opts *o, const char *name)
{
    return opts_get(o, name)->set == OPT_FROM_JSON ? ERR_INVALID : ERR_USAGE;
}

/* The text that one would type for this value; false when no option takes such a value. */
static bool typed_text(const cJSON *node, struct strbuf *out)
{
    if (cJSON_IsString(node))
        strbuf_puts(out, node->valuestring);
    else if (cJSON_IsBool(node))
        strbuf_puts(out, cJSON_IsTrue(node) ? "yes" : "no");
    else if (cJSON_IsNumber(node) && node->valuedouble == floor(node->valuedouble) &&
             fabs(node->valuedouble) <= 0x1p53)
        strbuf_printf(out, "%.0f", node->valuedouble);
    else if (cJSON_IsNumber(node))
        strbuf_puts(out, units_show_double(node->valuedouble).s);
    else
        return false;
    return true;
}

static int apply_one(struct opts *o, size_t i, const struct json_at *at, struct err *e)
{
    const struct opt *opt = o->opt[i];
    bool list = opt->type == OPT_LIST || opt->type == OPT_COUNTS;
    struct strbuf text;
    struct opt_val v;
    struct json_at it;
    int rc = -1;

    if (cJSON_IsNull(at->node))
        return 0;
    strbuf_init(&text);
    if (opt->type == OPT_FLAG && !cJSON_IsBool(at->node)) {
        json_err(at, ERR_PARSE, e, "is not true or false");
        goto out;
    }
    if (list && cJSON_IsArray(at->node)) {
        if (!json_first(at, &it)) {
            json_err(at, ERR_INVALID, e, "is an empty list");
            goto out;
        }
        for (bool ok = json_first(at, &it); ok; ok = json_next(&it)) {
            if (it.index)
                strbuf_putc(&text, ',');
            if (!typed_text(it.node, &text)) {
                json_err(&it, ERR_PARSE, e, "is not a text or number");
                goto out;
            }
        }
    } else if (!typed_text(at->node, &text)) {
        json_err(at, ERR_PARSE, e, "is not a text or number%s", list ? ", or a list of them" : "");
        goto out;
    }
    if (parse_value(o, opt, text.s, &v, e)) {
        err_prefix(e, "'%s': %s", at->file, at->path);
        e->code = ERR_INVALID;
        goto out;
    }
    if (opt->type == OPT_FLAG)
        v.u64 = cJSON_IsTrue(at->node);
    v.set = OPT_FROM_JSON;
    if (o->val[i].set != OPT_FROM_CLI)
        o->val[i] = v;
    rc = 0;
out:
    strbuf_release(&text);
    return rc;
}

int opts_apply_json(struct opts *o, const struct json_at *at, struct err *e)
{
    const char **keys = mem_alloc(2 * o->n, sizeof(*keys)); /* and aliases */
    size_t n = 0, n_names;
    struct json_at m;
    int rc = -1;

    o->json_file = arena_strdup(&o->arena, at->file);
    for (size_t i = 0; i < o->n; i++) {
        char *key;

        if (o->opt[i]->cli_only)
            continue;
        key = arena_strdup(&o->arena, o->opt[i]->name);
        underscores(key);
        keys[n++] = key;
    }
    n_names = n;
    for (size_t i = 0; i < o->n; i++)
        if (!o->opt[i]->cli_only && o->opt[i]->alias)
            keys[n++] = o->opt[i]->alias;
    if (json_only_keys(at, keys, n, e))
        goto out;
    n = 0;
    for (size_t i = 0; i < o->n; i++) {
        const struct opt *opt = o->opt[i];

        if (opt->cli_only)
            continue;
        if (opt->alias && json_opt(at, keys[n], &m) && json_opt(at, opt->alias, &m)) {
            json_err(at, ERR_INVALID, e, "has both '%s' and '%s', which are one", keys[n],
                     opt->alias);
            goto out;
        }
        if ((json_opt(at, keys[n], &m) || (opt->alias && json_opt(at, opt->alias, &m))) &&
            apply_one(o, i, &m, e))
            goto out;
        n++;
    }
    BUG_ON(n != n_names);
    rc = 0;
out:
    mem_free(keys);
    return rc;
}

void opts_to_json(const struct opts *o, bool all, cJSON *to)
{
    for (size_t i = 0; i < o->n; i++) {
        const struct opt *opt = o->opt[i];
        const struct opt_val *v = &o->val[i];
        char key[64];
        cJSON *list;

        if (opt->cli_only || !v->text || (!v->set && !all))
            continue;
        snprintf(key, sizeof(key), "%s", opt->name);
        underscores(key);
        switch (opt->type) {
        case OPT_FLAG:
            json_add_bool(to, key, v->u64);
            break;
        case OPT_U64:
        case OPT_COUNT:
        case OPT_BYTES:
            json_add_u64(to, key, v->u64);
            break;
        case OPT_DOUBLE:
        case OPT_BANDWIDTH:
        case OPT_TIME:
            json_add_double(to, key, v->d);
            break;
        case OPT_STRING:
        case OPT_CHOICE:
            json_add_str(to, key, v->text);
            break;
        case OPT_LIST:
        case OPT_COUNTS:
            list = json_add_array(to, key);
            for (size_t k = 0; k < v->n_list; k++) {
                if (v->u64s)
                    json_add_u64(list, NULL, v->u64s[k]);
                else
                    json_add_str(list, NULL, v->list[k]);
            }
            break;
        }
    }
}

/* ---- text ---- */

void opts_show(const struct opts *o, size_t i, struct strbuf *to)
{
    const struct opt *opt = o->opt[i];
    const struct opt_val *v = &o->val[i];

    if (!v->text || (opt->type == OPT_FLAG && !v->u64)) {
        strbuf_puts(to, "not given");
        return;
    }
    if (opt->own || opt->type == OPT_FLAG) {
        strbuf_puts(to, "given");
        return;
    }
    switch (opt->type) {
    case OPT_U64:
    case OPT_COUNT:
    case OPT_BYTES:
        strbuf_printf(to, "%llu", (unsigned long long)v->u64);
        break;
    case OPT_DOUBLE:
    case OPT_BANDWIDTH:
    case OPT_TIME:
        strbuf_puts(to, units_show_double(v->d).s);
        break;
    case OPT_LIST:
    case OPT_COUNTS:
        for (size_t k = 0; k < v->n_list; k++) {
            strbuf_puts(to, k ? "," : "");
            if (v->u64s)
                strbuf_printf(to, "%llu", (unsigned long long)v->u64s[k]);
            else
                strbuf_puts(to, v->list[k]);
        }
        break;
    case OPT_FLAG:
    case OPT_STRING:
    case OPT_CHOICE:
        strbuf_puts(to, v->text);
        break;
    }
}

/* ---- help ---- */

enum { HELP_WIDTH = 100, HELP_LEFT = 30 };

static const char *meta(const struct opt *opt)
{
    static const char *const by_type[] = {
        [OPT_FLAG] = "",          [OPT_STRING] = "TEXT",    [OPT_U64] = "N",
        [OPT_COUNT] = "N",        [OPT_BYTES] = "BYTES",    [OPT_DOUBLE] = "X",
        [OPT_BANDWIDTH] = "Gb/s", [OPT_TIME] = "TIME",      [OPT_CHOICE] = "NAME",
        [OPT_LIST] = "A,B,...",   [OPT_COUNTS] = "N,N,...",
    };

    return opt->meta ? opt->meta : by_type[opt->type];
}

/* Print words of s from column `col` on, wrapped, continuing at HELP_LEFT. */
static void wrap(FILE *f, const char *s, size_t col)
{
    while (*s) {
        size_t len = strcspn(s, " ");

        if (col > HELP_LEFT && col + 1 + len > HELP_WIDTH) {
            fprintf(f, "\n%*s", HELP_LEFT, "");
            col = HELP_LEFT;
        } else if (col > HELP_LEFT) {
            fputc(' ', f);
            col++;
        }
        fprintf(f, "%.*s", (int)len, s);
        col += len;
        s += len;
        s += strspn(s, " ");
    }
    fputc('\n', f);
}

static void help_row(FILE *f, const struct opt *opt)
{
    struct strbuf left, text;
    const char *dflt = opt->dflt ? opt->dflt : opt->dflt_note;

    strbuf_init(&left);
    strbuf_init(&text);
    if (opt->letter)
        strbuf_printf(&left, "  -%c, --%s", opt->letter, opt->name);
    else
        strbuf_printf(&left, "      --%s", opt->name);
    if (*meta(opt))
        strbuf_printf(&left, " %s", meta(opt));
    strbuf_puts(&text, opt->help ? opt->help : "");
    if (opt->choices) {
        strbuf_puts(&text, *text.s ? ": " : "");
        join(opt->choices, ", ", &text);
    }
    if (dflt)
        strbuf_printf(&text, " [default: %s]", dflt);
    fputs(left.s, f);
    if (!text.len)
        fputc('\n', f);
    else if (left.len + 2 > HELP_LEFT)
        fprintf(f, "\n%*s", HELP_LEFT, "");
    else
        fprintf(f, "%*s", (int)(HELP_LEFT - left.len), "");
    if (text.len)
        wrap(f, text.s, HELP_LEFT);
    strbuf_release(&left);
    strbuf_release(&text);
}

void opts_help(FILE *f, const struct opts *o)
{
    for (size_t i = 0; i < o->n; i++) {
        if (o->heading[i])
            fprintf(f, "%s%s:\n", i ? "\n" : "", o->heading[i]);
        help_row(f, o->opt[i]);
    }
}
