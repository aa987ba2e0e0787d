# Short names for common tasks.  CMake does the work; CMakePresets.json defines the builds.
#
#   make             release build in build/release
#   make test        installs missing packages, builds, runs all tests
#   make test-deep   runs the tests that have a deep variant with all their cases
#   make test-plan   builds and tests libweft-plan alone, without the other dependencies
#   make races       runs the tests of concurrent modules under the thread sanitizer
#   make bits        trains in many layouts and compares the bits of the results
#   make tidy        runs clang-tidy and its static analyser on src/
#   make fuzz        fuzzes every parser for 20 seconds
#   make check       runs everything that must pass before a change is merged (CI)
#   make format      formats the sources (.clang-format)
#   make demo        installs missing packages, builds, runs a short demonstration
#   make bench       measures the planner
#   make install     installs into PREFIX (/usr/local); DESTDIR is honoured
#   make setup       installs missing packages
#   make python      builds the Python package in place (python/)
#   make test-python runs the tests of the Python package, without PyTorch
#   make asan-python the same under the address sanitizer and with Python's debug allocator
#   make wheel       builds a wheel of the Python package into build/wheel
#   make setup-torch makes a virtual environment with PyTorch 2.13 in build/torch-venv
#   make test-torch  runs the tests of the Python package with PyTorch
#   make setup-hf    makes a virtual environment with the Hugging Face libraries in build/hf-venv
#   make test-hf     compares weft with the Hugging Face libraries
#   make setup-browser   also installs a browser, which the tests of HTML pages use
#   make clean       removes build/

PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

MAKEFLAGS += --no-print-directory

# ranks as threads, the examples, the executor, reductions, the thread pool and the trainer
CONCURRENT := ^(comm/inproc|examples/|exec/|sync/|kern/pool|trainer/(ranks|bits|alloc|checkpointer|evaluate)|cli/(train_ranks|resume)$$)

.NOTPARALLEL: # prerequisites run in the order written; CMake runs jobs in parallel
.PHONY: all setup setup-browser test test-deep test-plan races bits tidy fuzz check format demo bench \
        install clean python test-python asan-python wheel setup-torch test-torch \
        setup-hf test-hf

all:
	@command -v cmake >/dev/null || { echo 'cmake is missing: run "make setup" first' >&2; exit 1; }
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)

setup:
	@tools/setup.sh

setup-browser:
	@tools/setup.sh --browser

test: setup all
	@ctest --preset release -j $(JOBS)

test-deep: setup all
	@ctest --preset deep -j $(JOBS)

test-plan:
	@tools/setup.sh --plan
	@cmake --preset plan >/dev/null
	@cmake --build --preset plan -j $(JOBS)
	@ctest --preset plan -j $(JOBS)

# The virtual environments are only for development: the package itself needs a C compiler and setuptools.
build/python-venv/bin/pytest:
	@tools/setup.sh --python
	@python3 -m venv build/python-venv
	@build/python-venv/bin/pip -q install setuptools wheel pytest

python: build/python-venv/bin/pytest
	@cd python && ../build/python-venv/bin/python -W ignore setup.py -q build_ext --inplace

test-python: python
	@cd python && PYTHONMALLOC=debug ../build/python-venv/bin/python -m pytest -q -m 'not torch'

# The address and undefined-behaviour sanitizers; Python itself is not instrumented.
asan-python: build/python-venv/bin/pytest
	@cd python && WEFT_CFLAGS='-g -fsanitize=address,undefined -fno-sanitize-recover=undefined' \
	    WEFT_LDFLAGS='-fsanitize=address,undefined' ../build/python-venv/bin/python -W ignore setup.py -q \
	    build --build-base ../build/python-asan/tmp --build-lib ../build/python-asan/lib
	@rm -rf build/python-asan/tests && cp -r python/tests build/python-asan/tests
	@cd build/python-asan && env PYTHONMALLOC=debug PYTHONPATH=lib \
	    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 \
	    LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" \
	    ../python-venv/bin/python -m pytest -q -p no:cacheprovider tests -m 'not torch'

wheel: build/python-venv/bin/pytest
	@rm -rf build/wheel
	@build/python-venv/bin/pip -q wheel --no-deps --no-build-isolation -w build/wheel ./python
	@ls build/wheel/*.whl

setup-torch:
	@tools/setup.sh --python
	@[ -x build/torch-venv/bin/python ] || python3 -m venv build/torch-venv
	@build/torch-venv/bin/pip -q install torch==2.13.0 pytest numpy
	@build/torch-venv/bin/pip -q install --no-deps --force-reinstall ./python

test-torch:
	@[ -x build/torch-venv/bin/pytest ] || { echo 'PyTorch is missing: run "make setup-torch" first' >&2; exit 1; }
	@build/torch-venv/bin/pip -q install --no-deps --force-reinstall ./python
	@cd build && torch-venv/bin/python -m pytest -q -m torch -c ../python/pyproject.toml ../python/tests

# The Hugging Face libraries are only for these tests.  tests/hf/conftest.py skips what is not installed.
setup-hf:
	@tools/setup.sh --python
	@[ -x build/hf-venv/bin/python ] || python3 -m venv build/hf-venv
	@build/hf-venv/bin/pip -q install tokenizers==0.23.3 transformers==5.23.0 safetensors==0.8.0 \
	    numpy pytest

test-hf: all
	@[ -x build/hf-venv/bin/pytest ] || { echo 'the libraries are missing: run "make setup-hf" first' >&2; exit 1; }
	@build/hf-venv/bin/python -m pytest -q -p no:cacheprovider tests/hf

races:
	@cmake --preset tsan >/dev/null
	@cmake --build --preset tsan -j $(JOBS)
	@ctest --preset tsan -j $(JOBS) -R '$(CONCURRENT)' -E 'openmpi|mpich' # MPI itself is not clean

bits: all
	@tools/bits.sh

tidy: all
	@tools/setup.sh --dev
	@tools/check_tidy.sh

fuzz:
	@tools/setup.sh --dev
	@tools/fuzz.sh 20

check:
	@.ci/run

format:
	@tools/check_format.sh --fix

demo: setup
	@tools/demo.sh

bench: all
	build/release/weft bench plan

install: all
	cmake --install build/release --prefix "$(PREFIX)"
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" -eq 0 ]; then ldconfig; fi

clean:
	rm -rf build
