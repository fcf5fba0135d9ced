#include "wide/conv_s16.h"

lb_conv_s16_fn lb_conv_s16__ref;

void lb_conv_s16__ref(const lb_conv_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const lb_f32 *multiplier,
                      void *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    const int32_t depth = p->in_c / p->groups, wide = p->out_c / p->groups;
    for (int32_t pixel = lb_conv_s16_first(p, begin); pixel < lb_conv_s16_first(p, end); pixel++) {
        const lb_place at = lb_place_of(p, x, pixel);
        const lb_taps down = lb_taps_inside(at.top, p->kernel_h, p->dilation_h, 0, p->in_h);
        const lb_taps across = lb_taps_inside(at.left, p->kernel_w, p->dilation_w, 0, p->in_w);
        for (int32_t o = 0; o < p->out_c; o++) {
            int64_t acc = bias[o];
            for (int32_t i = down.first; i < down.last; i++)
                for (int32_t j = across.first; j < across.last; j++) {
                    const ptrdiff_t row = at.top + i * p->dilation_h, column = at.left + j * p->dilation_w;
                    const int16_t *from = at.image + (row * p->in_w + column) * p->in_c + (ptrdiff_t)(o / wide) * depth;
                    acc += lb_run_s16(p, from, w, (((ptrdiff_t)o * p->kernel_h + i) * p->kernel_w + j) * depth, depth);
                }
            lb_conv_s16_put(p, acc, multiplier[o], out, (ptrdiff_t)pixel * p->out_stride + o);
        }
    }
}

lb_dwconv_s16_fn lb_dwconv_s16__ref;

void lb_dwconv_s16__ref(const lb_dwconv_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const lb_f32 *multiplier,
                        void *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t pixel = lb_conv_s16_first(p, begin); pixel < lb_conv_s16_first(p, end); pixel++) {
        const lb_place at = lb_place_of(p, x, pixel);
        const lb_taps down = lb_taps_inside(at.top, p->kernel_h, p->dilation_h, 0, p->in_h);
        const lb_taps across = lb_taps_inside(at.left, p->kernel_w, p->dilation_w, 0, p->in_w);
        for (int32_t c = 0; c < p->out_c; c++) {
            int64_t acc = bias[c];
            for (int32_t i = down.first; i < down.last; i++)
                for (int32_t j = across.first; j < across.last; j++) {
                    const ptrdiff_t row = at.top + i * p->dilation_h, column = at.left + j * p->dilation_w;
                    const int16_t *from = at.image + (row * p->in_w + column) * p->in_c + c;
                    acc += lb_run_s16(p, from, w, ((ptrdiff_t)i * p->kernel_w + j) * p->out_c + c, 1);
                }
            lb_conv_s16_put(p, acc, multiplier[c], out, (ptrdiff_t)pixel * p->out_stride + c);
        }
    }
}
