/* ISA: avx2 avx512 */
#include "lb.h"
#include "base/lanes16_ISA.h"
#include "blocks/token_rows_lanes.h"

lb_block_quantize_fn lb_block_quantize__ISA;

void lb_block_quantize__ISA(const lb_block_quantize_params *p, const float *x, uint8_t *out, int32_t begin, int32_t end) {
    lb_lanes_block_quantize(p, x, out, begin, end);
}

lb_rms_norm_rows_fn lb_rms_norm_rows__ISA;

void lb_rms_norm_rows__ISA(const lb_rms_norm_rows_params *p, const float *x, const float *weight, float *out, int32_t begin, int32_t end) {
    lb_lanes_rms_norm_rows(p, x, weight, out, begin, end);
}

lb_rms_norm_blocks_fn lb_rms_norm_blocks__ISA;

void lb_rms_norm_blocks__ISA(const lb_rms_norm_blocks_params *p, const float *x, const float *weight, uint8_t *out, int32_t begin,
                             int32_t end) {
    lb_lanes_rms_norm_blocks(p, x, weight, out, begin, end);
}

lb_gate_rows_fn lb_gate_rows__ISA;

void lb_gate_rows__ISA(const lb_gate_rows_params *p, const float *g, const float *up, float *out, int32_t begin, int32_t end) {
    lb_lanes_gate_rows(p, g, up, out, begin, end);
}

lb_gate_blocks_fn lb_gate_blocks__ISA;

void lb_gate_blocks__ISA(const lb_gate_blocks_params *p, const float *g, const float *up, uint8_t *out, int32_t begin, int32_t end) {
    lb_lanes_gate_blocks(p, g, up, out, begin, end);
}
