/* exp.h by vectors. The including file defines the words of its width, which end here: EXP_V, EXP_INTS and EXP_MASK are types, EXP_FN(name)
 * names a function, EXP_OP(name) is an intrinsic. EXP_LESS and EXP_AT_LEAST compare, EXP_WHERE(mask, v) is v or 0, EXP_PICK(mask, a, b) a
 * or b, EXP_FLIP(mask, v) -v or v; EXP_BITS and EXP_OF_BITS keep all bits. */

static inline EXP_V EXP_FN(exp)(EXP_V x) {
    const EXP_MASK inside = EXP_AT_LEAST(x, EXP_OP(set1_ps)(-87.0f));
    const EXP_V t = EXP_WHERE(inside, x); /* values outside would leave the range of the conversion */
    const EXP_INTS exponent = EXP_OP(cvtps_epi32)(EXP_OP(mul_ps)(t, EXP_OP(set1_ps)(1.44269502f)));
    const EXP_V n = EXP_OP(cvtepi32_ps)(exponent);
    const EXP_V first = EXP_OP(mul_ps)(n, EXP_OP(set1_ps)(0.693359375f)), second = EXP_OP(mul_ps)(n, EXP_OP(set1_ps)(-2.12194440e-4f));
    const EXP_V r = EXP_OP(sub_ps)(EXP_OP(sub_ps)(t, first), second);
    static const float rest[] = {1.39819994e-3f, 8.33345205e-3f, 4.16657962e-2f, 1.66666657e-1f, 0.5f};
    EXP_V p = EXP_OP(set1_ps)(1.98756912e-4f);
    for (int i = 0; i < 5; i++)
        p = EXP_OP(add_ps)(EXP_OP(mul_ps)(p, r), EXP_OP(set1_ps)(rest[i]));
    const EXP_V e = EXP_OP(add_ps)(EXP_OP(add_ps)(EXP_OP(mul_ps)(p, EXP_OP(mul_ps)(r, r)), r), EXP_OP(set1_ps)(1.0f));
    const EXP_INTS y = EXP_OP(add_epi32)(EXP_BITS(e), EXP_OP(slli_epi32)(exponent, 23));
    return EXP_WHERE(inside, EXP_OF_BITS(y));
}

static inline EXP_V EXP_FN(negative_magnitude)(EXP_V x) {
    return EXP_OP(or_ps)(x, EXP_OP(set1_ps)(-0.0f));
}

static inline EXP_V EXP_FN(sigmoid)(EXP_V x) {
    const EXP_V one = EXP_OP(set1_ps)(1.0f), e = EXP_FN(exp)(EXP_FN(negative_magnitude)(x));
    const EXP_MASK negative = EXP_LESS(x, EXP_OP(setzero_ps)());
    return EXP_OP(div_ps)(EXP_PICK(negative, e, one), EXP_OP(add_ps)(one, e));
}

static inline EXP_V EXP_FN(tanh)(EXP_V x) {
    const EXP_V one = EXP_OP(set1_ps)(1.0f), a = EXP_FN(negative_magnitude)(x), e = EXP_FN(exp)(EXP_OP(add_ps)(a, a));
    const EXP_V t = EXP_OP(div_ps)(EXP_OP(sub_ps)(one, e), EXP_OP(add_ps)(one, e));
    return EXP_FLIP(EXP_LESS(x, EXP_OP(setzero_ps)()), t);
}

#undef EXP_V
#undef EXP_INTS
#undef EXP_MASK
#undef EXP_FN
#undef EXP_OP
#undef EXP_LESS
#undef EXP_AT_LEAST
#undef EXP_WHERE
#undef EXP_PICK
#undef EXP_FLIP
#undef EXP_BITS
#undef EXP_OF_BITS
