/* Winograd's F(3x3, 4x4) in integers, on an image of half the size whose pixels are 2x2 of the real one: a tile of 3x3 outputs takes 36
 * products for each of these channels instead of 144.
 *
 *   576 y = A' [ (G w G') . (B' d B) ] A      B' d B: |v| <= 100 * 255; G w G': |u| <= 15 * 15 * 128: both fit int16
 *
 * As in conv3x3_s8 all sums are modulo 2^32, and 64 y is found by the inverse of 9; |y| <= 255 * 128 * 4 * 64 < 2^25. */
#include "lb.h"
#include "base/madd_avx2.h"
#include "base/requantize_avx2.h"
#include "conv/winograd/winograd_avx2.h"

lb_conv_stride2_winograd_s8_fn lb_conv_stride2_winograd_s8__avx2;

enum { PANEL = 16, POINTS = 36, SIZE = 3, CELL = 16, ROWS = 6 }; /* CELL: int16 of a pixel of half the size */

/* 2 * in_c bytes: two pixels. */
LB_INLINE uint64_t load_two(const int32_t in_c, const int8_t *from) {
    uint64_t v = 0;
    if (in_c == 3) {
        uint32_t first;
        uint16_t last;
        memcpy(&first, from, 4), memcpy(&last, from + 4, 2);
        return first | (uint64_t)last << 32;
    }
    memcpy(&v, from, 2 * (size_t)in_c);
    return v;
}

/* Two pixels of which some are outside of the image, or of no row. */
static uint64_t load_edge(const lb_conv_stride2_winograd_s8_params *p, const int8_t *row, int32_t column) {
    uint64_t v = 0;
    for (int32_t i = 0; i < 2 * p->in_c; i++) {
        const int32_t at = column + i / p->in_c;
        const int8_t byte = row && at >= 0 && at < p->in_w ? row[(ptrdiff_t)at * p->in_c + i % p->in_c] : (int8_t)p->x_zero;
        v |= (uint64_t)(uint8_t)byte << (8 * i);
    }
    return v;
}

/* A row of the image of half the size: two rows of the real one from `row` on, from `column` on, less the zero point. */
LB_INLINE void load_cells(const int32_t in_c, const lb_conv_stride2_winograd_s8_params *p, const int8_t *image, int32_t row, int32_t column,
                          int32_t cells, int16_t *to) {
    const __m256i zero_point = _mm256_set1_epi16((int16_t)p->x_zero);
    const ptrdiff_t line = (ptrdiff_t)p->in_w * in_c;
    const int8_t *above = row >= 0 && row < p->in_h ? image + row * line : NULL;
    const int8_t *below = row + 1 >= 0 && row + 1 < p->in_h ? image + (row + 1) * line : NULL;
    for (int32_t i = 0; i < cells; i++, column += 2, to += CELL) {
        uint64_t a, b;
        if (above && below && column >= 0 && column + 2 <= p->in_w)
            a = load_two(in_c, above + (ptrdiff_t)column * in_c), b = load_two(in_c, below + (ptrdiff_t)column * in_c);
        else
            a = load_edge(p, above, column), b = load_edge(p, below, column);
        const uint64_t low = in_c < 4 ? a | b << (16 * in_c % 64) : a, high = in_c < 4 ? b >> (64 - 16 * in_c) : b;
        const __m128i bytes = _mm_set_epi64x((int64_t)high, (int64_t)low);
        _mm256_store_si256((__m256i *)(void *)to, _mm256_sub_epi16(_mm256_cvtepi8_epi16(bytes), zero_point));
    }
}

static void load_cells_any(const lb_conv_stride2_winograd_s8_params *p, const int8_t *image, int32_t row, int32_t column, int32_t cells,
                           int16_t *to) {
    if (p->in_c == 3)
        load_cells(3, p, image, row, column, cells, to);
    else
        load_cells(p->in_c, p, image, row, column, cells, to);
}

/* The tile whose first cell is at `from`; cells of the next row are `line` further. Point q goes to v + q * step. */
static void transform_tile(const int16_t *from, ptrdiff_t line, int16_t *v, ptrdiff_t step) {
    __m256i rows[POINTS], d[6], o[6];
    LB_UNROLL
    for (int j = 0; j < 6; j++) {
        LB_UNROLL
        for (int i = 0; i < 6; i++)
            d[i] = _mm256_load_si256((const __m256i *)(const void *)(from + i * line + j * CELL));
        lb_winograd_input(d, 1, rows + j, 6);
    }
    LB_UNROLL
    for (int i = 0; i < 6; i++) {
        lb_winograd_input(rows + 6 * i, 1, o, 1);
        LB_UNROLL
        for (int j = 0; j < 6; j++)
            _mm256_store_si256((__m256i *)(void *)(v + (6 * i + j) * step), o[j]);
    }
}

/* out (rows x 16) = `rows` tiles at one point, times the weights of that point. */
LB_INLINE void multiply(const int rows, const int16_t *v, int32_t pairs, const int16_t *u, __m256i *out) {
    __m256i c[ROWS][2];
    LB_UNROLL
    for (int i = 0; i < rows; i++)
        c[i][0] = c[i][1] = _mm256_setzero_si256();
    for (int32_t k = 0; k < pairs; k++, v += 2, u += 2 * PANEL) {
        const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)u);
        const __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(u + PANEL));
        LB_UNROLL
        for (int i = 0; i < rows; i++)
            lb_madd_pair(c[i], v + i * CELL, w0, w1);
    }
    LB_UNROLL
    for (int i = 0; i < rows; i++)
        out[2 * i] = c[i][0], out[2 * i + 1] = c[i][1];
}

/* `rows` tiles at all points, which are v_step and m_step apart. */
LB_INLINE void multiply_points(const int rows, const int16_t *v, ptrdiff_t v_step, int32_t pairs, const int16_t *u, __m256i *m,
                               ptrdiff_t m_step) {
    for (int q = 0; q < POINTS; q++, v += v_step, u += 2 * PANEL * pairs, m += m_step)
        if (pairs == 6)
            multiply(rows, v, 6, u, m);
        else
            multiply(rows, v, pairs, u, m);
}

#define MULTIPLY(n)                                                                                                                        \
    static void multiply##n(const int16_t *v, ptrdiff_t v_step, int32_t pairs, const int16_t *u, __m256i *m, ptrdiff_t m_step) {           \
        multiply_points(n, v, v_step, pairs, u, m, m_step);                                                                                \
    }
LB_1_TO_6(MULTIPLY)

typedef void multiply_fn(const int16_t *v, ptrdiff_t v_step, int32_t pairs, const int16_t *u, __m256i *m, ptrdiff_t m_step);

static multiply_fn *const multiplied[ROWS + 1] = {NULL, multiply1, multiply2, multiply3, multiply4, multiply5, multiply6};

typedef struct {
    __m256i start[2];
    __m256 multiplier[2];
    lb_clamp16 clamp;
    int32_t width; /* channels */
} epilogue;

/* The outputs of one tile for 16 channels; m has point q at m + q * step. high x wide of them exist. */
static void store_tile(const __m256i *m, ptrdiff_t step, const epilogue *e, int8_t *out, ptrdiff_t pixel, ptrdiff_t line, int32_t high,
                       int32_t wide) {
    const __m256i inverse = _mm256_set1_epi32(0x38E38E39); /* of 9 */
    __m256i y[SIZE * SIZE + 1][2];
    for (int half = 0; half < 2; half++) {
        __m256i columns[6 * SIZE], o[SIZE];
        LB_UNROLL
        for (int j = 0; j < 6; j++)
            lb_winograd_output(SIZE, m + j * step + half, 6 * step, columns + j, 6);
        LB_UNROLL
        for (int i = 0; i < SIZE; i++) {
            lb_winograd_output(SIZE, columns + 6 * i, 1, o, 1);
            LB_UNROLL
            for (int j = 0; j < SIZE; j++)
                y[SIZE * i + j][half] = _mm256_add_epi32(_mm256_srai_epi32(_mm256_mullo_epi32(o[j], inverse), 6), e->start[half]);
        }
    }
    y[SIZE * SIZE][0] = y[0][0], y[SIZE * SIZE][1] = y[0][1];
    __m128i q[SIZE * SIZE + 1];
    LB_UNROLL
    for (int i = 0; i < SIZE * SIZE; i += 2) {
        const __m256i bytes = lb_requantize32(y[i], y[i + 1], e->multiplier[0], e->multiplier[1], &e->clamp);
        q[i] = _mm256_castsi256_si128(bytes), q[i + 1] = _mm256_extracti128_si256(bytes, 1);
    }
    if (high == SIZE && wide == SIZE && e->width == PANEL) {
        LB_UNROLL
        for (int i = 0; i < SIZE * SIZE; i++)
            _mm_storeu_si128((__m128i *)(void *)(out + i / SIZE * line + i % SIZE * pixel), q[i]);
        return;
    }
    for (int32_t i = 0; i < high; i++)
        for (int32_t j = 0; j < wide; j++)
            lb_store_bytes(out + i * line + j * pixel, q[SIZE * i + j], e->width);
}

void lb_conv_stride2_winograd_s8__avx2(const lb_conv_stride2_winograd_s8_params *p, const int8_t *x, const void *w, const int32_t *bias,
                                       const float *multiplier, int8_t *out, void *scratch, int32_t begin, int32_t end) {
    const int32_t tiles = (p->out_w + SIZE - 1) / SIZE, down = (p->out_h + SIZE - 1) / SIZE, cells = SIZE * tiles + 3;
    const int32_t blocks = (tiles + p->block - 1) / p->block;
    const ptrdiff_t line = (ptrdiff_t)cells * CELL, out_line = (ptrdiff_t)p->out_w * p->out_stride;
    int16_t *strip = scratch, *v = strip + 6 * line;
    __m256i *m = (__m256i *)(void *)(v + POINTS * CELL * (ptrdiff_t)p->block);
    for (int32_t item = begin; item < end; item++) {
        const int8_t *image = x + (ptrdiff_t)(item / down) * p->in_h * p->in_w * p->in_c;
        const int32_t row = item % down * SIZE, high = p->out_h - row < SIZE ? p->out_h - row : SIZE;
        for (int32_t i = 0; i < 6; i++)
            load_cells_any(p, image, 2 * (row + i) - p->pad_h - p->pad_h % 2, -p->pad_w - p->pad_w % 2, cells, strip + i * line);
        int8_t *to = out + ((ptrdiff_t)(item / down) * p->out_h + row) * out_line;
        for (int32_t b = 0; b < blocks; b++) { /* of about equal size */
            const int32_t first = (int32_t)((int64_t)tiles * b / blocks), count = (int32_t)((int64_t)tiles * (b + 1) / blocks) - first;
            const int32_t groups = (count + ROWS - 1) / ROWS, least = count / groups, larger = count % groups;
            for (int32_t t = 0; t < count; t++)
                transform_tile(strip + (first + t) * SIZE * CELL, line, v + t * CELL, count * CELL);
            for (int32_t n = 0; n < p->out_c; n += PANEL) {
                epilogue e = {.clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi), .width = p->out_c - n < PANEL ? p->out_c - n : PANEL};
                lb_load16(bias + n, e.width, e.start);
                lb_load16(multiplier + n, e.width, e.multiplier);
                const int16_t *u = (const int16_t *)w + (ptrdiff_t)(n / PANEL) * POINTS * 4 * p->in_c * PANEL;
                for (int32_t g = 0, t = 0, many; g < groups; g++, t += many) {
                    many = least + (g < larger);
                    multiplied[many](v + t * CELL, count * CELL, 2 * p->in_c, u, m + 2 * t, 2 * count);
                }
                for (int32_t t = 0; t < count; t++) {
                    const int32_t column = (first + t) * SIZE, wide = p->out_w - column < SIZE ? p->out_w - column : SIZE;
                    store_tile(m + 2 * t, 2 * count, &e, to + (ptrdiff_t)column * p->out_stride + n, p->out_stride, out_line, high, wide);
                }
            }
        }
    }
}
