#include "cli/output.h"

#include "core/file.h"
#include "core/version.h"

#include <errno.h>
#include <string.h>

int output_flush(struct err *e)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    return err_set(e, ERR_EXTERNAL, "cannot write to standard output%s%s", errno ? ": " : "",
                   errno ? strerror(errno) : "");
}

int output_write(const char *path, const struct strbuf *text, struct err *e)
{
    if (path && strcmp(path, "-") != 0)
        return file_write(path, text->s, text->len, e);
    errno = 0;
    if (fwrite(text->s, 1, text->len, stdout) != text->len && errno)
        return err_set(e, ERR_EXTERNAL, "cannot write to standard output: %s", strerror(errno));
    return output_flush(e);
}

cJSON *output_document(const char *format, uint64_t format_version, int argc, char *const *argv)
{
    cJSON *doc = json_new_object(), *args;

    json_add_str(doc, "format", format);
    json_add_u64(doc, "format_version", format_version);
    json_add_str(doc, "ballast_version", ballast_version);
    args = json_add_array(doc, "argv");
    json_add_str(args, NULL, "ballast");
    for (int i = 0; i < argc; i++)
        json_add_str(args, NULL, argv[i]);
    json_add_null(doc, "seed");
    return doc;
}
