#include "lb.h"
#include "base/requantize_avx2.h"
#include "base/window.h"

lb_max_pool_s8_fn lb_max_pool_s8__avx2;

typedef __m128i lb_v16;
#define lb_v16_all(v) _mm_set1_epi8(v)
#define lb_v16_max(a, b) _mm_max_epi8(a, b)
#define lb_v16_load(from) _mm_loadu_si128((const __m128i *)(const void *)(from))
#define lb_v16_store(to, v) _mm_storeu_si128((__m128i *)(void *)(to), v)

#include "pool/max_pool_16.h"

void lb_max_pool_s8__avx2(const lb_max_pool_s8_params *p, const int8_t *x, int8_t *out, int32_t begin, int32_t end) {
    lb_max_pool(p, x, out, begin, end);
}
