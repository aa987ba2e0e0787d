#!/usr/bin/env bash
# Installs the Debian packages that weft needs; does nothing if all of them are installed.
#
#   tools/setup.sh             to build, test and run
#   tools/setup.sh --plan      only to build and test libweft-plan
#   tools/setup.sh --python    only to build and test the Python package
#   tools/setup.sh --dev       also the tools that CI uses: clang, clang-tidy, valgrind, ...
#   tools/setup.sh --browser   also a browser, for the tests of HTML pages
#   tools/setup.sh --arm       also a compiler for 64-bit ARM and an emulator, for make bits-cpus
set -euo pipefail

# The only list of packages: name and purpose.
plan_packages='
gcc                 compiler
libc6-dev           headers
make                build
cmake               build
pkg-config          build
libcmocka-dev       tests
libjansson-dev      JSON
libyaml-dev         settings
'
python_packages='
gcc                 compiler
libc6-dev           headers
make                build
python3             Python
python3-dev         headers of Python
python3-venv        virtual environments
'
other_packages='
libcairo2-dev       pictures
libxxhash-dev       hashes
libhwloc-dev        cores
libmicrohttpd-dev   live page
libunistring-dev    live page
libudev-dev         cores
libutf8proc-dev     Unicode
zlib1g-dev          compressed files
libzstd-dev         compressed files
liblzma-dev         compressed files
libbz2-dev          compressed files
fonts-dejavu-core   pictures
libopenmpi-dev      MPI
openmpi-bin         MPI
libmpich-dev        MPI
mpich               MPI
g++                 tests
iproute2            tests
'
dev_packages='
clang               fuzzing
libclang-rt-14-dev  fuzzing
clang-format        formatting
clang-tidy          static analysis
valgrind            memory
git                 history
'
browser_packages='
chromium            browser
'
arm_packages='
gcc-aarch64-linux-gnu  compiler
qemu-user-static    emulator
'

say() { echo "setup: $*"; }
die() { say "$@" >&2; exit 1; }

packages=$plan_packages$other_packages
for option; do
    case $option in
    --plan) packages=$plan_packages ;;
    --python) packages=$python_packages ;;
    --dev) packages+=$dev_packages ;;
    --browser) packages+=$browser_packages ;;
    --arm) packages+=$arm_packages ;;
    *) die "unknown option $option (expected --plan, --python, --dev, --browser or --arm)" ;;
    esac
done
mapfile -t names < <(awk 'NF { print $1 }' <<<"$packages")

if ! command -v dpkg-query >/dev/null; then
    say "this system has no dpkg; install the equivalents of: ${names[*]}"
    exit 0
fi

# dpkg-query fails for unknown names, which then count as missing.
installed=$(dpkg-query -W -f '${db:Status-Status} ${Package}\n' "${names[@]}" 2>/dev/null |
    awk '$1 == "installed" { print $2 }' || true)
mapfile -t missing < <(printf '%s\n' "${names[@]}" | grep -vxF -e "$installed")
if [ ${#missing[@]} -eq 0 ]; then
    say 'nothing to install'
    exit 0
fi

if [ "$(id -u)" -eq 0 ]; then
    as_root=(env)
elif command -v sudo >/dev/null && { sudo -n true || : </dev/tty; } 2>/dev/null; then
    as_root=(sudo env)
else
    die "packages are missing, and this user is neither root nor allowed to use sudo; as root run:" \
        "apt-get install ${missing[*]}"
fi

say 'installing (package: purpose)'
for name in "${missing[@]}"; do
    awk -v name="$name" '$1 == name { print "    " $1 ": " $2 }' <<<"$packages"
done
apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive
    apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
"${apt[@]}" update || say 'the package lists could not be updated; using the existing ones'
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null ||
    die "apt-get could not install: ${missing[*]}"
say 'done'
