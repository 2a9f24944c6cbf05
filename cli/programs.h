/* cli/programs.h - other programs and libraries: those that lie beside this one, and those of PATH. */
#ifndef BALLAST_CLI_PROGRAMS_H
#define BALLAST_CLI_PROGRAMS_H

#include "core/mem.h"

#include <stdbool.h>

/* The folder of the running program; of argv0 where there is no /proc (argv0 may be NULL). NULL: not known. */
char *programs_folder(struct arena *a, const char *argv0);
/* A file of that folder, there or not; the bare name when the folder is not known. */
char *programs_beside(struct arena *a, const char *file);
/* A file that can be run. */
bool programs_is(const char *path);
/* In PATH; entries of the current folder do not count. NULL: none. */
char *programs_in_path(struct arena *a, const char *name);

#endif
