/* cli/mesh.h - what --mesh says against what a layout has. */
#ifndef BALLAST_CLI_MESH_H
#define BALLAST_CLI_MESH_H

#include "core/opts.h"
#include "model/plan/plan.h"

/* `plan` is ready for layout_place(). Nothing where --mesh is not given. ERR_INVALID: no list of p=AxB, g=AxB, os=AxB, a key
 * twice, another factor than the layout's. */
int mesh_check(const struct opts *o, const struct plan *plan, struct err *e);

#endif
