/* sim/maxmin_inner.h - what sim/maxmin.c (filling) and sim/maxmin_short.c (the short way) share. */
#ifndef BALLAST_SIM_MAXMIN_INNER_H
#define BALLAST_SIM_MAXMIN_INNER_H

#include "sim/keyheap.h"
#include "sim/maxmin.h"

#include <stdbool.h>

static const double LOOSE = -1;        /* in place of a level */
static const double FAIR_SLACK = 1e-9; /* relative: what sums of loads may be off */
static const double SAME = 1e-12; /* relative: levels, and loads, that differ by rounding at most */
enum {
    ADD_UP_AFTER = 1 << 12
}; /* users that left a con: rounding in `used` stays below FAIR_SLACK */

struct user {
    uint32_t slot, id;
    double load; /* amount * weight: what it takes per unit of level */
};

/* One instance that is singled out, or the rest of a kind. */
struct con {
    double capacity;
    double used;        /* by its users of `only`, but for rounding */
    double load;        /* of all users, a little more by rounding */
    double each;        /* the load of every user; 0: they differ */
    double top;         /* no user is above this level */
    double fill;        /* the level at which it was full last: it holds its users of this level */
    struct user *users; /* owned, [n_users], ascending id */
    uint32_t n_users;
    uint32_t kind; /* what the short way reads ends here, at 64 bytes */
    size_t users_cap;
    uint32_t n_left;   /* users that left since `used` was added up */
    bool touched;      /* in the list of those to look at */
    uint32_t n_only;   /* running activities that single it out */
    uint32_t listed;   /* place in kind.singled + 1, or 0; the rest of a kind is never listed */
    bool own_capacity; /* stays singled out */
    bool stale;        /* its key in the heap is only a lower bound, max_level is unknown */
    bool risky;        /* may be overfull: some user settled above `safe` */
    double max_level;  /* of its settled users, when not stale */
    double safe;       /* it fits as long as its loose users settle at or below this level */
};

struct kind {
    uint32_t n;
    uint32_t
        rest; /* its con; its users are those with `every`, also while no instance is left in it */
    uint32_t *con_of;  /* owned, [n] con + 1 of an instance, or 0; NULL before the first */
    uint32_t *singled; /* owned, cons */
    size_t singled_cap;
    uint32_t n_singled;
    uint32_t n_every; /* running activities that use it with `every` */
};

struct held_by {
    uint32_t con;
    double load;
};

struct runner {
    uint32_t id;
    bool at_cap;
    double old_level, weight, cap;
    const struct fluid_use *uses; /* borrowed */
    uint32_t n_uses;
    uint32_t n_cons;
    struct held_by *cons; /* owned: the singled-out cons that it uses by `only` */
    size_t cons_cap;
    bool has_every;
};

struct maxmin {
    struct kind *kinds; /* owned, as all below */
    size_t kinds_cap;
    uint32_t n_kinds;
    struct con *cons;
    size_t cons_cap;
    uint32_t n_cons;
    struct runner *runners; /* [n_slots] */
    size_t runners_cap;
    double *level; /* [n_slots], LOOSE while searched for */
    size_t level_cap;
    uint32_t n_slots;
    uint32_t *free_slots;
    size_t free_cap;
    uint32_t n_free;
    struct keyheap filling; /* cons that were touched, by (a lower bound of) their level */
    struct keyheap capped;  /* loose runners with a cap, by the level of that cap */
    uint32_t n_loose;
    uint32_t *fresh; /* slots that started since the last solve */
    size_t fresh_cap;
    uint32_t n_fresh;
    uint32_t *touched; /* cons that hold someone and lost a user, or may hold one of the fresh */
    size_t touched_cap;
    uint32_t n_touched;
    uint32_t *round; /* cons that fill at this very level */
    size_t round_cap;
    uint32_t *changed; /* slots */
    size_t changed_cap;
    uint32_t n_changed;
};

/* Equal shares for all: no con fills at a lower level. */
static inline double fair_level(const struct con *c)
{
    return c->capacity / c->load * (1 - FAIR_SLACK);
}

/* Does con c hold a user other than `slot`? */
static inline bool holds_other(const struct maxmin *m, const struct con *c, uint32_t slot)
{
    double held = c->fill * (1 - SAME);

    for (uint32_t i = 0; i < c->n_users; i++)
        if (c->users[i].slot != slot && m->level[c->users[i].slot] > held)
            return true;
    return false;
}

/* `used` anew, without the rounding of what came and went. */
void maxmin_add_up(const struct maxmin *m, struct con *con);
/* The slot is among those that maxmin_solve() reports. */
void maxmin_note_changed(struct maxmin *m, uint32_t slot);
/* Settle what con c holds, and its fresh users, without looking further; false when that may change other cons. */
bool maxmin_settle_alone(struct maxmin *m, uint32_t c);

#endif
