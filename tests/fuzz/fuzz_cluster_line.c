/* Any text behind a base's name: refused with one line, or a cluster that reads back. */
#include "model/cluster/cluster.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Files are another target's. No bundled name has a point or a slash. */
static bool names_file(const char *what)
{
    const char *network = strstr(what, "network=");

    return strstr(what, "node=") || (network && strcspn(network, "./") < strcspn(network, ","));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const bases[] = {"hgx-a100:", "gb200-nvl72:", "aws-p4d:"};
    struct cluster c;
    struct arena a;
    struct err e;
    char *what;

    if (size < 1 || memchr(data, 0, size) || memchr(data, '\n', size))
        return 0;
    arena_init(&a);
    what = arena_printf(&a, "%s%.*s", bases[data[0] % 3], (int)size - 1, (const char *)data + 1);
    if (!names_file(what)) {
        if (cluster_from_line(what, &a, &c, &e))
            BUG_ON(e.code == ERR_NONE || !*e.msg || strchr(e.msg, '\n'));
        else
            BUG_ON(cluster_recheck(&c, "again", &a, &e));
    }
    arena_release(&a);
    return 0;
}
