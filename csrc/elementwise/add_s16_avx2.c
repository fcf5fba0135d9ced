#include "lb.h"
#include "base/numerics.h"
#include "base/store_avx2.h"
#include "elementwise/broadcast.h"

lb_add_s16_fn lb_add_s16__avx2;

/* Eight elements from `from` on, or one of them eight times. */
static inline __m256 load(const int16_t *from, int32_t stride) {
    if (!stride)
        return _mm256_set1_ps((float)*from);
    return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i *)(const void *)from)));
}

void lb_add_s16__avx2(const lb_add_s16_params *p, const int16_t *a, const int16_t *b, int16_t *out, int32_t begin, int32_t end) {
    const lb_target target = lb_target_of(2, 0, p->lo, p->hi);
    const __m256 ma = _mm256_set1_ps(p->a_multiplier), mb = _mm256_set1_ps(p->b_multiplier), offset = _mm256_set1_ps(p->offset);
    const int32_t da = p->a_stride[3], db = p->b_stride[3];
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        int32_t i = 0;
        for (; i <= r.count - 8; i += 8) {
            const __m256 left = _mm256_add_ps(_mm256_mul_ps(load(a + r.a + i * da, da), ma), offset);
            lb_put8(out, r.at + i, _mm256_add_ps(left, _mm256_mul_ps(load(b + r.b + i * db, db), mb)), 8, &target);
        }
        for (; i < r.count; i++)
            out[r.at + i] = (int16_t)lb_add(a[r.a + i * da], b[r.b + i * db], p->a_multiplier, p->b_multiplier, p->offset, p->lo, p->hi);
    }
}
