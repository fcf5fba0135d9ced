#include "lb.h"
#include "base/f32_avx2.h"

lb_attention_f32_fn lb_attention_f32__avx2;

#include "attention/attention_f32_simd.h"
