#include "rnn/rnn_mve.h"

#include "rnn/gru_ref.h"

lb_gru_s8_fn lb_gru_s8__mve;

LB_GRU_S8_KERNEL(mve)

lb_gru_x_s8_fn lb_gru_x_s8__mve;

LB_GRU_X_S8_KERNEL(mve)
