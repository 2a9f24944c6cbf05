/* exec/shadow.h - every kernel and product of a run, compared with the CPU's reference while it runs.
 *
 * A shadowed backend does what it did, but around each launch and each product it brings the operands to the host, plays the
 * CPU's version on them (kernels/, and the reference product), poisons on the device what the call has to write in full, and
 * compares. So kernels are seen with the shapes, strides, ids and routes that a model gives them, and the run goes on with
 * the backend's own results. Slow: the host does all the work once more.
 *
 * An element may be off by a last place of its type (it is stored once), and by a share of the largest element that the
 * reference wrote (of the largest change, where the call adds to what was there): what sums in another order cost. That
 * share is the error that is reported.
 */
#ifndef BALLAST_EXEC_SHADOW_H
#define BALLAST_EXEC_SHADOW_H

#include "exec/backend.h"

/* Of a kernel (or products) and the type of what it writes. */
struct shadow_row {
    const char *name;
    enum dtype type;
    uint64_t calls, elements;
    double worst;   /* largest error over the largest element */
    double allowed; /* docs/CUDA.md */
    bool wrong;     /* beyond it, not a number, or other integers */
};
struct shadow;

/* From now on calls of b are compared. b must not be closed before shadow_end(), which restores it. */
struct shadow *shadow_begin(struct backend *b);
/* Rows in *n, owned by s. */
const struct shadow_row *shadow_rows(const struct shadow *s, size_t *n);
void shadow_end(struct shadow *s);

#endif
