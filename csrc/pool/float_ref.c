#include "lb.h"
#include "base/scalar_f32.h"
#include "base/window.h"

#include <stddef.h>

lb_max_pool_f32_fn lb_max_pool_f32__ref;

void lb_max_pool_f32__ref(const lb_max_pool_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    const lb_windows g = LB_WINDOWS(p);
    LB_EACH_WINDOW (&g, at) {
        const float *image = x + at.image;
        float *to = out + at.out;
        for (int32_t c = 0; c < p->channels; c++)
            to[c] = -LB_INFINITY;
        for (int32_t i = at.rows.first; i < at.rows.last; i++)
            for (int32_t j = at.columns.first; j < at.columns.last; j++) {
                const float *from = image + lb_tap_at(&g, &at, i, j);
                for (int32_t c = 0; c < p->channels; c++)
                    to[c] = lb_maxf(to[c], from[c]);
            }
    }
}

lb_avg_pool_f32_fn lb_avg_pool_f32__ref;

static int32_t length(lb_taps t) {
    return t.last - t.first;
}

void lb_avg_pool_f32__ref(const lb_avg_pool_f32_params *p, const float *x, float *out, int32_t begin, int32_t end) {
    const lb_windows g = LB_WINDOWS(p);
    LB_EACH_WINDOW (&g, at) {
        const float *image = x + at.image;
        float *to = out + at.out;
        const int32_t high = length(lb_taps_inside(at.top, p->kernel_h, p->dilation_h, -p->count_h0, p->in_h + p->count_h1));
        const int32_t wide = length(lb_taps_inside(at.left, p->kernel_w, p->dilation_w, -p->count_w0, p->in_w + p->count_w1));
        for (int32_t c = 0; c < p->channels; c++)
            to[c] = 0.0f;
        for (int32_t i = at.rows.first; i < at.rows.last; i++)
            for (int32_t j = at.columns.first; j < at.columns.last; j++) {
                const float *from = image + lb_tap_at(&g, &at, i, j);
                for (int32_t c = 0; c < p->channels; c++)
                    to[c] += from[c];
            }
        for (int32_t c = 0; c < p->channels; c++)
            to[c] /= (float)(high * wide);
    }
}
