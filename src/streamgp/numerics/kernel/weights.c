/* The rules of a mixture side by side, row after row: `StackedRules` of streamgp/weights/stacked.py, its oracle.
 *
 * R rules have log weights of K experts each: first those of Bayes' kind, then those that share, then Soft-Bayes.
 */
#include <math.h>
#include <string.h>

#include "kernel.h"

/* Room for one row: densities (K), joint and likely (R x K), totals and their logs (R), groups. */
typedef struct {
    double *density, *joint, *likely, *total, *log_total, *group;
} row_t;

static double sum_of(const double *values, int64_t n)
{
    double sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += values[i];
    return sum;
}

static double largest(const double *values, int64_t n)
{
    double most = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        most = values[i] > most ? values[i] : most;
    return most;
}

static double log_sum(double a, double b)
{
    double most = a > b ? a : b, least = a > b ? b : a;
    return most + log1p(exp(least - most));
}

static double weight_of(const weight_rules_t *x, int64_t r)
{
    return x->is_linear ? x->of_rules[r] : exp(x->of_rules[r]);
}

/* Bound the log densities of a row that is an outlier to some by `least` and the log of their weight. */
static void bound(const weight_rules_t *x, const uint8_t *is_outlier, double least, double *density)
{
    int64_t K = x->experts;
    double all = 0.0, mistrust = 0.0;
    for (int64_t r = 0; r < x->rules; r++) {
        double rule = weight_of(x, r);
        for (int64_t k = 0; k < K; k++) {
            double weight = rule * exp(x->weights[r * K + k]);
            all += weight;
            mistrust += is_outlier[k] ? weight : 0.0;
        }
    }
    mistrust = x->mass ? mistrust / all : mistrust;
    if (!(mistrust > 0.0))
        return;
    double bounded = least + log(mistrust < 1.0 ? mistrust : 1.0);
    for (int64_t k = 0; k < K; k++)
        density[k] = log_sum(density[k], bounded);
}

static void learn_shares(const weight_rules_t *x, row_t row, double together)
{
    int64_t K = x->experts;
    for (int64_t s = 0; s < x->shares; s++) {
        int64_t r = x->bayes + s;
        double *likely = row.likely + r * K, *new = row.joint + r * K;
        for (int64_t k = 0; k < K; k++) {
            likely[k] /= row.total[r];
            new[k] = likely[k] * x->keep[s * K + k] + x->add[s];
        }
        for (int64_t p = 0; p < x->pools; p++) {
            if (x->pool_share[p] != s)
                continue;
            const int64_t *group = x->pool_group + p * K;
            memset(row.group, 0, (size_t)x->most_groups * sizeof(double));
            for (int64_t k = 0; k < K; k++)
                row.group[group[k]] += likely[k];
            for (int64_t g = 0; g < x->most_groups; g++) {
                row.group[g] *= x->pool_rate[p];
                if (x->mass)
                    row.group[g] += x->pooled[p * x->most_groups + g] * (together / row.total[r]);
            }
            for (int64_t k = 0; k < K; k++)
                new[k] += row.group[group[k]];
        }
        double whole = x->mass ? x->left[r] / sum_of(new, K) : 1.0;
        for (int64_t k = 0; k < K; k++) {
            likely[k] = new[k] * whole;
            x->weights[r * K + k] = log(likely[k]);
        }
    }
}

static void learn_soft(const weight_rules_t *x, row_t row)
{
    int64_t K = x->experts;
    for (int64_t s = 0; s < x->soft; s++) {
        int64_t r = x->bayes + x->shares + s;
        double *weights = x->weights + r * K, *likely = row.likely + r * K;
        double of_all = x->mass ? log(row.total[r]) : row.log_total[r];
        for (int64_t k = 0; k < K; k++) {
            weights[k] = log_sum(weights[k] + x->soft_old[s], row.joint[r * K + k] + x->soft_new[s] - of_all);
            likely[k] = exp(weights[k]);
        }
        if (!x->mass)
            continue;
        double whole = x->left[r] / sum_of(likely, K), change = log(whole);
        for (int64_t k = 0; k < K; k++) {
            weights[k] += change;
            likely[k] *= whole;
        }
    }
}

/* Weigh the rules by the density that each gave the target. */
static void weigh_rules(const weight_rules_t *x, row_t row)
{
    int64_t R = x->rules;
    if (x->is_linear) {
        double sum = 0.0;
        for (int64_t r = 0; r < R; r++)
            sum += x->of_rules[r] * row.total[r];
        for (int64_t r = 0; r < R; r++)
            x->of_rules[r] = (1.0 - x->fresh * R) / sum * (x->of_rules[r] * row.total[r]) + x->fresh;
        return;
    }
    for (int64_t r = 0; r < R; r++)
        x->of_rules[r] += log(row.total[r]);
    double top = largest(x->of_rules, R), sum = 0.0;
    for (int64_t r = 0; r < R; r++)
        sum += exp(x->of_rules[r] - top);
    for (int64_t r = 0; r < R; r++)
        x->of_rules[r] -= top + log(sum);
}

/* Learn the densities of a row; return 0, with all as it was, where a rule gives the row next to nothing.
 *
 * In `row.likely` are the new weights in the end, not in logs.
 */
static int learn_row(const weight_rules_t *x, row_t row)
{
    int64_t K = x->experts, R = x->rules;
    double top = largest(row.density, K), together = 0.0, left = 0.0;
    for (int64_t r = 0; r < R; r++) {
        for (int64_t k = 0; k < K; k++) {
            row.joint[r * K + k] = x->weights[r * K + k] + (row.density[k] - top);
            row.likely[r * K + k] = exp(row.joint[r * K + k]);
        }
        row.total[r] = sum_of(row.likely + r * K, K);
        if (!(row.total[r] > x->least_total))
            return 0;
        row.log_total[r] = log(row.total[r]);
    }
    for (int64_t r = 0; r < x->bayes; r++) {
        double left_over = x->mass ? x->left[r] : 1.0, change = log(left_over) - row.log_total[r];
        for (int64_t k = 0; k < K; k++) {
            x->weights[r * K + k] = row.joint[r * K + k] + change;
            row.likely[r * K + k] *= left_over / row.total[r];
        }
    }
    if (x->mass) {
        for (int64_t r = 0; r < R; r++) {
            together += weight_of(x, r) * row.total[r];
            left += weight_of(x, r) * x->left[r];
        }
        together /= left;
        for (int64_t r = 0; r < R; r++)
            row.total[r] += x->mass[r] * together;
    }
    learn_shares(x, row, together);
    learn_soft(x, row);
    if (R > 1)
        weigh_rules(x, row);
    return 1;
}

/* Return the log weight of expert k by all rules together. */
static double mixed_of(const weight_rules_t *x, int64_t k)
{
    double most = -INFINITY, sum = 0.0;
    for (int64_t r = 0; r < x->rules; r++)
        most = fmax(most, x->weights[r * x->experts + k] + (x->is_linear ? 0.0 : x->of_rules[r]));
    for (int64_t r = 0; r < x->rules; r++)
        sum += x->is_linear ? x->of_rules[r] * exp(x->weights[r * x->experts + k] - most)
                            : exp(x->weights[r * x->experts + k] + x->of_rules[r] - most);
    return most + log(sum);
}

/* Let log weights of the experts that are here sum to one, where others are not. */
static void normalise(const weight_rules_t *x, double *mixed)
{
    if (!x->mass)
        return;
    double top = largest(mixed, x->experts), sum = 0.0;
    for (int64_t k = 0; k < x->experts; k++)
        sum += exp(mixed[k] - top);
    for (int64_t k = 0; k < x->experts; k++)
        mixed[k] -= top + log(sum);
}

/* Write the log weights of the experts that are here by all rules together. */
EXPORT void mix_weights(const weight_rules_t *x, double *mixed)
{
    for (int64_t k = 0; k < x->experts; k++)
        mixed[k] = mixed_of(x, k);
    normalise(x, mixed);
}

/* Do the same after a row, from the rules' new weights (R x K), which are not in logs. */
static void mix_learnt(const weight_rules_t *x, const double *weights, double *mixed)
{
    int64_t K = x->experts;
    memset(mixed, 0, (size_t)K * sizeof(double));
    for (int64_t r = 0; r < x->rules; r++) {
        double rule = weight_of(x, r);
        for (int64_t k = 0; k < K; k++)
            mixed[k] += rule * weights[r * K + k];
    }
    for (int64_t k = 0; k < K; k++)
        mixed[k] = mixed[k] > x->least_total ? log(mixed[k]) : mixed_of(x, k);
    normalise(x, mixed);
}

/* Learn n rows of log densities (n x K); return how many were learnt before one that must be learnt in logs.
 *
 * `is_outlier` (n x K) may be NULL. What all rules say together after each row, and the weights of the rules then, are
 * written to `mixed` and `of_rules`, if not NULL.
 */
EXPORT int64_t learn_weights(const weight_rules_t *x, int64_t n, const double *log_density, const uint8_t *is_outlier,
                             double least, double *mixed, double *of_rules, double *memory)
{
    int64_t K = x->experts, R = x->rules;
    double *joint = memory + K, *total = joint + 2 * R * K;
    row_t row = {memory, joint, joint + R * K, total, total + R, total + 2 * R};
    for (int64_t i = 0; i < n; i++) {
        memcpy(row.density, log_density + i * K, (size_t)K * sizeof(double));
        if (is_outlier && memchr(is_outlier + i * K, 1, (size_t)K))
            bound(x, is_outlier + i * K, least, row.density);
        if (!learn_row(x, row))
            return i;
        if (mixed)
            mix_learnt(x, row.likely, mixed + i * K);
        if (of_rules)
            memcpy(of_rules + i * R, x->of_rules, (size_t)R * sizeof(double));
    }
    return n;
}
