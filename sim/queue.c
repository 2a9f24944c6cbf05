#include "sim/queue.h"

#include "core/err.h"
#include "core/mem.h"

void queue_init(struct queue *q)
{
    *q = (struct queue){0};
}

void queue_release(struct queue *q)
{
    mem_free(q->events);
    queue_init(q);
}

static bool before(const struct queue_event *a, const struct queue_event *b)
{
    return a->t_ps != b->t_ps ? a->t_ps < b->t_ps : a->seq < b->seq;
}

void queue_push(struct queue *q, int64_t t_ps, uint32_t kind, uint32_t arg)
{
    struct queue_event ev = {.t_ps = t_ps, .seq = q->n_pushed++, .kind = kind, .arg = arg};
    size_t i = q->len++;

    BUG_ON(t_ps < q->now_ps);
    q->events = mem_grow(q->events, &q->cap, q->len, sizeof(*q->events));
    for (; i > 0 && before(&ev, &q->events[(i - 1) / 2]); i = (i - 1) / 2)
        q->events[i] = q->events[(i - 1) / 2];
    q->events[i] = ev;
}

bool queue_pop(struct queue *q, struct queue_event *ev)
{
    struct queue_event last;
    size_t i = 0, child;

    if (!q->len)
        return false;
    *ev = q->events[0];
    q->now_ps = ev->t_ps;
    last = q->events[--q->len];
    while ((child = 2 * i + 1) < q->len) {
        if (child + 1 < q->len && before(&q->events[child + 1], &q->events[child]))
            child++;
        if (!before(&q->events[child], &last))
            break;
        q->events[i] = q->events[child];
        i = child;
    }
    q->events[i] = last;
    return true;
}

int64_t queue_next_ps(const struct queue *q)
{
    return q->len ? q->events[0].t_ps : INT64_MAX;
}
