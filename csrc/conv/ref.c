#include "conv/conv_ref.h"
#include "base/numerics.h"

lb_conv_s8_fn lb_conv_s8__ref;

void lb_conv_s8__ref(const lb_conv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier, int8_t *out,
                     void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t i = lb_conv_first(p, begin); i < lb_conv_first(p, end); i++)
        for (int32_t o = 0; o < p->out_c; o++)
            out[(ptrdiff_t)i * p->out_stride + o] =
                (int8_t)lb_requantize(lb_conv_ref(p, x, w, bias[o], i, o), multiplier[o], p->y_zero, p->lo, p->hi);
}

lb_conv_s8_f32_fn lb_conv_s8_f32__ref;

void lb_conv_s8_f32__ref(const lb_conv_s8_f32_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                         lb_f32 *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t i = lb_conv_first(p, begin); i < lb_conv_first(p, end); i++)
        for (int32_t o = 0; o < p->out_c; o++)
            out[(ptrdiff_t)i * p->out_stride + o] = lb_f32_mul(lb_f32_from_s32(lb_conv_ref(p, x, w, bias[o], i, o)), multiplier[o]);
}

lb_conv_s8_s16_fn lb_conv_s8_s16__ref;

void lb_conv_s8_s16__ref(const lb_conv_s8_s16_params *p, const int8_t *x, const void *w, const int32_t *bias, const lb_f32 *multiplier,
                         int16_t *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    for (int32_t i = lb_conv_first(p, begin); i < lb_conv_first(p, end); i++)
        for (int32_t o = 0; o < p->out_c; o++)
            out[(ptrdiff_t)i * p->out_stride + o] =
                (int16_t)lb_requantize(lb_conv_ref(p, x, w, bias[o], i, o), multiplier[o], p->y_zero, p->lo, p->hi);
}
