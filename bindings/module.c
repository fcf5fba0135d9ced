/* lowbit._native: the kernel table for Python. A thin skin without mathematics; src/lowbit/kernels/native.py is its only user.
 *
 * Built for the stable ABI of Python 3.10, which has no buffer protocol, so arrays come as addresses; a plan works on addresses
 * anyway. What can be checked here is checked (index, params size, argument count, CPU); shapes and dtypes are native.py's. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cpu.h"
#include "base/kernel_table.h"
#include "module.h"
#include "plan.h"
#include "pool.h"
#include "registry.h"

enum { MAX_ARGS = LB_PLAN_MAX_ARGS, MAX_PARAMS = LB_PLAN_MAX_PARAMS };

static uint32_t features; /* CPUID traps in virtual machines: asked once, when the module is made */

static PyObject *to_tuple(Py_ssize_t n, PyObject *(*item)(Py_ssize_t, const void *), const void *context) {
    PyObject *tuple = PyTuple_New(n);
    for (Py_ssize_t i = 0; tuple && i < n; i++) {
        PyObject *value = item(i, context);
        if (!value || PyTuple_SetItem(tuple, i, value) < 0)
            Py_CLEAR(tuple);
    }
    return tuple;
}

static PyObject *field_item(Py_ssize_t i, const void *contract) {
    const lb_field *f = &((const lb_contract *)contract)->fields[i];
    return Py_BuildValue("(ssII)", f->name, f->type, f->offset, f->count);
}

static PyObject *arg_item(Py_ssize_t i, const void *contract) {
    const lb_arg *a = &((const lb_contract *)contract)->args[i];
    return Py_BuildValue("(ssO)", a->name, a->type, a->is_input ? Py_True : Py_False);
}

static PyObject *contract_item(Py_ssize_t i, const void *unused) {
    (void)unused;
    const lb_contract *c = lb_registry_contract((int)i);
    PyObject *fields = to_tuple(c->field_count, field_item, c);
    PyObject *args = fields ? to_tuple(c->arg_count, arg_item, c) : NULL;
    if (!args) {
        Py_XDECREF(fields);
        return NULL;
    }
    return Py_BuildValue("(sINN)", c->name, c->params_size, fields, args);
}

static int usable(const lb_kernel *k) {
    return (k->isa->needs & ~features) == 0;
}

static PyObject *kernel_item(Py_ssize_t i, const void *unused) {
    (void)unused;
    const lb_kernel *k = lb_registry_kernel((int)i);
    return Py_BuildValue("(ssO)", k->contract->name, k->isa->name, usable(k) ? Py_True : Py_False);
}

static PyObject *isa_item(Py_ssize_t i, const void *unused) {
    (void)unused;
    return PyUnicode_FromString(lb_isas[i].name);
}

static PyObject *contracts(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return to_tuple(lb_registry_contracts(), contract_item, NULL);
}

static PyObject *kernels(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return to_tuple(lb_registry_kernels(), kernel_item, NULL);
}

static PyObject *isas(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return to_tuple(lb_isa_count, isa_item, NULL);
}

static PyObject *cpu_features(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < LB_CPU_FEATURE_COUNT; i++) {
        if (!(features >> i & 1))
            continue;
        PyObject *name = PyUnicode_FromString(lb_cpu_feature_name(i));
        if (!name || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    if (!list)
        return NULL;
    PyObject *tuple = PyList_AsTuple(list);
    Py_DECREF(list);
    return tuple;
}

/* One kernel with all that it needs. The params live in a bytes object at any alignment: kernels may assume that of the struct. */
typedef struct {
    _Alignas(16) char params[MAX_PARAMS];
    void *args[MAX_ARGS];
    lb_call_fn *call;
    int32_t items;
} step;

const lb_kernel *lb_find_kernel(int index, Py_ssize_t size, PyObject *args) {
    if (index < 0 || index >= lb_registry_kernels())
        return (const lb_kernel *)PyErr_Format(PyExc_IndexError, "kernel %d of %d", index, lb_registry_kernels());
    const lb_kernel *k = lb_registry_kernel(index);
    const lb_contract *c = k->contract;
    if (size != (Py_ssize_t)c->params_size || size > MAX_PARAMS)
        return (const lb_kernel *)PyErr_Format(PyExc_ValueError, "%s: params of %zd bytes, needs %u (and at most %d)", c->name, size,
                                               c->params_size, MAX_PARAMS);
    if (!PyTuple_Check(args) || PyTuple_Size(args) != c->arg_count || c->arg_count > MAX_ARGS)
        return (const lb_kernel *)PyErr_Format(PyExc_ValueError, "%s: needs a tuple of %d addresses", c->name, c->arg_count);
    if (!usable(k))
        return (const lb_kernel *)PyErr_Format(PyExc_RuntimeError, "%s: this CPU has no %s", c->name, k->isa->name);
    return k;
}

/* (kernel index, params, addresses, items if its contract has any) -> step; -1 with an exception set if anything is wrong. */
static int parse_step(PyObject *tuple, step *out) {
    int index;
    const char *params;
    Py_ssize_t size;
    PyObject *addresses;
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "a step is a tuple (kernel index, params, addresses, items)");
        return -1;
    }
    out->items = 0;
    if (!PyArg_ParseTuple(tuple, "iy#O|i", &index, &params, &size, &addresses, &out->items))
        return -1;
    const lb_kernel *k = lb_find_kernel(index, size, addresses);
    if (!k)
        return -1;
    if (k->contract->ranged != (PyTuple_Size(tuple) == 4) || out->items < 0) {
        PyErr_Format(PyExc_ValueError, "%s: %s", k->contract->name, k->contract->ranged ? "needs its items, 0 or more" : "has no items");
        return -1;
    }
    for (Py_ssize_t i = 0; i < k->contract->arg_count; i++) {
        out->args[i] = PyLong_AsVoidPtr(PyTuple_GetItem(addresses, i));
        if (!out->args[i] && PyErr_Occurred())
            return -1;
    }
    memcpy(out->params, params, (size_t)size);
    out->call = k->call;
    return 0;
}

static PyObject *call(PyObject *self, PyObject *arguments) {
    (void)self;
    step one;
    if (parse_step(arguments, &one) < 0)
        return NULL;
    PyThreadState *state = PyEval_SaveThread();
    one.call(one.params, one.args, 0, one.items);
    PyEval_RestoreThread(state);
    Py_RETURN_NONE;
}

/* Sequences of steps: sequence i is steps[first[i]] ... steps[first[i + 1] - 1]. */
typedef struct {
    step *steps;
    Py_ssize_t *first;
} sequences;

static void run_sequence(int i, void *context) {
    const sequences *s = context;
    for (Py_ssize_t at = s->first[i]; at < s->first[i + 1]; at++)
        s->steps[at].call(s->steps[at].params, s->steps[at].args, 0, s->steps[at].items);
}

static PyObject *run(PyObject *self, PyObject *arguments) {
    (void)self;
    PyObject *given;
    int threads;
    if (!PyArg_ParseTuple(arguments, "O!i:run", &PyTuple_Type, &given, &threads))
        return NULL;
    const Py_ssize_t count = PyTuple_Size(given);
    Py_ssize_t total = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *sequence = PyTuple_GetItem(given, i);
        if (!PyTuple_Check(sequence))
            return PyErr_Format(PyExc_TypeError, "sequence %zd of steps is not a tuple", i);
        total += PyTuple_Size(sequence);
    }
    if (count > INT_MAX)
        return PyErr_Format(PyExc_ValueError, "%zd sequences of steps", count);
    sequences s = {PyMem_Malloc(sizeof(step) * (size_t)total), PyMem_Malloc(sizeof(Py_ssize_t) * ((size_t)count + 1))};
    int ok = s.steps && s.first;
    if (!ok)
        PyErr_NoMemory();
    Py_ssize_t at = 0;
    for (Py_ssize_t i = 0; ok && i < count; i++) {
        PyObject *sequence = PyTuple_GetItem(given, i);
        s.first[i] = at;
        for (Py_ssize_t j = 0; ok && j < PyTuple_Size(sequence); j++)
            ok = parse_step(PyTuple_GetItem(sequence, j), &s.steps[at++]) == 0;
    }
    if (ok) {
        s.first[count] = at;
        PyThreadState *state = PyEval_SaveThread();
        lb_pool_run((int)count, threads, run_sequence, &s);
        PyEval_RestoreThread(state);
    }
    PyMem_Free(s.steps);
    PyMem_Free(s.first);
    if (!ok)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *ranged(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    PyObject *list = PyList_New(0);
    for (int i = 0; list && i < lb_registry_contracts(); i++) {
        if (!lb_registry_contract(i)->ranged)
            continue;
        PyObject *name = PyUnicode_FromString(lb_registry_contract(i)->name);
        if (!name || PyList_Append(list, name) < 0)
            Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyObject *add(PyObject *self, PyObject *address) {
    (void)self;
    const lb_library *library = PyLong_AsVoidPtr(address);
    if (!library)
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "no library");
    const char *wrong = lb_registry_add(library);
    if (wrong)
        return PyErr_Format(PyExc_ValueError, "%s", wrong);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"contracts", contracts, METH_NOARGS,
     "Per contract: name, params size, fields (name, type, offset, count), args (name, type, is_input)."},
    {"kernels", kernels, METH_NOARGS, "Per kernel: contract, isa, whether this CPU can run it. Best isa of a contract last."},
    {"isas", isas, METH_NOARGS, "Names of the instruction sets with compiled kernels, worst first."},
    {"cpu_features", cpu_features, METH_NOARGS, "Names of the features that CPU and operating system offer."},
    {"ranged", ranged, METH_NOARGS, "Names of the contracts that have items."},
    {"add", add, METH_O, "add(address of an lb_library): its kernels stand behind the others from now on."},
    {"address", lb_address, METH_O, "address(array): of its first element."},
    {"call", call, METH_VARARGS, "call(kernel index, params, addresses[, items]): runs a kernel without the GIL."},
    {"run", run, METH_VARARGS, "run(sequences of steps, threads): a step is what call takes; each sequence runs in order, on one thread."},
    {NULL, NULL, 0, NULL},
};

static int exec_module(PyObject *self) {
    features = lb_cpu_features();
    PyObject *type = lb_plan_names() == 0 ? PyType_FromSpec(&lb_plan_type) : NULL;
    if (!type || PyModule_AddObject(self, "Plan", type) < 0) {
        Py_XDECREF(type);
        return -1;
    }
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, (void *)exec_module}, {0, NULL}};

static struct PyModuleDef module = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "lowbit._native",
    .m_doc = "lowbit's kernels.",
    .m_methods = methods,
    .m_slots = slots,
};

PyMODINIT_FUNC PyInit__native(void);
PyMODINIT_FUNC PyInit__native(void) {
    return PyModuleDef_Init(&module);
}
