/* A single row of one type, as the sequential methods need it; included once for each type.
 *
 * W is D x k as the caller holds it. z is what the row predicts; `add` puts the row times r back. */

#define TNAME(f) JOIN(NAME(f), SUFFIX)

static void TNAME(row_dot)(const Rows *rows, int64_t i, const double *W, int64_t k, double *z) {
    const int64_t dense = !rows->column, features = rows->features;
    const ELEMENT *x = (const ELEMENT *)rows->values + (dense ? i * features : 0);
    int64_t p = dense ? 0 : rows->start[i], end = dense ? features : rows->start[i + 1];
    for (int64_t c = 0; c < k; c++) z[c] = 0;
    if (dense && k == 1) {
        vec a = {0}, b = {0};
        for (; p + 2 * LANES <= end; p += 2 * LANES) {
            a += LOAD(x + p) * NAME(load)(W + p);
            b += LOAD(x + p + LANES) * NAME(load)(W + p + LANES);
        }
        z[0] = NAME(sum)(a + b);
    }
    for (; p < end; p++) {
        const double *w = W + (dense ? p : rows->column[p]) * k;
        for (int64_t c = 0; c < k; c++) z[c] += VALUE(x[p]) * w[c];
    }
    for (int64_t c = 0; c < k; c++)
        z[c] = rows->scale * z[c] + (rows->intercept ? W[features * k + c] : 0);
}

static void TNAME(row_add)(const Rows *rows, int64_t i, double factor, const double *r, int64_t k, double *G) {
    const int64_t dense = !rows->column, features = rows->features;
    const ELEMENT *x = (const ELEMENT *)rows->values + (dense ? i * features : 0);
    int64_t p = dense ? 0 : rows->start[i], end = dense ? features : rows->start[i + 1];
    const double scaled = factor * rows->scale;
    if (dense && k == 1) {
        const vec step = NAME(all)(scaled * r[0]);
        for (; p + LANES <= end; p += LANES) NAME(store)(G + p, NAME(load)(G + p) + step * LOAD(x + p));
    }
    for (; p < end; p++) {
        double *g = G + (dense ? p : rows->column[p]) * k, value = scaled * VALUE(x[p]);
        for (int64_t c = 0; c < k; c++) g[c] += value * r[c];
    }
    if (rows->intercept)
        for (int64_t c = 0; c < k; c++) G[features * k + c] += factor * r[c];
}

static void TNAME(row_norm2)(const Rows *rows, int64_t i, double *out) {
    const int64_t dense = !rows->column;
    const ELEMENT *x = rows->values;
    int64_t p = dense ? i * rows->features : rows->start[i];
    int64_t end = dense ? p + rows->features : rows->start[i + 1];
    vec sums = {0};
    for (; p + LANES <= end; p += LANES) sums += LOAD(x + p) * LOAD(x + p);
    double total = NAME(sum)(sums);
    for (; p < end; p++) total += VALUE(x[p]) * VALUE(x[p]);
    *out = total * rows->scale * rows->scale + rows->intercept;
}

#undef TNAME
