/* What every function that Python calls needs: buffers in, digests out, the GIL. */
#ifndef ANCHOR_PY_ARGUMENTS_H
#define ANCHOR_PY_ARGUMENTS_H

/* Only the limited API of Python 3.11 (setup.py defines Py_LIMITED_API), so that one build serves
 * every later version. (3.11 is the first whose limited API has the buffer protocol.) */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "sha256.h"

/* Chosen once, when the module is imported (under the import lock), and only read afterwards. */
extern const Sha256 *sha256_active;

/* Bytes of an argument. */
typedef struct {
    Py_buffer view;
    int must_release;
    const uint8_t *data;
    Py_ssize_t length;
} Input;

/* Returns 0, or -1 with an exception set. */
int open_input(Input *in, PyObject *object);
void close_input(Input *in);

/* Returns 0, or -1 with an exception set. */
int check_arity(const char *name, Py_ssize_t given, Py_ssize_t least, Py_ssize_t most);

/* `bytes` for `count` digests, to be filled through *out. */
PyObject *new_digests(size_t count, uint8_t **out);

/* The list's numbers, which must add up to `total`; the caller frees them. NULL with an exception set otherwise. */
size_t *parse_lengths(PyObject *list, size_t total, Py_ssize_t *count);

/* Lets other threads run while that many bytes are hashed, if they are worth it. */
PyThreadState *release_gil(Py_ssize_t bytes);
void take_gil(PyThreadState *state);

/* py_tree.c */
PyObject *py_hash_pairs(PyObject *module, PyObject *nodes);
PyObject *py_hash_pairs_into(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_merkle_root(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* py_leaves.c */
PyObject *py_sha256(PyObject *module, PyObject *data);
PyObject *py_hash_leaves(PyObject *module, PyObject *const *args, Py_ssize_t count);
PyObject *py_hash_slices(PyObject *module, PyObject *const *args, Py_ssize_t count);

/* py_mapped.c */
PyObject *py_hash_mapped(PyObject *module, PyObject *const *args, Py_ssize_t count);

#endif
