#include "lb_gemm_s8_ref.h"
#include "lb_numerics.h"

lb_gemm_s8_f32_fn lb_gemm_s8_f32__ref;

void lb_gemm_s8_f32__ref(const lb_gemm_s8_f32_params *p, const int8_t *a, const int32_t *a_zero_points, const float *a_scales,
                         const void *packed, const float *b_scales, float *out, void *scratch) {
    (void)scratch;
    const int32_t segments = lb_segments(p->k, p->segment);
    const int32_t *b_zero_points = lb_ref_zero_points(packed);
    const int8_t *columns = lb_ref_columns(packed, p->k, p->n, p->segment);
    for (int32_t i = 0; i < p->m; i++)
        for (int32_t j = 0; j < p->n; j++) {
            float y = p->start;
            for (int32_t s = 0; s < segments; s++) {
                const int64_t k = (int64_t)s * p->segment, row = (int64_t)s * p->m + i, column = (int64_t)s * p->n + j;
                const int32_t acc = lb_ref_dot(a + i * p->a_stride + k, p->a_unsigned, a_zero_points[row], columns + (int64_t)j * p->k + k,
                                               b_zero_points[column], lb_segment_length(p->k, p->segment, s));
                y = lb_f32_add(y, lb_f32_mul(lb_f32_from_s32(acc), lb_f32_mul(a_scales[row], b_scales[column])));
            }
            out[i * p->out_stride + j] = y;
        }
}
