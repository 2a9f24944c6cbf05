/* tests/sim/fair.h - what the share solver is checked with: a definition and a naive algorithm, on dense amounts. */
#ifndef BALLAST_TESTS_SIM_FAIR_H
#define BALLAST_TESTS_SIM_FAIR_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

enum { FAIR_MAX_INSTANCES = 96, FAIR_MAX_ACTIVITIES = 200 };

struct fair {
    uint32_t n_instances, n_activities;
    double capacity[FAIR_MAX_INSTANCES];
    double amount[FAIR_MAX_ACTIVITIES][FAIR_MAX_INSTANCES];
    double weight[FAIR_MAX_ACTIVITIES], cap[FAIR_MAX_ACTIVITIES]; /* cap 0: none */
};

/* Feasible, and everyone is at its cap or has the highest level on a full instance; all to a relative `tol`. NULL, or
 * what is wrong. */
static inline const char *fair_check(const struct fair *s, const double *rate, double tol)
{
    double load[FAIR_MAX_INSTANCES] = {0}, top[FAIR_MAX_INSTANCES] = {0}, level;
    uint32_t a, i;
    bool held;

    for (a = 0; a < s->n_activities; a++) {
        if (s->cap[a] > 0 && rate[a] > s->cap[a] * (1 + tol))
            return "an activity is above its cap";
        for (i = 0; i < s->n_instances; i++) {
            load[i] += s->amount[a][i] * rate[a];
            if (s->amount[a][i] > 0)
                top[i] = fmax(top[i], rate[a] / s->weight[a]);
        }
    }
    for (i = 0; i < s->n_instances; i++)
        if (load[i] > s->capacity[i] * (1 + tol))
            return "an instance is above its capacity";
    for (a = 0; a < s->n_activities; a++) {
        level = rate[a] / s->weight[a];
        held = s->cap[a] > 0 && rate[a] >= s->cap[a] * (1 - tol);
        for (i = 0; i < s->n_instances; i++)
            held |= s->amount[a][i] > 0 && load[i] >= s->capacity[i] * (1 - tol) &&
                    level >= top[i] * (1 - tol);
        if (!held)
            return "an activity could have more";
    }
    return NULL;
}

/* Progressive filling as the textbook has it, in long double. */
static inline void fair_fill(const struct fair *s, long double *rate)
{
    bool frozen[FAIR_MAX_ACTIVITIES] = {false};
    long double left[FAIR_MAX_INSTANCES], load, phi, best;
    uint32_t a, i, n = 0, at = 0, capped = 0;

    for (i = 0; i < s->n_instances; i++)
        left[i] = s->capacity[i];
    while (n < s->n_activities) {
        best = INFINITY;
        for (i = 0; i < s->n_instances; i++) {
            for (load = 0, a = 0; a < s->n_activities; a++)
                load += frozen[a] ? 0 : (long double)s->amount[a][i] * s->weight[a];
            phi = load > 0 ? fmaxl(left[i], 0) / load : INFINITY;
            if (phi < best) {
                best = phi;
                at = i;
                capped = UINT32_MAX;
            }
        }
        for (a = 0; a < s->n_activities; a++)
            if (!frozen[a] && s->cap[a] > 0 && s->cap[a] / (long double)s->weight[a] < best) {
                best = s->cap[a] / (long double)s->weight[a];
                capped = a;
            }
        for (a = 0; a < s->n_activities; a++) {
            if (frozen[a] || (capped == UINT32_MAX ? !(s->amount[a][at] > 0) : a != capped))
                continue;
            frozen[a] = true;
            n++;
            rate[a] = best * s->weight[a];
            for (i = 0; i < s->n_instances; i++)
                left[i] -= rate[a] * s->amount[a][i];
        }
    }
}

#endif
