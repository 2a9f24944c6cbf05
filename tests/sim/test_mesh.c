/* mesh in the simulator: with the factors of another layout it takes what that layout takes, and nothing grows with the number of
 * ranks. */
#include "tests/layouts/plans.h"
#include "sim/sim.h"

static struct arena a;
static struct plan plan;
static struct program prog;
static struct prediction pr;
static struct err e;

/* On bundled nodes of eight. */
static void make(const char *model, const char *layout, const char *mesh, const struct job *j,
                 uint32_t world, const char *cluster)
{
    struct job x = *j;

    x.mesh = mesh;
    arena_init(&a);
    plans_make(&plan, &a, model, layout, &x, world, 8);
    MUST(!cluster_load(cluster, &a, &plan.cluster, &e) &&
             !cluster_resize(&plan.cluster, (world + 7) / 8, &e),
         "%s", e.msg);
    plans_lower(&plan, &a, &prog);
}

static void predict(bool unfold)
{
    const struct sim_options o = {.unfold = unfold};

    MUST(sim_predict(&prog, &plan.cluster, &o, &a, &pr, &e) == 0, "%s", e.msg);
}

/* In time, in every part of memory, and in bytes. */
static bool same(const struct prediction *x, const struct prediction *y)
{
    return x->step_ps == y->step_ps && x->forward_ps == y->forward_ps &&
           x->backward_ps == y->backward_ps && x->optimizer_ps == y->optimizer_ps &&
           !memcmp(x->time_ps, y->time_ps, sizeof(x->time_ps)) &&
           !memcmp(x->path_ps, y->path_ps, sizeof(x->path_ps)) &&
           x->optimizer_bytes == y->optimizer_bytes &&
           !memcmp(&x->bytes_max, &y->bytes_max, sizeof(x->bytes_max)) &&
           x->memory.peak_bytes == y->memory.peak_bytes &&
           x->memory.min_peak_bytes == y->memory.min_peak_bytes &&
           !memcmp(x->memory.parts, y->memory.parts, sizeof(x->memory.parts));
}

START_TEST(factors_of_zero3_and_hsdp_take_what_these_take)
{
    static const struct {
        const char *layout, *mesh, *off; /* off: another mesh, which is not the layout */
        uint32_t group;
    } rows[] = {{"zero3+gather", "p=8x2,g=8x2,os=8x2", "p=8x1,g=8x2,os=8x2", 0},
                {"hsdp+gather", "p=8x1,g=8x1,os=8x1", "p=8x1,g=8x1,os=8x2", 8},
                {"hsdp+gather", "p=4x1,g=4x1,os=4x1", "p=4x1,g=8x1,os=8x1", 4},
                {"hsdp+gather", "p=2x1,g=2x1,os=2x1", "p=1x1,g=2x1,os=2x1", 2},
                {"hsdp+gather", "p=1x1,g=1x1,os=1x1", "p=1x1,g=1x1,os=1x2", 1}};
    static const enum optimizer optimizers[] = {OPTIMIZER_MUON, OPTIMIZER_ADAMW, OPTIMIZER_SOAP};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (int v = 0; v < 6; v++) {
            struct job j = plans_job();
            struct prediction want;
            const char *model = v % 2 ? "llama" : "moe";

            j.optimizer = optimizers[v % 3];
            j.grad_accum = v / 3 ? 3 : 1;
            j.sync_last = v == 5;
            j.reshard_never = v == 4;
            j.shard_group = rows[i].group;
            make(model, rows[i].layout, NULL, &j, 16, "dgx-a100");
            predict(false);
            want = pr;
            arena_release(&a);
            j.shard_group = 0;
            make(model, "mesh", rows[i].mesh, &j, 16, "dgx-a100");
            predict(false);
            MUST(same(&pr, &want), "%s is not %s: %lld and %lld ps", rows[i].mesh, rows[i].layout,
                 (long long)pr.step_ps, (long long)want.step_ps);
            arena_release(&a);
            make(model, "mesh", rows[i].off, &j, 16, "dgx-a100");
            predict(false);
            MUST(!same(&pr, &want), "%s is %s too", rows[i].off, rows[i].layout);
            arena_release(&a);
        }
}
END_TEST

/* zero1 and zero2 cut flat slices, and send buckets; where rows are shared out without padding what a rank holds is the same. Owners'
 * chunks are rows, of AdamW: the gradients move as one reduction a unit, and as many bytes. */
START_TEST(factors_of_zero1_and_zero2_hold_what_these_hold)
{
    static const char *const rows[][2] = {{"zero1", "p=1x1,g=1x1,os=8x2"},
                                          {"zero2", "p=1x1,g=8x2,os=8x2"}};

    for (int i = 0; i < 2; i++)
        for (uint64_t accum = 1; accum <= 3; accum += 2) {
            struct job j = plans_job();
            struct prediction want;

            j.optimizer = OPTIMIZER_ADAMW;
            j.grad_accum = accum;
            make("block:layers=2,hidden=64,ffn=256,heads=4", rows[i][0], NULL, &j, 16, "dgx-a100");
            predict(false);
            want = pr;
            arena_release(&a);
            make("block:layers=2,hidden=64,ffn=256,heads=4", "mesh", rows[i][1], &j, 16,
                 "dgx-a100");
            predict(false);
            for (int k = 0; k < MEM_PART_N; k++)
                if (k == MEM_PARAMS || k == MEM_STATES || k == MEM_MASTER)
                    ck_assert_uint_eq(pr.memory.parts[k], want.memory.parts[k]);
            ck_assert_uint_eq(pr.bytes_max.sent_intra + pr.bytes_max.sent_inter,
                              want.bytes_max.sent_intra + want.bytes_max.sent_inter);
            arena_release(&a);
        }
}
END_TEST

static void fold_and_unfold(const char *model, const char *layout, const char *mesh,
                            const struct job *j, uint32_t world, const char *cluster)
{
    struct prediction folded;

    make(model, layout, mesh, j, world, cluster);
    predict(false);
    folded = pr;
    predict(true);
    MUST(same(&pr, &folded) && folded.n_classes <= pr.n_classes && pr.n_classes == world,
         "%s, %s, %u ranks: %lld folded, %lld unfolded", layout, plan.job.mesh, world,
         (long long)folded.step_ps, (long long)pr.step_ps);
    arena_release(&a);
}

START_TEST(folded_equals_unfolded)
{
    static const uint32_t worlds[] = {1, 2, 3, 4, 6, 8, 16, 24, 32, 48, 64};
    static const char *const clusters[] = {"dgx-a100", "aws-p4d"};

    for (uint32_t w = 0; w < 11; w++)
        for (uint32_t seed = 0; seed < 12; seed++) {
            struct job j = plans_job();

            plans_fit(&j, "mesh", worlds[w], 8, seed);
            j.grad_accum = 1 + (w + seed) % 2;
            j.optimizer = seed % 3 ? OPTIMIZER_MUON : OPTIMIZER_ADAMW;
            fold_and_unfold(seed % 2 ? "moe" : "llama", "mesh", j.mesh, &j, worlds[w],
                            clusters[w % 2]);
        }
}
END_TEST

/* Two pods of 20 nodes: groups over nodes cross a leaf, some within one. */
START_TEST(folded_equals_unfolded_over_leaves)
{
    static const char *const of[] = {"p=8x1,g=8x1,os=8x40", "p=4x1,g=8x2,os=8x10",
                                     "p=1x1,g=2x4,os=4x20", "p=2x5,g=2x10,os=8x20",
                                     "p=8x4,g=8x4,os=8x8"};
    struct job j = plans_job();

    for (int i = 0; i < 5; i++)
        fold_and_unfold("one-layer", "mesh", of[i], &j, 320, "dgx-a100");
}
END_TEST

/* The list of one class of ranks stands for all however many there are: what is walked and timed does not grow. */
START_TEST(classes_do_not_grow_with_ranks)
{
    static const uint32_t nodes[] = {32, 256, 2048};
    struct job j = plans_job();
    uint32_t classes = 0;

    for (int i = 0; i < 3; i++) {
        char mesh[64];

        snprintf(mesh, sizeof(mesh), "p=4x1,g=8x2,os=8x%u", nodes[i] / 2);
        make("block:layers=2,hidden=65536,ffn=65536,heads=64", "mesh", mesh, &j, 8 * nodes[i],
             "dgx-a100");
        predict(false);
        MUST(!i || pr.n_classes == classes, "%u classes of %u nodes, %u of more", classes,
             nodes[i - 1], pr.n_classes);
        classes = pr.n_classes;
        ck_assert_uint_le(classes, 8);
        arena_release(&a);
    }
}
END_TEST

SUITE_MAIN("sim/mesh", factors_of_zero3_and_hsdp_take_what_these_take,
           factors_of_zero1_and_zero2_hold_what_these_hold, folded_equals_unfolded,
           folded_equals_unfolded_over_leaves, classes_do_not_grow_with_ranks)
