/* ISA: avx2 avx512 */
#include "lb.h"
#include "base/lanes16_ISA.h"
#include "blocks/block_float_lanes.h"

lb_block_linear_f32_fn lb_block_linear_f32__ISA;

void lb_block_linear_f32__ISA(const lb_block_linear_f32_params *p, const float *x, const uint8_t *w, const float *bias,
                              const float *residual, float *out, void *scratch, int32_t begin, int32_t end) {
    lb_lanes_block_linear_f32(p, x, w, bias, residual, out, scratch, begin, end);
}
