#include "lb.h"
#include "lb_numerics.h"
#include "lb_requantize_avx2.h"
#include "lb_walk.h"

lb_add_s8_fn lb_add_s8__avx2;

typedef struct {
    __m256i zero;
    __m256 multiplier;
} side;

static inline side side_of(int32_t zero, float multiplier) {
    return (side){_mm256_set1_epi32(zero), _mm256_set1_ps(multiplier)};
}

static inline __m256 scaled(__m128i bytes, side s) {
    return _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_cvtepi8_epi32(bytes), s.zero)), s.multiplier);
}

/* 16 elements from `from` on, or one of them 16 times. */
static inline __m128i load(const int8_t *from, int32_t stride) {
    return stride ? _mm_loadu_si128((const __m128i *)(const void *)from) : _mm_set1_epi8(*from);
}

/* A sum of infinities of different signs is NaN, which counts as 0. */
static inline __m256 sum(__m256 x, __m256 y) {
    const __m256 z = _mm256_add_ps(x, y);
    return _mm256_and_ps(z, _mm256_cmp_ps(z, z, _CMP_ORD_Q));
}

void lb_add_s8__avx2(const lb_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end) {
    const side sa = side_of(p->a_zero, p->a_multiplier), sb = side_of(p->b_zero, p->b_multiplier);
    const lb_clamp16 clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi);
    const int32_t da = p->a_stride[3], db = p->b_stride[3];
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        int32_t i = 0;
        for (; i <= r.count - 16; i += 16) {
            const __m128i u = load(a + r.a + i * da, da), v = load(b + r.b + i * db, db);
            const __m256 low = sum(scaled(u, sa), scaled(v, sb));
            const __m256 high = sum(scaled(_mm_unpackhi_epi64(u, u), sa), scaled(_mm_unpackhi_epi64(v, v), sb));
            _mm_storeu_si128((__m128i *)(void *)(out + r.at + i), lb_round16(low, high, &clamp));
        }
        for (; i < r.count; i++) {
            const float left = (float)(a[r.a + i * da] - p->a_zero) * p->a_multiplier;
            const float right = (float)(b[r.b + i * db] - p->b_zero) * p->b_multiplier;
            out[r.at + i] = (int8_t)lb_round_clamp(left + right, p->y_zero, p->lo, p->hi);
        }
    }
}
