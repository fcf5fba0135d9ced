/* The types of lstm_ref.h and gru_ref.h for states of 16 bits. */
#ifndef LB_RNN_S16_REF_H
#define LB_RNN_S16_REF_H

#include <stdint.h>

typedef int16_t lb_hidden, lb_weight;
typedef int64_t lb_sum;

#endif
