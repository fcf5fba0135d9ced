/* Four rows of a column are a quad: the bytes of a channel, interleaved, which meet the weights of four rows in one vpdpbusd. Windows of
 * one row of outputs, or of two if that takes no more quads, are fetched together: the same quads meet the weights of the second row of
 * outputs further below, and a weight of 0 meets the rows that a window does not have. Bytes are taken as x + 128, padding is the zero
 * point's, and what both add is taken off the bias. Sums are modulo 2^32.
 *
 * A vector of bytes holds 64 channels of a pixel, or 32 of two neighbouring outputs' pixels, or 16 of four. Interleaving makes four groups
 * of it, each of four channels in each 128 bits; packing the results of the four puts them back in the order of memory. */
#include "lb.h"
#include "base/unroll.h"
#include "base/vnni.h"

#include <string.h>

lb_dwconv_s8_fn lb_dwconv_s8__avx512vnni;

#define INLINE static inline __attribute__((always_inline))
#ifdef LB_SIMDE
#define STAYS(v) (void)(v)
#else
#define STAYS(v) __asm__("" : "+v"(v)) /* keeps it in its register: compilers load it again for each use */
#endif

#ifdef __clang__
#define UNROLL_KNOWN /* before loops whose ends some of the copies do not know: clang warns of those, and needs no word for the others */
#else
#define UNROLL_KNOWN LB_UNROLL
#endif

enum { BLOCK = 64, GROUPS = 4, ACROSS = 4, WIDEST = 5, CACHED = 768 << 10 };

typedef struct {
    _Alignas(64) int32_t start[BLOCK]; /* of the block's channels, in the order of groups */
    _Alignas(64) float m[BLOCK];
    __m512i zero_point, lo;
    __m512 most;
    char *ring;                             /* (quads, GROUPS, stride_w, positions, 64 / pixels) bytes */
    const int8_t *weights;                  /* of the block: (GROUPS, quads, kernel_w, rows, 64) */
    ptrdiff_t position, plane, group, quad; /* bytes of each in the ring */
    ptrdiff_t taps[WIDEST];                 /* bytes from the first tap to each in the ring */
    ptrdiff_t step;                         /* from output to output */
    int32_t quads, rows;                    /* of a window; of outputs at once */
    int32_t pixels, width;                  /* pixels of a vector, 1, 2 or 4; channels of each, up to 64 / pixels */
    int32_t first;                          /* channel of the block */
    int32_t kernel_w, dilation, stride;
    int bare;            /* saturation alone clamps to the range */
    int8_t zeros[BLOCK]; /* the input's zero point */
} state;

/* ---- the sums ---- */

/* The first bytes of as many as a pixel has in a vector: those of the block's channels. */
INLINE uint64_t channels_of(const state *s) {
    return lb_first64(s->width);
}

/* The first `count` pixels of the vector's, if any, or fewer channels than it has room for. */
__attribute__((noinline)) static void put_some(const state *s, __m512i bytes, int8_t *out, int32_t count) {
    const uint64_t some = count > 0 ? channels_of(s) : 0;
    if (s->pixels == 1)
        _mm512_mask_storeu_epi8(out, some, bytes);
    else if (s->pixels == 2) {
        _mm256_mask_storeu_epi8(out, (__mmask32)some, _mm512_castsi512_si256(bytes));
        if (count > 1)
            _mm256_mask_storeu_epi8(out + s->step, (__mmask32)some, _mm512_extracti64x4_epi64(bytes, 1));
    } else {
        _mm_mask_storeu_epi8(out, (__mmask16)some, _mm512_castsi512_si128(bytes));
        if (count > 1)
            _mm_mask_storeu_epi8(out + s->step, (__mmask16)some, _mm512_extracti32x4_epi32(bytes, 1));
        if (count > 2)
            _mm_mask_storeu_epi8(out + 2 * s->step, (__mmask16)some, _mm512_extracti32x4_epi32(bytes, 2));
        if (count > 3)
            _mm_mask_storeu_epi8(out + 3 * s->step, (__mmask16)some, _mm512_extracti32x4_epi32(bytes, 3));
    }
}

INLINE void put(const state *s, __m512i bytes, int8_t *out, int32_t count) {
    if (__builtin_expect(count < s->pixels || s->pixels * s->width < BLOCK, 0))
        put_some(s, bytes, out, count);
    else if (s->pixels == 1)
        _mm512_storeu_si512(out, bytes);
    else if (s->pixels == 2) {
        _mm256_storeu_si256((__m256i *)(void *)out, _mm512_castsi512_si256(bytes));
        _mm256_storeu_si256((__m256i *)(void *)(out + s->step), _mm512_extracti64x4_epi64(bytes, 1));
    } else {
        _mm_storeu_si128((__m128i *)(void *)out, _mm512_castsi512_si128(bytes));
        _mm_storeu_si128((__m128i *)(void *)(out + s->step), _mm512_extracti32x4_epi32(bytes, 1));
        _mm_storeu_si128((__m128i *)(void *)(out + 2 * s->step), _mm512_extracti32x4_epi32(bytes, 2));
        _mm_storeu_si128((__m128i *)(void *)(out + 3 * s->step), _mm512_extracti32x4_epi32(bytes, 3));
    }
}

/* A group's sums times their multipliers, rounded; the lower bound is applied later. */
INLINE __m512i rounded(const state *s, const int bare, __m512i acc, __m512 m) {
    const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(acc), m);
    return _mm512_cvtps_epi32(bare ? v : _mm512_min_ps(v, s->most));
}

/* What is read of the ring for a tap: the first one's address, then each tap's in turn. Columns whose distance is the stride are
 * neighbours in a plane. */
typedef struct {
    const char *from;
    int32_t phase;
} tap;

INLINE void advance(const state *s, tap *t) {
    t->from += s->dilation * s->plane;
    t->phase += s->dilation;
    for (; t->phase >= s->stride; t->phase -= s->stride)
        t->from += s->position - s->stride * s->plane;
}

/* `across` vectors of one or two rows of outputs, the first of which sees what is `at` in the ring. Of `kernel` columns and `quads` of
 * rows, where 0 is any. */
INLINE void tile(const int rows, const int across, const int kernel, const int quads, const int bare, const state *s, const char *at,
                 int8_t *restrict out, ptrdiff_t below, int32_t count) {
    const int32_t columns = kernel ? kernel : s->kernel_w, high = quads ? quads : s->quads;
    const ptrdiff_t line = 64 * (ptrdiff_t)s->rows;
    const int8_t *w = s->weights;
    __m512i words[2][2][ACROSS], q[2][2][ACROSS];
    LB_UNROLL
    for (int g = 0; g < GROUPS; g++, at += s->group) {
        __m512i acc[2][ACROSS];
        LB_UNROLL
        for (int i = 0; i < rows; i++)
            LB_UNROLL
        for (int t = 0; t < across; t++)
            acc[i][t] = _mm512_load_si512(s->start + 16 * g);
        UNROLL_KNOWN
        for (int32_t k = 0; k < high; k++) {
            tap now = {at + k * s->quad, 0};
            UNROLL_KNOWN
            for (int32_t j = 0; j < columns; j++, w += line) {
                const char *from = kernel ? at + k * s->quad + s->taps[j] : now.from;
                __m512i x[ACROSS];
                LB_UNROLL
                for (int t = 0; t < across; t++) {
                    x[t] = _mm512_loadu_si512(from + 64 * t);
                    STAYS(x[t]);
                }
                LB_UNROLL
                for (int i = 0; i < rows; i++) {
                    const __m512i weights = _mm512_load_si512(w + 64 * i);
                    LB_UNROLL
                    for (int t = 0; t < across; t++)
                        acc[i][t] = lb_dpbusd512(acc[i][t], x[t], weights);
                }
                if (!kernel)
                    advance(s, &now);
            }
        }
        LB_UNROLL
        for (int i = 0; i < rows; i++)
            LB_UNROLL
        for (int t = 0; t < across; t++) {
            q[g % 2][i][t] = rounded(s, bare, acc[i][t], _mm512_load_ps(s->m + 16 * g));
            if (g % 2)
                words[g / 2][i][t] = _mm512_adds_epi16(_mm512_packs_epi32(q[0][i][t], q[1][i][t]), s->zero_point);
        }
    }
    LB_UNROLL
    for (int i = 0; i < rows; i++)
        LB_UNROLL
    for (int t = 0; t < across; t++) {
        __m512i bytes = _mm512_packs_epi16(words[0][i][t], words[1][i][t]);
        if (!bare)
            bytes = _mm512_max_epi8(bytes, s->lo);
        put(s, bytes, out + i * below + t * s->pixels * s->step, count - t * s->pixels);
    }
}

/* `many` pixels of one or two rows of outputs, by tiles of ACROSS vectors and one of half as many. Some may come twice. */
typedef void line_fn(const state *s, int32_t many, int8_t *out, ptrdiff_t below);

INLINE int32_t within(int32_t o, int32_t span, int32_t many) {
    return many - o < span && many >= span ? many - span : o;
}

#define LINE(rows, kernel, quads, bare)                                                                                                    \
    static void line_##rows##_##kernel##_##bare(const state *s, int32_t many, int8_t *restrict out, ptrdiff_t below) {                     \
        enum { WHOLE = ACROSS / rows, HALF = WHOLE / 2 };                                                                                  \
        int32_t o = 0;                                                                                                                     \
        for (; many - o > HALF * s->pixels; o += WHOLE * s->pixels) {                                                                      \
            o = within(o, WHOLE * s->pixels, many);                                                                                        \
            tile(rows, WHOLE, kernel, quads, bare, s, s->ring + o * s->position, out + o * s->step, below, many - o);                      \
        }                                                                                                                                  \
        if (o < many) {                                                                                                                    \
            o = within(o, HALF * s->pixels, many);                                                                                         \
            tile(rows, HALF, kernel, quads, bare, s, s->ring + o * s->position, out + o * s->step, below, many - o);                       \
        }                                                                                                                                  \
    }
LINE(1, 3, 1, 0)
LINE(1, 3, 1, 1)
LINE(2, 3, 1, 0)
LINE(2, 3, 1, 1)
LINE(1, 5, 2, 0)
LINE(1, 5, 2, 1)
LINE(2, 5, 2, 0)
LINE(2, 5, 2, 1)
LINE(1, 0, 0, 0)
LINE(1, 0, 0, 1)
LINE(2, 0, 0, 0)
LINE(2, 0, 0, 1)

static line_fn *line_of(const state *s, int32_t rows) {
    static line_fn *const known[3][2][2] = {{{line_1_3_0, line_1_3_1}, {line_2_3_0, line_2_3_1}},
                                            {{line_1_5_0, line_1_5_1}, {line_2_5_0, line_2_5_1}},
                                            {{line_1_0_0, line_1_0_1}, {line_2_0_0, line_2_0_1}}};
    const int kind = s->kernel_w == 3 && s->quads == 1 ? 0 : s->kernel_w == 5 && s->quads == 2 ? 1 : 2;
    return known[kind][rows - 1][s->bare];
}

/* ---- inputs of the windows ---- */

/* Rows of four, from one pixel on, and how far it is to the next. */
typedef struct {
    const int8_t *at[4];
    ptrdiff_t step[4];
} four;

/* The bytes of a vector's pixels. */
INLINE __m512i bytes_of(const int pixels, const int8_t *at, ptrdiff_t step) {
    if (pixels == 1)
        return _mm512_loadu_si512(at);
    if (pixels == 2) {
        const __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)at);
        return _mm512_inserti64x4(_mm512_castsi256_si512(low), _mm256_loadu_si256((const __m256i *)(const void *)(at + step)), 1);
    }
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)at));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(at + step)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(at + 2 * step)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(at + 3 * step)), 3);
}

/* Bytes of four rows, as quads. */
INLINE void quads_of(const __m512i x[4], char *to, ptrdiff_t group) {
    const __m512i flip = _mm512_set1_epi8(-128);
    const __m512i a = _mm512_xor_si512(x[0], flip), b = _mm512_xor_si512(x[1], flip);
    const __m512i c = _mm512_xor_si512(x[2], flip), d = _mm512_xor_si512(x[3], flip);
    const __m512i upper = _mm512_unpacklo_epi8(a, b), lower = _mm512_unpacklo_epi8(c, d);
    const __m512i upper_far = _mm512_unpackhi_epi8(a, b), lower_far = _mm512_unpackhi_epi8(c, d);
    _mm512_storeu_si512(to, _mm512_unpacklo_epi16(upper, lower));
    _mm512_storeu_si512(to + group, _mm512_unpackhi_epi16(upper, lower));
    _mm512_storeu_si512(to + 2 * group, _mm512_unpacklo_epi16(upper_far, lower_far));
    _mm512_storeu_si512(to + 3 * group, _mm512_unpackhi_epi16(upper_far, lower_far));
}

INLINE void whole_quads(const int pixels, const state *s, const four *f, ptrdiff_t i, char *to) {
    __m512i x[4];
    LB_UNROLL
    for (int k = 0; k < 4; k++)
        x[k] = bytes_of(pixels, f->at[k] + i * f->step[k], f->step[k]);
    quads_of(x, to + i * s->position, s->group);
}

INLINE void whole_rows(const int pixels, const state *s, const four *f, int32_t many, char *to) {
    for (int32_t i = 0; i < many; i += pixels) {
        i = many - i < pixels ? many - pixels : i; /* some come twice */
        whole_quads(pixels, s, f, i, to);
    }
}

/* The same of `many` pixels, of channels that are fewer than a vector has room for. Other pixels are padding. */
INLINE __m512i some_bytes_of(const state *s, const int8_t *at, ptrdiff_t step, int32_t many) {
    const __mmask32 some = (__mmask32)channels_of(s);
    const __m256i zeros = _mm256_loadu_si256((const __m256i *)(const void *)s->zeros);
    if (s->pixels == 1)
        return _mm512_maskz_loadu_epi8(channels_of(s), at);
    const __m256i low = _mm256_mask_loadu_epi8(zeros, some, at), next = many > 1 ? _mm256_mask_loadu_epi8(zeros, some, at + step) : zeros;
    if (s->pixels == 2)
        return _mm512_inserti64x4(_mm512_castsi256_si512(low), next, 1);
    const __m256i third = many > 2 ? _mm256_mask_loadu_epi8(zeros, some, at + 2 * step) : zeros;
    const __m256i last = many > 3 ? _mm256_mask_loadu_epi8(zeros, some, at + 3 * step) : zeros;
    const __m256i front = _mm256_inserti128_si256(low, _mm256_castsi256_si128(next), 1);
    return _mm512_inserti64x4(_mm512_castsi256_si512(front), _mm256_inserti128_si256(third, _mm256_castsi256_si128(last), 1), 1);
}

/* `many` pixels of four rows, from position `to` on. */
static void fetch(const state *s, const four *f, int32_t many, char *to) {
    if (s->pixels * s->width == BLOCK && many >= s->pixels) {
        if (s->pixels == 1)
            whole_rows(1, s, f, many, to);
        else if (s->pixels == 2)
            whole_rows(2, s, f, many, to);
        else
            whole_rows(4, s, f, many, to);
        return;
    }
    for (int32_t i = 0; i < many; i += s->pixels) {
        __m512i x[4];
        LB_UNROLL
        for (int k = 0; k < 4; k++)
            x[k] = some_bytes_of(s, f->at[k] + i * f->step[k], f->step[k], many - i);
        quads_of(x, to + i * s->position, s->group);
    }
}

/* ---- the walk ---- */

/* The block of channels from c on, and what belongs to it. The last block is of 64, 32 or 16 channels if there are so many: some come
 * twice. */
static void choose(const lb_dwconv_s8_params *p, const void *w, const int32_t *bias, const float *multiplier, int32_t c, state *s) {
    const int32_t rest = p->channels - c, most = rest > 32 ? 64 : rest > 16 ? 32 : 16, blocks = (p->channels + BLOCK - 1) / BLOCK;
    s->pixels = BLOCK / most;
    s->width = p->channels < most ? p->channels : most;
    s->first = rest < s->width ? p->channels - s->width : c;
    const int32_t *sums = (const int32_t *)w + c;
    s->weights = (const int8_t *)w + 4 * (ptrdiff_t)BLOCK * blocks + (ptrdiff_t)c * GROUPS * s->quads * p->kernel_w * s->rows;
    int32_t some_bias[BLOCK] = {0};
    float some_m[BLOCK] = {0};
    if (s->width < most) {
        memcpy(some_bias, bias, 4 * (size_t)s->width);
        memcpy(some_m, multiplier, 4 * (size_t)s->width);
        bias = some_bias, multiplier = some_m;
    } else
        bias += s->first, multiplier += s->first;
    const __m512i zero = _mm512_set1_epi32(p->x_zero + 128);
    __mmask16 high = 0;
    LB_UNROLL
    for (int g = 0; g < GROUPS; g++) {
        for (int lane = 0; lane < 4; lane++) {
            const int32_t from = (16 * lane + 4 * g) % most;
            memcpy(s->start + 16 * g + 4 * lane, bias + from, 16);
            memcpy(s->m + 16 * g + 4 * lane, multiplier + from, 16);
        }
        const __m512i start = _mm512_load_si512(s->start + 16 * g), sum = _mm512_load_si512(sums + 16 * g);
        _mm512_store_si512(s->start + 16 * g, _mm512_sub_epi32(start, _mm512_mullo_epi32(zero, sum)));
        high |= _mm512_cmp_ps_mask(_mm512_load_ps(s->m + 16 * g), _mm512_set1_ps(0.5f), _CMP_NLE_UQ);
    }
    s->bare = p->lo == -128 && p->hi == 127 && !high;
}

/* Positions of a plane: `before` of padding, `width` of the image from column `from` on. */
typedef struct {
    int32_t before, from, width;
} span;

static int32_t steps(int32_t columns, int32_t stride) {
    return stride == 1 ? columns : stride == 2 ? (columns + 1) >> 1 : (columns + stride - 1) / stride;
}

static span span_of(const lb_dwconv_s8_params *p, int32_t left, int32_t positions, int32_t plane) {
    const int32_t at = left * p->stride_w + plane - p->pad_w, before = at < 0 ? steps(-at, p->stride_w) : 0;
    const int32_t from = at + before * p->stride_w, inside = from < p->in_w ? steps(p->in_w - from, p->stride_w) : 0;
    const int32_t most = positions - before;
    return (span){before, from, most < 0 ? 0 : most < inside ? most : inside};
}

/* Row `top` of the padded image and `many` - 1 below it, as quads: columns of the image only. */
static void fetch_rows(const lb_dwconv_s8_params *p, const state *s, int32_t left, int32_t positions, const int8_t *image, int32_t top,
                       int32_t many) {
    const ptrdiff_t line = (ptrdiff_t)p->in_w * p->channels, step = (ptrdiff_t)p->stride_w * p->channels;
    for (int32_t q = 0; q < s->quads; q++)
        for (int32_t plane = 0; plane < p->stride_w; plane++) {
            const span c = span_of(p, left, positions, plane);
            four f;
            LB_UNROLL
            for (int32_t k = 0; k < 4; k++) {
                const int32_t row = top + (4 * q + k) * p->dilation_h - p->pad_h;
                const int there = 4 * q + k < many && row >= 0 && row < p->in_h;
                f.at[k] = there ? image + row * line + (ptrdiff_t)c.from * p->channels + s->first : s->zeros;
                f.step[k] = there ? step : 0;
            }
            fetch(s, &f, c.width, s->ring + q * s->quad + plane * s->plane + c.before * s->position);
        }
}

/* Rows begin ... end - 1 of one image's output, pixels left ... right - 1 of them, the channels of a block. */
static void rows(const lb_dwconv_s8_params *p, state *s, const int8_t *image, int32_t begin, int32_t end, int32_t left, int32_t right,
                 int8_t *out) {
    const int32_t seen = (p->kernel_w - 1) * p->dilation_w / p->stride_w, least = ACROSS / s->rows * s->pixels, many = right - left;
    s->position = BLOCK / s->pixels;
    s->plane = ((many < least ? least : many) + seen + s->pixels - 1) * s->position;
    s->group = (p->stride_w * s->plane + 63) / 64 * 64;
    s->quad = GROUPS * s->group;
    tap now = {s->ring, 0};
    for (int32_t j = 0; j < WIDEST; j++, advance(s, &now))
        s->taps[j] = now.from - s->ring;
    memset(s->ring, p->x_zero + 128, (size_t)(s->quads * s->quad));
    for (int32_t r = begin, now; r < end; r += now) {
        now = end - r < s->rows ? 1 : s->rows;
        fetch_rows(p, s, left, many + seen, image, r * p->stride_h, (now - 1) * p->stride_h + p->kernel_h);
        int8_t *to = out + ((ptrdiff_t)r * p->out_w + left) * p->out_stride + s->first;
        line_of(s, now)(s, many, to, (ptrdiff_t)p->out_w * p->out_stride);
    }
}

void lb_dwconv_s8__avx512vnni(const lb_dwconv_s8_params *p, const int8_t *x, const void *w, const int32_t *bias, const float *multiplier,
                              int8_t *out, void *scratch, int32_t begin, int32_t end) {
    const int32_t line = p->in_w * p->channels, quads = (p->kernel_h + 3) / 4;
    const int32_t cached = CACHED / (line ? line : 1) / p->stride_h,
                  most = cached > 8 ? cached / 2 * 2 : 8; /* rows whose input stays near */
    state s = {.zero_point = _mm512_set1_epi16((int16_t)p->y_zero),
               .lo = _mm512_set1_epi8((char)p->lo),
               .most = _mm512_set1_ps((float)(p->hi - p->y_zero)),
               .ring = scratch,
               .step = p->out_stride,
               .quads = quads,
               .rows = p->dilation_h == 1 && (p->stride_h + p->kernel_h + 3) / 4 == quads ? 2 : 1,
               .kernel_w = p->kernel_w,
               .dilation = p->dilation_w,
               .stride = p->stride_w};
    memset(s.zeros, p->x_zero, sizeof s.zeros);
    for (int32_t item = begin, many; item < end; item += many) {
        const int32_t image = item / p->out_h, top = item % p->out_h;
        many = end - item < p->out_h - top ? end - item : p->out_h - top;
        many = many < most ? many : most;
        for (int32_t c = 0; c < p->channels; c += BLOCK) {
            choose(p, w, bias, multiplier, c, &s);
            for (int32_t left = 0; left < p->out_w; left += p->block)
                rows(p, &s, x + (ptrdiff_t)image * p->in_h * line, top, top + many, left,
                     p->out_w - left < p->block ? p->out_w : left + p->block, out + (ptrdiff_t)image * p->out_h * p->out_w * p->out_stride);
        }
    }
}
