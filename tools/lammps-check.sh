#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A real application: Debian's LAMMPS on 4 ranks computes the same numbers over mrc as over tcp.
set -euo pipefail
# shellcheck source=tools/mpi/common.sh
. "$(dirname "$0")/mpi/common.sh"

usage() {
  cat <<'USAGE'
usage: [LAMMPS_BENCH=DIR] tools/lammps-check.sh [--build DIR] [--ranks N] [--out DIR]

Runs LAMMPS's own examples, with Debian's Open MPI, over tcp and over mrc: melt (Lennard-Jones) and peptide (CHARMM with
PPPM and SHAKE, the rhodopsin benchmark's model) from Debian's lammps-examples; peptide replicated to the 32 000 atoms of
rhodo, 20 steps; and rhodo itself if LAMMPS_BENCH names LAMMPS's bench folder, which Debian does not package. Every line of thermodynamic output has to be the same. The last line is
"N passed, N failed".

  --build DIR   build directory that holds the provider (default build-test)
  --ranks N     (default 4)
  --out DIR     logs (default lammps-check in the build directory)
USAGE
}

build=$TOOLS/../build-test ranks=4 out=''
while [ $# -gt 0 ]; do
  case $1 in
    --build) build=${2:?--build needs a directory}; shift 2 ;;
    --ranks) ranks=${2:?--ranks needs a number}; shift 2 ;;
    --out) out=${2:?--out needs a directory}; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument '$1'" ;;
  esac
done

EXAMPLES=/usr/share/lammps/examples
(install_packages lammps lammps-examples openmpi-bin) || exit 77
use_provider "$build"
MRC_BUILD=$(realpath "$build")
export MRC_BUILD
out=${out:-$MRC_BUILD/lammps-check}
rm -rf "$out"
mkdir -p "$out"

# The lines of thermodynamic output, without times.
thermo() {
  sed -n '/^Per MPI rank memory/,/^Loop time/{/^Per MPI\|^Loop time/!p}' "$1" | sed 's/CPU = *[0-9.]* (sec)//'
}

# check NAME FOLDER INPUT [SED…]: in a copy of the folder's input, changed by sed, as scripts read files next to them.
passed=0 failed=0
check() {
  local name=$1 folder=$2 input=$3 over lines directory why=''
  shift 3
  for over in tcp mrc; do
    directory=$out/$name-$over
    mkdir -p "$directory"
    find "$folder" -maxdepth 1 \( -name "$input" -o -name "data.${input#in.}*" \) -exec cp {} "$directory" \;
    [ $# = 0 ] || sed -i "$@" "$directory/$input"
    (cd "$directory" && FI_MRC_STATS=$directory/stats OMP_NUM_THREADS=1 timeout --kill-after=10 900 \
      "$TOOLS/mpi/launch.sh" openmpi4 "$ranks" $over lmp -in "$input" -log log.lammps >output 2>&1) ||
      { why="it did not end well over $over"; tail -n 5 "$directory/output"; break; }
    thermo "$directory/log.lammps" >"$directory/thermo"
  done
  if [ -z "$why" ]; then
    lines=$(wc -l <"$out/$name-tcp/thermo")
    [ "$lines" -ge 5 ] || why="only $lines lines of output"
    diff "$out/$name-tcp/thermo" "$out/$name-mrc/thermo" >"$out/$name.diff" || why="other numbers: $out/$name.diff"
    python3 - "$out/$name-mrc" "$ranks" <<'PYTHON' || why="mrc's counters do not show its traffic"
import glob, json, sys
stats = [json.load(open(name)) for name in glob.glob(sys.argv[1] + "/stats.*.json")]
sent = sum(one["transport"]["tx_bytes"] for one in stats)
print(f"   mrc's counters: {len(stats)} processes, {sent} payload bytes sent")
sys.exit(len(stats) != int(sys.argv[2]) or sent < 100000)
PYTHON
  fi
  if [ -z "$why" ]; then
    passed=$((passed + 1))
    note "$name: $lines lines of thermodynamic output are the same; last: $(grep . "$out/$name-mrc/thermo" | tail -n 1)"
  else
    failed=$((failed + 1))
    note "$name: FAILED: $why"
  fi
}

check melt "$EXAMPLES/melt" in.melt
check peptide "$EXAMPLES/peptide" in.peptide
check peptide-32000 "$EXAMPLES/peptide" in.peptide -e '/^read_data/a replicate 2 2 4' -e 's/^run.*/run 20/' \
  -e 's/^thermo[^_].*/thermo 5/'
if [ -n "${LAMMPS_BENCH:-}" ]; then
  check rhodo "$LAMMPS_BENCH" in.rhodo
else
  note "rhodo: NOT RUN, as LAMMPS_BENCH does not name LAMMPS's bench folder; peptide-32000 is its model and size"
fi

printf '\n%d passed, %d failed\n' $passed $failed
[ $failed -eq 0 ]
