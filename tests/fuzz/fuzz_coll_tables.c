/* Any text as measured tables of collectives: refused with one line, or tables that are predicted. */
#include "cli/coll_tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct coll_table *list;
    struct json_at top;
    struct arena a;
    struct json j;
    struct err e;
    size_t n;

    if (json_parse(&j, "fuzz", (const char *)data, size, &e))
        return 0;
    arena_init(&a);
    top = json_top(&j);
    if (coll_tables_read(&top, "dgx-a100", false, &a, &list, &n, &e))
        BUG_ON(e.code == ERR_NONE || !*e.msg);
    else
        for (size_t i = 0; i < n && i < 4; i++)
            if (list[i].call.n_ranks <= 4096 && coll_table_predict(&list[i], &e))
                BUG_ON(e.code == ERR_NONE);
    json_release(&j);
    arena_release(&a);
    return 0;
}
