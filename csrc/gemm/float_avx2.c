#include "lb.h"
#include "base/f32_avx2.h"

lb_matmul_f32_fn lb_matmul_f32__avx2;

#include "gemm/matmul_f32_simd.h"
