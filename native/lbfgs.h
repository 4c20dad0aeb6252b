/* L-BFGS on the rows of a client that has few: there the work on the rows is less than what an interpreter spends
 * between two vector operations. The iteration is that of solvers/lbfgs.py, its steps those of solvers/line_search.py:
 *
 *     min over U of  sum_i s_i l(y_i, x_i'U) + (m/2)|U|^2 - <c, U>,      H_0 = v -> (inverse .* (v Q)) Q'
 *
 * The metric H_0 is diagonal in the features and given by the caller. */

static double NAME(dot)(const double *a, const double *b, int64_t d) {
    vec even = {0}, odd = {0};
    int64_t j = 0;
    for (; j + 2 * LANES <= d; j += 2 * LANES) {
        even += NAME(load)(a + j) * NAME(load)(b + j);
        odd += NAME(load)(a + j + LANES) * NAME(load)(b + j + LANES);
    }
    double total = NAME(sum)(even + odd);
    for (; j < d; j++) total += a[j] * b[j];
    return total;
}

static void NAME(add)(double factor, const double *x, double *y, int64_t d) {
    for (int64_t j = 0; j < d; j++) y[j] += factor * x[j];
}

/* One job in this thread; its value, or NAN where there is no memory. */
static double NAME(whole_job)(const Kernels *kernels, Job job) {
    double value = NAN;
    if (start_job(&job, kernels)) {
        if (work_on(&job, kernels)) value = finish_job(&job);
        free(job.memory);
    }
    return value;
}

/* The value at the predictors Z, and g = X'(s l'(Z)) + m u - c; R is scratch. */
static double NAME(at_point)(const Kernels *kernels, const Quasi *q, const double *Z, double *R, double *g) {
    const int64_t n = q->rows->n, d = q->rows->D * q->k;
    Job losses = {.task = RESIDUAL, .loss = q->loss, .n = n, .k = q->k, .Z = Z, .y = q->y, .s = q->s, .Zout = R};
    Job back = {.task = BACKWARD, .rows = q->rows, .n = n, .k = q->k, .Z = R, .G = g};
    const double value = NAME(whole_job)(kernels, losses), ok = NAME(whole_job)(kernels, back);
    for (int64_t j = 0; j < d; j++) g[j] += q->m * q->u[j] - q->c[j];
    return value + 0 * ok + q->m / 2 * NAME(dot)(q->u, q->u, d) - NAME(dot)(q->c, q->u, d);
}

static void NAME(metric)(const Quasi *q, double *v, double *t) {
    const int64_t k = q->k;
    for (int64_t j = 0; j < q->rows->D; j++) {
        double *row = v + j * k;
        const double *inverse = q->inverse + j * k;
        for (int64_t a = 0; a < k; a++) t[a] = 0;
        for (int64_t b = 0; b < k; b++)
            for (int64_t a = 0; a < k; a++) t[a] += row[b] * q->Q[b * k + a];
        for (int64_t a = 0; a < k; a++) t[a] *= inverse[a];
        for (int64_t b = 0; b < k; b++) row[b] = NAME(dot)(t, q->Q + b * k, k);
    }
}

/* The loop from the newest pair to the oldest, before the metric: v loses its parts a along the pairs. */
static void NAME(older)(const Pairs *at, double *a, double *v) {
    for (int64_t i = 0; i < at->count; i++) {
        const int64_t p = (at->newest - i + at->memory) % at->memory;
        a[i] = NAME(dot)(at->S + p * at->d, v, at->d) / at->sy[p];
        NAME(add)(-a[i], at->Y + p * at->d, v, at->d);
    }
}

/* The loop back, after the metric. */
static void NAME(newer)(const Pairs *at, double *a, double *v) {
    for (int64_t i = at->count - 1; i >= 0; i--) {
        const int64_t p = (at->newest - i + at->memory) % at->memory;
        NAME(add)(a[i] - NAME(dot)(at->Y + p * at->d, v, at->d) / at->sy[p], at->S + p * at->d, v, at->d);
    }
}

static double NAME(secant)(double t0, double slope0, double t1, double slope1) {
    return slope1 > slope0 ? t1 - slope1 * (t1 - t0) / (slope1 - slope0) : INFINITY;
}

static double NAME(between)(double t, double low, double high) { return t < low ? low : t > high ? high : t; }

/* A step along Z + t P with a small slope, 0 if there is none: see line_search.py for why slopes and not values. */
static double NAME(step_length)(const Kernels *kernels, const Quasi *q, const double *Z, const double *P, double value,
                                double slope, double linear, double quadratic, double constant) {
    double low = 0, slope_low = slope, high = INFINITY, slope_high = NAN, t = 1;
    for (int trial = 0; trial < 40; trial++) {
        double phi[2];
        Job job = {.task = RAY, .loss = q->loss, .n = q->rows->n, .k = q->k, .Z = Z, .P = P, .y = q->y, .s = q->s};
        job.count = 1, job.steps = &t, job.G = phi;
        const double ok = NAME(whole_job)(kernels, job);
        const double at_t = phi[0] + 0 * ok + constant + t * (linear + t / 2 * quadratic);
        const double slope_t = phi[1] + linear + t * quadratic;
        const int finite = isfinite(at_t) && isfinite(slope_t);
        if (finite && fabs(slope_t) <= 0.1 * fabs(slope) &&
            (slope_t <= 0 || low * slope_low + (t - low) * slope_t <= 0 || at_t <= value + 1e-15 * fabs(value)))
            return t;
        double guess = finite ? NAME(secant)(low, slope_low, t, slope_t) : NAN;
        if (finite && slope_t < 0) low = t, slope_low = slope_t;
        else high = t, slope_high = finite ? slope_t : NAN;
        if (high == INFINITY) {
            t = NAME(between)(guess, 1.5 * t, 10 * t);
        } else {
            const double width = high - low;
            if (!isnan(slope_high)) guess = NAME(secant)(low, slope_low, high, slope_high);
            t = isnan(guess) ? low + width / 10 : NAME(between)(guess, low + width / 10, high - width / 10);
        }
        if (!(low < t && t < high)) break;
    }
    return low;
}

/* Numbers of scratch memory. */
static int64_t NAME(lbfgs_size)(const Quasi *q) {
    const int64_t nk = q->rows->n * q->k, d = q->rows->D * q->k;
    return 3 * nk + 3 * d + 2 * q->memory * d + 2 * q->memory + q->k;
}

/* Moves q->u until |gradient| <= eps, the cap is reached, or rounding leaves no step; q->iterations counts. */
static void NAME(lbfgs)(Quasi *q, double *scratch, const Kernels *kernels) {
    const int64_t nk = q->rows->n * q->k, d = q->rows->D * q->k;
    double *Z = scratch, *P = Z + nk, *R = P + nk, *g = R + nk, *p = g + d, *last = p + d;
    double *S = last + d, *Y = S + q->memory * d, *sy = Y + q->memory * d, *a = sy + q->memory, *t = a + q->memory;
    int64_t pairs = 0, newest = -1;
    Job forward = {.task = FORWARD, .rows = q->rows, .n = q->rows->n, .k = q->k};
    forward.W = q->u, forward.Zout = Z;
    if (isnan(NAME(whole_job)(kernels, forward))) return;
    double value = NAME(at_point)(kernels, q, Z, R, g);
    for (q->iterations = 0; q->iterations < q->cap; q->iterations++) {
        if (!(sqrt(NAME(dot)(g, g, d)) > q->eps)) return;
        double step = 0, slope = 0;
        for (;; pairs = 0) { /* a second time from the metric alone, if rounding has spoilt the pairs */
            for (int64_t j = 0; j < d; j++) p[j] = -g[j];
            const Pairs at = {d, q->memory, pairs, newest, S, Y, sy};
            NAME(older)(&at, a, p);
            NAME(metric)(q, p, t);
            NAME(newer)(&at, a, p);
            slope = NAME(dot)(g, p, d);
            if (slope < 0) {
                forward.W = p, forward.Zout = P;
                if (isnan(NAME(whole_job)(kernels, forward))) return;
                step = NAME(step_length)(kernels, q, Z, P, value, slope,
                                         q->m * NAME(dot)(q->u, p, d) - NAME(dot)(q->c, p, d),
                                         q->m * NAME(dot)(p, p, d),
                                         q->m / 2 * NAME(dot)(q->u, q->u, d) - NAME(dot)(q->c, q->u, d));
            }
            if (step > 0 || !pairs) break;
        }
        if (!(step > 0)) return;
        newest = (newest + 1) % q->memory;
        double *s = S + newest * d, *y = Y + newest * d;
        for (int64_t j = 0; j < d; j++) last[j] = g[j], s[j] = step * p[j], q->u[j] += s[j];
        NAME(add)(step, P, Z, nk);
        value = NAME(at_point)(kernels, q, Z, R, g);
        for (int64_t j = 0; j < d; j++) y[j] = g[j] - last[j];
        sy[newest] = NAME(dot)(s, y, d);
        if (sy[newest] > 1e-14 * sqrt(NAME(dot)(s, s, d) * NAME(dot)(y, y, d))) pairs += pairs < q->memory;
        else newest = (newest + q->memory - 1) % q->memory, pairs -= pairs == q->memory;
    }
}
