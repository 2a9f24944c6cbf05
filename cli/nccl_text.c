#include "cli/nccl_text.h"

#include "cli/coll_check.h"
#include "cli/coll_tables.h"

#include <ctype.h>
#include <string.h>

enum { MAX_RANKS = 1 << 14, NAME = 64, TYPE = 16, MAX_COLUMNS = 32 };

/* ---- the header ---- */

enum column_kind {
    COLUMN_SIZE,
    COLUMN_COUNT,
    COLUMN_TYPE,
    COLUMN_TIME,
    COLUMN_ALGBW,
    COLUMN_BUSBW,
    COLUMN_WRONG,     /* wrong elements */
    COLUMN_DEVIATION, /* the largest deviation, until 2.11 */
    COLUMN_UNUSED,
    COLUMN_STAMP, /* two words, "2025-11-03 10:11:12" */
};
static const struct {
    const char *name;
    enum column_kind kind;
} column_names[] = {
    {"size", COLUMN_SIZE},      {"count", COLUMN_COUNT},     {"type", COLUMN_TYPE},
    {"redop", COLUMN_UNUSED},   {"root", COLUMN_UNUSED},     {"time", COLUMN_TIME},
    {"algbw", COLUMN_ALGBW},    {"busbw", COLUMN_BUSBW},     {"#wrong", COLUMN_WRONG},
    {"wrong", COLUMN_WRONG},    {"error", COLUMN_DEVIATION}, {"i_min", COLUMN_UNUSED},
    {"i_max", COLUMN_UNUSED},   {"i_p99", COLUMN_UNUSED},    {"i_cv%", COLUMN_UNUSED},
    {"timestamp", COLUMN_STAMP}};
enum { N_COLUMN_NAMES = sizeof(column_names) / sizeof(column_names[0]) };

/* out of place, in place */
enum { HALVES = 2 };

struct column {
    enum column_kind kind;
    int half;
};

/* ---- what a log says ---- */

struct half {
    bool there;
    struct nccl_number time_us, algbw, busbw; /* value < 0: no such column */
    double wrong, deviation;                  /* 0: none, or not checked */
};
struct row {
    uint32_t line;
    uint64_t n_bytes, count;
    char type[TYPE];
    struct half half[HALVES];
};
struct rank {
    char host[NAME], device[NAME]; /* device: its number and the address in brackets */
    long pid;
};
struct test {
    const char *path;
    uint32_t line;      /* the present one, from 1 */
    char program[NAME]; /* of nccl-tests, without _perf: "all_reduce", or "" */
    uint32_t program_line;
    char gpu[NAME]; /* of the first rank */
    long group;
    struct rank *ranks; /* owned */
    size_t n_ranks, cap_ranks;
    bool in_place_first, in_place_alone; /* the line above the header says so */
    struct column column[MAX_COLUMNS];
    int n_columns;
    struct row *rows; /* owned */
    size_t n_rows, cap_rows;
};

#define refuse(t, e, ...)                                                                          \
    (err_set(e, ERR_PARSE, __VA_ARGS__), err_prefix(e, "'%s': line %u", (t)->path, (t)->line))

static void copy(char *to, size_t room, const char *from)
{
    snprintf(to, room, "%.*s", (int)room - 1, from);
}

/* "all_reduce" of "build/all_reduce_perf", "all_reduce_perf_mpi". */
static void program_of(char to[NAME], const char *word)
{
    const char *slash = strrchr(word, '/');
    char *end;

    copy(to, NAME, slash ? slash + 1 : word);
    end = strstr(to, "_perf");
    if (end)
        *end = 0;
}

/* "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  algbw  busbw  #wrong" */
static int header_line(struct test *t, const struct nccl_line_words *w, struct err *e)
{
    int times = 0;

    if (t->n_rows)
        return refuse(t, e, "a second header: the file holds several tests, expected one a file");
    t->n_columns = 0;
    for (int i = 0; i < w->n; i++) {
        struct column *c = &t->column[t->n_columns];
        size_t k = 0;

        while (k < N_COLUMN_NAMES && strcmp(column_names[k].name, w->at[i]) != 0)
            k++;
        if (!strcmp(w->at[i], "cputime"))
            return refuse(t, e,
                          "the times are 'cputime' (nccl-tests -C), what the CPU takes to launch; "
                          "expected 'time', what the collective takes");
        if (k == N_COLUMN_NAMES || t->n_columns == MAX_COLUMNS)
            return refuse(
                t, e,
                "column '%.40s' of the header is not one of nccl-tests 2.0 to 2.20: size, "
                "count, type, redop, root, time, algbw, busbw, #wrong, error, i_min, "
                "i_max, i_p99, i_cv%%, timestamp",
                w->at[i]);
        c->kind = column_names[k].kind;
        times += c->kind == COLUMN_TIME;
        c->half = times ? times - 1 : 0;
        if (times > HALVES)
            return refuse(t, e, "the header has more than two columns 'time'");
        t->n_columns++;
    }
    if (!times || t->column[0].kind != COLUMN_SIZE)
        return refuse(t, e,
                      "the header begins with '%.40s' and has %d columns 'time'; expected size "
                      "first, and one or two times",
                      w->at[0], times);
    if (times == 1 && t->in_place_alone)
        return refuse(t, e,
                      "the table has times in place alone; expected those out of place, which "
                      "are predicted");
    for (int i = 0; i < t->n_columns && times == 2 && t->in_place_first; i++)
        t->column[i].half = 1 - t->column[i].half;
    return 0;
}

/* "#  Rank  0 Group  0 Pid   1234 on     node-1 device  0 [0x07] NVIDIA A100-SXM4-80GB"; no Group
 * before 2.13 */
static int rank_line(struct test *t, const struct nccl_line_words *w, struct err *e)
{
    struct rank r = {.pid = -1};
    uint64_t number = UINT64_MAX, pid = 0, group = 0, device = UINT64_MAX;
    char gpu[NAME] = "";

    for (int i = 0; i < w->n; i++) {
        const char *next = i + 1 < w->n ? w->at[i + 1] : "";

        if (!strcmp(w->at[i], "Rank"))
            nccl_count_parse(next, &number);
        else if (!strcmp(w->at[i], "Group"))
            nccl_count_parse(next, &group);
        else if (!strcmp(w->at[i], "Pid") && nccl_count_parse(next, &pid))
            r.pid = (long)pid;
        else if (!strcmp(w->at[i], "on"))
            copy(r.host, NAME, next);
        else if (!strcmp(w->at[i], "device") && i + 2 < w->n && w->at[i + 2][0] == '[' &&
                 nccl_count_parse(next, &device)) {
            size_t len = 0;

            snprintf(r.device, NAME, "%s %s", next, w->at[i + 2]);
            for (int k = i + 3; k < w->n && len < NAME; k++)
                len += (size_t)snprintf(gpu + len, NAME - len, "%s%s", len ? " " : "", w->at[k]);
            break;
        }
    }
    if (number == UINT64_MAX || r.pid < 0 || !*r.host || !*r.device || !*gpu)
        return refuse(t, e,
                      "expected '# Rank N Pid N on HOST device N [ADDRESS] NAME', as nccl-tests 2 "
                      "prints it");
    if (number != t->n_ranks)
        return refuse(t, e,
                      number < t->n_ranks
                          ? "rank %llu comes twice (expected rank %zu): several tests in one "
                            "file, or a program built without MPI=1, of which each process "
                            "is a test of its own"
                          : "rank %llu follows, expected rank %zu",
                      (unsigned long long)number, t->n_ranks);
    if (t->n_ranks && (long)group != t->group)
        return refuse(t, e,
                      "ranks of several groups (NCCL_TESTS_SPLIT), which run at once; expected "
                      "one group");
    if (t->n_ranks == MAX_RANKS)
        return refuse(t, e, "more than %d ranks", MAX_RANKS);
    for (size_t i = 0; i < t->n_ranks; i++)
        if (!strcmp(t->ranks[i].host, r.host) && !strcmp(t->ranks[i].device, r.device))
            return refuse(t, e,
                          "ranks %zu and %llu are both device %s of host '%s'; expected hosts of "
                          "different names",
                          i, (unsigned long long)number, r.device, r.host);
    if (!t->n_ranks)
        copy(t->gpu, NAME, gpu);
    if (strcmp(t->gpu, gpu) != 0)
        return refuse(t, e, "rank %llu is on '%s' and rank 0 on '%s'; expected GPUs of one kind",
                      (unsigned long long)number, gpu, t->gpu);
    t->group = (long)group;
    t->ranks = mem_grow(t->ranks, &t->cap_ranks, t->n_ranks + 1, sizeof(*t->ranks));
    t->ranks[t->n_ranks++] = r;
    return 0;
}

static int comment_line(struct test *t, char *line, struct err *e)
{
    static const char starting[] = "Collective test starting:";
    const char *in = strstr(line, "in-place"), *out = strstr(line, "out-of-place");
    struct nccl_line_words w;

    line += strspn(line, "# \t");
    if (in || out) {
        t->in_place_first = in && out && in < out;
        t->in_place_alone = in && !out;
        return 0;
    }
    if (!strncmp(line, starting, sizeof(starting) - 1)) {
        if (*t->program)
            return refuse(t, e,
                          "a second test starts: the file holds several, expected one a file");
        nccl_line_split(line + sizeof(starting) - 1, &w);
        if (!w.n)
            return refuse(t, e, "names no test");
        program_of(t->program, w.at[0]);
        t->program_line = t->line;
        return 0;
    }
    nccl_line_split(line, &w);
    if (w.n > 2 && !strcmp(w.at[0], "Rank"))
        return rank_line(t, &w, e);
    if (w.n > 3 && (!strcmp(w.at[0], "size") || !strcmp(w.at[0], "bytes")))
        return header_line(t, &w, e);
    return 0;
}

/* ---- rows ---- */

static bool number_or_na(const char *word)
{
    struct nccl_number n;

    return nccl_number_parse(word, &n) || !strcmp(word, "N/A");
}

/* A size, a count and a type, or numbers for the most part: a row, whole or not. */
static bool looks_like_row(const struct nccl_line_words *w)
{
    uint64_t n;
    int numbers = 0;

    if (w->n < 4 || !isdigit((unsigned char)w->at[0][0]))
        return false;
    for (int i = 0; i < w->n; i++)
        numbers += number_or_na(w->at[i]);
    return 2 * numbers >= w->n ||
           (w->n > 4 && nccl_count_parse(w->at[0], &n) && nccl_count_parse(w->at[1], &n) &&
            isalpha((unsigned char)w->at[2][0]));
}

/* One value of a row under its column; -1: not what the column holds. */
static int take(struct row *r, const struct column *c, const char *word)
{
    struct half *h = &r->half[c->half];
    bool checked = strcmp(word, "N/A") != 0;
    struct nccl_number n;

    switch (c->kind) {
    case COLUMN_SIZE:
        return nccl_count_parse(word, &r->n_bytes) ? 0 : -1;
    case COLUMN_COUNT:
        return nccl_count_parse(word, &r->count) ? 0 : -1;
    case COLUMN_TYPE:
        copy(r->type, TYPE, word);
        return isalpha((unsigned char)*word) ? 0 : -1;
    case COLUMN_TIME:
        h->there = nccl_number_parse(word, &h->time_us) && h->time_us.value > 0 &&
                   h->time_us.value <= 1e12;
        return h->there || !r->n_bytes ? 0 : -1;
    case COLUMN_ALGBW:
        return nccl_number_parse(word, &h->algbw) ? 0 : -1;
    case COLUMN_BUSBW:
        return nccl_number_parse(word, &h->busbw) ? 0 : -1;
    case COLUMN_WRONG:
    case COLUMN_DEVIATION:
        if (!checked)
            return 0;
        if (!nccl_number_parse(word, &n)) /* "inf", "nan": nothing of it is right */
            return strcmp(word, "inf") && strcmp(word, "nan") ? -1 : (h->wrong = 1, 0);
        if (c->kind == COLUMN_WRONG)
            h->wrong = n.value;
        else
            h->deviation = n.value;
        return 0;
    case COLUMN_UNUSED:
    case COLUMN_STAMP:
        break;
    }
    return 0;
}

static int data_line(struct test *t, const struct nccl_line_words *w, struct err *e)
{
    static const char *const expected[] = {[COLUMN_SIZE] = "a size in bytes",
                                           [COLUMN_COUNT] = "a count",
                                           [COLUMN_TYPE] = "a type",
                                           [COLUMN_TIME] = "a time in us, above 0",
                                           [COLUMN_ALGBW] = "GB/s",
                                           [COLUMN_BUSBW] = "GB/s",
                                           [COLUMN_WRONG] = "a number of wrong elements or N/A",
                                           [COLUMN_DEVIATION] = "a deviation or N/A"};
    struct row r = {.line = t->line};
    int stamp = 0;

    if (!t->n_columns)
        return refuse(t, e,
                      "a row of numbers, and no header '# size count type ... time algbw "
                      "busbw ...' before it that names its columns");
    for (int i = 0; i < t->n_columns; i++)
        stamp += t->column[i].kind == COLUMN_STAMP;
    if (w->n != t->n_columns + stamp)
        return refuse(t, e, "a row of %d columns, and the header has %d", w->n, t->n_columns);
    for (int i = 0; i < HALVES; i++)
        r.half[i].algbw.value = r.half[i].busbw.value = -1;
    for (int i = 0; i < t->n_columns; i++)
        if (take(&r, &t->column[i], w->at[i]))
            return refuse(t, e, "column %d is '%.40s', expected %s", i + 1, w->at[i],
                          expected[t->column[i].kind]);
    if (!r.n_bytes)
        return 0; /* nothing was moved */
    t->rows = mem_grow(t->rows, &t->cap_rows, t->n_rows + 1, sizeof(*t->rows));
    t->rows[t->n_rows++] = r;
    return 0;
}

static int any_line(struct test *t, char *line, struct err *e)
{
    struct nccl_line_words w;

    line = nccl_line_start(line);
    if (*line == '#')
        return comment_line(t, line, e);
    nccl_line_split(line, &w);
    return looks_like_row(&w) ? data_line(t, &w, e) : 0;
}

/* ---- which collective ---- */

/* Programs of nccl-tests whose collectives have no prediction. */
static const char *const others[] = {"scatter", "gather", "hypercube", "alltoallv", NULL};

/* The length of `name` at s, whatever stands for its underscores; 0: it is not there. */
static size_t name_at(const char *s, const char *name)
{
    const char *from = s;

    for (; *name; name++, s++) {
        if (*name == '_' && *s != '_' && *s != '-') {
            s--;
            continue;
        }
        if (*name != '_' && tolower((unsigned char)*s) != *name)
            return 0;
    }
    return isalpha((unsigned char)*s) ? 0 : (size_t)(s - from);
}

/* The one collective that the file's name has in it as words of their own; "" for none, and for
 * two. */
static const char *name_in_path(const char *path)
{
    const char *slash = strrchr(path, '/'), *from = slash ? slash + 1 : path, *found = "";

    for (const char *s = from; *s; s++) {
        const char *best = NULL;
        size_t len = 0;

        if (s > from && isalpha((unsigned char)s[-1]))
            continue;
        for (int k = 0; k < 2; k++)
            for (const char *const *n = k ? others : coll_kind_names; *n; n++)
                if (name_at(s, *n) > len) {
                    len = name_at(s, *n);
                    best = *n;
                }
        if (!best)
            continue;
        if (*found && strcmp(found, best) != 0)
            return "";
        found = best;
        s += len - 1;
    }
    return found;
}

static int find_kind(struct test *t, const char *asked, enum coll_kind *kind, struct err *e)
{
    const char *in_path = name_in_path(t->path), *name = *t->program ? t->program : in_path;
    enum coll_kind wanted;

    if (asked && coll_kind_parse(asked, &wanted, e))
        return -1;
    for (size_t i = 0; others[i]; i++)
        if (!strcmp(name, others[i])) {
            struct strbuf known;

            strbuf_init(&known);
            for (size_t k = 0; coll_kind_names[k]; k++)
                strbuf_printf(&known, "%s%s", k ? ", " : "", coll_kind_names[k]);
            err_set(e, ERR_UNSUPPORTED,
                    "'%s' is a test of %s, which is not predicted; predicted are %s", t->path, name,
                    known.s);
            strbuf_release(&known);
            return -1;
        }
    if (*name && coll_kind_parse(name, kind, e))
        return err_prefix(e, "'%s': line %u", t->path, t->program_line);
    if (*name && asked && *kind != wanted)
        return err_set(e, ERR_INVALID, "'%s' is a test of %s by its %s, expected one of %s",
                       t->path, name, *t->program ? "own words" : "name",
                       coll_kind_nccl_name(wanted));
    if (!*name && !asked)
        return err_set(e, ERR_PARSE,
                       "'%s' does not say which collective it measured; expected a file name with "
                       "it, as all_reduce.txt, or 'ballast coll COLLECTIVE --measured'",
                       t->path);
    if (!*name)
        *kind = wanted;
    return 0;
}

/* ---- the table ---- */

static size_t count_hosts(const struct test *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n_ranks; i++) {
        size_t k = 0;

        while (strcmp(t->ranks[k].host, t->ranks[i].host) != 0)
            k++;
        n += k == i;
    }
    return n;
}

/* Does each host have as many ranks as the first? */
static bool equal_hosts(const struct test *t, size_t hosts)
{
    for (size_t i = 0; i < t->n_ranks; i++) {
        size_t n = 0;

        for (size_t k = 0; k < t->n_ranks; k++)
            n += !strcmp(t->ranks[k].host, t->ranks[i].host);
        if (n * hosts != t->n_ranks)
            return false;
    }
    return hosts > 0;
}

static bool one_process(const struct test *t)
{
    for (size_t i = 1; i < t->n_ranks; i++)
        if (t->ranks[i].pid == t->ranks[0].pid && !strcmp(t->ranks[i].host, t->ranks[0].host))
            return true;
    return false;
}

static int check_row(struct test *t, const struct row *r, enum coll_kind kind, struct err *e)
{
    uint32_t n = (uint32_t)t->n_ranks;
    char why[COLL_CHECK_WHY];
    bool ok = !*r->type || !r->count || coll_count_agrees(n, r->n_bytes, r->count, r->type, why);

    for (int k = 0; k < HALVES && ok; k++) {
        const struct half *h = &r->half[k];

        if (h->there)
            ok = coll_rates_agree(kind, n, r->n_bytes, &h->time_us,
                                  h->algbw.value < 0 ? NULL : &h->algbw,
                                  h->busbw.value < 0 ? NULL : &h->busbw, why);
    }
    if (!ok)
        return err_set(e, ERR_INVALID, "'%s': line %u: the row contradicts itself: %s", t->path,
                       r->line, why);
    return 0;
}

/* The largest deviation that nccl-tests until 2.11 took for rounding, for each rank but one. */
static double most_deviation(const char *type)
{
    return !strcmp(type, "half") || !strcmp(type, "bfloat16") ? 1e-2
           : !strcmp(type, "float")                           ? 1e-5
           : !strcmp(type, "double")                          ? 1e-12
                                                              : 1e-200;
}

static void add_row(const struct test *t, cJSON *rows, const struct row *r)
{
    cJSON *o = json_add_object(rows, NULL);
    double most = most_deviation(r->type) * (double)(t->n_ranks - 1);
    char why[120];

    json_add_u64(o, "bytes", r->n_bytes);
    json_add_double(o, "time_us", r->half[0].time_us.value);
    if (r->half[1].there)
        json_add_double(o, "inplace_time_us", r->half[1].time_us.value);
    for (int k = 0; k < HALVES; k++) {
        const struct half *h = &r->half[k];
        const char *where = k ? "in place" : "out of place";

        if (h->wrong > 0)
            snprintf(why, sizeof(why), "%.15g wrong elements %s", h->wrong, where);
        else if (h->deviation > most)
            snprintf(why, sizeof(why), "result deviates by %.2g %s", h->deviation, where);
        else
            continue;
        json_add_str(o, "distrust", why);
        break;
    }
}

static int finish(struct test *t, const char *asked, struct strbuf *out, struct err *e)
{
    size_t hosts = count_hosts(t);
    enum coll_kind kind;
    cJSON *list, *o, *rows;

    if (find_kind(t, asked, &kind, e))
        return -1;
    if (t->n_ranks < 2 || !equal_hosts(t, hosts))
        return err_set(
            e, ERR_PARSE,
            "'%s' has lines of %zu ranks on %zu hosts; expected nccl-tests' '# Rank' lines "
            "of two ranks or more, equally many a host",
            t->path, t->n_ranks, hosts);
    if (!t->n_rows)
        return err_set(e, ERR_PARSE, "'%s' has no rows of sizes and times", t->path);
    for (size_t i = 0; i < t->n_rows; i++)
        if (check_row(t, &t->rows[i], kind, e))
            return -1;
    list = json_new_array();
    o = json_add_object(list, NULL);
    json_add_str(o, "id", t->path);
    json_add_str(o, "system", t->gpu);
    json_add_str(o, "collective", coll_kind_nccl_name(kind));
    json_add_u64(o, "gpus", t->n_ranks);
    json_add_u64(o, "nodes", hosts);
    json_add_u64(o, "gpus_per_node", t->n_ranks / hosts);
    if (one_process(t))
        json_add_str(o, "launch", "one process drives several GPUs");
    rows = json_add_array(o, "rows");
    for (size_t i = 0; i < t->n_rows; i++)
        add_row(t, rows, &t->rows[i]);
    json_print(list, false, out);
    json_free(list);
    return 0;
}

/* ---- the text ---- */

/* Copies the line at *text into `line` and moves *text behind it; false at the end. */
static bool next_line(const char **text, struct strbuf *line)
{
    size_t n = strcspn(*text, "\n");

    if (!**text)
        return false;
    strbuf_clear(line);
    strbuf_add(line, *text, n);
    *text += n + ((*text)[n] == '\n');
    return true;
}

bool nccl_text_here(const char *text, size_t len)
{
    static const char *const said[] = {"nThread", "Rank ", "size ", "Collective test",
                                       "nccl-tests version"};
    struct strbuf line;
    bool found = false;

    while (len && isspace((unsigned char)*text)) {
        text++;
        len--;
    }
    if (!len || *text == '#' || isdigit((unsigned char)*text))
        return len > 0;
    strbuf_init(&line);
    while (!found && next_line(&text, &line)) {
        char *s = nccl_line_start(line.s);

        for (size_t i = 0; *s == '#' && i < sizeof(said) / sizeof(said[0]); i++)
            found |= strncmp(s + strspn(s, "# \t"), said[i], strlen(said[i])) == 0;
    }
    strbuf_release(&line);
    return found;
}

int nccl_text_to_json(const char *path, const char *text, const char *asked, struct strbuf *out,
                      struct err *e)
{
    struct test t = {.path = path};
    struct strbuf line;
    int status = 0;

    strbuf_init(&line);
    while (!status && next_line(&text, &line)) {
        t.line++;
        status = any_line(&t, line.s, e);
    }
    if (!status)
        status = finish(&t, asked, out, e);
    strbuf_release(&line);
    mem_free(t.ranks);
    mem_free(t.rows);
    return status;
}
