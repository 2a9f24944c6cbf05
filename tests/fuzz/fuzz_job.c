/* Any text as a job file: refused with one line, or options within their ranges. */
#include "cli/setup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json_at top;
    struct opts o;
    struct json j;
    struct err e;

    opts_init(&o);
    job_options_add(&o);
    if (json_parse(&j, "fuzz", (const char *)data, size, &e)) {
        BUG_ON(e.code == ERR_NONE || !*e.msg);
    } else {
        top = json_top(&j);
        if (opts_apply_json(&o, &top, &e))
            BUG_ON(e.code == ERR_NONE || !*e.msg);
        else
            BUG_ON(opts_get(&o, "seq-len")->u64 == 0 || opts_get(&o, "grad-accum")->u64 > 4096);
        json_release(&j);
    }
    opts_release(&o);
    return 0;
}
