/* Which GPUs NVLink joins: matrices by hand, as nvidia-smi topo -m prints them, and NCCL's XML. */
#include "model/cluster/topology.h"
#include "tests/suite.h"

#include <string.h>

static struct arena arena;
static struct topology t;
static struct cluster cl, base;
static struct err err;

static void setup(void)
{
    arena_init(&arena);
}

static void done(void)
{
    arena_release(&arena);
}

/* rows: what stands between GPU i and GPU j < i, row by row: "" "NV1" "SYS NV2" ... */
static const char *matrix(uint32_t n, const char *const (*rows)[16])
{
    const char *text = "";

    for (uint32_t i = 0; i < n; i++)
        text = arena_printf(&arena, "%s GPU%u", text, i);
    for (uint32_t i = 0; i < n; i++) {
        text = arena_printf(&arena, "%s\nGPU%u", text, i);
        for (uint32_t j = 0; j < n; j++)
            text = arena_printf(&arena, "%s %s", text,
                                i == j  ? "X"
                                : i > j ? rows[i][j]
                                        : rows[j][i]);
    }
    return arena_printf(&arena, "%s\n", text);
}

static void parse(const char *text)
{
    if (topology_parse(text, strlen(text), "t", &arena, &t, &err))
        ck_abort_msg("%s", err.msg);
}

static int convert(const char *text, const char *name)
{
    parse(text);
    if (cluster_load(name, &arena, &base, &err))
        ck_abort_msg("%s", err.msg);
    return topology_to_cluster(&t, &base, &arena, &cl, &err);
}

static void converts(const char *text, const char *name)
{
    if (convert(text, name))
        ck_abort_msg("%s", err.msg);
}

static void refused(const char *text, const char *name, const char *words)
{
    ck_assert_int_eq(convert(text, name), -1);
    ck_assert_msg(strstr(err.msg, words) && !strchr(err.msg, '\n'), "%s\nexpected: %s", err.msg,
                  words);
}

/* GPU i of 8 is bridged with partner[i]; sockets of four by place[i] / 4. */
static const char *bridged(const uint32_t *pair, const uint32_t *place)
{
    const char *rows[16][16];

    for (uint32_t i = 0; i < 8; i++)
        for (uint32_t j = 0; j < i; j++)
            rows[i][j] = pair && pair[i] == pair[j]     ? "NV12"
                         : place[i] / 4 == place[j] / 4 ? "NODE"
                                                        : "SYS";
    return matrix(8, (const char *const(*)[16])rows);
}

static const uint32_t in_order[] = {0, 1, 2, 3, 4, 5, 6, 7};
static const uint32_t pairs[] = {0, 0, 1, 1, 2, 2, 3, 3};

/* nccl-tests issue 178: 8 A100 for PCIe slots. 12 links a pair are 300 GB/s; 7 x 12 or 12 to all
 * would be a switch. */
START_TEST(bridged_pairs_are_domains_of_two)
{
    setup();
    converts(bridged(pairs, in_order), "a100-pcie");
    ck_assert_uint_eq(cl.domain_gpus, 2);
    ck_assert(!memcmp(cl.domain_of_gpu, (uint8_t[]){0, 0, 1, 1, 2, 2, 3, 3}, 8));
    ck_assert_uint_eq(cluster_nvlink_gpus(&cl), 2);
    ck_assert(!cl.nvswitch && cl.nvlink_Bps == 12 * 25e9);
    ck_assert_uint_eq(cl.n_cpus, 2);
    for (uint32_t g = 0; g < 8; g++)
        ck_assert_uint_eq(cl.cpu_of_switch[cl.switch_of_gpu[g]], g / 4);
    ck_assert(!cl.coll.band[BAND_LARGE] && !cl.coll.net_band[BAND_LARGE]);
    /* on a base of SXM cards the same; what it lacks is assumed, and says so */
    converts(bridged(pairs, in_order), "dgx-a100");
    ck_assert_uint_eq(cl.domain_gpus, 2);
    ck_assert_double_eq_tol(cl.pcie_Bps * cl.pcie_efficiency, 24e9, 0.01e9);
    ck_assert(cl.cpu_Bps == 16e9 && cl.coll.pcie_step_s[PROTOCOL_SIMPLE] == 5.7e-6);
    ck_assert(!cl.coll.band[BAND_LARGE]);
    for (size_t i = 0; i < cluster_n_fields(); i++) {
        struct cluster_field f;

        if (cluster_field(&cl, i, &arena, &f) &&
            (strstr(f.path, "pcie.efficiency") || strstr(f.path, "cpu_link") ||
             strstr(f.path, "pcie_step")))
            ck_assert_msg(!strncmp(f.source, "assumed: ", 9), "%s: %s", f.path, f.source);
    }
    done();
}
END_TEST

/* The k-th of 8 in a shuffled order. */
START_TEST(numbers_of_gpus_do_not_matter)
{
    static const uint32_t orders[][8] = {
        {7, 6, 5, 4, 3, 2, 1, 0}, {0, 4, 1, 5, 2, 6, 3, 7}, {3, 0, 6, 5, 1, 7, 2, 4}};

    setup();
    for (size_t o = 0; o < sizeof(orders) / sizeof(orders[0]); o++) {
        uint32_t pair[8];

        for (uint32_t g = 0; g < 8; g++)
            pair[g] = orders[o][g] / 2;
        converts(bridged(pair, orders[o]), "a100-pcie");
        ck_assert_uint_eq(cl.domain_gpus, 2);
        ck_assert_uint_eq(cl.n_cpus, 2);
        for (uint32_t i = 0; i < 8; i++)
            for (uint32_t j = 0; j < 8; j++) {
                ck_assert((cl.domain_of_gpu[i] == cl.domain_of_gpu[j]) == (pair[i] == pair[j]));
                ck_assert((cl.cpu_of_switch[cl.switch_of_gpu[i]] ==
                           cl.cpu_of_switch[cl.switch_of_gpu[j]]) ==
                          (orders[o][i] / 4 == orders[o][j] / 4));
            }
    }
    done();
}
END_TEST

/* A pair shows its NVLinks in place of NODE or SYS: the others tell, or nothing contradicts. */
START_TEST(cpus_of_bridged_gpus)
{
    static const char *const one_each[16][16] = {
        {0}, {"NV12"}, {"SYS", "SYS"}, {"SYS", "SYS", "NV12"}};
    static const char *const across[16][16] = {
        {0}, {"NODE"}, {"NV12", "SYS"}, {"SYS", "NV12", "NODE"}};

    setup();
    converts(matrix(4, one_each), "a100-pcie:gpus=4");
    ck_assert_uint_eq(cl.n_cpus, 2);
    ck_assert_uint_eq(cl.cpu_of_switch[cl.switch_of_gpu[1]], 0);
    ck_assert_uint_eq(cl.cpu_of_switch[cl.switch_of_gpu[2]], 1);
    converts(matrix(4, across), "a100-pcie:gpus=4"); /* bridges between the sockets */
    ck_assert(!memcmp(cl.domain_of_gpu, (uint8_t[]){0, 1, 0, 1}, 4));
    ck_assert_uint_eq(cl.cpu_of_switch[cl.switch_of_gpu[1]], 0);
    ck_assert_uint_eq(cl.cpu_of_switch[cl.switch_of_gpu[2]], 1);
    done();
}
END_TEST

/* DGX-1 with V100: six links a GPU, to four of seven others; rings use them all. */
START_TEST(a_hybrid_cube_mesh_is_one_domain)
{
    static const char *const rows[16][16] = {
        {0},
        {"NV1"},
        {"NV1", "NV2"},
        {"NV2", "NV1", "NV2"},
        {"NV2", "SYS", "SYS", "SYS"},
        {"SYS", "NV2", "SYS", "SYS", "NV1"},
        {"SYS", "SYS", "NV1", "SYS", "NV1", "NV2"},
        {"SYS", "SYS", "SYS", "NV1", "NV2", "NV1", "NV2"},
    };

    setup();
    parse(matrix(8, rows));
    ck_assert_int_eq(cluster_load("dgx-a100", &arena, &base, &err), 0);
    base.device.name = "V100-SXM2-32GB";
    ck_assert_msg(!topology_to_cluster(&t, &base, &arena, &cl, &err), "%s", err.msg);
    ck_assert(!cluster_is_split(&cl) && !cl.nvswitch && cl.nvlink_Bps == 6 * 25e9);
    done();
}
END_TEST

static void domains(const char *text, uint32_t n, uint32_t links, const char *note)
{
    struct topology_domains d;

    parse(text);
    ck_assert_msg(!topology_find_domains(&t, &arena, &d, &err), "%s", err.msg);
    ck_assert(d.known);
    ck_assert_uint_eq(d.n, n);
    ck_assert_uint_eq(d.n_links, links);
    ck_assert_msg(note ? d.note && strstr(d.note, note) : !d.note, "%s", d.note ? d.note : "-");
}

START_TEST(links_that_close_no_ring_count_for_pairs)
{
    static const char *const chain[16][16] = {{0}, {"NV4"}, {"SYS", "NV4"}, {"SYS", "SYS", "NV4"}};
    static const char *const star[16][16] = {{0}, {"NV4"}, {"NV4", "SYS"}, {"NV4", "SYS", "SYS"}};
    static const char *const square[16][16] = {{0}, {"NV4"}, {"SYS", "NV4"}, {"NV4", "SYS", "NV4"}};
    static const char *const triangle[16][16] = {{0}, {"NV2"}, {"NV2", "NV2"}};

    setup();
    domains(matrix(4, chain), 2, 4,
            "the NVLinks of GPUs 0, 1, 2 and 3 close no ring: they are used "
            "in pairs only");
    domains(matrix(4, star), 1, 0, "by no collective");
    domains(matrix(4, square), 4, 8, NULL);
    domains(matrix(3, triangle), 3, 4, NULL);
    done();
}
END_TEST

/* An NVSwitch node of which two halves are told apart: 3 x 12 links are more than a GPU has. */
START_TEST(domains_through_switches)
{
    static const char *const half[16][16] = {{0},
                                             {"NV12"},
                                             {"NV12", "NV12"},
                                             {"SYS", "SYS", "SYS"},
                                             {"SYS", "SYS", "SYS", "NV12"},
                                             {"SYS", "SYS", "SYS", "NV12", "NV12"}};
    static const char *const hole[16][16] = {
        {0}, {"NV12"}, {"NV12", "NV12"}, {"SYS", "NV12", "NV12"}};

    setup();
    domains(matrix(6, half), 3, 12, NULL);
    converts(matrix(6, half), "hgx-a100:gpus=6");
    ck_assert(cl.nvswitch && cl.domain_gpus == 3 && cl.nvlink_Bps == 300e9);
    refused(matrix(4, hole), "hgx-a100:gpus=4", "so through NVSwitches, and GPU 0 not");
    done();
}
END_TEST

START_TEST(domains_of_different_sizes_are_refused)
{
    static const char *const three[16][16] = {{0}, {"NV2"}, {"NV2", "NV2"}, {"SYS", "SYS", "SYS"}};
    static const char *const two_and_three[16][16] = {
        {0}, {"NV4"}, {"SYS", "SYS"}, {"SYS", "SYS", "NV4"}, {"SYS", "SYS", "NV4", "NV4"}};

    setup();
    refused(matrix(4, three), "hgx-a100:gpus=4",
            "line 5: a GPU without NVLink, and GPU 0 has some");
    refused(matrix(5, two_and_three), "hgx-a100:gpus=5",
            "line 4: NVLink joins GPUs 0 and 1, and GPUs 2, 3 and 4: NVLink domains of different "
            "sizes");
    done();
}
END_TEST

static void found(bool warning, const char *words)
{
    struct topology_finding *f;
    size_t n = topology_check(&t, &arena, &f);

    for (size_t i = 0; i < n; i++)
        if (strstr(f[i].text, words)) {
            ck_assert(f[i].warning == warning);
            return;
        }
    ck_abort_msg("no finding '%s'", words);
}

/* nvidia-smi topo -mp prints the PCIe relation where -m prints NVLinks; cards without NVLink look
 * the same. */
START_TEST(a_matrix_without_nvlink_is_ambiguous)
{
    const char *text;

    setup();
    text = bridged(NULL, in_order);
    refused(text, "dgx-a100",
            "topo -mp hides NVLink, use -m; if they have none, say so: "
            "BASE:nvlink_domain=1,node=t");
    refused(text, "a100-pcie", "topo -mp hides NVLink");
    found(true,
          "no NV between any two GPUs: nvidia-smi topo -mp hides NVLink, use -m; or these GPUs "
          "have none");
    converts(text, "a100-pcie:nvlink_domain=1"); /* without bridges */
    ck_assert(cl.domain_gpus == 1 && !(cl.nvlink_Bps > 0) && cl.n_cpus == 2);
    converts(text, "l40s");
    ck_assert(cl.domain_gpus == 1 && !(cl.nvlink_Bps > 0) && cl.n_cpus == 2);
    refused(bridged(pairs, in_order), "l40s",
            "line 2: GPUs with NVLink, and those of 'l40s' have none");
    done();
}
END_TEST

START_TEST(nics_that_serve_no_gpu_are_named)
{
    setup();
    parse("     GPU0 GPU1 NIC0 NIC4\nGPU0 X NV4 PXB SYS\nGPU1 NV4 X PXB SYS\n"
          "NIC0 PXB PXB X SYS\nNIC4 SYS SYS SYS X\n");
    found(false, "NIC4 serves no GPU: left out");
    done();
}
END_TEST

/* A dump of two bridged pairs. */
static const char *dump(const char *const *target)
{
    const char *text = "<system>";

    for (int g = 0; g < 4; g++)
        text = arena_printf(&arena,
                            "%s\n<cpu numaid=\"%d\"><pci busid=\"%d\" class=\"0x030200\" "
                            "vendor=\"0x10de\" device=\"0x20b5\" link_speed=\"16 GT/s\" "
                            "link_width=\"16\"><gpu dev=\"%d\" sm=\"80\"><nvlink target=\"%s\" "
                            "count=\"12\" tclass=\"0x030200\"/></gpu></pci></cpu>",
                            text, g / 2, g, g, target[g]);
    return arena_printf(&arena, "%s</system>", text);
}

START_TEST(pairs_of_a_dump_of_nccl)
{
    static const char *const across[] = {"2", "3", "0", "1"}, *const itself[] = {"0", "1", "2",
                                                                                 "3"};

    setup();
    parse(dump(across));
    ck_assert_str_eq(topology_base(&t), "a100-pcie");
    ck_assert_msg(!topology_to_cluster(&t, NULL, &arena, &cl, &err), "%s", err.msg);
    ck_assert_uint_eq(cl.domain_gpus, 2);
    ck_assert(!memcmp(cl.domain_of_gpu, (uint8_t[]){0, 1, 0, 1}, 4));
    ck_assert(cl.nvlink_Bps == 300e9 && cl.n_cpus == 2 && cl.pcie_Bps < 32e9);
    /* where links end is not said: as the base has it, neighbours */
    parse(dump(itself));
    ck_assert_msg(!topology_to_cluster(&t, NULL, &arena, &cl, &err), "%s", err.msg);
    ck_assert(!memcmp(cl.domain_of_gpu, (uint8_t[]){0, 0, 1, 1}, 4));
    done();
}
END_TEST

SUITE_MAIN("model/topology_links", bridged_pairs_are_domains_of_two, numbers_of_gpus_do_not_matter,
           cpus_of_bridged_gpus, a_hybrid_cube_mesh_is_one_domain,
           links_that_close_no_ring_count_for_pairs, domains_through_switches,
           domains_of_different_sizes_are_refused, a_matrix_without_nvlink_is_ambiguous,
           nics_that_serve_no_gpu_are_named, pairs_of_a_dump_of_nccl)
