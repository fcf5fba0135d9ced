/* Winograd's F(4x4, 3x3) in integers: a tile of 4x4 outputs from 6x6 inputs takes 36 products for each pair of channels instead of 144.
 *
 *   576 y = A' [ (G w G') . (B' d B) ] A      B' d B: |v| <= 100 * 255; G w G': |u| <= 49 * 128: both fit int16
 *
 * with B, G, A scaled to integers. All sums are modulo 2^32. |576 y| may be beyond 2^31, but 64 y = 576 y / 9 is found by the inverse of 9
 * modulo 2^32, and is within int32 because |y| < 2^25, which the caller proves; a shift by 6 gives y.
 *
 * Tiles of 2x4 outputs are F(2, 3) down and F(4, 3) across: 24 products instead of 72, 48 y, fewer and smaller weights: for sums up to
 * 2^27, and where the weights of few tiles are what takes the time. */
#include "lb.h"
#include "gemm/gemm_s8_tiles_avx2.h"
#include "base/numerics.h"
#include "base/requantize_avx2.h"
#include "conv/winograd/winograd_avx2.h"
#include "conv/winograd/winograd_tiles.h"

lb_conv3x3_s8_fn lb_conv3x3_s8__avx2;

enum { PANEL = 16, TILE = 4 };

#define OP(name) _mm256_##name
TRANSFORM_INPUT2(__m256i, OP)

/* A' of four vectors of int32, `step` apart, for two outputs, times 2. */
LB_INLINE void transform_output2(const __m256i *m, ptrdiff_t step, __m256i *o, int to) {
    const __m256i s = _mm256_add_epi32(m[step], m[2 * step]), d = _mm256_sub_epi32(m[step], m[2 * step]);
    o[0] = _mm256_add_epi32(_mm256_slli_epi32(m[0], 1), s);
    o[to] = _mm256_sub_epi32(d, _mm256_slli_epi32(m[3 * step], 1));
}

/* `channels` of one pixel, the zero point after them. */
LB_INLINE __m256i load_pixel(const int8_t *from, int32_t channels, int32_t zero_point) {
    if (channels >= 16)
        return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)(const void *)from));
    __m128i bytes = _mm_set1_epi8((char)zero_point);
    memcpy(&bytes, from, (size_t)channels);
    return _mm256_cvtepi8_epi16(bytes);
}

/* out (rows x 16) = `rows` tiles at one point, times the weights of that point, by Winograd's inner product as in gemm_s8_avx2.h: sums
 * of two are within 25500 + 6272 < 2^15. `pairs` has what rows begin with, u what columns begin with and then the weights. Those of the
 * next point are asked for meanwhile, by all groups of rows in turn: from `next` on, `step` bytes for four channels. `early`: and those
 * `ahead` bytes after them for the second-level cache, which has room for more requests: few rows are done before memory answers. */
LB_INLINE void multiply(const int rows, const int early, const int16_t *v, ptrdiff_t depth, const int32_t *pairs, const int16_t *u,
                        const char *next, ptrdiff_t ahead, ptrdiff_t step, __m256i *out) {
    const __m256i low = _mm256_load_si256((const __m256i *)(const void *)u);
    const __m256i high = _mm256_load_si256((const __m256i *)(const void *)(u + PANEL));
    __m256i c[TILE][2];
    LB_UNROLL
    for (int i = 0; i < rows; i++) {
        const __m256i row = _mm256_set1_epi32(pairs[i]);
        c[i][0] = _mm256_add_epi32(low, row), c[i][1] = _mm256_add_epi32(high, row);
    }
    u += 2 * PANEL;
    for (const int16_t *end = v + depth; v < end; v += 8, u += 8 * PANEL, next += 2 * step) {
        _mm_prefetch(next, _MM_HINT_T0);
        _mm_prefetch(next + step, _MM_HINT_T0);
        if (early) {
            _mm_prefetch(next + ahead, _MM_HINT_T1);
            _mm_prefetch(next + ahead + step, _MM_HINT_T1);
        }
        LB_UNROLL
        for (int half = 0; half < 2; half++) {
            __m256i w[4];
            LB_UNROLL
            for (int i = 0; i < 4; i++)
                w[i] = _mm256_load_si256((const __m256i *)(const void *)(u + 16 * (4 * half + i)));
            LB_UNROLL
            for (int i = 0; i < rows; i++)
                lb_step(c[i], v + i * depth + 4 * half, w);
        }
    }
    LB_UNROLL
    for (int i = 0; i < rows; i++)
        out[2 * i] = c[i][0], out[2 * i + 1] = c[i][1];
}

typedef void multiply_fn(const int16_t *v, ptrdiff_t depth, const int32_t *pairs, const int16_t *u, const char *next, ptrdiff_t ahead,
                         ptrdiff_t step, __m256i *out);

#define MULTIPLY(name, rows, early)                                                                                                        \
    static void name(const int16_t *v, ptrdiff_t depth, const int32_t *pairs, const int16_t *u, const char *next, ptrdiff_t ahead,         \
                     ptrdiff_t step, __m256i *out) {                                                                                       \
        multiply(rows, early, v, depth, pairs, u, next, ahead, step, out);                                                                 \
    }
MULTIPLY(multiply1, 1, 0)
MULTIPLY(multiply2, 2, 0)
MULTIPLY(multiply3, 3, 0)
MULTIPLY(multiply4, 4, 0)
MULTIPLY(multiply1_early, 1, 1)
MULTIPLY(multiply2_early, 2, 1)
MULTIPLY(multiply3_early, 3, 1)
MULTIPLY(multiply4_early, 4, 1)

enum { FEW_GROUPS = 2 }; /* of rows: with more, the two requests cost more than they save */

/* By whether weights are asked for early, and the number of rows. */
static multiply_fn *const multiplied[2][TILE + 1] = {{NULL, multiply1, multiply2, multiply3, multiply4},
                                                     {NULL, multiply1_early, multiply2_early, multiply3_early, multiply4_early}};

/* What a row of `depth` channels begins with: of four neighbours, the first two times the last two, negated. */
static int32_t pairs_of(const int16_t *v, ptrdiff_t depth) {
    __m256i sums = _mm256_setzero_si256();
    for (ptrdiff_t c = 0; c < depth; c += 16) {
        const __m256i four = _mm256_load_si256((const __m256i *)(const void *)(v + c));
        sums = _mm256_sub_epi32(sums, _mm256_madd_epi16(four, _mm256_srli_epi64(four, 32)));
    }
    const __m128i half = _mm_add_epi32(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
    return _mm_cvtsi128_si32(_mm_add_epi32(half, _mm_shuffle_epi32(half, 0x4E))); /* the odd dwords are zero */
}

/* The transformed inputs of one tile: point q at v + q * step, `depth` channels each. `whole`: all of it is in the image. */
LB_INLINE void transform_tile(const int high, const int whole, const lb_conv3x3_s8_params *p, const int8_t *from, const pixels *seen,
                              ptrdiff_t depth, ptrdiff_t step_of_point, int16_t *v) {
    const __m256i seen_at_one = _mm256_set1_epi16((int16_t)((high == 4 ? 36 : -12) * p->x_zero));
    const ptrdiff_t line = (ptrdiff_t)p->in_w * p->in_c;
    for (int32_t c = 0; c < depth; c += 16) {
        const int32_t channels = p->in_c - c < 16 ? p->in_c - c : 16;
        __m256i rows[MOST_POINTS], d[6], o[6];
        for (int32_t j = 0; j < 6; j++) {
            LB_UNROLL
            for (int32_t i = 0; i < high + 2; i++) {
                if (whole)
                    d[i] = load_pixel(from + i * line + (ptrdiff_t)j * p->in_c + c, 16, p->x_zero);
                else
                    d[i] = load_pixel(seen->at[6 * i + j] + (c & seen->mask[6 * i + j]), channels, p->x_zero);
            }
            if (high == 4)
                lb_winograd_input(d, 1, rows + j, 6);
            else
                transform_input2(d, rows + j, 6);
        }
        LB_UNROLL
        for (int32_t i = 0; i < high + 2; i++) {
            lb_winograd_input(rows + 6 * i, 1, o, 1);
            if (i == 1) /* the only sums that a zero point is part of */
                o[1] = _mm256_sub_epi16(o[1], seen_at_one);
            LB_UNROLL
            for (int32_t j = 0; j < 6; j++)
                _mm256_store_si256((__m256i *)(void *)(v + (6 * i + j) * step_of_point + c), o[j]);
        }
    }
}

LB_INLINE void load_tile(const int high, const lb_conv3x3_s8_params *p, const int8_t *x, tile t, ptrdiff_t depth, ptrdiff_t step_of_point,
                         int16_t *v) {
    const int32_t top = t.row - p->pad_h, left = t.column - p->pad_w;
    const int8_t *image = x + (ptrdiff_t)t.image * p->in_h * p->in_w * p->in_c;
    if (top >= 0 && left >= 0 && top + high + 2 <= p->in_h && left + 6 <= p->in_w && p->in_c == depth) {
        const int8_t *from = image + ((ptrdiff_t)top * p->in_w + left) * p->in_c;
        transform_tile(high, 1, p, from, NULL, depth, step_of_point, v);
        return;
    }
    pixels seen;
    find(high, p, image, top, left, &seen);
    transform_tile(high, 0, p, NULL, &seen, depth, step_of_point, v);
}

/* Four neighbours of a row for 8 channels: what the transform gives, divided, and the bias. */
LB_INLINE void four_pixels(const int high, const __m256i *columns, __m256i start, __m256i y[4]) {
    const __m256i inverse = _mm256_set1_epi32(high == 4 ? 0x38E38E39 : (int32_t)0xAAAAAAAB); /* of 9, of 3 */
    lb_winograd_output(4, columns, 1, y, 1);
    LB_UNROLL
    for (int j = 0; j < 4; j++)
        y[j] = _mm256_add_epi32(_mm256_srai_epi32(_mm256_mullo_epi32(y[j], inverse), high == 4 ? 6 : 4), start);
}

/* The outputs of one tile for 16 channels, of which `width` exist; m has point q at m + q * step. */
LB_INLINE void store_tile(const int high, const lb_conv3x3_s8_params *p, const __m256i *m, ptrdiff_t step_of_point, tile t,
                          const __m256i start[2], const __m256 multiplier[2], const lb_clamp16 *clamp, int8_t *out, int32_t width) {
    __m256i columns[2][24];
    for (int half = 0; half < 2; half++)
        for (int j = 0; j < 6; j++)
            if (high == 4)
                lb_winograd_output(4, m + j * step_of_point + half, 6 * step_of_point, columns[half] + j, 6);
            else
                transform_output2(m + j * step_of_point + half, 6 * step_of_point, columns[half] + j, 6);
    const int32_t wide = p->out_w - t.column < 4 ? p->out_w - t.column : 4;
    out += (((ptrdiff_t)t.image * p->out_h + t.row) * p->out_w + t.column) * p->out_stride;
    for (int32_t i = 0; i < high && t.row + i < p->out_h; i++, out += (ptrdiff_t)p->out_w * p->out_stride) {
        __m256i below[4], above[4];
        four_pixels(high, columns[0] + 6 * i, start[0], below);
        four_pixels(high, columns[1] + 6 * i, start[1], above);
        __m128i q[4];
        LB_UNROLL
        for (int j = 0; j < 4; j += 2) {
            const __m256i a[2] = {below[j], above[j]}, b[2] = {below[j + 1], above[j + 1]};
            const __m256i bytes = lb_requantize32(a, b, multiplier[0], multiplier[1], clamp);
            q[j] = _mm256_castsi256_si128(bytes), q[j + 1] = _mm256_extracti128_si256(bytes, 1);
        }
        if (wide == 4 && width == PANEL)
            LB_UNROLL
        for (int j = 0; j < 4; j++)
            _mm_storeu_si128((__m128i *)(void *)(out + j * p->out_stride), q[j]);
        else for (int32_t j = 0; j < wide; j++) lb_store_bytes(out + j * p->out_stride, q[j], width);
    }
}

static void load_tile4(const lb_conv3x3_s8_params *p, const int8_t *x, tile t, ptrdiff_t depth, ptrdiff_t step_of_point, int16_t *v) {
    load_tile(4, p, x, t, depth, step_of_point, v);
}

static void load_tile2(const lb_conv3x3_s8_params *p, const int8_t *x, tile t, ptrdiff_t depth, ptrdiff_t step_of_point, int16_t *v) {
    load_tile(2, p, x, t, depth, step_of_point, v);
}

static void store_tile4(const lb_conv3x3_s8_params *p, const __m256i *m, ptrdiff_t step_of_point, tile t, const __m256i start[2],
                        const __m256 multiplier[2], const lb_clamp16 *clamp, int8_t *out, int32_t width) {
    store_tile(4, p, m, step_of_point, t, start, multiplier, clamp, out, width);
}

static void store_tile2(const lb_conv3x3_s8_params *p, const __m256i *m, ptrdiff_t step_of_point, tile t, const __m256i start[2],
                        const __m256 multiplier[2], const lb_clamp16 *clamp, int8_t *out, int32_t width) {
    store_tile(2, p, m, step_of_point, t, start, multiplier, clamp, out, width);
}

void lb_conv3x3_s8__avx2(const lb_conv3x3_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                         int8_t *out, void *scratch, int32_t begin, int32_t end) {
    const ptrdiff_t depth = (p->in_c + 15) / 16 * 16;
    const int64_t tiles = (int64_t)p->batch * ((p->out_h + p->tile_h - 1) / p->tile_h) * ((p->out_w + 3) / 4);
    const lb_clamp16 clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi);
    const int points = 6 * (p->tile_h + 2);
    int16_t *v = scratch;
    __m256i *m = (__m256i *)(void *)(v + points * p->block * depth);
    int32_t *pairs = (int32_t *)(void *)(m + 2 * points * (ptrdiff_t)p->block);
    const ptrdiff_t u_step = (depth + 2) * PANEL;
    const int32_t parts = (p->out_c + p->block_columns - 1) / p->block_columns;
    for (int32_t item = begin; item < end; item++) {
        const int32_t left = item % parts * p->block_columns,
                      right = p->out_c - left < p->block_columns ? p->out_c : left + p->block_columns;
        const int32_t first = item / parts * p->block, count = (int32_t)(tiles - first < p->block ? tiles - first : p->block);
        const int32_t groups = (count + TILE - 1) / TILE, least = count / groups, larger = count % groups; /* of about equal size */
        const ptrdiff_t v_step = count * depth, m_step = 2 * (ptrdiff_t)count;
        if (item == begin || left == 0) {
            for (int32_t t = 0; t < count; t++)
                (p->tile_h == 4 ? load_tile4 : load_tile2)(p, x, tile_at(p, first + t), depth, v_step, v + t * depth);
            for (int32_t t = 0; t < points * count; t++)
                pairs[t] = pairs_of(v + t * depth, depth);
        }
        for (int32_t n = left; n < right; n += PANEL) {
            const int32_t width = right - n < PANEL ? right - n : PANEL;
            const int16_t *u = (const int16_t *)w + n / PANEL * points * u_step;
            _Alignas(32) int32_t b[PANEL];
            _Alignas(32) float f[PANEL];
            lb_load16(bias + n, width, b);
            lb_load16(multiplier + n, width, f);
            const __m256i start[2] = {_mm256_load_si256((const __m256i *)(const void *)b),
                                      _mm256_load_si256((const __m256i *)(const void *)(b + 8))};
            const __m256 scale[2] = {_mm256_load_ps(f), _mm256_load_ps(f + 8)};
            const ptrdiff_t step = 8 * PANEL / groups;
            for (int q = 0; q < points; q++, u += u_step) {
                const int16_t *from = v + q * v_step;
                const int32_t *own = pairs + q * count;
                __m256i *to = m + q * m_step;
                const int behind = n + PANEL < right ? 2 : points - 1 - q; /* points: nothing is after the last */
                const char *prefetch = (const char *)(behind > 0 ? u + u_step : u);
                const ptrdiff_t ahead = behind > 1 ? 2 * u_step : 0;
                for (int32_t g = 0, many; g < groups; g++, from += many * depth, own += many, to += 2 * many) {
                    many = least + (g < larger);
                    multiplied[groups <= FEW_GROUPS][many](from, depth, own, u, prefetch, ahead, step, to);
                    prefetch += step * depth / 4;
                }
            }
            for (int32_t t = 0; t < count; t++)
                (p->tile_h == 4 ? store_tile4 : store_tile2)(p, m + 2 * t, m_step, tile_at(p, first + t), start, scale, &clamp, out + n,
                                                             width);
        }
    }
}
