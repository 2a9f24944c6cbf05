/* Bytes by link, counted one by one, and what a fluid activity takes of them. */
#include "sim/links.h"

void links_tally_init(struct links_tally *t, const struct fabric *f)
{
    *t = (struct links_tally){.f = f};
    for (int r = RESOURCE_NVLINK_TX; r < RESOURCE_N; r++)
        if (coll_is_there(f, (enum sim_resource)r))
            t->bytes[r] = MEM_NEW(uint64_t, coll_instances(f, (enum sim_resource)r));
}

void links_put(struct links_tally *t, enum sim_resource r, uint32_t instance, uint64_t bytes)
{
    if (t->bytes[r])
        t->bytes[r][instance] += bytes;
}

void links_put_root(struct links_tally *t, uint32_t node, uint8_t from, uint8_t to, uint64_t bytes)
{
    uint32_t first = node * t->f->c.pcie_switches, cpu;

    if (from == to)
        return;
    links_put(t, RESOURCE_ROOT_UP, first + from, bytes);
    if (fabric_crosses(t->f, node, from, to, &cpu))
        links_put(t, RESOURCE_CPU, cpu, bytes);
    links_put(t, RESOURCE_ROOT_DOWN, first + to, bytes);
}

/* What most instances have, if there is such a number (Boyer and Moore's vote); the others one by
 * one. */
static void list(const uint64_t *bytes, uint32_t n, struct arena *arena, struct amounts *out)
{
    uint64_t every = 0;
    uint32_t votes = 0, differ = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (!votes)
            every = bytes[i];
        votes = bytes[i] == every ? votes + 1 : votes - 1;
    }
    for (uint32_t i = 0; i < n; i++)
        differ += bytes[i] != every;
    out->every = out->most = (double)every;
    out->only = ARENA_NEW(arena, struct fluid_amount, differ);
    for (uint32_t i = 0; i < n; i++)
        if (bytes[i] != every)
            links_note(out, i, (double)bytes[i]);
}

void links_tally_finish(struct links_tally *t, struct arena *arena, struct amounts *out)
{
    for (int r = RESOURCE_NVLINK_TX; r < RESOURCE_N; r++) {
        if (t->bytes[r])
            list(t->bytes[r], coll_instances(t->f, (enum sim_resource)r), arena, &out[r]);
        mem_free(t->bytes[r]);
        t->bytes[r] = NULL;
    }
}
