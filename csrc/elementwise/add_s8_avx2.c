#include "elementwise/add_s8_avx2.h"

lb_add_s8_fn lb_add_s8__avx2;

static inline __m256i with_bytes(const int8_t *a, const int8_t *b, const lb_terms *t) {
    const __m256i x = lb_load32(a), y = lb_load32(b);
    __m256 v[4];
    for (int k = 0; k < 4; k++) {
        const __m256 left = _mm256_add_ps(_mm256_mul_ps(lb_apart8(x, k), t->ma), t->offset);
        v[k] = _mm256_add_ps(left, _mm256_mul_ps(lb_apart8(y, k), t->mb));
    }
    return lb_bytes32(v, t->lo, t->hi);
}

static void lb_add_bytes(const int8_t *a, const int8_t *b, int8_t *out, int32_t count, const lb_terms *t) {
    if (count < 32) {
        int8_t few[2][32] = {{0}};
        memcpy(few[0], a, (size_t)count), memcpy(few[1], b, (size_t)count);
        const __m256i v = with_bytes(few[0], few[1], t);
        memcpy(out, &v, (size_t)count);
        return;
    }
    const __m256i last = with_bytes(a + count - 32, b + count - 32, t);
    for (int32_t i = 0; i < count - 32; i += 32)
        lb_store32(out + i, with_bytes(a + i, b + i, t));
    lb_store32(out + count - 32, last);
}

void lb_add_s8__avx2(const lb_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end) {
    lb_add_s8_by(p, a, b, out, begin, end);
}
