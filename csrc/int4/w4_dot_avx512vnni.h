/* Weights of four bits on AVX-512-VNNI, whose sums have 32 bits: no chunks.
 *
 * Few rows: nibbles go from memory to registers as they are, w + 8 (unsigned), against the activations (signed), which the instruction
 * takes from memory itself. High nibbles stay where they are in their bytes: sums of 16 (w + 8), apart from the low ones, shifted in the
 * end. 8 * (sum of x - x_zero) is taken off beforehand, and a zero point is multiplied as if it were a row.
 *
 * Many rows: two panels of weights are unpacked to bytes, so deep that they stay in the first-level cache, and tiles of rows, x + 128
 * (unsigned), pass over them. */
#ifndef LB_W4_DOT_AVX512VNNI_H
#define LB_W4_DOT_AVX512VNNI_H

#include "linear/dot4/dot4_sums_vnni.h"
#include "int4/w4_epilogue_avx512.h"

enum {
    LB_W4_AT_ONCE = 8,              /* few rows that a panel is read for */
    LB_W4_RUN = 2048,               /* groups whose high nibbles are summed: 16 * 15 * 128 * 32 * 2048 < 2^31 */
    LB_W4_STREAM = 4096,            /* bytes of weights that are asked for before they are read */
    LB_W4_SEGMENTS_TILE = 6,        /* rows whose segments are scaled: their sums and their totals, of two panels, take 24 registers */
    LB_W4_TOTALS = 16 * LB_W4_WIDE, /* columns of acc */
};

/* Whether these rows take the way of few rows. Zero points of segments cost there as much as a row. */
static inline int lb_w4_are_few(const lb_w4_product *p, ptrdiff_t rows) {
    return rows <= (p->cut.segments == 1 ? LB_W4_FEW_CHANNELS : p->x_zero ? LB_W4_FEW / 2 : LB_W4_FEW);
}

/* ---- few rows ---- */

/* Where rows are, in a register each: compilers would keep sums of the stride and each offset instead. */
LB_INLINE void lb_w4_rows_at(const int rows, const lb_w4_scratch *s, ptrdiff_t row, const uint8_t *a[]) {
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++) {
        a[i] = s->a + (row + i) * s->stride;
        __asm__("" : "+r"(a[i]));
    }
}

/* acc (rows) += `groups` (up to LB_W4_RUN) groups of a packed panel, where rows are at `a`, which moves on. Sums have `chains` parts, so
 * that products need not wait for each other. */
LB_INLINE void lb_w4_nibbles(const int rows, const int chains, const int zero, const uint8_t *a[], const uint8_t *packed, ptrdiff_t groups,
                             __m512i z, __m512i acc[]) {
    const __m512i low = _mm512_set1_epi8(15), high = _mm512_set1_epi8((char)0xF0), none = _mm512_setzero_si512();
    __m512i c[LB_W4_AT_ONCE][2][4], n[2] = {none, none};
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < chains; j++)
        c[i][0][j] = j ? none : acc[i], c[i][1][j] = none;
    for (ptrdiff_t g = 0; g < groups; g++, packed += LB_W4_GROUP_BYTES) {
        LB_UNROLL_ALL
        for (int s = 0; s < 4; s++) {
            _mm_prefetch((const char *)((uintptr_t)packed + LB_W4_STREAM + 64 * (uintptr_t)s), _MM_HINT_T0); /* it may lie behind */
            const __m512i v = _mm512_load_si512(packed + 64 * s), w[2] = {_mm512_and_si512(v, low), _mm512_and_si512(v, high)};
            LB_UNROLL_ALL
            for (int i = 0; i < rows; i++)
                LB_UNROLL_ALL
            for (int h = 0; h < 2; h++)
                c[i][h][s % chains] = lb_dpbusd512_at(c[i][h][s % chains], w[h], a[i] + 16 * h + 4 * s);
            if (zero)
                n[0] = lb_dpbusd512(n[0], w[0], z), n[1] = lb_dpbusd512(n[1], w[1], z);
        }
        LB_UNROLL_ALL
        for (int i = 0; i < rows; i++)
            a[i] += LB_W4_GROUP;
    }
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int h = 0; h < 2; h++) {
        LB_UNROLL_ALL
        for (int j = chains / 2; j; j /= 2)
            LB_UNROLL_ALL
        for (int t = 0; t < j; t++)
            c[i][h][t] = _mm512_add_epi32(c[i][h][t], c[i][h][t + j]);
    }
    const __m512i off = _mm512_add_epi32(n[0], _mm512_srai_epi32(n[1], 4));
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++) {
        const __m512i sum = _mm512_add_epi32(c[i][0][0], _mm512_srai_epi32(c[i][1][0], 4));
        acc[i] = zero ? _mm512_sub_epi32(sum, off) : sum;
    }
}

/* acc of rows from `row` on = the integers of a panel with one segment. */
LB_INLINE void lb_w4_few_sums(const int rows, const int zero, const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t row,
                              const uint8_t *packed) {
    const uint8_t *a[LB_W4_AT_ONCE];
    const __m512i z = _mm512_set1_epi8((char)p->x_zero);
    __m512i acc[LB_W4_AT_ONCE];
    lb_w4_rows_at(rows, s, row, a);
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        acc[i] = _mm512_set1_epi32(s->sums[row + i]);
    for (ptrdiff_t left = p->cut.depth / LB_W4_GROUP; left > 0; left -= LB_W4_RUN, packed += LB_W4_RUN * LB_W4_GROUP_BYTES)
        lb_w4_nibbles(rows, rows == 1 ? 4 : rows < 4 ? 2 : 1, zero, a, packed, left < LB_W4_RUN ? left : LB_W4_RUN, z, acc);
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        _mm512_store_si512(s->acc + LB_W4_TOTALS * (row + i), acc[i]);
}

/* The same with several: their scaled sum; `group`: segments are groups. */
LB_INLINE void lb_w4_few_totals(const int rows, const int zero, const int group, const lb_w4_product *p, const lb_w4_scratch *s,
                                ptrdiff_t row, const uint8_t *packed, const float *scales) {
    const uint8_t *a[LB_W4_AT_ONCE];
    const int32_t *start = s->sums + row;
    const __m512i z = _mm512_set1_epi8((char)p->x_zero);
    __m512i acc[LB_W4_AT_ONCE];
    __m512 total[LB_W4_AT_ONCE];
    lb_w4_rows_at(rows, s, row, a);
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        total[i] = _mm512_setzero_ps();
    for (int32_t g = 0; g < p->cut.segments; g++, start += LB_W4_FEW, scales += LB_W4_PANEL) {
        LB_UNROLL_ALL
        for (int i = 0; i < rows; i++)
            acc[i] = _mm512_set1_epi32(start[i]);
        if (group) {
            lb_w4_nibbles(rows, 1, zero, a, packed, 1, z, acc);
            packed += LB_W4_GROUP_BYTES;
        } else
            for (ptrdiff_t left = lb_w4_segment_depth(&p->cut, g) / LB_W4_GROUP, step; left > 0; left -= step) {
                step = left < LB_W4_RUN ? left : LB_W4_RUN;
                lb_w4_nibbles(rows, 1, zero, a, packed, step, z, acc);
                packed += step * LB_W4_GROUP_BYTES;
            }
        const __m512 scale = _mm512_loadu_ps(scales);
        _mm_prefetch((const char *)((uintptr_t)scales + LB_W4_STREAM / 4), _MM_HINT_T0);
        LB_UNROLL_ALL
        for (int i = 0; i < rows; i++)
            total[i] = _mm512_add_ps(total[i], _mm512_mul_ps(_mm512_cvtepi32_ps(acc[i]), scale));
    }
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        _mm512_store_ps((float *)(void *)(s->acc + LB_W4_TOTALS * (row + i)), total[i]);
}

/* Functions, so that each has the registers for itself: one segment without a zero point, and all else. */
#define LB_W4_FEW_OF(rows)                                                                                                                 \
    static __attribute__((noinline)) void lb_w4_channels##rows(const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t row,              \
                                                               const uint8_t *packed, const float *scales) {                               \
        (void)scales;                                                                                                                      \
        lb_w4_few_sums(rows, 0, p, s, row, packed);                                                                                        \
    }                                                                                                                                      \
    static __attribute__((noinline, unused)) void lb_w4_blocks##rows(const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t row,        \
                                                                     const uint8_t *packed, const float *scales) {                         \
        if (p->cut.segments == 1)                                                                                                          \
            lb_w4_few_sums(rows, 1, p, s, row, packed);                                                                                    \
        else if (p->cut.stride > LB_W4_GROUP)                                                                                              \
            lb_w4_few_totals(rows, 1, 0, p, s, row, packed, scales);                                                                       \
        else if (p->x_zero)                                                                                                                \
            lb_w4_few_totals(rows, 1, 1, p, s, row, packed, scales);                                                                       \
        else                                                                                                                               \
            lb_w4_few_totals(rows, 0, 1, p, s, row, packed, scales);                                                                       \
    }

LB_W4_FEW_OF(1)
LB_W4_FEW_OF(2)
LB_W4_FEW_OF(3)
LB_W4_FEW_OF(4)
LB_W4_FEW_OF(5)
LB_W4_FEW_OF(6)
LB_W4_FEW_OF(7)
LB_W4_FEW_OF(8)

typedef void lb_w4_few_fn(const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t row, const uint8_t *packed, const float *scales);

/* acc of all rows: as many passes over a panel as rows need, about as many in each. */
LB_INLINE void lb_w4_few(const int blocks, const lb_w4_product *p, const lb_w4_scratch *s, ptrdiff_t rows, const uint8_t *packed,
                         const float *scales) {
    lb_w4_few_fn *const channels[] = {lb_w4_channels1, lb_w4_channels2, lb_w4_channels3, lb_w4_channels4,
                                      lb_w4_channels5, lb_w4_channels6, lb_w4_channels7, lb_w4_channels8};
    for (ptrdiff_t row = 0, passes = (rows + LB_W4_AT_ONCE - 1) / LB_W4_AT_ONCE; passes; passes--) {
        const ptrdiff_t step = (rows - row + passes - 1) / passes;
        if (blocks && (p->cut.segments > 1 || p->x_zero)) {
            lb_w4_few_fn *const all[] = {lb_w4_blocks1, lb_w4_blocks2, lb_w4_blocks3, lb_w4_blocks4,
                                         lb_w4_blocks5, lb_w4_blocks6, lb_w4_blocks7, lb_w4_blocks8};
            all[step - 1](p, s, row, packed, scales);
        } else
            channels[step - 1](p, s, row, packed, scales);
        row += step;
    }
}

/* ---- many rows ---- */

/* `k` elements of a packed panel as bytes; start[j] = -offset * (sum of the weights of column j). */
static __attribute__((noinline)) void lb_w4_unpack(const uint8_t *packed, ptrdiff_t k, int32_t offset, int8_t *panel, int32_t *start) {
    const __m512i low = _mm512_set1_epi8(15), eight = _mm512_set1_epi8(8), ones = _mm512_set1_epi8(1);
    __m512i sums = _mm512_setzero_si512();
    for (ptrdiff_t g = 0; g < k; g += LB_W4_GROUP, packed += LB_W4_GROUP_BYTES, panel += 2 * LB_W4_GROUP_BYTES)
        LB_UNROLL_ALL
    for (int i = 0; i < 4; i++) {
        const __m512i v = _mm512_load_si512(packed + 64 * i);
        const __m512i a = _mm512_sub_epi8(_mm512_and_si512(v, low), eight);
        const __m512i b = _mm512_sub_epi8(_mm512_and_si512(_mm512_srli_epi16(v, 4), low), eight);
        sums = lb_dpbusd512(sums, ones, _mm512_add_epi8(a, b));
        _mm512_store_si512(panel + 64 * i, a);
        _mm512_store_si512(panel + LB_W4_GROUP_BYTES + 64 * i, b);
    }
    _mm512_store_si512(start, _mm512_mullo_epi32(sums, _mm512_set1_epi32(-offset)));
}

/* Unpacked segments first ... last - 1 of up to two panels: `second` bytes, starts and scales from one to the other. */
typedef struct {
    int32_t first, last;
    const int8_t *panel;
    const int32_t *starts;
    const float *scales;
    ptrdiff_t second, second_start, second_scale;
} lb_w4_piece;

/* acc (rows x `wide` panels) = or, if there are earlier segments, += those of a piece, scaled; `group`: segments are groups. */
LB_INLINE void lb_w4_tile(const int rows, const int wide, const int group, const lb_w4_product *p, const lb_w4_scratch *s,
                          const lb_w4_piece *r, ptrdiff_t row) {
    const ptrdiff_t stride = s->stride;
    const uint8_t *a = s->a + row * stride + r->first * p->cut.stride;
    const int8_t *w = r->panel;
    const int32_t *start = r->starts;
    const float *scales = r->scales;
    float *out = (float *)(void *)s->acc + LB_W4_TOTALS * row;
    __m512 total[LB_W4_SEGMENTS_TILE][LB_W4_WIDE];
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < wide; j++)
        total[i][j] = r->first ? _mm512_load_ps(out + LB_W4_TOTALS * i + 16 * j) : _mm512_setzero_ps();
    for (int32_t g = r->first; g < r->last; g++, start += 16, scales += 16) {
        __m512i c[LB_W4_SEGMENTS_TILE][LB_W4_WIDE];
        LB_UNROLL_ALL
        for (int i = 0; i < rows; i++)
            LB_UNROLL_ALL
        for (int j = 0; j < wide; j++)
            c[i][j] = _mm512_load_si512(start + j * r->second_start);
        for (const uint8_t *end = a + (group ? LB_W4_GROUP : lb_w4_segment_depth(&p->cut, g)); a < end;
             a += LB_W4_GROUP, w += 2 * LB_W4_GROUP_BYTES)
            LB_UNROLL_ALL
        for (int q = 0; q < 8; q++) {
            __m512i v[LB_W4_WIDE];
            LB_UNROLL_ALL
            for (int j = 0; j < wide; j++)
                v[j] = _mm512_load_si512(w + j * r->second + 64 * q);
            LB_UNROLL_ALL
            for (int i = 0; i < rows; i++) {
                const __m512i x = lb_quad_at(a + i * stride + 4 * q);
                LB_UNROLL_ALL
                for (int j = 0; j < wide; j++)
                    c[i][j] = lb_dpbusd512(c[i][j], x, v[j]);
            }
        }
        LB_UNROLL_ALL
        for (int j = 0; j < wide; j++) {
            const __m512 scale = _mm512_loadu_ps(scales + j * r->second_scale);
            LB_UNROLL_ALL
            for (int i = 0; i < rows; i++)
                total[i][j] = _mm512_add_ps(total[i][j], _mm512_mul_ps(_mm512_cvtepi32_ps(c[i][j]), scale));
        }
    }
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++)
        LB_UNROLL_ALL
    for (int j = 0; j < wide; j++)
        _mm512_store_ps(out + LB_W4_TOTALS * i + 16 * j, total[i][j]);
}

#define LB_W4_TILE_OF(rows, wide)                                                                                                          \
    static __attribute__((noinline)) void lb_w4_tile##rows##x##wide(const lb_w4_product *p, const lb_w4_scratch *s, const lb_w4_piece *r,  \
                                                                    ptrdiff_t row) {                                                       \
        if (p->cut.stride == LB_W4_GROUP)                                                                                                  \
            lb_w4_tile(rows, wide, 1, p, s, r, row);                                                                                       \
        else                                                                                                                               \
            lb_w4_tile(rows, wide, 0, p, s, r, row);                                                                                       \
    }

LB_W4_TILE_OF(6, 2)
LB_W4_TILE_OF(2, 2)
LB_W4_TILE_OF(1, 2)
LB_W4_TILE_OF(6, 1)
LB_W4_TILE_OF(2, 1)
LB_W4_TILE_OF(1, 1)

/* Columns n ... n + width - 1, of up to two panels, of many rows with several segments. */
LB_INLINE void lb_w4_many_segments(const lb_w4_product *p, const lb_result to, const lb_w4_scratch *s, ptrdiff_t first, ptrdiff_t rows,
                                   ptrdiff_t n, ptrdiff_t width) {
    const int wide = width > LB_W4_PANEL ? 2 : 1;
    const int32_t each = (int32_t)(p->cut.stride < LB_W4_DEPTH ? LB_W4_DEPTH / p->cut.stride : 1);
    const uint8_t *packed = p->packed + n * (p->cut.depth / 2);
    const lb_w4_columns columns = lb_w4_columns_at(p, n, width, NULL);
    const ptrdiff_t deep = lb_w4_deep(&p->cut);
    for (int32_t from = 0; from < p->cut.segments; from += each) {
        const int32_t last = p->cut.segments - from < each ? p->cut.segments : from + each;
        int32_t *starts = (int32_t *)(void *)s->starts;
        for (int j = 0; j < wide; j++) {
            int8_t *panel = s->panel + 16 * deep * j;
            int32_t *start = starts + deep / 2 * j;
            for (int32_t g = from; g < last; g++, start += 16) {
                const ptrdiff_t k = lb_w4_segment_depth(&p->cut, g);
                lb_w4_unpack(packed + 8 * (p->cut.depth * j + g * p->cut.stride), k, 128 + p->x_zero, panel, start);
                panel += 16 * k;
            }
        }
        const lb_w4_piece piece = {from,
                                   last,
                                   s->panel,
                                   starts,
                                   p->scales + n * p->cut.segments + 16 * from,
                                   16 * deep,
                                   deep / 2,
                                   16 * (ptrdiff_t)p->cut.segments};
        const int whole = last == p->cut.segments;
        lb_w4_ahead next = lb_w4_ahead_of(packed + 8 * p->cut.depth * wide, 8 * p->cut.depth * wide, rows / LB_W4_SEGMENTS_TILE);
        for (ptrdiff_t i = 0, step; i < rows; i += step) {
            step = rows - i >= LB_W4_SEGMENTS_TILE ? LB_W4_SEGMENTS_TILE : rows - i >= 2 ? 2 : 1;
            if (whole)
                lb_w4_fetch(&next);
            if (step == LB_W4_SEGMENTS_TILE)
                (wide == 2 ? lb_w4_tile6x2 : lb_w4_tile6x1)(p, s, &piece, i);
            else if (step == 2)
                (wide == 2 ? lb_w4_tile2x2 : lb_w4_tile2x1)(p, s, &piece, i);
            else
                (wide == 2 ? lb_w4_tile1x2 : lb_w4_tile1x1)(p, s, &piece, i);
            for (ptrdiff_t j = i; j < i + step && whole; j++)
                lb_w4_put_totals(p, to, &columns, s->acc + LB_W4_TOTALS * j, first + j);
        }
    }
}

/* The same with one segment. */
LB_INLINE void lb_w4_many_channels(const lb_w4_product *p, const lb_result to, const lb_w4_scratch *s, ptrdiff_t first, ptrdiff_t rows,
                                   ptrdiff_t n, ptrdiff_t width) {
    const int wide = width > LB_W4_PANEL ? 2 : 1;
    const ptrdiff_t deep = lb_w4_deep(&p->cut), depth = p->cut.depth;
    const uint8_t *packed = p->packed + n * (depth / 2);
    _Alignas(64) int32_t start[LB_W4_TOTALS] = {0}, more[LB_W4_PANEL], zeros[LB_W4_TOTALS] = {0};
    ptrdiff_t at = 0;
    do {
        const ptrdiff_t k = depth - at < LB_W4_DEPTH ? depth - at : LB_W4_DEPTH;
        for (int j = 0; j < wide; j++) {
            lb_w4_unpack(packed + 8 * (depth * j + at), k, 128 + p->x_zero, s->panel + 16 * deep * j, more);
            for (int c = 0; c < LB_W4_PANEL; c++)
                start[16 * j + c] = (int32_t)((uint32_t)start[16 * j + c] + (uint32_t)more[c]);
        }
        const int whole = at + k == depth;
        const lb_w4_columns columns = lb_w4_columns_at(p, n, width, start);
        lb_w4_ahead next = lb_w4_ahead_of(packed + 8 * depth * wide, 8 * depth * wide, rows / LB_ROWS);
        for (ptrdiff_t i = 0, step; i < rows; i += step) {
            step = rows - i < LB_ROWS ? rows - i : LB_ROWS;
            if (whole)
                lb_w4_fetch(&next);
            lb_dot4_panels_into(wide, step, s->a + i * s->stride + at, s->stride, s->panel, 16 * deep, k / 4, at ? NULL : zeros,
                                s->acc + LB_W4_TOTALS * i, LB_W4_TOTALS);
            for (ptrdiff_t j = i; j < i + step && whole; j++)
                lb_w4_put_sums(p, to, &columns, s->acc + LB_W4_TOTALS * j, first + j);
        }
        at += k;
    } while (at < depth);
}

/* Columns left ... right - 1 (left is a multiple of 16) of the `rows` rows in s, which are rows first, first + 1, ... of out. */
LB_INLINE void lb_w4_multiply(const lb_w4_product *p, const lb_result to, const int blocks, const lb_w4_scratch *s, ptrdiff_t first,
                              ptrdiff_t rows, ptrdiff_t left, ptrdiff_t right) {
    const int few = lb_w4_are_few(p, rows), one = !blocks || p->cut.segments == 1;
    for (ptrdiff_t n = left; n < right; n += few ? LB_W4_PANEL : LB_W4_TOTALS) {
        const ptrdiff_t most = few ? LB_W4_PANEL : LB_W4_TOTALS, width = right - n < most ? right - n : most;
        if (!few && one)
            lb_w4_many_channels(p, to, s, first, rows, n, width);
        else if (!few)
            lb_w4_many_segments(p, to, s, first, rows, n, width);
        if (!few)
            continue;
        const lb_w4_columns columns = lb_w4_columns_at(p, n, width, NULL);
        lb_w4_few(blocks, p, s, rows, p->packed + n * (p->cut.depth / 2), p->scales + n * p->cut.segments);
        for (ptrdiff_t i = 0; i < rows; i++)
            if (one)
                lb_w4_put_sums(p, to, &columns, s->acc + LB_W4_TOTALS * i, first + i);
            else
                lb_w4_put_totals(p, to, &columns, s->acc + LB_W4_TOTALS * i, first + i);
    }
}

#endif
