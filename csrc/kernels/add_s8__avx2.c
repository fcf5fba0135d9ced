#include "lb.h"
#include "lb_add_avx2.h"
#include "lb_numerics.h"
#include "lb_walk.h"

lb_add_s8_fn lb_add_s8__avx2;

/* 16 elements from `from` on, or one of them 16 times. */
static inline __m128i load(const int8_t *from, int32_t stride) {
    return stride ? _mm_loadu_si128((const __m128i *)(const void *)from) : _mm_set1_epi8(*from);
}

void lb_add_s8__avx2(const lb_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end) {
    const lb_add16_terms terms = lb_add16_of(p->a_multiplier, p->b_multiplier, p->offset, p->lo, p->hi);
    const int32_t da = p->a_stride[3], db = p->b_stride[3];
    const int small = da == 1 && db == 1 && lb_add_is_small(p->a_multiplier, p->b_multiplier, p->offset);
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        int32_t i = 0;
        if (small)
            for (; i <= r.count - 32; i += 32)
                _mm256_storeu_si256((__m256i *)(void *)(out + r.at + i), lb_small_add32(a + r.a + i, b + r.b + i, &terms));
        for (; i <= r.count - 16; i += 16)
            _mm_storeu_si128((__m128i *)(void *)(out + r.at + i), lb_add16(load(a + r.a + i * da, da), load(b + r.b + i * db, db), &terms));
        for (; i < r.count; i++)
            out[r.at + i] = (int8_t)lb_add(a[r.a + i * da], b[r.b + i * db], p->a_multiplier, p->b_multiplier, p->offset, p->lo, p->hi);
    }
}
