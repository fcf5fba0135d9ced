#define LB_DOT2_BY_VNNI
#include "wide/dot2_avx2.h"
#include "wide/dwconv_s16_simd.h"

lb_dwconv_s16_fn lb_dwconv_s16__avxvnni;

void lb_dwconv_s16__avxvnni(const lb_dwconv_s16_params *p, const int16_t *x, const void *packed, const int64_t *bias,
                            const float *multiplier, void *out, void *scratch, int32_t begin, int32_t end) {
    lb_dot2_dwconv(p, x, packed, bias, multiplier, out, scratch, begin, end);
}
