/* ISA: avx2 avx512 */
#include "lb.h"
#include "base/f32_ISA.h"

lb_conv_f32_fn lb_conv_f32__ISA;

#include "conv/conv_f32_simd.h"

lb_conv_transpose_f32_fn lb_conv_transpose_f32__ISA;

#include "conv/conv_transpose_f32_simd.h"
