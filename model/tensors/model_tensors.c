/* A model from a list of tensors: which unit each is in, in which order, and of which class the units are. */
#include "model/tensors/tensor_block.h"
#include "model/tensors/tensor_slots.h"

#include <stdio.h>
#include <string.h>

struct reading {
    const struct tensor_list *l;
    struct name_patterns *p;
    const struct hf_family *fam; /* whose names they are, or NULL */
    struct arena *a;
    struct model *m;
    struct item *items; /* owned [n] */
    size_t n, cap;
    const char *main; /* container of the layers that are the model */
    size_t n_main;
    const char *unit; /* name of the last layer met: runs of tensors are of one */
    uint32_t unit_number;
    uint64_t hidden, embed_dim; /* embed_dim: of narrower token tables, or 0 */
    uint64_t heads;             /* that relative positions tell, or 0 */
    bool learned, two;          /* two: an encoder and its decoder */
    struct model_builder b;
    uint32_t n_generic, n_classes;
    struct signature { /* classes so far: first item of an example */
        size_t first, n;
        const char *name;
    } * classes; /* owned */
    size_t cap_classes;
};

/* ---- roles ---- */

static bool has_word(const char *name, const char *word)
{
    return strstr(name, word) != NULL;
}

static enum tensor_role role_of(const struct item *x)
{
    const char *name = x->t->name;
    bool wide = x->t->n_dims > 1;

    switch (x->slot) {
    case SLOT_TOKEN_EMBEDDING:
        return ROLE_EMBEDDING;
    case SLOT_POSITION:
    case SLOT_RELATIVE:
        return ROLE_POSITION;
    case SLOT_TOKEN_TYPE:
        return ROLE_EMBEDDING;
    case SLOT_HEAD:
    case SLOT_NEXT:
        return x->is_bias ? ROLE_BIAS : ROLE_HEAD;
    case SLOT_ROUTER:
    case SLOT_SHARED_ROUTER:
        return x->is_bias ? ROLE_BIAS : ROLE_ROUTER;
    case SLOT_ROUTER_CORRECTION:
        return ROLE_BIAS;
    case SLOT_SINK:
    case SLOT_DT:
    case SLOT_A:
    case SLOT_D:
        return ROLE_OTHER;
    case SLOT_OTHER:
        break;
    case SLOT_NORM1:
    case SLOT_NORM2:
    case SLOT_NORM1_POST:
    case SLOT_NORM2_POST:
    case SLOT_EMBED_NORM:
    case SLOT_FINAL_NORM:
    case SLOT_Q_NORM:
    case SLOT_K_NORM:
    case SLOT_Q_A_NORM:
    case SLOT_KV_A_NORM:
    case SLOT_INDEX_K_NORM:
    case SLOT_MIXER_NORM:
    case SLOT_ROUTER_NORM:
    case SLOT_EXPERTS_NORM:
    case SLOT_EXPERTS_NORM_POST:
    case SLOT_SHARED_NORM_POST:
    case SLOT_CROSS_NORM:
    case SLOT_ENCODER_NORM:
    case SLOT_TRANSFORM_NORM:
        return x->is_bias ? ROLE_BIAS : ROLE_NORM;
    default:
        return x->is_bias ? ROLE_BIAS : x->expert != -1 ? ROLE_EXPERT : ROLE_MATRIX;
    }
    if (x->is_bias || name_matches("*.bias", name) || name_matches("*_bias", name))
        return ROLE_BIAS;
    if (x->expert != -1)
        return ROLE_EXPERT;
    if (has_word(name, "norm") || has_word(name, ".ln_") || has_word(name, "layernorm"))
        return ROLE_NORM;
    if (has_word(name, "position_embedding"))
        return ROLE_POSITION;
    if (name_matches("*embed*.weight", name) && !has_word(name, "patch"))
        return ROLE_EMBEDDING;
    return wide || !x->t->n_dims ? ROLE_MATRIX : ROLE_OTHER;
}

static int role_named(const char *name, enum tensor_role *role)
{
    for (int r = 0; r < ROLE_N; r++)
        if (!strcmp(name, tensor_role_name((enum tensor_role)r))) {
            *role = (enum tensor_role)r;
            return 0;
        }
    return -1;
}

/* ---- units ---- */

static enum place end_of(enum tensor_slot s)
{
    switch (s) {
    case SLOT_TOKEN_EMBEDDING:
    case SLOT_POSITION:
    case SLOT_EMBED_NORM:
    case SLOT_PROJECT_IN:
    case SLOT_TOKEN_TYPE:
        return AT_EMBED;
    case SLOT_ENCODER_NORM:
        return AT_BRIDGE;
    case SLOT_FINAL_NORM:
    case SLOT_HEAD:
    case SLOT_PROJECT_OUT:
    case SLOT_TRANSFORM:
    case SLOT_TRANSFORM_NORM:
    case SLOT_POOLER:
    case SLOT_NEXT:
        return AT_HEAD;
    default:
        return AT_OTHER;
    }
}

/* A unit by name: "embed", "head", "layers.N", or one of its own. */
static void put_into(struct item *x, const char *unit)
{
    static const struct {
        const char *before;
        enum place place;
    } stacks[] = {{"layers.", AT_LAYER}, {"encoder.", AT_ENCODER}, {"decoder.", AT_LAYER}};
    unsigned long n;
    char *end;

    x->unit = unit;
    x->place = AT_OTHER;
    if (!strcmp(unit, "embed"))
        x->place = AT_EMBED;
    else if (!strcmp(unit, "head"))
        x->place = AT_HEAD;
    else if (!strcmp(unit, "bridge"))
        x->place = AT_BRIDGE;
    for (size_t i = 0; i < sizeof(stacks) / sizeof(stacks[0]); i++) {
        size_t k = strlen(stacks[i].before);

        if (strncmp(unit, stacks[i].before, k) != 0 || unit[k] < '0' || unit[k] > '9')
            continue;
        n = strtoul(unit + k, &end, 10);
        if (!*end && n < 1000000) {
            x->place = stacks[i].place;
            x->number = (uint32_t)n;
        }
    }
}

static void place(struct reading *r, struct item *x)
{
    struct name_parts parts;
    const char *name = x->t->name;

    x->place = end_of(x->slot);
    if (x->place != AT_OTHER) {
        x->unit = x->place == AT_EMBED ? "embed" : x->place == AT_BRIDGE ? "bridge" : "head";
        return;
    }
    if (!slots_layer(name, &parts)) {
        x->unit = "other";
        return;
    }
    if (r->fam && r->fam->names->decoder_layers &&
        (slots_in_decoder(r->fam->names, name, &parts) || x->slot != SLOT_OTHER)) {
        bool decoder = slots_in_decoder(r->fam->names, name, &parts);

        x->place = decoder ? AT_LAYER : AT_ENCODER;
        x->number = parts.number;
        x->unit = arena_printf(r->a, "%scoder.%u", decoder ? "de" : "en", (unsigned)parts.number);
        return;
    }
    if (parts.container == r->n_main && !strncmp(name, r->main, r->n_main)) {
        x->place = AT_LAYER;
        x->number = parts.number;
        if (!r->unit || r->unit_number != parts.number)
            r->unit = arena_printf(r->a, "layers.%u", (unsigned)parts.number);
        r->unit_number = parts.number;
        x->unit = r->unit;
        return;
    }
    x->unit = arena_printf(r->a, "%.*s.%u", (int)parts.container, name, (unsigned)parts.number);
    x->slot = SLOT_OTHER; /* of another part: no block of the model */
    x->expert = -1;
}

/* The container with the most elements (tensors, when there are no shapes) holds the layers of the model. */
static void find_main(struct reading *r)
{
    struct container {
        const char *name;
        size_t len;
        double size;
    } *v = NULL, *best = NULL;
    size_t n = 0, cap = 0;

    for (size_t i = 0; i < r->l->n; i++) {
        const struct file_tensor *t = &r->l->v[i];
        struct name_parts p;
        size_t k = n;
        double size = 1;

        if (!slots_layer(t->name, &p))
            continue;
        while (k-- > 0)
            if (v[k].len == p.container && !strncmp(v[k].name, t->name, p.container))
                break;
        if (k == SIZE_MAX) {
            v = mem_grow(v, &cap, n + 1, sizeof(*v));
            k = n++;
            v[k] = (struct container){.name = t->name, .len = p.container};
        }
        for (uint32_t d = 0; d < t->n_dims; d++)
            size *= (double)t->shape[d];
        v[k].size += size;
    }
    for (size_t k = 0; k < n; k++)
        if (!best || v[k].size > best->size)
            best = &v[k];
    r->main = best ? best->name : "";
    r->n_main = best ? best->len : SIZE_MAX;
    mem_free(v);
}

/* ---- items ---- */

static bool user_says(struct reading *r, struct item *x, const char **role)
{
    *role = x->t->role;
    if (x->t->unit)
        put_into(x, x->t->unit);
    for (size_t i = 0; r->p && i < r->p->n; i++) {
        struct name_pattern *p = &r->p->v[i];

        if (!name_matches(p->match, x->t->name))
            continue;
        p->used = true;
        if (p->role)
            *role = p->role;
        if (p->unit) {
            struct name_parts parts;
            const char *hash = strchr(p->unit, '#');

            put_into(x, hash && slots_layer(x->t->name, &parts)
                            ? arena_printf(r->a, "%.*s%u%s", (int)(hash - p->unit), p->unit,
                                           (unsigned)parts.number, hash + 1)
                            : p->unit);
        }
        return true;
    }
    return false;
}

static struct item *add_item(struct reading *r, const struct item *x)
{
    r->items = mem_grow(r->items, &r->cap, r->n + 1, sizeof(*r->items));
    r->items[r->n] = *x;
    return &r->items[r->n++];
}

/* Experts of a stacked tensor become items of their own. */
static int add_stacked(struct reading *r, struct item *x, struct err *e)
{
    const struct file_tensor *t = x->t;
    uint64_t n = t->shape[0];

    if (n > 1 << 16 || t->n_dims < 2)
        return err_set(
            e, ERR_INVALID,
            "'%.200s': tensor '%.200s' stacks experts, but its first dimension is %llu of "
            "%u",
            r->l->file, t->name, (unsigned long long)n, t->n_dims);
    for (uint64_t i = 0; i < n; i++) {
        struct file_tensor *part = ARENA_NEW(r->a, struct file_tensor, 1);

        *part = *t;
        part->name = arena_printf(r->a, "%s[%llu]", t->name, (unsigned long long)i);
        part->n_dims--;
        memmove(part->shape, t->shape + 1, part->n_dims * sizeof(part->shape[0]));
        x->t = part;
        x->expert = (int32_t)i;
        add_item(r, x);
    }
    return 0;
}

static int read_item(struct reading *r, size_t i, struct err *e)
{
    const struct file_tensor *t = &r->l->v[i];
    struct item x = {.t = t, .slot = SLOT_OTHER, .expert = -1};
    struct slot_match s;
    const char *role;

    if (r->fam && slots_match(r->fam->names, t->name, &s)) {
        x.slot = s.slot;
        x.is_bias = s.is_bias;
        x.expert = s.expert;
    } else if (t->n_dims == 3 && has_word(t->name, "experts")) {
        x.expert = SLOTS_STACKED;
    }
    place(r, &x);
    x.role = role_of(&x);
    user_says(r, &x, &role);
    if (role && !strcmp(role, "buffer"))
        return 0;
    if (role && role_named(role, &x.role))
        return err_set(e, ERR_UNKNOWN, "'%.200s': tensor '%.200s' has the unknown role '%.40s'",
                       r->l->file, t->name, role);
    if (x.expert == SLOTS_STACKED && r->l->has_shapes)
        return add_stacked(r, &x, e);
    if (x.expert == SLOTS_STACKED)
        x.expert = -1;
    add_item(r, &x);
    return 0;
}

static int by_unit(const void *p, const void *q)
{
    const struct item *x = p, *y = q;
    int names;

    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    if ((x->place == AT_LAYER || x->place == AT_ENCODER) && x->number != y->number)
        return x->number < y->number ? -1 : 1;
    if (x->unit != y->unit) { /* most share the text */
        names = strcmp(x->unit, y->unit);
        if (names)
            return names;
    }
    if (x->expert != y->expert)
        return x->expert < y->expert ? -1 : 1;
    if (x->slot != y->slot)
        return x->slot < y->slot ? -1 : 1;
    if (x->is_bias != y->is_bias)
        return x->is_bias ? 1 : -1;
    return strcmp(x->t->name, y->t->name);
}

/* ---- classes ---- */

static bool same_tensors(const struct item *x, const struct item *y, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (x[i].slot != y[i].slot || x[i].role != y[i].role || x[i].is_bias != y[i].is_bias ||
            x[i].expert != y[i].expert || x[i].t->n_dims != y[i].t->n_dims ||
            memcmp(x[i].t->shape, y[i].t->shape, sizeof(x[i].t->shape)) != 0)
            return false;
    return true;
}

/* The name of the class of items[first .. first+n): that of an equal unit before, or a new one. */
static const char *class_name(struct reading *r, size_t first, size_t n, const char *base)
{
    size_t same_base = 0;

    for (uint32_t i = 0; i < r->n_classes; i++) {
        struct signature *s = &r->classes[i];

        if (strncmp(s->name, base, strlen(base)) != 0)
            continue;
        same_base++;
        if (s->n == n && same_tensors(r->items + s->first, r->items + first, n))
            return s->name;
    }
    r->classes = mem_grow(r->classes, &r->cap_classes, r->n_classes + 1, sizeof(*r->classes));
    r->classes[r->n_classes] = (struct signature){
        first, n, same_base ? arena_printf(r->a, "%s.%zu", base, same_base + 1) : base};
    return r->classes[r->n_classes++].name;
}

static struct unit_class class_of(struct reading *r, size_t first, size_t n)
{
    const struct item *v = r->items + first;
    bool bert = r->fam && (r->fam->traits & HF_ENCODER) && !r->fam->names->decoder_layers;
    struct unit_class c = {.hidden = r->hidden, .causal = true, .tied = r->m->tied};
    const struct item *norm = block_slot(v, n, SLOT_NORM1, true), *head;

    c.position = r->two ? POSITION_RELATIVE : r->learned ? POSITION_LEARNED : POSITION_ROPE;
    if (r->two)
        c.stack = v->place <= AT_ENCODER ? STACK_ENCODER : STACK_DECODER;
    c.norm = norm || block_slot(v, n, SLOT_FINAL_NORM, true) ? NORM_LAYER : NORM_RMS;
    if (v->place == AT_EMBED || v->place == AT_HEAD || v->place == AT_BRIDGE) {
        c.kind = v->place == AT_EMBED ? UNIT_EMBED : v->place == AT_HEAD ? UNIT_HEAD : UNIT_BRIDGE;
        c.name = v->place == AT_EMBED ? "embed" : v->place == AT_HEAD ? "head" : "bridge";
        head = v->place == AT_HEAD ? block_slot(v, n, SLOT_HEAD, false) : NULL;
        c.vocab = head ? block_across(head, r->embed_dim ? r->embed_dim : r->hidden) : r->m->vocab;
        c.embed_dim = r->embed_dim;
        return c;
    }
    c.kind = UNIT_LAYER;
    if (bert || v->place == AT_ENCODER)
        c.causal = false;
    c.norm_after_add = bert;
    if ((v->place == AT_LAYER || v->place == AT_ENCODER) &&
        block_known(&c, v, n, r->hidden, r->p ? r->p->active_experts : 0, r->heads)) {
        c.name = class_name(r, first, n,
                            !r->two                  ? c.n_experts ? "moe-layer" : "layer"
                            : v->place == AT_ENCODER ? "encoder-layer"
                                                     : "decoder-layer");
        return c;
    }
    c = (struct unit_class){.kind = UNIT_LAYER,
                            .hidden = r->hidden,
                            .causal = true,
                            .tied = r->m->tied,
                            .mixer = MIXER_UNKNOWN,
                            .stack = c.stack};
    r->n_generic++;
    c.name = class_name(r, first, n,
                        v->place != AT_LAYER && v->place != AT_ENCODER ? "part"
                        : r->m->names_only                             ? "layer"
                                                                       : "unknown-layer");
    return c;
}

/* ---- sizes ---- */

static const struct item *first_of(const struct reading *r, enum tensor_slot s, enum place at)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->items[i].slot == s && !r->items[i].is_bias && r->items[i].place == at)
            return &r->items[i];
    return NULL;
}

/* The hidden size: of the final norm, the token table, a layer's first norm, else of the first matrix. */
static void sizes(struct reading *r)
{
    const struct item *embed = first_of(r, SLOT_TOKEN_EMBEDDING, AT_EMBED);
    const struct item *norm = first_of(r, SLOT_FINAL_NORM, AT_HEAD), *x = norm;
    const struct item *position = first_of(r, SLOT_POSITION, AT_EMBED);

    if (!x)
        x = first_of(r, SLOT_NORM1, AT_LAYER);
    r->hidden = x && x->t->n_dims == 1 ? x->t->shape[0] : 0;
    if (!r->hidden && embed && embed->t->n_dims == 2)
        r->hidden = embed->t->shape[1];
    for (size_t i = 0; i < r->n && !r->hidden; i++)
        if (r->items[i].t->n_dims)
            r->hidden = r->items[i].t->shape[r->items[i].t->n_dims - 1];
    if (embed && embed->t->n_dims == 2)
        r->m->vocab = embed->t->shape[0];
    if (position && position->t->n_dims == 2) {
        r->m->max_seq_len = position->t->shape[0];
        r->learned = true;
    }
    if (embed && embed->t->n_dims == 2 && first_of(r, SLOT_PROJECT_IN, AT_EMBED) &&
        first_of(r, SLOT_PROJECT_OUT, AT_HEAD))
        r->embed_dim = embed->t->shape[1];
    r->m->hidden = r->hidden;
    /* a pooler without words on it ends a model that has no head */
    r->m->tied = embed && !first_of(r, SLOT_HEAD, AT_HEAD) &&
                 (!first_of(r, SLOT_POOLER, AT_HEAD) || first_of(r, SLOT_TRANSFORM, AT_HEAD));
    for (enum place at = AT_ENCODER; at <= AT_LAYER; at++)
        if (first_of(r, SLOT_RELATIVE, at) && !r->heads)
            r->heads = first_of(r, SLOT_RELATIVE, at)->t->shape[1];
}

/* What BERT's ends need of a tensor of theirs: its shape, its weight where it is a bias, what it stands on. */
static bool end_fits(const struct reading *r, const struct item *x)
{
    bool pooler = first_of(r, SLOT_POOLER, AT_HEAD), words = first_of(r, SLOT_TRANSFORM, AT_HEAD);
    uint64_t rows = x->t->shape[0], cols = x->t->shape[1];

    switch (x->slot) {
    case SLOT_TOKEN_TYPE:
        return !x->is_bias && x->t->n_dims == 2 && cols == r->hidden;
    case SLOT_POOLER:
    case SLOT_TRANSFORM:
        return x->is_bias ? first_of(r, x->slot, AT_HEAD) != NULL
                          : x->t->n_dims == 2 && rows == r->hidden && cols == r->hidden;
    case SLOT_TRANSFORM_NORM:
        return words && first_of(r, x->slot, AT_HEAD);
    case SLOT_NEXT:
        return pooler && words && first_of(r, x->slot, AT_HEAD) &&
               (x->is_bias || (x->t->n_dims == 2 && rows == 2 && cols == r->hidden));
    case SLOT_HEAD:
        return !x->is_bias || r->m->tied || first_of(r, SLOT_HEAD, AT_HEAD);
    default:
        return true;
    }
}

/* Units of words need what their graph needs: else their tensors are a part like others. */
static void check_ends(struct reading *r)
{
    const struct item *embed = first_of(r, SLOT_TOKEN_EMBEDDING, AT_EMBED);
    const struct item *head = first_of(r, SLOT_HEAD, AT_HEAD);
    uint64_t width = r->embed_dim ? r->embed_dim : r->hidden;
    bool embed_ok = embed && block_across(embed, width) == r->m->vocab && r->m->vocab;
    bool head_ok = embed_ok && (!head || block_across(head, width)); /* of tokens, or of scores */
    bool two = first_of(r, SLOT_ENCODER_NORM, AT_BRIDGE) && embed_ok && !r->embed_dim && r->heads &&
               first_of(r, SLOT_Q, AT_ENCODER) && first_of(r, SLOT_CROSS_Q, AT_LAYER);

    for (size_t i = 0; i < r->n; i++) {
        embed_ok &= r->items[i].place != AT_EMBED || end_fits(r, &r->items[i]);
        head_ok &= r->items[i].place != AT_HEAD || end_fits(r, &r->items[i]);
    }
    head_ok &= embed_ok;
    two &= embed_ok;
    for (size_t i = 0; i < r->n; i++) {
        struct item *x = &r->items[i];
        bool cross = x->place == AT_LAYER && r->fam && r->fam->names->decoder_layers;

        if ((x->place == AT_EMBED && !embed_ok) || (x->place == AT_HEAD && !head_ok)) {
            x->place = AT_OTHER;
            x->slot = SLOT_OTHER;
        }
        if (!two && (x->place == AT_ENCODER || x->place == AT_BRIDGE || cross)) { /* one of both */
            x->place = AT_OTHER;
            x->slot = SLOT_OTHER;
        }
    }
    r->two = two;
    if (!embed_ok || !head_ok)
        r->m->tied = false;
    if (!embed_ok) {
        r->m->vocab = 0;
        r->embed_dim = 0;
    }
}

static int check_patterns(const struct name_patterns *p, struct err *e)
{
    for (size_t i = 0; p && i < p->n; i++)
        if (!p->v[i].used)
            return err_set(e, ERR_INVALID,
                           "'%.200s': patterns[%zu].match is '%.100s', which no tensor's name "
                           "matches before an earlier pattern does",
                           p->file, i, p->v[i].match);
    return 0;
}

/* ---- the model ---- */

/* A dense MLP beside experts, each with norms of its own, is to the graph a shared expert. */
static void name_dense_beside(struct item *v, size_t n)
{
    if (!block_slot(v, n, SLOT_EXPERTS_NORM, false))
        return;
    for (size_t i = 0; i < n; i++)
        if (v[i].expert < 0)
            v[i].slot = v[i].slot == SLOT_GATE   ? SLOT_SHARED_GATE
                        : v[i].slot == SLOT_UP   ? SLOT_SHARED_UP
                        : v[i].slot == SLOT_DOWN ? SLOT_SHARED_DOWN
                                                 : v[i].slot;
}

static void add_units(struct reading *r)
{
    size_t first = 0, n;

    for (; first < r->n; first += n) {
        struct item *v = r->items + first;
        struct unit_class c;

        for (n = 1; first + n < r->n && v[n].place == v->place && !strcmp(v[n].unit, v->unit); n++)
            ;
        name_dense_beside(v, n);
        c = class_of(r, first, n);
        r->m->n_layers += c.kind == UNIT_LAYER;
        model_builder_unit(&r->b, v->unit, &c);
        for (size_t i = 0; i < n; i++)
            model_builder_tensor(&r->b, v[i].t->name, v[i].role, v[i].slot, v[i].is_bias,
                                 v[i].expert, v[i].t->n_dims, v[i].t->shape);
    }
}

static void notes(struct reading *r)
{
    const struct tensor_list *l = r->l;
    struct model *m = r->m;
    bool experts = false;

    if (l->n_buffers)
        model_note(m, r->a, "%zu buffer%s left out (rotary frequencies, masks): no parameters",
                   l->n_buffers, l->n_buffers == 1 ? "" : "s");
    if (l->quantization) {
        m->quantization = l->quantization;
        model_note(m, r->a,
                   "the checkpoint is quantised (%s): counted are the weights before packing",
                   l->quantization);
    }
    if (m->names_only)
        return;
    for (uint32_t i = 0; i < m->n_classes; i++)
        experts |= m->classes[i].n_experts && m->classes[i].n_active == m->classes[i].n_experts;
    if (experts && !(r->p && r->p->active_experts)) {
        m->incomplete = "how many experts a token meets is in no shape: give a config.json beside "
                        "it, or active_experts in --names";
        model_note(m, r->a, "how many experts a token meets is unknown: all are counted");
    }
    if (r->n_generic)
        model_note(
            m, r->a,
            "%u unit%s of no block that is known: products with weights are counted, attention "
            "is not",
            (unsigned)r->n_generic, r->n_generic == 1 ? "" : "s");
    else
        model_note(m, r->a,
                   "heads, windows and routing are in no shape: attention is counted in "
                   "full, by the width of all heads");
}

static int read_items(struct reading *r, struct err *e)
{
    find_main(r);
    for (size_t i = 0; i < r->l->n; i++)
        if (read_item(r, i, e))
            return -1;
    if (!r->n)
        return err_set(e, ERR_INVALID, "'%.300s' names no tensors that are parameters", r->l->file);
    if (check_patterns(r->p, e))
        return -1;
    sizes(r);
    if (r->l->has_shapes)
        check_ends(r);
    qsort(r->items, r->n, sizeof(*r->items), by_unit);
    return 0;
}

int model_from_tensors(const struct tensor_list *l, struct name_patterns *p, struct arena *a,
                       struct model *m, struct err *e)
{
    struct reading r = {.l = l, .p = p, .a = a, .m = m};
    int rc = -1;

    memset(m, 0, sizeof(*m));
    if (l->packed && l->has_shapes)
        return err_set(
            e, ERR_UNSUPPORTED,
            "'%.300s': '%.200s' holds packed weights (%s), whose shape does not say what "
            "was packed; give the model's config.json",
            l->file, l->packed, l->quantization);
    r.fam = slots_family(l);
    m->name = l->file;
    m->names_only = !l->has_shapes;
    m->arch = r.fam ? arena_printf(a, "tensors named as in %s", r.fam->type) : "tensors";
    model_builder_init(&r.b, m, a);
    if (read_items(&r, e))
        goto out;
    add_units(&r);
    if (model_builder_finish(&r.b, e)) {
        err_prefix(e, "'%s'", l->file);
        goto out;
    }
    if (m->names_only)
        m->total_params = l->total_parameters;
    notes(&r);
    rc = 0;
out:
    model_builder_release(&r.b);
    mem_free(r.items);
    mem_free(r.classes);
    return rc;
}
