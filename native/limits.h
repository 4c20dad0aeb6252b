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
