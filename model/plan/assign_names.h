/* model/plan/assign_names.h - who may choose owners, and what is minimised: the names that a job
 * says and planner/ implements (planner/assign.h describes each). */
#ifndef BALLAST_MODEL_PLAN_ASSIGN_NAMES_H
#define BALLAST_MODEL_PLAN_ASSIGN_NAMES_H

/* method, name on the command line, one line of help */
#define ASSIGN_METHODS(X)                                                                          \
    X(ASSIGN_ROUND_ROBIN, "round-robin", "matrix i to rank i mod W, in parameter order")           \
    X(ASSIGN_LPT_NUMEL, "lpt-numel", "longest processing time first, by elements")                 \
    X(ASSIGN_ROLE_GREEDY, "role-greedy", "MatrixFSDP: greedy by elements, unit after unit")        \
    X(ASSIGN_SCOPE_GREEDY, "scope-greedy", "MatrixFSDP: greedy by elements, all units at once")    \
    X(ASSIGN_LPT_FLOPS, "lpt-flops", "longest processing time first, by optimizer FLOPs")          \
    X(ASSIGN_MEGATRON, "megatron", "Megatron layer-wise: greedy by max*min^2, capped per unit")    \
    X(ASSIGN_ILP, "ilp", "pattern ILP on GLPK, with a proven bound")

#define ASSIGN_ENUM(method, name, help) method,
enum assign_method { ASSIGN_METHODS(ASSIGN_ENUM) ASSIGN_N_METHODS };
#undef ASSIGN_ENUM

/* What to minimise, in order; each is a maximum over ranks (fanout: also over units): optimizer
 * FLOPs of a rank; resident bytes of a rank; bytes that one rank owns of one unit, which it has to
 * send when the unit is gathered; assign_problem.time_of, e.g. a simulated step. */
#define ASSIGN_OBJECTIVES(X)                                                                       \
    X(ASSIGN_FLOPS, "flops")                                                                       \
    X(ASSIGN_BYTES, "bytes")                                                                       \
    X(ASSIGN_FANOUT, "fanout")                                                                     \
    X(ASSIGN_TIME, "time")
#define ASSIGN_OBJECTIVE_ENUM(objective, name) objective,
enum assign_objective { ASSIGN_OBJECTIVES(ASSIGN_OBJECTIVE_ENUM) };
#undef ASSIGN_OBJECTIVE_ENUM

/* By enumerator, NULL-terminated (job_options.c). */
extern const char *const assign_method_names[];
extern const char *const assign_objective_names[];

#endif
