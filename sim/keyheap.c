#include "sim/keyheap.h"

#include "core/mem.h"

enum { ARITY = 4 };

void keyheap_init(struct keyheap *h)
{
    *h = (struct keyheap){0};
}

void keyheap_release(struct keyheap *h)
{
    mem_free(h->items);
    mem_free(h->pos);
    keyheap_init(h);
}

static bool before(struct keyheap_item a, struct keyheap_item b)
{
    return a.key < b.key;
}

static void place(struct keyheap *h, size_t i, struct keyheap_item it)
{
    h->items[i] = it;
    h->pos[it.id] = (uint32_t)i + 1;
}

static void sift_up(struct keyheap *h, size_t i, struct keyheap_item it)
{
    for (; i > 0 && before(it, h->items[(i - 1) / ARITY]); i = (i - 1) / ARITY)
        place(h, i, h->items[(i - 1) / ARITY]);
    place(h, i, it);
}

static void sift_down(struct keyheap *h, size_t i, struct keyheap_item it)
{
    size_t first, last, best, c;

    while ((first = ARITY * i + 1) < h->len) {
        last = first + ARITY < h->len ? first + ARITY : h->len;
        for (best = first, c = first + 1; c < last; c++)
            if (before(h->items[c], h->items[best]))
                best = c;
        if (!before(h->items[best], it))
            break;
        place(h, i, h->items[best]);
        i = best;
    }
    place(h, i, it);
}

static void sift(struct keyheap *h, size_t i, struct keyheap_item it)
{
    if (i > 0 && before(it, h->items[(i - 1) / ARITY]))
        sift_up(h, i, it);
    else
        sift_down(h, i, it);
}

static void make_room(struct keyheap *h, uint32_t id)
{
    size_t old = h->pos_cap;

    if (id < old)
        return;
    h->pos = mem_grow(h->pos, &h->pos_cap, (size_t)id + 1, sizeof(*h->pos));
    memset(h->pos + old, 0, (h->pos_cap - old) * sizeof(*h->pos));
}

void keyheap_set(struct keyheap *h, uint32_t id, int64_t key)
{
    struct keyheap_item it = {.key = key, .id = id};

    make_room(h, id);
    if (h->pos[id]) {
        sift(h, h->pos[id] - 1, it);
        return;
    }
    h->items = mem_grow(h->items, &h->cap, h->len + 1, sizeof(*h->items));
    h->len++;
    sift_up(h, h->len - 1, it);
}

void keyheap_put(struct keyheap *h, uint32_t id, int64_t key)
{
    make_room(h, id);
    if (!h->pos[id]) {
        h->items = mem_grow(h->items, &h->cap, h->len + 1, sizeof(*h->items));
        h->pos[id] = (uint32_t)++h->len;
    }
    h->items[h->pos[id] - 1] = (struct keyheap_item){.key = key, .id = id};
}

void keyheap_order(struct keyheap *h)
{
    for (size_t i = h->len > 1 ? (h->len - 2) / ARITY + 1 : 0; i-- > 0;)
        sift_down(h, i, h->items[i]);
}

void keyheap_remove(struct keyheap *h, uint32_t id)
{
    struct keyheap_item last;
    size_t i;

    if (!keyheap_has(h, id))
        return;
    i = h->pos[id] - 1;
    h->pos[id] = 0;
    last = h->items[--h->len];
    if (i < h->len)
        sift(h, i, last);
}

void keyheap_clear(struct keyheap *h)
{
    size_t i;

    for (i = 0; i < h->len; i++)
        h->pos[h->items[i].id] = 0;
    h->len = 0;
}
