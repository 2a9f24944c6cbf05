/* cli/step_band.h - how far a predicted step may be from a measured one: the validation that covers this kind of run.
 *
 * A band is printed only where a set of measured rows covers the job in every respect: each option has a value that some
 * row of the set has (sizes: between the smallest and the largest of its rows), the cluster is one that its rows ran on,
 * and so are the parts that the model is made of. The rows themselves (experiments/.../measured) say what is covered, so
 * an option that is added later is covered by no set until a row has it.
 */
#ifndef BALLAST_CLI_STEP_BAND_H
#define BALLAST_CLI_STEP_BAND_H

#include "model/plan/plan.h"

struct step_band {
    double percent;    /* half width in percent of the step's time; NAN: no set covers the job */
    const char *basis; /* the set, or "unvalidated" */
    /* The set that comes closest and the first respect in which no row of it is like the job, as
     * "matrixfsdp: no row has ns_steps 5"; empty where a set covers the job or none is of its layout. */
    char missing[160];
};

/* Cost: 1 ms where no row ran on the cluster; else once a set 0.3 ms a row, of vTrain 120. */
struct step_band step_band(const struct plan *plan);

#endif
