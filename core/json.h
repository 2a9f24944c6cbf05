/* core/json.h - JSON in and out: a typed layer over cJSON, and the only place that includes it.
 *
 * Reading. cJSON is lax, so loading checks more: nothing may follow the document, no key may come twice in one
 * object, numbers are finite and in JSON's grammar, no NUL inside strings. A `struct json_at` is a place in a
 * document: the node, the file, and the path as text, so that every refusal reads
 *     'a.json': links[3].bandwidth is -5, expected a number > 0
 * Unknown keys are refused (json_only_keys), with the nearest known one, and so is null as a value, which would leave open
 * whether something was meant. In documents of others (a model's config.json, measured tables) and where ours write it
 * (json_only_keys_or_null), it is as good as absent.
 * cJSON keeps numbers as doubles: integers are exact up to 2^53, and larger ones are refused by the u64 getters.
 *
 *     json_load(&j, path, e);  top = json_top(&j);
 *     json_only_keys(&top, keys, n, e);  json_u64(&top, "nodes", 1, 1u << 20, &nodes, e);
 *     json_get(&top, "links", &links, e);
 *     for (ok = json_first(&links, &it); ok; ok = json_next(&it)) ...
 *     json_release(&j);
 *
 * Writing. Trees are cJSON's; json_add_u64 and json_print keep integers beyond 2^53 and every double exact
 * (shortest of 15 to 17 digits), a double that is not finite becomes null. Same tree, same bytes.
 *
 * Codes: ERR_PARSE not JSON, missing key or wrong type; ERR_UNKNOWN key or name; ERR_INVALID out of range.
 */
#ifndef BALLAST_CORE_JSON_H
#define BALLAST_CORE_JSON_H

#include "core/err.h"
#include "core/mem.h"
#include "core/strbuf.h"
#include "core/units.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#define JSON_MAX_BYTES (UINT64_C(512) << 20)
#define JSON_EXACT     (UINT64_C(1) << 53) /* integers up to here are exact */
#define JSON_ABOVE_0   0x1p-1074           /* as the lower end of a range: "> 0" */

struct json {
    cJSON *root;    /* owned */
    char *file;     /* owned: the name for messages */
    bool nonfinite; /* it has Infinity or NaN: json_parse_foreign() */
};

/* On failure nothing is left to release. */
int json_load(struct json *j, const char *path, struct err *e);
int json_parse(struct json *j, const char *file, const char *text, size_t len, struct err *e);
/* The same for files that other programs write: Infinity, -Infinity and NaN, which Python's json
 * reads and writes, are numbers that no getter accepts. j->nonfinite says whether there is one. */
int json_parse_foreign(struct json *j, const char *file, const char *text, size_t len,
                       struct err *e);
void json_release(struct json *j);

/* A value, free to copy; borrows from the document. */
struct json_at {
    const cJSON *node;
    const char *file;
    size_t index;  /* position in its parent, set by iteration */
    size_t n_base; /* length of the parent's path */
    bool in_array;
    char path[168]; /* "links[3].bandwidth"; cut when longer */
};

/* Of the cJSON that is linked. */
const char *json_library_version(void);

struct json_at json_top(const struct json *j);
/* A place in a tree that came from elsewhere. */
struct json_at json_at_tree(const cJSON *node, const char *file);

/* Set *e to "'file': path " + the text (at the top: "'file': the document "). Returns -1. */
int json_err(const struct json_at *at, enum err_code code, struct err *e, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
#define json_err(...) err_minus_1((json_err)(__VA_ARGS__)) /* see err_set */

/* Members. _opt: false when absent or null. */
bool json_opt(const struct json_at *at, const char *key, struct json_at *out);
int json_get(const struct json_at *at, const char *key, struct json_at *out, struct err *e);
int json_only_keys(const struct json_at *at, const char *const *keys, size_t n, struct err *e);
/* The same, but null is as good as absent for one key, NULL: for all. */
int json_only_keys_or_null(const struct json_at *at, const char *const *keys, size_t n,
                           const char *nullable, struct err *e);

/* Type checks of the value itself. */
bool json_is_null(const struct json_at *at);
bool json_is_str(const struct json_at *at);
int json_is_object(const struct json_at *at, struct err *e);
int json_is_array(const struct json_at *at, size_t *n, struct err *e); /* n may be NULL */

/* Array element: O(i), so walk long arrays with json_first/json_next, which also walk members of objects. */
int json_elem(const struct json_at *at, size_t i, struct json_at *out, struct err *e);
bool json_first(const struct json_at *at, struct json_at *it);
bool json_next(struct json_at *it);
const char *json_key(const struct json_at *it); /* of a member; "" for elements */

/* The value itself, as a type. Ranges are inclusive; lo = JSON_ABOVE_0 excludes 0, hi = INFINITY or UINT64_MAX is
 * no upper end. Strings are borrowed. Enums give the index in a NULL-terminated list, without case. A quantity is
 * a string with a unit ("200Gb/s") or a plain number in the base unit (bytes, bytes/s, seconds). */
int json_as_u64(const struct json_at *at, uint64_t lo, uint64_t hi, uint64_t *out, struct err *e);
int json_as_double(const struct json_at *at, double lo, double hi, double *out, struct err *e);
int json_as_bool(const struct json_at *at, bool *out, struct err *e);
int json_as_str(const struct json_at *at, const char **out, struct err *e);
int json_as_enum(const struct json_at *at, const char *const *names, int *out, struct err *e);
int json_as_quantity(const struct json_at *at, enum units_kind kind, double lo, double hi,
                     double *out, struct err *e);

/* The member `key`, required. */
int json_u64(const struct json_at *at, const char *key, uint64_t lo, uint64_t hi, uint64_t *out,
             struct err *e);
int json_double(const struct json_at *at, const char *key, double lo, double hi, double *out,
                struct err *e);
int json_bool(const struct json_at *at, const char *key, bool *out, struct err *e);
int json_str(const struct json_at *at, const char *key, const char **out, struct err *e);
int json_enum(const struct json_at *at, const char *key, const char *const *names, int *out,
              struct err *e);
int json_quantity(const struct json_at *at, const char *key, enum units_kind kind, double lo,
                  double hi, double *out, struct err *e);
int json_array(const struct json_at *at, const char *key, struct json_at *out, size_t *n,
               struct err *e);
int json_object(const struct json_at *at, const char *key, struct json_at *out, struct err *e);
/* All elements of the array `key`, into a. */
int json_u64_array(const struct json_at *at, const char *key, uint64_t lo, uint64_t hi,
                   struct arena *a, uint64_t **out, size_t *n, struct err *e);

/* The member `key`, or `dflt` when it is absent or null. */
int json_u64_or(const struct json_at *at, const char *key, uint64_t lo, uint64_t hi, uint64_t dflt,
                uint64_t *out, struct err *e);
int json_double_or(const struct json_at *at, const char *key, double lo, double hi, double dflt,
                   double *out, struct err *e);
int json_bool_or(const struct json_at *at, const char *key, bool dflt, bool *out, struct err *e);
int json_str_or(const struct json_at *at, const char *key, const char *dflt, const char **out,
                struct err *e);
int json_enum_or(const struct json_at *at, const char *key, const char *const *names, int dflt,
                 int *out, struct err *e);
int json_quantity_or(const struct json_at *at, const char *key, enum units_kind kind, double lo,
                     double hi, double dflt, double *out, struct err *e);

/* Elements of an array that are told apart by the text of their member `key`: ERR_INVALID names the first that is empty or is an
 * earlier one's, and that one. Elements without such a text are left to their reader. O(n log n). */
int json_distinct(const struct json_at *array, const char *key, struct err *e);

/* Building. `to` is an object, or an array with key = NULL. The container calls return the new child. */
cJSON *json_new_object(void);
cJSON *json_new_array(void);
void json_free(cJSON *tree);
cJSON *json_add_object(cJSON *to, const char *key);
cJSON *json_add_array(cJSON *to, const char *key);
void json_add_u64(cJSON *to, const char *key, uint64_t v);
void json_add_double(cJSON *to, const char *key, double v); /* not finite: null */
void json_add_bool(cJSON *to, const char *key, bool v);
void json_add_str(cJSON *to, const char *key, const char *v); /* NULL: null */
void json_add_null(cJSON *to, const char *key);
void json_add_tree(cJSON *to, const char *key, cJSON *tree); /* takes ownership */
void json_add_copy(cJSON *to, const char *key, const cJSON *tree);

/* Text of a tree, without a newline at the end. Pretty: two spaces, arrays of plain values filled to 100 columns. */
void json_print(const cJSON *tree, bool pretty, struct strbuf *out);
char *json_text(const cJSON *tree, bool pretty); /* heap, mem_free */

#endif
