/* A plugin of QEMU that says how many instructions ran: "instructions 12345" on the standard error, when the program ends.
 *
 * Declares the few functions of qemu-plugin.h that it uses, because distributions do not ship that header. */
#include <stdint.h>
#include <stdio.h>

struct qemu_plugin_tb;
typedef uint64_t plugin_id;
typedef void on_translate(plugin_id id, struct qemu_plugin_tb *tb);
typedef void on_execute(unsigned int cpu, void *data);
typedef void on_exit(plugin_id id, void *data);
enum { NO_REGISTERS = 0 };

extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id id, on_translate *f);
extern void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *tb, on_execute *f, int registers, void *data);
extern void qemu_plugin_register_atexit_cb(plugin_id id, on_exit *f, void *data);

int qemu_plugin_version = 1;
int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv);

static uint64_t instructions; /* the boards have one core */

static void executed(unsigned int cpu, void *data) {
    (void)cpu;
    instructions += (uintptr_t)data;
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb) {
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, NO_REGISTERS, (void *)(uintptr_t)qemu_plugin_tb_n_insns(tb));
}

static void ended(plugin_id id, void *data) {
    (void)id, (void)data;
    fprintf(stderr, "instructions %llu\n", (unsigned long long)instructions);
}

int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
    (void)info, (void)argc, (void)argv;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
