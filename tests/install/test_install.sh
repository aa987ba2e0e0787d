#!/usr/bin/env bash
# Installs into an empty folder and builds a program against libweft with pkg-config, with the shared and
# with the static library.
set -euo pipefail
: "${WEFT_BUILD_DIR:?}" "${WEFT_SOURCE_DIR:?}" "${WEFT:?}" "${CMAKE:=cmake}" "${CC:=cc}"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
DESTDIR=$folder "$CMAKE" --install "$WEFT_BUILD_DIR" --prefix /opt/weft >"$folder/log"
root=$folder/opt/weft

fail() { echo "install: $*" >&2; exit 1; }
same() { [ "$2" = "$3" ] || fail "$1: got '$2', expected '$3'"; }

number=$(sed -n 's/^set(WEFT_SOVERSION \([0-9]*\))$/\1/p' "$WEFT_SOURCE_DIR/CMakeLists.txt")
for file in bin/weft lib/libweft.a lib/libweft.so "lib/libweft.so.$number" include/weft/weft.h \
    share/man/man1/weft.1 share/man/man1/weft-train.1 share/man/man1/weft-plan.1 \
    share/bash-completion/completions/weft; do
    [ -s "$root/$file" ] || fail "$file is missing or empty"
done
same 'files outside the prefix' "$(find "$folder" -type f ! -path "$root/*" ! -path "$folder/log")" ''
same 'installed binary' "$("$root/bin/weft" --version)" "$("$WEFT" --version)"
grep -q '^\.TH ' "$root/share/man/man1/weft.1" || fail 'weft.1 has no title line'
bash -n "$root/share/bash-completion/completions/weft"

export PKG_CONFIG_PATH=$root/lib/pkgconfig
flags=()
# Splits a line of flags like a shell: pkg-config escapes blanks in paths.
read_flags() { eval "flags=($(pkg-config "$@" weft))"; }
warnings=(-std=c11 -pedantic -Wall -Wextra -Werror)

# Each public header compiles alone.
read_flags --cflags
for header in "$root"/include/weft/*.h; do
    echo "#include <weft/${header##*/}>" >"$folder/header.c"
    "$CC" "${warnings[@]}" "${flags[@]}" -fsyntax-only "$folder/header.c"
done

cat >"$folder/program.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

int main(void)
{
    struct weft_gen_params params = {.ranks = 2, .micros = 3};
    struct weft_schedule *s = NULL;
    struct weft_error err;
    char *order = NULL;
    if (weft_schedule_generate("1f1b", &params, &s, &err) != WEFT_OK ||
        weft_schedule_print_rank(s, 0, " ", &order, &err) != WEFT_OK)
        return fprintf(stderr, "%s\n", err.msg), 1;
    printf("%s: %s\n", weft_version(), order);
    free(order);
    weft_schedule_free(s);
}
END
# Rank 0 of 2: one warm-up forward, then one backward and one forward alternate, then the cool-down.
want="$(pkg-config --modversion weft): 0F0 0F1 0B0 0F2 0B1 0B2"

read_flags --cflags --libs
"$CC" "${warnings[@]}" "$folder/program.c" "${flags[@]}" -o "$folder/shared"
same 'with the shared library' "$(LD_LIBRARY_PATH=$root/lib "$folder/shared")" "$want"
readelf -d "$folder/shared" | grep -q "NEEDED.*\[libweft\.so\.$number\]" ||
    fail "the program does not need libweft.so.$number"

read_flags --cflags --libs --static
"$CC" "${warnings[@]}" "$folder/program.c" "${flags[@]/#-lweft/-l:libweft.a}" -o "$folder/static"
same 'with the static library' "$("$folder/static")" "$want"
! readelf -d "$folder/static" | grep -q 'NEEDED.*libweft' || fail 'the static program needs libweft.so'
echo 'install: a program builds and runs with both libraries'
