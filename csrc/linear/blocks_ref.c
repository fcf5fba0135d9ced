#include "gemm/gemm_s8.h"
#include "gemm/gemm_s8_ref.h"
#include "base/numerics.h"

lb_linear_s8_blocks_f32_fn lb_linear_s8_blocks_f32__ref;

void lb_linear_s8_blocks_f32__ref(const lb_linear_s8_blocks_f32_params *p, const int8_t *x, const lb_f32 *x_scales, const int8_t *w,
                                  const lb_f32 *scales, const lb_f32 *bias, lb_f32 *out, int32_t begin, int32_t end) {
    const ptrdiff_t segments = lb_segments(p->k, p->segment);
    for (ptrdiff_t i = begin; i < end; i++)
        for (ptrdiff_t j = 0; j < p->n; j++) {
            const lb_f32 one = lb_f32_from_s32(1), each = segments == 1 ? x_scales[i] : one, last = segments == 1 ? one : x_scales[i];
            lb_f32 t = lb_f32_of_bits(0);
            for (int32_t s = 0; s < segments; s++) {
                const ptrdiff_t at = (ptrdiff_t)s * p->segment;
                const int32_t acc =
                    lb_ref_dot(x + i * p->k + at, 0, p->x_zero, w + j * p->k + at, 0, lb_segment_length(p->k, p->segment, s));
                t = lb_f32_add(t, lb_f32_mul(lb_f32_from_s32(acc), lb_f32_mul(each, scales[j * segments + s])));
            }
            out[i * p->n + j] = lb_f32_add(lb_f32_mul(t, last), bias[j]);
        }
}
