#include "lb.h"
#include "elementwise/bytes_avx2.h"
#include "base/numerics.h"
#include "elementwise/broadcast.h"

lb_mul_s8_fn lb_mul_s8__avx2;

typedef struct {
    __m256 m, zero; /* of the result */
    __m256i lo, hi;
} terms;

/* (a - a_zero) * (b - b_zero) as a * f + g with f = b - b_zero and g = -a_zero * f: all whole numbers below 2^24, times 2^24, so exact. */
static inline __m256i by_floats(const int8_t *a, const float *f, const float *g, const terms *t) {
    const __m256 m = _mm256_mul_ps(t->m, _mm256_set1_ps(1 / LB_UNIT));
    __m256 v[4];
    for (int k = 0; k < 4; k++) {
        const __m256 product = _mm256_fmadd_ps(lb_reals8(a, k), _mm256_loadu_ps(f + 8 * k), _mm256_loadu_ps(g + 8 * k));
        v[k] = _mm256_add_ps(_mm256_mul_ps(product, m), t->zero);
    }
    return lb_ordered32(v, t->lo, t->hi);
}

/* Eight products of 17 bits, from their halves. */
static inline __m256 scaled(__m256i product, const terms *t) {
    return _mm256_add_ps(_mm256_mul_ps(_mm256_cvtepi32_ps(product), t->m), t->zero);
}

/* The zero points have 128 more, as the bytes have. */
static inline __m256i by_bytes(const int8_t *a, const int8_t *b, __m256i za, __m256i zb, const terms *t) {
    const __m256i flip = _mm256_set1_epi8(-128), none = _mm256_setzero_si256();
    const __m256i u = _mm256_xor_si256(lb_load32(a), flip), v = _mm256_xor_si256(lb_load32(b), flip);
    const __m256i u0 = _mm256_sub_epi16(_mm256_unpacklo_epi8(u, none), za), u1 = _mm256_sub_epi16(_mm256_unpackhi_epi8(u, none), za);
    const __m256i v0 = _mm256_sub_epi16(_mm256_unpacklo_epi8(v, none), zb), v1 = _mm256_sub_epi16(_mm256_unpackhi_epi8(v, none), zb);
    const __m256i low0 = _mm256_mullo_epi16(u0, v0), high0 = _mm256_mulhi_epi16(u0, v0);
    const __m256i low1 = _mm256_mullo_epi16(u1, v1), high1 = _mm256_mulhi_epi16(u1, v1);
    const __m256 y[4] = {scaled(_mm256_unpacklo_epi16(low0, high0), t), scaled(_mm256_unpackhi_epi16(low0, high0), t),
                         scaled(_mm256_unpacklo_epi16(low1, high1), t), scaled(_mm256_unpackhi_epi16(low1, high1), t)};
    return lb_bytes32(y, t->lo, t->hi);
}

/* `count` elements of a, and those of another operand as floats that come again after `cycle` elements. The last 32 are computed first, as
 * the others may overwrite what they are made of. */
static void repeating(const int8_t *a, const lb_cyclic *f, const lb_cyclic *g, int32_t cycle, int32_t phase, int8_t *out, int32_t count,
                      const terms *t) {
    if (count < 32) {
        int8_t few[32] = {0};
        memcpy(few, a, (size_t)count);
        const __m256i v = by_floats(few, f->v + phase, g->v + phase, t);
        memcpy(out, &v, (size_t)count);
        return;
    }
    const int32_t end = (phase + count - 32) % cycle, step = 32 % cycle;
    const __m256i last = by_floats(a + count - 32, f->v + end, g->v + end, t);
    for (int32_t i = 0; i < count - 32; i += 32, phase = lb_next_phase(phase, step, cycle))
        lb_store32(out + i, by_floats(a + i, f->v + phase, g->v + phase, t));
    lb_store32(out + count - 32, last);
}

static void side_by_side(const int8_t *a, const int8_t *b, __m256i za, __m256i zb, int8_t *out, int32_t count, const terms *t) {
    if (count < 32) {
        int8_t few[2][32] = {{0}};
        memcpy(few[0], a, (size_t)count), memcpy(few[1], b, (size_t)count);
        const __m256i v = by_bytes(few[0], few[1], za, zb, t);
        memcpy(out, &v, (size_t)count);
        return;
    }
    const __m256i last = by_bytes(a + count - 32, b + count - 32, za, zb, t);
    for (int32_t i = 0; i < count - 32; i += 32)
        lb_store32(out + i, by_bytes(a + i, b + i, za, zb, t));
    lb_store32(out + count - 32, last);
}

/* Whatever the multiplier, and operands that stand still along the last axis, or one of them where it is short. */
static void one_by_one(const lb_mul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++) {
            const int32_t product = (a[r.a + i * p->a_stride[3]] - p->a_zero) * (b[r.b + i * p->b_stride[3]] - p->b_zero);
            out[r.at + i] = (int8_t)lb_mul(product, p->multiplier, p->y_zero, p->lo, p->hi);
        }
    }
}

void lb_mul_s8__avx2(const lb_mul_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end) {
    const int32_t da = p->a_stride[3], db = p->b_stride[3];
    const int small = p->multiplier < 1e4f && lb_has_room(p->multiplier); /* results are far below 2^31 */
    if (!small || (da == 0 && db == 0) || (da != db && p->shape[3] < LB_SHORT)) {
        one_by_one(p, a, b, out, begin, end);
        return;
    }
    const terms t = {_mm256_set1_ps(p->multiplier), _mm256_set1_ps((float)p->y_zero), _mm256_set1_epi8((char)p->lo),
                     _mm256_set1_epi8((char)p->hi)};
    lb_cyclic f, g;
    for (lb_stretch s; begin < end; begin += s.count) {
        s = lb_stretch_at(p->shape, p->a_stride, p->b_stride, begin, end);
        if (s.cycle == 0 && da == 1 && db == 1) {
            const __m256i za = _mm256_set1_epi16((int16_t)(p->a_zero + 128)), zb = _mm256_set1_epi16((int16_t)(p->b_zero + 128));
            side_by_side(a + s.a, b + s.b, za, zb, out + s.at, s.count, &t);
            continue;
        }
        const int b_repeats = s.cycle ? p->b_stride[2] == 0 : db == 0;
        const int8_t *dense = b_repeats ? a + s.a : b + s.b, *other = b_repeats ? b + s.b : a + s.a;
        const int32_t zero = b_repeats ? p->b_zero : p->a_zero;
        const float shift = (float)-(b_repeats ? p->a_zero : p->b_zero) * LB_UNIT;
        if (s.cycle) {
            for (int32_t i = 0; i < s.cycle; i++) {
                f.v[i] = (float)(other[i] - zero);
                g.v[i] = f.v[i] * shift;
            }
            lb_close_cycle(&f, s.cycle), lb_close_cycle(&g, s.cycle);
        } else {
            lb_all_alike(&f, (float)(*other - zero)), lb_all_alike(&g, (float)(*other - zero) * shift);
        }
        repeating(dense, &f, &g, s.cycle ? s.cycle : LB_ALIKE, s.phase, out + s.at, s.count, &t);
    }
}
