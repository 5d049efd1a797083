/* What learns from errors, row by row: `NoiseKinds.update_rows` of streamgp/filters/noise.py, and `learn_rows` of
 * streamgp/core/recalibration.py.
 */
#include <math.h>
#include <string.h>

#include "kernel.h"

/* J kinds of noise: discounts, what a row counts for (half a degree of freedom, or nothing), and two limits. */
typedef struct {
    const double *discount, *half;
    double max_learnt, min_factor;
} kinds_t;

/* The rows: errors and variances (n, K, E), what is left of an error (n, J), and which rows count. The last errors
 * known (n, K, E) and the outliers (n, K) may be NULL. */
typedef struct {
    const double *error, *var, *left_over, *known;
    const uint8_t *mask, *is_outlier;
} errors_t;

/* Learn n rows: `shape` (J), `rate` (K, J, E) and `last` (K, E) are overwritten; what they were before each row goes
 * into the arrays with a leading axis. */
EXPORT void learn_noise(const kinds_t *kinds, const errors_t *rows, int64_t n, int64_t K, int64_t J, int64_t E,
                        double *shape, double *rate, double *last, double *shapes, double *rates, double *lasts)
{
    for (int64_t i = 0; i < n; i++) {
        memcpy(shapes + i * J, shape, (size_t)J * sizeof(double));
        memcpy(rates + i * K * J * E, rate, (size_t)(K * J * E) * sizeof(double));
        memcpy(lasts + i * K * E, last, (size_t)(K * E) * sizeof(double));
        if (!rows->mask[i])
            continue;
        for (int64_t k = 0; k < K; k++) {
            int is_outlier = rows->is_outlier && rows->is_outlier[i * K + k];
            for (int64_t e = 0; e < E; e++) {
                int64_t at = (i * K + k) * E + e;
                double error = rows->error[at], before = rows->known ? rows->known[at] : last[k * E + e];
                for (int64_t j = 0; j < J; j++) {
                    double *own = rate + (k * J + j) * E + e, level = *own / shape[j];
                    double fresh = error - rows->left_over[i * J + j] * before;
                    double square = fresh * fresh / rows->var[at];
                    if (is_outlier && square > kinds->max_learnt * level)
                        square = kinds->max_learnt * level;
                    if (!isfinite(square))
                        square = level;
                    double grown = kinds->discount[j] * shape[j] + kinds->half[j];
                    double learnt = kinds->discount[j] * *own + kinds->half[j] * square;
                    *own = learnt > kinds->min_factor * grown ? learnt : kinds->min_factor * grown;
                }
                if (is_outlier)
                    error = rows->known ? 0.0 : before; /* that of a forecast is not carried on */
                last[k * E + e] = isfinite(error) ? error : 0.0;
            }
        }
        for (int64_t j = 0; j < J; j++)
            shape[j] = kinds->discount[j] * shape[j] + kinds->half[j];
    }
}

/* Learn the densities (n, E, J) that each factor gave the levels of n rows; NaN teaches nothing.
 *
 * `counts` (E, J) is overwritten; what it was before each row goes into `before` (n, E, J). */
EXPORT void learn_levels(const double *density, const uint8_t *mask, int64_t n, int64_t E, int64_t J, double memory,
                         double *counts, double *before)
{
    for (int64_t i = 0; i < n; i++) {
        memcpy(before + i * E * J, counts, (size_t)(E * J) * sizeof(double));
        for (int64_t e = 0; mask[i] && e < E; e++) {
            const double *given = density + (i * E + e) * J;
            double *own = counts + e * J, sum = 0.0;
            for (int64_t j = 0; j < J; j++)
                sum += own[j] * given[j];
            if (isnan(sum))
                continue;
            for (int64_t j = 0; j < J; j++)
                own[j] = memory * own[j] + own[j] * given[j] / sum;
        }
    }
}
