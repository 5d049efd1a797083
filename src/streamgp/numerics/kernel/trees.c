/* Leaves of boosted trees, looked up as streamgp/bases/leaves.py says, whose form in NumPy is the oracle. */
#include "kernel.h"

enum { BLOCK = 64, MOST_LEAVES = 32 };

/* T trees with S splits each: the input of each, its threshold, and the leaves it leaves in the race on the right. */
typedef struct {
    int64_t trees, splits;
    const int32_t *feature, *remaining;
    const double *threshold;
} forest_t;

/* Find the leaves of tree t that rows fall into: the lowest bits that all splits leave.
 *
 * Rows are columns here, so that compilers turn the loop over them into vector instructions.
 */
static void find_leaves(forest_t forest, int64_t t, int rows, const double *columns, uint64_t *leaf)
{
    for (int i = 0; i < rows; i++)
        leaf[i] = ~(uint64_t)0;
    for (int64_t s = t * forest.splits; s < (t + 1) * forest.splits; s++) {
        const double *x = columns + forest.feature[s] * (int64_t)BLOCK, threshold = forest.threshold[s];
        const uint64_t remaining = (uint64_t)(int64_t)forest.remaining[s];
        for (int i = 0; i < rows; i++)
            leaf[i] &= x[i] > threshold ? remaining : ~(uint64_t)0;
    }
    for (int i = 0; i < rows; i++) {
        int number = 0;
        while (number < MOST_LEAVES - 1 && !(leaf[i] >> number & 1))
            number++;
        leaf[i] = (uint64_t)number;
    }
}

static void transpose(int rows, int64_t D, const double *X, double *columns)
{
    for (int i = 0; i < rows; i++)
        for (int64_t d = 0; d < D; d++)
            columns[d * BLOCK + i] = X[i * D + d];
}

/* Flag the leaves of n rows X (n x D) by `value`: flags (n x T leaves), all zero before; `columns` is room (D x 64). */
EXPORT void flag_leaves(int64_t n, int64_t D, const double *X, int64_t T, int64_t S, const int32_t *feature,
                        const double *threshold, const int32_t *remaining, int64_t leaves, double value,
                        double *columns, double *flags)
{
    forest_t forest = {T, S, feature, remaining, threshold};
    uint64_t leaf[BLOCK];
    for (int64_t start = 0; start < n; start += BLOCK) {
        int rows = n - start < BLOCK ? (int)(n - start) : BLOCK;
        transpose(rows, D, X + start * D, columns);
        for (int64_t t = 0; t < T; t++) {
            find_leaves(forest, t, rows, columns, leaf);
            for (int i = 0; i < rows; i++)
                flags[((start + i) * T + t) * leaves + (int64_t)leaf[i]] = value;
        }
    }
}

/* Sum what the leaves of n rows are worth, in E forests of T trees each: sums (n x E), all zero before. */
EXPORT void sum_leaves(int64_t n, int64_t D, const double *X, int64_t E, int64_t T, int64_t S, const int32_t *feature,
                       const double *threshold, const int32_t *remaining, int64_t leaves, const double *value,
                       double *columns, double *sums)
{
    forest_t forest = {E * T, S, feature, remaining, threshold};
    uint64_t leaf[BLOCK];
    for (int64_t start = 0; start < n; start += BLOCK) {
        int rows = n - start < BLOCK ? (int)(n - start) : BLOCK;
        transpose(rows, D, X + start * D, columns);
        for (int64_t t = 0; t < E * T; t++) {
            find_leaves(forest, t, rows, columns, leaf);
            for (int i = 0; i < rows; i++)
                sums[(start + i) * E + t / T] += value[t * leaves + (int64_t)leaf[i]];
        }
    }
}
