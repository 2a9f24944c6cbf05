/* Times worked out by hand, on a device and links without surprises (tests/layouts/plans.h). */
#include "tests/sim/predictions.h"

/* ---- toy steps by hand ---- */

static struct unit toy_units[2];
static struct unit_class toy_class = {.kind = UNIT_LAYER, .name = "layer"};
static struct model toy_model = {
    .name = "toy", .units = toy_units, .classes = &toy_class, .n_units = 2, .n_classes = 1};

/* Forward of two units on two ranks: gather 8000 bytes (4000 from each side at 100 GB/s: 40 ns), then a GEMM of a tile an SM
 * whose k says how many times 10 ns it takes. `prefetch` units are gathered ahead. */
static uint32_t toy_collective_sms;

static void toy(uint32_t k, int32_t prefetch)
{
    struct program_builder b;
    uint32_t world, gather, begin, end;
    struct op o = {.guard = {.unit_class = PROGRAM_NONE}, .phase = PHASE_FORWARD};

    arena_init(&a);
    memset(&plan, 0, sizeof(plan));
    memset(&prog, 0, sizeof(prog));
    plans_ideal_cluster(&plan.cluster, 8, 2);
    plan.cluster.device.peak_flops = 2.62144e13; /* four SMs, 4 * 2*256*128*k FLOP: k * 10 ns */
    plan.cluster.device.n_sm = 4;
    plan.cluster.device.collective_sms = toy_collective_sms;
    plan.cluster.device.hbm_Bps = 1e18;
    plan.world = prog.world = prog.distinct = 2;
    prog.model = &toy_model;
    prog.gpus_per_node = 8;
    prog.n_micro = 1;
    program_builder_init(&b, &prog, &a);
    world = program_add_group(
        &b,
        &(struct group){.name = "world", .n_axes = 1, .size = {2}, .stride = {1}, .n_members = 2});
    program_open_loop(&b, &(struct loop){.kind = LOOP_UNIT, .end = 2});
    o.name = "gather";
    o.kind = OP_COLLECTIVE;
    o.stream = STREAM_GATHER;
    o.coll = (struct collective){.kind = COLL_ALL_GATHER,
                                 .group = world,
                                 .elements = 4000,
                                 .wire = {.dtype = DTYPE_BF16},
                                 .table = PROGRAM_NONE,
                                 .peer_op = PROGRAM_NONE};
    gather = program_add_op(&b, &o);
    o.name = "begin";
    o.kind = OP_MARK;
    o.stream = STREAM_COMPUTE;
    begin = program_add_op(&b, &o);
    program_op_wait(&b, begin, (struct wait){.op = gather});
    o.name = "gemm";
    o.kind = OP_COMPUTE;
    o.call = (struct kernel_call){
        .kernel = KERNEL_GEMM, .m = 256, .n = 128, .k = k, .batch = 4, .launches = 1};
    program_add_op(&b, &o);
    o.name = "end";
    o.kind = OP_MARK;
    end = program_add_op(&b, &o);
    program_op_wait(&b, gather, (struct wait){.op = end, .d_unit = -1 - prefetch});
    program_close_loop(&b);
    prog.roles = ARENA_NEW(&a, struct role, 1);
    prog.roles[0] =
        (struct role){.name = "rank", .n_ranks = 2, .rank_stride = 1, .n_ops = prog.n_ops};
    prog.n_roles = 1;
    ck_assert_msg(program_builder_finish(&b, &e) == 0, "%s", e.msg);
    predict(false);
    arena_release(&a);
}

/* G = 40 ns. Compute-bound, C = 100 ns: without prefetch G C G C = 280; with it the second G hides: G C C = 240.
 * Gather-bound, C = 10 ns: G C G C = 100; G G C = 90. */
START_TEST(a_toy_step_takes_what_a_hand_calculation_says)
{
    toy(10, 0);
    ck_assert_int_eq(pr.step_ps, 280000);
    ck_assert_int_eq(pr.compute_ps, 200000);
    ck_assert_int_eq(pr.path_ps[TIME_GATHER], 80000);
    /* nothing but the link takes time in the toy's gathers */
    ck_assert_int_eq(pr.wait_ps[TIME_GATHER][RESOURCE_NVLINK_TX], 80000);
    ck_assert_int_eq(pr.fan_out_ps[TIME_GATHER], 0);
    toy(10, 1);
    ck_assert_int_eq(pr.step_ps, 240000);
    ck_assert_int_eq(pr.exposed_comm_ps, 40000);
    ck_assert_int_eq(pr.path_ps[TIME_GEMM], 200000);
    toy(1, 0);
    ck_assert_int_eq(pr.step_ps, 100000);
    toy(1, 1);
    ck_assert_int_eq(pr.step_ps, 90000);
    ck_assert_int_eq(pr.path_ps[TIME_GATHER], 80000);
    ck_assert_int_eq(pr.path_ps[TIME_GEMM], 10000);
}
END_TEST

/* As above with prefetch, and a gather takes one of four SMs: beside the second one, 40 ns, the first GEMM gets 30 ns done. It ends
 * 70 ns later: G 40, 110, C 100. The gather takes its 40 ns all the same. */
START_TEST(a_gather_takes_sms_from_the_kernel_beside_it)
{
    toy_collective_sms = 1;
    toy(10, 1);
    ck_assert_int_eq(pr.step_ps, 250000);
    ck_assert_int_eq(pr.compute_ps, 210000);
    ck_assert_int_eq(pr.exposed_comm_ps, 40000);
    ck_assert_int_eq(pr.busy_ps[TIME_GATHER], 80000);
    toy(10, 0); /* nothing runs beside anything */
    ck_assert_int_eq(pr.step_ps, 280000);
    toy_collective_sms = 0;
}
END_TEST

/* A lowered step where kernels take no time: zero3 with AdamW, two layers on two ranks, R = bytes of a unit / 2 ranks /
 * rate. Forward: two gathers, 2R. Backward: unit 1 is still there; its reduction and the gather of unit 0 share both
 * ports and end together at 4R; then the reduction of unit 0, alone, 5R. The step itself moves nothing. */
START_TEST(a_lowered_step_without_compute_is_its_traffic)
{
    struct job j = plans_job();
    int64_t r;

    j.optimizer = OPTIMIZER_ADAMW;
    make("block:layers=2,hidden=64,ffn=256,heads=4", "zero3", &j, 2, 8);
    plan.cluster.device.peak_flops = plan.cluster.device.attention_flops = 1e30;
    plan.cluster.device.hbm_Bps = 1e30;
    /* a layer: 4 of 64x64, up0, up1 64x128, down 64x256, 4 vectors of 64: 49,408 elements, 98,816 bytes, all even */
    ck_assert_uint_eq(plan.model.units[0].numel, 49408);
    r = 49408 * 10; /* ps: half of the bytes at 100 GB/s */
    predict(false);
    ck_assert_int_eq(pr.forward_ps, 2 * r);
    ck_assert_int_eq(pr.backward_ps, 3 * r);
    ck_assert_int_eq(pr.step_ps, 5 * r);
    arena_release(&a);
    j.grad_accum =
        2; /* its first gather shares the port with the last reduction: always busy, 10R */
    make("block:layers=2,hidden=64,ffn=256,heads=4", "zero3", &j, 2, 8);
    plan.cluster.device.peak_flops = plan.cluster.device.attention_flops = 1e30;
    plan.cluster.device.hbm_Bps = 1e30;
    predict(false);
    ck_assert_int_eq(pr.step_ps, 10 * r);
    arena_release(&a);
}
END_TEST

/* All-to-all on two ranks at 100 GB/s, layers of 64: eight [64,64], four [128,64], two [64,256] in bf16, two at a time in the order
 * sq sq up down sq sq up; half of a matrix travels: 40,960, 81,920 and 163,840 ps there, and as much back. Where products take no
 * time both ports are busy all along: twice 4 sq + 2 up + 1 down. Where they take longer than what travels beside them, a
 * rank's are half of what one rank alone has, after the first batch has come and before the last is back. */
START_TEST(all_to_all_hides_behind_the_products)
{
    static const char text[] = "block:layers=2,hidden=64,ffn=256,heads=4";
    struct job j = plans_job();
    int64_t alone;

    for (int slow = 0; slow < 2; slow++) {
        for (uint32_t world = 1; world <= 2; world++) {
            make(text, world == 1 ? "ddp" : "zero3+alltoall", &j, world, 8);
            plan.cluster.device.peak_flops = slow ? 1e13 : 1e30;
            plan.cluster.device.hbm_Bps = 1e30;
            predict(false);
            if (world == 1)
                alone = pr.optimizer_ps;
            else if (slow)
                ck_assert_int_eq(pr.optimizer_ps, alone / 2 + 40960 + 81920);
            else
                ck_assert_int_eq(pr.optimizer_ps, 2 * (4 * 40960 + 2 * 81920 + 163840));
            arena_release(&a);
        }
        ck_assert_int_eq(alone > 0, slow);
    }
}
END_TEST

/* Its flops are the rank's own work already: a batch must not divide them again. */
START_TEST(a_preconditioned_update_takes_its_own_flops)
{
    static const enum kernel kernels[] = {KERNEL_SHAMPOO, KERNEL_SOAP};
    struct kernel_call k = {.m = 8, .n = 8, .batch = 1, .flops = 1000000000, .launches = 1};

    plans_ideal_cluster(&plan.cluster, 8, 8);
    for (int i = 0; i < 2; i++) {
        struct kernel_time one, eight;

        k.kernel = kernels[i];
        k.batch = 1;
        one = sim_kernel_time(&plan.cluster.device, NULL, &k);
        k.batch = 8;
        eight = sim_kernel_time(&plan.cluster.device, NULL, &k);
        ck_assert_int_eq(one.alone_ps, eight.alone_ps);
        /* 1e9 FLOPs at 5e13/s are 20 us, 48 * 64 bytes at 1e12/s 3 ns */
        ck_assert_int_eq(one.alone_ps, 20003072);
    }
}
END_TEST

/* TF32 has half of bf16's rate, and its elements twice the bytes: twice the time, whatever binds. fp16 is bf16. */
START_TEST(fp32_takes_twice_the_time_of_bf16)
{
    static const enum kernel kernels[] = {KERNEL_GEMM, KERNEL_GEMM_DGRAD, KERNEL_GEMM_WGRAD,
                                          KERNEL_ATTENTION};
    struct job j = plans_job();
    struct prediction half;

    plans_ideal_cluster(&plan.cluster, 8, 8);
    for (int i = 0; i < 4; i++) {
        struct kernel_call k = {.kernel = kernels[i],
                                .m = 256,
                                .n = 128,
                                .k = 1000000,
                                .batch = 1,
                                .flops = UINT64_C(65536000000),
                                .launches = 1};
        struct kernel_time t16 = sim_kernel_time(&plan.cluster.device, NULL, &k), t32;

        k.fp32 = true;
        t32 = sim_kernel_time(&plan.cluster.device, NULL, &k);
        MUST(llabs(t32.alone_ps - 2 * t16.alone_ps) <= 1, "kernel %d: %lld and %lld", i,
             (long long)t16.alone_ps, (long long)t32.alone_ps);
    }
    j.master_weights = false;
    make("block", "ddp", &j, 1, 8);
    predict(false);
    half = pr;
    arena_release(&a);
    j.param_dtype = DTYPE_FP32;
    make("block", "ddp", &j, 1, 8);
    predict(false);
    MUST(pr.forward_ps > 2 * half.forward_ps * 95 / 100 &&
             pr.forward_ps < 2 * half.forward_ps * 105 / 100,
         "forward %lld and %lld", (long long)half.forward_ps, (long long)pr.forward_ps);
    arena_release(&a);
    j.param_dtype = DTYPE_FP16;
    make("block", "ddp", &j, 1, 8);
    predict(false);
    ck_assert_int_eq(pr.step_ps, half.step_ps);
    arena_release(&a);
}
END_TEST

/* 3e6 bytes: 3 us at the common 1 TB/s, 12 us at the kernel's own 250 GB/s. Attention of 1e9 FLOPs: 10 us at the common
 * 100 TFLOP/s, 20 us backward at 50, 40 us of fp32. Others stay as they are; products have no other rate than their tiles. */
START_TEST(a_kernel_with_a_rate_of_its_own_takes_it)
{
    struct kernel_call k = {.kernel = KERNEL_ADAMW, .hbm_bytes = 3000000, .launches = 1};
    struct device d = {.peak_flops = 1e15,
                       .hbm_Bps = 1e12,
                       .hbm_efficiency = 1,
                       .tf32_share = 0.5,
                       .n_sm = 1,
                       .gemm_efficiency = 1,
                       .sustained_factor = 1,
                       .attention_flops = 1e14};

    ck_assert_int_eq(sim_kernel_time(&d, NULL, &k).alone_ps, 3000000);
    d.kernel_rate[KERNEL_ADAMW] = 250e9;
    d.kernel_rate[KERNEL_ATTENTION_BACKWARD] = 5e13;
    ck_assert_int_eq(sim_kernel_time(&d, NULL, &k).alone_ps, 12000000);
    k.kernel = KERNEL_GELU;
    ck_assert_int_eq(sim_kernel_time(&d, NULL, &k).alone_ps, 3000000);
    k = (struct kernel_call){.kernel = KERNEL_ATTENTION, .flops = 1000000000, .launches = 1};
    ck_assert_int_eq(sim_kernel_time(&d, NULL, &k).alone_ps, 10000000);
    k.kernel = KERNEL_ATTENTION_BACKWARD;
    ck_assert_int_eq(sim_kernel_time(&d, NULL, &k).alone_ps, 20000000);
    k.fp32 = true;
    ck_assert_int_eq(sim_kernel_time(&d, NULL, &k).alone_ps, 40000000);
}
END_TEST

SUITE_MAIN("sim/predict_hand", a_toy_step_takes_what_a_hand_calculation_says,
           a_gather_takes_sms_from_the_kernel_beside_it,
           a_lowered_step_without_compute_is_its_traffic, all_to_all_hides_behind_the_products,
           a_preconditioned_update_takes_its_own_flops, fp32_takes_twice_the_time_of_bf16,
           a_kernel_with_a_rate_of_its_own_takes_it)
