/* Intrinsics of AVX-512, or their emulation by SIMDe on CPUs without it: tests define LB_SIMDE there. What
 * SIMDe has not is below, by halves of 256 bits. Kernels of AVX-512 include this, never immintrin.h. */
#ifndef LB_AVX512_H
#define LB_AVX512_H

#ifdef LB_SIMDE

#define SIMDE_ENABLE_NATIVE_ALIASES
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#include <simde/x86/avx512.h>
#pragma GCC diagnostic pop

#include "base/half.h"

#include <stddef.h>
#include <string.h>

#define LB_LACKS __attribute__((unused)) static

/* name(v) by `half` of each of the two halves; i or nothing after m512 for their types. */
#define LB_BY_HALVES(name, to, from, half)                                                                                                 \
    LB_LACKS __m512##to name(__m512##from v) {                                                                                             \
        __m256##from x[2];                                                                                                                 \
        __m256##to y[2];                                                                                                                   \
        __m512##to all;                                                                                                                    \
        memcpy(x, &v, 64);                                                                                                                 \
        y[0] = half(x[0]), y[1] = half(x[1]);                                                                                              \
        memcpy(&all, y, 64);                                                                                                               \
        return all;                                                                                                                        \
    }
LB_BY_HALVES(lb_mm512_cvtepi32_ps, , i, _mm256_cvtepi32_ps)
LB_BY_HALVES(lb_mm512_cvtps_epi32, i, , _mm256_cvtps_epi32)
LB_BY_HALVES(lb_mm512_cvttps_epi32, i, , _mm256_cvttps_epi32)

LB_LACKS __m512i lb_joined(__m256i low, __m256i high) {
    const __m256i y[2] = {low, high};
    __m512i all;
    memcpy(&all, y, 64);
    return all;
}

LB_LACKS __m512i lb_mm512_cvtepi8_epi32(__m128i v) {
    return lb_joined(_mm256_cvtepi8_epi32(v), _mm256_cvtepi8_epi32(_mm_srli_si128(v, 8)));
}

LB_LACKS __m512i lb_mm512_cvtepu8_epi32(__m128i v) {
    return lb_joined(_mm256_cvtepu8_epi32(v), _mm256_cvtepu8_epi32(_mm_srli_si128(v, 8)));
}

LB_LACKS __m512i lb_mm512_cvtepi16_epi32(__m256i v) {
    return lb_joined(_mm256_cvtepi16_epi32(_mm256_castsi256_si128(v)), _mm256_cvtepi16_epi32(_mm256_extracti128_si256(v, 1)));
}

LB_LACKS __m512i lb_mm512_cvtepi32_epi64(__m256i v) {
    return lb_joined(_mm256_cvtepi32_epi64(_mm256_castsi256_si128(v)), _mm256_cvtepi32_epi64(_mm256_extracti128_si256(v, 1)));
}

LB_LACKS __m256 lb_mm512_cvtepi64_ps(__m512i v) {
    int64_t x[8];
    float y[8];
    memcpy(x, &v, 64);
    for (int i = 0; i < 8; i++)
        y[i] = (float)x[i];
    return _mm256_loadu_ps(y);
}

LB_LACKS __m512d lb_mm512_cvtepi32_pd(__m256i v) {
    const __m256d y[2] = {_mm256_cvtepi32_pd(_mm256_castsi256_si128(v)), _mm256_cvtepi32_pd(_mm256_extracti128_si256(v, 1))};
    __m512d all;
    memcpy(&all, y, 64);
    return all;
}

LB_LACKS __m256 lb_mm512_cvtpd_ps(__m512d v) {
    __m256d x[2];
    memcpy(x, &v, 64);
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm256_cvtpd_ps(x[0])), _mm256_cvtpd_ps(x[1]), 1);
}

LB_LACKS int32_t lb_mm512_reduce_add_epi32(__m512i v) {
    uint32_t x[16], sum = 0;
    memcpy(x, &v, 64);
    for (int i = 0; i < 16; i++)
        sum += x[i];
    return (int32_t)sum;
}

LB_LACKS __m512i lb_mm512_srai_epi32(__m512i v, unsigned by) {
    int32_t x[16];
    memcpy(x, &v, 64);
    for (int i = 0; i < 16; i++)
        x[i] >>= by;
    memcpy(&v, x, 64);
    return v;
}

LB_LACKS __m512i lb_mm512_sra_epi32(__m512i v, __m128i by) {
    return lb_mm512_srai_epi32(v, (unsigned)_mm_cvtsi128_si32(by));
}

LB_LACKS __m512i lb_mm512_i32gather_epi32(__m512i at, const void *from, int scale) {
    int32_t x[16];
    memcpy(x, &at, 64);
    for (int i = 0; i < 16; i++)
        memcpy(x + i, (const char *)from + (ptrdiff_t)x[i] * scale, 4);
    memcpy(&at, x, 64);
    return at;
}

LB_LACKS float lb_mm512_reduce_add_ps(__m512 v) { /* in the order of GCC's */
    float x[16];
    memcpy(x, &v, 64);
    for (int n = 8; n; n /= 2)
        for (int i = 0; i < n; i++)
            x[i] += x[i + n];
    return x[0];
}

/* Loads that put zeros where the mask has none, and stores that leave memory there. */
LB_LACKS __m512i lb_load_lanes(const void *from, uint64_t mask, size_t lane) {
    char x[64] = {0};
    for (size_t i = 0; i < 64 / lane; i++)
        if (mask >> i & 1)
            memcpy(x + i * lane, (const char *)from + i * lane, lane);
    __m512i v;
    memcpy(&v, x, 64);
    return v;
}

LB_LACKS void lb_store_lanes(void *to, uint64_t mask, size_t lane, const void *v) {
    for (size_t i = 0; i < 64 / lane; i++)
        if (mask >> i & 1)
            memcpy((char *)to + i * lane, (const char *)v + i * lane, lane);
}

#undef _mm512_maskz_loadu_epi8
#define _mm512_maskz_loadu_epi8(mask, from) lb_load_lanes(from, mask, 1)
#undef _mm512_maskz_loadu_epi16
#define _mm512_maskz_loadu_epi16(mask, from) lb_load_lanes(from, mask, 2)
#undef _mm512_maskz_loadu_epi32
#define _mm512_maskz_loadu_epi32(mask, from) lb_load_lanes(from, mask, 4)
#undef _mm512_maskz_loadu_ps
#define _mm512_maskz_loadu_ps(mask, from) _mm512_castsi512_ps(lb_load_lanes(from, mask, 4))

#define LB_LACKS_STORE(name, mask_type, vector, lane)                                                                                      \
    LB_LACKS void lb_##name(void *to, mask_type mask, vector v) {                                                                          \
        lb_store_lanes(to, mask, lane, &v);                                                                                                \
    }
LB_LACKS_STORE(mm512_mask_storeu_epi8, uint64_t, __m512i, 1)
LB_LACKS_STORE(mm512_mask_storeu_epi16, uint32_t, __m512i, 2)
LB_LACKS_STORE(mm512_mask_storeu_epi32, uint16_t, __m512i, 4)
LB_LACKS_STORE(mm512_mask_storeu_ps, uint16_t, __m512, 4)
LB_LACKS_STORE(mm256_mask_storeu_epi8, uint32_t, __m256i, 1)
LB_LACKS_STORE(mm_mask_storeu_epi8, uint16_t, __m128i, 1)

LB_LACKS __m256i lb_mm256_mask_loadu_epi8(__m256i v, uint32_t mask, const void *from) {
    for (int i = 0; i < 32; i++)
        if (mask >> i & 1)
            memcpy((char *)&v + i, (const char *)from + i, 1);
    return v;
}

LB_LACKS __m512 lb_mm512_cvtph_ps(__m256i v) {
    uint16_t x[16];
    float y[16];
    memcpy(x, &v, 32);
    for (int i = 0; i < 16; i++)
        y[i] = lb_f32_of_f16(x[i]);
    return _mm512_loadu_ps(y);
}

LB_LACKS __m256i lb_mm512_cvtps_ph(__m512 v) {
    float x[16];
    uint16_t y[16];
    memcpy(x, &v, 64);
    for (int i = 0; i < 16; i++)
        y[i] = lb_f16_of_f32(x[i]);
    return _mm256_loadu_si256((const __m256i *)(const void *)y);
}

LB_LACKS __m128i lb_mm512_cvtepi32_epi8(__m512i v) {
    int32_t x[16];
    int8_t y[16];
    memcpy(x, &v, 64);
    for (int i = 0; i < 16; i++)
        y[i] = (int8_t)x[i];
    return _mm_loadu_si128((const __m128i *)(const void *)y);
}

LB_LACKS __m512i lb_mm512_cvtepu16_epi32(__m256i v) {
    return lb_joined(_mm256_cvtepu16_epi32(_mm256_castsi256_si128(v)), _mm256_cvtepu16_epi32(_mm256_extracti128_si256(v, 1)));
}

/* The compiler's own are declared here too: these names stand for the ones above. */
#undef _mm512_cvtph_ps
#define _mm512_cvtph_ps lb_mm512_cvtph_ps
#undef _mm512_cvtps_ph
#define _mm512_cvtps_ph(v, rounding) lb_mm512_cvtps_ph(v)
#undef _mm512_cvtepi32_epi8
#define _mm512_cvtepi32_epi8 lb_mm512_cvtepi32_epi8
#undef _mm512_cvtepu16_epi32
#define _mm512_cvtepu16_epi32 lb_mm512_cvtepu16_epi32
#undef _mm256_mask_loadu_epi8
#define _mm256_mask_loadu_epi8 lb_mm256_mask_loadu_epi8
#undef _mm256_mask_storeu_epi8
#define _mm256_mask_storeu_epi8 lb_mm256_mask_storeu_epi8
#undef _mm_mask_storeu_epi8
#define _mm_mask_storeu_epi8 lb_mm_mask_storeu_epi8
#undef _mm512_cvtepi16_epi32
#define _mm512_cvtepi16_epi32 lb_mm512_cvtepi16_epi32
#undef _mm512_cvtepi32_epi64
#define _mm512_cvtepi32_epi64 lb_mm512_cvtepi32_epi64
#undef _mm512_cvtepi32_pd
#define _mm512_cvtepi32_pd lb_mm512_cvtepi32_pd
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepi32_ps lb_mm512_cvtepi32_ps
#undef _mm512_cvtepi64_ps
#define _mm512_cvtepi64_ps lb_mm512_cvtepi64_ps
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32 lb_mm512_cvtepi8_epi32
#undef _mm512_cvtepu8_epi32
#define _mm512_cvtepu8_epi32 lb_mm512_cvtepu8_epi32
#undef _mm512_cvtpd_ps
#define _mm512_cvtpd_ps lb_mm512_cvtpd_ps
#undef _mm512_cvtps_epi32
#define _mm512_cvtps_epi32 lb_mm512_cvtps_epi32
#undef _mm512_cvttps_epi32
#define _mm512_cvttps_epi32 lb_mm512_cvttps_epi32
#undef _mm512_i32gather_epi32
#define _mm512_i32gather_epi32 lb_mm512_i32gather_epi32
#undef _mm512_madd_epi16
#define _mm512_madd_epi16 simde_mm512_madd_epi16 /* SIMDe gives the name to another of its own */
#undef _mm512_mask_storeu_epi16
#define _mm512_mask_storeu_epi16 lb_mm512_mask_storeu_epi16
#undef _mm512_mask_storeu_epi32
#define _mm512_mask_storeu_epi32 lb_mm512_mask_storeu_epi32
#undef _mm512_mask_storeu_epi8
#define _mm512_mask_storeu_epi8 lb_mm512_mask_storeu_epi8
#undef _mm512_mask_storeu_ps
#define _mm512_mask_storeu_ps lb_mm512_mask_storeu_ps
#undef _mm512_reduce_add_epi32
#define _mm512_reduce_add_epi32 lb_mm512_reduce_add_epi32
#undef _mm512_reduce_add_ps
#define _mm512_reduce_add_ps lb_mm512_reduce_add_ps
#undef _mm512_sra_epi32
#define _mm512_sra_epi32 lb_mm512_sra_epi32
#undef _mm512_srai_epi32
#define _mm512_srai_epi32 lb_mm512_srai_epi32

#else

#include <immintrin.h>
#include <stddef.h>

#endif

#if defined __AVX512F__ || defined LB_SIMDE /* kernels of AVX-VNNI come here, too */

/* Masks of the first `count` lanes, of none below 0 and of all beyond the last. */
static inline __mmask16 lb_first16(ptrdiff_t count) {
    return (__mmask16)(count >= 16 ? 0xFFFF : count <= 0 ? 0 : (1u << count) - 1);
}

static inline __mmask64 lb_first64(ptrdiff_t count) {
    return count >= 64 ? ~(__mmask64)0 : count <= 0 ? 0 : ((__mmask64)1 << count) - 1;
}

/* Groups of four bytes as packing leaves four vectors, which works within 128 bits, one after the other. */
static inline __m512i lb_in_order(__m512i packed) {
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), packed);
}

#endif

#endif
