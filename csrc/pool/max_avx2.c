#include "lb.h"
#include "base/requantize_avx2.h"
#include "base/window.h"

lb_max_pool_s8_fn lb_max_pool_s8__avx2;

static inline void lb_most(const int8_t *image, ptrdiff_t from, ptrdiff_t down, ptrdiff_t across, lb_taps rows, lb_taps columns, int8_t *to,
                           int32_t count) {
    (void)count;
    __m128i most = _mm_set1_epi8(-128);
    for (int32_t i = rows.first; i < rows.last; i++)
        for (int32_t j = columns.first; j < columns.last; j++)
            most = _mm_max_epi8(most, _mm_loadu_si128((const __m128i *)(const void *)(image + (from + i * down + j * across))));
    _mm_storeu_si128((__m128i *)(void *)to, most);
}

#define LB_MOST 16
#define LB_REST lb_few
#include "pool/max_pool_body.h"

void lb_max_pool_s8__avx2(const lb_max_pool_s8_params *p, const int8_t *x, int8_t *out, int32_t begin, int32_t end) {
    lb_max_pool(p, x, out, begin, end);
}
