/* ballast model: what is trained, and which optimizer each tensor gets. */
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/model_opts.h"
#include "cli/output.h"
#include "core/opts.h"
#include "core/strbuf.h"
#include "core/table.h"
#include "core/units.h"
#include "model/graph/graph.h"
#include "model/plan/model_load.h"
#include "model/plan/optimizers.h"

#include <string.h>

static const struct opt rows[] = {
    {.name = "list", .type = OPT_FLAG, .help = "list the bundled models"},
    {.name = "tensors", .type = OPT_FLAG, .help = "every tensor instead of one row for equal ones"},
    {.name = "ops", .type = OPT_FLAG, .help = "also the operations of each class of units"},
    {.name = "seq-len",
     .type = OPT_COUNT,
     .meta = "TOKENS",
     .min = 1,
     .max = 1u << 30,
     .dflt_note = "4096, or the model's learned positions when fewer",
     .help = "of a sequence; sizes the learned positions of mlp=gelu"},
    {.name = "micro-batch",
     .type = OPT_COUNT,
     .meta = "SEQUENCES",
     .min = 1,
     .max = 1u << 20,
     .dflt = "1",
     .help = "sequences a rank computes at once, for --ops"},
    COMMAND_OUTPUT_ROWS,
};

static const char *const job_rows[] = {"optimizer", "target-len", "split-fused",   "as",
                                       "mtp",       "names",      "also-matrices", NULL};

struct view {
    struct model m;
    enum optimizer optimizer;
    struct graph_batch batch;
    enum table_format format;
    bool all_tensors, ops;
};

static const char *optimizer_of(const struct view *v, const struct tensor *t)
{
    return optimizer_name(tensor_is_matrix(t) ? v->optimizer : optimizer_of_rest(v->optimizer));
}

static const struct unit_class *class_of(const struct model *m, const struct tensor *t)
{
    return &m->classes[m->units[t->unit].class_id];
}

/* "[4096, 4096]" */
static const char *shape_text(const struct tensor *t, struct strbuf *b)
{
    strbuf_clear(b);
    if (!t->n_dims)
        strbuf_add(b, "unknown", 7);
    for (uint32_t i = 0; i < t->n_dims; i++)
        strbuf_printf(b, "%s%llu", i ? ", " : "[", (unsigned long long)t->shape[i]);
    if (t->n_dims)
        strbuf_putc(b, ']');
    return b->s;
}

/* ---- tables ---- */

static const struct table_col group_cols[] = {
    {.key = "class", .head = "class", .kind = TABLE_TEXT},
    {.key = "tensor", .head = "tensor", .kind = TABLE_TEXT},
    {.key = "role", .head = "role", .kind = TABLE_TEXT},
    {.key = "shape", .head = "shape", .kind = TABLE_TEXT},
    {.key = "count", .head = "count", .kind = TABLE_COUNT},
    {.key = "params_each", .head = "params each", .kind = TABLE_COUNT},
    {.key = "params", .head = "params", .kind = TABLE_COUNT},
    {.key = "optimizer", .head = "optimizer", .kind = TABLE_TEXT},
};
static const struct table_col tensor_cols[] = {
    {.key = "name", .head = "tensor", .kind = TABLE_TEXT},
    {.key = "unit", .head = "unit", .kind = TABLE_TEXT},
    {.key = "role", .head = "role", .kind = TABLE_TEXT},
    {.key = "shape", .head = "shape", .kind = TABLE_TEXT},
    {.key = "params", .head = "params", .kind = TABLE_COUNT},
    {.key = "optimizer", .head = "optimizer", .kind = TABLE_TEXT},
};
static const struct table_col op_cols[] = {
    {.key = "class", .head = "class", .kind = TABLE_TEXT},
    {.key = "pass", .head = "pass", .kind = TABLE_TEXT},
    {.key = "op", .head = "op", .kind = TABLE_TEXT},
    {.key = "kernel", .head = "kernel", .kind = TABLE_TEXT},
    {.key = "m", .head = "m", .kind = TABLE_INT},
    {.key = "n", .head = "n", .kind = TABLE_INT},
    {.key = "k", .head = "k", .kind = TABLE_INT},
    {.key = "batch", .head = "batch", .kind = TABLE_INT},
    {.key = "flops", .head = "FLOPs", .kind = TABLE_COUNT},
    {.key = "hbm_bytes", .head = "HBM bytes", .kind = TABLE_COUNT},
};
static const struct table_col list_cols[] = {
    {.key = "name", .head = "model", .kind = TABLE_TEXT},
    {.key = "arch", .head = "type", .kind = TABLE_TEXT},
    {.key = "layers", .head = "layers", .kind = TABLE_INT},
    {.key = "hidden", .head = "hidden", .kind = TABLE_INT},
    {.key = "vocab", .head = "vocab", .kind = TABLE_INT},
    {.key = "total_params", .head = "params", .kind = TABLE_COUNT},
    {.key = "active_params", .head = "active", .kind = TABLE_COUNT},
};
#define N_COLS(cols) (sizeof(cols) / sizeof((cols)[0]))

/* Equal tensors of all units of a class (and of all experts) are one row. */
struct fold {
    const struct tensor *first;
    uint64_t count;
};

/* Equal but for numbers: the layer's, an expert's. */
static bool same_pattern(const char *x, const char *y)
{
    while (*x && *y) {
        size_t nx = strspn(x, "0123456789"), ny = strspn(y, "0123456789");

        if ((nx > 0) != (ny > 0) || (!nx && *x != *y))
            return false;
        x += nx ? nx : 1;
        y += ny ? ny : 1;
    }
    return *x == *y;
}

static bool same_group(const struct model *m, const struct tensor *x, const struct tensor *y)
{
    return m->units[x->unit].class_id == m->units[y->unit].class_id && x->slot == y->slot &&
           x->is_bias == y->is_bias && x->role == y->role && x->n_dims == y->n_dims &&
           (x->expert < 0) == (y->expert < 0) && !memcmp(x->shape, y->shape, sizeof(x->shape)) &&
           (x->slot != SLOT_OTHER || same_pattern(x->name, y->name));
}

/* "model.layers.3.mlp.experts.7.w1.weight" -> "model.layers.*.mlp.experts.*.w1.weight"; for reading without what all
 * tensors of a layer begin with. */
static const char *pattern(const struct view *v, const struct tensor *t, struct strbuf *b)
{
    bool layer = class_of(&v->m, t)->kind == UNIT_LAYER;
    bool cut = layer && v->format != TABLE_AS_CSV;

    strbuf_clear(b);
    for (const char *p = t->name; *p;) {
        size_t n = strcspn(p, ".");
        bool number = n && strspn(p, "0123456789") == n;

        if (layer && number)
            strbuf_putc(b, '*');
        else
            strbuf_add(b, p, n);
        p += n;
        if (*p)
            strbuf_putc(b, *p++);
        if (cut && number) {
            strbuf_clear(b);
            cut = false;
        }
    }
    return b->s;
}

static void group_table(const struct view *v, struct table *t)
{
    const struct model *m = &v->m;
    struct fold *groups = NULL;
    size_t n = 0, cap = 0, g;
    struct strbuf b;

    for (uint32_t i = 0; i < m->n_tensors; i++) {
        for (g = 0; g < n; g++)
            if (same_group(m, groups[g].first, &m->tensors[i]))
                break;
        if (g == n) {
            groups = mem_grow(groups, &cap, n + 1, sizeof(*groups));
            groups[n++] = (struct fold){.first = &m->tensors[i]};
        }
        groups[g].count++;
    }
    strbuf_init(&b);
    table_init(t, group_cols, N_COLS(group_cols));
    for (g = 0; g < n; g++) {
        const struct tensor *x = groups[g].first;

        table_row(t);
        table_set_str(t, "class", class_of(m, x)->name);
        table_set_str(t, "tensor", pattern(v, x, &b));
        table_set_str(t, "role", tensor_role_name(x->role));
        table_set_str(t, "shape", shape_text(x, &b));
        table_set_u64(t, "count", groups[g].count);
        if (x->n_dims) {
            table_set_u64(t, "params_each", x->numel);
            table_set_u64(t, "params", x->numel * groups[g].count);
        }
        table_set_str(t, "optimizer", optimizer_of(v, x));
    }
    strbuf_release(&b);
    mem_free(groups);
}

static void tensor_table(const struct view *v, struct table *t)
{
    struct strbuf b;

    strbuf_init(&b);
    table_init(t, tensor_cols, N_COLS(tensor_cols));
    for (uint32_t i = 0; i < v->m.n_tensors; i++) {
        const struct tensor *x = &v->m.tensors[i];

        table_row(t);
        table_set_str(t, "name", x->name);
        table_set_str(t, "unit", v->m.units[x->unit].name);
        table_set_str(t, "role", tensor_role_name(x->role));
        table_set_str(t, "shape", shape_text(x, &b));
        if (x->n_dims)
            table_set_u64(t, "params", x->numel);
        table_set_str(t, "optimizer", optimizer_of(v, x));
    }
    strbuf_release(&b);
}

static void op_row(struct table *t, const char *class_name, const char *pass, const char *op,
                   const struct kernel_call *k)
{
    table_row(t);
    table_set_str(t, "class", class_name);
    table_set_str(t, "pass", pass);
    table_set_str(t, "op", op);
    table_set_str(t, "kernel", kernel_name(k->kernel));
    table_set_u64(t, "m", k->m);
    table_set_u64(t, "n", k->n);
    if (k->k)
        table_set_u64(t, "k", k->k);
    table_set_u64(t, "batch", k->batch);
    table_set_u64(t, "flops", k->flops);
    table_set_u64(t, "hbm_bytes", k->hbm_bytes);
}

/* Forward in order, backward in the order it runs. */
static void op_rows(struct table *t, const char *class_name, const struct unit_graph *g)
{
    for (uint32_t i = 0; i < g->n_ops; i++)
        op_row(t, class_name, "forward", g->ops[i].name, &g->ops[i].forward);
    for (uint32_t i = g->n_ops; i-- > 0;)
        for (uint32_t j = 0; j < g->ops[i].n_backward; j++)
            op_row(t, class_name, "backward", g->ops[i].name, &g->ops[i].backward[j]);
}

static int op_table(const struct view *v, struct table *t, struct err *e)
{
    struct unit_graph g;

    table_init(t, op_cols, N_COLS(op_cols));
    for (uint32_t c = 0; c < v->m.n_classes; c++) {
        if (graph_build(&v->m, c, &v->batch, DTYPE_BF16, &g, e))
            return -1;
        op_rows(t, v->m.classes[c].name, &g);
    }
    return 0;
}

/* ---- the summary ---- */

static void line(const struct view *v, struct strbuf *out, const char *key, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void line(const struct view *v, struct strbuf *out, const char *key, const char *fmt, ...)
{
    char text[600];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (v->format == TABLE_AS_MD)
        strbuf_printf(out, "- %s: %s\n", key, text);
    else
        strbuf_printf(out, "%-11s %s\n", key, text);
}

static uint32_t units_of_class(const struct model *m, uint32_t class_id)
{
    uint32_t n = 0;

    for (uint32_t u = 0; u < m->n_units; u++)
        n += m->units[u].class_id == class_id;
    return n;
}

static void summary(const struct view *v, struct strbuf *out)
{
    const struct model *m = &v->m;
    struct strbuf units;

    strbuf_init(&units);
    for (uint32_t c = 0; c < m->n_classes; c++)
        strbuf_printf(&units, "%s%u %s", c ? ", " : "", units_of_class(m, c), m->classes[c].name);
    line(v, out, "model", "%s (%s)", m->name, m->arch);
    if (m->names_only)
        line(v, out, "parameters", "%s",
             m->total_params ? units_show_count(m->total_params).s : "unknown");
    else if (m->active_params != m->total_params)
        line(v, out, "parameters", "%s, of which a token meets %s",
             units_show_count(m->total_params).s, units_show_count(m->active_params).s);
    else
        line(v, out, "parameters", "%s", units_show_count(m->total_params).s);
    line(v, out, "matrices", "%s in %s tensors: %s",
         m->names_only ? "unknown" : units_show_count(m->matrix_params).s,
         units_show_count(m->matrix_tensors).s, optimizer_name(v->optimizer));
    line(v, out, "tail", "%s in %s tensors: %s",
         m->names_only ? "unknown" : units_show_count(m->tail_params).s,
         units_show_count(m->tail_tensors).s, optimizer_name(optimizer_of_rest(v->optimizer)));
    line(v, out, "units", "%u: %s", m->n_units, units.s);
    if (m->vocab)
        line(v, out, "head", "%s",
             m->tied             ? "tied to the embedding"
             : model_has_head(m) ? "a tensor of its own"
                                 : "none");
    for (uint32_t i = 0; i < m->n_notes; i++)
        line(v, out, "note", "%s", m->notes[i]);
    strbuf_putc(out, '\n');
    strbuf_release(&units);
}

static void ops_title(const struct view *v, struct strbuf *out)
{
    strbuf_printf(out, "\noperations of a unit, micro-batch %llu, seq-len %llu",
                  (unsigned long long)v->batch.micro_batch, (unsigned long long)v->batch.seq_len);
    if (v->batch.target_len)
        strbuf_printf(out, ", target-len %llu", (unsigned long long)v->batch.target_len);
    strbuf_printf(out, ", bf16\n\n");
}

static int as_rows(const struct view *v, struct strbuf *out, struct err *e)
{
    struct table t;
    int rc = 0;

    if (v->format != TABLE_AS_CSV)
        summary(v, out);
    if (v->format != TABLE_AS_CSV || !v->ops) {
        if (v->all_tensors)
            tensor_table(v, &t);
        else
            group_table(v, &t);
        table_print(&t, v->format, out);
        table_release(&t);
    }
    if (v->ops) {
        rc = op_table(v, &t, e);
        if (v->format != TABLE_AS_CSV)
            ops_title(v, out);
        table_print(&t, v->format, out);
        table_release(&t);
    }
    return rc;
}

/* ---- JSON ---- */

static void add_tensors(const struct view *v, cJSON *to)
{
    for (uint32_t i = 0; i < v->m.n_tensors; i++) {
        const struct tensor *x = &v->m.tensors[i];
        cJSON *o = json_add_object(to, NULL), *shape;

        json_add_str(o, "name", x->name);
        if (!x->n_dims) {
            json_add_null(o, "shape");
        } else {
            shape = json_add_array(o, "shape");
            for (uint32_t d = 0; d < x->n_dims; d++)
                json_add_u64(shape, NULL, x->shape[d]);
        }
        json_add_str(o, "unit", v->m.units[x->unit].name);
        json_add_str(o, "role", tensor_role_name(x->role));
        json_add_str(o, "optimizer", optimizer_of(v, x));
    }
}

static int add_ops(const struct view *v, cJSON *to, struct err *e)
{
    for (uint32_t c = 0; c < v->m.n_classes && !v->m.names_only; c++) {
        struct unit_graph g;
        struct table t;
        cJSON *o;

        if (graph_build(&v->m, c, &v->batch, DTYPE_BF16, &g, e))
            return -1;
        o = json_add_object(to, NULL);
        json_add_str(o, "class", v->m.classes[c].name);
        json_add_u64(o, "units", units_of_class(&v->m, c));
        json_add_u64(o, "forward_flops", g.forward_flops);
        json_add_u64(o, "backward_flops", g.backward_flops);
        table_init(&t, op_cols, N_COLS(op_cols));
        op_rows(&t, v->m.classes[c].name, &g);
        json_add_tree(o, "ops", table_to_json(&t));
        table_release(&t);
    }
    return 0;
}

static void add_known(cJSON *to, const char *key, uint64_t v, bool known)
{
    if (known)
        json_add_u64(to, key, v);
    else
        json_add_null(to, key);
}

static int as_json(const struct view *v, int argc, char **argv, struct strbuf *out, struct err *e)
{
    const struct model *m = &v->m;
    cJSON *doc = output_document("ballast-model", 1, argc, argv), *units, *notes;
    int rc;

    json_add_str(doc, "name", m->name);
    json_add_str(doc, "arch", m->arch);
    add_known(doc, "total_params", m->total_params, m->total_params != 0);
    add_known(doc, "active_params", m->active_params, !m->names_only);
    add_known(doc, "matrix_params", m->matrix_params, !m->names_only);
    json_add_u64(doc, "matrix_tensors", m->matrix_tensors);
    add_known(doc, "tail_params", m->tail_params, !m->names_only);
    json_add_u64(doc, "tail_tensors", m->tail_tensors);
    json_add_bool(doc, "tied", m->tied);
    json_add_str(doc, "quantization", m->quantization);
    notes = json_add_array(doc, "notes");
    for (uint32_t i = 0; i < m->n_notes; i++)
        json_add_str(notes, NULL, m->notes[i]);
    units = json_add_array(doc, "units");
    for (uint32_t u = 0; u < m->n_units; u++) {
        cJSON *o = json_add_object(units, NULL);

        json_add_str(o, "name", m->units[u].name);
        json_add_str(o, "class", m->classes[m->units[u].class_id].name);
        add_known(o, "params", m->units[u].numel, !m->names_only);
    }
    add_tensors(v, json_add_array(doc, "tensors"));
    json_add_u64(doc, "seq_len", v->batch.seq_len);
    if (v->batch.target_len)
        json_add_u64(doc, "target_len", v->batch.target_len);
    json_add_u64(doc, "micro_batch", v->batch.micro_batch);
    rc = add_ops(v, json_add_array(doc, "ops"), e);
    if (!rc) {
        json_print(doc, true, out);
        strbuf_putc(out, '\n');
    }
    json_free(doc);
    return rc;
}

/* ---- the command ---- */

static int list(struct arena *a, struct table *t, struct err *e)
{
    table_init(t, list_cols, N_COLS(list_cols));
    for (const char *const *name = model_bundled_names(); *name; name++) {
        struct model m;

        if (model_load(*name, 4096, a, &m, e))
            return -1;
        table_row(t);
        table_set_str(t, "name", m.name);
        table_set_str(t, "arch", m.arch);
        table_set_u64(t, "layers", m.n_layers);
        table_set_u64(t, "hidden", m.hidden);
        table_set_u64(t, "vocab", m.vocab);
        table_set_u64(t, "total_params", m.total_params);
        table_set_u64(t, "active_params", m.active_params);
    }
    return 0;
}

static int view_init(struct view *v, const struct opts *o, struct arena *a, struct err *e)
{
    const struct opt_val *seq = opts_get(o, "seq-len"), *target = opts_get(o, "target-len");
    struct model_options mo;

    v->optimizer = (enum optimizer)opts_get(o, "optimizer")->u64;
    v->batch.micro_batch = opts_get(o, "micro-batch")->u64;
    v->format = (enum table_format)opts_get(o, "format")->u64;
    v->all_tensors = opts_get(o, "tensors")->set;
    v->ops = opts_get(o, "ops")->set;
    v->batch.seq_len = seq->set ? seq->u64 : 4096;
    if (v->format == TABLE_AS_CSV && v->all_tensors && v->ops)
        return err_set(e, ERR_USAGE, "--format csv holds one table: --tensors or --ops, not both");
    if (model_opts_read(o, &mo, e))
        return -1;
    mo.seq_len = v->batch.seq_len;
    mo.incomplete_ok = true;
    if (model_load_with(o->pos[0], &mo, a, &v->m, e))
        return -1;
    if (v->m.names_only && v->ops)
        return err_set(e, ERR_INVALID, "--ops: %s", v->m.incomplete);
    if (model_bridge(&v->m) != MODEL_NONE)
        v->batch.target_len = target->set ? target->u64 : v->batch.seq_len;
    else if (target->set)
        return err_set(e, ERR_INVALID,
                       "--target-len %llu: '%.100s' has no decoder beside an encoder",
                       (unsigned long long)target->u64, v->m.name);
    if (v->m.max_seq_len && v->batch.seq_len > v->m.max_seq_len) {
        if (seq->set)
            return err_set(e, ERR_INVALID,
                           "--seq-len is %llu, and '%.100s' has learned positions for %llu tokens",
                           (unsigned long long)v->batch.seq_len, v->m.name,
                           (unsigned long long)v->m.max_seq_len);
        v->batch.seq_len = v->m.max_seq_len;
    }
    return 0;
}

static int run(const struct opts *o, struct arena *a, int argc, char **argv, struct strbuf *out,
               struct err *e)
{
    struct view v;

    if (opts_positionals(o, 1, 1, "MODEL", e) || view_init(&v, o, a, e))
        return -1;
    return v.format == TABLE_AS_JSON ? as_json(&v, argc, argv, out, e) : as_rows(&v, out, e);
}

int cmd_model(int argc, char **argv, struct err *e)
{
    static const struct plain_command command = {
        .usage =
            "usage: ballast model MODEL [options]\n"
            "       ballast model --list\n\n"
            "Tensors, parameter counts, the split into matrices and tail, and the units that are\n"
            "gathered at once.\n\n"
            "MODEL is a Hugging Face config.json or its folder, a .safetensors file, an index, a "
            "list\n"
            "of tensors in JSON (docs/MODELS.md), a bundled name, or one line:\n"
            "  block:layers=32,hidden=4096,heads=32[,ffn=4*hidden][,kv-heads=heads][,vocab=0]\n"
            "       [,mlp=split-up|gelu|swiglu][,causal=yes|no][,tied=yes|no]\n"
            "A file or folder called like a bundled model comes before it.\n\n",
        .rows = rows,
        .n_rows = sizeof(rows) / sizeof(rows[0]),
        .job_options = job_rows,
        .run = run,
        .bundled = "models",
        .list = list,
    };

    return command_plain(&command, argc, argv, e);
}
