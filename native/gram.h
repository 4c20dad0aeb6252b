/* Second-order sums of sparse rows, for several weights at once: the pairs (a, b), a <= b, of
 *
 *     sum_i v_ic x_ia x_ib,      c = 0 .. p - 1,
 *
 * over all columns, or over some of them. Only nonzeros meet, so a row of m nonzeros costs m^2 p / 2 multiply-adds; made
 * dense it would cost D^2 p / 2. Every pair is added up row by row in one place, in the order of the rows: who computes
 * which pairs cannot change a bit. */

/* The nonzeros of row i in the columns that have a place, scaled, and the ones of the intercept; how many. */
static ALWAYS_INLINE int64_t NAME(collect)(const Gram *gram, int64_t i, double *x, int64_t *at) {
    const Rows *rows = gram->rows;
    int64_t count = 0;
    for (int64_t p = rows->start[i]; p < rows->start[i + 1]; p++) {
        const int64_t column = rows->column[p], place = gram->place ? gram->place[column] : column;
        if (place < 0) continue;
        const double value = rows->type == FLOAT64   ? ((const double *)rows->values)[p]
                             : rows->type == FLOAT32 ? (double)((const float *)rows->values)[p]
                                                     : byte_value[((const uint8_t *)rows->values)[p]];
        at[count] = place;
        x[count++] = value * rows->scale;
    }
    if (gram->bias >= 0) {
        at[count] = gram->bias;
        x[count++] = 1;
    }
    return count;
}

/* The pairs whose first place is at least `first` and below `last`; scratch holds m values and m places. */
static void NAME(gram)(const Gram *gram, int64_t first, int64_t last, double *scratch) {
    const int64_t m = gram->m, count = gram->count;
    double *x = scratch;
    int64_t *at = (int64_t *)(scratch + m);
    for (int64_t i = 0; i < gram->rows->n; i++) {
        const double *v = gram->V + i * count;
        const int64_t length = NAME(collect)(gram, i, x, at);
        for (int64_t p = 0; p < length; p++) {
            const int64_t a = at[p];
            if (a < first || a >= last) continue;
            /* pairs are stored row by row of the upper triangle: (a, b) is a m - a (a - 1)/2 + (b - a) */
            double *line = gram->out + (a * m - a * (a + 1) / 2) * count;
            if (count == 1) {
                const double t = v[0] * x[p];
                for (int64_t q = p; q < length; q++) line[at[q]] += t * x[q];
            } else {
                for (int64_t q = p; q < length; q++) {
                    double *to = line + at[q] * count;
                    const double t = x[p] * x[q];
                    for (int64_t c = 0; c < count; c++) to[c] += t * v[c];
                }
            }
        }
    }
}
