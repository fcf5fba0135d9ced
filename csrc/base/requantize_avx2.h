/* The end of integer layers on AVX2: what lb_requantize computes, 16 at a time.
 *
 * rne(v) + zero_point, clamped, equals the saturating way: int32 -> int16 saturates, the zero point is added with saturation, int16
 * -> int8 saturates, then lo and hi. Above 2^31 vcvtps2dq would give INT_MIN, so v is limited first; below it gives INT_MIN, which is
 * what it should. Multipliers are finite, so v is never NaN. */
#ifndef LB_REQUANTIZE_AVX2_H
#define LB_REQUANTIZE_AVX2_H

#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef enum { LB_TO_S8, LB_TO_S16, LB_TO_F32 } lb_result; /* parameters of the epilogue */

typedef struct {
    __m256 most;
    __m256i zero_point;
    __m128i lo, hi;
} lb_clamp16;

static inline lb_clamp16 lb_clamp16_of(int32_t zero_point, int32_t lo, int32_t hi) {
    return (lb_clamp16){_mm256_set1_ps(1073741824.0f), _mm256_set1_epi16((int16_t)zero_point), _mm_set1_epi8((char)lo),
                        _mm_set1_epi8((char)hi)};
}

/* 16 reals, rounded and clamped. */
static inline __m128i lb_round16(__m256 v0, __m256 v1, const lb_clamp16 *c) {
    const __m256i q0 = _mm256_cvtps_epi32(_mm256_min_ps(v0, c->most)), q1 = _mm256_cvtps_epi32(_mm256_min_ps(v1, c->most));
    const __m256i both = _mm256_permute4x64_epi64(_mm256_adds_epi16(_mm256_packs_epi32(q0, q1), c->zero_point), 0xD8);
    const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
    return _mm_min_epi8(_mm_max_epi8(bytes, c->lo), c->hi);
}

/* 16 accumulators times 16 multipliers, rounded and clamped. */
static inline __m128i lb_requantize16(__m256i acc0, __m256i acc1, __m256 m0, __m256 m1, const lb_clamp16 *c) {
    return lb_round16(_mm256_mul_ps(_mm256_cvtepi32_ps(acc0), m0), _mm256_mul_ps(_mm256_cvtepi32_ps(acc1), m1), c);
}

/* Two times 16 accumulators of 16 channels, rounded and clamped: the first 16 below, the others above. Packing works within 128 bits, so
 * the dwords come out of order and are put right at the end, once for both. */
static inline __m256i lb_requantize32(const __m256i a[2], const __m256i b[2], __m256 m0, __m256 m1, const lb_clamp16 *c) {
    const __m256 a0 = _mm256_mul_ps(_mm256_cvtepi32_ps(a[0]), m0), a1 = _mm256_mul_ps(_mm256_cvtepi32_ps(a[1]), m1);
    const __m256 b0 = _mm256_mul_ps(_mm256_cvtepi32_ps(b[0]), m0), b1 = _mm256_mul_ps(_mm256_cvtepi32_ps(b[1]), m1);
    const __m256i qa = _mm256_packs_epi32(_mm256_cvtps_epi32(_mm256_min_ps(a0, c->most)), _mm256_cvtps_epi32(_mm256_min_ps(a1, c->most)));
    const __m256i qb = _mm256_packs_epi32(_mm256_cvtps_epi32(_mm256_min_ps(b0, c->most)), _mm256_cvtps_epi32(_mm256_min_ps(b1, c->most)));
    const __m256i bytes = _mm256_packs_epi16(_mm256_adds_epi16(qa, c->zero_point), _mm256_adds_epi16(qb, c->zero_point));
    const __m256i clamped = _mm256_min_epi8(_mm256_max_epi8(bytes, _mm256_broadcastsi128_si256(c->lo)), _mm256_broadcastsi128_si256(c->hi));
    return _mm256_permutevar8x32_epi32(clamped, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* The same where no product reaches 2^31 (multipliers of at most 1/2) and all of int8 is allowed. */
static inline __m256i lb_requantize32_bare(const __m256i a[2], const __m256i b[2], __m256 m0, __m256 m1, __m256i zero_point) {
    const __m256i a0 = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(a[0]), m0));
    const __m256i a1 = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(a[1]), m1));
    const __m256i b0 = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(b[0]), m0));
    const __m256i b1 = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_cvtepi32_ps(b[1]), m1));
    const __m256i qa = _mm256_adds_epi16(_mm256_packs_epi32(a0, a1), zero_point),
                  qb = _mm256_adds_epi16(_mm256_packs_epi32(b0, b1), zero_point);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(qa, qb), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* The first `count` (1 ... 16) bytes of v. */
static inline void lb_store_bytes(int8_t *out, __m128i v, ptrdiff_t count) {
    if (count >= 16) {
        _mm_storeu_si128((__m128i *)(void *)out, v);
        return;
    }
    int8_t bytes[16];
    _mm_storeu_si128((__m128i *)(void *)bytes, v);
    memcpy(out, bytes, (size_t)count);
}

/* 16 reals rounded and clamped to int16, the first `count` of them stored. They are not NaN. */
static inline void lb_store_rounded_words(int16_t *out, __m256 v0, __m256 v1, int32_t zero_point, int32_t lo, int32_t hi, ptrdiff_t count) {
    const __m256 fmin = _mm256_set1_ps((float)(lo - zero_point)), fmax = _mm256_set1_ps((float)(hi - zero_point));
    const __m256i z = _mm256_set1_epi32(zero_point);
    const __m256i q0 = _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(v0, fmin), fmax)), z);
    const __m256i q1 = _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(v1, fmin), fmax)), z);
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(q0, q1), 0xD8);
    memcpy(out, &words, 2 * (size_t)count);
}

/* 16 accumulators requantized to int16, the first `count` of them stored. */
static inline void lb_store_words(int16_t *out, __m256i acc0, __m256i acc1, __m256 m0, __m256 m1, int32_t zero_point, int32_t lo,
                                  int32_t hi, ptrdiff_t count) {
    const __m256 v0 = _mm256_mul_ps(_mm256_cvtepi32_ps(acc0), m0), v1 = _mm256_mul_ps(_mm256_cvtepi32_ps(acc1), m1);
    lb_store_rounded_words(out, v0, v1, zero_point, lo, hi, count);
}

/* The first `count` of 16 numbers, zeros after them. */
static inline void lb_load16(const void *from, ptrdiff_t count, void *to) {
    if (count < 16)
        memset(to, 0, 64);
    memcpy(to, from, 4 * (size_t)(count < 16 ? count : 16));
}

#endif
