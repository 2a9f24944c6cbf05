#include "core/table.h"
#include "core/units.h"

#include <math.h>
#include <string.h>

const char *const table_formats[] = {"table", "json", "csv", "md", NULL};

enum { TABLE_WIDTH = 120, TABLE_GAP = 2, TABLE_MIN_TEXT = 16 };

void table_init(struct table *t, const struct table_col *cols, size_t n_cols)
{
    memset(t, 0, sizeof(*t));
    t->cols = cols;
    t->n_cols = n_cols;
    arena_init(&t->arena);
}

void table_release(struct table *t)
{
    for (size_t i = 0; i < t->n_rows * t->n_cols; i++)
        if (t->cells[i].state == TABLE_TREE)
            json_free(t->cells[i].v.tree);
    mem_free(t->cells);
    arena_release(&t->arena);
    memset(t, 0, sizeof(*t));
}

void table_row(struct table *t)
{
    t->cells = mem_grow(t->cells, &t->cap, (t->n_rows + 1) * t->n_cols, sizeof(*t->cells));
    memset(t->cells + t->n_rows * t->n_cols, 0, t->n_cols * sizeof(*t->cells));
    t->n_rows++;
}

static const struct table_cell *cell(const struct table *t, size_t row, size_t col)
{
    return &t->cells[row * t->n_cols + col];
}

static size_t column(const struct table *t, const char *key)
{
    size_t i = 0;

    while (i < t->n_cols && strcmp(t->cols[i].key, key) != 0)
        i++;
    BUG_ON(i == t->n_cols);
    return i;
}

void table_set_cell(struct table *t, size_t col, struct table_cell c)
{
    /* the kinds of columns that may hold a cell of each state, as a bit set */
    static const unsigned kinds[] = {
        [TABLE_MISSING] = ~0u,
        [TABLE_U64] = 1u << TABLE_INT | 1u << TABLE_COUNT | 1u << TABLE_FIXED | 1u << TABLE_GIB,
        [TABLE_DOUBLE] = 1u << TABLE_COUNT | 1u << TABLE_FIXED | 1u << TABLE_GIB,
        [TABLE_STR] = 1u << TABLE_TEXT,
        [TABLE_YESNO] = 1u << TABLE_BOOL,
        [TABLE_TREE] = 1u << TABLE_JSON,
    };
    struct table_cell *to;

    BUG_ON(col >= t->n_cols || t->n_rows == 0);
    BUG_ON(!(kinds[c.state] >> t->cols[col].kind & 1));
    to = &t->cells[(t->n_rows - 1) * t->n_cols + col];
    if (to->state == TABLE_TREE)
        json_free(to->v.tree);
    if (c.state == TABLE_STR)
        c.v.str = arena_strdup(&t->arena, c.v.str);
    *to = c;
}

void table_set_str(struct table *t, const char *key, const char *s)
{
    table_set_cell(t, column(t, key),
                   s ? (struct table_cell){TABLE_STR, {.str = s}} : (struct table_cell){0});
}

void table_set_u64(struct table *t, const char *key, uint64_t v)
{
    table_set_cell(t, column(t, key), (struct table_cell){TABLE_U64, {.u64 = v}});
}

void table_set_double(struct table *t, const char *key, double v)
{
    table_set_cell(t, column(t, key),
                   isfinite(v) ? (struct table_cell){TABLE_DOUBLE, {.d = v}}
                               : (struct table_cell){0});
}

void table_set_bool(struct table *t, const char *key, bool v)
{
    table_set_cell(t, column(t, key), (struct table_cell){TABLE_YESNO, {.yes = v}});
}

void table_set_json(struct table *t, const char *key, cJSON *tree)
{
    table_set_cell(t, column(t, key),
                   tree ? (struct table_cell){TABLE_TREE, {.tree = tree}} : (struct table_cell){0});
}

double table_number(const struct table_cell *c, enum table_kind kind)
{
    double x = c->state == TABLE_U64 ? (double)c->v.u64 : c->v.d;

    return kind == TABLE_GIB ? x / 0x1p30 : x;
}

/* ---- JSON and csv: full precision ---- */

static void add_cell(cJSON *to, const struct table_col *col, const struct table_cell *c)
{
    switch (c->state) {
    case TABLE_MISSING:
        json_add_null(to, col->key);
        break;
    case TABLE_U64:
    case TABLE_DOUBLE:
        if (c->state == TABLE_U64 && col->kind != TABLE_GIB)
            json_add_u64(to, col->key, c->v.u64);
        else
            json_add_double(to, col->key, table_number(c, col->kind));
        break;
    case TABLE_STR:
        json_add_str(to, col->key, c->v.str);
        break;
    case TABLE_YESNO:
        json_add_bool(to, col->key, c->v.yes);
        break;
    case TABLE_TREE:
        json_add_copy(to, col->key, c->v.tree);
        break;
    }
}

cJSON *table_row_to_json(const struct table *t, size_t row)
{
    cJSON *object = json_new_object();

    for (size_t j = 0; j < t->n_cols; j++)
        add_cell(object, &t->cols[j], cell(t, row, j));
    return object;
}

cJSON *table_to_json(const struct table *t)
{
    cJSON *rows = json_new_array();

    for (size_t i = 0; i < t->n_rows; i++)
        json_add_tree(rows, NULL, table_row_to_json(t, i));
    return rows;
}

/* Would a spreadsheet compute the text? Names come from files of others. Options ("--nodes 2") are no formula. */
static bool is_formula(const char *s)
{
    return *s == '=' || *s == '+' || *s == '@' || *s == '\t' || (*s == '-' && s[1] && s[1] != '-');
}

static void csv_field(const char *s, struct strbuf *out)
{
    if (!s[strcspn(s, ",\"\r\n")] && *s != ' ' && *s != '-' && !is_formula(s) &&
        !(*s && s[strlen(s) - 1] == ' ')) {
        strbuf_puts(out, s);
        return;
    }
    strbuf_putc(out, '"');
    if (is_formula(s))
        strbuf_putc(out, '\'');
    for (; *s; s++) {
        if (*s == '"')
            strbuf_putc(out, '"');
        strbuf_putc(out, *s);
    }
    strbuf_putc(out, '"');
}

static void csv_cell(const struct table_col *col, const struct table_cell *c, struct strbuf *out)
{
    char *text;

    switch (c->state) {
    case TABLE_MISSING:
        break;
    case TABLE_U64:
    case TABLE_DOUBLE:
        if (c->state == TABLE_U64 && col->kind != TABLE_GIB)
            strbuf_printf(out, "%llu", (unsigned long long)c->v.u64);
        else
            strbuf_puts(out, units_show_double(table_number(c, col->kind)).s);
        break;
    case TABLE_STR:
        csv_field(c->v.str, out);
        break;
    case TABLE_YESNO:
        strbuf_puts(out, c->v.yes ? "true" : "false");
        break;
    case TABLE_TREE:
        text = json_text(c->v.tree, false);
        csv_field(text, out);
        mem_free(text);
        break;
    }
}

static void print_csv(const struct table *t, struct strbuf *out)
{
    for (size_t j = 0; j < t->n_cols; j++) {
        strbuf_puts(out, j ? "," : "");
        csv_field(t->cols[j].key, out);
    }
    strbuf_putc(out, '\n');
    for (size_t i = 0; i < t->n_rows; i++) {
        for (size_t j = 0; j < t->n_cols; j++) {
            strbuf_puts(out, j ? "," : "");
            csv_cell(&t->cols[j], cell(t, i, j), out);
        }
        strbuf_putc(out, '\n');
    }
}

/* ---- table and md: for reading ---- */

static void shown(const struct table_col *col, const struct table_cell *c, struct strbuf *out)
{
    char *text;

    switch (c->state) {
    case TABLE_MISSING:
        strbuf_putc(out, '-');
        break;
    case TABLE_U64:
    case TABLE_DOUBLE:
        if (col->kind == TABLE_INT)
            strbuf_printf(out, "%llu", (unsigned long long)c->v.u64);
        else if (col->kind == TABLE_COUNT)
            strbuf_puts(
                out,
                units_show_count(c->state == TABLE_U64 ? c->v.u64 : (uint64_t)(c->v.d + 0.5)).s);
        else
            strbuf_printf(out, "%.*f", col->decimals, table_number(c, col->kind));
        break;
    case TABLE_STR:
        for (const char *s = c->v.str; *s; s++) /* one line a row, whatever the text */
            strbuf_putc(out, (unsigned char)*s < 32 || *s == 127 ? ' ' : *s);
        break;
    case TABLE_YESNO:
        strbuf_puts(out, c->v.yes ? "yes" : "no");
        break;
    case TABLE_TREE:
        text = json_text(c->v.tree, false);
        strbuf_puts(out, text);
        mem_free(text);
        break;
    }
}

static bool is_left(const struct table_col *col)
{
    if (col->align != TABLE_AUTO)
        return col->align == TABLE_LEFT;
    return col->kind == TABLE_TEXT || col->kind == TABLE_JSON;
}

/* Columns on a terminal, taking each UTF-8 sequence as one. */
static size_t width_of(const char *s)
{
    size_t n = 0;

    for (; *s; s++)
        n += ((unsigned char)*s & 0xc0) != 0x80;
    return n;
}

/* Print s in exactly `width` columns: cut with "..." or padded. */
static void padded(const char *s, size_t width, bool left, struct strbuf *out)
{
    size_t w = width_of(s), keep = w;

    if (w > width)
        keep = width - 3;
    if (!left && w < width)
        strbuf_pad(out, ' ', width - w);
    for (size_t n = 0; *s; s++) {
        n += ((unsigned char)*s & 0xc0) != 0x80;
        if (n > keep)
            break;
        strbuf_putc(out, *s);
    }
    if (w > width)
        strbuf_puts(out, "...");
    if (left && w < width)
        strbuf_pad(out, ' ', width - w);
}

/* The shown text of a table: texts[(n_rows + 1)][n], heads first, of the columns that have one. */
struct grid {
    size_t n, n_rows;
    const struct table_col **cols;
    const char **texts;
    size_t *width;
    struct arena arena;
};

static void grid_init(struct grid *g, const struct table *t)
{
    struct strbuf b;
    size_t k = 0;

    memset(g, 0, sizeof(*g));
    arena_init(&g->arena);
    g->n_rows = t->n_rows;
    for (size_t j = 0; j < t->n_cols; j++)
        g->n += t->cols[j].head != NULL;
    g->cols = ARENA_NEW(&g->arena, const struct table_col *, g->n);
    g->texts = ARENA_NEW(&g->arena, const char *, g->n *(g->n_rows + 1));
    g->width = ARENA_NEW(&g->arena, size_t, g->n);
    strbuf_init(&b);
    for (size_t j = 0; j < t->n_cols; j++) {
        if (!t->cols[j].head)
            continue;
        g->cols[k] = &t->cols[j];
        g->texts[k] = t->cols[j].head;
        g->width[k] = width_of(t->cols[j].head);
        for (size_t i = 0; i < t->n_rows; i++) {
            size_t w;

            strbuf_clear(&b);
            shown(&t->cols[j], cell(t, i, j), &b);
            g->texts[(i + 1) * g->n + k] = arena_strdup(&g->arena, b.s);
            w = width_of(b.s);
            if (w > g->width[k])
                g->width[k] = w;
        }
        k++;
    }
    strbuf_release(&b);
}

/* Cut the widest left-aligned columns until all fit, or none can be cut further. */
static void grid_squeeze(struct grid *g)
{
    for (;;) {
        size_t total = 0, widest = g->n;

        for (size_t k = 0; k < g->n; k++) {
            total += g->width[k] + (k ? (size_t)TABLE_GAP : 0);
            if (is_left(g->cols[k]) && g->width[k] > TABLE_MIN_TEXT &&
                g->width[k] > width_of(g->texts[k]) &&
                (widest == g->n || g->width[k] > g->width[widest]))
                widest = k;
        }
        if (total <= TABLE_WIDTH || widest == g->n)
            return;
        g->width[widest]--;
    }
}

static void grid_line(const struct grid *g, size_t row, size_t from, size_t to, struct strbuf *out)
{
    for (size_t k = 0; k < to; k++) {
        if (k && k < from)
            continue; /* a block below the first repeats column 0 */
        if (k)
            strbuf_pad(out, ' ', TABLE_GAP);
        padded(g->texts[row * g->n + k], g->width[k], is_left(g->cols[k]), out);
    }
    while (out->len && out->s[out->len - 1] == ' ')
        out->s[--out->len] = 0;
    strbuf_putc(out, '\n');
}

static void print_table(const struct table *t, struct strbuf *out)
{
    struct grid g;
    size_t from = 0;

    grid_init(&g, t);
    grid_squeeze(&g);
    while (from < g.n) {
        size_t used = from ? g.width[0] : 0, to = from, rule;

        while (to < g.n && (to == from || used + g.width[to] + TABLE_GAP <= TABLE_WIDTH)) {
            used += g.width[to] + (used ? (size_t)TABLE_GAP : 0);
            to++;
        }
        if (from)
            strbuf_putc(out, '\n');
        grid_line(&g, 0, from, to, out);
        rule = used;
        strbuf_pad(out, '-', rule);
        strbuf_putc(out, '\n');
        for (size_t i = 1; i <= g.n_rows; i++)
            grid_line(&g, i, from, to, out);
        from = to;
    }
    arena_release(&g.arena);
}

static void md_cell(const char *s, size_t width, bool left, struct strbuf *out)
{
    struct strbuf b;

    strbuf_init(&b);
    for (; *s; s++) {
        switch (*s) {
        case '<':
            strbuf_puts(&b, "&lt;");
            break;
        case '&':
            strbuf_puts(&b, "&amp;");
            break;
        case '|':
        case '\\':
            strbuf_putc(&b, '\\');
            strbuf_putc(&b, *s);
            break;
        default:
            strbuf_putc(&b, *s);
        }
    }
    strbuf_putc(out, ' ');
    padded(b.s, width_of(b.s) > width ? width_of(b.s) : width, left, out);
    strbuf_puts(out, " |");
    strbuf_release(&b);
}

static void print_md(const struct table *t, struct strbuf *out)
{
    struct grid g;

    grid_init(&g, t);
    for (size_t i = 0; i <= g.n_rows && g.n; i++) {
        strbuf_putc(out, '|');
        for (size_t k = 0; k < g.n; k++)
            md_cell(g.texts[i * g.n + k], g.width[k], is_left(g.cols[k]), out);
        strbuf_putc(out, '\n');
        if (i)
            continue;
        strbuf_putc(out, '|');
        for (size_t k = 0; k < g.n; k++) {
            strbuf_pad(out, '-', g.width[k] + (is_left(g.cols[k]) ? 2 : 1));
            strbuf_puts(out, is_left(g.cols[k]) ? "|" : ":|");
        }
        strbuf_putc(out, '\n');
    }
    arena_release(&g.arena);
}

void table_print(const struct table *t, enum table_format format, struct strbuf *out)
{
    cJSON *rows;

    switch (format) {
    case TABLE_AS_TABLE:
        print_table(t, out);
        break;
    case TABLE_AS_MD:
        print_md(t, out);
        break;
    case TABLE_AS_CSV:
        print_csv(t, out);
        break;
    case TABLE_AS_JSON:
        rows = table_to_json(t);
        json_print(rows, true, out);
        strbuf_putc(out, '\n');
        json_free(rows);
        break;
    }
}
