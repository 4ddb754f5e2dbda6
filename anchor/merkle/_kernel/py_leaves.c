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

PyObject *py_hash_slices(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    Input in;
    if (check_arity("hash_slices", count, 2, 2) < 0)
        return NULL;
    if (open_input(&in, args[0]) < 0)
        return NULL;
    PyObject *result = NULL;
    Py_ssize_t slices;
    size_t *lengths = parse_lengths(args[1], (size_t)in.length, &slices);
    if (lengths) {
        Slices all = {in.data, (size_t)in.length, (size_t)slices, lengths, 0};
        result = digest_slices(&in, &all);
    }
    free(lengths);
    close_input(&in);
    return result;
}
