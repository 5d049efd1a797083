/* The recursion of weight rules over rows: `scan_rule` of streamgp/weights/base.py, of the rules that most use.
 *
 * All is kept in logs. The state of a rule is its log weights of the experts for the next row; a mixture has one for
 * each of its rules, and log weights of the rules.
 */
#include <math.h>
#include <string.h>

#include "kernel.h"

enum { BMA = 0, SHARE = 1, SOFT_BAYES = 2 }; /* as in streamgp/weights/native.py */

/* A rule: `rate` is that of a switch or of learning, `groups` (K) numbers the experts' groups from 0. */
typedef struct {
    int64_t kind, num_groups;
    double rate, background;
    const int64_t *groups;
} rule_t;

/* The rows: log densities (n, K), which rows count, which experts take them for outliers (or NULL), who is absent. */
typedef struct {
    const double *log_density;
    const uint8_t *mask, *is_outlier, *absent;
    double least; /* what an outlier tells against an expert at most, in logs */
} scored_t;

static double log_sum(const double *a, int64_t n)
{
    double top = -INFINITY, sum = 0.0;
    for (int64_t i = 0; i < n; i++)
        if (a[i] > top)
            top = a[i];
    if (!isfinite(top))
        top = 0.0;
    for (int64_t i = 0; i < n; i++)
        sum += exp(a[i] - top);
    return top + log(sum);
}

static double log_add(double a, double b)
{
    double top = a > b ? a : b, low = a > b ? b : a;
    return isfinite(top) ? top + log1p(exp(low - top)) : top;
}

/* Take the largest log density of an expert with weight from all: `relative`. */
static void make_relative(const double *weights, double *density, int64_t n)
{
    double top = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (weights[i] > -INFINITY && density[i] > top)
            top = density[i];
    if (isfinite(top))
        for (int64_t i = 0; i < n; i++)
            density[i] -= top;
}

/* Bayes' rule, of densities that are relative: `posterior`. */
static void learn_bayes(double *weights, const double *density, int64_t n, double *room)
{
    for (int64_t i = 0; i < n; i++)
        room[i] = weights[i] + density[i];
    double total = log_sum(room, n);
    if (isfinite(total))
        for (int64_t i = 0; i < n; i++)
            weights[i] = room[i] - total;
}

/* Mix in equal weights: `fresh_start`. */
static void start_afresh(double *weights, int64_t n, double share)
{
    if (share > 0.0)
        for (int64_t i = 0; i < n; i++)
            weights[i] = log((1.0 - share) * exp(weights[i]) + share / (double)n);
}

/* Switch inside groups: `Share._switch`, in the same three forms. */
static void switch_experts(const rule_t *rule, double *weights, int64_t K, double *room)
{
    double *mass = room, *size = room + rule->num_groups, *top = room + 2 * rule->num_groups, total = 0.0;
    if (rule->num_groups == 1 && rule->rate > 0.0) {
        double keep = 1.0 - rule->rate * (double)K;
        keep = keep > 0.0 ? keep : 0.0;
        for (int64_t k = 0; k < K; k++)
            weights[k] = log(keep * exp(weights[k]) + rule->rate);
        start_afresh(weights, K, rule->background);
        return;
    }
    for (int64_t g = 0; g < rule->num_groups; g++)
        mass[g] = size[g] = 0.0, top[g] = -INFINITY;
    if (rule->background > 0.0) {
        for (int64_t k = 0; k < K; k++) {
            double weight = exp(weights[k]);
            mass[rule->groups[k]] += weight, size[rule->groups[k]] += 1.0, total += weight;
        }
        for (int64_t k = 0; k < K; k++) {
            int64_t g = rule->groups[k];
            double keep = 1.0 - rule->rate * size[g];
            double switched = (keep > 0.0 ? keep : 0.0) * exp(weights[k]) + rule->rate * mass[g];
            weights[k] = log((1.0 - rule->background) * switched + rule->background / (double)K * total);
        }
        return;
    }
    for (int64_t k = 0; k < K; k++)
        if (weights[k] > top[rule->groups[k]])
            top[rule->groups[k]] = weights[k];
    for (int64_t g = 0; g < rule->num_groups; g++)
        if (!isfinite(top[g])) /* the group has no weight at the start */
            top[g] = 0.0;
    for (int64_t k = 0; k < K; k++)
        mass[rule->groups[k]] += exp(weights[k] - top[rule->groups[k]]), size[rule->groups[k]] += 1.0;
    for (int64_t k = 0; k < K; k++) {
        int64_t g = rule->groups[k];
        double group = top[g] + log(mass[g]);
        weights[k] = log_add(log1p(-rule->rate * size[g]) + weights[k], log(rule->rate) + group);
    }
}

/* Learn a row's log densities by one rule; `density` may be overwritten, `room` has K + 3 groups numbers. */
static void learn_rule(const rule_t *rule, double *weights, double *density, int64_t K, double *room)
{
    make_relative(weights, density, K);
    if (rule->kind != SOFT_BAYES) {
        learn_bayes(weights, density, K, room);
        if (rule->kind == SHARE)
            switch_experts(rule, weights, K, room);
        return;
    }
    for (int64_t k = 0; k < K; k++)
        room[k] = weights[k] + density[k];
    double total = log_sum(room, K), stays = log1p(-rule->rate), moves = log(rule->rate);
    if (isfinite(total))
        for (int64_t k = 0; k < K; k++)
            weights[k] += log_add(stays, moves + density[k] - total);
}

/* Give the log weights of the next row: of a single rule its own, of several their mean by the rules' weights. */
static void mix_rules(const double *weights, const double *rules, int64_t R, int64_t K, double *out)
{
    if (!rules) {
        memcpy(out, weights, (size_t)K * sizeof(double));
        return;
    }
    for (int64_t k = 0; k < K; k++) {
        double top = -INFINITY, sum = 0.0;
        for (int64_t r = 0; r < R; r++)
            if (rules[r] + weights[r * K + k] > top)
                top = rules[r] + weights[r * K + k];
        if (!isfinite(top)) {
            out[k] = top;
            continue;
        }
        for (int64_t r = 0; r < R; r++)
            sum += exp(rules[r] + weights[r * K + k] - top);
        out[k] = top + log(sum);
    }
}

/* Leave the weights of absent experts as they were, and so the sum of the others': `_kept`. */
static void keep_absent(const uint8_t *absent, const double *before, double *after, int64_t K, double *room)
{
    double sums[2];
    for (int64_t k = 0; k < K; k++)
        room[k] = absent[k] ? -INFINITY : before[k];
    sums[0] = log_sum(room, K);
    for (int64_t k = 0; k < K; k++)
        room[k] = absent[k] ? -INFINITY : after[k];
    sums[1] = log_sum(room, K);
    for (int64_t k = 0; k < K; k++)
        after[k] = absent[k] ? before[k] : after[k] - sums[1] + sums[0];
}

EXPORT int64_t weights_work_size(int64_t R, int64_t K) { return R * K + 2 * R + 4 * K + 3 * K + 8; }

/* Learn n rows by R rules over K experts.
 *
 * `weights` (R, K) and `rules` (R; NULL of a single rule) are the state, overwritten. What it was before each row goes
 * into `weights_before` (n, R, K) and `rules_before` (n, R).
 */
EXPORT void learn_weights(const rule_t *each, int64_t R, int64_t K, double share, double *weights, double *rules,
                          const scored_t *rows, int64_t n, double *weights_before, double *rules_before,
                          double *memory)
{
    double *old = memory, *evidence = old + R * K, *spare = evidence + R, *mixed = spare + R, *density = mixed + K;
    double *own = density + K, *room = own + K; /* K + 3 groups, of which there are K at most */
    for (int64_t i = 0; i < n; i++) {
        memcpy(weights_before + i * R * K, weights, (size_t)(R * K) * sizeof(double));
        if (rules)
            memcpy(rules_before + i * R, rules, (size_t)R * sizeof(double));
        if (!rows->mask[i])
            continue;
        memcpy(density, rows->log_density + i * K, (size_t)K * sizeof(double));
        mix_rules(weights, rules, R, K, mixed);
        if (rows->absent) { /* `present` */
            for (int64_t k = 0; k < K; k++)
                if (rows->absent[k])
                    mixed[k] = -INFINITY;
            double total = log_sum(mixed, K);
            for (int64_t k = 0; k < K; k++)
                mixed[k] -= total;
        }
        if (rows->is_outlier) {
            double doubt = 0.0;
            for (int64_t k = 0; k < K; k++)
                if (rows->is_outlier[i * K + k])
                    doubt += exp(mixed[k]);
            double trust = 1.0 - doubt > 0.0 ? 1.0 - doubt : 0.0;
            double least = rows->least + log1p(-trust);
            for (int64_t k = 0; k < K; k++)
                density[k] = log_add(density[k], least);
        }
        if (rows->absent) {
            for (int64_t k = 0; k < K; k++)
                room[k] = rows->absent[k] ? -INFINITY : mixed[k] + density[k];
            double together = log_sum(room, K);
            for (int64_t k = 0; k < K; k++)
                if (rows->absent[k])
                    density[k] = together;
            memcpy(old, weights, (size_t)(R * K) * sizeof(double));
        }
        if (rules) {
            mix_rules(weights, rules, R, K, mixed);
            make_relative(mixed, density, K);
            for (int64_t r = 0; r < R; r++) {
                for (int64_t k = 0; k < K; k++)
                    room[k] = weights[r * K + k] + density[k];
                evidence[r] = log_sum(room, K);
            }
            make_relative(rules, evidence, R);
            learn_bayes(rules, evidence, R, spare);
            start_afresh(rules, R, share);
        }
        for (int64_t r = 0; r < R; r++) {
            memcpy(own, density, (size_t)K * sizeof(double));
            learn_rule(each + r, weights + r * K, own, K, room);
            if (rows->absent)
                keep_absent(rows->absent, old + r * K, weights + r * K, K, room);
        }
    }
}
