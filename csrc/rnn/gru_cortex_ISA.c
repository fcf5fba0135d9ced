/* ISA: armdsp mve */
#include "rnn/rnn_ISA.h"

#include "rnn/gru_ref.h"

lb_gru_s8_fn lb_gru_s8__ISA;

LB_GRU_S8_KERNEL(ISA)

lb_gru_x_s8_fn lb_gru_x_s8__ISA;

LB_GRU_X_S8_KERNEL(ISA)
