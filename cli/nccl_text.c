#include "cli/nccl_text.h"

#include "cli/coll_tables.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_HOSTS = 4096, NAME = 64 };

struct test {
    char kind[NAME];             /* "all_reduce", or "" */
    char gpu[NAME];              /* of the first rank */
    uint32_t ranks, hosts, pids; /* of the first host: pids */
    char host[MAX_HOSTS][NAME];
    long first_pid;
    bool one_process;
    cJSON *rows; /* owned */
    size_t n_rows;
};

bool nccl_text_here(const char *text, size_t len)
{
    while (len && isspace((unsigned char)*text)) {
        text++;
        len--;
    }
    return len && (*text == '#' || isdigit((unsigned char)*text));
}

static void copy(char to[NAME], const char *from, size_t n)
{
    n = n < NAME - 1 ? n : NAME - 1;
    memcpy(to, from, n);
    to[n] = 0;
}

/* "#  Rank  0 Group  0 Pid 1234 on  node-1 device  0 [0x07] NVIDIA A100-SXM4-80GB" */
static void rank_line(struct test *t, const char *line)
{
    const char *pid = strstr(line, "Pid"), *on = strstr(line, " on ");
    char name[NAME];
    size_t n;
    long id;

    if (!pid || !on || t->hosts == MAX_HOSTS)
        return;
    id = strtol(pid + 3, NULL, 10);
    for (on += 4; *on == ' ';)
        on++;
    n = strcspn(on, " \r\n");
    copy(name, on, n);
    if (t->ranks == 0) {
        const char *gpu = strchr(line, ']');

        t->first_pid = id;
        if (gpu)
            copy(t->gpu, gpu + 1, strcspn(gpu + 1, "\r\n"));
    } else if (id == t->first_pid && !strcmp(name, t->host[0])) {
        t->one_process = true;
    }
    for (uint32_t i = 0; i < t->hosts; i++)
        if (!strcmp(t->host[i], name)) {
            t->ranks++;
            return;
        }
    memcpy(t->host[t->hosts++], name, NAME);
    t->ranks++;
}

static bool positive(const char *word, double most)
{
    char *end;
    double x = strtod(word, &end);

    return !*end && x > 0 && x <= most;
}

/* "size count type redop root time algbw busbw #wrong time algbw busbw #wrong"; in place may be missing or N/A. */
static int data_line(struct test *t, const char *path, uint32_t number, const char *line,
                     struct err *e)
{
    char word[16][NAME];
    cJSON *row;
    int n = 0;

    while (n < 16 && *line && *line != '\n') {
        size_t len;

        line += strspn(line, " \t\r");
        len = strcspn(line, " \t\r\n");
        if (len)
            copy(word[n++], line, len);
        line += len;
    }
    if (n < 8)
        return err_set(
            e, ERR_PARSE,
            "'%s': line %u has %d columns, expected nccl-tests' size, count, type, redop, "
            "root, time, algbw, busbw, ...",
            path, number, n);
    if (!positive(word[0], 0x1p50) || !positive(word[5], 1e12))
        return err_set(e, ERR_PARSE, "'%s': line %u: size %s and time %s us, expected numbers > 0",
                       path, number, word[0], word[5]);
    row = json_add_object(t->rows, NULL);
    json_add_u64(row, "bytes", (uint64_t)strtod(word[0], NULL));
    json_add_double(row, "time_us", strtod(word[5], NULL));
    if (n > 9 && strtod(word[9], NULL) > 0)
        json_add_double(row, "inplace_time_us", strtod(word[9], NULL));
    if (n > 8 && strtod(word[8], NULL) > 0)
        json_add_str(row, "distrust", "nccl-tests counted wrong elements");
    t->n_rows++;
    return 0;
}

static int comment_line(struct test *t, const char *path, const char *line, struct err *e)
{
    const char *starting = strstr(line, "Collective test starting:");

    if (starting) {
        size_t n;

        if (*t->kind)
            return err_set(e, ERR_PARSE, "'%s' holds several tests; expected one a file", path);
        for (starting += 25; *starting == ' ';)
            starting++;
        n = strcspn(starting, " \r\n");
        if (n > 5 && !strncmp(starting + n - 5, "_perf", 5))
            n -= 5;
        copy(t->kind, starting, n);
    }
    for (line++; *line == ' ';)
        line++;
    if (!strncmp(line, "Rank ", 5))
        rank_line(t, line);
    return 0;
}

/* A collective that the file's name has in it. */
static void kind_from_name(struct test *t, const char *path)
{
    const char *slash = strrchr(path, '/');

    for (size_t i = 0; coll_kind_names[i]; i++)
        if (strstr(slash ? slash + 1 : path, coll_kind_names[i])) {
            copy(t->kind, coll_kind_names[i], strlen(coll_kind_names[i]));
            return;
        }
}

static int finish(struct test *t, const char *path, struct strbuf *out, struct err *e)
{
    cJSON *list, *o;

    if (!*t->kind)
        kind_from_name(t, path);
    if (!*t->kind)
        return err_set(
            e, ERR_PARSE,
            "'%s' does not say which collective it measured; expected a file name with it, "
            "as all_reduce.txt",
            path);
    if (t->ranks < 2 || t->ranks % t->hosts)
        return err_set(
            e, ERR_PARSE,
            "'%s' has lines of %u ranks on %u hosts; expected nccl-tests' '# Rank' lines, "
            "equally many a host",
            path, t->ranks, t->hosts);
    if (!t->n_rows)
        return err_set(e, ERR_PARSE, "'%s' has no rows of sizes and times", path);
    list = json_new_array();
    o = json_add_object(list, NULL);
    json_add_str(o, "id", path);
    json_add_str(o, "system", t->gpu);
    json_add_str(o, "collective", t->kind);
    json_add_u64(o, "gpus", t->ranks);
    json_add_u64(o, "nodes", t->hosts);
    json_add_u64(o, "gpus_per_node", t->ranks / t->hosts);
    if (t->one_process)
        json_add_str(o, "launch", "one process drives several GPUs");
    json_add_tree(o, "rows", t->rows);
    t->rows = NULL;
    json_print(list, false, out);
    json_free(list);
    return 0;
}

int nccl_text_to_json(const char *path, const char *text, struct strbuf *out, struct err *e)
{
    struct test *t = mem_alloc(1, sizeof(*t));
    uint32_t number = 0;
    int status = 0;

    t->rows = json_new_array();
    while (*text && !status) {
        const char *end = strchr(text, '\n'), *at = text;

        number++;
        while (*at == ' ' || *at == '\t')
            at++;
        if (*at == '#')
            status = comment_line(t, path, at, e);
        else if (isdigit((unsigned char)*at))
            status = data_line(t, path, number, at, e);
        text = end ? end + 1 : text + strlen(text);
    }
    if (!status)
        status = finish(t, path, out, e);
    json_free(t->rows);
    mem_free(t);
    return status;
}
