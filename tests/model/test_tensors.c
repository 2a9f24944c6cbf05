/* Models from lists of tensors: headers, indices, plain lists. The families' configs make the lists, so that both ways to
 * a model are held against each other. */
#include "core/file.h"
#include "model/graph/graph.h"
#include "model/plan/model_load.h"
#include "model/plan/plan_json.h"
#include "model/tensors/tensors.h"
#include "tests/model/families.h"
#include "tests/suite.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct arena a;
static struct model m;
static struct unit_graph g;
static struct err e;
static char dir[64];

static void begin(void)
{
    arena_init(&a);
    snprintf(dir, sizeof(dir), "/tmp/ballast-tensors-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void end(void)
{
    char command[128];

    snprintf(command, sizeof(command), "rm -r '%s'", dir);
    ck_assert_int_eq(system(command), 0);
    arena_release(&a);
}

static const char *in_dir(const char *name)
{
    return arena_printf(&a, "%s/%s", dir, name);
}

static void put(const char *name, const char *text, size_t len)
{
    file_forget_inputs(); /* each case has the names of the one before */
    ck_assert_int_eq(file_write(in_dir(name), text, len, &e), 0);
}

static void put_text(const char *name, const char *text)
{
    put(name, text, strlen(text));
}

/* A .safetensors file of a header alone. */
static void put_header(const char *name, const char *json)
{
    size_t len = strlen(json);
    char *text = mem_alloc(len + 8, 1);

    for (int i = 0; i < 8; i++)
        text[i] = (char)(len >> (8 * i) & 255);
    memcpy(text + 8, json, len);
    put(name, text, len + 8);
    mem_free(text);
}

static int load(const char *name)
{
    return model_load(in_dir(name), 4096, &a, &m, &e);
}

static int load_with(const char *name, const char *names, bool incomplete_ok)
{
    const struct model_options o = {
        .seq_len = 4096, .names = names ? in_dir(names) : NULL, .incomplete_ok = incomplete_ok};

    return model_load_with(in_dir(name), &o, &a, &m, &e);
}

static const struct tensor *find(const char *name)
{
    for (uint32_t i = 0; i < m.n_tensors; i++)
        if (!strcmp(m.tensors[i].name, name))
            return &m.tensors[i];
    ck_abort_msg("no tensor '%s'", name);
    return NULL;
}

static bool noted(const char *text)
{
    for (uint32_t i = 0; i < m.n_notes; i++)
        if (strstr(m.notes[i], text))
            return true;
    return false;
}

static void says(const char *text)
{
    ck_assert_msg(strstr(e.msg, text) != NULL, "'%s' does not say '%s'", e.msg, text);
    ck_assert_ptr_null(strchr(e.msg, '\n'));
}

/* ---- both ways to a model ---- */

/* The list that a checkpoint of this model is: slices of stacked experts in one tensor of three dimensions. */
static void list_of(const struct model *from, struct tensor_list *l)
{
    tensor_list_init(l);
    l->has_shapes = true;
    l->file = "list";
    for (uint32_t i = from->n_tensors;
         i-- > 0;) { /* backwards: the order of a file means nothing */
        const struct tensor *t = &from->tensors[i];
        const char *bracket = strchr(t->name, '[');
        struct file_tensor *x;

        if (bracket && t->expert > 0)
            continue;
        x = tensor_list_add(
            l, bracket ? arena_strndup(&a, t->name, (size_t)(bracket - t->name)) : t->name, &a);
        x->n_dims = t->n_dims;
        memcpy(x->shape, t->shape, sizeof(x->shape));
        if (bracket) {
            memmove(x->shape + 1, t->shape, t->n_dims * sizeof(t->shape[0]));
            x->shape[0] = from->classes[from->units[t->unit].class_id].n_experts;
            x->n_dims++;
        }
    }
}

static uint64_t flops(const struct model *of, enum kernel kernel)
{
    uint64_t sum = 0;

    for (uint32_t u = 0; u < of->n_units; u++) {
        MUST(graph_build(of, of->units[u].class_id,
                         &(struct graph_batch){.micro_batch = 1, .seq_len = 64}, DTYPE_BF16, &g,
                         &e) == 0,
             "%s", e.msg);
        for (uint32_t i = 0; i < g.n_ops; i++)
            sum += g.ops[i].forward.kernel == kernel ? g.ops[i].forward.flops : 0;
    }
    return sum;
}

START_TEST(a_list_gives_the_model_of_its_config)
{
    for (size_t i = 0; i < N_FAMILIES; i++) {
        struct name_patterns p = {.active_experts = 0};
        struct model by_config;
        struct tensor_list l;
        bool recurrent;

        begin();
        MUST(model_from_config(families[i].config, strlen(families[i].config), "c", &a, &by_config,
                               &e) == 0,
             "%s", e.msg);
        MUST(plan_check_slots(&by_config, 0, "c", &e) == 0, "%s: %s", families[i].name, e.msg);
        recurrent = !strncmp(by_config.arch, "qwen3_5", 7) ||
                    !strcmp(by_config.arch, "qwen3_next") || !strcmp(by_config.arch, "nemotron_h");
        for (uint32_t c = 0; c < by_config.n_classes; c++)
            if (by_config.classes[c].n_active)
                p.active_experts = by_config.classes[c].n_active;
        list_of(&by_config, &l);
        MUST(model_from_tensors(&l, &p, &a, &m, &e) == 0, "%s: %s", families[i].name, e.msg);
        MUST(plan_check_slots(&m, 0, "l", &e) == 0, "%s: %s", families[i].name, e.msg);
        MUST(m.total_params == by_config.total_params, "%s: %llu", families[i].name,
             (unsigned long long)m.total_params);
        MUST(m.matrix_params == by_config.matrix_params, "%s: matrices %llu, expected %llu",
             families[i].name, (unsigned long long)m.matrix_params,
             (unsigned long long)by_config.matrix_params);
        MUST(m.matrix_tensors == by_config.matrix_tensors, "%s: %u matrices", families[i].name,
             m.matrix_tensors);
        MUST(m.tied == by_config.tied && m.hidden == by_config.hidden, "%s", families[i].name);
        MUST(m.n_units == by_config.n_units, "%s: %u units, expected %u", families[i].name,
             m.n_units, by_config.n_units);
        MUST(noted("of no block that is known") == recurrent, "%s", families[i].name);
        if (!recurrent) { /* 64 tokens are within all windows */
            MUST(flops(&m, KERNEL_GEMM) == flops(&by_config, KERNEL_GEMM), "%s: GEMM",
                 families[i].name);
            MUST(flops(&m, KERNEL_ATTENTION) == flops(&by_config, KERNEL_ATTENTION),
                 "%s: attention", families[i].name);
        }
        tensor_list_release(&l);
        end();
    }
}
END_TEST

/* The list of a family's config without what `keep` refuses. */
static void list_of_family(const char *name, struct model *by_config, struct tensor_list *l,
                           bool (*keep)(const char *))
{
    size_t n = 0;

    for (size_t i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].name, name))
            MUST(model_from_config(families[i].config, strlen(families[i].config), "c", &a,
                                   by_config, &e) == 0,
                 "%s", e.msg);
    list_of(by_config, l);
    for (size_t i = 0; i < l->n; i++)
        if (!keep || keep(l->v[i].name))
            l->v[n++] = l->v[i];
    l->n = n;
}

static bool of_encoder(const char *name)
{
    return !strncmp(name, "encoder.", 8) || !strncmp(name, "shared.", 7);
}

static bool outside_the_bridge(const char *name)
{
    return strcmp(name, "encoder.final_layer_norm.weight") != 0;
}

/* A stack alone, or two that nothing joins, are parts whose products are counted, and no decoder that has lost its encoder. */
START_TEST(half_an_encoder_decoder_is_parts)
{
    bool (*const keep[])(const char *) = {of_encoder, outside_the_bridge};

    for (int k = 0; k < 2; k++) {
        struct model by_config;
        struct tensor_list l;

        begin();
        list_of_family("t5-small", &by_config, &l, keep[k]);
        MUST(model_from_tensors(&l, NULL, &a, &m, &e) == 0, "%s", e.msg);
        ck_assert_uint_eq(model_bridge(&m), MODEL_NONE);
        ck_assert(noted("of no block that is known"));
        for (uint32_t c = 0; c < m.n_classes; c++) {
            ck_assert_int_eq(m.classes[c].stack, STACK_ONLY);
            ck_assert(m.classes[c].kind != UNIT_LAYER || m.classes[c].mixer == MIXER_UNKNOWN);
        }
        MUST(plan_check_slots(&m, 0, "l", &e) == 0, "%s", e.msg);
        flops(&m, KERNEL_GEMM);
        tensor_list_release(&l);
        end();
    }
}
END_TEST

static bool no_pooler_weight(const char *name)
{
    return strcmp(name, "bert.pooler.dense.weight") != 0;
}

static bool no_transform_weight(const char *name)
{
    return strcmp(name, "cls.predictions.transform.dense.weight") != 0;
}

/* What stands on a pooler or a transformation that is not there is a part too. */
START_TEST(berts_ends_need_what_they_stand_on)
{
    bool (*const keep[])(const char *) = {no_pooler_weight, no_transform_weight};

    for (int k = 0; k < 2; k++) {
        struct model by_config;
        struct tensor_list l;

        begin();
        list_of_family("bert-large, both tasks", &by_config, &l, keep[k]);
        MUST(model_from_tensors(&l, NULL, &a, &m, &e) == 0, "%s", e.msg);
        ck_assert(noted("of no block that is known") && !model_has_head(&m));
        MUST(plan_check_slots(&m, 0, "l", &e) == 0, "%s", e.msg);
        flops(&m, KERNEL_GEMM);
        tensor_list_release(&l);
        end();
    }
}
END_TEST

/* Heads that no shape tells are in the tables of relative positions. */
START_TEST(relative_positions_tell_the_heads)
{
    struct model by_config;
    struct tensor_list l;

    begin();
    list_of_family("t5-11b", &by_config, &l, NULL);
    MUST(model_from_tensors(&l, NULL, &a, &m, &e) == 0, "%s", e.msg);
    for (uint32_t c = 0; c < m.n_classes; c++)
        if (m.classes[c].kind == UNIT_LAYER) {
            ck_assert_uint_eq(m.classes[c].n_heads, 128);
            ck_assert_uint_eq(m.classes[c].head_dim, 128);
            ck_assert(m.classes[c].causal == (m.classes[c].stack == STACK_DECODER));
        }
    ck_assert_str_eq(m.units[25].name, "bridge");
    ck_assert_uint_eq(model_bridge(&m), 25);
    tensor_list_release(&l);
    end();
}
END_TEST

/* BERT's first files call a norm's weight gamma and its bias beta. */
START_TEST(berts_old_names_of_norms)
{
    begin();
    put_text("l.json", "{\"tensors\":{\"bert.embeddings.word_embeddings.weight\":[10,8],"
                       "\"bert.embeddings.LayerNorm.gamma\":[8],"
                       "\"bert.embeddings.LayerNorm.beta\":[8]}}");
    ck_assert_msg(load("l.json") == 0, "%s", e.msg);
    ck_assert_int_eq(find("bert.embeddings.LayerNorm.weight")->role, ROLE_NORM);
    ck_assert_int_eq(find("bert.embeddings.LayerNorm.bias")->role, ROLE_BIAS);
    end();
}
END_TEST

START_TEST(fused_qkv_of_a_llama_body_is_160_matrices)
{
    /* nwyin/modded-llama2#9: total 6,682,124,288; Muon 160 tensors of 6,476,005,376; AdamW 66 of 206,118,912 */
    struct tensor_list l;
    static const struct {
        const char *name;
        uint64_t d0, d1;
    } layer[] = {{"input_layernorm", 4096, 0},     {"self_attn.qkv_proj", 3 * 4096, 4096},
                 {"self_attn.o_proj", 4096, 4096}, {"post_attention_layernorm", 4096, 0},
                 {"mlp.gate_proj", 11008, 4096},   {"mlp.up_proj", 11008, 4096},
                 {"mlp.down_proj", 4096, 11008}};
    struct file_tensor *t;

    begin();
    tensor_list_init(&l);
    l.has_shapes = true;
    l.file = "list";
    t = tensor_list_add(&l, "model.embed_tokens.weight", &a);
    t->n_dims = 2;
    t->shape[0] = 50257;
    t->shape[1] = 4096;
    t = tensor_list_add(&l, "model.norm.weight", &a);
    t->n_dims = 1;
    t->shape[0] = 4096;
    for (int i = 0; i < 32; i++)
        for (size_t k = 0; k < 7; k++) {
            t = tensor_list_add(&l, arena_printf(&a, "model.layers.%d.%s.weight", i, layer[k].name),
                                &a);
            t->n_dims = layer[k].d1 ? 2 : 1;
            t->shape[0] = layer[k].d0;
            t->shape[1] = layer[k].d1;
        }
    ck_assert_msg(model_from_tensors(&l, NULL, &a, &m, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(m.total_params, 6682124288);
    ck_assert_uint_eq(m.matrix_tensors, 160);
    ck_assert_uint_eq(m.matrix_params, 6476005376);
    ck_assert_uint_eq(m.tail_tensors, 66);
    ck_assert_uint_eq(m.tail_params, 206118912);
    ck_assert(m.tied);
    tensor_list_release(&l);
    end();
}
END_TEST

/* ---- .safetensors ---- */

#define TENSOR(name, shape, from, to)                                                              \
    "\"" name "\":{\"dtype\":\"BF16\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to "]}"
#define TINY                                                                                       \
    TENSOR("model.embed_tokens.weight", "[10,4]", 0, 80)                                           \
    "," TENSOR("model.layers.0.mlp.up_proj.weight", "[6,4]", 80, 128) "," TENSOR(                  \
        "model.layers.0.mlp.gate_proj.weight", "[6,4]", 128, 176) "," TENSOR("model.layers.0.mlp." \
                                                                             "down_proj.weight",   \
                                                                             "[4,6]", 176, 224)

START_TEST(a_header_has_the_shapes)
{
    begin();
    put_header("tiny.safetensors", "{\"__metadata__\":{\"format\":\"pt\"}," TINY "}");
    ck_assert_msg(load("tiny.safetensors") == 0, "%s", e.msg);
    ck_assert_str_eq(m.name, "tiny");
    ck_assert_uint_eq(m.total_params, 40 + 3 * 24);
    ck_assert_uint_eq(m.n_units, 2);
    ck_assert_uint_eq(find("model.layers.0.mlp.down_proj.weight")->rows, 4);
    end();
}
END_TEST

START_TEST(names_may_have_spaces_and_any_letters)
{
    begin();
    put_header("odd.safetensors", "{" TENSOR("sch\xc3\xb6ne matrix", "[3,5]", 0,
                                             30) "," TENSOR("a\\\"b", "[]", 30, 32) "}");
    ck_assert_msg(load("odd.safetensors") == 0, "%s", e.msg);
    ck_assert_uint_eq(find("sch\xc3\xb6ne matrix")->numel, 15);
    ck_assert_uint_eq(find("a\"b")->numel, 1);
    ck_assert_uint_eq(m.matrix_tensors, 1);
    end();
}
END_TEST

START_TEST(broken_headers_are_refused_with_file_and_tensor)
{
    static const struct {
        const char *json, *says;
    } rows[] = {
        {"[1]", "expected an object"},
        {"{\"x\":3}", "x is 3"},
        {"{\"x\":{\"shape\":[1],\"data_offsets\":[0,2]}}", "dtype"},
        {"{" TENSOR("x", "[2,3]", 0, 11) "}", "x.data_offsets are 11 bytes apart"},
        {"{" TENSOR("x", "[2,3]", 12, 0) "}", "x.data_offsets[1] is 0"},
        {"{" TENSOR("x", "[0,3]", 0, 0) "}", "x.shape[0] is 0"},
        {"{" TENSOR("x", "[1,1,1,1,1,1,1,1,1]", 0, 2) "}", "x.shape has 9 dimensions"},
        {"{" TENSOR("x", "[2.5]", 0, 5) "}", "x.shape[0] is 2.5"},
        {"{" TENSOR("x", "[1e400]", 0, 5) "}", "beyond the range"},
        {"{" TENSOR("x", "[NaN]", 0, 5) "}", "not JSON"},
        {"{" TENSOR("x", "[281474976710656,281474976710656]", 0, 5) "}", "more than 2^63 bytes"},
        {"{" TENSOR("x", "[1]", 0, 2) "," TENSOR("x", "[1]", 0, 2) "}", "the key 'x' twice"},
        {"{\"__metadata__\":{}}", "names no tensors"},
        {"{} ", "names no tensors"},
        {"{\"x\"", "ends too early"},
    };

    begin();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        put_header("x.safetensors", rows[i].json);
        ck_assert_msg(load("x.safetensors") == -1, "%s", rows[i].json);
        says("x.safetensors");
        says(rows[i].says);
    }
    put("x.safetensors", "short", 5);
    ck_assert_int_eq(load("x.safetensors"), -1);
    says("8 bytes");
    put("x.safetensors", "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    ck_assert_int_eq(load("x.safetensors"), -1);
    says("not a .safetensors file");
    put("x.safetensors", "\x10\0\0\0\0\0\0\0{}", 10);
    ck_assert_int_eq(load("x.safetensors"), -1);
    says("ends inside its header");
    ck_assert_int_eq(load("none.safetensors"), -1);
    ck_assert_int_eq(e.code, ERR_IO);
    end();
}
END_TEST

START_TEST(twenty_thousand_tensors_are_no_matter)
{
    char *text = mem_alloc(4 << 20, 1);
    size_t n = 0;

    begin();
    n += (size_t)sprintf(text, "{");
    for (int i = 0; i < 20000; i++)
        n += (size_t)sprintf(
            text + n,
            "%s\"model.layers.%d.mlp.experts.%d.up_proj.weight\":{\"dtype\":\"F32\","
            "\"shape\":[2,2],\"data_offsets\":[0,16]}",
            i ? "," : "", i / 1000, i % 1000);
    sprintf(text + n, "}");
    put_header("many.safetensors", text);
    ck_assert_msg(load("many.safetensors") == 0, "%s", e.msg);
    ck_assert_uint_eq(m.total_params, 80000);
    ck_assert_uint_eq(m.n_units, 20);
    mem_free(text);
    end();
}
END_TEST

/* A config.json of 100 MB, nearly all of it keys that are not ours, one a tensor's name with blanks; read as any other. */
START_TEST(a_hundred_megabytes_are_no_matter)
{
    static const char head[] =
        "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":8,"
        "\"num_hidden_layers\":1,\"num_attention_heads\":4,\"vocab_size\":9,"
        "\"history\":[";
    size_t n = 100u << 20, at = sizeof(head) - 1;
    char *text = mem_alloc(n + 1, 1), *copy;

    begin();
    memcpy(text, head, at);
    while (at < n - 2) { /* lines of 64 KiB */
        size_t line = n - 2 - at < 65536 ? n - 2 - at : 65536;

        memset(text + at, 'x', line);
        text[at] = text[at + line - 2] = '"';
        text[at + line - 1] = n - 2 - at > line ? ',' : ' ';
        at += line;
    }
    memcpy(text + n - 2, "]}", 2);
    ck_assert_msg(!model_from_config(text, n, "big.json", &a, &m, &e), "%s", e.msg);
    ck_assert_uint_eq(m.total_params, 4 * 64 * 64 + 3 * 64 * 8 + 3 * 64 + 2 * 9 * 64);
    copy = text + n / 2; /* and what is wrong in the middle of it is found */
    copy[0] = '\xff';
    ck_assert_int_eq(model_from_config(text, n, "big.json", &a, &m, &e), -1);
    says("big.json");
    says("not UTF-8");
    mem_free(text);
    end();
}
END_TEST

/* ---- packed weights ---- */

START_TEST(packed_weights_are_recognised)
{
    begin();
    put_header("q.safetensors",
               "{\"model.layers.0.mlp.up_proj.qweight\":{\"dtype\":\"I32\",\"shape\":[8,6],"
               "\"data_offsets\":[0,192]}," TENSOR("model.layers.0.mlp.up_proj.scales", "[1,6]",
                                                   192, 204) "}");
    ck_assert_int_eq(load("q.safetensors"), -1);
    ck_assert_int_eq(e.code, ERR_UNSUPPORTED);
    says("up_proj.qweight' holds packed weights (gptq or awq)");
    says("config.json");
    /* fp8: the weight has its own shape, its scales are no parameters */
    put_header(
        "f.safetensors",
        "{\"model.layers.0.mlp.up_proj.weight\":{\"dtype\":\"F8_E4M3\",\"shape\":[8,6],"
        "\"data_offsets\":[0,48]},\"model.layers.0.mlp.up_proj.weight_scale_inv\":{\"dtype\":"
        "\"F32\",\"shape\":[1,1],\"data_offsets\":[48,52]}}");
    ck_assert_msg(load("f.safetensors") == 0, "%s", e.msg);
    ck_assert_uint_eq(m.total_params, 48);
    ck_assert(noted("quantised"));
    /* mxfp4: 2 experts of 6 rows of 3 blocks of 16 bytes: 32 weights a block */
    put_header(
        "m.safetensors",
        "{\"model.layers.0.mlp.experts.gate_up_proj_blocks\":{\"dtype\":\"U8\",\"shape\":"
        "[2,6,3,16],\"data_offsets\":[0,576]},"
        "\"model.layers.0.mlp.experts.gate_up_proj_scales\":{\"dtype\":\"U8\",\"shape\":[2,6,3],"
        "\"data_offsets\":[576,612]}}");
    ck_assert_msg(load_with("m.safetensors", NULL, true) == 0, "%s", e.msg);
    ck_assert_uint_eq(m.total_params, 2 * 6 * 96);
    ck_assert_uint_eq(m.matrix_tensors, 2);
    ck_assert_uint_eq(find("model.layers.0.mlp.experts.gate_up_proj[1]")->cols, 96);
    ck_assert_str_eq(m.quantization, "mxfp4");
    end();
}
END_TEST

/* ---- an index ---- */

#define INDEX                                                                                      \
    "{\"metadata\":{\"total_size\":1},\"weight_map\":{\"model.embed_tokens.weight\":"              \
    "\"a.safetensors\",\"model.layers.0.mlp.up_proj.weight\":\"b.safetensors\"}}"
#define SHARD_A "{" TENSOR("model.embed_tokens.weight", "[10,4]", 0, 80) "}"
#define SHARD_B "{" TENSOR("model.layers.0.mlp.up_proj.weight", "[6,4]", 0, 48) "}"

START_TEST(an_index_takes_shapes_from_its_shards)
{
    begin();
    put_text("model.safetensors.index.json", INDEX);
    put_header("a.safetensors", SHARD_A);
    put_header("b.safetensors", SHARD_B);
    ck_assert_msg(load("model.safetensors.index.json") == 0, "%s", e.msg);
    ck_assert_uint_eq(m.total_params, 64);
    ck_assert_msg(load("") == 0, "%s", e.msg); /* the folder */
    ck_assert_uint_eq(m.total_params, 64);
    put_header("b.safetensors", "{" TENSOR("other", "[6,4]", 0, 48) "}");
    ck_assert_int_eq(load("model.safetensors.index.json"), -1);
    says("'model.layers.0.mlp.up_proj.weight' is in the index, but not in its shard");
    put_header("b.safetensors", "{" TENSOR("model.layers.0.mlp.up_proj.weight", "[6,4]", 0,
                                           48) "," TENSOR("model.x", "[6,4]", 48, 96) "}");
    ck_assert_int_eq(load("model.safetensors.index.json"), -1);
    says("'model.x' is in a shard, but not in the index");
    end();
}
END_TEST

START_TEST(an_index_alone_has_names)
{
    begin();
    put_text("i.index.json", INDEX);
    put_header("a.safetensors", SHARD_A);
    ck_assert_int_eq(load("i.index.json"), -1); /* as all commands but model */
    ck_assert_int_eq(e.code, ERR_INVALID);
    says("b.safetensors");
    ck_assert_msg(load_with("i.index.json", NULL, true) == 0, "%s", e.msg);
    ck_assert(m.names_only);
    ck_assert_uint_eq(m.total_params, 0); /* never from total_size */
    ck_assert_uint_eq(find("model.layers.0.mlp.up_proj.weight")->n_dims, 0);
    ck_assert(find("model.layers.0.mlp.up_proj.weight")->role == ROLE_MATRIX);
    ck_assert(find("model.embed_tokens.weight")->role == ROLE_EMBEDDING);
    put_text(
        "t.index.json",
        "{\"metadata\":{\"total_parameters\":77},\"weight_map\":{\"x.weight\":\"s.safetensors\"}}");
    ck_assert_msg(load_with("t.index.json", NULL, true) == 0, "%s", e.msg);
    ck_assert_uint_eq(m.total_params, 77);
    end();
}
END_TEST

#define CONFIG                                                                                     \
    "{\"model_type\":\"llama\",\"hidden_size\":4,\"intermediate_size\":6,\"num_hidden_layers\":1," \
    "\"num_attention_heads\":1,\"vocab_size\":10,\"tie_word_embeddings\":true}"

START_TEST(a_config_beside_gives_shapes_or_heads)
{
    struct model by_config;
    struct tensor_list l;
    char *text = mem_alloc(1 << 16, 1);
    size_t n = 0;

    begin();
    ck_assert_int_eq(model_from_config(CONFIG, strlen(CONFIG), "c", &a, &by_config, &e), 0);
    list_of(&by_config, &l);
    n += (size_t)sprintf(text, "{\"weight_map\":{\"vision.x\":\"a.safetensors\"");
    for (size_t i = 0; i < l.n; i++)
        n += (size_t)sprintf(text + n, ",\"%s\":\"a.safetensors\"", l.v[i].name);
    n += (size_t)sprintf(text + n, "}}");
    put("model.safetensors.index.json", text, n);
    put_text("config.json", CONFIG);
    ck_assert_msg(load("model.safetensors.index.json") == 0, "%s", e.msg);
    ck_assert_uint_eq(m.total_params, by_config.total_params);
    ck_assert(noted("shapes of the config.json"));
    ck_assert(noted("1 tensor of other parts left out"));
    ck_assert_str_eq(m.arch, "llama");
    /* headers: the same shapes, then one that differs */
    n = (size_t)sprintf(text, "{");
    for (size_t i = 0; i < l.n; i++)
        n += (size_t)sprintf(text + n,
                             "%s\"%s\":{\"dtype\":\"X\",\"shape\":[%u,%u],\"data_offsets\":[0,1]}",
                             i ? "," : "", l.v[i].name, (unsigned)l.v[i].shape[0],
                             (unsigned)(l.v[i].n_dims > 1 ? l.v[i].shape[1] : 1));
    sprintf(text + n, "}");
    for (char *p = text; (p = strstr(p, ",1],\"data"));) /* [4,1] of the norms is [4] */
        memmove(p, p + 2, strlen(p + 2) + 1);
    put_header("model.safetensors", text);
    ck_assert_msg(load("model.safetensors") == 0, "%s", e.msg);
    ck_assert_str_eq(m.arch, "llama");
    ck_assert(noted("shapes of the headers"));
    memcpy(strstr(text, "[6,4]"), "[8,4]", 5);
    put_header("model.safetensors", text);
    ck_assert_msg(load("model.safetensors") == 0, "%s", e.msg);
    ck_assert_uint_eq(m.total_params, by_config.total_params + 8);
    ck_assert(noted("the config.json beside it is not used"));
    /* names of another model */
    put_text("model.safetensors.index.json", "{\"weight_map\":{\"x.weight\":\"s.safetensors\"}}");
    ck_assert_int_eq(load("model.safetensors.index.json"), -1);
    says("of another model");
    tensor_list_release(&l);
    mem_free(text);
    end();
}
END_TEST

START_TEST(broken_indices_are_refused)
{
    static const struct {
        const char *json, *says;
    } rows[] = {
        {"{\"weight_map\":3}", "weight_map is 3"},
        {"{\"weight_map\":{}}", "weight_map names no tensors"},
        {"{\"weight_map\":{\"a\":3}}", "weight_map.a is 3"},
        {"{\"weight_map\":{\"a\":\"../b\"}}", "expected the name of a file beside the index"},
        {"{\"weight_map\":{\"a\":\"b\"},\"metadata\":{\"total_parameters\":-1}}",
         "metadata.total_parameters is -1"},
        {"{\"weight_map\":{\"a\":\"b\",\"a\":\"c\"}}", "the key 'a' twice"},
        {"{\"weight_map\":{\"a\":\"b\"}}{\"weight_map\":{}}", "something follows"},
    };

    begin();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        put_text("x.index.json", rows[i].json);
        ck_assert_msg(load_with("x.index.json", NULL, true) == -1, "%s", rows[i].json);
        says("x.index.json");
        says(rows[i].says);
    }
    end();
}
END_TEST

/* ---- lists and patterns ---- */

#define LIST                                                                                       \
    "{\"tensors\":{\"wte.weight\":[10,4],\"net.0.w1\":[6,4],\"net.0.w2\":[4,6],\"net.0.g\":[4],"   \
    "\"net.1.w1\":[6,4],\"net.1.w2\":[4,6],\"net.1.g\":[4],\"mask\":[9,9]}}"

START_TEST(a_plain_list_is_grouped_by_its_names)
{
    begin();
    put_text("l.json", LIST);
    ck_assert_msg(load("l.json") == 0, "%s", e.msg);
    ck_assert_uint_eq(m.total_params, 40 + 2 * 52 + 81);
    ck_assert_uint_eq(m.matrix_tensors, 5); /* the mask looks like one */
    ck_assert_str_eq(m.units[2].name, "layers.0");
    ck_assert_uint_eq(m.units[2].class_id, m.units[3].class_id);
    ck_assert(noted("of no block that is known"));
    put_text("l.json",
             "{\"tensors\":[{\"name\":\"a\",\"shape\":[2,2],\"role\":\"head\",\"unit\":\"u\"}]}");
    ck_assert_msg(load("l.json") == 0, "%s", e.msg);
    ck_assert(find("a")->role == ROLE_HEAD);
    ck_assert_str_eq(m.units[0].name, "u");
    put_text("l.json", "{\"tensors\":[{\"name\":\"a\",\"shape\":[2,2],\"role\":\"hat\"}]}");
    ck_assert_int_eq(load("l.json"), -1);
    says("unknown role 'hat'");
    put_text("l.json", "{\"tensors\":{\"a\":[-1]}}");
    ck_assert_int_eq(load("l.json"), -1);
    says("tensors.a[0] is -1");
    put_text("l.json", "{\"tensors\":[]}");
    ck_assert_int_eq(load("l.json"), -1);
    says("names no tensors");
    end();
}
END_TEST

static void names(const char *text)
{
    put_text("names.json", text);
}

START_TEST(patterns_of_the_user_come_first)
{
    begin();
    put_text("l.json", LIST);
    names(
        "{\"patterns\":[{\"match\":\"mask\",\"role\":\"buffer\"},"
        "{\"match\":\"net.*.w2\",\"role\":\"head\"},{\"match\":\"net.1.*\",\"unit\":\"tail#\"}]}");
    ck_assert_msg(load_with("l.json", "names.json", false) == 0, "%s", e.msg);
    ck_assert_uint_eq(m.total_params, 40 + 2 * 52);
    ck_assert(find("net.0.w2")->role == ROLE_HEAD);
    ck_assert_uint_eq(m.matrix_tensors, 2);
    ck_assert_str_eq(m.units[find("net.1.w1")->unit].name, "tail1");
    ck_assert_str_eq(m.units[find("net.1.w2")->unit].name, "layers.1"); /* its pattern came first */
    names("{\"patterns\":[{\"match\":\"*.w9\",\"role\":\"head\"}]}");
    ck_assert_int_eq(load_with("l.json", "names.json", false), -1);
    says("patterns[0].match is '*.w9', which no tensor's name matches");
    names("{\"patterns\":[{\"match\":\"*\",\"role\":\"matrx\"}]}");
    ck_assert_int_eq(load_with("l.json", "names.json", false), -1);
    says("(did you mean 'matrix'?)");
    names("{\"patterns\":[{\"match\":\"*\"}]}");
    ck_assert_int_eq(load_with("l.json", "names.json", false), -1);
    says("neither role nor unit");
    names("{\"pattern\":[]}");
    ck_assert_int_eq(load_with("l.json", "names.json", false), -1);
    says("(did you mean 'patterns'?)");
    put_text("config.json", CONFIG);
    names("{}");
    ck_assert_int_eq(load_with("config.json", "names.json", false), -1);
    says("--names is for lists of tensors");
    end();
}
END_TEST

START_TEST(active_experts_are_asked_for)
{
    static const char list[] = "{\"tensors\":{\"model.layers.0.mlp.gate.weight\":[2,4],"
                               "\"model.layers.0.mlp.experts.0.gate_proj.weight\":[6,4],"
                               "\"model.layers.0.mlp.experts.0.up_proj.weight\":[6,4],"
                               "\"model.layers.0.mlp.experts.0.down_proj.weight\":[4,6],"
                               "\"model.layers.0.mlp.experts.1.gate_proj.weight\":[6,4],"
                               "\"model.layers.0.mlp.experts.1.up_proj.weight\":[6,4],"
                               "\"model.layers.0.mlp.experts.1.down_proj.weight\":[4,6],"
                               "\"model.layers.0.post_attention_layernorm.weight\":[4]}}";

    begin();
    put_text("l.json", list);
    ck_assert_int_eq(load("l.json"), -1);
    says("active_experts");
    names("{\"active_experts\":1}");
    ck_assert_msg(load_with("l.json", "names.json", false) == 0, "%s", e.msg);
    ck_assert_uint_eq(m.active_params, m.total_params - 3 * 24);
    end();
}
END_TEST

START_TEST(stars_match_any_characters)
{
    static const struct {
        const char *pattern, *name;
        bool matches;
    } rows[] = {{"a", "a", true},         {"a", "ab", false},       {"*", "", true},
                {"*", "x.y", true},       {"a*c", "abc", true},     {"a*c", "abcd", false},
                {"*.w*", "x.y.w1", true}, {"*a*b*", "xaxxb", true}, {"*a*b*", "xbxa", false},
                {"**", "x", true},        {"", "", true},           {"", "x", false}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        ck_assert_msg(name_matches(rows[i].pattern, rows[i].name) == rows[i].matches, "%s %s",
                      rows[i].pattern, rows[i].name);
}
END_TEST

SUITE_MAIN("model/tensors", a_list_gives_the_model_of_its_config,
           fused_qkv_of_a_llama_body_is_160_matrices, a_header_has_the_shapes,
           names_may_have_spaces_and_any_letters, broken_headers_are_refused_with_file_and_tensor,
           twenty_thousand_tensors_are_no_matter, a_hundred_megabytes_are_no_matter,
           packed_weights_are_recognised, an_index_takes_shapes_from_its_shards,
           an_index_alone_has_names, a_config_beside_gives_shapes_or_heads,
           broken_indices_are_refused, a_plain_list_is_grouped_by_its_names,
           patterns_of_the_user_come_first, active_experts_are_asked_for,
           stars_match_any_characters, half_an_encoder_decoder_is_parts,
           berts_ends_need_what_they_stand_on, relative_positions_tell_the_heads,
           berts_old_names_of_norms)
