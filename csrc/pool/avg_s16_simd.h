/* Averages of words on vectors of any width: the words of ints_avx2.h or ints_avx512.h stand before this. */
#ifndef LB_AVG_S16_SIMD_H
#define LB_AVG_S16_SIMD_H

#include "lb.h"
#include "base/numerics.h"
#include "base/window.h"

/* out_bytes: 2, or 4 for floats, of which those of a window without elements are NaN. Fewer than 2^15 words fit 32 bits. */
static inline void lb_average_words(const lb_avg_pool_s16_params *p, const int16_t *x, void *out, int32_t out_bytes, int32_t begin,
                                    int32_t end) {
    const lb_ints_target target = lb_ints_target_of(out_bytes, p->y_zero, p->lo, p->hi);
    const lb_windows g = LB_WINDOWS(p);
    LB_EACH_WINDOW (&g, at) {
        const int16_t *image = x + at.image;
        const int32_t high = lb_taps_count(lb_taps_inside(at.top, p->kernel_h, p->dilation_h, -p->count_h0, p->in_h + p->count_h1));
        const int32_t wide = lb_taps_count(lb_taps_inside(at.left, p->kernel_w, p->dilation_w, -p->count_w0, p->in_w + p->count_w1));
        const float none = out_bytes == 4 ? lb_f32_of_bits(0xFFC00000u) : 0.0f;
        const lb_ints_reals multiplier = lb_reals_all(high * wide > 0 ? p->multiplier / (float)(high * wide) : none);
        const lb_ints zeros = lb_ints_all(lb_taps_count(at.rows) * lb_taps_count(at.columns) * p->x_zero);
        for (int32_t c = 0; c < p->channels; c += LB_INTS_LANES) {
            lb_ints sum = lb_ints_all(0);
            for (int32_t i = at.rows.first; i < at.rows.last; i++)
                for (int32_t j = at.columns.first; j < at.columns.last; j++)
                    sum = lb_ints_add(sum, lb_ints_load(image, 2, lb_tap_at(&g, &at, i, j) + c, p->channels - c));
            lb_ints_put(out, at.out + c, lb_reals_mul(lb_ints_real(lb_ints_sub(sum, zeros)), multiplier), p->channels - c, &target);
        }
    }
}

#endif
