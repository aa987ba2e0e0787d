#!/usr/bin/env bash
# Installs the Debian packages that weft is built with; does nothing when they are all there.
#
#   tools/setup.sh          to build, test and run
#   tools/setup.sh --dev    also what the checks need: fuzzing, memory checks, layout
#   tools/setup.sh --browser    also a browser, for the test that opens the pages weft draws
set -euo pipefail

# The only list of packages: a name, and what it is for.
build_packages='
gcc                 compiler
libc6-dev           headers
make                build
cmake               build
pkg-config          build
libcmocka-dev       tests
libjansson-dev      JSON
libcairo2-dev       pictures
libyaml-dev         settings
libxxhash-dev       hashes
libhwloc-dev        cores
libmicrohttpd-dev   live page
libunistring-dev    live page
libudev-dev         cores
libutf8proc-dev     letters
fonts-dejavu-core   pictures
libopenmpi-dev      MPI
openmpi-bin         MPI
libmpich-dev        MPI
mpich               MPI
iproute2            tests
'
dev_packages='
clang               fuzzing
libclang-rt-14-dev  fuzzing
clang-format        layout
valgrind            memory
git                 history
'
browser_packages='
chromium            browser
'

say() { echo "setup: $*"; }
die() { say "$@" >&2; exit 1; }

packages=$build_packages
for option; do
    case $option in
    --dev) packages+=$dev_packages ;;
    --browser) packages+=$browser_packages ;;
    *) die "unknown option $option (there are --dev and --browser)" ;;
    esac
done
mapfile -t names < <(awk 'NF { print $1 }' <<<"$packages")

if ! command -v dpkg-query >/dev/null; then
    say "no Debian packages on this system; the build needs the likes of: ${names[*]}"
    exit 0
fi

# dpkg-query fails when it does not know a name, and that is the answer here.
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
    die "packages are missing, and this is neither root nor a user of sudo; as root run:" \
        "apt-get install ${missing[*]}"
fi

say 'installing (package: what for)'
for name in "${missing[@]}"; do
    awk -v name="$name" '$1 == name { print "    " $1 ": " $2 }' <<<"$packages"
done
apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive
    apt-get -q -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3)
"${apt[@]}" update || say 'the package lists could not be renewed; going on with those at hand'
"${apt[@]}" install -y --no-install-recommends "${missing[@]}" </dev/null ||
    die "apt-get could not install: ${missing[*]}"
say 'done'
