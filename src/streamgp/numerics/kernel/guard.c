/* The guard of one filter, a row at a time: `learn` of streamgp/filters/guard.py, which says what it is for. */
#include <math.h>

#include "kernel.h"

double learn_innovation(guard_t guard, const guard_rules_t *rules, const double *z, int outputs, int *is_outlier)
{
    double size = 0.0, overlap = 0.0, square = 0.0;
    for (int e = 0; e < outputs; e++) {
        size += guard.last[e] * guard.last[e];
        overlap += z[e] * guard.last[e];
        square += z[e] * z[e];
    }
    int in_run = *guard.run > rules->change;
    if (size > 0.0 && !in_run) {
        double confirms = overlap > rules->confirmed * size ? 1.0 : 0.0;
        *guard.agreement = rules->agreement_memory * *guard.agreement + (1.0 - rules->agreement_memory) * confirms;
    }
    double part = (*guard.agreement - rules->no_agreement) / (rules->full_agreement - rules->no_agreement);
    part = part < 0.0 ? 0.0 : part > 1.0 ? 1.0 : part;
    double least = rules->min_threshold * rules->min_threshold;
    double threshold = least + (rules->max_threshold * rules->max_threshold - least) * part;
    double floor = rules->min_floor + (rules->max_floor - rules->min_floor) * part;
    double excess = -INFINITY;
    for (int e = 0; e < outputs; e++) {
        double usual = guard.level[e] > floor ? guard.level[e] : floor;
        double q = z[e] * z[e] / usual;
        if (!(q <= excess)) /* NaN stays */
            excess = q;
    }
    excess /= threshold;
    int beyond = excess > 1.0;
    int is_change = in_run && overlap > 0.0 && square <= rules->max_growth * rules->max_growth * size;
    for (int e = 0; e < outputs; e++) {
        double entering = z[e] * z[e];
        double most = rules->max_learnt * (guard.level[e] > floor ? guard.level[e] : floor);
        if (beyond && most < entering)
            entering = most;
        guard.level[e] = rules->level_memory * guard.level[e] + (1.0 - rules->level_memory) * entering;
        guard.last[e] = beyond ? z[e] : 0.0;
    }
    *guard.run = rules->run_memory * *guard.run + (1.0 - rules->run_memory) * beyond;
    *is_outlier = beyond && !is_change;
    return *is_outlier ? excess : 1.0;
}
