/* ISA: avx2 avx512 */
#include "lb.h"
#include "base/f32_ISA.h"

lb_layer_norm_f32_fn lb_layer_norm_f32__ISA;

#include "norm/layer_norm_f32_simd.h"

lb_group_norm_f32_fn lb_group_norm_f32__ISA;

#include "norm/group_norm_f32_simd.h"
