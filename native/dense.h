/* Products with a block of dense rows, in place if they are float64 and converted by the block if not.
 *
 * The transposed W and G (k x width, width = D and some padding) make both products loops along the features.
 * A group of up to six columns is held in registers; a tile of features keeps what it reads in the first cache. */

typedef struct {
    const double *x;
    int64_t stride, features; /* row r begins at x + r * stride */
    int rows, intercept;
} NAME(Dense);

static void NAME(from_float32)(const float *restrict x, int64_t count, double *restrict to) {
    int64_t j = 0;
    for (; j + LANES <= count; j += LANES) NAME(store)(to + j, NAME(load_float32)(x + j));
    for (; j < count; j++) to[j] = x[j];
}

static void NAME(from_uint8)(const uint8_t *restrict x, int64_t count, double *restrict to) {
    for (int64_t j = 0; j < count; j++) to[j] = x[j]; /* compilers know best how to widen bytes */
}

static NAME(Dense) NAME(dense_block)(const Rows *rows, int64_t first, int count, double *scratch) {
    const int64_t stride = padded(rows->features);
    if (rows->type == FLOAT64) {
        const double *x = (const double *)rows->values + first * rows->features;
        return (NAME(Dense)){x, rows->features, rows->features, count, rows->intercept};
    }
    for (int r = 0; r < count; r++) {
        const int64_t at = (first + r) * rows->features;
        double *to = scratch + r * stride;
        if (rows->type == FLOAT32) NAME(from_float32)((const float *)rows->values + at, rows->features, to);
        else NAME(from_uint8)((const uint8_t *)rows->values + at, rows->features, to);
    }
    return (NAME(Dense)){scratch, stride, rows->features, count, rows->intercept};
}

/* Adds to t the products of R rows and C columns of W over `count` features. */
static ALWAYS_INLINE void NAME(dots)(const int R, const int C, const double *x, int64_t stride, const double *w,
                                     int64_t width, int64_t count, const double *next, double *t) {
    vec sum[12] = {{0}};
    int64_t j = 0;
    for (; j + LANES <= count; j += LANES) {
        vec xs[8];
        UNROLL for (int r = 0; r < R; r++) __builtin_prefetch(next + r * stride + j, 0, 2);
        UNROLL for (int r = 0; r < R; r++) xs[r] = NAME(load)(x + r * stride + j);
        UNROLL for (int c = 0; c < C; c++) {
            vec wc = NAME(load)(w + c * width + j);
            HOLD_VECTOR(wc);
            UNROLL for (int r = 0; r < R; r++) sum[c * R + r] += xs[r] * wc;
        }
    }
    UNROLL for (int c = 0; c < C; c++) {
        UNROLL for (int r = 0; r < R; r++) {
            double total = NAME(sum)(sum[c * R + r]);
            for (int64_t i = j; i < count; i++) total += x[r * stride + i] * w[c * width + i];
            t[c * BLOCK + r] += total;
        }
    }
}

/* The same for all rows of a block. Rows of a tile are too short for the processor to guess where the next ones are:
 * they are asked for early (beyond the last row this does no harm). */
static ALWAYS_INLINE void NAME(dots_rows)(const int R, const int C, const NAME(Dense) *block, int64_t first,
                                          int64_t count, const double *w, int64_t width, double *t) {
    const int64_t stride = block->stride;
    const double *x = block->x + first;
    int r = 0;
    for (; r + R <= block->rows; r += R, x += R * stride)
        NAME(dots)(R, C, x, stride, w, width, count, x + 2 * R * stride, t + r);
    for (; r < block->rows; r++, x += stride) NAME(dots)(1, C, x, stride, w, width, count, x + stride, t + r);
}

/* Adds to C columns of G, over U vectors of features, what the rows contribute. */
static ALWAYS_INLINE void NAME(adds)(const int C, const int U, const NAME(Dense) *block, int64_t first,
                                     const double *t, double *g, int64_t width) {
    vec sum[12];
    const double *x = block->x + first;
    UNROLL for (int c = 0; c < C; c++) {
        UNROLL for (int u = 0; u < U; u++) sum[c * U + u] = NAME(load)(g + c * width + u * LANES);
    }
    for (int64_t r = 0; r < block->rows; r++, t++, x += block->stride) {
        vec xs[4];
        UNROLL for (int u = 0; u < U; u++) xs[u] = NAME(load)(x + u * LANES);
        UNROLL for (int c = 0; c < C; c++) {
            vec tc = NAME(all)(t[c * BLOCK]);
            UNROLL for (int u = 0; u < U; u++) sum[c * U + u] += xs[u] * tc;
        }
    }
    UNROLL for (int c = 0; c < C; c++) {
        UNROLL for (int u = 0; u < U; u++) NAME(store)(g + c * width + u * LANES, sum[c * U + u]);
    }
}

static ALWAYS_INLINE void NAME(adds_features)(const int C, const int U, const NAME(Dense) *block, int64_t j, int64_t end,
                                              const double *t, double *g, int64_t width) {
    for (; j + U * LANES <= end; j += U * LANES) NAME(adds)(C, U, block, j, t, g + j, width);
    for (; j + LANES <= end; j += LANES) NAME(adds)(C, 1, block, j, t, g + j, width);
    for (; j < end; j++)
        for (int c = 0; c < C; c++)
            for (int r = 0; r < block->rows; r++)
                g[c * width + j] += block->x[r * block->stride + j] * t[c * BLOCK + r];
}

/* One of the two products for all k columns over a tile of features. */
static ALWAYS_INLINE void NAME(tile)(const int forward, const NAME(Dense) *block, int64_t first, int64_t end,
                                     const double *w, double *g, int64_t width, int64_t k, double *t) {
    const int64_t groups = (k + 5) / 6;
    for (int64_t i = 0; i < groups; i++) {
        const int64_t from = k * i / groups, columns = k * (i + 1) / groups - from;
        double *ti = t + from * BLOCK;
        switch (columns) {
#define CASE(C, R, U)                                                                                              \
    case C:                                                                                                        \
        if (forward) NAME(dots_rows)(R, C, block, first, end - first, w + from * width + first, width, ti);        \
        else NAME(adds_features)(C, U, block, first, end, ti, g + from * width, width);                     \
        break;
            CASE(1, 8, 4) CASE(2, 4, 4) CASE(3, 4, 2) CASE(4, 2, 2) CASE(5, 2, 2) CASE(6, 2, 2)
#undef CASE
        }
    }
}

static void NAME(dense_forward)(const NAME(Dense) *block, const double *w, int64_t k, int64_t width, double *t) {
    const int64_t features = block->features, step = tile_size(features);
    const int filled = (block->rows + LANES - 1) / LANES * LANES;
    for (int64_t c = 0; c < k; c++)
        for (int r = 0; r < filled; r++) t[c * BLOCK + r] = block->intercept ? w[c * width + features] : 0;
    for (int64_t j = 0; j < features; j += step)
        NAME(tile)(1, block, j, j + step < features ? j + step : features, w, 0, width, k, t);
}

static void NAME(dense_backward)(const NAME(Dense) *block, double *t, int64_t k, int64_t width, double *g) {
    const int64_t features = block->features, step = tile_size(features);
    for (int64_t j = 0; j < features; j += step)
        NAME(tile)(0, block, j, j + step < features ? j + step : features, 0, g, width, k, t);
    if (block->intercept)
        for (int64_t c = 0; c < k; c++)
            for (int r = 0; r < block->rows; r++) g[c * width + features] += t[c * BLOCK + r];
}
