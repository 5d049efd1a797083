/* Leaves of boosted trees, looked up as streamgp/bases/trees.py says, whose form in NumPy is the oracle. */
#include "kernel.h"

/* T trees with S splits each: the input of each, its threshold, and the leaves it leaves in the race on the right. */
typedef struct {
    int64_t trees, splits;
    const int32_t *feature, *remaining;
    const double *threshold;
} forest_t;

/* Return the number of the leaf of tree t that a row falls into: the lowest bit that all splits leave. */
static inline int leaf_of(forest_t forest, int64_t t, const double *row)
{
    uint32_t left = ~(uint32_t)0;
    for (int64_t s = t * forest.splits; s < (t + 1) * forest.splits; s++)
        left &= row[forest.feature[s]] > forest.threshold[s] ? (uint32_t)forest.remaining[s] : ~(uint32_t)0;
    int leaf = 0;
    while (!(left >> leaf & 1))
        leaf++;
    return leaf;
}

/* Flag the leaves of n rows X (n x D) by `value`: flags (n x T leaves). */
EXPORT void flag_leaves(int64_t n, int64_t D, const double *X, int64_t T, int64_t S, const int32_t *feature,
                        const double *threshold, const int32_t *remaining, int64_t leaves, double value, double *flags)
{
    forest_t forest = {T, S, feature, remaining, threshold};
    for (int64_t i = 0; i < n; i++)
        for (int64_t t = 0; t < T; t++) {
            double *its = flags + (i * T + t) * leaves;
            int leaf = leaf_of(forest, t, X + i * D);
            for (int l = 0; l < leaves; l++)
                its[l] = l == leaf ? value : 0.0;
        }
}

/* Sum what the leaves of n rows are worth, in E forests of T trees each: sums (n x E). */
EXPORT void sum_leaves(int64_t n, int64_t D, const double *X, int64_t E, int64_t T, int64_t S, const int32_t *feature,
                       const double *threshold, const int32_t *remaining, int64_t leaves, const double *value,
                       double *sums)
{
    forest_t forest = {T, S, feature, remaining, threshold};
    for (int64_t i = 0; i < n; i++)
        for (int64_t e = 0; e < E; e++) {
            double sum = 0.0;
            for (int64_t t = e * T; t < (e + 1) * T; t++)
                sum += value[t * leaves + leaf_of(forest, t, X + i * D)];
            sums[i * E + e] = sum;
        }
}
