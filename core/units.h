/* core/units.h - quantities with units, as people type and read them.
 *
 * Prefixes: decimal k M G T P E (10^3 ...) and binary Ki Mi Gi Ti Pi Ei (2^10 ...). GB is 10^9 and GiB 2^30,
 * always. In sizes a bare letter is binary, as in dd, head -c and nccl-tests: 8G is 8 GiB, 8GB is 8*10^9; in counts
 * it is decimal: 1k is 1000 and 4Mi is 4194304. Integers are parsed exactly (no double in between); 1.5GiB is
 * fine, half a byte is not. Every refusal is ERR_INVALID with one line that says what was expected.
 */
#ifndef BALLAST_CORE_UNITS_H
#define BALLAST_CORE_UNITS_H

#include "core/err.h"

#include <stdint.h>

enum units_kind {
    UNITS_BYTES,     /* 4096, 64MiB, 1.5GB, 8G */
    UNITS_COUNT,     /* 12, 1k, 4Mi, 2e6 */
    UNITS_INTEGER,   /* 12: digits only */
    UNITS_BANDWIDTH, /* 200Gb/s, 200Gbps (bits), 25GB/s (bytes); without a unit bytes/s */
    UNITS_TIME,      /* 5us, 1.5ms, 2min; without a unit seconds */
    UNITS_NUMBER,    /* 0.25, 1e-3 */
    UNITS_FLOPS,     /* 312TFLOP/s, 312TFLOPS; without a unit FLOP/s */
};

/* Below 2^63. */
int units_bytes(const char *s, uint64_t *out, struct err *e);
int units_count(const char *s, uint64_t *out, struct err *e);
int units_integer(const char *s, uint64_t *out, struct err *e);
/* Finite and >= 0. */
int units_bandwidth(const char *s, double *out_Bps, struct err *e);
int units_time(const char *s, double *out_s, struct err *e);
int units_number(const char *s, double *out, struct err *e);
int units_flops(const char *s, double *out_per_s, struct err *e);
/* Any kind, as a double (integers above 2^53 are rounded). */
int units_parse(enum units_kind kind, const char *s, double *out, struct err *e);

/* Formatting returns the text by value: printf("%s", units_show_bytes(n).s). */
struct units_text {
    char s[32];
};
struct units_text units_show_bytes(uint64_t n_bytes); /* "512 B", "64 KiB", "1.50 GiB" */
struct units_text units_show_gib(uint64_t n_bytes);   /* "79.15 GiB" */
struct units_text units_show_bandwidth(double Bps);   /* "25.0 GB/s" */
struct units_text units_show_time(double s);          /* "812 ns", "5.20 us", "12.3 ms", "1.50 s" */
struct units_text units_show_count(uint64_t n);       /* "1,234,567" */
struct units_text units_show_flops(double flops);     /* "1.23 PFLOP" */
struct units_text units_show_double(double x);        /* shortest text that reads back as x */

#endif
