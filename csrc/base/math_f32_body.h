/* Functions of floats, written once. The file that includes this one (math_f32.h for one float, math_f32_avx2.h for eight) defines the
 * words: V a float or eight, FN(name) what a function is called, K a constant, ADD SUB MUL DIV, FMA(a, b, c) = a * b + c (rounded once or
 * twice), LESS and such give a mask, PICK(mask, a, b), CLAMP (NaN stays), ABS, SIGNED(a, s) a with the sign of s, ROUND to nearest even for
 * |a| <= 2^22, POW2(n) for whole n in -126 ... 127, SPLIT(v, &e, &m): v > 0 is m * 2^e with m in [sqrt(1/2), sqrt(2)).
 *
 * Errors against the true value, in units of the last place, measured over all floats: exp 1.5, log 1.5, tanh 2, sigmoid 2.5, erf 2. */

/* exp(r) - 1 - r = r * r * (...) for |r| <= ln(2) / 2. */
static inline V FN(exp_tail)(V r) {
    V p = FMA(K(0x1.a1bd5cp-13f), r, K(0x1.6d9e3ep-10f));
    p = FMA(p, r, K(0x1.11107ap-7f));
    p = FMA(p, r, K(0x1.555478p-5f));
    p = FMA(p, r, K(0x1.555556p-3f));
    p = FMA(p, r, K(0.5f));
    return MUL(p, MUL(r, r));
}

/* v = n * ln(2) + r. */
static inline V FN(by_ln2)(V v, V *r) {
    const V known = PICK(EQUAL(v, v), v, K(0.0f));
    const V n = ROUND(MUL(known, K(0x1.715476p+0f)));
    *r = FMA(n, K(-0x1.62e4p-1f), v); /* the first digits of ln(2): n times them is exact */
    *r = FMA(n, K(-0x1.7f7d1cp-20f), *r);
    return n;
}

static inline V FN(exp)(V v) {
    V r;
    const V n = FN(by_ln2)(CLAMP(v, K(-104.0f), K(89.0f)), &r), half = ROUND(MUL(n, K(0.5f)));
    const V p = ADD(ADD(FN(exp_tail)(r), r), K(1.0f));
    return MUL(MUL(p, POW2(half)), POW2(SUB(n, half))); /* in two steps: results may be subnormal, or infinite */
}

/* exp(v) - 1 for v <= 0. */
static inline V FN(expm1_below)(V v) {
    V r;
    const V s = POW2(FN(by_ln2)(CLAMP(v, K(-20.0f), K(0.0f)), &r));
    return ADD(MUL(s, ADD(FN(exp_tail)(r), r)), SUB(s, K(1.0f)));
}

/* log(1 + f) for 1 + f in [sqrt(1/2), sqrt(2)], and e * ln(2) with it. */
static inline V FN(log_near)(V f, V e) {
    V p = FMA(K(0x1.1b40e4p-4f), f, K(-0x1.e2e918p-4f));
    p = FMA(p, f, K(0x1.e6512ep-4f));
    p = FMA(p, f, K(-0x1.fb434ep-4f));
    p = FMA(p, f, K(0x1.2332b8p-3f));
    p = FMA(p, f, K(-0x1.5562e2p-3f));
    p = FMA(p, f, K(0x1.99a546p-3f));
    p = FMA(p, f, K(-0x1.ffffeep-3f));
    p = FMA(p, f, K(0x1.555546p-2f));
    const V square = MUL(f, f);
    V tail = MUL(MUL(p, f), square);
    tail = FMA(e, K(0x1.7f7d1cp-20f), tail);
    tail = FMA(square, K(-0.5f), tail);
    return FMA(e, K(0x1.62e4p-1f), ADD(f, tail));
}

static inline V FN(log)(V v) {
    const V scaled = PICK(LESS(v, K(FLT_MIN)), MUL(v, K(0x1p25f)), v);
    V e, m;
    SPLIT(scaled, &e, &m);
    e = PICK(LESS(v, K(FLT_MIN)), SUB(e, K(25.0f)), e);
    V y = FN(log_near)(SUB(m, K(1.0f)), e);
    y = PICK(LESS(K(FLT_MAX), v), v, y);
    y = PICK(EQUAL(v, K(0.0f)), K(-LB_INFINITY), y);
    return PICK(LESS_EQUAL(K(0.0f), v), y, K(LB_NAN)); /* below 0, and NaN */
}

/* log(1 + y) for 0 <= y <= 1. */
static inline V FN(log1p_unit)(V y) {
    const V f = PICK(LESS(K(0x1.a8279ap-2f), y), MUL(SUB(y, K(1.0f)), K(0.5f)), y);
    return FN(log_near)(f, PICK(LESS(K(0x1.a8279ap-2f), y), K(1.0f), K(0.0f)));
}

static inline V FN(sigmoid)(V v) {
    const V e = FN(exp)(SUB(K(0.0f), ABS(v)));
    return DIV(PICK(LESS_EQUAL(K(0.0f), v), K(1.0f), e), ADD(K(1.0f), e));
}

static inline V FN(tanh)(V v) {
    const V a = ABS(v), s = MUL(v, v);
    V p = FMA(K(-0x1.72fc24p-8f), s, K(0x1.518b0cp-6f));
    p = FMA(p, s, K(-0x1.b8265cp-5f));
    p = FMA(p, s, K(0x1.11068ep-3f));
    p = FMA(p, s, K(-0x1.55553p-2f));
    const V small = FMA(MUL(p, s), v, v);
    const V large = SUB(K(1.0f), DIV(K(2.0f), ADD(FN(exp)(ADD(a, a)), K(1.0f))));
    return PICK(LESS(a, K(0.625f)), small, SIGNED(large, v));
}

static inline V FN(erf)(V v) {
    const V a = ABS(v), s = MUL(v, v), t = CLAMP(a, K(0.0f), K(4.0f));
    V p = FMA(K(-0x1.44cfbcp-17f), s, K(0x1.d8b88cp-14f));
    p = FMA(p, s, K(-0x1.bcd7dep-11f));
    p = FMA(p, s, K(0x1.562b1ap-8f));
    p = FMA(p, s, K(-0x1.b829d8p-6f));
    p = FMA(p, s, K(0x1.ce2f0ap-4f));
    p = FMA(p, s, K(-0x1.812746p-2f));
    p = FMA(p, s, K(0x1.20dd76p+0f));
    V q = FMA(K(0x1.8cb20ep-13f), t, K(-0x1.861230p-9f)); /* log(erfc(t)) */
    q = FMA(q, t, K(0x1.67b98ap-6f));
    q = FMA(q, t, K(-0x1.a75f1ap-4f));
    q = FMA(q, t, K(-0x1.4692fp-1f));
    q = FMA(q, t, K(-0x1.209564p+0f));
    q = FMA(q, t, K(-0x1.3341b8p-12f));
    return PICK(LESS(a, K(1.0f)), MUL(v, p), SIGNED(SUB(K(1.0f), FN(exp)(q)), v));
}

static inline V FN(silu)(V v) {
    return MUL(v, FN(sigmoid)(v));
}

static inline V FN(gelu)(V v) {
    return MUL(MUL(K(0.5f), v), ADD(K(1.0f), FN(erf)(MUL(v, K(0x1.6a09e6p-1f)))));
}

static inline V FN(gelu_tanh)(V v) {
    const V cube = MUL(MUL(MUL(K(0.044715f), v), v), v);
    return MUL(MUL(K(0.5f), v), ADD(K(1.0f), FN(tanh)(MUL(K(0x1.988454p-1f), ADD(v, cube)))));
}

static inline V FN(hardswish)(V v) {
    return DIV(MUL(v, CLAMP(ADD(v, K(3.0f)), K(0.0f), K(6.0f))), K(6.0f));
}

static inline V FN(hardsigmoid)(V v, V alpha, V beta) {
    return CLAMP(ADD(MUL(v, alpha), beta), K(0.0f), K(1.0f));
}

static inline V FN(elu)(V v, V alpha) {
    return PICK(LESS_EQUAL(K(0.0f), v), v, MUL(alpha, FN(expm1_below)(v)));
}

static inline V FN(leaky_relu)(V v, V alpha) {
    return PICK(LESS_EQUAL(K(0.0f), v), v, MUL(v, alpha));
}

static inline V FN(softplus)(V v) {
    return ADD(PICK(LESS(v, K(0.0f)), K(0.0f), v), FN(log1p_unit)(FN(exp)(SUB(K(0.0f), ABS(v)))));
}

static inline V FN(mish)(V v) {
    return MUL(v, FN(tanh)(FN(softplus)(v)));
}

static inline V FN(round)(V v) {
    const V a = ABS(v), near = SIGNED(SUB(ADD(a, K(0x1p23f)), K(0x1p23f)), v);
    return PICK(LESS(a, K(0x1p23f)), near, v);
}

static inline V FN(floor)(V v) {
    const V near = FN(round)(v);
    return PICK(LESS(v, near), SUB(near, K(1.0f)), near);
}

static inline V FN(ceil)(V v) {
    const V near = FN(round)(v);
    return PICK(LESS(near, v), SIGNED(ADD(near, K(1.0f)), v), near);
}

#undef V
#undef FN
#undef K
#undef ADD
#undef SUB
#undef MUL
#undef DIV
#undef FMA
#undef LESS
#undef LESS_EQUAL
#undef EQUAL
#undef PICK
#undef CLAMP
#undef ABS
#undef SIGNED
#undef ROUND
#undef POW2
#undef SPLIT
