/* Cox's partial likelihood as Python sees it: what is given is checked here; survival.h computes. */

typedef enum { COX_RESIDUAL, COX_CURVATURE, COX_MEANS } CoxTask;

static int check_groups(const Cox *at) {
    for (int64_t g = 0; g < at->groups; g++) {
        const int64_t begin = g && at->start[g] == at->start[g - 1] ? at->end[g - 1] : at->start[g];
        if (begin < (g ? at->end[g - 1] : 0) || at->deaths[g] < 1 || at->deaths[g] > at->end[g] - begin ||
            at->end[g] > at->n) {
            PyErr_Format(PyExc_ValueError, "event group %lld is out of order or out of range", (long long)g);
            return 0;
        }
    }
    return 1;
}

/* (start, end, deaths, efron, z, s, then R and expected; or p and out; or X and out) */
static PyObject *cox(PyObject *const *args, Py_ssize_t count, CoxTask task) {
    Arrays arrays = {.used = 0};
    if (!check_count(count, 8, "a partial likelihood")) return NULL;
    Cox at = {.groups = PyObject_Size(args[0]), .efron = PyObject_IsTrue(args[3]), .n = PyObject_Size(args[4])};
    if (PyErr_Occurred()) return NULL;
    at.start = array(&arrays, args[0], "start", 'q', at.groups, 0);
    at.end = array(&arrays, args[1], "end", 'q', at.groups, 0);
    at.deaths = array(&arrays, args[2], "deaths", 'q', at.groups, 0);
    at.z = array(&arrays, args[4], "z", 'd', at.n, 0);
    at.s = array(&arrays, args[5], "s", 'd', at.n, 0);
    int64_t rows = at.groups;
    if (!PyErr_Occurred() && check_groups(&at)) {
        for (int64_t g = 0; g < at.groups; g++) rows += at.efron && at.deaths[g] > 1;
        if (task == COX_RESIDUAL) {
            at.R = array(&arrays, args[6], "R", 'd', at.n, 1);
            at.expected = array(&arrays, args[7], "expected", 'd', at.n, 1);
        } else if (task == COX_CURVATURE) {
            at.p = array(&arrays, args[6], "p", 'd', at.n, 0);
            at.out = array(&arrays, args[7], "out", 'd', at.n, 1);
        } else {
            at.X = array(&arrays, args[6], "X", 'd', -1, 0);
            at.D = at.X && at.n ? arrays.views[arrays.used - 1].len / 8 / at.n : 0;
            if (at.X && at.D * at.n * 8 != arrays.views[arrays.used - 1].len)
                PyErr_SetString(PyExc_ValueError, "X has not one row for each of the predictors");
            at.out = array(&arrays, args[7], "out", 'd', rows * at.D, 1);
        }
    }
    const int64_t more = task == COX_CURVATURE ? 2 * at.groups : task == COX_MEANS ? 2 * at.D : 0;
    double *scratch = PyErr_Occurred() ? NULL : malloc((size_t)(at.n + 6 * at.groups + more + 1) * sizeof(double));
    if (scratch) {
        const Kernels *chosen = kernels;
        at.e = scratch;
        at.shift = at.e + at.n;
        at.S = at.shift + at.groups;
        at.T = at.S + at.groups;
        at.w = at.T + at.groups;
        at.full = at.w + at.groups;
        at.part = at.full + at.groups;
        if (task == COX_CURVATURE) at.R = at.part + at.groups;
        if (task == COX_MEANS) at.expected = at.part + at.groups;
        Py_BEGIN_ALLOW_THREADS
        for (int64_t l = 0; l < at.n; l++) at.e[l] = 0; /* rows that are never at risk */
        if (task == COX_RESIDUAL) chosen->cox_residual(&at);
        else if (task == COX_CURVATURE) chosen->cox_curvature(&at);
        else chosen->cox_means(&at);
        Py_END_ALLOW_THREADS
    } else if (!PyErr_Occurred()) {
        PyErr_NoMemory();
    }
    free(scratch);
    release(&arrays);
    return PyErr_Occurred() ? NULL : PyFloat_FromDouble(at.value);
}

static PyObject *cox_residual(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return cox(args, count, COX_RESIDUAL);
}

static PyObject *cox_curvature_times(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return cox(args, count, COX_CURVATURE);
}

static PyObject *cox_means(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    return cox(args, count, COX_MEANS);
}
