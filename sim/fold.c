#include "sim/fold.h"

#include <string.h>

struct kind {
    uint32_t n, n_classes;
    bool folds;
    uint64_t *hash;    /* owned [n] of what names an instance; NULL: nothing does so far */
    uint32_t *of;      /* owned [n] classes, where it folds */
    uint32_t *members; /* owned [n_classes] */
};

struct set { /* the uses of an activity, or of many alike */
    const struct fluid_use *uses, *folded;
    uint32_t n;
};

struct fold {
    struct kind *kinds; /* owned, as below */
    uint32_t n_kinds;
    struct set *sets; /* [cap] by address */
    size_t cap, n_sets;
    uint64_t n_noted;
    struct arena arena;
};

struct fold *fold_new(const uint32_t *n, uint32_t n_kinds)
{
    struct fold *f = MEM_NEW(struct fold, 1);

    f->n_kinds = n_kinds;
    f->kinds = MEM_NEW(struct kind, n_kinds);
    for (uint32_t i = 0; i < n_kinds; i++)
        f->kinds[i].n = f->kinds[i].n_classes = n[i];
    arena_init(&f->arena);
    return f;
}

void fold_free(struct fold *f)
{
    if (!f)
        return;
    for (uint32_t i = 0; i < f->n_kinds; i++) {
        mem_free(f->kinds[i].hash);
        mem_free(f->kinds[i].of);
        mem_free(f->kinds[i].members);
    }
    mem_free(f->kinds);
    mem_free(f->sets);
    arena_release(&f->arena);
    mem_free(f);
}

static uint64_t mix(uint64_t h)
{
    h = (h ^ h >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ h >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    return h ^ h >> 32;
}

/* `which` list, or capacity, names the instance. */
static void name(struct kind *k, uint32_t instance, uint64_t which, double amount)
{
    uint64_t bits;

    memcpy(&bits, &amount, sizeof(bits));
    k->hash[instance] = mix(mix(k->hash[instance] + which) ^ bits);
}

static struct kind *hashed(struct fold *f, uint32_t kind)
{
    struct kind *k = &f->kinds[kind];

    if (!k->hash)
        k->hash = MEM_NEW(uint64_t, k->n);
    return k;
}

void fold_capacity(struct fold *f, uint32_t kind, uint32_t instance, double capacity)
{
    name(hashed(f, kind), instance, 0, capacity); /* lists count from 1 */
}

static struct set *find(const struct fold *f, const struct fluid_use *uses)
{
    size_t at;

    for (at = mix((uintptr_t)uses) & (f->cap - 1); f->sets[at].uses && f->sets[at].uses != uses;)
        at = (at + 1) & (f->cap - 1);
    return &f->sets[at];
}

static bool lists_any(const struct fluid_use *uses, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (uses[i].n_only)
            return true;
    return false;
}

void fold_note(struct fold *f, const struct fluid_use *uses, uint32_t n_uses)
{
    struct set *s;

    if (!lists_any(uses, n_uses))
        return;
    if (f->n_sets * 2 >= f->cap) {
        struct set *old = f->sets;
        size_t cap = f->cap;

        f->cap = cap ? 2 * cap : 256;
        f->sets = MEM_NEW(struct set, f->cap);
        for (size_t i = 0; i < cap; i++)
            if (old[i].uses)
                *find(f, old[i].uses) = old[i];
        mem_free(old);
    }
    s = find(f, uses);
    if (s->uses)
        return;
    *s = (struct set){.uses = uses, .folded = uses, .n = n_uses};
    f->n_sets++;
    for (uint32_t i = 0; i < n_uses; i++) {
        struct kind *k = hashed(f, uses[i].kind);

        k->folds |= uses[i].n_only >= FOLD_LONG;
        f->n_noted++;
        for (uint32_t j = 0; j < uses[i].n_only; j++)
            name(k, uses[i].only[j].instance, f->n_noted, uses[i].only[j].amount);
    }
}

/* Classes of equal hashes, in the order of their first instances. */
static void classify(struct kind *k)
{
    size_t cap = 256;
    uint32_t *at; /* [cap] class + 1 by hash */
    uint64_t *hash = MEM_NEW(uint64_t, k->n);

    while (cap < 2 * (size_t)k->n)
        cap *= 2;
    at = MEM_NEW(uint32_t, cap);
    k->of = MEM_NEW(uint32_t, k->n);
    k->members = MEM_NEW(uint32_t, k->n);
    k->n_classes = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        size_t h = mix(k->hash[i]) & (cap - 1);

        while (at[h] && hash[at[h] - 1] != k->hash[i])
            h = (h + 1) & (cap - 1);
        if (!at[h]) {
            hash[k->n_classes] = k->hash[i];
            at[h] = ++k->n_classes;
        }
        k->of[i] = at[h] - 1;
        k->members[at[h] - 1]++;
    }
    mem_free(at);
    mem_free(hash);
}

/* Where each class that a list names is in it: with all members, and with one amount? */
struct check {
    uint32_t *n; /* owned [most classes] */
    double *amount;
};

static bool holds(const struct kind *k, const struct fluid_use *u, struct check *c)
{
    bool good = true;

    for (uint32_t i = 0; i < u->n_only; i++) {
        uint32_t x = k->of[u->only[i].instance];

        good &= !c->n[x] || c->amount[x] == u->only[i].amount;
        c->amount[x] = u->only[i].amount;
        c->n[x]++;
    }
    for (uint32_t i = 0; i < u->n_only; i++)
        good &= c->n[k->of[u->only[i].instance]] == k->members[k->of[u->only[i].instance]];
    for (uint32_t i = 0; i < u->n_only; i++)
        c->n[k->of[u->only[i].instance]] = 0;
    return good;
}

static struct fluid_use fold_list(struct fold *f, const struct fluid_use *u, bool *seen)
{
    const struct kind *k = &f->kinds[u->kind];
    struct fluid_amount *only;
    struct fluid_use out = *u;
    uint32_t n = 0;

    if (!k->folds || !u->n_only)
        return out;
    for (uint32_t i = 0; i < u->n_only; i++) {
        n += !seen[k->of[u->only[i].instance]];
        seen[k->of[u->only[i].instance]] = true;
    }
    only = ARENA_NEW(&f->arena, struct fluid_amount, n);
    out.n_only = 0;
    for (uint32_t i = 0; i < u->n_only; i++) {
        uint32_t x = k->of[u->only[i].instance];

        if (seen[x]) /* its first instance: classes ascend as these do */
            only[out.n_only++] = (struct fluid_amount){x, u->only[i].amount};
        seen[x] = false;
    }
    out.only = only;
    return out;
}

void fold_close(struct fold *f)
{
    uint32_t most = 0;
    bool any = false, *seen;
    struct check c;

    for (uint32_t i = 0; i < f->n_kinds; i++) {
        struct kind *k = &f->kinds[i];

        most = k->n > most ? k->n : most;
        any |= k->folds;
        if (k->folds)
            classify(k);
    }
    if (!any)
        return;
    c = (struct check){MEM_NEW(uint32_t, most), MEM_NEW(double, most)};
    for (size_t s = 0; s < f->cap; s++)
        for (uint32_t i = 0; f->sets[s].uses && i < f->sets[s].n; i++) {
            struct kind *k = &f->kinds[f->sets[s].uses[i].kind];

            if (!k->folds || holds(k, &f->sets[s].uses[i], &c))
                continue;
            k->folds = false;
            k->n_classes = k->n;
        }
    seen = MEM_NEW(bool, most);
    for (size_t s = 0; s < f->cap; s++) {
        struct set *x = &f->sets[s];
        struct fluid_use *out;

        if (!x->uses)
            continue;
        out = ARENA_NEW(&f->arena, struct fluid_use, x->n);
        for (uint32_t i = 0; i < x->n; i++)
            out[i] = fold_list(f, &x->uses[i], seen);
        x->folded = out;
    }
    mem_free(seen);
    mem_free(c.n);
    mem_free(c.amount);
}

uint32_t fold_n(const struct fold *f, uint32_t kind)
{
    return f->kinds[kind].n_classes;
}

uint32_t fold_class(const struct fold *f, uint32_t kind, uint32_t instance)
{
    return f->kinds[kind].folds ? f->kinds[kind].of[instance] : instance;
}

const struct fluid_use *fold_uses(const struct fold *f, const struct fluid_use *uses)
{
    const struct set *s = f->cap ? find(f, uses) : NULL;

    return s && s->uses ? s->folded : uses;
}
