/* sim/keyheap.h - a min-heap of numbered things whose keys move.
 *
 * A 4-ary heap with the position of every id: setting, moving and removing a key cost O(log len). Equal keys come out
 * in an order that depends on the calls before (the same calls, the same order): callers take all of one key together.
 * Keys are int64_t; a double >= 0 orders like its bits (keyheap_of_double).
 */
#ifndef BALLAST_SIM_KEYHEAP_H
#define BALLAST_SIM_KEYHEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct keyheap_item {
    int64_t key;
    uint32_t id;
};

struct keyheap {
    struct keyheap_item *items; /* owned, heap order */
    size_t len, cap;
    uint32_t *pos; /* owned, [pos_cap]: place in items + 1, or 0 */
    size_t pos_cap;
};

void keyheap_init(struct keyheap *h);
void keyheap_release(struct keyheap *h);
/* Insert id, or change its key. */
void keyheap_set(struct keyheap *h, uint32_t id, int64_t key);
/* The same for many at once: nothing but further keyheap_put() before keyheap_order(), which is O(len). */
void keyheap_put(struct keyheap *h, uint32_t id, int64_t key);
void keyheap_order(struct keyheap *h);
/* No effect on an id that is not there. */
void keyheap_remove(struct keyheap *h, uint32_t id);
/* Empty it, O(len). */
void keyheap_clear(struct keyheap *h);

static inline bool keyheap_has(const struct keyheap *h, uint32_t id)
{
    return id < h->pos_cap && h->pos[id];
}

/* Key of an id that is in the heap. */
static inline int64_t keyheap_key(const struct keyheap *h, uint32_t id)
{
    return h->items[h->pos[id] - 1].key;
}

static inline int64_t keyheap_of_double(double x)
{
    int64_t key;

    memcpy(&key, &x, sizeof(key));
    return key;
}

static inline double keyheap_to_double(int64_t key)
{
    double x;

    memcpy(&x, &key, sizeof(x));
    return x;
}

#endif
