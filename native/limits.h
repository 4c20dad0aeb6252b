/* What the machine can do at best, measured, so that a benchmark can say how far a kernel is from it. */

/* `rounds` times 12 independent multiply-adds on vectors: 24 * LANES operations a round. */
static double NAME(fma_loop)(int64_t rounds) {
    vec sum[12], a = NAME(all)(0.999999), b = NAME(all)(1e-6);
    UNROLL for (int i = 0; i < 12; i++) sum[i] = NAME(all)(i);
    for (int64_t n = 0; n < rounds; n++) {
        UNROLL for (int i = 0; i < 12; i++) sum[i] = sum[i] * a + b;
    }
    for (int i = 1; i < 12; i++) sum[0] += sum[i];
    return NAME(sum)(sum[0]);
}

/* Reads `count` numbers and does the least with them. */
static double NAME(read_loop)(const double *x, int64_t count) {
    vec sum[8] = {{0}};
    for (int64_t j = 0; j + 8 * LANES <= count; j += 8 * LANES) {
        UNROLL for (int i = 0; i < 8; i++) sum[i] += NAME(load)(x + j + i * LANES);
    }
    for (int i = 1; i < 8; i++) sum[0] += sum[i];
    return NAME(sum)(sum[0]);
}

/* The least that a product of sparse rows can do: for each nonzero, the V vectors at its place are read, and added to the
 * sums of its line. No values, no multiplications: what is left is what gathering costs. */
static ALWAYS_INLINE double NAME(gather_lines)(
    const int V, const int32_t *place, const int64_t *start, int64_t lines, const double *w
) {
    vec total = {0};
    for (int64_t i = 0; i < lines; i++) {
        vec even[4] = {{0}}, odd[4] = {{0}};
        int64_t p = start[i];
        for (; p + 2 <= start[i + 1]; p += 2)
            UNROLL for (int v = 0; v < V; v++) {
                even[v] += NAME(load)(w + ((int64_t)place[p] * V + v) * LANES);
                odd[v] += NAME(load)(w + ((int64_t)place[p + 1] * V + v) * LANES);
            }
        for (; p < start[i + 1]; p++)
            UNROLL for (int v = 0; v < V; v++) even[v] += NAME(load)(w + ((int64_t)place[p] * V + v) * LANES);
        UNROLL for (int v = 0; v < V; v++) total += even[v] + odd[v];
    }
    return NAME(sum)(total);
}

/* Line i has the places start[i] .. start[i + 1] - 1; w has `vectors` vectors a place, at most four. */
static double NAME(gather_loop)(
    const int32_t *place, const int64_t *start, int64_t lines, const double *w, int64_t vectors
) {
    switch (vectors) {
    case 1: return NAME(gather_lines)(1, place, start, lines, w);
    case 2: return NAME(gather_lines)(2, place, start, lines, w);
    case 3: return NAME(gather_lines)(3, place, start, lines, w);
    default: return NAME(gather_lines)(4, place, start, lines, w);
    }
}
