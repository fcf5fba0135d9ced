#include "lb_conv_s16.h"
#include "lb_linear_s16_avx2.h"

lb_conv_s16_fn lb_conv_s16__avx2;

/* Windows of some pixels become rows, and rows are multiplied as in linear_s16. */
void lb_conv_s16__avx2(const lb_conv_s16_params *p, const int16_t *x, const void *packed, const int64_t *bias, const float *multiplier,
                       void *out, void *scratch, int32_t begin, int32_t end) {
    const int32_t n = p->out_c / p->groups, k = p->kernel_h * p->kernel_w * (p->in_c / p->groups), last = lb_conv_s16_first(p, end);
    const lb_target target = lb_target_of(p->out_bytes, p->y_zero, p->lo, p->hi);
    int16_t *const windows = scratch;
    for (int32_t first = lb_conv_s16_first(p, begin), rows; first < last; first += rows) {
        rows = last - first < LB_S16_ROWS ? last - first : LB_S16_ROWS;
        const char *group = packed;
        for (int32_t g = 0; g < p->groups; g++) {
            const lb_s16_weights w = lb_s16_weights_of(group, n, k);
            group = (const char *)(w.panels + w.planes * w.plane);
            for (int32_t r = 0; r < rows; r++)
                lb_gather_s16(p, x, first + r, g, windows + (ptrdiff_t)r * k);
            for (int32_t j = 0; j < n; j += 16)
                lb_s16_panel(&w, j, n, rows, windows, k, p->x_zero, bias + g * n, multiplier + g * n, out,
                             (ptrdiff_t)first * p->out_stride + g * n + j, p->out_stride, &target);
        }
    }
}
