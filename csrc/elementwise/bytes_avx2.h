/* Elementwise operations on bytes: 32 of them as floats and back, and operands that repeat as floats made once.
 *
 * A byte goes into the highest of four, so that its float is 2^24 times its value: one shuffle and one conversion, half of what widening
 * with the sign takes. Factors are divided by 2^24: powers of two leave the bits of a product alone. */
#ifndef LB_BYTES_AVX2_H
#define LB_BYTES_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define LB_UNIT 16777216.0f /* 2^24 */

/* Whether a factor can be divided by 2^24 without loss. */
static inline int lb_has_room(float factor) {
    return factor == 0 || factor > 1e-30f || factor < -1e-30f;
}

static inline __m256i lb_load32(const int8_t *from) {
    return _mm256_loadu_si256((const __m256i *)(const void *)from);
}

static inline void lb_store32(int8_t *to, __m256i v) {
    _mm256_storeu_si256((__m256i *)(void *)to, v);
}

/* Bytes 8 * part ... of 32, in order. */
static inline __m256 lb_reals8(const int8_t *from, int part) {
    const __m256i places = _mm256_setr_epi8(-1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, /* -1 makes a zero */
                                            -1, -1, -1, 4, -1, -1, -1, 5, -1, -1, -1, 6, -1, -1, -1, 7);
    const __m256i twice = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)(from + part / 2 * 16)));
    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(twice, _mm256_add_epi8(places, _mm256_set1_epi32(part % 2 ? 8 << 24 : 0))));
}

/* Bytes 4 * part ... of 32, and those 16 after: the order in which lb_bytes32 leaves its reals alone. */
static inline __m256 lb_apart8(__m256i bytes, int part) {
    const __m256i places = _mm256_setr_epi8(-1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3, /* */
                                            -1, -1, -1, 0, -1, -1, -1, 1, -1, -1, -1, 2, -1, -1, -1, 3);
    return _mm256_cvtepi32_ps(_mm256_shuffle_epi8(bytes, _mm256_add_epi8(places, _mm256_set1_epi32(part << 26))));
}

/* 32 reals below 2^31 rounded and clamped: four and the four that are 16 after from each. */
static inline __m256i lb_bytes32(const __m256 v[4], __m256i lo, __m256i hi) {
    const __m256i low = _mm256_packs_epi32(_mm256_cvtps_epi32(v[0]), _mm256_cvtps_epi32(v[1]));
    const __m256i high = _mm256_packs_epi32(_mm256_cvtps_epi32(v[2]), _mm256_cvtps_epi32(v[3]));
    return _mm256_min_epi8(_mm256_max_epi8(_mm256_packs_epi16(low, high), lo), hi);
}

/* The same, in order. */
static inline __m256i lb_ordered32(const __m256 v[4], __m256i lo, __m256i hi) {
    return _mm256_permutevar8x32_epi32(lb_bytes32(v, lo, hi), _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

enum {
    LB_CYCLE = 1024, /* elements of a row that is made floats */
    LB_SHORT = 8     /* elements of a row that are too few to convert the other operand to floats once */
};

/* `count` elements of the output from `at` on, and where the operands stand. */
typedef struct {
    int32_t at, count, a, b;
    int32_t cycle, phase; /* > 0: the number of elements of the operand whose row is repeated; `phase` is the next one */
} lb_stretch;

/* What can be done at once from element `at` on: to the end of the last axis, or of the last two where one operand is dense over both and
 * the other repeats its row. */
static inline lb_stretch lb_stretch_at(const int32_t shape[4], const int32_t a_stride[4], const int32_t b_stride[4], int32_t at,
                                       int32_t end) {
    lb_stretch s = {.at = at};
    int32_t index[4] = {0};
    for (int32_t axis = 3, rest = at; axis >= 0; axis--)
        if (shape[axis] > 1) {
            index[axis] = rest % shape[axis], rest /= shape[axis];
            s.a += index[axis] * a_stride[axis], s.b += index[axis] * b_stride[axis];
        }
    const int32_t n = shape[3], both = n <= LB_CYCLE && shape[2] > 1 && a_stride[3] == 1 && b_stride[3] == 1;
    const int32_t repeats_a = both && a_stride[2] == 0 && b_stride[2] == n, repeats_b = both && b_stride[2] == 0 && a_stride[2] == n;
    int32_t left = n - index[3];
    if (repeats_a || repeats_b) {
        left += (shape[2] - 1 - index[2]) * n;
        s.cycle = n, s.phase = index[3];
        if (repeats_a)
            s.a -= index[3];
        else
            s.b -= index[3];
    }
    s.count = left < end - at ? left : end - at;
    return s;
}

/* A row of floats that is read from any phase on, 32 at a time. */
typedef struct {
    _Alignas(32) float v[LB_CYCLE + 32];
} lb_cyclic;

static inline void lb_close_cycle(lb_cyclic *c, int32_t cycle) {
    for (int32_t i = 0; i < 32; i++)
        c->v[cycle + i] = c->v[i];
}

enum { LB_ALIKE = 8 }; /* the cycle of a row whose elements are all the same */

static inline void lb_all_alike(lb_cyclic *c, float v) {
    for (int32_t i = 0; i < LB_ALIKE + 32; i++)
        c->v[i] = v;
}

/* The phase 32 elements on, where step = 32 % cycle. */
static inline int32_t lb_next_phase(int32_t phase, int32_t step, int32_t cycle) {
    phase += step;
    return phase < cycle ? phase : phase - cycle;
}

#endif
