/* `anchor.merkle._native`: the module, and the functions that are not about trees and leaves.
 * `_native.pyi` beside this folder describes them all.
 */
#include "py_arguments.h"

#include <stdlib.h>
#include <string.h>

static const Sha256 *implementations[SHA256_IMPLEMENTATIONS];
static int implementation_count;
const Sha256 *sha256_active;

static void widen(uint8_t *out, const uint32_t *indices, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint64_t index = indices[i];
        memcpy(out + sizeof index * i, &index, sizeof index);
    }
}

static int fill_permutation(uint8_t *out, Py_ssize_t bytes, const uint8_t seed[32], unsigned rounds)
{
    uint32_t count = (uint32_t)(bytes / 8);
    PyThreadState *state = release_gil(bytes);
    uint32_t *indices = malloc(sizeof *indices * ((size_t)count + 1));
    int failed = !indices || shuffle_permutation(sha256_active, indices, count, seed, rounds);
    if (!failed)
        widen(out, indices, count);
    free(indices);
    take_gil(state);
    if (failed)
        PyErr_NoMemory();
    return failed;
}

PyDoc_STRVAR(shuffle_into_doc, "shuffle_into(out, seed, rounds, /)\n--\n\n"
             "Fill `out`, native uint64, with compute_shuffled_index(i, len(out), seed) for each i.");

static PyObject *shuffle_into(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    Py_buffer out;
    Input seed;
    if (check_arity("shuffle_into", count, 3, 3) < 0)
        return NULL;
    long rounds = PyLong_AsLong(args[2]);
    if (rounds == -1 && PyErr_Occurred())
        return NULL;
    if (PyObject_GetBuffer(args[0], &out, PyBUF_WRITABLE) < 0)
        return NULL;
    if (open_input(&seed, args[1]) < 0) {
        PyBuffer_Release(&out);
        return NULL;
    }
    int failed = 1;
    if (out.len % 8 || (unsigned long long)out.len / 8 > UINT32_MAX)
        PyErr_Format(PyExc_ValueError, "%zd bytes are not up to 2**32 - 1 indices", out.len);
    else if (seed.length != 32 || rounds < 0 || rounds > 255)
        PyErr_Format(PyExc_ValueError, "a shuffle takes 32 bytes of seed and up to 255 rounds, not "
                     "%zd and %ld", seed.length, rounds);
    else
        failed = fill_permutation(out.buf, out.len, seed.data, (unsigned)rounds);
    close_input(&seed);
    PyBuffer_Release(&out);
    return failed ? NULL : Py_NewRef(Py_None);
}

PyDoc_STRVAR(select_doc, "select(implementation, /)\n--\n\n"
             "Use one of IMPLEMENTATIONS. For tests, while no other thread hashes.");

static PyObject *select_implementation(PyObject *module, PyObject *name)
{
    (void)module;
    for (int i = 0; i < implementation_count; i++) {
        if (PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, implementations[i]->name) == 0) {
            sha256_active = implementations[i];
            Py_RETURN_NONE;
        }
    }
    return PyErr_Format(PyExc_ValueError, "%R is not an implementation for this machine", name);
}

PyDoc_STRVAR(hash_pairs_doc, "hash_pairs(nodes, /)\n--\n\n"
             "SHA-256 of every 64-byte block of `nodes`: one tree level.");

PyDoc_STRVAR(hash_pairs_into_doc, "hash_pairs_into(out, nodes, /)\n--\n\n"
             "Like hash_pairs, into the start of the writable buffer `out`, which may be `nodes`.");

PyDoc_STRVAR(merkle_root_doc, "merkle_root(chunks, depth, /)\n--\n\n"
             "Root of the subtree of `depth` over 32-byte `chunks`, filled up with zero chunks.");

PyDoc_STRVAR(sha256_doc, "sha256(data, /)\n--\n\nSHA-256 of `data`: 32 bytes.");

PyDoc_STRVAR(hash_leaves_doc, "hash_leaves(data, leaf_size=1048576, /)\n--\n\n"
             "SHA-256 of each `leaf_size` bytes of `data`; the last leaf is what is left.");

PyDoc_STRVAR(hash_slices_doc, "hash_slices(data, lengths, /)\n--\n\n"
             "SHA-256 of consecutive slices of `data`, whose lengths are in the list `lengths`.");

PyDoc_STRVAR(hash_mapped_doc, "hash_mapped(fd, offset, size, lengths, /)\n--\n\n"
             "hash_slices of `size` bytes of a file, mapped; None where it must be read instead.");

#define FAST(function) (PyCFunction)(void (*)(void))function

static PyMethodDef methods[] = {
    {"sha256", py_sha256, METH_O, sha256_doc},
    {"hash_pairs", py_hash_pairs, METH_O, hash_pairs_doc},
    {"hash_pairs_into", FAST(py_hash_pairs_into), METH_FASTCALL, hash_pairs_into_doc},
    {"merkle_root", FAST(py_merkle_root), METH_FASTCALL, merkle_root_doc},
    {"hash_leaves", FAST(py_hash_leaves), METH_FASTCALL, hash_leaves_doc},
    {"hash_slices", FAST(py_hash_slices), METH_FASTCALL, hash_slices_doc},
    {"hash_mapped", FAST(py_hash_mapped), METH_FASTCALL, hash_mapped_doc},
    {"shuffle_into", FAST(shuffle_into), METH_FASTCALL, shuffle_into_doc},
    {"select", select_implementation, METH_O, select_doc},
    {NULL, NULL, 0, NULL},
};

static int add_constants(PyObject *module)
{
    PyObject *names = PyTuple_New(implementation_count);
    for (int i = 0; names && i < implementation_count; i++) {
        PyObject *name = PyUnicode_FromString(implementations[i]->name);
        if (!name)
            Py_CLEAR(names);
        else
            PyTuple_SetItem(names, i, name);
    }
    int failed = !names || PyModule_AddObjectRef(module, "IMPLEMENTATIONS", names) < 0;
    Py_XDECREF(names);
    PyObject *fast = sha256_active->has_sha_instructions ? Py_True : Py_False;
    return failed || PyModule_AddObjectRef(module, "HAS_SHA_INSTRUCTIONS", fast) < 0 ? -1 : 0;
}

static int execute(PyObject *module)
{
    implementation_count = sha256_implementations(implementations);
    sha256_active = implementations[0];
    sha256_init_zero_hashes(sha256_active);
    return add_constants(module);
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)execute}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "anchor.merkle._native",
    .m_doc = "The native hashing kernel.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&definition); }
