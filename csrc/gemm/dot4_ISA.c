/* ISA: avxvnni avx512vnni */
#include "linear/dot4/dot4_ISA.h"

#include "gemm/gemm_s8_vnni.h"

lb_gemm_s8_sizes_fn lb_gemm_s8_sizes__ISA;

void lb_gemm_s8_sizes__ISA(const lb_gemm_s8_sizes_params *p, int64_t *bytes) {
    lb_dot4_gemm_sizes(p, bytes);
}

lb_gemm_s8_pack_fn lb_gemm_s8_pack__ISA;

void lb_gemm_s8_pack__ISA(const lb_gemm_s8_pack_params *p, const int8_t *b, const int32_t *zero_points, void *packed) {
    lb_dot4_gemm_pack(p, b, zero_points, packed);
}

lb_gemm_s8_s32_fn lb_gemm_s8_s32__ISA;

void lb_gemm_s8_s32__ISA(const lb_gemm_s8_s32_params *p, const int8_t *a, const int32_t *a_zero_points, const void *packed, int32_t *out,
                         void *scratch) {
    lb_dot4_gemm_s32(p, a, a_zero_points, packed, out, scratch);
}

lb_gemm_s8_f32_fn lb_gemm_s8_f32__ISA;

void lb_gemm_s8_f32__ISA(const lb_gemm_s8_f32_params *p, const int8_t *a, const int32_t *a_zero_points, const float *a_scales,
                         const void *packed, const float *b_scales, float *out, void *scratch) {
    lb_dot4_gemm_f32(p, a, a_zero_points, a_scales, packed, b_scales, out, scratch);
}
