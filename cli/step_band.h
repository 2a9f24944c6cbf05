/* cli/step_band.h - how far a predicted step is from measured ones: the validation that covers this kind of run.
 *
 * A kind is a GPU generation, layout, optimizer family, framework and a number of ranks; docs/VALIDATION.md has the rows behind each. Beyond
 * what was measured nothing is claimed.
 */
#ifndef BALLAST_CLI_STEP_BAND_H
#define BALLAST_CLI_STEP_BAND_H

#include "model/plan.h"

/* Half width of the band in percent and what covers it; NAN and "unvalidated" where nothing does. */
double step_band(const struct plan *plan, const char **basis);

#endif
