/* lowbit._native: the kernel table for Python. A thin skin without mathematics; src/lowbit/runtime/native.py is its only user.
 *
 * Built for the stable ABI of Python 3.10, which has no buffer protocol, so arrays come as addresses; a plan works on addresses
 * anyway. What can be checked here is checked (index, params size, argument count, CPU); shapes and dtypes are native.py's. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string.h>

#include "lb_cpu.h"
#include "lb_table.h"

enum { MAX_ARGS = 16, MAX_PARAMS = 256 };

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
    const lb_contract *c = &lb_contracts[i];
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
    const lb_kernel *k = &lb_kernels[i];
    return Py_BuildValue("(ssO)", k->contract->name, k->isa->name, usable(k) ? Py_True : Py_False);
}

static PyObject *isa_item(Py_ssize_t i, const void *unused) {
    (void)unused;
    return PyUnicode_FromString(lb_isas[i].name);
}

static PyObject *contracts(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return to_tuple(lb_contract_count, contract_item, NULL);
}

static PyObject *kernels(PyObject *self, PyObject *unused) {
    (void)self, (void)unused;
    return to_tuple(lb_kernel_count, kernel_item, NULL);
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

static PyObject *call(PyObject *self, PyObject *arguments) {
    (void)self;
    int index;
    const char *params;
    Py_ssize_t size;
    PyObject *addresses;
    if (!PyArg_ParseTuple(arguments, "iy#O:call", &index, &params, &size, &addresses))
        return NULL;
    if (index < 0 || index >= lb_kernel_count)
        return PyErr_Format(PyExc_IndexError, "kernel %d of %d", index, lb_kernel_count);
    const lb_kernel *k = &lb_kernels[index];
    const lb_contract *c = k->contract;
    if (size != (Py_ssize_t)c->params_size)
        return PyErr_Format(PyExc_ValueError, "%s: params of %zd bytes, needs %u", c->name, size, c->params_size);
    if (!PyTuple_Check(addresses) || PyTuple_Size(addresses) != c->arg_count || c->arg_count > MAX_ARGS)
        return PyErr_Format(PyExc_ValueError, "%s: needs a tuple of %d addresses", c->name, c->arg_count);
    if (!usable(k))
        return PyErr_Format(PyExc_RuntimeError, "%s: this CPU has no %s", c->name, k->isa->name);
    void *args[MAX_ARGS];
    for (Py_ssize_t i = 0; i < c->arg_count; i++) {
        args[i] = PyLong_AsVoidPtr(PyTuple_GetItem(addresses, i));
        if (!args[i] && PyErr_Occurred())
            return NULL;
    }
    /* The params live in a bytes object at any alignment: kernels may assume that of the struct. */
    _Alignas(16) char aligned[MAX_PARAMS];
    if (size > MAX_PARAMS)
        return PyErr_Format(PyExc_ValueError, "%s: params of %zd bytes, at most %d", c->name, size, MAX_PARAMS);
    memcpy(aligned, params, (size_t)size);
    PyThreadState *state = PyEval_SaveThread();
    k->call(aligned, args);
    PyEval_RestoreThread(state);
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {
    {"contracts", contracts, METH_NOARGS,
     "Per contract: name, params size, fields (name, type, offset, count), args (name, type, is_input)."},
    {"kernels", kernels, METH_NOARGS, "Per kernel: contract, isa, whether this CPU can run it. Best isa of a contract last."},
    {"isas", isas, METH_NOARGS, "Names of the instruction sets with compiled kernels, worst first."},
    {"cpu_features", cpu_features, METH_NOARGS, "Names of the features that CPU and operating system offer."},
    {"call", call, METH_VARARGS, "call(kernel index, params, addresses): runs a kernel without the GIL."},
    {NULL, NULL, 0, NULL},
};

static int exec_module(PyObject *self) {
    (void)self;
    features = lb_cpu_features();
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
