/* The published topology files of clouds, where ../shared has them: what each says, and that its cluster agrees. */
#include "model/cluster/topology.h"
#include "tests/suite.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const struct {
    const char *file, *base; /* NULL: its own GPUs say it */
    uint32_t gpus, nics;     /* of the file */
    uint32_t cluster_nics;
    double nic_Gbps;
    uint32_t warnings;
    bool as_base; /* the bundled cluster has the same GPUs, NICs and switches */
} samples[] = {
    {"aws-p4d-24xl-topo.xml", "aws-p4d", 8, 4, 4, 100, 0, true},
    {"azure-ndv4-topo.xml", "nd-a100-v4", 8, 8, 8, 200, 0, true},
    {"oci-topo-flattened-b4.xml", "oci-a100", 8, 8, 8, 200, 0, true},
    {"nebius-nccl-topo-h100-v1.xml", NULL, 8, 8, 8, 400, 0, false},
    /* eight bridges of 5 GT/s above devices of 32; cards of two ports */
    {"oci-H100-topology.xml", NULL, 8, 8, 8, 360, 8, false},
    {"dgx-a100-nvidia-smi-topo-m.txt", "dgx-a100", 8, 12, 8, 200, 0, true},
    /* one NVLink bridge entry a GPU, which ends at the GPU itself: pairs, as such cards have */
    {"azure-ncv4-topo.xml", NULL, 4, 1, 1, 100, 4, false},
};

static char folder[1000];

static const char *path_of(const char *file, char *out, size_t size)
{
    struct stat st;

    snprintf(out, size, "%s/topologies/%s", folder, file);
    return stat(out, &st) ? NULL : out;
}

static uint32_t warnings(const struct topology *t, struct arena *a)
{
    struct topology_finding *f;
    uint32_t n = 0;

    for (size_t i = 0, all = topology_check(t, a, &f); i < all; i++)
        n += f[i].warning;
    return n;
}

START_TEST(published_files_are_read_as_what_they_are)
{
    struct cluster base, c;
    struct topology t;
    struct arena a;
    struct err e;
    char path[1200];

    arena_init(&a);
    for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
        if (!path_of(samples[i].file, path, sizeof(path)))
            continue;
        MUST(!topology_load(path, &a, &t, &e), "%s", e.msg);
        ck_assert_uint_eq(t.n_gpus, samples[i].gpus);
        ck_assert_uint_eq(t.n_nics, samples[i].nics);
        MUST(warnings(&t, &a) == samples[i].warnings, "%s: %u warnings", path, warnings(&t, &a));
        if (samples[i].base)
            MUST(!cluster_load(samples[i].base, &a, &base, &e), "%s", e.msg);
        MUST(!topology_to_cluster(&t, samples[i].base ? &base : NULL, &a, &c, &e), "%s", e.msg);
        ck_assert_uint_eq(c.nics_per_node, samples[i].cluster_nics);
        ck_assert_double_eq_tol(c.nic_Bps * 8 / 1e9, samples[i].nic_Gbps, 1e-9);
        /* GPU and NIC meet below the slow bridge: 32 GT/s x16 all the way, 63 GB/s */
        ck_assert(samples[i].warnings != 8 || c.pcie_Bps > 62e9);
        /* bridges of PCIe cards join two of them; NVSwitch joins all */
        ck_assert_uint_eq(cluster_nvlink_gpus(&c), samples[i].gpus == 4 ? 2 : 8);
        if (samples[i].as_base) {
            ck_assert_uint_eq(c.pcie_switches, base.pcie_switches);
            ck_assert(c.nvlink_Bps == base.nvlink_Bps && c.nvswitch == base.nvswitch);
            ck_assert(!memcmp(c.nic_of_gpu, base.nic_of_gpu, sizeof(c.nic_of_gpu)));
            ck_assert(!memcmp(c.switch_of_gpu, base.switch_of_gpu, sizeof(c.switch_of_gpu)));
            ck_assert(!memcmp(c.switch_of_nic, base.switch_of_nic, sizeof(c.switch_of_nic)));
        }
    }
    arena_release(&a);
}
END_TEST

/* What names too little to be a cluster: described and checked, and refused with what to give. */
START_TEST(the_others_are_described_and_say_what_is_missing)
{
    static const struct {
        const char *file;
        uint32_t gpus, nics, warnings;
        const char *missing;
    } rows[] = {
        /* V100s, by PCI devices without device ids */
        {"azure-ndv2-topo.xml", 8, 1, 0, "nothing says which GPUs these are"},
        /* devices without class: NCCL asks the machine; no GPUs and no NICs are named */
        {"aws-p5.48xl-topo.xml", 0, 0, 2, "names no GPUs"},
        {"dgx-a100-nvidia-smi-topo-m.txt", 8, 12, 0, "nothing says which GPUs these are"},
    };
    struct topology t;
    struct cluster c;
    struct arena a;
    struct err e;
    char path[1200];

    arena_init(&a);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (!path_of(rows[i].file, path, sizeof(path)))
            continue;
        MUST(!topology_load(path, &a, &t, &e), "%s", e.msg);
        ck_assert_uint_eq(t.n_gpus, rows[i].gpus);
        ck_assert_uint_eq(t.n_nics, rows[i].nics);
        ck_assert_uint_eq(t.n_hosts, 1);
        MUST(warnings(&t, &a) == rows[i].warnings, "%s: %u warnings", path, warnings(&t, &a));
        ck_assert_int_eq(topology_to_cluster(&t, NULL, &a, &c, &e), -1);
        MUST(strstr(e.msg, rows[i].missing), "%s", e.msg);
    }
    if (path_of("azure-ncv4-graph.xml", path, sizeof(path))) {
        ck_assert_int_eq(topology_load(path, &a, &t, &e), -1);
        MUST(strstr(e.msg, "is a graph file of NCCL"), "%s", e.msg);
    }
    arena_release(&a);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {published_files_are_read_as_what_they_are,
                                  the_others_are_described_and_say_what_is_missing};
    const char *shared = getenv("BALLAST_SHARED");
    char path[1200];

    snprintf(folder, sizeof(folder), "%s", shared ? shared : "../shared");
    if (!path_of(samples[0].file, path, sizeof(path))) {
        printf("no topologies/%s in BALLAST_SHARED or ../shared\n", samples[0].file);
        return 77;
    }
    return suite_run("model/topology_samples", tests, 2);
}
