/* Second-order sums of sparse rows, for several weights at once: the pairs (a, b), a <= b, of
 *
 *     sum_i v_ic x_ia x_ib,      c = 0 .. p - 1,
 *
 * over all columns, or over some of them. Only nonzeros meet, so a row of m nonzeros costs m^2 p / 2 multiply-adds; made
 * dense it would cost D^2 p / 2.
 *
 * A row touches all of the triangle. Where no cache holds that, some rows at a time are also sorted by column: a column
 * takes all its rows, and what it adds to is one line of the triangle. Every pair is added up in one place, in
 * the order of the rows: who computes which pairs cannot change a bit. */

typedef struct {
    int32_t row, at; /* a nonzero: its row among those gathered, and where it is among theirs */
} NAME(Meeting);

typedef struct {
    double *x;               /* the nonzeros of some rows in the columns that have a place, scaled */
    int32_t *place, *end;    /* the place of each; where each row ends */
    NAME(Meeting) *meeting;  /* sorted by place, then by row */
    int64_t *next;           /* for each place: where its meetings end, once they are sorted */
    int64_t first_row, rows;
} NAME(Gathered);

/* Appends row i, and the one of the intercept; returns how many nonzeros there are now. */
static ALWAYS_INLINE int32_t NAME(append)(const Gram *gram, int64_t i, NAME(Gathered) *g, int32_t count) {
    const Rows *rows = gram->rows;
    for (int64_t p = rows->start[i]; p < rows->start[i + 1]; p++) {
        const int32_t column = rows->column[p], place = gram->place ? gram->place[column] : column;
        if (place < 0) continue;
        const double value = rows->type == FLOAT64   ? ((const double *)rows->values)[p]
                             : rows->type == FLOAT32 ? (double)((const float *)rows->values)[p]
                                                     : byte_value[((const uint8_t *)rows->values)[p]];
        g->place[count] = place;
        g->x[count++] = value * rows->scale;
    }
    if (gram->bias >= 0) {
        g->place[count] = (int32_t)gram->bias;
        g->x[count++] = 1;
    }
    return count;
}

/* Gathers rows from `first_row` on until there are GATHERED nonzeros, or as many rows. */
static void NAME(gather_rows)(const Gram *gram, NAME(Gathered) *g, int64_t first_row) {
    int32_t count = 0;
    g->first_row = first_row;
    for (g->rows = 0; first_row + g->rows < gram->rows->n && count < GATHERED && g->rows < GATHERED; g->rows++)
        g->end[g->rows] = count = NAME(append)(gram, first_row + g->rows, g, count);
}

/* Sorts the nonzeros whose place is at least `first` and below `last`. */
static void NAME(sort_meetings)(NAME(Gathered) *g, int64_t first, int64_t last) {
    const int32_t count = g->rows ? g->end[g->rows - 1] : 0;
    int64_t total = 0;
    memset(g->next + first, 0, (size_t)(last - first) * sizeof *g->next);
    for (int32_t p = 0; p < count; p++)
        if (g->place[p] >= first && g->place[p] < last) g->next[g->place[p]]++;
    for (int64_t a = first; a < last; a++) {
        const int64_t length = g->next[a];
        g->next[a] = total;
        total += length;
    }
    for (int32_t r = 0, p = 0; r < g->rows; r++)
        for (; p < g->end[r]; p++)
            if (g->place[p] >= first && g->place[p] < last)
                g->meeting[g->next[g->place[p]]++] = (NAME(Meeting)){r, p};
}

/* Adds to the line of a column what a row gives from its nonzero p on: t x_q for one weight, x_p x_q v for several. */
static ALWAYS_INLINE void NAME(meet)(
    const NAME(Gathered) *g, int32_t p, int32_t end, const double *restrict v, int64_t count, double *restrict line
) {
    const double *restrict x = g->x;
    const int32_t *restrict place = g->place;
    if (count == 1) {
        const double t = v[0] * x[p];
        for (int32_t q = p; q < end; q++) line[place[q]] += t * x[q];
        return;
    }
    for (int32_t q = p; q < end; q++) {
        double *to = line + place[q] * count;
        const double t = x[p] * x[q];
        int64_t c = 0;
        for (; c + LANES <= count; c += LANES) NAME(store)(to + c, NAME(load)(to + c) + t * NAME(load)(v + c));
        for (; c < count; c++) to[c] += t * v[c];
    }
}

/* Where the line of a column begins, less its place: (a, b) is the pair a m - a (a - 1)/2 + (b - a) of the triangle. */
static ALWAYS_INLINE double *NAME(line_of)(const Gram *gram, int64_t a) {
    return gram->out + (a * gram->m - a * (a + 1) / 2) * gram->count;
}

static void NAME(meet_by_column)(const Gram *gram, NAME(Gathered) *g, int64_t first, int64_t last) {
    NAME(sort_meetings)(g, first, last);
    for (int64_t a = first, from = 0; a < last; from = g->next[a++])
        for (int64_t i = from; i < g->next[a]; i++) {
            const NAME(Meeting) with = g->meeting[i];
            const double *v = gram->V + (g->first_row + with.row) * gram->count;
            NAME(meet)(g, with.at, g->end[with.row], v, gram->count, NAME(line_of)(gram, a));
        }
}

static void NAME(meet_by_row)(const Gram *gram, NAME(Gathered) *g, int64_t first, int64_t last) {
    for (int32_t r = 0, p = 0; r < g->rows; r++)
        for (const double *v = gram->V + (g->first_row + r) * gram->count; p < g->end[r]; p++)
            if (g->place[p] >= first && g->place[p] < last)
                NAME(meet)(g, p, g->end[r], v, gram->count, NAME(line_of)(gram, g->place[p]));
}

/* The pairs whose first place is at least `first` and below `last`. */
static void NAME(gram)(const Gram *gram, int64_t first, int64_t last, double *scratch) {
    const int64_t m = gram->m, most = most_gathered(gram);
    NAME(Gathered) g = {.x = scratch, .next = (int64_t *)(scratch + most)};
    g.meeting = (NAME(Meeting) *)(g.next + m);
    g.place = (int32_t *)(g.meeting + most);
    g.end = g.place + most;
    for (int64_t row = 0; row < gram->rows->n; row += g.rows) {
        NAME(gather_rows)(gram, &g, row);
        if (m * (m + 1) / 2 * gram->count > TRIANGLE) NAME(meet_by_column)(gram, &g, first, last);
        else NAME(meet_by_row)(gram, &g, first, last);
    }
}
