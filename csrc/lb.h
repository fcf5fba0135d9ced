/* The contract of lowbit's kernels: for each operation one params struct and one function type. Layout and legal range of
 * every field are written in contracts/, a file for each family, and nowhere else. What all have in common:
 *
 *   real = scale * (q - zero_point), everywhere.
 *
 * A kernel is a pure function: arguments are params, inputs..., output, scratch; the caller owns all memory; a kernel keeps no
 * state, allocates nothing and reads and writes exactly the elements that its contract names. Pointers need the alignment of
 * their element only, unless the contract asks for more. Inputs and outputs do not overlap unless the contract says "in place".
 *
 * Every implementation of a contract gives the same bits (lb_numerics.h); those of floats, contracts/float_*.h, name the error within
 * which they agree. Different numerics is a different name.
 *
 * Where results are integers, `ref` computes reals by the functions of lb_numerics.h alone (lb_f32_mul, lb_requantize ...), not by casts
 * and operators, and uses no libc but memcpy and memset: generated C runs it on chips without a floating-point unit.
 *
 * Work that can be split ends its arguments with `int32_t begin, int32_t end`: the kernel does the items begin ... end - 1 (0 <= begin
 * <= end <= items) and nothing else. Each contract says what an item is and how many there are. Items are independent of each other,
 * so threads share them out; a single caller takes all at once. Concurrent calls need a scratch each.
 *
 * Images stand with their channels last: (batch, height, width, channels), dense unless a stride is named.
 *
 * The build reads those files (kernel_table.py) and derives the kernel table, the struct layouts that Python packs by name,
 * and the uniform calls. So that it can: params hold fixed-width scalars or arrays of them, one field a line, and arguments are
 * pointers, then begin and end. Sizes are int32_t: a tensor has fewer than 2^31 elements.
 */
#ifndef LB_H
#define LB_H

#include "contracts/attention.h"
#include "contracts/conv.h"
#include "contracts/conv_wide.h"
#include "contracts/dynamic.h"
#include "contracts/elementwise.h"
#include "contracts/float_elementwise.h"
#include "contracts/float_image.h"
#include "contracts/float_norm.h"
#include "contracts/float_pool.h"
#include "contracts/float_product.h"
#include "contracts/gather.h"
#include "contracts/float_rnn.h"
#include "contracts/float_unary.h"
#include "contracts/gemm.h"
#include "contracts/int4.h"
#include "contracts/index.h"
#include "contracts/linear.h"
#include "contracts/mixed.h"
#include "contracts/movement.h"
#include "contracts/norm.h"
#include "contracts/peak.h"
#include "contracts/pool.h"
#include "contracts/quantize.h"
#include "contracts/resize.h"
#include "contracts/softmax.h"
#include "contracts/rnn.h"
#include "contracts/weights.h"
#include "contracts/wide.h"

#endif
