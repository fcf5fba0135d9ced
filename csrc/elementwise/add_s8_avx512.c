#include "elementwise/add_s8_avx2.h"
#include "base/avx512.h"
#include "base/unroll.h"

lb_add_s8_fn lb_add_s8__avx512;

/* Bytes 4 * part ... of each 16, 2^24 times too large: the order in which packing leaves them alone. */
LB_INLINE __m512 apart16(__m512i bytes, const int part) {
    const __m512i places = _mm512_broadcast_i32x4(_mm_setr_epi8(-1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3));
    return _mm512_cvtepi32_ps(_mm512_shuffle_epi8(bytes, _mm512_add_epi8(places, _mm512_set1_epi32(part << 26))));
}

static void lb_add_bytes(const int8_t *a, const int8_t *b, int8_t *out, int32_t count, const lb_terms *t) {
    const __m512 ma = _mm512_broadcastss_ps(_mm256_castps256_ps128(t->ma)), mb = _mm512_broadcastss_ps(_mm256_castps256_ps128(t->mb));
    const __m512 offset = _mm512_broadcastss_ps(_mm256_castps256_ps128(t->offset));
    const __m512i lo = _mm512_broadcast_i64x4(t->lo), hi = _mm512_broadcast_i64x4(t->hi);
    for (int32_t i = 0; i < count; i += 64) {
        const __mmask64 some = lb_first64(count - i);
        const __m512i x = _mm512_maskz_loadu_epi8(some, a + i), y = _mm512_maskz_loadu_epi8(some, b + i);
        __m512i q[4];
        LB_UNROLL
        for (int k = 0; k < 4; k++) {
            const __m512 left = _mm512_add_ps(_mm512_mul_ps(apart16(x, k), ma), offset);
            q[k] = _mm512_cvtps_epi32(_mm512_add_ps(left, _mm512_mul_ps(apart16(y, k), mb)));
        }
        const __m512i bytes = _mm512_packs_epi16(_mm512_packs_epi32(q[0], q[1]), _mm512_packs_epi32(q[2], q[3]));
        _mm512_mask_storeu_epi8(out + i, some, _mm512_min_epi8(_mm512_max_epi8(bytes, lo), hi));
    }
}

void lb_add_s8__avx512(const lb_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end) {
    lb_add_s8_by(p, a, b, out, begin, end);
}
