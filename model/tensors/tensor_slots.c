/* From the name of a tensor to its slot, by the names of the families that config.json files describe. */
#include "model/tensors/tensor_slots.h"

#include "model/tensors/tensors.h"

#include <stdio.h>
#include <string.h>

/* Names that are looked at to find the family: the others say the same of further layers and experts. */
enum { SAMPLE = 500 };

bool slots_layer(const char *name, struct name_parts *out)
{
    memset(out, 0, sizeof(*out));
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "."), digits = strspn(p, "0123456789");

        if (n && digits == n && n < 7 && p > name && p[n] == '.') {
            out->container = (size_t)(p - 1 - name);
            for (size_t i = 0; i < n; i++)
                out->number = 10 * out->number + (uint32_t)(p[i] - '0');
            out->rest = p + n + 1;
            return true;
        }
        p += n + (p[n] == '.');
    }
    return false;
}

/* `name` is `of` and its end: ".weight", ".bias", or nothing where `of` is a whole name. */
static bool is_named(const char *name, const char *of, bool *is_bias)
{
    size_t n;

    *is_bias = false;
    if (*of == '=')
        return !strcmp(name, of + 1);
    if (*of != *name) /* most are told apart here */
        return false;
    n = strlen(of);
    if (strncmp(name, of, n) != 0)
        return false;
    *is_bias = !strcmp(name + n, ".bias");
    return *is_bias || !strcmp(name + n, ".weight");
}

/* "experts.*.up_proj" against "experts.17.up_proj.weight" */
static bool is_expert(const char *name, const char *of, int32_t *expert, bool *is_bias)
{
    const char *star = strchr(of, '*');
    char *end;
    unsigned long v;
    size_t n;

    if (!star) {
        *expert = SLOTS_STACKED;
        return is_named(name, of, is_bias);
    }
    n = (size_t)(star - of);
    if (strncmp(name, of, n) != 0 || name[n] < '0' || name[n] > '9')
        return false;
    v = strtoul(name + n, &end, 10);
    if (v >= 1 << 16)
        return false;
    *expert = (int32_t)v;
    return is_named(end, star + 1, is_bias);
}

static bool in_table(const struct hf_names *names, const char *rest, struct slot_match *out)
{
    for (int s = 0; s < SLOT_N; s++) {
        out->slot = (enum tensor_slot)s;
        out->expert = -1;
        if (names->of[s] && is_named(rest, names->of[s], &out->is_bias))
            return true;
        if (names->experts[s] && is_expert(rest, names->experts[s], &out->expert, &out->is_bias))
            return true;
        out->is_bias = true;
        if (names->expert_biases[s] && *names->expert_biases[s] == '=' &&
            !strcmp(rest, names->expert_biases[s] + 1)) {
            out->expert = SLOTS_STACKED;
            return true;
        }
    }
    return false;
}

static bool of_ends(enum tensor_slot s)
{
    return s == SLOT_TOKEN_EMBEDDING || s == SLOT_POSITION || s == SLOT_EMBED_NORM ||
           s == SLOT_PROJECT_IN || s == SLOT_PROJECT_OUT || s == SLOT_FINAL_NORM ||
           s == SLOT_HEAD || s == SLOT_TOKEN_TYPE || s == SLOT_ENCODER_NORM ||
           s == SLOT_TRANSFORM || s == SLOT_TRANSFORM_NORM || s == SLOT_POOLER || s == SLOT_NEXT;
}

/* Outside layers the family's name may stand behind a prefix: "language_model.model.norm" is "model.norm", and so is
 * "model.language_model.norm". */
static bool at_the_end(const struct hf_names *names, const char *name, struct slot_match *out)
{
    const char *inner = strstr(name, "language_model.");

    for (const char *p = name; p; p = strchr(p, '.') ? strchr(p, '.') + 1 : NULL)
        for (int s = 0; s < SLOT_N; s++) {
            const char *of = of_ends((enum tensor_slot)s) ? names->of[s] : NULL;

            if (of && (is_named(p, of, &out->is_bias) ||
                       (inner && p > inner && !strncmp(of, "model.", 6) &&
                        is_named(p, of + 6, &out->is_bias)))) {
                out->slot = (enum tensor_slot)s;
                out->expert = -1;
                return true;
            }
        }
    return false;
}

bool slots_in_decoder(const struct hf_names *names, const char *name, const struct name_parts *p)
{
    size_t n = names->decoder_layers ? strlen(names->decoder_layers) : 0;

    return n && p->container >= n && !strncmp(name + p->container - n, names->decoder_layers, n);
}

bool slots_match(const struct hf_names *names, const char *name, struct slot_match *out)
{
    struct name_parts parts;

    if (!slots_layer(name, &parts))
        return at_the_end(names, name, out) || (names->also && at_the_end(names->also, name, out));
    if (slots_in_decoder(names, name, &parts) && in_table(names->also, parts.rest, out))
        return true;
    if (in_table(names, parts.rest, out) && !of_ends(out->slot))
        return true;
    return names->also && !names->decoder_layers && in_table(names->also, parts.rest, out) &&
           !of_ends(out->slot);
}

const struct hf_family *slots_family(const struct tensor_list *l)
{
    const struct hf_family *best = NULL;
    size_t most = 0;

    for (const struct hf_family *const *g = hf_groups; *g; g++)
        for (const struct hf_family *f = *g; f->type; f++) {
            struct slot_match x;
            size_t n = 0, step = l->n / SAMPLE + 1;

            if (f > *g && f->names == f[-1].names)
                continue;
            for (size_t i = 0; i < l->n; i += step)
                n += slots_match(f->names, l->v[i].name, &x);
            if (n > most) {
                most = n;
                best = f;
            }
        }
    return best;
}
