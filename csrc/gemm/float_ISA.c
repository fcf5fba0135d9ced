/* ISA: avx2 avx512 */
#include "lb.h"
#include "base/f32_ISA.h"

lb_matmul_f32_fn lb_matmul_f32__ISA;

#include "gemm/matmul_f32_simd.h"
