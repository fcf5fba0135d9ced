# Each target makes .venv and installs what it needs by itself; nothing is done twice when nothing changed.
#   make demo    make test    make check    make test-csrc    make test-targets    make test-aarch64    make e2e    make bench
PYTHON ?= python3
NOTEBOOK ?= examples/quantization_demo.ipynb
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q
NATIVE := $(shell find csrc bindings -name tests -prune -o -type f -print) CMakeLists.txt src/lowbit/kernels/kernel_table.py

.PHONY: docs site notebook demo fuzz test test-csrc test-targets test-aarch64 check clean e2e bench

demo: .venv/.native
	$(BIN)/lowbit demo

test: .venv/.dev .venv/.native test-csrc
	$(BIN)/python -m pytest -q -n 2 --durations=10

# Real trained networks, fetched by name into LOWBIT_CACHE (default ~/.cache/lowbit), against ONNX Runtime and PyTorch.
e2e: .venv/.dev .venv/.native
	$(BIN)/python -m pytest -q tests/e2e

# Whole networks beside other engines, then single layers; alone on the machine, half an hour the first time.
bench: .venv/.dev .venv/.native
	$(PIP) install --no-build-isolation -e '.[bench]' -c constraints.txt
	$(BIN)/python benchmarks/models.py --threads 1,2
	$(BIN)/python benchmarks/kernels.py
	$(BIN)/python benchmarks/kernels_int4.py
	$(BIN)/python benchmarks/session.py

# Generated C on emulated machines (Cortex-M0+ to M55, aarch64). Needs cross compilers and QEMU, installs neither, says what it skips.
test-targets: .venv/.dev .venv/.native test-aarch64
	$(BIN)/python -m pytest -q -rs -n 2 tests/targets

check: .venv/.dev .venv/.native
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $$(find csrc bindings -name '*.[ch]') src/lowbit/codegen/board/*.c

# Kernels, plans and threads alone: as they ship, and under the sanitizers. Kernels start no threads, so the thread sanitizer has nothing to
# see in them: its build is that of plans and the pool. What SIMDe stands for is under the sanitizers itself where the CPU has it.
test-csrc: .venv/.build-tools
	@for sanitize in none address,undefined thread; do \
	    dir=build/csrc-sanitize-$$sanitize && tests="test_plan csrc/test_kernels" && \
	    $(BIN)/cmake -G Ninja -S . -B $$dir -DLOWBIT_CSRC_TESTS=ON -DLOWBIT_WERROR=ON -DLOWBIT_SANITIZE=$${sanitize#none} \
	        -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja -DPython_EXECUTABLE=$(abspath $(BIN))/python --log-level=WARNING >$$dir.log && \
	    if [ $$sanitize = thread ]; then tests=test_plan; \
	    elif [ -d $$dir/csrc/simde ] && { [ $$sanitize = none ] || ! grep -qs avx512_vnni /proc/cpuinfo; }; then tests="$$tests csrc/test_simde"; fi && \
	    $(BIN)/cmake --build $$dir --target $$tests >>$$dir.log || { cat $$dir.log; exit 1; }; \
	    for t in $$tests; do echo "$$t, sanitizers: $$sanitize" && $$dir/$$t || exit 1; done; \
	done

# Kernels as they are built on aarch64, in QEMU.
test-aarch64: .venv/.build-tools
	@if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64 >/dev/null; then \
	    echo "NOT TESTED: kernels on aarch64 (aarch64-linux-gnu-gcc or qemu-aarch64 not installed)"; exit 0; \
	fi; \
	dir=build/csrc-aarch64 && \
	$(BIN)/cmake -G Ninja -S . -B $$dir -DLOWBIT_CSRC_TESTS=ON -DLOWBIT_WERROR=ON -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=aarch64 \
	    -DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc -DCMAKE_EXE_LINKER_FLAGS=-static -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN))/ninja \
	    -DPython_EXECUTABLE=$(abspath $(BIN))/python --log-level=WARNING >$$dir.log && \
	$(BIN)/cmake --build $$dir --target csrc/test_kernels >>$$dir.log || { cat $$dir.log; exit 1; }; \
	qemu-aarch64 $$dir/csrc/test_kernels

# The tools that build the C parts, in .venv: a rebuild needs no download, and the machine needs a compiler only.
.venv/.build-tools: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP) install scikit-build-core cmake ninja -c constraints.txt
	@mkdir -p build && touch $@

# lowbit and what it needs at run time. C sources that changed are rebuilt (incrementally, in build/); Python is used from src/.
.venv/.native: .venv/.build-tools $(NATIVE)
	$(PIP) install --no-build-isolation -e . -c constraints.txt
	@touch $@

.venv/.dev: pyproject.toml constraints.txt | .venv/.native
	$(PIP) install --no-build-isolation -e '.[dev,torch]' -c constraints.txt
	@touch $@

# Mutated files of every format: anything but a LowbitError is a finding, and is kept in build/fuzz.
fuzz: .venv/.dev .venv/.native
	PYTHONPATH=tools $(BIN)/python -m fuzz --cases 20000 --keep build/fuzz

# Pages that are made from the code.
docs: .venv/.dev .venv/.native
	$(BIN)/python tools/gen_ops_doc.py
	$(BIN)/python tools/gen_results.py
	$(BIN)/python tools/gen_kernel_coverage.py
	$(BIN)/python tools/gen_founding_doc.py
	$(BIN)/python tools/gen_dtypes_doc.py
	$(BIN)/python tools/gen_api_doc.py
	$(BIN)/python tools/gen_cli_doc.py
	$(BIN)/python tools/draw_concepts.py
	$(BIN)/python tools/gen_recipes_doc.py

# The site, in build/site: links are checked, and it can be read offline.
site: docs
	$(PIP) install --no-build-isolation -e '.[docs]' -c constraints.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q

# Executes examples/quantization_demo.ipynb from the top, with its outputs in it; fetches the data of the four networks the first time.
notebook: .venv/.dev .venv/.native
	$(PIP) install --no-build-isolation -e '.[notebook]' -c constraints.txt
	$(BIN)/python tools/make_notebook.py --out $(NOTEBOOK)

clean:
	rm -rf .venv build
