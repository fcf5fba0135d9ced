#include "lb.h"
#include "lb_numerics.h"
#include "lb_put_avx2.h"
#include "lb_walk.h"

lb_mul_s8_fn lb_mul_s8__avx2;

/* Eight elements from `from` on, or one of them eight times, less their zero point. */
static inline __m256i load(const int8_t *from, int32_t stride, __m256i zero) {
    const __m256i v = stride ? _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)from)) : _mm256_set1_epi32(*from);
    return _mm256_sub_epi32(v, zero);
}

void lb_mul_s8__avx2(const lb_mul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end) {
    const lb_target target = lb_target_of(1, 0, p->lo, p->hi);
    const __m256 m = _mm256_set1_ps(p->multiplier), zy = _mm256_set1_ps((float)p->y_zero);
    const __m256i za = _mm256_set1_epi32(p->a_zero), zb = _mm256_set1_epi32(p->b_zero);
    const int32_t da = p->a_stride[3], db = p->b_stride[3];
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        int32_t i = 0;
        for (; i <= r.count - 8; i += 8) {
            const __m256i product = _mm256_mullo_epi32(load(a + r.a + i * da, da, za), load(b + r.b + i * db, db, zb));
            lb_put8(out, r.at + i, _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(product), m), zy), 8, &target);
        }
        for (; i < r.count; i++) {
            const int32_t product = (a[r.a + i * da] - p->a_zero) * (b[r.b + i * db] - p->b_zero);
            out[r.at + i] = (int8_t)lb_mul(product, p->multiplier, p->y_zero, p->lo, p->hi);
        }
    }
}
