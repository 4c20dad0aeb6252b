/* One stripe of a job: blocks of rows go forward to predictors, to residuals, and back to the gradient while
 * they are still in cache, so that the rows are read from memory once. */

#define BY_TYPE(type, f, ...)                                                                                      \
    switch (type) {                                                                                                \
    case FLOAT64: JOIN(NAME(f), float64)(__VA_ARGS__); break;                                                      \
    case FLOAT32: JOIN(NAME(f), float32)(__VA_ARGS__); break;                                                      \
    case UINT8: JOIN(NAME(f), uint8)(__VA_ARGS__); break;                                                          \
    }

/* Values and slopes along z + step * p; t is scratch. */
static void NAME(ray)(const Job *job, int count, const double *z, const double *p, const double *y, const double *s,
                      double *t, double *out) {
    int filled = (count + LANES - 1) / LANES * LANES;
    for (int64_t i = 0; i < job->count; i++) {
        vec slope = {0};
        for (int64_t c = 0; c < job->k; c++)
            for (int r = 0; r < filled; r += LANES) {
                int64_t at = c * BLOCK + r;
                NAME(store)(t + at, NAME(load)(z + at) + job->steps[i] * NAME(load)(p + at));
            }
        out[i] += NAME(residual_block)(job->loss, job->k, count, t, y, s);
        for (int64_t c = 0; c < job->k; c++)
            for (int r = 0; r < filled; r += LANES)
                slope += NAME(load)(t + c * BLOCK + r) * NAME(load)(p + c * BLOCK + r);
        out[job->count + i] += NAME(sum)(slope);
    }
}

static void NAME(stripe)(const Job *job, int64_t stripe, double *scratch) {
    const Rows *rows = job->rows;
    const int dense = rows && !rows->column, sparse = rows && rows->column;
    const int64_t k = job->k, width = job->width;
    double *t = scratch, *u = t + k * BLOCK, *v = u + k * BLOCK, *y = v + k * BLOCK, *s = y + BLOCK, *z = s + BLOCK;
    double *g = job->partial + stripe * job->partial_size, value = 0;
    const int64_t end = rows ? rows->cut[stripe + 1] : job->n * (stripe + 1) / job->stripes;
    int64_t first = rows ? rows->cut[stripe] : job->n * stripe / job->stripes;
    const int step = block_rows(rows), by_column = sparse && rows->columns && k > 1 && job->G;
    const int64_t begin = first;
    for (int64_t j = 0; j < job->partial_size; j++) g[j] = 0;
    for (; first < end; first += step) {
        const int count = end - first < step ? (int)(end - first) : step;
        const int64_t in_group = sparse ? (first - begin) % GROUP : 0;
        double *zs = z + in_group * width;
        if (job->y) NAME(to_block)(job->y + first, 1, count, y);
        if (job->s) NAME(to_block)(job->s + first, 1, count, s);
        if (job->W && dense) BY_TYPE(rows->type, dense_forward, rows, first, count, job->packed, k, width, t)
        if (job->W && sparse) BY_TYPE(rows->type, sparse_forward, rows, first, count, job->packed, k, width, zs, t)
        switch (job->task) {
        case FORWARD:
            NAME(from_block)(t, k, count, job->Zout + first * k);
            break;
        case BACKWARD:
            NAME(to_block)(job->Z + first * k, k, count, t);
            break;
        case GRADIENT:
            NAME(from_block)(t, k, count, job->Zout + first * k);
            value += NAME(residual_block)(job->loss, k, count, t, y, s);
            break;
        case HESSIAN:
            NAME(to_block)(job->Z + first * k, k, count, u);
            NAME(curvature_block)(job->loss, k, count, t, u, y, s);
            break;
        case RESIDUAL:
            NAME(to_block)(job->Z + first * k, k, count, t);
            value += NAME(residual_block)(job->loss, k, count, t, y, s);
            if (job->Zout) NAME(from_block)(t, k, count, job->Zout + first * k);
            break;
        case CURVATURE:
            NAME(to_block)(job->Z + first * k, k, count, u);
            NAME(to_block)(job->P + first * k, k, count, t);
            NAME(curvature_block)(job->loss, k, count, t, u, y, s);
            NAME(from_block)(t, k, count, job->Zout + first * k);
            break;
        default: /* RAY */
            NAME(to_block)(job->Z + first * k, k, count, u);
            NAME(to_block)(job->P + first * k, k, count, v);
            NAME(ray)(job, count, u, v, y, s, t, g);
        }
        if (job->G && dense) BY_TYPE(rows->type, dense_backward, rows, first, count, t, k, width, g)
        if (job->G && sparse) BY_TYPE(rows->type, sparse_backward, rows, first, count, t, k, width, zs, g)
        if (by_column && (in_group + count == GROUP || first + count == end)) {
            const int64_t group = rows->columns->group[stripe] + (first - begin) / GROUP;
            BY_TYPE(rows->type, group_backward, rows, group, first - in_group, width, z, g)
        }
    }
    job->value[stripe] = value;
}
