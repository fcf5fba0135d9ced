/* Few rows times a panel of weights of four bits, in registers of 256 bits. lb_w4_few, the product of a segment, stands before this
 * (w4_maddubs_avx2.h or w4_vnni.h). */
#ifndef LB_W4_FEW_AVX2_H
#define LB_W4_FEW_AVX2_H

/* s.acc (rows x 16) = the sums of a panel for few rows: integers of one segment, or the scaled sum of all. */
LB_INLINE void lb_w4_few_rows(const int rows, const lb_w4_product *p, const lb_w4_scratch *s, const uint8_t *packed, const float *scales,
                              const int summed) {
    __m256 total[LB_W4_FEW][2];
    for (int i = 0; i < rows; i++)
        total[i][0] = total[i][1] = _mm256_setzero_ps();
    for (int32_t g = 0; g < p->cut.segments; g++) {
        const ptrdiff_t k = lb_w4_segment_depth(&p->cut, g);
        __m256i acc[LB_W4_FEW][2], weights[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
        for (int i = 0; i < rows; i++)
            acc[i][0] = acc[i][1] = _mm256_set1_epi32((int32_t)(0u - 8u * (uint32_t)s->sums[g * LB_W4_FEW + i]));
        lb_w4_few(rows, s->a + g * p->cut.stride, s->stride, packed, k / LB_W4_GROUP, acc, summed, weights);
        packed += k * 8;
        if (summed) { /* - x_zero * sum of w, where sum of w = sum of nibbles - 8 k */
            const __m256i zero = _mm256_set1_epi32(-p->x_zero), eight = _mm256_set1_epi32((int32_t)(-8 * k));
            for (int h = 0; h < 2; h++) {
                const __m256i off = _mm256_mullo_epi32(_mm256_add_epi32(weights[h], eight), zero);
                for (int i = 0; i < rows; i++)
                    acc[i][h] = _mm256_add_epi32(acc[i][h], off);
            }
        }
        for (int i = 0; i < rows; i++)
            for (int h = 0; h < 2; h++) {
                if (p->cut.segments == 1) {
                    _mm256_store_si256((__m256i *)(void *)(s->acc + 16 * i + 8 * h), acc[i][h]);
                    continue;
                }
                const __m256 scale = _mm256_loadu_ps(scales + 16 * g + 8 * h);
                total[i][h] = _mm256_add_ps(total[i][h], _mm256_mul_ps(_mm256_cvtepi32_ps(acc[i][h]), scale));
            }
    }
    for (int i = 0; i < rows && p->cut.segments > 1; i++)
        for (int h = 0; h < 2; h++)
            _mm256_store_ps((float *)(void *)(s->acc + 16 * i + 8 * h), total[i][h]);
}

#endif
