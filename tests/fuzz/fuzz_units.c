/* Any text through every parser of quantities: refused with one line, or a value within the promise. */
#include "core/mem.h"
#include "core/num.h"
#include "core/units.h"

#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *s = mem_alloc(size + 1, 1);
    struct err e;
    uint64_t n, again;
    double x;

    if (size)
        memcpy(s, data, size);
    for (int kind = UNITS_BYTES; kind <= UNITS_FLOPS; kind++) {
        if (units_parse((enum units_kind)kind, s, &x, &e))
            BUG_ON(e.code != ERR_INVALID || strchr(e.msg, '\n'));
        else
            BUG_ON(!isfinite(x) || x < 0);
    }
    if (units_bytes(s, &n, &e) == 0)
        BUG_ON(n > NUM_MAX || !*units_show_bytes(n).s);
    if (units_integer(s, &n, &e) == 0) { /* digits mean the same everywhere */
        BUG_ON(units_count(s, &again, &e) || again != n);
        BUG_ON(units_bytes(s, &again, &e) || again != n);
    }
    mem_free(s);
    return 0;
}
