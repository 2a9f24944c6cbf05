/* exec/library.h - the shared objects beside the program: ballast-mpi.so, ballast-blas.so, ballast-cuda.so, ballast-hwloc.so. Each is
 * built where its library is, and loaded when it is needed, so any of them may be absent. */
#ifndef BALLAST_EXEC_LIBRARY_H
#define BALLAST_EXEC_LIBRARY_H

#include "core/err.h"

#include <stdbool.h>

/* dlopen(), and the object that it exports as `symbol` in *object. `global`: its plug-ins need its symbols. NULL and ERR_EXTERNAL
 * with the name of what is missing: the file, something that it needs, or the symbol. */
void *library_load(const char *path, const char *symbol, bool global, const void **object,
                   struct err *e);

#endif
