/* ISA: avx2 avx512 */
#include "lb.h"
#include "base/f32_ISA.h"

lb_dwconv_f32_fn lb_dwconv_f32__ISA;

#include "conv/depthwise/dwconv_f32_simd.h"
