/* conv_f32 on vectors of any width: the words of f32_avx2.h or another stand before this. */
#ifndef LB_CONV_F32_SIMD_H
#define LB_CONV_F32_SIMD_H

#include "conv/conv_f32.h"
#include "gemm/lines_f32.h"

#include <string.h>

/* Three ways to the windows: read where they stand, from the image or from a copy of its lines with zeros around; gathered, one row of all
 * taps for each pixel, if the channels are few; and by a pointer to each tap. */
enum { SHALLOW = 16, DEEP = 64 };

/* For pixels first ... last - 1, `high` of them in a tile, where each tap starts: (tiles, taps, LB_TILE_ROWS) pointers, `zeros` for
 * padding. */
static void point(const lb_conv_f32_params *p, const float *x, const float *zeros, int32_t first, int32_t last, int32_t high,
                  const float **to) {
    const int32_t size = p->out_h * p->out_w, taps = p->kernel_h * p->kernel_w;
    const ptrdiff_t line = (ptrdiff_t)p->in_w * p->in_c, across = (ptrdiff_t)p->dilation_w * p->in_c;
    int32_t image = first / size, y = first % size / p->out_w, column = first % p->out_w;
    for (int32_t i = first, t = 0; i < last; i++) {
        const int32_t top = y * p->stride_h - p->pad_h, left = column * p->stride_w - p->pad_w;
        const float **at = to + t;
        for (int32_t r = 0; r < p->kernel_h; r++) {
            const int32_t row = top + r * p->dilation_h, wide = row >= 0 && row < p->in_h ? p->in_w : 0;
            ptrdiff_t from = (image * (ptrdiff_t)p->in_h + row) * line + (ptrdiff_t)left * p->in_c;
            for (int32_t c = 0, over = left; c < p->kernel_w; c++, over += p->dilation_w, from += across, at += LB_TILE_ROWS)
                *at = over >= 0 && over < wide ? x + from : zeros;
        }
        if (++t == high)
            t = 0, to += (ptrdiff_t)taps * LB_TILE_ROWS;
        if (++column == p->out_w) {
            column = 0;
            if (++y == p->out_h)
                y = 0, image++;
        }
    }
}

/* The taps of pixels first ... last - 1 one after the other. */
static void gather(const lb_conv_f32_params *p, const float *x, int32_t depth, int32_t first, int32_t last, float *to) {
    const int32_t size = p->out_h * p->out_w;
    for (int32_t i = first; i < last; i++) {
        const int32_t top = i % size / p->out_w * p->stride_h - p->pad_h, left = i % p->out_w * p->stride_w - p->pad_w;
        const float *image = x + (ptrdiff_t)(i / size) * p->in_h * p->in_w * p->in_c;
        for (int32_t r = 0; r < p->kernel_h; r++) {
            const int32_t row = top + r * p->dilation_h, width = p->kernel_w * depth;
            const int32_t right = left + (p->kernel_w - 1) * p->dilation_w;
            const ptrdiff_t from = ((ptrdiff_t)row * p->in_w + left) * p->in_c;
            if (row < 0 || row >= p->in_h) {
                memset(to, 0, sizeof *to * (size_t)width);
            } else if (left >= 0 && right < p->in_w && p->dilation_w == 1 && depth == p->in_c) {
                for (int32_t c = 0; c < width; c++)
                    to[c] = image[from + c];
            } else {
                for (int32_t c = 0; c < p->kernel_w; c++) {
                    const int32_t column = left + c * p->dilation_w;
                    for (int32_t d = 0; d < depth; d++)
                        to[c * depth + d] =
                            column >= 0 && column < p->in_w ? image[from + (ptrdiff_t)c * p->dilation_w * p->in_c + d] : 0.0f;
                }
            }
            to += width;
        }
    }
}

/* Lines of an image: from the first that the window of an output row has, `line` floats from one to the next. */
typedef struct {
    const float *first;
    ptrdiff_t line;
} lines;

/* The lines under output rows top ... bottom of an image: where they stand if nothing is padded, else copied. */
static lines lines_of(const lb_conv_f32_params *p, const float *image, int32_t top, int32_t bottom, float *to) {
    const int32_t high = (p->kernel_h - 1) * p->dilation_h + 1, wide = (p->out_w - 1) * p->stride_w + p->kernel_w;
    const ptrdiff_t line = (ptrdiff_t)p->in_w * p->in_c, copied = (ptrdiff_t)wide * p->in_c;
    if (!p->pad_h && !p->pad_w && (p->out_h - 1) * p->stride_h + high <= p->in_h && wide <= p->in_w)
        return (lines){image + (ptrdiff_t)top * p->stride_h * line, line};
    const lines l = {to, copied};
    const size_t left = (size_t)lb_least(p->pad_w, wide) * (size_t)p->in_c,
                 inside = (size_t)lb_least(p->in_w, wide - lb_least(p->pad_w, wide)) * (size_t)p->in_c;
    const size_t right = (size_t)copied - left - inside;
    for (int32_t row = top * p->stride_h - p->pad_h; row < bottom * p->stride_h - p->pad_h + high; row++, to += copied) {
        if (row < 0 || row >= p->in_h) {
            memset(to, 0, sizeof *to * (size_t)copied);
            continue;
        }
        memset(to, 0, sizeof *to * left);
        memcpy(to + left, image + row * line, sizeof *to * inside);
        memset(to + left + inside, 0, sizeof *to * right);
    }
    return l;
}

/* Pixels first ... last - 1 of one image, channels b->left ... b->right - 1. */
static void window_rows(const lb_conv_f32_params *p, lines from, int32_t first, int32_t last, const lb_conv_f32_item *b, const float *w,
                        const float *bias, float *out) {
    const int32_t size = p->out_h * p->out_w, k = p->kernel_h * p->kernel_w * p->in_c, step = p->stride_w * p->in_c;
    const ptrdiff_t next = p->stride_h * from.line;
    lb_lines l = {p->kernel_h, p->kernel_w * p->in_c, p->dilation_h * from.line, 0};
    for (int32_t j = b->left; j < b->right; j += LB_TILE_COLUMNS) {
        const int32_t columns = lb_least(b->right - j, LB_TILE_COLUMNS), high = lb_tile_even(last - first, lb_lines_most(columns));
        float own[LB_TILE_COLUMNS];
        const lb_tile_end e = {lb_tile_bias(bias + j, columns, own), p->lo, p->hi};
        const float *line = from.first;
        int32_t column = first % size % p->out_w;
        l.tile = 0;
        for (int32_t i = first; i < last; i += high, l.tile++) {
            const int32_t rows = lb_least(last - i, high);
            const float *a[LB_TALL_ROWS];
            for (int32_t r = 0; r < rows; r++) {
                a[r] = line + (ptrdiff_t)column * step;
                if (++column == p->out_w)
                    column = 0, line += next;
            }
            lb_lines_f32(rows, columns, a, &l, w + (ptrdiff_t)j * k, &e, out + (ptrdiff_t)i * p->out_stride + j, p->out_stride);
        }
    }
}

static void in_lines(const lb_conv_f32_params *p, const float *x, const float *w, const float *bias, float *out, float *scratch,
                     int32_t begin, int32_t end) {
    const int32_t size = p->out_h * p->out_w;
    int32_t ready = -1;
    lines from = {0};
    for (int32_t item = begin; item < end; item++) {
        const lb_conv_f32_item b = lb_conv_f32_at(p, item);
        for (int32_t first = b.first, last; first < b.last; first = last) {
            const int32_t image = first / size;
            last = lb_least(b.last, (image + 1) * size);
            if (ready != first)
                from = lines_of(p, x + (ptrdiff_t)image * p->in_h * p->in_w * p->in_c, first % size / p->out_w,
                                (last - 1) % size / p->out_w, scratch);
            ready = first;
            window_rows(p, from, first, last, &b, w, bias, out);
        }
    }
}

void LB_SIMD(conv_f32)(const lb_conv_f32_params *p, const float *x, const void *w, const float *bias, float *out, void *scratch,
                       int32_t begin, int32_t end) {
    if (p->groups == 1 && p->dilation_w == 1 && p->in_c < DEEP) {
        in_lines(p, x, w, bias, out, scratch, begin, end);
        return;
    }
    const int32_t depth = p->in_c / p->groups, n = p->out_c / p->groups, all = p->kernel_h * p->kernel_w;
    const int shallow = depth < SHALLOW;
    const int32_t taps = shallow ? 1 : all, run = shallow ? all * depth : depth;
    const ptrdiff_t k = (ptrdiff_t)all * depth, group_size = (ptrdiff_t)(n + LB_PANEL - 1) / LB_PANEL * LB_PANEL * k;
    float *zeros = scratch;
    const float **pointers = (const float **)(void *)((char *)scratch + ((sizeof *zeros * (size_t)depth + 7) & ~(size_t)7));
    if (!shallow)
        memset(zeros, 0, sizeof *zeros * (size_t)depth);
    int32_t ready = -1, ready_group = -1;
    for (int32_t item = begin; item < end; item++) {
        const lb_conv_f32_item b = lb_conv_f32_at(p, item);
        const float *from = x + (ptrdiff_t)b.group * depth;
        const int32_t high = lb_tile_even(b.last - b.first, LB_TILE_ROWS);
        if (ready != b.first || ready_group != b.group) {
            if (shallow)
                gather(p, from, depth, b.first, b.last, scratch);
            else
                point(p, from, zeros, b.first, b.last, high, pointers);
            ready = b.first, ready_group = b.group;
        }
        for (int32_t j = b.left; j < b.right; j += LB_TILE_COLUMNS) {
            const int32_t channel = b.group * n + j, columns = lb_least(b.right - j, LB_TILE_COLUMNS);
            const lb_tile_end e = {bias + channel, p->lo, p->hi};
            const float *panel = (const float *)w + b.group * group_size + j * k;
            for (int32_t i = b.first; i < b.last; i += high) {
                const int32_t rows = lb_least(b.last - i, high);
                const float *gathered[LB_TILE_ROWS], *const *a = pointers + (ptrdiff_t)(i - b.first) / high * taps * LB_TILE_ROWS;
                if (shallow) {
                    for (int32_t r = 0; r < rows; r++)
                        gathered[r] = (const float *)scratch + (i - b.first + r) * k;
                    a = gathered;
                }
                lb_tile_f32(rows, columns, a, taps, run, panel, lb_panels_of(k, (i - b.first) / high), &e,
                            out + (ptrdiff_t)i * p->out_stride + channel, p->out_stride);
            }
        }
    }
}

#endif
