/* Products with a block of dense rows of one type; included once for each type.
 *
 * The transposed W and G (k x D) make both products loops along the features. A group of up to six columns
 * is held in registers; a tile of features keeps what the group reads in the first cache. */

#define TNAME(f) JOIN(NAME(f), SUFFIX)

/* Adds to t the products of R rows and C columns of W over `count` features. */
static ALWAYS_INLINE void TNAME(dots)(const int R, const int C, const ELEMENT *x, int64_t features,
                                      const double *w, int64_t D, int64_t count, double *t) {
    vec sum[12] = {{0}};
    int64_t j = 0;
    for (; j + LANES <= count; j += LANES) {
        vec xs[8];
        UNROLL for (int r = 0; r < R; r++) xs[r] = LOAD(x + r * features + j);
        UNROLL for (int c = 0; c < C; c++) {
            vec wc = NAME(load)(w + c * D + j);
            UNROLL for (int r = 0; r < R; r++) sum[c * R + r] += xs[r] * wc;
        }
    }
    UNROLL for (int c = 0; c < C; c++) {
        UNROLL for (int r = 0; r < R; r++) {
            double total = NAME(sum)(sum[c * R + r]);
            for (int64_t i = j; i < count; i++) total += (double)x[r * features + i] * w[c * D + i];
            t[c * BLOCK + r] += total;
        }
    }
}

static ALWAYS_INLINE void TNAME(dots_rows)(const int R, const int C, const ELEMENT *x, int rows, int64_t features,
                                           const double *w, int64_t D, int64_t count, double *t) {
    int r = 0;
    for (; r + R <= rows; r += R) TNAME(dots)(R, C, x + r * features, features, w, D, count, t + r);
    for (; r < rows; r++) TNAME(dots)(1, C, x + r * features, features, w, D, count, t + r);
}

/* Adds to C columns of G, over U vectors of features, what the rows contribute. */
static ALWAYS_INLINE void TNAME(adds)(const int C, const int U, const ELEMENT *x, int rows, int64_t features,
                                      const double *t, double *g, int64_t D) {
    vec sum[12];
    UNROLL for (int c = 0; c < C; c++) {
        UNROLL for (int u = 0; u < U; u++) sum[c * U + u] = NAME(load)(g + c * D + u * LANES);
    }
    for (int r = 0; r < rows; r++) {
        vec xs[4];
        UNROLL for (int u = 0; u < U; u++) xs[u] = LOAD(x + r * features + u * LANES);
        UNROLL for (int c = 0; c < C; c++) {
            vec tc = NAME(all)(t[c * BLOCK + r]);
            UNROLL for (int u = 0; u < U; u++) sum[c * U + u] += xs[u] * tc;
        }
    }
    UNROLL for (int c = 0; c < C; c++) {
        UNROLL for (int u = 0; u < U; u++) NAME(store)(g + c * D + u * LANES, sum[c * U + u]);
    }
}

static ALWAYS_INLINE void TNAME(adds_features)(const int C, const int U, const ELEMENT *x, int rows,
                                               int64_t features, const double *t, double *g, int64_t D,
                                               int64_t count) {
    int64_t j = 0;
    for (; j + U * LANES <= count; j += U * LANES) TNAME(adds)(C, U, x + j, rows, features, t, g + j, D);
    for (; j + LANES <= count; j += LANES) TNAME(adds)(C, 1, x + j, rows, features, t, g + j, D);
    for (; j < count; j++)
        for (int c = 0; c < C; c++)
            for (int r = 0; r < rows; r++) g[c * D + j] += (double)x[r * features + j] * t[c * BLOCK + r];
}

#define GROUP(C, R, U)                                                                                             \
    case C:                                                                                                        \
        if (forward) TNAME(dots_rows)(R, C, x, rows, features, wc, D, count, tc);                                  \
        else TNAME(adds_features)(C, U, x, rows, features, tc, gc, D, count);                                      \
        break

/* One of the two products for all k columns over a tile of features. */
static ALWAYS_INLINE void TNAME(tile)(const int forward, const ELEMENT *x, int rows, int64_t features,
                                      const double *w, double *g, int64_t D, int64_t k, int64_t count, double *t) {
    int64_t groups = (k + 5) / 6;
    for (int64_t i = 0; i < groups; i++) {
        int64_t c = k * i / groups, C = k * (i + 1) / groups - c;
        const double *wc = forward ? w + c * D : w;
        double *gc = forward ? g : g + c * D, *tc = t + c * BLOCK;
        switch (C) {
            GROUP(1, 8, 4);
            GROUP(2, 4, 4);
            GROUP(3, 4, 2);
            GROUP(4, 2, 2);
            GROUP(5, 2, 2);
            GROUP(6, 2, 2);
        }
    }
}
#undef GROUP

static void TNAME(dense_forward)(const Rows *rows, int64_t first, int count, const double *w, int64_t k, double *t) {
    const ELEMENT *x = (const ELEMENT *)rows->values + first * rows->features;
    int filled = (count + LANES - 1) / LANES * LANES;
    for (int64_t c = 0; c < k; c++)
        for (int r = 0; r < filled; r++) t[c * BLOCK + r] = rows->intercept ? w[c * rows->D + rows->features] : 0;
    int64_t step = tile_size(rows->features);
    for (int64_t j = 0; j < rows->features; j += step) {
        int64_t tile = rows->features - j < step ? rows->features - j : step;
        TNAME(tile)(1, x + j, count, rows->features, w + j, 0, rows->D, k, tile, t);
    }
}

static void TNAME(dense_backward)(const Rows *rows, int64_t first, int count, double *t, int64_t k, double *g) {
    const ELEMENT *x = (const ELEMENT *)rows->values + first * rows->features;
    int64_t step = tile_size(rows->features);
    for (int64_t j = 0; j < rows->features; j += step) {
        int64_t tile = rows->features - j < step ? rows->features - j : step;
        TNAME(tile)(0, x + j, count, rows->features, 0, g + j, rows->D, k, tile, t);
    }
    if (rows->intercept)
        for (int64_t c = 0; c < k; c++)
            for (int r = 0; r < count; r++) g[c * rows->D + rows->features] += t[c * BLOCK + r];
}

#undef TNAME
