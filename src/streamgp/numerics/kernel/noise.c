/* Levels of the noise along rows: `NoiseKinds.update` of streamgp/filters/noise.py, its oracle. */
#include <math.h>

#include "kernel.h"

/* Learn n rows: errors and variances of the filters (n x k x E), what is left of an error by kind (n x J).
 *
 * `known` (n x k x E) are the last errors known at each row; NULL: those of the row before, which outliers (n x k, or
 * NULL) leave as they are. States lie in `shapes` (J), `rates` (k x J x E) and `errors` (k x E), n + 1 of each: the first
 * is given, the others are written.
 */
EXPORT void learn_noise(const noise_t *x, int64_t n, const double *error, const double *var, const double *left,
                        const double *known, const uint8_t *is_outlier, double *shapes, double *rates, double *errors)
{
    int64_t K = x->filters, J = x->kinds, E = x->outputs;
    for (int64_t i = 0; i < n; i++) {
        const double *shape = shapes + i * J, *rate = rates + i * K * J * E, *last = errors + i * K * E;
        double *next_shape = shapes + (i + 1) * J, *next_rate = rates + (i + 1) * K * J * E;
        for (int64_t j = 0; j < J; j++)
            next_shape[j] = x->discount[j] * shape[j] + x->half[j];
        for (int64_t k = 0; k < K; k++) {
            int outlier = is_outlier && is_outlier[i * K + k];
            for (int64_t e = 0; e < E; e++) {
                int64_t at = k * E + e, of_row = i * K * E + at;
                double now = error[of_row], before = known ? known[of_row] : last[at];
                double carried = isfinite(now) ? now : 0.0;
                errors[(i + 1) * K * E + at] = !outlier ? carried : known ? 0.0 : last[at];
                for (int64_t j = 0; j < J; j++) {
                    int64_t here = (k * J + j) * E + e;
                    double fresh = now - left[i * J + j] * before, square = fresh * fresh / var[of_row];
                    double level = rate[here] / shape[j], least = x->min_factor * next_shape[j];
                    if (outlier && x->max_learnt * level < square)
                        square = x->max_learnt * level;
                    double added = x->half[j] * square;
                    if (!isfinite(added))
                        added = x->half[j] * level;
                    double next = x->discount[j] * rate[here] + added;
                    next_rate[here] = next < least ? least : next;
                }
            }
        }
    }
}
