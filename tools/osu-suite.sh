#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The OSU micro-benchmarks with validation over mrc, with one MPI.
set -euo pipefail
# shellcheck source=tools/mpi/common.sh
. "$(dirname "$0")/mpi/common.sh"

usage() {
  cat <<'USAGE'
usage: OSU_DIR=DIR tools/osu-suite.sh openmpi4|openmpi5|mpich|impi [--np LIST] [--over mrc|tcp] [--only REGEX]
                                     [--build DIR] [--out DIR] [--idle SECONDS] [--iterations N]

Runs every OSU micro-benchmark below OSU_DIR (pt2pt, collective, one-sided, congestion; installed, and built with the
same MPI) with -c where it can validate, on each number of ranks that it is made for, and with each way that the MPI has
for one-sided. What fails is run once more over tcp; if it fails there too, it is named and counts as neither. The last line
is "N passed, N failed".

  --np LIST       numbers of ranks (default 2,4)
  --over WHICH    mrc (default) or tcp
  --only REGEX    only benchmarks that match, e.g. one-sided or pt2pt/osu_bw
  --build DIR     build directory that holds the provider (default build-test)
  --out DIR       results.json and logs (default DIR of --build/osu-suite/NAME)
  --idle SECONDS  a benchmark that prints nothing for so long hangs (default 120)
  --iterations N  of each size (default 5)

USAGE
}

name='' np=2,4 over=mrc only=. build=$TOOLS/../build-test out='' idle=120 iterations=5
while [ $# -gt 0 ]; do
  case $1 in
    --np) np=${2:?--np needs a list}; shift 2 ;;
    --over) over=${2:?--over needs mrc or tcp}; shift 2 ;;
    --only) only=${2:?--only needs a pattern}; shift 2 ;;
    --build) build=${2:?--build needs a directory}; shift 2 ;;
    --out) out=${2:?--out needs a directory}; shift 2 ;;
    --idle) idle=${2:?--idle needs seconds}; shift 2 ;;
    --iterations) iterations=${2:?--iterations needs a number}; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    -*) usage >&2; die "unknown option '$1'" ;;
    *) [ -z "$name" ] || die "one MPI at a time: '$name' or '$1'?"; name=$1; shift ;;
  esac
done
[ -n "$name" ] || { usage >&2; die "which MPI?"; }
[[ $over =~ ^(mrc|tcp)$ ]] || die "--over takes mrc or tcp, not '$over'"
[ -d "${OSU_DIR:-}" ] || { printf 'CANNOT RUN: OSU_DIR names no folder with installed OSU micro-benchmarks\n' >&2; exit 77; }

mpi_load "$name"
mpi_install
[ "$over" = tcp ] || use_provider "$build"
MRC_BUILD=$(realpath "$build")
export MRC_BUILD
out=${out:-$MRC_BUILD/osu-suite/$name}
mkdir -p "$out"
exec "$(find_python)" "$TOOLS/mpi/osu.py" --mpi "$name" --np "$np" --over "$over" --only "$only" --osu "$OSU_DIR" \
  --out "$out" --idle "$idle" --iterations "$iterations" --ways "$(IFS=,; echo "${MPI_ONE_SIDED[*]}")"
