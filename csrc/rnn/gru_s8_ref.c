#include <stdint.h>

typedef int8_t lb_hidden, lb_weight;
typedef int32_t lb_sum;

#include "rnn/gru_ref.h"

lb_gru_s8_fn lb_gru_s8__ref;

LB_GRU_S8_KERNEL(ref)

lb_gru_x_s8_fn lb_gru_x_s8__ref;

LB_GRU_X_S8_KERNEL(ref)
