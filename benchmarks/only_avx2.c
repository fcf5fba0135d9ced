// Preloaded by only_avx2.py: the process and its threads see a CPU whose CPUID names nothing beyond AVX2. CPUID is made to fault
// (arch_prctl ARCH_SET_CPUID; threads and forked processes inherit it), and the handler answers for it.
#define _GNU_SOURCE
#include <asm/prctl.h>
#include <cpuid.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define BIT(n) (1u << (n))

enum { A, B, C, D, REGISTERS };

static long cpuid_faults(int wanted) {
    return syscall(SYS_arch_prctl, ARCH_SET_CPUID, !wanted);
}

/// What is cleared: AVX-512 in all its parts, AMX, AVX-VNNI and what came after it, APX, GFNI, and the register states of these.
static void hide(uint32_t leaf, uint32_t part, uint32_t r[REGISTERS]) {
    if (leaf == 7 && part == 0) {
        r[B] &= ~(BIT(16) | BIT(17) | BIT(21) | BIT(26) | BIT(27) | BIT(28) | BIT(30) | BIT(31));
        r[C] &= ~(BIT(1) | BIT(6) | BIT(8) | BIT(11) | BIT(12) | BIT(14));
        r[D] &= ~(BIT(2) | BIT(3) | BIT(8) | BIT(22) | BIT(23) | BIT(24) | BIT(25));
    } else if (leaf == 7 && part == 1) {
        r[A] &= ~(BIT(4) | BIT(5) | BIT(21) | BIT(23));
        r[D] &= ~(BIT(4) | BIT(5) | BIT(8) | BIT(10) | BIT(19) | BIT(21));
    } else if (leaf == 13 && part == 0) {
        r[A] &= BIT(0) | BIT(1) | BIT(2);
    } else if (leaf == 0x1D || leaf == 0x1E || leaf == 0x24) {
        r[A] = r[B] = r[C] = r[D] = 0;
    }
}

static struct sigaction before;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal;
    greg_t *g = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *at = (const uint8_t *)g[REG_RIP];
    if (info->si_code != SI_KERNEL || at[0] != 0x0F || at[1] != 0xA2) { // a fault of the program's own: as if this were not here
        sigaction(SIGSEGV, &before, NULL);
        return;
    }
    uint32_t leaf = (uint32_t)g[REG_RAX], part = (uint32_t)g[REG_RCX], r[REGISTERS];
    cpuid_faults(0);
    __cpuid_count(leaf, part, r[A], r[B], r[C], r[D]);
    cpuid_faults(1);
    hide(leaf, part, r);
    g[REG_RAX] = r[A], g[REG_RBX] = r[B], g[REG_RCX] = r[C], g[REG_RDX] = r[D];
    g[REG_RIP] += 2;
}

__attribute__((constructor)) static void start(void) {
    if (strncmp(program_invocation_short_name, "python", 6) != 0)
        return;  // compilers, which a benchmark may start, handle faults themselves
    struct sigaction answer = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &answer, &before);
    if (cpuid_faults(1) != 0) {
        fputs("only_avx2: this CPU or kernel cannot make CPUID fault (no cpuid_fault in /proc/cpuinfo)\n", stderr);
        exit(1);
    }
}
