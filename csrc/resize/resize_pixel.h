/* One pixel of resize_s8, channel by channel: all of `ref`, and what is too narrow for vectors. */
#ifndef LB_RESIZE_PIXEL_H
#define LB_RESIZE_PIXEL_H

#include "lb.h"
#include "base/numerics.h"

#include <stddef.h>

static inline void lb_resize_pixel(const lb_resize_s8_params *p, const int8_t *image, const int32_t *row_at, const int16_t *row_by,
                                   const int32_t *column_at, const int16_t *column_by, int8_t *to) {
    for (int32_t c = 0; c < p->channels; c++) {
        int32_t acc = -p->offset;
        for (int32_t i = 0; i < p->row_taps; i++) {
            const int8_t *line = image + (ptrdiff_t)row_at[i] * p->in_w * p->channels + c;
            int32_t sum = 0;
            for (int32_t j = 0; j < p->column_taps; j++)
                sum += column_by[j] * line[(ptrdiff_t)column_at[j] * p->channels];
            acc += row_by[i] * sum;
        }
        to[c] = (int8_t)lb_requantize(acc, p->multiplier, p->y_zero, p->lo, p->hi);
    }
}

#endif
