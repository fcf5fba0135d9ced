/* The ends of products of quads on AVX-512: rows that are copied and flipped, what accumulators begin with, and what becomes of them. */
#ifndef LB_DOT4_EPILOGUE_AVX512_H
#define LB_DOT4_EPILOGUE_AVX512_H

/* n bytes, flipped. */
LB_INLINE void lb_dot4_put(const int8_t *from, ptrdiff_t n, uint8_t *to) {
    const __m512i flip = _mm512_set1_epi8((char)LB_DOT4_FLIP);
    for (; n >= 64; n -= 64, from += 64, to += 64)
        _mm512_storeu_si512(to, _mm512_xor_si512(_mm512_loadu_si512(from), flip));
    if (n > 0) {
        const __mmask64 some = lb_first64(n);
        _mm512_mask_storeu_epi8(to, some, _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, from), flip));
    }
}

static inline void lb_dot4_columns_at(const lb_dot4_product *p, ptrdiff_t n, ptrdiff_t width, lb_dot4_columns *c) {
    const int32_t *sums = lb_dot4_sums(p->packed) + n;
    const __m512i zero = _mm512_set1_epi32(p->x_zero + 128), below = _mm512_set1_epi32(0x3F7FFFFF); /* the last number before 1 */
    c->n = n, c->width = width, c->bare = p->lo == -128 && p->hi == 127;
    for (ptrdiff_t i = 0; i < width; i += 16) {
        const __mmask16 lanes = lb_first16(width - i);
        const __m512i m = _mm512_maskz_loadu_epi32(lanes, p->multiplier + n + i);
        const __m512i bias = p->bias ? _mm512_maskz_loadu_epi32(lanes, p->bias + n + i) : _mm512_setzero_si512();
        _mm512_store_si512(c->start + i, _mm512_sub_epi32(bias, _mm512_mullo_epi32(zero, _mm512_load_si512(sums + i))));
        _mm512_store_si512(c->m + i, m);
        c->bare &= _mm512_cmpgt_epi32_mask(m, below) == 0;
    }
}

/* Four vectors of accumulators as 64 bytes. */
LB_INLINE __m512i lb_dot4_bytes64(const int bare, const __m512i acc[4], const __m512 m[4], const lb_dot4_product *p) {
    const __m512i zero_point = _mm512_set1_epi16((int16_t)p->y_zero);
    __m512i q[4];
    LB_UNROLL_ALL
    for (int i = 0; i < 4; i++) {
        const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(acc[i]), m[i]);
        q[i] = _mm512_cvtps_epi32(bare ? v : _mm512_min_ps(v, _mm512_set1_ps(1073741824.0f)));
    }
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), zero_point);
    const __m512i high = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), zero_point);
    const __m512i bytes = lb_in_order(_mm512_packs_epi16(low, high));
    return bare ? bytes : _mm512_min_epi8(_mm512_max_epi8(bytes, _mm512_set1_epi8((char)p->lo)), _mm512_set1_epi8((char)p->hi));
}

/* Bytes of `wide` vectors: of one row, two or four. */
LB_INLINE void lb_dot4_epilogue_s8(const int bare, const int rows, const int wide, const lb_dot4_product *p, const lb_dot4_columns *c,
                                   ptrdiff_t row, const __m512i *acc) {
    const __mmask64 some = lb_first64(c->width);
    const int whole = c->width == 16 * wide, each = 4 / wide;
    int8_t *out = (int8_t *)p->out + row * p->out_stride + c->n;
    __m512 m[4];
    LB_UNROLL_ALL
    for (int j = 0; j < 4; j++)
        m[j] = _mm512_load_ps(c->m + 16 * (j % wide));
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i += each) {
        __m512i four[4];
        LB_UNROLL_ALL
        for (int j = 0; j < 4; j++)
            four[j] = acc[i * wide + j < rows * wide ? i * wide + j : i * wide + j % wide];
        const __m512i bytes = lb_dot4_bytes64(bare, four, m, p);
        LB_UNROLL_ALL
        for (int j = 0; j < each; j++, out += p->out_stride) {
            if (i + j >= rows)
                continue;
            if (!whole) {
                const __m512i places = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
                const __m512i at = _mm512_add_epi32(places, _mm512_set1_epi32(4 * wide * j));
                _mm512_mask_storeu_epi8(out, some, _mm512_permutexvar_epi32(at, bytes));
            } else if (wide == 4)
                _mm512_storeu_si512(out, bytes);
            else if (wide == 2)
                _mm256_storeu_si256((__m256i *)(void *)out, j ? _mm512_extracti64x4_epi64(bytes, 1) : _mm512_castsi512_si256(bytes));
            else {
                const __m128i part = j == 0   ? _mm512_castsi512_si128(bytes)
                                     : j == 1 ? _mm512_extracti32x4_epi32(bytes, 1)
                                     : j == 2 ? _mm512_extracti32x4_epi32(bytes, 2)
                                              : _mm512_extracti32x4_epi32(bytes, 3);
                _mm_storeu_si128((__m128i *)(void *)out, part);
            }
        }
    }
}

/* Results of rows row, row + 1, ... */
LB_INLINE void lb_dot4_epilogue(const int rows, const int wide, const lb_dot4_product *p, const lb_dot4_result to, const lb_dot4_columns *c,
                                ptrdiff_t row, const __m512i *acc) {
    if (to == LB_DOT4_S8) {
        if (c->bare)
            lb_dot4_epilogue_s8(1, rows, wide, p, c, row, acc);
        else
            lb_dot4_epilogue_s8(0, rows, wide, p, c, row, acc);
        return;
    }
    LB_UNROLL_ALL
    for (int i = 0; i < rows; i++) {
        const __m512 by = _mm512_set1_ps(to == LB_DOT4_ROWS ? p->row_multiplier[row + i] : 1.0f);
        LB_UNROLL_ALL
        for (int j = 0; j < wide; j++) {
            const ptrdiff_t at = (row + i) * p->out_stride + c->n + 16 * j, width = c->width - 16 * j;
            const __m512i sum = acc[i * wide + j];
            const __mmask16 lanes = lb_first16(width);
            const __m512 m = _mm512_load_ps(c->m + 16 * j), real = _mm512_cvtepi32_ps(sum);
            if (to == LB_DOT4_F32)
                _mm512_mask_storeu_ps((float *)p->out + at, lanes, _mm512_mul_ps(real, m));
            else if (to == LB_DOT4_ROWS) {
                const __m512 t = _mm512_add_ps(_mm512_setzero_ps(), _mm512_mul_ps(real, _mm512_mul_ps(by, m)));
                const __m512 bias = _mm512_maskz_loadu_ps(lanes, p->real_bias + c->n + 16 * j);
                _mm512_mask_storeu_ps((float *)p->out + at, lanes, _mm512_add_ps(t, bias));
            } else
                lb_store_words((int16_t *)p->out + at, _mm512_castsi512_si256(sum), _mm512_extracti64x4_epi64(sum, 1),
                               _mm256_load_ps(c->m + 16 * j), _mm256_load_ps(c->m + 16 * j + 8), p->y_zero, p->lo, p->hi,
                               width < 16 ? width : 16);
        }
    }
}

#endif
