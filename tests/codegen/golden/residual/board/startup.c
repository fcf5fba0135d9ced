/* For the emulator; replace by your board's own. Starts the self test: vectors, stack, FPU, memory; libc's semihosting prints and gives
 * the exit code. board.ld says where everything is. */
#include <stdint.h>

extern uint32_t stack_top[], data_load[], data_start[], data_end[], bss_start[], bss_end[];
int main(void);
void initialise_monitor_handles(void);
_Noreturn void exit(int code);
_Noreturn void start(void);
_Noreturn void fault(void);

_Noreturn void fault(void) {
    exit(99);
}

_Noreturn void start(void) {
#if defined __ARM_FP || defined __ARM_FEATURE_MVE
    *(volatile uint32_t *)0xE000ED88 |= 0xFu << 20; /* CPACR: coprocessors 10 and 11 */
    __asm volatile("dsb\n isb");
#endif
    for (uint32_t *to = data_start, *from = data_load; to < data_end;)
        *to++ = *from++;
    for (uint32_t *to = bss_start; to < bss_end;)
        *to++ = 0;
    initialise_monitor_handles();
    exit(main());
}

__attribute__((section(".vectors"), used)) static void *const vectors[16] = {stack_top, start, fault, fault, fault, fault, fault};
