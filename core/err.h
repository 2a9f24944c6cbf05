/* core/err.h - how the library says no.
 *
 * Three kinds of trouble (see docs/DESIGN.md): the input or the world is wrong -> an error code and one line of
 * text in a struct err; we are wrong -> BUG_ON, kept in release builds; out of memory -> core/mem.h ends the
 * program in one place. Library code never prints and never exits: only cli/ does.
 *
 * Convention: a function that can fail takes `struct err *e` last and returns 0, or -1 with *e set. The innermost
 * place sets the message (err_set), each caller may put one prefix of context before it (err_prefix).
 */
#ifndef BALLAST_CORE_ERR_H
#define BALLAST_CORE_ERR_H

#include <stdio.h>
#include <stdlib.h>

/* code, name, exit status of the program */
#define ERR_CODES(X)                                                                               \
    X(ERR_NONE, "OK", 0)                                                                           \
    X(ERR_NO, "NO", 1)                   /* done, and the answer is no */                          \
    X(ERR_USAGE, "USAGE", 2)             /* the command line is wrong */                           \
    X(ERR_INVALID, "INVALID", 3)         /* a value is out of its range or contradicts another */  \
    X(ERR_PARSE, "PARSE", 3)             /* a file is not what it should be */                     \
    X(ERR_UNKNOWN, "UNKNOWN", 3)         /* a name or key that does not exist */                   \
    X(ERR_UNSUPPORTED, "UNSUPPORTED", 3) /* understood, but Ballast cannot do it */                \
    X(ERR_OVERFLOW, "OVERFLOW", 3)       /* a product beyond 2^63 */                               \
    X(ERR_IO, "IO", 3)                   /* an input file cannot be read */                        \
    X(ERR_EXTERNAL, "EXTERNAL", 4)       /* the world failed: disk full, program missing */

#define ERR_ENUM(code, name, status) code,
enum err_code { ERR_CODES(ERR_ENUM) };
#undef ERR_ENUM

struct err {
    enum err_code code;
    char msg[1000];
};

/* Set the error; a second set overwrites the first. Returns -1, so `return err_set(...)` reads well. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Put "prefix: " before the message. Returns -1. */
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* The -1 in sight of the caller's optimizer: otherwise gcc believes that a failing function may have returned 0, and
 * warns that its outputs are used uninitialized. */
static inline int err_minus_1(int rc)
{
    (void)rc;
    return -1;
}
#define err_set(...)    err_minus_1((err_set)(__VA_ARGS__))
#define err_prefix(...) err_minus_1((err_prefix)(__VA_ARGS__))

const char *err_name(enum err_code code);
int err_exit_status(enum err_code code);

#define BUG_ON(cond)                                                                               \
    do {                                                                                           \
        if (cond) {                                                                                \
            fprintf(stderr, "BUG: %s:%d: %s\n", __FILE__, __LINE__, #cond);                        \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
