/* Plan files: written, read back, lowered to the same program; placed from the file alone; refused when they lie. */
#include "model/plan/model_load.h"
#include "planner/planner.h"
#include "tests/layouts/plans.h"
#include "tests/layouts/program_text.h"

#include <unistd.h>

static struct arena a;
static struct plan plan, again;
static struct err e;

static void make(const char *model, const char *layout, const struct job *j, uint32_t world)
{
    arena_init(&a);
    plans_make(&plan, &a, model, layout, j, world, 8);
    MUST(cluster_load("dgx-a100", &a, &plan.cluster, &e) == 0 &&
             cluster_resize(&plan.cluster, plan.job.nodes, &e) == 0,
         "%s", e.msg);
    plans_loads(&plan, &a);
}

static char *text_of(const struct plan *p)
{
    cJSON *tree = plan_to_json(p);
    char *s = json_text(tree, true);

    json_free(tree);
    return s;
}

static void read_back(const char *text)
{
    MUST(plan_from_json(text, strlen(text), "plan.json", &a, &again, &e) == 0, "%s", e.msg);
    MUST(layout_check(&again, &e) == 0, "%s", e.msg);
}

static void reads_back(const char *model, const char *layout, const struct job *j, uint32_t world)
{
    char *text, *text2, *x, *y;
    struct program p, q;

    make(model, layout, j, world);
    text = text_of(&plan);
    read_back(text);
    text2 = text_of(&again);
    MUST(!strcmp(text, text2), "%s: the text changes", plan.layout_full);
    plans_lower(&plan, &a, &p);
    plans_lower(&again, &a, &q);
    x = program_text(&p);
    y = program_text(&q);
    MUST(!strcmp(x, y), "%s: the program changes", plan.layout_full);
    mem_free(x);
    mem_free(y);
    mem_free(text);
    mem_free(text2);
    arena_release(&a);
}

START_TEST(a_plan_reads_back_and_lowers_to_the_same_program)
{
    static const uint32_t worlds[] = {1, 3, 8, 63};
    struct job j = plans_job();

    for (int m = 0; m < PLANS_N_MODELS; m++)
        for (uint32_t l = 0; plans_name(l); l++)
            for (int o = 0; o < OPTIMIZER_N; o++) {
                uint32_t world; /* factors fill nodes */

                j.optimizer = (enum optimizer)o;
                if (!plans_go_together(plans_name(l), j.optimizer))
                    continue;
                j.grad_dtype = o == 2 ? DTYPE_FP32 : DTYPE_BF16;
                world = plans_row(plans_name(l))->nested && worlds[o % 4] > 8 ? 64 : worlds[o % 4];
                plans_fit(&j, plans_name(l), world, 8, l + (uint32_t)m);
                reads_back(plans_models[m], plans_name(l), &j, world);
            }
}
END_TEST

/* zero1 has copies of its flat slices. */
START_TEST(a_plan_of_groups_reads_back_too)
{
    struct job j = plans_job();

    for (int w = 0; w < PLANS_N_GROUP_WORLDS; w++) {
        j.shard_group = plans_group_worlds[w][1];
        for (uint32_t l = 0; plans_grouped(l); l++) {
            j.optimizer = OPTIMIZER_MUON;
            reads_back(plans_models[(w + l) % PLANS_N_MODELS], plans_grouped(l), &j,
                       plans_group_worlds[w][0]);
        }
        j.optimizer = OPTIMIZER_ADAMW;
        reads_back("llama", "zero1", &j, plans_group_worlds[w][0]);
    }
}
END_TEST

START_TEST(the_model_reads_back_field_by_field)
{
    struct job j = plans_job();
    char *text;

    make("moe", "owner", &j, 8);
    text = text_of(&plan);
    read_back(text);
    mem_free(text);
    ck_assert_str_eq(again.model.name, plan.model.name);
    ck_assert_str_eq(again.model.arch, plan.model.arch);
    ck_assert_uint_eq(again.model.n_tensors, plan.model.n_tensors);
    ck_assert_uint_eq(again.model.n_units, plan.model.n_units);
    ck_assert_uint_eq(again.model.n_classes, plan.model.n_classes);
    ck_assert_uint_eq(again.model.active_params, plan.model.active_params);
    ck_assert_uint_eq(again.model.embedding_params, plan.model.embedding_params);
    ck_assert_uint_eq(again.model.tail_tensors, plan.model.tail_tensors);
    ck_assert_uint_eq(again.model.n_layers, plan.model.n_layers);
    for (uint32_t i = 0; i < plan.model.n_tensors; i++) {
        const struct tensor *x = &plan.model.tensors[i], *y = &again.model.tensors[i];

        MUST(!strcmp(x->name, y->name) && x->role == y->role && x->slot == y->slot &&
                 x->is_bias == y->is_bias && x->expert == y->expert && x->numel == y->numel &&
                 x->rows == y->rows && x->cols == y->cols && x->n_dims == y->n_dims,
             "tensor %u", i);
        MUST(plan.place[i].owner == again.place[i].owner || plan.place[i].rule != PLACE_OWNER,
             "owner of %u", i);
    }
    ck_assert_uint_eq(again.load_bytes[7], plan.load_bytes[7]);
    ck_assert_double_eq(again.flops_mean, plan.flops_mean);
    ck_assert(again.cluster.nic_Bps == plan.cluster.nic_Bps);
    ck_assert_uint_eq(again.cluster.n_nodes, plan.cluster.n_nodes);
    arena_release(&a);
}
END_TEST

/* ---- from the file alone ---- */

static uint64_t number(const cJSON *row, int i)
{
    return (uint64_t)cJSON_GetArrayItem(row, i)->valuedouble;
}

/* Another program has only the JSON: every byte of every unit has exactly one holder. Segments give owners' bytes;
 * chunk rows are ceil(rows/W) for the first ranks. */
START_TEST(shards_can_be_placed_from_the_file_alone)
{
    struct job j = plans_job();
    cJSON *tree, *units, *tensors, *unit, *row;
    uint64_t world = 5, total = 0;
    uint32_t u = 0;

    make("llama", "owner", &j, (uint32_t)world);
    tree = plan_to_json(&plan);
    units = cJSON_GetObjectItem(tree, "units");
    tensors = cJSON_GetObjectItem(tree, "tensors");
    cJSON_ArrayForEach(unit, units)
    {
        uint64_t bytes = (uint64_t)cJSON_GetObjectItem(unit, "bytes")->valuedouble, held = 0;
        uint64_t before = 0;

        cJSON_ArrayForEach(row, cJSON_GetObjectItem(unit, "segments"))
        {
            ck_assert_uint_lt(number(row, 0), world);
            ck_assert_uint_ge(number(row, 1), before);
            before = number(row, 1) + number(row, 2);
            ck_assert_uint_le(before, bytes);
            held += number(row, 2);
        }
        cJSON_ArrayForEach(row, tensors)
        {
            uint64_t rows, cols = 1, left;
            int n = cJSON_GetArraySize(row);

            if (number(row, 1) != u || strcmp(cJSON_GetArrayItem(row, 7)->valuestring, "chunk"))
                continue;
            rows = left = number(row, 11);
            for (int d = 12; d < n; d++)
                cols *= number(row, d);
            for (uint64_t r = 0; r < world; r++) {
                uint64_t mine = num_min(left, number(row, 9));

                left -= mine;
                held += 2 * mine * cols;
            }
            ck_assert_uint_eq(left, 0);
            ck_assert_uint_gt(rows, 0);
        }
        ck_assert_uint_eq(held, bytes);
        total += bytes;
        u++;
    }
    ck_assert_uint_eq(total, 2 * plan.model.total_params);
    json_free(tree);
    arena_release(&a);
}
END_TEST

/* Groups of 2 on 6 ranks: what the file says of places, each taken by ranks 2 apart, adds up to one copy a group; and the
 * program gives every rank as many bytes. */
START_TEST(copies_can_be_placed_from_the_file_alone)
{
    struct job j = plans_job();
    cJSON *tree, *row, *tensor;
    uint64_t group, held[2] = {0};
    struct program p;

    j.shard_group = 2;
    make("llama", "hsdp+owner", &j, 6);
    plans_lower(&plan, &a, &p);
    tree = plan_to_json(&plan);
    group =
        (uint64_t)cJSON_GetObjectItem(cJSON_GetObjectItem(tree, "job"), "shard_group")->valuedouble;
    ck_assert_uint_eq(group, 2);
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tree, "units"))
    {
        cJSON_ArrayForEach(tensor, cJSON_GetObjectItem(row, "segments")) held[number(tensor, 0)] +=
            number(tensor, 2);
    }
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(tree, "tensors"))
    {
        uint64_t cols = 1;

        if (strcmp(cJSON_GetArrayItem(row, 7)->valuestring, "chunk"))
            continue;
        for (int d = 12; d < cJSON_GetArraySize(row); d++)
            cols *= number(row, d);
        for (uint64_t k = 0; k < group; k++) /* padded to the same rows */
            held[k] += 2 * number(row, 9) * cols;
    }
    for (uint32_t r = 0; r < 6; r++)
        ck_assert_uint_eq(rank_table_get(&p.buffers[p.known.params].ranks, r), held[r % group]);
    json_free(tree);
    arena_release(&a);
}
END_TEST

/* By hand: hidden=2, ffn=4, 3 ranks, parameters in bf16. The benchmark's layer lists norm1 weight and bias, q, k, v, o,
 * norm2 weight and bias, up0, up1, down. Owners by plans_owners(): matrices 0,5,10,15,20,25,30 mod 3 = 0,2,1,0,2,1,0,
 * vectors on 1. */
START_TEST(segments_by_hand)
{
    struct job j = plans_job();
    cJSON *tree, *row;
    struct strbuf b;

    make("block:layers=1,hidden=2,ffn=4,heads=1", "owner", &j, 3);
    tree = plan_to_json(&plan);
    strbuf_init(&b);
    cJSON_ArrayForEach(
        row,
        cJSON_GetObjectItem(cJSON_GetArrayItem(cJSON_GetObjectItem(tree, "units"), 0), "segments"))
        strbuf_printf(&b, "%d:%d+%d ", (int)number(row, 0), (int)number(row, 1),
                      (int)number(row, 2));
    ck_assert_str_eq(plan.model.tensors[0].name, "layers.0.norm1.weight");
    ck_assert_str_eq(plan.model.tensors[6].name, "layers.0.norm2.weight");
    ck_assert_str_eq(b.s, "1:0+8 0:8+8 2:16+8 1:24+8 0:32+8 1:40+8 2:48+8 1:56+8 0:64+16 ");
    strbuf_release(&b);
    json_free(tree);
    arena_release(&a);
}
END_TEST

START_TEST(a_plan_for_16384_ranks_is_small)
{
    static const char *const layouts[] = {"owner", "zero1"};

    for (int i = 0; i < 2; i++) {
        char *text;

        arena_init(&a);
        memset(&plan, 0, sizeof(plan));
        plan.job = plans_job();
        plan.job.layout = layouts[i];
        plan.job.planner = "lpt-flops";
        plan.job.gpus = 16384;
        plan.job.nodes = 2048;
        MUST(model_load("llama-3.1-70b", 4096, &a, &plan.model, &e) == 0 &&
                 cluster_load("dgx-a100", &a, &plan.cluster, &e) == 0 &&
                 cluster_resize(&plan.cluster, 2048, &e) == 0 &&
                 planner_plan(&plan, NULL, &a, &e) == 0,
             "%s", e.msg);
        text = text_of(&plan);
        ck_assert_uint_lt(strlen(text), 2 << 20);
        read_back(text);
        mem_free(text);
        arena_release(&a);
    }
}
END_TEST

/* One rank with all matrices of a 70B model: 1e16 FLOPs and more, beyond what a JSON number holds exactly. */
START_TEST(counts_beyond_2_to_the_53_are_exact)
{
    struct job j = plans_job();
    char *text;

    make("llama-3.1-70b", "ddp", &j, 4);
    ck_assert_uint_gt(plan.flops_max, UINT64_C(1) << 53);
    text = text_of(&plan);
    read_back(text);
    ck_assert_uint_eq(again.flops_max, plan.flops_max);
    ck_assert_uint_eq(again.load_flops[3], plan.load_flops[3]);
    mem_free(text);
    arena_release(&a);
}
END_TEST

START_TEST(a_file_is_read_with_its_layout_checked)
{
    char path[] = "/tmp/ballast-plan-XXXXXX";
    struct job j = plans_job();
    int fd = mkstemp(path);
    char *text;
    FILE *f;

    ck_assert_int_ge(fd, 0);
    make("block", "owner", &j, 8);
    text = text_of(&plan);
    f = fdopen(fd, "w");
    fputs(text, f);
    fclose(f);
    ck_assert_msg(layout_load_plan(path, &a, &again, &e) == 0, "%s", e.msg);
    mem_free(text);
    plan.load_flops[3]++; /* a load that its tensors do not make, in sums that hold */
    plan.flops_max = 0;
    plan.flops_mean = 0;
    for (uint32_t r = 0; r < 8; r++) {
        plan.flops_max = num_max(plan.flops_max, plan.load_flops[r]);
        plan.flops_mean += (double)plan.load_flops[r] / 8;
    }
    text = text_of(&plan);
    f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
    ck_assert_int_eq(layout_load_plan(path, &a, &again, &e), -1);
    ck_assert_msg(strstr(e.msg, path) && strstr(e.msg, "rank 3"), "%s", e.msg);
    mem_free(text);
    unlink(path);
    arena_release(&a);
}
END_TEST

/* ---- refusals ---- */

/* The text with the first `from` after `anchor` (or anywhere) replaced. */
static char *edit(const char *text, const char *anchor, const char *from, const char *to)
{
    const char *at = strstr(text, anchor);
    struct strbuf b;

    MUST(at, "no '%s' in the plan", anchor);
    at = strstr(at, from);
    MUST(at, "no '%s' after '%s'", from, anchor);
    strbuf_init(&b);
    strbuf_add(&b, text, (size_t)(at - text));
    strbuf_puts(&b, to);
    strbuf_puts(&b, at + strlen(from));
    return strbuf_detach(&b);
}

static const struct {
    const char *layout, *anchor, *from, *to, *says;
} lies[] = {
    {"hsdp+owner", "", "\"shard_group\": 4", "\"shard_group\": 3",
     "has groups of 3 of its 8 ranks, expected a divisor"},
    {"hsdp+owner", "", "\"shard_group\": 4", "\"shard_group\": 0",
     "job.shard_group is 0, but layout 'hsdp+owner' has 8"},
    {"hsdp+owner", "", "\"shard_group\": 4", "\"shard_group\": 8", "mesh.p is 4x1, but layout"},
    {"hsdp+owner", "\"mesh\"", "[4, 1]", "[8, 1]",
     "mesh has factors that do not nest: g=4x1 is no multiple of p=8x1"},
    {"hsdp+owner", "\"tensors\": [\n", "\"owner\", 1", "\"owner\", 4", "expected an owner below 4"},
    {"ddp", "", "\"shard_group\": 0", "\"shard_group\": 4", "only the whole world (8) with ddp"},
    {"owner", "", "ballast-plan", "ballast-flows", "has the format 'ballast-flows'"},
    {"owner", "", "\"format_version\": 1", "\"format_version\": 2", "format_version 2"},
    {"owner", "", "\"world\"", "\"wrold\"", "wrold"},
    {"owner", "", "\"world\": 8", "\"world\": 9", "world is 9, but the rest of the file says 8"},
    {"owner", "\"mesh\"", "[8, 1]", "[8, 2]", "mesh.p is no factor of 8 GPUs"},
    {"owner", "\"mesh\"", "[8, 1]", "[4, 1]", "mesh.p is 4x1, but layout 'zero3+owner' has 8x1"},
    {"mesh", "\"mesh\": \"", "p=8x1", "x", "layout 'mesh': expected p=AxB,g=AxB,os=AxB"},
    {"mesh", "\"mesh\": \"", "p=8x1,", "",
     "job has mesh g=8x1,os=8x1, but layout 'mesh+gather' has mesh p=8x1,g"},
    {"mesh", "\"mesh\": \"", "p=8x1", "p=4x1", "mesh.p is 8x1, but layout 'mesh+gather' has 4x1"},
    {"mesh", "\"mesh\": \"", "p=8x1", "p=3x1", "layout 'mesh': g=8x1 is no multiple of p=3x1"},
    {"mesh", "\"mesh\": {", "[8, 1]", "[4, 1]", "mesh.p is 4x1, but layout 'mesh+gather' has 8x1"},
    {"mesh", "", "\"shard_group\": 0", "\"shard_group\": 4", "only the whole world (8) with mesh"},
    {"owner", "\"strategy\"", "owner", "stock", "but job.layout 'owner' means"},
    {"owner", "\"strategy\"", "owner", "ownr", "strategy"},
    {"owner", "\"loads\"", "\"flops_max\": ", "\"flops_max\": 1", "loads.flops_max is"},
    {"owner", "\"loads\"", "\"bytes_mean\": ", "\"bytes_mean\": 1", "loads.bytes_mean is"},
    {"owner", "\"load_bytes\"", ", 1]", ", 2]", "loads.load_bytes"},
    {"owner", "\"loads\"", "\"gap_percent\": 0", "\"gap_percent\": -1", "loads.gap_percent is -1"},
    {"owner", "\"loads\"", "\"bound\": ", "\"bound\": 9", "loads.bound is 9"},
    {"owner", "\"loads\"", "\"gap_percent\": ", "\"gap_percent\": 9", "loads.gap_percent is 9"},
    {"owner", "\"loads\"", "\"optimal\": true", "\"optimal\": false", "loads.optimal is false"},
    {"ddp", "\"loads\"", "\"optimal\": true", "\"optimal\": false", "loads.optimal is false"},
    {"owner", "\"loads\"", "\"over_capacity\": false", "\"over_capacity\": true",
     "loads.over_capacity is true"},
    {"owner", "\"job\"", "\"tp\": 1", "\"tp\": 3",
     "job has tp 3, but tensor-parallel GPUs are neighbours"},
    {"owner", "\"job\"", "\"pp\": 1", "\"pp\": 2", "job has pp 2"},
    {"owner", "\"job\"", "\"ep\": 1", "\"ep\": 2", "job has ep 2"},
    {"owner", "\"job\"", "\"fsdp2\"", "\"megatrn\"", "megatrn"},
    {"owner", "\"job\"", "\"mesh\": null", "\"mesh\": \"x\"", "job has mesh x"},
    {"owner", "\"job\"", "\"price\": 0", "\"price\": 1e300", "job.price is 1e+300"},
    {"owner", "\"job\"", "\"param_dtype\": \"bf16\"", "\"param_dtype\": \"fp32\"",
     "parameters are fp32 already"},
    {"owner", "\"job\"", "\"nodes\": 1", "\"nodes\": 2", "puts 8 GPUs on 2 nodes of 8"},
    {"owner", "\"job\"", "\"gpus\": 8", "\"gpus\": 0", "job.gpus is 0"},
    {"owner", "\"job\"", "\"muon\"", "\"moun\"", "job.optimizer is \"moun\""},
    {"owner", "\"job\"", "\"param_dtype\": \"bf16\"", "\"param_dtype\": \"int4\"",
     "expected one of fp32, bf16, fp16"},
    {"owner", "\"job\"", "\"grad_accum\": 1", "\"grad_accum\": 0", "job.grad_accum is 0"},
    {"owner", "\"job\"", "\"seq_len\": 32", "\"seq_len\": 32.5", "job.seq_len is 32.5"},
    {"owner", "\"model\"", "\"total_params\": ", "\"total_params\": 1", "model.total_params is 1"},
    {"owner", "\"model\"", "\"kind\": \"layer\"", "\"kind\": \"head\"", "which stands last"},
    {"owner", "\"model\"", "\"tied\": false", "\"tied\": true", "first unit is no embedding"},
    {"owner", "\"model\"", "\"layers\": 3", "\"layers\": 4", "has 4 layers, but 3 units are"},
    {"owner", "\"model\"", "\"hidden\": 48", "\"hidden\": 49", "has hidden 49"},
    {"owner", "\"model\"", "\"vocab\": 0", "\"vocab\": 1", "model"},
    {"owner", "\"classes\"", "\"hidden\": 48", "\"hidden\": 49", "has hidden 48"},
    {"owner", "\"classes\"", "\"ffn\": 160", "\"ffn\": 161",
     "dimensions give 'layers.0.up1.weight'"},
    {"owner", "\"classes\"", "\"heads\": 4", "\"heads\": 5", "has heads 5, kv_heads 4"},
    {"owner", "\"classes\"", "\"heads\": 4", "\"heads\": 0", "has heads 0, kv_heads 4"},
    {"owner", "\"classes\"", "\"kv_heads\": 4", "\"kv_heads\": 5", "has heads 4, kv_heads 5"},
    {"owner", "\"classes\"", "\"tied\": false", "\"tied\": true", "tied"},
    {"owner", "\"units\"", "\"class\": 0", "\"class\": 1", "units[0].class is 1"},
    {"owner", "\"units\"", "\"tensors\": 11", "\"tensors\": 10", "is of unit 0, expected 1"},
    {"owner", "\"units\"", "\"tensors\": 11", "\"tensors\": 99", "is of unit 1, expected 0"},
    {"owner", "\"units\"", "\"bytes\": ", "\"bytes\": 7", "units[0].bytes is 7"},
    {"owner", "\"units\"", "\"first_element\": 0", "\"first_element\": 1",
     "units[0].first_element is 1, but the rest of the file says 0"},
    {"owner", "\"segments\"", "[1, 0, ", "[2, 0, ", "units[0].segments[0] is [2, 0,"},
    {"owner", "\"columns\"", "\"rule\"", "\"role\"", "columns[7] is 'role', expected 'rule'"},
    {"owner", "\"tensors\": [\n", "\"owner\", 1", "\"owner\", 8", "expected an owner below 8"},
    {"owner", "\"tensors\": [\n", "\"owner\", 1", "\"owner\", null", "expected an owner below 8"},
    {"owner", "\"tensors\": [\n", "\"adamw\"", "\"muon\"", "has optimizer muon, expected adamw"},
    {"owner", "\"tensors\": [\n", "\"matrix\"", "\"matrx\"", "tensors[2]"},
    {"owner", "\"tensors\": [\n", "null, 96, ", "null, 98, ", "has offset 98, expected 96"},
    {"zero1", "", "\"flat_slice\": ", "\"flat_slice\": 1", "flat_slice is 1"},
    {"owner", "", "\"flat_slice\": null", "\"flat_slice\": 4", "no tensor has rule flat"},
    {"zero3+stock", "\"tensors\": [\n", "\"chunk\", null, 6", "\"chunk\", null, 7",
     "has 7 rows a rank, expected 6"},
    {"zero3+stock", "\"tensors\": [\n", "\"chunk\", null, 6", "\"replicated\", null, null",
     "has rule replicated, but layout 'zero3+stock' has chunk"},
};

START_TEST(a_plan_that_contradicts_itself_is_refused)
{
    struct job j = plans_job();

    for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        char *text, *wrong;
        int status;

        j.shard_group = strncmp(lies[i].layout, "hsdp", 4) ? 0 : 4;
        make("block", lies[i].layout, &j, 8);
        text = text_of(&plan);
        wrong = edit(text, lies[i].anchor, lies[i].from, lies[i].to);
        status = plan_from_json(wrong, strlen(wrong), "plan.json", &a, &again, &e);
        if (!status)
            status = layout_check(&again, &e);
        ck_assert_msg(status == -1, "'%s' -> '%s' is taken", lies[i].from, lies[i].to);
        ck_assert_msg(strstr(e.msg, lies[i].says) != NULL, "'%s' -> '%s' says: %s", lies[i].from,
                      lies[i].to, e.msg);
        mem_free(text);
        mem_free(wrong);
        arena_release(&a);
    }
}
END_TEST

START_TEST(vectors_of_a_unit_have_one_owner)
{
    struct job j = plans_job();
    char *text;

    make("block", "owner", &j, 8);
    plan.place[1].owner = 5;
    memset(plan.load_flops, 0, 8 * sizeof(uint64_t));
    plan.flops_max = plan.bytes_max = 0;
    plan.flops_mean = plan.bytes_mean = 0;
    plans_loads(&plan, &a);
    text = text_of(&plan);
    ck_assert_msg(plan_from_json(text, strlen(text), "plan.json", &a, &again, &e) == 0, "%s",
                  e.msg);
    ck_assert_int_eq(layout_check(&again, &e), -1);
    ck_assert_msg(strstr(e.msg, "go to one rank") != NULL, "%s", e.msg);
    mem_free(text);
    arena_release(&a);
}
END_TEST

START_TEST(a_cut_text_is_refused_wherever_it_is_cut)
{
    struct job j = plans_job();
    char *text;

    make("one-layer", "owner", &j, 3);
    text = text_of(&plan);
    for (size_t n = 0; n + 1 < strlen(text); n += 61)
        MUST(plan_from_json(text, n, "plan.json", &a, &again, &e) == -1, "%zu bytes are taken", n);
    mem_free(text);
    arena_release(&a);
}
END_TEST

SUITE_MAIN("model/plan", a_plan_reads_back_and_lowers_to_the_same_program,
           a_plan_of_groups_reads_back_too, copies_can_be_placed_from_the_file_alone,
           the_model_reads_back_field_by_field, shards_can_be_placed_from_the_file_alone,
           segments_by_hand, a_plan_for_16384_ranks_is_small, counts_beyond_2_to_the_53_are_exact,
           a_file_is_read_with_its_layout_checked, a_plan_that_contradicts_itself_is_refused,
           vectors_of_a_unit_have_one_owner, a_cut_text_is_refused_wherever_it_is_cut)
