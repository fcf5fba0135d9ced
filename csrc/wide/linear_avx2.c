#include "wide/linear_s16_avx2.h"

lb_linear_s16_fn lb_linear_s16__avx2;

void lb_linear_s16__avx2(const lb_linear_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const float *multiplier,
                         int16_t *out, int32_t begin, int32_t end) {
    lb_linear_s16_avx2(p, x, w, bias, multiplier, out, 2, begin, end);
}

lb_linear_s16_s8_fn lb_linear_s16_s8__avx2;

void lb_linear_s16_s8__avx2(const lb_linear_s16_s8_params *p, const int16_t *x, const void *w, const int64_t *bias, const float *multiplier,
                            int8_t *out, int32_t begin, int32_t end) {
    lb_linear_s16_avx2(p, x, w, bias, multiplier, out, 1, begin, end);
}

lb_linear_s16_f32_fn lb_linear_s16_f32__avx2;

void lb_linear_s16_f32__avx2(const lb_linear_s16_f32_params *p, const int16_t *x, const void *w, const int64_t *bias,
                             const float *multiplier, float *out, int32_t begin, int32_t end) {
    lb_linear_s16_avx2(p, x, w, bias, multiplier, out, 4, begin, end);
}
