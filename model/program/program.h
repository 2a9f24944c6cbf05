/* model/program/program.h - the step program: what one optimizer step does, said once and read
 * twice.
 *
 * layouts/ lowers a plan to a program; sim/ predicts it, exec/ runs it. A program is a set of
 * *roles*: classes of ranks that run one list of operations (one role for plain data parallelism;
 * pipeline stage x tensor-parallel coordinate later). What differs between ranks of a role lives in
 * tables (segments, rank_table, work), never in copies of the list. Repeated units and
 * micro-batches are loops, so the program of an 80-layer model on 16,384 ranks is a few hundred
 * operations and some tables.
 *
 * Reading a role: walk its ops in order; an op that opens a loop (it is loop->first_op) starts its
 * iterations; loops nest. An *instance* is (op id, unit, micro-batch, item); indices of loops that
 * the op is not in are 0. Instances of one stream run in the order in which they are walked; across
 * streams only waits order them.
 *
 * Waits: instance (op, unit+d_unit, micro+d_micro) must have ended. Distances are in index space,
 * whatever the direction of the loop. An index out of range, or an instance that its guard or an
 * empty table row removes, counts as ended. When the awaited op sits in a loop that the waiter is
 * not in, its last instance (in walking order) so far is meant.
 *
 * Life of buffers: an op reserves buffers when it starts and releases others when it ends, in terms
 * of (buffer, unit, micro-batch) instances; a buffer's span says which of these tell its instances
 * apart. Resident ones live through the step.
 *
 * Wire volume: an even collective moves a buffer that is cut into n equal parts of ceil(elements/n)
 * elements: what FSDP pads, the wire carries. traffic.h turns a collective into bytes per rank.
 */
#ifndef BALLAST_MODEL_PROGRAM_PROGRAM_H
#define BALLAST_MODEL_PROGRAM_PROGRAM_H

#include "model/graph/graph.h"
#include "model/plan/job.h"
#include "model/plan/plan.h"
#include "model/tensors/model.h"

#define PROGRAM_NONE UINT32_MAX

enum op_kind {
    OP_COMPUTE,
    OP_COLLECTIVE,
    OP_MARK, /* no work: something to wait for, or a place where buffers are reserved and released
              */
};

enum phase { PHASE_FORWARD, PHASE_BACKWARD, PHASE_OPTIMIZER, PHASE_REFRESH, PHASE_N };
const char *phase_name(enum phase p);

/* In-order queues of a rank, as FSDP has them. */
enum stream { STREAM_COMPUTE, STREAM_GATHER, STREAM_REDUCE, STREAM_ALL_REDUCE, STREAM_N };
const char *stream_name(enum stream s);

/* ---- who: groups of ranks ---- */

/* Ranks base + sum_i index_i * stride_i. A *group family*: every rank is in exactly one group of
 * it, the one that agrees with it in all other coordinates; the world is {1 axis, size W, stride
 * 1}. */
enum { GROUP_AXES = 2 * AXIS_N };
struct group {
    const char *name;
    uint32_t n_axes;
    uint32_t size[GROUP_AXES], stride[GROUP_AXES];
    uint32_t n_members;      /* product of sizes */
    const uint32_t *members; /* [n_members] ascending: a single group of these ranks instead, n_axes
                                0; no step program has one */
};
/* First rank of the group that `rank` is in, and the i-th of the group that starts there. */
uint32_t group_base(const struct group *g, uint32_t rank);
uint32_t group_member(const struct group *g, uint32_t base, uint32_t i);
/* Number of the rank in its group: group_member(g, group_base(g, rank), group_index(g, rank)) is
 * rank. */
uint32_t group_index(const struct group *g, uint32_t rank);
/* The ranks that differ in these coordinates of the mesh alone, in ascending order. */
struct group mesh_group(const struct mesh *m, axis_set over, const char *name);

/* ---- how much: tables ---- */

/* A value per rank: `every`, except for the listed ones (ascending rank). */
struct rank_value {
    uint32_t rank;
    uint64_t value;
};
struct rank_table {
    uint64_t every;
    uint32_t n_only;
    const struct rank_value *only;
};
uint64_t rank_table_get(const struct rank_table *t, uint32_t rank);

/* Elements [offset, offset+elements) of a unit's buffer sit on group rank `root`; they go to (or
 * come from) group ranks [to_first, to_first+to_n). */
struct segment {
    uint32_t root, to_first, to_n;
    uint32_t tensor; /* or PROGRAM_NONE */
    uint64_t offset, elements;
};
/* CSR by unit: segments[start[u] .. start[u+1]). */
struct segment_table {
    uint32_t group; /* the family whose members `root` numbers */
    uint32_t n_units;
    const uint32_t *start;
    const struct segment *segments;
};

/* One matrix (or tail piece) to update. */
struct work_item {
    uint32_t tensor;
    uint64_t m, n;  /* m <= n */
    uint64_t flops; /* of the matrix optimizer, one step */
    uint64_t elements;
    uint64_t rows; /* of the stored matrix that the elements are in; 0 of a tail piece */
    uint32_t more; /* matrices of this shape beside `tensor`, worked with it */
    /* Matrices of this shape that ranks work at the same time, one each: place k the k-th, places
     * beyond none. n_batch 0: `tensor` alone, on whoever has the item. */
    const uint32_t *batch;
    uint32_t n_batch;
};
/* Which items a rank works, in order: list[start[r] .. start[r+1]). start == NULL: every rank works
 * all items. */
struct work_table {
    uint32_t n_items;
    const struct work_item *items;
    const uint32_t *start; /* [world+1] or NULL */
    const uint32_t *list;
};

/* ---- what is held: buffers ---- */

#define MEM_PARTS(X)                                                                               \
    X(MEM_PARAMS, "params")                                                                        \
    X(MEM_GRADS, "grads")                                                                          \
    X(MEM_STATES, "states")                                                                        \
    X(MEM_MASTER, "master")                                                                        \
    X(MEM_ACTIVATIONS, "activations")                                                              \
    X(MEM_GATHERED, "gathered")                                                                    \
    X(MEM_WORKSPACE, "workspace")                                                                  \
    X(MEM_LOGITS, "logits")                                                                        \
    X(MEM_BUFFERS, "buffers")                                                                      \
    X(MEM_CONTEXT, "context") /* outside the allocator */
#define MEM_PART_ENUM(p, name) p,
enum mem_part { MEM_PARTS(MEM_PART_ENUM) MEM_PART_N };
#undef MEM_PART_ENUM
const char *mem_part_name(enum mem_part p);

enum size_rule {
    SIZE_CONST,    /* bytes */
    SIZE_BY_UNIT,  /* unit_bytes[unit] on every rank */
    SIZE_BY_RANK,  /* ranks */
    SIZE_SEGMENTS, /* sum of the segments of the unit (table) that the rank roots */
    SIZE_BY_ITEM,  /* item_bytes[item of the work table] */
};
/* What tells instances of a buffer apart. */
enum span {
    SPAN_RESIDENT, /* there is one: reserved before the step, never released */
    SPAN_STEP,     /* there is one, of operations outside loops: what the optimizer holds of many
                      matrices */
    SPAN_UNIT,     /* the unit, over all micro-batches: reduced gradients */
    SPAN_MICRO, /* the micro-batch, whichever unit the operation is of: what a unit makes for later
                   ones */
    SPAN_UNIT_MICRO, /* both: activations, gathered units, a unit's whole gradients */
    SPAN_ITEM,       /* the item of a loop over items; in walking order a rank has one at a time */
};
/* How tensors stand in a buffer: one after another in the model's order, these and so much of each.
 * A rank's part of a tensor is what placement gives it, in the room of ceil(rows/G) rows where it
 * is cut by rows. */
enum holds {
    HOLDS_NOTHING,       /* no tensors: activations, workspace */
    HOLDS_UNIT,          /* those of the unit, whole */
    HOLDS_UNIT_PARTS,    /* ... that travel in even parts, the rank's parts */
    HOLDS_UNIT_SEGMENTS, /* ... that travel as segments (to owners, to flat slices), what the rank
                            has of them */
    HOLDS_MODEL,         /* all, whole */
    HOLDS_MODEL_PARTS,   /* all, the rank's parts */
    HOLDS_MODEL_STATES,  /* all, the optimizer's states of the rank's parts */
    HOLDS_MATRIX,        /* the item's, whole; of a batch the one that this rank works */
    HOLDS_MATRICES,      /* those of the items of `work` on the rank's list, in its order, whole */
    HOLDS_MATRIX_PARTS,  /* ... the rank's parts */
};
struct buffer {
    const char *name;
    enum mem_part part;
    enum dtype dtype;
    enum size_rule rule;
    enum span span;
    enum holds holds;
    enum component cut; /* HOLDS_..._PARTS and HOLDS_UNIT_SEGMENTS: whose parts */
    uint64_t bytes;
    const uint64_t *unit_bytes; /* [n_units] */
    const uint64_t *item_bytes; /* [n_items of work] */
    struct rank_table ranks;
    uint32_t table; /* SIZE_SEGMENTS: index into program.segment_tables, of elements of `dtype` */
    uint32_t work;  /* HOLDS_MATRICES and HOLDS_MATRIX_PARTS: index into program.work_tables */
};

/* An instance of a buffer: what its span does not tell apart is 0. */
struct buffer_at {
    uint32_t unit, micro;
};
struct program;
struct instance;
/* The instance of `buffer` that a life or an operand of operation instance i names. False: there is
 * none (a unit before the first or behind the last). */
bool buffer_instance(const struct program *p, uint32_t buffer, const struct instance *i,
                     int32_t d_unit, struct buffer_at *at);

/* ---- what is done: operations ---- */

enum loop_kind { LOOP_MICRO, LOOP_UNIT, LOOP_ITEM };
struct loop {
    enum loop_kind kind;
    uint32_t parent;          /* or PROGRAM_NONE */
    uint32_t first_op, n_ops; /* of the role's list, nested loops included */
    uint32_t begin, end;      /* indices [begin, end) */
    bool descending;
    const uint32_t *list; /* explicit order (1F1B): n_list indices instead of begin..end; or NULL */
    uint32_t n_list;
    uint32_t work; /* LOOP_ITEM: the work table; a rank iterates over its own list */
};

enum when { WHEN_ALWAYS, WHEN_FIRST, WHEN_LAST, WHEN_NOT_FIRST, WHEN_NOT_LAST }; /* index space */
struct guard {
    enum when micro;
    uint32_t unit_class; /* only units of this class; PROGRAM_NONE: any */
    const bool *units;   /* [n_units]: only these units (last, kept ones ...); NULL: any */
};

struct wait {
    uint32_t op;
    int32_t d_unit, d_micro;
};

/* Tensor of an operand: an index in the op's unit, or one of these. */
#define OPERAND_WHOLE UINT32_MAX       /* the whole buffer */
#define OPERAND_ITEM  (UINT32_MAX - 1) /* the tensor of the loop's item, or those of its batch */
enum access { ACCESS_READ, ACCESS_WRITE, ACCESS_ADD };
struct operand {
    uint32_t buffer;
    uint32_t tensor; /* index in the unit of the buffer, OPERAND_WHOLE or OPERAND_ITEM */
    uint8_t access;  /* enum access */
    int32_t d_unit;  /* the buffer of unit + d_unit: +1 what the next unit takes, -u a tied head's
                        table */
    uint32_t count,
        stride; /* experts: count tensors, each `stride` behind the one before; 0: one */
};

enum coll_kind {
    COLL_ALL_REDUCE,
    COLL_ALL_GATHER,
    COLL_REDUCE_SCATTER,
    COLL_BROADCAST,
    COLL_REDUCE,
    COLL_ALL_TO_ALL,
    COLL_SEGMENT_GATHER, /* every segment from its root to its range: owner -> all */
    COLL_SEGMENT_REDUCE, /* every segment summed over its range into its root: all -> owner */
    COLL_SEND,
    COLL_RECV,
    COLL_N
};
const char *coll_kind_name(enum coll_kind k); /* "all_reduce", ... */

/* Whose traffic a collective is, for reports: the layout says it. */
enum traffic_class {
    TRAFFIC_GATHER,    /* parameters for forward and backward */
    TRAFFIC_REDUCE,    /* gradients */
    TRAFFIC_REFRESH,   /* updated parameters after the step */
    TRAFFIC_TENSOR,    /* what tensor-parallel ranks exchange between kernels */
    TRAFFIC_OPTIMIZER, /* what the matrix optimizer rebuilds matrices from, and their updates */
    TRAFFIC_N
};

/* How elements travel: `dtype`, and with `block` a scale of type `scale` for so many elements
 * (quantised collectives); 0: none. */
struct wire {
    enum dtype dtype;
    uint32_t block;
    enum dtype scale;
};
/* Bytes of elements on the wire, their scales included. */
uint64_t wire_bytes(const struct wire *w, uint64_t elements);

/* A segment as the wire carries it. */
struct wire_segment {
    uint32_t root, to_first, to_n;
    uint32_t tensor;
    uint64_t offset, bytes;
};
/* Those of a unit (of row 0 where the table has one row); to free with mem_free(). */
struct wire_segment *wire_segments(const struct segment_table *t, uint32_t unit,
                                   const struct wire *w, uint32_t *n);

/* What a collective moves: tensors that are cut as `from` is become cut as `to` is
 * (model/plan/placement.h), of the operation's unit, of a range of the model, or of the loop's
 * item. */
struct moved {
    enum component from, to;
    uint32_t from_buffer, to_buffer; /* both hold tensors; PROGRAM_NONE: nothing that exec knows */
    bool adds;                       /* what arrives is added to what to_buffer has */
    const uint64_t
        *first; /* [n_units] elements of the concatenation of all tensors from here on, as many as
                 * the collective has, in a buffer that holds the model; NULL: the unit's tensors */
};

/* What a collective is made of on the host, as the framework has it (model/plan/frameworks.h). */
enum coll_calls {
    CALLS_USUAL, /* one call, or one for each `piece_bytes` */
    /* Broadcasts, one after the other, and the host waits for each. Of a segment gather: one for
     * each segment. Of an all-gather: one for each rank's part; in a loop over units the broadcasts
     * of all units together are as many. */
    CALLS_BROADCASTS,
    /* As CALLS_USUAL, but the host hands the call a list of pieces, one for each tensor of the unit
     * and rank of the group. */
    CALLS_PIECES,
};

struct collective {
    enum coll_kind kind;
    enum traffic_class traffic;
    struct moved moved;
    enum coll_calls calls;
    uint32_t group;
    enum coll_algo algo; /* of segment collectives; AUTO: the simulator chooses */
    /* Even ones: elements of the whole buffer (n parts), padded, by unit [n_units]; else by item of
     * the loop's work table; else `elements`. */
    const uint64_t *unit_elements, *item_elements;
    uint64_t elements;
    uint32_t table;  /* segment ones: index into segment_tables; row 0 outside unit loops */
    uint64_t piece;  /* bucket: cut into calls of so many elements; 0: one call */
    uint32_t repeat; /* that often in a row (per-matrix gathers); 0: 1 */
    bool rooted; /* an all-reduce of what each rank's place roots in `table`, not of `bytes`: owners
                  * of different copies sum what they own alike */
    bool interleaved; /* the repeats are spread over the compute op that waits for this one, which
                      * makes a product between them: its time stands here, exec plays them there */
    struct wire wire;
    uint32_t peer_op; /* send/recv: the matching op; or PROGRAM_NONE */
};

struct life {
    uint32_t buffer;
    int32_t d_unit; /* the instance of unit+d_unit */
    bool release;   /* at the op's end; else reserve at its start */
    uint64_t bytes; /* reserve so much of a SIZE_BY_UNIT buffer, which other ops reserve the rest
                       of; 0: all of it. A release is always of all */
};

/* What readers treat differently from the rest of its phase; set by the layout, since names are for
 * people only. */
enum purpose {
    PURPOSE_USUAL,
    PURPOSE_RECOMPUTE, /* backward makes again what forward did not keep */
    PURPOSE_UNIT_DONE, /* the mark that ends a unit's forward: its output is there */
};

struct op {
    uint32_t id;      /* == its index */
    const char *name; /* unique in the program: "fwd.q", "gather.fwd" */
    enum op_kind kind;
    enum phase phase;
    enum purpose purpose;
    enum stream stream;
    uint32_t loop; /* innermost, or PROGRAM_NONE */
    struct guard guard;
    const struct wait *waits;
    uint32_t n_waits;
    const struct life *lives;
    uint32_t n_lives;
    const struct operand *operands;
    uint32_t n_operands;
    struct kernel_call call; /* OP_COMPUTE; in a LOOP_ITEM m, n, flops and bytes come from the item:
                                see op_call() */
    bool by_item;
    double item_flops_share; /* by_item: multiplies item.flops (1/W for sharded products) */
    double item_bytes_each;  /* by_item: HBM bytes per element of the item */
    double item_bytes_row;   /* by_item: ... and beside them per row of it */
    struct collective coll;  /* OP_COLLECTIVE */
};

struct role {
    const char *name;
    uint32_t first_rank, n_ranks, rank_stride;
    uint32_t first_op, n_ops;
};

/* Buffers that a reader looks up by their role, without an operation that names them; PROGRAM_NONE
 * where the layout has none. */
struct known_buffers {
    uint32_t params, states, master; /* resident: what updates and the first weights are put in */
    uint32_t weights;                /* what kernels read: gathered units, or params */
    uint32_t inputs;                 /* of units: the first one's is filled */
    uint32_t
        grads; /* of a unit (HOLDS_UNIT), or of all tensors and reduced in place (HOLDS_MODEL) */
    uint32_t grad_shard, grad_owned; /* reduced ones of a unit: its parts, its segments */
};

struct program {
    const struct model *model;     /* borrowed */
    const struct placement *place; /* [n_tensors], borrowed from the plan */
    struct known_buffers known;
    uint32_t world;
    uint32_t distinct;      /* the other ranks hold and work what one of ranks [0, distinct) does */
    uint32_t gpus_per_node; /* of an NVLink domain: cluster_by_domain() */
    uint32_t n_micro;
    bool in_order; /* the host waits for every operation: one after the other, whatever their
                      streams */
    struct role *roles;
    struct op *ops;
    struct loop *loops;
    struct group *groups;
    struct buffer *buffers;
    struct segment_table *segment_tables;
    struct work_table *work_tables;
    uint32_t n_roles, n_ops, n_loops, n_groups, n_buffers, n_segment_tables, n_work_tables;
};

/* Number of the rank among the roots of a table. */
uint32_t program_root(const struct program *p, const struct segment_table *t, uint32_t rank);
/* Elements of the unit's segments that a root has. */
uint64_t segment_table_rooted(const struct segment_table *t, uint32_t unit, uint32_t root);

/* The call of an op for one item (by_item), else op->call. */
struct kernel_call op_call(const struct program *p, const struct op *o, uint32_t item);
/* ---- walking ---- */

struct instance {
    uint32_t op, unit, micro;
    uint32_t item;     /* of the work table */
    uint32_t position; /* of the item in the rank's list */
};
/* Whole bytes of a collective instance on the wire, before padding (rooted: of the rank that roots
 * most); 0: the instance does not exist. */
uint64_t op_coll_elements(const struct program *p, const struct op *o, const struct instance *i);
uint64_t op_coll_bytes(const struct program *p, const struct op *o, const struct instance *i);
/* Broadcasts that a collective instance is made of, or pieces (enum coll_calls); 1: as usual. */
uint32_t op_calls(const struct program *p, const struct op *o, const struct instance *i);

/* Calls fn for every instance that `rank` runs in one step, in walking order; a non-zero return
 * stops the walk and is returned. The one place that knows loops and guards: sim and exec both use
 * it. */
int program_walk(const struct program *p, uint32_t rank,
                 int (*fn)(void *ctx, const struct instance *i), void *ctx);

/* The same for a part of the list that starts and ends outside loops. */
int program_walk_range(const struct program *p, uint32_t rank, uint32_t first_op, uint32_t n_ops,
                       int (*fn)(void *ctx, const struct instance *i), void *ctx);
const struct role *program_role(const struct program *p, uint32_t rank);

bool op_in_loop(const struct program *p, const struct op *o, enum loop_kind kind);

/* What a wait means for an instance of op `o`: nothing (out of range: it counts as ended), the
 * awaited op's last instance so far, or the instance of a unit and micro-batch (0 where the awaited
 * op is in no such loop). */
enum wait_kind { WAIT_NOTHING, WAIT_LAST, WAIT_INSTANCE };
struct awaited {
    enum wait_kind kind;
    uint32_t unit, micro;
};
struct awaited program_awaited(const struct program *p, const struct op *o,
                               const struct instance *i, const struct wait *w);

/* Structural checks, so that no reader has to: every index in range; roles that share out ops and
 * ranks; loops that nest; items only in loops over items; groups that share out the world; segments
 * with a root in their range, disjoint by offset; every reserved buffer released by some op; unique
 * names. ERR_INVALID names what is wrong. O(ops^2 + segments + items). */
int program_check(const struct program *p, struct err *e);

/* ---- building (layouts/) ---- */

struct program_builder {
    struct program *p;
    struct arena *a;
    size_t cap_ops, cap_loops, cap_groups, cap_buffers, cap_tables, cap_work;
    uint32_t open_loop;
};
void program_builder_init(struct program_builder *b, struct program *p, struct arena *a);
void program_builder_release(struct program_builder *b); /* after finish, or on error */
int program_builder_finish(struct program_builder *b,
                           struct err *e); /* moves lists into the arena, checks */
uint32_t program_add_group(struct program_builder *b, const struct group *g);
uint32_t program_add_buffer(struct program_builder *b, const struct buffer *v);
uint32_t program_add_segments(struct program_builder *b, const struct segment_table *t);
uint32_t program_add_work(struct program_builder *b, const struct work_table *t);
uint32_t program_open_loop(struct program_builder *b, const struct loop *l);
void program_close_loop(struct program_builder *b);
uint32_t program_add_op(struct program_builder *b,
                        const struct op *o); /* lists copied; returns its id */
void program_op_wait(struct program_builder *b, uint32_t op, struct wait w);
void program_op_operand(struct program_builder *b, uint32_t op, struct operand v);
void program_op_life(struct program_builder *b, uint32_t op, struct life l);

#endif
