#include "lb.h"
#include "base/avx512.h"
#include "base/window.h"

lb_max_pool_s8_fn lb_max_pool_s8__avx512;

static inline void lb_most(const int8_t *image, ptrdiff_t from, ptrdiff_t down, ptrdiff_t across, lb_taps rows, lb_taps columns, int8_t *to,
                           int32_t count) {
    const __mmask64 those = lb_first64(count);
    __m512i most = _mm512_set1_epi8(-128);
    for (int32_t i = rows.first; i < rows.last; i++)
        for (int32_t j = columns.first; j < columns.last; j++) {
            const int8_t *tap = image + (from + i * down + j * across);
            most = _mm512_max_epi8(most, count == 64 ? _mm512_loadu_si512(tap) : _mm512_maskz_loadu_epi8(those, tap));
        }
    _mm512_mask_storeu_epi8(to, those, most);
}

#define LB_MOST 64
#define LB_REST lb_most
#include "pool/max_pool_body.h"

void lb_max_pool_s8__avx512(const lb_max_pool_s8_params *p, const int8_t *x, int8_t *out, int32_t begin, int32_t end) {
    lb_max_pool(p, x, out, begin, end);
}
