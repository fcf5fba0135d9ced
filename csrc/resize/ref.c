#include "resize/resize_pixel.h"

lb_resize_s8_fn lb_resize_s8__ref;

void lb_resize_s8__ref(const lb_resize_s8_params *p, const int8_t *x, const int32_t *row_at, const int16_t *row_by,
                       const int32_t *column_at, const int16_t *column_by, int8_t *out, int32_t begin, int32_t end) {
    for (int32_t item = begin; item < end; item++) {
        const int8_t *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const ptrdiff_t row = (ptrdiff_t)(item % p->out_h) * p->row_taps;
        int8_t *to = out + (ptrdiff_t)item * p->out_w * p->channels;
        for (int32_t o = 0; o < p->out_w; o++, to += p->channels) {
            const ptrdiff_t column = (ptrdiff_t)o * p->column_taps;
            lb_resize_pixel(p, image, row_at + row, row_by + row, column_at + column, column_by + column, to);
        }
    }
}
