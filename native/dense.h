/* Products with a block of dense rows of one type; included once for each type.
 *
 * LOAD(p) is the vector at p as float64. Bytes are converted where they are used, and again for each use: a block
 * converted in advance takes eight times the room in the caches, and was slower.
 *
 * The transposed W and G (k x width, width = D and some padding) make both products loops along the features.
 * A group of up to six columns is held in registers, for as many rows or features as these allow: there are 32 of them
 * with eight lanes, 16 otherwise. A tile of features keeps what it reads in the first cache. */

#define TNAME(f) JOIN(NAME(f), SUFFIX)

typedef struct {
    const ELEMENT *x;
    int64_t stride, features; /* row r begins at x + r * stride */
    int rows, intercept;
} TNAME(Dense);

static ALWAYS_INLINE TNAME(Dense) TNAME(dense_block)(const Rows *rows, int64_t first, int count) {
    const ELEMENT *x = (const ELEMENT *)rows->values + first * rows->features;
    return (TNAME(Dense)){x, rows->features, rows->features, count, rows->intercept};
}

/* Adds to t the products of R rows and C columns of W over `count` features. */
static ALWAYS_INLINE void TNAME(dots)(const int R, const int C, const ELEMENT *x, int64_t stride, const double *w,
                                      int64_t width, int64_t count, const ELEMENT *next, double *t) {
    vec sum[24] = {{0}};
    int64_t j = 0;
    for (; j + LANES <= count; j += LANES) {
        vec xs[8];
        UNROLL for (int r = 0; r < R; r++) __builtin_prefetch(next + r * stride + j, 0, 2);
        UNROLL for (int r = 0; r < R; r++) xs[r] = LOAD(x + r * stride + j);
        UNROLL for (int c = 0; c < C; c++) {
            vec wc = NAME(load)(w + c * width + j);
            HOLD_VECTOR(wc);
            UNROLL for (int r = 0; r < R; r++) sum[c * R + r] += xs[r] * wc;
        }
    }
    UNROLL for (int c = 0; c < C; c++) {
        UNROLL for (int r = 0; r < R; r++) {
            double total = NAME(sum)(sum[c * R + r]);
            for (int64_t i = j; i < count; i++) total += VALUE(x[r * stride + i]) * w[c * width + i];
            t[c * BLOCK + r] += total;
        }
    }
}

/* The same for all rows of a block. Rows of a tile are too short for the processor to guess where the next ones are:
 * they are asked for early (beyond the last row this does no harm). */
static ALWAYS_INLINE void TNAME(dots_rows)(const int R, const int C, const TNAME(Dense) *block, int64_t first,
                                           int64_t count, const double *w, int64_t width, double *t) {
    const int64_t stride = block->stride;
    const ELEMENT *x = block->x + first;
    int r = 0;
    for (; r + R <= block->rows; r += R, x += R * stride)
        TNAME(dots)(R, C, x, stride, w, width, count, x + 2 * R * stride, t + r);
    for (; r < block->rows; r++, x += stride) TNAME(dots)(1, C, x, stride, w, width, count, x + stride, t + r);
}

/* Adds to C columns of G, over U vectors of features, what the rows contribute. */
static ALWAYS_INLINE void TNAME(adds)(const int C, const int U, const TNAME(Dense) *block, int64_t first,
                                      const double *t, double *g, int64_t width) {
    vec sum[24];
    const ELEMENT *x = block->x + first;
    UNROLL for (int c = 0; c < C; c++) {
        UNROLL for (int u = 0; u < U; u++) sum[c * U + u] = NAME(load)(g + c * width + u * LANES);
    }
    for (int64_t r = 0; r < block->rows; r++, t++, x += block->stride) {
        vec xs[4];
        UNROLL for (int u = 0; u < U; u++) xs[u] = LOAD(x + u * LANES);
        UNROLL for (int c = 0; c < C; c++) {
            vec tc = NAME(all)(t[c * BLOCK]);
            UNROLL for (int u = 0; u < U; u++) sum[c * U + u] += xs[u] * tc;
        }
    }
    UNROLL for (int c = 0; c < C; c++) {
        UNROLL for (int u = 0; u < U; u++) NAME(store)(g + c * width + u * LANES, sum[c * U + u]);
    }
}

static ALWAYS_INLINE void TNAME(adds_features)(const int C, const int U, const TNAME(Dense) *block, int64_t j,
                                               int64_t end, const double *t, double *g, int64_t width) {
    for (; j + U * LANES <= end; j += U * LANES) TNAME(adds)(C, U, block, j, t, g + j, width);
    for (; j + LANES <= end; j += LANES) TNAME(adds)(C, 1, block, j, t, g + j, width);
    for (; j < end; j++)
        for (int c = 0; c < C; c++)
            for (int r = 0; r < block->rows; r++)
                g[c * width + j] += VALUE(block->x[r * block->stride + j]) * t[c * BLOCK + r];
}

/* One of the two products for all k columns over a tile of features. */
static ALWAYS_INLINE void TNAME(tile)(const int forward, const TNAME(Dense) *block, int64_t first, int64_t end,
                                      const double *w, double *g, int64_t width, int64_t k, double *t) {
    const int64_t groups = (k + 5) / 6;
    for (int64_t i = 0; i < groups; i++) {
        const int64_t from = k * i / groups, columns = k * (i + 1) / groups - from;
        double *ti = t + from * BLOCK;
        switch (columns) {
#define CASE(C, R, U)                                                                                              \
    case C:                                                                                                        \
        if (forward) TNAME(dots_rows)(R, C, block, first, end - first, w + from * width + first, width, ti);       \
        else TNAME(adds_features)(C, U, block, first, end, ti, g + from * width, width);                            \
        break;
#if LANES == 8
            CASE(1, 8, 4) CASE(2, 8, 4) CASE(3, 8, 4) CASE(4, 4, 4) CASE(5, 4, 4) CASE(6, 4, 4)
#else
            CASE(1, 8, 4) CASE(2, 4, 4) CASE(3, 4, 2) CASE(4, 2, 2) CASE(5, 2, 2) CASE(6, 2, 2)
#endif
#undef CASE
        }
    }
}

static void TNAME(dense_forward)(const Rows *rows, int64_t first, int count, const double *w, int64_t k, int64_t width,
                                 double *t) {
    const TNAME(Dense) block = TNAME(dense_block)(rows, first, count);
    const int64_t features = block.features, step = tile_size(features);
    const int filled = (block.rows + LANES - 1) / LANES * LANES;
    for (int64_t c = 0; c < k; c++)
        for (int r = 0; r < filled; r++) t[c * BLOCK + r] = block.intercept ? w[c * width + features] : 0;
    for (int64_t j = 0; j < features; j += step)
        TNAME(tile)(1, &block, j, j + step < features ? j + step : features, w, 0, width, k, t);
}

static void TNAME(dense_backward)(const Rows *rows, int64_t first, int count, double *t, int64_t k, int64_t width,
                                  double *g) {
    const TNAME(Dense) block = TNAME(dense_block)(rows, first, count);
    const int64_t features = block.features, step = tile_size(features);
    for (int64_t j = 0; j < features; j += step)
        TNAME(tile)(0, &block, j, j + step < features ? j + step : features, 0, g, width, k, t);
    if (block.intercept)
        for (int64_t c = 0; c < k; c++)
            for (int r = 0; r < block.rows; r++) g[c * width + features] += t[c * BLOCK + r];
}

#undef TNAME
