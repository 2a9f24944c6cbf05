/* The one-line form of clusters: what each key changes, what stays, and every refusal. */
#include "model/cluster/cluster.h"
#include "tests/suite.h"

#include <string.h>

static struct arena arena;
static struct cluster cl;
static struct err err;

static void load(const char *what)
{
    if (cluster_load(what, &arena, &cl, &err))
        ck_abort_msg("%s: %s", what, err.msg);
}

static const char *source(const char *path)
{
    struct cluster_field f;

    for (size_t i = 0; i < cluster_n_fields(); i++)
        if (cluster_field(&cl, i, &arena, &f) && !strcmp(f.path, path))
            return f.source;
    ck_abort_msg("no field %s", path);
}

START_TEST(keys_change_what_they_name_and_nothing_else)
{
    struct cluster base;

    arena_init(&arena);
    load("dgx-a100");
    base = cl;
    load("HGX-A100:oversub=2,nics=4x200Gb");
    ck_assert_str_eq(cl.name, "HGX-A100:oversub=2,nics=4x200Gb");
    ck_assert_uint_eq(cl.nics_per_node, 4);
    ck_assert(cl.nic_Bps == 25e9 && cl.oversubscription == 2);
    ck_assert_uint_eq(cl.nic_of_gpu[5], 2);
    ck_assert_uint_eq(cl.switch_of_nic[3], 3);
    ck_assert_str_eq(source("node.nic.count"), "given: nics=4x200Gb");
    ck_assert_str_eq(source("fabric.oversubscription"), "given: oversub=2");
    ck_assert_str_eq(source("device.hbm"), "NVIDIA A100 datasheet: 80GB SXM");
    ck_assert(cl.device.peak_flops == base.device.peak_flops && cl.nvlink_Bps == base.nvlink_Bps);
    ck_assert_uint_eq(cl.nodes_per_leaf, base.nodes_per_leaf);
    arena_release(&arena);
}
END_TEST

START_TEST(nics_beyond_one_a_gpu_are_bonded)
{
    arena_init(&arena);
    load("hgx-h100:nics=32x100Gb/s");
    ck_assert_uint_eq(cl.nics_per_node, 8);
    ck_assert(cl.nic_Bps == 50e9);
    load("hgx-h100:nics=16x100Gb");
    ck_assert(cl.nics_per_node == 8 && cl.nic_Bps == 25e9);
    ck_assert_str_eq(cl.nic_name, ""); /* no longer the base's NDR */
    ck_assert(!strncmp(source("node.nic.efficiency"), "assumed: as hgx-h100", 20));
    load("hgx-h100:nics=0");
    ck_assert_uint_eq(cl.nics_per_node, 0);
    ck_assert_int_eq(cluster_resize(&cl, 2, &err), -1);
    arena_release(&arena);
}
END_TEST

START_TEST(every_key_is_used)
{
    arena_init(&arena);
    load("hgx-a100:gpus=4,nvlink=200GB,memory=40GiB,leaf=16,rails=no,nics=2x25GB/s");
    ck_assert_uint_eq(cl.gpus_per_node, 4);
    ck_assert_uint_eq(cl.pcie_switches, 2);
    ck_assert_uint_eq(cl.nics_per_node, 2);
    ck_assert(cl.nvlink_Bps == 200e9 && cl.device.memory_bytes == UINT64_C(40) << 30);
    ck_assert(cl.nodes_per_leaf == 16 && !cl.rail_optimised && cl.nic_Bps == 25e9);
    load("hgx-a100:gpus=4");
    ck_assert_uint_eq(cl.nics_per_node, 4); /* the other four had only the other GPUs */
    load("hgx-a100:gpus=16");
    ck_assert_uint_eq(cl.nics_per_node, 8);
    ck_assert_uint_eq(cl.nic_of_gpu[15], 7);
    ck_assert_uint_eq(cl.pcie_switches, 0);
    arena_release(&arena);
}
END_TEST

START_TEST(an_alias_is_the_bundled_cluster)
{
    struct cluster other;

    arena_init(&arena);
    for (size_t i = 0; i < cluster_n_aliases; i++) {
        load(cluster_aliases[i].name);
        ck_assert_str_eq(cl.name, cluster_aliases[i].name);
        ck_assert_int_eq(cluster_load(cluster_aliases[i].means, &arena, &other, &err), 0);
        ck_assert_str_eq(cl.device.name, other.device.name);
    }
    arena_release(&arena);
}
END_TEST

START_TEST(trays_in_use_are_the_nvlink_domain)
{
    struct cluster base, d;

    arena_init(&arena);
    load("gb200-nvl72");
    base = cl;
    load("gb200-nvl72:domain_nodes=16");
    ck_assert_uint_eq(cluster_domain_gpus(&cl), 64);
    ck_assert_uint_eq(cl.gpus_per_node, 4);
    ck_assert_uint_eq(cl.nodes_per_leaf, 144); /* 9 domains */
    ck_assert_str_eq(source("node.nvlink.domain_nodes"), "given: domain_nodes=16");
    ck_assert(!strncmp(source("fabric.nodes_per_leaf"), "DGX SuperPOD", 12));
    ck_assert(!memcmp(&cl.coll, &base.coll, sizeof(cl.coll)));
    ck_assert_int_eq(cluster_resize(&cl, 36, &err), 0);
    d = cluster_by_domain(&cl);
    ck_assert(d.n_nodes == 3 && d.gpus_per_node == 64 && d.nics_per_node == 64); /* 16, 16, 4 */
    ck_assert_uint_eq(d.nodes_per_leaf, 9);
    load("gb200-nvl72-16TRAYS");
    ck_assert_str_eq(cl.name, "gb200-nvl72-16trays");
    ck_assert_uint_eq(cl.domain_nodes, 16);
    load("gb200-nvl72-16trays:domain_nodes=9,leaf=27"); /* a part of the part */
    ck_assert(cl.domain_nodes == 9 && cl.nodes_per_leaf == 27);
    load("gb200-nvl72:leaf=288,domain_nodes=16"); /* the order of the text does not matter */
    ck_assert(cl.domain_nodes == 16 && cl.nodes_per_leaf == 288);
    load("gb200-nvl72:domain_nodes=14"); /* 144 ports take 10 whole domains */
    ck_assert_uint_eq(cl.nodes_per_leaf, 140);
    ck_assert_str_eq(source("fabric.nodes_per_leaf"),
                     "given: domain_nodes=14, whole domains of the 144 nodes of gb200-nvl72");
    load("gb200-nvl72:domain_nodes=1"); /* NVLink stays in the tray */
    ck_assert(cl.domain_nodes == 1 && cl.nodes_per_leaf == 144);
    load("gb200-nvl72:gpus=8,domain_nodes=16"); /* 144 GPUs a domain would be too many */
    ck_assert_uint_eq(cluster_domain_gpus(&cl), 128);
    load("hgx-h100:domain_nodes=1");
    arena_release(&arena);
}
END_TEST

START_TEST(a_refusal_names_key_value_and_what_was_expected)
{
    static const struct {
        const char *what, *words;
        enum err_code code;
    } rows[] = {
        {"hgx-a100:nic=4x200Gb", "no key 'nic' (did you mean 'nics'?)", ERR_UNKNOWN},
        {"hgx-a100:", "there is no key ''", ERR_UNKNOWN},
        {"hgx-a100:nics", "nics has no value", ERR_INVALID},
        {"hgx-a100:nics=", "nics has no value", ERR_INVALID},
        {"hgx-a100:nics=4", "expected COUNTxRATE", ERR_INVALID},
        {"hgx-a100:nics=4x200", "'200', expected a rate with unit", ERR_INVALID},
        {"hgx-a100:nics=4x1e400Gb", "'1e400Gb', expected a rate", ERR_INVALID},
        {"hgx-a100:nics=4xnanGb", "'nanGb', expected a rate", ERR_INVALID},
        {"hgx-a100:nics=4x0Gb", "'0Gb', expected a rate", ERR_INVALID},
        {"hgx-a100:nics=12x200Gb", "at most one NIC for each of 8 GPUs, or a multiple",
         ERR_INVALID},
        {"hgx-a100:nics=-1x200Gb", "nics is '-1', expected a number from 1 to 1024", ERR_INVALID},
        {"hgx-a100:gpus=129", "gpus is '129', expected a number from 1 to 128", ERR_INVALID},
        {"hgx-a100:gpus=4,gpus=4", "gpus is given twice", ERR_INVALID},
        {"hgx-a100:oversub=nan", "oversub is 'nan', expected a number from 1", ERR_INVALID},
        {"hgx-a100:rails=maybe", "rails is 'maybe', expected yes or no", ERR_INVALID},
        {"hgx-a100:memory=lots", "memory is 'lots', expected a size", ERR_INVALID},
        {"hgx-a100:memory=512MiB", "device.context 1 GiB, expected less than memory 512 MiB",
         ERR_INVALID},
        {"hgx-a100:nvlink=300", "nvlink is '300', expected a rate with unit", ERR_INVALID},
        {"hgx-a100:nics=0,leaf=3", "leaf is given, and there are no NICs", ERR_INVALID},
        {"aws-p4d:oversub=2", "'aws-p4d' is one level: add leaf=NODES", ERR_INVALID},
        {"hgx-a10:gpus=4", "(did you mean 'hgx-a100'?)", ERR_UNKNOWN},
        {"hgx-a100:node=nosuch.xml", "'nosuch.xml'", ERR_IO},
        {"hgx-h100:node=tests/fuzz/corpus/topology/dump,gpus=2", "gpus is '2', expected 1, as",
         ERR_INVALID},
        {"hgx-h100:node=tests/fuzz/corpus/topology/dump,nics=1x400Gb",
         "nics is '1x400Gb', expected what the file says, 1x800Gb", ERR_INVALID},
        {"hgx-h200:network=aws-p55",
         "network: cluster 'aws-p55' is neither a bundled name nor a file "
         "(did you mean 'aws-p5'?)",
         ERR_UNKNOWN},
        {"hgx-h200:network=aws-p5:nics=0",
         "network is 'aws-p5:nics=0', expected a bundled name or a file", ERR_INVALID},
        {"hgx-h200:network", "network has no value", ERR_INVALID},
        {"hgx-h200:netwrk=aws-p5", "no key 'netwrk' (did you mean 'network'?)", ERR_UNKNOWN},
        {"gb200-nvl72:network=dgx-a100,leaf=20", "expected whole NVLink domains of 18 nodes",
         ERR_INVALID},
        {"gb200-nvl72:gpus=8", "NVLink domain of 144 GPUs", ERR_INVALID},
        {"gb200-nvl72:domain_nodes=19",
         "domain_nodes is '19', expected 1 to 18, the nodes of an NVLink domain of gb200-nvl72",
         ERR_INVALID},
        {"gb200-nvl72:domain_nodes=0", "domain_nodes is '0', expected 1 to 18", ERR_INVALID},
        {"gb200-nvl72-16trays:domain_nodes=18", "expected 1 to 16", ERR_INVALID},
        {"hgx-h100:domain_nodes=2", "expected 1: NVLink of hgx-h100 stays in a node", ERR_INVALID},
        {"gb200-nvl72:domain_node=2", "(did you mean 'domain_nodes'?)", ERR_UNKNOWN},
        {"gb200-nvl72:domain_nodes=16,leaf=100", "expected whole NVLink domains of 16 nodes",
         ERR_INVALID},
        {"gb200-nvl72:leaf=20", "expected whole NVLink domains of 18 nodes", ERR_INVALID},
    };

    arena_init(&arena);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ck_assert_msg(cluster_load(rows[i].what, &arena, &cl, &err) == -1, "%s", rows[i].what);
        ck_assert_msg(strstr(err.msg, rows[i].words) && err.code == rows[i].code, "%s\n%s (%s)",
                      rows[i].what, err.msg, err_name(err.code));
    }
    arena_release(&arena);
}
END_TEST

SUITE_MAIN("model/cluster_line", keys_change_what_they_name_and_nothing_else,
           nics_beyond_one_a_gpu_are_bonded, every_key_is_used, an_alias_is_the_bundled_cluster,
           trays_in_use_are_the_nvlink_domain, a_refusal_names_key_value_and_what_was_expected)
