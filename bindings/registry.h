/* Every kernel there is: those compiled in, then those of libraries that were added while running. Not for several threads at once. */
#ifndef LB_REGISTRY_H
#define LB_REGISTRY_H

#include "base/kernel_table.h"

int lb_registry_kernels(void);
const lb_kernel *lb_registry_kernel(int index);
int lb_registry_contracts(void);
const lb_contract *lb_registry_contract(int index);

/* Adds the kernels of a library that stays loaded. NULL, or what is wrong; then nothing was added. */
const char *lb_registry_add(const lb_library *library);

#endif
