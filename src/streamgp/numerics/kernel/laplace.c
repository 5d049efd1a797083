/* Laplace steps along a block of rows: `_steps` of streamgp/filters/laplace.py and `laplace_step` of
 * streamgp/likelihoods/step.py, whose forms in NumPy are the oracles, with the likelihoods of binary.py, categorical.py,
 * counts.py and ordinal.py there.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernel.h"

enum { BINARY, CLASSES, POISSON, NEGATIVE_BINOMIAL, GRADES };

/* Arrays of `LaplaceKernel`: of e experts, n rows and C latent values; what is not needed is NULL. */
typedef struct {
    int64_t kind, experts, rows, latents, classes, most_steps, most_halvings;
    double slope, tolerance, rounding, clear;
    const double *intercept, *dispersion, *contrasts; /* e, or of each class or threshold; e; C x classes */
    const double *y;                                  /* n */
    const uint8_t *mask;                              /* n */
    double *cov, *loc;                                /* e x nC x nC, e x nC: of all rows, changed as steps are taken */
    double *own_loc, *own_cov;                        /* e x n x C, e x n x C x C: before each row's step */
    double *shift, *shrink, *gains;                   /* e x n x C, e x n x C x C, e x nC x nC */
    double *room;
} steps_t;

/* A point of the search: a, what it moves f by, the objective there and the likelihood's expansion. */
typedef struct {
    double *a, *moved, *gradient, *precision, value;
} point_t;

/* What the search for the mode of one expert is about. */
typedef struct {
    const steps_t *s;
    int64_t expert;
    double y;
    const double *loc, *cov;
    double *room; /* C + 2 classes, and C x (C + 1) */
} target_t;

static void expand_binary(const target_t *t, double f, double *value, double *gradient, double *precision)
{
    double slope = t->s->slope, x = t->s->intercept[t->expert] + slope * f, sign = 2.0 * t->y - 1.0, z = sign * x;
    double small = exp(-fabs(x)), share = 1.0 / (1.0 + small);
    *value = fmin(z, 0.0) - log1p(small);
    *gradient = slope * (sign * share * (z > 0.0 ? small : 1.0));
    *precision = slope * slope * (small * share * share);
}

/* Return exp(u) - 1 - u, from exp(u) - 1. */
static double excess(double u, double grown)
{
    double series = u * (1.0 / 3.0 + u * (1.0 / 12.0 + u * (1.0 / 60.0 + u * (1.0 / 360.0 + u / 2520.0))));
    return fabs(u) <= 0.01 ? 0.5 * u * u * (1.0 + series) : grown - u;
}

static void expand_poisson(const target_t *t, double f, double *value, double *gradient, double *precision)
{
    double a = fmax(t->y, 1.0), log_a = log(a), u = f + (t->s->intercept[t->expert] - log_a);
    double capped = fmin(u, fmax(80.0 - log_a, 11.0)), grown = expm1(capped), beyond = u - capped;
    double over = a > 1e6 ? excess(capped, grown) + grown * beyond : grown * (1.0 + beyond) - capped;
    *value = (t->y - a) * u - a * over;
    *gradient = (t->y - a) - a * grown;
    *precision = beyond > 0.0 ? 0.0 : a * (grown + 1.0);
}

static void expand_negative_binomial(const target_t *t, double f, double *value, double *gradient, double *precision)
{
    double y = t->y, r = t->s->dispersion[t->expert], a = fmax(y, 1.0), u = f + (t->s->intercept[t->expert] - log(a));
    int is_large = a > r;
    double least = (is_large ? r : a) / (a + r), near = fmin(fmax(u, -700.0), 700.0), x = is_large ? -near : near;
    double change = least * expm1(x), beyond = u - near;
    *value = (is_large ? -r : y) * near - (y + r) * log1p(change) + (beyond < 0.0 ? y : -r) * beyond;
    double lesser = least * exp(x) / (1.0 + change), other = (1.0 - least) / (1.0 + change);
    double share = is_large ? other : lesser, rest = is_large ? lesser : other;
    *gradient = y * rest - r * share;
    *precision = (y + r) * (rest * share);
}

static const double ROOT_2 = 1.4142135623730950488, ROOT_PI = 1.7724538509055160273, TINY = DBL_MIN;

/* Return exp(x^2) erfc(x); far out by its continued fraction. */
static double erfcx(double x)
{
    if (x < 5.0)
        return exp(x * x) * erfc(x);
    double rest = x;
    for (int k = 40; k > 0; k--)
        rest = x + 0.5 * k / rest;
    return 1.0 / (ROOT_PI * rest);
}

static double normal_density(double z) { return exp(-0.5 * z * z) / (ROOT_2 * ROOT_PI); }

/* Expand the log of the probability below z, which falls or rises with the latent value: that of an end grade. */
static void expand_tail(double z, double sign, double *value, double *gradient, double *precision)
{
    double slope = z < 37.0 ? ROOT_2 / ROOT_PI / erfcx(-z / ROOT_2) : 0.0, squared = 1.0 / (z * z);
    *value = z < -1.0 ? log(0.5 * erfcx(-z / ROOT_2)) - 0.5 * z * z : log1p(-0.5 * erfc(z / ROOT_2));
    *gradient = sign * slope;
    *precision = z < -60.0 ? 1.0 - squared * (1.0 - squared * (6.0 - 50.0 * squared)) : slope * (slope + z);
}

/* A grade between its thresholds, mirrored so that its middle is no less than zero. */
static void expand_grade(const target_t *t, double f, double *value, double *gradient, double *precision)
{
    int64_t last = t->s->classes - 1, y = (int64_t)t->y;
    const double *thresholds = t->s->intercept + t->expert * last;
    if (y == 0 || y == last) {
        expand_tail(y ? f - thresholds[last - 1] : thresholds[0] - f, y ? 1.0 : -1.0, value, gradient, precision);
        return;
    }
    double low = thresholds[y - 1] - f, high = thresholds[y] - f, at_near, at_far;
    int mirrored = low + high < 0.0;
    double near = mirrored ? -high : low, far = mirrored ? -low : high;
    if (near > 30.0) { /* probabilities too small for numbers */
        double ratio = exp(-0.5 * (far - near) * (far + near));
        double mills = ROOT_PI / ROOT_2 * (erfcx(near / ROOT_2) - ratio * erfcx(far / ROOT_2));
        mills = fmax(mills, TINY);
        at_near = 1.0 / mills;
        at_far = at_near * ratio;
        *value = log(mills) - 0.5 * near * near - log(ROOT_2 * ROOT_PI);
    } else {
        double beyond = ndtr(-far), p = fmax(ndtr(-near) - beyond, TINY);
        at_near = normal_density(near) / p;
        at_far = normal_density(far) / p;
        *value = p > 0.5 ? log1p(-ndtr(near) - beyond) : log(p);
    }
    double at_high = mirrored ? at_near : at_far, at_low = mirrored ? at_far : at_near, both = at_high - at_low;
    *gradient = -both;
    *precision = fmin(fmax(high * at_high - low * at_low + both * both, 0.0), 1.0);
}

static void expand_classes(const target_t *t, const double *f, double *value, double *gradient, double *precision)
{
    int64_t C = t->s->latents, J = t->s->classes, own = (int64_t)t->y;
    const double *H = t->s->contrasts, *intercept = t->s->intercept + t->expert * J;
    double *logit = t->room, *p = logit + J, most = -INFINITY, others = -1.0;
    for (int64_t j = 0; j < J; j++) {
        logit[j] = intercept[j];
        for (int64_t c = 0; c < C; c++)
            logit[j] += f[c] * H[c * J + j];
        most = logit[j] > most ? logit[j] : most;
    }
    /* The largest is one and the others, summed apart: the log of a probability near one keeps its digits. */
    for (int64_t j = 0; j < J; j++)
        others += logit[j] == most;
    for (int64_t j = 0; j < J; j++) {
        logit[j] -= most;
        p[j] = exp(logit[j]);
        others += logit[j] == 0.0 ? 0.0 : p[j];
    }
    *value = logit[own] - log1p(others);
    for (int64_t c = 0; c < C; c++) {
        double mean = 0.0;
        for (int64_t j = 0; j < J; j++)
            mean += p[j] / (1.0 + others) * H[c * J + j];
        gradient[c] = H[c * J + own] - mean;
    }
    for (int64_t c = 0; c < C; c++)
        for (int64_t d = 0; d <= c; d++) {
            double sum = 0.0, mean = (H[c * J + own] - gradient[c]) * (H[d * J + own] - gradient[d]);
            for (int64_t j = 0; j < J; j++)
                sum += p[j] / (1.0 + others) * H[c * J + j] * H[d * J + j];
            precision[c * C + d] = precision[d * C + c] = sum - mean;
        }
}

/* Fill in a point whose a is there. */
static void look(const target_t *t, point_t *at)
{
    int64_t C = t->s->latents;
    double *f = t->room + 2 * t->s->classes, whole = 0.0;
    for (int64_t c = 0; c < C; c++) {
        at->moved[c] = 0.0;
        for (int64_t d = 0; d < C; d++)
            at->moved[c] += t->cov[c * C + d] * at->a[d];
        f[c] = t->loc[c] + at->moved[c];
        whole += at->a[c] * at->moved[c];
    }
    switch (t->s->kind) {
    case BINARY:
        expand_binary(t, *f, &at->value, at->gradient, at->precision);
        break;
    case POISSON:
        expand_poisson(t, *f, &at->value, at->gradient, at->precision);
        break;
    case NEGATIVE_BINOMIAL:
        expand_negative_binomial(t, *f, &at->value, at->gradient, at->precision);
        break;
    case GRADES:
        expand_grade(t, *f, &at->value, at->gradient, at->precision);
        break;
    default:
        expand_classes(t, f, &at->value, at->gradient, at->precision);
    }
    at->value -= 0.5 * whole;
}

/* Solve A x = B of B (C x m) in place, by elimination with partial pivoting; A is overwritten. */
static void solve(int64_t C, double *A, int64_t m, double *B)
{
    for (int64_t i = 0; i < C; i++) {
        int64_t best = i;
        for (int64_t k = i + 1; k < C; k++)
            best = fabs(A[k * C + i]) > fabs(A[best * C + i]) ? k : best;
        for (int64_t j = 0; best != i && j < C; j++) {
            double other = A[i * C + j];
            A[i * C + j] = A[best * C + j];
            A[best * C + j] = other;
        }
        for (int64_t j = 0; best != i && j < m; j++) {
            double other = B[i * m + j];
            B[i * m + j] = B[best * m + j];
            B[best * m + j] = other;
        }
        for (int64_t k = i + 1; k < C; k++) {
            double factor = A[k * C + i] / A[i * C + i];
            for (int64_t j = i + 1; j < C; j++)
                A[k * C + j] -= factor * A[i * C + j];
            for (int64_t j = 0; j < m; j++)
                B[k * m + j] -= factor * B[i * m + j];
        }
    }
    for (int64_t i = C - 1; i >= 0; i--)
        for (int64_t j = 0; j < m; j++) {
            for (int64_t k = i + 1; k < C; k++)
                B[i * m + j] -= A[i * C + k] * B[k * m + j];
            B[i * m + j] /= A[i * C + i];
        }
}

/* Write I + precision cov. */
static void whitened(const target_t *t, const double *precision, double *A)
{
    int64_t C = t->s->latents;
    for (int64_t c = 0; c < C; c++)
        for (int64_t d = 0; d < C; d++) {
            A[c * C + d] = c == d ? 1.0 : 0.0;
            for (int64_t k = 0; k < C; k++)
                A[c * C + d] += precision[c * C + k] * t->cov[k * C + d];
        }
}

/* Write where a whole step of Newton's method leads, less where it begins. */
static void newton(const target_t *t, const point_t *at, double *direction)
{
    int64_t C = t->s->latents;
    if (C == 1) {
        double precision = fabs(*at->precision);
        *direction = (precision * *at->moved + *at->gradient) / (1.0 + precision * *t->cov) - *at->a;
        return;
    }
    double *A = t->room + 2 * t->s->classes + C;
    whitened(t, at->precision, A);
    for (int64_t c = 0; c < C; c++) {
        direction[c] = at->gradient[c];
        for (int64_t d = 0; d < C; d++)
            direction[c] += at->precision[c * C + d] * at->moved[d];
    }
    solve(C, A, 1, direction);
    for (int64_t c = 0; c < C; c++)
        direction[c] -= at->a[c];
}

static double largest(int64_t C, const double *a)
{
    double most = 0.0;
    for (int64_t c = 0; c < C; c++)
        most = fabs(a[c]) > most || isnan(a[c]) ? fabs(a[c]) : most;
    return most;
}

static void swap(point_t *one, point_t *other)
{
    point_t held = *one;
    *one = *other;
    *other = held;
}

/* Begin where the latent value explains the target, if that is better than the prior mean. */
static void begin(const target_t *t, point_t *now, point_t *ahead)
{
    memset(now->a, 0, (size_t)t->s->latents * sizeof(double));
    look(t, now);
    if (t->s->kind != POISSON && t->s->kind != NEGATIVE_BINOMIAL)
        return;
    double explains = log(t->y + 0.5) - t->s->intercept[t->expert];
    *ahead->a = *t->cov > 0.0 ? (explains - *t->loc) / fmax(*t->cov, 1e-300) : 0.0;
    look(t, ahead);
    if (ahead->value > now->value)
        swap(now, ahead);
}

/* Find the mode; it is `now` in the end. */
static void search(const target_t *t, point_t *now, point_t *ahead, double *direction)
{
    const steps_t *s = t->s;
    int64_t C = s->latents;
    double *f = t->room + 2 * s->classes;
    begin(t, now, ahead);
    for (int64_t step = 0; step < s->most_steps; step++) {
        double enough = now->value - s->rounding * fabs(now->value), scale = 1.0;
        newton(t, now, direction);
        for (int64_t c = 0; c < C; c++) {
            f[c] = 0.0;
            for (int64_t d = 0; d < C; d++)
                f[c] += t->cov[c * C + d] * direction[d];
        }
        int is_long = largest(C, f) > s->tolerance * (1.0 + largest(C, now->moved));
        for (int64_t halving = 0;; halving++) {
            for (int64_t c = 0; c < C; c++)
                ahead->a[c] = now->a[c] + scale * direction[c];
            look(t, ahead);
            if (ahead->value >= enough) /* NaN is not */
                break;
            if (halving == s->most_halvings - 1)
                return; /* no multiple of the direction is better than rounding */
            scale *= 0.5;
        }
        swap(now, ahead);
        if (!is_long)
            return;
    }
}

/* Write what a target changes: its step, from `shift` (C) and `shrink` (C x C). */
static void find_step(const target_t *t, double *shift, double *shrink)
{
    int64_t C = t->s->latents;
    double *room = t->room + 2 * t->s->classes + C + C * (C + 1);
    point_t now = {room, room + C, room + 2 * C, room + 3 * C, 0.0}, ahead = now;
    int64_t size = 3 * C + C * C;
    ahead.a += size, ahead.moved += size, ahead.gradient += size, ahead.precision += size;
    search(t, &now, &ahead, room + 2 * size);
    memcpy(shift, now.a, (size_t)C * sizeof(double));
    if (C == 1) {
        double precision = fmax(*now.precision, 0.0);
        *shrink = precision / (1.0 + precision * *t->cov);
        return;
    }
    double *A = t->room + 2 * t->s->classes + C;
    whitened(t, now.precision, A);
    memcpy(shrink, now.precision, (size_t)(C * C) * sizeof(double));
    solve(C, A, C, shrink);
    for (int64_t c = 0; c < C; c++)
        for (int64_t d = 0; d < c; d++)
            shrink[c * C + d] = shrink[d * C + c] = 0.5 * (shrink[c * C + d] + shrink[d * C + c]);
}

/* Write the belief of an expert over a row before its step; return whether its covariance is clearly one. */
static int read_row(const steps_t *s, int64_t e, int64_t i, double *A)
{
    int64_t C = s->latents, n = s->rows, size = n * C;
    const double *K = s->cov + (e * size + i * C) * size + i * C;
    double *own = s->own_cov + (e * n + i) * C * C, most = -INFINITY;
    memcpy(s->own_loc + (e * n + i) * C, s->loc + e * size + i * C, (size_t)C * sizeof(double));
    if (C == 1) {
        *own = fmax(*K, 0.0);
        return 1;
    }
    for (int64_t c = 0; c < C; c++) {
        for (int64_t d = 0; d < C; d++)
            own[c * C + d] = 0.5 * (K[c * size + d] + K[d * size + c]);
        most = fmax(most, own[c * C + c]);
    }
    for (int64_t c = 0; c < C; c++)
        for (int64_t d = 0; d <= c; d++) {
            double sum = own[c * C + d] - (c == d ? s->clear * most : 0.0);
            for (int64_t k = 0; k < d; k++)
                sum -= A[c * C + k] * A[d * C + k];
            if (c == d && !(sum > 0.0))
                return 0;
            A[c * C + d] = c == d ? sqrt(sum) : sum / A[d * C + d];
        }
    return 1;
}

/* Let an expert's step at row i change its belief over the rows after it. */
static void go_on(const steps_t *s, int64_t e, int64_t i)
{
    int64_t C = s->latents, size = s->rows * C, first = (i + 1) * C;
    const double *shift = s->shift + e * size + i * C, *shrink = s->shrink + (e * s->rows + i) * C * C;
    double *K = s->cov + e * size * size, *gains = s->gains + e * size * size, *loc = s->loc + e * size;
    for (int64_t c = 0; c < C; c++) {
        const double *V = K + (i * C + c) * size;
        double *G = gains + (i * C + c) * size;
        for (int64_t d = 0; d < C; d++) {
            const double *other = K + (i * C + d) * size, by = shrink[c * C + d];
            for (int64_t q = first; q < size; q++)
                G[q] += by * other[q];
        }
        for (int64_t q = first; q < size; q++)
            loc[q] += shift[c] * V[q];
    }
    /* Of a later row only what stands beside it and after it is read. */
    for (int64_t p = first; p < size; p++)
        for (int64_t c = 0; c < C; c++) {
            const double *G = gains + (i * C + c) * size, by = K[(i * C + c) * size + p];
            double *row = K + p * size;
            for (int64_t q = p / C * C; q < size; q++)
                row[q] -= by * G[q];
        }
}

static WIDE int64_t take_steps(const steps_t *s, int64_t i)
{
    int64_t C = s->latents;
    for (; i < s->rows; i++) {
        for (int64_t e = 0; e < s->experts; e++)
            if (!read_row(s, e, i, s->room))
                return i;
        if (!s->mask[i])
            continue;
        for (int64_t e = 0; e < s->experts; e++) {
            int64_t at = e * s->rows + i;
            target_t target = {s, e, s->y[i], s->own_loc + at * C, s->own_cov + at * C * C, s->room};
            find_step(&target, s->shift + at * C, s->shrink + at * C * C);
            go_on(s, e, i);
        }
    }
    return i;
}

/* Take the steps of rows from the first one on; return which row comes first that must be taken in NumPy, or n. */
EXPORT int64_t laplace_steps(const steps_t *s, int64_t first) { return take_steps(s, first); }
