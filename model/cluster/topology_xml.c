/* NCCL's topology XML: system > cpu > pci (nested) > gpu (nvlink ...) | nic > net. The only file that includes libxml2.
 *
 * Network and entities are off: a DOCTYPE ends the parse where it starts, so no entity is ever declared. Lines come from
 * libxml2. NCCL writes more attributes with each version; those that say nothing to us are listed, others are noted.
 *
 * With BALLAST_NO_XML it is one function that refuses: for the bundle that goes to machines of which nothing is known. */
#include "model/cluster/topology.h"

#ifndef BALLAST_NO_XML
#include "core/strbuf.h"
#include "core/suggest.h"
#include "core/units.h"

#include <ctype.h>
#include <errno.h>
#include <libxml/parser.h>
#include <libxml/xmlversion.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct reader {
    struct topology *t;
    struct arena *a;
    struct err *e;
    uint32_t cap[5];
    struct topology_note *notes;
    const char **hosts; /* in the arena [t->n_hosts], by host_hash */
    uint32_t host_cap;
    bool dump;
};

static uint32_t line_of(const xmlNode *n)
{
    long l = xmlGetLineNo((xmlNode *)n);

    return l > 0 ? (uint32_t)l : 0;
}

static int bad(struct reader *r, const xmlNode *n, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static int bad(struct reader *r, const xmlNode *n, enum err_code code, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return err_set(r->e, code, "'%.300s': line %u: <%.40s> %s", r->t->file, line_of(n),
                   (const char *)n->name, text);
}

/* A zeroed element more of a list in the arena; NULL and *e when there are too many. */
static void *more(struct reader *r, void **list, uint32_t *n, uint32_t *cap, size_t size)
{
    if (*n == TOPOLOGY_MAX_DEVICES) {
        err_set(r->e, ERR_INVALID, "'%.300s': more than %d devices of a kind", r->t->file,
                TOPOLOGY_MAX_DEVICES);
        return NULL;
    }
    if (*n == *cap) {
        uint32_t grown = *cap ? 2 * *cap : 16;
        void *wider = arena_alloc(r->a, grown, size);

        if (*n)
            memcpy(wider, *list, *n * size);
        *list = wider;
        *cap = grown;
    }
    return (char *)*list + (size_t)(*n)++ * size;
}

/* ---- attributes ---- */

/* NULL when absent; in arena. Values are short and of one line, whatever the file holds. */
static const char *attr(struct reader *r, const xmlNode *n, const char *name)
{
    xmlChar *v = xmlGetNoNsProp((xmlNode *)n, (const xmlChar *)name);
    char *text;

    if (!v)
        return NULL;
    text = arena_strndup(r->a, (const char *)v, strnlen((const char *)v, 200));
    xmlFree(v);
    for (char *p = text; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            *p = '?';
    return text;
}

/* Decimal or 0x; *out unchanged and 0 returned when absent or empty. */
static int integer(struct reader *r, const xmlNode *n, const char *name, int64_t lo, int64_t hi,
                   int64_t *out)
{
    const char *v = attr(r, n, name);
    long long x;
    char *end;

    if (!v || !*v)
        return 0;
    errno = 0;
    x = strtoll(v, &end, !strncasecmp(v, "0x", 2) ? 16 : 10);
    if (end == v || *end || errno || x < lo || x > hi)
        return bad(r, n, ERR_INVALID, "has %s=\"%.40s\", expected a whole number from %lld to %lld",
                   name, v, (long long)lo, (long long)hi);
    *out = x;
    return 0;
}

static int number(struct reader *r, const xmlNode *n, const char *name, uint32_t *out, int64_t hi)
{
    int64_t x = *out;

    if (integer(r, n, name, 0, hi, &x))
        return -1;
    *out = (uint32_t)x;
    return 0;
}

/* "16.0 GT/s PCIe", "8 GT/s": the number before GT/s, else 0. */
static double speed_of(const char *s)
{
    char *end;
    double x = strtod(s, &end);

    if (end == s || !isdigit((unsigned char)*s) || !(x > 0 && x <= 1024))
        return 0;
    while (*end == ' ')
        end++;
    return !strncmp(end, "GT/s", 4) ? x : 0;
}

static const struct {
    const char *element;
    const char *attrs[16]; /* used, or known to say nothing about a cluster */
} known[] = {
    {"system", {"version"}},
    {"cpu", {"numaid", "affinity", "arch", "vendor", "familyid", "modelid", "host_hash", "model"}},
    {"pci",
     {"busid", "class", "vendor", "device", "subsystem_vendor", "subsystem_device", "link_speed",
      "link_width", "keep"}},
    {"gpu", {"dev", "sm", "rank", "gdr", "keep", "mem", "cuda_dev", "host_hash"}},
    {"nvlink", {"target", "count", "tclass"}},
    {"c2c", {"bw", "count"}},
    {"pcilink", {"name"}},
    {"nic", {"keep", "latency"}},
    {"net",
     {"name", "dev", "speed", "port", "latency", "guid", "maxconn", "gdr", "coll", "keep", "parent",
      "rail", "plane"}},
};
enum { N_KNOWN = sizeof(known) / sizeof(known[0]) };

static int check_names(struct reader *r, const xmlNode *n)
{
    const char *names[N_KNOWN];
    size_t i = 0;

    for (size_t k = 0; k < N_KNOWN; k++)
        names[k] = known[k].element;
    while (i < N_KNOWN && strcmp(known[i].element, (const char *)n->name))
        i++;
    if (i == N_KNOWN)
        return bad(r, n, ERR_UNKNOWN, "is not known%s",
                   suggest((const char *)n->name, names, N_KNOWN).s);
    for (const xmlAttr *p = n->properties; p; p = p->next) {
        bool found = false;

        for (size_t k = 0; k < 16 && known[i].attrs[k]; k++)
            found |= !strcmp(known[i].attrs[k], (const char *)p->name);
        if (!found) {
            struct topology_note *note =
                more(r, (void **)&r->notes, &r->t->n_notes, &r->cap[4], sizeof(*note));
            if (!note)
                return -1;
            note->line = line_of(n);
            note->text = arena_printf(r->a, "<%s> has the attribute '%.60s', which is not used",
                                      known[i].element, (const char *)p->name);
        }
    }
    return 0;
}

static bool is(const xmlNode *n, const char *name)
{
    return n->type == XML_ELEMENT_NODE && !strcmp((const char *)n->name, name);
}

/* ---- elements ---- */

struct place {
    int32_t pci, root, numa;
    uint32_t host;
};

static int read_nvlink(struct reader *r, const xmlNode *n, uint32_t gpu)
{
    struct topology *t = r->t;
    struct topology_nvlink *l =
        more(r, (void **)&t->nvlinks, &t->n_nvlinks, &r->cap[2], sizeof(*l));
    const char *target;

    if (!l || check_names(r, n))
        return -1;
    target = attr(r, n, "target");
    l->line = line_of(n);
    l->gpu = gpu;
    l->target = target ? target : "";
    l->count = 1;
    if (number(r, n, "count", &l->count, 1024) || number(r, n, "tclass", &l->tclass, 0xffffff))
        return -1;
    t->gpus[gpu].n_links += l->count;
    t->gpus[gpu].to_switch |= l->tclass == 0x068000;
    return 0;
}

static struct topology_gpu *add_gpu(struct reader *r, const xmlNode *n, struct place at)
{
    struct topology *t = r->t;
    struct topology_gpu *g = more(r, (void **)&t->gpus, &t->n_gpus, &r->cap[1], sizeof(*g));

    if (g)
        *g = (struct topology_gpu){.line = line_of(n),
                                   .pci = at.pci,
                                   .in_file = t->n_gpus - 1,
                                   .busid = at.pci >= 0 ? t->pcis[at.pci].busid : "",
                                   .root = at.root,
                                   .numa = at.numa,
                                   .host = at.host,
                                   .dev = TOPOLOGY_NONE,
                                   .rank = TOPOLOGY_NONE};
    return g;
}

static int read_gpu(struct reader *r, const xmlNode *n, struct place at)
{
    struct topology_gpu *g;
    uint32_t index = r->t->n_gpus;
    int64_t dev = TOPOLOGY_NONE, rank = TOPOLOGY_NONE;

    g = check_names(r, n) ? NULL : add_gpu(r, n, at);
    if (!g || integer(r, n, "dev", -1, 1 << 20, &dev) ||
        integer(r, n, "rank", -1, 1 << 24, &rank) || number(r, n, "sm", &g->sm, 1000))
        return -1;
    r->dump = true;
    g->dev = (int32_t)dev;
    g->rank = (int32_t)rank;
    for (const xmlNode *k = n->children; k; k = k->next)
        if (is(k, "nvlink")) {
            if (read_nvlink(r, k, index))
                return -1;
        } else if (k->type == XML_ELEMENT_NODE && check_names(r, k)) {
            return -1;
        }
    return 0;
}

static struct topology_nic *add_nic(struct reader *r, const xmlNode *n, struct place at)
{
    struct topology *t = r->t;
    struct topology_nic *nic = more(r, (void **)&t->nics, &t->n_nics, &r->cap[3], sizeof(*nic));

    if (nic)
        *nic = (struct topology_nic){.line = line_of(n),
                                     .pci = at.pci,
                                     .root = at.root,
                                     .numa = at.numa,
                                     .host = at.host,
                                     .name = ""};
    return nic;
}

static int read_net(struct reader *r, const xmlNode *n, uint32_t nic, uint32_t *cap)
{
    struct topology *t = r->t;
    struct topology_port *p = more(r, (void **)&t->ports, &t->n_ports, cap, sizeof(*p));
    struct topology_nic *on = &t->nics[nic];
    int64_t dev = TOPOLOGY_NONE, speed = 0, gdr = 1;
    const char *name;

    if (!p || check_names(r, n) || integer(r, n, "dev", -1, 1 << 20, &dev) ||
        integer(r, n, "speed", 0, 1 << 30, &speed) || integer(r, n, "gdr", 0, 1 << 20, &gdr))
        return -1;
    name = attr(r, n, "name");
    *p = (struct topology_port){line_of(n), nic, name ? name : "", (int32_t)dev,
                                (double)speed * 1e6 / 8};
    if (!on->n_ports++)
        on->name = p->name;
    on->Bps += p->Bps;
    on->no_gdr |= !gdr;
    return 0;
}

static int read_nic(struct reader *r, const xmlNode *n, struct place at, uint32_t *port_cap)
{
    uint32_t index = r->t->n_nics;

    if (check_names(r, n) || !add_nic(r, n, at))
        return -1;
    for (const xmlNode *k = n->children; k; k = k->next)
        if (is(k, "net")) {
            if (read_net(r, k, index, port_cap))
                return -1;
        } else if (k->type == XML_ELEMENT_NODE) {
            return bad(r, k, ERR_PARSE, "is inside <nic>, expected <net>");
        }
    return 0;
}

static int read_pci(struct reader *r, const xmlNode *n, struct place at, uint32_t *port_cap);

/* What hangs on a CPU or a PCI device. */
static int read_children(struct reader *r, const xmlNode *n, struct place at, uint32_t *port_cap)
{
    for (const xmlNode *k = n->children; k; k = k->next) {
        int rc = 0;

        if (k->type != XML_ELEMENT_NODE)
            continue;
        if (is(k, "pci"))
            rc = read_pci(r, k, at, port_cap);
        else if (is(k, "gpu"))
            rc = read_gpu(r, k, at);
        else if (is(k, "nic"))
            rc = read_nic(r, k, at, port_cap);
        else if (is(k, "nvlink") || is(k, "c2c") || is(k, "pcilink"))
            rc = check_names(r, k);
        else if (!check_names(r, k))
            rc = bad(r, k, ERR_PARSE, "is inside <%.20s>, expected <pci>, <gpu> or <nic>",
                     (const char *)n->name);
        else
            rc = -1;
        if (rc)
            return -1;
    }
    return 0;
}

static int read_pci(struct reader *r, const xmlNode *n, struct place at, uint32_t *port_cap)
{
    struct topology *t = r->t;
    int32_t index = (int32_t)t->n_pcis;
    uint32_t n_gpus = t->n_gpus, n_nics = t->n_nics;
    struct topology_pci *p =
        check_names(r, n) ? NULL : more(r, (void **)&t->pcis, &t->n_pcis, &r->cap[0], sizeof(*p));
    const char *busid;

    if (!p)
        return -1;
    *p = (struct topology_pci){
        .line = line_of(n), .parent = at.pci, .numa = at.numa, .host = at.host, .busid = ""};
    busid = attr(r, n, "busid");
    if (busid) {
        char *low = arena_strdup(r->a, busid);

        for (char *c = low; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        p->busid = low;
    }
    p->link_speed = attr(r, n, "link_speed");
    p->speed_GTs = p->link_speed ? speed_of(p->link_speed) : 0;
    if (number(r, n, "class", &p->class_code, 0xffffff) ||
        number(r, n, "vendor", &p->vendor, 0xffff) || number(r, n, "device", &p->device, 0xffff) ||
        number(r, n, "link_width", &p->width, 64))
        return -1;
    if (at.pci != TOPOLOGY_NONE)
        t->pcis[at.pci].n_children++;
    at.pci = index;
    if (at.root == TOPOLOGY_NONE)
        at.root = index;
    if (read_children(r, n, at, port_cap))
        return -1;
    /* Without <gpu> or <nic> inside, the class says what it is. */
    p = &t->pcis[index];
    if (p->n_children == 0 && p->class_code >> 16 == 0x03 && t->n_gpus == n_gpus)
        return add_gpu(r, n, at) ? 0 : -1;
    if (p->n_children == 0 && p->class_code >> 16 == 0x02 && t->n_nics == n_nics)
        return add_nic(r, n, at) ? 0 : -1;
    return 0;
}

/* CPUs of one host have one host_hash; one without is of the first. */
static int read_host(struct reader *r, const xmlNode *cpu, uint32_t *host)
{
    const char *hash = attr(r, cpu, "host_hash"), **slot;

    for (*host = 0; hash && *host < r->t->n_hosts; ++*host)
        if (!strcmp(r->hosts[*host], hash))
            return 0;
    if (!hash)
        return 0;
    slot = more(r, (void **)&r->hosts, &r->t->n_hosts, &r->host_cap, sizeof(*slot));
    if (!slot)
        return -1;
    *slot = hash;
    return 0;
}

static int read_system(struct reader *r, const xmlNode *root)
{
    uint32_t port_cap = 0;

    if (is(root, "graphs"))
        return bad(r, root, ERR_PARSE,
                   "is a graph file of NCCL (NCCL_GRAPH_DUMP_FILE), expected a topology file with "
                   "<system> (NCCL_TOPO_DUMP_FILE)");
    if (!is(root, "system"))
        return bad(r, root, ERR_PARSE, "is no NCCL topology, expected <system>");
    r->t->line = line_of(root);
    if (check_names(r, root))
        return -1;
    for (const xmlNode *n = root->children; n; n = n->next) {
        int64_t numa = TOPOLOGY_NONE;
        uint32_t host = 0;

        if (n->type != XML_ELEMENT_NODE)
            continue;
        if (!is(n, "cpu"))
            return bad(r, n, ERR_PARSE, "is inside <system>, expected <cpu>");
        if (check_names(r, n) || integer(r, n, "numaid", -1, 1 << 20, &numa))
            return -1;
        if (read_host(r, n, &host) ||
            read_children(r, n, (struct place){TOPOLOGY_NONE, TOPOLOGY_NONE, (int32_t)numa, host},
                          &port_cap))
            return -1;
    }
    return 0;
}

/* Host by host; by number where all have one, else by bus id, as nvidia-smi does; equal ones as in the file. */
static int by_dev(const void *x, const void *y)
{
    const struct topology_gpu *a = x, *b = y;

    if (a->host != b->host)
        return a->host > b->host ? 1 : -1;
    return a->dev != b->dev ? (a->dev > b->dev) - (a->dev < b->dev)
                            : (a->in_file > b->in_file) - (a->in_file < b->in_file);
}

static int by_busid(const void *x, const void *y)
{
    const struct topology_gpu *a = x, *b = y;
    int order =
        a->host != b->host ? (a->host > b->host) - (a->host < b->host) : strcmp(a->busid, b->busid);

    return order ? order : (a->in_file > b->in_file) - (a->in_file < b->in_file);
}

static void order_gpus(struct reader *r)
{
    struct topology *t = r->t;
    uint32_t *place = ARENA_NEW(r->a, uint32_t, t->n_gpus);
    bool numbered = true;

    for (uint32_t i = 0; i < t->n_gpus; i++)
        numbered = numbered && t->gpus[i].dev >= 0;
    if (t->n_gpus)
        qsort(t->gpus, t->n_gpus, sizeof(*t->gpus), numbered ? by_dev : by_busid);
    for (uint32_t i = 0; i < t->n_gpus; i++)
        place[t->gpus[i].in_file] = i;
    for (uint32_t i = 0; i < t->n_nvlinks; i++)
        t->nvlinks[i].gpu = place[t->nvlinks[i].gpu];
}

/* ---- the document ---- */

/* At a DOCTYPE: stop before anything of it is read. */
static void refuse_doctype(void *ctx, const xmlChar *name, const xmlChar *external,
                           const xmlChar *system)
{
    xmlParserCtxt *c = ctx;

    (void)name;
    (void)external;
    (void)system;
    *(bool *)c->_private = true;
    xmlStopParser(c);
}

/* Some of libxml2's complaints (encodings) have no context and would go to stderr. */
static void ignore(void *ctx, xmlErrorPtr x)
{
    (void)ctx;
    (void)x;
}

static int parse_error(const xmlParserCtxt *ctx, bool doctype, const char *file, struct err *e)
{
    char text[200] = "not well-formed";
    const xmlError *x = xmlCtxtGetLastError((void *)ctx);
    int line = ctx->input ? ctx->input->line : 0;

    if (doctype)
        return err_set(e, ERR_PARSE,
                       "'%.300s': line %d: a DOCTYPE: entities are not read, expected <system>",
                       file, line);
    if (x && x->message) {
        snprintf(text, sizeof(text), "%s", x->message);
        for (char *p = text; *p; p++)
            if ((unsigned char)*p < ' ' || (unsigned char)*p > 126)
                *p = p[1] ? ' ' : 0;
        line = x->line;
    }
    return err_set(e, ERR_PARSE, "'%.300s': line %d: no XML: %s", file, line, text);
}

int topology_from_xml(const char *text, size_t len, const char *file, struct arena *a,
                      struct topology *t, struct err *e)
{
    struct reader r = {.t = t, .a = a, .e = e};
    xmlParserCtxt *ctx;
    bool doctype = false;
    xmlDoc *doc;
    int rc = -1;

    memset(t, 0, sizeof(*t));
    t->file = arena_strdup(a, file);
    if (len > TOPOLOGY_MAX_BYTES)
        return err_set(e, ERR_INVALID, "'%.300s': %zu bytes, expected at most %llu", file, len,
                       (unsigned long long)TOPOLOGY_MAX_BYTES);
    /* before the library has anything that its own functions gave it */
    BUG_ON(xmlMemSetup(mem_free, mem_library_malloc, mem_library_realloc, mem_library_strdup));
    ctx = xmlNewParserCtxt();
    BUG_ON(!ctx);
    ctx->_private = &doctype;
    ctx->sax->internalSubset = refuse_doctype;
    ctx->sax->externalSubset = refuse_doctype;
    xmlSetStructuredErrorFunc(NULL, ignore);
    doc = xmlCtxtReadMemory(ctx, text, (int)len, NULL, NULL,
                            XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING |
                                XML_PARSE_NOBLANKS | XML_PARSE_BIG_LINES);
    xmlSetStructuredErrorFunc(NULL, NULL);
    if (doctype || !doc)
        parse_error(ctx, doctype, file, e);
    else if (!xmlDocGetRootElement(doc))
        err_set(e, ERR_PARSE, "'%.300s': no element, expected <system>", file);
    else
        rc = read_system(&r, xmlDocGetRootElement(doc));
    if (!rc) {
        t->form = r.dump ? TOPOLOGY_DUMP : TOPOLOGY_PCI_ONLY;
        t->notes = r.notes;
        t->n_hosts += !t->n_hosts;
        order_gpus(&r);
        for (uint32_t i = 0; i < t->n_gpus; i++)
            t->gpus[i].cpu = t->gpus[i].numa;
        for (uint32_t i = 0; i < t->n_nics; i++)
            t->nics[i].cpu = t->nics[i].numa;
        topology_join(t, a);
    }
    xmlFreeDoc(doc);
    xmlFreeParserCtxt(ctx);
    return rc;
}

const char *topology_xml_version(void)
{
    return LIBXML_DOTTED_VERSION;
}
#else
int topology_from_xml(const char *text, size_t len, const char *file, struct arena *a,
                      struct topology *t, struct err *e)
{
    (void)text, (void)len, (void)a, (void)t;
    return err_set(e, ERR_UNSUPPORTED,
                   "'%.300s' is XML, and this program was linked without libxml2: give the JSON "
                   "that ballast topo --export writes of it",
                   file);
}

const char *topology_xml_version(void)
{
    return "none";
}
#endif
