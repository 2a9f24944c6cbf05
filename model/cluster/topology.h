/* model/cluster/topology.h - one node as NVIDIA's tools write it down: an NCCL topology file, or the text of `nvidia-smi topo -m`.
 *
 * NCCL's XML comes in two forms. A dump (NCCL_TOPO_DUMP_FILE) names GPUs with their NVLinks and NICs with their speed; what
 * clouds give to NCCL_TOPO_FILE often lists PCI devices only. The matrix of nvidia-smi has neither speeds nor bus ids. All
 * three become the same list of devices (struct topology), with the line that each stands on; then
 *
 *     topology_check()       names suspicious lines: a link of 2.5 GT/s x1, NICs that are missing, a bus id given twice
 *     topology_to_cluster()  makes it a cluster. What the file does not say comes from a base cluster: the one that the
 *                            user named (BASE:node=FILE), else the bundled one with the same GPU by its PCI device id
 *
 * Devices of one PCIe tree share a `root`: the bridge below the CPU that all of them hang on (nvidia-smi: PIX or PXB to
 * each other). GPUs are numbered by bus id, as nvidia-smi does, when the file does not number them.
 */
#ifndef BALLAST_MODEL_CLUSTER_TOPOLOGY_H
#define BALLAST_MODEL_CLUSTER_TOPOLOGY_H

#include "core/err.h"
#include "core/mem.h"
#include "model/cluster/cluster.h"

#include <stdbool.h>
#include <stdint.h>

#define TOPOLOGY_MAX_BYTES (UINT64_C(16) << 20)
enum { TOPOLOGY_MAX_DEVICES = 4096, TOPOLOGY_NONE = -1 };

enum topology_form { TOPOLOGY_DUMP, TOPOLOGY_PCI_ONLY, TOPOLOGY_SMI };

/* A <pci> element: a bridge, or a device. */
struct topology_pci {
    uint32_t line;
    int32_t parent;          /* pci index, or TOPOLOGY_NONE: below a CPU */
    const char *busid;       /* lower case; "" when not given */
    uint32_t class_code;     /* 0x030200; 0: not given */
    uint32_t vendor, device; /* 0: not given */
    const char *link_speed;  /* as written; NULL: not given */
    double speed_GTs;        /* 0: not given or not readable */
    uint32_t width;          /* lanes; 0: not given */
    uint32_t n_children;
    uint32_t host; /* 0 to n_hosts - 1 */
    int32_t numa;  /* of its CPU, or TOPOLOGY_NONE */
};

struct topology_gpu {
    uint32_t line;
    uint32_t in_file;  /* its place among the GPUs of the file */
    int32_t pci;       /* TOPOLOGY_NONE in nvidia-smi's text */
    const char *busid; /* "" when not given */
    int32_t root;      /* devices with the same root share a PCIe tree; TOPOLOGY_NONE: alone */
    int32_t numa;
    int32_t cpu;       /* devices with the same one need not cross CPUs; TOPOLOGY_NONE: not known */
    int32_t dev, rank; /* TOPOLOGY_NONE: not numbered */
    uint32_t sm;       /* compute capability, 90; 0: not given */
    uint32_t host;     /* as a pci's */
    uint32_t n_links;  /* NVLinks in all */
    bool to_switch;    /* they end at NVSwitches */
};

struct topology_nvlink {
    uint32_t line, gpu, count;
    const char *target; /* bus id */
    uint32_t tclass;    /* class of what it ends at: 0x068000 an NVSwitch, 0x0302.. a GPU */
};

/* A device of class 0x02.... or with <nic>: one NIC, whatever its number of ports. */
struct topology_nic {
    uint32_t line;
    int32_t pci, root, numa, cpu;
    const char *name; /* of its first port, or "" */
    uint32_t n_ports, host;
    double Bps;  /* of all ports, one direction; 0: not given */
    bool no_gdr; /* the file says that GPUs cannot use it directly */
};

/* A <net>: a port. */
struct topology_port {
    uint32_t line, nic;
    const char *name;
    int32_t dev;
    double Bps;
};

struct topology {
    const char *file; /* in arena, as all below */
    enum topology_form form;
    struct topology_pci *pcis;
    struct topology_gpu *gpus; /* in their order on the node */
    struct topology_nvlink *nvlinks;
    struct topology_nic *nics; /* in order of lines */
    struct topology_port *ports;
    uint32_t n_pcis, n_gpus, n_nvlinks, n_nics, n_ports;
    /* [n_gpus][n_gpus] NVLinks by which two GPUs reach each other, symmetric: their own, or all of
     * a GPU's through switches; NULL: not said */
    const uint16_t *joined;
    uint32_t
        n_hosts; /* that CPUs name (host_hash), at least 1: a dump of an NVLink domain has several */
    uint32_t line; /* of the root element, or of the matrix's first line */
    const struct topology_note {
        uint32_t line;
        const char *text;
    } * notes; /* what the reader saw and did not use, though nobody told it to ignore that */
    uint32_t n_notes;
};

/* Whether a text is one of these forms; JSON is not. */
bool topology_is(const char *text, size_t len);
/* `file` names the text in messages. DOCTYPE (entities), unknown elements and values out of range are refused. */
int topology_parse(const char *text, size_t len, const char *file, struct arena *a,
                   struct topology *t, struct err *e);
int topology_load(const char *path, struct arena *a, struct topology *t, struct err *e);
/* The two readers behind it. */
int topology_from_xml(const char *text, size_t len, const char *file, struct arena *a,
                      struct topology *t, struct err *e);
int topology_from_smi(const char *text, size_t len, const char *file, struct arena *a,
                      struct topology *t, struct err *e);
/* topology_links.c: fills in `joined` from nvlinks. */
void topology_join(struct topology *t, struct arena *a);
/* Version of the XML library that is linked. */
const char *topology_xml_version(void);

/* GPUs that NVLink joins: domains with a ring through their NVLinks. */
struct topology_domains {
    bool known; /* else the file does not say where NVLinks end, and the rest is 0 */
    bool to_switch;
    uint32_t n;       /* GPUs of each; 1: there is no NVLink, or none that joins a ring */
    uint32_t n_links; /* of a GPU in its domain, the fewest; 0 with n 1 */
    uint8_t of_gpu[CLUSTER_MAX_GPUS_PER_NODE];
    const char *note; /* what is not used of the NVLinks, or NULL; in arena */
};
/* ERR_UNSUPPORTED: domains of different sizes, GPUs that some of their switches' GPUs do not reach.
 * At most CLUSTER_MAX_GPUS_PER_NODE GPUs, else not known. O(GPUs ^2) and a search for rings of
 * bounded length. */
int topology_find_domains(const struct topology *t, struct arena *a, struct topology_domains *out,
                          struct err *e);
/* NICs beside no GPU, where every GPU has one beside it: they carry no training traffic. idle
 * [n_nics]. */
void topology_idle_nics(const struct topology *t, bool *idle);

/* What the device id of a GPU says that it is, or NULL. */
const char *topology_gpu_name(const struct topology *t, uint32_t gpu);
/* The bundled cluster that has these GPUs, or NULL when there is none or their device id is absent or not known. */
const char *topology_base(const struct topology *t);
/* base NULL: topology_base() is used, for what it can know. One host. Refuses what neither says, and what they contradict each other
 * in, with one line that says what to give. */
int topology_to_cluster(const struct topology *t, const struct cluster *base, struct arena *a,
                        struct cluster *c, struct err *e);

/* Bytes/s of a PCIe link, one direction: encoding 8b/10b up to 5 GT/s, 128b/130b from 8. 0 when not known. */
double topology_link_Bps(const struct topology_pci *p);

struct topology_finding {
    uint32_t line;
    bool warning; /* else a property that limits what runs on it */
    const char *text;
};
/* By line. *out: [n] in arena; n is returned. */
size_t topology_check(const struct topology *t, struct arena *a, struct topology_finding **out);

#endif
