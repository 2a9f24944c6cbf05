/* cli/mesh.h - what --mesh says against what a layout has. */
#ifndef BALLAST_CLI_MESH_H
#define BALLAST_CLI_MESH_H

#include "core/opts.h"
#include "model/plan/plan.h"

/* `plan` is ready for layout_place(). Nothing where --mesh is not given. `taken`: one of the command's layouts takes factors, and
 * the others have their own. ERR_INVALID: no list of p=AxB, g=AxB, os=AxB, a key twice, factors that do not nest or that the
 * machine does not have, another factor than the layout's. */
int mesh_check(const struct opts *o, const struct plan *plan, bool taken, struct err *e);

#endif
