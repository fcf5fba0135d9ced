#include "wide/conv_s16.h"
#include "wide/linear_s16_avx2.h"

lb_conv_s16_fn lb_conv_s16__avx2;

/* Windows of some pixels become rows, and rows are multiplied as in linear_s16. */
void lb_conv_s16__avx2(const lb_conv_s16_params *p, const int16_t *x, const void *packed, const int64_t *bias, const float *multiplier,
                       void *out, void *scratch, int32_t begin, int32_t end) {
    const int32_t n = p->out_c / p->groups, k = p->kernel_h * p->kernel_w * (p->in_c / p->groups), last = lb_conv_s16_first(p, end);
    const lb_target target = lb_target_of(p->out_bytes, p->y_zero, p->lo, p->hi);
    int16_t *const windows = scratch;
    for (int32_t first = lb_conv_s16_first(p, begin), rows; first < last; first += rows) {
        rows = last - first < LB_S16_ROWS ? last - first : LB_S16_ROWS;
        const char *group = packed;
        for (int32_t g = 0; g < p->groups; g++) {
            const lb_s16_weights w = lb_s16_weights_of(group, n, k);
            group = (const char *)(w.panels + w.planes * w.plane);
            for (int32_t r = 0; r < rows; r++)
                lb_gather_s16(p, x, first + r, g, windows + (ptrdiff_t)r * k);
            for (int32_t j = 0; j < n; j += 16)
                lb_s16_panel(&w, j, n, rows, windows, k, p->x_zero, bias + g * n, multiplier + g * n, out,
                             (ptrdiff_t)first * p->out_stride + g * n + j, p->out_stride, &target);
        }
    }
}

lb_dwconv_s16_fn lb_dwconv_s16__avx2;

enum { WIDE = 16, TAPS = 2 * LB_S16_PAIRS };

/* Taps of the window of a pixel, `first` and those after it, as pairs of pointers to their first channel. Taps outside the image point to
 * `zeros`. */
static int32_t pairs_of(const lb_dwconv_s16_params *p, const int16_t *x, int32_t pixel, int32_t first, const int16_t *zeros,
                        const int16_t *from[TAPS]) {
    const int32_t all = p->kernel_h * p->kernel_w, count = all - first < TAPS ? all - first : TAPS;
    const lb_place at = lb_place_of(p, x, pixel);
    for (int32_t t = 0, i = first / p->kernel_w, j = first % p->kernel_w; t < count; t++) {
        const int32_t row = at.top + i * p->dilation_h, column = at.left + j * p->dilation_w;
        const int inside = row >= 0 && row < p->in_h && column >= 0 && column < p->in_w;
        from[t] = inside ? at.image + ((ptrdiff_t)row * p->in_w + column) * p->in_c : zeros;
        if (++j == p->kernel_w)
            i++, j = 0;
    }
    if (count & 1)
        from[count] = zeros;
    return (count + 1) / 2;
}

LB_INLINE __m256i channels(const int16_t *from, const int32_t count) {
    if (count >= WIDE)
        return _mm256_loadu_si256((const __m256i *)(const void *)from);
    int16_t some[WIDE] = {0};
    memcpy(some, from, 2 * (size_t)count);
    return _mm256_loadu_si256((const __m256i *)(const void *)some);
}

/* The sums of 16 channels, in order, over pairs of taps. */
LB_INLINE void sums_of(const int16_t *const *from, int32_t pairs, int32_t channel, const int32_t count, const int16_t *w, ptrdiff_t step,
                       __m256i sum[2]) {
    __m256i low = _mm256_setzero_si256(), high = low;
    for (int32_t i = 0; i < pairs; i++, w += step) {
        const __m256i a = channels(from[2 * i] + channel, count), b = channels(from[2 * i + 1] + channel, count);
        const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w);
        const __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(w + WIDE));
        low = _mm256_add_epi32(low, _mm256_madd_epi16(_mm256_unpacklo_epi16(a, b), w0));
        high = _mm256_add_epi32(high, _mm256_madd_epi16(_mm256_unpackhi_epi16(a, b), w1));
    }
    sum[0] = _mm256_permute2x128_si256(low, high, 0x20), sum[1] = _mm256_permute2x128_si256(low, high, 0x31);
}

static void some_sums(const int16_t *const *from, int32_t pairs, int32_t channel, int32_t count, const int16_t *w, ptrdiff_t step,
                      __m256i sum[2]) {
    if (count >= WIDE)
        sums_of(from, pairs, channel, WIDE, w, step, sum);
    else
        sums_of(from, pairs, channel, count, w, step, sum);
}

/* Packed weights; narrow: sums of 32 bits. */
typedef struct {
    const int16_t *weights;
    ptrdiff_t step, plane; /* from pair to pair, from plane to plane */
    int32_t planes, narrow;
} weights_of_pairs;

/* The products of some pairs of taps, added to the totals of 16 channels. */
static void add_wide(const weights_of_pairs *w, int32_t first, const int16_t *const *from, int32_t pairs, int32_t c, int32_t count,
                     double total[WIDE]) {
    for (int32_t half = 0; half < w->planes; half++) {
        __m256i sum[2];
        some_sums(from, pairs, c, count, w->weights + half * w->plane + first / 2 * w->step + 2 * c, w->step, sum);
        const __m256d factor = _mm256_set1_pd(half ? 256.0 : 1.0);
        for (int j = 0; j < 4; j++) {
            const __m128i four = j % 2 ? _mm256_extracti128_si256(sum[j / 2], 1) : _mm256_castsi256_si128(sum[j / 2]);
            const __m256d part = _mm256_mul_pd(_mm256_cvtepi32_pd(four), factor);
            _mm256_store_pd(total + 4 * j, _mm256_add_pd(_mm256_load_pd(total + 4 * j), part));
        }
    }
}

void lb_dwconv_s16__avx2(const lb_dwconv_s16_params *p, const int16_t *x, const void *packed, const int64_t *bias, const float *multiplier,
                         void *out, void *scratch, int32_t begin, int32_t end) {
    const int32_t wide = (int32_t)lb_up(p->out_c, WIDE), taps = p->kernel_h * p->kernel_w;
    const int32_t *head = packed;
    const int64_t *sums = (const int64_t *)(const void *)((const char *)packed + 64);
    const weights_of_pairs w = {(const int16_t *)(const void *)(sums + wide), 2 * (ptrdiff_t)wide, (taps + 1) / 2 * 2 * (ptrdiff_t)wide,
                                head[0], head[1] && taps <= TAPS};
    const lb_target target = lb_target_of(p->out_bytes, p->y_zero, p->lo, p->hi);
    double *const start = scratch; /* or int32_t, where narrow */
    int32_t *const narrow = scratch;
    int16_t *const zeros = (int16_t *)(void *)(start + wide);
    for (int32_t c = 0; c < wide; c++) {
        zeros[c] = (int16_t)p->x_zero;
        const int64_t first = c < p->out_c ? bias[c] - p->x_zero * sums[c] : 0;
        if (w.narrow)
            narrow[c] = (int32_t)first;
        else
            start[c] = (double)first;
    }
    for (int32_t pixel = lb_conv_s16_first(p, begin); pixel < lb_conv_s16_first(p, end); pixel++) {
        const int16_t *from[TAPS];
        int32_t pairs = pairs_of(p, x, pixel, 0, zeros, from);
        for (int32_t c = 0; c < p->out_c; c += WIDE) {
            const int32_t count = p->out_c - c < WIDE ? p->out_c - c : WIDE;
            __m256 acc[2];
            if (w.narrow) {
                __m256i sum[2];
                some_sums(from, pairs, c, count, w.weights + 2 * c, w.step, sum);
                for (int j = 0; j < 2; j++)
                    acc[j] = _mm256_cvtepi32_ps(
                        _mm256_add_epi32(sum[j], _mm256_load_si256((const __m256i *)(const void *)(narrow + c + 8 * j))));
            } else {
                _Alignas(32) double total[WIDE];
                memcpy(total, start + c, sizeof total);
                for (int32_t first = 0; first < taps; first += TAPS) {
                    if (taps > TAPS)
                        pairs = pairs_of(p, x, pixel, first, zeros, from);
                    add_wide(&w, first, from, pairs, c, count, total);
                }
                for (int j = 0; j < 2; j++)
                    acc[j] =
                        _mm256_set_m128(_mm256_cvtpd_ps(_mm256_load_pd(total + 8 * j + 4)), _mm256_cvtpd_ps(_mm256_load_pd(total + 8 * j)));
            }
            float some[WIDE] = {0};
            const float *m = multiplier + c;
            if (count < WIDE)
                m = memcpy(some, m, sizeof *m * (size_t)count);
            const ptrdiff_t at = (ptrdiff_t)pixel * p->out_stride + c;
            lb_put8(out, at, _mm256_mul_ps(acc[0], _mm256_loadu_ps(m)), count, &target);
            if (count > 8)
                lb_put8(out, at + 8, _mm256_mul_ps(acc[1], _mm256_loadu_ps(m + 8)), count - 8, &target);
        }
    }
}
