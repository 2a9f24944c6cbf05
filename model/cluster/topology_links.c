/* Which GPUs of a topology file NVLink joins. A domain is a set of GPUs with a ring through their
 * NVLinks: NCCL's collectives in it leave PCIe alone. All GPUs of most nodes are one domain; cards
 * for PCIe slots with bridges come in pairs.
 *
 * Domains are the connected parts of the graph of NVLinks. A part through NVSwitches joins all its
 * GPUs with each other; of a part with direct links a ring is looked for, and where there is none
 * (a chain of GPUs) the links count for pairs only. */
#include "model/cluster/topology.h"

#include "core/num.h"

#include <string.h>
#include <strings.h>

/* A GPU of any kind has at most so many NVLinks; a matrix that shows more in sum shows each peer
 * all links of the GPU, as they pass switches. */
enum { MOST_LINKS = 18 };
/* Steps of a search for a ring. Nodes with direct links have up to 16 GPUs and many rings; a search
 * that takes longer is of a made-up file. */
enum { MOST_STEPS = 1000000 };

/* ---- who is joined to whom ---- */

static uint32_t find_busid(const struct topology *t, const char *busid)
{
    for (uint32_t g = 0; g < t->n_gpus; g++)
        if (!strcasecmp(t->gpus[g].busid, busid))
            return g;
    return t->n_gpus;
}

void topology_join(struct topology *t, struct arena *a)
{
    uint32_t n = t->n_gpus;
    uint16_t *one = ARENA_NEW(a, uint16_t, (size_t)n * n), *both;

    t->joined = NULL;
    if (t->form == TOPOLOGY_PCI_ONLY || n > CLUSTER_MAX_GPUS_PER_NODE)
        return;
    memset(one, 0, (size_t)n * n * sizeof(*one));
    for (uint32_t i = 0; i < t->n_nvlinks; i++) {
        const struct topology_nvlink *l = &t->nvlinks[i];
        uint32_t to = find_busid(t, l->target);

        if (t->gpus[l->gpu].to_switch)
            continue;
        if (to == l->gpu || !*l->target)
            return; /* where it ends is not said */
        if (to < n)
            one[l->gpu * n + to] = (uint16_t)num_min(UINT16_MAX, one[l->gpu * n + to] + l->count);
    }
    both = ARENA_NEW(a, uint16_t, (size_t)n * n);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < n; j++) {
            const struct topology_gpu *x = &t->gpus[i], *y = &t->gpus[j];
            uint64_t links = i == j ? 0
                             : x->to_switch && y->to_switch
                                 ? num_min(x->n_links, y->n_links)
                                 : num_min(one[i * n + j], one[j * n + i]);

            both[i * n + j] = (uint16_t)num_min(UINT16_MAX, links);
        }
    t->joined = both;
}

/* ---- parts ---- */

struct search {
    const struct topology *t;
    uint32_t part[CLUSTER_MAX_GPUS_PER_NODE];              /* of a GPU */
    uint32_t n_parts, size[CLUSTER_MAX_GPUS_PER_NODE];     /* of a part */
    uint32_t member[CLUSTER_MAX_GPUS_PER_NODE], n_members; /* of the part at hand */
    uint32_t way[CLUSTER_MAX_GPUS_PER_NODE];               /* of a ring, members in order */
    bool used[CLUSTER_MAX_GPUS_PER_NODE];
    uint32_t steps;
};

static uint32_t links(const struct search *s, uint32_t i, uint32_t j)
{
    return s->t->joined[i * s->t->n_gpus + j];
}

static void find_parts(struct search *s)
{
    uint32_t n = s->t->n_gpus, stack[CLUSTER_MAX_GPUS_PER_NODE], depth;
    bool seen[CLUSTER_MAX_GPUS_PER_NODE] = {false};

    for (uint32_t first = 0; first < n; first++) {
        if (seen[first])
            continue;
        depth = 0;
        stack[depth++] = first;
        seen[first] = true;
        s->size[s->n_parts] = 0;
        while (depth) {
            uint32_t i = stack[--depth];

            s->part[i] = s->n_parts;
            s->size[s->n_parts]++;
            for (uint32_t j = 0; j < n; j++)
                if (!seen[j] && links(s, i, j)) {
                    seen[j] = true;
                    stack[depth++] = j;
                }
        }
        s->n_parts++;
    }
}

static void take_part(struct search *s, uint32_t part)
{
    s->n_members = 0;
    for (uint32_t g = 0; g < s->t->n_gpus; g++)
        if (s->part[g] == part)
            s->member[s->n_members++] = g;
    memset(s->used, 0, sizeof(s->used));
    s->steps = 0;
}

/* "GPUs 0, 1 and 4" */
static const char *names(const struct search *s, uint32_t part, struct arena *a)
{
    const char *text = NULL;
    uint32_t left = s->size[part];

    for (uint32_t g = 0; g < s->t->n_gpus; g++)
        if (s->part[g] == part) {
            left--;
            text = text ? arena_printf(a, "%s%s %u", text, left ? "," : " and", g)
                        : arena_printf(a, "GPU%s %u", left ? "s" : "", g);
        }
    return text;
}

/* ---- rings and pairs ---- */

/* The way of `at` members goes on to a ring. */
static bool closes(struct search *s, uint32_t at)
{
    uint32_t last = s->way[at - 1];

    if (at == s->n_members)
        return links(s, last, s->way[0]) > 0;
    for (uint32_t k = 0; k < s->n_members && s->steps < MOST_STEPS; k++) {
        uint32_t next = s->member[k];

        s->steps++;
        if (s->used[next] || !links(s, last, next))
            continue;
        s->used[next] = true;
        s->way[at] = next;
        if (closes(s, at + 1))
            return true;
        s->used[next] = false;
    }
    return false;
}

static bool has_ring(struct search *s, uint32_t part)
{
    take_part(s, part);
    s->way[0] = s->member[0];
    s->used[s->way[0]] = true;
    return s->n_members < 3 || closes(s, 1);
}

/* The members not yet used make pairs with links; pairs get numbers from *n on. */
static bool pairs(struct search *s, uint8_t *of_gpu, uint32_t *n)
{
    uint32_t i = 0;

    while (i < s->n_members && s->used[s->member[i]])
        i++;
    if (i == s->n_members)
        return true;
    s->used[s->member[i]] = true;
    for (uint32_t k = i + 1; k < s->n_members && s->steps < MOST_STEPS; k++) {
        uint32_t one = s->member[i], other = s->member[k];

        s->steps++;
        if (s->used[other] || !links(s, one, other))
            continue;
        s->used[other] = true;
        of_gpu[one] = of_gpu[other] = (uint8_t)*n;
        ++*n;
        if (pairs(s, of_gpu, n))
            return true;
        --*n;
        s->used[other] = false;
    }
    s->used[s->member[i]] = false;
    return false;
}

/* Every part lacks nothing but rings: pairs of all of them, or no domain. */
static void fall_back(struct search *s, uint32_t part, struct arena *a,
                      struct topology_domains *out)
{
    uint32_t n = 0;
    bool all = true;

    for (uint32_t p = 0; p < s->n_parts && all; p++) {
        take_part(s, p);
        all = pairs(s, out->of_gpu, &n);
    }
    out->n = all ? 2 : 1;
    for (uint32_t g = 0; g < s->t->n_gpus && !all; g++)
        out->of_gpu[g] = (uint8_t)g;
    out->note = arena_printf(a, "the NVLinks of %s close no ring: they are used %s",
                             names(s, part, a), all ? "in pairs only" : "by no collective");
}

/* NVLinks of a GPU in its domain, and whether they pass switches. */
static void count_links(const struct topology *t, uint32_t g, struct topology_domains *d,
                        uint32_t *sum, uint32_t *most)
{
    *sum = *most = 0;
    for (uint32_t j = 0; j < t->n_gpus; j++)
        if (d->of_gpu[j] == d->of_gpu[g]) {
            *sum += t->joined[g * t->n_gpus + j];
            *most = (uint32_t)num_max(*most, t->joined[g * t->n_gpus + j]);
        }
}

static int check_switches(const struct topology *t, struct topology_domains *d, struct err *e)
{
    for (uint32_t g = 0; g < t->n_gpus && d->n > 1; g++) {
        uint32_t sum, most, links;

        count_links(t, g, d, &sum, &most);
        d->to_switch |= t->gpus[g].to_switch || sum > MOST_LINKS;
        links = t->gpus[g].to_switch || sum > MOST_LINKS ? most : sum;
        d->n_links = d->n_links ? (uint32_t)num_min(d->n_links, links) : links;
    }
    for (uint32_t i = 0; i < t->n_gpus && d->to_switch; i++)
        for (uint32_t j = 0; j < i; j++)
            if (d->of_gpu[i] == d->of_gpu[j] && !t->joined[i * t->n_gpus + j])
                return err_set(e, ERR_UNSUPPORTED,
                               "'%.300s': line %u: GPU %u reaches others by more than the %d "
                               "NVLinks of a GPU, so through NVSwitches, and GPU %u not",
                               t->file, t->gpus[i].line, i, MOST_LINKS, j);
    return 0;
}

int topology_find_domains(const struct topology *t, struct arena *a, struct topology_domains *out,
                          struct err *e)
{
    struct search *s = ARENA_NEW(a, struct search, 1);

    memset(out, 0, sizeof(*out));
    if (!t->joined)
        return 0;
    out->known = true;
    s->t = t;
    find_parts(s);
    for (uint32_t p = 1; p < s->n_parts; p++)
        if (s->size[p] != s->size[0]) {
            uint32_t g = 0;

            while (s->part[g] != p)
                g++;
            return err_set(e, ERR_UNSUPPORTED,
                           "'%.300s': line %u: NVLink joins %.100s, and %s%.100s: NVLink domains "
                           "of different sizes in one node are not described",
                           t->file, t->gpus[g].line, names(s, 0, a),
                           s->size[p] == 1 ? "a GPU without NVLink, " : "", names(s, p, a));
        }
    out->n = s->size[0];
    for (uint32_t g = 0; g < t->n_gpus; g++)
        out->of_gpu[g] = (uint8_t)s->part[g];
    for (uint32_t p = 0; p < s->n_parts; p++)
        if (!has_ring(s, p)) {
            fall_back(s, p, a, out);
            break;
        }
    return check_switches(t, out, e);
}
