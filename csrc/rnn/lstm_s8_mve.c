#include "rnn/rnn_mve.h"

#include "rnn/lstm_ref.h"

lb_lstm_s8_fn lb_lstm_s8__mve;

LB_LSTM_S8_KERNEL(mve)

lb_lstm_x_s8_fn lb_lstm_x_s8__mve;

LB_LSTM_X_S8_KERNEL(mve)
