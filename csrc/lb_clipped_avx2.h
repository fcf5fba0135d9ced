/* Products of bytes by vpmaddubsw, exact for all weights: activations are clipped to seven bits, and what is cut off is added as what it
 * is, a few products here and there.
 *
 * Seven bits begin 64 below the zero point (or at -128, or at 0): a lane of int16 gets a0 w0 + a1 w1 within 127 * 256, and two such lanes
 * are within 127 * 512 < 2^16 of each other. So each lane of two quads starts with a number that centres it, and the column's accumulator
 * starts with what takes that away again, as in lb_bins_avx2.h; one vpmaddwd then widens both quads.
 *
 * What is cut off ("far") are quads of activations with bytes up to 128. Four of a row make a group, whose sums fit int16 because the
 * larger pairs of its quads sum up to 255 at most. A row that has too many of them is multiplied in halves, as in lb_nibbles_avx2.h, whose
 * order the weights have: steps of eight k are a quad of 16 columns, the next one, and 16 times two lanes of what centres them. */
#ifndef LB_CLIPPED_AVX2_H
#define LB_CLIPPED_AVX2_H

#include "lb_nibbles_avx2.h"

enum { LB_CLIP_ROWS = 3, LB_FAR_GROUP = 4, LB_FAR_MOST = 255 };

/* The least activation that is not cut off. */
static inline int32_t lb_clip_least(int32_t x_zero) {
    return x_zero < -64 ? -128 : x_zero > 64 ? 0 : x_zero - 64;
}

/* ---- rows ---- */

/* The groups of a row. Those above and below grow beside each other. */
typedef struct {
    lb_far *groups;
    int32_t row, count, most;
    struct {
        int32_t group, size, sum; /* the last one, how many quads it has, and the sum of their larger pairs */
    } last[2];
} lb_far_list;

/* Whether there was room. */
static inline int lb_far_add(lb_far_list *list, int below, uint32_t far, uint32_t at) {
    const uint32_t pairs = (far & 0xFF00FF) + (far >> 8 & 0xFF00FF), low = pairs & 0xFFFF, high = pairs >> 16;
    const int32_t sum = (int32_t)(low > high ? low : high);
    int32_t size = list->last[below].size, all = list->last[below].sum + sum;
    if (size == LB_FAR_GROUP || all > LB_FAR_MOST) {
        if (list->count == list->most)
            return 0;
        size = 0, all = sum;
        list->last[below].group = list->count++;
        list->groups[list->last[below].group] = (lb_far){.row = list->row, .below = below};
    }
    lb_far *group = &list->groups[list->last[below].group];
    group->bytes[size] = far, group->at[size] = at;
    list->last[below].size = size + 1, list->last[below].sum = all;
    return 1;
}

/* What 32 activations from k on have above and below the seven bits. */
static inline int lb_far_of(lb_far_list *list, __m256i above, __m256i below, int32_t k) {
    const __m256i none = _mm256_cmpeq_epi32(_mm256_or_si256(above, below), _mm256_setzero_si256());
    uint32_t left = ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(none)) & 0xFF;
    if (!left)
        return 1;
    uint32_t far[2][8];
    memcpy(far[0], &above, sizeof far[0]), memcpy(far[1], &below, sizeof far[1]);
    for (int i = 0; i < 8; i++) {
        const uint32_t at = (uint32_t)((k / 8 + i / 2) * LB_CLIP_BYTES + i % 2 * 64);
        for (int side = 0; side < 2; side++)
            if (far[side][i] && !lb_far_add(list, side, far[side][i], at))
                return 0;
    }
    return 1;
}

/* Row i of s, of which those before it are there: clipped, with its groups; or in halves. */
static inline void lb_clip_row(const lb_rows *s, ptrdiff_t i, const int8_t *a, int32_t k, int32_t x_zero) {
    const int32_t least = lb_clip_least(x_zero);
    const __m256i lo = _mm256_set1_epi8((char)least), hi = _mm256_set1_epi8((char)(least + 127));
    uint8_t *out = s->a + i * s->stride;
    if (i == 0)
        s->ends[0] = 0;
    const int32_t first = s->ends[i];
    lb_far_list list = {s->far + first, (int32_t)i, 0, lb_far_groups(k), {{0, LB_FAR_GROUP, 0}, {0, LB_FAR_GROUP, 0}}};
    int room = 1;
    for (int32_t at = 0; at < k && room; at += 32) {
        __m256i v = lo;
        if (k - at < 32)
            memcpy(&v, a + at, (size_t)(k - at));
        else
            v = _mm256_loadu_si256((const __m256i *)(const void *)(a + at));
        const __m256i capped = _mm256_min_epi8(v, hi), clipped = _mm256_max_epi8(capped, lo);
        _mm256_store_si256((__m256i *)(void *)(out + at), _mm256_sub_epi8(clipped, lo));
        room = lb_far_of(&list, _mm256_sub_epi8(v, capped), _mm256_sub_epi8(clipped, capped), at);
    }
    s->ends[i + 1] = first + (room ? list.count : 0);
    s->ends[s->rows + 1 + i] = !room;
    if (!room)
        lb_halve_row(a, k, out, s->low + i * s->stride);
}

/* ---- tiles of 16 columns ---- */

/* acc += the products of up to two clipped rows with a panel; k is a multiple of 8. */
LB_INLINE void lb_clip_few_steps(const int rows, const uint8_t *a, ptrdiff_t stride, const int8_t *panel, ptrdiff_t k, __m256i acc[][2]) {
    const __m256i *w = (const __m256i *)(const void *)panel, ones = _mm256_set1_epi16(1);
    for (ptrdiff_t at = 0; at < k; at += 8, w += LB_CLIP_BYTES / 32)
        LB_UNROLL
    for (int i = 0; i < rows; i++) {
        const __m256i x = lb_broadcast(a + i * stride + at), y = lb_broadcast(a + i * stride + at + 4);
        LB_UNROLL
        for (int half = 0; half < 2; half++) {
            const __m256i sum = _mm256_add_epi16(_mm256_maddubs_epi16(x, w[half]), _mm256_maddubs_epi16(y, w[2 + half]));
            acc[i][half] = _mm256_add_epi32(acc[i][half], _mm256_madd_epi16(_mm256_add_epi16(sum, w[4 + half]), ones));
        }
    }
}

static const _Alignas(32) int16_t lb_signs[2][16] = {{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
                                                     {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1}};

/* Parts of lb_clip_steps: a quad of a row, and the end of a step of a row. */
#define LB_CLIP_FIRST(a, s0, s1)                                                                                                           \
    "vpbroadcastd " a ", %[x]\n\t"                                                                                                         \
    "vpmaddubsw %[w0], %[x], " s0 "\n\t"                                                                                                   \
    "vpmaddubsw %[w1], %[x], " s1 "\n\t"
#define LB_CLIP_NEXT(a, s0, s1)                                                                                                            \
    "vpbroadcastd " a ", %[x]\n\t"                                                                                                         \
    "vpmaddubsw %[w0], %[x], %[y]\n\t"                                                                                                     \
    "vpmaddubsw %[w1], %[x], %[x]\n\t"                                                                                                     \
    "vpaddw %[y], " s0 ", " s0 "\n\t"                                                                                                      \
    "vpaddw %[x], " s1 ", " s1 "\n\t"
#define LB_CLIP_END(s0, s1, c0, c1)                                                                                                        \
    "vpaddw %[w0], " s0 ", " s0 "\n\t"                                                                                                     \
    "vpaddw %[w1], " s1 ", " s1 "\n\t"                                                                                                     \
    "vpmaddwd %[x], " s0 ", " s0 "\n\t"                                                                                                    \
    "vpmaddwd %[x], " s1 ", " s1 "\n\t"                                                                                                    \
    "vpaddd " s0 ", " c0 ", " c0 "\n\t"                                                                                                    \
    "vpaddd " s1 ", " c1 ", " c1 "\n\t"

/* acc += the products of LB_CLIP_ROWS clipped rows with a panel; k is a multiple of 8 and not 0. In assembly, because it takes all 16
 * registers: 12 sums, 2 of weights, 2 for products. Ones are read anew in each step, when a register is free. */
LB_INLINE void lb_clip_steps(const uint8_t *a, ptrdiff_t stride, const int8_t *panel, ptrdiff_t k, __m256i c[LB_CLIP_ROWS][2]) {
    __m256i s00, s01, s10, s11, s20, s21, w0, w1, x, y;
    const uint8_t *end = a + k;
    __asm__ volatile("1:\n\t"
                     "vmovdqa (%[w]), %[w0]\n\t"
                     "vmovdqa 32(%[w]), %[w1]\n\t"                           /* the first quad */
                     LB_CLIP_FIRST("(%[a])", "%[s00]", "%[s01]")             /* of row 0 */
                     LB_CLIP_FIRST("(%[a],%[stride])", "%[s10]", "%[s11]")   /* of row 1 */
                     LB_CLIP_FIRST("(%[a],%[stride],2)", "%[s20]", "%[s21]") /* of row 2 */
                     "vmovdqa 64(%[w]), %[w0]\n\t"
                     "vmovdqa 96(%[w]), %[w1]\n\t" /* the second quad */
                     LB_CLIP_NEXT("4(%[a])", "%[s00]", "%[s01]") LB_CLIP_NEXT("4(%[a],%[stride])", "%[s10]", "%[s11]")
                         LB_CLIP_NEXT("4(%[a],%[stride],2)", "%[s20]",
                                      "%[s21]") "vmovdqa 128(%[w]), %[w0]\n\t"
                                                "vmovdqa 160(%[w]), %[w1]\n\t" /* what centres */
                                                "vmovdqa %[ones], %[x]\n\t" LB_CLIP_END("%[s00]", "%[s01]", "%[c00]", "%[c01]")
                                                    LB_CLIP_END("%[s10]", "%[s11]", "%[c10]", "%[c11]")
                                                        LB_CLIP_END("%[s20]", "%[s21]", "%[c20]", "%[c21]") "add $8, %[a]\n\t"
                                                                                                            "add $192, %[w]\n\t"
                                                                                                            "cmp %[end], %[a]\n\t"
                                                                                                            "jb 1b"
                     : [a] "+&r"(a), [w] "+&r"(panel), [c00] "+x"(c[0][0]), [c01] "+x"(c[0][1]), [c10] "+x"(c[1][0]), [c11] "+x"(c[1][1]),
                       [c20] "+x"(c[2][0]), [c21] "+x"(c[2][1]), [s00] "=&x"(s00), [s01] "=&x"(s01), [s10] "=&x"(s10), [s11] "=&x"(s11),
                       [s20] "=&x"(s20), [s21] "=&x"(s21), [w0] "=&x"(w0), [w1] "=&x"(w1), [x] "=&x"(x), [y] "=&x"(y)
                     : [stride] "r"(stride), [end] "r"(end), [ones] "m"(lb_signs)
                     : "memory", "cc");
}

/* acc += the products of four quads. acc[0] is that of row `first`. */
LB_INLINE void lb_far_group(const lb_far *far, const int8_t *panel, ptrdiff_t first, __m256i acc[][2]) {
    const __m256i sign = _mm256_load_si256((const __m256i *)(const void *)lb_signs[far->below]);
    LB_UNROLL
    for (int half = 0; half < 2; half++) {
        __m256i sum = _mm256_setzero_si256();
        LB_UNROLL
        for (int i = 0; i < LB_FAR_GROUP; i++) {
            const __m256i w = _mm256_load_si256((const __m256i *)(const void *)(panel + far->at[i] + 32 * half));
            const __m256i products = _mm256_maddubs_epi16(_mm256_set1_epi32((int32_t)far->bytes[i]), w);
            sum = i ? _mm256_add_epi16(sum, products) : products;
        }
        __m256i *to = &acc[far->row - first][half];
        *to = _mm256_add_epi32(*to, _mm256_madd_epi16(sum, sign));
    }
}

/* acc (in memory) += what was cut off from `rows` rows from `first` on. */
static inline void lb_far_rows(const lb_rows *s, ptrdiff_t first, int rows, const int8_t *panel, __m256i acc[][2]) {
    const lb_far *far = s->far + s->ends[first], *end = s->far + s->ends[first + rows];
    for (; far < end; far++)
        lb_far_group(far, panel, first, acc);
}

#endif
