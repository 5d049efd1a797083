/* Mean and variance of a number that comes row by row: streamgp.likelihoods.running_moments, which is the oracle. */
#include <math.h>

#include "kernel.h"

/* Learn a number: moments are the discounted number of rows, mean and variance. */
void learn_moments(double x, const moment_rules_t *rules, double *moments)
{
    double most = rules->furthest * sqrt(moments[2] + rules->least_variance);
    double off = fmin(fmax(x - moments[1], -most), most);
    moments[0] = rules->memory * moments[0] + 1.0;
    moments[1] += off / moments[0];
    moments[2] += (off * off * (1.0 - 1.0 / moments[0]) - moments[2]) / moments[0];
}
