/* lowbit._native.Plan: the steps of plan.h as an object, run on addresses or on NumPy arrays. */
#include "module.h"
#include "plan.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_RANK = 8 };

/* What an array must be for the plan to read or write it where it is. */
typedef struct {
    Py_ssize_t shape[MAX_RANK];
    Py_ssize_t bytes;
    int rank, itemsize;
    char kind; /* as in NumPy's array interface; 0: no array fits */
} array_spec;

typedef struct {
    PyObject_HEAD lb_plan *plan;
    PyObject *keep;       /* what the constants' addresses belong to */
    PyObject *array_type; /* numpy.ndarray */
    array_spec *specs;    /* of the inputs, then of the outputs */
    int inputs, outputs, steps;
    Py_ssize_t rows, batch; /* the steps are for `rows` of `batch` rows of all inputs and outputs */
} plan_object;

/* NumPy's array interface, C side (numpy.org/doc/stable/reference/arrays.interface.html): what a capsule `__array_struct__` holds. The
 * stable ABI of Python 3.10 has no buffers; this says the same, and in a tenth of the time of the dictionary `__array_interface__`. */
typedef struct {
    int two, rank;
    char kind;
    int itemsize, flags;
    Py_ssize_t *shape, *strides;
    void *data;
    PyObject *descr;
} array_interface;

enum { C_CONTIGUOUS = 0x1, ALIGNED = 0x100, NOT_SWAPPED = 0x200, WRITEABLE = 0x400 };

static PyObject *array_struct; /* the name `__array_struct__` */

/* (kind, item size, shape) -> spec. */
static int parse_spec(PyObject *tuple, array_spec *out) {
    int kind;
    PyObject *shape;
    if (!PyTuple_Check(tuple) || !PyArg_ParseTuple(tuple, "CiO!", &kind, &out->itemsize, &PyTuple_Type, &shape))
        return -1;
    const Py_ssize_t rank = PyTuple_Size(shape);
    out->bytes = out->itemsize;
    for (Py_ssize_t i = 0; i < rank; i++) {
        const Py_ssize_t size = PyLong_AsSsize_t(PyTuple_GetItem(shape, i));
        if (size == -1 && PyErr_Occurred())
            return -1;
        if (i < MAX_RANK)
            out->shape[i] = size;
        out->bytes *= size;
    }
    out->rank = (int)rank;
    out->kind = rank <= MAX_RANK ? (char)kind : 0;
    return 0;
}

/* The address of an array that is as the spec says; NULL if it is not, without an exception. */
static void *fitting(const plan_object *self, PyObject *array, const array_spec *spec, int flags) {
    if ((PyObject *)Py_TYPE(array) != self->array_type)
        return NULL;
    PyObject *capsule = PyObject_GetAttr(array, array_struct);
    const array_interface *a = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    void *data = NULL;
    if (a && a->two == 2 && a->rank == spec->rank && a->kind == spec->kind && a->itemsize == spec->itemsize &&
        (a->flags & flags) == flags) {
        data = a->data;
        for (int i = 0; i < a->rank; i++)
            if (a->shape[i] != spec->shape[i])
                data = NULL;
    }
    Py_XDECREF(capsule);
    PyErr_Clear();
    return data;
}

PyObject *lb_address(PyObject *self, PyObject *array) {
    (void)self;
    PyObject *capsule = PyObject_GetAttr(array, array_struct);
    const array_interface *a = capsule ? PyCapsule_GetPointer(capsule, NULL) : NULL;
    PyObject *result = a ? PyLong_FromVoidPtr(a->data) : NULL;
    Py_XDECREF(capsule);
    return result;
}

/* Whether an output shares bytes with an input or with another output. */
static int overlapping(const plan_object *self, void *const *addresses) {
    for (int i = self->inputs; i < self->inputs + self->outputs; i++)
        for (int j = 0; j < i; j++) {
            const uintptr_t a = (uintptr_t)addresses[i], b = (uintptr_t)addresses[j];
            if (a < b + (size_t)self->specs[j].bytes && b < a + (size_t)self->specs[i].bytes)
                return 1;
        }
    return 0;
}

/* (place, index, offset or address) -> argument. */
static int parse_arg(PyObject *tuple, lb_plan_arg *out, const plan_object *self, Py_ssize_t arena) {
    int place, index;
    PyObject *where;
    if (!PyTuple_Check(tuple) || !PyArg_ParseTuple(tuple, "iiO", &place, &index, &where))
        return -1;
    *out = (lb_plan_arg){(lb_place)place, index, 0, NULL};
    if (place == LB_IN_CONSTANT) {
        out->constant = PyLong_AsVoidPtr(where);
        return PyErr_Occurred() ? -1 : 0;
    }
    out->offset = PyLong_AsSsize_t(where);
    if (PyErr_Occurred())
        return -1;
    const int limit = place == LB_IN_INPUT ? self->inputs : place == LB_IN_OUTPUT ? self->outputs : 1;
    if (place < 0 || place >= LB_PLACES || index < 0 || index >= limit || out->offset < 0 ||
        (place == LB_IN_ARENA && out->offset > arena)) {
        PyErr_Format(PyExc_ValueError, "argument (%d, %d, %zd) is nowhere", place, index, (Py_ssize_t)out->offset);
        return -1;
    }
    return 0;
}

/* (kernel index, params, arguments, items, chunks, fused items) -> step. */
static int parse_plan_step(PyObject *tuple, lb_plan_step *out, const plan_object *self, Py_ssize_t arena) {
    int index;
    const char *params;
    Py_ssize_t size;
    PyObject *args;
    if (!PyTuple_Check(tuple) ||
        !PyArg_ParseTuple(tuple, "iy#Oiii", &index, &params, &size, &args, &out->items, &out->chunks, &out->fused_items))
        return -1;
    const lb_kernel *k = lb_find_kernel(index, size, args);
    if (!k)
        return -1;
    if (!k->contract->ranged || out->items < 0 || out->chunks < 1 || (out->chunks > out->items && out->chunks != 1)) {
        PyErr_Format(PyExc_ValueError, "%s: %d items in %d parts", k->contract->name, out->items, out->chunks);
        return -1;
    }
    memcpy(out->params, params, (size_t)size);
    out->call = k->call;
    out->arg_count = k->contract->arg_count;
    for (int i = 0; i < out->arg_count; i++)
        if (parse_arg(PyTuple_GetItem(args, i), &out->args[i], self, arena) < 0)
            return -1;
    return 0;
}

/* Steps that follow others have one to follow, which has enough items. */
static int check_followers(const lb_plan_step *steps, Py_ssize_t count) {
    const lb_plan_step *lead = NULL;
    for (const lb_plan_step *s = steps; s < steps + count; s++) {
        if (!s->fused_items)
            lead = s;
        else if (s->fused_items < 0 || !lead || (int64_t)lead->items * s->fused_items < s->items) {
            PyErr_Format(PyExc_ValueError, "step %zd follows none, by %d of %d items", (Py_ssize_t)(s - steps), s->fused_items, s->items);
            return -1;
        }
    }
    return 0;
}

static void plan_dealloc(PyObject *object) {
    plan_object *self = (plan_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    if (self->plan)
        lb_plan_free(self->plan);
    free(self->specs);
    Py_XDECREF(self->keep);
    Py_XDECREF(self->array_type);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* All arrays have as many rows, and a slice is no more of them than there are. */
static int parse_rows(plan_object *self, Py_ssize_t rows) {
    self->rows = self->batch = rows;
    for (int i = 0; rows && i < self->inputs + self->outputs; i++) {
        const array_spec *s = &self->specs[i];
        if (rows < 0 || !s->kind || !s->rank || s->shape[0] < rows || (i && s->shape[0] != self->batch)) {
            PyErr_Format(PyExc_ValueError, "arrays have no slices of %zd rows", rows);
            return -1;
        }
        self->batch = s->shape[0];
    }
    return 0;
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* All steps for all slices, without the GIL; the last one may have rows of the one before, which come out the same. `times` are their sums.
 * A batch may take long: now and then it is asked whether somebody wants it to end. -1 with an exception. */
static int run_slices(const plan_object *self, void *const *addresses, void **at, int64_t *times, int64_t *once) {
    const int arrays = self->inputs + self->outputs;
    const double patience = 0.05;
    double asked = self->rows ? seconds() : 0;
    PyThreadState *state = PyEval_SaveThread();
    if (times)
        memset(times, 0, sizeof *times * (size_t)self->steps);
    for (Py_ssize_t row = 0; row == 0 || row < self->batch; row += self->rows ? self->rows : 1) {
        const Py_ssize_t first = row < self->batch - self->rows ? row : self->batch - self->rows;
        for (int i = 0; i < arrays; i++)
            at[i] = self->rows ? (char *)addresses[i] + self->specs[i].bytes / self->batch * first : addresses[i];
        if (lb_plan_run(self->plan, at, at + self->inputs, once) < 0) {
            PyEval_RestoreThread(state);
            PyErr_NoMemory();
            return -1;
        }
        for (int s = 0; times && s < self->steps; s++)
            times[s] += once[s];
        if (self->rows && seconds() - asked > patience) {
            PyEval_RestoreThread(state);
            if (PyErr_CheckSignals() < 0)
                return -1;
            state = PyEval_SaveThread();
            asked = seconds();
        }
    }
    PyEval_RestoreThread(state);
    return 0;
}

static PyObject *plan_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    PyObject *given, *inputs, *outputs, *array_type, *keep;
    Py_ssize_t arena, scratch, rows;
    int threads;
    if (keywords && PyDict_Size(keywords))
        return PyErr_Format(PyExc_TypeError, "Plan takes no keywords");
    if (!PyArg_ParseTuple(arguments, "O!O!O!nninOO:Plan", &PyTuple_Type, &given, &PyTuple_Type, &inputs, &PyTuple_Type, &outputs, &arena,
                          &scratch, &threads, &rows, &array_type, &keep))
        return NULL;
    const Py_ssize_t count = PyTuple_Size(given), ins = PyTuple_Size(inputs), outs = PyTuple_Size(outputs);
    if (arena < 0 || scratch < 0 || count > INT_MAX || ins > INT_MAX / 2 || outs > INT_MAX / 2)
        return PyErr_Format(PyExc_ValueError, "a size is negative, or there are too many steps, inputs or outputs");
    plan_object *self = (plan_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self)
        return NULL;
    self->inputs = (int)ins, self->outputs = (int)outs, self->steps = (int)count;
    self->keep = Py_NewRef(keep);
    self->array_type = Py_NewRef(array_type);
    self->specs = calloc((size_t)(ins + outs) + 1, sizeof *self->specs);
    lb_plan_step *steps = calloc((size_t)count + 1, sizeof *steps);
    int ok = steps && self->specs;
    if (!ok)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; ok && i < ins + outs; i++)
        ok = parse_spec(PyTuple_GetItem(i < ins ? inputs : outputs, i < ins ? i : i - ins), &self->specs[i]) == 0;
    ok = ok && parse_rows(self, rows) == 0;
    for (Py_ssize_t i = 0; ok && i < count; i++)
        ok = parse_plan_step(PyTuple_GetItem(given, i), &steps[i], self, arena) == 0;
    ok = ok && check_followers(steps, count) == 0;
    if (ok && !(self->plan = lb_plan_new(steps, (int)count, (size_t)arena, (size_t)scratch, threads))) {
        ok = 0;
        PyErr_NoMemory();
    }
    if (!ok) {
        free(steps);
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int parse_addresses(PyObject *tuple, int count, void **out) {
    if (PyTuple_Size(tuple) != count) {
        PyErr_Format(PyExc_ValueError, "%zd addresses, needs %d", PyTuple_Size(tuple), count);
        return -1;
    }
    for (int i = 0; i < count; i++) {
        out[i] = PyLong_AsVoidPtr(PyTuple_GetItem(tuple, i));
        if (!out[i] && PyErr_Occurred())
            return -1;
    }
    return 0;
}

static PyObject *plan_run(PyObject *object, PyObject *arguments) {
    plan_object *self = (plan_object *)object;
    PyObject *inputs, *outputs;
    int timed = 0;
    if (!PyArg_ParseTuple(arguments, "O!O!|p:run", &PyTuple_Type, &inputs, &PyTuple_Type, &outputs, &timed))
        return NULL;
    const size_t pointers = (size_t)(self->inputs + self->outputs);
    void **addresses = PyMem_Malloc(sizeof *addresses * 2 * (pointers + 1));
    int64_t *times = timed ? PyMem_Malloc(sizeof *times * 2 * ((size_t)self->steps + 1)) : NULL;
    int status = addresses && (times || !timed) ? 0 : -1;
    if (status == 0 &&
        (parse_addresses(inputs, self->inputs, addresses) < 0 || parse_addresses(outputs, self->outputs, addresses + self->inputs) < 0)) {
        PyMem_Free(addresses);
        PyMem_Free(times);
        return NULL;
    }
    if (status < 0)
        PyErr_NoMemory();
    else
        status = run_slices(self, addresses, addresses + pointers, times, times ? times + self->steps : NULL);
    PyObject *result = NULL;
    if (status == 0 && timed) {
        result = PyTuple_New(self->steps);
        for (int i = 0; result && i < self->steps; i++)
            if (PyTuple_SetItem(result, i, PyLong_FromLongLong(times[i])) < 0)
                Py_CLEAR(result);
    } else if (status == 0)
        result = Py_NewRef(Py_None);
    PyMem_Free(addresses);
    PyMem_Free(times);
    return result;
}

/* on(inputs, outputs): True after all steps ran; False, and nothing ran, if an array is not as the plan needs it. */
static PyObject *plan_on(PyObject *object, PyObject *const *arguments, Py_ssize_t count) {
    plan_object *self = (plan_object *)object;
    enum { FEW = 16 };
    void *few[2 * FEW], **addresses = few;
    if (count != 2 || !PyTuple_Check(arguments[0]) || !PyTuple_Check(arguments[1]))
        return PyErr_Format(PyExc_TypeError, "on takes a tuple of inputs and a tuple of outputs");
    if (PyTuple_Size(arguments[0]) != self->inputs || PyTuple_Size(arguments[1]) != self->outputs)
        return Py_NewRef(Py_False);
    const int all = self->inputs + self->outputs;
    if (all > FEW && !(addresses = PyMem_Malloc(sizeof *addresses * 2 * (size_t)all)))
        return PyErr_NoMemory();
    int fits = 1, status = 0;
    for (int i = 0; fits && i < all; i++) {
        const int out = i >= self->inputs;
        const int flags = C_CONTIGUOUS | ALIGNED | NOT_SWAPPED | (out ? WRITEABLE : 0);
        addresses[i] = fitting(self, PyTuple_GetItem(arguments[out], out ? i - self->inputs : i), &self->specs[i], flags);
        fits = addresses[i] != NULL;
    }
    fits = fits && !overlapping(self, addresses);
    if (fits)
        status = run_slices(self, addresses, addresses + all, NULL, NULL);
    if (addresses != few)
        PyMem_Free(addresses);
    return status < 0 ? NULL : Py_NewRef(fits ? Py_True : Py_False);
}

static PyMethodDef plan_methods[] = {
    {"on", (PyCFunction)(void (*)(void))plan_on, METH_FASTCALL,
     "on(inputs, outputs): all steps on NumPy arrays; False if one does not fit."},
    {"run", plan_run, METH_VARARGS, "run(addresses of inputs, of outputs, timed=False): all steps, without the GIL; ns of each if timed."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot plan_slots[] = {
    {Py_tp_new, (void *)plan_new},
    {Py_tp_dealloc, (void *)plan_dealloc},
    {Py_tp_methods, plan_methods},
    {Py_tp_doc, (void *)"Plan(steps, inputs, outputs, arena bytes, scratch bytes, threads, rows, array type, keep): see _native.pyi."},
    {0, NULL},
};

PyType_Spec lb_plan_type = {"lowbit._native.Plan", sizeof(plan_object), 0, Py_TPFLAGS_DEFAULT, plan_slots};

int lb_plan_names(void) {
    if (!array_struct)
        array_struct = PyUnicode_InternFromString("__array_struct__");
    return array_struct ? 0 : -1;
}
