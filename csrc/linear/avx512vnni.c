#include "linear/dot4/dot4_avx512vnni.h"

lb_linear_s8_fn lb_linear_s8__avx512vnni;

void lb_linear_s8__avx512vnni(const lb_linear_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                              int8_t *out, void *scratch, int32_t begin, int32_t end) {
    lb_dot4_linear(p, x, w, bias, multiplier, out, LB_DOT4_S8, scratch, begin, end);
}
