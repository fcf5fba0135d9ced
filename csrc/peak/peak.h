/* The highest multiplication rate of a core: chains of products in registers, for profiles. lb.h has the rules of every contract. */
#ifndef LB_PEAK_H
#define LB_PEAK_H

#include "base/numerics.h"

#include <stdint.h>

/* ---- peak_s16: products of the integer kernels ------------------------------------------------------------------------------------------
 * out[i][j] = rounds * (x[2 j] * w[2 j] + x[2 j + 1] * w[2 j + 1]) modulo 2^32, for 12 sums i of 8 lanes j, each product really made:
 * 192 * rounds of them. */
typedef struct {
    int32_t rounds; /* >= 0 */
} lb_peak_s16_params;

typedef void lb_peak_s16_fn(const lb_peak_s16_params *p, const int16_t *x, const int16_t *w, int32_t *out);

/* ---- peak_s8: products of bytes, four to a lane -----------------------------------------------------------------------------------------
 * out[i][j] = rounds * (the sum of x[4 j + t] * w[4 j + t] of t = 0 ... 3) modulo 2^32, for 12 sums i of 16 lanes j, each product really
 * made: 768 * rounds of them. */
typedef struct {
    int32_t rounds; /* >= 0 */
} lb_peak_s8_params;

typedef void lb_peak_s8_fn(const lb_peak_s8_params *p, const uint8_t *x, const int8_t *w, int32_t *out);

/* ---- peak_f32: products of floats -------------------------------------------------------------------------------------------------------
 * out[i][j] = rounds * x[j] * w[j], summed product by product, for 12 sums of 8 lanes: 96 * rounds products. x and w are integers small
 * enough that no sum reaches 2^24: every order and every fusion gives the same bits. */
typedef struct {
    int32_t rounds; /* >= 0 */
} lb_peak_f32_params;

typedef void lb_peak_f32_fn(const lb_peak_f32_params *p, const lb_f32 *x, const lb_f32 *w, lb_f32 *out);

#endif
