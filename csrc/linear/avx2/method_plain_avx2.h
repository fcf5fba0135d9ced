/* plain: int16 by vpmaddwd, for rows so short that preparing them for another method takes longer. */
#ifndef LB_METHOD_PLAIN_AVX2_H
#define LB_METHOD_PLAIN_AVX2_H

#include "linear/avx2/product_avx2.h"
#include "base/madd_avx2.h"

/* n bytes as int16, and zeros after them up to a multiple of 16. */
static inline void lb_widen(const int8_t *from, ptrdiff_t n, int16_t *to) {
    for (ptrdiff_t i = 0; i < n; i += 16) {
        __m128i v;
        if (n - i >= 16)
            v = _mm_loadu_si128((const __m128i *)(const void *)(from + i));
        else if (n - i == 8)
            v = _mm_loadl_epi64((const __m128i *)(const void *)(from + i));
        else {
            v = _mm_setzero_si128();
            memcpy(&v, from + i, (size_t)(n - i));
        }
        _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm256_cvtepi8_epi16(v));
    }
}

LB_INLINE void lb_plain_rows(const int rows, const lb_panel_work *t, ptrdiff_t i, const int16_t *b) {
    __m256i c[LB_PLAIN_ROWS][2];
    LB_UNROLL
    for (int r = 0; r < rows; r++)
        c[r][0] = t->e[0].start, c[r][1] = t->e[1].start;
    const char *a = (const char *)t->s->a + i * t->s->stride;
    for (int32_t k = 0; k < t->p->k; k += 2, a += 4, b += 2 * LB_PANEL) {
        const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)b);
        const __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(b + LB_PANEL));
        LB_UNROLL
        for (int r = 0; r < rows; r++)
            lb_madd_pair(c[r], (const int16_t *)(const void *)(a + r * t->s->stride), w0, w1);
    }
    lb_epilogue16(rows, t->p, t->first + i, t->n, c, t->e);
}

static inline void lb_plain_panel(const lb_panel_work *t, ptrdiff_t rows, const int16_t *b) {
    ptrdiff_t i = 0;
    for (; i + 6 <= rows; i += 6)
        lb_plain_rows(6, t, i, b);
    for (; i + 2 <= rows; i += 2)
        lb_plain_rows(2, t, i, b);
    if (i < rows)
        lb_plain_rows(1, t, i, b);
}

/* Rows of even length stand as they came, one after the other. */
static void lb_plain_put(const lb_rows *s, ptrdiff_t i, ptrdiff_t rows, const int8_t *x, int32_t k, int32_t x_zero) {
    (void)x_zero;
    if (k % 2 == 0) {
        lb_widen(x, rows * k, (int16_t *)(void *)(s->a + i * s->stride));
        return;
    }
    for (ptrdiff_t end = i + rows; i < end; i++, x += k)
        lb_widen(x, k, (int16_t *)(void *)(s->a + i * s->stride));
}

static void lb_plain_multiply(const lb_product *p, const lb_rows *s, ptrdiff_t first, ptrdiff_t rows, ptrdiff_t left, ptrdiff_t right) {
    const int16_t *own = (const int16_t *)(const void *)lb_own_weights(p);
    for (ptrdiff_t n = left; n < right; n += LB_PANEL) {
        const lb_panel_work t = lb_panel_work_at(p, s, first, n, right);
        lb_plain_panel(&t, rows, own + n * lb_round_up(p->k, 2));
    }
}

static const lb_method lb_plain_method = {LB_AS_THEY_ARE, lb_plain_rows_at, lb_plain_put, NULL, lb_plain_multiply};

#endif
