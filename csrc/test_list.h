/* Which test belongs to which contract, in alphabetical order. */
#ifndef LB_TEST_LIST_H
#define LB_TEST_LIST_H

/* clang-format off */
#define KERNEL_TESTS(X) \
    X(add_f32, test_binary_f32) \
    X(add_s16, test_s16) \
    X(add_s8, test_add_s8) \
    X(attention_s16, test_attention_s16) \
    X(attention_s8, test_attention_s8) \
    X(avg_pool_f32, test_avg_pool_f32) \
    X(avg_pool_s16, test_s16) \
    X(avg_pool_s8, test_avg_pool_s8) \
    X(cast_int_f32, test_cast_int_f32) \
    X(clip_f32, test_clip_f32) \
    X(conv3x3_s8, test_conv3x3_s8) \
    X(conv_f32, test_conv_f32) \
    X(conv_s8, test_conv_s8) \
    X(conv_s8_f32, test_conv_s8_f32) \
    X(conv_s8_s16, test_conv_s8_s16) \
    X(copy_b16, test_copy_b16) \
    X(copy_b32, test_copy_b32) \
    X(copy_b64, test_copy_b64) \
    X(copy_b8, test_copy_b8) \
    X(dequantize_s16_f32, test_s16) \
    X(dequantize_s8_f32, test_dequantize_s8_f32) \
    X(div_f32, test_binary_f32) \
    X(div_int, test_scaled_int) \
    X(dwconv_f32, test_dwconv_f32) \
    X(dwconv_s8, test_dwconv_s8) \
    X(fill_b8, test_fill_b8) \
    X(gather, test_gather) \
    X(gemm_b1_s32, test_gemm_b1_s32) \
    X(gemm_s16_s64, test_gemm_s16_s64) \
    X(gemm_s8_f32, test_gemm_s8_f32) \
    X(gemm_s8_pack, test_gemm_s8_pack) \
    X(gemm_s8_s32, test_gemm_s8_s32) \
    X(gemm_s8_sizes, test_gemm_s8_sizes) \
    X(linear_f32, test_linear_f32) \
    X(linear_s16, test_s16) \
    X(linear_s16_f32, test_s16) \
    X(linear_s16_s8, test_s16) \
    X(linear_s8, test_linear_s8) \
    X(linear_s8_f32, test_linear_s8_f32) \
    X(linear_s8_pack, test_linear_s8_pack) \
    X(linear_s8_s16, test_linear_s8_s16) \
    X(linear_s8_sizes, test_linear_s8_sizes) \
    X(linear_w4_blocks_s8, test_linear_w4_blocks_s8) \
    X(linear_w4_blocks_s8_f32, test_linear_w4_blocks_s8_f32) \
    X(linear_w4_blocks_s8_s16, test_linear_w4_blocks_s8_s16) \
    X(linear_w4_rows_f32, test_linear_w4_rows_f32) \
    X(linear_w4_s8, test_linear_w4_s8) \
    X(linear_w4_s8_f32, test_linear_w4_s8_f32) \
    X(linear_w4_s8_s16, test_linear_w4_s8_s16) \
    X(max_f32, test_binary_f32) \
    X(max_pool_f32, test_max_pool_f32) \
    X(max_pool_s16, test_s16) \
    X(max_pool_s8, test_max_pool_s8) \
    X(min_f32, test_binary_f32) \
    X(mul_f32, test_binary_f32) \
    X(mul_int, test_scaled_int) \
    X(mul_s8, test_mul_s8) \
    X(norm_s16, test_norm_s16) \
    X(norm_s8, test_norm_s8) \
    X(quantize_f32_s16, test_s16) \
    X(quantize_f32_s8, test_quantize_f32_s8) \
    X(reduce_f32, test_reduce_f32) \
    X(requantize_s16, test_s16) \
    X(requantize_s16_s8, test_s16) \
    X(requantize_s8, test_requantize_s8) \
    X(requantize_s8_s16, test_s16) \
    X(scale_shift, test_scale_shift) \
    X(softmax_int, test_softmax_int) \
    X(stem_s8, test_stem_s8) \
    X(sub_f32, test_binary_f32) \
    X(sum_int, test_sum_int) \
    X(table_s16, test_table_s16) \
    X(table_s8, test_table_s8)
/* clang-format on */

#endif
