/* sim/fluid.h - the discrete-event engine: activities that share resources.
 *
 * An activity waits for its predecessors, then for its latency, then works off `work` units at a rate that it shares
 * with the other activities on the resources that it uses, max-min fairly (progressive filling). Time is integer
 * picoseconds; rates are doubles in work units per picosecond. Events are ordered by (time, sequence): a run is a
 * function of its inputs alone, on any machine.
 *
 * Resources come in *kinds* (say: NIC transmit) with `n` instances of one capacity. A use names a kind, an amount that
 * every instance spends per unit of work (`every`, often 0), and instances that spend another amount (`only`, sorted
 * by instance, which replace `every`). So a collective over 16,384 ranks is one activity with a few numbers, and a
 * single flow is an activity with one instance a kind: both meet in the same arithmetic. An amount of 0 is no use.
 *
 * Shares: each activity a has a weight w_a (its `weight`, default 1: work units per second are shared evenly) and an
 * optional cap. Progressive filling: all rates rise as phi*w_a; when an instance is full, or a cap is reached, the
 * activities that are held by it are frozen; repeat. Computed per instance in ascending order of the activities, so
 * that one activity with `every` and n activities with one `only` each give the same bits (sim/maxmin.h).
 *
 * Where all activities of a run are plain flows (each instance that one uses carries as much as it moves: `only` of
 * amount 1; no cap; weights within a factor of 10^6) and no path is longer than 16, shares are kept per link and progress in virtual
 * time (sim/bottleneck.h): the same rates and times but for rounding, and many times as fast where flows meet often.
 *
 * All that ends or starts at one instant is taken together before shares are computed again, and only what a change
 * can reach gets a new rate. Progress is brought up to date when a rate changes, not otherwise: an activity that
 * nobody disturbs ends to the picosecond where a hand calculation says.
 *
 * Rounding: an activity that has R units left at rate x, q = R/x, ends ceil(q (1 - 1e-15) - 1e-6) ps later; one that
 * is left with a relative 1e-12 of its work at a change of its rate is done. In virtual time the last digits of a clock
 * are forgiven too.
 *
 * Instances that all activities of a run use alike are one (sim/fold.h).
 *
 * Cost: an activity costs the instances that its uses touch (named by `only`, or singled out by the `only` of another
 * activity that runs or by fluid_capacity(), in a kind that it uses with `every`), never the instances of a kind.
 */
#ifndef BALLAST_SIM_FLUID_H
#define BALLAST_SIM_FLUID_H

#include "core/err.h"
#include "core/mem.h"

#include <stdint.h>

struct fluid_amount {
    uint32_t instance;
    double amount; /* resource units per unit of work; >= 0 */
};

struct fluid_use {
    uint32_t kind; /* each kind at most once per activity */
    uint32_t n_only;
    double every;
    const struct fluid_amount
        *only; /* [n_only], ascending instance; borrowed, must outlive the run */
};

struct fluid_activity {
    int64_t latency_ps; /* >= 0: before the first unit of work */
    double
        work; /* units; 0: done after its latency. So is work that nothing holds: no use, no cap */
    double cap;                   /* units per ps; 0: none */
    double weight;                /* 0: 1 */
    const struct fluid_use *uses; /* [n_uses]; borrowed, must outlive the run */
    uint32_t n_uses;
};

struct fluid; /* opaque */

struct fluid *fluid_new(void);
void fluid_free(struct fluid *f);
/* A kind with n instances of `capacity` resource units per ps. Returns its index, from 0 up. The name is copied. */
uint32_t fluid_kind(struct fluid *f, const char *name, uint32_t n, double capacity);
/* One instance that differs. */
void fluid_capacity(struct fluid *f, uint32_t kind, uint32_t instance, double capacity);
/* Returns the activity's index, from 0 up. Starts no earlier than not_before_ps. */
uint32_t fluid_add(struct fluid *f, const struct fluid_activity *a, int64_t not_before_ps);
/* `after` may not start before `before` has ended. */
void fluid_after(struct fluid *f, uint32_t after, uint32_t before);
/* Run to the end, once. ERR_INVALID when activities wait for each other in a circle (one circle is named), or when a
 * used instance has capacity 0; ERR_OVERFLOW when a time does not fit. */
int fluid_run(struct fluid *f, struct err *e);

/* Results, after fluid_run(). Ready: predecessors done, and not before its not_before_ps; then comes the latency. */
int64_t fluid_ready_ps(const struct fluid *f, uint32_t activity);
int64_t fluid_end_ps(const struct fluid *f, uint32_t activity);
/* The predecessor that ended last (lowest index among equals), or UINT32_MAX: the critical path is a walk along it. */
uint32_t fluid_last_before(const struct fluid *f, uint32_t activity);
int64_t fluid_makespan_ps(const struct fluid *f);
/* Units that went through an instance; divide by capacity x makespan for its utilisation. */
double fluid_used(const struct fluid *f, uint32_t kind, uint32_t instance);
/* After ERR_OVERFLOW the activity that starts or ends too late, so that the caller can say what it is; else UINT32_MAX. */
uint32_t fluid_at_fault(const struct fluid *f);
/* Starts and ends of work that were handled. */
uint64_t fluid_n_events(const struct fluid *f);

#endif
