/* What lies between nodes is taken over from another cluster or dropped, field by field, and nothing else is. */
#include "model/cluster/bundled.h"
#include "model/cluster/cluster_inner.h"
#include "tests/suite.h"

#include <string.h>

static struct arena arena;
static struct cluster cl;
static struct err err;

/* Every number that a cable, a NIC or a switch has a say in, and no GPU alone. */
static const char *const of_network[] = {"node.nic.count",
                                         "node.nic.rate",
                                         "node.nic.efficiency",
                                         "node.nic.of_gpu",
                                         "fabric.rail_optimised",
                                         "fabric.nodes_per_leaf",
                                         "fabric.oversubscription",
                                         "fabric.hop",
                                         "fabric.sharp",
                                         "collectives.net_step",
                                         "collectives.tree_step",
                                         "collectives.net_ramp",
                                         "collectives.net_ramp_at",
                                         "collectives.tree_ramp",
                                         "collectives.tree_ramp_at",
                                         "collectives.no_ll128",
                                         "collectives.tree_rate",
                                         "collectives.net_band",
                                         "collectives.nvls.net_step",
                                         "collectives.nvls.net_rate",
                                         "collectives.nvls.net_ramp",
                                         "collectives.nvls.net_ramp_at",
                                         "collectives.p2p.net_rate",
                                         "collectives.p2p.net_peer",
                                         "collectives.p2p.net_fill"};
enum { N_OF_NETWORK = sizeof(of_network) / sizeof(of_network[0]) };

static bool is_of_network(const char *path)
{
    for (size_t i = 0; i < N_OF_NETWORK; i++)
        if (!strcmp(path, of_network[i]))
            return true;
    return false;
}

static void load(const char *what)
{
    if (cluster_load(what, &arena, &cl, &err))
        ck_abort_msg("%s: %s", what, err.msg);
}

static struct cluster loaded(const char *what)
{
    load(what);
    return cl;
}

/* A field by its path; all NULL: the cluster does not have it. */
static struct cluster_field at(const struct cluster *c, const char *path)
{
    struct cluster_field f;

    for (size_t i = 0; i < cluster_n_fields(); i++)
        if (cluster_field(c, i, &arena, &f) && !strcmp(f.path, path))
            return f;
    return (struct cluster_field){NULL, NULL, NULL};
}

static void ck_text(const char *path, const char *text)
{
    const char *is = at(&cl, path).text;

    ck_assert_msg(!is == !text && (!is || !strcmp(is, text)), "%s is %s, expected %s", path,
                  is ? is : "absent", text ? text : "none");
}

static void ck_source(const char *path, const char *words)
{
    const char *source = at(&cl, path).source;

    ck_assert_msg(source && strstr(source, words), "%s has the source '%s', expected '%s'", path,
                  source ? source : "none", words);
}

/* All values of the cluster other than they were, within their range; each with a source of its own. */
static void change_all(struct cluster *c)
{
    const char **sources = cluster_own_sources(c, &arena);

    for (int i = 0; i < N_FIELDS; i++) {
        const struct field *f = &cluster_fields[i];
        const char *const *names = cluster_names_of(f->kind);
        double *x = member(c, f);
        size_t n = 1;

        sources[i] = arena_printf(&arena, "theirs: %s", cluster_path_of(f, &arena));
        switch (f->kind) {
        case RATE:
        case TIME:
        case FLOPS:
        case NUMBER:
        case TIMES3:
        case SHARES3:
        case TAILS:
        case BANDS:
        case COUNTS:
            for (n = names ? 0 : 1; names && names[n]; n++)
                ;
            for (size_t k = 0; k < n; k++)
                x[k] = x[k] > f->lo ? x[k] * 0.75 + f->lo * 0.25 : f->lo + (f->hi - f->lo) / 1024;
            break;
        case U32:
            if (f->presence != REQUIRED || f->section != NODE)
                *(uint32_t *)member(c, f) += 2;
            break;
        case FLAG:
        case LINK_KIND:
            *(bool *)member(c, f) = !*(bool *)member(c, f);
            break;
        case BYTES:
            *(uint64_t *)member(c, f) += 1;
            break;
        case NIC_OF_GPU:
        case SWITCHES:
        case DOMAINS:
        case CPUS:
        case KERNEL_RATES:
        case GEMM_GRID:
        case TABLES:
            break;
        }
    }
    c->nics_per_node = 4;
    for (uint32_t g = 0; g < 8; g++)
        c->nic_of_gpu[g] = (uint8_t)(3 - g / 2);
    c->nic_name = "theirs";
    c->coll.tables[0] = (struct measured_table){3, 1, 8, 0};
    c->coll.tables[1] = (struct measured_table){3, 16, 8, 0};
    c->coll.n_tables = 2;
}

START_TEST(each_field_of_the_network_is_taken_over_and_no_other)
{
    struct cluster base, from;
    uint32_t taken = 0;

    arena_init(&arena);
    base = from = loaded("hgx-h200-ndr");
    change_all(&from);
    from.device.compute_capability = base.device.compute_capability; /* their tables hold */
    from.domain_nodes = base.domain_nodes;
    ck_assert_int_eq(cluster_take_network(&cl, &from, "x", &arena, &err), 0);
    for (size_t i = 0; i < cluster_n_fields(); i++) {
        struct cluster_field f;
        const char *path = cluster_path_of(&cluster_fields[i], &arena);
        const struct cluster *as = is_of_network(path) ? &from : &base;

        if (!strcmp(path, "collectives.tables") || !strcmp(path, "node.pcie.switches"))
            continue;
        ck_text(path, at(as, path).text);
        if (!cluster_field(&cl, i, &arena, &f))
            continue;
        ck_assert_str_eq(f.source, as == &from ? arena_printf(&arena, "network=x: theirs: %s", path)
                                               : at(&base, path).source);
        if (as == &from)
            ck_assert_msg(!at(&base, path).text || strcmp(f.text, at(&base, path).text),
                          "%s was not another's", path);
        taken += as == &from;
    }
    ck_assert_uint_eq(taken, N_OF_NETWORK);
    ck_assert_str_eq(cl.nic_name, "theirs");
    ck_assert_int_eq(cluster_recheck(&cl, "t", &arena, &err), 0);
    arena_release(&arena);
}
END_TEST

/* Tables in a node stay, those over nodes are theirs; NICs hang where the node's switches have their first GPU. */
START_TEST(tables_and_switches_are_of_both)
{
    struct cluster from;

    arena_init(&arena);
    from = loaded("hgx-h100-ndr");
    change_all(&from);
    from.device.compute_capability = 9;
    load("hgx-h200-ndr"); /* two GPUs and two NICs a switch */
    ck_assert_int_eq(cluster_take_network(&cl, &from, "x", &arena, &err), 0);
    ck_text("collectives.tables",
            "{\"all_reduce\":[\"2\",\"8\"],\"all_gather\":[\"2\",\"8\"],\"reduce_scatter\":[\"2\","
            "\"8\"],\"broadcast\":[\"16x8\"],\"alltoall\":[\"2\",\"8\"],\"sendrecv\":[\"2\"]}");
    ck_source("collectives.tables",
              "over nodes network=x: theirs: collectives.tables; in a node: ");
    ck_text("node.pcie.switches", "[{\"gpus\":[0,1],\"nics\":[3]},{\"gpus\":[2,3],\"nics\":[2]},"
                                  "{\"gpus\":[4,5],\"nics\":[1]},{\"gpus\":[6,7],\"nics\":[0]}]");
    ck_source("node.pcie.switches", "network=x: each NIC beside its first GPU");
    from.coll.n_tables = MEASURED_MAX;
    for (uint32_t i = 0; i < MEASURED_MAX; i++)
        from.coll.tables[i] = (struct measured_table){0, 2 + i, 8, 0};
    load("hgx-h200-ndr");
    ck_assert_int_eq(cluster_take_network(&cl, &from, "x", &arena, &err), -1);
    ck_assert(strstr(err.msg, "'hgx-h200-ndr' and 'x' have more than 64 tables together"));
    arena_release(&arena);
}
END_TEST

START_TEST(its_own_network_changes_nothing)
{
    struct cluster base;

    arena_init(&arena);
    for (size_t b = 0; b < bundled_clusters_n; b++) {
        const char *name = bundled_clusters[b].name;

        base = loaded(name);
        load(arena_printf(&arena, "%s:network=%s", name, name));
        for (size_t i = 0; i < cluster_n_fields(); i++) {
            const char *path = cluster_path_of(&cluster_fields[i], &arena);

            ck_text(path, at(&base, path).text);
        }
        ck_assert(!memcmp(&cl.coll.nvls, &base.coll.nvls, sizeof(base.coll.nvls)));
        ck_assert(cl.coll.net_band[BAND_LARGE] == base.coll.net_band[BAND_LARGE]);
        ck_assert_str_eq(cl.nic_name, base.nic_name);
        if (base.pcie_switches)
            ck_assert_str_eq(at(&cl, "node.pcie.switches").source,
                             at(&base, "node.pcie.switches").source);
    }
    arena_release(&arena);
}
END_TEST

/* Tables are of a pair of GPUs and network: of H100 and EFA, not of B200 and EFA. */
START_TEST(bands_hold_for_the_generation_that_was_measured)
{
    arena_init(&arena);
    load("hgx-h200-ndr:network=aws-p5");
    ck_text("collectives.net_band", "{\"small\":0.25,\"medium\":0.12,\"large\":0.06}");
    load("hgx-h200-ndr:network=aws-p5,nics=32x100Gb"); /* as p5 has them */
    ck_text("collectives.net_band", "{\"small\":0.25,\"medium\":0.12,\"large\":0.06}");
    load("hgx-h200-ndr:network=aws-p5,nics=16x100Gb");
    ck_text("collectives.net_band", NULL);
    ck_source("node.nic.efficiency", "assumed: as aws-p5: network=aws-p5: fit");
    load("hgx-h200-ndr:nics=8x200Gb");
    ck_text("collectives.net_band", NULL);
    load("hgx-b200:network=aws-p5");
    ck_text("collectives.net_band", NULL);
    ck_text("collectives.band", "{\"small\":0.13,\"medium\":0.2,\"large\":0.14}");
    ck_assert(!strstr(at(&cl, "collectives.tables").text, "x"));
    ck_assert(!strstr(at(&cl, "collectives.tables").source, "network="));
    load("hgx-b200:network=gb200-nvl72"); /* one generation, and two GPUs a NIC */
    ck_text("collectives.net_band", NULL);
    load("a100-pcie:network=dgx-a100"); /* PCIe in the node: no table is of it */
    ck_text("collectives.net_band", NULL);
    arena_release(&arena);
}
END_TEST

START_TEST(what_the_other_lacks_is_kept_or_absent)
{
    struct cluster base, from;

    arena_init(&arena);
    base = loaded("hgx-h100-ndr");
    load("hgx-h100-ndr:network=aws-p4de"); /* A100 has no multicast */
    ck_text("collectives.nvls.net_step", at(&base, "collectives.nvls.net_step").text);
    ck_source("collectives.nvls.net_step",
              "kept, as network=aws-p4de has no collectives.nvls: fit");
    ck_text("collectives.no_ll128", "true");
    from = loaded("aws-p5"); /* rings' ramp also over nodes, and no measured tree */
    from.coll.net_ramp_s = from.coll.net_ramp_at_s = 0;
    memset(from.coll.tree_step_s, 0, sizeof(from.coll.tree_step_s));
    load("hgx-h100-ndr");
    ck_assert_int_eq(cluster_take_network(&cl, &from, "x", &arena, &err), 0);
    ck_text("collectives.net_ramp", NULL);
    ck_text("collectives.tree_step", NULL);
    ck_text("collectives.net_step", at(&from, "collectives.net_step").text);
    load("dgx-a100:network=hgx-h100-ndr"); /* ... nor does it get any */
    ck_assert(!(cl.coll.nvls.net_step_s > 0) && !(cl.coll.nvls.net_rate > 0));
    arena_release(&arena);
}
END_TEST

/* A node without NICs gets all of a network; of NVLSTree's step, which an A100's has not, what trees take. */
START_TEST(a_node_without_nics_gets_a_network)
{
    struct cluster node, from;

    arena_init(&arena);
    node = loaded("hgx-h100-ndr:nics=0");
    from = loaded("aws-p4de");
    cl = node;
    ck_assert_int_eq(cluster_take_network(&cl, &from, "aws-p4de", &arena, &err), 0);
    ck_assert_int_eq(cluster_recheck(&cl, "t", &arena, &err), 0);
    ck_assert_uint_eq(cl.nics_per_node, 4);
    ck_text("collectives.net_step", at(&from, "collectives.net_step").text);
    ck_assert(cl.coll.nvls.net_step_s == from.coll.tree_step_s[PROTOCOL_SIMPLE]);
    ck_source("collectives.nvls.net_step", "assumed: as trees by Simple, of network=aws-p4de");
    ck_assert_uint_eq(cl.switch_of_nic[3], 3); /* GPUs 6 and 7 use it */
    ck_assert_int_eq(cluster_take_network(&cl, &node, "y", &arena, &err), -1);
    ck_assert(strstr(err.msg, "'y' has no NICs, and nothing is known of a network"));
    arena_release(&arena);
}
END_TEST

START_TEST(nics_and_leaves_fit_the_node)
{
    arena_init(&arena);
    load("gb200-nvl72:network=dgx-a100"); /* 8 NICs and 4 GPUs; leaves of 20 nodes, domains of 18 */
    ck_assert_uint_eq(cl.nics_per_node, 4);
    ck_assert(cl.nic_Bps == 50e9);
    ck_text("node.nic.of_gpu", "[0,1,2,3]");
    ck_source("node.nic.rate", "network=dgx-a100: NICs of a GPU as one: HDR");
    ck_assert_str_eq(cl.nic_name, "");
    ck_assert_uint_eq(cl.nodes_per_leaf, 18);
    ck_source("fabric.nodes_per_leaf", "network=dgx-a100: whole NVLink domains of the 20 nodes: ");
    load("hgx-h200-ndr:network=gb200-nvl72"); /* 4 NICs and 8 GPUs */
    ck_text("node.nic.of_gpu", "[0,0,1,1,2,2,3,3]");
    ck_source("node.nic.of_gpu", "network=gb200-nvl72: spread in order");
    ck_assert_uint_eq(cl.nodes_per_leaf, 144);
    load("hgx-h100-ndr:gpus=4,network=aws-p5"); /* the first four, whatever the order of the text */
    ck_assert(cl.nics_per_node == 4 && cl.nic_Bps == 50e9);
    load("hgx-h100-ndr:oversub=2,leaf=16,rails=yes,network=aws-p5");
    ck_assert(cl.oversubscription == 2 && cl.nodes_per_leaf == 16 && cl.rail_optimised);
    ck_source("fabric.hop", "network=aws-p5: ");
    arena_release(&arena);
}
END_TEST

START_TEST(a_dropped_network_leaves_nothing)
{
    struct cluster base;

    arena_init(&arena);
    load("gcp-a3mega");
    change_all(&cl);
    base = cl;
    cluster_drop_nics(&cl);
    for (size_t i = 0; i < cluster_n_fields(); i++) {
        const struct field *f = &cluster_fields[i];
        const char *path = cluster_path_of(f, &arena);
        static const double zero[4];

        ck_assert_msg(!at(&cl, path).text == (is_of_network(path) || !at(&base, path).text), "%s",
                      path);
        if (is_of_network(path) && cluster_names_of(f->kind))
            ck_assert_msg(!memcmp(member(&cl, f), zero, 3 * sizeof(double)), "%s", path);
        if (is_of_network(path) && (f->kind == TIME || f->kind == NUMBER || f->kind == RATE))
            ck_assert_msg(*(double *)member(&cl, f) == (f->lo == 1), "%s", path);
    }
    ck_text("collectives.tables", "{\"broadcast\":[\"8\"]}");
    ck_assert(cl.oversubscription == 1 && !cl.nodes_per_leaf && !cl.rail_optimised && !cl.sharp);
    ck_assert(!cl.coll.no_ll128 && !cl.nic_of_gpu[0] && !*cl.nic_name);
    arena_release(&arena);
}
END_TEST

SUITE_MAIN("model/cluster_network", each_field_of_the_network_is_taken_over_and_no_other,
           tables_and_switches_are_of_both, its_own_network_changes_nothing,
           bands_hold_for_the_generation_that_was_measured, what_the_other_lacks_is_kept_or_absent,
           a_node_without_nics_gets_a_network, nics_and_leaves_fit_the_node,
           a_dropped_network_leaves_nothing)
