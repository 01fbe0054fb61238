#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# mpi4py's own test suite over mrc and over tcp, side by side, with one MPI.
set -euo pipefail
# shellcheck source=tools/mpi/common.sh
. "$(dirname "$0")/mpi/common.sh"

usage() {
  cat <<'USAGE'
usage: tools/mpi-suite.sh openmpi4|openmpi5|mpich|impi [--np LIST] [--over mrc|tcp|both] [--only REGEX] [--build DIR]
                          [--out DIR] [--idle SECONDS] [--prepare]

Installs the MPI (openmpi4: Debian's packages; the others: Python wheels, in a venv) and mpi4py, built from its source
distribution, into a cache; runs mpi4py's tests on each number of ranks over the peer (tcp: Open MPI's own, or
libfabric's with MPIs that have no other) and over mrc. A test passes
when it passes on every rank. One that hangs or dies is named, and the suite goes on behind it; one in which a process
hangs before it has loaded a provider (the launcher's doing) is tried again, up to three times, and named too. mrc's own
counters prove that the traffic went through mrc.

Passed: tests that pass over tcp and over mrc. Failed: tests that pass over tcp and not over mrc. Where tcp is another way
through the MPI than mrc, those are run once more over a provider of libfabric that takes the same way as mrc (Open MPI:
libfabric's tcp; Intel MPI: shm): what fails there too is listed apart, as the MPI's own fault, and counts as neither; so
are those in tools/mpi/NAME.known, with their reasons. The last line is "N passed, N failed"; the exit status is 0 if none
failed.

  --np LIST       numbers of ranks (default 1,2,3,4)
  --over WHICH    both (default); mrc compares with the tcp results of the last run; tcp only renews those
  --only REGEX    only test modules that match
  --build DIR     build directory that holds the provider (default build-test)
  --out DIR       results.json and logs (default DIR of --build/mpi-suite/NAME)
  --idle SECONDS  a job whose tests make no progress for so long hangs (default 60; up to 4 times that on a busy machine)
  --prepare       install only

The cache is MRC_MPI_CACHE, or mrc-mpi in the user's cache folder.

Examples:
  tools/mpi-suite.sh openmpi4
  tools/mpi-suite.sh openmpi4 --np 2 --over mrc --only test_rma
USAGE
}

name='' np=1,2,3,4 over=both only=. build=$TOOLS/../build-test out='' idle=60 prepare=0
while [ $# -gt 0 ]; do
  case $1 in
    --np) np=${2:?--np needs a list}; shift 2 ;;
    --over) over=${2:?--over needs mrc, tcp or both}; shift 2 ;;
    --only) only=${2:?--only needs a pattern}; shift 2 ;;
    --build) build=${2:?--build needs a directory}; shift 2 ;;
    --out) out=${2:?--out needs a directory}; shift 2 ;;
    --idle) idle=${2:?--idle needs seconds}; shift 2 ;;
    --prepare) prepare=1; shift ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; die "unknown option '$1'" ;;
    *) [ -z "$name" ] || die "one MPI at a time: '$name' or '$1'?"; name=$1; shift ;;
  esac
done
[ -n "$name" ] || { usage >&2; die "which MPI?"; }
[[ $over =~ ^(mrc|tcp|both)$ ]] || die "--over takes mrc, tcp or both, not '$over'"
[[ $np =~ ^[1-9][0-9]*(,[1-9][0-9]*)*$ ]] || die "--np takes numbers with commas between them, not '$np'"

mpi_load "$name"
mpi_prepare
[ $prepare = 0 ] || exit 0
[ "$over" = tcp ] || use_provider "$build"
MRC_BUILD=$(realpath "$build")
export MRC_BUILD
out=${out:-$MRC_BUILD/mpi-suite/$name}
mkdir -p "$out"
exec "$MPI_PREFIX/bin/python" "$TOOLS/mpi/mpi4py_suite.py" --mpi "$name" --np "$np" --over "$over" --only "$only" \
  --out "$out" --idle "$idle" --tests "$MPI_CACHE/mpi4py-$MPI4PY_VERSION/test" --peer "$MPI_PREFIX" \
  --control "$MPI_CONTROL" --python "$MPI_PREFIX/bin/python"
