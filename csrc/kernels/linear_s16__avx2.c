#include "lb_linear_s16_avx2.h"

lb_linear_s16_fn lb_linear_s16__avx2;

void lb_linear_s16__avx2(const lb_linear_s16_params *p, const int16_t *x, const void *w, const int64_t *bias, const float *multiplier,
                         int16_t *out, int32_t begin, int32_t end) {
    lb_linear_s16_avx2(p, x, w, bias, multiplier, out, 2, begin, end);
}
