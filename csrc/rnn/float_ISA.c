/* ISA: avx2 avx512 */
#include "lb.h"
#include "base/f32_ISA.h"

lb_lstm_f32_fn lb_lstm_f32__ISA;

#include "rnn/lstm_f32_simd.h"

lb_gru_f32_fn lb_gru_f32__ISA;

#include "rnn/gru_f32_simd.h"
