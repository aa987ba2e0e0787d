# The front door.  CMake does the work; CMakePresets.json says what each build is.
#
#   make            the release build, in build/release
#   make test       installs what is missing, builds, runs all tests
#   make demo       installs what is missing, builds, shows weft at work
#   make setup      only installs what is missing
#   make setup-browser   likewise, and a browser for the test of the pages
#   make bench      measures the planner
#   make races      runs what ranks as threads do under the thread sanitizer
#   make bits       trains in many layouts, which must all give the same bits
#   make install    into PREFIX (/usr/local); DESTDIR is honoured
#   make fuzz       looks for inputs that break a parser, 20 seconds each
#   make check      everything that must pass before a change goes in
#   make format     lays out the sources as .clang-format says
#   make clean      removes build/

PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

MAKEFLAGS += --no-print-directory

.NOTPARALLEL: # prerequisites run in the order written; CMake runs the jobs
.PHONY: races fuzz all setup setup-browser test demo bench bits install check format clean

all:
	@command -v cmake >/dev/null || { echo 'cmake is missing: run "make setup" first' >&2; exit 1; }
	@cmake --preset release >/dev/null
	@cmake --build --preset release -j $(JOBS)

setup:
	@tools/setup.sh

setup-browser:
	@tools/setup.sh --browser

test: setup all
	@ctest --preset release --output-on-failure -j $(JOBS)

demo: setup
	@tools/demo.sh

bench: all
	build/release/weft bench plan

bits: all
	@tools/bits.sh

install: all
	cmake --install build/release --prefix "$(PREFIX)"
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" -eq 0 ]; then ldconfig; fi

races:
	@cmake --preset tsan >/dev/null
	@cmake --build --preset tsan -j $(JOBS)
	@ctest --preset tsan -R '^(comm/inproc|exec/|sync/|kern/pool|trainer/(ranks|bits|alloc|checkpointer|evaluate)|cli/(train_ranks|resume))'

check:
	@.ci/run

fuzz:
	@tools/setup.sh --dev
	@tools/fuzz.sh 20

format:
	@tools/check_format.sh --fix

clean:
	rm -rf build
