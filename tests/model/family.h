/* tests/model/family.h - one model of a family, read from its config (tests/model/families.h), for the tests of families. */
#ifndef BALLAST_TESTS_MODEL_FAMILY_H
#define BALLAST_TESTS_MODEL_FAMILY_H

#include "core/num.h"
#include "core/strbuf.h"
#include "model/graph/graph.h"
#include "model/plan/model_load.h"
#include "tests/model/families.h"
#include "tests/suite.h"

#include <stdio.h>
#include <string.h>

static struct arena a;
static struct model m;
static struct unit_graph g;
static struct err e;

static inline void parse_with(const char *text, const struct model_options *o)
{
    arena_init(&a);
    ck_assert_msg(model_from_config_with(text, strlen(text), "t.json", o, &a, &m, &e) == 0, "%s",
                  e.msg);
}

static inline void parse(const char *text)
{
    parse_with(text, &(struct model_options){0});
}

static inline void family(const char *name)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (!strcmp(families[i].name, name)) {
            parse(families[i].config);
            return;
        }
    ck_abort_msg("no family '%s'", name);
}

static inline const struct tensor *find(const char *name)
{
    for (uint32_t i = 0; i < m.n_tensors; i++)
        if (!strcmp(m.tensors[i].name, name))
            return &m.tensors[i];
    return NULL;
}

static inline void shape_is(const char *name, uint64_t d0, uint64_t d1)
{
    const struct tensor *t = find(name);

    ck_assert_msg(t != NULL, "%s: no '%s'", m.arch, name);
    ck_assert_uint_eq(t->shape[0], d0);
    ck_assert_uint_eq(t->n_dims, d1 ? 2 : 1);
    if (d1)
        ck_assert_uint_eq(t->shape[1], d1);
}

/* Is it multiplied with a sequence's first token alone? A pooler, and what stands on it. */
static inline bool once_a_sequence(const struct unit *u, const struct tensor *t)
{
    bool pooler = false, words = false;

    for (uint32_t i = u->first; i < u->first + u->n; i++) {
        pooler |= m.tensors[i].slot == SLOT_POOLER;
        words |= m.tensors[i].slot == SLOT_TRANSFORM;
    }
    return pooler &&
           (t->slot == SLOT_POOLER || t->slot == SLOT_NEXT || (t->slot == SLOT_HEAD && !words));
}

/* Elements that a token is multiplied with: matrices, router and head; of experts the active ones. */
static inline uint64_t met(const struct unit *u, const struct unit_class *c)
{
    uint64_t sum = 0;

    for (uint32_t i = u->first; i < u->first + u->n; i++) {
        const struct tensor *t = &m.tensors[i];
        bool product = t->role == ROLE_MATRIX || t->role == ROLE_EXPERT || t->role == ROLE_ROUTER ||
                       t->role == ROLE_HEAD;

        if (once_a_sequence(u, t))
            continue;
        if (product && t->slot != SLOT_CONV && t->expert < (int32_t)(c->n_active ? c->n_active : 1))
            sum += t->numel;
    }
    if (c->kind == UNIT_HEAD && m.tied)
        sum += m.vocab * (c->embed_dim ? c->embed_dim : c->hidden);
    return sum;
}

static inline uint32_t class_named(const char *name)
{
    for (uint32_t i = 0; i < m.n_classes; i++)
        if (!strcmp(m.classes[i].name, name))
            return i;
    ck_abort_msg("no class '%s'", name);
    return 0;
}

/* Forward FLOPs of the kernels called `kernel` in one sequence of `seq` tokens. */
static inline uint64_t flops(const char *class_name, enum kernel kernel, uint64_t seq)
{
    uint64_t sum = 0;

    MUST(graph_build(&m, class_named(class_name),
                     &(struct graph_batch){.micro_batch = 1, .seq_len = seq}, DTYPE_BF16, &g,
                     &e) == 0,
         "%s", e.msg);
    for (uint32_t i = 0; i < g.n_ops; i++)
        sum += g.ops[i].forward.kernel == kernel ? g.ops[i].forward.flops : 0;
    return sum;
}

#endif
