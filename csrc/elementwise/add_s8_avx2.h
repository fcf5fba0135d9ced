/* add_s8 but for operands that lie side by side, which the file that includes this one adds by the widest vectors that it has. */
#ifndef LB_ADD_S8_AVX2_H
#define LB_ADD_S8_AVX2_H

#include "lb.h"
#include "elementwise/bytes_avx2.h"
#include "base/numerics.h"
#include "elementwise/broadcast.h"

typedef struct {
    __m256 ma, mb, offset; /* factors of values that are 2^24 times too large */
    __m256i lo, hi;
} lb_terms;

/* Sums with an operand that was multiplied before. Where that is the first, it holds the offset, and x has none: adding 0 changes no sum.
 */
static inline __m256i lb_add_floats(const int8_t *x, const float *other, int first, const lb_terms *t) {
    const __m256 m = first ? t->mb : t->ma, offset = first ? _mm256_setzero_ps() : t->offset;
    __m256 v[4];
    for (int k = 0; k < 4; k++)
        v[k] = _mm256_add_ps(_mm256_add_ps(_mm256_mul_ps(lb_reals8(x, k), m), offset), _mm256_loadu_ps(other + 8 * k));
    return lb_ordered32(v, t->lo, t->hi);
}

/* `count` elements of x, and those of another operand as floats that come again after `cycle` elements. The last 32 are computed first, as
 * the others may overwrite what they are made of. */
static void lb_add_repeating(const int8_t *x, const lb_cyclic *other, int32_t cycle, int32_t phase, int8_t *out, int32_t count, int first,
                             const lb_terms *t) {
    if (count < 32) {
        int8_t few[32] = {0};
        memcpy(few, x, (size_t)count);
        const __m256i v = lb_add_floats(few, other->v + phase, first, t);
        memcpy(out, &v, (size_t)count);
        return;
    }
    const int32_t end = (phase + count - 32) % cycle, step = 32 % cycle;
    const __m256i last = lb_add_floats(x + count - 32, other->v + end, first, t);
    for (int32_t i = 0; i < count - 32; i += 32, phase = lb_next_phase(phase, step, cycle))
        lb_store32(out + i, lb_add_floats(x + i, other->v + phase, first, t));
    lb_store32(out + count - 32, last);
}

/* `count` elements of each; out may be one of them. */
static void lb_add_bytes(const int8_t *a, const int8_t *b, int8_t *out, int32_t count, const lb_terms *t);

/* Whatever the numbers, and operands that stand still along the last axis, or one of them where it is short. */
static void lb_add_one_by_one(const lb_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end) {
    for (lb_run r; begin < end; begin += r.count) {
        r = lb_run_at(p->shape, p->a_stride, p->b_stride, begin, end);
        for (int32_t i = 0; i < r.count; i++)
            out[r.at + i] = (int8_t)lb_add(a[r.a + i * p->a_stride[3]], b[r.b + i * p->b_stride[3]], p->a_multiplier, p->b_multiplier,
                                           p->offset, p->lo, p->hi);
    }
}

static inline float lb_size(float v) {
    return v < 0 ? -v : v;
}

static void lb_add_s8_by(const lb_add_s8_params *p, const int8_t *a, const int8_t *b, int8_t *out, int32_t begin, int32_t end) {
    const float ma = p->a_multiplier, mb = p->b_multiplier;
    const int small = 128.0f * (lb_size(ma) + lb_size(mb)) + lb_size(p->offset) < 1e9f; /* sums are far below 2^31, and none is NaN */
    const int32_t da = p->a_stride[3], db = p->b_stride[3];
    if (!small || (da == 0 && db == 0) || (da != db && p->shape[3] < LB_SHORT) || !lb_has_room(ma) || !lb_has_room(mb)) {
        lb_add_one_by_one(p, a, b, out, begin, end);
        return;
    }
    const lb_terms t = {_mm256_set1_ps(ma / LB_UNIT), _mm256_set1_ps(mb / LB_UNIT), _mm256_set1_ps(p->offset),
                        _mm256_set1_epi8((char)p->lo), _mm256_set1_epi8((char)p->hi)};
    lb_cyclic other;
    for (lb_stretch s; begin < end; begin += s.count) {
        s = lb_stretch_at(p->shape, p->a_stride, p->b_stride, begin, end);
        if (s.cycle == 0 && da == 1 && db == 1) {
            lb_add_bytes(a + s.a, b + s.b, out + s.at, s.count, &t);
            continue;
        }
        const int first = s.cycle ? p->a_stride[2] == 0 : da == 0; /* whether it is a that repeats */
        const int8_t *x = first ? b + s.b : a + s.a, *row = first ? a + s.a : b + s.b;
        const float m = first ? ma : mb, offset = first ? p->offset : 0;
        if (s.cycle) {
            for (int32_t i = 0; i < s.cycle; i++)
                other.v[i] = (float)row[i] * m + offset;
            lb_close_cycle(&other, s.cycle);
        } else {
            lb_all_alike(&other, (float)*row * m + offset);
        }
        lb_add_repeating(x, &other, s.cycle ? s.cycle : LB_ALIKE, s.phase, out + s.at, s.count, first, &t);
    }
}

#endif
