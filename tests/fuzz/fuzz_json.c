/* Any bytes: refused with one line, or accepted; and what was accepted prints to JSON that is accepted and prints to
 * the same bytes. */
#include "core/json.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void round_trip(const cJSON *tree, bool pretty)
{
    char *text = json_text(tree, pretty), *again;
    struct json j;
    struct err e;

    BUG_ON(json_parse(&j, "printed", text, strlen(text), &e));
    again = json_text(j.root, pretty);
    BUG_ON(strcmp(text, again) != 0);
    mem_free(text);
    mem_free(again);
    json_release(&j);
}

/* Documents of other programs: whatever is JSON is read alike, and more only for Infinity and
 * NaN. */
static void foreign(const uint8_t *data, size_t size, bool is_json)
{
    struct json j;
    struct err e;

    if (json_parse_foreign(&j, "fuzz", (const char *)data, size, &e)) {
        BUG_ON(is_json || e.code != ERR_PARSE || !*e.msg || strchr(e.msg, '\n'));
        return;
    }
    BUG_ON(is_json == j.nonfinite);
    json_release(&j);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct json j;
    struct err e;

    if (json_parse(&j, "fuzz", (const char *)data, size, &e)) {
        BUG_ON(e.code != ERR_PARSE || !*e.msg || strchr(e.msg, '\n'));
        foreign(data, size, false);
        return 0;
    }
    foreign(data, size, true);
    round_trip(j.root, true);
    round_trip(j.root, false);
    json_release(&j);
    return 0;
}
