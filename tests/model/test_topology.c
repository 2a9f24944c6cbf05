/* Topology files: both XML forms and nvidia-smi's matrix as the same cluster, each finding with its line, each refusal. */
#include "model/cluster/topology.h"
#include "tests/suite.h"

#include <stdio.h>
#include <string.h>

static struct arena arena;
static struct topology t;
static struct cluster cl;
static struct err err;

static void setup(void)
{
    arena_init(&arena);
}

static void done(void)
{
    arena_release(&arena);
}

static void parse(const char *text)
{
    if (topology_parse(text, strlen(text), "t", &arena, &t, &err))
        ck_abort_msg("%s", err.msg);
}

static void convert(const char *text, const char *base)
{
    struct cluster b;

    parse(text);
    if (base && cluster_load(base, &arena, &b, &err))
        ck_abort_msg("%s", err.msg);
    if (topology_to_cluster(&t, base ? &b : NULL, &arena, &cl, &err))
        ck_abort_msg("%s", err.msg);
}

/* A bridge with two GPUs and a NIC, as dumps have it: %s is inserted into the second GPU's <gpu>. */
static const char *dump(const char *second_gpu, const char *net, const char *more)
{
    return arena_printf(
        &arena,
        "<system version=\"1\">\n"
        " <cpu numaid=\"1\">\n"
        "  <pci busid=\"0000:01:00.0\" class=\"0x060400\" link_speed=\"32.0 GT/s PCIe\" "
        "link_width=\"16\">\n"
        "   <pci busid=\"0000:03:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" "
        "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n"
        "    <gpu dev=\"0\" sm=\"90\" rank=\"0\" gdr=\"1\"><nvlink target=\"0000:0a:00.0\" "
        "count=\"18\" tclass=\"0x068000\"/></gpu>\n"
        "   </pci>\n"
        "   <pci busid=\"0000:02:00.0\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x2330\" "
        "link_speed=\"32.0 GT/s PCIe\" link_width=\"16\">\n"
        "    <gpu dev=\"1\" sm=\"90\" rank=\"1\" gdr=\"1\">%s</gpu>\n"
        "   </pci>\n"
        "   <pci busid=\"0000:04:00.0\" class=\"0x020700\" link_speed=\"32.0 GT/s PCIe\" "
        "link_width=\"16\">\n"
        "    <nic>%s</nic>\n"
        "   </pci>\n"
        "  </pci>\n"
        "%s"
        " </cpu>\n"
        "</system>\n",
        second_gpu, net, more);
}

#define LINKS "<nvlink target=\"0000:0a:00.0\" count=\"18\" tclass=\"0x068000\"/>"
#define NET   "<net name=\"mlx5_0\" dev=\"0\" speed=\"400000\" port=\"1\"/>"

/* Devices without link attributes, %04x being the GPUs' device. */
static const char pci_only[] = "<system version=\"1\"><cpu numaid=\"0\">"
                               "<pci busid=\"0002:00:00.0\" class=\"0x060400\">"
                               "<pci busid=\"0005:00:00.0\" class=\"0x030200\"/>"
                               "<pci busid=\"0006:00:00.0\" class=\"0x020700\"/>"
                               "<pci busid=\"0007:00:00.0\" class=\"0x020700\"/></pci>"
                               "<pci busid=\"0001:00:00.0\" class=\"0x060400\">"
                               "<pci busid=\"0003:00:00.0\" class=\"0x030200\"/>"
                               "<pci busid=\"0008:00:00.0\" class=\"0x020700\"/>"
                               "<pci busid=\"0009:00:00.0\" class=\"0x020700\"/></pci>"
                               "</cpu></system>";

START_TEST(a_dump_says_gpus_links_and_speeds)
{
    setup();
    convert(dump(LINKS, NET, ""), NULL);
    ck_assert_int_eq(t.form, TOPOLOGY_DUMP);
    ck_assert_str_eq(topology_base(&t), "hgx-h100-ndr");
    ck_assert_str_eq(cl.device.name, "H100-SXM-80GB");
    ck_assert_uint_eq(cl.gpus_per_node, 2);
    /* 18 links of 25 GB/s, 400,000 Mb/s, 32 GT/s x 16 x 128/130 / 8 */
    ck_assert(cl.nvlink_Bps == 450e9 && cl.nvswitch && cl.nic_Bps == 50e9);
    ck_assert_double_eq_tol(cl.pcie_Bps / 1e9, 63.015, 1e-3);
    ck_assert_uint_eq(cl.nics_per_node, 1);
    ck_assert_uint_eq(cl.pcie_switches, 1);
    ck_assert_uint_eq(t.gpus[0].line, 5);
    ck_assert_int_eq(t.gpus[0].numa, 1);
    ck_assert_uint_eq(t.nics[0].line, 11);
    done();
}
END_TEST

START_TEST(what_is_assumed_says_so)
{
    struct cluster_field f;
    bool seen = false;

    setup();
    convert(dump(LINKS, NET, ""), NULL);
    for (size_t i = 0; i < cluster_n_fields(); i++) {
        if (!cluster_field(&cl, i, &arena, &f))
            continue;
        ck_assert_msg(f.source != NULL, "%s", f.path);
        if (!strcmp(f.path, "node.nic.rate") || !strcmp(f.path, "node.nvlink.rate"))
            ck_assert_msg(!strncmp(f.source, "t: NCCL topology dump", 21), "%s", f.source);
        if (!strncmp(f.path, "fabric.", 7) || !strncmp(f.path, "collectives.", 12)) {
            ck_assert_msg(!strncmp(f.source, "assumed: as hgx-h100-ndr", 24), "%s", f.source);
            seen = true;
        }
    }
    ck_assert(seen);
    done();
}
END_TEST

/* Two ports of a card, and two cards a GPU, are one NIC of the sum. */
START_TEST(ports_and_cards_of_one_gpu_are_one_nic)
{
    setup();
    convert(dump(LINKS,
                 "<net name=\"a\" dev=\"0\" speed=\"200000\"/><net name=\"b\" dev=\"1\" "
                 "speed=\"200000\"/>",
                 ""),
            NULL);
    ck_assert_uint_eq(cl.nics_per_node, 1);
    ck_assert(cl.nic_Bps == 50e9);
    convert(pci_only, "hgx-a100:gpus=2,nics=2x400Gb");
    ck_assert_uint_eq(cl.nics_per_node, 2);
    ck_assert(cl.nic_Bps == 50e9);                     /* the base's: the file has no speeds */
    convert(pci_only, "hgx-a100:gpus=4,nics=4x200Gb"); /* the base counts devices */
    ck_assert(cl.nics_per_node == 2 && cl.nic_Bps == 50e9);
    done();
}
END_TEST

START_TEST(gpus_without_numbers_come_in_the_order_of_bus_ids)
{
    setup();
    parse(pci_only);
    ck_assert_int_eq(t.form, TOPOLOGY_PCI_ONLY);
    ck_assert_uint_eq(t.n_gpus, 2);
    ck_assert_str_eq(t.gpus[0].busid, "0003:00:00.0");
    ck_assert_str_eq(t.gpus[1].busid, "0005:00:00.0");
    done();
}
END_TEST

START_TEST(numbers_of_dev_decide_where_there_are_any)
{
    setup();
    parse(dump(LINKS, NET, ""));
    ck_assert_str_eq(t.gpus[0].busid, "0000:03:00.0"); /* dev 0, the higher bus id */
    ck_assert_uint_eq(t.nvlinks[0].gpu, 0);
    done();
}
END_TEST

/* A NIC pair that no GPU is near (storage) is left out where every GPU has its own. */
START_TEST(nics_beside_no_gpu_are_left_out)
{
    setup();
    convert(dump(LINKS, NET,
                 "<pci busid=\"0000:09:00.0\" class=\"0x020000\"><nic>"
                 "<net name=\"eth0\" dev=\"7\" speed=\"400000\"/></nic></pci>"),
            NULL);
    ck_assert_uint_eq(t.n_nics, 2);
    ck_assert_uint_eq(cl.nics_per_node, 1);
    ck_assert_uint_eq(cl.pcie_switches, 1);
    done();
}
END_TEST

/* Two GPUs a switch with a NIC each, direct links NV4 to three others: 12 links. */
static const char smi[] = "\tGPU0\tGPU1\tGPU2\tGPU3\tmlx5_0\tmlx5_1\tCPU Affinity\tNUMA Affinity\n"
                          "GPU0\t X \tNV4\tNV4\tNV4\tPXB\tSYS\t0-23\t0\n"
                          "GPU1\tNV4\t X \tNV4\tNV4\tPXB\tSYS\t0-23\t0\n"
                          "GPU2\tNV4\tNV4\t X \tNV4\tSYS\tPIX\t24-47\t1\n"
                          "GPU3\tNV4\tNV4\tNV4\t X \tSYS\tPIX\t24-47\t1\n"
                          "mlx5_0\tPXB\tPXB\tSYS\tSYS\t X \tSYS\n"
                          "mlx5_1\tSYS\tSYS\tPIX\tPIX\tSYS\t X \n"
                          "\nLegend:\n\n  X    = Self\n";

START_TEST(the_matrix_of_nvidia_smi)
{
    setup();
    convert(smi, "hgx-a100:gpus=4,nics=2x200Gb");
    ck_assert_int_eq(t.form, TOPOLOGY_SMI);
    ck_assert_uint_eq(t.gpus[0].n_links, 12);
    ck_assert(!cl.nvswitch && cl.nvlink_Bps == 300e9);
    ck_assert_uint_eq(cl.nics_per_node, 2);
    ck_assert_uint_eq(cl.nic_of_gpu[1], 0);
    ck_assert_uint_eq(cl.nic_of_gpu[2], 1);
    ck_assert_uint_eq(cl.pcie_switches, 2);
    ck_assert_uint_eq(cl.switch_of_gpu[3], 1);
    done();
}
END_TEST

/* The same with blanks for tabs, escape codes and a line before it. */
START_TEST(the_matrix_as_a_terminal_shows_it)
{
    char text[2000];

    setup();
    snprintf(text, sizeof(text), "$ nvidia-smi topo -m\n\033[4m%.*s\033[0m%s",
             (int)(strchr(smi, '\n') - smi), smi, strchr(smi, '\n'));
    for (char *p = text; *p; p++)
        *p = *p == '\t' ? ' ' : *p;
    ck_assert(topology_is(text, strlen(text)));
    parse(text);
    ck_assert_uint_eq(t.n_gpus, 4);
    ck_assert_uint_eq(t.n_nics, 2);
    ck_assert_uint_eq(t.line, 2);
    done();
}
END_TEST

/* 8 GPUs of 12 links each: 12 to every peer cannot be 84 of its own. */
START_TEST(many_links_to_each_peer_pass_a_switch)
{
    setup();
    parse("     GPU0 GPU1 GPU2\nGPU0 X NV12 NV12\nGPU1 NV12 X NV12\nGPU2 NV12 NV12 X\n");
    ck_assert(t.gpus[0].to_switch);
    ck_assert_uint_eq(t.gpus[0].n_links, 12);
    done();
}
END_TEST

/* ---- findings ---- */

/* A finding at that line with these words; warning or not. */
static void found(uint32_t line, bool warning, const char *words)
{
    struct topology_finding *f;
    size_t n = topology_check(&t, &arena, &f);

    for (size_t i = 0; i < n; i++)
        if (f[i].line == line && f[i].warning == warning && strstr(f[i].text, words))
            return;
    for (size_t i = 0; i < n; i++)
        fprintf(stderr, "  line %u: %s\n", f[i].line, f[i].text);
    ck_abort_msg("no finding at line %u with '%s'", line, words);
}

START_TEST(a_sound_file_has_no_findings)
{
    struct topology_finding *f;

    setup();
    parse(dump(LINKS, NET "<net name=\"mlx5_1\" dev=\"1\" speed=\"400000\" port=\"2\"/>", ""));
    ck_assert_uint_eq(topology_check(&t, &arena, &f), 1); /* a note: one NIC for two GPUs */
    ck_assert(!f[0].warning && strstr(f[0].text, "1 NICs for 2 GPUs"));
    done();
}
END_TEST

/* text with the first `from` behind `after` replaced. */
static const char *replace(const char *text, const char *after, const char *from, const char *to)
{
    const char *at = strstr(strstr(text, after), from);

    return arena_printf(&arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

/* NVIDIA/nccl issue 749: one such line, and a cluster crawled at 0.12 GB/s. */
START_TEST(a_slow_link_is_named)
{
    setup();
    parse(replace(replace(dump(LINKS, NET, ""), "0000:01", "32.0", "2.5"), "0000:01",
                  "width=\"16\"", "width=\"1\""));
    /* 2.5 GT/s, one lane, 8b/10b: 0.25 GB/s */
    found(3, true, "bridge 0000:01:00.0: a PCIe link of 2.5 GT/s x1, 250 MB/s");
    done();
}
END_TEST

START_TEST(links_are_held_against_their_like)
{
    setup();
    parse(replace(dump(LINKS, NET, ""), "0000:02", "width=\"16\"", "width=\"8\""));
    found(7, true, "GPU 0000:02:00.0: a PCIe link of 32 GT/s x8, 31.5 GB/s; others of its kind");
    parse(replace(dump(LINKS, NET, ""), "0000:01", "32.0", "8.0"));
    found(3, true, "bridge 0000:01:00.0: a PCIe link of 8 GT/s x16, 15.8 GB/s, above the GPU");
    parse(replace(dump(LINKS, NET, ""), "0000:01", "32.0", "fast"));
    found(3, true, "link_speed \"fast GT/s PCIe\" is no number");
    done();
}
END_TEST

START_TEST(what_is_missing_or_double_is_named)
{
    setup();
    parse(dump("", NET, ""));
    found(8, true, "GPU 1 has no NVLink, and others have");
    parse(dump("<nvlink target=\"0000:0a:00.0\" count=\"12\" tclass=\"0x068000\"/>", NET, ""));
    found(8, true, "GPU 1 has 12 NVLinks, others 18");
    parse(dump("<nvlink target=\"0000:02:00.0\" count=\"18\" tclass=\"0x030200\"/>", NET, ""));
    found(8, true, "GPU 1: its NVLink ends at itself");
    parse(dump("<nvlink target=\"0000:77:00.0\" count=\"18\" tclass=\"0x030200\"/>", NET, ""));
    found(8, true, "ends at 0000:77:00.0, which is no GPU of this file");
    parse(dump(LINKS, NET, "<pci busid=\"0000:03:00.0\" class=\"0x010802\"/>\n"));
    found(14, true, "bus id 0000:03:00.0 is that of line 4 too");
    parse(dump(LINKS, NET, "<pci class=\"0x010802\"/>\n"));
    found(14, true, "without busid");
    parse(dump(LINKS, "", ""));
    found(11, true, "has no speed");
    parse(dump(LINKS, "<net name=\"eth0\" dev=\"0\" speed=\"10000\" gdr=\"0\"/>", ""));
    found(11, true, "10 Gb/s or less");
    found(11, false, "gdr=\"0\"");
    parse(dump(LINKS, NET "<net name=\"mlx5_1\" dev=\"0\" speed=\"1\"/>", ""));
    found(11, true, "(dev 0) is that of line 11 too");
    parse(dump(LINKS, "<net name=\"a\" speed=\"400000\" flavour=\"x\"/>", ""));
    found(11, false, "attribute 'flavour'");
    parse(dump(LINKS, NET,
               "<pci busid=\"1:0\" class=\"0x030200\"><gpu dev=\"1\" rank=\"1\" sm=\"90\">" LINKS
               "</gpu></pci>\n"));
    found(14, true, "dev 1 is that of the GPU of line 8 too");
    found(14, true, "rank 1 is that of the GPU of line 8 too");
    found(14, true, "GPU 2 has no NIC under its PCIe switch, and 2 other GPUs have");
    parse("<system><cpu><pci busid=\"1\" class=\"0x030200\"/></cpu></system>");
    found(1, true, "no NICs");
    parse("<system>\n<cpu>\n<pci busid=\"1\"/></cpu></system>");
    found(1, true, "no GPUs");
    found(3, false, "1 device without class");
    done();
}
END_TEST

/* A domain's dump has CPUs of several hosts, which have the same bus ids, numbers and names: no two of one host. */
START_TEST(hosts_are_told_apart)
{
    static const char host[] =
        " <cpu host_hash=\"0x%s\" numaid=\"0\">\n"
        "  <pci busid=\"0000:02:00.0\" class=\"0x030200\" device=\"0x2941\"><gpu dev=\"0\" "
        "rank=\"%d\" "
        "sm=\"100\"><nvlink target=\"fffffff:ffff:ff\" count=\"18\" "
        "tclass=\"0x068000\"/></gpu></pci>\n"
        "  <pci busid=\"0000:03:00.0\" class=\"0x020700\"><nic><net name=\"mlx5_0\" dev=\"0\" "
        "speed=\"400000\"/></nic></pci>\n </cpu>\n";
    struct topology_finding *f;

    setup();
    parse(arena_printf(&arena, "<system>\n%s%s</system>\n", arena_printf(&arena, host, "a1", 0),
                       arena_printf(&arena, host, "b2", 1)));
    ck_assert_uint_eq(t.n_hosts, 2);
    ck_assert(t.gpus[0].host == 0 && t.gpus[1].host == 1 && t.nics[1].host == 1);
    ck_assert_uint_eq(topology_check(&t, &arena, &f), 1); /* a note: no switch above them */
    ck_assert(!f[0].warning);
    ck_assert_int_eq(topology_to_cluster(&t, NULL, &arena, &cl, &err), -1);
    ck_assert(err.code == ERR_UNSUPPORTED && strstr(err.msg, "devices of 2 hosts (host_hash)"));
    /* on one host the same is a mistake */
    parse(arena_printf(&arena, "<system>\n%s%s</system>\n", arena_printf(&arena, host, "a1", 0),
                       arena_printf(&arena, host, "a1", 1)));
    ck_assert_uint_eq(t.n_hosts, 1);
    found(7, true, "bus id 0000:02:00.0 is that of line 3 too");
    found(7, true, "dev 0 is that of the GPU of line 3 too");
    found(8, true, "net mlx5_0 (dev 0) is that of line 4 too");
    done();
}
END_TEST

/* DGX-1V: six links to four of seven peers; nothing bundled has such GPUs. */
START_TEST(a_node_of_v100s_is_described)
{
    static const char text[] =
        "<system><cpu><pci busid=\"1\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x1db5\">"
        "<gpu dev=\"0\" sm=\"70\"><nvlink target=\"2\" count=\"6\" "
        "tclass=\"0x030200\"/></gpu></pci>"
        "<pci busid=\"2\" class=\"0x030200\" vendor=\"0x10de\" device=\"0x1db5\">"
        "<gpu dev=\"1\" sm=\"70\"><nvlink target=\"1\" count=\"6\" "
        "tclass=\"0x030200\"/></gpu></pci>"
        "</cpu></system>";
    struct cluster base;

    setup();
    parse(text);
    ck_assert_str_eq(topology_gpu_name(&t, 1), "V100-SXM2-32GB");
    found(1, true, "no NICs");
    ck_assert_ptr_null(topology_base(&t));
    ck_assert_int_eq(topology_to_cluster(&t, NULL, &arena, &cl, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "no bundled cluster has V100-SXM2-32GB; give a cluster"));
    /* a description that calls them otherwise may be theirs; its links are 6 x 25 GB/s when it has their name */
    ck_assert_int_eq(cluster_load("hgx-a100:gpus=2,nics=0", &arena, &base, &err), 0);
    base.device.name = "V100-SXM2-32GB";
    ck_assert_msg(!topology_to_cluster(&t, &base, &arena, &cl, &err), "%s", err.msg);
    ck_assert(cl.nvlink_Bps == 150e9 && !cl.nvswitch);
    done();
}
END_TEST

/* ---- refusals ---- */

START_TEST(a_refusal_says_what_and_where)
{
    static const struct {
        const char *text, *words;
        enum err_code code;
    } rows[] = {
        {"<!DOCTYPE system [<!ENTITY a \"b\">]>\n<system/>", "a DOCTYPE: entities are not read",
         ERR_PARSE},
        {"<?xml version=\"1.0\"?>\n<!DOCTYPE system SYSTEM \"http://127.0.0.1/x.dtd\"><system/>",
         "a DOCTYPE", ERR_PARSE},
        {"<system>\n<cpu>\n</system>", "line 3: no XML: ", ERR_PARSE},
        {"<system", "no XML", ERR_PARSE},
        {"<graphs/>", "is a graph file of NCCL", ERR_PARSE},
        {"<sistem/>", "<sistem> is no NCCL topology, expected <system>", ERR_PARSE},
        {"<system>\n<pci/></system>", "line 2: <pci> is inside <system>, expected <cpu>",
         ERR_PARSE},
        {"<system><cpu><pcii/></cpu></system>", "<pcii> is not known (did you mean 'pci'?)",
         ERR_UNKNOWN},
        {"<system><cpu><net/></cpu></system>", "<net> is inside <cpu>, expected", ERR_PARSE},
        {"<system><cpu><nic><gpu/></nic></cpu></system>", "<gpu> is inside <nic>, expected <net>",
         ERR_PARSE},
        {"<system><cpu numaid=\"nan\"/></system>",
         "<cpu> has numaid=\"nan\", expected a whole number", ERR_INVALID},
        {"<system><cpu><nic><net speed=\"1e400\"/></nic></cpu></system>",
         "has speed=\"1e400\", expected a whole number from 0 to", ERR_INVALID},
        {"<system><cpu><nic><net speed=\"-1\"/></nic></cpu></system>", "speed=\"-1\"", ERR_INVALID},
        {"<system><cpu><pci class=\"0x1000000\"/></cpu></system>", "class=\"0x1000000\"",
         ERR_INVALID},
        {"<system><cpu busid=\"1\" busid=\"1\"/></system>", "no XML", ERR_PARSE}, /* given twice */
        {"", "no matrix", ERR_PARSE},
        {"GPU0\nGPU0 Y\n", "line 2: 'Y' between GPU0 and GPU0", ERR_PARSE},
        {"GPU0 GPU1\nGPU0 X\n", "line 2: 1 columns behind 'GPU0', expected 2", ERR_PARSE},
        {"GPU0 GPU1\nGPU0 X SYS\n", "no row for the column GPU1", ERR_PARSE},
        {"GPU0 GPU1\nGPU0 X SYS\nGPU1 PIX X\n", "line 3: GPU1 and GPU0 differ from line 2",
         ERR_PARSE},
        {"GPU0 GPU1\nGPU0 X SYS\nGPU2 PIX X\n", "a row 'GPU2', expected GPU1", ERR_PARSE},
        {"GPU0 n\nGPU0 X NV2\nn NV2 X\n", "'NV2' between GPU0 and n", ERR_PARSE},
        {"GPU0 GPU1\nGPU0 X NV99999\n", "'NV99999' between", ERR_PARSE},
        {"GPU0 GPU1\nGPU0 NV2 X\n", "'NV2' between GPU0 and GPU0", ERR_PARSE},
    };

    setup();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(topology_parse(rows[i].text, strlen(rows[i].text), "t", &arena, &t, &err) ==
                          -1,
                      "%s", rows[i].text);
        ck_assert_msg(strstr(err.msg, rows[i].words) && err.code == rows[i].code, "%s\n%s (%s)",
                      rows[i].text, err.msg, err_name(err.code));
        ck_assert(!strchr(err.msg, '\n') && !strncmp(err.msg, "'t'", 3));
    }
    done();
}
END_TEST

/* text, base, words */
START_TEST(what_a_file_and_its_base_do_not_say_is_refused)
{
    const char *no_links, *no_speed, *sm_only, *mixed;
    struct cluster base;

    setup();
    no_links = dump("", NET, "");
    no_speed = dump(LINKS, "", "");
    sm_only = "<system><cpu><pci busid=\"1\"><gpu dev=\"0\" sm=\"90\">" LINKS
              "</gpu></pci></cpu></system>";
    mixed = "<system><cpu><pci busid=\"1\" class=\"0x030200\" device=\"0x2330\"/>"
            "<pci busid=\"2\" class=\"0x030200\" device=\"0x20b0\"/></cpu></system>";
    {
        const struct {
            const char *text, *base, *words;
        } rows[] = {
            {no_links, NULL, "line 8: a GPU without NVLink"},
            {no_speed, NULL, "line 11: a NIC without speed; give a cluster with such NICs"},
            {no_speed, NULL, "hgx-h100-ndr:node=t,nics=1x200Gb"},
            {no_speed, "hgx-h100", "NICs without speed, 1 of them, and 'hgx-h100' has 8"},
            {dump(LINKS, NET, ""), "hgx-a100", "line 5: the GPUs are H100-SXM-80GB, those of"},
            {dump(LINKS, NET, ""), "hgx-h100:nics=0", "has NICs, and 'hgx-h100:nics=0' has none"},
            {sm_only, NULL, "compute capability 9.0 alone does not say"},
            {sm_only, NULL, "BASE:node=t"},
            {pci_only, NULL, "nothing says which GPUs these are"},
            {mixed, NULL, "GPU 1 differs from GPU 0"},
            {"<system><cpu/></system>", NULL, "names no GPUs"},
            {smi, NULL, "nothing says which GPUs these are"},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            parse(rows[i].text);
            if (rows[i].base)
                ck_assert_int_eq(cluster_load(rows[i].base, &arena, &base, &err), 0);
            ck_assert_int_eq(
                topology_to_cluster(&t, rows[i].base ? &base : NULL, &arena, &cl, &err), -1);
            ck_assert_msg(strstr(err.msg, rows[i].words) != NULL, "%s\nexpected: %s", err.msg,
                          rows[i].words);
        }
    }
    done();
}
END_TEST

/* The devices that are known by id are those that the bundled clusters describe. */
START_TEST(a_known_device_has_the_bundled_clusters_name)
{
    static const uint32_t ids[] = {0x20b0, 0x20b2, 0x20f3, 0x2330, 0x2335, 0x2901, 0x2941};

    setup();
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
        struct cluster base;

        convert(arena_printf(&arena,
                             "<system><cpu><pci busid=\"1\" class=\"0x030200\" vendor=\"0x10de\" "
                             "device=\"0x%04x\"/></cpu></system>",
                             ids[i]),
                NULL);
        ck_assert_int_eq(cluster_load(topology_base(&t), &arena, &base, &err), 0);
        /* so that a file and the cluster it is of are not taken for different GPUs */
        ck_assert_int_eq(topology_to_cluster(&t, &base, &arena, &cl, &err), 0);
        ck_assert_uint_eq(cl.nics_per_node, 0);
    }
    done();
}
END_TEST

SUITE_MAIN("model/topology", a_dump_says_gpus_links_and_speeds, what_is_assumed_says_so,
           ports_and_cards_of_one_gpu_are_one_nic,
           gpus_without_numbers_come_in_the_order_of_bus_ids,
           numbers_of_dev_decide_where_there_are_any, nics_beside_no_gpu_are_left_out,
           the_matrix_of_nvidia_smi, the_matrix_as_a_terminal_shows_it,
           many_links_to_each_peer_pass_a_switch, a_sound_file_has_no_findings,
           a_slow_link_is_named, links_are_held_against_their_like,
           what_is_missing_or_double_is_named, hosts_are_told_apart, a_node_of_v100s_is_described,
           a_refusal_says_what_and_where, what_a_file_and_its_base_do_not_say_is_refused,
           a_known_device_has_the_bundled_clusters_name)
