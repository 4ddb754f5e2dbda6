/* Buffers in, digests out, the GIL. */
#include "py_arguments.h"

#include <stdlib.h>

/* From about 30 us of work on, other threads may run meanwhile; below it the switch costs more. */
enum { RELEASE_GIL_FROM = 1 << 16 };

PyThreadState *release_gil(Py_ssize_t bytes)
{
    return bytes >= RELEASE_GIL_FROM ? PyEval_SaveThread() : NULL;
}

void take_gil(PyThreadState *state)
{
    if (state)
        PyEval_RestoreThread(state);
}

/* The buffer protocol costs more than a pair of nodes, so exact `bytes` go around it. */
int open_input(Input *in, PyObject *object)
{
    in->must_release = 0;
    if (PyBytes_CheckExact(object)) {
        char *data;
        int failed = PyBytes_AsStringAndSize(object, &data, &in->length);
        in->data = (const uint8_t *)data;
        return failed;
    }
    if (PyObject_GetBuffer(object, &in->view, PyBUF_SIMPLE) < 0)
        return -1;
    in->must_release = 1;
    in->data = in->view.buf;
    in->length = in->view.len;
    return 0;
}

void close_input(Input *in)
{
    if (in->must_release)
        PyBuffer_Release(&in->view);
}

int check_arity(const char *name, Py_ssize_t given, Py_ssize_t least, Py_ssize_t most)
{
    if (given >= least && given <= most)
        return 0;
    PyErr_Format(PyExc_TypeError, "%s() does not take %zd arguments", name, given);
    return -1;
}

PyObject *new_digests(size_t count, uint8_t **out)
{
    *out = NULL;
    if (count > PY_SSIZE_T_MAX / SHA256_DIGEST)
        return PyErr_NoMemory();
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(count * SHA256_DIGEST));
    if (result)
        *out = (uint8_t *)PyBytes_AsString(result);
    return result;
}

size_t *parse_lengths(PyObject *list, size_t total, Py_ssize_t *count)
{
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "lengths must be a list");
        return NULL;
    }
    *count = PyList_Size(list);
    size_t *lengths = malloc(sizeof *lengths * (size_t)(*count + 1)), left = total;
    if (!lengths) {
        PyErr_NoMemory();
        return NULL;
    }
    Py_ssize_t i = 0;
    for (; i < *count; i++) {
        long long length = PyLong_AsLongLong(PyList_GetItem(list, i));
        if (PyErr_Occurred())
            break;
        if (length < 0 || (unsigned long long)length > left) {
            PyErr_Format(PyExc_ValueError, "slice %zd has length %lld, %zu bytes are left for it", i,
                         length, left);
            break;
        }
        lengths[i] = (size_t)length;
        left -= lengths[i];
    }
    if (i == *count && left == 0)
        return lengths;
    if (i == *count)
        PyErr_Format(PyExc_ValueError, "%zu bytes are in none of the slices", left);
    free(lengths);
    return NULL;
}
