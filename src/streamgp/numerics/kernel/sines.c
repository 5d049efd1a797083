/* Sines and cosines of many angles, without a branch, so that compilers turn the loops into vector instructions.
 *
 * An angle is brought to within pi/4 of zero by a multiple of pi/2 that is kept in three parts, of which the products
 * are exact (Cody and Waite 1980); there sine and cosine are polynomials, those of fdlibm (Sun Microsystems 1993).
 * Errors are of a few units of the last place of one. Angles too large for that, or no numbers, go to the C library.
 */
#include <math.h>
#include <string.h>

#include "kernel.h"

#define LARGEST 1.0e6
#define BLOCK 128

static inline uint64_t bits_of(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double number_of(uint64_t bits)
{
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void sines_and_cosines_of(int n, const double *restrict angle, double scale, double *restrict sine,
                                 double *restrict cosine)
{
    for (int i = 0; i < n; i++) {
        /* Adding 1.5 * 2^52 rounds to a whole number, whose lowest bits are then those of the sum. */
        double sum = angle[i] * 0.63661977236758134308 + 6755399441055744.0;
        double turns = sum - 6755399441055744.0;
        double x = angle[i] - turns * 1.57079632673412561417e+00;
        x -= turns * 6.07710050630396597660e-11;
        x -= turns * 2.02226624879595063154e-21;
        double z = x * x;
        double s = -2.50507602534068634195e-08 + z * 1.58969099521155010221e-10;
        s = 2.75573137070700676789e-06 + z * s;
        s = -1.98412698298579493134e-04 + z * s;
        s = 8.33333333332248946124e-03 + z * s;
        s = x + x * z * (-1.66666666666666324348e-01 + z * s);
        double c = 2.08757232129817482790e-09 + z * -1.13596475577881948265e-11;
        c = -2.75573143513906633035e-07 + z * c;
        c = 2.48015872894767294178e-05 + z * c;
        c = -1.38888888888741095749e-03 + z * c;
        c = 1.0 - 0.5 * z + z * z * (4.16666666666666019037e-02 + z * c);
        /* Odd multiples of pi/2 swap the two; every second pair of them turns a sign. */
        uint64_t quarter = bits_of(sum), swap = 0 - (quarter & 1), sin_bits = bits_of(s), cos_bits = bits_of(c);
        uint64_t differing = (sin_bits ^ cos_bits) & swap;
        sine[i] = scale * number_of((sin_bits ^ differing) ^ ((quarter & 2) << 62));
        cosine[i] = scale * number_of((cos_bits ^ differing) ^ (((quarter + 1) & 2) << 62));
    }
}

/* Give the angles that are too large for `sines_and_cosines_of`, or no numbers, to the C library. */
static void mend(int n, const double *angle, double scale, double *sine, double *cosine)
{
    int beyond = 0;
    for (int i = 0; i < n; i++)
        beyond |= !(fabs(angle[i]) < LARGEST);
    for (int i = 0; beyond && i < n; i++)
        if (!(fabs(angle[i]) < LARGEST)) {
            sine[i] = scale * sin(angle[i]);
            cosine[i] = scale * cos(angle[i]);
        }
}

/* Write the sines of angles (n, m), then their cosines, into rows of 2m. */
EXPORT void sines_and_cosines(int64_t n, int64_t m, const double *angle, double scale, double *both)
{
    for (int64_t row = 0; row < n; row++, angle += m, both += 2 * m)
        for (int64_t at = 0; at < m; at += BLOCK) {
            int some = (int)(m - at < BLOCK ? m - at : BLOCK);
            sines_and_cosines_of(some, angle + at, scale, both + at, both + m + at);
            mend(some, angle + at, scale, both + at, both + m + at);
        }
}

/* Write the sines of n angles. */
EXPORT void sines(int64_t n, const double *angle, double *sine)
{
    double cosine[BLOCK];
    for (int64_t at = 0; at < n; at += BLOCK) {
        int some = (int)(n - at < BLOCK ? n - at : BLOCK);
        sines_and_cosines_of(some, angle + at, 1.0, sine + at, cosine);
        mend(some, angle + at, 1.0, sine + at, cosine);
    }
}
