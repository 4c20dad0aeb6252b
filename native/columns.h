/* The nonzeros of sparse rows once more, sorted by column within groups of GROUP rows.
 *
 * It costs one copy of the values and a byte each, and turns the way back of a pass, which scatters a row into the whole
 * gradient, into sums of columns over residuals that fit into the first cache. A group has the same nonzeros as its
 * rows, so both begin at the same place. */
#ifndef DUALFL_COLUMNS_H
#define DUALFL_COLUMNS_H

#include "kernels.h"

#include <stdlib.h>
#include <string.h>

enum {
    LONG_COLUMN = 8,          /* nonzeros a column must have in a group, on average, to pay for its visit */
    MOST_FEATURES = 1 << 22,  /* the nonzeros of a group are counted in 32 bits */
};

static int64_t groups_of(const Rows *rows, int64_t stripe) {
    return (rows->cut[stripe + 1] - rows->cut[stripe] + GROUP - 1) / GROUP;
}

static int columns_pay(const Rows *rows) {
    int64_t groups = 0;
    for (int64_t i = 0; i < rows->stripes; i++) groups += groups_of(rows, i);
    return rows->features < MOST_FEATURES && rows->start[rows->n] >= LONG_COLUMN * groups * rows->features;
}

static void free_columns(Columns *columns) {
    if (!columns) return;
    free(columns->values);
    free(columns->row);
    free(columns->start);
    free(columns->group);
    free(columns);
}

/* Sorts the rows first .. last - 1; `next` has a place for each column. */
static void sort_group(const Rows *rows, const Columns *columns, int64_t first, int64_t last, uint32_t *start,
                       uint32_t *next) {
    const size_t size = rows->type == FLOAT64 ? 8 : rows->type == FLOAT32 ? 4 : 1;
    const int64_t base = rows->start[first];
    const char *from = rows->values;
    char *to = (char *)columns->values + (size_t)base * size;
    memset(start, 0, (size_t)(rows->features + 1) * sizeof *start);
    for (int64_t p = base; p < rows->start[last]; p++) start[rows->column[p] + 1]++;
    for (int64_t j = 0; j < rows->features; j++) start[j + 1] += start[j];
    memcpy(next, start, (size_t)rows->features * sizeof *next);
    for (int64_t i = first; i < last; i++)
        for (int64_t p = rows->start[i]; p < rows->start[i + 1]; p++) {
            const uint32_t at = next[rows->column[p]]++;
            memcpy(to + at * size, from + (size_t)p * size, size);
            columns->row[base + at] = (uint8_t)(i - first);
        }
}

/* NULL if there is not enough memory. */
static Columns *sort_by_column(const Rows *rows) {
    const size_t entries = (size_t)rows->start[rows->n], features = (size_t)rows->features;
    const size_t size = rows->type == FLOAT64 ? 8 : rows->type == FLOAT32 ? 4 : 1;
    Columns *columns = calloc(1, sizeof *columns);
    uint32_t *next = malloc(features * sizeof *next);
    if (!columns || !next || !(columns->group = malloc((size_t)(rows->stripes + 1) * sizeof(int64_t)))) goto fail;
    columns->group[0] = 0;
    for (int64_t i = 0; i < rows->stripes; i++) columns->group[i + 1] = columns->group[i] + groups_of(rows, i);
    const size_t groups = (size_t)columns->group[rows->stripes];
    columns->values = malloc(entries * size);
    columns->row = malloc(entries);
    columns->start = malloc(groups * (features + 1) * sizeof(uint32_t));
    if (!columns->values || !columns->row || !columns->start) goto fail;
    uint32_t *start = columns->start;
    for (int64_t i = 0; i < rows->stripes; i++)
        for (int64_t first = rows->cut[i]; first < rows->cut[i + 1]; first += GROUP, start += features + 1) {
            const int64_t last = first + GROUP;
            sort_group(rows, columns, first, last < rows->cut[i + 1] ? last : rows->cut[i + 1], start, next);
        }
    free(next);
    return columns;
fail:
    free(next);
    free_columns(columns);
    return NULL;
}

#endif
