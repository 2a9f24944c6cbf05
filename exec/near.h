/* exec/near.h - the cores that are near a device: the host's side of a rank that drives it stays on them.
 *
 * hwloc knows them where build/ballast-hwloc.so could be built and loads; else Linux does, in /sys, as the NUMA node of the
 * PCI device. The programs link neither.
 */
#ifndef BALLAST_EXEC_NEAR_H
#define BALLAST_EXEC_NEAR_H

#include <stdbool.h>
#include <stddef.h>

/* What build/ballast-hwloc.so exports as `const struct near_library near_library`. */
struct near_library {
    bool (*cpus)(const char *bus_id, char *list, size_t n);
};

/* The cores near the PCI device `bus_id` ("0000:17:00.0", in either case), as "0-3,8". `library`: the path of
 * ballast-hwloc.so, which may not be there; `root`: before /sys, "" but in tests. False: nobody knows. */
bool near_cpus(const char *library, const char *root, const char *bus_id, char *list, size_t n);
/* Binds this process to them, unless the launcher has bound it already, or nobody knows. */
void near_bind(const char *library, const char *bus_id);

#endif
