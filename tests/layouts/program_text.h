/* tests/layouts/program_text.h - a program as text, for comparing two. */
#ifndef BALLAST_TESTS_LAYOUTS_PROGRAM_TEXT_H
#define BALLAST_TESTS_LAYOUTS_PROGRAM_TEXT_H

#include "core/strbuf.h"
#include "model/program/program.h"

static inline void program_show_op(const struct op *o, struct strbuf *b)
{
    const struct collective *c = &o->coll;

    strbuf_printf(b, "%u %s %d %d %d loop %u guard %d %u %d item %d %a %a %a\n", o->id, o->name,
                  o->kind, o->phase, o->stream, o->loop, o->guard.micro, o->guard.unit_class,
                  o->guard.units != NULL, o->by_item, o->item_flops_share, o->item_bytes_each,
                  o->item_bytes_row);
    strbuf_printf(b, "%d %llu %llu %llu %llu %llu %llu %u\n", o->call.kernel,
                  (unsigned long long)o->call.m, (unsigned long long)o->call.n,
                  (unsigned long long)o->call.k, (unsigned long long)o->call.batch,
                  (unsigned long long)o->call.flops, (unsigned long long)o->call.hbm_bytes,
                  o->call.launches);
    strbuf_printf(b, "coll %d %d %u %d %llu %u %llu %u %d %u %u\n", c->kind, c->rooted, c->group,
                  c->algo, (unsigned long long)c->elements, c->table, (unsigned long long)c->piece,
                  c->repeat, c->wire.dtype, c->wire.block, c->peer_op);
    for (uint32_t i = 0; i < o->n_waits; i++)
        strbuf_printf(b, "wait %u %d %d\n", o->waits[i].op, o->waits[i].d_unit,
                      o->waits[i].d_micro);
    for (uint32_t i = 0; i < o->n_lives; i++)
        strbuf_printf(b, "life %u %d %d\n", o->lives[i].buffer, o->lives[i].d_unit,
                      o->lives[i].release);
    for (uint32_t i = 0; i < o->n_operands; i++)
        strbuf_printf(b, "operand %u %u %d %d\n", o->operands[i].buffer, o->operands[i].tensor,
                      o->operands[i].access, o->operands[i].d_unit);
}

static inline void program_show_u64s(const uint64_t *v, uint32_t n, struct strbuf *b)
{
    for (uint32_t i = 0; v && i < n; i++)
        strbuf_printf(b, "%llu ", (unsigned long long)v[i]);
    strbuf_putc(b, '\n');
}

static inline void program_show_tables(const struct program *p, struct strbuf *b)
{
    for (uint32_t i = 0; i < p->n_segment_tables; i++) {
        const struct segment_table *t = &p->segment_tables[i];

        for (uint32_t k = 0; k < t->start[t->n_units]; k++)
            strbuf_printf(b, "segment %u %u %u %u %llu %llu\n", t->segments[k].root,
                          t->segments[k].to_first, t->segments[k].to_n, t->segments[k].tensor,
                          (unsigned long long)t->segments[k].offset,
                          (unsigned long long)t->segments[k].elements);
    }
    for (uint32_t i = 0; i < p->n_work_tables; i++) {
        const struct work_table *t = &p->work_tables[i];

        for (uint32_t k = 0; k < t->n_items; k++)
            strbuf_printf(b, "item %u %llu %llu %llu %llu %llu\n", t->items[k].tensor,
                          (unsigned long long)t->items[k].m, (unsigned long long)t->items[k].n,
                          (unsigned long long)t->items[k].flops,
                          (unsigned long long)t->items[k].elements,
                          (unsigned long long)t->items[k].rows);
        for (uint32_t r = 0; t->start && r <= p->world; r++)
            strbuf_printf(b, "%u ", t->start[r]);
        for (uint32_t k = 0; t->start && k < t->start[p->world]; k++)
            strbuf_printf(b, "%u ", t->list[k]);
    }
}

/* Everything that a program says, in a form that two programs can be compared in. */
static inline char *program_text(const struct program *p)
{
    uint32_t units = p->model->n_units;
    struct strbuf b;

    strbuf_init(&b);
    strbuf_printf(&b, "%u %u %u %u\n", p->world, p->distinct, p->gpus_per_node, p->n_micro);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        program_show_op(&p->ops[i], &b);
        if (p->ops[i].guard.units)
            for (uint32_t u = 0; u < units; u++)
                strbuf_printf(&b, "%d", p->ops[i].guard.units[u]);
        program_show_u64s(p->ops[i].coll.unit_elements, units, &b);
        if (p->ops[i].coll.item_elements)
            program_show_u64s(p->ops[i].coll.item_elements,
                              p->work_tables[p->loops[p->ops[i].loop].work].n_items, &b);
    }
    for (uint32_t i = 0; i < p->n_loops; i++)
        strbuf_printf(&b, "loop %d %u %u %u %u %u %d %u\n", p->loops[i].kind, p->loops[i].parent,
                      p->loops[i].first_op, p->loops[i].n_ops, p->loops[i].begin, p->loops[i].end,
                      p->loops[i].descending, p->loops[i].work);
    for (uint32_t i = 0; i < p->n_groups; i++)
        strbuf_printf(&b, "group %s %u %u %u\n", p->groups[i].name, p->groups[i].n_members,
                      p->groups[i].size[0], p->groups[i].stride[0]);
    for (uint32_t i = 0; i < p->n_buffers; i++) {
        const struct buffer *v = &p->buffers[i];

        strbuf_printf(&b, "buffer %s %d %d %d %llu %u %d %d %u\n", v->name, v->part, v->dtype,
                      v->rule, (unsigned long long)v->bytes, v->table, v->span, v->holds, v->work);
        program_show_u64s(v->unit_bytes, units, &b);
        for (uint32_t r = 0; v->rule == SIZE_BY_RANK && r < p->world; r++)
            strbuf_printf(&b, "%llu ", (unsigned long long)rank_table_get(&v->ranks, r));
    }
    program_show_tables(p, &b);
    return strbuf_detach(&b);
}

#endif
