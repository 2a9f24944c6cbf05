/* kernels/operands.h - what a call of a kernel reads and writes, for who has to know it of all kernels: checks of a device's
 * versions (exec/shadow.c), tests that watch for races. Said once, from the shapes in the arguments.
 */
#ifndef BALLAST_KERNELS_OPERANDS_H
#define BALLAST_KERNELS_OPERANDS_H

#include "kernels/functions.h"

enum kernel_content {
    CONTENT_FLOATS, /* of the operand's type */
    CONTENT_DOUBLE,
    CONTENT_CHOICES, /* struct kernel_choice */
    CONTENT_WORDS,   /* integers: equal or not */
};
enum kernel_access {
    ACCESS_IN,     /* read */
    ACCESS_FILL,   /* written in full, not read */
    ACCESS_CHANGE, /* read and written, or written in part */
};
struct kernel_operand {
    size_t at;     /* of the pointer in the arguments' struct, bytes */
    const void *p; /* the pointer */
    uint64_t bytes;
    enum dtype type;
    enum kernel_content content;
    enum kernel_access access;
};
enum { KERNEL_MAX_OPERANDS = 12 };

/* Operands that are not NULL or empty; returns how many. `a`: the function's own struct. */
unsigned kernel_operands(enum kernel_function f, const struct kernel_on *on, const void *a,
                         struct kernel_operand to[KERNEL_MAX_OPERANDS]);
size_t kernel_arguments_bytes(enum kernel_function f);
const char *kernel_function_name(enum kernel_function f);
/* The CPU's version. */
void kernel_call(enum kernel_function f, const struct kernel_on *on, const void *a);

#endif
