/* 8-bit states by vectors of units. Behind rnn_avx2.h or rnn_avx512vnni.h. */
#ifndef LB_RNN_S8_H
#define LB_RNN_S8_H

typedef int8_t lb_hidden;

#define lb_read_hidden lb_read_bytes
#define lb_write_hidden lb_write_bytes

#endif
