#include "registry.h"

#include <stddef.h>

enum { MOST = 64 };

static const lb_library *added[MOST];
static int count;

int lb_registry_kernels(void) {
    int n = lb_kernel_count;
    for (int i = 0; i < count; i++)
        n += added[i]->kernel_count;
    return n;
}

const lb_kernel *lb_registry_kernel(int index) {
    if (index < lb_kernel_count)
        return &lb_kernels[index];
    index -= lb_kernel_count;
    int at = 0;
    while (index >= added[at]->kernel_count)
        index -= added[at++]->kernel_count;
    return &added[at]->kernels[index];
}

int lb_registry_contracts(void) {
    int n = lb_contract_count;
    for (int i = 0; i < count; i++)
        n += added[i]->contract_count;
    return n;
}

const lb_contract *lb_registry_contract(int index) {
    if (index < lb_contract_count)
        return &lb_contracts[index];
    index -= lb_contract_count;
    int at = 0;
    while (index >= added[at]->contract_count)
        index -= added[at++]->contract_count;
    return &added[at]->contracts[index];
}

const char *lb_registry_add(const lb_library *library) {
    if (library->abi != LB_LIBRARY_ABI)
        return "it was built for another version of lowbit";
    if (count == MOST)
        return "too many libraries of kernels";
    added[count++] = library;
    return NULL;
}
