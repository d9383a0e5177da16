/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a handle: what it holds, who may use it, and when it ends.
 *
 * A handle holds its parents, so they outlive it; a parent counts its open children and refuses to close under them.
 * A handle may be used while it is open: short calls that keep the GIL only ask (core_check_open), calls that give
 * it up are counted (core_enter, core_exit), so that close() can wait for them. No code of the caller's runs between
 * core_enter and core_exit.
 *
 * Whatever allocates an object that the collector watches, or raises, may run any code through the collector: another
 * finalizer may close handles there. So a handle is looked at after such a call, not carried across it, and nothing is
 * raised while other handles are entered.
 *
 * `open_in`, `in_use`, `closing` and the children change only in object.c and with the GIL held, so that a
 * free-threaded build has one file to make atomic.
 */
#ifndef CORE_OBJECT_H
#define CORE_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "pyapi.h"
#include "state.h"

enum core_kind_id {
    CORE_KIND_CONTEXT,
    CORE_KIND_PD,
    CORE_KIND_MR,
    CORE_KIND_CQ,
    CORE_KIND_CHANNEL,
    CORE_KIND_QP,
    CORE_KIND_SRQ,
    CORE_KIND_AH,
    CORE_KIND_CM_ID,
    CORE_KIND_COMP_CNTR,
    CORE_KIND_COUNT
};

#define CORE_MAX_PARENTS 4 /* a QP has a PD, two CQs and an SRQ */

struct core_object;

/* What differs from one kind of handle to the next. */
struct core_kind {
    enum core_kind_id id;
    const char *destroy_op; /* "ibv_dereg_mr" */
    /* Destroys the C handle. Called without the GIL; returns 0 or a positive errno, and then the handle lives on. */
    int (*destroy)(struct core_object *self);
    /* Wakes threads that sleep in a wait on this object, or takes that back. Called with the GIL. May be NULL. */
    void (*wake)(struct core_object *self, bool closing);
    /*
     * Lets go of what the handle had pinned, once it is gone; `handle` is what it was. Called once more, with NULL, when
     * the object itself goes. With the GIL. May be NULL.
     */
    void (*release)(struct core_object *self, void *handle);
};

struct core_object {
    PyObject_HEAD
    PyObject *weak_references;
    PyObject *module; /* keeps `state` alive; dropped last */
    struct core_state *state;
    const struct core_kind *kind;
    void *handle; /* the library's pointer */
    struct core_object *parents[CORE_MAX_PARENTS];
    uint32_t children[CORE_KIND_COUNT]; /* open ones, by kind */
    uint32_t in_use;                    /* calls that run without the GIL, or wait */
    uint32_t open_in;                   /* the process generation it is open in; 0 while closing and when closed */
    uint32_t made_in;                   /* the process generation it was made in; 0 before it has a handle */
    unsigned long closer;               /* the thread that is closing it */
    bool shared;                        /* more use it than its user can see: close() is refused, it goes with the last */
    bool left_behind;                   /* collected, but not destroyed: the library refused, and has it for good */
};

/* Counts the forks that lead to this process, from 1; handles made before the last one are not for this process. */
extern uint32_t core_generation;

/* Has the count kept from now on. Once a process; returns 0 or a positive errno. */
int core_watch_forks(void);

/* ---- making: new, add parents, begin, the verb, finish ------------------------------------------------------------ */

/* An object without a handle: it holds its module, and nothing happens when it is dropped. */
struct core_object *core_object_new(struct core_state *state, PyObject *module, int type,
                                    const struct core_kind *kind);

/* Holds another parent; the same one twice counts once. */
void core_object_add_parent(struct core_object *self, struct core_object *parent);

/*
 * Around the verb that makes the handle, which runs without the GIL: its parents can be used, and stay so until
 * core_object_finish. `method` is what was called on the first parent ("create_cq"). Returns 0; or -1 with EBADF for a
 * parent that cannot be used, and the object goes.
 */
int core_object_begin(struct core_object *self, const char *method);

/*
 * Gives it its handle: it is open from here on, and its parents count it. Cannot fail; returns the object. Without a
 * handle (the verb failed) the object goes, and NULL is returned for the caller to raise.
 */
PyObject *core_object_finish(struct core_object *self, void *handle);

/* The same without parents that were begun with. */
void core_object_attach(struct core_object *self, void *handle);

/* ---- using ----------------------------------------------------------------------------------------------------- */

/*
 * Here and wherever else a function takes it, `method` is the name ("poll") of what the program called on the object
 * that comes with it; the object knows its class. Errors then name "CQ.poll".
 */

/* Raises VerbsError for such a call, in which no verb failed. Always returns NULL. */
PyObject *core_raise_method(struct core_object *self, int err, const char *method, const char *format, ...);

/* Raises EBADF for an object that cannot be used any more. Always returns -1. */
int core_raise_closed(struct core_object *self, const char *method);

/* For calls that keep the GIL. Returns 0, or -1 with EBADF. */
static inline int core_check_open(struct core_object *self, const char *method)
{
    return self->open_in == core_generation ? 0 : core_raise_closed(self, method);
}

/* For calls that give up the GIL: between the two, close() waits. The first raises EBADF, the second is just false. */
int core_enter(struct core_object *self, const char *method);
bool core_try_enter(struct core_object *self);
void core_exit(struct core_object *self);

/* An object given as an argument `name` to a method: of this class and open, else TypeError or EBADF. Returns 0 or -1. */
int core_check_argument(struct core_object *self, PyObject *value, enum core_type type, const char *name,
                        const char *what, const char *method);

/* ---- ending ---------------------------------------------------------------------------------------------------- */

/* Destroys the handle: EBUSY while it has children. Returns 0 or -1 with an exception, and then it is still open. */
int core_close(struct core_object *self);

/*
 * The end of an object that nobody can reach any more: no caller is inside of it, its children are gone. A failure goes
 * to sys.unraisablehook. Touches nothing of the module.
 */
void core_object_finalize(struct core_object *self);

/* ---- rows and slots for the class files --------------------------------------------------------------------------- */

PyObject *core_object_method_close(PyObject *self, PyObject *ignored);
PyObject *core_object_method_enter(PyObject *self, PyObject *ignored);
PyObject *core_object_method_exit(PyObject *self, PyObject *args);
PyObject *core_object_get_closed(PyObject *self, void *ignored);
PyObject *core_object_get_ptr(PyObject *self, void *ignored);
PyObject *core_object_get_as_parameter(PyObject *self, void *ignored);
PyObject *core_object_get_parent(PyObject *self, void *ignored); /* parents[0] */
int core_object_traverse(PyObject *self, visitproc visit, void *arg);
void core_object_dealloc(PyObject *self);
PyObject *core_object_repr(PyObject *self);

#define CORE_LIFETIME_METHODS                                                                                          \
    {"close", core_object_method_close, METH_NOARGS,                                                                   \
     "close($self)\n--\n\nRelease the handle. Does nothing the second time; EBUSY while children are open."},          \
        {"__enter__", core_object_method_enter, METH_NOARGS, "__enter__($self)\n--\n\nReturn the object itself."},     \
        {"__exit__", core_object_method_exit, METH_VARARGS, "__exit__($self, *exc_info)\n--\n\nClose the handle."}

#define CORE_LIFETIME_GETSET                                                                                           \
    {"closed", core_object_get_closed, NULL, "Whether the handle was released.", NULL},                                \
        {"ptr", core_object_get_ptr, NULL, "The library's pointer, as an integer.", NULL},                             \
        {"_as_parameter_", core_object_get_as_parameter, NULL, "The library's pointer, as ctypes passes it.", NULL}

/* `__weaklistoffset__` must be a member on CPython before 3.12. */
#define CORE_LIFETIME_MEMBERS                                                                                          \
    {"__weaklistoffset__", T_PYSSIZET, offsetof(struct core_object, weak_references), READONLY, NULL}

#define CORE_LIFETIME_SLOTS                                                                                            \
    {Py_tp_traverse, core_object_traverse}, {Py_tp_dealloc, core_object_dealloc}

#endif
