#include "sim/maxmin.h"

#include "core/err.h"
#include "core/mem.h"
#include "sim/maxmin_inner.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

struct maxmin *maxmin_new(void)
{
    struct maxmin *m = MEM_NEW(struct maxmin, 1);

    keyheap_init(&m->filling);
    keyheap_init(&m->capped);
    return m;
}

void maxmin_free(struct maxmin *m)
{
    uint32_t i;

    if (!m)
        return;
    for (i = 0; i < m->n_kinds; i++) {
        mem_free(m->kinds[i].con_of);
        mem_free(m->kinds[i].singled);
    }
    for (i = 0; i < m->n_cons; i++)
        mem_free(m->cons[i].users);
    for (i = 0; i < m->n_slots; i++)
        mem_free(m->runners[i].cons);
    mem_free(m->kinds);
    mem_free(m->cons);
    mem_free(m->runners);
    mem_free(m->level);
    mem_free(m->free_slots);
    mem_free(m->fresh);
    mem_free(m->touched);
    mem_free(m->round);
    mem_free(m->changed);
    keyheap_release(&m->filling);
    keyheap_release(&m->capped);
    mem_free(m);
}

static uint32_t con_new(struct maxmin *m, uint32_t kind, double capacity)
{
    m->cons = mem_grow(m->cons, &m->cons_cap, (size_t)m->n_cons + 1, sizeof(*m->cons));
    m->cons[m->n_cons] = (struct con){.kind = kind, .capacity = capacity};
    return m->n_cons++;
}

uint32_t maxmin_kind(struct maxmin *m, uint32_t n, double capacity)
{
    struct kind k = {.n = n};

    k.rest = con_new(m, m->n_kinds, capacity);
    m->kinds = mem_grow(m->kinds, &m->kinds_cap, (size_t)m->n_kinds + 1, sizeof(*m->kinds));
    m->kinds[m->n_kinds] = k;
    return m->n_kinds++;
}

/* Users of a con. */

static uint32_t user_find(const struct con *c, uint32_t id)
{
    uint32_t lo = 0, hi = c->n_users, mid;

    while (lo < hi) {
        mid = lo + (hi - lo) / 2;
        if (c->users[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void user_add(struct con *c, uint32_t slot, uint32_t id, double load)
{
    uint32_t at = c->n_users && c->users[c->n_users - 1].id > id ? user_find(c, id) : c->n_users;

    c->users = mem_grow(c->users, &c->users_cap, (size_t)c->n_users + 1, sizeof(*c->users));
    memmove(c->users + at + 1, c->users + at, (c->n_users - at) * sizeof(*c->users));
    c->users[at] = (struct user){.slot = slot, .id = id, .load = load};
    c->each = c->n_users == 0 || c->each == load ? load : 0;
    c->n_users++;
    c->load += load;
}

static bool user_remove(struct con *c, uint32_t id)
{
    uint32_t at = user_find(c, id);

    if (at == c->n_users || c->users[at].id != id)
        return false;
    c->n_users--;
    memmove(c->users + at, c->users + at + 1, (c->n_users - at) * sizeof(*c->users));
    if (c->each > 0) {
        c->load = c->each * c->n_users;
        return true;
    }
    for (c->load = 0, at = 0; at < c->n_users; at++) /* subtracting would lose digits */
        c->load += c->users[at].load;
    return true;
}

static bool has_rest(const struct kind *k)
{
    return k->n_singled < k->n;
}

/* The level of con c is to be looked at again, since a user of it became loose that was at `level` (0: it is new, or
 * nothing is known). */
static void refill(struct maxmin *m, uint32_t c, double level)
{
    struct con *con = &m->cons[c];
    double fair = fair_level(con);
    int64_t key = keyheap_of_double(level > fair ? level : fair);

    con->stale = true;
    if (!keyheap_has(&m->filling, c)) {
        con->safe = level;
        con->risky = false;
        keyheap_set(&m->filling, c, key);
        return;
    }
    if (level < con->safe)
        con->safe = level;
    if (key < keyheap_key(&m->filling, c))
        keyheap_set(&m->filling, c, key);
}

/* Call visit() for every con that slot may use: exactly those of its `only`, and all of a kind with `every`. */
static inline __attribute__((always_inline)) void
for_cons(struct maxmin *m, uint32_t slot, void (*visit)(struct maxmin *, uint32_t con, double),
         double arg)
{
    const struct runner *r = &m->runners[slot];
    const struct kind *k;
    uint32_t i, j;

    for (i = 0; i < r->n_cons; i++)
        visit(m, r->cons[i].con, arg);
    for (i = 0; i < r->n_uses; i++) {
        if (!(r->uses[i].every > 0))
            continue;
        k = &m->kinds[r->uses[i].kind];
        if (has_rest(k))
            visit(m, k->rest, arg);
        for (j = 0; j < k->n_singled; j++)
            visit(m, k->singled[j], arg);
    }
}

/* Make a settled activity loose. Its cons do not fill below the level that it had. */
static void loosen(struct maxmin *m, uint32_t slot)
{
    struct runner *r = &m->runners[slot];

    r->old_level = m->level[slot];
    m->level[slot] = LOOSE;
    m->n_loose++;
    if (r->cap > 0)
        keyheap_set(&m->capped, slot, keyheap_of_double(r->cap / r->weight));
    for_cons(m, slot, refill, r->old_level);
}

/* Con c has more to give: make those loose that it holds, unless that is at or below `level`. */
static void loosen_held(struct maxmin *m, uint32_t c, double level)
{
    struct con *con = &m->cons[c];
    double held = con->fill * (1 - SAME);
    uint32_t i;

    if (held <= level)
        return;
    for (i = 0; i < con->n_users; i++)
        if (m->level[con->users[i].slot] > held)
            loosen(m, con->users[i].slot);
    con->fill = 0;
}

/* Make those loose that have more than `level` on con c. */
static void loosen_above(struct maxmin *m, uint32_t c, double level)
{
    const struct con *con = &m->cons[c];
    uint32_t i;

    for (i = 0; i < con->n_users; i++)
        if (m->level[con->users[i].slot] > level)
            loosen(m, con->users[i].slot);
}

/* Singling out instances. */

static uint32_t con_at(struct maxmin *m, uint32_t kind, uint32_t instance)
{
    struct kind *k = &m->kinds[kind];

    BUG_ON(instance >= k->n);
    if (!k->con_of)
        k->con_of = MEM_NEW(uint32_t, k->n);
    if (!k->con_of[instance])
        k->con_of[instance] = con_new(m, kind, m->cons[k->rest].capacity) + 1;
    return k->con_of[instance] - 1;
}

static void single_out(struct maxmin *m, uint32_t c)
{
    struct con *con = &m->cons[c];
    struct kind *k = &m->kinds[con->kind];
    const struct con *rest = &m->cons[k->rest];

    if (con->listed)
        return;
    k->singled =
        mem_grow(k->singled, &k->singled_cap, (size_t)k->n_singled + 1, sizeof(*k->singled));
    k->singled[k->n_singled++] = c;
    con->listed = k->n_singled;
    con->users = mem_grow(con->users, &con->users_cap, rest->n_users, sizeof(*con->users));
    if (rest->n_users)
        memcpy(con->users, rest->users, rest->n_users * sizeof(*con->users));
    con->n_users = rest->n_users;
    con->load = rest->load;
    con->each = 0;
    con->top = rest->top;
    con->fill = rest->fill;
    if (con->n_users)
        refill(m, c, 0);
}

static void put_back(struct maxmin *m, uint32_t c)
{
    struct con *con = &m->cons[c];
    struct kind *k = &m->kinds[con->kind];
    uint32_t last = k->singled[k->n_singled - 1];

    loosen_held(m, c, 0);
    k->singled[con->listed - 1] = last;
    m->cons[last].listed = con->listed;
    con->listed = 0;
    con->n_users = 0;
    con->load = con->used = 0;
    if (!has_rest(k)) {
        m->cons[k->rest].fill = 0;
        m->cons[k->rest].top = INFINITY;
        if (m->cons[k->rest].n_users)
            refill(m, k->rest, 0);
    }
    k->n_singled--;
}

void maxmin_capacity(struct maxmin *m, uint32_t kind, uint32_t instance, double capacity)
{
    uint32_t c = con_at(m, kind, instance);

    single_out(m, c);
    m->cons[c].own_capacity = true;
    m->cons[c].capacity = capacity;
    loosen_held(m, c, 0);
}

/* Coming and going. */

static uint32_t slot_new(struct maxmin *m)
{
    if (m->n_free)
        return m->free_slots[--m->n_free];
    m->runners = mem_grow(m->runners, &m->runners_cap, (size_t)m->n_slots + 1, sizeof(*m->runners));
    m->level = mem_grow(m->level, &m->level_cap, (size_t)m->n_slots + 1, sizeof(*m->level));
    m->runners[m->n_slots] = (struct runner){0};
    return m->n_slots++;
}

static void add_only(struct maxmin *m, struct runner *r, uint32_t slot, uint32_t kind,
                     struct fluid_amount a)
{
    uint32_t c = con_at(m, kind, a.instance);

    single_out(m, c);
    m->cons[c].n_only++;
    if (!(a.amount > 0))
        return;
    user_add(&m->cons[c], slot, r->id, a.amount * r->weight);
    r->cons = mem_grow(r->cons, &r->cons_cap, (size_t)r->n_cons + 1, sizeof(*r->cons));
    r->cons[r->n_cons++] = (struct held_by){.con = c, .load = a.amount * r->weight};
}

/* A user of the rest of the kind, and of whatever is singled out by others. */
static void add_every(struct maxmin *m, const struct runner *r, uint32_t slot,
                      const struct fluid_use *u)
{
    struct kind *k = &m->kinds[u->kind];
    double load = u->every * r->weight;
    uint32_t i, c;

    k->n_every++;

    for (i = 0; i < u->n_only; i++) /* marked, so that `every` stays out of it */
        m->cons[k->con_of[u->only[i].instance] - 1].listed |= 1U << 31;
    for (i = 0; i < k->n_singled; i++) {
        c = k->singled[i];
        if (m->cons[c].listed >> 31)
            m->cons[c].listed &= ~(1U << 31);
        else
            user_add(&m->cons[c], slot, r->id, load);
    }
    user_add(&m->cons[k->rest], slot, r->id, load);
}

uint32_t maxmin_start(struct maxmin *m, uint32_t id, const struct fluid_use *uses, uint32_t n_uses,
                      double weight, double cap)
{
    uint32_t slot = slot_new(m), i, j;
    struct runner *r = &m->runners[slot];
    bool held = cap > 0; /* by something */

    r->id = id;
    r->weight = weight;
    r->cap = cap;
    r->uses = uses;
    r->n_uses = n_uses;
    r->n_cons = 0;
    r->at_cap = false;
    r->has_every = false;
    r->old_level = 0;
    m->level[slot] = LOOSE;
    m->n_loose++;
    for (i = 0; i < n_uses; i++)
        for (j = 0; j < uses[i].n_only; j++)
            add_only(m, r, slot, uses[i].kind, uses[i].only[j]);
    for (i = 0; i < n_uses; i++) {
        if (!(uses[i].every > 0))
            continue;
        r->has_every = true;
        add_every(m, r, slot, &uses[i]);
        held |= uses[i].n_only < m->kinds[uses[i].kind].n;
    }
    if (!held && !r->n_cons) {
        maxmin_end(m, slot);
        return UINT32_MAX;
    }
    if (cap > 0)
        keyheap_set(&m->capped, slot, keyheap_of_double(cap / weight));
    m->fresh = mem_grow(m->fresh, &m->fresh_cap, (size_t)m->n_fresh + 1, sizeof(*m->fresh));
    m->fresh[m->n_fresh++] = slot;
    return slot;
}

static void touch(struct maxmin *m, uint32_t c)
{
    if (m->cons[c].touched)
        return;
    m->cons[c].touched = true;
    m->touched =
        mem_grow(m->touched, &m->touched_cap, (size_t)m->n_touched + 1, sizeof(*m->touched));
    m->touched[m->n_touched++] = c;
}

/* A user at `level` with that load has ended. */
static void leave(struct maxmin *m, uint32_t c, uint32_t id, double used)
{
    struct con *con = &m->cons[c];

    if (!user_remove(con, id))
        return;
    con->used = con->n_users ? con->used - used : 0;
    if (++con->n_left >= ADD_UP_AFTER && !m->kinds[con->kind].n_every)
        maxmin_add_up(m, con);
    if (!(con->fill > 0))
        return;
    if (holds_other(m, con, UINT32_MAX))
        touch(m, c);
    else
        con->fill = 0;
}

void maxmin_end(struct maxmin *m, uint32_t slot)
{
    struct runner *r = &m->runners[slot];
    const struct fluid_use *u;
    double level = m->level[slot];
    uint32_t i, j, c;

    if (level == LOOSE) {
        level = r->old_level;
        m->n_loose--;
        keyheap_remove(&m->capped, slot);
    }
    m->level[slot] = 0;
    for (i = 0; i < r->n_cons; i++)
        leave(m, r->cons[i].con, r->id, r->cons[i].load * level);
    for (i = 0; i < r->n_uses; i++) {
        u = &r->uses[i];
        if (!(u->every > 0))
            continue;
        m->kinds[u->kind].n_every--;
        leave(m, m->kinds[u->kind].rest, r->id, 0);
        for (j = 0; j < m->kinds[u->kind].n_singled; j++)
            leave(m, m->kinds[u->kind].singled[j], r->id, 0);
    }
    for (i = 0; i < r->n_uses; i++) {
        u = &r->uses[i];
        for (j = 0; j < u->n_only; j++) {
            c = m->kinds[u->kind].con_of[u->only[j].instance] - 1;
            if (--m->cons[c].n_only == 0 && !m->cons[c].own_capacity)
                put_back(m, c);
        }
    }
    m->free_slots =
        mem_grow(m->free_slots, &m->free_cap, (size_t)m->n_free + 1, sizeof(*m->free_slots));
    m->free_slots[m->n_free++] = slot;
}

/* Filling. */

static void note_settled(struct maxmin *m, uint32_t c, double level)
{
    struct con *con = &m->cons[c];

    con->stale = true;
    con->risky |= level > con->safe;
    if (level > con->top)
        con->top = level;
}

static void settle(struct maxmin *m, uint32_t slot, double level, bool at_cap)
{
    struct runner *r = &m->runners[slot];

    BUG_ON(!(level > 0));
    m->level[slot] = level;
    m->n_loose--;
    if (r->cap > 0)
        keyheap_remove(&m->capped, slot);
    r->at_cap = at_cap;
    for (uint32_t i = 0; i < r->n_cons; i++)
        m->cons[r->cons[i].con].used += r->cons[i].load * (level - r->old_level);
    for_cons(m, slot, note_settled, level);
    if (level == r->old_level)
        return;
    maxmin_note_changed(m, slot);
    for_cons(m, slot, loosen_held, level);
}

/* The level at which con c is full when its loose users, and the settled ones above that level, share what the others
 * leave. Each pass takes those above the level of the pass before as sharers, the first pass the loose ones alone (or
 * everyone, when none is loose): sharers drop out from pass to pass, so the level rises and ends at a fixed point.
 * Returns false when no user is loose and the settled ones fit. */
static bool fill_level(struct maxmin *m, struct con *con, double *out)
{
    double threshold = INFINITY, left, load, lev;
    bool any_loose = false;
    uint32_t i;

    con->max_level = 0;
    for (;;) {
        left = con->capacity;
        load = 0;
        for (i = 0; i < con->n_users; i++) {
            lev = m->level[con->users[i].slot];
            any_loose |= lev == LOOSE;
            if (lev == LOOSE || lev > threshold)
                load += con->users[i].load;
            else
                left -= con->users[i].load * lev;
            if (lev > con->max_level)
                con->max_level = lev;
        }
        if (threshold == INFINITY && !any_loose) {
            con->top = con->max_level;
            if (left >= -SAME * con->capacity)
                return false;
            threshold = 0;
            continue;
        }
        lev = left > 0 ? left / load : 0;
        if (threshold < INFINITY && lev <= threshold) /* no further rise */
            lev = threshold;
        if (con->max_level <= lev || lev == threshold)
            break;
        threshold = lev;
    }
    con->top = con->max_level;
    *out = lev;
    return true;
}

/* A singled out instance, or the rest of a kind as long as there is one. */
static bool is_used(const struct maxmin *m, uint32_t c)
{
    return m->cons[c].listed ||
           (m->kinds[m->cons[c].kind].rest == c && has_rest(&m->kinds[m->cons[c].kind]));
}

/* Compute the level of the con at the top of the heap, and move it there. */
static void freshen(struct maxmin *m, uint32_t c, double floor)
{
    struct con *con = &m->cons[c];
    double level;

    con->stale = false;
    if (!is_used(m, c) || !fill_level(m, con, &level)) {
        keyheap_remove(&m->filling, c);
        return;
    }
    if (level < floor) /* levels are found in ascending order; less is rounding */
        level = floor;
    if (con->max_level <= level) {
        con->safe = level;
        con->risky = false;
    }
    keyheap_set(&m->filling, c, keyheap_of_double(level));
}

/* Take all cons off the heap that fill at `key`, exactly; 0 when a user became loose on the way and it is to do
 * again. */
static uint32_t take_round(struct maxmin *m, int64_t key)
{
    double level = keyheap_to_double(key);
    uint32_t n = 0, i, c;

    while (m->filling.len && m->filling.items[0].key == key) {
        c = m->filling.items[0].id;
        if (m->cons[c].stale) {
            freshen(m, c, level);
            continue;
        }
        if (m->cons[c].max_level > level) {
            for (i = 0; i < n; i++)
                refill(m, m->round[i], level);
            loosen_above(m, c, level);
            return 0;
        }
        m->round = mem_grow(m->round, &m->round_cap, (size_t)n + 1, sizeof(*m->round));
        m->round[n++] = c;
        keyheap_remove(&m->filling, c);
    }
    return n;
}

static void settle_users(struct maxmin *m, uint32_t c, double level)
{
    struct con *con = &m->cons[c];
    uint32_t i;

    con->fill = level;
    for (i = 0; i < con->n_users; i++)
        if (m->level[con->users[i].slot] == LOOSE)
            settle(m, con->users[i].slot, level, false);
}

/* Has a con that no one is loose on become overfull? */
static bool is_overfull(struct maxmin *m, uint32_t c)
{
    struct con *con = &m->cons[c];
    double level;

    return con->risky && con->top > fair_level(con) && is_used(m, c) && fill_level(m, con, &level);
}

/* No one is loose: drop the cons that wait. Where users have overfilled one on their way up, those above its level
 * become loose, and filling goes on. */
static void drop_fitting(struct maxmin *m, double floor)
{
    uint32_t n = 0, i;
    double level = 0;

    m->round = mem_grow(m->round, &m->round_cap, m->filling.len, sizeof(*m->round));
    for (i = 0; i < m->filling.len; i++)
        if (is_overfull(m, m->filling.items[i].id))
            m->round[n++] = m->filling.items[i].id;
    keyheap_clear(&m->filling);
    for (i = 0; i < n; i++) {
        fill_level(m, &m->cons[m->round[i]], &level);
        level = fmax(level, floor);
        loosen_above(m, m->round[i], level);
        refill(m, m->round[i], level);
    }
}

/* The con of a fresh activity that offers least. */
static uint32_t least_con(const struct maxmin *m, const struct runner *r)
{
    uint32_t best = UINT32_MAX;
    double level, least = INFINITY;

    for (uint32_t i = 0; i < r->n_cons; i++) {
        level = fair_level(&m->cons[r->cons[i].con]);
        if (level < least) {
            least = level;
            best = r->cons[i].con;
        }
    }
    return best;
}

/* Fresh activities, and those held by cons that lost a user: settled the short way, or made loose. */
static void take_changes(struct maxmin *m)
{
    bool short_way = !m->filling.len && !m->capped.len;
    uint32_t n_lost = m->n_touched, i, c;

    for (i = 0; i < m->n_fresh && short_way; i++)
        if (m->level[m->fresh[i]] == LOOSE &&
            (c = least_con(m, &m->runners[m->fresh[i]])) != UINT32_MAX)
            touch(m, c);
    for (i = 0; i < m->n_touched; i++) {
        c = m->touched[(i + n_lost) % m->n_touched]; /* first where fresh ones are */
        m->cons[c].touched = short_way && maxmin_settle_alone(m, c);
    }
    for (i = 0; i < m->n_touched; i++) {
        if (!m->cons[m->touched[i]].touched)
            loosen_held(m, m->touched[i], 0);
        m->cons[m->touched[i]].touched = false;
    }
    for (i = 0; i < m->n_fresh; i++)
        if (m->level[m->fresh[i]] == LOOSE)
            for_cons(m, m->fresh[i], refill, 0);
    m->n_fresh = m->n_touched = 0;
}

uint32_t maxmin_solve(struct maxmin *m, const uint32_t **slots)
{
    double level = 0;
    uint32_t i, n;

    m->n_changed = 0;
    take_changes(m);
    for (;;) {
        if (!m->n_loose)
            drop_fitting(m, level);
        if (!m->n_loose)
            break;
        if (m->capped.len &&
            (!m->filling.len || m->capped.items[0].key <= m->filling.items[0].key)) {
            level = fmax(level, keyheap_to_double(m->capped.items[0].key));
            settle(m, m->capped.items[0].id, level, true);
            continue;
        }
        if (m->cons[m->filling.items[0].id].stale) {
            freshen(m, m->filling.items[0].id, level);
            continue;
        }
        level = keyheap_to_double(m->filling.items[0].key);
        n = take_round(m, m->filling.items[0].key);
        for (i = 0; i < n; i++)
            settle_users(m, m->round[i], level);
    }
    *slots = m->changed;
    return m->n_changed;
}

double maxmin_rate(const struct maxmin *m, uint32_t slot)
{
    const struct runner *r = &m->runners[slot];

    return r->at_cap ? r->cap : m->level[slot] * r->weight;
}

uint32_t maxmin_id(const struct maxmin *m, uint32_t slot)
{
    return m->runners[slot].id;
}
