/* cli/output.h - what every command does with its result: where it goes, and the head of its JSON document. */
#ifndef BALLAST_CLI_OUTPUT_H
#define BALLAST_CLI_OUTPUT_H

#include "core/json.h"
#include "core/opts.h"
#include "core/strbuf.h"

/* The text to a file (written whole or not at all), or to stdout when path is NULL or "-". ERR_EXTERNAL. */
int output_write(const char *path, const struct strbuf *text, struct err *e);
/* Refuse an --output, --trace or --steps-file that is one of the command's own input files, by device and inode, or that
 * cannot be written: before the work, not after it. */
int output_check_targets(const struct opts *o, struct err *e);
/* Whatever stdio holds for stdout is out, or ERR_EXTERNAL. */
int output_flush(struct err *e);
/* A new document with format, format_version, ballast_version, argv ("ballast" and the command's) and seed: null. */
cJSON *output_document(const char *format, uint64_t format_version, int argc, char *const *argv);
/* The same of a run that draws numbers. */
cJSON *output_document_of_seed(const char *format, uint64_t format_version, const uint64_t *seed,
                               int argc, char *const *argv);

#endif
