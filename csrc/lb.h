/* The contract of lowbit's kernels: for each operation one params struct and one function type. Layout and legal range of
 * every field are written in the headers of its family (linear/linear.h), and nowhere else. What all have in common:
 *
 *   real = scale * (q - zero_point), everywhere.
 *
 * A kernel is a pure function: arguments are params, inputs..., output, scratch; the caller owns all memory; a kernel keeps no
 * state, allocates nothing and reads and writes exactly the elements that its contract names. Pointers need the alignment of
 * their element only, unless the contract asks for more. Inputs and outputs do not overlap unless the contract says "in place".
 *
 * Every implementation of a contract gives the same bits (numerics.h); those of floats, float_*.h, name the error within
 * which they agree. Different numerics is a different name.
 *
 * Where results are integers, `ref` computes reals by the functions of numerics.h alone (lb_f32_mul, lb_requantize ...), not by casts
 * and operators, and uses no libc but memcpy and memset: generated C runs it on chips without a floating-point unit.
 *
 * Work that can be split ends its arguments with `int32_t begin, int32_t end`: the kernel does the items begin ... end - 1 (0 <= begin
 * <= end <= items) and nothing else. Each contract says what an item is and how many there are. Items are independent of each other,
 * so threads share them out; a single caller takes all at once. Concurrent calls need a scratch each.
 *
 * Images stand with their channels last: (batch, height, width, channels), dense unless a stride is named.
 *
 * The build finds those headers (kernel_table.py) and derives the kernel table, the struct layouts that Python packs by name,
 * and the uniform calls. So that it can: params hold fixed-width scalars or arrays of them, one field a line, and arguments are
 * pointers, then begin and end. Sizes are int32_t: a tensor has fewer than 2^31 elements.
 */
#ifndef LB_H
#define LB_H

#include "contracts.h" /* made by the build: every header that holds contracts */

#endif
