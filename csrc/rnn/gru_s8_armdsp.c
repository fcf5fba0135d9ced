#include "rnn/rnn_armdsp.h"

#include "rnn/gru_ref.h"

lb_gru_s8_fn lb_gru_s8__armdsp;

LB_GRU_S8_KERNEL(armdsp)

lb_gru_x_s8_fn lb_gru_x_s8__armdsp;

LB_GRU_X_S8_KERNEL(armdsp)
