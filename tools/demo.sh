#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The main job in one command: build mrc, run an unmodified MPI library over an emulated 4-plane SRv6 fabric on this
# machine, cut a plane in the middle of a transfer, and draw what happened. No NIC, no configuration; root is needed
# only if packages are missing.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
# shellcheck source=tools/lib/common.sh
. tools/lib/common.sh

usage() {
  cat <<'EOF'
usage: tools/demo.sh [--seconds N] [--plane P] [--out DIR] [--build DIR]

Builds mrc, then runs over an emulated fabric of 4 planes x 4 T1 switches (mrc-switch, started by the provider itself):
  1. all-reduce, all-to-all, gather, broadcast and a ring over 4 MPI ranks, every element checked;
  2. a transfer between 2 ranks, every byte checked, while plane P is cut and restored.
Ends with a table and a picture of throughput per plane over time.

  --seconds N   length of the transfer (default 12; the plane is cut for the middle third)
  --plane P     plane to cut, 0 to 3 (default 1)
  --out DIR     where table and picture go (default ./demo-out)
  --build DIR   build directory (default ./build)

Examples:
  tools/demo.sh
  tools/demo.sh --seconds 30 --plane 3 --out /tmp/mrc-demo
EOF
}

seconds=12 plane=1 out=$root/demo-out build_dir=$root/build
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) seconds=${2:?--seconds needs a number}; shift 2 ;;
    --plane) plane=${2:?--plane needs a number}; shift 2 ;;
    --out) out=$(realpath -m "${2:?--out needs a directory}"); shift 2 ;;
    --build) build_dir=$(realpath -m "${2:?--build needs a directory}"); shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument '$1'" ;;
  esac
done
case $seconds in '' | *[!0-9]* | 0 | 1 | 2) die "--seconds takes a whole number from 3" ;; esac
case $plane in [0-3]) ;; *) die "--plane takes 0, 1, 2 or 3" ;; esac

say "1/5 packages"
# shellcheck disable=SC2086
install_packages $BUILD_PACKAGES $DEMO_PACKAGES

say "2/5 build"
CXX=${CXX:-ccache g++} build "$build_dir" -Dtests=false
note "built in $build_dir"

# MPI does not like root, and neither should a demo: everything below runs as an ordinary user, out of a folder of its own.
work=$(mktemp -d /tmp/mrc-demo.XXXXXX)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lib" "$work/bin" "$work/tmp" "$out"
cp "$build_dir"/prov/mrc/libmrc-fi.so "$work/lib/"
cp "$build_dir"/tools/mrc-switch/mrc-switch "$build_dir"/tools/demo/mpi_collectives "$build_dir"/tools/demo/mpi_transfer \
  tools/demo/watch.py "$work/bin/"
as_user=()
if [ "$(id -u)" -eq 0 ]; then
  user=${SUDO_USER:-nobody}
  [ "$user" = root ] && user=nobody
  chown -R "$user" "$work"
  chmod 755 "$work"
  as_user=(setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups --)
  note "running as user '$user'"
fi

# The environment of a fresh login, plus what mrc needs here: where the provider and its switch lie.
run() {
  (cd "$work/tmp" && "${as_user[@]}" env -i PATH="$PATH" HOME="$work/tmp" TMPDIR="$work/tmp" LANG=C.UTF-8 \
    FI_PROVIDER_PATH="$work/lib" FI_MRC_SWITCH="$work/bin/mrc-switch" FI_LOG_LEVEL="${FI_LOG_LEVEL:-warn}" FI_LOG_PROV="${FI_LOG_PROV:-mrc}" \
    OMPI_MCA_rmaps_base_oversubscribe=1 "$@")
}
mpi() {
  local ranks=$1
  shift
  run mpirun --oversubscribe --mca op ^avx --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include mrc \
    -n "$ranks" "$@"
}

say "3/5 the provider"
run fi_info -p mrc -t FI_EP_RDM | sed 's/^/   /' || die "libfabric does not list the provider"

say "4/5 collectives over 4 ranks, every element checked"
mpi 4 "$work/bin/mpi_collectives" 2 || die "the collectives failed"

say "5/5 a transfer of ${seconds} s between 2 ranks; plane $plane is cut after a third of it and restored after two"
run "$([ -x /usr/bin/python3 ] && echo /usr/bin/python3 || echo python3)" "$work/bin/watch.py" --switch "$work/bin/mrc-switch" --seconds "$seconds" --plane "$plane" \
  --csv "$work/tmp/planes.csv" --picture "$work/tmp/planes.png" --table "$work/tmp/table.txt" -- \
  mpirun --oversubscribe --mca op ^avx --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include mrc \
  -n 2 "$work/bin/mpi_transfer" "$seconds" || die "the transfer failed"

cp "$work"/tmp/planes.csv "$work"/tmp/planes.png "$work"/tmp/table.txt "$out/"
say "done"
note "picture: $out/planes.png"
note "table:   $out/table.txt   samples: $out/planes.csv"
