/* lstm_rows_s8 and gru_rows_s8 on AVX2. */
#ifndef LB_RNN_ROWS_AVX2_H
#define LB_RNN_ROWS_AVX2_H

#include "base/exp_avx2.h"
#include "rnn/rnn_avx2.h"

#define lb_sigmoid_lanes lb_sigmoid8
#define lb_tanh_lanes lb_tanh8

#include "rnn/rnn_rows_lanes.h"

#endif
