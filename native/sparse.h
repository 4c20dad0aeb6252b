/* Products with a block of sparse rows of one type; included once for each type.
 *
 * W and G are D x width, the k columns of one feature side by side and padded to whole vectors: a nonzero is
 * a few multiply-adds on neighbouring numbers. VALUE(p) is the p-th nonzero as a float64. */

#define TNAME(f) JOIN(NAME(f), SUFFIX)

/* Nonzeros [from, to) times V vectors of W. Two sets of sums hide the latency of the multiply-add. */
static ALWAYS_INLINE void TNAME(gather)(const int V, const ELEMENT *x, const int32_t *column, int64_t from, int64_t to,
                                        const double *w, int64_t width, double *z) {
    vec even[4], odd[4];
    UNROLL for (int v = 0; v < V; v++) {
        even[v] = NAME(load)(z + v * LANES);
        odd[v] = NAME(all)(0);
    }
    int64_t p = from;
    for (; p + 2 <= to; p += 2) {
        const double *w0 = w + column[p] * width, *w1 = w + column[p + 1] * width;
        vec x0 = NAME(all)(VALUE(p)), x1 = NAME(all)(VALUE(p + 1));
        UNROLL for (int v = 0; v < V; v++) {
            even[v] += x0 * NAME(load)(w0 + v * LANES);
            odd[v] += x1 * NAME(load)(w1 + v * LANES);
        }
    }
    if (p < to) {
        const double *w0 = w + column[p] * width;
        vec x0 = NAME(all)(VALUE(p));
        UNROLL for (int v = 0; v < V; v++) even[v] += x0 * NAME(load)(w0 + v * LANES);
    }
    UNROLL for (int v = 0; v < V; v++) NAME(store)(z + v * LANES, even[v] + odd[v]);
}

static ALWAYS_INLINE void TNAME(scatter)(const int V, const ELEMENT *x, const int32_t *column, int64_t from, int64_t to,
                                         const double *r, double *g, int64_t width) {
    vec rs[4];
    UNROLL for (int v = 0; v < V; v++) rs[v] = NAME(load)(r + v * LANES);
    for (int64_t p = from; p < to; p++) {
        double *g0 = g + column[p] * width;
        vec x0 = NAME(all)(VALUE(p));
        UNROLL for (int v = 0; v < V; v++)
            NAME(store)(g0 + v * LANES, NAME(load)(g0 + v * LANES) + x0 * rs[v]);
    }
}

/* One column needs no vectors: four sums hide the latency. */
static ALWAYS_INLINE double TNAME(gather_one)(const ELEMENT *x, const int32_t *column, int64_t from, int64_t to,
                                              const double *w) {
    double a = 0, b = 0, c = 0, d = 0;
    int64_t p = from;
    for (; p + 4 <= to; p += 4) {
        a += VALUE(p) * w[column[p]];
        b += VALUE(p + 1) * w[column[p + 1]];
        c += VALUE(p + 2) * w[column[p + 2]];
        d += VALUE(p + 3) * w[column[p + 3]];
    }
    for (; p < to; p++) a += VALUE(p) * w[column[p]];
    return (a + b) + (c + d);
}

static void TNAME(sparse_forward)(const Rows *rows, int64_t first, int count, const double *w, int64_t k,
                                  int64_t width, double *z, double *t) {
    const ELEMENT *x = rows->values;
    const int32_t *column = rows->column;
    const double *bias = w + rows->features * width;
    int filled = (count + LANES - 1) / LANES * LANES;
    for (int r = 0; r < count; r++) {
        int64_t from = rows->start[first + r], to = rows->start[first + r + 1];
        if (k == 1) {
            t[r] = TNAME(gather_one)(x, column, from, to, w) + (rows->intercept ? *bias : 0);
            continue;
        }
        for (int64_t c = 0; c < width; c++) z[c] = rows->intercept ? bias[c] : 0;
        int64_t c = 0;
        for (; c + 4 * LANES <= width; c += 4 * LANES) TNAME(gather)(4, x, column, from, to, w + c, width, z + c);
        switch ((width - c) / LANES) {
        case 3: TNAME(gather)(3, x, column, from, to, w + c, width, z + c); break;
        case 2: TNAME(gather)(2, x, column, from, to, w + c, width, z + c); break;
        case 1: TNAME(gather)(1, x, column, from, to, w + c, width, z + c); break;
        }
        for (c = 0; c < k; c++) t[c * BLOCK + r] = z[c];
    }
    for (int r = count; r < filled; r++)
        for (int64_t c = 0; c < k; c++) t[c * BLOCK + r] = 0;
}

static void TNAME(sparse_backward)(const Rows *rows, int64_t first, int count, const double *t, int64_t k,
                                   int64_t width, double *z, double *g) {
    const ELEMENT *x = rows->values;
    const int32_t *column = rows->column;
    double *bias = g + rows->features * width;
    for (int64_t c = k; c < width; c++) z[c] = 0;
    for (int r = 0; r < count; r++) {
        int64_t from = rows->start[first + r], to = rows->start[first + r + 1];
        if (k == 1) {
            for (int64_t p = from; p < to; p++) g[column[p]] += VALUE(p) * t[r];
            if (rows->intercept) *bias += t[r];
            continue;
        }
        int64_t c = 0;
        for (; c < k; c++) z[c] = t[c * BLOCK + r];
        if (rows->intercept)
            for (c = 0; c < width; c++) bias[c] += z[c];
        for (c = 0; c + 4 * LANES <= width; c += 4 * LANES)
            TNAME(scatter)(4, x, column, from, to, z + c, g + c, width);
        switch ((width - c) / LANES) {
        case 3: TNAME(scatter)(3, x, column, from, to, z + c, g + c, width); break;
        case 2: TNAME(scatter)(2, x, column, from, to, z + c, g + c, width); break;
        case 1: TNAME(scatter)(1, x, column, from, to, z + c, g + c, width); break;
        }
    }
}

#undef TNAME
