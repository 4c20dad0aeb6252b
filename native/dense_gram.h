/* Second-order sums of dense rows, and of sparse ones that are not sparse enough, for several weights at once:
 *
 *     G_c = sum_i v_ic x_i x_i',      c = 0 .. count - 1,
 *
 * over all columns, or over some of them. PACK rows at a time become float64: once as panels of PANEL columns, and for
 * each weight as tiles of TILE weighted columns. A tile times a panel is TILE x PANEL sums that stay in registers, so
 * that memory is hardly felt, whatever type the rows have. Every sum is added up row by row in one place, in the order
 * of the rows: who computes which pairs cannot change a bit. Included once for each type. */

#define TNAME(f) JOIN(NAME(f), SUFFIX)

/* Rows `first` .. `first + count - 1`, scaled, panel by panel, times these roots if there are any; what is no column
 * is 0. */
static void TNAME(pack_rows)(
    const DenseGram *at, int64_t first, int64_t count, const double *roots, double *panels
) {
    const Rows *rows = at->rows;
    const int64_t features = at->m - (at->bias >= 0);
    const ELEMENT *values = rows->values;
    const int64_t padded_columns = round_up(at->m, LANES);
    const double scale = rows->scale;
    if (rows->column) memset(panels, 0, (size_t)(round_up(at->m, PANEL) * PACK) * sizeof(double));
    for (int64_t i = 0; rows->column && i < count; i++)
        for (int64_t p = rows->start[first + i]; p < rows->start[first + i + 1]; p++) {
            const int64_t k = at->where ? at->where[rows->column[p]] : rows->column[p];
            /* += : an entry may be given twice */
            if (k >= 0) panels[(k / PANEL * PACK + i) * PANEL + k % PANEL] += scale * VALUE(values[p]);
        }
    for (int64_t start = 0; start < at->m; start += PANEL, panels += PACK * PANEL) {
        const int64_t width = features - start < PANEL ? features - start : PANEL;
        for (int64_t i = 0; i < count; i++) {
            double *to = panels + i * PANEL;
            if (!rows->column) {
                const ELEMENT *x = values + (first + i) * rows->features;
                if (at->where)
                    for (int64_t k = 0; k < width; k++) to[k] = scale * VALUE(x[at->where[start + k]]);
                else if (width == PANEL)
                    UNROLL for (int k = 0; k < PANEL; k += LANES) NAME(store)(to + k, scale * LOAD(x + start + k));
                else
                    for (int64_t k = 0; k < width; k++) to[k] = scale * VALUE(x[start + k]);
                for (int64_t k = width < 0 ? 0 : width; k < PANEL && start + k < padded_columns; k++) to[k] = 0;
            }
            if (at->bias >= start && at->bias < start + PANEL) to[at->bias - start] = 1;
            if (roots) UNROLL for (int k = 0; k < PANEL; k += LANES) NAME(store)(to + k, roots[i] * NAME(load)(to + k));
        }
    }
}

#undef TNAME
