/* Integer interpolation. lb.h has the rules of every contract. */
#ifndef LB_RESIZE_H
#define LB_RESIZE_H

#include "base/fields.h"
#include "base/numerics.h"

#include <stdint.h>

/* ---- resize_s8: out[r][o] = clamp(rne(fl32(acc - offset) * multiplier) + y_zero, lo, hi),
 * acc = sum over taps i and j of row_by[r][i] * column_by[o][j] * x[row_at[r][i]][column_at[o][j]] for each channel. Linear and cubic
 * interpolation are tables of 2 and 4 taps, an axis that keeps its size one of 1; `offset` is what the input's zero point adds. 128 times
 * the weights' magnitudes, those of a row times those of a column, and |offset| beside it, stay below 2^31.
 * Item: a row of the output, batch * out_h of them. */
typedef struct {
    LB_CHANNELS_FIELDS;
    int32_t row_taps;    /* >= 1 */
    int32_t column_taps; /* >= 1 */
    int32_t offset;
    lb_f32 multiplier; /* finite, > 0 */
    int32_t y_zero;
    int32_t lo;
    int32_t hi;
} lb_resize_s8_params;

typedef void lb_resize_s8_fn(const lb_resize_s8_params *p, const int8_t *x, const int32_t *row_at, const int16_t *row_by,
                             const int32_t *column_at, const int16_t *column_by, int8_t *out, int32_t begin, int32_t end);

#endif
