/* What experts predict of a row and learn from its target: `RowScoring` of streamgp/models/gaussian/row_scoring.py.
 *
 * The form in NumPy there is the oracle. F filters and J kinds of noise make K = F J experts of E outputs.
 */
#include <math.h>
#include <string.h>

#include "kernel.h"

/* Arrays of `ScoringKernel`. Those of noise and maps have room for the next beside them. */
typedef struct {
    int64_t filters, kinds, outputs, here, inputs, factors, rests;
    double least, trim;
    double least_level, least_of_outliers, edge, mean_absolute, mean_beyond, absolute_log, least_var;
    const weight_rules_t *rules;
    const noise_t *noise;                    /* NULL: noise is constant */
    const int64_t *is_here;                  /* which experts are there (here); NULL: all are */
    double *log_weights;                     /* K */
    const double *log_rho, *is_constant;     /* J: of the kinds of noise */
    double *shapes, *rates, *errors;         /* 2 x J, 2 x F x J x E, 2 x F x E */
    const layer_t *layer;                    /* NULL: there is none */
    const int64_t *which;                    /* inputs */
    const map_rules_t *map_rules;            /* of recalibration.c; NULL: nothing is recalibrated */
    const double *std_factors;               /* factors */
    double *counts, *helps, *spread;         /* 2 x E x 3 x factors, 2 x E x 3, 2 x E x 3 */
    const double *filter_loc, *filter_var;   /* F x E, F: of the row */
    const double *row, *y;                   /* its inputs, its target (E) */
    const uint8_t *is_outlier;               /* F */
    double *loc, *var, *dof, *left;          /* K x E, K x E, K, J: what the experts predict */
    double *weights, *each, *sound_loc, *wider; /* K, K, K x E, K x E: weights of sound experts, and what they say */
    double *phi, *factor;                    /* E x L, E */
    double *log_spread, *shares;             /* E, E x factors */
    double *moments, *density;               /* 2 x E, K x E */
    uint8_t *outlying;                       /* K */
    double *below, *u, *room;                /* K x E, E, and what the others need */
} scoring_t;

static double within(double a, double missing, double low, double high)
{
    return isnan(a) ? missing : fmin(fmax(a, low), high);
}

/* Let every kind of noise say what it makes of the filters' predictions, a time `gap` after the last row. */
static void predict_experts(const scoring_t *s, double gap)
{
    int64_t J = s->kinds, E = s->outputs;
    for (int64_t j = 0; s->noise && j < J; j++)
        s->left[j] = isfinite(s->log_rho[j]) ? exp(gap * s->log_rho[j]) : 0.0;
    for (int64_t i = 0; i < s->filters; i++)
        for (int64_t j = 0; j < J; j++) {
            int64_t k = i * J + j;
            s->dof[k] = s->noise && !s->is_constant[j] ? 2.0 * s->shapes[j] : INFINITY;
            for (int64_t e = 0; e < E; e++) {
                int64_t at = k * E + e;
                s->loc[at] = s->filter_loc[i * E + e];
                s->var[at] = s->filter_var[i];
                if (!s->noise)
                    continue;
                s->loc[at] += s->left[j] * s->errors[i * E + e];
                if (!s->is_constant[j])
                    s->var[at] *= s->rates[at] / (s->shapes[j] - 1.0);
            }
        }
}

/* Take the weight from experts whose predictions are not finite. */
static void drop_non_finite(const scoring_t *s)
{
    int64_t K = s->filters * s->kinds, E = s->outputs, all = 1;
    double total = 0.0;
    for (int64_t k = 0; k < K; k++) {
        int finite = 1;
        for (int64_t e = 0; e < E; e++)
            finite &= isfinite(s->loc[k * E + e]) && isfinite(s->var[k * E + e]);
        for (int64_t e = 0; e < E; e++) {
            s->sound_loc[k * E + e] = finite ? s->loc[k * E + e] : 0.0;
            s->wider[k * E + e] = finite ? s->var[k * E + e] : 1.0;
        }
        s->weights[k] = finite ? s->log_weights[k] : -INFINITY;
        total += exp(s->weights[k]);
        all &= finite;
    }
    total = all ? 0.0 : log(total);
    for (int64_t k = 0; k < K; k++) {
        s->weights[k] = isfinite(total) ? s->weights[k] - total : s->log_weights[k];
        s->each[k] = exp(s->weights[k]);
    }
}

/* Write mean and variance of one output of the mixture, of which `left` is taken from every weight. */
static void mix(const scoring_t *s, int64_t e, double left, double *mean, double *variance)
{
    int64_t K = s->filters * s->kinds, E = s->outputs;
    double *each = s->each, total = 1.0, m = 0.0, v = 0.0;
    if (left > 0.0) {
        each = s->room;
        total = 0.0;
        for (int64_t k = 0; k < K; k++)
            total += each[k] = fmax(s->each[k] - left, 0.0);
    }
    for (int64_t k = 0; k < K; k++)
        m += each[k] * s->sound_loc[k * E + e];
    m /= total;
    for (int64_t k = 0; k < K; k++) {
        double off = s->sound_loc[k * E + e] - m;
        v += each[k] * (s->wider[k * E + e] + off * off);
    }
    *mean = m;
    *variance = v / total;
}

static double log_std_of(const scoring_t *s, double variance)
{
    return 0.5 * log(within(variance, 1.0, s->least_var, 1.0 / s->least_var));
}

/* Multiply the variances of an output by the factor that follows from the inputs. */
static void widen(const scoring_t *s, int64_t e)
{
    int64_t d = s->inputs, L = 2 * d + 7, K = s->filters * s->kinds;
    double *phi = s->phi + e * L, m, v;
    mix(s, e, 0.0, &m, &v);
    m = within(m, 0.0, -s->edge, s->edge);
    double log_std = fmin(fmax(log_std_of(s, v) + 1.0, -s->edge), s->edge);
    phi[0] = 1.0;
    for (int64_t i = 0; i < d; i++) {
        double x = within(s->row[s->which[i]], 0.0, -s->edge, s->edge);
        phi[1 + i] = x;
        phi[1 + d + i] = fabs(x) - s->mean_absolute;
    }
    double of_moments[6] = {m,
                            fabs(m) - s->mean_absolute,
                            fmax(m - 1.0, 0.0) - s->mean_beyond,
                            fmax(-m - 1.0, 0.0) - s->mean_beyond,
                            log_std,
                            fabs(log_std) - s->absolute_log};
    memcpy(phi + 1 + 2 * d, of_moments, sizeof of_moments);
    s->factor[e] = variance_factor(s->layer, e, phi);
    for (int64_t k = 0; k < K; k++)
        s->wider[k * s->outputs + e] *= s->factor[e];
}

/* Find the shares of an output's recalibration; return by what it multiplies the variance. */
static double recalibrate(const scoring_t *s, int64_t e)
{
    int64_t J = s->factors, maps = 3 * e;
    double *shares = s->shares + e * J, m, v, squares = 0.0;
    mix(s, e, 0.0, &m, &v);
    s->log_spread[e] = log_std_of(s, v);
    level_shares(1, 1, J, 0, s->map_rules, s->std_factors, s->log_spread + e, s->counts + maps * J, s->helps + maps,
                 s->spread + maps, shares);
    for (int64_t j = 0; j < J; j++)
        squares += shares[j] * (s->std_factors[j] * s->std_factors[j]);
    return squares;
}

/* Predict a row that comes a time `gap` after the last one, from what its filters predict. */
EXPORT void predict_mixture(const scoring_t *s, double gap)
{
    int64_t K = s->filters * s->kinds;
    predict_experts(s, gap);
    drop_non_finite(s);
    for (int64_t e = 0; e < s->outputs; e++) {
        if (s->layer)
            widen(s, e);
        double factor = s->map_rules ? recalibrate(s, e) : 1.0;
        mix(s, e, s->trim / (double)K, s->moments + e, s->moments + s->outputs + e);
        s->moments[s->outputs + e] *= factor;
    }
}

/* Replace sums of log densities that are NaN by the worst of the others; return whether all are finite then. */
static int fill_missing(double *density, int64_t K)
{
    double worst = INFINITY;
    int finite = 1;
    for (int64_t k = 0; k < K; k++)
        worst = density[k] < worst ? density[k] : worst;
    worst = worst < INFINITY ? worst : 0.0;
    for (int64_t k = 0; k < K; k++) {
        density[k] = isnan(density[k]) ? worst : density[k];
        finite &= isfinite(density[k]);
    }
    return finite;
}

/* Write the levels of the targets under the mixture, from those under the experts. */
static void mix_levels(const scoring_t *s)
{
    int64_t K = s->filters * s->kinds, E = s->outputs;
    for (int64_t e = 0; e < E; e++) {
        s->u[e] = 0.0;
        for (int64_t k = 0; k < K; k++)
            if (isfinite(s->below[k * E + e]))
                s->u[e] += s->each[k] * s->below[k * E + e];
    }
}

/* Let noise by input learn the levels; write those under the mixture with its factor. */
static void learn_layer(const scoring_t *s, int flagged)
{
    int64_t E = s->outputs;
    double *square = s->room, *factor = square + E;
    for (int64_t e = 0; e < E; e++) {
        double least = flagged ? s->least_of_outliers : s->least_level;
        double g = ndtri(within(s->u[e], 0.5, least, 1.0 - least));
        square[e] = !isfinite(s->u[e]) ? NAN : flagged ? -g * g : g * g;
    }
    learn_log_variances(1, s->layer, s->phi, square, NULL, factor, NULL, factor + E);
    if (!s->map_rules)
        return;
    const double *dof = s->noise ? s->dof : NULL;
    target_values(1, s->filters * s->kinds, E, s->kinds, s->sound_loc, s->wider, dof, s->y, NULL, s->below);
    mix_levels(s);
}

/* Let recalibration learn the levels. */
static void learn_maps(const scoring_t *s)
{
    int64_t E = s->outputs, J = s->factors, maps = 3 * E;
    const uint8_t learnt = 1;
    learn_level_maps(1, E, J, s->map_rules, s->std_factors, s->u, s->log_spread, &learnt, s->counts, s->helps, s->spread);
    memcpy(s->counts, s->counts + maps * J, (size_t)(maps * J) * sizeof(double));
    memcpy(s->helps, s->helps + maps, (size_t)maps * sizeof(double));
    memcpy(s->spread, s->spread + maps, (size_t)maps * sizeof(double));
}

/* Let the levels of the noise learn the filters' errors. */
static void learn_levels_of_noise(const scoring_t *s, int64_t guarded)
{
    int64_t F = s->filters, J = s->kinds, E = s->outputs;
    double *error = s->room, *var = error + F * E;
    for (int64_t i = 0; i < F * E; i++) {
        error[i] = s->y[i % E] - s->filter_loc[i];
        var[i] = s->filter_var[i / E];
    }
    learn_noise(s->noise, 1, error, var, s->left, NULL, guarded ? s->is_outlier : NULL, s->shapes, s->rates, s->errors);
    memcpy(s->shapes, s->shapes + J, (size_t)J * sizeof(double));
    memcpy(s->rates, s->rates + F * J * E, (size_t)(F * J * E) * sizeof(double));
    memcpy(s->errors, s->errors + F * E, (size_t)(F * E) * sizeof(double));
}

/* Let the rules learn the density of each expert; return whether they could. */
static int learn_density(const scoring_t *s, int any_outlier)
{
    int64_t K = s->filters * s->kinds, H = s->here;
    double *density = s->room, *mixed = density + H, *room = mixed + H;
    uint8_t *outlying = s->outlying;
    for (int64_t h = 0; h < H; h++) {
        int64_t k = s->is_here ? s->is_here[h] : h;
        density[h] = s->density[k];
        outlying[h] = outlying[k]; /* h is k at most */
    }
    if (!learn_weights(s->rules, 1, density, any_outlier ? outlying : NULL, s->least, mixed, NULL, room))
        return 0;
    for (int64_t k = 0; s->is_here && k < K; k++)
        s->log_weights[k] = -INFINITY;
    for (int64_t h = 0; h < H; h++)
        s->log_weights[s->is_here ? s->is_here[h] : h] = mixed[h];
    return 1;
}

/* Learn the target of the row that was predicted last.
 *
 * Writes whether it was an outlier to most of the weight, and the log density of the target. Returns whether the
 * weights have learnt; if not, they are to learn what is in `density` in logs.
 */
EXPORT int64_t learn_target(const scoring_t *s, int64_t guarded, double *said)
{
    int64_t K = s->filters * s->kinds, E = s->outputs, J = s->kinds;
    const double *dof = s->noise ? s->dof : NULL;
    target_values(1, K, E, J, s->loc, s->var, dof, s->y, s->density, s->below);
    int any_outlier = 0, flagged;
    double theirs = 0.0, most = -INFINITY, sum = 0.0;
    for (int64_t k = 0; k < K; k++) {
        double whole = 0.0;
        for (int64_t e = 0; e < E; e++)
            whole += s->density[k * E + e];
        s->density[k] = whole;
        s->outlying[k] = guarded && s->is_outlier[k / J];
        any_outlier |= s->outlying[k];
        theirs += s->outlying[k] ? exp(s->log_weights[k]) : 0.0;
    }
    int can_learn = fill_missing(s->density, K);
    flagged = any_outlier && 1.0 - theirs < 0.5;
    said[0] = flagged;
    if (s->rests) {
        for (int64_t k = 0; k < K; k++)
            most = fmax(most, s->log_weights[k] + s->density[k]);
        for (int64_t k = 0; k < K; k++)
            sum += exp(s->log_weights[k] + s->density[k] - most);
        said[1] = flagged ? NAN : most + log(sum);
    }
    if (s->map_rules || s->layer) {
        mix_levels(s);
        if (s->layer)
            learn_layer(s, flagged);
        if (s->map_rules)
            learn_maps(s);
    }
    if (s->noise)
        learn_levels_of_noise(s, guarded);
    return can_learn && learn_density(s, any_outlier);
}
