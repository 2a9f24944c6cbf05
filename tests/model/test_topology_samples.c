/* The published topology files of clouds, where ../shared has them: what each says, and that its cluster agrees. */
#include "model/topology.h"
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
    /* one NVLink bridge entry a GPU, which ends at the GPU itself */
    {"azure-ncv4-topo.xml", "hgx-a100:gpus=4", 4, 1, 1, 100, 4, false},
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

int main(void)
{
    const TTest *const tests[] = {published_files_are_read_as_what_they_are};
    const char *shared = getenv("BALLAST_SHARED");
    char path[1200];

    snprintf(folder, sizeof(folder), "%s", shared ? shared : "../shared");
    if (!path_of(samples[0].file, path, sizeof(path))) {
        printf("no topologies/%s in BALLAST_SHARED or ../shared\n", samples[0].file);
        return 77;
    }
    return suite_run("model/topology_samples", tests, 1);
}
