/* Counts of recalibration along rows: `learn` of streamgp/likelihoods/recalibration.py, whose form in NumPy is the oracle. */
#include <string.h>

#include "kernel.h"

/* Count a row, of which `density` (J) says how likely each factor makes it: `after` may be `now`. */
void count_factors(int64_t J, double memory, const double *density, const double *now, double *after)
{
    double sum = 0.0;
    for (int64_t j = 0; j < J; j++)
        sum += now[j] * density[j];
    for (int64_t j = 0; j < J; j++)
        after[j] = memory * now[j] + now[j] * density[j] / sum;
}

/* Learn n rows of densities (n x E x J), those that are `learnt` (n x E); counts (n + 1 x E x J) begin with the first. */
EXPORT void learn_recalibration(int64_t n, int64_t E, int64_t J, double memory, const double *density,
                                const uint8_t *learnt, double *counts)
{
    for (int64_t at = 0; at < n * E; at++) {
        const double *now = counts + at * J;
        double *after = counts + (at + E) * J;
        if (learnt[at])
            count_factors(J, memory, density + at * J, now, after);
        else
            memcpy(after, now, (size_t)J * sizeof(double));
    }
}
