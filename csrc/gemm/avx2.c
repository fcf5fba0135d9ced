#include "gemm/gemm_s8_tiles_avx2.h"
#include "base/numerics.h"

lb_gemm_s8_s32_fn lb_gemm_s8_s32__avx2;

void lb_gemm_s8_s32__avx2(const lb_gemm_s8_s32_params *p, const int8_t *a, const int32_t *a_zero_points, const void *packed, int32_t *out,
                          void *scratch) {
    const int32_t segment = p->k ? p->k : 1;
    const lb_cut cut = lb_cut_of(p->k, segment);
    const lb_scratch s = lb_scratch_at(scratch, p->m, cut);
    const int32_t *b_pairs = lb_b_pairs(packed);
    const int16_t *panels = lb_b_panels(packed, p->n, cut);
    for (ptrdiff_t at = 0; at < p->m; at += s.rows) {
        const ptrdiff_t rows = p->m - at < s.rows ? p->m - at : s.rows;
        lb_pack_rows(&s, cut, a, p->a_stride, p->a_unsigned, a_zero_points, p->m, p->k, segment, at, rows);
        for (ptrdiff_t n = 0; n < p->n; n += LB_PANEL) {
            lb_segment(&s, rows, s.a, s.a_pairs, panels + n * cut.depth, cut.depth);
            const __m256i lo = _mm256_load_si256((const __m256i *)(const void *)(b_pairs + n));
            const __m256i hi = _mm256_load_si256((const __m256i *)(const void *)(b_pairs + n + 8));
            for (ptrdiff_t i = 0; i < rows; i++) {
                __m256i *acc = (__m256i *)(void *)(s.acc + i * LB_PANEL);
                const __m256i sums[2] = {_mm256_add_epi32(acc[0], lo), _mm256_add_epi32(acc[1], hi)};
                lb_store16(out + (at + i) * p->out_stride + n, sums, p->n - n);
            }
        }
    }
}
