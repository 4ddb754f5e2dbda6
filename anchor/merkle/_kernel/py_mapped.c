/* hash_mapped: slices of a file, hashed where the page cache holds them. Reading them first would cost a copy.
 *
 * When a mapped file is truncated, or its disk fails, the access raises SIGBUS, which ends the process. So the
 * hashing of a map runs under a guard, to which the handler jumps back; the caller then reads the file
 * instead, and learns what is wrong with it. The jump leaves nothing behind: hashing holds no resources.
 */
#include "py_arguments.h"

#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    uint8_t *begin;
    size_t length;
    sigjmp_buf escape;
} Map;

/* The map that this thread is hashing. */
static _Thread_local Map *volatile guarded;
static struct sigaction previous;

static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (guarded && (uintptr_t)info->si_addr - (uintptr_t)guarded->begin < guarded->length)
        siglongjmp(guarded->escape, 1);
    sigaction(SIGBUS, &previous, NULL); /* not ours: it meets, on return, what was there before us */
    if (info->si_code <= 0)
        raise(number); /* sent by a process: no access that would raise it again */
}

/* Whether the handler is in place. Called under the GIL. One that replaced it later stays: it may rely on
 * being the first, and knows nothing of the guard. */
static int can_guard(void)
{
    static int was_installed;
    struct sigaction current, ours = {.sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (sigaction(SIGBUS, NULL, &current) < 0)
        return 0;
    if (was_installed)
        return current.sa_flags & SA_SIGINFO && current.sa_sigaction == on_bus_error;
    previous = current;
    sigemptyset(&ours.sa_mask);
    was_installed = sigaction(SIGBUS, &ours, NULL) == 0;
    return was_installed;
}

/* Returns 0, or -1 where the map was cut short or could not be read. */
static int hash_guarded(Map *map, uint8_t *out, const Slices *slices)
{
    if (sigsetjmp(map->escape, 1)) {
        guarded = NULL;
        return -1;
    }
    guarded = map;
    sha256_slices(sha256_active, out, slices);
    guarded = NULL;
    return 0;
}

/* Hash the slices, whose bytes begin at `offset` of the file. Returns 0, or -1 where it cannot be done. */
static int hash_file(int fd, off_t offset, uint8_t *out, Slices *slices)
{
    size_t before = (size_t)(offset % sysconf(_SC_PAGESIZE));
    Map map = {.length = before + slices->total};
    void *begin = mmap(NULL, map.length, PROT_READ, MAP_SHARED, fd, offset - (off_t)before);
    if (begin == MAP_FAILED)
        return -1;
    map.begin = begin;
    slices->data = map.begin + before;
    int failed = hash_guarded(&map, out, slices);
    munmap(begin, map.length);
    /* The last page of a file reads as zeros beyond its end. */
    struct stat status;
    return failed || fstat(fd, &status) < 0 || status.st_size - offset < (off_t)slices->total ? -1 : 0;
}

static PyObject *digest_file(int fd, off_t offset, Slices *slices)
{
    uint8_t *out;
    PyObject *result = new_digests(slices->count, &out);
    if (!result)
        return NULL;
    PyThreadState *state = PyEval_SaveThread(); /* also for little: mapping may wait for a disk */
    int failed = hash_file(fd, offset, out, slices);
    PyEval_RestoreThread(state);
    if (!failed)
        return result;
    Py_DECREF(result);
    Py_RETURN_NONE;
}

PyObject *py_hash_mapped(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
    (void)module;
    if (check_arity("hash_mapped", count, 4, 4) < 0)
        return NULL;
    long fd = PyLong_AsLong(args[0]);
    long long offset = PyLong_AsLongLong(args[1]), total = PyLong_AsLongLong(args[2]);
    if (PyErr_Occurred())
        return NULL;
    if (offset < 0 || total < 0)
        return PyErr_Format(PyExc_ValueError, "no file has %lld bytes from byte %lld on", total, offset);
    Py_ssize_t slices;
    size_t *lengths = parse_lengths(args[3], (size_t)total, &slices);
    if (!lengths)
        return NULL;
    Slices all = {NULL, (size_t)total, (size_t)slices, lengths, 0};
    PyObject *result = can_guard() ? digest_file((int)fd, (off_t)offset, &all) : Py_NewRef(Py_None);
    free(lengths);
    return result;
}
