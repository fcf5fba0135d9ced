/* madd16: int16 by vpmaddwd, with Winograd's inner product. Exact for all weights and activations. */
#ifndef LB_METHOD_MADD16_AVX2_H
#define LB_METHOD_MADD16_AVX2_H

#include "linear/avx2/product_avx2.h"
#include "linear/avx2/nibbles_avx2.h"
#include "gemm/gemm_s8_tiles_avx2.h"

enum {
    LB_LONG = 1024, /* k from which on a panel does not stay in the first-level cache, and is cut into chunks */
    LB_FAR = 4096   /* bytes of a panel up to which it is not worth prefetching */
};

LB_INLINE void lb_madd16_rows(const int rows, const lb_panel_work *t, ptrdiff_t i, const int16_t *b) {
    __m256i c[LB_TILE][2];
    LB_UNROLL
    for (int r = 0; r < rows; r++) {
        const __m256i pairs = _mm256_set1_epi32(t->s->pairs[i + r]);
        c[r][0] = _mm256_add_epi32(t->e[0].start, pairs), c[r][1] = _mm256_add_epi32(t->e[1].start, pairs);
    }
    const int16_t *a = (const int16_t *)(const void *)(t->s->a + i * t->s->stride);
    lb_steps(rows, a, t->s->stride / 2, b, lb_round_up(t->p->k, LB_STEP), c);
    lb_epilogue16(rows, t->p, t->first + i, t->n, c, t->e);
}

/* The same for the eight columns on the left of a panel that has no others. */
LB_INLINE void lb_madd16_half_rows(const int rows, const lb_panel_work *t, ptrdiff_t i, const int16_t *b) {
    __m256i c[LB_MADDUBS_W_ROWS];
    LB_UNROLL
    for (int r = 0; r < rows; r++)
        c[r] = _mm256_add_epi32(t->e[0].start, _mm256_set1_epi32(t->s->pairs[i + r]));
    const uint8_t *a = t->s->a + i * t->s->stride;
    for (const uint8_t *end = a + 2 * lb_round_up(t->p->k, LB_STEP); a < end; a += 8, b += 4 * LB_PANEL) {
        const __m256i odd = _mm256_load_si256((const __m256i *)(const void *)b);
        const __m256i even = _mm256_load_si256((const __m256i *)(const void *)(b + 2 * LB_PANEL));
        LB_UNROLL
        for (int r = 0; r < rows; r++) {
            const uint8_t *at = a + r * t->s->stride;
            const __m256i x = _mm256_add_epi16(lb_broadcast(at), odd), y = _mm256_add_epi16(lb_broadcast(at + 4), even);
            c[r] = _mm256_add_epi32(c[r], _mm256_madd_epi16(x, y));
        }
    }
    lb_epilogue8(rows, t->p, t->first + i, t->n, c, t->e[0]);
}

static inline void lb_madd16_panel(const lb_panel_work *t, ptrdiff_t rows, const int16_t *b) {
    const lb_rows *s = t->s;
    if (t->p->k > LB_LONG && rows > LB_TILE) {
        for (ptrdiff_t i = 0; i < rows; i++) {
            __m256i *acc = (__m256i *)(void *)(s->acc + i * LB_PANEL);
            const __m256i pairs = _mm256_set1_epi32(s->pairs[i]);
            acc[0] = _mm256_add_epi32(t->e[0].start, pairs), acc[1] = _mm256_add_epi32(t->e[1].start, pairs);
        }
        lb_long_steps(s->acc, rows, (const int16_t *)(const void *)s->a, s->stride / 2, b, lb_round_up(t->p->k, LB_STEP));
        for (ptrdiff_t i = 0; i < rows; i++)
            lb_epilogue(t->p, t->first + i, t->n, (const __m256i *)(const void *)(s->acc + i * LB_PANEL), t->e);
        return;
    }
    ptrdiff_t i = 0;
    if (!t->e[1].width) {
        for (; i + 6 <= rows; i += 6)
            lb_madd16_half_rows(6, t, i, b);
        for (; i < rows; i++)
            lb_madd16_half_rows(1, t, i, b);
        return;
    }
    for (; i + 4 <= rows; i += 4) {
        lb_prefetch_next(t, i / 4, rows / 4);
        lb_madd16_rows(4, t, i, b);
    }
    if (rows - i == 3)
        lb_madd16_rows(3, t, i, b);
    else if (rows - i == 2)
        lb_madd16_rows(2, t, i, b);
    else if (rows - i == 1)
        lb_madd16_rows(1, t, i, b);
}

static void lb_madd16_put(const lb_rows *s, ptrdiff_t i, ptrdiff_t rows, const int8_t *x, int32_t k, int32_t x_zero) {
    (void)x_zero;
    for (ptrdiff_t end = i + rows; i < end; i++, x += k)
        s->pairs[i] = lb_pack_row(x, k, 0, 0, (int16_t *)(void *)(s->a + i * s->stride));
}

static void lb_madd16_multiply(const lb_product *p, const lb_rows *s, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left, ptrdiff_t right) {
    const ptrdiff_t depth = lb_round_up(p->k, LB_STEP);
    const int16_t *own = (const int16_t *)(const void *)lb_own_weights(p);
    for (ptrdiff_t n = left; n < right; n += LB_PANEL) {
        lb_panel_work t = lb_panel_work_at(p, s, first, n, right);
        t.bytes = 2 * LB_PANEL * depth;
        t.next = n + LB_PANEL < right && t.bytes > LB_FAR ? (const char *)(own + (n + LB_PANEL) * depth) : NULL;
        lb_madd16_panel(&t, rows, own + n * depth);
    }
}

static const lb_method lb_madd16_method = {LB_AS_THEY_ARE, lb_madd16_rows_at, lb_madd16_put, NULL, lb_madd16_multiply};

#endif
