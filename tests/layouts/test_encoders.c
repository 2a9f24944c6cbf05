/* A model of two stacks as a program: what one unit makes for many later ones, how long it is held, and who adds to its gradient. */
#include "core/json.h"
#include "layouts/step.h"
#include "planner/planner.h"
#include "tests/layouts/plans.h"

static struct arena a;
static struct plan plan;
static struct program prog;
static struct err e;

/* plans_t5: 3 layers and 2, hidden 24, 3 heads; units are embed, encoder 1 to 3, bridge, decoder 5 and 6, head */
enum { BRIDGE = 4, LAST = 6, HIDDEN = 24, HEADS = 3, SEQ = 32, MICRO = 2, TARGET = PLANS_TARGET };

static void lower(const char *model, const char *layout, enum recompute r)
{
    struct job j = plans_job();

    j.recompute = r;
    arena_init(&a);
    plans_make(&plan, &a, model, layout, &j, 3, 4);
    plans_lower(&plan, &a, &prog);
}

static uint32_t buffer(const char *name)
{
    for (uint32_t b = 0; b < prog.n_buffers; b++)
        if (!strcmp(prog.buffers[b].name, name))
            return b;
    ck_abort_msg("no buffer '%s'", name);
    return 0;
}

struct seen {
    uint32_t buffer;
    int reserved, released; /* how often */
    struct instance at, until;
    enum phase at_phase, until_phase;
    int reads, writes, adds;
};

static int look(void *ctx, const struct instance *i)
{
    struct seen *s = ctx;
    const struct op *o = &prog.ops[i->op];

    for (uint32_t k = 0; k < o->n_lives; k++) {
        if (o->lives[k].buffer != s->buffer)
            continue;
        if (o->lives[k].release) {
            s->released++;
            s->until = *i;
            s->until_phase = o->phase;
        } else {
            s->reserved++;
            s->at = *i;
            s->at_phase = o->phase;
        }
    }
    for (uint32_t k = 0; k < o->n_operands; k++)
        if (o->operands[k].buffer == s->buffer) {
            s->reads += o->operands[k].access == ACCESS_READ;
            s->writes += o->operands[k].access == ACCESS_WRITE;
            s->adds += o->operands[k].access == ACCESS_ADD;
        }
    return 0;
}

static struct seen see(const char *name)
{
    struct seen s = {.buffer = buffer(name)};

    program_walk(&prog, 0, look, &s);
    return s;
}

static void lives(const char *name, enum phase from, uint32_t unit, enum phase to, uint32_t last)
{
    struct seen s = see(name);

    MUST(s.reserved == 1 && s.released == 1, "%s: reserved %d times, released %d", name, s.reserved,
         s.released);
    MUST(s.at_phase == from && s.at.unit == unit, "%s: reserved in unit %u", name, s.at.unit);
    MUST(s.until_phase == to && s.until.unit == last, "%s: released in unit %u", name,
         s.until.unit);
}

START_TEST(what_is_carried_lives_from_its_maker_to_its_first_readers_backward)
{
    for (uint32_t l = 0; plans_name(l); l++)
        for (int r = 0; r < 3; r++) {
            struct seen s;

            lower(plans_t5, plans_name(l), (enum recompute)r);
            lives("act.encoded", PHASE_FORWARD, BRIDGE, PHASE_BACKWARD, BRIDGE + 1);
            lives("grad.encoded", PHASE_BACKWARD, LAST, PHASE_BACKWARD, BRIDGE);
            lives("act.bias", PHASE_FORWARD, 1, PHASE_BACKWARD, 1);
            lives("grad.bias", PHASE_BACKWARD, BRIDGE - 1, PHASE_BACKWARD, 1);
            lives("act.decoder_bias", PHASE_FORWARD, BRIDGE + 1, PHASE_BACKWARD, BRIDGE + 1);
            lives("grad.decoder_bias", PHASE_BACKWARD, LAST, PHASE_BACKWARD, BRIDGE + 1);
            ck_assert_uint_eq(prog.buffers[buffer("act.encoded")].bytes, 2 * MICRO * SEQ * HIDDEN);
            ck_assert_uint_eq(prog.buffers[buffer("act.bias")].bytes,
                              2 * MICRO * HEADS * SEQ * SEQ);
            ck_assert_uint_eq(prog.buffers[buffer("act.decoder_bias")].bytes,
                              2 * MICRO * HEADS * TARGET * TARGET);
            /* keys and values of both layers of the decoder add to the gradient, the norm reads the sum */
            s = see("grad.encoded");
            ck_assert_int_eq(s.adds, 2 * 2);
            ck_assert_int_eq(s.reads, 1);
            s = see("act.encoded");
            ck_assert_int_eq(s.writes, 1);
            s = see("grad.bias"); /* three layers add, the table's gradient is made of it */
            ck_assert_int_eq(s.adds, 3);
            ck_assert_int_eq(s.reads, 1);
            arena_release(&a);
        }
}
END_TEST

/* UMT5 makes biases in each layer: they are values of their units. */
START_TEST(what_each_layer_makes_is_not_carried)
{
    static const char umt5[] =
        "{\"model_type\":\"umt5\",\"vocab_size\":83,\"d_model\":24,\"d_kv\":16,\"d_ff\":52,"
        "\"num_layers\":2,\"num_heads\":3}";

    lower(umt5, "zero3+gather", RECOMPUTE_FULL);
    for (uint32_t b = 0; b < prog.n_buffers; b++)
        ck_assert_msg(prog.buffers[b].span != SPAN_MICRO ||
                          strstr(prog.buffers[b].name, "encoded") != NULL,
                      "%s", prog.buffers[b].name);
    arena_release(&a);
}
END_TEST

/* Activations when forward ends, with full recomputation, by hand: tokens of both texts; the inputs of layers, bridge and head; what
 * is carried; the head's normed input. */
struct held {
    uint64_t bytes;
    bool backward;
};

static int add_up(void *ctx, const struct instance *i)
{
    struct held *h = ctx;
    const struct op *o = &prog.ops[i->op];

    h->backward |= o->phase == PHASE_BACKWARD;
    for (uint32_t k = 0; k < o->n_lives && !h->backward; k++) {
        const struct buffer *b = &prog.buffers[o->lives[k].buffer];
        struct buffer_at at;
        uint64_t bytes;

        if (b->part != MEM_ACTIVATIONS ||
            !buffer_instance(&prog, o->lives[k].buffer, i, o->lives[k].d_unit, &at))
            continue;
        bytes = b->rule == SIZE_BY_UNIT ? b->unit_bytes[at.unit] : b->bytes;
        h->bytes += o->lives[k].release ? -bytes : bytes;
    }
    return 0;
}

START_TEST(activations_at_the_end_of_forward_by_hand)
{
    uint64_t source = 2 * MICRO * SEQ * HIDDEN, target = 2 * MICRO * TARGET * HIDDEN;
    struct held h = {0};

    lower(plans_t5, "owner", RECOMPUTE_FULL);
    program_walk(&prog, 0, add_up, &h);
    ck_assert_uint_eq(h.bytes, 8 * MICRO * (SEQ + TARGET) + (3 + 1) * source + (2 + 1) * target +
                                   source + 2 * MICRO * HEADS * (SEQ * SEQ + TARGET * TARGET) +
                                   target);
    arena_release(&a);
}
END_TEST

/* The decoder reads the encoder's table: it stays gathered, tied head or not, and its gradient is there from the first that adds to it. */
START_TEST(the_shared_table_stays_gathered_until_its_own_backward)
{
    static const char *const models[] = {plans_t5, plans_t5_gated};

    for (int m = 0; m < 2; m++) {
        uint32_t weights, units, bridge = 0;
        int reserved = 0;

        lower(models[m], "zero3+gather", RECOMPUTE_FULL);
        weights = prog.known.weights;
        units = prog.model->n_units;
        bridge = model_bridge(prog.model);
        for (uint32_t i = 0; i < prog.n_ops; i++) {
            const struct op *o = &prog.ops[i];

            if (!strcmp(o->name, "forward.release") || !strcmp(o->name, "gather.backward"))
                ck_assert(o->guard.units && !o->guard.units[0] && !o->guard.units[units - 1]);
            if (!strcmp(o->name, "forward.release"))
                ck_assert_uint_eq(o->lives[0].buffer, weights);
            if (strcmp(o->name, "backward.begin.tied") != 0)
                continue;
            reserved++;
            ck_assert_uint_eq(o->lives[0].buffer, prog.known.grads);
            ck_assert_int_eq(o->lives[0].d_unit, -(int32_t)(m ? bridge : units - 1));
            ck_assert(o->guard.units[m ? bridge : units - 1]);
        }
        ck_assert_int_eq(reserved, 1);
        arena_release(&a);
    }
}
END_TEST

/* A plan file of such a model, edited. */
START_TEST(a_plan_of_two_stacks_that_does_not_hold_together_is_refused)
{
    static const struct {
        const char *from, *to, *says;
    } rows[] = {
        {"\"target_len\":20", "\"target_len\":0", "target_len"},
        {"\"target_len\":20,", "", "a decoder beside an encoder, but job.target_len is 0"},
        {"\"kind\":\"bridge\"", "\"kind\":\"layer\"", "unit"},
        {"\"stack\":\"decoder\"", "\"stack\":\"encoder\"", "in its place"},
        {"\"cross_k\"", "\"k\"", "slot k"},
        {"\"encoder_norm\"", "\"final_norm\"", "no step that reads"},
        {"\"relative\",false", "\"other\",false", "no table of them"},
    };
    struct job j = plans_job();
    struct plan back;
    cJSON *doc;
    char *text;

    j.planner = "lpt-flops";
    arena_init(&a);
    plans_make(&plan, &a, plans_t5, "owner", &j, 3, 8);
    MUST(cluster_load("dgx-a100", &a, &plan.cluster, &e) == 0 &&
             planner_plan(&plan, NULL, &a, &e) == 0,
         "%s", e.msg);
    doc = plan_to_json(&plan);
    text = json_text(doc, false);
    MUST(plan_from_json(text, strlen(text), "p.json", &a, &back, &e) == 0, "%s", e.msg);
    ck_assert_uint_eq(back.job.target_len, TARGET);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const char *at = strstr(text, rows[i].from);
        const char *edited;

        MUST(at != NULL, "no '%s'", rows[i].from);
        edited = arena_printf(&a, "%.*s%s%s", (int)(at - text), text, rows[i].to,
                              at + strlen(rows[i].from));
        MUST(plan_from_json(edited, strlen(edited), "p.json", &a, &back, &e) == -1, "'%s' accepted",
             rows[i].to);
        MUST(strstr(e.msg, rows[i].says) != NULL, "'%s': %s", rows[i].to, e.msg);
    }
    mem_free(text);
    json_free(doc);
    arena_release(&a);
}
END_TEST

SUITE_MAIN("layouts/encoders", what_is_carried_lives_from_its_maker_to_its_first_readers_backward,
           what_each_layer_makes_is_not_carried, activations_at_the_end_of_forward_by_hand,
           the_shared_table_stays_gathered_until_its_own_backward,
           a_plan_of_two_stacks_that_does_not_hold_together_is_refused)
