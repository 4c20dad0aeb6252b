/* Products with a block of sparse rows of one type; included once for each type.
 *
 * W and G are D x width, the k columns of one feature side by side and padded to whole vectors: a nonzero is
 * a few multiply-adds on neighbouring numbers. VALUE(x) is the nonzero x as a float64.
 *
 * Forward a row gathers from W. Back, a row would scatter into G, and its stores are what takes the time; so where the
 * nonzeros are also sorted by column (columns.h), a column gathers from the residuals of its group instead.
 *
 * One row after the other: to let two or four rows advance together, or to go tile by tile of the columns so that
 * W and G stay in the first cache, was tried and was slower. */

#define TNAME(f) JOIN(NAME(f), SUFFIX)

/* A row, whose nonzeros have columns, or the part of a column in a group, whose nonzeros have rows. */
typedef struct {
    const ELEMENT *x;
    const int32_t *column;
    const uint8_t *row;
    int64_t length;
} TNAME(Line);

static ALWAYS_INLINE TNAME(Line) TNAME(row)(const Rows *rows, int64_t i) {
    const int64_t from = rows->start[i];
    return (TNAME(Line)){(const ELEMENT *)rows->values + from, rows->column + from, 0, rows->start[i + 1] - from};
}

static ALWAYS_INLINE void TNAME(gather_one)(const int V, vec x, const double *from, vec *sum) {
    UNROLL for (int v = 0; v < V; v++) sum[v] += x * NAME(load)(from + v * LANES);
}

/* Adds to z the line times V vectors of W. Two sets of sums hide the latency of the multiply-add. What limits it is how
 * many loads a processor can do at a time, so values and places are loaded LANES at a time and taken apart. */
static ALWAYS_INLINE void TNAME(gather)(const int V, const Way way, TNAME(Line) line, const double *w, int64_t width,
                                        double *z) {
    vec even[4], odd[4];
    UNROLL for (int v = 0; v < V; v++) {
        even[v] = NAME(load)(z + v * LANES);
        odd[v] = NAME(all)(0);
    }
    int64_t p = 0;
    for (; p + LANES <= line.length; p += LANES) {
        const vec x = LOAD(line.x + p);
        uint64_t places[LANES / 2]; /* the first place in the lowest bits, where the lowest byte comes first */
        if (way == COLUMN_GATHERS) memcpy(places, line.row + p, LANES);
        else memcpy(places, line.column + p, sizeof places);
        UNROLL for (int i = 0; i < LANES; i++) {
            const uint64_t row = places[0] >> 8 * i & 0xff, column = places[i / 2] >> 32 * (i % 2) & 0xffffffff;
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
            const uint64_t at = way == COLUMN_GATHERS ? line.row[p + i] : (uint64_t)line.column[p + i];
            (void)row, (void)column;
#else
            const uint64_t at = way == COLUMN_GATHERS ? row : column;
#endif
            TNAME(gather_one)(V, NAME(lane)(x, i), w + at * width, i % 2 ? odd : even);
        }
    }
    for (; p < line.length; p++) {
        const int64_t at = way == COLUMN_GATHERS ? line.row[p] : line.column[p];
        TNAME(gather_one)(V, NAME(all)(VALUE(line.x[p])), w + at * width, even);
    }
    UNROLL for (int v = 0; v < V; v++) NAME(store)(z + v * LANES, even[v] + odd[v]);
}

/* Adds to V vectors of G the row times its residuals r. */
static ALWAYS_INLINE void TNAME(scatter)(const int V, TNAME(Line) row, const double *r, double *g, int64_t width) {
    vec rs[4];
    UNROLL for (int v = 0; v < V; v++) rs[v] = NAME(load)(r + v * LANES);
    for (int64_t p = 0; p < row.length; p++) {
        double *to = g + row.column[p] * width;
        vec x = NAME(all)(VALUE(row.x[p]));
        HOLD_POINTER(to);
        UNROLL for (int v = 0; v < V; v++) NAME(store)(to + v * LANES, NAME(load)(to + v * LANES) + x * rs[v]);
    }
}

/* What a line gives to z, or takes from it, for all outputs, up to four vectors at a time. Where these are all there
 * are, the width is a constant and addresses need no multiplication: a tenth of the whole pass. */
static ALWAYS_INLINE void TNAME(outputs)(const Way way, TNAME(Line) line, const double *w, double *g, int64_t width,
                                         double *z) {
    for (int64_t c = 0, vectors; (vectors = (width - c) / LANES) > 0; c += vectors * LANES) {
        if (vectors > 4) vectors = 4;
        switch (vectors) {
#define CASE(V)                                                                                                    \
    case V:                                                                                                        \
        if (way != ROW_SCATTERS) {                                                                                 \
            if (width == V * LANES) TNAME(gather)(V, way, line, w, V * LANES, z);                                  \
            else TNAME(gather)(V, way, line, w + c, width, z + c);                                                 \
        } else if (width == V * LANES) TNAME(scatter)(V, line, z, g, V * LANES);                                   \
        else TNAME(scatter)(V, line, z + c, g + c, width);                                                         \
        break;
            CASE(1) CASE(2) CASE(3) CASE(4)
#undef CASE
        }
    }
}

/* One column needs no vectors: four sums hide the latency. */
static ALWAYS_INLINE double TNAME(gather_scalar)(TNAME(Line) row, const double *w) {
    double sum[4] = {0};
    int64_t p = 0;
    for (; p + 4 <= row.length; p += 4) {
        UNROLL for (int i = 0; i < 4; i++) sum[i] += VALUE(row.x[p + i]) * w[row.column[p + i]];
    }
    for (; p < row.length; p++) sum[0] += VALUE(row.x[p]) * w[row.column[p]];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

static ALWAYS_INLINE void TNAME(scatter_scalar)(TNAME(Line) row, double r, double *g) {
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
        if (k > 1) TNAME(outputs)(ROW_GATHERS, TNAME(row)(rows, first + r), w, 0, width, zr);
        else *zr += TNAME(gather_scalar)(TNAME(row)(rows, first + r), w);
    }
    for (int64_t c = 0; c < k; c++) {
        for (int r = 0; r < count; r++) t[c * BLOCK + r] = z[r * width + c];
        for (int r = count; r < filled; r++) t[c * BLOCK + r] = 0;
    }
}

/* The residuals of a block, in z row by row, go to the gradient; those of rows sorted by column wait for their group. */
static void TNAME(sparse_backward)(const Rows *rows, int64_t first, int count, const double *t, int64_t k, int64_t width,
                                   double *z, double *g) {
    double *bias = g + rows->features * width;
    for (int r = 0; r < count; r++) {
        double *zr = z + r * width;
        for (int64_t c = 0; c < width; c++) zr[c] = c < k ? t[c * BLOCK + r] : 0;
        for (int64_t c = 0; rows->intercept && c < width; c++) bias[c] += zr[c];
        if (k == 1) TNAME(scatter_scalar)(TNAME(row)(rows, first + r), *zr, g);
        else if (!rows->columns) TNAME(outputs)(ROW_SCATTERS, TNAME(row)(rows, first + r), 0, g, width, zr);
    }
}

/* The residuals z of a whole group, which begins at the row `first`, go to the gradient column by column. */
static void TNAME(group_backward)(const Rows *rows, int64_t group, int64_t first, int64_t width, const double *z,
                                  double *g) {
    const Columns *columns = rows->columns;
    const uint32_t *start = columns->start + group * (rows->features + 1);
    const ELEMENT *x = (const ELEMENT *)columns->values + rows->start[first];
    const uint8_t *row = columns->row + rows->start[first];
    for (int64_t j = 0; j < rows->features; j++) {
        const int64_t from = start[j], length = start[j + 1] - from;
        TNAME(Line) line = {x + from, 0, row + from, length};
        if (length) TNAME(outputs)(COLUMN_GATHERS, line, z, 0, width, g + j * width);
    }
}

#undef TNAME
