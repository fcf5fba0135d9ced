#include "lb.h"
#include "base/f32_avx512.h"

lb_dwconv_f32_fn lb_dwconv_f32__avx512;

#include "conv/depthwise/dwconv_f32_simd.h"
