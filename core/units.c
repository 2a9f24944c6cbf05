#include "core/units.h"
#include "core/num.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef unsigned __int128 u128;

static const char prefixes[] = "kMGTPE";

static const char *const expected[] = {
    [UNITS_BYTES] = "a size: expected bytes like 4096, 64MiB or 1.5GB",
    [UNITS_COUNT] = "a count: expected a whole number like 12, 4k or 4Mi",
    [UNITS_INTEGER] = "a whole number: expected digits like 12",
    [UNITS_BANDWIDTH] = "a bandwidth: expected 200Gb/s (bits) or 25GB/s (bytes)",
    [UNITS_TIME] = "a time: expected a number with ns, us, ms, s, min or h, like 5us",
    [UNITS_NUMBER] = "a number: expected digits like 0.25 or 1e-3",
    [UNITS_FLOPS] = "a rate of arithmetic: expected FLOP/s like 312TFLOP/s or 3.12e14",
};

static int refuse(enum units_kind kind, const char *s, const char *why, struct err *e)
{
    return err_set(e, ERR_INVALID, "'%.60s' is not %s%s", s, expected[kind], why);
}

/* A non-negative decimal: value = mant * 10^exp10. */
struct decimal {
    u128 mant;
    int exp10;
    bool inexact;     /* more than 19 significant digits */
    bool plain;       /* digits only */
    const char *rest; /* first character behind the number */
};

static bool digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool scan(const char *s, struct decimal *d)
{
    bool point = false, any = false;
    int zeros = 0; /* trailing zeros not yet folded into mant */

    memset(d, 0, sizeof(*d));
    d->plain = true;
    for (; digit(*s) || (*s == '.' && !point); s++) {
        if (*s == '.') {
            point = true;
            d->plain = false;
            continue;
        }
        any = true;
        d->exp10 -= point;
        zeros++;
        if (*s == '0')
            continue;
        for (; zeros > 0 && d->mant < (u128)1000000000000000000; zeros--)
            d->mant *= 10;
        if (zeros > 0) {
            d->inexact = true;
            zeros--; /* this digit is dropped: keep its place */
            d->exp10 += zeros + 1;
            zeros = 0;
            continue;
        }
        d->mant += (unsigned)(*s - '0');
    }
    d->exp10 += zeros;
    if (!any)
        return false;
    /* 1E3 is an exponent, 1E and 1EiB are exa */
    if ((*s == 'e' || *s == 'E') &&
        (digit(s[1]) || ((s[1] == '+' || s[1] == '-') && digit(s[2])))) {
        bool minus = s[1] == '-';
        int x = 0;

        d->plain = false;
        for (s += digit(s[1]) ? 1 : 2; digit(*s); s++)
            x = x < 100000 ? 10 * x + (*s - '0') : x;
        d->exp10 += minus ? -x : x;
    }
    d->rest = s;
    return true;
}

/* Read a prefix at *s: its factor, and *s moved behind it. A letter of bare_binary is binary also without i. */
static uint64_t prefix(const char **s, bool *binary)
{
    char c = **s == 'K' ? 'k' : **s;
    const char *p = c ? strchr(prefixes, c) : NULL;
    uint64_t f = 1;

    *binary = false;
    if (!p)
        return 1;
    *binary = (*s)[1] == 'i';
    *s += *binary ? 2 : 1;
    for (const char *q = prefixes; q <= p; q++)
        f *= *binary ? 1024 : 1000;
    return f;
}

/* mant * 10^exp10 * factor as an integer below 2^63. 0 done, 1 too big, 2 not whole. */
static int to_u64(const struct decimal *d, uint64_t factor, uint64_t *out)
{
    u128 v = d->mant; /* < 10^19, so v * factor < 2^124 */
    int x = d->exp10;

    if (v == 0) {
        *out = 0;
        return 0;
    }
    v *= factor;
    for (; x > 0; x--) {
        if (v > NUM_MAX)
            return 1;
        v *= 10;
    }
    for (; x < 0; x++) {
        if (v % 10)
            return 2;
        v /= 10;
    }
    if (v > NUM_MAX)
        return 1;
    if (d->inexact)
        return 2;
    *out = (uint64_t)v;
    return 0;
}

static int integer(enum units_kind kind, const char *s, uint64_t *out, struct err *e)
{
    struct decimal d;
    const char *p;
    uint64_t factor;
    bool binary;

    if (*s == '-')
        return refuse(kind, s, ", not negative", e);
    if (!scan(s, &d))
        return refuse(kind, s, "", e);
    if (kind == UNITS_INTEGER && !d.plain)
        return refuse(kind, s, "", e);
    p = d.rest;
    if (kind == UNITS_BYTES && *p == ' ')
        p++;
    if (kind == UNITS_INTEGER) {
        factor = 1;
    } else {
        const char *before = p;

        factor = prefix(&p, &binary);
        if (kind == UNITS_BYTES) {
            if (p != before && !binary && *p == 0) { /* a bare letter */
                factor = 1;
                for (const char *q = prefixes; *q; q++) {
                    factor *= 1024;
                    if (*q == (*before == 'K' ? 'k' : *before))
                        break;
                }
            }
            if (*p == 'b')
                return refuse(kind, s, " (b means bits)", e);
            p += *p == 'B';
        }
    }
    if (*p || (p != d.rest && p[-1] == ' '))
        return refuse(kind, s, "", e);
    switch (to_u64(&d, factor, out)) {
    case 0:
        return 0;
    case 1:
        return refuse(kind, s, ", below 2^63", e);
    default:
        return refuse(kind, s, kind == UNITS_BYTES ? ", a whole number of bytes" : ", no fraction",
                      e);
    }
}

int units_bytes(const char *s, uint64_t *out, struct err *e)
{
    return integer(UNITS_BYTES, s, out, e);
}

int units_count(const char *s, uint64_t *out, struct err *e)
{
    return integer(UNITS_COUNT, s, out, e);
}

int units_integer(const char *s, uint64_t *out, struct err *e)
{
    return integer(UNITS_INTEGER, s, out, e);
}

/* Check the grammar with scan() and take the value from strtod, which rounds correctly. */
static int real(enum units_kind kind, const char *s, double *out, const char **rest, struct err *e)
{
    struct decimal d;
    char *end;

    if (*s == '-')
        return refuse(kind, s, ", not negative", e);
    if (!scan(s, &d))
        return refuse(kind, s, "", e);
    *out = strtod(s, &end);
    if (end != d.rest) /* hexadecimal */
        return refuse(kind, s, "", e);
    if (!isfinite(*out))
        return refuse(kind, s, ", finite", e);
    *rest = d.rest;
    return 0;
}

static bool one_of(const char *s, const char *const *names)
{
    for (; *names; names++)
        if (strcmp(s, *names) == 0)
            return true;
    return false;
}

int units_bandwidth(const char *s, double *out_Bps, struct err *e)
{
    static const char *const bits[] = {"b", "b/s", "bps", "bit", "bit/s", "bits/s", NULL};
    static const char *const bytes[] = {"B", "B/s", "Bps", NULL};
    const char *p;
    uint64_t factor;
    bool binary;
    double x;

    if (real(UNITS_BANDWIDTH, s, &x, &p, e))
        return -1;
    if (*p) {
        p += *p == ' ';
        factor = prefix(&p, &binary);
        x *= (double)factor;
        if (one_of(p, bits))
            x /= 8;
        else if (!one_of(p, bytes))
            return refuse(UNITS_BANDWIDTH, s, "", e);
    }
    if (!isfinite(x))
        return refuse(UNITS_BANDWIDTH, s, ", finite", e);
    *out_Bps = x;
    return 0;
}

int units_time(const char *s, double *out_s, struct err *e)
{
    /* dividing by 10^k keeps 5us the double nearest to 5e-6; multiplying by 1e-6 would not */
    static const struct {
        const char *name;
        double mul, div;
    } unit[] = {{"", 1, 1},          {"s", 1, 1},         {"ms", 1, 1e3}, {"us", 1, 1e6},
                {"\u00b5s", 1, 1e6}, {"\u03bcs", 1, 1e6}, {"ns", 1, 1e9}, {"ps", 1, 1e12},
                {"min", 60, 1},      {"h", 3600, 1}};
    const char *p;
    double x;

    if (real(UNITS_TIME, s, &x, &p, e))
        return -1;
    if (*p == ' ' && p[1])
        p++;
    for (size_t i = 0; i < sizeof(unit) / sizeof(unit[0]); i++)
        if (strcmp(p, unit[i].name) == 0) {
            x = x * unit[i].mul / unit[i].div;
            if (!isfinite(x))
                return refuse(UNITS_TIME, s, ", finite", e);
            *out_s = x;
            return 0;
        }
    return refuse(UNITS_TIME, s, "", e);
}

int units_number(const char *s, double *out, struct err *e)
{
    const char *p;
    double x;

    if (real(UNITS_NUMBER, s, &x, &p, e))
        return -1;
    if (*p)
        return refuse(UNITS_NUMBER, s, "", e);
    *out = x;
    return 0;
}

int units_flops(const char *s, double *out_per_s, struct err *e)
{
    static const char *const names[] = {"FLOP/s", "FLOPS", "FLOPs/s", NULL};
    const char *p;
    bool binary;
    double x;

    if (real(UNITS_FLOPS, s, &x, &p, e))
        return -1;
    if (*p) {
        p += *p == ' ';
        x *= (double)prefix(&p, &binary);
        if (binary || !one_of(p, names))
            return refuse(UNITS_FLOPS, s, "", e);
    }
    if (!isfinite(x))
        return refuse(UNITS_FLOPS, s, ", finite", e);
    *out_per_s = x;
    return 0;
}

int units_parse(enum units_kind kind, const char *s, double *out, struct err *e)
{
    uint64_t n;

    switch (kind) {
    case UNITS_BANDWIDTH:
        return units_bandwidth(s, out, e);
    case UNITS_TIME:
        return units_time(s, out, e);
    case UNITS_NUMBER:
        return units_number(s, out, e);
    case UNITS_FLOPS:
        return units_flops(s, out, e);
    case UNITS_BYTES:
    case UNITS_COUNT:
    case UNITS_INTEGER:
        break;
    }
    if (integer(kind, s, &n, e))
        return -1;
    *out = (double)n;
    return 0;
}

/* x with three significant digits and one of the units, each `step` times the one before. */
static struct units_text scaled(double x, double step, const char *const *unit, size_t n)
{
    struct units_text t;
    double a = fabs(x);
    size_t i = 0;

    for (; i + 1 < n && a >= step * 0.9995; i++) {
        a /= step;
        x /= step;
    }
    snprintf(t.s, sizeof(t.s),
             a < 9.995   ? "%.2f %s"
             : a < 99.95 ? "%.1f %s"
                         : "%.0f %s",
             x, unit[i]);
    return t;
}

struct units_text units_show_bytes(uint64_t n_bytes)
{
    static const char *const unit[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    struct units_text t;
    uint64_t n = n_bytes;
    size_t i = 0;

    while (n && n % 1024 == 0 && i < 6) {
        n /= 1024;
        i++;
    }
    if (n < 1024) { /* whole: no decimals */
        snprintf(t.s, sizeof(t.s), "%llu %s", (unsigned long long)n, unit[i]);
        return t;
    }
    return scaled((double)n_bytes, 1024, unit, 7);
}

struct units_text units_show_gib(uint64_t n_bytes)
{
    struct units_text t;

    snprintf(t.s, sizeof(t.s), "%.2f GiB", (double)n_bytes / 0x1p30);
    return t;
}

struct units_text units_show_bandwidth(double Bps)
{
    static const char *const unit[] = {"B/s", "kB/s", "MB/s", "GB/s", "TB/s", "PB/s"};

    return scaled(Bps, 1000, unit, 6);
}

struct units_text units_show_time(double s)
{
    static const char *const unit[] = {"ps", "ns", "us", "ms", "s"};
    struct units_text t;

    if (s != 0)
        return scaled(s * 1e12, 1000, unit, 5);
    snprintf(t.s, sizeof(t.s), "0 s");
    return t;
}

struct units_text units_show_count(uint64_t n)
{
    struct units_text t;
    char digits[24];
    int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n), k = 0;

    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            t.s[k++] = ',';
        t.s[k++] = digits[i];
    }
    t.s[k] = 0;
    return t;
}

struct units_text units_show_flops(double flops)
{
    static const char *const unit[] = {"FLOP",  "kFLOP", "MFLOP", "GFLOP",
                                       "TFLOP", "PFLOP", "EFLOP", "ZFLOP"};

    return scaled(flops, 1000, unit, 8);
}

struct units_text units_show_double(double x)
{
    struct units_text t;

    for (int digits = 15; digits <= 17; digits++) {
        snprintf(t.s, sizeof(t.s), "%.*g", digits, x == 0 ? 0.0 : x);
        if (strtod(t.s, NULL) == x)
            break;
    }
    return t;
}
