/* hash_pairs, hash_pairs_into, merkle_root. */
#include "py_arguments.h"

static void run_pairs(uint8_t *out, const Input *nodes)
{
    PyThreadState *state = release_gil(nodes->length);
    sha256_active->pairs(out, nodes->data, (size_t)nodes->length / SHA256_BLOCK);
    take_gil(state);
}

static int check_pairs(const Input *nodes)
{
    if (nodes->length % SHA256_BLOCK == 0)
        return 0;
    PyErr_Format(PyExc_ValueError, "a level has whole pairs of 32-byte nodes, not %zd bytes",
                 nodes->length);
    return -1;
}

PyObject *py_hash_pairs(PyObject *module, PyObject *nodes)
{
    (void)module;
    Input in;
    if (open_input(&in, nodes) < 0)
        return NULL;
    uint8_t *out;
    PyObject *result = NULL;
    if (check_pairs(&in) == 0 && (result = new_digests((size_t)in.length / SHA256_BLOCK, &out)))
        run_pairs(out, &in);
    close_input(&in);
    return result;
}

/* Results never overtake the input where `out` starts at or before it. */
static int check_output(const Py_buffer *out, const Input *in)
{
    uintptr_t to = (uintptr_t)out->buf, from = (uintptr_t)in->data;
    Py_ssize_t needed = in->length / 2;
    if (out->len < needed) {
        PyErr_Format(PyExc_ValueError, "the output holds %zd bytes, %zd are needed", out->len, needed);
        return -1;
    }
    if (to > from && to < from + (uintptr_t)in->length) {
        PyErr_SetString(PyExc_ValueError, "the output starts inside the input");
        return -1;
    }
    return 0;
}

PyObject *py_hash_pairs_into(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    Py_buffer out;
    Input in;
    if (check_arity("hash_pairs_into", count, 2, 2) < 0)
        return NULL;
    if (PyObject_GetBuffer(args[0], &out, PyBUF_WRITABLE) < 0)
        return NULL;
    if (open_input(&in, args[1]) < 0) {
        PyBuffer_Release(&out);
        return NULL;
    }
    int failed = check_pairs(&in) < 0 || check_output(&out, &in) < 0;
    if (!failed)
        run_pairs(out.buf, &in);
    close_input(&in);
    PyBuffer_Release(&out);
    return failed ? NULL : Py_NewRef(Py_None);
}

static int check_chunks(const Input *chunks, long depth)
{
    size_t count = (size_t)chunks->length / SHA256_DIGEST;
    if (depth < 0 || depth > SHA256_MAX_DEPTH) {
        PyErr_Format(PyExc_ValueError, "a tree has a depth of 0 to 64, not %ld", depth);
        return -1;
    }
    int fits = depth >= (long)(8 * sizeof count) || count <= (size_t)1 << depth;
    if (chunks->length % SHA256_DIGEST || !fits) {
        PyErr_Format(PyExc_ValueError, "%zd bytes of chunks do not fit a tree of depth %ld",
                     chunks->length, depth);
        return -1;
    }
    return 0;
}

PyObject *py_merkle_root(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    Input in;
    if (check_arity("merkle_root", count, 2, 2) < 0)
        return NULL;
    long depth = PyLong_AsLong(args[1]);
    if (depth == -1 && PyErr_Occurred())
        return NULL;
    if (open_input(&in, args[0]) < 0)
        return NULL;
    uint8_t root[SHA256_DIGEST];
    int failed = check_chunks(&in, depth);
    if (!failed) {
        PyThreadState *state = release_gil(in.length);
        failed = sha256_merkle_root(sha256_active, root, in.data, (size_t)in.length / SHA256_DIGEST,
                                    (unsigned)depth);
        take_gil(state);
        if (failed)
            PyErr_NoMemory();
    }
    close_input(&in);
    return failed ? NULL : PyBytes_FromStringAndSize((const char *)root, sizeof root);
}
