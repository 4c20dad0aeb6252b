/* The losses on a block of predictors.
 *
 * A block t holds k x BLOCK numbers, the predictors of one column side by side, so that every formula works
 * on LANES rows at once and a softmax needs no sums across a vector. Rows that fill up the last vector have
 * the weight 0, and what has no weight counts as 0 even where a loss overflows, as Poisson's does for a filler
 * whose predictor is a large intercept. The twin of this file is twin_losses.py. */

/* m = e^z, phi = m/(e^m - 1) and m + phi - 1, each with full relative accuracy: small m by a series. */
static ALWAYS_INLINE void NAME(death)(vec z, vec *m, vec *phi, vec *rest) {
    const double series = 0.3466; /* half of log 2 */
    *m = NAME(exp)(z);
    ivec small = *m <= series;
    vec s = NAME(choose)(small, *m, NAME(all)(0)), q = s * s;
    vec tail = q * (1.0 / 12 - q * (1.0 / 720 - q * (1.0 / 30240 - q * (1.0 / 1209600 - q * (1.0 / 47900160)))));
    vec e = NAME(exp)(-*m), large = *m * e / (1.0 - e);
    large = NAME(choose)(*m > 745.0, NAME(all)(0), large);
    *phi = NAME(choose)(small, 1.0 - 0.5 * s + tail, large);
    *rest = NAME(choose)(small, 0.5 * s + tail, *m + *phi - 1.0);
}

/* -log(1 - e^-m) of m = e^z > 0; below 1e-8 it is m/2 - z. */
static ALWAYS_INLINE vec NAME(rare)(vec z, vec m) {
    ivec tiny = m < 1e-8;
    vec safe = NAME(choose)(tiny, NAME(all)(1), m), e = NAME(exp)(-safe), w = 1.0 - e;
    vec t = NAME(choose)(safe <= 0.3466, safe, NAME(all)(0.1)), p = NAME(all)(1.0 / 6227020800.0); /* 1 - e^-t */
    p = 1.0 / 479001600.0 - p * t;
    p = 1.0 / 39916800.0 - p * t;
    p = 1.0 / 3628800.0 - p * t;
    p = 1.0 / 362880.0 - p * t;
    p = 1.0 / 40320.0 - p * t;
    p = 1.0 / 5040.0 - p * t;
    p = 1.0 / 720.0 - p * t;
    p = 1.0 / 120.0 - p * t;
    p = 1.0 / 24.0 - p * t;
    p = 1.0 / 6.0 - p * t;
    p = 0.5 - p * t;
    w = NAME(choose)(safe <= 0.3466, t - p * t * t, w);
    vec far = -NAME(log_near_one)(NAME(choose)(e <= 0.3, -e, NAME(all)(0)));
    vec value = NAME(choose)(e <= 0.3, far, NAME(log)(1.0 / w));
    return NAME(choose)(tiny, 0.5 * m - z, value);
}

/* The values l(y, z); the slopes l'(y, z) go to *slope. */
static ALWAYS_INLINE vec NAME(scalar_loss)(Loss loss, vec z, vec y, vec *slope) {
    const double parameter = loss.parameter;
    switch (loss.code) {
    case LOGISTIC: {
        vec m = y * z, e = NAME(exp)(-NAME(absolute)(m));
        *slope = -y * NAME(choose)(m >= 0, e, NAME(all)(1)) / (1.0 + e);
        return NAME(positive)(-m) + NAME(log1p)(e);
    }
    case SQUARED: {
        vec r = z - y;
        *slope = r;
        return 0.5 * r * r;
    }
    case HUBER: {
        vec r = z - y, a = NAME(absolute)(r), delta = NAME(all)(parameter);
        *slope = NAME(choose)(a > parameter, NAME(choose)(r > 0, delta, -delta), r);
        return NAME(choose)(a > parameter, delta * (a - 0.5 * parameter), 0.5 * r * r);
    }
    case POISSON: {
        vec e = NAME(exp)(z);
        *slope = e - y;
        return e - y * z;
    }
    case SQUARED_HINGE: {
        vec gap = NAME(positive)(1.0 - y * z);
        *slope = -2.0 * y * gap;
        return gap * gap;
    }
    case HINGE: {
        vec gap = 1.0 - y * z;
        *slope = -y * NAME(step)(gap);
        return NAME(positive)(gap);
    }
    case ABSOLUTE: {
        vec r = z - y;
        *slope = NAME(sign)(r);
        return NAME(absolute)(r);
    }
    case QUANTILE: {
        vec r = z - y, up = NAME(all)(1.0 - parameter), down = NAME(all)(-parameter);
        *slope = NAME(choose)(r > 0, up, NAME(choose)(r < 0, down, r));
        return NAME(choose)(r < 0, down * r, up * r);
    }
    case GAMMA: {
        vec e = y * NAME(exp)(-z);
        *slope = 1.0 - e;
        return z + e;
    }
    case TWEEDIE: {
        const double near_rate = parameter - 1.0, far_rate = 2.0 - parameter;
        vec near = NAME(choose)(y == 0, NAME(all)(0), y * NAME(exp)(-near_rate * z)), far = NAME(exp)(far_rate * z);
        *slope = far - near;
        return near / near_rate + far / far_rate;
    }
    case NEGATIVE_BINOMIAL: {
        vec w = z + loss.log_parameter, total = y + 1.0 / parameter, e = NAME(exp)(-NAME(absolute)(w));
        *slope = total * (NAME(choose)(w >= 0, NAME(all)(1), e) / (1.0 + e)) - y;
        return total * (NAME(positive)(w) + NAME(log1p)(e)) - y * z;
    }
    case CLOGLOG: {
        vec m, phi, rest;
        NAME(death)(z, &m, &phi, &rest);
        *slope = NAME(choose)(y > 0, -phi, m);
        return NAME(choose)(y > 0, NAME(rare)(z, m), m);
    }
    default: { /* EPSILON */
        vec r = z - y, gap = NAME(absolute)(r) - parameter;
        *slope = NAME(choose)(gap > 0, NAME(sign)(r), NAME(step)(gap));
        return NAME(positive)(gap);
    }
    }
}

static ALWAYS_INLINE vec NAME(scalar_curvature)(Loss loss, vec z, vec y) {
    switch (loss.code) {
    case LOGISTIC: {
        vec e = NAME(exp)(-NAME(absolute)(z)), d = 1.0 + e;
        return e / (d * d);
    }
    case SQUARED:
        return NAME(all)(1) + 0.0 * z;
    case HUBER:
        return 1.0 - NAME(step)(NAME(absolute)(z - y) - loss.parameter);
    case POISSON:
        return NAME(exp)(z);
    case GAMMA:
        return y * NAME(exp)(-z);
    case TWEEDIE: {
        const double near_rate = loss.parameter - 1.0, far_rate = 2.0 - loss.parameter;
        vec near = NAME(choose)(y == 0, NAME(all)(0), y * NAME(exp)(-near_rate * z));
        return near_rate * near + far_rate * NAME(exp)(far_rate * z);
    }
    case NEGATIVE_BINOMIAL: {
        vec e = NAME(exp)(-NAME(absolute)(z + loss.log_parameter)), d = 1.0 + e;
        return (y + 1.0 / loss.parameter) * (e / (d * d));
    }
    case CLOGLOG: {
        vec m, phi, rest;
        NAME(death)(z, &m, &phi, &rest);
        return NAME(choose)(y > 0, NAME(choose)(m > 745.0, NAME(all)(0), phi * rest), m);
    }
    default: /* SQUARED_HINGE */
        return 2.0 * NAME(step)(1.0 - y * z);
    }
}

/* Turns the predictors in t into exp(z - top); returns their sums. */
static ALWAYS_INLINE vec NAME(exponentials)(double *t, int64_t k, vec *top) {
    vec highest = NAME(load)(t), total = {0};
    for (int64_t c = 1; c < k; c++) {
        vec z = NAME(load)(t + c * BLOCK);
        highest = NAME(choose)(z > highest, z, highest);
    }
    for (int64_t c = 0; c < k; c++) {
        vec e = NAME(exp)(NAME(load)(t + c * BLOCK) - highest);
        NAME(store)(t + c * BLOCK, e);
        total += e;
    }
    *top = highest;
    return total;
}

static ALWAYS_INLINE vec NAME(softmax)(double *t, int64_t k, vec y, vec s) {
    vec top, own = {0};
    for (int64_t c = 0; c < k; c++)
        own = NAME(choose)(y == (double)c, NAME(load)(t + c * BLOCK), own);
    vec total = NAME(exponentials)(t, k, &top), share = s / total;
    for (int64_t c = 0; c < k; c++) {
        vec r = share * NAME(load)(t + c * BLOCK);
        NAME(store)(t + c * BLOCK, NAME(choose)(y == (double)c, r - s, r));
    }
    return s * (NAME(log)(total) + (top - own));
}

/* Turns `rows` predictors in t into the residuals s l'(y, z); returns the sum of s l(y, z). */
static double NAME(residual_block)(Loss loss, int64_t k, int rows, double *t, const double *y, const double *s) {
    vec total = {0};
    for (int r = 0; r < rows; r += LANES) {
        vec ys = NAME(load)(y + r), ss = NAME(load)(s + r);
        if (loss.code == SOFTMAX) {
            total += NAME(softmax)(t + r, k, ys, ss);
        } else {
            vec slope, zero = {0}, value = NAME(scalar_loss)(loss, NAME(load)(t + r), ys, &slope);
            total += NAME(choose)(ss == 0, zero, ss * value);
            NAME(store)(t + r, NAME(choose)(ss == 0, zero, ss * slope));
        }
    }
    return NAME(sum)(total);
}

/* Turns directions in t into s l''(y, z) t; z is used up. */
static void NAME(curvature_block)(Loss loss, int64_t k, int rows, double *t, double *z, const double *y,
                                  const double *s) {
    for (int r = 0; r < rows; r += LANES) {
        vec ss = NAME(load)(s + r);
        if (loss.code != SOFTMAX) {
            vec zero = {0}, h = NAME(scalar_curvature)(loss, NAME(load)(z + r), NAME(load)(y + r));
            NAME(store)(t + r, NAME(choose)(ss == 0, zero, ss * h * NAME(load)(t + r)));
            continue;
        }
        vec top, mean = {0}, inverse = 1.0 / NAME(exponentials)(z + r, k, &top);
        for (int64_t c = 0; c < k; c++)
            mean += NAME(load)(z + c * BLOCK + r) * NAME(load)(t + c * BLOCK + r);
        mean *= inverse;
        ss *= inverse;
        for (int64_t c = 0; c < k; c++) {
            double *tc = t + c * BLOCK + r;
            NAME(store)(tc, ss * NAME(load)(z + c * BLOCK + r) * (NAME(load)(tc) - mean));
        }
    }
}

/* Row-major n x k numbers to a block and back; the rows that fill up a vector become 0. */
static void NAME(to_block)(const double *Z, int64_t k, int rows, double *t) {
    int filled = (rows + LANES - 1) / LANES * LANES;
    for (int64_t c = 0; c < k; c++) {
        for (int r = 0; r < rows; r++) t[c * BLOCK + r] = Z[r * k + c];
        for (int r = rows; r < filled; r++) t[c * BLOCK + r] = 0;
    }
}

static void NAME(from_block)(const double *t, int64_t k, int rows, double *Z) {
    for (int r = 0; r < rows; r++)
        for (int64_t c = 0; c < k; c++) Z[r * k + c] = t[c * BLOCK + r];
}
