/* Words modulo p = 2^61 - 1, as Python sees them: what silos mask and tag (federation/field.py). Nothing here depends on
 * the instruction set: sums of whole numbers have one value. */

static const uint64_t P61 = ((uint64_t)1 << 61) - 1;

/* add_words(total, stream, negative): 61 of the 64 random bits of each word, added or taken off; p stands for 0. */
static PyObject *add_words(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Arrays arrays = {.used = 0};
    if (!check_count(count, 3, "add_words")) return NULL;
    uint64_t *total = array(&arrays, args[0], "total", 'Q', -1, 1);
    const int64_t n = total ? arrays.views[0].len / 8 : 0;
    const uint64_t *stream = array(&arrays, args[1], "stream", 'Q', n, 0);
    const int negative = PyObject_IsTrue(args[2]);
    if (!PyErr_Occurred()) {
        const uint64_t flip = negative ? P61 : 0; /* p - x is x with its 61 bits turned */
        Py_BEGIN_ALLOW_THREADS
        for (int64_t i = 0; i < n; i++) {
            const uint64_t sum = total[i] + ((stream[i] >> 3) ^ flip);
            total[i] = (sum & P61) + (sum >> 61);
        }
        Py_END_ALLOW_THREADS
    }
    release(&arrays);
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}

/* dot_words(stream, words): the sum of (stream_i >> 3) words_i modulo p. */
static PyObject *dot_words(PyObject *module, PyObject *const *args, Py_ssize_t count) {
    Arrays arrays = {.used = 0};
    if (!check_count(count, 2, "dot_words")) return NULL;
    const uint64_t *stream = array(&arrays, args[0], "stream", 'Q', -1, 0);
    const int64_t n = stream ? arrays.views[0].len / 8 : 0;
    const uint64_t *words = array(&arrays, args[1], "words", 'Q', n, 0);
    uint64_t found = 0;
    if (!PyErr_Occurred()) {
        Py_BEGIN_ALLOW_THREADS
        unsigned __int128 low = 0, high = 0; /* of the products, which have 122 bits */
        for (int64_t i = 0; i < n; i++) {
            const unsigned __int128 product = (unsigned __int128)(stream[i] >> 3) * words[i];
            low += (uint64_t)product;
            high += (uint64_t)(product >> 64);
        }
        found = (uint64_t)((low % P61 + (high % P61) * 8) % P61); /* 2^64 is 8 */
        Py_END_ALLOW_THREADS
    }
    release(&arrays);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLongLong(found);
}
