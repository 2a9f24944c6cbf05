/* From the devices of a topology file to a cluster: which GPUs and NICs share a PCIe tree, which NIC a GPU sends by, how fast
 * its NVLinks are; the rest is a base cluster's. */
#include "model/cluster/topology.h"

#include "core/file.h"
#include "core/num.h"

#include <math.h>
#include <string.h>
#include <strings.h>

/* GPUs by PCI device id (pci.ids), the bundled cluster that describes them, and bytes/s of one NVLink, one direction (NVIDIA's
 * data sheets). */
static const struct gpu_model {
    uint32_t device;
    const char *name; /* as the bundled cluster calls it */
    const char *base; /* NULL: none; a cluster file of the user's may */
    double link_Bps;
} models[] = {
    {0x1db1, "V100-SXM2-16GB", NULL, 25e9},
    {0x1db5, "V100-SXM2-32GB", NULL, 25e9},
    {0x1db8, "V100-SXM3-32GB", NULL, 25e9},
    {0x20b0, "A100-SXM4-40GB", "nd-a100-v4", 25e9},
    {0x20b2, "A100-SXM4-80GB", "dgx-a100", 25e9},
    {0x20b5, "A100-PCIe-80GB", "a100-pcie", 25e9},
    {0x20f3, "A800-SXM4-80GB", "a800-4hdr", 25e9},
    {0x2330, "H100-SXM-80GB", "hgx-h100-ndr", 25e9},
    {0x2321, "H100-NVL-94GB", "h100-nvl", 25e9},
    {0x2335, "H200-SXM-141GB", "hgx-h200-ndr", 25e9},
    {0x26b9, "L40S-48GB", "l40s", 0},
    {0x2901, "B200-SXM-180GB", "hgx-b200", 50e9},
    {0x2941, "GB200-186GB", "gb200-nvl72", 50e9},
};
enum { N_MODELS = sizeof(models) / sizeof(models[0]), NVIDIA = 0x10de };

/* Where the words of a line begin: behind blanks and the escape codes by which nvidia-smi underlines. */
static size_t skip(const char *text, size_t len, size_t i)
{
    while (i < len && (text[i] == ' ' || text[i] == '\t' || text[i] == 27)) {
        if (text[i] == 27)
            while (i < len && text[i] != 'm' && text[i] != '\n')
                i++;
        i += i < len;
    }
    return i;
}

/* The first character that is no blank is '<'. */
static bool is_xml(const char *text, size_t len)
{
    size_t i = len >= 3 && !memcmp(text, "\xef\xbb\xbf", 3) ? 3 : 0;

    while (i < len && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n'))
        i++;
    return i < len && text[i] == '<';
}

bool topology_is(const char *text, size_t len)
{
    if (is_xml(text, len))
        return true;
    len = len < 4096 ? len : 4096;
    for (size_t i = 0; i < len;) { /* a line that starts with GPU0 */
        const char *stop = memchr(text + i, '\n', len - i);
        size_t at = skip(text, len, i);

        if (len - at >= 4 && !memcmp(text + at, "GPU", 3) && text[at + 3] >= '0' &&
            text[at + 3] <= '9')
            return true;
        i = stop ? (size_t)(stop - text) + 1 : len;
    }
    return false;
}

int topology_parse(const char *text, size_t len, const char *file, struct arena *a,
                   struct topology *t, struct err *e)
{
    size_t n = strlen(file);
    bool xml = is_xml(text, len) || (n >= 4 && !strcasecmp(file + n - 4, ".xml"));

    return (xml ? topology_from_xml : topology_from_smi)(text, len, file, a, t, e);
}

int topology_load(const char *path, struct arena *a, struct topology *t, struct err *e)
{
    char *text;
    size_t len;
    int rc;

    if (file_read(path, TOPOLOGY_MAX_BYTES, &text, &len, e))
        return -1;
    rc = topology_parse(text, len, path, a, t, e);
    mem_free(text);
    return rc;
}

double topology_link_Bps(const struct topology_pci *p)
{
    return p->speed_GTs * 1e9 * p->width / 8 * (p->speed_GTs < 8 ? 8.0 / 10 : 128.0 / 130);
}

/* ---- which GPU ---- */

static uint32_t device_of(const struct topology *t, uint32_t gpu)
{
    const struct topology_pci *p = t->gpus[gpu].pci < 0 ? NULL : &t->pcis[t->gpus[gpu].pci];

    return p && (p->vendor == NVIDIA || !p->vendor) ? p->device : 0;
}

static const struct gpu_model *model_of_gpu(const struct topology *t, uint32_t gpu)
{
    for (size_t m = 0; m < N_MODELS; m++)
        if (models[m].device == device_of(t, gpu))
            return &models[m];
    return NULL;
}

const char *topology_gpu_name(const struct topology *t, uint32_t gpu)
{
    const struct gpu_model *m = model_of_gpu(t, gpu);

    return m ? m->name : NULL;
}

static const struct gpu_model *model_of(const struct topology *t)
{
    for (uint32_t i = 0; i < t->n_gpus; i++)
        if (device_of(t, i) != device_of(t, 0))
            return NULL;
    return t->n_gpus ? model_of_gpu(t, 0) : NULL;
}

const char *topology_base(const struct topology *t)
{
    const struct gpu_model *m = model_of(t);

    return m ? m->base : NULL;
}

static int same_gpus(const struct topology *t, struct err *e)
{
    for (uint32_t i = 1; i < t->n_gpus; i++)
        if (device_of(t, i) != device_of(t, 0) || t->gpus[i].sm != t->gpus[0].sm)
            return err_set(e, ERR_UNSUPPORTED,
                           "'%.300s': line %u: GPU %u differs from GPU 0 (line %u): nodes of mixed "
                           "GPUs are not described",
                           t->file, t->gpus[i].line, i, t->gpus[0].line);
    return 0;
}

static int no_base(const struct topology *t, struct err *e)
{
    uint32_t device = device_of(t, 0);
    const char *what = "nothing says which GPUs these are";
    char id[80];

    if (topology_gpu_name(t, 0)) {
        snprintf(id, sizeof(id), "no bundled cluster has %s", topology_gpu_name(t, 0));
        what = id;
    } else if (device) {
        snprintf(id, sizeof(id), "GPUs of device 0x%04x are not known", device);
        what = id;
    } else if (t->gpus[0].sm) {
        snprintf(id, sizeof(id), "compute capability %u.%u alone does not say which GPUs these are",
                 t->gpus[0].sm / 10, t->gpus[0].sm % 10);
        what = id;
    }
    return err_set(e, ERR_UNSUPPORTED,
                   "'%.300s': line %u: %s; give a cluster with such GPUs: BASE:node=%.300s, BASE a "
                   "name of 'ballast topo --list' or a JSON file",
                   t->file, t->gpus[0].line, what, t->file);
}

/* ---- PCIe ---- */

/* Switches in the order of their first GPU, then of NICs; a device without a root is alone on one. */
struct switches {
    uint32_t n;
    uint32_t of_gpu[CLUSTER_MAX_GPUS_PER_NODE];
    uint32_t *of_nic; /* [n_nics] */
};

static uint32_t number_root(const struct topology *t, int32_t root, uint32_t n_gpus,
                            uint32_t n_nics, struct switches *s)
{
    for (uint32_t i = 0; root >= 0 && i < n_gpus; i++)
        if (t->gpus[i].root == root)
            return s->of_gpu[i];
    for (uint32_t i = 0; root >= 0 && i < n_nics; i++)
        if (t->nics[i].root == root)
            return s->of_nic[i];
    return s->n++;
}

static void number_switches(const struct topology *t, struct arena *a, struct switches *s)
{
    s->n = 0;
    s->of_nic = ARENA_NEW(a, uint32_t, t->n_nics);
    for (uint32_t i = 0; i < t->n_gpus; i++)
        s->of_gpu[i] = number_root(t, t->gpus[i].root, i, 0, s);
    for (uint32_t i = 0; i < t->n_nics; i++)
        s->of_nic[i] = number_root(t, t->nics[i].root, t->n_gpus, i, s);
}

/* The slowest link on the way from a switch that is used to its root port; of a switch without one, of a device on it. */
static double uplink(const struct topology *t)
{
    double least = 0;

    for (uint32_t i = 0; i < t->n_gpus; i++) {
        int32_t root = t->gpus[i].root;
        double x = root < 0 || t->form == TOPOLOGY_SMI ? 0 : topology_link_Bps(&t->pcis[root]);

        if (!(x > 0) && t->gpus[i].pci >= 0)
            x = topology_link_Bps(&t->pcis[t->gpus[i].pci]);
        if (x > 0 && (!(least > 0) || x < least))
            least = x;
    }
    return least;
}

/* The slowest link of a GPU itself. */
static double own_link(const struct topology *t)
{
    double least = 0;

    for (uint32_t i = 0; i < t->n_gpus; i++) {
        double x = t->gpus[i].pci < 0 || t->form == TOPOLOGY_SMI
                       ? 0
                       : topology_link_Bps(&t->pcis[t->gpus[i].pci]);

        if (x > 0 && (!(least > 0) || x < least))
            least = x;
    }
    return least;
}

/* Does every GPU use a NIC on its own switch? Then nothing passes a switch's uplink. */
static bool beside_nics(const struct topology *t, const struct switches *s, const struct cluster *c)
{
    for (uint32_t g = 0; g < t->n_gpus; g++)
        if (!c->nics_per_node || c->switch_of_nic[c->nic_of_gpu[g]] != s->of_gpu[g])
            return false;
    return true;
}

/* ---- NICs ---- */

struct nics {
    uint32_t n; /* of the cluster */
    uint32_t of_gpu[CLUSTER_MAX_GPUS_PER_NODE];
    uint32_t on[CLUSTER_MAX_NICS_PER_NODE]; /* switch */
    double Bps[CLUSTER_MAX_NICS_PER_NODE];  /* 0: not given */
    uint32_t line[CLUSTER_MAX_NICS_PER_NODE];
    uint32_t per_nic;  /* devices that were made one */
    uint32_t left_out; /* devices beside no GPU, where every GPU has its own */
};

static uint32_t count(const uint32_t *of, uint32_t n, uint32_t s)
{
    uint32_t k = 0;

    for (uint32_t i = 0; i < n; i++)
        k += of[i] == s;
    return k;
}

/* How many devices each GPU has for itself under its switch, when that is the same for all and more than one; else 1. */
static uint32_t bond(const struct topology *t, const struct switches *s)
{
    uint32_t k = 0;

    for (uint32_t i = 0; i < t->n_gpus; i++) {
        uint32_t gpus = count(s->of_gpu, t->n_gpus, s->of_gpu[i]);
        uint32_t nics = count(s->of_nic, t->n_nics, s->of_gpu[i]);

        if (nics % gpus || nics < gpus || (k && nics / gpus != k))
            return 1;
        k = nics / gpus;
    }
    return k ? k : 1;
}

void topology_idle_nics(const struct topology *t, bool *idle)
{
    for (uint32_t i = 0; i < t->n_nics; i++)
        idle[i] = t->n_gpus > 0;
    for (uint32_t g = 0; g < t->n_gpus; g++) {
        bool has_one = false;

        for (uint32_t i = 0; i < t->n_nics; i++)
            if (t->gpus[g].root >= 0 && t->nics[i].root == t->gpus[g].root) {
                idle[i] = false;
                has_one = true;
            }
        if (!has_one) {
            memset(idle, 0, t->n_nics * sizeof(*idle));
            return;
        }
    }
}

/* Devices of one switch, `per_nic` after each other, are one NIC: ports that serve the same GPU. */
static int collect(const struct topology *t, const struct switches *s, struct arena *a,
                   struct nics *x, struct err *e)
{
    bool *idle = ARENA_NEW(a, bool, t->n_nics);

    topology_idle_nics(t, idle);
    for (uint32_t w = 0; w < s->n; w++) {
        uint32_t in_switch = 0;

        for (uint32_t i = 0; i < t->n_nics; i++) {
            double Bps = t->nics[i].Bps;

            if (s->of_nic[i] != w)
                continue;
            if (idle[i]) {
                x->left_out++;
                continue;
            }
            if (in_switch++ % x->per_nic) {
                double *sum = &x->Bps[x->n - 1];

                *sum = Bps > 0 && *sum > 0 ? *sum + Bps : 0;
                continue;
            }
            if (x->n == CLUSTER_MAX_NICS_PER_NODE)
                return err_set(e, ERR_INVALID, "'%.300s': more than %d NICs a node", t->file,
                               CLUSTER_MAX_NICS_PER_NODE);
            x->on[x->n] = w;
            x->Bps[x->n] = Bps;
            x->line[x->n++] = t->nics[i].line;
        }
    }
    return 0;
}

/* A GPU takes its share of the NICs of its switch; without any there, of its NUMA node; without those, of all. */
static void deal(const struct topology *t, const struct switches *s, struct nics *x)
{
    for (uint32_t g = 0; g < t->n_gpus; g++) {
        uint32_t list[CLUSTER_MAX_NICS_PER_NODE], n = 0, peers = 0, before = 0;

        for (uint32_t i = 0; i < x->n; i++)
            if (x->on[i] == s->of_gpu[g])
                list[n++] = i;
        for (uint32_t i = 0; n && i < t->n_gpus; i++)
            if (s->of_gpu[i] == s->of_gpu[g]) {
                peers++;
                before += i < g;
            }
        for (int near = 1; !n && near >= 0; near--) {
            for (uint32_t i = 0; i < x->n; i++) {
                int32_t numa = TOPOLOGY_NONE;

                for (uint32_t k = 0; k < t->n_nics; k++)
                    if (t->nics[k].line == x->line[i] && s->of_nic[k] == x->on[i])
                        numa = t->nics[k].numa;
                if (!near || (numa >= 0 && numa == t->gpus[g].numa))
                    list[n++] = i;
            }
            for (uint32_t i = 0; n && i < t->n_gpus; i++)
                if (!near || t->gpus[i].numa == t->gpus[g].numa) {
                    peers++;
                    before += i < g;
                }
        }
        x->of_gpu[g] = n ? list[before * n / peers] : 0;
    }
}

/* ---- put together ---- */

static const char *form_name(const struct topology *t)
{
    static const char *const names[] = {"NCCL topology dump", "NCCL topology file",
                                        "nvidia-smi topo -m"};

    return names[t->form];
}

/* The file has no NVLinks at all, and the base's GPUs have some. */
static int without_nvlink(const struct topology *t, const struct cluster *base, struct err *e)
{
    if (t->form != TOPOLOGY_SMI)
        return 0;
    return err_set(e, ERR_UNSUPPORTED,
                   "'%.300s': line %u: no NV between any GPUs, and those of '%.200s' have NVLink: "
                   "nvidia-smi topo -mp hides NVLink, use -m; if they have none, say so: "
                   "BASE:nvlink_domain=1,node=%.300s",
                   t->file, t->line, base->name, t->file);
}

/* Domains as in the base, where the file does not say where NVLinks end: of neighbours, when the
 * file has other GPUs. */
static int keep_domains(const struct topology *t, const struct cluster *base, struct arena *a,
                        struct cluster *c, struct err *e)
{
    const char *why = arena_printf(a, "assumed: as %s", base->name);
    bool same = base->gpus_per_node == c->gpus_per_node;

    if (!base->domain_gpus)
        return 0;
    if (c->gpus_per_node % base->domain_gpus)
        return err_set(e, ERR_UNSUPPORTED,
                       "'%.300s': line %u: %u GPUs, and in '%.200s' NVLink joins %u: where NVLinks "
                       "end is not said",
                       t->file, t->gpus[0].line, c->gpus_per_node, base->name, base->domain_gpus);
    return cluster_set_domains(c, base->domain_gpus, same ? base->domain_of_gpu : NULL, why,
                               t->file, a, e);
}

static uint8_t number_cpu(int32_t cpu, int32_t *list, uint32_t *n)
{
    uint32_t k = 0;

    while (k < *n && list[k] != cpu)
        k++;
    if (k == *n)
        list[(*n)++] = cpu;
    return (uint8_t)k;
}

/* A switch is of the CPU of its GPUs, or of its NICs. */
static void set_cpus(const struct topology *t, const struct switches *s, const char *source,
                     struct arena *a, struct cluster *c)
{
    uint8_t of_switch[CLUSTER_MAX_SWITCHES] = {0};
    int32_t list[CLUSTER_MAX_SWITCHES];
    bool known[CLUSTER_MAX_SWITCHES] = {false};
    uint32_t n = 0;

    for (uint32_t g = 0; g < t->n_gpus; g++) {
        of_switch[s->of_gpu[g]] = number_cpu(t->gpus[g].cpu, list, &n);
        known[s->of_gpu[g]] = true;
    }
    for (uint32_t i = 0; i < t->n_nics; i++)
        if (s->of_nic[i] < c->pcie_switches && !known[s->of_nic[i]]) {
            of_switch[s->of_nic[i]] = number_cpu(t->nics[i].cpu, list, &n);
            known[s->of_nic[i]] = true;
        }
    if (n > 1)
        cluster_set_cpus(c, n, of_switch, source, a);
    else
        c->n_cpus = 0, c->cpu_Bps = 0;
}

static int set_nvlink(const struct topology *t, const struct cluster *base, const char *source,
                      struct arena *a, struct cluster *c, struct err *e)
{
    struct topology_domains d;
    uint32_t least = 0, most = 0, n_links;
    double link = 0;

    for (uint32_t i = 1; i < t->n_gpus; i++) {
        least = t->gpus[i].n_links < t->gpus[least].n_links ? i : least;
        most = t->gpus[i].n_links > t->gpus[most].n_links ? i : most;
    }
    if (!t->gpus[least].n_links && t->gpus[most].n_links)
        return err_set(e, ERR_UNSUPPORTED,
                       "'%.300s': line %u: a GPU without NVLink, and GPU %u has some: such nodes "
                       "are not described",
                       t->file, t->gpus[least].line, most);
    if (topology_find_domains(t, a, &d, e))
        return -1;
    d.known = d.known && t->n_gpus > 1;
    n_links = d.known ? d.n_links : t->gpus[least].n_links;
    if (d.known && d.n == 1) {
        if (base->nvlink_Bps > 0 && without_nvlink(t, base, e))
            return -1;
        return cluster_set_domains(c, 1, NULL, source, t->file, a, e);
    }
    if (n_links && t->n_gpus > 1 && !(base->nvlink_Bps > 0))
        return err_set(
            e, ERR_UNSUPPORTED,
            "'%.300s': line %u: GPUs with NVLink, and those of '%.200s' have none: expected "
            "a base with NVLink, as its rate is not in the file",
            t->file, t->gpus[0].line, base->name);
    if (d.known ? cluster_set_domains(c, d.n, d.of_gpu,
                                      d.note ? arena_printf(a, "%s: %s", source, d.note) : source,
                                      t->file, a, e)
                : keep_domains(t, base, a, c, e))
        return -1;
    if (!n_links) /* not said */
        return 0;
    for (size_t m = 0; m < N_MODELS; m++)
        if (!strcmp(models[m].name, c->device.name))
            link = models[m].link_Bps;
    if (link > 0 && base->nvlink_Bps > 0 && n_links * link > 1.01 * base->nvlink_Bps)
        return err_set(e, ERR_UNSUPPORTED,
                       "'%.300s': line %u: %u NVLinks a GPU, and a GPU of '%.200s' has %.0f: "
                       "expected a base with GPUs of this kind",
                       t->file, t->gpus[0].line, n_links, base->name, base->nvlink_Bps / link);
    c->nvswitch = d.known ? d.to_switch : t->gpus[least].to_switch;
    cluster_set_source(c, a, "node.nvlink.kind", source);
    if (link > 0) { /* else the base's rate: a device that only it knows */
        c->nvlink_Bps = n_links * link;
        cluster_set_source(
            c, a, "node.nvlink.rate",
            arena_printf(a, "%s: %u links of %.4g GB/s", source, n_links, link / 1e9));
    }
    return 0;
}

static int set_nics(const struct topology *t, const struct switches *s, const struct cluster *base,
                    bool named, const char *source, struct arena *a, struct cluster *c,
                    struct err *e)
{
    struct nics *x = ARENA_NEW(a, struct nics, 1);
    double least = INFINITY;
    uint32_t unknown = 0;

    if (!t->n_nics) {
        cluster_drop_nics(c);
        return 0;
    }
    if (!base->nics_per_node)
        return err_set(e, ERR_INVALID,
                       "'%.300s' has NICs, and '%.200s' has none: its fabric is not described",
                       t->file, base->name);
    x->per_nic = bond(t, s);
    if (collect(t, s, a, x, e))
        return -1;
    deal(t, s, x);
    for (uint32_t i = 0; i < x->n; i++) {
        least = x->Bps[i] < least ? x->Bps[i] : least;
        if (!(x->Bps[i] > 0))
            unknown = unknown ? unknown : x->line[i];
    }
    c->nics_per_node = x->n;
    for (uint32_t g = 0; g < t->n_gpus; g++)
        c->nic_of_gpu[g] = (uint8_t)x->of_gpu[g];
    for (uint32_t i = 0; i < x->n; i++)
        c->switch_of_nic[i] = (uint8_t)x->on[i];
    cluster_set_source(
        c, a, "node.nic.count",
        arena_printf(a, "%s%s", source,
                     x->per_nic > 1 ? arena_printf(a, ": %u devices a GPU as one NIC", x->per_nic)
                     : x->left_out  ? arena_printf(a, ": without %u beside no GPU", x->left_out)
                                    : ""));
    cluster_set_source(c, a, "node.nic.of_gpu",
                       arena_printf(a, "%s: NICs under the same PCIe switch, else near", source));
    if (!unknown) {
        if (c->nic_Bps != least)
            c->nic_name = "";
        c->nic_Bps = least;
        cluster_set_source(c, a, "node.nic.rate", source);
        return 0;
    }
    if (!named)
        return err_set(e, ERR_UNSUPPORTED,
                       "'%.300s': line %u: a NIC without speed; give a cluster with such NICs: "
                       "BASE:node=%.300s, or their number and speed: %s:node=%.300s,nics=%ux200Gb",
                       t->file, unknown, t->file, base->name, t->file, x->n);
    if (x->per_nic > 1 && x->n * x->per_nic == base->nics_per_node)
        c->nic_Bps = base->nic_Bps * x->per_nic; /* the base counts devices */
    else if (x->n != base->nics_per_node)
        return err_set(
            e, ERR_INVALID,
            "'%.300s': line %u: NICs without speed, %u of them, and '%.200s' has %u: add "
            "nics=%ux and their speed (nics=%ux200Gb)",
            t->file, unknown, x->n, base->name, base->nics_per_node, x->n, x->n);
    return 0;
}

int topology_to_cluster(const struct topology *t, const struct cluster *base, struct arena *a,
                        struct cluster *c, struct err *e)
{
    const struct gpu_model *m = model_of(t);
    struct switches *s = ARENA_NEW(a, struct switches, 1);
    const struct cluster *base_of;
    struct cluster own;
    const char *source;
    double up;
    bool beside;

    if (t->n_hosts > 1)
        return err_set(
            e, ERR_UNSUPPORTED,
            "'%.300s' has devices of %u hosts (host_hash): expected the file of one node", t->file,
            t->n_hosts);
    if (!t->n_gpus)
        return err_set(e, ERR_INVALID,
                       "'%.300s' names no GPUs: expected devices of class 0x03.... or <gpu>",
                       t->file);
    if (t->n_gpus > CLUSTER_MAX_GPUS_PER_NODE)
        return err_set(e, ERR_INVALID, "'%.300s': %u GPUs, expected at most %d", t->file, t->n_gpus,
                       CLUSTER_MAX_GPUS_PER_NODE);
    if (same_gpus(t, e))
        return -1;
    if (!base && (!m || !m->base))
        return no_base(t, e);
    if (base && m && m->base && strcmp(m->name, base->device.name))
        return err_set(e, ERR_INVALID, "'%.300s': line %u: the GPUs are %s, those of '%.200s' %s",
                       t->file, t->gpus[0].line, m->name, base->name, base->device.name);
    if (!base && cluster_load(m->base, a, &own, e))
        return -1;
    base_of = base ? base : &own;
    *c = *base_of;
    c->domain_gpus = 0;
    source = arena_printf(a, "%s: %s", t->file, form_name(t));
    c->name = t->file;
    c->summary = arena_printf(a, "%u x %s, read from %s; the rest as %s", t->n_gpus, c->device.name,
                              form_name(t), base_of->name);
    c->source = source;
    if (!base) {
        static const char *const not_in_file[] = {"node.nvlink.", "node.nic.", "fabric.",
                                                  "collectives."};

        for (size_t i = 0; i < 4; i++)
            cluster_assume(c, a, not_in_file[i], own.name);
    }
    if (t->n_gpus != c->gpus_per_node) {
        c->nodes_per_leaf = c->nodes_per_leaf / c->domain_nodes * c->domain_nodes;
        c->domain_nodes = 1;
    }
    c->gpus_per_node = t->n_gpus;
    memset(c->coll.net_band, 0,
           sizeof(c->coll.net_band)); /* no table is of this machine's network */
    cluster_set_source(c, a, "node.gpus", source);
    number_switches(t, a, s);
    if (set_nics(t, s, base_of, base, source, a, c, e))
        return -1;
    beside = beside_nics(t, s, c) && own_link(t) > 0;
    up = beside ? own_link(t) : uplink(t);
    if (up > 0)
        c->pcie_Bps = up;
    c->pcie_switches = 0;
    for (uint32_t g = 0; g < t->n_gpus; g++)
        c->switch_of_gpu[g] = (uint8_t)s->of_gpu[g];
    if (c->pcie_Bps > 0) { /* without those of devices that were left out: they come last */
        for (uint32_t g = 0; g < c->gpus_per_node; g++)
            c->pcie_switches = (uint32_t)num_max(c->pcie_switches, c->switch_of_gpu[g] + 1);
        for (uint32_t i = 0; i < c->nics_per_node; i++)
            c->pcie_switches = (uint32_t)num_max(c->pcie_switches, c->switch_of_nic[i] + 1);
    }
    if (up > 0)
        cluster_set_source(c, a, "node.pcie.uplink",
                           arena_printf(a,
                                        beside
                                            ? "%s: slowest link of a GPU, with a NIC on its switch"
                                            : "%s: slowest uplink of a GPU",
                                        source));
    cluster_set_source(c, a, "node.pcie.switches", source);
    if (set_nvlink(t, base_of, source, a, c, e))
        return -1;
    if (cluster_is_split(c))
        set_cpus(t, s, source, a, c);
    return cluster_recheck(c, t->file, a, e);
}
