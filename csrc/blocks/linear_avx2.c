#include "lb.h"
#include "blocks/block_planes_avx2.h"
#include "blocks/block_record.h"

enum {
    AHEAD = 8192, /* bytes of weights that are asked for before they are read */
    TILE = 16,    /* rows for which codes are taken apart once; their totals stay in memory */
};

LB_INLINE __m256i quad_at(const uint8_t *from) {
    int32_t quad;
    memcpy(&quad, from, 4);
    return _mm256_set1_epi32(quad);
}

/* The sum of f * (code - zero) * q over 32: of `w`, codes as bytes. Products of two neighbours are summed in 16 bits as long as they fit.
 */
LB_INLINE __m256i sum_of(const int32_t format, const __m256i w[8], const lb_scales256 *s, const uint8_t *x, const lb_block_record *r) {
    const lb_block_format f = lb_block_format_of(format);
    const __m256i ones = _mm256_set1_epi16(1);
    if (f.zero == 128) { /* signed: the sign of a weight goes to the activation */
        __m256i sum = _mm256_setzero_si256();
        LB_UNROLL
        for (int i = 0; i < 8; i++) {
            const __m256i v = _mm256_xor_si256(w[i], _mm256_set1_epi8((char)0x80));
            const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(v), _mm256_sign_epi8(quad_at(x + 4 * i), v));
            sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
        }
        return sum;
    }
    const int run = f.bits == 6 ? 2 : f.bits == 5 || f.factors ? 4 : 8; /* quads whose sums fit 16 bits, within a factor */
    __m256i sum = _mm256_setzero_si256();
    LB_UNROLL
    for (int first = 0; first < 8; first += run) {
        __m256i pairs = _mm256_maddubs_epi16(w[first], quad_at(x + 4 * first));
        LB_UNROLL
        for (int i = first + 1; i < first + run; i++)
            pairs = _mm256_add_epi16(pairs, _mm256_maddubs_epi16(w[i], quad_at(x + 4 * i)));
        pairs = _mm256_madd_epi16(pairs, f.factors ? s->factor[first / 4] : ones);
        sum = first ? _mm256_add_epi32(sum, pairs) : pairs;
    }
    if (f.zero && f.factors) {
        const __m256i halves = quad_at((const uint8_t *)r->half);
        return _mm256_sub_epi32(sum, _mm256_slli_epi32(_mm256_madd_epi16(s->factors, halves), f.zero == 32 ? 5 : 2));
    }
    return f.zero ? _mm256_sub_epi32(sum, _mm256_set1_epi32(f.zero * r->sum)) : sum;
}

/* What a row's block of 32 adds to the totals of eight outputs. */
LB_INLINE void add_block(const int32_t format, const __m256i w[8], const lb_scales256 *s, const uint8_t *x, __m256 *y, __m256 *v) {
    const lb_block_format f = lb_block_format_of(format);
    lb_block_record r;
    memcpy((char *)&r + 32, x + 32, 16);
    const __m256 scale = _mm256_set1_ps(r.scale), sum = _mm256_cvtepi32_ps(sum_of(format, w, s, x, &r));
    *y = _mm256_add_ps(*y, _mm256_mul_ps(sum, _mm256_mul_ps(s->d, scale)));
    if (f.offset_factors) {
        const __m256 offsets = _mm256_cvtepi32_ps(_mm256_madd_epi16(s->offset_factors, quad_at((const uint8_t *)r.half)));
        *v = _mm256_add_ps(*v, _mm256_mul_ps(offsets, _mm256_mul_ps(s->m, scale)));
    } else if (f.offset)
        *v = _mm256_add_ps(*v, _mm256_mul_ps(s->m, _mm256_set1_ps(r.scaled_sum)));
}

/* `rows` rows times a panel: totals of the outputs. */
LB_INLINE void totals(const int32_t format, const int one, int32_t rows, int32_t k, const uint8_t *panel, const uint8_t *x,
                      ptrdiff_t stride, __m256 y[][2]) {
    const lb_block_format f = lb_block_format_of(format);
    const ptrdiff_t bytes = lb_code_bytes(format);
    const uint8_t *codes = panel + lb_panel_codes(format, k);
    __m256 v[TILE][2];
    for (int i = 0; i < (one ? 1 : rows); i++)
        y[i][0] = y[i][1] = v[i][0] = v[i][1] = _mm256_setzero_ps();
    for (int32_t b = 0; b < k / f.block; b++, panel += lb_header_bytes(format)) {
        const int six_bits = format == LB_Q4_K || format == LB_Q5_K;
        __m256 d[2][8], m[2][8];
        if (six_bits) {
            lb_scales_k256(panel, 0, d[0], m[0]);
            lb_scales_k256(panel, 1, d[1], m[1]);
        }
        for (int part = 0; part < f.block / 32; part++, codes += bytes, x += LB_BLOCK_RECORD) {
            if (one)
                for (ptrdiff_t i = 0; i < bytes; i += 64)
                    _mm_prefetch((const char *)((uintptr_t)codes + AHEAD + (uintptr_t)i),
                                 _MM_HINT_T0); /* it may lie after the last panel */
            LB_UNROLL
            for (int half = 0; half < 2; half++) {
                lb_scales256 s;
                if (six_bits)
                    s.d = d[half][part], s.m = m[half][part];
                else
                    lb_scales_at256(format, panel, part, half, &s);
                __m256i w[8];
                lb_planes256(format, codes, half, w);
                if (one)
                    add_block(format, w, &s, x, &y[0][half], &v[0][half]);
                else
                    for (int32_t i = 0; i < rows; i++)
                        add_block(format, w, &s, x + i * stride, &y[i][half], &v[i][half]);
            }
        }
    }
    for (int i = 0; f.offset && i < (one ? 1 : rows); i++)
        y[i][0] = _mm256_add_ps(y[i][0], v[i][0]), y[i][1] = _mm256_add_ps(y[i][1], v[i][1]);
}

typedef lb_block_linear_s8_params params;

LB_INLINE void tile(const int32_t format, const int one, int32_t rows, const params *p, int32_t row, int32_t panel, const uint8_t *x,
                    const uint8_t *w, const float *bias, const float *residual, float *out) {
    const ptrdiff_t stride = (ptrdiff_t)p->k / LB_BLOCK * LB_BLOCK_RECORD;
    const int32_t first = LB_BLOCK_PANEL * panel, count = p->n - first < LB_BLOCK_PANEL ? p->n - first : LB_BLOCK_PANEL;
    __m256 y[TILE][2];
    totals(format, one, rows, p->k, w + lb_panel_bytes(format, p->k) * panel, x + stride * row, stride, y);
    for (int i = 0; i < rows; i++) {
        const ptrdiff_t at = (ptrdiff_t)(row + i) * p->out_stride + first;
        if (count == LB_BLOCK_PANEL) {
            for (int j = 0; j < 2; j++) {
                __m256 sum = y[i][j];
                if (p->has_bias)
                    sum = _mm256_add_ps(sum, _mm256_loadu_ps(bias + first + 8 * j));
                if (p->has_residual)
                    sum = _mm256_add_ps(sum, _mm256_loadu_ps(residual + at + 8 * j));
                _mm256_storeu_ps(out + at + 8 * j, sum);
            }
            continue;
        }
        float some[LB_BLOCK_PANEL];
        _mm256_storeu_ps(some, y[i][0]);
        _mm256_storeu_ps(some + 8, y[i][1]);
        for (int32_t j = 0; j < count; j++) {
            float sum = some[j];
            if (p->has_bias)
                sum = sum + bias[first + j];
            if (p->has_residual)
                sum = sum + residual[at + j];
            out[at + j] = sum;
        }
    }
}

#define FORMAT(name)                                                                                                                       \
    static __attribute__((noinline)) void linear_##name(const params *p, int32_t panel, const uint8_t *x, const uint8_t *w,                \
                                                        const float *bias, const float *residual, float *out) {                            \
        if (p->rows == 1)                                                                                                                  \
            tile(LB_##name, 1, 1, p, 0, panel, x, w, bias, residual, out);                                                                 \
        for (int32_t row = 0; p->rows > 1 && row < p->rows; row += TILE)                                                                   \
            tile(LB_##name, 0, p->rows - row < TILE ? p->rows - row : TILE, p, row, panel, x, w, bias, residual, out);                     \
    }

LB_BLOCK_FORMATS(FORMAT)

#include "blocks/block_linear_body.h"

lb_block_linear_s8_fn lb_block_linear_s8__avx2;

void lb_block_linear_s8__avx2(const lb_block_linear_s8_params *p, const uint8_t *x, const uint8_t *w, const float *bias,
                              const float *residual, float *out, void *scratch, int32_t begin, int32_t end) {
    (void)scratch;
    linear_panels(p, x, w, bias, residual, out, begin, end);
}
