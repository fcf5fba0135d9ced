# For the emulator; replace by your board's own: QEMU's mps2-an385. `make test` reads it, `make` does not need it.
# Yours has the same names, in a file elsewhere: make test BOARD=../my_board/board.mk
# BOARD_SOURCES: startup code, and what printf needs to be seen. BOARD_LDFLAGS: linker script and libc.
# RUN: loads the program that is named after it, shows its output, and ends with its exit code.
BOARD_SOURCES := board/startup.c
BOARD_LDFLAGS := --specs=rdimon.specs -nostartfiles -Tboard/board.ld
RUN := qemu-system-arm -M mps2-an385 -nographic -monitor none -serial none -semihosting-config enable=on,target=native -kernel
# What must be there, and the packages of Debian that have it.
BOARD_SPECS := rdimon.specs
BOARD_PACKAGES := gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm
