/* Maps of levels along rows: `_learn` of streamgp.core.recalibration_by_spread, whose form in NumPy is the oracle. */
#include <math.h>
#include <string.h>

#include "kernel.h"

enum { MAPS = 3, MOMENTS = 3 };

/* The constants of that module, in the order of its `KERNEL_CONSTANTS`. */
typedef struct {
    double forgetting, least_pace, switching, spread_memory, least_variance, furthest;
} rules_t;

/* Learn the density (J) of a level under each factor, at the pace at which a map counts: its counts, and if it helps. */
static void learn_map(int64_t J, double pace, const double *density, const rules_t *rules, double *counts,
                      double *helps)
{
    double total = 0.0, rows = 0.0;
    for (int64_t j = 0; j < J; j++) {
        total += counts[j] * density[j];
        rows += counts[j];
    }
    for (int64_t j = 0; j < J; j++)
        counts[j] = (1.0 - rules->forgetting * pace) * counts[j] + pace / total * counts[j] * density[j];
    double odds = *helps * total / rows;
    double now = (1.0 - rules->switching) * odds / (odds + 1.0 - *helps) + 0.5 * rules->switching;
    *helps += pace * (now - *helps);
}

/* Learn a log spread: its number of rows, mean and variance. */
static void learn_spread(double log_spread, const rules_t *rules, double *spread)
{
    double most = rules->furthest * sqrt(spread[2] + rules->least_variance);
    double off = fmin(fmax(log_spread - spread[1], -most), most);
    spread[0] = rules->spread_memory * spread[0] + 1.0;
    spread[1] += off / spread[0];
    spread[2] += (off * off * (1.0 - 1.0 / spread[0]) - spread[2]) / spread[0];
}

/* Learn n rows of densities (n x E x J) and log spreads (n x E), those that are `learnt` (n x E).
 *
 * Counts (n + 1 x E x MAPS x J), `helps` (n + 1 x E x MAPS) and spreads (n + 1 x E x MOMENTS) begin with the first.
 */
EXPORT void learn_level_maps(int64_t n, int64_t E, int64_t J, const double *rules, const double *density,
                             const double *log_spread, const uint8_t *learnt, double *counts, double *helps,
                             double *spread)
{
    const rules_t *given = (const rules_t *)rules;
    for (int64_t at = 0; at < n * E; at++) {
        double *c = counts + (at + E) * MAPS * J, *h = helps + (at + E) * MAPS, *s = spread + (at + E) * MOMENTS;
        memcpy(c, c - E * MAPS * J, (size_t)(MAPS * J) * sizeof(double));
        memcpy(h, h - E * MAPS, MAPS * sizeof(double));
        memcpy(s, s - E * MOMENTS, MOMENTS * sizeof(double));
        if (!learnt[at])
            continue;
        double t = (log_spread[at] - s[1]) / sqrt(s[2] + given->least_variance);
        double small = fmin(fmax(-t, 0.0), 1.0), large = fmin(fmax(t, 0.0), 1.0);
        double nearness[MAPS] = {small, 1.0 - small - large, large};
        for (int m = 0; m < MAPS; m++)
            learn_map(J, given->least_pace + (1.0 - given->least_pace) * nearness[m], density + at * J, given,
                      c + m * J, h + m);
        learn_spread(log_spread[at], given, s);
    }
}
