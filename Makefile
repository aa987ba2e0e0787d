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
#   make setup-browser   also installs a browser, which the tests of HTML pages use
#   make clean       removes build/

PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

MAKEFLAGS += --no-print-directory

# ranks as threads, the executor, reductions, the thread pool and the trainer
CONCURRENT := ^(comm/inproc|exec/|sync/|kern/pool|trainer/(ranks|bits|alloc|checkpointer|evaluate)|cli/(train_ranks|resume)$$)

.NOTPARALLEL: # prerequisites run in the order written; CMake runs jobs in parallel
.PHONY: all setup setup-browser test test-deep test-plan races bits tidy fuzz check format demo bench \
        install clean

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

races:
	@cmake --preset tsan >/dev/null
	@cmake --build --preset tsan -j $(JOBS)
	@ctest --preset tsan -j $(JOBS) -R '$(CONCURRENT)'

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
