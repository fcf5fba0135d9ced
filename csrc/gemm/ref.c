#include "gemm/gemm_s8_ref.h"
#include "base/numerics.h"

lb_gemm_s8_sizes_fn lb_gemm_s8_sizes__ref;

void lb_gemm_s8_sizes__ref(const lb_gemm_s8_sizes_params *p, int64_t *bytes) {
    bytes[0] = (int64_t)p->n * (p->k + 4 * (int64_t)lb_segments(p->k, p->segment));
    bytes[1] = 0;
}

lb_gemm_s8_pack_fn lb_gemm_s8_pack__ref;

void lb_gemm_s8_pack__ref(const lb_gemm_s8_pack_params *p, const int8_t *b, const int32_t *zero_points, void *packed) {
    const int32_t flip = p->b_unsigned ? 128 : 0;
    int32_t *z = lb_ref_zero_points(packed);
    for (int64_t i = 0; i < (int64_t)lb_segments(p->k, p->segment) * p->n; i++)
        z[i] = zero_points[i] - flip;
    int8_t *column = lb_ref_columns(packed, p->k, p->n, p->segment);
    for (int32_t j = 0; j < p->n; j++, column += p->k)
        for (int32_t k = 0; k < p->k; k++)
            column[k] = (int8_t)(b[k * p->row_stride + j * p->column_stride] ^ -flip);
}

lb_gemm_s8_s32_fn lb_gemm_s8_s32__ref;

void lb_gemm_s8_s32__ref(const lb_gemm_s8_s32_params *p, const int8_t *a, const int32_t *a_zero_points, const void *packed, int32_t *out,
                         void *scratch) {
    (void)scratch;
    const int32_t *zb = lb_ref_zero_points(packed);
    const int8_t *columns = lb_ref_columns(packed, p->k, p->n, p->k ? p->k : 1);
    for (int32_t i = 0; i < p->m; i++)
        for (int32_t j = 0; j < p->n; j++) {
            const int8_t *column = columns + (size_t)j * (size_t)p->k;
            out[i * p->out_stride + j] = lb_ref_dot(a + i * p->a_stride, p->a_unsigned, a_zero_points[i], column, zb[j], p->k);
        }
}

lb_gemm_s8_f32_fn lb_gemm_s8_f32__ref;

void lb_gemm_s8_f32__ref(const lb_gemm_s8_f32_params *p, const int8_t *a, const int32_t *a_zero_points, const lb_f32 *a_scales,
                         const void *packed, const lb_f32 *b_scales, lb_f32 *out, void *scratch) {
    (void)scratch;
    const int32_t segments = lb_segments(p->k, p->segment);
    const int32_t *b_zero_points = lb_ref_zero_points(packed);
    const int8_t *columns = lb_ref_columns(packed, p->k, p->n, p->segment);
    for (int32_t i = 0; i < p->m; i++)
        for (int32_t j = 0; j < p->n; j++) {
            lb_f32 y = p->start;
            for (int32_t s = 0; s < segments; s++) {
                const int64_t k = (int64_t)s * p->segment, row = (int64_t)s * p->m + i, column = (int64_t)s * p->n + j;
                const int32_t acc = lb_ref_dot(a + i * p->a_stride + k, p->a_unsigned, a_zero_points[row], columns + (int64_t)j * p->k + k,
                                               b_zero_points[column], lb_segment_length(p->k, p->segment, s));
                y = lb_f32_add(y, lb_f32_mul(lb_f32_from_s32(acc), lb_f32_mul(a_scales[row], b_scales[column])));
            }
            out[i * p->out_stride + j] = y;
        }
}
