#!/usr/bin/env bash
# Installs into an empty folder and builds a planning program against libweft-plan, with the shared and with
# the static library.  libweft-plan needs only libc, libm, jansson and libyaml.
set -euo pipefail
: "${WEFT_BUILD_DIR:?}" "${WEFT_SOURCE_DIR:?}" "${CMAKE:=cmake}" "${CC:=cc}"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
DESTDIR=$folder "$CMAKE" --install "$WEFT_BUILD_DIR" --prefix /opt/weft >"$folder/log"
root=$folder/opt/weft

fail() { echo "install: $*" >&2; exit 1; }
same() { [ "$2" = "$3" ] || fail "$1: got '$2', expected '$3'"; }

number=$(sed -n 's/^set(WEFT_SOVERSION \([0-9]*\))$/\1/p' "$WEFT_SOURCE_DIR/CMakeLists.txt")
for file in lib/libweft-plan.a lib/libweft-plan.so "lib/libweft-plan.so.$number" \
    lib/pkgconfig/weft-plan.pc include/weft/plan.h; do
    [ -s "$root/$file" ] || fail "$file is missing or empty"
done

# Only these libraries are needed, in any order, besides the loader and the vdso.
needed=$(ldd "$root/lib/libweft-plan.so" | awk '{ print $1 }' | grep -v '^linux-vdso\|/ld-linux' |
    sed 's/\.so.*//' | sort | tr '\n' ' ')
same 'libraries that libweft-plan.so needs' "$needed" 'libc libjansson libm libyaml-0 '

cat >"$folder/program.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <weft/plan.h>

int main(void)
{
    struct weft_gen_params params = {.ranks = 4, .micros = 8};
    struct weft_schedule *s = NULL;
    struct weft_metrics m;
    struct weft_verify_result r;
    struct weft_error err;
    if (weft_schedule_generate("1f1b", &params, &s, &err) != WEFT_OK ||
        weft_verify(s, NULL, &r, &err) != WEFT_OK ||
        weft_metrics_init(&m, s, NULL, NULL, &err) != WEFT_OK)
        return fprintf(stderr, "%s\n", err.msg), 1;
    printf("%zu findings, makespan %g, peak %g\n", (size_t)r.n_findings, m.makespan,
           (double)m.peak_activations[0]);
    weft_metrics_release(&m);
    weft_verify_result_release(&r);
    weft_schedule_free(s);
}
END
# (micros + ranks - 1) * (F + B) with F = 1 and B = 2; min(ranks, micros) activations on rank 0.
want='0 findings, makespan 33, peak 4'

export PKG_CONFIG_PATH=$root/lib/pkgconfig
flags=()
# Splits a line of flags like a shell: pkg-config escapes blanks in paths.
read_flags() { eval "flags=($(pkg-config "$@" weft-plan))"; }
warnings=(-std=c11 -pedantic -Wall -Wextra -Werror)

read_flags --cflags --libs
"$CC" "${warnings[@]}" "$folder/program.c" "${flags[@]}" -o "$folder/shared"
same 'with the shared library' "$(LD_LIBRARY_PATH=$root/lib "$folder/shared")" "$want"
readelf -d "$folder/shared" | grep -q "NEEDED.*\[libweft-plan\.so\.$number\]" ||
    fail "the program does not need libweft-plan.so.$number"

read_flags --cflags --libs --static
"$CC" "${warnings[@]}" "$folder/program.c" "${flags[@]/#-lweft-plan/-l:libweft-plan.a}" -o "$folder/static"
same 'with the static library' "$("$folder/static")" "$want"
! readelf -d "$folder/static" | grep -q 'NEEDED.*libweft' || fail 'the static program needs libweft-plan.so'
echo 'install: a planning program builds and runs with both libraries'
