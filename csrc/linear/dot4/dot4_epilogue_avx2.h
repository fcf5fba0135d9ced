/* The ends of products of quads on AVX2: rows that are copied and flipped, what accumulators begin with, and what becomes of them. */
#ifndef LB_DOT4_EPILOGUE_AVX2_H
#define LB_DOT4_EPILOGUE_AVX2_H

/* n bytes, flipped. */
LB_INLINE void lb_dot4_put(const int8_t *from, ptrdiff_t n, uint8_t *to) {
    const __m256i flip = _mm256_set1_epi8((char)LB_DOT4_FLIP);
    for (; n >= 32; n -= 32, from += 32, to += 32)
        _mm256_storeu_si256((__m256i *)(void *)to, _mm256_xor_si256(_mm256_loadu_si256((const __m256i *)(const void *)from), flip));
    for (; n >= 4; n -= 4, from += 4, to += 4) {
        uint32_t four;
        memcpy(&four, from, 4);
        four ^= LB_DOT4_FLIP * 0x01010101u;
        memcpy(to, &four, 4);
    }
    for (; n > 0; n--)
        *to++ = (uint8_t)*from++ ^ LB_DOT4_FLIP;
}

static inline void lb_dot4_columns_at(const lb_dot4_product *p, ptrdiff_t n, ptrdiff_t width, lb_dot4_columns *c) {
    const int32_t *sums = lb_dot4_sums(p->packed) + n;
    c->n = n, c->width = width, c->bare = p->lo == -128 && p->hi == 127;
    memset(c->start, 0, sizeof c->start);
    memset(c->m, 0, sizeof c->m);
    memcpy(c->m, p->multiplier + n, 4 * (size_t)width);
    for (ptrdiff_t i = 0; i < width; i++) {
        c->start[i] = (int32_t)((p->bias ? (uint32_t)p->bias[n + i] : 0) - (uint32_t)(p->x_zero + 128) * (uint32_t)sums[i]);
        c->bare &= c->m[i] < 1.0f;
    }
}

/* Results of rows row, row + 1, ..., which are two vectors wide: a panel. */
LB_INLINE void lb_dot4_epilogue(const int rows, const int wide, const lb_dot4_product *p, const lb_dot4_result to, const lb_dot4_columns *c,
                                ptrdiff_t row, const __m256i *acc) {
    const __m256 m0 = _mm256_load_ps(c->m), m1 = _mm256_load_ps(c->m + 8);
    const lb_clamp16 clamp = lb_clamp16_of(p->y_zero, p->lo, p->hi);
    const ptrdiff_t width = c->width;
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++) {
        const __m256i *a = acc + i * wide, *b = acc + (i + 1 < rows ? i + 1 : i) * wide;
        const ptrdiff_t at = (row + i) * p->out_stride + c->n;
        if (to == LB_DOT4_F32) {
            const __m256 y[2] = {_mm256_mul_ps(_mm256_cvtepi32_ps(a[0]), m0), _mm256_mul_ps(_mm256_cvtepi32_ps(a[1]), m1)};
            if (width == 16)
                memcpy((float *)p->out + at, y, sizeof y);
            else
                memcpy((float *)p->out + at, y, 4 * (size_t)width);
        } else if (to == LB_DOT4_ROWS) {
            const __m256 by = _mm256_set1_ps(p->row_multiplier[row + i]), zero = _mm256_setzero_ps();
            float bias[16] = {0};
            memcpy(bias, p->real_bias + c->n, 4 * (size_t)width);
            const __m256 t0 = _mm256_add_ps(zero, _mm256_mul_ps(_mm256_cvtepi32_ps(a[0]), _mm256_mul_ps(by, m0)));
            const __m256 t1 = _mm256_add_ps(zero, _mm256_mul_ps(_mm256_cvtepi32_ps(a[1]), _mm256_mul_ps(by, m1)));
            const __m256 y[2] = {_mm256_add_ps(t0, _mm256_loadu_ps(bias)), _mm256_add_ps(t1, _mm256_loadu_ps(bias + 8))};
            memcpy((float *)p->out + at, y, 4 * (size_t)width);
        } else if (to == LB_DOT4_S16)
            lb_store_words((int16_t *)p->out + at, a[0], a[1], m0, m1, p->y_zero, p->lo, p->hi, width);
        else if (i % 2 == 0) {
            const __m256i bytes = c->bare ? lb_requantize32_bare(a, b, m0, m1, clamp.zero_point) : lb_requantize32(a, b, m0, m1, &clamp);
            lb_store_bytes((int8_t *)p->out + at, _mm256_castsi256_si128(bytes), width);
            if (i + 1 < rows)
                lb_store_bytes((int8_t *)p->out + at + p->out_stride, _mm256_extracti128_si256(bytes, 1), width);
        }
    }
}

#endif
