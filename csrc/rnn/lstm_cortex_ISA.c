/* ISA: armdsp mve */
#include "rnn/rnn_ISA.h"

#include "rnn/lstm_ref.h"

lb_lstm_s8_fn lb_lstm_s8__ISA;

LB_LSTM_S8_KERNEL(ISA)

lb_lstm_x_s8_fn lb_lstm_x_s8__ISA;

LB_LSTM_X_S8_KERNEL(ISA)
