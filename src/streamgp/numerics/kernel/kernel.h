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

/* See student_t.c. */
double log_gamma_ratio(double a);
double hill(double kernel, double dof);
double ndtr(double z);
double ndtri(double p);

#endif
