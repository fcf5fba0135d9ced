/* Weights of convolutions, made ready once, and the memory that their kernels need. lb.h has the rules of every contract.
 *
 * There is `ref` alone, which answers for every instruction set: `isa` is that of the kernel that multiplies, LB_ISA_ref, LB_ISA_avx2 and
 * so on in the order of isas.txt (contracts.h has them). `w` is plain, as the kernel's `ref` takes it. The kernel's contract describes the
 * layout of `packed`, which is aligned to 64.
 *
 * sizes[0]: bytes of packed; sizes[1]: bytes of the kernel's scratch; then parameters of the kernel that were measured to be fast. */
#ifndef LB_CONV_PACK_H
#define LB_CONV_PACK_H

#include "base/fields.h"

/* ---- conv3x3_s8: sizes[2]: tile_h, or 0 where conv_s8 is faster or no height is exact; sizes[3]: block; sizes[4]: block_columns. */
typedef struct {
    LB_IMAGE_FIELDS;
    int32_t isa;
    int32_t tile_h;  /* 4 or 2; 0: the fastest one, if any is faster than conv_s8 */
    int32_t threads; /* >= 1 */
    int32_t largest; /* the largest |acc - bias| of any x, or 2^31 - 1 where it is larger */
} lb_conv3x3_s8_sizes_params;

typedef void lb_conv3x3_s8_sizes_fn(const lb_conv3x3_s8_sizes_params *p, int64_t *sizes);

typedef struct {
    int32_t in_c;
    int32_t out_c;
    int32_t tile_h; /* 4 or 2 */
    int32_t isa;
} lb_conv3x3_s8_pack_params;

typedef void lb_conv3x3_s8_pack_fn(const lb_conv3x3_s8_pack_params *p, const int8_t *w, void *packed);

/* ---- dwconv_s8: sizes[2]: block; sizes[3]: block_rows; sizes[4]: neighbouring rows that read the same memory. */
typedef struct {
    LB_CHANNELS_FIELDS;
    LB_WINDOW_FIELDS;
    int32_t isa;
} lb_dwconv_s8_sizes_params;

typedef void lb_dwconv_s8_sizes_fn(const lb_dwconv_s8_sizes_params *p, int64_t *sizes);

typedef lb_dwconv_s8_sizes_params lb_dwconv_s8_pack_params;

typedef void lb_dwconv_s8_pack_fn(const lb_dwconv_s8_pack_params *p, const int8_t *w, void *packed);

/* ---- conv_few_channels_s8, conv_stride2_winograd_s8: sizes[2]: block. */
typedef struct {
    LB_IMAGE_FIELDS;
    LB_WINDOW_FIELDS;
    int32_t isa;
} lb_conv_few_channels_s8_sizes_params;

typedef void lb_conv_few_channels_s8_sizes_fn(const lb_conv_few_channels_s8_sizes_params *p, int64_t *sizes);

typedef lb_conv_few_channels_s8_sizes_params lb_conv_few_channels_s8_pack_params;

typedef void lb_conv_few_channels_s8_pack_fn(const lb_conv_few_channels_s8_pack_params *p, const int8_t *w, void *packed);

typedef lb_conv_few_channels_s8_sizes_params lb_conv_stride2_winograd_s8_sizes_params;

typedef void lb_conv_stride2_winograd_s8_sizes_fn(const lb_conv_stride2_winograd_s8_sizes_params *p, int64_t *sizes);

typedef lb_conv_few_channels_s8_sizes_params lb_conv_stride2_winograd_s8_pack_params;

typedef void lb_conv_stride2_winograd_s8_pack_fn(const lb_conv_stride2_winograd_s8_pack_params *p, const int8_t *w, void *packed);

#endif
