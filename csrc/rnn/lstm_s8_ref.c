#include <stdint.h>

typedef int8_t lb_hidden, lb_weight;
typedef int32_t lb_sum;

#include "rnn/lstm_ref.h"

lb_lstm_s8_fn lb_lstm_s8__ref;

LB_LSTM_S8_KERNEL(ref)

lb_lstm_x_s8_fn lb_lstm_x_s8__ref;

LB_LSTM_X_S8_KERNEL(ref)
