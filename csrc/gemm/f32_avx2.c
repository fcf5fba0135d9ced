#include "gemm/gemm_s8_tiles_avx2.h"
#include "base/numerics.h"

lb_gemm_s8_f32_fn lb_gemm_s8_f32__avx2;

/* total (rows x 16) += fl32(acc) * (a_scales * b_scales). */
static void add_scaled(const lb_scratch *s, ptrdiff_t rows, const int32_t *b_pairs, const float *a_scales, const float *b_scales,
                       ptrdiff_t width) {
    float scales[LB_PANEL] = {0};
    memcpy(scales, b_scales, sizeof *scales * (size_t)(width < LB_PANEL ? width : LB_PANEL));
    for (ptrdiff_t half = 0; half < LB_PANEL; half += 8) {
        const __m256i pairs = _mm256_load_si256((const __m256i *)(const void *)(b_pairs + half));
        const __m256 sb = _mm256_loadu_ps(scales + half);
        for (ptrdiff_t i = 0; i < rows; i++) {
            const __m256i acc = _mm256_load_si256((const __m256i *)(const void *)(s->acc + i * LB_PANEL + half));
            const __m256 y = _mm256_cvtepi32_ps(_mm256_add_epi32(acc, pairs));
            float *total = s->total + i * LB_PANEL + half;
            const __m256 scale = _mm256_mul_ps(_mm256_set1_ps(a_scales[i]), sb);
            _mm256_store_ps(total, _mm256_add_ps(_mm256_load_ps(total), _mm256_mul_ps(y, scale)));
        }
    }
}

void lb_gemm_s8_f32__avx2(const lb_gemm_s8_f32_params *p, const int8_t *a, const int32_t *a_zero_points, const float *a_scales,
                          const void *packed, const float *b_scales, float *out, void *scratch) {
    const lb_cut cut = lb_cut_of(p->k, p->segment);
    const lb_scratch s = lb_scratch_at(scratch, p->m, cut);
    const ptrdiff_t columns = lb_round_up(p->n, LB_PANEL);
    const int32_t *b_pairs = lb_b_pairs(packed);
    const int16_t *panels = lb_b_panels(packed, p->n, cut);
    for (ptrdiff_t at = 0; at < p->m; at += s.rows) {
        const ptrdiff_t rows = p->m - at < s.rows ? p->m - at : s.rows;
        lb_pack_rows(&s, cut, a, p->a_stride, p->a_unsigned, a_zero_points, p->m, p->k, p->segment, at, rows);
        for (ptrdiff_t n = 0; n < p->n; n += LB_PANEL) {
            const __m256 start = _mm256_set1_ps(p->start);
            for (ptrdiff_t i = 0; i < rows * LB_PANEL; i += 8)
                _mm256_store_ps(s.total + i, start);
            for (int32_t g = 0; g < cut.segments; g++) {
                const ptrdiff_t k = g * cut.stride, depth = g + 1 < cut.segments ? cut.stride : cut.depth - k;
                lb_segment(&s, rows, s.a + k, s.a_pairs + g * s.rows, panels + n * cut.depth + k * LB_PANEL, depth);
                add_scaled(&s, rows, b_pairs + g * columns + n, a_scales + (int64_t)g * p->m + at, b_scales + (int64_t)g * p->n + n,
                           p->n - n);
            }
            for (ptrdiff_t i = 0; i < rows; i++)
                lb_store16(out + (at + i) * p->out_stride + n, s.total + i * LB_PANEL, p->n - n);
        }
    }
}
