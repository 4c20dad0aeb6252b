/* What the Python module and the numerical kernels share: the rows of a client, and one job on them.
 *
 * A job is cut into stripes of rows. How many there are depends on the data alone, each has its own partial
 * sums, and `finish` adds these in the order of the stripes: the number of threads cannot change a bit. */
#ifndef DUALFL_KERNELS_H
#define DUALFL_KERNELS_H

#include <stdint.h>
#include <string.h>

#define JOIN_(a, b) a##_##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(f) JOIN(f, ISA) /* every function exists once for each instruction set */
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

/* Tells the compiler to hold a value in a register where it would load or compute it again. */
#if defined(__x86_64__)
#define HOLD_VECTOR(v) __asm__("" : "+v"(v))
#define HOLD_POINTER(p) __asm__("" : "+r"(p))
#else
#define HOLD_VECTOR(v) (void)(v)
#define HOLD_POINTER(p) (void)(p)
#endif

enum {
    BLOCK = 32,               /* rows whose predictors are turned into residuals together */
    BLOCK_BYTES = 128 * 1024, /* bytes of rows that are worked on together: less than the second cache */
    PACK = 128,               /* rows that are made float64 together for second-order sums; see dense_gram.h */
    GROUP = 256,              /* sparse rows that go back to the gradient together: a byte tells them apart */
    TRIANGLE = 1 << 17,       /* sums of pairs that caches hold as they come; see gram.h */
    GATHERED = 1 << 14,       /* nonzeros whose pairs are added up together: they fit the second cache; see gram.h */
};

typedef enum { FLOAT64, FLOAT32, UINT8 } Type;

/* The nonzeros of sparse rows once more, those of a group of rows sorted by column; see columns.h. */
typedef struct {
    void *values;
    uint8_t *row;       /* of each nonzero, counted from the first of its group */
    uint32_t *start;    /* group by group, features + 1 each: where a column begins within its group */
    int64_t *group;     /* the first group of each stripe */
} Columns;

typedef struct {
    const void *values;    /* dense: n x features; sparse: the nonzeros */
    const int32_t *column; /* sparse only: the column of each nonzero */
    const int64_t *start;  /* sparse only: row i holds the nonzeros start[i] .. start[i + 1] - 1 */
    Type type;
    int64_t n, features, D; /* D = features + intercept */
    double scale;
    int intercept;
    int64_t stripes, *cut; /* stripe i holds the rows cut[i] .. cut[i + 1] - 1 */
    Columns *columns;      /* sparse only, and only once a job had a use for it */
} Rows;

/* How a nonzero meets the numbers of its row or column; see sparse.h. */
typedef enum { ROW_GATHERS, ROW_SCATTERS, COLUMN_GATHERS } Way;

enum {
    SOFTMAX, LOGISTIC, SQUARED, HUBER, POISSON, SQUARED_HINGE, HINGE, ABSOLUTE, QUANTILE, EPSILON, GAMMA, TWEEDIE,
    NEGATIVE_BINOMIAL, CLOGLOG, LOSSES
};

typedef struct {
    int code;
    double parameter;
    double log_parameter; /* where it is of use: taken once, not for every row */
} Loss;

/* The first four pass over the rows, the others over predictors only. */
typedef enum { FORWARD, BACKWARD, GRADIENT, HESSIAN, RESIDUAL, CURVATURE, RAY, TASKS } Task;

typedef struct {
    Task task;
    Loss loss;
    const Rows *rows;       /* NULL for tasks on predictors */
    int64_t n, k, count;    /* count = number of steps of a RAY */
    const double *W;        /* D x k */
    const double *Z;        /* n x k: predictors, or the residuals of BACKWARD */
    const double *P;        /* n x k: directions */
    const double *y, *s;    /* n */
    const double *steps;    /* count */
    double *Zout;           /* n x k */
    double *G;              /* D x k; for a RAY 2 x count: values, slopes */
    int64_t width;          /* numbers a row of the packed W: D for dense rows, k for sparse ones, and some padding */
    double *packed;         /* scale * W; dense: k x width, sparse: D x width */
    int64_t partial_size;   /* numbers in one partial sum */
    double *partial, *value; /* one a stripe */
    int64_t stripes, next;  /* next: the first stripe nobody has taken yet */
    void *memory;
} Job;

typedef struct {
    const Rows *rows;
    Loss loss;
    int64_t k;
    const double *y, *s, *snapshot, *ridge, *c;
    double *table, *G, *W, step;
    const int64_t *index;
    int64_t count;
} Epoch; /* SVRG has a snapshot of the predictors, SAGA a table of the residuals */

typedef struct {
    const Rows *rows;
    const double *q, *b, *lo, *hi, *s, *norms2;
    double eps, lam, *alpha, *theta;
    const int64_t *index;
    int64_t count;
} Ascent;

typedef struct {
    int64_t d, sweeps;
    const double *Q, *q, *l1, *lo, *hi;
    double *x, *grad, tol, change;
} Descent;

typedef struct {
    const Rows *rows;
    Loss loss;
    int64_t k, memory, cap, iterations;
    const double *y, *s, *c, *inverse, *Q;
    double m, eps, *u;
} Quasi; /* a local problem for L-BFGS; see lbfgs.h */

typedef struct {
    const Rows *rows;
    const int32_t *place; /* of each column among the m, ascending, or -1; NULL: all columns */
    int64_t m, bias;      /* bias: the place of the intercept, the last one, or -1 */
    int64_t count;        /* weights a row */
    const double *V;      /* n x count */
    double *out;          /* m (m + 1)/2 x count, added to */
} Gram; /* second-order sums of sparse rows; see gram.h */

typedef struct {
    const Rows *rows;
    const int32_t *where; /* dense: the columns that are wanted; sparse: the place of each column, or -1; NULL: all */
    int64_t m, bias, count;
    const double *V;      /* n x count */
    double *out;          /* count x m x m, added to */
} DenseGram; /* see dense_gram.h */

typedef struct {
    int64_t d, memory, count, newest;
    const double *S, *Y; /* memory x d, a ring of which `count` are used */
    const double *sy;
} Pairs; /* steps and changes of the gradient, as L-BFGS remembers them */

#define COX_ROOM 300.0 /* by so much a predictor may exceed a shift; as ROOM in risk_sets.py */

typedef struct {
    int64_t n, groups, D;
    int efron;
    const int64_t *start, *end, *deaths; /* of each group; see survival.h */
    const double *z, *s, *p, *X;
    double *e, *shift, *S, *T, *w, *full, *part; /* one a row; then one a group */
    double *R, *expected, *out, value;
} Cox;

/* One table for each instruction set. Functions that need scratch memory get it from the caller. */
typedef struct Kernels {
    const char *name;
    int lanes;
    void (*stripe)(const Job *job, int64_t stripe, double *scratch);
    void (*stochastic)(Epoch *epoch, double *scratch);
    void (*sample)(Epoch *epoch, double *scratch);
    void (*ascent)(Ascent *ascent);
    int64_t (*descent)(Descent *descent);
    void (*norms2)(const Rows *rows, double *out);
    int64_t (*lbfgs_size)(const Quasi *quasi);
    void (*lbfgs)(Quasi *quasi, double *scratch, const struct Kernels *kernels);
    void (*older)(const Pairs *pairs, double *a, double *v);
    void (*newer)(const Pairs *pairs, double *a, double *v);
    void (*cox_residual)(Cox *cox);
    void (*cox_curvature)(Cox *cox);
    void (*cox_means)(Cox *cox);
    void (*gram)(const Gram *gram, int64_t first, int64_t last, double *scratch);
    void (*dense_gram)(const DenseGram *gram, int64_t first, int64_t last, double *scratch);
    double (*fma_loop)(int64_t rounds);
    double (*read_loop)(const double *x, int64_t count);
    double (*gather_loop)(const int32_t *place, const int64_t *start, int64_t lines, const double *w, int64_t vectors);
} Kernels;

/* Features that are worked on together, in tiles of about equal size, so that six columns stay in the first cache. */
static inline int64_t tile_size(int64_t features) {
    int64_t tiles = (features + 511) / 512;
    return tiles ? (features / tiles + 8) / 8 * 8 : 8;
}

static inline int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* The length of a row in memory: whole cache lines, and not a power of two apart, which would put all rows in the
 * same places of a cache. */
static inline int64_t padded(int64_t length) {
    int64_t lines = (length + 7) / 8;
    return 8 * (lines % 64 ? lines : lines + 1);
}

/* Rows a block: few of them if they are long, so that it stays in the second cache between the two products. */
static inline int block_rows(const Rows *rows) {
    if (!rows || rows->column) return BLOCK;
    const int64_t size = rows->type == FLOAT64 ? 8 : rows->type == FLOAT32 ? 4 : 1;
    const int64_t fit = BLOCK_BYTES / (size * (rows->features + 1)) / 8 * 8;
    return fit < 8 ? 8 : fit > BLOCK ? BLOCK : (int)fit;
}

/* The most nonzeros that are gathered, the ones of the intercept among them: the last row may exceed GATHERED. */
static inline int64_t most_gathered(const Gram *gram) {
    const int64_t all = gram->rows->start[gram->rows->n] + gram->rows->n;
    return (all < GATHERED ? all : GATHERED) + gram->m;
}

/* Numbers of scratch memory for them: a value, a meeting, two halves for a place and the end of a row; and the places. */
static inline int64_t gram_size(const Gram *gram) { return 3 * most_gathered(gram) + gram->m; }

extern double byte_value[256]; /* a table is faster than a conversion: 0.0, 1.0, ... 255.0 */

/* Numbers of scratch memory a stripe needs: three blocks of predictors, y, s, and a group row by row. */
static inline int64_t scratch_size(int64_t k) { return 3 * k * BLOCK + 2 * BLOCK + (k + 8) * GROUP; }

#endif
