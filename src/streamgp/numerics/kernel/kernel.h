/* BLAS and LAPACK as this kernel calls them: SciPy's, whose addresses it is given; and what its files share.
 *
 * Arrays are NumPy's, rows first. BLAS counts columns first, and so sees their transposes.
 */
#ifndef STREAMGP_KERNEL_H
#define STREAMGP_KERNEL_H

#include <math.h> /* which says whether the C library is glibc */
#include <stdint.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

/* Compile a function for wider vectors too, and choose where the program is loaded; the numbers are the same. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define WIDE __attribute__((target_clones("avx2", "default")))
#endif
#endif
#ifndef WIDE
#define WIDE
#endif

/* The checksum of what is exchanged with Python, which tests/unit/numerics/test_native_library.py computes: that of all
 * declarations with typedef, EXPORT or enum. `native.INTERFACE` is the same number.
 */
#define INTERFACE 0x2BDAFB92
EXPORT int64_t kernel_interface(void);

typedef void gemm_t(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
                    const int *, const double *, const int *, const double *, double *, const int *);
typedef void symm_t(const char *, const char *, const int *, const int *, const double *, const double *, const int *,
                    const double *, const int *, const double *, double *, const int *);
typedef void syrk_t(const char *, const char *, const int *, const int *, const double *, const double *, const int *,
                    const double *, double *, const int *);
typedef void trsm_t(const char *, const char *, const char *, const char *, const int *, const int *, const double *,
                    const double *, const int *, double *, const int *);
typedef void potrf_t(const char *, const int *, double *, const int *, int *);

typedef struct {
    gemm_t *gemm;
    symm_t *symm;
    syrk_t *syrk;
    trsm_t *trsm;
    potrf_t *potrf;
} blas_t;

/* What a filter remembers of its innovations: `Guard` of streamgp.filters.guard. */
typedef struct {
    double *level, *run, *agreement, *last;
} guard_t;

/* The constants of streamgp.filters.guard, in the order of its `KERNEL_CONSTANTS`. */
typedef struct {
    double min_threshold, max_threshold, level_memory, min_floor, max_floor, max_learnt, run_memory, change;
    double max_growth, agreement_memory, confirmed, no_agreement, full_agreement, max_raised;
} guard_rules_t;

/* Learn a row's standardised innovations z (E); return the factor on its variance, 1 unless it is an outlier. */
double learn_innovation(guard_t guard, const guard_rules_t *rules, const double *z, int outputs, int *is_outlier);

/* The rules of a mixture side by side, see weights.c: fields of `StackedRules`.
 *
 * `mass` and `left` are NULL if no expert is absent.
 */
typedef struct {
    int64_t experts, rules, bayes, shares, soft, pools, most_groups, is_linear;
    double fresh, least_total;
    double *weights, *of_rules; /* R x K, R: changed in place */
    const double *keep, *add, *soft_old, *soft_new;
    const int64_t *pool_share, *pool_group; /* which share a pool belongs to, the group of each expert */
    const double *pool_rate, *pooled;       /* what a pool passes on, and the absent experts' part in each group */
    const double *mass, *left;
} weight_rules_t;

/* Levels of the noise, see noise.c: k filters, J kinds, E outputs; discounts and gains of the kinds (J each). */
typedef struct {
    int64_t filters, kinds, outputs;
    double min_factor, max_learnt;
    const double *discount, *half;
} noise_t;

/* The constants of streamgp.likelihoods.running_moments, in the order of its `KERNEL_CONSTANTS`. */
typedef struct {
    double memory, least_variance, furthest;
} moment_rules_t;

/* The constants of streamgp.likelihoods.noise_by_input, in the order in which `kernel_belief` has them. */
typedef struct {
    double walk, max_log_variance, max_ratio, max_square, fisher, switching, dof, tail;
    double constant_var, prior_var, step_var;
    moment_rules_t of_moments;
    double cuts[9];
} layer_rules_t;

/* What is believed of noise by input: fields of `NoiseByInput`, all but the cuts changed in place. */
typedef struct {
    int64_t outputs, inputs;
    const layer_rules_t *rules;
    const double *cuts;
    double *mean, *cov, *share, *steps, *steps_var, *helps, *moments;
} layer_t;

/* The constants of streamgp.likelihoods.recalibration_by_spread, in the order of its `KERNEL_CONSTANTS`. */
typedef struct {
    double forgetting, least_pace, switching, least_level;
    moment_rules_t of_spread;
} map_rules_t;

/* What a file offers to the others. */
EXPORT void target_values(int64_t n, int64_t K, int64_t E, int64_t kinds, const double *loc, const double *var,
                          const double *dof, const double *y, double *log_density, double *below);
EXPORT int64_t learn_weights(const weight_rules_t *x, int64_t n, const double *log_density, const uint8_t *is_outlier,
                             double least, double *mixed, double *of_rules, double *memory);
EXPORT void learn_noise(const noise_t *x, int64_t n, const double *error, const double *var, const double *left,
                        const double *known, const uint8_t *is_outlier, double *shapes, double *rates, double *errors);
EXPORT void learn_log_variances(int64_t n, const layer_t *x, const double *phi, const double *square,
                                const double *later, double *factor, double *factor_later, double *room);
EXPORT void learn_level_maps(int64_t n, int64_t E, int64_t J, const map_rules_t *rules, const double *factors,
                             const double *u, const double *log_spread, const uint8_t *learnt, double *counts,
                             double *helps, double *spread);
EXPORT void level_shares(int64_t n, int64_t E, int64_t J, int64_t steps, const map_rules_t *rules,
                         const double *factors, const double *log_spread, const double *counts, const double *helps,
                         const double *spread, double *shares);

/* Return the factor on the variance of output e of a row with these features. */
double variance_factor(const layer_t *x, int64_t e, const double *phi);

/* See moments.c. */
void learn_moments(double x, const moment_rules_t *rules, double *moments);

/* See student_t.c. */
double log_gamma_ratio(double a);
double hill(double kernel, double dof);
double ndtr(double z);
double ndtri(double p);

#endif
