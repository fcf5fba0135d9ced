/* Products of tiles as maddubs_s8_avx2.h makes them with 16 columns. */
#ifndef LB_MADDUBS_S8_LOOPS_AVX2_H
#define LB_MADDUBS_S8_LOOPS_AVX2_H

#include "linear/avx2/nibbles_avx2.h"
#include "base/ones_avx2.h"

enum { LB_MADDUBS_S8_RESTS = 2 }; /* quads of a group of what was cut off: most rows have one or two */

/* Bytes of a quad, of a group of four, and of one of what was cut off. */
enum {
    LB_MADDUBS_S8_QUAD_BYTES = 16,
    LB_MADDUBS_S8_FOUR_BYTES = 4 * LB_MADDUBS_S8_QUAD_BYTES,
    LB_MADDUBS_S8_REST_BYTES = 32 * LB_MADDUBS_S8_RESTS
};

/* Parts of the loops: the first quad of a row, another one, the end of a group. */
#define LB_MADDUBS_S8_FIRST(at, s0, s1)                                                                                                    \
    "vpbroadcastd " at "(%[a]), %[x]\n\t"                                                                                                  \
    "vpmaddubsw %[x], %[w0], " s0 "\n\t"                                                                                                   \
    "vpmaddubsw %[x], %[w1], " s1 "\n\t"
#define LB_MADDUBS_S8_NEXT(at, s0, s1)                                                                                                     \
    "vpbroadcastd " at "(%[a]), %[x]\n\t"                                                                                                  \
    "vpmaddubsw %[x], %[w0], %[y]\n\t"                                                                                                     \
    "vpmaddubsw %[x], %[w1], %[x]\n\t"                                                                                                     \
    "vpaddw %[y], " s0 ", " s0 "\n\t"                                                                                                      \
    "vpaddw %[x], " s1 ", " s1 "\n\t"
#define LB_MADDUBS_S8_END(s0, s1, c0, c1)                                                                                                  \
    "vpmaddwd %[w1], " s0 ", " s0 "\n\t"                                                                                                   \
    "vpmaddwd %[w1], " s1 ", " s1 "\n\t"                                                                                                   \
    "vpaddd " s0 ", " c0 ", " c0 "\n\t"                                                                                                    \
    "vpaddd " s1 ", " c1 ", " c1 "\n\t"
#define LB_MADDUBS_S8_LOAD(at)                                                                                                             \
    "movl " at "(%[a]), %k[i]\n\t"                                                                                                         \
    "vmovdqa (%[w],%[i]), %[w0]\n\t"                                                                                                       \
    "vmovdqa 32(%[w],%[i]), %[w1]\n\t"

/* The same of the first, first two and all rows of a tile: a quad, whose d and whose place stand at these bytes; one that was cut off,
 * where each row has its own place; the end of a group. */
#define LB_MADDUBS_S8_QUAD1(part, r0, r1, r2, at) LB_MADDUBS_S8_LOAD(at) part(r0, "%[s00]", "%[s01]")
#define LB_MADDUBS_S8_QUAD2(part, r0, r1, r2, at) LB_MADDUBS_S8_QUAD1(part, r0, r1, r2, at) part(r1, "%[s10]", "%[s11]")
#define LB_MADDUBS_S8_QUAD3(part, r0, r1, r2, at) LB_MADDUBS_S8_QUAD2(part, r0, r1, r2, at) part(r2, "%[s20]", "%[s21]")
#define LB_MADDUBS_S8_REST1(part, r0, r1, r2, at0, at1, at2) LB_MADDUBS_S8_LOAD(at0) part(r0, "%[s00]", "%[s01]")
#define LB_MADDUBS_S8_REST2(part, r0, r1, r2, at0, at1, at2)                                                                               \
    LB_MADDUBS_S8_REST1(part, r0, r1, r2, at0, at1, at2) LB_MADDUBS_S8_LOAD(at1) part(r1, "%[s10]", "%[s11]")
#define LB_MADDUBS_S8_REST3(part, r0, r1, r2, at0, at1, at2)                                                                               \
    LB_MADDUBS_S8_REST2(part, r0, r1, r2, at0, at1, at2) LB_MADDUBS_S8_LOAD(at2) part(r2, "%[s20]", "%[s21]")
#define LB_MADDUBS_S8_END1 "vmovdqa %[ones], %[w1]\n\t" LB_MADDUBS_S8_END("%[s00]", "%[s01]", "%[c00]", "%[c01]")
#define LB_MADDUBS_S8_END2 LB_MADDUBS_S8_END1 LB_MADDUBS_S8_END("%[s10]", "%[s11]", "%[c10]", "%[c11]")
#define LB_MADDUBS_S8_END3 LB_MADDUBS_S8_END2 LB_MADDUBS_S8_END("%[s20]", "%[s21]", "%[c20]", "%[c21]")

/* Groups of so many rows. */
#define LB_MADDUBS_S8_ONE_OF(rows) LB_MADDUBS_S8_QUAD##rows(LB_MADDUBS_S8_FIRST, "0", "4", "8", "12")
#define LB_MADDUBS_S8_TWO_OF(rows) LB_MADDUBS_S8_ONE_OF(rows) LB_MADDUBS_S8_QUAD##rows(LB_MADDUBS_S8_NEXT, "16", "20", "24", "28")
#define LB_MADDUBS_S8_THREE_OF(rows) LB_MADDUBS_S8_TWO_OF(rows) LB_MADDUBS_S8_QUAD##rows(LB_MADDUBS_S8_NEXT, "32", "36", "40", "44")
#define LB_MADDUBS_S8_FOUR_OF(rows) LB_MADDUBS_S8_THREE_OF(rows) LB_MADDUBS_S8_QUAD##rows(LB_MADDUBS_S8_NEXT, "48", "52", "56", "60")
#define LB_MADDUBS_S8_REST_OF(rows)                                                                                                        \
    LB_MADDUBS_S8_REST##rows(LB_MADDUBS_S8_FIRST, "0", "4", "8", "16", "20", "24")                                                         \
        LB_MADDUBS_S8_REST##rows(LB_MADDUBS_S8_NEXT, "32", "36", "40", "48", "52", "56")

/* c += the products of groups from a to `end`. In assembly, because it takes all 16 registers: 12 sums, 2 of weights, 2 for products. */
#define LB_MADDUBS_S8_LOOP(group, step)                                                                                                    \
    __asm__ volatile("1:\n\t" group "add $" step ", %[a]\n\t"                                                                              \
                     "cmp %[end], %[a]\n\t"                                                                                                \
                     "jb 1b"                                                                                                               \
                     : [a] "+&r"(a), [i] "=&r"(i), [c00] "+x"(c[0][0]), [c01] "+x"(c[0][1]), [c10] "+x"(c[1][0]), [c11] "+x"(c[1][1]),     \
                       [c20] "+x"(c[2][0]), [c21] "+x"(c[2][1]), [s00] "=&x"(s00), [s01] "=&x"(s01), [s10] "=&x"(s10), [s11] "=&x"(s11),   \
                       [s20] "=&x"(s20), [s21] "=&x"(s21), [w0] "=&x"(w0), [w1] "=&x"(w1), [x] "=&x"(x), [y] "=&x"(y)                      \
                     : [w] "r"(w), [end] "r"(end), [ones] "m"(lb_ones)                                                                     \
                     : "memory", "cc")

/* The kinds of groups by the place of their number in a head. */
enum { LB_MADDUBS_S8_REST_KIND, LB_MADDUBS_S8_ONE_KIND, LB_MADDUBS_S8_TWO_KIND, LB_MADDUBS_S8_THREE_KIND, LB_MADDUBS_S8_FOUR_KIND };

#define LB_MADDUBS_S8_KINDS(rows)                                                                                                          \
    switch (kind) {                                                                                                                        \
    case LB_MADDUBS_S8_REST_KIND:                                                                                                          \
        LB_MADDUBS_S8_LOOP(LB_MADDUBS_S8_REST_OF(rows) LB_MADDUBS_S8_END##rows, "64");                                                     \
        break;                                                                                                                             \
    case LB_MADDUBS_S8_ONE_KIND:                                                                                                           \
        LB_MADDUBS_S8_LOOP(LB_MADDUBS_S8_ONE_OF(rows) LB_MADDUBS_S8_END##rows, "16");                                                      \
        break;                                                                                                                             \
    case LB_MADDUBS_S8_TWO_KIND:                                                                                                           \
        LB_MADDUBS_S8_LOOP(LB_MADDUBS_S8_TWO_OF(rows) LB_MADDUBS_S8_END##rows, "32");                                                      \
        break;                                                                                                                             \
    case LB_MADDUBS_S8_THREE_KIND:                                                                                                         \
        LB_MADDUBS_S8_LOOP(LB_MADDUBS_S8_THREE_OF(rows) LB_MADDUBS_S8_END##rows, "48");                                                    \
        break;                                                                                                                             \
    default:                                                                                                                               \
        LB_MADDUBS_S8_LOOP(LB_MADDUBS_S8_FOUR_OF(rows) LB_MADDUBS_S8_END##rows, "64");                                                     \
    }

LB_INLINE ptrdiff_t lb_maddubs_s8_bytes(const int kind) {
    return kind == LB_MADDUBS_S8_REST_KIND ? LB_MADDUBS_S8_REST_BYTES : kind * LB_MADDUBS_S8_QUAD_BYTES;
}

/* Groups of a kind; of a tile of which the first `rows` rows are there. Gives what is after them. */
LB_INLINE const uint8_t *lb_maddubs_s8_steps(const int rows, const int kind, const uint8_t *a, int32_t groups, const uint8_t *w,
                                             __m256i c[LB_MADDUBS_S8_ROWS][2]) {
    __m256i s00, s01, s10, s11, s20, s21, w0, w1, x, y;
    uint64_t i;
    const uint8_t *end = a + groups * lb_maddubs_s8_bytes(kind);
    if (!groups)
        return end;
    if (rows == 1)
        LB_MADDUBS_S8_KINDS(1)
    else if (rows == 2)
        LB_MADDUBS_S8_KINDS(2)
    else
        LB_MADDUBS_S8_KINDS(3)
    return end;
}

/* c = the products of a tile of which the first `rows` rows are there. */
LB_INLINE void lb_maddubs_s8_products(const int rows, const lb_rows *s, ptrdiff_t tile, const uint8_t *w,
                                      __m256i c[LB_MADDUBS_S8_ROWS][2]) {
    const lb_maddubs_s8_head *head = &s->heads[tile];
    const uint8_t *a = s->a + tile * s->stride;
    LB_UNROLL
    for (int i = 0; i < LB_MADDUBS_S8_ROWS; i++)
        c[i][0] = c[i][1] = _mm256_setzero_si256();
    if (head->halves) {
        a = lb_maddubs_s8_steps(rows, LB_MADDUBS_S8_FOUR_KIND, a, head->halves, w, c);
        for (int i = 0; i < LB_MADDUBS_S8_ROWS; i++)
            c[i][0] = _mm256_slli_epi32(c[i][0], 4), c[i][1] = _mm256_slli_epi32(c[i][1], 4);
    }
    LB_UNROLL
    for (int i = 0; i < LB_MADDUBS_S8_ROWS; i++) {
        const __m256i more = _mm256_set1_epi32((int32_t)head->more[i]);
        c[i][0] = _mm256_sub_epi32(c[i][0], more), c[i][1] = _mm256_sub_epi32(c[i][1], more);
    }
    a = lb_maddubs_s8_steps(rows, LB_MADDUBS_S8_FOUR_KIND, a, head->groups[LB_MADDUBS_S8_FOUR_KIND], w, c);
    a = lb_maddubs_s8_steps(rows, LB_MADDUBS_S8_THREE_KIND, a, head->groups[LB_MADDUBS_S8_THREE_KIND], w, c);
    a = lb_maddubs_s8_steps(rows, LB_MADDUBS_S8_TWO_KIND, a, head->groups[LB_MADDUBS_S8_TWO_KIND], w, c);
    a = lb_maddubs_s8_steps(rows, LB_MADDUBS_S8_ONE_KIND, a, head->groups[LB_MADDUBS_S8_ONE_KIND], w, c);
    lb_maddubs_s8_steps(rows, LB_MADDUBS_S8_REST_KIND, a, head->groups[LB_MADDUBS_S8_REST_KIND], w, c);
}

#endif
