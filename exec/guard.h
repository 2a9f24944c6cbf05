/* exec/guard.h - ends the job when a call into a library does not come back.
 *
 * NCCL and MPI connect ranks inside their calls, and wait there for ever for one that is stuck or that no packet reaches. Who is in
 * such a call can look at no clock, so a thread of its own does: it wakes four times a second, and tells when a call has
 * lasted too long.
 */
#ifndef BALLAST_EXEC_GUARD_H
#define BALLAST_EXEC_GUARD_H

struct guard;

/* limit_s: how long a call may take; then give_up() runs in the guard's thread, and ends the job. NULL when give_up is, or
 * when there is no thread to be had: then nothing is guarded. */
struct guard *guard_open(double limit_s, void (*give_up)(const char *what, double seconds));
void guard_close(struct guard *g); /* not inside a call; NULL: nothing */
/* Around a call, by one thread; `what` is a constant. Cheap: no lock, two stores and a look at the clock. */
void guard_enter(struct guard *g, const char *what);
void guard_leave(struct guard *g);

#endif
