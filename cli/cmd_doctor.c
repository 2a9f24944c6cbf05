/* ballast doctor: what this installation has, what it can do with it, and what is missing for the rest. */
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/programs.h"
#include "core/json.h"
#include "core/version.h"
#include "model/cluster/topology.h"
#include "planner/ilp.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct opt rows[] = {COMMAND_OUTPUT_ROWS};

enum part_id {
    PROGRAM,
    COMPILER,
    GLPK,
    CJSON,
    LIBXML2,
    GNUPLOT,
    EXEC,
    BLAS_SO,
    MPI_SO,
    MPIRUN,
    CUDA_SO,
    DRIVER,
    N_PARTS
};
static const struct {
    const char *name;
    const char *get; /* how it comes to be there */
} parts[N_PARTS] = {
    [PROGRAM] = {"ballast", NULL},
    [COMPILER] = {"compiler", NULL},
    [GLPK] = {"GLPK", NULL},
    [CJSON] = {"cJSON", NULL},
    [LIBXML2] = {"libxml2", NULL},
    [GNUPLOT] = {"gnuplot", "install gnuplot (Debian: gnuplot-nox)"},
    [EXEC] = {"ballast-exec", "put it beside ballast: make install does"},
    [BLAS_SO] = {"ballast-blas.so",
                 "build where OpenBLAS is (Debian: libopenblas-pthread-dev), beside "
                 "ballast-exec"},
    [MPI_SO] = {"ballast-mpi.so", "build where Open MPI is (Debian: libopenmpi-dev), beside "
                                  "ballast-exec"},
    [MPIRUN] = {"mpirun", "install an MPI launcher (Debian: openmpi-bin)"},
    [CUDA_SO] = {"ballast-cuda.so", "build where nvcc, cuBLAS and NCCL are (CUDA_HOME), beside "
                                    "ballast-exec"},
    [DRIVER] = {"NVIDIA driver", "a machine with an NVIDIA GPU and its driver"},
};

static const struct {
    const char *name;
    bool optional; /* what a machine without GPUs does not miss */
    enum part_id needs[4];
    int n;
} uses[] = {
    {"plan, simulate, compare", false, {PROGRAM, GLPK, CJSON, LIBXML2}, 4},
    {"pictures (--plot)", false, {GNUPLOT}, 1},
    {"exec on one rank", false, {EXEC}, 1},
    {"exec at BLAS speed", false, {EXEC, BLAS_SO}, 2},
    {"exec on several ranks", false, {EXEC, MPI_SO, MPIRUN}, 3},
    {"exec on GPUs", true, {EXEC, CUDA_SO, DRIVER}, 3},
};
enum { N_USES = sizeof(uses) / sizeof(uses[0]) };

struct part {
    bool ok;
    const char *version; /* or NULL */
    const char *path;    /* or NULL */
    const char *wrong;   /* why it is there and not ok, or NULL */
};

/* ---- look ---- */

/* First line that a shell command prints, or NULL. */
static const char *first_line(struct arena *a, const char *command)
{
    char line[200] = "";
    FILE *f = popen(command, "r");
    size_t n;

    if (!f)
        return NULL;
    if (!fgets(line, sizeof(line), f))
        line[0] = 0;
    while (fgetc(f) != EOF)
        ;
    pclose(f);
    n = strcspn(line, "\r\n");
    while (n && isspace((unsigned char)line[n - 1]))
        n--;
    return n ? arena_strndup(a, line, n) : NULL;
}

/* For the shell, whatever characters it has. */
static const char *quoted(struct arena *a, const char *path)
{
    struct strbuf b;
    const char *text;

    strbuf_init(&b);
    strbuf_putc(&b, '\'');
    for (; *path; path++)
        strbuf_puts(&b, *path == '\'' ? "'\\''" : (char[]){*path, 0});
    strbuf_putc(&b, '\'');
    text = arena_strdup(a, b.s);
    strbuf_release(&b);
    return text;
}

static void look_for_program(struct part *p, struct arena *a, const char *path)
{
    if (!path || !programs_is(path))
        return;
    p->ok = true;
    p->path = path;
    p->version =
        first_line(a, arena_printf(a, "%s --version 2>/dev/null </dev/null", quoted(a, path)));
}

/* A library of ours: there, and everything that it needs is too. */
static void look_for_library(struct part *p, struct arena *a, const char *file)
{
    const char *path = programs_beside(a, file), *lost;

    if (access(path, R_OK))
        return;
    p->path = path;
    lost = first_line(a, arena_printf(a, "ldd %s 2>/dev/null | grep 'not found'", quoted(a, path)));
    if (lost)
        p->wrong =
            arena_printf(a, "%.*s is not found", (int)strcspn(lost + strspn(lost, " \t"), " "),
                         lost + strspn(lost, " \t"));
    p->ok = !lost;
}

static void look_for_driver(struct part *p, struct arena *a)
{
    static const char path[] = "/proc/driver/nvidia/version";
    FILE *f = fopen(path, "r");
    DIR *gpus = opendir("/proc/driver/nvidia/gpus");
    char line[200] = "";
    uint32_t n = 0;

    if (f) {
        p->ok = true;
        p->path = path;
        if (fgets(line, sizeof(line), f))
            line[strcspn(line, "\n")] = 0;
        for (const struct dirent *d = gpus ? readdir(gpus) : NULL; d; d = readdir(gpus))
            n += d->d_name[0] != '.';
        p->version = arena_printf(a, "%u GPU%s, %s", n, n == 1 ? "" : "s", line);
        fclose(f);
    }
    if (gpus)
        closedir(gpus);
}

static void look(struct part *p, struct arena *a)
{
    const char *other;

    for (int i = PROGRAM; i <= LIBXML2; i++)
        p[i].ok = true;
    p[PROGRAM].version = ballast_version;
    p[PROGRAM].path = programs_beside(a, "ballast");
#ifdef __clang__
    p[COMPILER].version = __VERSION__;
#else
    p[COMPILER].version = "gcc " __VERSION__;
#endif
    p[GLPK].version = ilp_library_version();
    p[CJSON].version = json_library_version();
    p[LIBXML2].version = topology_xml_version();
    look_for_program(&p[GNUPLOT], a, programs_in_path(a, "gnuplot"));
    look_for_program(&p[EXEC], a, programs_beside(a, "ballast-exec"));
    if (!p[EXEC].ok)
        look_for_program(&p[EXEC], a, programs_in_path(a, "ballast-exec"));
    other = arena_printf(a, "ballast-exec %s", ballast_version);
    if (p[EXEC].ok && (!p[EXEC].version || strcmp(p[EXEC].version, other))) {
        p[EXEC].ok = false;
        p[EXEC].wrong = arena_printf(a, "is not of this version, %s", ballast_version);
    }
    look_for_library(&p[BLAS_SO], a, "ballast-blas.so");
    look_for_library(&p[MPI_SO], a, "ballast-mpi.so");
    look_for_program(&p[MPIRUN], a, programs_in_path(a, "mpirun"));
    look_for_library(&p[CUDA_SO], a, "ballast-cuda.so");
    look_for_driver(&p[DRIVER], a);
}

/* ---- say ---- */

static const struct table_col part_cols[] = {
    {.key = "part", .head = "part", .kind = TABLE_TEXT},
    {.key = "found", .head = "found", .kind = TABLE_BOOL},
    {.key = "version", .head = "version", .kind = TABLE_TEXT},
    {.key = "path", .head = "where", .kind = TABLE_TEXT},
    {.key = "wrong", .head = NULL, .kind = TABLE_TEXT},
};
static const struct table_col use_cols[] = {
    {.key = "use", .head = "use", .kind = TABLE_TEXT},
    {.key = "ready", .head = "ready", .kind = TABLE_BOOL},
    {.key = "missing", .head = "missing", .kind = TABLE_TEXT},
    {.key = "to_get_it", .head = NULL, .kind = TABLE_TEXT},
};

static void part_table(const struct part *p, struct table *t)
{
    table_init(t, part_cols, sizeof(part_cols) / sizeof(part_cols[0]));
    for (int i = 0; i < N_PARTS; i++) {
        table_row(t);
        table_set_str(t, "part", parts[i].name);
        table_set_bool(t, "found", p[i].ok);
        table_set_str(t, "version", p[i].version);
        table_set_str(t, "path", p[i].path);
        table_set_str(t, "wrong", p[i].wrong);
    }
}

/* Joins what a use lacks; returns whether it lacks nothing. */
static bool lacks(const struct part *p, int use, struct strbuf *names, struct strbuf *ways)
{
    strbuf_clear(names);
    strbuf_clear(ways);
    for (int k = 0; k < uses[use].n; k++) {
        enum part_id i = uses[use].needs[k];

        if (p[i].ok)
            continue;
        strbuf_printf(names, "%s%s", names->len ? ", " : "", parts[i].name);
        strbuf_printf(ways, "%s%s: ", ways->len ? "; " : "", parts[i].name);
        if (p[i].wrong)
            strbuf_printf(ways, "%s; ", p[i].wrong);
        strbuf_puts(ways, parts[i].get);
    }
    return !names->len;
}

/* All is ready, but for what a machine without GPUs does not miss. */
static bool use_table(const struct part *p, struct table *t)
{
    struct strbuf names, ways;
    bool all = true;

    strbuf_init(&names);
    strbuf_init(&ways);
    table_init(t, use_cols, sizeof(use_cols) / sizeof(use_cols[0]));
    for (int u = 0; u < N_USES; u++) {
        bool ready = lacks(p, u, &names, &ways);

        table_row(t);
        table_set_str(t, "use", uses[u].name);
        table_set_bool(t, "ready", ready);
        table_set_str(t, "missing", ready ? NULL : names.s);
        table_set_str(t, "to_get_it", ready ? NULL : ways.s);
        all = all && (ready || (uses[u].optional && !p[DRIVER].ok));
    }
    strbuf_release(&names);
    strbuf_release(&ways);
    return all;
}

static void ways_as_text(const struct part *p, enum table_format format, struct strbuf *out)
{
    bool any = false;

    for (int i = 0; i < N_PARTS; i++) {
        if (p[i].ok)
            continue;
        strbuf_puts(out, any ? "" : format == TABLE_AS_MD ? "\nto get it\n\n" : "\nto get it\n");
        any = true;
        strbuf_printf(out, "%s%s: ", format == TABLE_AS_MD ? "- " : "  ", parts[i].name);
        if (p[i].wrong)
            strbuf_printf(out, "%s%s%s; ", p[i].path ? p[i].path : "", p[i].path ? ": " : "",
                          p[i].wrong);
        strbuf_printf(out, "%s\n", parts[i].get);
    }
}

static int run(const struct opts *o, struct arena *a, int argc, char **argv, struct strbuf *out,
               struct err *e)
{
    enum table_format format = (enum table_format)opts_get(o, "format")->u64;
    struct part p[N_PARTS] = {{false, NULL, NULL, NULL}};
    struct table found, can;
    bool all;

    if (opts_positionals(o, 0, 0, "nothing", e))
        return -1;
    look(p, a);
    part_table(p, &found);
    all = use_table(p, &can);
    if (format == TABLE_AS_JSON) {
        cJSON *doc = output_document("ballast-doctor", 1, argc, argv);

        json_add_bool(doc, "ready", all);
        json_add_tree(doc, "uses", table_to_json(&can));
        json_add_tree(doc, "parts", table_to_json(&found));
        json_print(doc, true, out);
        strbuf_putc(out, '\n');
        json_free(doc);
    } else if (format == TABLE_AS_CSV) {
        table_print(&can, format, out);
    } else {
        table_print(&found, format, out);
        strbuf_putc(out, '\n');
        table_print(&can, format, out);
        ways_as_text(p, format, out);
    }
    table_release(&found);
    table_release(&can);
    return all ? 0 : 1;
}

int cmd_doctor(int argc, char **argv, struct err *e)
{
    static const struct plain_command command = {
        .usage =
            "usage: ballast doctor [options]\n\n"
            "What this installation has, what it can do, and what is missing for the rest: "
            "libraries,\n"
            "ballast-exec and what it loads, mpirun, gnuplot, the GPU's driver. Exit status 1 "
            "when something\n"
            "is missing; on a machine without an NVIDIA driver, what GPUs need does not count.\n\n",
        .rows = rows,
        .n_rows = sizeof(rows) / sizeof(rows[0]),
        .run = run,
    };

    return command_plain(&command, argc, argv, e);
}
