/* Building trees and printing them; reading is json.c. */
#include "core/json.h"

#include "core/json_inner.h"

#include <math.h>
#include <string.h>

/* cJSON allocates through core/mem.h, so that it never returns NULL for want of memory. */
static void *hook_alloc(size_t n)
{
    return mem_alloc(n, 1);
}

void json_hooks(void)
{
    static bool done;
    cJSON_Hooks h = {hook_alloc, mem_free};

    if (!done)
        cJSON_InitHooks(&h);
    done = true;
}

/* ---- building ---- */

cJSON *json_new_object(void)
{
    json_hooks();
    return cJSON_CreateObject();
}

cJSON *json_new_array(void)
{
    json_hooks();
    return cJSON_CreateArray();
}

void json_free(cJSON *tree)
{
    cJSON_Delete(tree);
}

void json_add_tree(cJSON *to, const char *key, cJSON *tree)
{
    BUG_ON(!tree || (key ? !cJSON_IsObject(to) : !cJSON_IsArray(to)));
    if (key)
        BUG_ON(!cJSON_AddItemToObject(to, key, tree));
    else
        BUG_ON(!cJSON_AddItemToArray(to, tree));
}

cJSON *json_add_object(cJSON *to, const char *key)
{
    cJSON *c = json_new_object();

    json_add_tree(to, key, c);
    return c;
}

cJSON *json_add_array(cJSON *to, const char *key)
{
    cJSON *c = json_new_array();

    json_add_tree(to, key, c);
    return c;
}

void json_add_u64(cJSON *to, const char *key, uint64_t v)
{
    char digits[24];

    json_hooks();
    snprintf(digits, sizeof(digits), "%llu", (unsigned long long)v);
    json_add_tree(to, key,
                  v <= JSON_EXACT ? cJSON_CreateNumber((double)v) : cJSON_CreateRaw(digits));
}

void json_add_double(cJSON *to, const char *key, double v)
{
    json_hooks();
    json_add_tree(to, key, isfinite(v) ? cJSON_CreateNumber(v) : cJSON_CreateNull());
}

void json_add_bool(cJSON *to, const char *key, bool v)
{
    json_hooks();
    json_add_tree(to, key, cJSON_CreateBool(v));
}

void json_add_str(cJSON *to, const char *key, const char *v)
{
    json_hooks();
    json_add_tree(to, key, v ? cJSON_CreateString(v) : cJSON_CreateNull());
}

void json_add_null(cJSON *to, const char *key)
{
    json_hooks();
    json_add_tree(to, key, cJSON_CreateNull());
}

void json_add_copy(cJSON *to, const char *key, const cJSON *tree)
{
    json_hooks();
    json_add_tree(to, key, cJSON_Duplicate(tree, 1));
}

/* ---- printing: our own, because cJSON's numbers are only nearly the ones given ---- */

enum { LINE = 100 };

static void print_string(const char *s, struct strbuf *out)
{
    strbuf_putc(out, '"');
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;

        if (c == '"' || c == '\\')
            strbuf_printf(out, "\\%c", c);
        else if (c == '\n')
            strbuf_puts(out, "\\n");
        else if (c == '\t')
            strbuf_puts(out, "\\t");
        else if (c == '\r')
            strbuf_puts(out, "\\r");
        else if (c < 32)
            strbuf_printf(out, "\\u%04x", c);
        else
            strbuf_putc(out, (char)c);
    }
    strbuf_putc(out, '"');
}

static void print_scalar(const cJSON *t, struct strbuf *out)
{
    if (cJSON_IsNumber(t))
        strbuf_puts(out, isfinite(t->valuedouble) ? units_show_double(t->valuedouble).s : "null");
    else if (cJSON_IsString(t))
        print_string(t->valuestring, out);
    else if (cJSON_IsRaw(t))
        strbuf_puts(out, t->valuestring);
    else
        strbuf_puts(out, cJSON_IsTrue(t) ? "true" : cJSON_IsFalse(t) ? "false" : "null");
}

static bool is_plain(const cJSON *t)
{
    return !cJSON_IsArray(t) && !cJSON_IsObject(t);
}

static bool all_plain(const cJSON *t)
{
    for (const cJSON *c = t->child; c; c = c->next)
        if (!is_plain(c))
            return false;
    return true;
}

static void newline(struct strbuf *out, size_t depth)
{
    strbuf_putc(out, '\n');
    strbuf_pad(out, ' ', 2 * depth);
}

static size_t column(const struct strbuf *b)
{
    size_t i = b->len;

    while (i > 0 && b->s[i - 1] != '\n')
        i--;
    return b->len - i;
}

/* Numbers, strings: as many a line as fit. `col` is tracked, so long arrays stay linear. */
static void print_filled(const cJSON *t, size_t depth, struct strbuf *out)
{
    size_t col, from;

    strbuf_putc(out, '[');
    col = column(out);
    for (const cJSON *c = t->child; c; c = c->next) {
        from = out->len;
        print_scalar(c, out);
        if (c->next)
            strbuf_putc(out, ',');
        if (c != t->child) {
            size_t width = out->len - from;
            bool wrap = col + 1 + width > LINE;
            size_t gap = wrap ? 1 + 2 * (depth + 1) : 1;

            strbuf_pad(out, ' ', gap); /* make room, then move the text behind it */
            memmove(out->s + from + gap, out->s + from, width);
            memset(out->s + from, ' ', gap);
            if (wrap)
                out->s[from] = '\n';
            col = wrap ? gap - 1 + width : col + gap + width;
        } else {
            col += out->len - from;
        }
    }
    strbuf_putc(out, ']');
}

static void print_tree(const cJSON *t, bool pretty, size_t depth, struct strbuf *out)
{
    bool object = cJSON_IsObject(t);

    if (is_plain(t)) {
        print_scalar(t, out);
        return;
    }
    if (!t->child) {
        strbuf_puts(out, object ? "{}" : "[]");
        return;
    }
    if (pretty && !object && all_plain(t)) {
        print_filled(t, depth, out);
        return;
    }
    strbuf_putc(out, object ? '{' : '[');
    for (const cJSON *c = t->child; c; c = c->next) {
        if (pretty)
            newline(out, depth + 1);
        if (object) {
            print_string(c->string, out);
            strbuf_puts(out, pretty ? ": " : ":");
        }
        print_tree(c, pretty, depth + 1, out);
        if (c->next)
            strbuf_putc(out, ',');
    }
    if (pretty)
        newline(out, depth);
    strbuf_putc(out, object ? '}' : ']');
}

void json_print(const cJSON *tree, bool pretty, struct strbuf *out)
{
    print_tree(tree, pretty, 0, out);
}

char *json_text(const cJSON *tree, bool pretty)
{
    struct strbuf b;

    strbuf_init(&b);
    json_print(tree, pretty, &b);
    return strbuf_detach(&b);
}
