/* ballast COMMAND: finds the command, prints its error, sets the exit status. A command that is not here is a program
 * ballast-COMMAND, beside this one or in PATH, as git does it: `exec` and `calibrate` live in ballast-exec's world of
 * MPI and CUDA, which this program does not link. */
#include "cli/commands.h"
#include "cli/output.h"
#include "cli/programs.h"
#include "core/file.h"
#include "core/mem.h"
#include "core/suggest.h"
#include "core/version.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct command {
    const char *name;
    int (*fn)(int argc, char **argv, struct err *e);
    const char *help;
};
static const struct command commands[] = {
    {"model", cmd_model, "tensors, parameter counts, matrix/tail split, units"},
    {"topo", cmd_topo, "a cluster: picture, rates, checks, sources"},
    {"plan", cmd_plan, "owners and loads; writes a plan file"},
    {"sim", cmd_sim, "one layout in detail: step time, memory, traffic, trace"},
    {"compare", cmd_compare, "one row a layout: the main job"},
    {"recommend", cmd_recommend, "the fewest nodes that hold a step, and the fastest layout there"},
    {"flows", cmd_flows, "finish times of plain flows over links that they share"},
    {"coll", cmd_coll, "predicted table of nccl-tests for a collective"},
    {"validate", cmd_validate, "predictions beside measurements, with error statistics"},
    {"doctor", cmd_doctor, "what this installation has, and what is missing for what"},
};
enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

/* Of another program: it has the libraries that this one does not. */
static const struct {
    const char *name, *help;
} elsewhere[] = {
    {"exec", "runs a plan on this machine and compares it with its prediction"},
    {"calibrate", "measures this machine; writes a cluster file"},
};
enum { N_ELSEWHERE = sizeof(elsewhere) / sizeof(elsewhere[0]) };

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

static int help(struct err *e)
{
    printf("ballast %s: plans and simulates the training of large models with matrix optimizers\n\n"
           "usage: ballast COMMAND [options]\n\ncommands:\n",
           ballast_version);
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-11s %s\n", commands[i].name, commands[i].help);
    for (size_t i = 0; i < N_ELSEWHERE; i++)
        printf("  %-11s %s\n", elsewhere[i].name, elsewhere[i].help);
    printf(
        "\n'ballast COMMAND --help' shows a command's options, 'ballast --version' the version.\n"
        "'ballast NAME' starts a program ballast-NAME when NAME is no command.\n");
    return output_flush(e);
}

/* ---- programs ballast-NAME ---- */

static char *find_program(struct arena *a, const char *argv0, const char *name)
{
    const char *folder = programs_folder(a, argv0), *file = arena_printf(a, "ballast-%s", name);
    char *path = folder ? arena_printf(a, "%s/%s", folder, file) : NULL;

    return path && programs_is(path) ? path : programs_in_path(a, file);
}

static bool is_elsewhere(const char *name)
{
    for (size_t i = 0; i < N_ELSEWHERE; i++)
        if (!strcmp(elsewhere[i].name, name))
            return true;
    return false;
}

/* Returns only on failure. */
static int start_program(int argc, char **argv, struct err *e)
{
    const char *names[N_COMMANDS + N_ELSEWHERE], *name = argv[1];
    /* the second thing that ballast-exec can do is a word of its own there */
    bool calibrate = !strcmp(name, "calibrate");
    struct arena a;
    char *path = NULL, **args;
    int n = 0;

    arena_init(&a);
    if (*name && !strchr(name, '/') && strlen(name) < 200)
        path = find_program(&a, argv[0], calibrate ? "exec" : name);
    if (path) {
        args = ARENA_NEW(&a, char *, argc + 1);
        args[n++] = path;
        for (int i = calibrate ? 1 : 2; i < argc; i++)
            args[n++] = argv[i];
        signal(SIGPIPE, SIG_DFL);
        execv(path, args);
        err_set(e, ERR_EXTERNAL, "cannot start '%.300s': %s", path, strerror(errno));
    } else if (is_elsewhere(name)) {
        err_set(e, ERR_EXTERNAL,
                "'%s' is a command of ballast-exec, which is neither beside this program nor in "
                "PATH; make builds it",
                name);
    } else {
        for (size_t i = 0; i < N_COMMANDS; i++)
            names[i] = commands[i].name;
        for (size_t i = 0; i < N_ELSEWHERE; i++)
            names[N_COMMANDS + i] = elsewhere[i].name;
        err_set(e, ERR_USAGE, "there is no command '%.60s'%s; 'ballast --help' lists them", name,
                suggest(name, names, N_COMMANDS + N_ELSEWHERE).s);
    }
    arena_release(&a);
    return -1;
}

static int run(int argc, char **argv, struct err *e)
{
    const struct command *c;
    const char *first = argc > 1 ? argv[1] : NULL;
    int status;

    if (!first)
        return err_set(e, ERR_USAGE, "a command is missing; 'ballast --help' lists them");
    if (!strcmp(first, "--version")) {
        printf("ballast %s\n", ballast_version);
        return output_flush(e);
    }
    if (!strcmp(first, "help") && argc > 2) { /* ballast help COMMAND */
        char *again[] = {argv[0], argv[2], "--help", NULL};

        return run(3, again, e);
    }
    if (!strcmp(first, "--help") || !strcmp(first, "-h") || !strcmp(first, "help"))
        return help(e);
    if (*first == '-')
        return err_set(e, ERR_USAGE,
                       "there is no option '%.60s' before the command; 'ballast --help' shows the "
                       "usage",
                       first);
    c = find(first);
    if (!c)
        return start_program(argc, argv, e);
    status = c->fn(argc - 1, argv + 1, e);
    return status < 0 || output_flush(e) ? -1 : status;
}

int main(int argc, char **argv)
{
    struct err e = {.code = ERR_NONE};
    int status;

    /* A reader that went away is an error of writing, with a line and a status, not a silent death. */
    signal(SIGPIPE, SIG_IGN);
    file_clean_on_signals();
    status = run(argc, argv, &e);
    if (status >= 0)
        return status;
    fprintf(stderr, "error: %s [ERR_%s]\n", e.msg, err_name(e.code));
    return err_exit_status(e.code);
}
