/* Tensor parallelism under every layout: what its ranks exchange, by the counts of the papers (Shoeybi et al., arXiv 1909.08053,
 * figure 4; Korthikanti et al., arXiv 2205.05198, figure 5 and equation 4), and that a layout over the data ranks of a sliced model
 * is the layout of that model on as many ranks. */
#include "core/num.h"
#include "model/graph/graph.h"
#include "model/program/traffic.h"
#include "model/tensors/slice.h"
#include "tests/layouts/plans.h"

static struct arena a;
static struct err e;

enum { LAYERS = 4, HIDDEN = 64, SEQ = 32, MICRO = 2, VOCAB = 256 };
static const char block[] =
    "block:layers=4,hidden=64,ffn=256,heads=8,kv-heads=4,mlp=swiglu,vocab=256";

static struct job tensor_job(uint32_t tp, bool sp)
{
    struct job j = plans_job();

    j.tp = tp;
    j.sequence_parallel = sp;
    j.recompute = RECOMPUTE_NONE;
    return j;
}

/* Times that an operation runs in a step, over units, micro-batches and items: only those of loops over units are asked for. */
static uint64_t times(const struct program *p, const struct op *o)
{
    uint64_t n = 0;

    if (o->phase == PHASE_OPTIMIZER)
        return 1;
    for (uint32_t u = 0; u < p->model->n_units; u++)
        n += (o->guard.unit_class == PROGRAM_NONE ||
              p->model->units[u].class_id == o->guard.unit_class) &&
             (!o->guard.units || o->guard.units[u]);
    return n * p->n_micro;
}

struct counted {
    uint64_t calls[PHASE_N][COLL_N], elements[PHASE_N][COLL_N];
};

static void count(const struct program *p, struct counted *c)
{
    memset(c, 0, sizeof(*c));
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const struct op *o = &p->ops[i];
        uint64_t n;

        if (o->kind != OP_COLLECTIVE || o->coll.traffic != TRAFFIC_TENSOR)
            continue;
        ck_assert_str_eq(p->groups[o->coll.group].name, "tensor");
        ck_assert_uint_eq(p->groups[o->coll.group].stride[0], 1);
        n = times(p, o) * (o->coll.repeat ? o->coll.repeat : 1);
        c->calls[o->phase][o->coll.kind] += n;
        c->elements[o->phase][o->coll.kind] += n * o->coll.elements;
    }
}

static void lower(struct plan *plan, struct program *p, const struct job *j, const char *layout)
{
    plans_make(plan, &a, block, layout, j, 8, 8);
    plans_lower(plan, &a, p);
    MUST(!program_check(p, &e), "%s: %s", layout, e.msg);
}

/* What a step of the block exchanges. */
static struct counted counted(const struct job *j, const char *layout)
{
    struct counted c;
    struct program p;
    struct plan plan;

    arena_init(&a);
    lower(&plan, &p, j, layout);
    count(&p, &c);
    arena_release(&a);
    return c;
}

/* Figure 4: two all-reduces a layer in forward, two in backward, of the tokens' hidden vectors; one behind the embedding, one before
 * the head; three numbers a token for the loss. */
START_TEST(two_all_reduces_a_layer_and_pass)
{
    const uint64_t x = (uint64_t)MICRO * SEQ * HIDDEN, tokens = MICRO * SEQ;
    struct job j = tensor_job(2, false);
    struct counted c;

    j.grad_accum = 3;
    c = counted(&j, "zero1");
    ck_assert_uint_eq(c.elements[PHASE_FORWARD][COLL_ALL_REDUCE],
                      3 * ((2 * LAYERS + 1) * x + 3 * tokens));
    ck_assert_uint_eq(c.calls[PHASE_FORWARD][COLL_ALL_REDUCE], 3 * (2 * LAYERS + 1 + 3));
    ck_assert_uint_eq(c.elements[PHASE_BACKWARD][COLL_ALL_REDUCE], 3 * (2 * LAYERS + 1) * x);
    ck_assert_uint_eq(c.calls[PHASE_OPTIMIZER][COLL_ALL_REDUCE], 0); /* norms see every token */
    ck_assert_uint_eq(c.calls[PHASE_FORWARD][COLL_ALL_GATHER], 0);
}
END_TEST

/* Figure 5: an all-gather into and a reduce-scatter out of each half of a layer, their opposites in backward, where the gathered
 * input is gathered again for the weights' gradients. Norms' gradients are summed at the end: two a layer and the last. */
START_TEST(sequence_parallelism_gathers_and_scatters)
{
    const uint64_t x = (uint64_t)MICRO * SEQ * HIDDEN;
    struct job j = tensor_job(4, true);
    struct counted c;

    c = counted(&j, "zero1");
    ck_assert_uint_eq(c.elements[PHASE_FORWARD][COLL_ALL_GATHER], (2 * LAYERS + 1) * x);
    ck_assert_uint_eq(c.elements[PHASE_FORWARD][COLL_REDUCE_SCATTER], (2 * LAYERS + 1) * x);
    ck_assert_uint_eq(c.elements[PHASE_FORWARD][COLL_ALL_REDUCE], 3 * MICRO * SEQ);
    ck_assert_uint_eq(c.elements[PHASE_BACKWARD][COLL_REDUCE_SCATTER], (2 * LAYERS + 1) * x);
    ck_assert_uint_eq(c.elements[PHASE_BACKWARD][COLL_ALL_GATHER],
                      (2 * LAYERS + 1 /* embedding's output */ + 2 * LAYERS + 1 /* again */) * x);
    ck_assert_uint_eq(c.elements[PHASE_OPTIMIZER][COLL_ALL_REDUCE], (2 * LAYERS + 1) * HIDDEN);
}
END_TEST

/* Full recomputation repeats a layer's forward exchanges but the last, whose result backward does not read. */
START_TEST(recomputation_repeats_exchanges)
{
    const uint64_t x = (uint64_t)MICRO * SEQ * HIDDEN;
    struct job j = tensor_job(2, false);
    struct counted c;

    j.recompute = RECOMPUTE_FULL;
    c = counted(&j, "zero3");
    ck_assert_uint_eq(c.elements[PHASE_BACKWARD][COLL_ALL_REDUCE], (3 * LAYERS + 1) * x);
}
END_TEST

/* Equation 4 without its dropout masks and scores (fused attention has neither): 8 + 24/t bytes a token and hidden element are kept,
 * 32/t under sequence parallelism; beside them the sum of fused attention, one fp32 a token and head. */
START_TEST(kept_activations_by_the_paper)
{
    static const char gpt[] = "block:layers=1,hidden=64,ffn=256,heads=8,mlp=gelu,vocab=256";

    for (uint32_t tp = 1; tp <= 4; tp *= 2)
        for (int sp = 0; sp < 2; sp++) {
            const uint64_t sbh = (uint64_t)MICRO * SEQ * HIDDEN, sums = 4 * MICRO * SEQ * 8 / tp;
            struct graph_batch n = {
                .micro_batch = MICRO, .seq_len = SEQ, .tp = tp, .sequence_parallel = sp && tp > 1};
            struct model whole, part;
            static struct unit_graph g;
            uint64_t kept = 0;

            arena_init(&a);
            MUST(!model_load(gpt, 64, &a, &whole, &e), "%s", e.msg);
            MUST(!model_slice(&whole, tp, 1, &a, &part, &e), "%s", e.msg);
            for (uint32_t c = 0; c < part.n_classes; c++) {
                if (part.classes[c].kind != UNIT_LAYER)
                    continue;
                MUST(!graph_build(&part, c, &n, DTYPE_BF16, &g, &e), "%s", e.msg);
                for (uint32_t v = 0; v < g.n_values; v++)
                    if (g.values[v].needed && !g.values[v].again)
                        kept += g.values[v].bytes;
            }
            ck_assert_uint_eq(
                kept, sums + (n.sequence_parallel ? 32 * sbh / tp : 8 * sbh + 24 * sbh / tp));
            arena_release(&a);
        }
}
END_TEST

/* ---- composed with layouts ---- */

/* Bytes of what is not between tensor-parallel ranks, all ranks' together, by phase. */
static void data_bytes(struct program *p, uint64_t bytes[PHASE_N])
{
    struct traffic_bytes *rank = MEM_NEW(struct traffic_bytes, p->world);

    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].kind == OP_COLLECTIVE && p->ops[i].coll.traffic == TRAFFIC_TENSOR) {
            p->ops[i].kind = OP_MARK;
            p->ops[i].coll.group = PROGRAM_NONE;
        }
    for (uint32_t ph = 0; ph < PHASE_N; ph++) {
        traffic_step(p, 1u << ph, NULL, NULL, rank);
        bytes[ph] = 0;
        for (uint32_t r = 0; r < p->world; r++)
            bytes[ph] += rank[r].sent_intra + rank[r].sent_inter;
    }
    mem_free(rank);
}

/* Two ranks of every layer on 8 GPUs move between their data ranks twice what the sliced model moves on 4. */
START_TEST(layouts_see_an_ordinary_model)
{
    for (uint32_t l = 0; plans_name(l); l++) {
        uint64_t composed[PHASE_N], alone[PHASE_N];
        struct job j = tensor_job(2, false), one;
        struct program p, q;
        struct plan plan, sliced;

        arena_init(&a);
        plans_fit(&j, plans_name(l), 4, 8, l);
        one = j;
        one.tp = 1;
        lower(&plan, &p, &j, plans_name(l));
        memset(&sliced, 0, sizeof(sliced));
        sliced.model = plan.model;
        sliced.job = one;
        sliced.job.layout = plans_name(l);
        sliced.job.gpus = 4;
        sliced.job.nodes = 1;
        plans_ideal_cluster(&sliced.cluster, 4, 4);
        MUST(!layout_place(&sliced, &a, &e), "%s: %s", plans_name(l), e.msg);
        plans_owners(&sliced);
        plans_lower(&sliced, &a, &q);
        data_bytes(&p, composed);
        data_bytes(&q, alone);
        for (uint32_t ph = 0; ph < PHASE_N; ph++)
            MUST(composed[ph] == 2 * alone[ph], "%s, %s: %llu and twice %llu", plans_name(l),
                 phase_name((enum phase)ph), (unsigned long long)composed[ph],
                 (unsigned long long)alone[ph]);
        arena_release(&a);
    }
}
END_TEST

/* Data ranks of one layer's part are every tp-th: a planted group of neighbours would mix parts of different matrices. */
START_TEST(data_ranks_stand_apart)
{
    struct job j = tensor_job(4, true);
    struct program p;
    struct plan plan;
    bool seen = false;

    arena_init(&a);
    lower(&plan, &p, &j, "zero3");
    for (uint32_t i = 0; i < p.n_ops; i++) {
        const struct group *g;

        if (p.ops[i].kind != OP_COLLECTIVE || p.ops[i].coll.traffic == TRAFFIC_TENSOR)
            continue;
        g = &p.groups[p.ops[i].coll.group];
        ck_assert_uint_eq(g->n_members, 2);
        ck_assert_uint_eq(g->stride[0], 4);
        seen = true;
    }
    ck_assert(seen);
    arena_release(&a);
}
END_TEST

SUITE_MAIN("layouts/tensor", two_all_reduces_a_layer_and_pass,
           sequence_parallelism_gathers_and_scatters, recomputation_repeats_exchanges,
           kept_activations_by_the_paper, layouts_see_an_ordinary_model, data_ranks_stand_apart)
