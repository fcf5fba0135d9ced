#include "lb_quads_avxvnni.h"

#include "lb_gemm_s8_vnni.h"

lb_gemm_s8_f32_fn lb_gemm_s8_f32__avxvnni;

void lb_gemm_s8_f32__avxvnni(const lb_gemm_s8_f32_params *p, const int8_t *a, const int32_t *a_zero_points, const float *a_scales,
                             const void *packed, const float *b_scales, float *out, void *scratch) {
    lb_quads_gemm_f32(p, a, a_zero_points, a_scales, packed, b_scales, out, scratch);
}
