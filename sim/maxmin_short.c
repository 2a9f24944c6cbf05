/* The short way of sim/maxmin.h: settle what one con holds, where nothing else is touched by that. */
#include "sim/maxmin_inner.h"

#include "core/mem.h"

#include <math.h>

void maxmin_add_up(const struct maxmin *m, struct con *con)
{
    con->n_left = 0;
    con->used = 0;
    for (uint32_t i = 0; i < con->n_users; i++)
        if (m->level[con->users[i].slot] > 0)
            con->used += con->users[i].load * m->level[con->users[i].slot];
}

void maxmin_note_changed(struct maxmin *m, uint32_t slot)
{
    m->changed =
        mem_grow(m->changed, &m->changed_cap, (size_t)m->n_changed + 1, sizeof(*m->changed));
    m->changed[m->n_changed++] = slot;
}

/* Would nothing else change if `slot` went from level `old` to `level` on its con d, as to that con? `used` moves along. */
static bool has_room(struct maxmin *m, struct con *d, double load, uint32_t slot, double old,
                     double level)
{
    d->used += load * (level - old);
    if (m->kinds[d->kind].n_every)
        return false;
    if (d->fill > 0 && (holds_other(m, d, slot) ||
                        (level > old && old > d->fill * (1 - SAME)))) /* it holds this one */
        return false;
    return level <= old || d->used <= d->capacity * (1 - FAIR_SLACK) ||
           (d->n_users == 1 && level <= d->capacity / load);
}

/* Move `used` of the other cons of con c's i-th user along; false when one of them would matter, which then stays moved. */
static bool try_user(struct maxmin *m, uint32_t c, uint32_t slot, double level, uint32_t *n_moved)
{
    struct runner *r = &m->runners[slot];
    double old = m->level[slot] == LOOSE ? 0 : m->level[slot];
    uint32_t i;

    *n_moved = 0;
    if (r->cap > 0 || r->has_every)
        return false;
    for (i = 0; i < r->n_cons; i++) {
        if (r->cons[i].con == c)
            continue;
        *n_moved = i + 1;
        if (!has_room(m, &m->cons[r->cons[i].con], r->cons[i].load, slot, old, level))
            return false;
    }
    return true;
}

static void move_back(struct maxmin *m, uint32_t c, uint32_t slot, double level, uint32_t n)
{
    const struct runner *r = &m->runners[slot];
    double old = m->level[slot] == LOOSE ? 0 : m->level[slot];

    for (uint32_t i = 0; i < n; i++)
        if (r->cons[i].con != c)
            m->cons[r->cons[i].con].used -= r->cons[i].load * (level - old);
}

/* Does a user of that level move, when loose ones and those above `above` do? */
static bool moves(double level, double above)
{
    return level == LOOSE || level > above;
}

/* The level at which con c is full when its loose users, and those that it holds, share what the others leave; those
 * above that level share too, as in fill_level(). *above: who shares. False when there is nothing to share, 0 when no
 * one does. */
static bool shared_level(const struct maxmin *m, const struct con *con, double *above, double *out)
{
    double left, load, most, lev;

    *above = con->fill > 0 ? con->fill * (1 - SAME) : INFINITY;
    for (;;) {
        left = con->capacity;
        load = most = 0;
        for (uint32_t i = 0; i < con->n_users; i++) {
            lev = m->level[con->users[i].slot];
            if (moves(lev, *above)) {
                load += con->users[i].load;
            } else {
                left -= con->users[i].load * lev;
                most = fmax(most, lev);
            }
        }
        *out = 0;
        if (load == 0)
            return true;
        *out = left > 0 ? left / load : 0;
        if (most <= *out)
            return *out > 0;
        if (*out >= *above) /* no further rise */
            return false;
        *above = *out;
    }
}

static void move_users(struct maxmin *m, uint32_t c, double above, double level)
{
    struct con *con = &m->cons[c];

    for (uint32_t i = 0; i < con->n_users; i++) {
        uint32_t slot = con->users[i].slot;
        struct runner *r = &m->runners[slot];
        double old = m->level[slot];

        if (!moves(old, above))
            continue;
        m->n_loose -= old == LOOSE;
        m->level[slot] = level;
        for (uint32_t k = 0; k < r->n_cons; k++) {
            struct con *d = &m->cons[r->cons[k].con];

            d->top = fmax(d->top, level);
            d->fill = 0;
        }
        if (old != level)
            maxmin_note_changed(m, slot);
    }
    con->fill = level;
    maxmin_add_up(m, con);
}

bool maxmin_settle_alone(struct maxmin *m, uint32_t c)
{
    struct con *con = &m->cons[c];
    uint32_t i, n_moved = 0;
    double above, level;

    if (m->kinds[con->kind].n_every || !shared_level(m, con, &above, &level))
        return false;
    if (level == 0) {
        con->fill = 0;
        return true;
    }
    for (i = 0; i < con->n_users; i++)
        if (moves(m->level[con->users[i].slot], above) &&
            !try_user(m, c, con->users[i].slot, level, &n_moved))
            break;
    if (i == con->n_users) {
        move_users(m, c, above, level);
        return true;
    }
    move_back(m, c, con->users[i].slot, level, n_moved);
    while (i-- > 0)
        if (moves(m->level[con->users[i].slot], above))
            move_back(m, c, con->users[i].slot, level, m->runners[con->users[i].slot].n_cons);
    return false;
}
