/* Vectors of LANES float64 numbers in GCC's vector extension, and exp and log on them.
 *
 * The C library's exp takes one number at a time and would cost as much as all the rest of a softmax. */

#define vec NAME(vec)
#define ivec NAME(ivec)
#define uvec NAME(uvec)
typedef double vec __attribute__((vector_size(8 * LANES), may_alias));
typedef int64_t ivec __attribute__((vector_size(8 * LANES), may_alias));
typedef uint64_t uvec __attribute__((vector_size(8 * LANES), may_alias));
typedef double NAME(loose) __attribute__((vector_size(8 * LANES), aligned(8), may_alias));
typedef float NAME(floats) __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static ALWAYS_INLINE vec NAME(load)(const double *x) { return *(const NAME(loose) *)x; }
static ALWAYS_INLINE void NAME(store)(double *x, vec v) { *(NAME(loose) *)x = v; }
static ALWAYS_INLINE vec NAME(all)(double x) { return x - (vec){0}; }

/* The i-th number everywhere; i must be known when it is compiled. */
static ALWAYS_INLINE vec NAME(lane)(vec v, const int i) {
#if defined(__clang__)
    return NAME(all)(v[i]);
#else
    return __builtin_shuffle(v, i - (ivec){0});
#endif
}

static ALWAYS_INLINE vec NAME(load_float32)(const float *x) {
    return __builtin_convertvector(*(const NAME(floats) *)x, vec);
}

static ALWAYS_INLINE vec NAME(load_uint8)(const uint8_t *x) {
    /* a byte in the low bits of 2^52 is 2^52 + the byte: faster than what compilers make of the conversion */
    ivec bits;
    UNROLL for (int i = 0; i < LANES; i++) bits[i] = x[i];
    return (vec)(bits | 0x4330000000000000) - 4503599627370496.0;
}

/* Halves are added to halves: a chain of one number after the other is felt where rows or tiles are short. */
static ALWAYS_INLINE double NAME(sum)(vec v) {
    UNROLL for (int half = LANES / 2; half; half /= 2) {
#if defined(__clang__)
        UNROLL for (int i = 0; i < half; i++) v[i] += v[i + half];
#else
        ivec other;
        UNROLL for (int i = 0; i < LANES; i++) other[i] = i ^ half;
        v += __builtin_shuffle(v, other);
#endif
    }
    return v[0];
}

static ALWAYS_INLINE vec NAME(choose)(ivec mask, vec yes, vec no) {
    return (vec)((mask & (ivec)yes) | (~mask & (ivec)no));
}

static ALWAYS_INLINE vec NAME(absolute)(vec x) { return (vec)((ivec)x & INT64_MAX); }

/* max(x, 0) that hands a NaN on. */
static ALWAYS_INLINE vec NAME(positive)(vec x) { return NAME(choose)(x <= 0, NAME(all)(0), x); }

/* 1 where x > 0, 0 where x <= 0, NaN where x is. */
static ALWAYS_INLINE vec NAME(step)(vec x) {
    return NAME(choose)(x > 0, NAME(all)(1), NAME(choose)(x <= 0, NAME(all)(0), x));
}

/* 1, -1, or x itself where x is 0 or NaN. */
static ALWAYS_INLINE vec NAME(sign)(vec x) {
    return NAME(choose)(x > 0, NAME(all)(1), NAME(choose)(x < 0, NAME(all)(-1), x));
}

#define SHIFTER 6755399441055744.0 /* 1.5 * 2^52: adding it leaves the nearest integer in the low bits */

static ALWAYS_INLINE vec NAME(power_of_two)(vec shifted) { return (vec)(((ivec)shifted + 1023) << 52); }

/* exp(x) = 2^n exp(r) with |r| <= log(2) / 2. Beyond the clamp exp is 0 or inf, and the two factors of 2^n
 * make it so, denormal numbers included; a NaN passes through every line. */
static ALWAYS_INLINE vec NAME(exp)(vec x) {
    x = NAME(choose)(x > 710.0, NAME(all)(710.0), x);
    x = NAME(choose)(x < -746.0, NAME(all)(-746.0), x);
    vec n = (x * 1.4426950408889634 + SHIFTER) - SHIFTER;
    vec r = (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10;
    vec p = NAME(all)(1.0 / 6227020800.0);
    p = p * r + 1.0 / 479001600.0;
    p = p * r + 1.0 / 39916800.0;
    p = p * r + 1.0 / 3628800.0;
    p = p * r + 1.0 / 362880.0;
    p = p * r + 1.0 / 40320.0;
    p = p * r + 1.0 / 5040.0;
    p = p * r + 1.0 / 720.0;
    p = p * r + 1.0 / 120.0;
    p = p * r + 1.0 / 24.0;
    p = p * r + 1.0 / 6.0;
    p = p * r + 0.5;
    p = p * (r * r) + r;
    p = p + 1.0;
    vec half = n * 0.5 + SHIFTER;
    vec rest = (n - (half - SHIFTER)) + SHIFTER;
    return p * NAME(power_of_two)(half) * NAME(power_of_two)(rest);
}

/* log(1 + f) for -0.3 <= f <= 0.4143, by log(1 + f) = 2 artanh(f / (2 + f)). */
static ALWAYS_INLINE vec NAME(log_near_one)(vec f) {
    vec t = f / (2.0 + f), u = t * t;
    vec p = NAME(all)(1.0 / 21);
    p = p * u + 1.0 / 19;
    p = p * u + 1.0 / 17;
    p = p * u + 1.0 / 15;
    p = p * u + 1.0 / 13;
    p = p * u + 1.0 / 11;
    p = p * u + 1.0 / 9;
    p = p * u + 1.0 / 7;
    p = p * u + 1.0 / 5;
    p = p * u + 1.0 / 3;
    return 2.0 * (p * u * t + t);
}

/* log(1 + e) for 0 <= e <= 1, with full relative accuracy for small e. */
static ALWAYS_INLINE vec NAME(log1p)(vec e) {
    ivec large = e > 0.4142;
    vec f = NAME(choose)(large, (e - 1.0) * 0.5, e);
    return NAME(choose)(large, NAME(all)(0.69314718055994530942), NAME(all)(0)) + NAME(log_near_one)(f);
}

/* log(x) for x >= 1; inf and NaN are handed on. */
static ALWAYS_INLINE vec NAME(log)(vec x) {
    uvec bits = (uvec)x;
    vec exponent = (vec)((bits >> 52) | 0x4330000000000000u) - 4503599627371519.0; /* 2^52 + 1023 */
    vec m = (vec)((bits & 0x000fffffffffffffu) | 0x3ff0000000000000u);
    ivec large = m > 1.4142;
    m = NAME(choose)(large, m * 0.5, m);
    exponent = NAME(choose)(large, exponent + 1.0, exponent);
    vec result = exponent * 0.69314718055994530942 + NAME(log_near_one)(m - 1.0);
    return NAME(choose)(x <= 1.7976931348623157e308, result, x);
}
