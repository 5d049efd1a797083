/* What experts say of targets that came: `target_values` of streamgp/models/gaussian/target_values.py, its oracle. */
#include <math.h>

#include "kernel.h"

static const double LOG_2PI = 1.8378770664093454836, INFINITE_DOF = 1e20;

/* Write log density, unless it is NULL, and distribution function of targets y (n x E) under experts (n x K x E).
 *
 * `dof` (n x K) repeats the degrees of freedom of `kinds` kinds of noise; NULL: all are Gaussian.
 */
EXPORT void target_values(int64_t n, int64_t K, int64_t E, int64_t kinds, const double *loc, const double *var,
                          const double *dof, const double *y, double *log_density, double *below)
{
    for (int64_t i = 0; i < n; i++)
        for (int64_t kind = 0; kind < kinds; kind++) {
            double finite = dof ? fmin(dof[i * K + kind], INFINITE_DOF) : INFINITE_DOF;
            double shrink = 1.0 - 2.0 / finite, rest = -0.5 * LOG_2PI;
            if (dof && log_density)
                rest += log_gamma_ratio(0.5 * finite);
            for (int64_t k = kind; k < K; k += kinds)
                for (int64_t e = 0; e < E; e++) {
                    int64_t at = (i * K + k) * E + e;
                    double error = y[i * E + e] - loc[at], scale2 = var[at] * shrink, z, kernel;
                    if (dof) {
                        kernel = log1p(error * error / (scale2 * finite));
                        z = copysign(hill(kernel, finite), error);
                        kernel *= 0.5 * finite + 0.5;
                    } else {
                        z = error / sqrt(scale2);
                        kernel = 0.5 * z * z;
                    }
                    if (log_density)
                        log_density[at] = rest - 0.5 * log(scale2) - kernel;
                    below[at] = ndtr(z);
                }
        }
}
