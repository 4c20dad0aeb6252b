/* Cox's partial likelihood as a function of the predictors, for risk sets that only grow.
 *
 * Rows are sorted as kernels/risk_sets.py says; group g brings the rows begin .. end - 1 to the risk set of its stratum,
 * the last deaths[g] of which are events. Sums are relative to exp(shift), and the shift is raised when a predictor is
 * beyond its room, so that no predictor is too large. The twin of this file is twin_survival.py, which has the
 * formulas. */

static int64_t NAME(begin)(const Cox *at, int64_t g) {
    return g && at->start[g] == at->start[g - 1] ? at->end[g - 1] : at->start[g];
}

/* e_l = s_l exp(z_l - shift), the sums S and T, and the numbers of each group that all its rows share; the value. */
static double NAME(cox_weigh)(const Cox *at) {
    const double *z = at->z, *s = at->s;
    double *e = at->e, shift = 0, S = 0, value = 0;
    for (int64_t g = 0; g < at->groups; g++) {
        const int64_t first = NAME(begin)(at, g), end = at->end[g];
        double top = z[first];
        for (int64_t l = first; l < end; l++) top = z[l] > top ? z[l] : top;
        if (first == at->start[g] || top - shift > COX_ROOM) shift = top;
        for (int64_t l = first; l < end; l++) e[l] = z[l] - shift;
        at->shift[g] = shift;
    }
    int64_t l = 0;
    for (; l + LANES <= at->n; l += LANES)
        NAME(store)(e + l, NAME(load)(s + l) * NAME(exp)(NAME(load)(e + l)));
    for (; l < at->n; l++) e[l] = s[l] * exp(e[l]);
    for (int64_t g = 0; g < at->groups; g++) {
        const int64_t first = NAME(begin)(at, g), end = at->end[g], d = at->deaths[g];
        double T = 0, weight = 0, full = 0, part = 0;
        if (first == at->start[g]) S = 0;
        else if (at->shift[g] != at->shift[g - 1]) S *= exp(at->shift[g - 1] - at->shift[g]);
        for (int64_t i = first; i < end; i++) S += e[i];
        for (int64_t i = end - d; i < end; i++) {
            T += e[i];
            weight += s[i];
            value += s[i] * (at->shift[g] - z[i]);
        }
        const double w = weight / (double)d;
        if (!at->efron || d == 1) {
            value += weight * log(S);
            full = part = weight / S;
        } else {
            for (int64_t k = 0; k < d; k++) {
                const double a = (double)k / (double)d, rest = S - a * T;
                value += w * log(rest);
                full += w / rest;
                part += w * (1 - a) / rest;
            }
        }
        at->S[g] = S;
        at->T[g] = T;
        at->w[g] = w;
        at->full[g] = full;
        at->part[g] = part;
    }
    return value;
}

/* From the last group back: what all groups that a row is at risk in add up to. */
static void NAME(cox_residual)(Cox *at) {
    double B = 0;
    at->value = NAME(cox_weigh)(at);
    for (int64_t l = 0; l < at->n; l++) at->R[l] = at->expected[l] = 0;
    for (int64_t g = at->groups - 1; g >= 0; g--) {
        const int64_t first = NAME(begin)(at, g), end = at->end[g], deaths = end - at->deaths[g];
        const int last = g == at->groups - 1 || at->start[g + 1] != at->start[g];
        if (last) B = 0;
        else if (at->shift[g + 1] != at->shift[g]) B *= exp(at->shift[g] - at->shift[g + 1]);
        const double all = B + at->full[g], own = B + at->part[g];
        for (int64_t l = first; l < deaths; l++) at->R[l] = at->expected[l] = at->e[l] * all;
        for (int64_t l = deaths; l < end; l++) {
            at->expected[l] = at->e[l] * own;
            at->R[l] = at->expected[l] - at->s[l];
        }
        B = all;
    }
}

/* The second derivative times p; `expected` and `R` are scratch. */
static void NAME(cox_curvature)(Cox *at) {
    const double *p = at->p;
    double Sp = 0, B = 0, *full = at->R, *part = at->R + at->groups;
    NAME(cox_weigh)(at);
    for (int64_t g = 0; g < at->groups; g++) {
        const int64_t first = NAME(begin)(at, g), end = at->end[g], d = at->deaths[g];
        double Tp = 0;
        if (first == at->start[g]) Sp = 0;
        else if (at->shift[g] != at->shift[g - 1]) Sp *= exp(at->shift[g - 1] - at->shift[g]);
        for (int64_t l = first; l < end; l++) Sp += at->e[l] * p[l];
        for (int64_t l = end - d; l < end; l++) Tp += at->e[l] * p[l];
        full[g] = part[g] = 0;
        for (int64_t k = 0; k < (at->efron ? d : 1); k++) {
            const double a = (double)k / (double)d, rest = at->S[g] - a * at->T[g];
            const double w = at->efron ? at->w[g] : at->w[g] * (double)d, term = w * (Sp - a * Tp) / (rest * rest);
            full[g] += term;
            part[g] += (1 - a) * term;
        }
    }
    double Bp = 0;
    for (int64_t l = 0; l < at->n; l++) at->out[l] = 0;
    for (int64_t g = at->groups - 1; g >= 0; g--) {
        const int64_t first = NAME(begin)(at, g), end = at->end[g], deaths = end - at->deaths[g];
        const int last = g == at->groups - 1 || at->start[g + 1] != at->start[g];
        if (last) B = Bp = 0;
        else if (at->shift[g + 1] != at->shift[g]) {
            const double factor = exp(at->shift[g] - at->shift[g + 1]);
            B *= factor;
            Bp *= factor;
        }
        for (int64_t l = first; l < deaths; l++) at->out[l] = at->e[l] * ((B + at->full[g]) * p[l] - (Bp + full[g]));
        for (int64_t l = deaths; l < end; l++)
            at->out[l] = at->e[l] * ((B + at->part[g]) * p[l] - (Bp + part[g]));
        B += at->full[g];
        Bp += full[g];
    }
}

static void NAME(add_row)(double *restrict sum, const double *restrict x, double e, int64_t D) {
    for (int64_t j = 0; j < D; j++) sum[j] += e * x[j];
}

/* Rows m of which sum m m' is what the means of the risk sets take off the second moment: one a group, two if tied. */
static void NAME(cox_means)(Cox *at) {
    const int64_t D = at->D;
    double *S1 = at->expected, *T1 = S1 + D, *row = at->out;
    NAME(cox_weigh)(at);
    for (int64_t g = 0; g < at->groups; g++) {
        const int64_t first = NAME(begin)(at, g), end = at->end[g], d = at->deaths[g];
        const int tied = at->efron && d > 1;
        double factor = 1, C0 = 0, C1 = 0, C2 = 0;
        if (first == at->start[g]) factor = 0;
        else if (at->shift[g] != at->shift[g - 1]) factor = exp(at->shift[g - 1] - at->shift[g]);
        if (factor == 0) memset(S1, 0, (size_t)D * sizeof(double));
        else if (factor != 1)
            for (int64_t j = 0; j < D; j++) S1[j] *= factor;
        for (int64_t l = first; l < end; l++) NAME(add_row)(S1, at->X + l * D, at->e[l], D);
        for (int64_t k = 0; k < (tied ? d : 1); k++) {
            const double a = (double)k / (double)d, rest = at->S[g] - a * at->T[g];
            const double term = (tied ? at->w[g] : at->w[g] * (double)d) / (rest * rest);
            C0 += term;
            C1 += a * term;
            C2 += a * a * term;
        }
        const double head = sqrt(C0);
        for (int64_t j = 0; j < D; j++) row[j] = head * S1[j];
        if (tied) {
            const double left = C2 - C1 * (C1 / C0), tail = left > 0 ? sqrt(left) : 0;
            memset(T1, 0, (size_t)D * sizeof(double));
            for (int64_t l = end - d; l < end; l++) NAME(add_row)(T1, at->X + l * D, at->e[l], D);
            for (int64_t j = 0; j < D; j++) {
                row[j] -= C1 / head * T1[j];
                row[D + j] = tail * T1[j];
            }
            row += D;
        }
        row += D;
    }
}
