#!/usr/bin/env bash
# Fails calls of training and evaluation on threads under the sanitizers of gcc and clang: address and
# undefined behaviour, and threads.  Any report of a sanitizer is a failure.
#
#   tools/fault_sanitizers.sh [COMPILER-SANITIZER]...   for example gcc-thread; default: all four
#
# With gcc, allocations, threads and calls on files fail.  clang links its sanitizer into the program, whose
# allocator cannot be replaced: there, calls on files fail.
set -euo pipefail
cd -- "$(dirname -- "$0")/.."
jobs=$(nproc)
stride=${STRIDE:-400}
cases=(--case train --case train-ranks --case resume-ranks --case eval-ranks)
file_kinds=(--kind EIO --kind 'EIO for ever' --kind ENOSPC --kind 'ENOSPC for ever' --kind EMFILE
    --kind 'EMFILE for ever' --kind EINTR --kind short --kind 'short for ever')
[ $# -gt 0 ] || set -- gcc-address gcc-thread clang-address clang-thread

# verify_asan_link_order=0: the library that fails calls is loaded before the sanitizer.
export ASAN_OPTIONS=verify_asan_link_order=0:allocator_may_return_null=1
# The library loads the unwinder, for which the loader keeps 56 bytes.
suppressions=$(mktemp)
trap 'rm -f "$suppressions"' EXIT
cat tests/support/lsan.supp - >"$suppressions" <<<'leak:dl_open_worker_begin'
export LSAN_OPTIONS=suppressions=$suppressions:print_suppressions=0
export TSAN_OPTIONS=halt_on_error=1 UBSAN_OPTIONS=print_stacktrace=1

for build; do
    compiler=${build%-*} sanitizer=${build#*-} dir=build/faults-$build kinds=()
    [ "$sanitizer" = thread ] || sanitizer=address,undefined
    [ "$compiler" = gcc ] || kinds=("${file_kinds[@]}")
    cmake -S . -B "$dir" -DCMAKE_C_COMPILER="$compiler" -DCMAKE_BUILD_TYPE=Debug \
        '-DCMAKE_C_FLAGS_DEBUG=-O1 -g' -DWEFT_SANITIZE="$sanitizer" >/dev/null
    cmake --build "$dir" -j "$jobs" --target weft faults_sweep >/dev/null
    n=$stride
    [ "$compiler" = gcc ] || n=$((stride / 20 + 1))
    printf '==> %s, -fsanitize=%s\n' "$compiler" "$sanitizer"
    "$dir/tests/faults/sweep" --weft "$dir/weft" --shim "$dir/tests/faults/faults.so" --jobs "$jobs" \
        --limit 600 --stride "$n" "${cases[@]}" "${kinds[@]}"
done
