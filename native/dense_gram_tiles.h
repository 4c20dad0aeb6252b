/* What dense_gram.h does once rows are packed, whatever their type was. */

/* The columns a .. a + TILE - 1 of the packed rows: where they begin. A row of them is PANEL numbers from the next. */
static ALWAYS_INLINE const double *NAME(packed_column)(const double *panels, int64_t a) {
    return panels + a / PANEL * PACK * PANEL + a % PANEL;
}

/* The same columns, times their weights; a row of them is TILE numbers from the next. */
static void NAME(pack_tile)(
    const double *panels, const double *v, int64_t stride, int64_t count, int64_t a, double *tile
) {
    const double *from = NAME(packed_column)(panels, a);
    for (int64_t i = 0; i < count; i++)
        UNROLL for (int t = 0; t < TILE; t += LANES)
            NAME(store)(tile + i * TILE + t, v[i * stride] * NAME(load)(from + i * PANEL + t));
}

/* TILE x (count of vectors) sums over rows, in registers. */
static ALWAYS_INLINE void NAME(tile_sums)(
    const double *tile, const int stride, const double *panel, int64_t rows, const int vectors, double *out
) {
    vec sums[TILE][3];
    UNROLL for (int t = 0; t < TILE; t++) UNROLL for (int q = 0; q < vectors; q++) sums[t][q] = (vec){0};
    for (int64_t i = 0; i < rows; i++, tile += stride, panel += PANEL) {
        vec b[3];
        UNROLL for (int q = 0; q < vectors; q++) b[q] = NAME(load)(panel + q * LANES);
        UNROLL for (int t = 0; t < TILE; t++) {
            const vec a = NAME(all)(tile[t]);
            UNROLL for (int q = 0; q < vectors; q++) sums[t][q] += a * b[q];
        }
    }
    UNROLL for (int t = 0; t < TILE; t++)
        UNROLL for (int q = 0; q < vectors; q++) NAME(store)(out + t * PANEL + q * LANES, sums[t][q]);
}

/* A tile meets the columns from `b` on, of which there are so many vectors in the panel. */
static ALWAYS_INLINE void NAME(tile_by_panel)(
    const double *tile, const int stride, const double *panels, int64_t rows, int64_t b, int64_t vectors, double *out
) {
    const double *panel = NAME(packed_column)(panels, b);
    if (vectors == 3) NAME(tile_sums)(tile, stride, panel, rows, 3, out);
    else if (vectors == 2) NAME(tile_sums)(tile, stride, panel, rows, 2, out);
    else NAME(tile_sums)(tile, stride, panel, rows, 1, out);
}

/* Adds the sums to the pairs (a + t, b + q), first <= a + t < last, of the upper triangle. */
static void NAME(add_tile)(
    const double *sums, double *G, int64_t m, int64_t a, int64_t b, int64_t end, int64_t first, int64_t last
) {
    for (int64_t t = a < first ? first - a : 0; t < TILE && a + t < last; t++) {
        double *restrict line = G + (a + t) * m + b;
        const double *restrict from = sums + t * PANEL;
        const int64_t to = end - b;
        int64_t q = a + t > b ? a + t - b : 0;
        for (; q + LANES <= to; q += LANES) NAME(store)(line + q, NAME(load)(line + q) + NAME(load)(from + q));
        for (; q < to; q++) line[q] += from[q];
    }
}

/* One weight that is not negative enters as the roots of the rows' weights, so that G = B'B: then what rounding did to B
 * is done to rows alone, and G stays that of some rows, however far from 0 their columns are. NULL if a weight is
 * negative, or not a number. */
static const double *NAME(take_roots)(const DenseGram *at, int64_t row, int64_t count, double *roots) {
    if (at->count != 1) return 0;
    for (int64_t i = 0; i < count; i++) {
        if (!(at->V[row + i] >= 0)) return 0;
        roots[i] = sqrt(at->V[row + i]);
    }
    return roots;
}

/* Some packed rows for one weight: the pairs whose first column is at least `first` and below `last`. Without v the
 * tiles are columns of the panels themselves, and none is copied. */
static void NAME(packed_gram)(
    const double *panels, const double *v, int64_t stride, int64_t count, int64_t m, int64_t first, int64_t last,
    double *tile, double *sums, double *G
) {
    for (int64_t a = first / TILE * TILE; a < last; a += TILE) {
        if (v) NAME(pack_tile)(panels, v, stride, count, a, tile);
        /* columns left of the tile, and beyond the last one, are left out by whole vectors */
        for (int64_t b = a, end; b < m; b = end) {
            end = (b / PANEL + 1) * PANEL < m ? (b / PANEL + 1) * PANEL : m;
            const int64_t vectors = (end - b + LANES - 1) / LANES;
            if (v) NAME(tile_by_panel)(tile, TILE, panels, count, b, vectors, sums);
            else NAME(tile_by_panel)(NAME(packed_column)(panels, a), PANEL, panels, count, b, vectors, sums);
            NAME(add_tile)(sums, G, m, a, b, end, first, last);
        }
    }
}

/* The pairs whose first column is at least `first` and below `last`, and what mirrors them. */
static void NAME(dense_gram)(const DenseGram *at, int64_t first, int64_t last, double *scratch) {
    const int64_t m = at->m, n = at->rows->n;
    double *panels = scratch, *tile = panels + round_up(m, PANEL) * PACK, *roots = tile + TILE * PACK;
    double *sums = roots + PACK;
    for (int64_t row = 0; row < n; row += PACK) {
        const int64_t count = n - row < PACK ? n - row : PACK;
        const double *rooted = NAME(take_roots)(at, row, count, roots);
        if (at->rows->type == FLOAT64) JOIN(NAME(pack_rows), float64)(at, row, count, rooted, panels);
        else if (at->rows->type == FLOAT32) JOIN(NAME(pack_rows), float32)(at, row, count, rooted, panels);
        else JOIN(NAME(pack_rows), uint8)(at, row, count, rooted, panels);
        for (int64_t c = 0; c < at->count; c++) {
            const double *v = rooted ? 0 : at->V + row * at->count + c;
            NAME(packed_gram)(panels, v, at->count, count, m, first, last, tile, sums, at->out + c * m * m);
        }
    }
    for (int64_t c = 0; c < at->count; c++) {
        double *G = at->out + c * m * m;
        for (int64_t a = first; a < last; a++)
            for (int64_t b = a + 1; b < m; b++) G[b * m + a] = G[a * m + b];
    }
}
