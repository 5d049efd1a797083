/* A stack of filters that predicts and learns single rows: `RowFilter` of streamgp/filters/engine/rowfilter.py.
 *
 * The form in NumPy there is the oracle. All is done by the thread that asks, whatever the threads of BLAS.
 */
#include <math.h>
#include <string.h>

#include "kernel.h"

enum { LANES = 4 };

typedef double lanes_t __attribute__((vector_size(LANES * sizeof(double))));

/* The stack: N filters with F features, E outputs and the last `count` of `room` rows waiting; arrays of `RowFilter`. */
typedef struct {
    int64_t filters, features, outputs, room, reverts, moves;
    const double *const *cov; /* a triangle of each, rows F apart */
    const uint8_t *is_lower;
    double *mean, *pending;          /* N x E x F, N x room x F */
    double *decay, *process;         /* N: of the covariances, since the rows wait */
    const double *shrink, *grown, *noise_var, *least_var; /* N: of this row's time; the noise, and what is sound */
} filters_t;

/* Vectors by name, since to hand them over would depend on the processor. */
#define LOAD(lane, from) \
    lanes_t lane;        \
    memcpy(&lane, from, sizeof lane)
#define SUM(lane) ((lane[0] + lane[1]) + (lane[2] + lane[3]))

static inline double dot(int64_t n, const double *a, const double *b)
{
    lanes_t lane = {0.0};
    double rest = 0.0;
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        LOAD(left, a + i);
        LOAD(right, b + i);
        lane += left * right;
    }
    for (; i < n; i++)
        rest += a[i] * b[i];
    return SUM(lane) + rest;
}

static inline void add(int64_t n, double factor, const double *restrict x, double *restrict y)
{
    for (int64_t i = 0; i < n; i++)
        y[i] += factor * x[i];
}

/* Compute y = S x, of S (F x F) one triangle being read, each number once. */
static inline void multiply(int64_t F, const double *S, int is_lower, const double *restrict x, double *restrict y)
{
    memset(y, 0, (size_t)F * sizeof(double));
    for (int64_t i = 0; i < F; i++) {
        const double *row = S + i * F, at = x[i];
        int64_t j = is_lower ? 0 : i + 1, end = is_lower ? i : F;
        double sum = row[i] * at;
        lanes_t lane = {0.0};
        for (; j + LANES <= end; j += LANES) {
            LOAD(here, row + j);
            LOAD(of_x, x + j);
            LOAD(of_y, y + j);
            lane += here * of_x;
            of_y += here * at;
            memcpy(y + j, &of_y, sizeof of_y);
        }
        for (; j < end; j++) {
            sum += row[j] * x[j];
            y[j] += row[j] * at;
        }
        y[i] += SUM(lane) + sum;
    }
}

/* Compute g = (S - W'W) x, of S (F x F) one triangle being read, W the `count` rows that wait. */
static WIDE void product(int64_t F, const double *S, int is_lower, const double *W, int64_t count, const double *x,
                         double *g)
{
    multiply(F, S, is_lower, x, g);
    for (int64_t k = 0; k < count; k++)
        add(F, -dot(F, W + k * F, x), W + k * F, g);
}

/* Predict a row whose features are phi (F), `stride` numbers apart for every `copies` filters.
 *
 * Writes mean (N x E), variance and gain (N, N x F), and what the covariances' decay and growth are then (N each).
 * Returns whether all variances are as large as they must be.
 */
EXPORT int64_t predict_singly(const filters_t *s, int64_t count, const double *phi, int64_t stride, int64_t copies,
                           double extra, double *loc, double *var, double *gain, double *decay, double *process)
{
    int64_t F = s->features, E = s->outputs, are_sound = 1;
    for (int64_t i = 0; i < s->filters; i++) {
        const double *x = phi + i / copies * stride, *waiting = s->pending + i * s->room * F;
        double *g = gain + i * F, keep = 1.0;
        decay[i] = s->decay[i];
        process[i] = s->process[i];
        product(F, s->cov[i], s->is_lower[i], waiting, count, x, g);
        if (s->reverts) {
            decay[i] *= s->shrink[i];
            process[i] *= s->shrink[i] * s->shrink[i];
            keep = decay[i] * decay[i];
        }
        if (s->moves)
            process[i] += s->grown[i];
        if (s->reverts)
            for (int64_t f = 0; f < F; f++)
                g[f] *= keep;
        if (s->moves)
            add(F, process[i], x, g);
        var[i] = dot(F, g, x) + (s->noise_var[i] + extra);
        are_sound &= var[i] >= s->least_var[i]; /* NaN is not */
        for (int64_t e = 0; e < E; e++)
            loc[i * E + e] = dot(F, s->mean + (i * E + e) * F, x) * (s->reverts ? s->shrink[i] : 1.0);
    }
    return are_sound;
}

/* Learn the row that was predicted, by steps (N x E) and standard deviations (N); it waits as number `count`. */
EXPORT void learn_singly(const filters_t *s, int64_t count, const double *gain, const double *decay,
                         const double *process, const double *step, const double *std)
{
    int64_t F = s->features, E = s->outputs;
    for (int64_t i = 0; i < s->filters; i++) {
        const double *g = gain + i * F, by = s->reverts ? std[i] * decay[i] : std[i];
        double *waits = s->pending + (i * s->room + count) * F;
        for (int64_t e = 0; e < E; e++) {
            double *mean = s->mean + (i * E + e) * F;
            if (s->reverts)
                for (int64_t f = 0; f < F; f++)
                    mean[f] *= s->shrink[i];
            add(F, step[i * E + e], g, mean);
        }
        for (int64_t f = 0; f < F; f++)
            waits[f] = g[f] / by;
        s->decay[i] = decay[i];
        s->process[i] = process[i];
    }
}

/* Let the guards of N filters learn errors (N x E) of a row, of which they expect `var` (N).
 *
 * Of outliers the errors and variances are overwritten by those with which they are to be learnt. The guards are as
 * `Guard` of streamgp/filters/guard.py has them; `z` is room (E).
 */
EXPORT void guard_singly(const guard_rules_t *rules, int64_t filters, int64_t E, double *level, double *run,
                            double *agreement, double *last, double *error, double *var, uint8_t *is_outlier, double *z)
{
    for (int64_t i = 0; i < filters; i++) {
        int found = 0;
        double std = sqrt(var[i]);
        for (int64_t e = 0; e < E; e++)
            z[e] = error[i * E + e] / std;
        guard_t guard = {level + i * E, run + i, agreement + i, last + i * E};
        double raised = learn_innovation(guard, rules, z, (int)E, &found);
        is_outlier[i] = (uint8_t)found;
        if (!found)
            continue;
        double used = raised < rules->max_raised ? raised : rules->max_raised;
        for (int64_t e = 0; e < E; e++)
            error[i * E + e] *= sqrt(used / raised);
        var[i] *= used;
    }
}
