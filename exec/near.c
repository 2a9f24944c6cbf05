#define _GNU_SOURCE /* sched_setaffinity */
#include "exec/near.h"

#include <ctype.h>
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A line of a file, without its end; false when there is none. */
static bool read_line(const char *path, char *line, size_t n)
{
    FILE *f = fopen(path, "r");
    bool got = f && fgets(line, (int)n, f);

    if (f)
        fclose(f);
    if (got)
        line[strcspn(line, "\n")] = 0;
    return got;
}

/* The device's NUMA node (-1: Linux does not know), then the node's cores. */
static bool by_sys(const char *root, const char *bus_id, char *list, size_t n)
{
    char path[4096], node[16];

    snprintf(path, sizeof(path), "%s/sys/bus/pci/devices/%s/numa_node", root, bus_id);
    if (!read_line(path, node, sizeof(node)) || !isdigit((unsigned char)*node))
        return false;
    snprintf(path, sizeof(path), "%s/sys/devices/system/node/node%s/cpulist", root, node);
    return read_line(path, list, n) && *list;
}

static bool by_hwloc(const char *library, const char *bus_id, char *list, size_t n)
{
    void *h = library ? dlopen(library, RTLD_NOW) : NULL;
    const struct near_library *lib = h ? dlsym(h, "near_library") : NULL;
    bool got = lib && lib->cpus(bus_id, list, n);

    if (h)
        dlclose(h);
    return got;
}

bool near_cpus(const char *library, const char *root, const char *bus_id, char *list, size_t n)
{
    char lower[64];

    snprintf(lower, sizeof(lower), "%s", bus_id);
    for (char *p = lower; *p; p++)
        *p = (char)tolower((unsigned char)*p);
    return by_hwloc(library, lower, list, n) || by_sys(root, lower, list, n);
}

/* "0-3,8,10-11" */
static int parse(const char *list, cpu_set_t *set)
{
    char *end;

    CPU_ZERO(set);
    for (const char *p = list; *p; p = *end == ',' ? end + 1 : end) {
        long first = strtol(p, &end, 10), last = first;

        if (end == p)
            break;
        if (*end == '-')
            last = strtol(end + 1, &end, 10);
        for (long k = first; k <= last && k >= 0 && k < CPU_SETSIZE; k++)
            CPU_SET((size_t)k, set);
        if (*end != ',')
            break;
    }
    return CPU_COUNT(set);
}

void near_bind(const char *library, const char *bus_id)
{
    cpu_set_t now, near, both;
    char list[4096];

    if (sched_getaffinity(0, sizeof(now), &now) ||
        CPU_COUNT(&now) < sysconf(_SC_NPROCESSORS_ONLN) ||
        !near_cpus(library, "", bus_id, list, sizeof(list)) || !parse(list, &near))
        return;
    CPU_AND(&both, &now, &near);
    if (CPU_COUNT(&both))
        sched_setaffinity(0, sizeof(both), &both);
}
