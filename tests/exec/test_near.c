/* The cores near a device: by /sys as Linux writes it, by hwloc from a description of a machine that is not this one. */
#include "exec/near.h"
#include "tests/suite.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], list[256];

static void put(const char *name, const char *text)
{
    char path[512];
    FILE *f;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    for (char *p = path + strlen(dir) + 1; (p = strchr(p, '/')); p++) {
        *p = 0;
        mkdir(path, 0700);
        *p = '/';
    }
    f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void begin(void)
{
    snprintf(dir, sizeof(dir), "/tmp/ballast-near-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void end(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r %s", dir);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(linux_lists_the_cores_of_the_devices_node)
{
    begin();
    put("sys/bus/pci/devices/0000:b1:00.0/numa_node", "1\n");
    put("sys/bus/pci/devices/0000:17:00.0/numa_node", "-1\n");
    put("sys/devices/system/node/node0/cpulist", "0-7,16-23\n");
    put("sys/devices/system/node/node1/cpulist", "8-15,24-31\n");
    ck_assert(near_cpus(NULL, dir, "0000:B1:00.0", list, sizeof(list))); /* as CUDA writes it */
    ck_assert_str_eq(list, "8-15,24-31");
    ck_assert(!near_cpus(NULL, dir, "0000:17:00.0", list, sizeof(list)));
    ck_assert(!near_cpus(NULL, dir, "0000:03:00.0", list, sizeof(list)));
    ck_assert(!near_cpus("/nowhere/ballast-hwloc.so", dir, "0000:03:00.0", list, sizeof(list)));
    end();
}
END_TEST

/* Two packages of two cores, a GPU under the second, in hwloc's own format. */
#define OF(n, set, nodes)                                                                          \
    "cpuset=\"" set "\" complete_cpuset=\"" set "\" nodeset=\"" nodes                              \
    "\" complete_nodeset=\"" nodes "\" gp_index=\"" #n "\""
#define CORE(n, i, set, nodes)                                                                     \
    "<object type=\"Core\" os_index=\"" #i                                                         \
    "\" " OF(n##1, set, nodes) ">"                                                                 \
                               "<object type=\"PU\" os_index=\"" #i                                \
                               "\" " OF(n##2, set, nodes) "/></object>"
#define PACKAGE(n, i, set, nodes, inside)                                                          \
    "<object type=\"Package\" os_index=\"" #i                                                      \
    "\" " OF(n##3, set, nodes) ">"                                                                 \
                               "<object type=\"NUMANode\" os_index=\"" #i                          \
                               "\" " OF(n##4, set, nodes) "/>" inside "</object>"
static const char machine[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM \"hwloc2.dtd\">\n"
    "<topology version=\"2.0\">"
    "<object type=\"Machine\" os_index=\"0\" allowed_cpuset=\"0xf\" allowed_nodeset=\"0x3\" " OF(
        9, "0xf", "0x3") ">" PACKAGE(1, 0, "0x3", "0x1",
                                     CORE(5, 0, "0x1", "0x1") CORE(6, 1, "0x2", "0x1"))
        PACKAGE(
            2, 1, "0xc", "0x2",
            CORE(7, 2, "0x4", "0x2") CORE(
                8, 3, "0x8",
                "0x2") "<object type=\"Bridge\" gp_index=\"91\" bridge_type=\"0-1\" depth=\"0\" "
                       "bridge_pci=\"0000:[b0-b2]\">"
                       "<object type=\"PCIDev\" gp_index=\"92\" pci_busid=\"0000:b1:00.0\" "
                       "pci_type=\"0302 [10de:2330] [10de:16c1] a1\" "
                       "pci_link_speed=\"63.0\"/></object>") "</object></topology>\n";

/* Skipped, aloud, where hwloc was not found when the rest was built. */
START_TEST(hwloc_knows_the_cores_of_a_described_machine)
{
    const char *build = getenv("BUILD");
    char library[512], path[128];

    snprintf(library, sizeof(library), "%s/ballast-hwloc.so", build ? build : "build");
    if (access(library, R_OK)) {
        printf("skipped: no %s\n", library);
        return;
    }
    begin();
    put("machine.xml", machine);
    put("sys/bus/pci/devices/0000:b1:00.0/numa_node", "0\n"); /* hwloc comes first */
    put("sys/devices/system/node/node0/cpulist", "0\n");
    snprintf(path, sizeof(path), "%s/machine.xml", dir);
    setenv("HWLOC_XMLFILE", path, 1);
    ck_assert(near_cpus(library, dir, "0000:B1:00.0", list, sizeof(list)));
    ck_assert_str_eq(list, "2-3");
    ck_assert(!near_cpus(library, dir, "0000:b2:00.0", list, sizeof(list)));
    unsetenv("HWLOC_XMLFILE");
    /* a machine without the device: /sys is asked */
    setenv("HWLOC_SYNTHETIC", "pack:2 [numa] core:2 pu:1", 1);
    ck_assert(near_cpus(library, dir, "0000:b1:00.0", list, sizeof(list)));
    ck_assert_str_eq(list, "0");
    unsetenv("HWLOC_SYNTHETIC");
    end();
}
END_TEST

SUITE_MAIN("exec/near", linux_lists_the_cores_of_the_devices_node,
           hwloc_knows_the_cores_of_a_described_machine)
