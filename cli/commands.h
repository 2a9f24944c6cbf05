/* cli/commands.h - one function a command; cli/ballast_main.c has the table that names them.
 *
 * argv[0] is the command's name. Returns the exit status 0, or 1 for "done, and the answer is no"; or -1 with *e set,
 * which main prints.
 */
#ifndef BALLAST_CLI_COMMANDS_H
#define BALLAST_CLI_COMMANDS_H

#include "core/err.h"

int cmd_model(int argc, char **argv, struct err *e);
int cmd_topo(int argc, char **argv, struct err *e);
int cmd_plan(int argc, char **argv, struct err *e);
int cmd_sim(int argc, char **argv, struct err *e);
int cmd_compare(int argc, char **argv, struct err *e);
int cmd_recommend(int argc, char **argv, struct err *e);
int cmd_flows(int argc, char **argv, struct err *e);
int cmd_coll(int argc, char **argv, struct err *e);
int cmd_validate(int argc, char **argv, struct err *e);
int cmd_doctor(int argc, char **argv, struct err *e);

/* `ballast calibrate`, which is a word of ballast-exec: a main function, with its own options and errors. */
int calibrate_main(int argc, char **argv);
/* `ballast exec rates`, likewise. */
int rates_main(int argc, char **argv);
int kernels_main(int argc, char **argv);

#endif
