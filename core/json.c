#include "core/json.h"
#include "core/file.h"
#include "core/json_inner.h"
#include "core/suggest.h"
#include "core/utf8.h"

#include <math.h>
#include <string.h>

/* ---- loading ---- */

static int bad_text(const char *file, const char *text, size_t at, const char *what, struct err *e)
{
    size_t line = 1, start = 0;

    for (size_t i = 0; i < at; i++)
        if (text[i] == '\n') {
            line++;
            start = i + 1;
        }
    return err_set(e, ERR_PARSE, "'%s': line %zu, column %zu: %s", file, line, at - start + 1,
                   what);
}

static size_t skip_digits(const char *s, size_t n, size_t i)
{
    while (i < n && s[i] >= '0' && s[i] <= '9')
        i++;
    return i;
}

/* The end of a number in JSON's grammar that starts at i, or 0. */
static size_t number_end(const char *s, size_t n, size_t i)
{
    size_t from;

    i += s[i] == '-';
    from = i;
    i = skip_digits(s, n, i);
    if (i == from || (s[from] == '0' && i > from + 1))
        return 0;
    if (i < n && s[i] == '.') {
        from = ++i;
        i = skip_digits(s, n, i);
        if (i == from)
            return 0;
    }
    if (i < n && (s[i] == 'e' || s[i] == 'E')) {
        i++;
        if (i < n && (s[i] == '+' || s[i] == '-'))
            i++;
        from = i;
        i = skip_digits(s, n, i);
        if (i == from)
            return 0;
    }
    return i;
}

/* ---- Infinity, -Infinity and NaN, which Python's json writes and which are not JSON ---- */

static const struct {
    const char *word;
    double value;
} nonfinite[] = {{"Infinity", INFINITY}, {"-Infinity", -INFINITY}, {"NaN", NAN}};
enum { N_NONFINITE = sizeof(nonfinite) / sizeof(nonfinite[0]), FIRST_MARK = 0xf8 };

/* Index of the word that starts at s[i], or -1. */
static int nonfinite_at(const char *s, size_t n, size_t i)
{
    for (int k = 0; k < N_NONFINITE; k++) {
        size_t len = strlen(nonfinite[k].word);

        if (n - i >= len && !memcmp(s + i, nonfinite[k].word, len))
            return k;
    }
    return -1;
}

/* The index behind the string that starts at s[i]. */
static size_t string_end(const char *s, size_t n, size_t i)
{
    for (i++; i < n && s[i] != '"'; i++)
        i += s[i] == '\\';
    return i < n ? i + 1 : n;
}

/* cJSON does not know these words. In a copy of the text each becomes a string of the same
 * length, so that places in messages stay true. The string starts with a byte that UTF-8 does
 * not have, so that it cannot be mistaken for a string of the text, which is UTF-8, escapes
 * included. Returns NULL where the text has no such word; the copy is the caller's. */
static char *mark_nonfinite(const char *s, size_t n)
{
    char *copy = NULL;
    int k;

    for (size_t i = 0; i < n;) {
        size_t len;

        if (s[i] == '"') {
            i = string_end(s, n, i);
            continue;
        }
        k = s[i] == 'I' || s[i] == 'N' || s[i] == '-' ? nonfinite_at(s, n, i) : -1;
        if (k < 0) {
            i++;
            continue;
        }
        if (!copy) {
            copy = mem_alloc(n + 1, 1);
            memcpy(copy, s, n);
        }
        len = strlen(nonfinite[k].word);
        memset(copy + i, ' ', len);
        copy[i] = copy[i + len - 1] = '"';
        copy[i + 1] = (char)(FIRST_MARK + k);
        i += len;
    }
    return copy;
}

static bool is_mark(const char *s)
{
    return s && (unsigned char)*s >= FIRST_MARK;
}

/* Marks become numbers that are not finite; false where one is a key. */
static bool unmark(cJSON *node)
{
    if (is_mark(node->string))
        return false;
    if (cJSON_IsString(node) && is_mark(node->valuestring)) {
        node->valuedouble = nonfinite[(unsigned char)*node->valuestring - FIRST_MARK].value;
        cJSON_free(node->valuestring);
        node->valuestring = NULL;
        node->type = (node->type & ~0xff) | cJSON_Number;
    }
    if (cJSON_IsObject(node) || cJSON_IsArray(node))
        for (cJSON *c = node->child; c; c = c->next)
            if (!unmark(c))
                return false;
    return true;
}

/* What cJSON lets through: walk the tokens of a text that it accepted. `words`: Infinity,
 * -Infinity and NaN were. */
static int check_tokens(const char *file, const char *s, size_t n, bool words, struct err *e)
{
    for (size_t i = 0; i < n;) {
        char c = s[i];
        int k = words && c == '-' ? nonfinite_at(s, n, i) : -1;

        if (c == '"') {
            for (i++; i < n && s[i] != '"'; i++) {
                if ((unsigned char)s[i] < 32)
                    return bad_text(file, s, i, "a control character inside a string", e);
                if (s[i] != '\\')
                    continue;
                if (i + 5 < n && memcmp(s + i, "\\u0000", 6) == 0)
                    return bad_text(file, s, i, "a NUL inside a string", e);
                i++;
            }
            i++;
        } else if (k >= 0) {
            i += strlen(nonfinite[k].word);
        } else if (c == '-' || (c >= '0' && c <= '9')) {
            size_t end = number_end(s, n, i);
            char copy[64];

            if (end == 0)
                return bad_text(file, s, i, "not a number in JSON's notation", e);
            if (end - i >= sizeof(copy) - 1)
                return bad_text(file, s, i, "a number of more than 62 characters", e);
            memcpy(copy, s + i, end - i);
            copy[end - i] = 0;
            if (!isfinite(strtod(copy, NULL)))
                return bad_text(file, s, i, "a number beyond the range of a double", e);
            i = end;
        } else {
            if ((unsigned char)c < 32 && c != '\n' && c != '\r' && c != '\t')
                return bad_text(file, s, i, "a control character", e);
            i++;
        }
    }
    return 0;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* An object or list with an object or list in it. */
static bool holds_more(const cJSON *node)
{
    if (cJSON_IsObject(node) || cJSON_IsArray(node))
        for (const cJSON *c = node->child; c; c = c->next)
            if (cJSON_IsObject(c) || cJSON_IsArray(c))
                return true;
    return false;
}

/* Sort the keys of each object, where they are not written in order: O(n log n) for the 10^5 members of a safetensors
 * header. */
static int check_keys(const struct json_at *at, struct err *e)
{
    struct json_at it;
    int rc = 0;

    if (cJSON_IsObject(at->node)) {
        size_t n = 0, i = 0;
        const char **keys;
        bool in_order = true;

        for (const cJSON *c = at->node->child; c; c = c->next)
            n++;
        keys = mem_alloc(n, sizeof(*keys));
        for (const cJSON *c = at->node->child; c; c = c->next) {
            keys[i++] = c->string;
            in_order = in_order && (i < 2 || strcmp(keys[i - 2], keys[i - 1]) < 0);
        }
        if (!in_order)
            qsort(keys, n, sizeof(*keys), by_text);
        for (i = 1; i < n && !in_order && !rc; i++)
            if (strcmp(keys[i - 1], keys[i]) == 0)
                rc = json_err(at, ERR_PARSE, e, "has the key '%.100s' twice", keys[i]);
        mem_free(keys);
    }
    if (!holds_more(at->node)) /* most objects hold plain values: no paths are made for them */
        return rc;
    for (bool ok = json_first(at, &it); ok && !rc; ok = json_next(&it))
        if (cJSON_IsObject(it.node) || cJSON_IsArray(it.node))
            rc = check_keys(&it, e);
    return rc;
}

/* Objects and lists that are open at s[at]. */
static size_t depth_at(const char *s, size_t at)
{
    size_t depth = 0;

    for (size_t i = 0; i < at; i++)
        if (s[i] == '"') {
            for (i++; i < at && s[i] != '"'; i++)
                i += s[i] == '\\';
        } else if (s[i] == '[' || s[i] == '{') {
            depth++;
        } else if (s[i] == ']' || s[i] == '}') {
            depth -= depth > 0;
        }
    return depth;
}

static int not_json(const char *file, const char *text, size_t len, size_t at, struct err *e)
{
    if (at + 1 >= len)
        return bad_text(file, text, at < len ? at : len, "the JSON ends too early", e);
    return bad_text(file, text, at,
                    depth_at(text, at) >= CJSON_NESTING_LIMIT ? "lists or objects nested too deep"
                                                              : "not JSON",
                    e);
}

static int parse(struct json *j, const char *file, const char *text, size_t len, bool foreign,
                 struct err *e)
{
    const char *end = NULL, *read;
    size_t from = 0, at;
    struct json_at top;
    char *marked;

    json_hooks();
    memset(j, 0, sizeof(*j));
    if (len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) /* byte order mark */
        from = 3;
    at = utf8_valid(text, len);
    if (at < len)
        return bad_text(file, text, at, "not UTF-8", e);
    for (at = from; at < len && strchr(" \t\r\n", text[at]) && text[at]; at++)
        ;
    if (at == len)
        return err_set(e, ERR_PARSE, "'%s' is empty, expected JSON", file);
    marked = foreign ? mark_nonfinite(text, len) : NULL;
    read = marked ? marked : text;
    j->root = cJSON_ParseWithLengthOpts(read + from, len - from, &end, 0);
    at = end ? (size_t)(end - read) : 0;
    j->nonfinite = marked;
    mem_free(marked);
    if (!j->root)
        return not_json(file, text, len, at, e);
    for (; at < len && text[at] && strchr(" \t\r\n", text[at]); at++)
        ;
    if (at < len) {
        bad_text(file, text, at, "something follows the JSON document", e);
        goto fail;
    }
    if (check_tokens(file, text + from, len - from, j->nonfinite, e))
        goto fail;
    if (j->nonfinite && !unmark(j->root)) {
        err_set(e, ERR_PARSE, "'%s': a key is Infinity or NaN without quotes", file);
        goto fail;
    }
    j->file = mem_alloc(strlen(file) + 1, 1);
    memcpy(j->file, file, strlen(file));
    top = json_top(j);
    if (check_keys(&top, e))
        goto fail;
    return 0;
fail:
    json_release(j);
    return -1;
}

int json_parse(struct json *j, const char *file, const char *text, size_t len, struct err *e)
{
    return parse(j, file, text, len, false, e);
}

int json_parse_foreign(struct json *j, const char *file, const char *text, size_t len,
                       struct err *e)
{
    return parse(j, file, text, len, true, e);
}

int json_load(struct json *j, const char *path, struct err *e)
{
    char *text;
    size_t len;
    int rc;

    memset(j, 0, sizeof(*j));
    if (file_read(path, JSON_MAX_BYTES, &text, &len, e))
        return -1;
    rc = json_parse(j, path, text, len, e);
    mem_free(text);
    return rc;
}

void json_release(struct json *j)
{
    cJSON_Delete(j->root);
    mem_free(j->file);
    memset(j, 0, sizeof(*j));
}

/* ---- places ---- */

struct json_at json_at_tree(const cJSON *node, const char *file)
{
    struct json_at at = {0};

    at.node = node;
    at.file = file;
    return at;
}

struct json_at json_top(const struct json *j)
{
    return json_at_tree(j->root, j->file);
}

int(json_err)(const struct json_at *at, enum err_code code, struct err *e, const char *fmt, ...)
{
    char text[700];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return err_set(e, code, "'%s': %s %s", at->file, *at->path ? at->path : "the document", text);
}

static size_t put(char *to, size_t cap, size_t at, const char *s)
{
    size_t n = strnlen(s, cap - 1 - at);

    memcpy(to + at, s, n);
    to[at + n] = 0;
    return at + n;
}

/* Append the last step of the path by hand: this runs once an element of long arrays. */
static void set_step(struct json_at *it)
{
    size_t cap = sizeof(it->path), at = it->n_base;

    if (it->in_array) {
        char digits[24], *p = digits + sizeof(digits) - 1;
        size_t i = it->index;

        *p = 0;
        do {
            *--p = (char)('0' + i % 10);
            i /= 10;
        } while (i);
        at = put(it->path, cap, at, "[");
        at = put(it->path, cap, at, p);
        put(it->path, cap, at, "]");
    } else {
        if (at)
            at = put(it->path, cap, at, ".");
        put(it->path, cap, at, it->node->string);
    }
}

bool json_first(const struct json_at *at, struct json_at *it)
{
    const cJSON *child =
        cJSON_IsArray(at->node) || cJSON_IsObject(at->node) ? at->node->child : NULL;

    if (!child)
        return false;
    *it = *at;
    it->node = child;
    it->index = 0;
    it->n_base = strlen(at->path);
    it->in_array = cJSON_IsArray(at->node);
    set_step(it);
    return true;
}

bool json_next(struct json_at *it)
{
    if (!it->node->next)
        return false;
    it->node = it->node->next;
    it->index++;
    set_step(it);
    return true;
}

const char *json_key(const struct json_at *it)
{
    return it->node->string ? it->node->string : "";
}

/* ---- types ---- */

/* "is -5", "is a string": how a value is described in a refusal. */
struct shown {
    char s[100];
};

static struct shown show(const cJSON *node)
{
    struct shown t;

    if (cJSON_IsNumber(node) && !isfinite(node->valuedouble))
        snprintf(t.s, sizeof(t.s), "%s",
                 isnan(node->valuedouble) ? "NaN"
                 : node->valuedouble < 0  ? "-Infinity"
                                          : "Infinity");
    else if (cJSON_IsNumber(node))
        snprintf(t.s, sizeof(t.s), "%s", units_show_double(node->valuedouble).s);
    else if (cJSON_IsString(node))
        snprintf(t.s, sizeof(t.s), "\"%.60s\"", node->valuestring);
    else
        snprintf(t.s, sizeof(t.s), "%s",
                 cJSON_IsBool(node)     ? (cJSON_IsTrue(node) ? "true" : "false")
                 : cJSON_IsNull(node)   ? "null"
                 : cJSON_IsArray(node)  ? "an array"
                 : cJSON_IsObject(node) ? "an object"
                                        : "a raw value");
    return t;
}

static int wrong_type(const struct json_at *at, const char *expected, struct err *e)
{
    return json_err(at, ERR_PARSE, e, "is %s, expected %s", show(at->node).s, expected);
}

bool json_is_null(const struct json_at *at)
{
    return cJSON_IsNull(at->node);
}

bool json_is_str(const struct json_at *at)
{
    return cJSON_IsString(at->node);
}

int json_is_object(const struct json_at *at, struct err *e)
{
    return cJSON_IsObject(at->node) ? 0 : wrong_type(at, "an object", e);
}

int json_is_array(const struct json_at *at, size_t *n, struct err *e)
{
    if (!cJSON_IsArray(at->node))
        return wrong_type(at, "an array", e);
    if (n) {
        *n = 0;
        for (const cJSON *c = at->node->child; c; c = c->next)
            ++*n;
    }
    return 0;
}

bool json_opt(const struct json_at *at, const char *key, struct json_at *out)
{
    const cJSON *node =
        cJSON_IsObject(at->node) ? cJSON_GetObjectItemCaseSensitive(at->node, key) : NULL;

    if (!node || cJSON_IsNull(node))
        return false;
    *out = *at;
    out->node = node;
    out->index = 0;
    out->n_base = strlen(at->path);
    out->in_array = false;
    set_step(out);
    return true;
}

int json_get(const struct json_at *at, const char *key, struct json_at *out, struct err *e)
{
    if (json_is_object(at, e))
        return -1;
    if (json_opt(at, key, out))
        return 0;
    if (cJSON_GetObjectItemCaseSensitive(at->node, key))
        return json_err(at, ERR_PARSE, e, "has null for '%s', expected a value", key);
    return json_err(at, ERR_PARSE, e, "has no '%s'", key);
}

int json_only_keys_or_null(const struct json_at *at, const char *const *keys, size_t n,
                           const char *nullable, struct err *e)
{
    if (json_is_object(at, e))
        return -1;
    for (const cJSON *c = at->node->child; c; c = c->next) {
        size_t i = 0;

        while (i < n && strcmp(keys[i], c->string) != 0)
            i++;
        if (i == n)
            return json_err(at, ERR_UNKNOWN, e, "has the unknown key '%.100s'%s", c->string,
                            suggest(c->string, keys, n).s);
        if (cJSON_IsNull(c) && nullable && strcmp(nullable, keys[i]) != 0)
            return json_err(at, ERR_PARSE, e, "has null for '%s', expected a value or no such key",
                            keys[i]);
    }
    return 0;
}

int json_only_keys(const struct json_at *at, const char *const *keys, size_t n, struct err *e)
{
    return json_only_keys_or_null(at, keys, n, "", e);
}

int json_elem(const struct json_at *at, size_t i, struct json_at *out, struct err *e)
{
    size_t n;
    const cJSON *c;

    if (json_is_array(at, &n, e))
        return -1;
    if (i >= n)
        return json_err(at, ERR_PARSE, e, "has %zu elements, expected at least %zu", n, i + 1);
    c = at->node->child;
    for (size_t k = 0; k < i; k++)
        c = c->next;
    *out = *at;
    out->node = c;
    out->index = i;
    out->n_base = strlen(at->path);
    out->in_array = true;
    set_step(out);
    return 0;
}

/* ---- values ---- */

int json_as_u64(const struct json_at *at, uint64_t lo, uint64_t hi, uint64_t *out, struct err *e)
{
    char want[80];
    double x;

    if (hi >= JSON_EXACT)
        snprintf(want, sizeof(want), "a whole number >= %llu", (unsigned long long)lo);
    else
        snprintf(want, sizeof(want), "a whole number from %llu to %llu", (unsigned long long)lo,
                 (unsigned long long)hi);
    if (!cJSON_IsNumber(at->node))
        return wrong_type(at, want, e);
    x = at->node->valuedouble;
    if (x > 0x1p53 && isfinite(x))
        return json_err(at, ERR_INVALID, e, "is %s: whole numbers above 2^53 are not exact in JSON",
                        show(at->node).s);
    if (!isfinite(x) || !(x >= 0) || x != floor(x) || (uint64_t)x < lo || (uint64_t)x > hi)
        return json_err(at, ERR_INVALID, e, "is %s, expected %s", show(at->node).s, want);
    *out = (uint64_t)x;
    return 0;
}

static void range_text(char *to, size_t cap, const char *what, double lo, double hi)
{
    struct units_text lt = units_show_double(lo), ht = units_show_double(hi);
    const char *l = lt.s, *h = ht.s;

    if (lo == JSON_ABOVE_0 && isinf(hi))
        snprintf(to, cap, "%s > 0", what);
    else if (lo == JSON_ABOVE_0)
        snprintf(to, cap, "%s > 0 and <= %s", what, h);
    else if (isinf(lo) && isinf(hi))
        snprintf(to, cap, "%s", what);
    else if (isinf(hi))
        snprintf(to, cap, "%s >= %s", what, l);
    else if (isinf(lo))
        snprintf(to, cap, "%s <= %s", what, h);
    else
        snprintf(to, cap, "%s from %s to %s", what, l, h);
}

int json_as_double(const struct json_at *at, double lo, double hi, double *out, struct err *e)
{
    char want[100];

    range_text(want, sizeof(want), "a number", lo, hi);
    if (!cJSON_IsNumber(at->node))
        return wrong_type(at, want, e);
    if (!isfinite(at->node->valuedouble) ||
        !(at->node->valuedouble >= lo && at->node->valuedouble <= hi))
        return json_err(at, ERR_INVALID, e, "is %s, expected %s", show(at->node).s, want);
    *out = at->node->valuedouble;
    return 0;
}

int json_as_bool(const struct json_at *at, bool *out, struct err *e)
{
    if (!cJSON_IsBool(at->node))
        return wrong_type(at, "true or false", e);
    *out = cJSON_IsTrue(at->node);
    return 0;
}

int json_as_str(const struct json_at *at, const char **out, struct err *e)
{
    if (!cJSON_IsString(at->node))
        return wrong_type(at, "a string", e);
    for (const char *c = at->node->valuestring; *c; c++) /* it would reach terminals and scripts */
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return json_err(at, ERR_INVALID, e, "holds a control character (byte %d)", *c);
    *out = at->node->valuestring;
    return 0;
}

int json_as_enum(const struct json_at *at, const char *const *names, int *out, struct err *e)
{
    const char *s;
    char list[300];
    size_t used = 0;
    int i;

    if (json_as_str(at, &s, e))
        return -1;
    i = suggest_index(s, names);
    if (i >= 0) {
        *out = i;
        return 0;
    }
    list[0] = 0;
    for (i = 0; names[i]; i++) {
        if (i)
            used = put(list, sizeof(list), used, ", ");
        used = put(list, sizeof(list), used, names[i]);
    }
    return json_err(at, ERR_UNKNOWN, e, "is \"%.60s\", expected one of %s%s", s, list,
                    suggest(s, names, suggest_count(names)).s);
}

int json_as_quantity(const struct json_at *at, enum units_kind kind, double lo, double hi,
                     double *out, struct err *e)
{
    char want[100];
    double x;

    if (!cJSON_IsString(at->node))
        return json_as_double(at, lo, hi, out, e);
    if (units_parse(kind, at->node->valuestring, &x, e)) {
        char why[400];

        snprintf(why, sizeof(why), "%.390s", e->msg);
        return json_err(at, ERR_INVALID, e, "is wrong: %s", why);
    }
    if (!(x >= lo && x <= hi)) {
        range_text(want, sizeof(want), "a number", lo, hi);
        return json_err(at, ERR_INVALID, e, "is %s, expected %s", show(at->node).s, want);
    }
    *out = x;
    return 0;
}

/* ---- members ---- */

int json_u64(const struct json_at *at, const char *key, uint64_t lo, uint64_t hi, uint64_t *out,
             struct err *e)
{
    struct json_at m;

    return json_get(at, key, &m, e) ? -1 : json_as_u64(&m, lo, hi, out, e);
}

int json_double(const struct json_at *at, const char *key, double lo, double hi, double *out,
                struct err *e)
{
    struct json_at m;

    return json_get(at, key, &m, e) ? -1 : json_as_double(&m, lo, hi, out, e);
}

int json_bool(const struct json_at *at, const char *key, bool *out, struct err *e)
{
    struct json_at m;

    return json_get(at, key, &m, e) ? -1 : json_as_bool(&m, out, e);
}

int json_str(const struct json_at *at, const char *key, const char **out, struct err *e)
{
    struct json_at m;

    return json_get(at, key, &m, e) ? -1 : json_as_str(&m, out, e);
}

int json_enum(const struct json_at *at, const char *key, const char *const *names, int *out,
              struct err *e)
{
    struct json_at m;

    return json_get(at, key, &m, e) ? -1 : json_as_enum(&m, names, out, e);
}

int json_quantity(const struct json_at *at, const char *key, enum units_kind kind, double lo,
                  double hi, double *out, struct err *e)
{
    struct json_at m;

    return json_get(at, key, &m, e) ? -1 : json_as_quantity(&m, kind, lo, hi, out, e);
}

int json_array(const struct json_at *at, const char *key, struct json_at *out, size_t *n,
               struct err *e)
{
    return json_get(at, key, out, e) ? -1 : json_is_array(out, n, e);
}

int json_object(const struct json_at *at, const char *key, struct json_at *out, struct err *e)
{
    return json_get(at, key, out, e) ? -1 : json_is_object(out, e);
}

int json_u64_array(const struct json_at *at, const char *key, uint64_t lo, uint64_t hi,
                   struct arena *a, uint64_t **out, size_t *n, struct err *e)
{
    struct json_at list, it;

    if (json_array(at, key, &list, n, e))
        return -1;
    *out = ARENA_NEW(a, uint64_t, *n);
    for (bool ok = json_first(&list, &it); ok; ok = json_next(&it))
        if (json_as_u64(&it, lo, hi, &(*out)[it.index], e))
            return -1;
    return 0;
}

#define MEMBER_OR(read)                                                                            \
    do {                                                                                           \
        struct json_at m;                                                                          \
                                                                                                   \
        if (json_is_object(at, e))                                                                 \
            return -1;                                                                             \
        if (json_opt(at, key, &m))                                                                 \
            return read;                                                                           \
        *out = dflt;                                                                               \
        return 0;                                                                                  \
    } while (0)

int json_u64_or(const struct json_at *at, const char *key, uint64_t lo, uint64_t hi, uint64_t dflt,
                uint64_t *out, struct err *e)
{
    MEMBER_OR(json_as_u64(&m, lo, hi, out, e));
}

int json_double_or(const struct json_at *at, const char *key, double lo, double hi, double dflt,
                   double *out, struct err *e)
{
    MEMBER_OR(json_as_double(&m, lo, hi, out, e));
}

int json_bool_or(const struct json_at *at, const char *key, bool dflt, bool *out, struct err *e)
{
    MEMBER_OR(json_as_bool(&m, out, e));
}

int json_str_or(const struct json_at *at, const char *key, const char *dflt, const char **out,
                struct err *e)
{
    MEMBER_OR(json_as_str(&m, out, e));
}

int json_enum_or(const struct json_at *at, const char *key, const char *const *names, int dflt,
                 int *out, struct err *e)
{
    MEMBER_OR(json_as_enum(&m, names, out, e));
}

int json_quantity_or(const struct json_at *at, const char *key, enum units_kind kind, double lo,
                     double hi, double dflt, double *out, struct err *e)
{
    MEMBER_OR(json_as_quantity(&m, kind, lo, hi, out, e));
}

const char *json_library_version(void)
{
    return cJSON_Version();
}
