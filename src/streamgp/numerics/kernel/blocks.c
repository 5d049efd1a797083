/* One expert learns consecutive blocks of rows: `update_block` of streamgp/filters/kalman.py, in place.
 *
 * Of the covariance (F x F) the upper triangle, as NumPy counts, is kept up to date between the blocks; in the end it
 * is mirrored. Symbols are those of kalman.py: K = L L' is the covariance of a block's targets, z = L^-1 (y - mean).
 */
#include <math.h>
#include <string.h>

#include "kernel.h"

/* The rows, of m blocks of B: shapes as in `update_blocks`. `gram` is NULL if all weights stand still. */
typedef struct {
    const double *Phi, *gram, *y, *tau, *extra;
    const uint8_t *mask;
} rows_t;

/* One expert: its belief, its dynamics and variances, and room for what it predicts. */
typedef struct {
    double *mean, *cov;
    guard_t guard; /* level is NULL without one */
    double decay, diffusion, prior_var, noise_var;
    double *loc, *var;
    uint8_t *is_outlier;
} expert_t;

/* Room for one block, cut out of one piece of memory: see `work_size`. */
typedef struct {
    double *cross, *K, *a, *b, *predicted, *z, *residual, *lower;
} work_t;

enum { MAX_OUTPUTS = 16 }; /* `MAX_OUTPUTS` of streamgp/filters/engine/native.py */

static const double ONE = 1.0, ZERO = 0.0, MINUS_ONE = -1.0;

EXPORT int64_t work_size(int features, int rows, int outputs)
{
    int64_t F = features, B = rows, E = outputs;
    return B * F + 3 * B * B + B + 3 * B * E;
}

static work_t cut(double *memory, int F, int B, int E)
{
    work_t w;
    w.cross = memory;
    w.K = w.cross + (int64_t)B * F;
    w.b = w.K + B * B;
    w.lower = w.b + B * B;
    w.a = w.lower + B * B;
    w.predicted = w.a + B;
    w.z = w.predicted + B * E;
    w.residual = w.z + B * E;
    return w;
}

/* The variance that the weights gain in a time tau, in prior variances: `Dynamics.process_variance`. */
static double gained(const expert_t *x, double tau)
{
    double rate = 2.0 * log(x->decay);
    return x->diffusion * (rate < 0.0 ? expm1(rate * tau) / expm1(rate) : tau);
}

/* Set the factor on the weights at each row, and the variance that they have gained at each two. */
static void set_times(const expert_t *x, const double *tau, int B, work_t w)
{
    for (int i = 0; i < B; i++)
        w.a[i] = x->decay < 1.0 ? pow(x->decay, tau[i]) : 1.0;
    int divides = w.a[B - 1] > 1e-100; /* so that a[j] / a[i] is the factor from row i to row j */
    for (int i = 0; i < B; i++) {
        double variance = gained(x, tau[i]) * x->prior_var;
        for (int j = i; j < B; j++) {
            double factor = 1.0;
            if (x->decay < 1.0)
                factor = divides ? w.a[j] / w.a[i] : pow(x->decay, tau[j] - tau[i]);
            w.b[i * B + j] = w.b[j * B + i] = variance * factor;
        }
    }
}

/* Factorise the B - first last rows of K by themselves; return whether there is a factor as large as it must be. */
static int factorise(const blas_t *blas, double *K, int first, int B, double least)
{
    int n = B - first, info;
    blas->potrf("U", &n, K + first * B + first, &B, &info);
    for (int i = first; i < B; i++)
        if (info != 0 || !(K[i * B + i] >= least)) /* NaN included */
            return 0;
    return 1;
}

/* Find the outliers of a block, raise their noise, and factorise and solve anew what comes after them. */
static int raise_outliers(const blas_t *blas, const guard_rules_t *rules, expert_t *x, const uint8_t *mask, int B,
                          int E, work_t w, double *var, uint8_t *is_outlier)
{
    for (int i = 0; i < B; i++) {
        int found = 0;
        double *L = w.K, *z = w.z, raised = 1.0;
        var[i] = L[i * B + i] * L[i * B + i];
        is_outlier[i] = 0;
        if (mask[i])
            raised = learn_innovation(x->guard, rules, z + i * E, E, &found);
        if (!found)
            continue;
        is_outlier[i] = 1;
        int n = B - i;
        double used = raised < rules->max_raised ? raised : rules->max_raised, shortened = sqrt(used / raised);
        for (int j = i; j < B; j++) { /* the errors given the rows before i, and the covariance given them */
            for (int e = 0; e < E; e++) {
                double left = w.residual[j * E + e];
                for (int k = 0; k < i; k++)
                    left -= L[j * B + k] * z[k * E + e];
                z[j * E + e] = j == i ? left * shortened : left;
            }
            for (int k = i; k <= j; k++) {
                double sum = 0.0;
                for (int l = i; l <= k; l++)
                    sum += L[j * B + l] * L[k * B + l];
                w.lower[(j - i) * B + k - i] = sum;
            }
        }
        w.lower[0] *= used;
        for (int j = 0; j < n; j++)
            memcpy(L + (i + j) * B + i, w.lower + j * B, (j + 1) * sizeof(double));
        int info;
        blas->potrf("U", &n, L + i * B + i, &B, &info);
        if (info != 0)
            return 0;
        blas->trsm("R", "U", "N", "N", &E, &n, &ONE, L + i * B + i, &B, z + i * E, &E);
    }
    return 1;
}

/* Predict block number `at`, then learn it; return 0, with the belief as it was, where K has no factor. */
static int learn_block(const blas_t *blas, const guard_rules_t *rules, expert_t *x, rows_t rows, int64_t at, int F,
                       int B, int E, work_t w, int reverts)
{
    const double *Phi = rows.Phi + at * B * F, *gram = rows.gram ? rows.gram + at * B * B : 0;
    const double end = rows.gram ? w.a[B - 1] : 1.0, shrink = end * end, jitter = 1.0 + B * 2.220446049250313e-16;
    blas->symm("L", "L", &F, &B, &ONE, x->cov, &F, Phi, &F, &ZERO, w.cross, &F);
    blas->gemm("T", "N", &B, &B, &F, &ONE, Phi, &F, w.cross, &F, &ZERO, w.K, &B);
    blas->gemm("N", "N", &E, &B, &F, &ONE, x->mean, &E, Phi, &F, &ZERO, w.predicted, &E);
    for (int i = 0; i < B; i++) {
        if (reverts) {
            for (int j = 0; j < B; j++)
                w.K[i * B + j] *= w.a[i] * w.a[j];
            for (int e = 0; e < E; e++)
                w.predicted[i * E + e] *= w.a[i];
            for (int f = 0; f < F; f++)
                w.cross[(int64_t)i * F + f] *= end * w.a[i];
        }
        if (gram) {
            const double moved = w.b[(B - 1) * B + i];
            for (int j = 0; j < B; j++)
                w.K[i * B + j] += w.b[i * B + j] * gram[i * B + j];
            for (int f = 0; f < F; f++)
                w.cross[(int64_t)i * F + f] += moved * Phi[(int64_t)i * F + f];
        }
        w.K[i * B + i] = (w.K[i * B + i] + x->noise_var + (rows.extra ? rows.extra[at * B + i] : 0.0)) * jitter;
        for (int e = 0; e < E; e++)
            w.residual[i * E + e] = rows.y[(at * B + i) * E + e] - w.predicted[i * E + e];
    }
    if (!factorise(blas, w.K, 0, B, sqrt((1.0 - 1e-3) * x->noise_var)))
        return 0;
    memcpy(w.z, w.residual, (size_t)B * E * sizeof(double));
    blas->trsm("R", "U", "N", "N", &E, &B, &ONE, w.K, &B, w.z, &E);
    double *var = x->var + at * B, *loc = x->loc + at * B * E;
    if (x->guard.level) {
        if (!raise_outliers(blas, rules, x, rows.mask + at * B, B, E, w, var, x->is_outlier + at * B))
            return 0;
    } else {
        for (int i = 0; i < B; i++)
            var[i] = w.K[i * B + i] * w.K[i * B + i];
    }
    blas->trsm("R", "U", "N", "N", &F, &B, &ONE, w.K, &B, w.cross, &F);
    blas->gemm("N", "T", &E, &F, &B, &ONE, w.z, &E, w.cross, &F, &end, x->mean, &E);
    blas->syrk("L", "N", &F, &B, &MINUS_ONE, w.cross, &F, &shrink, x->cov, &F);
    if (gram)
        for (int f = 0; f < F; f++)
            x->cov[(int64_t)f * F + f] += w.b[B * B - 1];
    for (int i = 0; i < B; i++) /* prior + (L - diag L) z: row i takes no part of y_i, not even in its rounding */
        for (int e = 0; e < E; e++) {
            double sum = w.predicted[i * E + e];
            for (int k = 0; k < i; k++)
                sum += w.K[i * B + k] * w.z[k * E + e];
            loc[i * E + e] = sum;
        }
    return 1;
}

/* Start again from the prior. */
static void restart(expert_t *x, int F, int E)
{
    memset(x->mean, 0, (size_t)F * E * sizeof(double));
    memset(x->cov, 0, (size_t)F * F * sizeof(double));
    for (int f = 0; f < F; f++)
        x->cov[(int64_t)f * F + f] = x->prior_var;
    if (!x->guard.level)
        return;
    *x->guard.run = *x->guard.agreement = 0.0;
    for (int e = 0; e < E; e++) {
        x->guard.level[e] = 1.0;
        x->guard.last[e] = 0.0;
    }
}

static int is_finite(const double *values, int64_t count)
{
    double sum = 0.0;
    for (int64_t i = 0; i < count; i++)
        sum += values[i] * 0.0;
    return sum == 0.0;
}

/* Learn the blocks from `first` on; return the number of the first that is left: m, or one whose K has no factor. */
static int64_t learn_blocks(const blas_t *blas, const guard_rules_t *rules, expert_t *x, const rows_t *rows,
                            int64_t first, int64_t m, int F, int B, int E, work_t w)
{
    int reverts = rows->gram && x->decay < 1.0;
    int64_t at = first;
    for (; at < m; at++) {
        const double *tau = rows->tau + at * B;
        double level[MAX_OUTPUTS], last[MAX_OUTPUTS], run = 0.0, agreement = 0.0;
        if (rows->gram && (at == first || memcmp(tau, tau - B, (size_t)B * sizeof(double)) != 0))
            set_times(x, tau, B, w);
        if (x->guard.level) {
            memcpy(level, x->guard.level, (size_t)E * sizeof(double));
            memcpy(last, x->guard.last, (size_t)E * sizeof(double));
            run = *x->guard.run, agreement = *x->guard.agreement;
        }
        if (!learn_block(blas, rules, x, *rows, at, F, B, E, w, reverts)) {
            if (x->guard.level) {
                memcpy(x->guard.level, level, (size_t)E * sizeof(double));
                memcpy(x->guard.last, last, (size_t)E * sizeof(double));
                *x->guard.run = run, *x->guard.agreement = agreement;
            }
            break;
        }
        if (!is_finite(x->mean, (int64_t)F * E))
            restart(x, F, E);
    }
    for (int i = 0; i < F; i++) /* whole again, for whoever comes next */
        for (int j = 0; j < i; j++)
            x->cov[(int64_t)i * F + j] = x->cov[(int64_t)j * F + i];
    return at;
}

/* Let experts learn, each its rows from block left[i] on; left[i] becomes m, or the number of a block without factor. */
EXPORT void learn_experts(const blas_t *blas, const guard_rules_t *rules, int64_t count, expert_t *experts,
                          const rows_t *rows, int64_t *left, int64_t m, int F, int B, int E, double *memory)
{
    work_t w = cut(memory, F, B, E);
    for (int64_t i = 0; i < count; i++)
        if (left[i] < m)
            left[i] = learn_blocks(blas, rules, experts + i, rows + i, left[i], m, F, B, E, w);
}
