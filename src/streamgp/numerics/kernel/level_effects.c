/* The recursion of streamgp.stream.level_effects, whose form in NumPy is its oracle. */
#include <math.h>

#include "kernel.h"

/* The constants of streamgp.stream.level_effects, in the order of its `KERNEL_CONSTANTS`, and the limit. */
typedef struct {
    double memory, memory_of_share, unlimited_rows, most_share, most_prior, limit;
} rules_t;

/* What is known of the levels of one column: fields of `LevelEffects`. */
typedef struct {
    double *codes, *last, *rows, *mean, *common, *shared, *pairs;
} column_t;

static column_t column_at(const column_t *all, int64_t c, int64_t size, int S)
{
    return (column_t){all->codes + c * size,    all->last + c * size, all->rows + c * size * S,
                      all->mean + c * size * S, all->common + c * S,  all->shared + c * S,
                      all->pairs + c * S};
}

/* Return where a level is, -1 where it is not there. */
static int64_t place(const double *codes, double code, int sets, int ways)
{
    if (!(code >= 0.0))
        return -1;
    int64_t start = (int64_t)code % sets * ways;
    for (int64_t at = start; at < start + ways; at++)
        if (codes[at] == code)
            return at;
    return -1;
}

/* Return the place for a new level: an empty one, or that of the level learnt longest ago. */
static int64_t free_place(const column_t *column, double code, int sets, int ways)
{
    int64_t start = (int64_t)code % sets * ways, oldest = start;
    for (int64_t at = start; at < start + ways; at++) {
        if (isnan(column->codes[at]))
            return at;
        if (column->last[at] < column->last[oldest])
            oldest = at;
    }
    return oldest;
}

static double share_of(const column_t *column, int s, const rules_t *rules)
{
    return fmin(fmax(column->shared[s] / column->pairs[s], 0.0), rules->most_share);
}

/* Write what a level is worth. */
static void write_worth(const column_t *column, int64_t at, int S, const rules_t *rules, double *worth)
{
    for (int s = 0; s < S; s++) {
        double share = share_of(column, s, rules), n = at < 0 ? 0.0 : column->rows[at * S + s] * share;
        worth[s] = n > 0.0 ? n / (n + 1.0 - share) * (column->mean[at * S + s] - column->common[s]) : 0.0;
    }
}

/* Return how far a target lies from the mean of all, of which there were `count`, bounded. */
static double deviation(double value, double center, double square, double count, const rules_t *rules)
{
    double bound = count > rules->unlimited_rows ? rules->limit * sqrt(square) : INFINITY;
    return count < 1.0 ? 0.0 : fmin(fmax(value - center, -bound), bound);
}

/* Learn a target of a level, z above the mean of all, of which there were `count` with this mean square. */
static void learn_target(const column_t *column, int64_t at, int s, double z, double square, double count,
                         const rules_t *rules)
{
    double *n = column->rows + at, *mean = column->mean + at;
    if (*n > 0.0 && count > rules->unlimited_rows && square > 0.0) {
        double off = *mean - column->common[s], share = share_of(column, s, rules);
        double prior = share > 0.0 ? fmin((1.0 - share) / share, rules->most_prior) : rules->most_prior;
        double weight = *n / (*n + prior);
        double kept = fmin(1.0, rules->memory_of_share / (column->pairs[s] + weight));
        column->shared[s] = kept * (column->shared[s] + weight * z * off / square);
        column->pairs[s] = kept * (column->pairs[s] + weight);
        column->common[s] += off / fmin(count + 1.0, rules->memory);
    }
    *n = fmin(*n + 1.0, rules->memory);
    *mean += (z - *mean) / *n;
}

/* Learn rows in place: values (n, S), of which NaN teaches nothing, of the levels `taught` (n, C).
 *
 * Write what the levels `codes` (n, C) are worth, before each row's values or, if `later`, after them.
 */
EXPORT void learn_level_effects(int64_t n, int C, int S, int sets, int ways, int later, const double *constants,
                                const double *codes, const double *taught, const double *values, double *table,
                                double *last, double *rows, double *mean, double *common, double *shared,
                                double *pairs, double *center, double *square, double *count, double *worth)
{
    const rules_t *rules = (const rules_t *)constants;
    const column_t all = {table, last, rows, mean, common, shared, pairs};
    int64_t size = (int64_t)sets * ways;
    for (int64_t i = 0; i < n; i++) {
        const double *value = values + i * S;
        for (int c = 0; c < C; c++) {
            column_t column = column_at(&all, c, size, S);
            double code = taught[i * C + c];
            if (!later)
                write_worth(&column, place(column.codes, codes[i * C + c], sets, ways), S, rules,
                            worth + (i * C + c) * S);
            if (!(code >= 0.0))
                continue;
            int64_t at = place(column.codes, code, sets, ways);
            if (at < 0) {
                at = free_place(&column, code, sets, ways);
                column.codes[at] = code;
                for (int s = 0; s < S; s++)
                    column.rows[at * S + s] = column.mean[at * S + s] = 0.0;
            }
            column.last[at] = count[S] + 1.0;
            for (int s = 0; s < S; s++)
                if (isfinite(value[s]))
                    learn_target(&column, at * S + s, s, deviation(value[s], center[s], square[s], count[s], rules),
                                 square[s], count[s], rules);
        }
        for (int s = 0; s < S; s++) {
            if (!isfinite(value[s]))
                continue;
            double z = deviation(value[s], center[s], square[s], count[s], rules);
            if (count[s] < 1.0)
                center[s] = value[s];
            else
                square[s] += (z * z - square[s]) / fmin(count[s], rules->memory);
            center[s] += z / fmin(count[s] + 1.0, rules->memory);
            count[s] += 1.0;
        }
        count[S] += 1.0;
        for (int c = 0; later && c < C; c++) {
            column_t column = column_at(&all, c, size, S);
            write_worth(&column, place(column.codes, codes[i * C + c], sets, ways), S, rules,
                        worth + (i * C + c) * S);
        }
    }
}
