/* ISA: avx2 avx512 */
#include "lb.h"
#include "base/f32_ISA.h"

lb_attention_f32_fn lb_attention_f32__ISA;

#include "attention/attention_f32_simd.h"
