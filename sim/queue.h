/* sim/queue.h - the simulator's event queue.
 *
 * A binary min-heap ordered by (t_ps, seq). `seq` counts pushes, so events at the same instant come out in the
 * order they were scheduled: a run is a function of its inputs alone, on any machine. Time is integer
 * picoseconds (int64_t reaches 106 days), so adding delays is exact and associative.
 *
 * Events cannot be withdrawn; what moves in time (the end of an activity whose rate changes) lives in a keyheap.
 */
#ifndef BALLAST_SIM_QUEUE_H
#define BALLAST_SIM_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct queue_event {
    int64_t t_ps;  /* when it fires; >= queue.now_ps at the push */
    uint64_t seq;  /* set by queue_push() */
    uint32_t kind; /* meaning is the caller's */
    uint32_t arg;
};

struct queue {
    struct queue_event *events; /* owned, heap order */
    size_t len, cap;
    uint64_t n_pushed;
    int64_t now_ps; /* time of the last event popped */
};

void queue_init(struct queue *q);
void queue_release(struct queue *q);
/* O(log len). An event in the past is a bug in the caller, not an error. */
void queue_push(struct queue *q, int64_t t_ps, uint32_t kind, uint32_t arg);
/* The earliest event; false when there is none. O(log len). */
bool queue_pop(struct queue *q, struct queue_event *ev);
/* Time of the earliest event, INT64_MAX when there is none. */
int64_t queue_next_ps(const struct queue *q);

#endif
