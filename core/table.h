/* core/table.h - result rows, printed as people and programs want them.
 *
 * One list of columns serves all forms: `table` (aligned text within 120 columns, pastes into an issue), `md` (a
 * GitHub table), `csv` (RFC 4180, one header line, LF) and JSON (an array of objects). table and md round for
 * reading; csv and JSON carry full precision. A cell that was never set is missing: null, empty, or "-".
 * A text table that is too wide first cuts long texts ("..."), then continues below with the first column repeated:
 * no column is dropped unsaid.
 */
#ifndef BALLAST_CORE_TABLE_H
#define BALLAST_CORE_TABLE_H

#include "core/json.h"
#include "core/mem.h"
#include "core/strbuf.h"

#include <stdbool.h>
#include <stdint.h>

enum table_kind {
    TABLE_TEXT,  /* left */
    TABLE_INT,   /* 1234 */
    TABLE_COUNT, /* 1,234 in table and md; 1234 in csv and JSON */
    TABLE_FIXED, /* `decimals` digits in table and md */
    TABLE_GIB,   /* set as bytes, shown in units of 2^30 with `decimals` digits */
    TABLE_BOOL,  /* yes and no; true and false in csv and JSON */
    TABLE_JSON,  /* a subtree; in csv its compact text */
};

enum table_align { TABLE_AUTO, TABLE_LEFT, TABLE_RIGHT };

struct table_col {
    const char *key;  /* in JSON and csv */
    const char *head; /* in table and md; NULL: not shown there */
    enum table_kind kind;
    int decimals;
    enum table_align align; /* AUTO: text left, the rest right */
};

enum table_format { TABLE_AS_TABLE, TABLE_AS_JSON, TABLE_AS_CSV, TABLE_AS_MD };
extern const char *const table_formats[]; /* "table", "json", "csv", "md", NULL: for --format */

enum table_state { TABLE_MISSING, TABLE_U64, TABLE_DOUBLE, TABLE_STR, TABLE_YESNO, TABLE_TREE };
struct table_cell {
    enum table_state state;
    union {
        uint64_t u64;
        double d;
        const char *str; /* in the table's arena */
        bool yes;
        cJSON *tree; /* owned */
    } v;
};

struct table {
    const struct table_col *cols; /* [n_cols] borrowed */
    size_t n_cols;
    struct table_cell *cells; /* [n_rows][n_cols] owned */
    size_t n_rows, cap;
    struct arena arena;
};

void table_init(struct table *t, const struct table_col *cols, size_t n_cols);
void table_release(struct table *t);
/* Start a row, all missing; the setters below fill the last row. */
void table_row(struct table *t);
/* A key that is no column, or a value of the wrong kind, is a bug. */
void table_set_str(struct table *t, const char *key, const char *s); /* copied; NULL: missing */
void table_set_u64(struct table *t, const char *key,
                   uint64_t v); /* INT, COUNT, FIXED, GIB (bytes) */
void table_set_double(struct table *t, const char *key,
                      double v); /* COUNT, FIXED, GIB (bytes); not finite: missing */
void table_set_bool(struct table *t, const char *key, bool v);
void table_set_json(struct table *t, const char *key, cJSON *tree); /* takes ownership */
/* The cell of a column by its number; a text is copied, a tree is taken over. */
void table_set_cell(struct table *t, size_t col, struct table_cell c);
/* The number of a cell of this kind, as csv and JSON have it. */
double table_number(const struct table_cell *c, enum table_kind kind);

/* Append the text; every form ends with a newline. JSON is the pretty array alone. */
void table_print(const struct table *t, enum table_format format, struct strbuf *out);
/* The rows as a new array, and one row as a new object, for documents that hold more than rows. */
cJSON *table_to_json(const struct table *t);
cJSON *table_row_to_json(const struct table *t, size_t row);

#endif
