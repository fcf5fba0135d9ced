#include "lb.h"
#include "blocks/block_planes_avx512.h"
#include "blocks/block_record.h"

enum {
    AHEAD = 4096, /* bytes of weights that are asked for before they are read */
    TILE = 8,     /* rows for which codes are taken apart once */
};

/* What a row's sums of a block add to its totals. c: sums of code * q over both halves. */
LB_INLINE void add_block(const int32_t format, const lb_scales512 *s, const uint8_t *x, const __m512i c[2], __m512 *y, __m512 *v) {
    const lb_block_format f = lb_block_format_of(format);
    lb_block_record r;
    memcpy((char *)&r + 32, x + 32, 16);
    const int shift = f.zero == 128 ? 7 : f.zero == 32 ? 5 : f.zero == 16 ? 4 : f.zero == 8 ? 3 : 2;
    const __m512 scale = _mm512_set1_ps(r.scale);
    __m512i sum;
    if (f.factors) {
        __m512i half[2] = {c[0], c[1]};
        if (f.zero) {
            half[0] = _mm512_sub_epi32(c[0], _mm512_set1_epi32(r.half[0] * f.zero));
            half[1] = _mm512_sub_epi32(c[1], _mm512_set1_epi32(r.half[1] * f.zero));
        }
        sum = _mm512_add_epi32(_mm512_mullo_epi32(half[0], s->factor[0]), _mm512_mullo_epi32(half[1], s->factor[1]));
    } else {
        sum = _mm512_add_epi32(c[0], c[1]);
        if (f.zero)
            sum = _mm512_sub_epi32(sum, _mm512_slli_epi32(_mm512_set1_epi32(r.sum), (unsigned)shift));
    }
    *y = _mm512_add_ps(*y, _mm512_mul_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(s->d, scale)));
    if (f.offset_factors) {
        const __m512i offsets = _mm512_add_epi32(_mm512_mullo_epi32(s->offset_factor[0], _mm512_set1_epi32(r.half[0])),
                                                 _mm512_mullo_epi32(s->offset_factor[1], _mm512_set1_epi32(r.half[1])));
        *v = _mm512_add_ps(*v, _mm512_mul_ps(_mm512_cvtepi32_ps(offsets), _mm512_mul_ps(s->m, scale)));
    } else if (f.offset)
        *v = _mm512_add_ps(*v, _mm512_mul_ps(s->m, _mm512_set1_ps(r.scaled_sum)));
}

/* A block of 32. Rows of x are `stride` bytes apart. */
LB_INLINE void block(const int32_t format, const int rows, const lb_scales512 *s, const uint8_t *codes, const uint8_t *x, ptrdiff_t stride,
                     __m512 y[], __m512 v[]) {
    __m512i w[8];
    lb_planes512(format, codes, w);
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++) {
        const uint8_t *at = x + i * stride;
        __m512i c[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        LB_UNROLL_ALL
        for (int q = 0; q < 4; q++) {
            c[0] = lb_dpbusd512_at(c[0], w[q], at + 4 * q);
            c[1] = lb_dpbusd512_at(c[1], w[q + 4], at + 16 + 4 * q);
        }
        add_block(format, s, at, c, &y[i], &v[i]);
    }
}

/* `rows` rows times a panel: totals of the outputs. */
LB_INLINE void totals(const int32_t format, const int rows, int32_t k, const uint8_t *panel, const uint8_t *x, ptrdiff_t stride,
                      __m512 y[]) {
    const lb_block_format f = lb_block_format_of(format);
    const ptrdiff_t bytes = lb_code_bytes(format);
    const uint8_t *codes = panel + lb_panel_codes(format, k);
    __m512 v[TILE];
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        y[i] = v[i] = _mm512_setzero_ps();
    for (int32_t b = 0; b < k / f.block; b++, panel += lb_header_bytes(format)) {
        const int six_bits = format == LB_Q4_K || format == LB_Q5_K;
        __m512 d[8], m[8];
        if (six_bits)
            lb_scales_k512(panel, d, m);
        for (int part = 0; part < f.block / 32; part++, codes += bytes, x += LB_BLOCK_RECORD) {
            lb_scales512 s;
            if (rows == 1)
                for (ptrdiff_t i = 0; i < bytes; i += 64)
                    _mm_prefetch((const char *)((uintptr_t)codes + AHEAD + (uintptr_t)i),
                                 _MM_HINT_T0); /* it may lie after the last panel */
            if (six_bits)
                s.d = d[part], s.m = m[part];
            else
                lb_scales_at512(format, panel, part, &s);
            block(format, rows, &s, codes, x, stride, y, v);
        }
    }
    if (f.offset)
        LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        y[i] = _mm512_add_ps(y[i], v[i]);
}

typedef lb_block_linear_s8_params params;

LB_INLINE void tile(const int32_t format, const int rows, const params *p, int32_t row, int32_t panel, const uint8_t *x, const uint8_t *w,
                    const float *bias, const float *residual, float *out) {
    const ptrdiff_t stride = (ptrdiff_t)p->k / LB_BLOCK * LB_BLOCK_RECORD;
    const __mmask16 lanes = lb_first16(p->n - LB_BLOCK_PANEL * panel);
    __m512 y[TILE];
    totals(format, rows, p->k, w + lb_panel_bytes(format, p->k) * panel, x + stride * row, stride, y);
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++) {
        const ptrdiff_t at = (ptrdiff_t)(row + i) * p->out_stride + LB_BLOCK_PANEL * panel;
        __m512 sum = y[i];
        if (p->has_bias)
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(lanes, bias + LB_BLOCK_PANEL * panel));
        if (p->has_residual)
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(lanes, residual + at));
        _mm512_mask_storeu_ps(out + at, lanes, sum);
    }
}

#define FORMAT(name)                                                                                                                       \
    static __attribute__((noinline)) void linear_##name(const params *p, int32_t panel, const uint8_t *x, const uint8_t *w,                \
                                                        const float *bias, const float *residual, float *out) {                            \
        int32_t row = 0;                                                                                                                   \
        for (; row + 8 <= p->rows; row += 8)                                                                                               \
            tile(LB_##name, 8, p, row, panel, x, w, bias, residual, out);                                                                  \
        if (p->rows - row >= 4) {                                                                                                          \
            tile(LB_##name, 4, p, row, panel, x, w, bias, residual, out);                                                                  \
            row += 4;                                                                                                                      \
        }                                                                                                                                  \
        if (p->rows - row >= 2) {                                                                                                          \
            tile(LB_##name, 2, p, row, panel, x, w, bias, residual, out);                                                                  \
            row += 2;                                                                                                                      \
        }                                                                                                                                  \
        if (p->rows > row)                                                                                                                 \
            tile(LB_##name, 1, p, row, panel, x, w, bias, residual, out);                                                                  \
    }

LB_BLOCK_FORMATS(FORMAT)

#include "blocks/block_linear_body.h"

lb_block_linear_s8_fn lb_block_linear_s8__avx512vnni;

void lb_block_linear_s8__avx512vnni(const lb_block_linear_s8_params *p, const uint8_t *x, const uint8_t *w, const float *bias,
                                    const float *residual, float *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    linear_panels(p, x, w, bias, residual, out, begin, end);
}
