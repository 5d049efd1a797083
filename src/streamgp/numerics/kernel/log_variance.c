/* The recursion of streamgp.likelihoods.noise_by_input, whose form in NumPy is its oracle. */
#include <math.h>

#include "kernel.h"

enum { PLACES = 10, CUTS = 9, OTHERS = 2 }; /* the other numbers that have places are m and l */

/* What is believed of one output: of L weights, and of B numbers with ten places each. */
typedef struct {
    int64_t L, d, B;
    double *mean, *cov, *share, *steps, *steps_var, *helps, *moments;
    const double *cuts;
} belief_t;

/* The log variance of a row: see `_LogVariances`. */
typedef struct {
    double plane, whole, used;
} log_variances_t;

static belief_t belief_of(const layer_t *x, int64_t e)
{
    int64_t d = x->inputs, L = 2 * d + 7, B = d + OTHERS;
    return (belief_t){L,
                      d,
                      B,
                      x->mean + e * L,
                      x->cov + e * L * L,
                      x->share + e,
                      x->steps + e * B * PLACES,
                      x->steps_var + e * B * PLACES,
                      x->helps + e,
                      x->moments + e * 3 * OTHERS,
                      x->cuts + e * d * CUTS};
}

static int place(double x, const double *cuts)
{
    int above = 0;
    for (int i = 0; i < CUTS; i++)
        above += x > cuts[i];
    return above;
}

/* Return where the effect of number i is among all, from the features of a row. */
static int64_t step_at(const belief_t *b, const layer_rules_t *rules, const double *phi, int64_t i)
{
    if (i < b->d)
        return i * PLACES + place(phi[1 + i], b->cuts + i * CUTS);
    const double *moments = b->moments + 3 * (i - b->d);
    double x = phi[i == b->d ? b->L - 6 : b->L - 2];
    return i * PLACES + place((x - moments[1]) / sqrt(moments[2] + rules->of_moments.least_variance), rules->cuts);
}

static double bounded(double h, const layer_rules_t *rules)
{
    return fmin(fmax(h, -rules->max_log_variance), rules->max_log_variance);
}

static log_variances_t log_variances(const belief_t *b, const layer_rules_t *rules, const double *phi)
{
    double plane = 0.0, more = 0.0;
    for (int64_t i = 0; i < b->L; i++)
        plane += phi[i] * b->mean[i];
    for (int64_t i = 0; i < b->B; i++)
        more += b->steps[step_at(b, rules, phi, i)];
    return (log_variances_t){bounded(plane, rules), bounded(plane + more, rules),
                             bounded(plane + *b->helps * more, rules)};
}

double variance_factor(const layer_t *x, int64_t e, const double *phi)
{
    belief_t b = belief_of(x, e);
    return exp(*b.share * log_variances(&b, x->rules, phi).used);
}

/* Return the squared score of a target whose variance is e^h times as large as that by which it has `square`. */
static double rescaled(double square, double h, const layer_rules_t *rules)
{
    return rules->tail * log1p(expm1(fmin(square, 100.0) / rules->tail) * exp(-h));
}

/* Learn that one log variance was so many times as likely as the other: the probability that it is the better one. */
static void learn_share(double *share, double odds, const layer_rules_t *rules)
{
    odds *= *share;
    *share = (1.0 - rules->switching) * odds / (odds + 1.0 - *share) + 0.5 * rules->switching;
}

/* Take a Kalman step of a plane's weights, whose target is `off` and whose noise is `noise`. */
static WIDE void learn_plane(int64_t L, const double *phi, double off, double noise, double *mean, double *cov,
                             double *gain)
{
    double s = noise;
    for (int64_t i = 0; i < L; i++)
        gain[i] = 0.0;
    for (int64_t j = 0; j < L; j++) /* cov is symmetric */
        for (int64_t i = 0; i < L; i++)
            gain[i] += cov[j * L + i] * phi[j];
    for (int64_t i = 0; i < L; i++)
        s += phi[i] * gain[i];
    for (int64_t i = 0; i < L; i++) {
        double part = gain[i] / s;
        mean[i] += gain[i] * (off / s);
        for (int64_t j = 0; j < L; j++)
            cov[i * L + j] -= part * gain[j];
    }
}

/* Let the effects of a row's places learn: as `learn_plane`, but every variance by itself. */
static void learn_steps(const belief_t *b, const layer_rules_t *rules, const double *phi, double off)
{
    double s = rules->fisher;
    for (int64_t i = 0; i < b->B * PLACES; i++)
        b->steps_var[i] += rules->walk * rules->step_var;
    for (int64_t i = 0; i < b->B; i++)
        s += b->steps_var[step_at(b, rules, phi, i)];
    for (int64_t i = 0; i < b->B; i++) {
        int64_t at = step_at(b, rules, phi, i);
        double var = b->steps_var[at];
        b->steps[at] += var * off / s;
        b->steps_var[at] = var - var * var / s;
    }
}

/* Learn the square of one score; a negative one is that of an outlier, which teaches nothing unless it is usual here. */
static void learn_square(const belief_t *b, const layer_rules_t *rules, const double *phi, double square,
                         log_variances_t h, double *gain)
{
    if (square < 0.0 && rescaled(-square, h.used, rules) > rules->max_ratio)
        return;
    square = fmin(fabs(square), rules->max_square);
    double of_plane = rescaled(square, h.plane, rules), of_whole = rescaled(square, h.whole, rules);
    double of_used = rescaled(square, h.used, rules), a = 0.5 * (rules->dof + 1.0) / rules->tail;
    learn_share(b->share, exp(-0.5 * h.used + a * (square - of_used)), rules);
    learn_share(b->helps, exp(0.5 * (h.plane - h.whole) + a * (of_plane - of_whole)), rules);
    for (int64_t i = 0; i < b->L; i++)
        b->cov[i * b->L + i] += rules->walk * (i ? rules->prior_var : rules->constant_var);
    learn_plane(b->L, phi, fmin(of_plane, rules->max_ratio) - 1.0, rules->fisher, b->mean, b->cov, gain);
    learn_steps(b, rules, phi, fmin(of_whole, rules->max_ratio) - 1.0);
    learn_moments(phi[b->L - 6], &rules->of_moments, b->moments);
    learn_moments(phi[b->L - 2], &rules->of_moments, b->moments + 3);
}

/* Learn the squares (n, E), of which NaN teaches nothing, in place, by features (n, E, L).
 *
 * Writes the factor on the variance of each row before it is learnt, and, unless it is NULL, of those with features
 * `later` once the row is learnt. Takes room for 2 L.
 */
EXPORT void learn_log_variances(int64_t n, const layer_t *x, const double *phi, const double *square,
                                const double *later, double *factor, double *factor_later, double *room)
{
    int64_t E = x->outputs;
    for (int64_t at = 0; at < n * E; at++) {
        belief_t b = belief_of(x, at % E);
        const double *of_row = phi + at * b.L;
        log_variances_t h = log_variances(&b, x->rules, of_row);
        factor[at] = exp(*b.share * h.used);
        if (!isnan(square[at]))
            learn_square(&b, x->rules, of_row, square[at], h, room);
        if (later)
            factor_later[at] = variance_factor(x, at % E, later + at * b.L);
    }
}
