/* model/plan/plan_load.h - what the parts of the reader of plan files share: plan_load.c (document, job, cluster), plan_load_model.c
 * (model and tensors) and plan_load_place.c (placement, units, loads). All return 0, or -1 with r->e or e set.
 */
#ifndef BALLAST_MODEL_PLAN_PLAN_LOAD_H
#define BALLAST_MODEL_PLAN_PLAN_LOAD_H

#include "model/plan/plan_json.h"

enum { MAX_SIZE = 1 << 30, MAX_UNITS = 1 << 20, MAX_TENSORS = 1 << 24 };

struct plan_reader {
    struct plan *p;
    struct arena *a;
    struct err *e;
};

/* What lies beside the model until everything is checked. */
struct plan_tables {
    struct unit_class *classes; /* owned [n_classes] */
    size_t n_classes, n_units, n_tensors;
    struct json_at units, tensors;
};

/* ---- values ---- */

/* A count as the writer leaves it: a number up to 2^53, digits in a string above. */
int plan_as_count(const struct json_at *at, uint64_t *out, struct err *e);
int plan_count(const struct json_at *at, const char *key, uint64_t *out, struct err *e);
/* A member whose value follows from the rest. */
int plan_expect(const struct json_at *at, const char *key, uint64_t want, struct err *e);
int plan_u32(const struct json_at *at, const char *key, uint32_t lo, uint32_t hi, uint32_t *out,
             struct err *e);
int plan_text(struct plan_reader *r, const struct json_at *at, const char *key, const char **out);

#define KEYS_BUT(nullable, at, e, ...)                                                             \
    json_only_keys_or_null(at, (const char *const[]){__VA_ARGS__},                                 \
                           sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *), nullable,  \
                           e)
#define KEYS(at, e, ...) KEYS_BUT("", at, e, __VA_ARGS__)

/* json_enum into a field of enum type. */
#define ENUM(at, key, names, field, e)                                                             \
    (json_enum(at, key, names, &choice, e) ? -1 : ((field) = choice, 0))

#define ENUM_OR(at, key, names, dflt, field, e)                                                    \
    (json_enum_or(at, key, names, dflt, &choice, e) ? -1 : ((field) = choice, 0))

/* ---- parts ---- */

/* Fills r->p->model and t (t->classes is the caller's to free, after an error too). */
int plan_read_model(struct plan_reader *r, const struct json_at *top, struct plan_tables *t);
int plan_check_columns(const struct plan_reader *r, const struct json_at *top);
/* plan_job.c: the job, first of all. */
int plan_read_job(struct plan_reader *r, const struct json_at *top);
/* Before the model: layout, strategy, world, mesh. */
int plan_read_layout(struct plan_reader *r, const struct json_at *top);
/* After it: offsets of tensors and segments of units are what placement says. */
int plan_check_rows(const struct plan_reader *r, const struct plan_tables *t);
int plan_check_offsets(const struct plan_reader *r, const struct plan_tables *t);
int plan_check_units(const struct plan_reader *r, const struct plan_tables *t);
int plan_read_loads(struct plan_reader *r, const struct json_at *top);

#endif
