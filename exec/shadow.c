#include "exec/shadow.h"

#include "core/mem.h"
#include "kernels/operands.h"

#include <math.h>
#include <string.h>

struct shadow {
    struct backend_library lib; /* first: b->lib points here */
    const struct backend_library *inner;
    struct backend *b;
    struct shadow_row *rows; /* owned */
    size_t n_rows, cap_rows;
};

static struct shadow *shadow_of(struct backend *b)
{
    return (struct shadow *)(uintptr_t)b->lib;
}

static double last_place(enum dtype d)
{
    return d == DTYPE_FP32 ? 0x1p-23 : d == DTYPE_FP16 ? 0x1p-10 : 0x1p-7;
}

/* Sums of thousands of terms in another order, and what is between two kernels in the type. Newton-Schulz steepens a rounding of
 * its first step (3.4445 a step at 0); the preconditioners take roots of eigenvalues that are nearly nothing. */
static double allowed(const char *name, enum dtype d)
{
    double share = d == DTYPE_FP32 ? 2e-4 : d == DTYPE_FP16 ? 4e-3 : 1.6e-2;

    if (!strcmp(
            name,
            "soap")) /* eigenvectors of equal eigenvalues are anybody's choice: told, not judged */
        return INFINITY;
    if (!strcmp(name, "orthogonalize"))
        return 4 * share;
    return !strcmp(name, "shampoo") ? fmax(2e-2, share) : share;
}

static struct shadow_row *row(struct shadow *s, const char *name, enum dtype d)
{
    for (size_t i = 0; i < s->n_rows; i++)
        if (!strcmp(s->rows[i].name, name) && s->rows[i].type == d)
            return &s->rows[i];
    s->rows = mem_grow(s->rows, &s->cap_rows, s->n_rows + 1, sizeof(*s->rows));
    s->rows[s->n_rows] = (struct shadow_row){.name = name, .type = d, .allowed = allowed(name, d)};
    return &s->rows[s->n_rows++];
}

/* got and want: n numbers; before: what was there, or NULL when all of it was to be written. */
static void compare(struct shadow_row *r, const double *got, const double *want,
                    const double *before, size_t n)
{
    double largest = 0, worst = 0;

    for (size_t i = 0; i < n; i++) {
        double change = before ? want[i] - before[i] : want[i];
        double off = fabs(got[i] - want[i]);

        if (isnan(want[i]) && isnan(got[i]))
            continue;
        if (isnan(off) || isinf(off)) {
            if (got[i] < want[i] || got[i] > want[i] || isnan(off))
                r->wrong = true;
            continue;
        }
        largest = fmax(largest, fabs(change));
        worst = fmax(worst, off - fabs(want[i]) * last_place(r->type));
    }
    r->elements += n;
    worst = largest > 0 ? worst / largest : worst > 0 ? INFINITY : 0;
    r->worst = fmax(r->worst, worst);
    r->wrong |= worst > r->allowed;
}

static double *numbers(const struct kernel_operand *o, const void *p, size_t *n)
{
    const struct kernel_choice *c = p;
    double *x;
    float *f;

    *n = o->content == CONTENT_DOUBLE    ? o->bytes / sizeof(double)
         : o->content == CONTENT_CHOICES ? o->bytes / sizeof(*c)
                                         : o->bytes / dtype_bytes(o->type, 1);
    x = MEM_NEW(double, *n);
    if (o->content == CONTENT_DOUBLE) {
        memcpy(x, p, o->bytes);
        return x;
    }
    if (o->content == CONTENT_CHOICES) {
        for (size_t i = 0; i < *n; i++)
            x[i] = (double)c[i].weight;
        return x;
    }
    f = MEM_NEW(float, *n);
    dtype_load(o->type, p, f, *n);
    for (size_t i = 0; i < *n; i++)
        x[i] = (double)f[i];
    mem_free(f);
    return x;
}

static bool same_slots(const struct kernel_operand *o, const void *got, const void *want)
{
    const struct kernel_choice *a = got, *b = want;

    for (size_t i = 0; i < o->bytes / sizeof(*a); i++)
        if (a[i].slot != b[i].slot)
            return false;
    return true;
}

/* ---- kernels ---- */

/* Memory that operands of one call share: q, k and v may be parts of one buffer, a sum may lie on one of its terms. */
struct region {
    struct kernel_operand
        o; /* p and bytes: of all of it; the rest: of the last operand that is written, else the first */
    char *before, *want; /* on the host; owned */
};
struct seen {
    struct kernel_operand o[KERNEL_MAX_OPERANDS];
    struct region region[KERNEL_MAX_OPERANDS];
    unsigned in[KERNEL_MAX_OPERANDS]; /* the operand's region */
    unsigned n, n_regions;
};

static bool meet(const struct kernel_operand *x, const struct kernel_operand *y)
{
    const char *a = x->p, *b = y->p;

    return a < b + y->bytes && b < a + x->bytes;
}

static void widen_region(struct kernel_operand *to, const struct kernel_operand *o)
{
    const char *a = to->p, *b = o->p;
    const char *end = a + to->bytes > b + o->bytes ? a + to->bytes : b + o->bytes;
    struct kernel_operand x = o->access == ACCESS_IN ? *to : *o;

    /* of several that are written none is known to fill all of it */
    if (to->access != ACCESS_IN || o->access != ACCESS_IN)
        x.access = ACCESS_CHANGE;
    x.p = a < b ? a : b;
    x.bytes = (uint64_t)(end - (const char *)x.p);
    *to = x;
}

static void find_regions(struct seen *x)
{
    for (unsigned i = 0; i < x->n; i++) {
        unsigned k = 0;

        while (k < x->n_regions && !meet(&x->region[k].o, &x->o[i]))
            k++;
        if (k == x->n_regions)
            x->region[x->n_regions++].o = x->o[i];
        else
            widen_region(&x->region[k].o, &x->o[i]);
    }
    for (unsigned i = 0; i < x->n; i++)
        for (unsigned k = 0; k < x->n_regions; k++)
            if (meet(&x->region[k].o, &x->o[i]))
                x->in[i] = k;
}

static void look(struct shadow *s, enum stream st, struct seen *x)
{
    find_regions(x);
    for (unsigned i = 0; i < x->n_regions; i++) {
        struct region *r = &x->region[i];

        r->before = mem_alloc(1, r->o.bytes);
        r->want = mem_alloc(1, r->o.bytes);
        s->inner->download(s->b, st, r->before, r->o.p, r->o.bytes);
        memcpy(r->want, r->before, r->o.bytes);
    }
}

static void poison(struct shadow *s, enum stream st, const struct kernel_operand *o)
{
    char *bad = mem_alloc(1, o->bytes);

    memset(bad, 0xff, o->bytes); /* not a number in every type */
    s->inner->upload(s->b, st, (void *)(uintptr_t)o->p, bad, o->bytes);
    mem_free(bad);
}

static void judge(struct shadow *s, enum stream st, const char *name, const struct region *x)
{
    const struct kernel_operand *o = &x->o;
    struct shadow_row *r = row(s, name, o->type);
    char *got = mem_alloc(1, o->bytes);
    double *g, *w, *b;
    size_t n;

    s->inner->download(s->b, st, got, o->p, o->bytes);
    if (o->content == CONTENT_WORDS) {
        r->wrong |= memcmp(got, x->want, o->bytes) != 0;
    } else if (o->content == CONTENT_CHOICES) {
        r->wrong |= !same_slots(o, got, x->want);
    } else {
        g = numbers(o, got, &n);
        w = numbers(o, x->want, &n);
        b = o->access == ACCESS_FILL ? NULL : numbers(o, x->before, &n);
        compare(r, g, w, b, n);
        mem_free(g);
        mem_free(w);
        mem_free(b);
    }
    mem_free(got);
}

/* The arguments with the host's copies in the operands' places. */
static void *on_host(const struct seen *x, const void *a, size_t size)
{
    char *host = memcpy(mem_alloc(1, size), a, size);

    for (unsigned i = 0; i < x->n; i++) {
        const struct region *r = &x->region[x->in[i]];
        const char *p = r->want + ((const char *)x->o[i].p - (const char *)r->o.p);

        memcpy(host + x->o[i].at, &p, sizeof(p));
    }
    return host;
}

static void shadow_launch(struct backend *b, enum stream st, enum kernel_function f,
                          const struct kernel_on *on, const void *a)
{
    struct shadow *s = shadow_of(b);
    const char *name = kernel_function_name(f);
    struct kernel_on here = *on;
    struct seen x = {.n = 0};
    bool counted = false;
    void *host;

    x.n = kernel_operands(f, on, a, x.o);
    look(s, st, &x);
    host = on_host(&x, a, kernel_arguments_bytes(f));
    here.gemm = &kernel_gemm_reference;
    here.workspace = mem_alloc(1, on->workspace_bytes);
    kernel_call(f, &here, host);
    for (unsigned i = 0; i < x.n_regions; i++)
        if (x.region[i].o.access == ACCESS_FILL)
            poison(s, st, &x.region[i].o);
    s->inner->launch(b, st, f, on, a);
    for (unsigned i = 0; i < x.n_regions; i++) {
        if (x.region[i].o.access != ACCESS_IN && !b->failed) {
            judge(s, st, name, &x.region[i]);
            row(s, name, x.region[i].o.type)->calls += !counted;
            counted = true;
        }
        mem_free(x.region[i].before);
        mem_free(x.region[i].want);
    }
    mem_free(here.workspace);
    mem_free(host);
}

/* ---- products ---- */

static float *fetch(struct shadow *s, enum stream st, enum dtype d, const void *p, size_t n)
{
    void *raw = mem_alloc(1, dtype_bytes(d, n));
    float *f = MEM_NEW(float, n);

    s->inner->download(s->b, st, raw, p, dtype_bytes(d, n));
    dtype_load(d, raw, f, n);
    mem_free(raw);
    return f;
}

static size_t extent(uint64_t rows, uint64_t cols, uint64_t ld)
{
    return rows ? (rows - 1) * ld + cols : 0;
}

static double *widened(const float *f, size_t n)
{
    double *x = MEM_NEW(double, n);

    for (size_t i = 0; i < n; i++)
        x[i] = (double)f[i];
    return x;
}

static void shadow_gemm(struct backend *b, enum stream st, const struct backend_gemm *g)
{
    struct shadow *s = shadow_of(b);
    size_t na = extent(g->ta ? g->k : g->m, g->ta ? g->m : g->k, g->lda);
    size_t nb = extent(g->tb ? g->n : g->k, g->tb ? g->k : g->n, g->ldb);
    size_t nc = extent(g->m, g->n, g->ldc);
    float *x = fetch(s, st, g->a_type, g->a, na), *y = fetch(s, st, g->b_type, g->b, nb),
          *z = fetch(s, st, g->c_type, g->c, nc), *got;
    double *before = widened(z, nc), *want, *have;
    bool fills = !(g->beta > 0 || g->beta < 0) && g->ldc == g->n;
    struct shadow_row *r;

    kernel_gemm_reference.fn(NULL, g->ta, g->tb, g->m, g->n, g->k, g->alpha, x, g->lda, y, g->ldb,
                             g->beta, z, g->ldc);
    if (fills) {
        const struct kernel_operand o = {.p = g->c, .bytes = dtype_bytes(g->c_type, nc)};

        poison(s, st, &o);
    }
    s->inner->gemm(b, st, g);
    if (!b->failed && nc) {
        got = fetch(s, st, g->c_type, g->c, nc);
        want = widened(z, nc);
        have = widened(got, nc);
        r = row(s, "product", g->c_type);
        r->calls++;
        compare(r, have, want, fills ? NULL : before, nc);
        mem_free(got);
        mem_free(want);
        mem_free(have);
    }
    mem_free(before);
    mem_free(x);
    mem_free(y);
    mem_free(z);
}

/* ---- start and end ---- */

struct shadow *shadow_begin(struct backend *b)
{
    struct shadow *s = MEM_NEW(struct shadow, 1);

    s->inner = b->lib;
    s->b = b;
    s->lib = *b->lib;
    s->lib.launch = shadow_launch;
    s->lib.gemm = shadow_gemm;
    b->lib = &s->lib;
    return s;
}

const struct shadow_row *shadow_rows(const struct shadow *s, size_t *n)
{
    *n = s->n_rows;
    return s->rows;
}

void shadow_end(struct shadow *s)
{
    s->b->lib = s->inner;
    mem_free(s->rows);
    mem_free(s);
}
