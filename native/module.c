/* dualfl.kernels._native: the kernels as Python sees them. Arrays come by the buffer protocol; the GIL is
 * released while a kernel runs. Which arrays a task needs, and their sizes, is checked here and nowhere else.
 * Only the stable ABI of Python 3.11 is used, so one build serves all later versions (setup.py). */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "columns.h"
#include "job.h"
#include "kernels.h"

double byte_value[256];

/* ---- the same kernels for several instruction sets ---- */

#if defined(__AVX512F__)
#define LANES 8
#elif defined(__AVX__)
#define LANES 4
#else
#define LANES 2
#endif
#define ISA baseline
#define ISA_NAME "baseline"
#include "body.h"
#undef LANES
#undef ISA
#undef ISA_NAME

#if defined(__x86_64__) && defined(__GNUC__)
#define SEVERAL_ISAS

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define LANES 4
#define ISA avx2
#define ISA_NAME "avx2"
#include "body.h"
#undef LANES
#undef ISA
#undef ISA_NAME
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512vl")
#endif
#define LANES 8
#define ISA avx512
#define ISA_NAME "avx512"
#include "body.h"
#undef LANES
#undef ISA
#undef ISA_NAME
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

static const Kernels *const built[] = {
    &kernels_baseline,
#ifdef SEVERAL_ISAS
    &kernels_avx2,
    &kernels_avx512,
#endif
};
enum { BUILT = sizeof built / sizeof *built };
static const Kernels *kernels; /* those in use */

static int supported(int i) {
#ifdef SEVERAL_ISAS
    if (i == 1) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    if (i == 2)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vl");
#endif
    return i == 0;
}

/* ---- arrays ---- */

enum { MAX_ARRAYS = 16 };

typedef struct {
    Py_buffer views[MAX_ARRAYS];
    int used;
} Arrays;

static void release(Arrays *arrays) {
    while (arrays->used) PyBuffer_Release(&arrays->views[--arrays->used]);
}

/* The numbers of a C-contiguous array of the given type and size (any, if it is negative); NULL with an error. */
static void *array(Arrays *arrays, PyObject *object, const char *name, char format, int64_t size, int writable) {
    if (PyErr_Occurred()) return NULL; /* the first error is the one to report */
    Py_buffer *view = &arrays->views[arrays->used];
    int flags = PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | (writable ? PyBUF_WRITABLE : 0);
    if (PyObject_GetBuffer(object, view, flags) < 0) return NULL;
    arrays->used++;
    const char *given = view->format ? view->format : "B";
    int matches = given[0] == format || (format == 'q' && given[0] == 'l' && view->itemsize == 8) ||
                  (format == 'Q' && given[0] == 'L' && view->itemsize == 8) ||
                  (format == 'i' && given[0] == 'l' && view->itemsize == 4);
    if (!matches || given[1]) {
        PyErr_Format(PyExc_TypeError, "%s has the buffer format '%s': it must be '%c'", name, given, format);
        return NULL;
    }
    if (size >= 0 && view->len / view->itemsize != size) {
        PyErr_Format(PyExc_ValueError, "%s has %zd numbers: it must have %lld", name, view->len / view->itemsize,
                     (long long)size);
        return NULL;
    }
    return view->buf;
}

static void *optional(Arrays *arrays, PyObject *object, const char *name, char format, int64_t size, int writable) {
    return object == Py_None ? NULL : array(arrays, object, name, format, size, writable);
}

static int check_count(Py_ssize_t given, Py_ssize_t wanted, const char *name) {
    if (given == wanted) return 1;
    PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", name, wanted, given);
    return 0;
}

static int check_index(const int64_t *index, int64_t count, int64_t n) {
    for (int64_t j = 0; j < count; j++)
        if (index[j] < 0 || index[j] >= n) {
            PyErr_Format(PyExc_IndexError, "row %lld is asked for: rows are 0 to %lld", (long long)index[j],
                         (long long)n - 1);
            return 0;
        }
    return 1;
}

/* ---- the rows of a client ---- */

typedef struct {
    PyObject_HEAD
    Rows rows;
    Arrays arrays;
} RowsObject;

static PyTypeObject *RowsType; /* made when the module is, as the stable ABI asks */

/* An object of a type that was made at run time holds a reference to it. */
static void free_object(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    freefunc freed = (freefunc)PyType_GetSlot(type, Py_tp_free);
    freed(object);
    Py_DECREF(type);
}

static int check_sparse(const Rows *rows, int64_t entries) {
    const int64_t *start = rows->start;
    const int32_t *column = rows->column;
    int sound = start[0] == 0 && start[rows->n] == entries;
    for (int64_t i = 0; sound && i < rows->n; i++) sound = start[i] <= start[i + 1];
    for (int64_t p = 0; sound && p < entries; p++) sound = column[p] >= 0 && column[p] < rows->features;
    if (!sound) PyErr_SetString(PyExc_ValueError, "X is no sound CSR matrix: its indptr or indices are out of range");
    return sound;
}

/* Rows(values, indices or None, indptr or None, n, features, scale, intercept) */
static PyObject *rows_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *values, *column, *start;
    long long n, features;
    double scale;
    int intercept;
    if (kwargs && PyDict_Size(kwargs)) return PyErr_Format(PyExc_TypeError, "Rows takes no keywords");
    if (!PyArg_ParseTuple(args, "OOOLLdp", &values, &column, &start, &n, &features, &scale, &intercept)) return NULL;
    RowsObject *self = (RowsObject *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    Rows *rows = &self->rows;
    Py_buffer *view = &self->arrays.views[0];
    if (PyObject_GetBuffer(values, view, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT) < 0) goto fail;
    self->arrays.used = 1;
    const char format = view->format ? view->format[0] : 'B';
    const int64_t entries = view->len / view->itemsize;
    *rows = (Rows){.values = view->buf, .n = n, .features = features, .D = features + intercept, .scale = scale};
    rows->intercept = intercept;
    rows->type = format == 'd' ? FLOAT64 : format == 'f' ? FLOAT32 : UINT8;
    if (format != 'd' && format != 'f' && format != 'B') {
        PyErr_Format(PyExc_TypeError, "X has the buffer format '%c': it must be float64, float32 or uint8", format);
        goto fail;
    }
    rows->column = optional(&self->arrays, column, "indices", 'i', entries, 0);
    rows->start = optional(&self->arrays, start, "indptr", 'q', n + 1, 0);
    if (PyErr_Occurred()) goto fail;
    if (column == Py_None && entries != n * features) {
        PyErr_SetString(PyExc_ValueError, "X has not n x features numbers");
        goto fail;
    }
    if (column != Py_None && !(rows->start && check_sparse(rows, entries))) goto fail;
    if (!cut_into_stripes(rows)) {
        PyErr_NoMemory();
        goto fail;
    }
    return (PyObject *)self;
fail:
    Py_DECREF(self);
    return NULL;
}

static void rows_dealloc(PyObject *object) {
    RowsObject *self = (RowsObject *)object;
    free(self->rows.cut);
    free_columns(self->rows.columns);
    release(&self->arrays);
    free_object(object);
}

static PyObject *rows_stripes(PyObject *object, void *closure) {
    return PyLong_FromLongLong(((RowsObject *)object)->rows.stripes);
}

static PyObject *rows_sorted(PyObject *object, void *closure) {
    return PyBool_FromLong(((RowsObject *)object)->rows.columns != NULL);
}

static PyGetSetDef rows_getset[] = {
    {"stripes", rows_stripes, NULL, "how many stripes a pass has", NULL},
    {"sorted", rows_sorted, NULL, "whether sparse rows were also sorted by column", NULL},
    {0},
};

static PyType_Slot rows_slots[] = {
    {Py_tp_new, rows_new},
    {Py_tp_dealloc, rows_dealloc},
    {Py_tp_getset, rows_getset},
    {0, NULL},
};

static PyType_Spec rows_spec = {
    .name = "dualfl.kernels._native.Rows",
    .basicsize = sizeof(RowsObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = rows_slots,
};

static Rows *as_rows(PyObject *object) {
    if (PyObject_TypeCheck(object, RowsType)) return &((RowsObject *)object)->rows;
    PyErr_SetString(PyExc_TypeError, "the first argument must be a Rows object");
    return NULL;
}

/* Sorts sparse rows by column before the first job that has a use for it; 0 with an error. The GIL guards it. */
static int prepare(Rows *rows, int64_t k) {
    if (!rows->column || rows->columns || k == 1 || !columns_pay(rows)) return 1;
    if (!(rows->columns = sort_by_column(rows))) PyErr_NoMemory();
    return !!rows->columns;
}

/* ---- jobs ---- */

typedef struct {
    PyObject_HEAD
    Job job;
    Arrays arrays;
    PyObject *rows;
    const Kernels *kernels;
} JobObject;

static Loss as_loss(PyObject *code, PyObject *parameter) {
    const double given = PyFloat_AsDouble(parameter);
    return (Loss){(int)PyLong_AsLong(code), given, given > 0 ? log(given) : 0};
}

static int check_loss(Loss loss, Task task, int64_t k) {
    if (loss.code < SOFTMAX || loss.code >= LOSSES)
        PyErr_Format(PyExc_ValueError, "loss.code is %d: it must be one of 0..%d", loss.code, LOSSES - 1);
    else if (loss.code != SOFTMAX && k != 1)
        PyErr_Format(PyExc_ValueError, "loss %d needs one column of predictors, not %lld", loss.code, (long long)k);
    else if (loss.code >= HINGE && loss.code <= EPSILON && (task == HESSIAN || task == CURVATURE))
        PyErr_Format(PyExc_ValueError, "loss %d has no curvature: use a method for nonsmooth losses", loss.code);
    else
        return 1;
    return 0;
}

/* (rows or None, task, code, parameter, n, k, W, Z, P, y, s, steps, Zout, G), None where a task has no use for it */
static int parse_job(PyObject *const *args, Py_ssize_t count, Job *job, Arrays *arrays) {
    if (!check_count(count, 14, "a job")) return 0;
    *job = (Job){.task = (Task)PyLong_AsLong(args[1])};
    job->rows = args[0] == Py_None ? NULL : as_rows(args[0]);
    job->loss = as_loss(args[2], args[3]);
    job->n = PyLong_AsLongLong(args[4]);
    job->k = PyLong_AsLongLong(args[5]);
    if (PyErr_Occurred()) return 0;
    if (job->task < FORWARD || job->task >= TASKS || job->k < 1 || (job->rows && job->rows->n != job->n) ||
        (job->task <= HESSIAN) != (job->rows != NULL)) {
        PyErr_SetString(PyExc_ValueError, "this is no job: check the task, its rows, n and k");
        return 0;
    }
    const int loss = job->task != FORWARD && job->task != BACKWARD;
    if (loss && !check_loss(job->loss, job->task, job->k)) return 0;
    const int64_t nk = job->n * job->k, Dk = job->rows ? job->rows->D * job->k : 0;
    job->count = job->task == RAY ? PyObject_Size(args[11]) : 0;
    job->W = optional(arrays, args[6], "W", 'd', Dk, 0);
    job->Z = optional(arrays, args[7], "Z", 'd', nk, 0);
    job->P = optional(arrays, args[8], "P", 'd', nk, 0);
    job->y = optional(arrays, args[9], "y", 'd', job->n, 0);
    job->s = optional(arrays, args[10], "s", 'd', job->n, 0);
    job->steps = optional(arrays, args[11], "steps", 'd', job->count, 0);
    job->Zout = optional(arrays, args[12], "the predictors", 'd', nk, 1);
    job->G = optional(arrays, args[13], "G", 'd', job->task == RAY ? 2 * job->count : Dk, 1);
    if (PyErr_Occurred()) return 0;
    const int t = job->task, needs_W = t == FORWARD || t == GRADIENT || t == HESSIAN;
    const int needs_Z = t == BACKWARD || t >= HESSIAN, needs_P = t == CURVATURE || t == RAY;
    const int needs_out = t == FORWARD || t == GRADIENT || t == CURVATURE;
    const int needs_G = t == BACKWARD || t == GRADIENT || t == HESSIAN || t == RAY;
    if ((needs_W != !!job->W) || (needs_Z != !!job->Z) || (needs_P != !!job->P) || (loss && !(job->y && job->s)) ||
        (needs_out && !job->Zout) || (needs_G != !!job->G)) {
        PyErr_SetString(PyExc_TypeError, "this task lacks an array, or has one too many");
        return 0;
    }
    return !job->rows || !job->G || prepare(as_rows(args[0]), job->k);
}

/* run(...): the whole job in this thread; returns the value. */
static PyObject *run(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Job job;
    Arrays arrays = {.used = 0};
    const Kernels *chosen = kernels;
    double value = 0;
    int done = 0;
    if (!parse_job(args, count, &job, &arrays)) goto fail;
    Py_BEGIN_ALLOW_THREADS
    if (start_job(&job, chosen)) {
        if ((done = work_on(&job, chosen))) value = finish_job(&job);
        free(job.memory);
    }
    Py_END_ALLOW_THREADS
    if (!done) {
        PyErr_NoMemory();
        goto fail;
    }
    release(&arrays);
    return PyFloat_FromDouble(value);
fail:
    release(&arrays);
    return NULL;
}

static PyTypeObject *JobType;

/* begin(...): the same job for several threads, each of which calls work(); one calls finish() at the end. */
static PyObject *begin(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    JobObject *self = PyObject_New(JobObject, JobType);
    if (!self) return NULL;
    self->arrays.used = 0;
    self->rows = NULL;
    self->kernels = kernels;
    self->job.memory = NULL;
    if (!parse_job(args, count, &self->job, &self->arrays)) goto fail;
    self->rows = Py_NewRef(args[0]);
    if (!start_job(&self->job, self->kernels)) {
        PyErr_NoMemory();
        goto fail;
    }
    return (PyObject *)self;
fail:
    Py_DECREF(self);
    return NULL;
}

static void job_dealloc(PyObject *object) {
    JobObject *self = (JobObject *)object;
    free(self->job.memory);
    release(&self->arrays);
    Py_XDECREF(self->rows);
    free_object(object);
}

static PyObject *job_work(PyObject *object, PyObject *unused) {
    JobObject *self = (JobObject *)object;
    int done;
    Py_BEGIN_ALLOW_THREADS
    done = work_on(&self->job, self->kernels);
    Py_END_ALLOW_THREADS
    if (!done) return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *job_finish(PyObject *object, PyObject *unused) {
    JobObject *self = (JobObject *)object;
    double value;
    Py_BEGIN_ALLOW_THREADS
    value = finish_job(&self->job);
    Py_END_ALLOW_THREADS
    return PyFloat_FromDouble(value);
}

static PyMethodDef job_methods[] = {
    {"work", job_work, METH_NOARGS, "Takes stripes until none is left."},
    {"finish", job_finish, METH_NOARGS, "Adds what the stripes gave; returns the value."},
    {0},
};

static PyType_Slot job_slots[] = {
    {Py_tp_dealloc, job_dealloc},
    {Py_tp_methods, job_methods},
    {0, NULL},
};

static PyType_Spec job_spec = {
    .name = "dualfl.kernels._native.Job",
    .basicsize = sizeof(JobObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = job_slots,
};

/* ---- sequential methods ---- */

static PyObject *row_norms2(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Arrays arrays = {.used = 0};
    if (!check_count(count, 2, "row_norms2")) return NULL;
    const Rows *rows = as_rows(args[0]);
    double *out = rows ? array(&arrays, args[1], "out", 'd', rows->n, 1) : NULL;
    if (out) {
        Py_BEGIN_ALLOW_THREADS
        kernels->norms2(rows, out);
        Py_END_ALLOW_THREADS
    }
    release(&arrays);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* sdca_epoch(rows, q, b, lo, hi, eps, s, alpha, theta, lam, norms2, order) */
static PyObject *sdca_epoch(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Arrays arrays = {.used = 0};
    if (!check_count(count, 12, "sdca_epoch")) return NULL;
    Ascent at = {.rows = as_rows(args[0])};
    if (!at.rows) return NULL;
    const int64_t n = at.rows->n;
    at.q = array(&arrays, args[1], "q", 'd', n, 0);
    at.b = array(&arrays, args[2], "b", 'd', n, 0);
    at.lo = array(&arrays, args[3], "lo", 'd', n, 0);
    at.hi = array(&arrays, args[4], "hi", 'd', n, 0);
    at.eps = PyFloat_AsDouble(args[5]);
    at.s = array(&arrays, args[6], "s", 'd', n, 0);
    at.alpha = array(&arrays, args[7], "alpha", 'd', n, 1);
    at.theta = array(&arrays, args[8], "theta", 'd', at.rows->D, 1);
    at.lam = PyFloat_AsDouble(args[9]);
    at.norms2 = array(&arrays, args[10], "norms2", 'd', n, 0);
    at.count = PyObject_Size(args[11]);
    at.index = array(&arrays, args[11], "order", 'q', at.count, 0);
    if (!PyErr_Occurred() && check_index(at.index, at.count, n)) {
        Py_BEGIN_ALLOW_THREADS
        kernels->ascent(&at);
        Py_END_ALLOW_THREADS
    }
    release(&arrays);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* cd_quadratic(Q, q, l1, lo, hi, x, grad, sweeps, tol) */
static PyObject *cd_quadratic(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Arrays arrays = {.used = 0};
    if (!check_count(count, 9, "cd_quadratic")) return NULL;
    const int64_t d = PyObject_Size(args[5]);
    Descent at = {.d = d, .sweeps = PyLong_AsLongLong(args[7]), .tol = PyFloat_AsDouble(args[8])};
    int64_t sweeps = 0;
    if (PyErr_Occurred()) return NULL;
    at.Q = array(&arrays, args[0], "Q", 'd', d * d, 0);
    at.q = array(&arrays, args[1], "q", 'd', d, 0);
    at.l1 = array(&arrays, args[2], "l1", 'd', d, 0);
    at.lo = array(&arrays, args[3], "lo", 'd', d, 0);
    at.hi = array(&arrays, args[4], "hi", 'd', d, 0);
    at.x = array(&arrays, args[5], "x", 'd', d, 1);
    at.grad = array(&arrays, args[6], "grad", 'd', d, 1);
    if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        sweeps = kernels->descent(&at);
        Py_END_ALLOW_THREADS
    }
    release(&arrays);
    return PyErr_Occurred() ? NULL : Py_BuildValue("Ld", (long long)sweeps, at.change);
}

/* lbfgs(rows, code, parameter, k, y, s, m, c, inverse, Q, u, memory, eps, cap) -> iterations; u is moved */
static PyObject *lbfgs(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Arrays arrays = {.used = 0};
    if (!check_count(count, 14, "lbfgs")) return NULL;
    Quasi at = {.rows = as_rows(args[0]), .k = PyLong_AsLongLong(args[3]), .m = PyFloat_AsDouble(args[6])};
    at.loss = as_loss(args[1], args[2]);
    at.memory = PyLong_AsLongLong(args[11]);
    at.eps = PyFloat_AsDouble(args[12]);
    at.cap = PyLong_AsLongLong(args[13]);
    if (PyErr_Occurred() || !check_loss(at.loss, HESSIAN, at.k)) return NULL;
    const int64_t n = at.rows->n, Dk = at.rows->D * at.k;
    at.y = array(&arrays, args[4], "y", 'd', n, 0);
    at.s = array(&arrays, args[5], "s", 'd', n, 0);
    at.c = array(&arrays, args[7], "c", 'd', Dk, 0);
    at.inverse = array(&arrays, args[8], "inverse", 'd', Dk, 0);
    at.Q = array(&arrays, args[9], "Q", 'd', at.k * at.k, 0);
    at.u = array(&arrays, args[10], "u", 'd', Dk, 1);
    if (!PyErr_Occurred() && at.memory < 1) PyErr_SetString(PyExc_ValueError, "memory must be at least 1 pair");
    const Kernels *chosen = kernels;
    double *scratch = PyErr_Occurred() ? NULL : malloc((size_t)chosen->lbfgs_size(&at) * sizeof(double));
    if (scratch) {
        Py_BEGIN_ALLOW_THREADS
        chosen->lbfgs(&at, scratch, chosen);
        Py_END_ALLOW_THREADS
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    free(scratch);
    release(&arrays);
    return PyErr_Occurred() ? NULL : PyLong_FromLongLong(at.iterations);
}

/* gram(rows, V, place or None, m, bias, out, first, last): adds the pairs from `first` on, before `last` */
static PyObject *gram(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Arrays arrays = {.used = 0};
    if (!check_count(count, 8, "gram")) return NULL;
    Gram at = {.rows = as_rows(args[0]), .m = PyLong_AsLongLong(args[3]), .bias = PyLong_AsLongLong(args[4])};
    const int64_t first = PyLong_AsLongLong(args[6]), last = PyLong_AsLongLong(args[7]);
    if (PyErr_Occurred()) return NULL;
    if (!at.rows->column) return PyErr_Format(PyExc_ValueError, "gram is for sparse rows");
    const int64_t pairs = at.m * (at.m + 1) / 2;
    at.V = array(&arrays, args[1], "V", 'd', -1, 0);
    at.count = at.V && at.rows->n ? arrays.views[0].len / 8 / at.rows->n : 0;
    if (args[2] != Py_None) at.place = array(&arrays, args[2], "place", 'i', at.rows->features, 0);
    at.out = array(&arrays, args[5], "out", 'd', pairs * at.count, 1);
    if (!PyErr_Occurred()) {
        int sound = at.m < INT32_MAX && 0 <= first && first <= last && last <= at.m;
        sound &= at.bias < at.m && (at.place || at.m == at.rows->features + (at.bias >= 0));
        for (int64_t j = 0; at.place && j < at.rows->features; j++) sound &= at.place[j] < at.m;
        if (!sound) PyErr_SetString(PyExc_ValueError, "there are not so many places");
    }
    double *scratch = PyErr_Occurred() ? NULL : malloc((size_t)gram_size(&at) * sizeof(double));
    if (scratch) {
        Py_BEGIN_ALLOW_THREADS
        kernels->gram(&at, first, last, scratch);
        Py_END_ALLOW_THREADS
        free(scratch);
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    release(&arrays);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* dense_gram(rows, V, where or None, m, bias, out, first, last): the same of rows that are not sparse, whole matrices */
static PyObject *dense_gram(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Arrays arrays = {.used = 0};
    if (!check_count(count, 8, "dense_gram")) return NULL;
    DenseGram at = {.rows = as_rows(args[0]), .m = PyLong_AsLongLong(args[3]), .bias = PyLong_AsLongLong(args[4])};
    const int64_t first = PyLong_AsLongLong(args[6]), last = PyLong_AsLongLong(args[7]);
    if (PyErr_Occurred()) return NULL;
    const int64_t wanted = at.m - (at.bias >= 0), features = at.rows->features;
    at.V = array(&arrays, args[1], "V", 'd', -1, 0);
    at.count = at.V && at.rows->n ? arrays.views[0].len / 8 / at.rows->n : 0;
    if (args[2] != Py_None) at.where = array(&arrays, args[2], "where", 'i', at.rows->column ? features : wanted, 0);
    at.out = array(&arrays, args[5], "out", 'd', at.m * at.m * at.count, 1);
    if (!PyErr_Occurred()) {
        int sound = (at.bias < 0 || at.bias == wanted) && (at.where || wanted == features);
        sound &= 0 <= first && first <= last && last <= at.m;
        const int64_t length = at.rows->column ? features : wanted, limit = at.rows->column ? at.m : features;
        for (int64_t j = 0; at.where && j < length; j++)
            sound &= at.where[j] < limit && (at.rows->column || at.where[j] >= 0);
        if (!sound) PyErr_SetString(PyExc_ValueError, "there are not so many columns");
    }
    /* panels of any instruction set, a tile, roots and sums; a vector should not straddle cache lines */
    const size_t size = (size_t)((round_up(at.m, 24) + 8 + 1) * PACK + 8 * 24) * sizeof(double) + 64;
    void *memory = PyErr_Occurred() ? NULL : malloc(size);
    if (memory) {
        Py_BEGIN_ALLOW_THREADS
        kernels->dense_gram(&at, first, last, (double *)round_up((intptr_t)memory, 64));
        Py_END_ALLOW_THREADS
        free(memory);
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    release(&arrays);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* (S, Y, sy, count, newest, a, v): one of the two loops of L-BFGS; a and v are changed */
static PyObject *loop(PyObject *const *args, Py_ssize_t count, int back) {
    Arrays arrays = {.used = 0};
    if (!check_count(count, 7, "a loop over pairs")) return NULL;
    Pairs at = {.d = PyObject_Size(args[6]), .memory = PyObject_Size(args[2])};
    at.count = PyLong_AsLongLong(args[3]);
    at.newest = PyLong_AsLongLong(args[4]);
    if (PyErr_Occurred()) return NULL;
    at.S = array(&arrays, args[0], "S", 'd', at.memory * at.d, 0);
    at.Y = array(&arrays, args[1], "Y", 'd', at.memory * at.d, 0);
    at.sy = array(&arrays, args[2], "sy", 'd', at.memory, 0);
    double *a = array(&arrays, args[5], "a", 'd', at.memory, 1), *v = array(&arrays, args[6], "v", 'd', at.d, 1);
    const int sound = at.count >= 0 && at.count <= at.memory && at.newest >= 0 && at.newest < at.memory;
    if (!PyErr_Occurred() && !sound) PyErr_SetString(PyExc_ValueError, "there are not so many pairs");
    if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        if (back) kernels->newer(&at, a, v);
        else kernels->older(&at, a, v);
        Py_END_ALLOW_THREADS
    }
    release(&arrays);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *older(PyObject *module, PyObject *const *args, Py_ssize_t count) { return loop(args, count, 0); }
static PyObject *newer(PyObject *module, PyObject *const *args, Py_ssize_t count) { return loop(args, count, 1); }

typedef enum { SVRG, SAGA, SAMPLE } Stochastic;

/* (rows, code, parameter, k, y, s, Z or R or None, G, W, step, ridge or None, c or None, indices) */
static PyObject *stochastic(PyObject *const *args, Py_ssize_t count, Stochastic kind) {
    Arrays arrays = {.used = 0};
    if (!check_count(count, 13, "a stochastic method")) return NULL;
    Epoch at = {.rows = as_rows(args[0]), .k = PyLong_AsLongLong(args[3])};
    at.loss = as_loss(args[1], args[2]);
    if (PyErr_Occurred() || !check_loss(at.loss, GRADIENT, at.k)) return NULL;
    const int64_t n = at.rows->n, nk = n * at.k, Dk = at.rows->D * at.k;
    at.y = array(&arrays, args[4], "y", 'd', n, 0);
    at.s = array(&arrays, args[5], "s", 'd', n, 0);
    if (kind == SVRG) at.snapshot = array(&arrays, args[6], "Z", 'd', nk, 0);
    if (kind == SAGA) at.table = array(&arrays, args[6], "R", 'd', nk, 1);
    at.G = array(&arrays, args[7], "G", 'd', Dk, kind != SVRG);
    at.W = array(&arrays, args[8], "W", 'd', Dk, kind != SAMPLE);
    at.step = PyFloat_AsDouble(args[9]);
    if (kind != SAMPLE) at.ridge = array(&arrays, args[10], "ridge", 'd', at.rows->D, 0);
    if (kind != SAMPLE) at.c = array(&arrays, args[11], "c", 'd', Dk, 0);
    at.count = PyObject_Size(args[12]);
    at.index = array(&arrays, args[12], "indices", 'q', at.count, 0);
    double *scratch = malloc((size_t)scratch_size(at.k) * sizeof(double));
    if (!scratch) PyErr_NoMemory();
    if (!PyErr_Occurred() && check_index(at.index, at.count, n)) {
        Py_BEGIN_ALLOW_THREADS
        if (kind == SAMPLE) kernels->sample(&at, scratch);
        else kernels->stochastic(&at, scratch);
        Py_END_ALLOW_THREADS
    }
    free(scratch);
    release(&arrays);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

static PyObject *svrg_epoch(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return stochastic(args, count, SVRG);
}

static PyObject *saga_epoch(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return stochastic(args, count, SAGA);
}

static PyObject *sample_gradient(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return stochastic(args, count, SAMPLE);
}

/* ---- survival ---- */

#include "survival_calls.h"
#include "words.h"

/* ---- instruction sets and limits ---- */

static PyObject *names(int only_supported) {
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < BUILT; i++) {
        if (only_supported && !supported(i)) continue;
        PyObject *name = PyUnicode_FromString(built[i]->name);
        if (!name || PyList_Append(list, name) < 0) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    PyObject *tuple = list ? PyList_AsTuple(list) : NULL;
    Py_XDECREF(list);
    return tuple;
}

static PyObject *isas(PyObject *module, PyObject *unused) { return names(1); }
static PyObject *built_isas(PyObject *module, PyObject *unused) { return names(0); }
static PyObject *isa(PyObject *module, PyObject *unused) { return PyUnicode_FromString(kernels->name); }

static PyObject *use_isa(PyObject *module, PyObject *name) {
    const char *asked = PyUnicode_AsUTF8AndSize(name, NULL);
    if (!asked) return NULL;
    for (int i = 0; i < BUILT; i++)
        if (supported(i) && !strcmp(built[i]->name, asked)) {
            kernels = built[i];
            Py_RETURN_NONE;
        }
    return PyErr_Format(PyExc_ValueError, "this processor has no instruction set '%s', or it was not built", asked);
}

/* fma_loop(rounds) -> floating point operations done */
static PyObject *fma_loop(PyObject *module, PyObject *rounds) {
    const long long n = PyLong_AsLongLong(rounds);
    volatile double kept;
    if (PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS
    kept = kernels->fma_loop(n);
    Py_END_ALLOW_THREADS
    (void)kept;
    return PyFloat_FromDouble(24.0 * kernels->lanes * (double)n);
}

/* read_loop(array of float64) -> the sum of its numbers */
static PyObject *read_loop(PyObject *module, PyObject *object) {
    Arrays arrays = {.used = 0};
    const double *x = array(&arrays, object, "x", 'd', -1, 0);
    double total = 0;
    if (x) {
        Py_BEGIN_ALLOW_THREADS
        total = kernels->read_loop(x, arrays.views[0].len / 8);
        Py_END_ALLOW_THREADS
    }
    release(&arrays);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(total);
}

/* gather_loop(places, start, w, classes, rounds) -> the sum of what it gathered in so many rounds, for so many classes;
 * w has a row for each place: classes, filled up to whole vectors */
static PyObject *gather_loop(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Arrays arrays = {.used = 0};
    if (!check_count(count, 5, "gather_loop")) return NULL;
    const int64_t rounds = PyLong_AsLongLong(args[4]);
    const int64_t classes = PyLong_AsLongLong(args[3]), vectors = (classes + kernels->lanes - 1) / kernels->lanes;
    const int32_t *place = array(&arrays, args[0], "places", 'i', -1, 0);
    const int64_t *start = array(&arrays, args[1], "start", 'q', -1, 0);
    const double *w = array(&arrays, args[2], "w", 'd', -1, 0);
    double total = 0;
    if (!PyErr_Occurred()) {
        const int64_t places = arrays.views[0].len / 4, lines = arrays.views[1].len / 8 - 1;
        const int64_t rows = vectors > 0 ? arrays.views[2].len / 8 / (vectors * kernels->lanes) : 0;
        int sound = 1 <= vectors && vectors <= 4 && lines >= 0 && start[0] >= 0 && start[lines] <= places;
        for (int64_t i = 0; sound && i < lines; i++) sound = start[i] <= start[i + 1];
        for (int64_t p = 0; sound && p < places; p++) sound = 0 <= place[p] && place[p] < rows;
        if (!sound) PyErr_SetString(PyExc_ValueError, "there are not so many places");
        Py_BEGIN_ALLOW_THREADS
        for (int64_t i = 0; sound && i < rounds; i++) total += kernels->gather_loop(place, start, lines, w, vectors);
        Py_END_ALLOW_THREADS
    }
    release(&arrays);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(total);
}

#define FAST(f, text) {#f, (PyCFunction)(void (*)(void))f, METH_FASTCALL, text}
static PyMethodDef methods[] = {
    FAST(run, "Does a whole job in this thread; returns its value."),
    FAST(begin, "Starts a job for several threads."),
    FAST(row_norms2, "The squared norms of the rows."),
    FAST(sdca_epoch, "One pass of dual coordinate ascent."),
    FAST(cd_quadratic, "Coordinate descent for a quadratic."),
    FAST(lbfgs, "L-BFGS on few rows."),
    FAST(gram, "Second-order sums of sparse rows."),
    FAST(dense_gram, "Second-order sums of dense rows."),
    FAST(older, "L-BFGS: the loop over pairs from new to old."),
    FAST(newer, "L-BFGS: the loop back."),
    FAST(svrg_epoch, "The inner loop of SVRG."),
    FAST(saga_epoch, "Steps of SAGA."),
    FAST(sample_gradient, "The gradient of some rows."),
    FAST(cox_residual, "A partial likelihood and its slopes."),
    FAST(cox_curvature_times, "Its second derivative times a vector."),
    FAST(cox_means, "What the means of the risk sets take off the second moment."),
    FAST(add_words, "Masks added to words modulo 2^61 - 1, or taken off."),
    FAST(dot_words, "A sum of products modulo 2^61 - 1."),
    {"isa", isa, METH_NOARGS, "The instruction set in use."},
    {"isas", isas, METH_NOARGS, "The instruction sets that can be used here."},
    {"built", built_isas, METH_NOARGS, "The instruction sets that were built."},
    {"use_isa", use_isa, METH_O, "Fixes the instruction set."},
    FAST(gather_loop, "Reads what sparse rows would gather."),
    {"fma_loop", fma_loop, METH_O, "Multiply-adds in registers; returns how many operations."},
    {"read_loop", read_loop, METH_O, "Reads an array once."},
    {0},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_native", "The kernels in C.", -1, methods, NULL, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) {
    for (int i = 0; i < 256; i++) byte_value[i] = i;
    for (int i = 0; i < BUILT; i++)
        if (supported(i)) kernels = built[i];
    if (!RowsType) RowsType = (PyTypeObject *)PyType_FromSpec(&rows_spec);
    if (!JobType) JobType = (PyTypeObject *)PyType_FromSpec(&job_spec);
    if (!RowsType || !JobType) return NULL;
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    if (PyModule_AddObjectRef(module, "Rows", (PyObject *)RowsType) < 0) Py_CLEAR(module);
    return module;
}
