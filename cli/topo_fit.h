/* cli/topo_fit.h - constants of NCCL from measured tables: least squares of ln(predicted/measured).
 *
 * A table of one collective must not change what it says nothing about. Three rules see to that.
 * They read the rows of struct topo_tunable, so a new constant needs a row there and no more.
 *
 * 1. Identified. Every constant has a physical range, and before any row is seen it is believed to
 *    lie within 50 % of the description. A constant moves when its standard error, the other
 *    constants being as uncertain as the rows and that belief leave them, is less than half of the
 *    belief and less than the change.
 * 2. Confined. A constant has a part in many calls, and most of them have no row. The constant's
 *    own rows are those that react to it at least half as much as the row that reacts most. Alone,
 *    a constant may change no call of cli/topo_calls.h further than its own rows are off the
 *    prediction, nor in the other direction: rows that are all faster than predicted make no call
 *    slower. A constant that the search moves against its own rows, to make room for another one,
 *    is kept. A constant that goes too far is held where the first call reaches the largest
 *    deviation of its own rows. Then the others are searched again. Together, constants may change
 *    no call further than the largest deviation of all rows.
 * 3. NCCL's choice of a protocol in a node stays, since NCCL knows nothing of this machine's rates.
 *
 * A constant that the description leaves out has no value to start from. It gets one where the
 * rows identify it, unless it takes a call beyond the largest deviation of all rows. All other
 * constants are kept as they are, to the bit.
 *
 * What is left out: over more nodes than the calls and tables have, a moved step changes a call by
 * its share of that call, which grows with the nodes. */
#ifndef BALLAST_CLI_TOPO_FIT_H
#define BALLAST_CLI_TOPO_FIT_H

#include "cli/topo_calls.h"

struct topo_tunable {
    const char *path; /* of the field whose source changes */
    const char *part; /* of a field with parts, or "" */
    size_t offset;    /* of the double in struct cluster, which is 0 where it is left out */
    bool net;         /* of what lies between nodes */
    double lo, hi;    /* physical range */
    double start;     /* when the description has none; 0: it stays out */
};

/* All constants that a fit may move: cli/topo_calibrate.c. */
extern const struct topo_tunable topo_tunables[];
extern const size_t topo_n_tunables;

/* What became of a constant, and why. */
enum topo_verdict {
    TOPO_NO_ROW,   /* kept: no row reacts to it */
    TOPO_TOGETHER, /* kept: rows react to it, and do not identify it */
    TOPO_AGREES,   /* kept: the rows identify it, and it is right */
    TOPO_AGAINST,  /* kept: the search would move it against its own rows */
    TOPO_HELD,     /* moved, as far as a call without rows allows */
    TOPO_MOVED
};
struct topo_told {
    enum topo_verdict verdict;
    double value;   /* of HELD and MOVED */
    double spread;  /* standard error of ln(value); not of NO_ROW */
    size_t partner; /* the constant that the rows confuse it with most, or itself */
    bool at_bound;  /* of the physical range */
    /* AGAINST, HELD and MOVED: its own rows, whose times are exp(off) of the predicted ones in the
     * mean, and of which collectives they are (1u << enum coll_kind). */
    size_t rows;
    double off;
    uint32_t kinds;
    size_t call; /* HELD: the call that holds it */
};

enum { TOPO_MAX_TUNABLES = 128 };
struct topo_fit {
    const struct topo_tunable *tunables; /* [n_tunables], borrowed */
    size_t n_tunables;
    struct cluster given;  /* the description */
    struct cluster before; /* the same, and of p2p what its absence stands for */
    struct cluster *c;     /* the result */
    struct coll_table *tables;
    size_t n_tables;
    size_t without; /* a table that is left out; SIZE_MAX: none */
    const struct topo_calls *calls;
    const struct topo_guess *guess_before; /* [calls->n] by the description */
    struct topo_told told[TOPO_MAX_TUNABLES];
    const struct topo_group *next; /* by topo_fit_measure_next() */
    bool next_tells[TOPO_MAX_TUNABLES];
    size_t free[TOPO_MAX_TUNABLES], n_free; /* inner: constants that are searched */
};

/* Predicts the tables by the description *c, which later becomes the result. Memory is in the
 * arena. */
void topo_fit_init(struct topo_fit *f, const struct topo_tunable *tunables, size_t n_tunables,
                   struct cluster *c, struct coll_table *tables, size_t n_tables, struct arena *a);
/* Rows that are not set apart, of tables that are predicted and not left out. */
size_t topo_fit_rows(const struct topo_fit *f);
/* Fits. f->told says what became of each constant, *f->c has all of them, and the tables are
 * predicted by it. ERR_EXTERNAL: a search failed. Cost: at worst some tens of searches
 * (core/leastsq.h), and after each one prediction of all calls for each constant. */
int topo_fit(struct topo_fit *f, struct err *e);
/* Do the rows identify any constant? */
bool topo_fit_tells(const struct topo_fit *f);
/* Finds the collective and GPUs whose table would identify most of the constants that the rows do
 * not (f->next, NULL: none identifies any), and these constants (f->next_tells). */
void topo_fit_measure_next(struct topo_fit *f);

bool topo_moved(enum topo_verdict v);
double topo_value(const struct cluster *c, const struct topo_tunable *t);
bool topo_over_nodes(const struct coll_table *t);

#endif
