/* The average of windows, written once for 8 and 16 bits: the file that includes this one defines ELEMENT, RESULT, PARAMS, KERNEL,
 * FINISH(p, sum, multiplier) and EMPTY, the multiplier of a window without elements. */
#include "base/numerics.h"
#include "base/window.h"

#include <stddef.h>
#include <string.h>

void KERNEL(const PARAMS *p, const ELEMENT *x, RESULT *out, void *scratch, int32_t begin, int32_t end) {
    int32_t *sums = scratch;
    const lb_windows g = LB_WINDOWS(p);
    LB_EACH_WINDOW (&g, at) {
        const ELEMENT *image = x + at.image;
        RESULT *to = out + at.out;
        const int32_t high = lb_taps_count(lb_taps_inside(at.top, p->kernel_h, p->dilation_h, -p->count_h0, p->in_h + p->count_h1));
        const int32_t wide = lb_taps_count(lb_taps_inside(at.left, p->kernel_w, p->dilation_w, -p->count_w0, p->in_w + p->count_w1));
        const int32_t taken = lb_taps_count(at.rows) * lb_taps_count(at.columns);
        const int32_t count = high * wide;
        const lb_f32 multiplier = count > 0 ? lb_f32_div(p->multiplier, lb_f32_from_s32(count)) : EMPTY;
        memset(sums, 0, sizeof *sums * (size_t)p->channels);
        for (int32_t i = at.rows.first; i < at.rows.last; i++)
            for (int32_t j = at.columns.first; j < at.columns.last; j++) {
                const ELEMENT *from = image + lb_tap_at(&g, &at, i, j);
                for (int32_t c = 0; c < p->channels; c++)
                    sums[c] += from[c];
            }
        for (int32_t c = 0; c < p->channels; c++)
            to[c] = FINISH(p, sums[c] - taken * p->x_zero, multiplier);
    }
}

#undef ELEMENT
#undef RESULT
#undef PARAMS
#undef KERNEL
#undef FINISH
#undef EMPTY
