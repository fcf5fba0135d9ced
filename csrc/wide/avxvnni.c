#define LB_DOT2_BY_VNNI
#include "wide/dot2_avx2.h"
#include "wide/conv_s16_simd.h"
#include "wide/linear_s16_simd.h"

lb_linear_s16_fn lb_linear_s16__avxvnni;

void lb_linear_s16__avxvnni(const lb_linear_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const float *multiplier,
                            int16_t *out, int32_t begin, int32_t end) {
    lb_dot2_linear(p, x, w, bias, multiplier, out, 2, begin, end);
}

lb_linear_s16_s8_fn lb_linear_s16_s8__avxvnni;

void lb_linear_s16_s8__avxvnni(const lb_linear_s16_s8_params *p, const int16_t *x, const void *w, const int64_t *bias,
                               const float *multiplier, int8_t *out, int32_t begin, int32_t end) {
    lb_dot2_linear(p, x, w, bias, multiplier, out, 1, begin, end);
}

lb_linear_s16_f32_fn lb_linear_s16_f32__avxvnni;

void lb_linear_s16_f32__avxvnni(const lb_linear_s16_f32_params *p, const int16_t *x, const void *w, const int64_t *bias,
                                const float *multiplier, float *out, int32_t begin, int32_t end) {
    lb_dot2_linear(p, x, w, bias, multiplier, out, 4, begin, end);
}

lb_conv_s16_fn lb_conv_s16__avxvnni;

void lb_conv_s16__avxvnni(const lb_conv_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const float *multiplier,
                          void *out, void *scratch, int32_t begin, int32_t end) {
    lb_dot2_conv(p, x, w, bias, multiplier, out, scratch, begin, end);
}
