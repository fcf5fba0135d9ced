#include "base/numerics.h"
#include "int4/w4_conv.h"

lb_conv_w4_s8_fn lb_conv_w4_s8__ref;

void lb_conv_w4_s8__ref(const lb_conv_w4_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                        int8_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t i = lb_w4_pixel(p, begin); i < lb_w4_pixel(p, end); i++)
        for (int32_t j = 0; j < p->out_c; j++) {
            const int32_t acc = lb_w4_conv_acc(p, x, w, bias, i, j);
            out[(ptrdiff_t)i * p->out_stride + j] = (int8_t)lb_requantize(acc, multiplier[j], p->y_zero, p->lo, p->hi);
        }
}

lb_conv_w4_s8_s16_fn lb_conv_w4_s8_s16__ref;

void lb_conv_w4_s8_s16__ref(const lb_conv_w4_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias,
                            const lb_f32 *multiplier, int16_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t i = lb_w4_pixel(p, begin); i < lb_w4_pixel(p, end); i++)
        for (int32_t j = 0; j < p->out_c; j++) {
            const int32_t acc = lb_w4_conv_acc(p, x, w, bias, i, j);
            out[(ptrdiff_t)i * p->out_stride + j] = (int16_t)lb_requantize(acc, multiplier[j], p->y_zero, p->lo, p->hi);
        }
}

lb_conv_w4_s8_f32_fn lb_conv_w4_s8_f32__ref;

void lb_conv_w4_s8_f32__ref(const lb_conv_w4_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias,
                            const lb_f32 *multiplier, lb_f32 *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t i = lb_w4_pixel(p, begin); i < lb_w4_pixel(p, end); i++)
        for (int32_t j = 0; j < p->out_c; j++) {
            const int32_t acc = lb_w4_conv_acc(p, x, w, bias, i, j);
            out[(ptrdiff_t)i * p->out_stride + j] = lb_f32_mul(lb_f32_from_s32(acc), multiplier[j]);
        }
}
