#!/usr/bin/env bash
# Builds weft with several compilers and optimization levels and, if the cross compiler is installed, for
# ARM, and compares the bits of kernels and of short runs with recorded hashes, for every instruction set
# that this machine has.
#
#   tools/bits_cpus.sh                all builds
#   tools/bits_cpus.sh clang-O1 arm   some builds: {gcc,clang}-{O0,O1,O3} and arm
#
# ARM needs the packages of tools/setup.sh --arm.  Its libraries are downloaded into build/cpus/arm-root, and
# the system does not change.  Builds are in build/cpus.  Prints one line per build and instruction set.
set -euo pipefail

source_dir=$(cd -- "$(dirname -- "$0")/.." && pwd)
jobs=${JOBS:-$(nproc)}
tests=(test_base_math test_kern_same_bits test_trainer_constants)
n_failed=0 n_checked=0

# build NAME OPTION...: configures and builds the tests in build/cpus/NAME
build() {
    local folder=$source_dir/build/cpus/$1 log=$source_dir/build/cpus/$1.log
    shift
    mkdir -p "$source_dir/build/cpus"
    cmake -S "$source_dir" -B "$folder" "$@" >"$log" 2>&1 &&
        cmake --build "$folder" -j "$jobs" --target "${tests[@]}" >>"$log" 2>&1 && return
    echo "$log:"
    tail -n 5 "$log"
    return 1
}

# check NAME ISA [COMMAND...]: runs the tests of a build, with COMMAND as the emulator
check() {
    local name=$1 isa=$2 at=$source_dir/build/cpus/$1/tests program out bad=''
    shift 2
    for program in base/test_math kern/test_same_bits trainer/test_constants; do
        out=$(WEFT_ISA=$isa timeout 3000 "$@" "$at/$program" 2>&1) && continue
        bad=yes
        printf '%s\n' "$out" | grep '^ERROR' || printf '%s\n' "$out" | tail -n 3
    done
    n_checked=$((n_checked + 1))
    printf '%-9s %-12s %s\n' "$name" "$isa" "${bad:+FAILED}"
    [ -z "$bad" ] || n_failed=$((n_failed + 1))
}

# isas: prints the instruction sets of this machine
isas() {
    local flags
    flags=" $(sed -n 's/^flags[^:]*: //p' /proc/cpuinfo | head -n 1) "
    echo portable
    [[ $flags != *' avx2 '* ]] || echo avx2
    [[ $flags != *' avx512dq '* ]] || echo avx512
    [[ $flags != *' avx512_bf16 '* ]] || echo avx512_bf16
}

check_native() { # NAME
    local isa level=${1#*-}
    # Debug adds no optimization of its own; kernels have -O3 only in Release.
    if ! build "$1" "-DCMAKE_C_COMPILER=${1%-*}" -DCMAKE_BUILD_TYPE=Debug "-DCMAKE_C_FLAGS=-$level"; then
        n_failed=$((n_failed + 1))
        return
    fi
    for isa in $(isas); do
        check "$1" "$isa"
    done
}

# make_arm_root FOLDER: downloads and unpacks the libraries for ARM, with package lists of their own
make_arm_root() {
    local root=$1 state=$1.apt apt file
    [ ! -e "$root/complete" ] || return 0
    mkdir -p "$state/lists/partial" "$state/archives/partial" "$root"
    : >"$state/status"
    apt=(apt-get -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State=$state"
        -o "Dir::State::Lists=$state/lists" -o "Dir::State::status=$state/status"
        -o "Dir::Cache::archives=$state/archives" -o Acquire::Retries=3 -o Debug::NoLocking=1)
    "${apt[@]}" update || return 1
    "${apt[@]}" install -y --download-only --no-install-recommends libc6-dev libcmocka-dev libjansson-dev \
        libyaml-dev libcairo2-dev libxxhash-dev libhwloc-dev libmicrohttpd-dev libunistring-dev \
        libudev-dev libutf8proc-dev zlib1g-dev || return 1
    for file in "$state"/archives/*.deb; do
        dpkg-deb -x "$file" "$root" || return 1
    done
    touch "$root/complete"
}

check_arm() {
    local root=$source_dir/build/cpus/arm-root
    if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64-static >/dev/null; then
        echo 'arm skipped: run "tools/setup.sh --arm" first'
        return
    fi
    mkdir -p "${root%/*}"
    if ! make_arm_root "$root" >"$root.log" 2>&1; then
        echo "arm: the libraries cannot be downloaded:"
        tail -n 3 "$root.log"
        n_failed=$((n_failed + 1))
    elif ! build arm "-DCMAKE_TOOLCHAIN_FILE=$source_dir/cmake/aarch64.cmake" "-DWEFT_ARM_ROOT=$root" \
        -DCMAKE_BUILD_TYPE=Release; then
        n_failed=$((n_failed + 1))
    else
        check arm portable qemu-aarch64-static -L "$root"
    fi
}

[ $# -gt 0 ] || set -- {gcc,clang}-{O0,O1,O3} arm
for name; do
    case $name in
    gcc-O[013] | clang-O[013]) check_native "$name" ;;
    arm) check_arm ;;
    *) echo "bits_cpus: unknown build '$name' (gcc-O0, clang-O3, arm ...)" >&2; exit 2 ;;
    esac
done
if [ $n_failed -gt 0 ]; then
    echo "$n_failed of $n_checked checks or builds failed"
    exit 1
fi
echo "$n_checked builds and instruction sets, the same bits"
