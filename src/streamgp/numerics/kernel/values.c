/* What experts say of targets that came: `target_values` of streamgp/models/gaussian/target_values.py, its oracle.
 *
 * The formulas are those of streamgp/numerics/student_t.py.
 */
#include <math.h>

#include "kernel.h"

static const double LOG_2PI = 1.8378770664093454836, INFINITE_DOF = 1e20;

/* Return log Gamma(a + 1/2) - log Gamma(a) - log(a) / 2. */
static double log_gamma_ratio(double a)
{
    double step = 1.0 / a, inverse = step / (1.0 + 8.0 * step), square = inverse * inverse;
    double series = -1.0 / 8.0 + square * (1.0 / 192.0 + square * (-1.0 / 640.0 + square * (17.0 / 14336.0)));
    double above = 1.0 + 0.5 * step, below = 1.0;
    for (int k = 1; k < 8; k++) {
        above *= 1.0 + (k + 0.5) * step;
        below *= 1.0 + k * step;
    }
    return inverse * series + log(below / above * sqrt(1.0 + 8.0 * step));
}

/* Return |z| with Phi(z) = Pr(T <= t), from log(1 + t^2 / dof). */
static double hill(double kernel, double dof)
{
    double a = dof - 0.5, b = 48.0 * a * a, y = a * kernel;
    double series = (((-0.4 * y - 3.3) * y - 24.0) * y - 85.5) / (0.8 * y * y + 100.0 + b);
    return ((series + y + 3.0) / b + 1.0) * sqrt(y);
}

static double ndtr(double z) { return 0.5 * erfc(-z * 0.70710678118654752440); }

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
