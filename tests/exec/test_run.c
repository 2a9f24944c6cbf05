/* A few steps of small models, every rank a thread, under a layout and under plain data parallelism from the same seed:
 * with ordered reductions losses and weights have to be equal to the last bit, and every byte that a rank moved has to
 * be in the program. Peak memory by part is what the simulator predicts. */
#include "exec/run.h"

#include "model/program/traffic.h"
#include "sim/sim.h"
#include "tests/exec/threads.h"
#include "tests/layouts/plans.h"

#include <math.h>
#include <stdio.h>

enum { STEPS = 3, MAX_STEPS = 20, MAX_WORLD = 8 };

struct outcome {
    const struct plan *plan;
    const struct program *p;
    struct run_options o;
    uint64_t shuffle;
    int steps;
    double loss[MAX_STEPS];
    float *weights[MAX_WORLD]; /* [rank][total_params]: what the rank holds; elsewhere NAN; owned */
    struct traffic_bytes moved[MAX_WORLD];
    uint64_t peak[MAX_WORLD], part_peak[MAX_WORLD][MEM_PART_N];
};

static void copy_weights(struct exec_run *r, float *to)
{
    const struct model *m = r->p->model;
    const struct run_buffer *params = run_find(r, r->p->known.params, 0, 0);

    for (uint64_t i = 0; i < m->total_params; i++)
        to[i] = NAN;
    for (uint32_t t = 0; t < m->n_tensors; t++) {
        struct run_view v = run_tensor(r, params, t);

        dtype_load(v.dtype, v.data, to + r->held.t[t].flat_at + v.first, v.elements);
    }
}

static int one_rank(struct transport *t, void *ctx, struct err *e)
{
    struct outcome *x = ctx;
    struct backend b;
    struct exec_run r;
    int status;

    open_cpu(&b, t, x->shuffle ? x->shuffle + t->rank : 0);
    status = exec_init(&r, x->plan, x->p, &b, &x->o, e);

    for (int s = 0; s < x->steps && !status; s++) {
        double loss;

        if (s == x->steps - 1)
            t->n_sent = t->n_received = 0;
        status = exec_step(&r, e);
        if (!status)
            status = exec_loss(&r, &loss, e);
        if (!status && t->rank == 0)
            x->loss[s] = loss;
    }
    if (!status) {
        x->moved[t->rank] =
            (struct traffic_bytes){.sent_intra = t->n_sent, .recv_intra = t->n_received};
        x->weights[t->rank] = MEM_NEW(float, x->p->model->total_params);
        copy_weights(&r, x->weights[t->rank]);
        x->peak[t->rank] = r.peak;
        memcpy(x->part_peak[t->rank], r.part_peak, sizeof(r.part_peak));
    }
    exec_release(&r);
    if (b.bytes)
        status = err_set(e, ERR_INVALID, "rank %u: %llu bytes are not given back", t->rank,
                         (unsigned long long)b.bytes);
    backend_close(&b);
    return status;
}

static void release(struct outcome *x)
{
    for (int i = 0; i < MAX_WORLD; i++)
        mem_free(x->weights[i]);
}

struct setting {
    const char *model, *layout;
    uint32_t world;
    struct job job;
    bool skips; /* rank 1 forgets its updates */
    int steps;  /* 0: STEPS */
    double lr;  /* 0: 0.02 */
    uint64_t shuffle;
    bool every_micro; /* ddp reduces every micro-batch */
    bool forget; /* what the refresh waits for, and that the optimizer waits for sums over copies */
    bool apart;  /* copies are not summed */
    bool nameless; /* no operation is called what the layout calls it */
    bool at_once;  /* ddp sums over all ranks, not in groups first */
};

static bool over_copies(const struct program *p, const struct op *o)
{
    return o->kind == OP_COLLECTIVE && p->groups[o->coll.group].stride[0] > 1;
}

/* Faults in the program. */
static void forget_waits(struct program *p)
{
    for (uint32_t i = 0; i < p->n_ops; i++) {
        struct wait *w = ((struct wait *)(uintptr_t)p->ops[i].waits);
        uint32_t n = 0;

        for (uint32_t k = 0; k < p->ops[i].n_waits && p->ops[i].phase != PHASE_REFRESH; k++)
            if (!over_copies(p, &p->ops[w[k].op]))
                w[n++] = w[k];
        p->ops[i].n_waits = n;
    }
}

static void leave_apart(struct program *p)
{
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (over_copies(p, &p->ops[i]))
            p->ops[i].kind = OP_MARK;
}

static void run(const struct setting *s, const char *layout, struct arena *a, struct outcome *x)
{
    struct plan *plan = ARENA_NEW(a, struct plan, 1);
    struct program *p = ARENA_NEW(a, struct program, 1);
    bool ddp = !strcmp(layout, "ddp");
    uint32_t groups = s->job.shard_group > 1 && !s->at_once ? s->job.shard_group : s->world;
    const struct layout_reference ref = {s->every_micro, groups};
    struct job j = s->job;
    struct err e = {0};

    memset(x, 0, sizeof(*x));
    j.shard_group = ddp ? 0 : j.shard_group;
    plans_make(plan, a, s->model, layout, &j, s->world, 4);
    if (ddp && (s->every_micro || groups < s->world) ? layout_lower_reference(plan, &ref, a, p, &e)
                                                     : layout_lower(plan, a, p, &e))
        ck_abort_msg("%s", e.msg);
    if (s->nameless)
        plans_rename_ops(p, a);
    if (s->forget)
        forget_waits(p);
    if (s->apart && !ddp)
        leave_apart(p);
    x->shuffle = s->shuffle;
    x->steps = s->steps ? s->steps : STEPS;
    x->plan = plan;
    x->p = p;
    x->o = (struct run_options){.seed = 7, .ordered = true, .lr = s->lr > 0 ? s->lr : 0.02};
    if (strcmp(layout, "ddp") && s->skips) {
        x->o.fault = RUN_SKIP;
        x->o.faulty = 1;
    }
    if (threads_run(s->world, one_rank, x, &e))
        ck_abort_msg("%s %s world %u: %s", s->model, layout, s->world, e.msg);
}

/* The first difference, or NULL. */
static const char *differs(const struct setting *s, const struct outcome *x,
                           const struct outcome *ddp, char *text, size_t n)
{
    for (int i = 0; i < x->steps; i++)
        if (x->loss[i] != ddp->loss[i]) {
            snprintf(text, n, "%s %s world %u: loss of step %d is %.17g, ddp %.17g", s->model,
                     s->layout, s->world, i + 1, x->loss[i], ddp->loss[i]);
            return text;
        }
    for (uint32_t r = 0; r < s->world; r++)
        for (uint64_t i = 0; i < x->p->model->total_params; i++)
            if (!isnan(x->weights[r][i]) && x->weights[r][i] != ddp->weights[0][i]) {
                snprintf(text, n, "%s %s world %u: rank %u weight %llu is %.9g, ddp %.9g", s->model,
                         s->layout, s->world, r, (unsigned long long)i, (double)x->weights[r][i],
                         (double)ddp->weights[0][i]);
                return text;
            }
    return NULL;
}

/* What an ordered run moves: segment reductions by mirrored p2p, the rest as the job's algorithm says. */
static enum coll_algo ordered_algo(void *ctx, const struct instance *i)
{
    const struct outcome *x = ctx;
    const struct op *o = &x->p->ops[i->op];

    if (o->coll.kind == COLL_SEGMENT_REDUCE && o->coll.algo != ALGO_PADDED)
        return ALGO_P2P;
    return o->coll.algo == ALGO_AUTO ? ALGO_RING : o->coll.algo;
}

static void check_bytes(const struct setting *s, struct outcome *x)
{
    struct traffic_bytes *b = MEM_NEW(struct traffic_bytes, s->world);

    traffic_step(x->p, 15, ordered_algo, x, b);
    for (uint32_t r = 0; r < s->world; r++)
        if (x->moved[r].sent_intra != b[r].sent_intra + b[r].sent_inter ||
            x->moved[r].recv_intra != b[r].recv_intra + b[r].recv_inter)
            ck_abort_msg(
                "%s %s world %u: rank %u sent %llu received %llu, the program says %llu %llu",
                s->model, s->layout, s->world, r, (unsigned long long)x->moved[r].sent_intra,
                (unsigned long long)x->moved[r].recv_intra,
                (unsigned long long)(b[r].sent_intra + b[r].sent_inter),
                (unsigned long long)(b[r].recv_intra + b[r].recv_inter));
    mem_free(b);
}

static void check_memory(const struct setting *s, const struct outcome *x, struct arena *a)
{
    struct sim_options o = {.unfold = true};
    struct prediction out;
    struct err e = {0};
    uint64_t most = 0;

    ck_assert_int_eq(sim_predict(x->p, &x->plan->cluster, &o, a, &out, &e), 0);
    for (uint32_t r = 0; r < s->world; r++)
        most = x->peak[r] > most ? x->peak[r] : most;
    /* In walking order nothing overlaps: exec never holds more than the streams' overlap allows. */
    if (most > out.memory.peak_bytes)
        ck_abort_msg("%s %s world %u: peak %llu, predicted %llu", s->model, s->layout, s->world,
                     (unsigned long long)most, (unsigned long long)out.memory.peak_bytes);
    /* Predicted in walking order it is the same bytes in every part, on the same rank. */
    o.serial = true;
    ck_assert_int_eq(sim_predict(x->p, &x->plan->cluster, &o, a, &out, &e), 0);
    ck_assert_uint_eq(out.memory.peak_bytes, most);
    ck_assert_uint_eq(out.memory.peak_bytes, x->peak[out.memory.rank]);
    for (uint32_t r = 0; r < out.memory.rank; r++)
        ck_assert_uint_lt(x->peak[r], most);
    for (int k = 0; k < MEM_PART_N; k++)
        if (k != MEM_CONTEXT && x->part_peak[out.memory.rank][k] != out.memory.parts[k])
            ck_abort_msg("%s %s world %u: %s of rank %u is %llu, predicted %llu", s->model,
                         s->layout, s->world, mem_part_name((enum mem_part)k), out.memory.rank,
                         (unsigned long long)x->part_peak[out.memory.rank][k],
                         (unsigned long long)out.memory.parts[k]);
}

/* `ddp` has been run with the same settings. */
static void compare_with(struct setting *s, const struct outcome *ddp)
{
    struct outcome x;
    struct arena a;
    char text[256];

    if (!plans_go_together(s->layout, s->job.optimizer))
        return;
    arena_init(&a);
    run(s, s->layout, &a, &x);
    if (differs(s, &x, ddp, text, sizeof(text)))
        ck_abort_msg("%s", text);
    ck_assert(isfinite(x.loss[x.steps - 1]));
    check_bytes(s, &x);
    check_memory(s, &x, &a);
    release(&x);
    arena_release(&a);
}

static void compare(struct setting *s)
{
    struct outcome ddp;
    struct arena a;

    arena_init(&a);
    run(s, "ddp", &a, &ddp);
    compare_with(s, &ddp);
    release(&ddp);
    arena_release(&a);
}

static struct setting small(const char *model, const char *layout, uint32_t world)
{
    struct setting s = {.model = model, .layout = layout, .world = world, .job = plans_job()};

    s.job.seq_len = 16;
    s.job.micro_batch = 1;
    s.job.param_dtype = s.job.grad_dtype = DTYPE_FP32;
    return s;
}

static const char *const layouts[] = {"ddp",          "zero1+owner",  "zero3+owner",
                                      "zero3+gather", "zero1+gather", "zero3+gather-once",
                                      "zero2+owner",  "zero2+gather", "zero3+alltoall"};
enum { N_LAYOUTS = sizeof(layouts) / sizeof(layouts[0]) };
static const char *const models[] = {"block", "llama", "gpt2"};

START_TEST(every_layout_trains_as_ddp_does_to_the_last_bit)
{
    static const uint32_t worlds[] = {1, 2, 3, 4, 7, 8};

    for (int m = 0; m < 3; m++)
        for (int w = 0; w < 6; w++) {
            struct setting s = small(models[m], "ddp", worlds[w]);
            struct outcome ddp;
            struct arena a;

            arena_init(&a);
            run(&s, "ddp", &a, &ddp);
            check_bytes(&s, &ddp);
            for (int l = 1; l < N_LAYOUTS; l++) {
                s.layout = layouts[l];
                compare_with(&s, &ddp);
            }
            release(&ddp);
            arena_release(&a);
        }
}
END_TEST

START_TEST(names_of_operations_steer_nothing)
{
    struct setting s = small("llama", "zero1+owner", 2);
    struct outcome named, x;
    struct arena a;
    char text[256];

    arena_init(&a);
    run(&s, s.layout, &a, &named);
    s.nameless = true;
    run(&s, s.layout, &a, &x);
    MUST(!differs(&s, &x, &named, text, sizeof(text)), "%s", text);
    release(&x);
    release(&named);
    arena_release(&a);
}
END_TEST

/* Streams drained in any order that they and the program's waits allow give the same bits: nothing that an operation needs
 * goes unsaid. */
START_TEST(any_legal_order_of_the_streams_gives_the_same_bits)
{
    static const uint32_t worlds[] = {1, 3, 4};
    static const enum optimizer optimizers[] = {OPTIMIZER_MUON, OPTIMIZER_SOAP, OPTIMIZER_MUON};
    static const char *const of[] = {"llama", "one-layer", "moe"};

    for (int m = 0; m < 3; m++)
        for (int w = 0; w < 3; w++) {
            struct setting s = small(of[m], "ddp", worlds[w]);
            struct outcome ddp;
            struct arena a;

            s.job.optimizer = optimizers[m];
            s.job.recompute = m ? RECOMPUTE_FULL : RECOMPUTE_NONE;
            s.job.bucket_bytes = 5000;
            s.steps = 2;
            arena_init(&a);
            run(&s, "ddp", &a, &ddp);
            for (int l = 0; l < N_LAYOUTS; l++)
                for (s.shuffle = 100; s.shuffle <= 300; s.shuffle += 100) {
                    s.layout = layouts[l];
                    compare_with(&s, &ddp);
                }
            s.shuffle = 0;
            release(&ddp);
            arena_release(&a);
        }
}
END_TEST

START_TEST(a_forgotten_wait_is_caught)
{
    struct setting s = small("llama", "zero1+owner", 3);
    struct outcome x, ddp;
    struct arena a;
    char text[256];
    int found = 0;

    arena_init(&a);
    run(&s, "ddp", &a, &ddp);
    s.forget = true;
    run(&s, s.layout, &a, &x);
    ck_assert_ptr_null(differs(&s, &x, &ddp, text, sizeof(text))); /* in the order of issue */
    release(&x);
    for (s.shuffle = 100; s.shuffle <= 500; s.shuffle += 100) {
        run(&s, s.layout, &a, &x);
        found += differs(&s, &x, &ddp, text, sizeof(text)) != NULL;
        release(&x);
    }
    ck_assert_int_gt(found, 0);
    release(&ddp);
    arena_release(&a);
}
END_TEST

START_TEST(every_gather_algorithm_brings_the_same_weights)
{
    static const enum coll_algo algos[] = {ALGO_P2P, ALGO_RING, ALGO_TREE, ALGO_HIERARCHICAL,
                                           ALGO_PADDED};

    struct setting s = small("llama", "ddp", 7); /* ddp gathers nothing: once is enough */
    struct outcome ddp;
    struct arena a;

    arena_init(&a);
    run(&s, "ddp", &a, &ddp);
    for (int k = 0; k < 5; k++)
        for (int l = 1; l < 3; l++) {
            s.layout = layouts[l];
            s.job.gather = algos[k];
            compare_with(&s, &ddp);
        }
    release(&ddp);
    arena_release(&a);
}
END_TEST

START_TEST(bf16_storage_and_recomputation_change_nothing_between_layouts)
{
    static const enum recompute modes[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};

    for (int k = 0; k < 3; k++) {
        struct setting s = small("llama", "zero3+owner", 4);

        s.job.param_dtype = s.job.grad_dtype = DTYPE_BF16;
        s.job.recompute = modes[k];
        compare(&s);
    }
}
END_TEST

/* Buckets and pieces that end inside tensors and slices; bf16; micro-batches where all reduce in the last one, as ddp
 * does. */
START_TEST(small_buckets_and_micro_batches_change_nothing)
{
    static const uint32_t worlds[] = {3, 8};

    for (int l = 1; l < N_LAYOUTS; l++)
        for (int w = 0; w < 2; w++) {
            struct setting s = small("gpt2", layouts[l], worlds[w]);

            s.job.bucket_bytes = 5000;
            s.job.grad_accum = strncmp(layouts[l], "zero1", 5) ? 1 : 2;
            s.job.param_dtype = DTYPE_BF16;
            s.steps = 2;
            compare(&s);
        }
}
END_TEST

/* zero2 and zero3 sum each micro-batch over ranks before they add them up: so does the reference. Tied (gpt2) and untied heads, experts;
 * small buckets, which only plain ddp has. */
START_TEST(micro_batches_reduced_one_by_one_train_as_ddp_that_does_so)
{
    static const char *const which[] = {"llama", "gpt2", "moe"};
    static const enum optimizer optimizers[] = {OPTIMIZER_MUON, OPTIMIZER_SOAP, OPTIMIZER_MUON,
                                                OPTIMIZER_SHAMPOO};
    static const char *const cut[] = {"zero3+owner", "zero3+gather", "zero3+gather-once",
                                      "zero2+owner", "zero2+gather", "zero3+alltoall"};

    for (uint32_t world = 2; world <= 4; world++)
        for (int k = 0; k < 4; k++) { /* 2 or 3 micro-batches, fp32 or bf16 gradients */
            struct setting s = small(which[(world + (uint32_t)k) % 3], "ddp", world);
            struct outcome ddp;
            struct arena a;

            s.every_micro = true;
            s.steps = 2;
            s.job.grad_accum = 2 + (uint64_t)k % 2;
            s.job.grad_dtype = k < 2 ? DTYPE_FP32 : DTYPE_BF16;
            s.job.bucket_bytes = 5000;
            s.job.optimizer = optimizers[k];
            arena_init(&a);
            run(&s, "ddp", &a, &ddp);
            check_bytes(&s, &ddp);
            for (int l = 0; l < 6; l++) {
                s.layout = cut[l];
                compare_with(&s, &ddp);
            }
            release(&ddp);
            arena_release(&a);
        }
}
END_TEST

/* In the program's order, and in two of those that its waits allow. */
static void compare_shuffled(struct setting *s)
{
    struct outcome ddp;
    struct arena a;

    arena_init(&a);
    run(s, "ddp", &a, &ddp);
    for (s->shuffle = 0; s->shuffle <= 200; s->shuffle += 100)
        compare_with(s, &ddp);
    release(&ddp);
    arena_release(&a);
}

/* Units that stay gathered to the end of their backward: the same weights, in any order of the streams; every gather is one of
 * forward's. */
START_TEST(units_that_stay_gathered_change_nothing)
{
    static const char *const which[] = {"zero3+owner", "zero3+gather", "hsdp+owner", "mics"};
    static const char *const which_model[] = {"llama", "gpt2", "moe"};

    for (int l = 0; l < 4; l++)
        for (int k = 0; k < 3; k++) {
            struct setting s = small(which_model[(l + k) % 3], which[l], l < 2 ? 3 : 4);

            s.steps = 2;
            s.job.reshard_never = true;
            s.job.shard_group = l < 2 ? 0 : 2;
            s.job.grad_accum = 1 + (uint64_t)k;
            s.every_micro = k > 0;
            s.job.optimizer = l == 3 ? OPTIMIZER_ADAMW : OPTIMIZER_MUON;
            compare_shuffled(&s);
        }
}
END_TEST

/* Reductions after backward, or before the next unit's: the same weights, in any order that the waits allow. */
START_TEST(reductions_beside_nothing_change_nothing)
{
    static const char *const which[] = {"zero1+owner", "zero2+gather", "zero3+owner",
                                        "hsdp+owner",  "mics",         "zero1+gather"};
    static const char *const which_model[] = {"llama", "gpt2", "moe"};

    for (int l = 0; l < 6; l++)
        for (int k = 0; k < 2; k++) {
            struct setting s = small(which_model[(l + k) % 3], which[l], 4);

            s.steps = 2;
            s.job.overlap_reduce = OVERLAP_NO;
            s.job.shard_group = l == 3 || l == 4 ? 2 : 0;
            s.job.grad_accum = 1 + (uint64_t)k;
            s.job.bucket_bytes = 5000;
            s.every_micro = k > 0 && l > 0 && l < 5;
            s.job.optimizer = l == 4 ? OPTIMIZER_ADAMW : OPTIMIZER_MUON;
            compare_shuffled(&s);
        }
}
END_TEST

/* no_sync: gradients that stay whole until the last micro-batch are summed as ddp sums them, or in groups first, and over the
 * groups what came out. */
START_TEST(gradients_reduced_in_the_last_micro_batch_train_as_ddp)
{
    static const char *const which[] = {"zero3+owner",  "zero3+gather", "hsdp+owner",
                                        "hsdp+gather",  "mics+owner",   "mics+gather-once",
                                        "mics+alltoall"};
    static const char *const which_model[] = {"llama", "gpt2", "moe"};

    for (int l = 0; l < 7; l++)
        for (int k = 0; k < 3; k++) {
            struct setting s = small(which_model[(l + k) % 3], which[l], l < 2 ? 3 : 4);

            s.steps = 2;
            s.job.sync_last = true;
            s.job.shard_group = l < 2 ? 0 : k == 2 ? 4 : 2;
            s.job.grad_accum = 1 + (uint64_t)k;
            s.job.grad_dtype = k ? DTYPE_BF16 : DTYPE_FP32;
            s.job.optimizer = l % 2 && k == 2 ? OPTIMIZER_SOAP : OPTIMIZER_MUON;
            s.job.bucket_bytes = 5000;
            compare_shuffled(&s);
        }
}
END_TEST

/* One copy a rank, several a node of 4, one a node, one over two nodes; ddp's reference sums in the same groups, then over
 * them. zero1 has copies of states alone, and sums over all ranks at once. */
START_TEST(shard_groups_train_as_ddp_that_sums_in_them)
{
    static const uint32_t worlds[][2] = {{2, 1}, {4, 2}, {4, 4}, {8, 2}, {8, 4}, {6, 3}, {8, 1}};
    static const char *const which[] = {
        "hsdp+gather", "hsdp+owner",  "mics+owner", "hsdp+gather-once",
        "hsdp",        "mics+gather", "zero1",      "hsdp+alltoall"};
    static const char *const which_model[] = {"llama", "gpt2", "moe"};

    for (int w = 0; w < 7; w++)
        for (int l = 0; l < 8; l++) {
            struct setting s = small(which_model[(w + l) % 3], which[l], worlds[w][0]);

            s.steps = 2;
            s.job.shard_group = worlds[w][1];
            if (l == 4 || l == 6) /* nothing to rebuild */
                s.job.optimizer = OPTIMIZER_ADAMW;
            else
                s.job.optimizer = w % 3 || l == 7 ? OPTIMIZER_MUON : OPTIMIZER_SOAP;
            s.at_once = l == 6;
            s.job.grad_accum = 1 + (uint64_t)(w + l) % 2;
            s.every_micro = s.job.shard_group > 1 && s.job.grad_accum > 1 && !s.at_once;
            s.job.grad_dtype = w % 2 ? DTYPE_FP32 : DTYPE_BF16;
            s.job.bucket_bytes = 5000;
            compare(&s);
        }
}
END_TEST

/* Streams beside one another in any order; without the optimizer's wait for the sums over copies some order shows it. */
START_TEST(sums_over_copies_are_waited_for)
{
    static const char *const which[] = {"hsdp+owner", "hsdp+gather", "mics+owner"};

    for (int l = 0; l < 6; l++) { /* each with shards of their own, and among whole gradients */
        struct setting s =
            small("block", which[l % 3], 4); /* updates begin with the last unit to be summed */
        struct outcome x, ddp;
        struct arena a;
        char text[256];
        int found = 0;

        arena_init(&a);
        s.job.shard_group = 2;
        s.job.sync_last = l > 2;
        s.job.grad_accum = l > 2 ? 2 : 1;
        s.steps = 2;
        run(&s, "ddp", &a, &ddp);
        for (s.shuffle = 100; s.shuffle <= 800; s.shuffle += 100) {
            s.forget = false;
            run(&s, s.layout, &a, &x);
            if (differs(&s, &x, &ddp, text, sizeof(text)))
                ck_abort_msg("%s", text);
            release(&x);
            s.forget = true;
            run(&s, s.layout, &a, &x);
            found += differs(&s, &x, &ddp, text, sizeof(text)) != NULL;
            release(&x);
        }
        ck_assert(l == 2 ? found == 0 : found > 0); /* mics's reductions end with them */
        release(&ddp);
        arena_release(&a);
    }
}
END_TEST

/* From outside: a mean over all ranks at once, as plain ddp has it, is the mean of the groups' means but for the last places, and
 * training goes the same way. Copies that are not summed go another. */
START_TEST(means_of_means_are_the_mean)
{
    for (uint32_t group = 2; group <= 4; group += 2) {
        struct setting s = small("llama", "hsdp+gather", 8);
        struct outcome x, apart, ddp;
        struct arena a;
        double near, far;

        arena_init(&a);
        s.job.shard_group = group;
        s.at_once = true;
        run(&s, "ddp", &a, &ddp);
        run(&s, s.layout, &a, &x);
        s.apart = true;
        run(&s, s.layout, &a, &apart);
        near = fabs(x.loss[STEPS - 1] - ddp.loss[STEPS - 1]) / ddp.loss[STEPS - 1];
        far = fabs(apart.loss[STEPS - 1] - ddp.loss[STEPS - 1]) / ddp.loss[STEPS - 1];
        ck_assert_msg(near < 1e-5, "groups of %u: %g", group, near);
        ck_assert_msg(far > 1e-3, "groups of %u, not summed: %g", group, far);
        release(&x);
        release(&apart);
        release(&ddp);
        arena_release(&a);
    }
}
END_TEST

START_TEST(the_order_of_micro_batches_and_ranks_shows_in_the_bits)
{
    struct setting s = small("llama", "zero3+owner", 3);
    struct outcome x, ddp;
    struct arena a;
    char text[256];

    s.job.grad_accum = 2;
    s.job.grad_dtype = DTYPE_BF16;
    arena_init(&a);
    run(&s, "ddp", &a, &ddp);
    run(&s, s.layout, &a, &x);
    ck_assert_ptr_nonnull(differs(&s, &x, &ddp, text, sizeof(text)));
    release(&x);
    release(&ddp);
    arena_release(&a);
}
END_TEST

START_TEST(experts_train_as_under_ddp)
{
    static const uint32_t worlds[] = {1, 2, 3, 4, 7, 8};

    for (int w = 0; w < 6; w++) {
        struct setting s = small(w % 2 ? "qwen-moe" : "moe", "ddp", worlds[w]);
        struct outcome ddp;
        struct arena a;

        s.job.recompute = w % 2 ? RECOMPUTE_NONE : RECOMPUTE_FULL;
        s.job.param_dtype = w % 3 ? DTYPE_FP32 : DTYPE_BF16;
        arena_init(&a);
        run(&s, "ddp", &a, &ddp);
        for (int l = 1; l < N_LAYOUTS; l++) {
            s.layout = layouts[l];
            compare_with(&s, &ddp);
        }
        release(&ddp);
        arena_release(&a);
    }
}
END_TEST

/* Blocks in other orders: norms behind (OLMo 2); one norm for attention and MLP side by side, biases, a head with one
 * (GPT-J); two norms side by side, groups of keys (Falcon); LayerNorms without biases (MPT); plain MLPs (StarCoder2). */
START_TEST(blocks_of_other_families_train_as_under_ddp)
{
    static const char *const configs[] = {
        "{\"model_type\":\"olmo2\",\"hidden_size\":24,\"intermediate_size\":40,\"vocab_size\":89,"
        "\"num_hidden_layers\":2,\"num_attention_heads\":3}",
        "{\"model_type\":\"gptj\",\"n_embd\":24,\"n_layer\":2,\"n_head\":3,\"rotary_dim\":8,"
        "\"vocab_size\":89}",
        "split {\"model_type\":\"falcon\",\"hidden_size\":32,\"num_hidden_layers\":2,"
        "\"num_attention_heads\":4,\"num_kv_heads\":2,\"vocab_size\":89,"
        "\"new_decoder_architecture\":true}",
        "{\"model_type\":\"mpt\",\"d_model\":24,\"n_layers\":2,\"n_heads\":3,\"vocab_size\":89,"
        "\"max_seq_len\":64,\"no_bias\":true}",
        "{\"model_type\":\"starcoder2\",\"hidden_size\":24,\"intermediate_size\":40,"
        "\"vocab_size\":89,\"num_hidden_layers\":2,\"num_attention_heads\":3,"
        "\"num_key_value_heads\":1}",
    };
    static const uint32_t worlds[] = {2, 3, 5, 4, 7};

    for (size_t c = 0; c < sizeof(configs) / sizeof(configs[0]); c++) {
        struct setting s = small(configs[c], "ddp", worlds[c]);
        struct outcome ddp;
        struct arena a;

        s.job.recompute = c % 2 ? RECOMPUTE_SELECTIVE : RECOMPUTE_FULL;
        arena_init(&a);
        run(&s, "ddp", &a, &ddp);
        for (int l = 1; l < N_LAYOUTS; l++) {
            s.layout = layouts[l];
            compare_with(&s, &ddp);
        }
        release(&ddp);
        arena_release(&a);
    }
}
END_TEST

START_TEST(preconditioned_optimizers_train_as_under_ddp)
{
    static const uint32_t worlds[] = {1, 2, 3, 4, 7, 8};
    static const enum optimizer optimizers[] = {OPTIMIZER_SHAMPOO, OPTIMIZER_SOAP};

    for (int k = 0; k < 2; k++)
        for (int w = 0; w < 6; w++) {
            struct setting s = small(w % 2 ? "gpt2" : "one-layer", "ddp", worlds[w]);
            struct outcome ddp;
            struct arena a;

            s.job.optimizer = optimizers[k];
            s.job.grad_dtype = w % 2 ? DTYPE_BF16 : DTYPE_FP32;
            arena_init(&a);
            run(&s, "ddp", &a, &ddp);
            for (int l = 1; l < N_LAYOUTS; l++) {
                s.layout = layouts[l];
                compare_with(&s, &ddp);
            }
            release(&ddp);
            arena_release(&a);
        }
}
END_TEST

START_TEST(recomputation_gives_the_bits_of_kept_activations)
{
    struct setting s = small("gpt2", "ddp", 2);
    struct outcome full, none;
    struct arena a;
    char text[256];

    arena_init(&a);
    run(&s, "ddp", &a, &full);
    s.job.recompute = RECOMPUTE_NONE;
    run(&s, "ddp", &a, &none);
    if (differs(&s, &none, &full, text, sizeof(text)))
        ck_abort_msg("%s", text);
    release(&full);
    release(&none);
    arena_release(&a);
}
END_TEST

START_TEST(training_lowers_the_loss)
{
    for (int m = 0; m < 3; m++) {
        struct setting s = small(m < 2 ? models[m] : "moe", "zero3+owner", 2);
        double first = 0, last = 0;
        struct outcome x;
        struct arena a;

        s.steps = MAX_STEPS;
        s.job.micro_batch = 4;
        s.lr = m ? 0.1 : 0.02;
        arena_init(&a);
        run(&s, s.layout, &a, &x);
        for (int i = 0; i < 3; i++) {
            first += x.loss[i] / 3;
            last += x.loss[MAX_STEPS - 1 - i] / 3;
        }
        ck_assert_msg(last < 0.98 * first, "%s: from %g to %g", s.model, first, last);
        release(&x);
        arena_release(&a);
    }
}
END_TEST

START_TEST(an_owner_that_skips_its_update_is_caught)
{
    struct setting s = small("llama", "zero3+owner", 3);
    struct outcome x, ddp;
    struct arena a;
    char text[256];

    s.skips = true;
    arena_init(&a);
    run(&s, "ddp", &a, &ddp);
    run(&s, s.layout, &a, &x);
    ck_assert_ptr_nonnull(differs(&s, &x, &ddp, text, sizeof(text)));
    release(&x);
    release(&ddp);
    arena_release(&a);
}
END_TEST

SUITE_MAIN("exec/run", every_layout_trains_as_ddp_does_to_the_last_bit,
           names_of_operations_steer_nothing, any_legal_order_of_the_streams_gives_the_same_bits,
           a_forgotten_wait_is_caught, every_gather_algorithm_brings_the_same_weights,
           bf16_storage_and_recomputation_change_nothing_between_layouts,
           small_buckets_and_micro_batches_change_nothing,
           micro_batches_reduced_one_by_one_train_as_ddp_that_does_so,
           the_order_of_micro_batches_and_ranks_shows_in_the_bits, experts_train_as_under_ddp,
           blocks_of_other_families_train_as_under_ddp,
           preconditioned_optimizers_train_as_under_ddp,
           recomputation_gives_the_bits_of_kept_activations, training_lowers_the_loss,
           an_owner_that_skips_its_update_is_caught, shard_groups_train_as_ddp_that_sums_in_them,
           units_that_stay_gathered_change_nothing, reductions_beside_nothing_change_nothing,
           gradients_reduced_in_the_last_micro_batch_train_as_ddp, sums_over_copies_are_waited_for,
           means_of_means_are_the_mean)
