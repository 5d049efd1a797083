/* Quantiles of mixtures and of the map that recalibrates them: streamgp/numerics/quantiles.py and
 * streamgp/likelihoods/recalibration.py, whose forms in NumPy are the oracles.
 */
#include <float.h>
#include <math.h>

#include "kernel.h"

static const double ROOT_2PI = 2.5066282746310005024;

/* One mixture of K components; fields of `Mixtures`, dof NULL where all are Gaussian. */
typedef struct {
    int64_t components;
    const double *weight, *loc, *scale, *dof, *log_norm;
} mixture_t;

/* Compute distribution function, density and its slope at x. */
static void at_point(mixture_t m, double x, double *below, double *density, double *slope)
{
    *below = *density = *slope = 0.0;
    for (int64_t k = 0; k < m.components; k++) {
        double t = (x - m.loc[k]) / m.scale[k], z = t, kernel = 0.5 * t * t, pull = t / m.scale[k];
        if (!(m.weight[k] > 0.0))
            continue;
        if (m.dof) {
            kernel = log1p(t * t / m.dof[k]);
            z = copysign(hill(kernel, m.dof[k]), t);
            kernel *= 0.5 * m.dof[k] + 0.5;
            pull *= (m.dof[k] + 1.0) / (m.dof[k] + t * t);
        }
        double likely = m.weight[k] * exp(m.log_norm[k] - kernel);
        *below += m.weight[k] * ndtr(z);
        *density += likely;
        *slope -= likely * pull;
    }
}

/* Find the quantile at p between low and high, from x on, by Halley's method on the normal score: `_halley`. */
static double quantile_of(mixture_t m, double p, double aim, double low, double high, double x, double tolerance)
{
    for (int step = 0; step < 100; step++) {
        double below, density, slope;
        at_point(m, x, &below, &density, &slope);
        if (below <= p)
            low = x;
        if (below >= p)
            high = x;
        double score = ndtri(below), rate = density / (exp(-0.5 * score * score) / ROOT_2PI);
        double newton = (aim - score) / rate, bend = 0.5 * newton * (slope / density + score * rate);
        double divisor = 1.0 + bend, off = newton * rate;
        divisor = divisor < 0.5 ? 0.5 : divisor > 2.0 ? 2.0 : divisor;
        double moved = x + newton / divisor, left = fabs(off) * (bend * bend + off * off);
        int inside = moved > low && moved < high, exact = fabs(newton) <= 4.0 * DBL_EPSILON * fabs(x);
        int closed = high - low <= 4.0 * DBL_EPSILON * fmax(fabs(low), fabs(high));
        x = inside ? moved : exact ? x : 0.5 * (low + high);
        if ((inside && left <= tolerance) || closed || exact)
            break;
    }
    return x;
}

/* Write the quantiles at p (c) of c mixtures of K components, of which mean and standard deviation are given. */
EXPORT void mixture_quantiles(int64_t c, int64_t K, const double *weight, const double *loc, const double *scale,
                              const double *dof, const double *log_norm, const double *mean, const double *std,
                              const double *p, double tolerance, double *found)
{
    for (int64_t i = 0; i < c; i++) {
        mixture_t m = {K, weight + i * K, loc + i * K, scale + i * K, dof ? dof + i * K : 0, log_norm + i * K};
        double low = -sqrt((1.0 - p[i]) / p[i]), high = sqrt(p[i] / (1.0 - p[i])), aim = ndtri(p[i]);
        double start = aim < low ? low : aim > high ? high : aim;
        found[i] = quantile_of(m, p[i], aim, mean[i] + std[i] * low, mean[i] + std[i] * high, mean[i] + std[i] * start,
                               tolerance);
    }
}

/* Write the levels u with G(u) = p (n), from the shares v (n x J) of the factors: `level` of recalibration.py. */
EXPORT void recalibrated_levels(int64_t n, int64_t J, const double *factors, double least, double converged, double edge,
                                const double *v, const double *p, double *found)
{
    for (int64_t i = 0; i < n; i++) {
        const double *share = v + i * J;
        double side = fmin(p[i], 1.0 - p[i]), near = ndtri(fmax(side, least * 1e-3)), aim = ndtri(side);
        double grown = 0.0, of_edge = 0.0;
        for (int64_t j = 0; j < J; j++) {
            grown += share[j] * factors[j] * factors[j];
            of_edge += share[j] * ndtr(-edge / factors[j]);
        }
        of_edge /= least;
        double low = near * factors[J - 1], high = near * factors[0], z = near * sqrt(grown);
        for (int step = 0; step < 60; step++) {
            double under = 0.0, density = 0.0, before = z;
            for (int64_t j = 0; j < J; j++) {
                double t = z / factors[j];
                under += share[j] * ndtr(t);
                density += share[j] * exp(-0.5 * t * t) / ROOT_2PI / factors[j];
            }
            if (under <= side)
                low = z;
            if (under >= side)
                high = z;
            double score = ndtri(under), slope = density / (exp(-0.5 * score * score) / ROOT_2PI);
            double moved = z + (aim - score) / slope;
            z = (moved >= low && moved <= high) || fabs(moved - z) <= converged * fabs(z) ? moved : 0.5 * (low + high);
            if (fabs(z - before) <= converged * fabs(before))
                break;
        }
        double lower = side < least * of_edge ? side / of_edge : ndtr(z);
        found[i] = p[i] > 0.5 ? 1.0 - lower : lower;
    }
}
