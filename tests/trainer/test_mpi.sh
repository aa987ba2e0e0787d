#!/usr/bin/env bash
# Runs the program $MPI_RANKS as $N_RANKS (4) ranks of $MPI with the launcher $MPI_RUN.
set -euo pipefail
: "${MPI:?}" "${MPI_RANKS:?}"
if [ -z "${MPI_RUN-}" ]; then
    echo "skipped: $MPI is not installed, or was not when weft was configured"
    exit 77
fi
export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}fast_unwind_on_malloc=0"
options=()
if [ "$MPI" = openmpi ]; then
    options=(--oversubscribe --mca mpi_yield_when_idle 1)
    [ "$(id -u)" -ne 0 ] || options+=(--allow-run-as-root)
fi
exec "$MPI_RUN" "${options[@]}" -n "${N_RANKS:-4}" "$MPI_RANKS" </dev/null
