/* sha256, hash_leaves, hash_slices. */
#include "py_arguments.h"

#include <stdlib.h>

/* Digests of all messages in `slices`, which lie in `in`. */
static PyObject *digest_slices(const Input *in, const Slices *slices)
{
    uint8_t *out;
    PyObject *result = new_digests(slices->count, &out);
    if (result) {
        PyThreadState *state = release_gil(in->length);
        sha256_slices(sha256_active, out, slices);
        take_gil(state);
    }
    return result;
}

PyObject *py_sha256(PyObject *module, PyObject *data)
{
    (void)module;
    Input in;
    if (open_input(&in, data) < 0)
        return NULL;
    Slices whole = {in.data, (size_t)in.length, 1, NULL, (size_t)in.length};
    PyObject *result = digest_slices(&in, &whole);
    close_input(&in);
    return result;
}

PyObject *py_hash_leaves(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    Input in;
    if (check_arity("hash_leaves", count, 1, 2) < 0)
        return NULL;
    long long leaf_size = count == 2 ? PyLong_AsLongLong(args[1]) : 1 << 20;
    if (leaf_size == -1 && PyErr_Occurred())
        return NULL;
    if (leaf_size < 1)
        return PyErr_Format(PyExc_ValueError, "a leaf has at least one byte, not %lld", leaf_size);
    if (open_input(&in, args[0]) < 0)
        return NULL;
    size_t total = (size_t)in.length, size = (size_t)leaf_size;
    Slices leaves = {in.data, total, total / size + (total % size != 0), NULL, size};
    PyObject *result = digest_slices(&in, &leaves);
    close_input(&in);
    return result;
}

/* The list's numbers, which must add up to `total`. NULL with an error set otherwise. */
static size_t *parse_lengths(PyObject *list, Py_ssize_t count, size_t total)
{
    size_t *lengths = malloc(sizeof *lengths * (size_t)(count + 1)), left = total;
    if (!lengths) {
        PyErr_NoMemory();
        return NULL;
    }
    Py_ssize_t i = 0;
    for (; i < count; i++) {
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
    if (i == count && left == 0)
        return lengths;
    if (i == count)
        PyErr_Format(PyExc_ValueError, "%zu bytes are in none of the slices", left);
    free(lengths);
    return NULL;
}

PyObject *py_hash_slices(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    Input in;
    if (check_arity("hash_slices", count, 2, 2) < 0)
        return NULL;
    if (!PyList_Check(args[1])) {
        PyErr_SetString(PyExc_TypeError, "lengths must be a list");
        return NULL;
    }
    if (open_input(&in, args[0]) < 0)
        return NULL;
    PyObject *result = NULL;
    Py_ssize_t slices = PyList_Size(args[1]);
    size_t *lengths = parse_lengths(args[1], slices, (size_t)in.length);
    if (lengths) {
        Slices all = {in.data, (size_t)in.length, (size_t)slices, lengths, 0};
        result = digest_slices(&in, &all);
    }
    free(lengths);
    close_input(&in);
    return result;
}
