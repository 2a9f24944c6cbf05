/* exec/run.h - one rank of a run: its buffers, and the walk that issues the step program on them.
 *
 * The walk is program_walk(): the same instances in the same order as the simulator sees. Before an operation its buffers
 * are reserved (zeroed) and its stream waits for the events of what it waits for, after it others are released; what an
 * operation does is in compute.c (kernels), move.c (collectives) and update.c (optimizers); start.c begins and ends a run. All of it is issued on the
 * operation's stream of a backend (exec/backend.h), which does it when it likes within that order: pointers here are the
 * backend's, and are not looked at.
 */
#ifndef BALLAST_EXEC_RUN_H
#define BALLAST_EXEC_RUN_H

#include "exec/backend.h"
#include "exec/held.h"
#include "exec/tokens.h"
#include "model/plan/placement.h"

/* A live instance of a buffer. */
struct run_buffer {
    uint32_t buffer;
    struct buffer_at at;
    void *data;       /* owned; the backend's */
    uint64_t bytes;   /* as the program counts them */
    uint64_t counted; /* of them, so far */
    uint64_t room;    /* as they are here */
    bool used;
};

/* Every constant of an update that no job names. Muon: momentum with Nesterov, update scaled by 0.2 sqrt(max(rows, cols))
 * (Moonlight). Shampoo's and SOAP's updates are of Adam's size, and take `adam_share` of the rate as AdamW does. */
struct run_hyper {
    float momentum;
    bool nesterov;
    enum kernel_muon_scaling scaling;
    float adam_share; /* of the matrices' learning rate */
    float beta1, beta2, eps;
    float decay; /* of all, decoupled */
    struct kernel_ns_hyper ns;
    struct kernel_shampoo_hyper shampoo;
    struct kernel_soap_hyper soap;
};
extern const struct run_hyper run_hyper;

/* What an operation took, for the report. */
struct run_time {
    struct instance id;
    uint32_t start, end; /* events; gone after the step */
    double start_s, end_s;
};

/* The events of an awaited operation's instances in a step; PROGRAM_NONE: not (yet) there. */
struct run_marks {
    uint32_t *at; /* [micro][unit], in arena; NULL: nobody waits for it */
    uint32_t n_units, n;
    uint32_t last;
};

enum { SCRATCH_PACK, SCRATCH_FP32, SCRATCH_N };

/* Faults on purpose, of one rank, which the check has to find (exec/plant.h). */
enum run_fault {
    RUN_RIGHT,
    RUN_SKIP, /* forgets the updates of its matrices */
    RUN_SHIFT, /* puts the first segment that it gathers of unit 1 (of the only one) an element too far */
    RUN_STALE, /* keeps from the first step on what it gathered of that unit */
    RUN_SUM,   /* leaves a sum where it has to leave the mean of what it reduces */
    RUN_TWICE, /* leaves twice the mean */
    RUN_LOSE,  /* does not keep its optimizer states */
};

struct exec_run;
struct run_options {
    uint64_t seed;
    bool ordered;                    /* deterministic reductions */
    double lr;                       /* of matrices; AdamW takes a tenth */
    const struct token_file *tokens; /* checked for all steps; NULL: made from the seed */
    enum run_fault fault;
    uint32_t faulty;               /* the rank that has it */
    const struct run_hyper *hyper; /* NULL: run_hyper, what every run but a test's has */
    bool keep_reduced;             /* every gradient as its update found it: check.c looks at it */
    /* NULL, or called before every operation; -1 ends the step */
    int (*on_op)(void *ctx, const struct exec_run *r, const struct instance *i, struct err *e);
    void *on_op_ctx;
};

struct exec_run {
    const struct plan *plan;
    const struct program *p;
    struct backend *b;
    struct transport *t; /* b's */
    struct run_options o;
    struct arena arena;
    struct held held;
    struct unit_graph *graphs; /* [n_classes] */
    struct run_buffer *map;    /* owned: open addressing */
    size_t n_map, cap_map;
    uint64_t part_bytes[MEM_PART_N], part_peak[MEM_PART_N], bytes, peak;
    enum stream stream;                 /* of the operation that is being issued */
    void *scratch[STREAM_N][SCRATCH_N]; /* owned: see run_scratch() */
    size_t cap_scratch[STREAM_N][SCRATCH_N];
    struct run_marks *marks;   /* [n_ops], in arena */
    uint64_t step;             /* from 1 */
    uint32_t last_forward;     /* the mark that ends a unit's forward */
    uint32_t place;            /* the number of the part of the states that this rank has */
    struct coll_group *groups; /* [n_groups] this rank's of each family, in arena */
    double *
        norms; /* [n_tensors] |momentum|^2 of whole matrices; owned, the backend's; NULL: not Muon */
    uint64_t *normed;           /* [n_tensors] the step that left it, in arena */
    float *losses;              /* [n_micro] of the step at work; owned, the backend's */
    double loss;                /* of this rank's step, mean over micro-batches */
    void *output, *output_grad; /* of a model without a head; owned, the backend's */
    uint64_t output_bytes;
    char *
        reduced; /* owned, the backend's: [total_params] of the gradients' type, what this rank holds; NULL: not kept */
    uint64_t *reduced_in;   /* [n_tensors] the step that left it, in arena */
    struct run_time *times; /* owned; of the last step */
    size_t n_times, cap_times;
    void *stale; /* owned, the backend's; the plant's */
    uint64_t stale_bytes;
    /* check.c: a run whose resident parameters are what this step's gathers have to bring; or NULL. Tensors that came
     * otherwise are marked. */
    const struct exec_run *witness;
    bool *came_wrong; /* borrowed, [n_tensors] */
    struct err *e;
};

/* Does exec run this optimizer? Its row says so (optimizer_row.exec), and update.c has its
 * functions. */
bool run_implements(enum optimizer o);
/* ERR_UNSUPPORTED for a job whose kernels can be predicted and are not run here. */
int exec_job(const struct job *j, struct err *e);
/* Initial parameters from the seed, the same for every layout and world. Several runs may share a backend, one at a time
 * in a step. */
int exec_init(struct exec_run *r, const struct plan *plan, const struct program *p,
              struct backend *b, const struct run_options *o, struct err *e);
void exec_release(struct exec_run *r);
/* One optimizer step. */
int exec_step(struct exec_run *r, struct err *e);
/* Bytes held so far outside of the program's buffers: packing, products in fp32, the output of a model without a head, and
 * the backend's own (workspace, collectives). The tables of the walk are not in it. */
uint64_t exec_scratch_bytes(const struct exec_run *r);
/* Mean loss of the last step over all ranks. */
int exec_loss(struct exec_run *r, double *loss, struct err *e);

/* ---- inside exec/ ---- */

/* live.c: every resident buffer, zeroed; what an operation's start reserves, zeroed, and its end releases; all that is left. */
void run_reserve_resident(struct exec_run *r);
void run_lives_begin(struct exec_run *r, const struct op *o, const struct instance *i);
void run_lives_end(struct exec_run *r, const struct op *o, const struct instance *i);
void run_release_all(struct exec_run *r);
/* At least n bytes of the stream at work, kept for later operations of it; contents undefined. PACK: what collectives move,
 * and tokens; FP32: the optimizer's, from the products of an item to its update. */
void *run_scratch(struct exec_run *r, int which, size_t n);
/* The live instance that an operation of this unit and micro-batch names; a bug when there is none. */
struct run_buffer *run_find(struct exec_run *r, uint32_t buffer, uint32_t unit, uint32_t micro);
/* The one that operation instance i names with d_unit; NULL: there is no such instance; a bug when it is not live. */
struct run_buffer *run_live(struct exec_run *r, uint32_t buffer, const struct instance *i,
                            int32_t d_unit);

/* ---- tensors.c ---- */

/* Elements [first, first + n) of a tensor stand from element `at` of a buffer on; n 0: none do. */
struct run_place {
    uint64_t at, first, n;
};
/* Of any buffer that holds tensors, on this rank; O(tensors of the unit, or items of the rank's list). */
struct run_place run_place(const struct exec_run *r, uint32_t buffer, uint32_t tensor);
struct run_view {
    char *data;
    enum dtype dtype;
    uint64_t elements;
    uint64_t first; /* of a tensor: which of its elements is the first here */
};
/* What a live buffer has of the tensor. */
struct run_view run_tensor(const struct exec_run *r, const struct run_buffer *b, uint32_t tensor);
/* ... and of that the rank's part (held.h), for buffers that have at least this. */
struct run_view run_part(const struct exec_run *r, const struct run_buffer *b, uint32_t tensor);
/* Operand k of the op, resolved: the buffer, or the tensor in it. */
struct run_view run_operand(struct exec_run *r, const struct op *o, const struct instance *i,
                            uint32_t k);
/* Expert e of an operand that names several. */
struct run_view run_expert(struct exec_run *r, const struct operand *x, const struct instance *i,
                           uint32_t e);
/* The part of the reduced gradient of t that this rank updates with. It is kept when somebody looks at it. */
struct run_view run_gradient(struct exec_run *r, uint32_t tensor);
/* The tensor of an op in a loop over items, of a batch the one that is this rank's (MODEL_NONE: none is); the dtype in which
 * matrices go to their products. */
uint32_t run_item(const struct exec_run *r, const struct op *o, const struct instance *i);
enum dtype run_travel(const struct exec_run *r);
/* The operand that holds matrices (NULL: none), and where the item's begins in it, or would if it had more than this rank's
 * rows of it. */
struct run_buffer *run_matrices(struct exec_run *r, const struct op *o, const struct instance *i);
char *run_matrix(struct exec_run *r, const struct op *o, const struct instance *i);

/* ---- the operations ---- */

/* Has this rank that fault? */
bool run_has(const struct exec_run *r, enum run_fault fault);
/* The loss of a model without a head, at the end of forward. */
void run_output(struct exec_run *r, const struct instance *i);
/* Marks what the unit's gathers brought wrong (compare.c). */
void run_witness(struct exec_run *r, const struct instance *i);
int run_compute(struct exec_run *r, const struct op *o, const struct instance *i); /* compute.c */
int run_collective(struct exec_run *r, const struct op *o, const struct instance *i); /* move.c */
/* A collective of an operation's group, in the order of reductions that the run has. */
void run_call(struct exec_run *r, const struct op *o, struct coll_call *c);
const struct coll_group *run_group(const struct exec_run *r, const struct op *o);
/* Issued on the stream at work. */
void run_copy(struct exec_run *r, void *to, const void *from, size_t n);
void run_zero(struct exec_run *r, void *p, size_t n);
void run_sharded(struct exec_run *r, const struct op *o, const struct instance *i); /* sharded.c */
int run_update(struct exec_run *r, const struct op *o, const struct instance *i);   /* update.c */

/* data.c: numbers that depend on nothing but their names. */
uint64_t data_hash(uint64_t a, uint64_t b, uint64_t c, uint64_t d);
void data_tokens(uint64_t seed, uint64_t step, uint64_t micro, uint32_t rank, uint64_t vocab,
                 uint64_t sequences, uint64_t seq_len, int64_t *inputs, int64_t *targets);
/* A micro-batch of this rank and step, from the file or made: [micro_batch][seq_len] each. In a file steps, micro-batches
 * and ranks follow one another in this order, so that a global batch is the same sequences whatever shares it out. */
void data_batch(const struct exec_run *r, uint32_t micro, int64_t *inputs, int64_t *targets);
/* Element i of tensor t at the start: normal-like with deviation `sd` around `mean`. */
float data_weight(uint64_t seed, uint64_t tensor, uint64_t i, float mean, float sd);

#endif
