/* The text of `nvidia-smi topo -m`: a matrix of GPUs and NICs. NV12 is twelve NVLinks, PIX and PXB are PCIe bridges only,
 * PHB, NODE and SYS pass a CPU. Columns may be parted by tabs or blanks; what stands behind the matrix (affinities, the
 * legends) is skipped, and so are the escape codes that nvidia-smi writes. */
#include "model/cluster/topology.h"

#include "core/suggest.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 512, MAX_NV = 1024 };

static const char *const relations[] = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC", NULL};

struct column {
    const char *name;
    bool gpu;
    uint32_t line;   /* of its row; 0: none yet */
    uint16_t *cells; /* [n_columns]: enum cell below */
};
/* FAR: over another CPU. NEAR: over the CPU of both. PCIE: under the same bridges. NV + n: n
 * NVLinks. */
enum cell { FAR, NEAR, SELF, PCIE, NV };

/* The next line of text, without escape codes, cut into words; their number, or -1 at the end. */
struct lines {
    const char *p, *end;
    uint32_t number;
    char *word[2 * MAX_COLUMNS];
};

static int next_line(struct lines *l, struct arena *a)
{
    const char *stop;
    char *copy, *to;
    int n = 0;

    if (l->p == l->end)
        return -1;
    stop = memchr(l->p, '\n', (size_t)(l->end - l->p));
    stop = stop ? stop : l->end;
    copy = to = ARENA_NEW(a, char, stop - l->p + 1);
    for (const char *s = l->p; s < stop; s++) {
        if (*s == 27) { /* ESC [ ... letter */
            while (s + 1 < stop && strchr("[;0123456789", s[1]) && s[1])
                s++;
            s += s + 1 < stop;
        } else {
            *to++ = (unsigned char)*s < ' ' ? ' ' : *s;
        }
    }
    l->p = stop + (stop < l->end);
    l->number++;
    for (char *w = strtok_r(copy, " ", &to); w && n < 2 * MAX_COLUMNS; w = strtok_r(NULL, " ", &to))
        l->word[n++] = w;
    return n;
}

static bool is_gpu(const char *name)
{
    return !strncmp(name, "GPU", 3) && name[3] >= '0' && name[3] <= '9' &&
           strspn(name + 3, "0123456789") == strlen(name + 3);
}

static int read_cell(const char *word, uint16_t *out)
{
    int i;

    if (!strncmp(word, "NV", 2) && word[2] >= '0' && word[2] <= '9') {
        char *end;
        long n = strtol(word + 2, &end, 10);

        if (*end || n < 1 || n > MAX_NV)
            return -1;
        *out = (uint16_t)(NV + n);
        return 0;
    }
    i = suggest_index(word, relations);
    if (i < 0)
        return -1;
    *out = i == 0 ? SELF : i <= 2 ? PCIE : i <= 4 ? NEAR : FAR;
    return 0;
}

static int read_row(const struct lines *l, int n_words, struct column *cols, uint32_t n, uint32_t i,
                    const char *file, struct err *e)
{
    if ((uint32_t)n_words < n + 1)
        return err_set(e, ERR_PARSE, "'%.300s': line %u: %d columns behind '%.40s', expected %u",
                       file, l->number, n_words - 1, l->word[0], n);
    cols[i].line = l->number;
    for (uint32_t k = 0; k < n; k++) {
        if (read_cell(l->word[k + 1], &cols[i].cells[k]))
            return err_set(e, ERR_PARSE,
                           "'%.300s': line %u: '%.40s' between %.40s and %.40s, expected X, NV and "
                           "a number, PIX, PXB, PHB, NODE or SYS",
                           file, l->number, l->word[k + 1], cols[i].name, cols[k].name);
        if ((cols[i].cells[k] == SELF) != (i == k) ||
            (cols[i].cells[k] > NV && !(cols[i].gpu && cols[k].gpu)))
            return err_set(e, ERR_PARSE, "'%.300s': line %u: '%.40s' between %.40s and %.40s", file,
                           l->number, l->word[k + 1], cols[i].name, cols[k].name);
    }
    return 0;
}

/* The names of the first line, up to "CPU Affinity". */
static uint32_t read_header(const struct lines *l, int n_words, struct column *cols,
                            struct arena *a)
{
    uint32_t n = 0;

    while ((int)n < n_words && n < MAX_COLUMNS && strcmp(l->word[n], "CPU") &&
           strcmp(l->word[n], "NUMA")) {
        cols[n].name = arena_strndup(a, l->word[n], strnlen(l->word[n], 60));
        cols[n].gpu = is_gpu(l->word[n]);
        n++;
    }
    for (uint32_t i = 0; i < n; i++)
        cols[i].cells = ARENA_NEW(a, uint16_t, n);
    return n;
}

/* Both halves of the matrix say the same, and every column has its row. */
static int check_matrix(const struct column *cols, uint32_t n, const char *file, struct err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!cols[i].line)
            return err_set(e, ERR_PARSE, "'%.300s': no row for the column %.40s", file,
                           cols[i].name);
        for (uint32_t k = 0; k < i; k++)
            if (cols[i].cells[k] != cols[k].cells[i])
                return err_set(e, ERR_PARSE,
                               "'%.300s': line %u: %.40s and %.40s differ from line %u", file,
                               cols[i].line, cols[i].name, cols[k].name, cols[k].line);
    }
    return 0;
}

/* Columns under the same bridges get the same root, the first of them. Two GPUs show their NVLinks to each other in place of
 * the bridges, so a NIC beside both has to join them. */
static void find_roots(const struct column *cols, uint32_t n, int32_t *root)
{
    bool changed = true;

    for (uint32_t i = 0; i < n; i++)
        root[i] = (int32_t)i;
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < n; k++)
                if (cols[i].cells[k] == PCIE && root[k] < root[i]) {
                    root[i] = root[k];
                    changed = true;
                }
    }
}

/* Devices of one CPU get one number, as far as relations say so. Two GPUs show their NVLinks in
 * place of theirs: they are taken to be of one CPU unless something else of the one is far from
 * something of the other. */
static void find_cpus(const struct column *cols, uint32_t n, struct arena *a, int32_t *cpu)
{
    bool *far = ARENA_NEW(a, bool, (size_t)n *n), changed = true;

    for (uint32_t i = 0; i < n; i++)
        cpu[i] = (int32_t)i;
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < n; k++)
                if ((cols[i].cells[k] == PCIE || cols[i].cells[k] == NEAR) && cpu[k] < cpu[i]) {
                    cpu[i] = cpu[k];
                    changed = true;
                }
    }
    memset(far, 0, (size_t)n * n * sizeof(*far));
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++)
            far[(uint32_t)cpu[i] * n + (uint32_t)cpu[k]] |= cols[i].cells[k] == FAR;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n; k++) {
            uint32_t one = (uint32_t)cpu[i], other = (uint32_t)cpu[k];

            if (cols[i].cells[k] <= NV || one >= other || far[one * n + other])
                continue;
            for (uint32_t j = 0; j < n; j++) {
                cpu[j] = cpu[j] == (int32_t)other ? (int32_t)one : cpu[j];
                far[one * n + j] |= far[other * n + j];
                far[j * n + one] |= far[j * n + other];
            }
        }
}

/* Links of a GPU: through switches each peer shows all of them, by direct links each its own. A GPU has at most 18. */
static void count_links(const struct column *cols, uint32_t n, uint32_t i, struct topology_gpu *g)
{
    uint32_t sum = 0, most = 0;

    for (uint32_t k = 0; k < n; k++)
        if (cols[i].cells[k] > NV) {
            uint32_t links = cols[i].cells[k] - NV;

            sum += links;
            most = links > most ? links : most;
        }
    g->to_switch = sum > 18;
    g->n_links = g->to_switch ? most : sum;
}

/* [GPUs][GPUs], in their order in the matrix. */
static const uint16_t *joined(const struct column *cols, uint32_t n, uint32_t n_gpus,
                              struct arena *a)
{
    uint16_t *x = ARENA_NEW(a, uint16_t, (size_t)n_gpus * n_gpus), *to = x;

    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n && cols[i].gpu; k++)
            if (cols[k].gpu)
                *to++ = cols[i].cells[k] > NV ? (uint16_t)(cols[i].cells[k] - NV) : 0;
    return x;
}

static void build(const struct column *cols, uint32_t n, struct arena *a, struct topology *t)
{
    int32_t root[MAX_COLUMNS], cpu[MAX_COLUMNS];

    find_roots(cols, n, root);
    find_cpus(cols, n, a, cpu);
    t->gpus = ARENA_NEW(a, struct topology_gpu, n);
    t->nics = ARENA_NEW(a, struct topology_nic, n);
    for (uint32_t i = 0; i < n; i++) {
        if (cols[i].gpu) {
            struct topology_gpu *g = &t->gpus[t->n_gpus];

            *g = (struct topology_gpu){.line = cols[i].line,
                                       .in_file = t->n_gpus++,
                                       .pci = TOPOLOGY_NONE,
                                       .busid = "",
                                       .root = root[i],
                                       .numa = TOPOLOGY_NONE,
                                       .cpu = cpu[i],
                                       .dev = (int32_t)strtol(cols[i].name + 3, NULL, 10),
                                       .rank = TOPOLOGY_NONE};
            count_links(cols, n, i, g);
        } else {
            t->nics[t->n_nics++] = (struct topology_nic){.line = cols[i].line,
                                                         .pci = TOPOLOGY_NONE,
                                                         .root = root[i],
                                                         .numa = TOPOLOGY_NONE,
                                                         .cpu = cpu[i],
                                                         .name = cols[i].name};
        }
    }
    t->joined = t->n_gpus > CLUSTER_MAX_GPUS_PER_NODE ? NULL : joined(cols, n, t->n_gpus, a);
}

int topology_from_smi(const char *text, size_t len, const char *file, struct arena *a,
                      struct topology *t, struct err *e)
{
    struct lines *l = ARENA_NEW(a, struct lines, 1);
    struct column *cols = ARENA_NEW(a, struct column, MAX_COLUMNS);
    uint32_t n = 0, next = 0;
    int words;

    memset(t, 0, sizeof(*t));
    t->file = arena_strdup(a, file);
    t->form = TOPOLOGY_SMI;
    t->n_hosts = 1;
    if (len > TOPOLOGY_MAX_BYTES)
        return err_set(e, ERR_INVALID, "'%.300s': %zu bytes, expected at most %llu", file, len,
                       (unsigned long long)TOPOLOGY_MAX_BYTES);
    l->p = text;
    l->end = text + len;
    while (next < n || !n) {
        words = next_line(l, a);
        if (words < 0)
            break;
        if (!n && words > 0 && is_gpu(l->word[0])) {
            n = read_header(l, words, cols, a);
            t->line = l->number;
        } else if (n && words > 0) {
            /* rows come in the order of columns */
            if (strcmp(l->word[0], cols[next].name))
                return err_set(e, ERR_PARSE, "'%.300s': line %u: a row '%.40s', expected %.40s",
                               file, l->number, l->word[0], cols[next].name);
            if (read_row(l, words, cols, n, next, file, e))
                return -1;
            next++;
        }
    }
    if (!n)
        return err_set(
            e, ERR_PARSE,
            "'%.300s': no matrix of nvidia-smi topo -m: expected a line that starts with "
            "GPU0",
            file);
    if (check_matrix(cols, n, file, e))
        return -1;
    build(cols, n, a, t);
    return 0;
}
