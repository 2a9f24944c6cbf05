#include "core/err.h"

#include <stdarg.h>
#include <string.h>

/* A message is one line, whatever the input it quotes: control characters become '?'. */
static void one_line(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 32 || *s == 127)
            *s = '?';
}

int(err_set)(struct err *e, enum err_code code, const char *fmt, ...)
{
    va_list ap;

    e->code = code;
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
    va_end(ap);
    one_line(e->msg);
    return -1;
}

int(err_prefix)(struct err *e, const char *fmt, ...)
{
    char old[sizeof(e->msg)];
    va_list ap;
    size_t used;

    memcpy(old, e->msg, sizeof(old));
    va_start(ap, fmt);
    vsnprintf(e->msg, sizeof(e->msg), fmt, ap);
    va_end(ap);
    one_line(e->msg);
    used = strlen(e->msg);
    snprintf(e->msg + used, sizeof(e->msg) - used, ": %.900s", old);
    return -1;
}

const char *err_name(enum err_code code)
{
    switch (code) {
#define ERR_NAME(c, name, status)                                                                  \
    case c:                                                                                        \
        return name;
        ERR_CODES(ERR_NAME)
#undef ERR_NAME
    }
    return "?";
}

int err_exit_status(enum err_code code)
{
    switch (code) {
#define ERR_STATUS(c, name, status)                                                                \
    case c:                                                                                        \
        return status;
        ERR_CODES(ERR_STATUS)
#undef ERR_STATUS
    }
    return 4;
}
