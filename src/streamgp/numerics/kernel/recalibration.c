/* Maps of levels along rows: streamgp.likelihoods.recalibration_by_spread, whose form in NumPy is the oracle. */
#include <math.h>
#include <string.h>

#include "kernel.h"

enum { MAPS = 3, MOMENTS = 3, MOST_FACTORS = 16 };

/* Write how much each map counts at a log spread. */
static void near_maps(double log_spread, const double *spread, const map_rules_t *rules, double *nearness)
{
    double t = (log_spread - spread[1]) / sqrt(spread[2] + rules->of_spread.least_variance);
    nearness[0] = fmin(fmax(-t, 0.0), 1.0);
    nearness[2] = fmin(fmax(t, 0.0), 1.0);
    nearness[1] = 1.0 - nearness[0] - nearness[2];
}

/* Write the density of the level u under each of J factors, over that of the mixture. */
static void find_densities(int64_t J, const double *factors, double u, double least, double *density)
{
    double z = ndtri(fmin(fmax(u, least), 1.0 - least)), half_square = 0.5 * z * z;
    for (int64_t j = 0; j < J; j++)
        density[j] = exp(half_square * (1.0 - 1.0 / (factors[j] * factors[j]))) / factors[j];
}

/* Learn the densities (J) of a level, at the pace at which a map counts: its counts, and if it helps. */
static void learn_map(int64_t J, double pace, const double *density, const map_rules_t *rules, double *counts,
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

/* Learn levels and log spreads (n x E), in rows that are `learnt` (n), of which a level that is NaN teaches nothing.
 *
 * Counts (n + 1 x E x MAPS x J), `helps` (n + 1 x E x MAPS) and spreads (n + 1 x E x MOMENTS) begin with the first.
 */
EXPORT void learn_level_maps(int64_t n, int64_t E, int64_t J, const map_rules_t *rules, const double *factors,
                             const double *u, const double *log_spread, const uint8_t *learnt, double *counts,
                             double *helps, double *spread)
{
    double density[MOST_FACTORS], nearness[MAPS];
    for (int64_t at = 0; at < n * E; at++) {
        double *c = counts + (at + E) * MAPS * J, *h = helps + (at + E) * MAPS, *s = spread + (at + E) * MOMENTS;
        memcpy(c, c - E * MAPS * J, (size_t)(MAPS * J) * sizeof(double));
        memcpy(h, h - E * MAPS, MAPS * sizeof(double));
        memcpy(s, s - E * MOMENTS, MOMENTS * sizeof(double));
        if (!learnt[at / E] || !isfinite(u[at]))
            continue;
        find_densities(J, factors, u[at], rules->least_level, density);
        near_maps(log_spread[at], s, rules, nearness);
        for (int m = 0; m < MAPS; m++)
            learn_map(J, rules->least_pace + (1.0 - rules->least_pace) * nearness[m], density, rules, c + m * J, h + m);
        learn_moments(log_spread[at], &rules->of_spread, s);
    }
}

/* Write the shares (n x E x J) of rows with these log spreads (n x E), by what was known before each of them.
 *
 * Counts (n x E x MAPS x J) and the others are of every row or, if `steps` is 0 and not 1, the same for all.
 */
EXPORT void level_shares(int64_t n, int64_t E, int64_t J, int64_t steps, const map_rules_t *rules, const double *factors,
                         const double *log_spread, const double *counts, const double *helps, const double *spread,
                         double *shares)
{
    double nearness[MAPS];
    for (int64_t at = 0; at < n * E; at++) {
        int64_t known = steps ? at : at % E;
        double *share = shares + at * J, left = 0.0;
        near_maps(log_spread[at], spread + known * MOMENTS, rules, nearness);
        memset(share, 0, (size_t)J * sizeof(double));
        for (int m = 0; m < MAPS; m++) {
            const double *c = counts + (known * MAPS + m) * J;
            double rows = 0.0, kept = nearness[m] * helps[known * MAPS + m];
            for (int64_t j = 0; j < J; j++)
                rows += c[j];
            for (int64_t j = 0; j < J; j++)
                share[j] += kept * c[j] / rows;
            left += nearness[m] - kept;
        }
        for (int64_t j = 0; j < J; j++)
            share[j] += factors[j] == 1.0 ? left : 0.0;
    }
}
