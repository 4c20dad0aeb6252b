/* The life of a job around its stripes: lay out the memory, pack W, share out stripes, add the partial sums. */
#ifndef DUALFL_JOB_H
#define DUALFL_JOB_H

#include "kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* k rows of `width` numbers for dense data, D such rows for sparse data; the scale is taken into W. */
static void pack(Job *job) {
    const Rows *rows = job->rows;
    const int64_t k = job->k, width = job->width;
    for (int64_t j = 0; j < rows->D; j++) {
        const double scale = j < rows->features ? rows->scale : 1.0;
        const double *W = job->W + j * k;
        if (rows->column) {
            for (int64_t c = 0; c < k; c++) job->packed[j * width + c] = scale * W[c];
            for (int64_t c = k; c < width; c++) job->packed[j * width + c] = 0;
        } else {
            for (int64_t c = 0; c < k; c++) job->packed[c * width + j] = scale * W[c];
        }
    }
}

static int64_t packed_width(const Rows *rows, int64_t k, int lanes) {
    return !rows->column ? padded(rows->D) : k > 1 ? round_up(k, lanes) : 1;
}

static int start_job(Job *job, const Kernels *kernels) {
    const Rows *rows = job->rows;
    int64_t D = rows ? rows->D : 0;
    job->stripes = rows ? rows->stripes : 1 + job->n / 4096 < 32 ? 1 + job->n / 4096 : 32;
    job->width = rows ? packed_width(rows, job->k, kernels->lanes) : 0;
    const int64_t size = rows ? round_up((rows->column ? D : job->k) * job->width, 8) : 0;
    job->partial_size = job->task == RAY ? 2 * job->count : job->G ? size : 0;
    job->next = 0;
    const int64_t packed = job->W ? size : 0;
    int64_t total = packed + job->stripes * (job->partial_size + 1);
    if (!(job->memory = malloc((size_t)total * sizeof(double) + 64))) return 0;
    job->packed = (double *)round_up((intptr_t)job->memory, 64); /* a vector should not straddle cache lines */
    job->partial = job->packed + packed;
    job->value = job->partial + job->stripes * job->partial_size;
    if (job->W) pack(job);
    return 1;
}

/* Works on stripes that nobody has taken until none is left; any number of threads may do so. */
static int work_on(Job *job, const Kernels *kernels) {
    void *memory = malloc((size_t)scratch_size(job->k) * sizeof(double) + 64);
    if (!memory) return 0;
    double *scratch = (double *)round_up((intptr_t)memory, 64);
    for (;;) {
        int64_t stripe = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
        if (stripe >= job->stripes) break;
        kernels->stripe(job, stripe, scratch);
    }
    free(memory);
    return 1;
}

/* Adds the partial sums in the order of the stripes and writes G as the caller holds it. */
static double finish_job(Job *job) {
    const Rows *rows = job->rows;
    const int64_t k = job->k, size = job->partial_size;
    double value = 0, *total = job->partial;
    for (int64_t i = 0; i < job->stripes; i++) value += job->value[i];
    for (int64_t i = 1; i < job->stripes; i++)
        for (int64_t j = 0; j < size; j++) total[j] += job->partial[i * size + j];
    if (job->task == RAY) memcpy(job->G, total, (size_t)size * sizeof(double));
    else if (job->G)
        for (int64_t j = 0; j < rows->D; j++) {
            const double scale = j < rows->features ? rows->scale : 1.0;
            for (int64_t c = 0; c < k; c++)
                job->G[j * k + c] = scale * total[rows->column ? j * job->width + c : c * job->width + j];
        }
    return value;
}

/* Stripes hold about the same number of matrix entries; there are few enough that adding partial sums is cheap. */
static int cut_into_stripes(Rows *rows) {
    const int64_t n = rows->n, entries = rows->column ? rows->start[n] : n * rows->features;
    int64_t stripes = entries >> 15, cheap = entries / (8 * (rows->D + 1));
    if (stripes > cheap) stripes = cheap;
    rows->stripes = stripes < 1 ? 1 : stripes > 32 ? 32 : stripes;
    if (!(rows->cut = malloc((size_t)(rows->stripes + 1) * sizeof(int64_t)))) return 0;
    for (int64_t i = 0, row = 0; i <= rows->stripes; i++) {
        if (rows->column)
            while (row < n && rows->start[row] < entries / rows->stripes * i) row++;
        else
            row = n * i / rows->stripes / 8 * 8;
        rows->cut[i] = i == rows->stripes ? n : row;
    }
    return 1;
}

#endif
