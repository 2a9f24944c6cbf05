/* Any text as a file of flow scenarios: refused with one line, or scenarios that run. */
#include "sim/flows.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t end_ps[200];
    struct flows_file f;
    struct arena a;
    struct err e;

    arena_init(&a);
    if (flows_parse_json("fuzz", (const char *)data, size, &a, &f, &e))
        BUG_ON(e.code == ERR_NONE || !*e.msg);
    else
        for (uint32_t i = 0; i < f.n_scenarios && i < 4; i++)
            if (f.scenarios[i].n_flows < 200 && flows_run(&f.scenarios[i], end_ps, &e))
                BUG_ON(e.code == ERR_NONE);
    arena_release(&a);
    return 0;
}
