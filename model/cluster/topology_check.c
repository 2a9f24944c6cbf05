/* What is suspicious in a topology file, line by line. A finding names the numbers, so that it can be checked by eye. */
#include "model/cluster/topology.h"

#include "core/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct list {
    const struct topology *t;
    struct arena *a;
    struct topology_finding *f;
    size_t n, cap;
};

static void say(struct list *l, uint32_t line, bool warning, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static void say(struct list *l, uint32_t line, bool warning, const char *fmt, ...)
{
    char text[400];
    va_list ap;

    if (l->n == l->cap) {
        struct topology_finding *wider =
            ARENA_NEW(l->a, struct topology_finding, l->cap ? 2 * l->cap : 32);

        if (l->n)
            memcpy(wider, l->f, l->n * sizeof(*wider));
        l->f = wider;
        l->cap = l->cap ? 2 * l->cap : 32;
    }
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    l->f[l->n++] = (struct topology_finding){line, warning, arena_strdup(l->a, text)};
}

/* ---- PCIe ---- */

/* Kinds of devices whose links are held against each other. */
static uint32_t kind_of(const struct topology_pci *p)
{
    return p->n_children ? 0x06 : p->class_code >> 16;
}

static const char *kind_name(uint32_t kind)
{
    return kind == 0x03 ? "GPU" : kind == 0x02 ? "NIC" : kind == 0x06 ? "bridge" : "device";
}

static const char *busid(const struct topology_pci *p)
{
    return *p->busid ? p->busid : "without bus id";
}

/* Fastest link of devices of the same kind. */
static double usual_Bps(const struct topology *t, uint32_t kind)
{
    double most = 0;

    for (uint32_t i = 0; i < t->n_pcis; i++)
        if (kind_of(&t->pcis[i]) == kind && topology_link_Bps(&t->pcis[i]) > most)
            most = topology_link_Bps(&t->pcis[i]);
    return most;
}

/* The device with the fastest link right below a bridge, or NULL. */
static const struct topology_pci *fastest_below(const struct topology *t,
                                                const struct topology_pci *p)
{
    const struct topology_pci *best = NULL;

    for (uint32_t i = 0; p->n_children && i < t->n_pcis; i++)
        if (t->pcis[i].parent == (int32_t)(p - t->pcis) &&
            (!best || topology_link_Bps(&t->pcis[i]) > topology_link_Bps(best)))
            best = &t->pcis[i];
    return best;
}

static void check_link(struct list *l, const struct topology_pci *p)
{
    const struct topology_pci *below = fastest_below(l->t, p);
    double own = topology_link_Bps(p), usual = usual_Bps(l->t, kind_of(p)),
           wanted = below ? topology_link_Bps(below) : 0;
    const char *kind = kind_name(kind_of(p));

    if (p->link_speed && !(p->speed_GTs > 0))
        say(l, p->line, *p->link_speed != 0,
            "%s %s: link_speed \"%.40s\" is no number of GT/s: NCCL assumes a rate", kind, busid(p),
            p->link_speed);
    if (!(own > 0))
        return;
    if (p->speed_GTs <= 2.5 || p->width == 1)
        say(l, p->line, true,
            "%s %s: a PCIe link of %.4g GT/s x%u, %s: everything behind it crawls", kind, busid(p),
            p->speed_GTs, p->width, units_show_bandwidth(own).s);
    else if (own < 0.9 * usual && kind_of(p) != 0x06)
        say(l, p->line, true, "%s %s: a PCIe link of %.4g GT/s x%u, %s; others of its kind have %s",
            kind, busid(p), p->speed_GTs, p->width, units_show_bandwidth(own).s,
            units_show_bandwidth(usual).s);
    else if (below && own < 0.9 * wanted)
        say(l, p->line, true, "%s %s: a PCIe link of %.4g GT/s x%u, %s, above the %s %s with %s",
            kind, busid(p), p->speed_GTs, p->width, units_show_bandwidth(own).s,
            kind_name(kind_of(below)), busid(below), units_show_bandwidth(wanted).s);
}

static void check_pcis(struct list *l)
{
    const struct topology *t = l->t;

    for (uint32_t i = 0; i < t->n_pcis; i++) {
        const struct topology_pci *p = &t->pcis[i];

        if (!*p->busid)
            say(l, p->line, true, "a <pci> without busid");
        for (uint32_t k = 0; *p->busid && k < i; k++)
            if (p->host == t->pcis[k].host && !strcmp(p->busid, t->pcis[k].busid)) {
                say(l, p->line, true, "bus id %s is that of line %u too", p->busid,
                    t->pcis[k].line);
                break;
            }
        check_link(l, p);
    }
}

static void count_unknown(struct list *l)
{
    const struct topology *t = l->t;
    uint32_t n = 0, line = 0;

    for (uint32_t i = 0; i < t->n_pcis; i++)
        if (!t->pcis[i].class_code && !t->pcis[i].n_children) {
            bool named = false;

            for (uint32_t k = 0; k < t->n_gpus; k++)
                named |= t->gpus[k].pci == (int32_t)i;
            for (uint32_t k = 0; k < t->n_nics; k++)
                named |= t->nics[k].pci == (int32_t)i;
            if (!named && !n++)
                line = t->pcis[i].line;
        }
    if (n)
        say(l, line, false,
            "%u device%s without class, from this line on: NCCL asks the machine what "
            "they are",
            n, n > 1 ? "s" : "");
}

/* ---- GPUs ---- */

static void check_nvlink(struct list *l, const struct topology_nvlink *k)
{
    const struct topology *t = l->t;
    const struct topology_gpu *g = &t->gpus[k->gpu];

    if (!k->count)
        say(l, k->line, true, "GPU %u: an NVLink entry of no links", k->gpu);
    if (*k->target && !strcasecmp(k->target, g->busid))
        say(l, k->line, true, "GPU %u: its NVLink ends at itself (%s): where it ends is not said",
            k->gpu, k->target);
    else if (k->tclass >> 8 == 0x0302 || k->tclass >> 8 == 0x0300) {
        bool found = false;

        for (uint32_t i = 0; i < t->n_gpus; i++)
            found |= !strcasecmp(k->target, t->gpus[i].busid);
        if (!found)
            say(l, k->line, true, "GPU %u: its NVLink ends at %.40s, which is no GPU of this file",
                k->gpu, k->target);
    }
}

/* GPUs that NVLink joins, where these are not all. */
static void check_domains(struct list *l, uint32_t most)
{
    const struct topology *t = l->t;
    struct topology_domains d;
    struct err e;
    uint32_t first = 0;

    if (t->form == TOPOLOGY_SMI && t->n_gpus > 1 && !most) {
        say(l, t->line, true,
            "no NV between any two GPUs: nvidia-smi topo -mp hides NVLink, use -m; or these GPUs "
            "have none");
        return;
    }
    if (!most || t->n_hosts > 1 || topology_find_domains(t, l->a, &d, &e) || !d.known)
        return; /* topology_to_cluster() says what is wrong */
    if (d.note)
        say(l, t->gpus[0].line, true, "%.300s", d.note);
    if (d.n >= t->n_gpus)
        return;
    while (first + 1 < t->n_gpus && d.of_gpu[first] == d.of_gpu[first + 1])
        first++;
    say(l, t->gpus[0].line, false,
        "NVLink joins %u of %u GPUs: what GPU %u and GPU %u send each other passes PCIe", d.n,
        t->n_gpus, first, first + 1);
}

static void check_gpus(struct list *l)
{
    const struct topology *t = l->t;
    uint32_t most = 0;

    if (!t->n_gpus)
        say(l, t->line, true, "no GPUs: expected devices of class 0x03.... or <gpu>");
    for (uint32_t i = 0; i < t->n_gpus; i++)
        most = t->gpus[i].n_links > most ? t->gpus[i].n_links : most;
    for (uint32_t i = 0; i < t->n_gpus; i++) {
        const struct topology_gpu *g = &t->gpus[i];

        if (t->form != TOPOLOGY_PCI_ONLY && !g->n_links && (most || t->form == TOPOLOGY_DUMP))
            say(l, g->line, true, "GPU %u has no NVLink%s", i, most ? ", and others have" : "");
        else if (g->n_links < most)
            say(l, g->line, true, "GPU %u has %u NVLinks, others %u", i, g->n_links, most);
        for (uint32_t k = 0; k < i; k++) {
            if (g->host == t->gpus[k].host && g->dev >= 0 && g->dev == t->gpus[k].dev)
                say(l, g->line, true, "dev %d is that of the GPU of line %u too", g->dev,
                    t->gpus[k].line);
            if (g->rank >= 0 && g->rank == t->gpus[k].rank)
                say(l, g->line, true, "rank %d is that of the GPU of line %u too", g->rank,
                    t->gpus[k].line);
        }
    }
    for (uint32_t i = 0; i < t->n_nvlinks; i++)
        check_nvlink(l, &t->nvlinks[i]);
    check_domains(l, most);
}

/* ---- NICs ---- */

static uint32_t nics_on(const struct topology *t, int32_t root)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < t->n_nics; i++)
        n += root >= 0 && t->nics[i].root == root;
    return n;
}

static void check_idle(struct list *l)
{
    const struct topology *t = l->t;
    bool *idle = ARENA_NEW(l->a, bool, t->n_nics);

    topology_idle_nics(t, idle);
    for (uint32_t i = 0; i < t->n_nics; i++)
        if (idle[i])
            say(l, t->nics[i].line, false, "%s serves no GPU: left out",
                *t->nics[i].name ? t->nics[i].name : arena_printf(l->a, "NIC %u", i));
}

/* GPUs whose PCIe tree has no NIC, where other GPUs' trees have one. */
static void check_near(struct list *l)
{
    const struct topology *t = l->t;
    uint32_t with = 0;

    for (uint32_t i = 0; i < t->n_gpus; i++)
        with += nics_on(t, t->gpus[i].root) > 0;
    for (uint32_t i = 0; with && with < t->n_gpus && i < t->n_gpus; i++)
        if (!nics_on(t, t->gpus[i].root))
            say(l, t->gpus[i].line, true,
                "GPU %u has no NIC under its PCIe switch, and %u other GPUs have: is one missing?",
                i, with);
    if (!with && t->n_nics && t->n_gpus)
        say(l, t->gpus[0].line, false,
            "no GPU has a NIC under its PCIe switch: traffic passes a CPU");
}

static void check_nics(struct list *l)
{
    const struct topology *t = l->t;
    double most = 0;

    if (!t->n_nics)
        say(l, t->line, true, "no NICs: expected devices of class 0x02.... or <nic>");
    else if (t->n_nics < t->n_gpus)
        say(l, t->nics[0].line, false, "%u NICs for %u GPUs", t->n_nics, t->n_gpus);
    for (uint32_t i = 0; i < t->n_nics; i++)
        most = t->nics[i].Bps > most ? t->nics[i].Bps : most;
    for (uint32_t i = 0; i < t->n_nics; i++) {
        const struct topology_nic *n = &t->nics[i];

        if (t->form == TOPOLOGY_DUMP && !(n->Bps > 0))
            say(l, n->line, true, "NIC %s has no speed", n->name);
        else if (n->Bps > 0 && n->Bps < 0.9 * most)
            say(l, n->line, true, "NIC %s: %s, others %s", n->name, units_show_bandwidth(n->Bps).s,
                units_show_bandwidth(most).s);
        if (n->Bps > 0 && n->Bps <= 1.25e9)
            say(l, n->line, true, "NIC %s: 10 Gb/s or less: is it the one of the control network?",
                n->name);
        if (n->no_gdr)
            say(l, n->line, false, "NIC %s: gdr=\"0\": GPU memory goes through the host", n->name);
    }
    for (uint32_t i = 0; i < t->n_ports; i++)
        for (uint32_t k = 0; k < i; k++)
            if (t->nics[t->ports[i].nic].host == t->nics[t->ports[k].nic].host &&
                ((*t->ports[i].name && !strcmp(t->ports[i].name, t->ports[k].name)) ||
                 (t->ports[i].dev >= 0 && t->ports[i].dev == t->ports[k].dev))) {
                say(l, t->ports[i].line, true, "net %.60s (dev %d) is that of line %u too",
                    t->ports[i].name, t->ports[i].dev, t->ports[k].line);
                break;
            }
    check_near(l);
    check_idle(l);
}

static int by_line(const void *x, const void *y)
{
    const struct topology_finding *a = x, *b = y;

    return a->line != b->line ? (a->line > b->line) - (a->line < b->line)
                              : strcmp(a->text, b->text);
}

size_t topology_check(const struct topology *t, struct arena *a, struct topology_finding **out)
{
    struct list l = {.t = t, .a = a};

    check_pcis(&l);
    count_unknown(&l);
    check_gpus(&l);
    check_nics(&l);
    for (uint32_t i = 0; i < t->n_notes; i++)
        say(&l, t->notes[i].line, false, "%s", t->notes[i].text);
    if (l.n)
        qsort(l.f, l.n, sizeof(*l.f), by_line);
    *out = l.f;
    return l.n;
}
