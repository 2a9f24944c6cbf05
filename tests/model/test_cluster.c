/* Bundled clusters, the round trip through their file form, and every refusal with its words. */
#include "model/cluster/cluster.h"
#include "tests/suite.h"

#include "model/cluster/bundled.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static struct arena arena;
static struct cluster cl;
static struct err err;

static void load(const char *what)
{
    if (cluster_load(what, &arena, &cl, &err))
        ck_abort_msg("%s: %s", what, err.msg);
}

static void read_text(const char *text)
{
    if (cluster_from_json(text, strlen(text), "t", &arena, &cl, &err))
        ck_abort_msg("%s", err.msg);
}

static void same(const struct cluster *a, const struct cluster *b)
{
    for (size_t i = 0; i < cluster_n_fields(); i++) {
        struct cluster_field x = {0}, y = {0};
        bool in_a = cluster_field(a, i, &arena, &x);

        ck_assert_int_eq(in_a, cluster_field(b, i, &arena, &y));
        if (!in_a)
            continue;
        ck_assert_str_eq(x.path, y.path);
        ck_assert_str_eq(x.text, y.text);
        ck_assert_msg(!x.source == !y.source && (!x.source || !strcmp(x.source, y.source)),
                      "source of %s", x.path);
    }
    ck_assert_str_eq(a->name, b->name);
    ck_assert_str_eq(a->summary, b->summary);
    ck_assert_str_eq(a->source, b->source);
    ck_assert_str_eq(a->device.name, b->device.name);
    ck_assert_str_eq(a->nic_name, b->nic_name);
    ck_assert(!memcmp(&a->coll, &b->coll, sizeof(a->coll)));
    ck_assert(a->device.memory_bytes == b->device.memory_bytes);
    ck_assert(a->device.tf32_share == b->device.tf32_share);
    ck_assert(a->device.peak_flops == b->device.peak_flops && a->nic_Bps == b->nic_Bps);
    ck_assert(a->nvlink_Bps == b->nvlink_Bps && a->hop_s == b->hop_s);
    ck_assert(!memcmp(a->nic_of_gpu, b->nic_of_gpu, sizeof(a->nic_of_gpu)));
    ck_assert(!memcmp(a->switch_of_gpu, b->switch_of_gpu, sizeof(a->switch_of_gpu)));
    ck_assert(!memcmp(a->switch_of_nic, b->switch_of_nic, sizeof(a->switch_of_nic)));
}

static void round_trip(void)
{
    struct cluster first = cl;
    cJSON *tree = cluster_to_json(&cl);
    char *text = json_text(tree, true), *again;

    read_text(text);
    same(&first, &cl);
    json_free(tree);
    tree = cluster_to_json(&cl);
    again = json_text(tree, true);
    ck_assert_str_eq(text, again);
    mem_free(text);
    mem_free(again);
    json_free(tree);
}

START_TEST(each_bundled_cluster_loads_and_reads_back)
{
    arena_init(&arena);
    ck_assert_uint_ge(bundled_clusters_n, 14);
    for (size_t i = 0; i < bundled_clusters_n; i++) {
        load(bundled_clusters[i].name);
        ck_assert_str_eq(cl.name, bundled_clusters[i].name);
        ck_assert(*cl.summary && *cl.source);
        ck_assert_uint_eq(cl.gpus_per_node, strcmp(cl.name, "gb200-nvl72") ? 8 : 4);
        ck_assert_uint_eq(cl.n_nodes, 1);
        round_trip();
        ck_assert_int_eq(cluster_resize(&cl, 128, &err), 0);
    }
    arena_release(&arena);
}
END_TEST

/* cluster_load() refuses it too; here the failure names all of them. */
START_TEST(every_number_of_a_bundled_cluster_has_a_source)
{
    arena_init(&arena);
    for (size_t i = 0; i < bundled_clusters_n; i++) {
        ck_assert_int_eq(cluster_from_json((const char *)bundled_clusters[i].text,
                                           bundled_clusters[i].len, bundled_clusters[i].name,
                                           &arena, &cl, &err),
                         0);
        for (size_t f = 0; f < cluster_n_fields(); f++) {
            struct cluster_field x;

            if (cluster_field(&cl, f, &arena, &x))
                ck_assert_msg(x.source != NULL, "%s: %s", cl.name, x.path);
        }
    }
    arena_release(&arena);
}
END_TEST

/* What a node can send, in Gb/s, as the makers print it, and the memory of its GPUs in GB. */
START_TEST(nodes_have_the_network_and_the_memory_that_their_makers_print)
{
    static const struct {
        const char *name;
        double node_Gbps, gpu_GB;
    } rows[] = {
        {"nd-a100-v4", 1600, 40},    {"aws-p4d", 400, 40},    {"aws-p4de", 400, 80},
        {"oci-a100", 1600, 40},      {"aws-p5", 3200, 80},    {"gcp-a3mega", 1600, 80},
        {"hgx-h200-ndr", 3200, 141}, {"hgx-b200", 3200, 180}, {"gb200-nvl72", 1600, 186},
    };

    arena_init(&arena);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        double bytes;

        load(rows[i].name);
        bytes = (double)cl.device.memory_bytes;
        ck_assert_double_eq_tol(cl.nics_per_node * cl.nic_Bps * 8 / 1e9, rows[i].node_Gbps, 1e-6);
        /* makers print GB and mean something between 10^9 and 2^30 */
        ck_assert_msg(bytes > 0.97e9 * rows[i].gpu_GB && bytes <= 0x1p30 * rows[i].gpu_GB, "%s: %g",
                      rows[i].name, bytes);
    }
    arena_release(&arena);
}
END_TEST

START_TEST(an_nvlink_domain_as_one_node)
{
    struct cluster d;

    arena_init(&arena);
    load("gb200-nvl72");
    ck_assert_uint_eq(cluster_domain_gpus(&cl), 72);
    ck_assert_int_eq(cluster_resize(&cl, 40, &err), 0);
    d = cluster_by_domain(&cl);
    ck_assert_uint_eq(d.gpus_per_node, 72);
    ck_assert_uint_eq(d.nics_per_node, 72);
    ck_assert_uint_eq(d.n_nodes, 3); /* 18 + 18 + 4 trays */
    ck_assert_uint_eq(d.nodes_per_leaf, 8);
    for (uint32_t g = 0; g < 72; g++)
        ck_assert_uint_eq(d.nic_of_gpu[g], g);
    cl.gpus_per_node = 2; /* --gpus-per-node 2: a NIC each in every tray */
    d = cluster_by_domain(&cl);
    ck_assert_uint_eq(d.gpus_per_node, 36);
    ck_assert_uint_eq(d.nic_of_gpu[35], 17 * 4 + 1);
    load("dgx-a100");
    d = cluster_by_domain(&cl);
    ck_assert(!memcmp(&d, &cl, sizeof(d)));
    arena_release(&arena);
}
END_TEST

START_TEST(values_are_what_the_datasheets_print)
{
    arena_init(&arena);
    load("DGX-A100"); /* case does not matter */
    ck_assert_str_eq(cl.name, "dgx-a100");
    ck_assert_uint_eq(cl.device.memory_bytes, UINT64_C(81920) << 20);
    ck_assert(cl.device.peak_flops == 312e12 && cl.device.hbm_Bps == 2039e9);
    ck_assert_uint_eq(cl.device.n_sm, 108);
    ck_assert(cl.nvlink_Bps == 12 * 25e9 && cl.nvswitch && cl.nic_Bps == 25e9);
    ck_assert_uint_eq(cl.nics_per_node, 8);
    ck_assert_uint_eq(cl.pcie_switches, 4);
    ck_assert_uint_eq(cl.switch_of_gpu[5], 2);
    ck_assert_uint_eq(cl.switch_of_nic[7], 3);
    ck_assert(cl.rail_optimised && cl.nodes_per_leaf == 20 && cl.oversubscription == 1);
    load("a800-4hdr");
    ck_assert(cl.nvlink_Bps == 8 * 25e9);
    ck_assert_uint_eq(cl.nics_per_node, 4);
    ck_assert_uint_eq(cl.nic_of_gpu[6], 3);
    load("internevo-a100");
    ck_assert(cl.nic_Bps == 12.5e9);
    load("hgx-h100-ndr");
    ck_assert(cl.nic_Bps == 50e9 && cl.nvlink_Bps == 18 * 25e9);
    arena_release(&arena);
}
END_TEST

/* ---- texts of our own ---- */

#define DEVICE_TEXT                                                                                \
    "'device':{'name':'d','memory':'16GiB','context':'1GiB','fragmentation':0,"                    \
    "'peak_bf16':'100TFLOP/s','hbm':'1TB/s','sms':80,'gemm_efficiency':0.9,'gemm_k0':100,"         \
    "'hbm_efficiency':0.8,'attention':5e13,'sustained_factor':1,'launch':'5us','kernel':3e-6},"
#define NODE_TEXT                                                                                  \
    "'node':{'gpus':4,'nvlink':{'kind':'direct','rate':'50GB/s','efficiency':0.8},"                \
    "'nic':{'count':2,'rate':'100Gb/s','efficiency':0.9,'of_gpu':[0,0,1,1]},"                      \
    "'pcie':{'uplink':'16GB/"                                                                      \
    "s','switches':[{'gpus':[0,1],'nics':[0]},{'gpus':[2,3],'nics':[1]}]}},"
#define FABRIC_TEXT                                                                                \
    "'fabric':{'rail_optimised':false,'nodes_per_leaf':16,'oversubscription':2,'hop':'500ns'},"
#define COLL_TEXT                                                                                  \
    "'collectives':{'base':{'ll':'8us','ll128':'9us','simple':'10us'},"                            \
    "'step':{'ll':'1us','ll128':'1us','simple':'1us'},"                                            \
    "'net_step':{'ll':'4us','ll128':'7us','simple':'50us'},"                                       \
    "'rate_share':{'ll':0.1,'ll128':0.5,'simple':1},'ramp':'100us','ramp_at':'0.0002s'},"
#define HEAD_TEXT "{'format':'ballast-cluster','format_version':1,'name':'n',"
#define ALL_TEXT  HEAD_TEXT DEVICE_TEXT NODE_TEXT FABRIC_TEXT COLL_TEXT "'price_per_gpu_hour':2.5}"

/* With " for ', and the first `from` replaced by `to`. */
static char *variant(const char *from, const char *to)
{
    const char *at = strstr(ALL_TEXT, from);
    char *s;

    ck_assert_msg(at != NULL, "no %s", from);
    s = arena_printf(&arena, "%.*s%s%s", (int)(at - ALL_TEXT), ALL_TEXT, to, at + strlen(from));
    for (char *p = s; *p; p++)
        if (*p == '\'')
            *p = '"';
    return s;
}

START_TEST(quantities_take_units_or_base_units)
{
    arena_init(&arena);
    read_text(variant("", ""));
    ck_assert_uint_eq(cl.device.memory_bytes, UINT64_C(16) << 30);
    ck_assert(cl.device.attention_flops == 5e13 && cl.device.peak_flops == 1e14);
    ck_assert(cl.device.tf32_share == 0.5); /* not given */
    ck_assert(cl.nic_Bps == 12.5e9 && cl.coll.ramp_at_s == 2e-4 && cl.hop_s == 5e-7);
    ck_assert(cl.price_per_gpu_hour == 2.5);
    round_trip();
    read_text(variant("'memory':'16GiB'", "'memory':17179869185"));
    ck_assert_uint_eq(cl.device.memory_bytes, (UINT64_C(16) << 30) + 1);
    round_trip();
    read_text(variant("'rate':'50GB/s'", "'rate':33333333333.333332"));
    ck_assert(cl.nvlink_Bps == 33333333333.333332);
    round_trip();
    arena_release(&arena);
}
END_TEST

START_TEST(a_field_may_carry_its_source)
{
    struct cluster_field f;
    size_t i = 0;

    arena_init(&arena);
    read_text(variant("'hbm':'1TB/s'", "'hbm':{'value':'1TB/s','source':'a datasheet'}"));
    while (!cluster_field(&cl, i, &arena, &f) || strcmp(f.path, "device.hbm") != 0)
        ck_assert_uint_lt(++i, cluster_n_fields());
    ck_assert_str_eq(f.source, "a datasheet");
    ck_assert_str_eq(f.text, "1000GB/s");
    round_trip();
    arena_release(&arena);
}
END_TEST

START_TEST(kernels_may_have_rates_of_their_own)
{
    struct cluster_field f;
    size_t i = 0;

    arena_init(&arena);
    read_text(variant("'kernel':3e-6", "'kernel':3e-6,'kernel_rates':{'value':{'adamw':'250GB/s',"
                                       "'attention_backward':'40TFLOP/s','gelu':7e11},"
                                       "'source':'measured'}"));
    ck_assert(cl.device.kernel_rate[KERNEL_ADAMW] == 250e9);
    ck_assert(cl.device.kernel_rate[KERNEL_ATTENTION_BACKWARD] == 40e12);
    ck_assert(cl.device.kernel_rate[KERNEL_GELU] == 7e11);
    for (int k = 0; k < KERNEL_N; k++)
        ck_assert(k == KERNEL_ADAMW || k == KERNEL_ATTENTION_BACKWARD || k == KERNEL_GELU ||
                  !(cl.device.kernel_rate[k] > 0));
    do
        ck_assert_uint_lt(i, cluster_n_fields());
    while (!cluster_field(&cl, i++, &arena, &f) || strcmp(f.path, "device.kernel_rates") != 0);
    ck_assert_str_eq(f.source, "measured");
    ck_assert_ptr_nonnull(strstr(f.text, "\"adamw\":\"250GB/s\""));
    round_trip();
    read_text(variant("", "")); /* none: the table is not written either */
    for (i = 0; i < cluster_n_fields(); i++)
        ck_assert(!cluster_field(&cl, i, &arena, &f) || strcmp(f.path, "device.kernel_rates") != 0);
    round_trip();
    arena_release(&arena);
}
END_TEST

START_TEST(channels_may_be_said)
{
    arena_init(&arena);
    read_text(variant("'rate_share'", "'channels':{'ring':12,'nic':4,'nvls':8,'p2p':16},"
                                      "'rate_share'"));
    ck_assert(cl.coll.channels[CHANNELS_RING] == 12 && cl.coll.channels[CHANNELS_NIC] == 4);
    ck_assert(cl.coll.channels[CHANNELS_NVLS] == 8 && cl.coll.channels[CHANNELS_P2P] == 16);
    round_trip();
    arena_release(&arena);
}
END_TEST

START_TEST(gpus_spread_over_nics_in_order)
{
    arena_init(&arena);
    read_text(variant(",'of_gpu':[0,0,1,1]", ""));
    ck_assert_uint_eq(cl.nic_of_gpu[0], 0);
    ck_assert_uint_eq(cl.nic_of_gpu[1], 0);
    ck_assert_uint_eq(cl.nic_of_gpu[2], 1);
    ck_assert_uint_eq(cl.nic_of_gpu[3], 1);
    arena_release(&arena);
}
END_TEST

#define NVLINK "'nvlink':{'kind':'direct','rate':'50GB/s','efficiency':0.8},"
#define DOMAINS(text)                                                                              \
    "'nvlink':{'kind':'direct','rate':'50GB/s','efficiency':0.8,'domains':" text "},"

/* Domains of two GPUs that are no neighbours, PCIe with what it reaches, CPUs; no NVLink at all. */
START_TEST(nvlink_may_join_some_gpus_or_none)
{
    arena_init(&arena);
    read_text(variant(NVLINK, DOMAINS("[[0,2],[3,1]]")));
    ck_assert(cluster_is_split(&cl));
    ck_assert_uint_eq(cluster_nvlink_gpus(&cl), 2);
    ck_assert_uint_eq(cluster_domain_gpus(&cl), 4);
    ck_assert(!memcmp(cl.domain_of_gpu, (uint8_t[]){0, 1, 0, 1}, 4));
    round_trip();
    read_text(variant(NVLINK, DOMAINS("[[0,1,2,3]]")));
    ck_assert(!cluster_is_split(&cl));
    round_trip();
    read_text(variant(NVLINK, ""));
    ck_assert(cluster_is_split(&cl) && cl.domain_gpus == 1 && !(cl.nvlink_Bps > 0));
    round_trip();
    read_text(
        variant("'uplink':", "'efficiency':0.75,'cpus':[[1],[0]],'cpu_link':'10GB/s','uplink':"));
    ck_assert(cl.pcie_efficiency == 0.75 && cl.n_cpus == 2 && cl.cpu_Bps == 1e10);
    ck_assert(cl.cpu_of_switch[0] == 1 && cl.cpu_of_switch[1] == 0);
    round_trip();
    arena_release(&arena);
}
END_TEST

START_TEST(a_node_without_nics_is_one_node)
{
    static const char text[] =
        HEAD_TEXT DEVICE_TEXT "'node':{'gpus':4,'nvlink':{'kind':'direct','rate':'50GB/s',"
                              "'efficiency':0.8}},'collectives':{'base':{'ll':0,'ll128':0,"
                              "'simple':0},'step':{'ll':0,'ll128':0,'simple':0},'rate_share':"
                              "{'ll':1,'ll128':1,'simple':1},'ramp':0,'ramp_at':0}}";
    char *s;

    arena_init(&arena);
    s = arena_strdup(&arena, text);
    for (char *p = s; *p; p++)
        if (*p == '\'')
            *p = '"';
    read_text(s);
    ck_assert_uint_eq(cl.nics_per_node, 0);
    round_trip();
    ck_assert_int_eq(cluster_resize(&cl, 1, &err), 0);
    ck_assert_int_eq(cluster_resize(&cl, 2, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "has no NICs"));
    arena_release(&arena);
}
END_TEST

static const struct {
    const char *from, *to;
    enum err_code code;
    const char *says;
} refusals[] = {
    {"'ballast-cluster'", "'ballast-plan'", ERR_PARSE,
     "'ballast-plan', expected 'ballast-cluster'"},
    {"'format_version':1", "'format_version':2", ERR_UNSUPPORTED, "has format_version 2"},
    {"'name':'n',", "", ERR_PARSE, "has no 'name'"},
    {"'name':'n'", "'name':''", ERR_INVALID, "has an empty 'name'"},
    {"'name':'n'", "'name':'n','name':'m'", ERR_PARSE, "name"},
    {"'gpus':4", "'gpu':4", ERR_UNKNOWN, "node has the unknown key 'gpu' (did you mean 'gpus'?)"},
    {"'fabric'", "'fabrik'", ERR_UNKNOWN, "(did you mean 'fabric'?)"},
    {"'sms':80,", "", ERR_PARSE, "device has no 'sms'"},
    {"'sms':80", "'sms':null", ERR_PARSE, "device has null for 'sms'"},
    {"'sms':80", "'sms':80.5", ERR_INVALID, "device.sms is 80.5"},
    {"'sms':80", "'sms':0", ERR_INVALID, "device.sms is 0"},
    {"'sms':80", "'sms':80,'collective_sms':80", ERR_INVALID,
     "device.collective_sms 80, expected less than sms 80"},
    {"'sms':80", "'sms':80,'collective_sms':-1", ERR_INVALID, "device.collective_sms is -1"},
    {"'hbm':'1TB/s'", "'hbm':'1TJ/s'", ERR_INVALID, "device.hbm is wrong"},
    {"'hbm':'1TB/s'", "'hbm':0", ERR_INVALID, "device.hbm is 0"},
    {"'hbm':'1TB/s'", "'hbm':{'value':'1TB/s','sorce':'x'}", ERR_UNKNOWN, "did you mean 'source'"},
    {"'hbm':'1TB/s'", "'hbm':{'value':'1TB/s','source':'x','y':1}", ERR_UNKNOWN, "key 'y'"},
    {"'hbm':'1TB/s'", "'hbm':{'source':'x'}", ERR_PARSE, "device.hbm has no 'value'"},
    {"'100TFLOP/s'", "'100TFLOP'", ERR_INVALID, "device.peak_bf16 is wrong"},
    {"'100TFLOP/s'", "'100TiFLOP/s'", ERR_INVALID, "not a rate of arithmetic"},
    {"'gemm_efficiency':0.9", "'gemm_efficiency':1.1", ERR_INVALID,
     "device.gemm_efficiency is 1.1"},
    {"'gemm_efficiency':0.9", "'gemm_efficiency':0", ERR_INVALID, "device.gemm_efficiency is 0"},
    {"'fragmentation':0", "'fragmentation':-0.1", ERR_INVALID, "device.fragmentation is -0.1"},
    {"'sustained_factor':1", "'sustained_factor':0.5", ERR_INVALID, "sustained_factor is 0.5"},
    {"'context':'1GiB'", "'context':'16GiB'", ERR_INVALID, "less than memory 16 GiB"},
    {"'memory':'16GiB'", "'memory':17179869184.5", ERR_INVALID, "expected whole bytes"},
    {"'attention':5e13", "'attention':2e14", ERR_INVALID, "above device.peak_bf16"},
    {"'kernel':3e-6", "'kernel':3e-6,'kernel_rates':{'adamv':1e9}", ERR_UNKNOWN,
     "device.kernel_rates has the unknown key 'adamv' (did you mean 'adamw'?)"},
    {"'kernel':3e-6", "'kernel':3e-6,'kernel_rates':{'gemm':1e9}", ERR_UNKNOWN, "key 'gemm'"},
    {"'kernel':3e-6", "'kernel':3e-6,'kernel_rates':{'add':0}", ERR_INVALID,
     "device.kernel_rates.add is 0"},
    {"'kernel':3e-6", "'kernel':3e-6,'kernel_rates':{'add':'1TFLOP/s'}", ERR_INVALID,
     "device.kernel_rates.add is wrong"},
    {"'kernel':3e-6", "'kernel':3e-6,'kernel_rates':{'add':'2TB/s'}", ERR_INVALID,
     "has device.kernel_rates.add above device.hbm"},
    {"'kernel':3e-6", "'kernel':3e-6,'kernel_rates':{'attention':'200TFLOP/s'}", ERR_INVALID,
     "has device.kernel_rates.attention above device.peak_bf16"},
    {"'kernel':3e-6", "'kernel':3e-6,'kernel_rates':[1]", ERR_PARSE, "device.kernel_rates"},
    {"'gpus':4", "'gpus':129", ERR_INVALID, "node.gpus is 129, expected"},
    {"'gpus':4", "'gpus':0", ERR_INVALID, "node.gpus is 0"},
    {"'rate':'50GB/s'", "'rate':'0GB/s'", ERR_INVALID, "node.nvlink.rate is"},
    {"'rate':'50GB/s'", "'rate':-5", ERR_INVALID, "node.nvlink.rate is -5"},
    {"'direct'", "'nvswich'", ERR_UNKNOWN, "node.nvlink.kind"},
    {NVLINK, DOMAINS("[[0,1],[2]]"), ERR_INVALID, "node.nvlink.domains leave out GPU 3"},
    {NVLINK, DOMAINS("[[0,1],[1,2,3]]"), ERR_INVALID, "is 1, which domain 0 has already"},
    {NVLINK, DOMAINS("[[0,1],[2,4]]"), ERR_INVALID, "is 4, and the node has 4 GPUs"},
    {NVLINK, DOMAINS("[[0,1,2],[3]]"), ERR_INVALID, "are of 3 GPUs and of 1 (domain 1), expected"},
    {NVLINK, DOMAINS("[[0],[1],[2],[3]]"), ERR_INVALID,
     "are of one GPU each: leave out node.nvlink"},
    {NVLINK, DOMAINS("[[0,1],[2,3]],'domain_nodes':2"), ERR_INVALID,
     "has NVLink domains of 2 GPUs and of 2 nodes"},
    {"'uplink':", "'cpus':[[0],[1]],'uplink':", ERR_INVALID,
     "has node.pcie.cpus without node.pcie.cpu_link"},
    {"'uplink':", "'cpu_link':'1GB/s','uplink':", ERR_INVALID,
     "has node.pcie.cpu_link without node.pcie.cpus"},
    {"'uplink':", "'cpus':[[0]],'cpu_link':'1GB/s','uplink':", ERR_INVALID,
     "node.pcie.cpus leave out PCIe switch 1"},
    {"'count':2", "'count':129", ERR_INVALID, "node.nic.count is 129"},
    {"'count':2", "'count':0", ERR_INVALID, "node.nic.count is 0"},
    {"[0,0,1,1]", "[0,0,1,2]", ERR_INVALID, "node.nic.of_gpu[3] is 2"},
    {"[0,0,1,1]", "[0,0,1]", ERR_INVALID, "has 3 entries: GPU 3 of 4 has no NIC"},
    {"[0,0,1,1]", "[0,0,1,null]", ERR_PARSE, "node.nic.of_gpu[3]"},
    {"[0,0,1,1]", "[0,0,1,1,1]", ERR_INVALID, "has 5 entries, and the node has 4 GPUs"},
    {"'gpus':[2,3]", "'gpus':[2]", ERR_INVALID, "node.pcie.switches leave out GPU 3"},
    {"'gpus':[2,3]", "'gpus':[2,1]", ERR_INVALID, "is 1, which switch 0 has already"},
    {"'gpus':[2,3]", "'gpus':[2,4]", ERR_INVALID, "is 4, and the node has 4 gpus"},
    {",'nics':[1]", "", ERR_INVALID, "leave out NIC 1"},
    {"'switches':[", "'switches':[[],", ERR_PARSE, "node.pcie.switches[0]"},
    {"'oversubscription':2", "'oversubscription':0.5", ERR_INVALID,
     "fabric.oversubscription is 0.5"},
    {"'nodes_per_leaf':16", "'nodes_per_leaf':0", ERR_INVALID, "without up-links"},
    {FABRIC_TEXT, "", ERR_PARSE, "has no 'fabric'"},
    {"'nic':{'count':2,'rate':'100Gb/s','efficiency':0.9,'of_gpu':[0,0,1,1]},", "", ERR_INVALID,
     "is 0, and the node has 0 nics"},
    {"'hop':'500ns'", "'hop':'500'", ERR_INVALID, "fabric.hop"},
    {"'ll128':0.5", "'ll129':0.5", ERR_UNKNOWN, "rate_share has the unknown key 'll129'"},
    {"'ll128':0.5,", "", ERR_PARSE, "collectives.rate_share has no 'll128'"},
    {"'rate_share'", "'channels':{'ring':24,'nic':2,'nvls':16},'rate_share'", ERR_PARSE,
     "collectives.channels has no 'p2p'"},
    {"'rate_share'", "'channels':{'ring':24,'nics':2,'nvls':16,'p2p':32},'rate_share'", ERR_UNKNOWN,
     "collectives.channels has the unknown key 'nics' (did you mean 'nic'?)"},
    {"'rate_share'", "'channels':{'ring':0,'nic':2,'nvls':16,'p2p':32},'rate_share'", ERR_INVALID,
     "collectives.channels.ring is 0"},
    {"'rate_share'", "'channels':{'ring':24,'nic':2.5,'nvls':16,'p2p':32},'rate_share'",
     ERR_INVALID, "collectives.channels.nic is 2.5"},
    {"'rate_share'", "'channels':{'ring':24,'nic':2,'nvls':16,'p2p':65},'rate_share'", ERR_INVALID,
     "collectives.channels.p2p is 65"},
    {"'price_per_gpu_hour':2.5", "'price_per_gpu_hour':-1", ERR_INVALID, "is -1"},
    {"2.5}", "2.5}}", ERR_PARSE, ""},
};

START_TEST(a_refusal_says_what_and_where)
{
    arena_init(&arena);
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        char *text = variant(refusals[i].from, refusals[i].to);

        ck_assert_msg(cluster_from_json(text, strlen(text), "t", &arena, &cl, &err) == -1,
                      "accepted: %s", refusals[i].to);
        ck_assert_msg(strstr(err.msg, refusals[i].says) && !strncmp(err.msg, "'t'", 3),
                      "%s -> %s: %s", refusals[i].from, refusals[i].to, err.msg);
        ck_assert_msg(err.code == refusals[i].code, "%s: %s", err.msg, err_name(err.code));
    }
    arena_release(&arena);
}
END_TEST

START_TEST(nics_are_needed_by_what_is_between_nodes)
{
    static const char nic[] =
        "'nic':{'count':2,'rate':'100Gb/s','efficiency':0.9,'of_gpu':[0,0,1,1]},";
    char *text, *p;

    arena_init(&arena);
    text = variant(nic, "");
    p = strstr(text, ",\"nics\":[0]");
    memset(p, ' ', strlen(",\"nics\":[0]"));
    p = strstr(text, ",\"nics\":[1]");
    memset(p, ' ', strlen(",\"nics\":[1]"));
    ck_assert_int_eq(cluster_from_json(text, strlen(text), "t", &arena, &cl, &err), -1);
    ck_assert_msg(strstr(err.msg, "fabric is given, but node.nic is not") != NULL, "%s", err.msg);
    arena_release(&arena);
}
END_TEST

static void refused(const char *what, enum err_code code, const char *says)
{
    ck_assert_int_eq(cluster_load(what, &arena, &cl, &err), -1);
    ck_assert_msg(strstr(err.msg, says) != NULL, "%s", err.msg);
    ck_assert_int_eq(err.code, code);
}

START_TEST(what_cannot_be_loaded_says_so)
{
    arena_init(&arena);
    refused("dgx-a10", ERR_UNKNOWN, "(did you mean 'dgx-a100'?)");
    refused("xyzzy", ERR_UNKNOWN, "neither a bundled name nor a file; give");
    refused("nowhere/topo.json", ERR_IO, "nowhere/topo.json");
    refused("system.xml", ERR_IO, "'system.xml'");
    refused("hgx-a10:nics=8x200Gb", ERR_UNKNOWN, "(did you mean 'hgx-a100'?)");
    arena_release(&arena);
}
END_TEST

START_TEST(a_cluster_has_limits)
{
    arena_init(&arena);
    load("dgx-a100");
    ck_assert_int_eq(cluster_resize(&cl, 131072, &err), 0);
    ck_assert_uint_eq(cl.n_nodes, 131072);
    ck_assert_int_eq(cluster_resize(&cl, 131073, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "131073 nodes, expected 1 to 131072"));
    ck_assert_int_eq(cluster_resize(&cl, 0, &err), -1);
    cl.gpus_per_node = 128;
    ck_assert_int_eq(cluster_resize(&cl, 131072, &err), 0); /* 2^24 */
    cl.gpus_per_node = 129;
    ck_assert_int_eq(cluster_resize(&cl, 131072, &err), -1);
    ck_assert_ptr_nonnull(strstr(err.msg, "more than 16777216 ranks"));
    arena_release(&arena);
}
END_TEST

SUITE_MAIN("model/cluster", each_bundled_cluster_loads_and_reads_back,
           every_number_of_a_bundled_cluster_has_a_source,
           nodes_have_the_network_and_the_memory_that_their_makers_print,
           an_nvlink_domain_as_one_node, nvlink_may_join_some_gpus_or_none,
           values_are_what_the_datasheets_print, quantities_take_units_or_base_units,
           a_field_may_carry_its_source, kernels_may_have_rates_of_their_own, channels_may_be_said,
           gpus_spread_over_nics_in_order, a_node_without_nics_is_one_node,
           a_refusal_says_what_and_where, nics_are_needed_by_what_is_between_nodes,
           what_cannot_be_loaded_says_so, a_cluster_has_limits)
