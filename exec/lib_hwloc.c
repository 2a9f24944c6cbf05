/* exec/lib_hwloc.c - build/ballast-hwloc.so: the cores near a PCI device by hwloc, which knows of sockets, NUMA nodes and
 * what hangs where, on systems that /sys says less of. HWLOC_XMLFILE and HWLOC_SYNTHETIC are its own. */
#include "exec/near.h"

#include <hwloc.h>

static bool cpus(const char *bus_id, char *list, size_t n)
{
    hwloc_topology_t t;
    hwloc_obj_t o = NULL;

    if (hwloc_topology_init(&t))
        return false;
    if (!hwloc_topology_set_io_types_filter(t, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) &&
        !hwloc_topology_load(t))
        o = hwloc_get_pcidev_by_busidstring(t, bus_id);
    if (o)
        o = hwloc_get_non_io_ancestor_obj(t, o);
    if (o)
        hwloc_bitmap_list_snprintf(list, n, o->cpuset);
    hwloc_topology_destroy(t);
    return o && *list;
}

extern const struct near_library near_library;
const struct near_library near_library = {cpus};
