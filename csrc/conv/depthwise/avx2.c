/* Rows of the padded image are taken in pairs, 0 with 1, 2 with 3: the bytes of both, interleaved and widened, meet the weights of two rows
 * in one vpmaddwd, and a weight of 0 meets the row that a window does not have. Up to 32 channels at a time, a few pairs of rows are kept
 * in a ring, so that each is interleaved once for all windows that see it. Bytes are taken as x + 128 (widening is then an interleaving
 * with 0), padding is the zero point's, and what both add is taken off the bias. Sums are modulo 2^32. Pairs that lie wholly in the padding
 * are the same for all pixels of a row: they are multiplied once.
 *
 * Rows of a small image are too short to be worth a loop each: the pixels of several are one list, for windows that start in the upper row
 * of a pair and for the others. */
#include "lb.h"
#include "base/madd_avx2.h"
#include "base/requantize_avx2.h"

lb_dwconv_s8_fn lb_dwconv_s8__avx2;

enum { BLOCK = 32, VECTORS = 4, ACROSS = 4, SLIDE = 8, WIDEST = 5, CACHED = 512 << 10, LISTED = 256 };

typedef struct {
    const int8_t *end; /* of the input */
    __m256i *ring;     /* (pairs, VECTORS, columns) of 8 channels each */
    int32_t columns;
    int32_t row_pairs; /* in the ring */
    int32_t first;     /* channel of the block */
    int32_t count;     /* channels of the block, 1 ... BLOCK */
    _Alignas(32) int32_t start[BLOCK];
    _Alignas(32) float m[BLOCK];
    __m256 most;
    __m256i zero_point, lo;
    __m256i padding;     /* a pair of it */
    int bare;            /* saturation alone clamps to the range */
    int8_t zeros[BLOCK]; /* the input's zero point */
} state;

/* The bytes of 32 channels, plus 128. Dwords of a lane are 4 apart after both rounds of interleaving: with the even ones in the low lane
 * 8 channels are neighbours. */
LB_INLINE __m256i ordered(const int8_t *from) {
    const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)from);
    return _mm256_xor_si256(_mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 2, 4, 6, 1, 3, 5, 7)), _mm256_set1_epi8(-128));
}

LB_INLINE void pair(const int vectors, const int8_t *a, const int8_t *b, ptrdiff_t columns, __m256i *to) {
    const __m256i u = ordered(a), v = ordered(b), none = _mm256_setzero_si256();
    const __m256i low = _mm256_unpacklo_epi8(u, v), high = _mm256_unpackhi_epi8(u, v);
    to[0] = _mm256_unpacklo_epi8(low, none);
    if (vectors > 1)
        to[columns] = _mm256_unpackhi_epi8(low, none);
    if (vectors > 2)
        to[2 * columns] = _mm256_unpacklo_epi8(high, none);
    if (vectors > 3)
        to[3 * columns] = _mm256_unpackhi_epi8(high, none);
}

/* `width` columns of two rows (NULL: padding) as pairs. */
static void interleave(const lb_dwconv_s8_params *p, const state *s, const int8_t *a, const int8_t *b, int32_t width, __m256i *to) {
    const ptrdiff_t columns = s->columns, step_a = a ? p->channels : 0, step_b = b ? p->channels : 0;
    const int vectors = (s->count + 7) / 8;
    /* Whole blocks may be read up to the end of the input only; b is after a. */
    const int8_t *far = b ? b : a;
    const ptrdiff_t reach = far ? (s->end - BLOCK - far + p->channels) / p->channels : width;
    const int32_t safe = reach < 0 ? 0 : reach < width ? (int32_t)reach : width;
    a = a ? a : s->zeros, b = b ? b : s->zeros;
    int32_t i = 0;
    if (vectors == VECTORS)
        for (; i < safe; i++)
            pair(VECTORS, a + i * step_a, b + i * step_b, columns, to + i);
    for (; i < safe; i++)
        pair(vectors, a + i * step_a, b + i * step_b, columns, to + i);
    for (; i < width; i++) {
        int8_t last[2][BLOCK] = {{0}};
        const int8_t *from[2] = {a + i * step_a, b + i * step_b};
        for (int k = 0; k < 2; k++)
            memcpy(last[k], from[k], (size_t)((k ? step_b : step_a) && s->end - from[k] < BLOCK ? s->end - from[k] : BLOCK));
        pair(vectors, last[0], last[1], columns, to + i);
    }
}

/* acc = start + the six products of a window of 3x3, in assembly for the reason of lb_madd_pair: the weights stay in registers. */
LB_INLINE __m256i sum6(const __m256i *a, const __m256i *b, const __m256i w[6], __m256i start) {
    __m256i acc, t;
    __asm__("vpmaddwd %[a0], %[w0], %[acc]\n\t"
            "vpmaddwd %[a1], %[w1], %[t]\n\t"
            "vpaddd %[start], %[acc], %[acc]\n\t"
            "vpaddd %[t], %[acc], %[acc]\n\t"
            "vpmaddwd %[a2], %[w2], %[t]\n\t"
            "vpaddd %[t], %[acc], %[acc]\n\t"
            "vpmaddwd %[b0], %[w3], %[t]\n\t"
            "vpaddd %[t], %[acc], %[acc]\n\t"
            "vpmaddwd %[b1], %[w4], %[t]\n\t"
            "vpaddd %[t], %[acc], %[acc]\n\t"
            "vpmaddwd %[b2], %[w5], %[t]\n\t"
            "vpaddd %[t], %[acc], %[acc]"
            : [acc] "=&x"(acc), [t] "=&x"(t)
            : [a0] "m"(a[0]), [a1] "m"(a[1]), [a2] "m"(a[2]), [b0] "m"(b[0]), [b1] "m"(b[1]), [b2] "m"(b[2]), [w0] "x"(w[0]),
              [w1] "x"(w[1]), [w2] "x"(w[2]), [w3] "x"(w[3]), [w4] "x"(w[4]), [w5] "x"(w[5]), [start] "x"(start));
    return acc;
}

/* The sum of 8 channels times their multipliers, rounded; the lower bound is applied later. */
LB_INLINE __m256i rounded(const state *s, const int bare, __m256i acc, __m256 m) {
    const __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(acc), m);
    return _mm256_cvtps_epi32(bare ? v : _mm256_min_ps(v, s->most));
}

/* 8 channels of `many` neighbouring pixels: clamped, in the order of memory. */
LB_INLINE void store(const state *s, const int many, __m256i w01, __m256i w23, int8_t *out, ptrdiff_t step, int32_t width) {
    const __m256i mixed =
        _mm256_max_epi8(_mm256_packs_epi16(_mm256_adds_epi16(w01, s->zero_point), _mm256_adds_epi16(w23, s->zero_point)), s->lo);
    const __m256i bytes = _mm256_permutevar8x32_epi32(mixed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
    if (width == 8) {
        _mm_storel_epi64((__m128i *)(void *)out, low);
        if (many > 1)
            _mm_storeh_pi((__m64 *)(void *)(out + step), _mm_castsi128_ps(low));
        if (many > 2)
            _mm_storel_epi64((__m128i *)(void *)(out + 2 * step), high);
        if (many > 3)
            _mm_storeh_pi((__m64 *)(void *)(out + 3 * step), _mm_castsi128_ps(high));
        return;
    }
    int8_t all[ACROSS][8];
    _mm256_storeu_si256((__m256i *)(void *)all, bytes);
    for (int i = 0; i < many; i++)
        memcpy(out + i * step, all[i], (size_t)width);
}

LB_INLINE void finish(const state *s, const int many, const __m256i acc[ACROSS], __m256 m, int8_t *out, ptrdiff_t step, int32_t width) {
    __m256i q[ACROSS];
    for (int i = 0; i < ACROSS; i++)
        q[i] = i < many ? rounded(s, 0, acc[i], m) : _mm256_setzero_si256();
    store(s, many, _mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3]), out, step, width);
}

/* The pairs that a row of outputs reads: `count` pairs of the ring from pair `slot` on, and padding `before` and `after` them. */
typedef struct {
    int32_t slot, before, count, after, kernel_w;
    ptrdiff_t dilation, stride;
    const int16_t *weights;
    ptrdiff_t weight_step; /* from tap to tap */
    ptrdiff_t pair_step;   /* from pair to pair */
} window;

static inline const __m256i *pairs_at(const state *s, int32_t slot, int v) {
    return s->ring + ((ptrdiff_t)slot * VECTORS + v) * s->columns;
}

/* The initial sums of 8 channels, including the products of padding, which are the same for all pixels. */
static __m256i start_of(const state *s, const window *t, int v) {
    __m256i start = _mm256_load_si256((const __m256i *)(const void *)(s->start + 8 * v));
    for (int32_t k = 0; k < t->before + t->count + t->after; k++)
        if (k < t->before || k >= t->before + t->count)
            for (int32_t j = 0; j < t->kernel_w; j++) {
                const void *w = t->weights + k * t->pair_step + j * t->weight_step + 16 * v;
                start = _mm256_add_epi32(start, _mm256_madd_epi16(_mm256_loadu_si256(w), s->padding));
            }
    return start;
}

/* The initial sums of a row, and the place of its results. */
typedef struct {
    __m256i start;
    __m256 m;
    int8_t *out;
    ptrdiff_t step;
    int32_t width;
} goal;

/* acc += the products of pairs. In assembly, because compilers put the additions in another order and run out of registers. */
LB_INLINE void add_product(__m256i *acc, __m256i pairs, __m256i w) {
    __m256i t;
    __asm__("vpmaddwd %[w], %[pairs], %[t]\n\t"
            "vpaddd %[t], %[acc], %[acc]"
            : [acc] "+x"(*acc), [t] "=&x"(t)
            : [pairs] "x"(pairs), [w] "x"(w));
}

/* 8 bytes of four neighbouring pixels. */
LB_INLINE void put4(const state *s, const int bare, const __m256i acc[ACROSS], __m256 m, int8_t *out, ptrdiff_t step) {
    const __m256i w01 = _mm256_packs_epi32(rounded(s, bare, acc[0], m), rounded(s, bare, acc[1], m));
    const __m256i w23 = _mm256_packs_epi32(rounded(s, bare, acc[2], m), rounded(s, bare, acc[3], m));
    __m256i bytes = _mm256_packs_epi16(_mm256_adds_epi16(w01, s->zero_point), _mm256_adds_epi16(w23, s->zero_point));
    if (!bare)
        bytes = _mm256_max_epi8(bytes, s->lo);
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
    _mm_storel_epi64((__m128i *)(void *)out, low);
    _mm_storeh_pi((__m64 *)(void *)(out + step), _mm_castsi128_ps(low));
    _mm_storel_epi64((__m128i *)(void *)(out + 2 * step), high);
    _mm_storeh_pi((__m64 *)(void *)(out + 3 * step), _mm_castsi128_ps(high));
}

/* `count` (4 or 8) neighbouring pixels from column `at` of the ring on, for windows of `kernel` columns without dilation. The taps of a
 * pair of rows stay in registers, and what is read of the ring meets each of them in turn. */
LB_INLINE void slide(const state *s, const int bare, const int count, const int kernel, const int stride, const window *t, int v,
                     ptrdiff_t at, const goal *g, int8_t *out) {
    __m256i acc[SLIDE], taps[WIDEST];
    LB_UNROLL
    for (int i = 0; i < count; i++)
        acc[i] = g->start;
    const int16_t *w = t->weights + t->before * t->pair_step + 16 * v;
    for (int32_t k = 0, slot = t->slot; k < t->count; k++, slot = slot + 1 < s->row_pairs ? slot + 1 : 0, w += t->pair_step) {
        const __m256i *from = pairs_at(s, slot, v) + at;
        __asm__("" : "+r"(from)); /* one address, and not one for each column */
        LB_UNROLL
        for (int j = 0; j < kernel; j++)
            taps[j] = _mm256_loadu_si256((const __m256i *)(const void *)(w + j * t->weight_step));
#pragma GCC unroll 19
        for (int column = 0; column < (count - 1) * stride + kernel; column++) {
            const __m256i pairs = _mm256_load_si256(from + column);
            LB_UNROLL
            for (int j = 0; j < kernel; j++)
                if (column >= j && (column - j) % stride == 0 && (column - j) / stride < count)
                    add_product(&acc[(column - j) / stride], pairs, taps[j]);
        }
    }
    put4(s, bare, acc, g->m, out, g->step);
    if (count > ACROSS)
        put4(s, bare, acc + ACROSS, g->m, out + ACROSS * g->step, g->step);
}

/* A row of `many` pixels, four at least. Some may come twice. */
LB_INLINE void slides(const state *s, const int bare, const int kernel, const int stride, const window *t, int v, int32_t many,
                      const goal *g) {
    int32_t o = 0;
    for (; many - o > ACROSS && many >= SLIDE; o += SLIDE) {
        o = many - o < SLIDE ? many - SLIDE : o;
        slide(s, bare, SLIDE, kernel, stride, t, v, (ptrdiff_t)o * stride, g, g->out + o * g->step);
    }
    for (; o < many; o += ACROSS) {
        o = many - o < ACROSS ? many - ACROSS : o;
        slide(s, bare, ACROSS, kernel, stride, t, v, (ptrdiff_t)o * stride, g, g->out + o * g->step);
    }
}

typedef void slides_fn(const state *s, const window *t, int v, int32_t many, const goal *g);

#define SLIDES(kernel, stride, bare)                                                                                                       \
    static void slides_##kernel##_##stride##_##bare(const state *s, const window *t, int v, int32_t many, const goal *g) {                 \
        slides(s, bare, kernel, stride, t, v, many, g);                                                                                    \
    }
SLIDES(3, 1, 0)
SLIDES(3, 2, 0)
SLIDES(5, 1, 0)
SLIDES(5, 2, 0)
SLIDES(3, 1, 1)
SLIDES(3, 2, 1)
SLIDES(5, 1, 1)
SLIDES(5, 2, 1)

/* The sliding-window function for rows of this many pixels; NULL if there is none. */
static slides_fn *slides_of(const state *s, const window *t, int32_t many, int32_t width) {
    static slides_fn *const known[2][2][2] = {{{slides_3_1_0, slides_3_1_1}, {slides_3_2_0, slides_3_2_1}},
                                              {{slides_5_1_0, slides_5_1_1}, {slides_5_2_0, slides_5_2_1}}};
    if ((t->kernel_w != 3 && t->kernel_w != 5) || t->stride > 2 || t->dilation != 1 || many < ACROSS || width < 8)
        return NULL;
    return known[t->kernel_w == 5][t->stride - 1][s->bare != 0];
}

/* The sums of `many` pixels for any kernel. */
LB_INLINE void any(const state *s, const int many, const window *t, int v, ptrdiff_t at, const goal *g) {
    __m256i acc[ACROSS];
    for (int i = 0; i < many; i++)
        acc[i] = g->start;
    const int16_t *w = t->weights + t->before * t->pair_step + 16 * v;
    for (int32_t k = 0, slot = t->slot; k < t->count; k++, slot = slot + 1 < s->row_pairs ? slot + 1 : 0) {
        const __m256i *from = pairs_at(s, slot, v) + at;
        for (int32_t j = 0; j < t->kernel_w; j++, from += t->dilation, w += t->weight_step) {
            const __m256i weight = _mm256_loadu_si256((const __m256i *)(const void *)w);
            for (int i = 0; i < many; i++)
                acc[i] = _mm256_add_epi32(acc[i], _mm256_madd_epi16(weight, from[i * t->stride]));
        }
    }
    finish(s, many, acc, g->m, g->out, g->step, g->width);
}

/* `many` pixels of a row, 8 channels of them. */
static void row(const state *s, const window *t, int v, int32_t many, int8_t *out, ptrdiff_t step) {
    const __m256i start = start_of(s, t, v);
    const __m256 m = _mm256_load_ps(s->m + 8 * v);
    const int32_t width = s->count - 8 * v < 8 ? s->count - 8 * v : 8;
    const ptrdiff_t stride = t->stride;
    int32_t o = 0;
    if (t->count == 2 && t->kernel_w == 3 && t->dilation == 1) {
        const __m256i *a = pairs_at(s, t->slot, v), *b = pairs_at(s, t->slot + 1 < s->row_pairs ? t->slot + 1 : 0, v);
        __m256i w[6];
        for (int i = 0; i < 6; i++)
            w[i] = _mm256_loadu_si256((const __m256i *)(const void *)(t->weights + t->before * t->pair_step + 16 * v + i * t->weight_step));
        if (many >= 4) { /* the pixels before are rounded while these are summed: no chain waits for another */
            __m256i acc[ACROSS];
            for (int i = 0; i < ACROSS; i++)
                acc[i] = sum6(a + i * stride, b + i * stride, w, start);
            int32_t before = 0;
            for (o = 4; o + 2 <= many; before = o, o += 4) {
                o = o + 4 <= many ? o : many - 4; /* some pixels are computed twice */
                const __m256i *c = a + o * stride, *d = b + o * stride;
                const __m256i q0 = rounded(s, 0, acc[0], m);
                acc[0] = sum6(c, d, w, start);
                const __m256i q1 = rounded(s, 0, acc[1], m), w01 = _mm256_packs_epi32(q0, q1);
                acc[1] = sum6(c + stride, d + stride, w, start);
                const __m256i q2 = rounded(s, 0, acc[2], m);
                acc[2] = sum6(c + 2 * stride, d + 2 * stride, w, start);
                const __m256i q3 = rounded(s, 0, acc[3], m), w23 = _mm256_packs_epi32(q2, q3);
                acc[3] = sum6(c + 3 * stride, d + 3 * stride, w, start);
                store(s, 4, w01, w23, out + before * step, step, width);
            }
            finish(s, 4, acc, m, out + before * step, step, width);
        }
        for (; o < many; o++) {
            const __m256i acc[ACROSS] = {sum6(a + o * stride, b + o * stride, w, start)};
            finish(s, 1, acc, m, out + o * step, step, width);
        }
        return;
    }
    goal g = {start, m, out, step, width};
    slides_fn *const sliding = slides_of(s, t, many, width);
    if (sliding) {
        sliding(s, t, v, many, &g);
        return;
    }
    for (; o + 4 <= many; o += 4, g.out = out + o * step)
        any(s, 4, t, v, o * stride, &g);
    for (; o < many; o++, g.out = out + o * step)
        any(s, 1, t, v, o * stride, &g);
}

/* A pixel of a list: where its window is, from the first vector of the ring on, and where it goes. */
typedef struct {
    uint32_t from, to; /* bytes */
} pixel;

/* The pixels of rows begin ... end - 1 whose windows start in the lower row of a pair, or in the upper. Gives how many. */
static int32_t find(const lb_dwconv_s8_params *p, const state *s, int lower, int32_t begin, int32_t end, pixel *list) {
    const int32_t first = begin * p->stride_h >> 1;
    int32_t count = 0;
    for (int32_t r = begin; r < end; r++) {
        const int32_t top = r * p->stride_h;
        if ((top & 1) != lower)
            continue;
        uint32_t from = (uint32_t)(((top >> 1) - first) * VECTORS * s->columns) * 32,
                 to = (uint32_t)((r - begin) * p->out_w * p->out_stride);
        for (int32_t o = 0; o < p->out_w; o++, from += 32 * (uint32_t)p->stride_w, to += (uint32_t)p->out_stride)
            list[count++] = (pixel){from, to};
    }
    return count;
}

LB_INLINE __m256i listed(const char *ring, ptrdiff_t next, pixel at, const __m256i w[6], __m256i start) {
    const char *a = ring + at.from;
    return sum6((const __m256i *)(const void *)a, (const __m256i *)(const void *)(a + next), w, start);
}

/* 8 bytes of four pixels, anywhere. */
LB_INLINE void scatter(const state *s, const int bare, __m256i w01, __m256i w23, int8_t *out, const pixel *list) {
    __m256i bytes = _mm256_packs_epi16(_mm256_adds_epi16(w01, s->zero_point), _mm256_adds_epi16(w23, s->zero_point));
    if (!bare)
        bytes = _mm256_max_epi8(bytes, s->lo);
    bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    const __m128i low = _mm256_castsi256_si128(bytes), high = _mm256_extracti128_si256(bytes, 1);
    _mm_storel_epi64((__m128i *)(void *)(out + list[0].to), low);
    _mm_storeh_pi((__m64 *)(void *)(out + list[1].to), _mm_castsi128_ps(low));
    _mm_storel_epi64((__m128i *)(void *)(out + list[2].to), high);
    _mm_storeh_pi((__m64 *)(void *)(out + list[3].to), _mm_castsi128_ps(high));
}

/* 8 channels of the pixels of a list, of which there are four at least. */
LB_INLINE void pixels(const state *s, const int bare, int v, const int16_t *weights, ptrdiff_t step, const pixel *list, int32_t count,
                      int8_t *out) {
    const __m256i start = _mm256_load_si256((const __m256i *)(const void *)(s->start + 8 * v));
    const __m256 m = _mm256_load_ps(s->m + 8 * v);
    const char *ring = (const char *)(s->ring + (ptrdiff_t)v * s->columns);
    const ptrdiff_t next = 32 * (ptrdiff_t)VECTORS * s->columns;
    __m256i w[6], acc[ACROSS];
    LB_UNROLL
    for (int i = 0; i < 6; i++)
        w[i] = _mm256_loadu_si256((const __m256i *)(const void *)(weights + 16 * v + i * step));
    LB_UNROLL
    for (int i = 0; i < ACROSS; i++)
        acc[i] = listed(ring, next, list[i], w, start);
    const pixel *end = list + count;
    while (list + ACROSS < end) { /* as in row */
        const pixel *now = end - list >= 2 * ACROSS ? list + ACROSS : end - ACROSS;
        const __m256i q0 = rounded(s, bare, acc[0], m);
        acc[0] = listed(ring, next, now[0], w, start);
        const __m256i q1 = rounded(s, bare, acc[1], m), w01 = _mm256_packs_epi32(q0, q1);
        acc[1] = listed(ring, next, now[1], w, start);
        const __m256i q2 = rounded(s, bare, acc[2], m);
        acc[2] = listed(ring, next, now[2], w, start);
        const __m256i q3 = rounded(s, bare, acc[3], m), w23 = _mm256_packs_epi32(q2, q3);
        acc[3] = listed(ring, next, now[3], w, start);
        scatter(s, bare, w01, w23, out, list);
        list = now;
    }
    const __m256i w01 = _mm256_packs_epi32(rounded(s, bare, acc[0], m), rounded(s, bare, acc[1], m));
    scatter(s, bare, w01, _mm256_packs_epi32(rounded(s, bare, acc[2], m), rounded(s, bare, acc[3], m)), out, list);
}

/* At least four pixels: the last one is repeated. */
static int32_t filled(pixel *list, int32_t count) {
    for (; count && count < ACROSS; count++)
        list[count] = list[count - 1];
    return count;
}

/* The block of channels from c on, and what belongs to it: the bias without zero points, multipliers. The last block is of whole vectors
 * if there are so many channels: some come twice. */
static void choose(const lb_dwconv_s8_params *p, const int32_t *sums, const int32_t *bias, const float *multiplier, int32_t c, state *s) {
    const int32_t rest = p->channels - c, vectors = (rest + 7) / 8 * 8, most = vectors < BLOCK ? vectors : BLOCK;
    s->count = p->channels < most ? p->channels : most;
    s->first = rest < s->count ? p->channels - s->count : c;
    memset(s->start, 0, sizeof s->start);
    memset(s->m, 0, sizeof s->m);
    memcpy(s->m, multiplier + s->first, sizeof *s->m * (size_t)s->count);
    for (int32_t i = 0; i < s->count; i++)
        s->start[i] = (int32_t)((uint32_t)bias[s->first + i] - (uint32_t)(p->x_zero + 128) * (uint32_t)sums[s->first + i]);
    s->bare = p->lo == -128 && p->hi == 127;
    for (int32_t i = 0; i < BLOCK; i++)
        s->bare &= s->m[i] <= 0.5f;
}

/* Columns of the ring: `before` of padding, `width` of the image from column `from` on, and padding again. */
typedef struct {
    int32_t before, from, width;
} span;

static span span_of(const lb_dwconv_s8_params *p, const state *s, int32_t left) {
    const int32_t at = left * p->stride_w - p->pad_w; /* column of the image that is the ring's first */
    const int32_t before = at < 0 ? (-at < s->columns ? -at : s->columns) : 0, from = at < 0 ? 0 : at;
    const int32_t rest = s->columns - before, inside = p->in_w > from ? p->in_w - from : 0;
    return (span){before, from, rest < inside ? rest : inside};
}

static void pad(const lb_dwconv_s8_params *p, const state *s, span c) {
    for (int32_t l = 0; l < s->row_pairs * VECTORS; l++) {
        __m256i *to = s->ring + (ptrdiff_t)l * s->columns;
        for (int32_t i = 0; i < c.before; i++)
            to[i] = _mm256_set1_epi16((int16_t)(p->x_zero + 128));
        for (int32_t i = c.before + c.width; i < s->columns; i++)
            to[i] = _mm256_set1_epi16((int16_t)(p->x_zero + 128));
    }
}

/* Two rows of an image, of which either may be outside, as a pair of the ring. */
static void fetch(const lb_dwconv_s8_params *p, const state *s, span c, const int8_t *image, int32_t upper, int32_t lower, int32_t slot) {
    const ptrdiff_t line = (ptrdiff_t)p->in_w * p->channels, first = (ptrdiff_t)c.from * p->channels + s->first;
    const int8_t *a = upper >= 0 && upper < p->in_h ? image + upper * line + first : NULL;
    const int8_t *b = lower >= 0 && lower < p->in_h ? image + lower * line + first : NULL;
    interleave(p, s, a, b, c.width, s->ring + (ptrdiff_t)slot * VECTORS * s->columns + c.before);
}

/* Rows begin ... end - 1 of one image's output, pixels left ... right - 1 of them, the channels of a block. */
static void rows(const lb_dwconv_s8_params *p, state *s, const int8_t *image, const int16_t *weights, int32_t begin, int32_t end,
                 int32_t left, int32_t right, int8_t *out) {
    const ptrdiff_t wide = ((ptrdiff_t)p->channels + 31) / 32 * 32;
    const span c = span_of(p, s, left);
    const int in_turn = p->dilation_h == 1; /* pairs are shared by windows */
    int32_t ready = 0;                      /* the first pair that is not in the ring; none is */
    pad(p, s, c);
    for (int32_t r = begin; r < end; r++) {
        const int32_t top = r * p->stride_h, lower = in_turn ? top & 1 : 0, first = in_turn ? top >> 1 : 0;
        const int32_t all = (p->kernel_h + lower + 1) / 2, start = in_turn ? 2 * first : top, d = p->dilation_h;
        int32_t before = 0, after = 0; /* pairs of padding */
        while (before < all && start + (2 * before + 1) * d < p->pad_h)
            before++;
        while (before + after < all && start + 2 * (all - 1 - after) * d >= p->pad_h + p->in_h)
            after++;
        const int32_t next = first + before, behind = first + all - after;
        for (int32_t k = in_turn && r > begin && ready > next ? ready : next; k < behind; k++) {
            const int32_t upper = start + 2 * (k - first) * d - p->pad_h;
            fetch(p, s, c, image, upper, upper + d, k % s->row_pairs);
        }
        ready = behind;
        const ptrdiff_t others = (ptrdiff_t)((p->kernel_h + 1) / 2) * p->kernel_w * wide * 2;
        const window t = {.slot = next % s->row_pairs,
                          .before = before,
                          .count = behind - next,
                          .after = after,
                          .kernel_w = p->kernel_w,
                          .dilation = p->dilation_w,
                          .stride = p->stride_w,
                          .weights = weights + (lower ? others : 0) + 2 * (ptrdiff_t)s->first,
                          .weight_step = 2 * wide,
                          .pair_step = 2 * wide * p->kernel_w};
        int8_t *to = out + ((ptrdiff_t)r * p->out_w + left) * p->out_stride + s->first;
        for (int v = 0; 8 * v < s->count; v++)
            row(s, &t, v, right - left, to + 8 * v, p->out_stride);
    }
}

/* Rows begin ... end - 1 of the outputs of all images by lists, some rows of one image at a time. */
static void by_lists(const lb_dwconv_s8_params *p, state *s, const int8_t *x, const int32_t *sums, const int16_t *weights,
                     const int32_t *bias, const float *multiplier, int8_t *out, int32_t begin, int32_t end) {
    const ptrdiff_t wide = ((ptrdiff_t)p->channels + 31) / 32 * 32, others = (ptrdiff_t)((p->kernel_h + 1) / 2) * p->kernel_w * wide * 2;
    const int32_t listed = LISTED / p->out_w, most = p->block_rows < listed ? p->block_rows : listed;
    s->columns = (p->out_w - 1) * p->stride_w + p->kernel_w;
    s->row_pairs = ((most - 1) * p->stride_h + p->kernel_h) / 2 + 1;
    const span columns = span_of(p, s, 0);
    pad(p, s, columns);
    for (int32_t item = begin, many; item < end; item += many) {
        const int32_t top = item % p->out_h, left = p->out_h - top, first = top * p->stride_h >> 1;
        many = end - item < left ? end - item : left;
        many = many < most ? many : most;
        pixel lists[2][LISTED];
        int32_t counts[2];
        for (int lower = 0; lower < 2; lower++)
            counts[lower] = filled(lists[lower], find(p, s, lower, top, top + many, lists[lower]));
        const int8_t *image = x + (ptrdiff_t)(item / p->out_h) * p->in_h * p->in_w * p->channels;
        const int32_t last = ((top + many - 1) * p->stride_h + p->kernel_h - 1) >> 1;
        for (int32_t c = 0; c < p->channels; c += BLOCK) {
            choose(p, sums, bias, multiplier, c, s);
            for (int32_t k = first; k <= last; k++)
                fetch(p, s, columns, image, 2 * k - p->pad_h, 2 * k + 1 - p->pad_h, k - first);
            int8_t *to = out + (ptrdiff_t)item * p->out_w * p->out_stride + s->first;
            for (int v = 0; 8 * v < s->count; v++)
                for (int lower = 0; lower < 2; lower++) {
                    const int16_t *own = weights + (lower ? others : 0) + 2 * (ptrdiff_t)s->first;
                    if (counts[lower] && s->bare)
                        pixels(s, 1, v, own, 2 * wide, lists[lower], counts[lower], to + 8 * v);
                    else if (counts[lower])
                        pixels(s, 0, v, own, 2 * wide, lists[lower], counts[lower], to + 8 * v);
                }
        }
    }
}

void lb_dwconv_s8__avx2(const lb_dwconv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                        int8_t *out, void *scratch, int32_t begin, int32_t end) {
    const int32_t wide = (p->channels + 31) / 32 * 32, line = p->in_w * p->channels;
    const int32_t cached = CACHED / (line ? line : 1) / p->stride_h, most = cached > 8 ? cached : 8; /* rows whose input stays near */
    const int32_t *sums = w;
    const int16_t *weights = (const int16_t *)(const void *)(sums + wide);
    state s = {.end = x + (ptrdiff_t)p->batch * p->in_h * line,
               .ring = scratch,
               .row_pairs = p->kernel_h / 2 + 1,
               .most = _mm256_set1_ps((float)(p->hi - p->y_zero)),
               .zero_point = _mm256_set1_epi16((int16_t)p->y_zero),
               .lo = _mm256_set1_epi8((char)p->lo),
               .padding = _mm256_set1_epi16((int16_t)(p->x_zero + 128))};
    memset(s.zeros, p->x_zero, sizeof s.zeros);
    const int plain = p->kernel_h == 3 && p->kernel_w == 3 && p->dilation_h == 1 && p->dilation_w == 1;
    const int whole = p->block >= p->out_w && (p->channels >= BLOCK || p->channels % 8 == 0);
    if (p->block_rows > 1 && p->out_w <= LISTED / 2 && plain && whole) {
        by_lists(p, &s, x, sums, weights, bias, multiplier, out, begin, end);
        return;
    }
    for (int32_t item = begin, many; item < end; item += many) {
        const int32_t image = item / p->out_h, top = item % p->out_h;
        many = end - item < p->out_h - top ? end - item : p->out_h - top;
        many = many < most ? many : most;
        for (int32_t c = 0; c < p->channels; c += BLOCK) {
            choose(p, sums, bias, multiplier, c, &s);
            for (int32_t left = 0; left < p->out_w; left += p->block) {
                const int32_t right = p->out_w - left < p->block ? p->out_w : left + p->block;
                s.columns = (right - left - 1) * p->stride_w + (p->kernel_w - 1) * p->dilation_w + 1;
                rows(p, &s, x + (ptrdiff_t)image * p->in_h * line, weights, top, top + many, left, right,
                     out + (ptrdiff_t)image * p->out_h * p->out_w * p->out_stride);
            }
        }
    }
}
