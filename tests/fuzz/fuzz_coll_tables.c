/* Any text as measured tables of collectives, JSON or what nccl-tests prints: refused with one line, or tables that are predicted. */
#include "cli/coll_tables.h"
#include "cli/nccl_text.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct coll_table *list;
    struct strbuf table;
    char *text;
    int status;
    struct json_at top;
    struct arena a;
    struct json j;
    struct err e;
    size_t n;

    text = mem_alloc(size + 1, 1);
    memcpy(text, data, size);
    strbuf_init(&table);
    if (nccl_text_here(text, size)) { /* up to a NUL, which coll_file_load() refuses */
        status = nccl_text_to_json("all_reduce", text, NULL, &table, &e) ||
                 json_parse(&j, "fuzz", table.s, table.len, &e);
    } else {
        status = json_parse(&j, "fuzz", text, size, &e);
    }
    BUG_ON(status && (e.code == ERR_NONE || !*e.msg));
    strbuf_release(&table);
    mem_free(text);
    if (status)
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
