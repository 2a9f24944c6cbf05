/* What an all-reduce between copies takes: strided groups of all places at once, against single collectives of listed ranks
 * that run together and against hand counts; and whole steps of hsdp and mics. */
#include "sim/call.h"
#include "sim/sim.h"
#include "tests/layouts/plans.h"

#include <math.h>

static struct arena a;
static struct plan plan;
static struct program prog;
static struct prediction pr;
static struct err e;

static void make(const char *model, const char *layout, const struct job *j, uint32_t world,
                 uint32_t gpn)
{
    arena_init(&a);
    plans_make(&plan, &a, model, layout, j, world, gpn);
    plans_lower(&plan, &a, &prog);
}

static void predict(bool unfold)
{
    const struct sim_options o = {.unfold = unfold};

    MUST(sim_predict(&prog, &plan.cluster, &o, &a, &pr, &e) == 0, "%s", e.msg);
}

/* ---- one all-reduce ---- */

/* All groups of ranks that are `stride` apart, at once: one operation of a step program. */
static int64_t family_ps(const struct cluster *c, uint32_t world, uint32_t stride, uint64_t bytes)
{
    struct group g = {.name = "replicas",
                      .n_axes = 1,
                      .size = {world / stride},
                      .stride = {stride},
                      .n_members = world / stride};
    struct op o = {.name = "replicate",
                   .kind = OP_COLLECTIVE,
                   .loop = PROGRAM_NONE,
                   .coll = {.kind = COLL_ALL_REDUCE,
                            .elements = bytes / 2,
                            .table = PROGRAM_NONE,
                            .wire = {.dtype = DTYPE_BF16}}};
    struct program p = {.world = world,
                        .gpus_per_node = cluster_domain_gpus(c),
                        .n_micro = 1,
                        .groups = &g,
                        .n_groups = 1,
                        .ops = &o,
                        .n_ops = 1};
    const struct instance at = {.op = 0};

    return sim_collective_ps(&p, c, &o, &at, ALGO_RING);
}

/* The same as calls of listed ranks, `together` of them: all started at once, the last one's end. */
static int64_t listed_ps(const struct cluster *c, uint32_t world, uint32_t stride,
                         uint32_t together, uint64_t bytes, enum nccl_algo *algo)
{
    struct call *calls = ARENA_NEW(&a, struct call, together);
    struct call_time *t = ARENA_NEW(&a, struct call_time, together);
    int64_t end = 0;

    for (uint32_t k = 0; k < together; k++) {
        uint32_t *ranks = ARENA_NEW(&a, uint32_t, world / stride);

        for (uint32_t i = 0; i < world / stride; i++)
            ranks[i] = k + i * stride;
        calls[k] = (struct call){
            .kind = COLL_ALL_REDUCE, .n_ranks = world / stride, .ranks = ranks, .n_bytes = bytes};
    }
    MUST(call_times(c, calls, together, t, &e) == 0, "%s", e.msg);
    for (uint32_t k = 0; k < together; k++)
        end = t[k].end_ps > end ? t[k].end_ps : end;
    *algo = t[0].nccl.algo;
    return end;
}

/* Tree and Ring, inside nodes and between them, a NIC for each GPU and one for two of them: the groups of all places end when
 * as many listed ones do. Where each has NICs of its own that is when one alone does. */
START_TEST(all_places_at_once_take_what_listed_groups_take_together)
{
    static const char *const names[] = {"dgx-a100", "aws-p4d", "dgx-h100", "nd-a100-v4"};
    uint32_t trees = 0, rings = 0;

    for (int n = 0; n < 4; n++)
        for (uint32_t stride = 2; stride <= 16; stride *= 2)
            for (int b = 14; b <= 30; b += 2) {
                uint64_t bytes = UINT64_C(1) << b;
                int64_t family, together, one;
                struct cluster c;
                enum nccl_algo algo;

                arena_init(&a);
                if (cluster_load(names[n], &a, &c, &e) || cluster_resize(&c, 8, &e))
                    ck_abort_msg("%s", e.msg);
                family = family_ps(&c, 64, stride, bytes);
                together = listed_ps(&c, 64, stride, stride, bytes, &algo);
                one = listed_ps(&c, 64, stride, 1, bytes, &algo);
                MUST(llabs(family - together) <= 2, "%s, stride %u, 2^%d: %lld ps, listed %lld",
                     names[n], stride, b, (long long)family, (long long)together);
                if (c.nics_per_node == 8)
                    MUST(llabs(family - one) <= 2, "%s, stride %u, 2^%d: %lld ps, one %lld",
                         names[n], stride, b, (long long)family, (long long)one);
                trees += algo == NCCL_TREE;
                rings += algo == NCCL_RING;
                arena_release(&a);
            }
    ck_assert_uint_gt(trees, 10);
    ck_assert_uint_gt(rings, 10);
}
END_TEST

/* Nothing but rates (plans.h): 4 nodes of 8, NICs of 10 GB/s. A shard's ring of 4, one GPU a node: 2 * 3/4 of 80 MB over its
 * NIC, 12 ms; with one NIC for two GPUs twice that; ranks 4 apart, two a node: half as much over each NIC, of 2 * 7/8. */
START_TEST(a_strided_all_reduce_by_hand)
{
    struct cluster c;

    plans_ideal_cluster(&c, 8, 32);
    ck_assert_int_eq(family_ps(&c, 32, 8, 80000000) / 1000, 12000000);
    ck_assert_int_eq(family_ps(&c, 32, 4, 80000000) / 1000, 7000000);
    c.nics_per_node = 4;
    for (uint32_t i = 0; i < 8; i++)
        c.nic_of_gpu[i] = (uint8_t)(i / 2);
    ck_assert_int_eq(family_ps(&c, 32, 8, 80000000) / 1000, 24000000);
}
END_TEST

/* ---- whole steps ---- */

static void bundled(const char *name, uint32_t world)
{
    if (cluster_load(name, &a, &plan.cluster, &e) ||
        cluster_resize(&plan.cluster, (world + 7) / 8, &e))
        ck_abort_msg("%s", e.msg);
}

START_TEST(one_group_of_all_ranks_takes_what_zero3_takes)
{
    for (uint32_t l = 0; plans_grouped(l); l++) {
        char name[32];
        struct prediction zero3;
        struct job j = plans_job();

        j.grad_accum = 2;
        snprintf(name, sizeof(name), "zero3%s", strchr(plans_grouped(l), '+'));
        make("llama", name, &j, 16, 8);
        bundled("dgx-a100", 16);
        predict(false);
        zero3 = pr;
        arena_release(&a);
        j.shard_group = 16;
        make("llama", plans_grouped(l), &j, 16, 8);
        bundled("dgx-a100", 16);
        predict(false);
        ck_assert_int_eq(pr.step_ps, zero3.step_ps);
        ck_assert_int_eq(pr.optimizer_ps, zero3.optimizer_ps);
        ck_assert_uint_eq(pr.memory.peak_bytes, zero3.memory.peak_bytes);
        ck_assert_uint_eq(pr.bytes_max.sent_inter, zero3.bytes_max.sent_inter);
        arena_release(&a);
    }
}
END_TEST

/* Parameters, gradients and states of ddp; the peak differs by nothing, since nothing is gathered. */
START_TEST(groups_of_one_hold_what_ddp_holds)
{
    struct prediction ddp;
    struct job j = plans_job();

    make("llama", "ddp", &j, 16, 8);
    predict(false);
    ddp = pr;
    arena_release(&a);
    j.shard_group = 1;
    make("llama", "hsdp+gather", &j, 16, 8);
    predict(false);
    ck_assert_uint_eq(pr.memory.parts[MEM_PARAMS], ddp.memory.parts[MEM_PARAMS]);
    ck_assert_uint_eq(pr.memory.parts[MEM_PARAMS], 2 * plan.model.total_params);
    ck_assert_uint_eq(pr.memory.peak_bytes, ddp.memory.peak_bytes);
    arena_release(&a);
}
END_TEST

static void fold_and_unfold(const char *model, const char *layout, const struct job *j,
                            uint32_t world, const char *cluster)
{
    struct prediction folded;

    make(model, layout, j, world, 8);
    bundled(cluster, world);
    predict(false);
    folded = pr;
    predict(true);
    MUST(pr.step_ps == folded.step_ps && pr.backward_ps == folded.backward_ps &&
             pr.optimizer_bytes == folded.optimizer_bytes &&
             !memcmp(&pr.bytes_max, &folded.bytes_max, sizeof(pr.bytes_max)) &&
             pr.memory.peak_bytes == folded.memory.peak_bytes &&
             pr.memory.min_peak_bytes == folded.memory.min_peak_bytes,
         "%s, %u of %u: %lld folded, %lld unfolded", layout, j->shard_group, world,
         (long long)folded.step_ps, (long long)pr.step_ps);
    arena_release(&a);
}

/* Two pods of 20 nodes: the copies' rings cross a leaf. Folded, one node's links are written down. */
START_TEST(folded_equals_unfolded_over_leaves)
{
    static const uint32_t groups[] = {1, 4, 8, 16};
    struct job j = plans_job();

    for (int g = 0; g < 4; g++) {
        j.shard_group = groups[g];
        j.gather = (enum coll_algo)(g % ALGO_N);
        fold_and_unfold("one-layer", "hsdp+owner", &j, 320, "dgx-a100");
    }
}
END_TEST

START_TEST(folded_equals_unfolded)
{
    for (uint32_t l = 0; plans_grouped(l); l++)
        for (int w = 0; w < PLANS_N_GROUP_WORLDS; w++) {
            struct job j = plans_job();

            j.shard_group = plans_group_worlds[w][1];
            j.grad_accum = 1 + (uint64_t)w % 2;
            fold_and_unfold(w % 2 ? "moe" : "llama", plans_grouped(l), &j, plans_group_worlds[w][0],
                            "aws-p4d");
        }
}
END_TEST

static uint32_t instances_of(const char *name, int64_t *first_ps, int64_t *last_ps)
{
    uint32_t n = 0;

    for (size_t i = 0; i < pr.n_instances; i++) {
        const struct sim_instance *x = &pr.instances[i];

        if (strcmp(prog.ops[x->id.op].name, name))
            continue;
        if (!n++)
            *first_ps = x->start_ps;
        *last_ps = x->end_ps;
    }
    return n;
}

/* Four micro-batches: one all-reduce a unit. It runs beside the backward of the units before and ends before the optimizer
 * begins. In mics's queue the next reduction waits for it, so that a step takes at least as long. */
START_TEST(copies_are_summed_once_a_step_beside_backward)
{
    const struct sim_options o = {.keep_trace = true};
    int64_t first = 0, last = 0, hsdp, from = 0, to = 0;
    struct job j = plans_job();

    j.shard_group = 4;
    j.grad_accum = 4;
    make("llama", "hsdp+gather", &j, 16, 4);
    bundled("dgx-a100", 32);
    MUST(sim_predict(&prog, &plan.cluster, &o, &a, &pr, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(instances_of("replicate", &first, &last), plan.model.n_units);
    ck_assert_uint_eq(instances_of("reduce", &from, &to), 4 * plan.model.n_units);
    ck_assert_int_lt(first, to);                            /* the first beside a later one */
    ck_assert_int_ge(pr.forward_ps + pr.backward_ps, last); /* backward ends with the last */
    hsdp = pr.step_ps;
    arena_release(&a);
    make("llama", "mics+gather", &j, 16, 4);
    bundled("dgx-a100", 32);
    predict(false);
    ck_assert_int_ge(pr.step_ps, hsdp);
    arena_release(&a);
}
END_TEST

/* Copies repeat the optimizer's work, they do not share it: a group's kernels take the same time however many groups there are. */
START_TEST(more_copies_take_nothing_from_the_optimizer)
{
    static const char *const layouts[] = {"hsdp+stock", "hsdp+gather", "hsdp+gather-once",
                                          "hsdp+owner", "hsdp+alltoall"};

    for (int l = 0; l < 5; l++) {
        struct job j = plans_job();
        int64_t one;

        j.shard_group = 4;
        make("llama", layouts[l], &j, 4, 8);
        predict(false);
        one = pr.time_ps[TIME_OPTIMIZER];
        arena_release(&a);
        make("llama", layouts[l], &j, 16, 8);
        predict(false);
        ck_assert_int_eq(pr.time_ps[TIME_OPTIMIZER], one);
        arena_release(&a);
    }
}
END_TEST

SUITE_MAIN("sim/hsdp", all_places_at_once_take_what_listed_groups_take_together,
           a_strided_all_reduce_by_hand, one_group_of_all_ranks_takes_what_zero3_takes,
           groups_of_one_hold_what_ddp_holds, folded_equals_unfolded,
           folded_equals_unfolded_over_leaves, copies_are_summed_once_a_step_beside_backward,
           more_copies_take_nothing_from_the_optimizer)
