/* mesh trains as ddp does that sums in its levels, to the last bit (tests/exec/runs.h): factors in a node, over nodes, gradients
 * inside a node and over nodes at once, copies, rows that no factor divides, one rank. */
#include "tests/exec/runs.h"

static const struct {
    uint32_t world; /* nodes of RUN_NODE, or one smaller node */
    const char *mesh;
} meshes[] = {{1, "p=1x1,g=1x1,os=1x1"}, {2, "p=1x1,g=1x1,os=2x1"}, {3, "p=3x1,g=3x1,os=3x1"},
              {3, "p=1x1,g=3x1,os=3x1"}, {4, "p=1x1,g=2x1,os=4x1"}, {4, "p=2x1,g=2x1,os=2x1"},
              {4, "p=1x1,g=1x1,os=1x1"}, {8, "p=4x1,g=4x1,os=4x2"}, {8, "p=2x1,g=4x1,os=4x2"},
              {8, "p=1x1,g=4x1,os=4x2"}, {8, "p=1x1,g=1x1,os=4x2"}, {8, "p=2x1,g=4x2,os=4x2"},
              {8, "p=2x1,g=2x2,os=4x2"}, {8, "p=1x2,g=2x2,os=4x2"}, {8, "p=1x1,g=1x2,os=2x2"},
              {8, "p=2x1,g=2x1,os=2x1"}, {8, "p=2x1,g=4x1,os=4x1"}, {8, "p=1x1,g=2x1,os=2x2"},
              {8, "p=4x2,g=4x2,os=4x2"}, {8, "p=1x1,g=1x1,os=2x1"}, {8, "p=4x1,g=4x1,os=4x1"},
              {8, "p=1x1,g=2x1,os=4x1"}, {8, "p=1x2,g=1x2,os=1x2"}, {8, "p=1x1,g=2x1,os=2x1"}};
enum { N_MESHES = sizeof(meshes) / sizeof(meshes[0]) };

static struct setting of(int k, const char *model)
{
    struct setting s = small(model, "mesh", meshes[k].world);

    s.job.mesh = meshes[k].mesh;
    s.steps = 2;
    s.job.bucket_bytes = 5000;
    return s;
}

/* Every mesh with every optimizer, one micro-batch and three, and gradients of both widths, of which each thirteenth is taken: all
 * take more than a minute. Other options come with some: reshard, refresh beside forward, reductions behind backward, no_sync. */
START_TEST(every_mesh_trains_as_ddp_that_sums_in_its_levels)
{
    static const char *const of_model[] = {"llama", "gpt2", "moe", "one-layer"};
    static const enum optimizer optimizers[] = {OPTIMIZER_ADAMW, OPTIMIZER_MUON, OPTIMIZER_SOAP,
                                                OPTIMIZER_SHAMPOO};

    for (int k = 0; k < N_MESHES; k++)
        for (int o = 0; o < 4; o++)
            for (int v = 0; v < 4; v++) {
                struct setting s = of(k, of_model[(k + o + v) % 4]);
                int other = (k + 3 * o + v) % 5;

                if ((k + 4 * o + v) % 13)
                    continue;
                s.job.optimizer = optimizers[o];
                s.job.grad_accum = v % 2 ? 3 : 1;
                s.job.grad_dtype = v / 2 ? DTYPE_BF16 : DTYPE_FP32;
                s.job.param_dtype = (k + o) % 2 ? DTYPE_BF16 : DTYPE_FP32;
                s.job.reshard_never = other == 1;
                s.job.overlap_refresh = other == 2;
                s.job.overlap_reduce = other == 3 ? OVERLAP_NO : OVERLAP_AUTO;
                s.job.sync_last = other == 4;
                compare(&s);
            }
}
END_TEST

/* Streams beside one another in any order that the waits allow. */
START_TEST(any_legal_order_gives_the_same_bits)
{
    for (int k = 7; k < N_MESHES; k += 4)
        for (uint64_t accum = 1; accum <= 3; accum += 2) {
            struct setting s = of(k, k % 3 ? "llama" : "gpt2");
            struct outcome ddp;
            struct arena a;

            arena_init(&a);
            s.job.grad_accum = accum;
            s.job.overlap_refresh = k % 4 == 1;
            run(&s, "ddp", &a, &ddp);
            for (s.shuffle = 100; s.shuffle <= 300; s.shuffle += 100)
                compare_with(&s, &ddp);
            release(&ddp);
            arena_release(&a);
        }
}
END_TEST

/* A level that does nothing, and operations that nobody waits for; a sum in place of a mean, states that are lost. Without the
 * fault the same settings hold. */
START_TEST(planted_faults_are_caught)
{
    static const struct {
        const char *left_out, *unwaited;
        enum run_fault fault;
    } faults[] = {{.left_out = "reduce"},
                  {.left_out = "reduce.states"},
                  {.left_out = "replicate"},
                  {.left_out = "refresh"},
                  {.unwaited = "reduce.states"},
                  {.unwaited = "optimizer.end"}, /* the refresh does */
                  {.fault = RUN_SUM},
                  {.fault = RUN_TWICE},
                  {.fault = RUN_LOSE},
                  {.fault = RUN_SKIP}};

    for (size_t f = 0; f < sizeof(faults) / sizeof(faults[0]); f++) {
        struct setting s = small("block", "mesh", 8);
        struct outcome x, ddp;
        struct arena a;
        char text[256];
        int found = 0;

        /* updates begin with the last unit to be summed, so that a wait that is not there shows */
        s.job.mesh = faults[f].unwaited ? "p=2x1,g=2x1,os=4x2" : "p=2x1,g=4x1,os=4x1";
        if (faults[f].left_out && !strcmp(faults[f].left_out, "reduce.states"))
            s.job.mesh = "p=2x1,g=2x1,os=4x1";
        s.job.grad_accum = 2;
        arena_init(&a);
        run(&s, "ddp", &a, &ddp);
        for (s.shuffle = 100; s.shuffle <= (faults[f].unwaited ? 400 : 100); s.shuffle += 100) {
            s.left_out = s.unwaited = NULL;
            s.fault = RUN_RIGHT;
            run(&s, s.layout, &a, &x);
            if (differs(&s, &x, &ddp, text, sizeof(text)))
                ck_abort_msg("%s", text);
            release(&x);
            s.left_out = faults[f].left_out;
            s.unwaited = faults[f].unwaited;
            s.fault = faults[f].fault;
            run(&s, s.layout, &a, &x);
            found += differs(&s, &x, &ddp, text, sizeof(text)) != NULL;
            release(&x);
        }
        MUST(found > 0, "fault %zu is not seen", f);
        release(&ddp);
        arena_release(&a);
    }
}
END_TEST

/* From outside: the mean over all ranks at once, as plain ddp has it, is the mean of the levels' means but for the last places.
 * Without a level training goes another way. */
START_TEST(means_of_levels_are_the_mean)
{
    struct setting s = small("llama", "mesh", 8);
    struct outcome x, apart, ddp;
    struct arena a;
    double near, far;

    arena_init(&a);
    s.job.mesh = "p=2x1,g=2x1,os=4x1";
    s.at_once = true;
    run(&s, "ddp", &a, &ddp);
    run(&s, s.layout, &a, &x);
    s.left_out = "reduce.states";
    run(&s, s.layout, &a, &apart);
    near = fabs(x.loss[STEPS - 1] - ddp.loss[STEPS - 1]) / ddp.loss[STEPS - 1];
    far = fabs(apart.loss[STEPS - 1] - ddp.loss[STEPS - 1]) / ddp.loss[STEPS - 1];
    ck_assert_msg(near < 1e-5, "%g", near);
    ck_assert_msg(far > 1e-3, "one level left out: %g", far);
    release(&x);
    release(&apart);
    release(&ddp);
    arena_release(&a);
}
END_TEST

SUITE_MAIN("exec/run_mesh", every_mesh_trains_as_ddp_that_sums_in_its_levels,
           any_legal_order_gives_the_same_bits, planted_faults_are_caught,
           means_of_levels_are_the_mean)
