/* The average of windows, written once for 8 and 16 bits: the file that includes this one defines ELEMENT, RESULT, PARAMS, KERNEL,
 * FINISH(p, sum, multiplier) and EMPTY, the multiplier of a window without elements. */
#include "base/numerics.h"
#include "base/window.h"

#include <stddef.h>
#include <string.h>

void KERNEL(const PARAMS *p, const ELEMENT *x, RESULT *out, void *scratch, int32_t begin, int32_t end) {
    int32_t *sums = scratch;
    for (int32_t item = begin; item < end; item++) {
        const ELEMENT *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const int32_t top = item % p->out_h * p->stride_h - p->pad_h;
        const lb_taps rows = lb_taps_inside(top, p->kernel_h, p->dilation_h, 0, p->in_h);
        const int32_t high = lb_taps_count(lb_taps_inside(top, p->kernel_h, p->dilation_h, -p->count_h0, p->in_h + p->count_h1));
        RESULT *to = out + (ptrdiff_t)item * p->out_w * p->out_stride;
        for (int32_t o = 0; o < p->out_w; o++, to += p->out_stride) {
            const int32_t left = o * p->stride_w - p->pad_w;
            const lb_taps columns = lb_taps_inside(left, p->kernel_w, p->dilation_w, 0, p->in_w);
            const int32_t wide = lb_taps_count(lb_taps_inside(left, p->kernel_w, p->dilation_w, -p->count_w0, p->in_w + p->count_w1));
            const int32_t taken = lb_taps_count(rows) * lb_taps_count(columns);
            const int32_t count = high * wide;
            const lb_f32 multiplier = count > 0 ? lb_f32_div(p->multiplier, lb_f32_from_s32(count)) : EMPTY;
            memset(sums, 0, sizeof *sums * (size_t)p->channels);
            for (int32_t i = rows.first; i < rows.last; i++)
                for (int32_t j = columns.first; j < columns.last; j++) {
                    const ELEMENT *from = image + ((ptrdiff_t)(top + i * p->dilation_h) * p->in_w + left + j * p->dilation_w) * p->channels;
                    for (int32_t c = 0; c < p->channels; c++)
                        sums[c] += from[c];
                }
            for (int32_t c = 0; c < p->channels; c++)
                to[c] = FINISH(p, sums[c] - taken * p->x_zero, multiplier);
        }
    }
}

#undef ELEMENT
#undef RESULT
#undef PARAMS
#undef KERNEL
#undef FINISH
#undef EMPTY
