#include "cli/coll_tables.h"

#include "cli/coll_check.h"
#include "cli/nccl_text.h"
#include "core/file.h"
#include "core/suggest.h"
#include "model/cluster/bundled.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- names ---- */

const char *const coll_kind_names[] = {"all_reduce", "all_gather", "reduce_scatter", "broadcast",
                                       "reduce",     "alltoall",   "sendrecv",       NULL};
static const enum coll_kind kinds[] = {COLL_ALL_REDUCE, COLL_ALL_GATHER, COLL_REDUCE_SCATTER,
                                       COLL_BROADCAST,  COLL_REDUCE,     COLL_ALL_TO_ALL,
                                       COLL_SEND};

/* The same letters, whatever stands between them. */
static bool same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        while (*a == '_' || *a == '-')
            a++;
        while (*b == '_' || *b == '-')
            b++;
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (!*a)
            return true;
    }
}

/* The place of a name in names[n]; ERR_UNKNOWN lists them, the nearest last. */
static int find_name(const char *what, const char *name, const char *const *names, size_t n,
                     size_t *at, struct err *e)
{
    struct strbuf known;
    int rc;

    for (*at = 0; *at < n; ++*at)
        if (same_name(name, names[*at]))
            return 0;
    strbuf_init(&known);
    for (size_t i = 0; i < n; i++)
        strbuf_printf(&known, "%s%s", i ? ", " : "", names[i]);
    rc = err_set(e, ERR_UNKNOWN, "unknown %s '%.60s', expected %s%s", what, name, known.s,
                 suggest(name, names, n).s);
    strbuf_release(&known);
    return rc;
}

int coll_kind_parse(const char *name, enum coll_kind *out, struct err *e)
{
    size_t at;

    if (find_name("collective", name, coll_kind_names, suggest_count(coll_kind_names), &at, e))
        return -1;
    *out = kinds[at];
    return 0;
}

const char *coll_kind_nccl_name(enum coll_kind kind)
{
    size_t i = 0;

    while (kinds[i] != kind)
        BUG_ON(!coll_kind_names[++i]);
    return coll_kind_names[i];
}

int coll_or_owners_parse(const char *name, enum coll_kind *out, struct err *e)
{
    enum { N = sizeof(kinds) / sizeof(kinds[0]) };
    const char *names[N + 2];
    size_t at;

    memcpy(names, coll_kind_names, N * sizeof(*names));
    names[N] = coll_kind_name(COLL_SEGMENT_GATHER);
    names[N + 1] = coll_kind_name(COLL_SEGMENT_REDUCE);
    if (find_name("collective", name, names, N + 2, &at, e))
        return -1;
    *out = at < N ? kinds[at] : at == N ? COLL_SEGMENT_GATHER : COLL_SEGMENT_REDUCE;
    return 0;
}

int nccl_algo_parse(const char *name, uint32_t *bit, struct err *e)
{
    const char *names[NCCL_ALGO_N];
    size_t at;

    for (int i = 0; i < NCCL_ALGO_N; i++)
        names[i] = nccl_algo_name((enum nccl_algo)i);
    if (find_name("algorithm", name, names, NCCL_ALGO_N, &at, e))
        return -1;
    *bit = 1u << at;
    return 0;
}

int nccl_protocol_parse(const char *name, uint32_t *bit, struct err *e)
{
    const char *names[PROTOCOL_N];
    size_t at;

    for (int i = 0; i < PROTOCOL_N; i++)
        names[i] = nccl_protocol_name((enum coll_protocol)i);
    if (find_name("protocol", name, names, PROTOCOL_N, &at, e))
        return -1;
    *bit = 1u << at;
    return 0;
}

int nccl_version_parse(const char *text, uint32_t *out, struct err *e)
{
    unsigned major, minor;
    int n = 0;

    if (sscanf(text, "%1u.%2u%n", &major, &minor, &n) != 2 || major != 2 ||
        (text[n] && text[n] != '.' && text[n] != '-' && text[n] != '+'))
        return err_set(e, ERR_INVALID,
                       "a version of NCCL '%.40s', expected one of NCCL 2, as 2.27 or 2.27.3",
                       text);
    *out = major * 100 + minor;
    return 0;
}

/* ---- the cluster of a table ---- */

static bool bundled(const char *name)
{
    for (size_t i = 0; i < bundled_clusters_n; i++)
        if (!strcasecmp(bundled_clusters[i].name, name))
            return true;
    for (size_t i = 0; i < cluster_n_aliases; i++)
        if (!strcasecmp(cluster_aliases[i].name, name))
            return true;
    return false;
}

/* GPUs that a description of a system may name, and the cluster whose device and NVLink are taken for it; the first that is there
 * counts. Cards are not the modules of the same chip, and a slice of a GPU is neither. */
static const struct {
    const char *words[2], *base; /* base NULL: no cluster is known */
} known_gpus[] = {
    {{"MIG"}, NULL},          {{"GB200"}, "gb200-nvl72"},      {{"B200"}, "hgx-b200"},
    {{"H200", "NVL"}, NULL},  {{"H200"}, "hgx-h200-ndr"},      {{"H100", "NVL"}, "h100-nvl"},
    {{"H100", "PCIe"}, NULL}, {{"H100"}, "hgx-h100-ndr"},      {{"A800", "PCIe"}, NULL},
    {{"A800"}, "a800-4hdr"},  {{"A100", "PCIe"}, "a100-pcie"}, {{"A100"}, "dgx-a100"},
    {{"L40S"}, "l40s"}};

/* Networks that are not those of the clusters above, by what their users call them, and the cluster that has constants of one;
 * the first that is named, of the GPUs if it says any, counts. InfiniBand and RoCE are those of the clusters above. */
static const struct {
    const char *word, *gpu, *cluster;
} known_networks[] = {{"EFA", "A100", "aws-p4de"},
                      {"EFA", NULL, "aws-p5"},
                      {"TCPXO", NULL, "gcp-a3mega"},
                      {"TCPX", NULL, "gcp-a3mega"}};

/* Where the word stands in the text, not inside a longer one (H200 in GH200), in whatever case. NULL: it does not. */
static const char *find_word(const char *text, const char *word)
{
    size_t n = strlen(word);

    for (const char *s = text; *s; s++)
        if (!strncasecmp(s, word, n) && !isalnum((unsigned char)s[n]) &&
            (s == text || !isalnum((unsigned char)s[-1])))
            return s;
    return NULL;
}

static bool has_word(const char *text, const char *word)
{
    return find_word(text, word);
}

/* ... and no "no", "non", "not" or "without" before it. */
static bool affirms_word(const char *text, const char *word)
{
    static const char *const denials[] = {"no", "non", "not", "without"};
    const char *at = find_word(text, word);
    size_t before = at ? (size_t)(at - text) : 0;

    while (before && (text[before - 1] == ' ' || text[before - 1] == '-'))
        before--;
    for (size_t i = 0; i < sizeof(denials) / sizeof(denials[0]); i++) {
        size_t n = strlen(denials[i]);

        if (before >= n && !strncasecmp(text + before - n, denials[i], n) &&
            (before == n || !isalnum((unsigned char)text[before - n - 1])))
            return false;
    }
    return at;
}

static const char *base_of_system(const char *system)
{
    for (size_t i = 0; i < sizeof(known_gpus) / sizeof(known_gpus[0]); i++)
        if (has_word(system, known_gpus[i].words[0]) &&
            (!known_gpus[i].words[1] || has_word(system, known_gpus[i].words[1])))
            return known_gpus[i].base;
    return NULL;
}

/* The cluster whose network the table's words name, and the word. NULL: none but that of its GPUs' cluster. */
static const char *network_of(const struct coll_table *t, const char **word)
{
    const char *const texts[] = {t->system, t->conditions};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (size_t k = 0; k < sizeof(known_networks) / sizeof(known_networks[0]); k++)
            if (affirms_word(texts[i], known_networks[k].word) &&
                (!known_networks[k].gpu || has_word(t->system, known_networks[k].gpu))) {
                *word = known_networks[k].word;
                return known_networks[k].cluster;
            }
    return NULL;
}

bool coll_system_has(const char *system, const struct cluster *c)
{
    const char *base = base_of_system(system);
    struct cluster known;
    struct arena a;
    struct err e;
    bool same;

    if (!base)
        return false;
    arena_init(&a);
    same = !cluster_load(base, &a, &known, &e) &&
           !strncmp(known.device.name, c->device.name, strcspn(known.device.name, "-"));
    arena_release(&a);
    return same;
}

struct table_shape {
    uint64_t gpus, nodes, gpus_per_node, nics;
    double nic_gbps;
};

/* NICs that the line says a node has. A table may call a whole NVLink domain a node: the node of the
 * cluster then has its GPUs' part of the NICs. 0: they do not divide. */
static uint64_t nics_of_node(const struct cluster *base, const struct table_shape *s,
                             uint64_t per_node)
{
    uint64_t nics = s->nics;

    if (per_node <= base->gpus_per_node || per_node > cluster_domain_gpus(base))
        return nics;
    return nics * base->gpus_per_node % per_node ? 0 : nics * base->gpus_per_node / per_node;
}

/* The table's own machine as a line. NULL, and why in t->skipped: there is none. */
static int line_of(struct coll_table *t, const struct table_shape *s, uint64_t per_node,
                   const char **line, struct arena *a, struct err *e)
{
    const char *base = base_of_system(t->system), *word = "", *network = network_of(t, &word);
    struct cluster c;
    uint64_t nics;

    *line = base;
    if (!base) {
        t->skipped =
            "its cluster is not bundled, and its system names no GPU that this program knows";
        return 0;
    }
    if (s->nodes == 1)
        return 0;
    if (cluster_load(base, a, &c, e))
        return -1;
    nics = nics_of_node(&c, s, per_node);
    *line = NULL;
    if (!s->nics || s->nic_gbps <= 0)
        t->skipped = "its cluster is not bundled, and the speed of its NICs is not given";
    else if (!nics)
        t->skipped = arena_printf(a, "%llu NICs for %llu GPUs are not as many for each %u",
                                  (unsigned long long)s->nics, (unsigned long long)per_node,
                                  c.gpus_per_node);
    else
        *line = arena_printf(a, "%s:%s%s%snics=%llux%.17gGb", base, network ? "network=" : "",
                             network ? network : "", network ? "," : "", (unsigned long long)nics,
                             s->nic_gbps);
    if (*line && network)
        t->assumed = arena_printf(a, "on the network of %s, as its words say %s", network, word);
    return 0;
}

/* The next number of the text with `unit` behind it: 16 of "racks of 16 compute trays", but no part of
 * a word, as in "NVL72 racks". 0: no more. */
static uint64_t next_count(const char **text, const char *unit)
{
    const char *s = *text;

    while (*s) {
        const char *from = s + strcspn(s, "0123456789");
        bool in_word = from > s && isalnum((unsigned char)from[-1]);
        uint64_t n = in_word ? 0 : strtoull(from, NULL, 10); /* 0 at the end of the text */

        s = from + strspn(from, "0123456789");
        *text = s;
        while (*s == ' ' || *s == '-' || *s == '_')
            s++;
        if (!strncasecmp(s, "compute ", 8))
            s += 8;
        if (n && !strncasecmp(s, unit, strlen(unit)))
            return n;
        s = *text;
    }
    return 0;
}

/* Nodes of an NVLink domain that the table's words say a job over several domains uses: so many
 * trays, or a number of racks that share its nodes. What the nodes divide by counts before what they
 * do not. 0: nothing is said. */
static uint32_t said_of_domain(const struct coll_table *t, uint64_t nodes, uint32_t most)
{
    const char *const texts[] = {t->cluster_name, t->id, t->system, t->conditions};
    uint32_t found = 0;

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        for (int racks = 0; racks < 2; racks++) {
            const char *text = texts[i];
            uint64_t n;

            while ((n = next_count(&text, racks ? "rack" : "tray"))) {
                if (racks)
                    n = nodes % n ? 0 : nodes / n;
                if (n < 1 || n > most || n >= nodes)
                    continue;
                if (nodes % n == 0)
                    return (uint32_t)n;
                found = found ? found : (uint32_t)n;
            }
        }
    return found;
}

/* A job that does not fill the NVLink domains of its cluster: how many nodes of each it uses. What the
 * table says, or where its cluster is made from its system, equal parts of as few domains as hold it:
 * who measures two racks takes 16 trays of each rather than 18 and 14. */
static int use_domains(struct coll_table *t, const struct table_shape *s, const char *what,
                       bool guess, struct arena *a, struct err *e)
{
    uint32_t has = t->cluster.domain_nodes, n = said_of_domain(t, s->nodes, has);
    uint64_t domains = (s->nodes + has - 1) / has;
    bool said = n > 0;

    if (!said && guess && s->nodes % has && s->nodes % domains == 0)
        n = (uint32_t)(s->nodes / domains);
    if (has == 1 || !n || n == has || s->nodes <= n)
        return 0;
    domains = (s->nodes + n - 1) / n;
    t->assumed = arena_printf(a, "%s%s%s%llu NVLink domains with %u of %u nodes each in use%s",
                              t->assumed ? t->assumed : "", t->assumed ? "; " : "",
                              said ? "" : "assumed: ", (unsigned long long)domains, n, has,
                              said ? ", as its words say" : "; domain_nodes=N says otherwise");
    return cluster_load(
        arena_printf(a, "%s%cdomain_nodes=%u", what, strchr(what, ':') ? ',' : ':', n), a,
        &t->cluster, e);
}

/* Ranks fill nodes; where the table has fewer GPUs a node than the cluster, the first of each; where
 * it has more, its node is an NVLink domain. */
static int place_ranks(struct coll_table *t, const struct table_shape *s, uint64_t per_node,
                       struct arena *a, struct err *e)
{
    uint32_t has = t->cluster.gpus_per_node, nodes = (uint32_t)s->nodes, *ranks;

    if (per_node == has || s->nodes == 1)
        return cluster_resize(&t->cluster, (uint32_t)((s->gpus + has - 1) / has), e);
    if (per_node > has) {
        nodes *= t->cluster.domain_nodes;
        has = cluster_domain_gpus(&t->cluster);
    }
    ranks = ARENA_NEW(a, uint32_t, s->gpus);
    for (uint64_t i = 0; i < s->gpus; i++)
        ranks[i] = (uint32_t)(i / per_node * has + i % per_node);
    t->call.ranks = ranks;
    return cluster_resize(&t->cluster, nodes, e);
}

static int find_cluster(struct coll_table *t, const struct table_shape *s, const char *given,
                        bool always, struct arena *a, struct err *e)
{
    bool own = bundled(t->cluster_name) && !always;
    const char *what = own ? t->cluster_name : given;
    uint64_t per_node = s->gpus_per_node ? s->gpus_per_node : (s->gpus + s->nodes - 1) / s->nodes;

    if (!what && line_of(t, s, per_node, &what, a, e))
        return -1;
    if (!what)
        return 0;
    if (cluster_load(what, a, &t->cluster, e))
        return -1;
    if (own && per_node > cluster_domain_gpus(&t->cluster))
        return err_set(e, ERR_INVALID, "%llu GPUs a node, and a node of its cluster %s has %u",
                       (unsigned long long)per_node, what, t->cluster.gpus_per_node);
    if (per_node > cluster_domain_gpus(&t->cluster)) {
        t->skipped = arena_printf(a, "%llu GPUs a node, and a node of %s has %u",
                                  (unsigned long long)per_node, what, t->cluster.gpus_per_node);
        return 0;
    }
    if (s->nodes > 1 && !t->cluster.nics_per_node && s->gpus > cluster_domain_gpus(&t->cluster)) {
        t->skipped = arena_printf(a, "%s has no NICs", what);
        return 0;
    }
    if ((own || !given) && per_node <= t->cluster.gpus_per_node &&
        use_domains(t, s, what, !own, a, e))
        return -1;
    return place_ranks(t, s, per_node, a, e);
}

/* ---- reading ---- */

/* A number of the row as its shortest text has it, to within a unit of the last digit: people cut digits off. False when it is not
 * there. */
static bool printed(const struct json_at *at, const char *key, struct nccl_number *out)
{
    struct json_at member;
    char text[40];

    if (!json_opt(at, key, &member) || !cJSON_IsNumber(member.node))
        return false;
    snprintf(text, sizeof(text), "%.15g", member.node->valuedouble);
    if (!nccl_number_parse(text, out))
        return false;
    out->half *= 2;
    return true;
}

/* What the row says twice: bandwidths beside times, a time beside the least and the largest one. A contradiction sets it apart. */
static int check_row(const struct json_at *at, const struct coll_table *t, struct coll_row *r,
                     struct arena *a, struct err *e)
{
    static const char *const keys[2][3] = {
        {"time_us", "algbw_GBps", "busbw_GBps"},
        {"inplace_time_us", "inplace_algbw_GBps", "inplace_busbw_GBps"}};
    struct nccl_number time, algbw, busbw;
    double least, most, rate;
    char why[COLL_CHECK_WHY] = "";

    for (int k = 0; k < 2; k++) {
        if (json_double_or(at, keys[k][1], 0, 1e9, 0, &rate, e) ||
            json_double_or(at, keys[k][2], 0, 1e9, 0, &rate, e))
            return -1;
        bool alg = printed(at, keys[k][1], &algbw), bus = printed(at, keys[k][2], &busbw);

        if (printed(at, keys[k][0], &time))
            coll_rates_agree(t->call.kind, t->call.n_ranks, r->n_bytes, &time, alg ? &algbw : NULL,
                             bus ? &busbw : NULL, why);
        else if (alg || bus)
            return json_err(at, ERR_INVALID, e, "has %s without %s", keys[k][alg ? 1 : 2],
                            keys[k][0]);
    }
    if (json_double_or(at, "min_us", 1e-3, 1e12, r->time_us, &least, e) ||
        json_double_or(at, "max_us", 1e-3, 1e12, r->time_us, &most, e))
        return -1;
    if (least > r->time_us || most < r->time_us)
        snprintf(why, sizeof(why), "time_us is %.6g, %s %.6g", r->time_us,
                 least > r->time_us ? "below min_us" : "above max_us",
                 least > r->time_us ? least : most);
    r->contradicts = *why && !r->distrust;
    if (r->contradicts)
        r->distrust = arena_printf(a, "contradicts itself: %s", why);
    return 0;
}

static int read_row(const struct json_at *at, const struct coll_table *t, struct coll_row *r,
                    struct arena *a, struct err *e)
{
    static const char *const keys[] = {"bytes",
                                       "time_us",
                                       "algbw_GBps",
                                       "busbw_GBps",
                                       "inplace_time_us",
                                       "inplace_algbw_GBps",
                                       "inplace_busbw_GBps",
                                       "min_us",
                                       "max_us",
                                       "distrust"};
    const char *why;

    if (json_is_object(at, e) || json_only_keys(at, keys, sizeof(keys) / sizeof(keys[0]), e) ||
        json_u64(at, "bytes", 1, UINT64_C(1) << 50, &r->n_bytes, e) ||
        json_double(at, "time_us", 1e-3, 1e12, &r->time_us, e) ||
        json_double_or(at, "inplace_time_us", 1e-3, 1e12, 0, &r->inplace_us, e) ||
        json_str_or(at, "distrust", NULL, &why, e))
        return -1;
    if (why && !*why)
        return json_err(at, ERR_INVALID, e, "has an empty distrust, expected why");
    r->distrust = why ? arena_strdup(a, why) : NULL;
    return check_row(at, t, r, a, e);
}

static int read_rows(const struct json_at *at, struct coll_table *t, struct arena *a, struct err *e)
{
    struct json_at list, it, first;
    size_t n, wrong = 0;

    if (json_array(at, "rows", &list, &n, e))
        return -1;
    if (!n)
        return json_err(&list, ERR_INVALID, e, "is empty, expected measured sizes");
    t->rows = ARENA_NEW(a, struct coll_row, n);
    for (bool ok = json_first(&list, &it); ok; ok = json_next(&it)) {
        struct coll_row *r = &t->rows[t->n_rows++];

        if (read_row(&it, t, r, a, e))
            return -1;
        if (r->contradicts && !wrong++)
            first = it;
    }
    if (2 * wrong > n) /* no slip of a row: another collective, other ranks, other units */
        return json_err(&first, ERR_INVALID, e, "%s; so do %zu of %zu rows",
                        t->rows[first.index].distrust, wrong, n);
    return 0;
}

static int read_texts(const struct json_at *at, struct coll_table *t, struct arena *a,
                      struct err *e)
{
    const struct {
        const char *key;
        const char **to;
        bool required;
    } texts[] = {{"id", &t->id, true},
                 {"cluster", &t->cluster_name, false},
                 {"system", &t->system, false},
                 {"source", &t->source, false},
                 {"conditions", &t->conditions, false},
                 {"collective", &t->collective, true}};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        const char *s = "";

        if (texts[i].required ? json_str(at, texts[i].key, &s, e)
                              : json_str_or(at, texts[i].key, "", &s, e))
            return -1;
        *texts[i].to = arena_strdup(a, s);
    }
    return 0;
}

static int read_table(const struct json_at *at, const char *cluster, bool always,
                      struct coll_table *t, struct arena *a, struct err *e)
{
    static const char *const keys[] = {"id",
                                       "cluster",
                                       "system",
                                       "gpus",
                                       "nodes",
                                       "gpus_per_node",
                                       "nics_per_node",
                                       "nic_gbps",
                                       "collective",
                                       "rows",
                                       "nccl_version",
                                       "datatype",
                                       "algorithm_forced",
                                       "source",
                                       "conditions",
                                       "launch"};
    const char *launch, *forced, *version, *text;
    struct table_shape s;

    if (json_is_object(at, e) ||
        json_only_keys_or_null(at, keys, sizeof(keys) / sizeof(keys[0]), NULL, e) ||
        read_texts(at, t, a, e) || json_u64(at, "gpus", 2, CLUSTER_MAX_RANKS, &s.gpus, e) ||
        json_u64_or(at, "nodes", 1, CLUSTER_MAX_NODES, 1, &s.nodes, e) ||
        json_u64_or(at, "gpus_per_node", 0, CLUSTER_MAX_GPUS_PER_NODE, 0, &s.gpus_per_node, e) ||
        json_u64_or(at, "nics_per_node", 0, 1024, 0, &s.nics, e) ||
        json_double_or(at, "nic_gbps", 0, 1e6, 0, &s.nic_gbps, e) ||
        json_str_or(at, "launch", "", &launch, e) ||
        json_str_or(at, "algorithm_forced", NULL, &forced, e) ||
        json_str_or(at, "nccl_version", "", &version, e) ||
        json_str_or(at, "datatype", "", &text, e))
        return -1;
    if (s.gpus_per_node * s.nodes != s.gpus && s.gpus_per_node)
        return json_err(at, ERR_INVALID, e, "has %llu gpus on %llu nodes of %llu",
                        (unsigned long long)s.gpus, (unsigned long long)s.nodes,
                        (unsigned long long)s.gpus_per_node);
    if (s.gpus % s.nodes)
        return json_err(at, ERR_INVALID, e,
                        "has %llu gpus on %llu nodes, expected equally many a node",
                        (unsigned long long)s.gpus, (unsigned long long)s.nodes);
    if (coll_kind_parse(t->collective, &t->call.kind, e) ||
        (*version && nccl_version_parse(version, &t->call.nccl.version, e)) ||
        (forced && nccl_algo_parse(forced, &t->call.nccl.algos, e)))
        return err_prefix(e, "'%s': %s", at->file, at->path);
    t->forced = forced ? arena_strdup(a, forced) : NULL;
    t->call.n_ranks = (uint32_t)s.gpus;
    t->call.nccl.out_of_place = true;
    t->call.nccl.one_process = !strncmp(launch, "one process drives", 18);
    if (read_rows(at, t, a, e))
        return -1;
    if (find_cluster(t, &s, cluster, always, a, e))
        return err_prefix(e, "'%s': %s", at->file, at->path);
    return 0;
}

int coll_file_load(struct json *j, const char *path, const char *asked, struct err *e)
{
    struct strbuf table;
    size_t len;
    char *text;
    int status;

    if (file_read(path, JSON_MAX_BYTES, &text, &len, e))
        return -1;
    strbuf_init(&table);
    if (!nccl_text_here(text, len) && len && !strchr(" \t\r\n[{\xef", *text))
        status =
            err_set(e, ERR_PARSE,
                    "'%s' is neither JSON nor a log of nccl-tests; expected its lines as "
                    "printed, or behind a tag that is dropped: [1,0]<stdout>:, 0:, [0], a date "
                    "and time",
                    path);
    else if (!nccl_text_here(text, len))
        status = json_parse(j, path, text, len, e);
    else if (strlen(text) < len)
        status =
            err_set(e, ERR_PARSE, "'%s': a NUL byte at %zu, expected text", path, strlen(text));
    else
        status = nccl_text_to_json(path, text, asked, &table, e) ||
                         json_parse(j, path, table.s, table.len, e)
                     ? -1
                     : 0;
    strbuf_release(&table);
    mem_free(text);
    return status;
}

bool coll_tables_here(const struct json_at *top)
{
    return cJSON_IsArray(top->node);
}

int coll_tables_read(const struct json_at *top, const char *cluster, bool always, struct arena *a,
                     struct coll_table **list, size_t *n, struct err *e)
{
    struct json_at it;

    if (json_is_array(top, n, e) || json_distinct(top, "id", e))
        return -1;
    *list = ARENA_NEW(a, struct coll_table, *n);
    *n = 0;
    for (bool ok = json_first(top, &it); ok; ok = json_next(&it))
        if (read_table(&it, cluster, always, &(*list)[(*n)++], a, e))
            return -1;
    return 0;
}

int coll_table_predict(struct coll_table *t, struct err *e)
{
    struct call_time *out;
    uint64_t *n_bytes;
    int status = 0;

    if (t->skipped)
        return 0;
    out = MEM_NEW(struct call_time, t->n_rows);
    n_bytes = MEM_NEW(uint64_t, t->n_rows);
    for (size_t i = 0; i < t->n_rows; i++)
        n_bytes[i] = t->rows[i].n_bytes;
    if (!call_sizes(&t->cluster, &t->call, n_bytes, (uint32_t)t->n_rows, out, e)) {
        for (size_t i = 0; i < t->n_rows; i++) {
            t->rows[i].predicted_us = (double)out[i].alone_ps / 1e6;
            t->rows[i].nccl = out[i].nccl;
        }
    } else if (e->code == ERR_UNSUPPORTED) {
        snprintf(t->why, sizeof(t->why), "%.190s", e->msg);
        t->skipped = t->why;
    } else {
        status = err_prefix(e, "table '%s'", t->id);
    }
    mem_free(out);
    mem_free(n_bytes);
    return status;
}

static int by_id(const void *x, const void *y)
{
    return strcmp(*(const char *const *)x, *(const char *const *)y);
}

int coll_tables_distinct(const struct coll_table *list, size_t n, struct err *e)
{
    const char **ids = MEM_NEW(const char *, n);
    int status = 0;

    for (size_t i = 0; i < n; i++)
        ids[i] = list[i].id;
    qsort(ids, n, sizeof(*ids), by_id);
    for (size_t i = 1; i < n && !status; i++)
        if (!strcmp(ids[i - 1], ids[i]))
            status =
                err_set(e, ERR_INVALID,
                        "table '%.300s' is given twice; expected each measurement once", ids[i]);
    mem_free(ids);
    return status;
}
