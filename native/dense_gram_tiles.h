/* What dense_gram.h does once rows are packed, whatever their type was. */

/* The columns a .. a + TILE - 1 of the packed rows, times their weights. */
static void NAME(pack_tile)(
    const double *panels, const double *v, int64_t stride, int64_t count, int64_t a, double *tile
) {
    const double *from = panels + a / PANEL * PACK * PANEL + a % PANEL;
    for (int64_t i = 0; i < count; i++)
        UNROLL for (int t = 0; t < TILE; t += LANES)
            NAME(store)(tile + i * TILE + t, v[i * stride] * NAME(load)(from + i * PANEL + t));
}

/* TILE x (count of vectors) sums over rows, in registers. */
static ALWAYS_INLINE void NAME(tile_sums)(
    const double *tile, const double *panel, int64_t rows, const int vectors, double *out
) {
    vec sums[TILE][3];
    UNROLL for (int t = 0; t < TILE; t++) UNROLL for (int q = 0; q < vectors; q++) sums[t][q] = (vec){0};
    for (int64_t i = 0; i < rows; i++, tile += TILE, panel += PANEL) {
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
static void NAME(tile_by_panel)(const double *tile, const double *panels, int64_t rows, int64_t b, int vectors, double *out) {
    const double *panel = panels + b / PANEL * PACK * PANEL + b % PANEL;
    if (vectors == 3) NAME(tile_sums)(tile, panel, rows, 3, out);
    else if (vectors == 2) NAME(tile_sums)(tile, panel, rows, 2, out);
    else NAME(tile_sums)(tile, panel, rows, 1, out);
}

/* Adds the sums to the pairs (a + t, b + q), first <= a + t < last, of the upper triangle. */
static void NAME(add_tile)(
    const double *sums, double *G, int64_t m, int64_t a, int64_t b, int64_t end, int64_t first, int64_t last
) {
    for (int64_t t = a < first ? first - a : 0; t < TILE && a + t < last; t++) {
        double *line = G + (a + t) * m + b;
        const int64_t from = a + t > b ? a + t - b : 0, to = (end < m ? end : m) - b;
        for (int64_t q = from; q < to; q++) line[q] += sums[t * PANEL + q];
    }
}

/* The packed rows times the roots of their weights, so that G = B'B: then what rounding did to B is done to rows alone,
 * and G stays that of some rows, however far from 0 their columns are. 0 if a weight is negative, or not a number. */
static int NAME(take_roots)(const double *v, int64_t count, int64_t width, double *panels) {
    for (int64_t i = 0; i < count; i++) if (!(v[i] >= 0)) return 0;
    for (int64_t start = 0; start < width; start += PANEL, panels += PACK * PANEL)
        for (int64_t i = 0; i < count; i++) {
            const vec root = NAME(all)(sqrt(v[i]));
            UNROLL for (int k = 0; k < PANEL; k += LANES)
                NAME(store)(panels + i * PANEL + k, root * NAME(load)(panels + i * PANEL + k));
        }
    return 1;
}

/* The pairs whose first column is at least `first` and below `last`, and what mirrors them. */
static void NAME(dense_gram)(const DenseGram *at, int64_t first, int64_t last, double *scratch) {
    const int64_t m = at->m, n = at->rows->n, width = round_up(m, PANEL);
    double *panels = scratch, *tile = panels + width * PACK, *sums = tile + TILE * PACK;
    for (int64_t row = 0; row < n; row += PACK) {
        const int64_t count = n - row < PACK ? n - row : PACK;
        if (at->rows->type == FLOAT64) JOIN(NAME(pack_rows), float64)(at, row, count, panels);
        else if (at->rows->type == FLOAT32) JOIN(NAME(pack_rows), float32)(at, row, count, panels);
        else JOIN(NAME(pack_rows), uint8)(at, row, count, panels);
        static const double one = 1.0;
        const int rooted = at->count == 1 && NAME(take_roots)(at->V + row, count, width, panels);
        for (int64_t c = 0; c < at->count; c++)
            for (int64_t a = first / TILE * TILE; a < last; a += TILE) {
                const double *v = rooted ? &one : at->V + row * at->count + c;
                NAME(pack_tile)(panels, v, rooted ? 0 : at->count, count, a, tile);
                /* columns left of the tile, and beyond the last one, are left out by whole vectors */
                for (int64_t b = a / LANES * LANES, end; b < m; b = end) {
                    end = (b / PANEL + 1) * PANEL;
                    const int64_t vectors = ((end < m ? end : m) - b + LANES - 1) / LANES;
                    NAME(tile_by_panel)(tile, panels, count, b, (int)vectors, sums);
                    NAME(add_tile)(sums, at->out + c * m * m, m, a, b, end, first, last);
                }
            }
    }
    for (int64_t c = 0; c < at->count; c++) {
        double *G = at->out + c * m * m;
        for (int64_t a = first; a < last; a++)
            for (int64_t b = a + 1; b < m; b++) G[b * m + a] = G[a * m + b];
    }
}
