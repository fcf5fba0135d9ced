/* Divisions take most of the time of the plain way. x times the reciprocal is within 2^-22 of the quotient, relative to it, so both round
 * to the same integer unless the product is near the middle of two. Relevant quotients are below 2^8, so a distance of 2^-14 suffices. */
#include "lb.h"
#include "base/avx512.h"
#include "quantize/quantize_rest.h"

lb_quantize_f32_s8_fn lb_quantize_f32_s8__avx512;

enum { VECTORS = 4, AT_ONCE = 16 * VECTORS, AHEAD = 4096 };

typedef struct {
    __m512 scale, reciprocal, fmin, fmax;
    __m512i zero_point;
} lanes;

/* NaN counts as 0; clamped to a range that an integer can hold. */
static inline __m512 clamped(__m512 v, __mmask16 numbers, const lanes *c) {
    return _mm512_min_ps(_mm512_max_ps(_mm512_maskz_mov_ps(numbers, v), c->fmin), c->fmax);
}

/* 64 results. */
static inline __m512i quantize64(const float *x, const lanes *c) {
    const __m512 near = _mm512_set1_ps(0.5f - 0x1p-14f);
    __m512i q[VECTORS];
    __mmask16 unsure = 0;
    for (int k = 0; k < VECTORS; k++) {
        const __m512 v = _mm512_loadu_ps(x + 16 * k);
        const __m512 y = clamped(_mm512_mul_ps(v, c->reciprocal), _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), c);
        q[k] = _mm512_cvtps_epi32(y);
        unsure |= _mm512_cmp_ps_mask(_mm512_abs_ps(_mm512_sub_ps(y, _mm512_cvtepi32_ps(q[k]))), near, _CMP_GT_OQ);
    }
    if (unsure)
        for (int k = 0; k < VECTORS; k++) {
            const __m512 v = _mm512_loadu_ps(x + 16 * k);
            q[k] = _mm512_cvtps_epi32(clamped(_mm512_div_ps(v, c->scale), _mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), c));
        }
    const __m512i low = _mm512_packs_epi32(q[0], q[1]), high = _mm512_packs_epi32(q[2], q[3]);
    const __m512i bytes = _mm512_packs_epi16(_mm512_adds_epi16(low, c->zero_point), _mm512_adds_epi16(high, c->zero_point));
    return lb_in_order(bytes);
}

void lb_quantize_f32_s8__avx512(const lb_quantize_f32_s8_params *p, const float *x, int8_t *out, int32_t begin, int32_t end) {
    const int normal = p->scale > 0x1p-100f && p->scale < 0x1p100f; /* and so is the reciprocal */
    const lanes c = {_mm512_set1_ps(p->scale), _mm512_set1_ps(1 / p->scale), _mm512_set1_ps((float)(p->lo - p->zero_point)),
                     _mm512_set1_ps((float)(p->hi - p->zero_point)), _mm512_set1_epi16((int16_t)p->zero_point)};
    int32_t i = begin;
    for (; normal && i <= end - AT_ONCE; i += AT_ONCE) {
        for (uintptr_t line = 0; line < 64 * VECTORS;
             line += 64) /* in the next page: the CPU's own prefetcher stops at the end of a page */
            _mm_prefetch((const char *)((uintptr_t)(x + i) + AHEAD + line), _MM_HINT_T0);
        _mm512_storeu_si512(out + i, quantize64(x + i, &c));
    }
    lb_quantize_rest(p, x, out, i, end);
}
