#include "lb.h"
#include "base/scalar_f32.h"
#include "base/window.h"

#include <stddef.h>

lb_dwconv_f32_fn lb_dwconv_f32__ref;

void lb_dwconv_f32__ref(const lb_dwconv_f32_params *p, const float *x, const float *w, const float *bias, float *out, int32_t begin,
                        int32_t end) {
    const lb_windows g = LB_WINDOWS(p);
    LB_EACH_WINDOW (&g, at) {
        const float *image = x + at.image;
        float *to = out + at.out;
        for (int32_t c = 0; c < p->channels; c++) {
            float sum = bias[c];
            for (int32_t i = at.rows.first; i < at.rows.last; i++)
                for (int32_t j = at.columns.first; j < at.columns.last; j++)
                    sum += image[lb_tap_at(&g, &at, i, j) + c] * w[((ptrdiff_t)i * p->kernel_w + j) * p->channels + c];
            to[c] = lb_clampf(sum, p->lo, p->hi);
        }
    }
}
