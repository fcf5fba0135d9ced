# For the emulator; replace by your board's own. cmake -B build-cmake --toolchain board/toolchain.cmake && cmake --build build-cmake && ctest --test-dir build-cmake
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_C_COMPILER arm-none-eabi-gcc)
set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16 -O2 -ffunction-sections -fdata-sections")
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY) # programs need a board, and get it in CMakeLists.txt
