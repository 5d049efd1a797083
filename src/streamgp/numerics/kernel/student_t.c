/* The formulas of streamgp/numerics/student_t.py, one number at a time. */
#include <math.h>

#include "kernel.h"

/* Return log Gamma(a + 1/2) - log Gamma(a) - log(a) / 2. */
double log_gamma_ratio(double a)
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
double hill(double kernel, double dof)
{
    double a = dof - 0.5, b = 48.0 * a * a, y = a * kernel;
    double series = (((-0.4 * y - 3.3) * y - 24.0) * y - 85.5) / (0.8 * y * y + 100.0 + b);
    return ((series + y + 3.0) / b + 1.0) * sqrt(y);
}

double ndtr(double z) { return 0.5 * erfc(-z * 0.70710678118654752440); }

static double ratio(const double *above, const double *below, double x)
{
    double up = above[7], down = below[7];
    for (int i = 6; i >= 0; i--) {
        up = up * x + above[i];
        down = down * x + below[i];
    }
    return up / down;
}

/* Return the quantile of a standard normal, to sixteen digits (Wichura 1988, Algorithm AS 241). */
double ndtri(double p)
{
    static const double a[8] = {3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3,
                                1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4,
                                3.3430575583588128105e4, 2.5090809287301226727e3};
    static const double b[8] = {1.0,
                                4.2313330701600911252e1,
                                6.8718700749205790830e2,
                                5.3941960214247511077e3,
                                2.1213794301586595867e4,
                                3.9307895800092710610e4,
                                2.8729085735721942674e4,
                                5.2264952788528545610e3};
    static const double c[8] = {1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0,
                                3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1,
                                2.27238449892691845833e-2, 7.74545014278341407640e-4};
    static const double d[8] = {1.0,
                                2.05319162663775882187e0,
                                1.67638483018380384940e0,
                                6.89767334985100004550e-1,
                                1.48103976427480074590e-1,
                                1.51986665636164571966e-2,
                                5.47593808499534494600e-4,
                                1.05075007164441684324e-9};
    static const double e[8] = {6.65790464350110377720e0, 5.46378491116411436990e0, 1.78482653991729133580e0,
                                2.96560571828504891230e-1, 2.65321895265761230930e-2, 1.24266094738807843860e-3,
                                2.71155556874348757815e-5, 2.01033439929228813265e-7};
    static const double f[8] = {1.0,
                                5.99832206555887937690e-1,
                                1.36929880922735805310e-1,
                                1.48753612908506148525e-2,
                                7.86869131145613259100e-4,
                                1.84631831751005468180e-5,
                                1.42151175831644588870e-7,
                                2.04426310338993978564e-15};
    double q = p - 0.5;
    if (fabs(q) <= 0.425)
        return q * ratio(a, b, 0.180625 - q * q);
    double r = sqrt(-log(q < 0.0 ? p : 1.0 - p));
    double z = r <= 5.0 ? ratio(c, d, r - 1.6) : ratio(e, f, r - 5.0);
    if (isinf(r))
        z = r;
    return q < 0.0 ? -z : z;
}
