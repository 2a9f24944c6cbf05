/* cli/step_page.h - measured and predicted steps as a page of Markdown: a section a set, its rows in a table, its sources below.
 *
 * Options that all rows of a set have stand once above the table, as they are typed; sources are numbered. docs/VALIDATION-ROWS.md is such
 * a page.
 */
#ifndef BALLAST_CLI_STEP_PAGE_H
#define BALLAST_CLI_STEP_PAGE_H

#include "cli/step_predict.h"
#include "core/strbuf.h"

/* Cost: rows x options x rows of the largest set. */
void step_page(const struct step_rows *s, struct strbuf *out);

#endif
