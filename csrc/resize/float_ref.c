#include "lb.h"

#include <stddef.h>

lb_resize_f32_fn lb_resize_f32__ref;

void lb_resize_f32__ref(const lb_resize_f32_params *p, const float *x, const int32_t *row_at, const float *row_by, const int32_t *column_at,
                        const float *column_by, float *out, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const float *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const ptrdiff_t row = (ptrdiff_t)(item % p->out_h) * p->row_taps;
        for (int32_t o = 0; o < p->out_w; o++) {
            float *to = out + ((ptrdiff_t)item * p->out_w + o) * p->channels;
            for (int32_t i = 0; i < p->row_taps; i++)
                for (int32_t j = 0; j < p->column_taps; j++) {
                    const ptrdiff_t column = (ptrdiff_t)o * p->column_taps + j;
                    const float *from = image + ((ptrdiff_t)row_at[row + i] * p->in_w + column_at[column]) * p->channels;
                    const float by = row_by[row + i] * column_by[column];
                    for (int32_t c = 0; c < p->channels; c++)
                        to[c] = i || j ? to[c] + by * from[c] : by * from[c];
                }
        }
    }
}
