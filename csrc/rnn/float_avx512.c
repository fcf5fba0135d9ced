#include "lb.h"
#include "base/f32_avx512.h"

lb_lstm_f32_fn lb_lstm_f32__avx512;

#include "rnn/lstm_f32_simd.h"

lb_gru_f32_fn lb_gru_f32__avx512;

#include "rnn/gru_f32_simd.h"
