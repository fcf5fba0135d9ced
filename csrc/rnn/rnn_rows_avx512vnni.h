/* lstm_rows_s8 and gru_rows_s8 on AVX-512-VNNI. */
#ifndef LB_RNN_ROWS_AVX512VNNI_H
#define LB_RNN_ROWS_AVX512VNNI_H

#include "base/exp_avx512.h"
#include "rnn/rnn_avx512vnni.h"

#define lb_sigmoid_lanes lb_sigmoid_of_16
#define lb_tanh_lanes lb_tanh_of_16

#include "rnn/rnn_rows_lanes.h"

#endif
