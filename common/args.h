/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * From Python arguments to C values: which argument is which, and whether a value fits its field. All of this needs
 * the GIL, and all but core_parse may run code of the caller's (__index__), so it comes before anything is touched.
 *
 * Functions return 0, or -1 with an exception that names the parameter.
 */
#ifndef CORE_ARGS_H
#define CORE_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "state.h"

#define CORE_MAX_PARAMS 14

/* The parameters of one function; every one can be given by keyword. */
struct core_params {
    const char *function; /* for messages: "PD.reg_mr" */
    uint8_t count;
    uint8_t required; /* the first so many must be given */
    uint8_t names[CORE_MAX_PARAMS];
};

/* Sorts the arguments of a fast call into `values`, borrowed, NULL where one was not given. */
int core_parse_any(struct core_state *state, const struct core_params *params, PyObject *const *args, Py_ssize_t nargs,
                   PyObject *kwnames, PyObject **ret_values);

/* The same; here the call that gives all of them by position, as hot ones do, costs next to nothing. */
static inline int core_parse(struct core_state *state, const struct core_params *params, PyObject *const *args,
                             Py_ssize_t nargs, PyObject *kwnames, PyObject **ret_values)
{
    if (kwnames || nargs != params->count)
        return core_parse_any(state, params, args, nargs, kwnames, ret_values);
    for (int i = 0; i < params->count; i++)
        ret_values[i] = args[i];
    return 0;
}

/*
 * The same for a constructor, which gets a tuple and perhaps a dictionary. `values` are as many as the parameters, all
 * NULL before. Values of the dictionary are new references, which core_drop_values lets go of: the collector's list of
 * objects shows it to code that a conversion runs, and that may empty it. Those of the tuple are borrowed; nobody can
 * change that.
 */
int core_parse_tuple(struct core_state *state, const struct core_params *params, PyObject *args, PyObject *kwargs,
                     PyObject **values);
void core_drop_values(const struct core_params *params, PyObject *args, PyObject *kwargs, PyObject **values);

/* A tp_new: reads the arguments and has `make` make the object from them, in a module that is still there. */
typedef PyObject *(*core_make)(struct core_state *state, PyTypeObject *type, PyObject **values);
PyObject *core_construct(PyTypeObject *type, PyObject *args, PyObject *kwargs, const struct core_params *params,
                         core_make make);

/*
 * An integer from `least` to `most`, from anything with __index__: TypeError for anything else, RangeError for what
 * lies outside.
 */
int core_integer(struct core_state *state, PyObject *value, const char *name, uint64_t least, uint64_t most,
                 uint64_t *ret);
int core_u8(struct core_state *state, PyObject *value, const char *name, uint8_t *ret);
int core_u8_most(struct core_state *state, PyObject *value, const char *name, uint8_t most, uint8_t *ret);
int core_u16(struct core_state *state, PyObject *value, const char *name, uint16_t *ret);
int core_u32(struct core_state *state, PyObject *value, const char *name, uint32_t *ret);
int core_u64(struct core_state *state, PyObject *value, const char *name, uint64_t *ret);

/* A count that libibverbs takes as a C int. */
int core_count(struct core_state *state, PyObject *value, const char *name, uint32_t least, uint32_t *ret);

/* Seconds, for the parameter `name`: None is for ever (-1), negative or not a number is a ValueError. In nanoseconds. */
int core_timeout(PyObject *value, const char *name, int64_t *ret_ns);

/* What an iterable gives, as a new list; TypeError, as core_raise_type raises it, for what is none. */
PyObject *core_list(PyObject *value, const char *name, const char *what);

/* The 16 bytes of a Gid, or of anything that exports that many. */
int core_gid_bytes(struct core_state *state, PyObject *value, const char *name, uint8_t ret[16]);

/* A 64-bit number as "0x..." for a message: PyUnicode_FromFormat has no such format before CPython 3.12. */
struct core_hex {
    char text[20];
};
struct core_hex core_hex(uint64_t number);

/* Raises TypeError: `name` must be `what`. Always returns NULL. */
PyObject *core_raise_type(const char *name, const char *what, PyObject *value);

/*
 * An attribute of the argument `name`, a new reference; TypeError, as above, where the object has none of this name, with
 * the AttributeError, which may be of an attribute's own code, as its cause.
 */
PyObject *core_get_attr(struct core_state *state, PyObject *object, enum core_name attribute, const char *name,
                        const char *what);

/* The tp_new of classes that only other objects make: raises TypeError, saying which call makes one. */
PyObject *core_no_constructor(PyTypeObject *type, const char *maker);

#endif
