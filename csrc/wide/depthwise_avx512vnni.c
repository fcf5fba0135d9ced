#include "wide/dot2_avx512vnni.h"
#include "wide/dwconv_s16_simd.h"

lb_dwconv_s16_fn lb_dwconv_s16__avx512vnni;

void lb_dwconv_s16__avx512vnni(const lb_dwconv_s16_params *p, const int16_t *x, const void *packed, const int64_t *bias,
                               const float *multiplier, void *out, void *scratch, int32_t begin, int32_t end) {
    lb_dot2_dwconv(p, x, packed, bias, multiplier, out, scratch, begin, end);
}
