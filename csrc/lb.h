/* The contract of lowbit's kernels: for each operation one params struct and one function type. Layout and legal range of
 * every field are written here and nowhere else.
 *
 *   real = scale * (q - zero_point), everywhere.
 *
 * A kernel is a pure function: arguments are params, inputs..., output, scratch; the caller owns all memory; a kernel keeps no
 * state, allocates nothing and reads and writes exactly the elements that its contract names. Pointers need the alignment of
 * their element only, unless the contract asks for more. Inputs and outputs do not overlap unless the contract says "in place".
 *
 * Every implementation of a contract gives the same bits (lb_numerics.h). Different numerics is a different name.
 *
 * The build reads this file (tools/gen_kernels.py) and derives the kernel table, the struct layouts that Python packs by name,
 * and the uniform calls. So that it can: params hold fixed-width scalars or arrays of them, one field a line, and arguments are
 * pointers. Sizes are int32_t: a tensor has fewer than 2^31 elements.
 */
#ifndef LB_H
#define LB_H

#include <stdint.h>

/* ---- quantize_f32_s8: out[i] = lb_quantize(x[i]), per tensor. NaN gives the zero point, infinities saturate. ------------- */
typedef struct {
    int32_t n;          /* elements, >= 0 */
    float scale;        /* finite, > 0 */
    int32_t zero_point; /* lo ... hi */
    int32_t lo;         /* -128 ... hi; narrower than int8 for int4 held in bytes, or for a symmetric range */
    int32_t hi;         /* lo ... 127 */
} lb_quantize_f32_s8_params;

typedef void lb_quantize_f32_s8_fn(const lb_quantize_f32_s8_params *p, const float *x, int8_t *out);

/* ---- dequantize_s8_f32: out[i] = scale * (x[i] - zero_point), per tensor, one fp32 multiply. ------------------------------ */
typedef struct {
    int32_t n;          /* elements, >= 0 */
    float scale;        /* finite, > 0 */
    int32_t zero_point; /* -128 ... 127 */
} lb_dequantize_s8_f32_params;

typedef void lb_dequantize_s8_f32_fn(const lb_dequantize_s8_f32_params *p, const int8_t *x, float *out);

#endif
