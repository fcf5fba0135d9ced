/* ISA: avx2 avx512 */
#include "lb.h"
#include "base/f32_ISA.h"

lb_softmax_f32_fn lb_softmax_f32__ISA;

#include "softmax/softmax_f32_simd.h"
