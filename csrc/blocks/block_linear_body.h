/* block_linear_s8 by a function for each format, so that each has the registers for itself. The including file defines them before:
 * linear_Q4_0, linear_Q4_1 and so on, of the type linear_fn. */
typedef void linear_fn(const lb_block_linear_s8_params *p, int32_t panel, const uint8_t *x, const uint8_t *w, const float *bias,
                       const float *residual, float *out);

#define FUNCTION_OF(name)                                                                                                                  \
    case LB_##name:                                                                                                                        \
        return linear_##name;

static linear_fn *linear_of(int32_t format) {
    switch (format) {
        LB_BLOCK_FORMATS(FUNCTION_OF)
    default:
        return NULL; /* no format of integers: the contract excludes it */
    }
}

static void linear_panels(const lb_block_linear_s8_params *p, const uint8_t *x, const uint8_t *w, const float *bias, const float *residual,
                          float *out, int32_t begin, int32_t end) {
    linear_fn *const linear = linear_of(p->format);
    for (int32_t panel = begin; panel < end; panel++)
        linear(p, panel, x, w, bias, residual, out);
}
