/* The recursion of streamgp.likelihoods.noise_by_input, whose form in NumPy is its oracle. */
#include <math.h>

#include "kernel.h"

/* Return the squared score of a target whose variance is e^h times as large as that by which it has `square`. */
static double rescaled(double square, double h, const layer_t *rules)
{
    return rules->tail * log1p(expm1(fmin(square, 100.0) / rules->tail) * exp(-h));
}

/* Learn the square of one score at the features phi (F): mean (F), cov (F, F) and share of the layer.
 *
 * A negative one is that of an outlier, which teaches nothing unless the layer has it for a usual row.
 */
static void learn_square(int F, const double *phi, double square, const double *prior_var, const layer_t *rules,
                         double *mean, double *cov, double *share, double *gain)
{
    double h = 0.0, s = rules->fisher;
    for (int i = 0; i < F; i++)
        h += phi[i] * mean[i];
    h = fmin(fmax(h, -rules->max_log_variance), rules->max_log_variance);
    if (square < 0.0 && rescaled(-square, h, rules) > rules->max_ratio)
        return;
    square = fmin(fabs(square), rules->max_square);
    double ratio = rescaled(square, h, rules);
    double odds = exp(-0.5 * h - 0.5 * (rules->dof + 1.0) / rules->tail * (ratio - square));
    double kept = *share * odds / (*share * odds + 1.0 - *share);
    *share = (1.0 - rules->switching) * kept + 0.5 * rules->switching;
    for (int i = 0; i < F; i++)
        cov[i * F + i] += rules->walk * prior_var[i];
    for (int i = 0; i < F; i++)
        gain[i] = 0.0;
    for (int j = 0; j < F; j++) /* cov is symmetric */
        for (int i = 0; i < F; i++)
            gain[i] += cov[j * F + i] * phi[j];
    for (int i = 0; i < F; i++)
        s += phi[i] * gain[i];
    double step = (fmin(ratio, rules->max_ratio) - 1.0) / s;
    for (int i = 0; i < F; i++) {
        double part = gain[i] / s;
        mean[i] += gain[i] * step;
        for (int j = 0; j < F; j++)
            cov[i * F + j] -= part * gain[j];
    }
}

/* Learn the squares (n, E), of which NaN teaches nothing, in place; write what was believed before each row. */
EXPORT void learn_log_variances(int64_t n, int E, int F, const double *phi, const double *square,
                                const double *prior_var, const layer_t *rules, double *mean, double *cov,
                                double *share, double *means, double *shares, double *gain)
{
    for (int64_t i = 0; i < n; i++)
        for (int e = 0; e < E; e++) {
            int64_t row = i * E + e;
            for (int j = 0; j < F; j++)
                means[row * F + j] = mean[e * F + j];
            shares[row] = share[e];
            if (!isnan(square[row]))
                learn_square(F, phi + row * F, square[row], prior_var, rules, mean + e * F,
                             cov + (int64_t)e * F * F, share + e, gain);
        }
}
