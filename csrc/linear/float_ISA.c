/* ISA: avx2 avx512 */
#include "lb.h"
#include "base/f32_ISA.h"

lb_linear_f32_fn lb_linear_f32__ISA;

#include "linear/linear_f32_simd.h"
