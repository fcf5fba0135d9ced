/* Sums of quads in memory, for those who do more with them than linear_s8 does. Include after dot4_avxvnni.h or dot4_avx512vnni.h. */
#ifndef LB_DOT4_SUMS_VNNI_H
#define LB_DOT4_SUMS_VNNI_H

/* out (rows x `wide` vectors, aligned to vectors) = `start` of each column, or where that is NULL what out holds, + rows times weights. */
LB_INLINE void lb_dot4_into(const int rows, const int wide, const uint8_t *a, ptrdiff_t stride, const int8_t *w, ptrdiff_t second,
                            ptrdiff_t quads, const int32_t *start, int32_t *out, ptrdiff_t out_stride) {
    lb_vec c[LB_ROWS][2];
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < wide; j++)
        c[i][j] = lb_vec_load((start ? start : out + i * out_stride) + j * LB_LANES);
    lb_dot4_steps(rows, wide, a, stride, w, second, quads, c);
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < wide; j++)
        lb_vec_store(out + i * out_stride + j * LB_LANES, c[i][j]);
}

/* The same for any number of rows. Functions, so that each has the registers for itself. */
#define LB_DOT4_ROWS_OF(wide)                                                                                                              \
    static __attribute__((noinline)) void lb_dot4_rows##wide(ptrdiff_t rows, const uint8_t *a, ptrdiff_t stride, const int8_t *w,          \
                                                             ptrdiff_t second, ptrdiff_t quads, const int32_t *start, int32_t *out,        \
                                                             ptrdiff_t out_stride) {                                                       \
        for (ptrdiff_t step; rows; rows -= step, a += step * stride, out += step * out_stride) {                                           \
            step = rows >= LB_ROWS ? LB_ROWS : rows >= 6 ? 6 : rows >= 4 ? 4 : rows >= 2 ? 2 : 1;                                          \
            if (step == LB_ROWS)                                                                                                           \
                lb_dot4_into(LB_ROWS, wide, a, stride, w, second, quads, start, out, out_stride);                                          \
            else if (step == 6)                                                                                                            \
                lb_dot4_into(6, wide, a, stride, w, second, quads, start, out, out_stride);                                                \
            else if (step == 4)                                                                                                            \
                lb_dot4_into(4, wide, a, stride, w, second, quads, start, out, out_stride);                                                \
            else if (step == 2)                                                                                                            \
                lb_dot4_into(2, wide, a, stride, w, second, quads, start, out, out_stride);                                                \
            else                                                                                                                           \
                lb_dot4_into(1, wide, a, stride, w, second, quads, start, out, out_stride);                                                \
        }                                                                                                                                  \
    }

LB_DOT4_ROWS_OF(1)
LB_DOT4_ROWS_OF(2)

/* The same for `panels` panels of 16 columns, `panel` bytes apart. */
static inline void lb_dot4_panels_into(ptrdiff_t panels, ptrdiff_t rows, const uint8_t *a, ptrdiff_t stride, const int8_t *w,
                                       ptrdiff_t panel, ptrdiff_t quads, const int32_t *start, int32_t *out, ptrdiff_t out_stride) {
    const ptrdiff_t each = LB_COLUMNS / LB_DOT4_PANEL;
    for (ptrdiff_t i = 0; i < panels; i += each) {
        const int32_t *from = start ? start + LB_DOT4_PANEL * i : NULL;
        if (panels - i < each)
            lb_dot4_rows1(rows, a, stride, w + i * panel, 0, quads, from, out + LB_DOT4_PANEL * i, out_stride);
        else
            lb_dot4_rows2(rows, a, stride, w + i * panel, LB_LANES == 8 ? 32 : panel, quads, from, out + LB_DOT4_PANEL * i, out_stride);
    }
}

#endif
