#include "cli/coll_check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Is the printed rate within rounding of `rate`, which the time knows to within the share `rel`? */
static bool same_rate(const struct nccl_number *printed, double rate, double rel)
{
    return fabs(printed->value - rate) <= printed->half + rate * (rel + 1e-6);
}

bool coll_rates_agree(enum coll_kind kind, uint32_t n_ranks, uint64_t n_bytes,
                      const struct nccl_number *time_us, const struct nccl_number *algbw,
                      const struct nccl_number *busbw, char why[COLL_CHECK_WHY])
{
    double rate = (double)n_bytes / time_us->value / 1e3, factor = call_bus_factor(kind, n_ranks);
    double rel = time_us->half / fmax(time_us->value - time_us->half, 1e-9);

    if (algbw && !same_rate(algbw, rate, rel) &&
        (factor >= 1 || !same_rate(algbw, rate * factor, rel))) {
        snprintf(why, COLL_CHECK_WHY, "algbw is %.6g GB/s, and %llu bytes in %.6g us are %.6g GB/s",
                 algbw->value, (unsigned long long)n_bytes, time_us->value, rate);
        return false;
    }
    if (busbw && !same_rate(busbw, rate * factor, rel)) {
        snprintf(why, COLL_CHECK_WHY,
                 "busbw is %.6g GB/s, and %s of %llu bytes over %u ranks in %.6g us has %.6g GB/s",
                 busbw->value, coll_kind_name(kind), (unsigned long long)n_bytes, n_ranks,
                 time_us->value, rate * factor);
        return false;
    }
    return true;
}

bool coll_count_agrees(uint32_t n_ranks, uint64_t n_bytes, uint64_t count, const char *type,
                       char why[COLL_CHECK_WHY])
{
    static const struct {
        const char *name;
        uint64_t width;
    } types[] = {{"int8", 1},     {"uint8", 1},    {"char", 1},     {"f8e4m3", 1},
                 {"f8e5m2", 1},   {"fp8_e4m3", 1}, {"fp8_e5m2", 1}, {"half", 2},
                 {"bfloat16", 2}, {"float", 4},    {"int32", 4},    {"uint32", 4},
                 {"int", 4},      {"double", 8},   {"int64", 8},    {"uint64", 8}};
    enum { N_TYPES = sizeof(types) / sizeof(types[0]) };
    uint64_t width = 0;

    for (size_t i = 0; i < N_TYPES; i++)
        if (!strcmp(type, types[i].name))
            width = types[i].width;
    for (uint64_t w = width ? width : 1; w <= (width ? width : 8); w *= 2)
        if (n_bytes == count * w || n_bytes == count * w * n_ranks)
            return true;
    snprintf(why, COLL_CHECK_WHY,
             "size is %llu bytes, and count %llu of type %.20s over %u ranks is not",
             (unsigned long long)n_bytes, (unsigned long long)count, type, n_ranks);
    return false;
}
