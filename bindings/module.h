/* What the files of lowbit._native share. */
#ifndef LB_MODULE_H
#define LB_MODULE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "base/kernel_table.h"

/* Kernel `index` if it exists, this CPU has it, and its contract takes params of `size` bytes and a tuple of `args`; else NULL with an
 * exception set. */
const lb_kernel *lb_find_kernel(int index, Py_ssize_t size, PyObject *args);

/* lowbit._native.Plan, and the names that it looks up; -1 with an exception set if there is no memory for them. */
extern PyType_Spec lb_plan_type;
int lb_plan_names(void);

/* The address of a NumPy array's first element, as an int. */
PyObject *lb_address(PyObject *self, PyObject *array);

#endif
