/* Products with a block of sparse rows of one type; included once for each type.
 *
 * W and G are D x width, the k columns of one feature side by side and padded to whole vectors: a nonzero is
 * a few multiply-adds on neighbouring numbers. VALUE(x) is the nonzero x as a float64.
 *
 * One row after the other: to let two or four rows advance together, or to go tile by tile of the columns so that
 * W and G stay in the first cache, was tried and was slower. */

#define TNAME(f) JOIN(NAME(f), SUFFIX)

typedef struct {
    const ELEMENT *x;
    const int32_t *column;
    int64_t length;
} TNAME(Row);

static ALWAYS_INLINE TNAME(Row) TNAME(row)(const Rows *rows, int64_t i) {
    const int64_t from = rows->start[i];
    return (TNAME(Row)){(const ELEMENT *)rows->values + from, rows->column + from, rows->start[i + 1] - from};
}

static ALWAYS_INLINE void TNAME(gather_one)(const int V, TNAME(Row) row, int64_t p, const double *w, int64_t width,
                                            vec *sum) {
    const double *from = w + row.column[p] * width;
    vec x = NAME(all)(VALUE(row.x[p]));
    UNROLL for (int v = 0; v < V; v++) sum[v] += x * NAME(load)(from + v * LANES);
}

/* Adds to z the row times V vectors of W. Two sets of sums hide the latency of the multiply-add. */
static ALWAYS_INLINE void TNAME(gather)(const int V, TNAME(Row) row, const double *w, int64_t width, double *z) {
    vec even[4], odd[4];
    UNROLL for (int v = 0; v < V; v++) {
        even[v] = NAME(load)(z + v * LANES);
        odd[v] = NAME(all)(0);
    }
    int64_t p = 0;
    for (; p + 2 <= row.length; p += 2) {
        TNAME(gather_one)(V, row, p, w, width, even);
        TNAME(gather_one)(V, row, p + 1, w, width, odd);
    }
    if (p < row.length) TNAME(gather_one)(V, row, p, w, width, even);
    UNROLL for (int v = 0; v < V; v++) NAME(store)(z + v * LANES, even[v] + odd[v]);
}

/* Adds to V vectors of G the row times its residuals r. */
static ALWAYS_INLINE void TNAME(scatter)(const int V, TNAME(Row) row, const double *r, double *g, int64_t width) {
    vec rs[4];
    UNROLL for (int v = 0; v < V; v++) rs[v] = NAME(load)(r + v * LANES);
    for (int64_t p = 0; p < row.length; p++) {
        double *to = g + row.column[p] * width;
        vec x = NAME(all)(VALUE(row.x[p]));
        HOLD_POINTER(to);
        UNROLL for (int v = 0; v < V; v++) NAME(store)(to + v * LANES, NAME(load)(to + v * LANES) + x * rs[v]);
    }
}

/* One of the two products of a row for all columns, up to four vectors at a time. Where these are all there are, the
 * width is a constant and addresses need no multiplication: a tenth of the whole pass. */
static ALWAYS_INLINE void TNAME(columns)(const int forward, TNAME(Row) row, const double *w, double *g, int64_t width,
                                         double *z) {
    for (int64_t c = 0, vectors; (vectors = (width - c) / LANES) > 0; c += vectors * LANES) {
        if (vectors > 4) vectors = 4;
        switch (vectors) {
#define CASE(V)                                                                                                    \
    case V:                                                                                                        \
        if (forward) {                                                                                             \
            if (width == V * LANES) TNAME(gather)(V, row, w, V * LANES, z);                                        \
            else TNAME(gather)(V, row, w + c, width, z + c);                                                       \
        } else if (width == V * LANES) TNAME(scatter)(V, row, z, g, V * LANES);                                    \
        else TNAME(scatter)(V, row, z + c, g + c, width);                                                          \
        break;
            CASE(1) CASE(2) CASE(3) CASE(4)
#undef CASE
        }
    }
}

/* One column needs no vectors: four sums hide the latency. */
static ALWAYS_INLINE double TNAME(gather_scalar)(TNAME(Row) row, const double *w) {
    double sum[4] = {0};
    int64_t p = 0;
    for (; p + 4 <= row.length; p += 4) {
        UNROLL for (int i = 0; i < 4; i++) sum[i] += VALUE(row.x[p + i]) * w[row.column[p + i]];
    }
    for (; p < row.length; p++) sum[0] += VALUE(row.x[p]) * w[row.column[p]];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static ALWAYS_INLINE void TNAME(scatter_scalar)(TNAME(Row) row, double r, double *g) {
    for (int64_t p = 0; p < row.length; p++) g[row.column[p]] += VALUE(row.x[p]) * r;
}

/* Predictors of a block, by way of z (BLOCK x width). */
static void TNAME(sparse_forward)(const Rows *rows, int64_t first, int count, const double *w, int64_t k, int64_t width,
                                  double *z, double *t) {
    const double *bias = w + rows->features * width;
    const int filled = (count + LANES - 1) / LANES * LANES;
    for (int r = 0; r < count; r++) {
        double *zr = z + r * width;
        for (int64_t c = 0; c < width; c++) zr[c] = rows->intercept ? bias[c] : 0;
        if (k > 1) TNAME(columns)(1, TNAME(row)(rows, first + r), w, 0, width, zr);
        else *zr += TNAME(gather_scalar)(TNAME(row)(rows, first + r), w);
    }
    for (int64_t c = 0; c < k; c++) {
        for (int r = 0; r < count; r++) t[c * BLOCK + r] = z[r * width + c];
        for (int r = count; r < filled; r++) t[c * BLOCK + r] = 0;
    }
}

static void TNAME(sparse_backward)(const Rows *rows, int64_t first, int count, const double *t, int64_t k, int64_t width,
                                   double *z, double *g) {
    double *bias = g + rows->features * width;
    for (int r = 0; r < count; r++) {
        for (int64_t c = 0; c < width; c++) z[c] = c < k ? t[c * BLOCK + r] : 0;
        if (k > 1) TNAME(columns)(0, TNAME(row)(rows, first + r), 0, g, width, z);
        else TNAME(scatter_scalar)(TNAME(row)(rows, first + r), *z, g);
        for (int64_t c = 0; rows->intercept && c < width; c++) bias[c] += z[c];
    }
}

#undef TNAME
