/* Any text as a plan file: refused with one line, or a plan that is written back as it was read and, when it is what its
 * layout makes, lowers to a program that passes its checks. */
#include "layouts/layout.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct plan *p, struct arena *a)
{
    cJSON *tree = plan_to_json(p);
    char *text = json_text(tree, false), *text2;
    struct program prog;
    struct plan again;
    struct err e;

    BUG_ON(plan_from_json(text, strlen(text), "again", a, &again, &e));
    json_free(tree);
    tree = plan_to_json(&again);
    text2 = json_text(tree, false);
    BUG_ON(strcmp(text, text2) != 0);
    json_free(tree);
    mem_free(text);
    mem_free(text2);
    if (layout_check(p, &e) || p->world > 1024)
        return;
    if (layout_lower(p, a, &prog, &e))
        BUG_ON(e.code == ERR_NONE || !*e.msg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct plan p;
    struct err e;

    arena_init(&a);
    if (plan_from_json((const char *)data, size, "fuzz", &a, &p, &e))
        BUG_ON(e.code == ERR_NONE || !*e.msg);
    else if (p.world <= 1 << 16) /* a valid plan of many ranks is slow, not wrong */
        check(&p, &a);
    arena_release(&a);
    return 0;
}
