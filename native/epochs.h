/* The sequential methods: each step needs the one before, so there is nothing to cut into stripes.
 * The twin of this file is twin_epochs.py, where the formulas stand plainly. */

static void NAME(row_dot)(const Rows *rows, int64_t i, const double *W, int64_t k, double *z) {
    BY_TYPE(rows->type, row_dot, rows, i, W, k, z)
}

static void NAME(row_add)(const Rows *rows, int64_t i, double factor, const double *r, int64_t k, double *G) {
    BY_TYPE(rows->type, row_add, rows, i, factor, r, k, G)
}

static void NAME(norms2)(const Rows *rows, double *out) {
    for (int64_t i = 0; i < rows->n; i++) BY_TYPE(rows->type, row_norm2, rows, i, out + i)
}

/* The minimiser over [lo, hi] of slope (x - a) + curvature (x - a)^2 / 2 + l1 |x|. */
static double NAME(best_coordinate)(double a, double slope, double curvature, double l1, double lo, double hi) {
    double x;
    if (curvature > 0) {
        double free = a - slope / curvature, shrink = l1 / curvature;
        x = free > shrink ? free - shrink : free < -shrink ? free + shrink : free != free ? free : 0.0;
    } else if (slope <= l1 && slope >= -l1) {
        x = 0;
    } else { /* linear: to the better end, and nowhere if there is none */
        double end = slope > 0 ? lo : hi;
        x = end - end == 0 ? end : a;
    }
    return x < lo ? lo : x > hi ? hi : x;
}

static void NAME(ascent)(Ascent *at) {
    for (int64_t j = 0; j < at->count; j++) {
        int64_t i = at->index[j];
        double q = at->q[i], s = at->s[i], z = 0;
        if (s == 0) continue; /* the row has no say: any alpha_i is optimal */
        NAME(row_dot)(at->rows, i, at->theta, 1, &z);
        double best = NAME(best_coordinate)(at->alpha[i], q * z - at->b[i], s * q * q * at->norms2[i] / at->lam, at->eps,
                                            at->lo[i], at->hi[i]);
        double move = s * q * (best - at->alpha[i]) / at->lam;
        if (move != 0) NAME(row_add)(at->rows, i, move, &(double){1.0}, 1, at->theta);
        at->alpha[i] = best;
    }
}

static void NAME(refresh)(Descent *at) {
    for (int64_t i = 0; i < at->d; i++) {
        double total = 0;
        for (int64_t j = 0; j < at->d; j++) total += at->Q[i * at->d + j] * at->x[j];
        at->grad[i] = total - at->q[i];
    }
}

static int64_t NAME(descent)(Descent *at) {
    const int64_t d = at->d;
    for (int64_t sweep = 1; sweep <= at->sweeps; sweep++) {
        at->change = 0;
        for (int64_t i = 0; i < d; i++) {
            const double *Q = at->Q + i * d;
            double best = NAME(best_coordinate)(at->x[i], at->grad[i], Q[i], at->l1[i], at->lo[i], at->hi[i]);
            double step = best - at->x[i], size = Q[i] * (step < 0 ? -step : step);
            if (step == 0) continue;
            at->x[i] += step;
            for (int64_t j = 0; j < d; j++) at->grad[j] += step * Q[j];
            if (!(size <= at->change)) at->change = size;
        }
        if (at->change <= at->tol) return sweep;
        if (sweep % 64 == 0) NAME(refresh)(at); /* drops the rounding the gradient gathered */
    }
    return at->sweeps;
}

/* s_i l'(y_i, z) for one row; t is scratch for one block. */
static void NAME(slope)(const Epoch *at, int64_t i, const double *z, double *t, double *r) {
    double y[LANES] = {at->y[i]}, s[LANES] = {at->s[i]};
    NAME(to_block)(z, at->k, 1, t);
    NAME(residual_block)(at->loss, at->k, 1, t, y, s);
    NAME(from_block)(t, at->k, 1, r);
}

static void NAME(stochastic)(Epoch *at, double *scratch) {
    const int64_t k = at->k, D = at->rows->D;
    const double n = (double)at->rows->n;
    double *t = scratch, *z = t + k * BLOCK, *here = z + k * BLOCK;
    for (int64_t j = 0; j < at->count; j++) {
        int64_t i = at->index[j];
        NAME(row_dot)(at->rows, i, at->W, k, z);
        NAME(slope)(at, i, z, t, here);
        double *old = at->table ? at->table + i * k : z, *change = t;
        if (!at->table) NAME(slope)(at, i, at->snapshot + i * k, t, z);
        for (int64_t c = 0; c < k; c++) change[c] = here[c] - old[c];
        for (int64_t l = 0; l < D; l++) {
            const double shrink = 1 - at->step * at->ridge[l];
            for (int64_t c = l * k; c < (l + 1) * k; c++) at->W[c] = shrink * at->W[c] - at->step * (at->G[c] - at->c[c]);
        }
        NAME(row_add)(at->rows, i, -at->step * n, change, k, at->W);
        if (!at->table) continue;
        NAME(row_add)(at->rows, i, 1.0, change, k, at->G);
        for (int64_t c = 0; c < k; c++) old[c] = here[c];
    }
}

static void NAME(sample)(Epoch *at, double *scratch) {
    double *t = scratch, *z = t + at->k * BLOCK, *r = z + at->k * BLOCK;
    for (int64_t j = 0; j < at->count; j++) {
        int64_t i = at->index[j];
        NAME(row_dot)(at->rows, i, at->W, at->k, z);
        NAME(slope)(at, i, z, t, r);
        NAME(row_add)(at->rows, i, 1.0, r, at->k, at->G);
    }
}
