/* Products of bytes by vpmaddubsw, exact: the sums that it takes in int16 are kept within int16 by the order of the weights.
 *
 * A quad is four k of eight columns: a broadcast of four activations (unsigned) meets 32 weights, and each lane of int16 gets a0 w0 +
 * a1 w1. That saturates unless the positive weights of a lane sum up to 128 at most, and the negative ones too (255 * 128 < 2^15);
 * a quad that has more is turned: its odd weights are negated, and multiplied with 255 - a, so that a lane of one sign becomes one of two,
 * and the other way round. Where that has too much as well, what is too much is cut off and becomes another quad of the same four k. Quads
 * are then put into groups, whose lanes are added in int16 before one vpmaddwd. Of such a sum only its width matters, 255 * (sum of
 * |w|) < 2^16: each lane of a group starts with a number that centres it, and the column's accumulator starts with what takes that away
 * again. So a group may hold quads as long as no lane has more than 255 in sum of |w|. A quad knows its k by number, because groups take
 * quads from anywhere. */
#ifndef LB_MADDUBS_WEIGHTS_AVX2_H
#define LB_MADDUBS_WEIGHTS_AVX2_H

#include "gemm/gemm_s8_tiles_avx2.h"
#include "linear/avx2/weights_avx2.h"

/* In assembly for the sake of registers, as lb_step: six rows need all but one. */
LB_INLINE __m256i lb_quad_first(const uint8_t *a, uint64_t quad, __m256i w) {
    __m256i x, sum;
    __asm__("vpbroadcastd (%[a],%[quad],4), %[x]\n\t"
            "vpmaddubsw %[w], %[x], %[sum]"
            : [sum] "=x"(sum), [x] "=&x"(x)
            : [a] "r"(a), [quad] "r"(quad), [w] "x"(w), "m"(*(const lb_dword *)(const void *)(a + 4 * quad)));
    return sum;
}

/* Of a quad that is turned. */
LB_INLINE __m256i lb_quad_turned(const uint8_t *a, uint64_t quad, __m256i w, __m256i odd) {
    __m256i x, sum;
    __asm__("vpbroadcastd (%[a],%[quad],4), %[x]\n\t"
            "vpxor %[odd], %[x], %[x]\n\t"
            "vpmaddubsw %[w], %[x], %[sum]"
            : [sum] "=x"(sum), [x] "=&x"(x)
            : [a] "r"(a), [quad] "r"(quad), [w] "x"(w), [odd] "x"(odd), "m"(*(const lb_dword *)(const void *)(a + 4 * quad)));
    return sum;
}

LB_INLINE void lb_quad(__m256i *sum, const uint8_t *a, uint64_t quad, __m256i w) {
    __m256i x;
    __asm__("vpbroadcastd (%[a],%[quad],4), %[x]\n\t"
            "vpmaddubsw %[w], %[x], %[x]\n\t"
            "vpaddw %[x], %[sum], %[sum]"
            : [sum] "+x"(*sum), [x] "=&x"(x)
            : [a] "r"(a), [quad] "r"(quad), [w] "x"(w), "m"(*(const lb_dword *)(const void *)(a + 4 * quad)));
}

/* Where the groups of a size begin and end. */
typedef struct {
    const __m256i *w;
    const uint16_t *quad;
} lb_maddubs_w_place;

/* acc[row] += the products of a row with eight columns, of groups of `size` quads, of which the first may be turned. */
LB_INLINE lb_maddubs_w_place lb_maddubs_w_groups(const int rows, const int size, const int turned, lb_maddubs_w_place at, uint32_t groups,
                                                 const uint8_t *const row[LB_MADDUBS_W_ROWS], __m256i ones,
                                                 __m256i acc[LB_MADDUBS_W_ROWS]) {
    const __m256i *w = at.w, odd = _mm256_set1_epi16(-256);
    const uint16_t *quad = at.quad;
    for (uint32_t left = groups; left > 0; left--, w += size + 1, quad += size) {
        __m256i sum[LB_MADDUBS_W_ROWS];
        LB_UNROLL
        for (int item = 0; item < size; item++) {
            const __m256i v = _mm256_load_si256(w + item);
            const uint64_t k = quad[item];
            LB_UNROLL
            for (int i = 0; i < rows; i++)
                if (item == 0 && turned)
                    sum[i] = lb_quad_turned(row[i], k, v, odd);
                else if (item == 0)
                    sum[i] = lb_quad_first(row[i], k, v);
                else
                    lb_quad(&sum[i], row[i], k, v);
        }
        const __m256i centre = _mm256_load_si256(w + size);
        LB_UNROLL
        for (int i = 0; i < rows; i++)
            __asm__("vpaddw %[v], %[sum], %[sum]\n\t"
                    "vpmaddwd %[ones], %[sum], %[sum]\n\t"
                    "vpaddd %[sum], %[acc], %[acc]"
                    : [sum] "+x"(sum[i]), [acc] "+x"(acc[i])
                    : [v] "x"(centre), [ones] "x"(ones));
    }
    return (lb_maddubs_w_place){w, quad};
}

LB_INLINE void lb_maddubs_w_tile(const int rows, const uint8_t *a, ptrdiff_t stride, const void *packed, const lb_maddubs_w_panel *panel,
                                 __m256i acc[LB_MADDUBS_W_ROWS]) {
    const __m256i *base = (const __m256i *)packed, ones = _mm256_set1_epi16(1);
    lb_maddubs_w_place at = {base + panel->weights, (const uint16_t *)(base + panel->quads)};
    const uint8_t *row[LB_MADDUBS_W_ROWS];
    LB_UNROLL
    for (int i = 0; i < rows; i++)
        row[i] = a + i * stride;
    LB_UNROLL
    for (int turned = 1; turned >= 0; turned--)
        LB_UNROLL
    for (int size = LB_MADDUBS_W_MOST; size > 0; size--) /* a loop of its own for each kind */
        at = lb_maddubs_w_groups(rows, size, turned, at, panel->groups[lb_maddubs_w_kind(size, turned)], row, ones, acc);
}

/* A row of activations, plus 128, and zeros up to a quad. */
static inline void lb_flip_row(const int8_t *a, int32_t k, uint8_t *out) {
    const __m256i flip = _mm256_set1_epi8(-128);
    if (k % 4)
        memset(out + k / 4 * 4, 0, 4);
    if (k < 32) {
        for (int32_t i = 0; i < k / 8 * 8; i += 8)
            _mm_storel_epi64((__m128i *)(void *)(out + i),
                             _mm_xor_si128(_mm_loadl_epi64((const __m128i *)(const void *)(a + i)), _mm256_castsi256_si128(flip)));
        for (int32_t i = k / 8 * 8; i < k; i++)
            out[i] = (uint8_t)(a[i] ^ -128);
        return;
    }
    for (int32_t i = 0; i < k; i += 32) {
        const int32_t at = k - i < 32 ? k - 32 : i; /* the last ones overlap */
        const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)(a + at));
        _mm256_storeu_si256((__m256i *)(void *)(out + at), _mm256_xor_si256(bytes, flip));
    }
}

#endif
