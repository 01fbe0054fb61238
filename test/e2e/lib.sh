# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-2-Clause
# Shared by the end-to-end tests. Each test is a script of its own: `test/e2e/NAME.sh BUILD_DIRECTORY`, exit 0 = holds,
# 77 = cannot run here (and says why). Traffic stays in memory, on loopback or in network namespaces made here.
set -euo pipefail

BUILD=$(realpath "${1:?usage: $0 BUILD_DIRECTORY}")
SOURCE=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")
E2E=$SOURCE/test/e2e
WORK=$(mktemp -d "/tmp/mrc-e2e.XXXXXX")
SWITCH=$BUILD/tools/mrc-switch/mrc-switch
# Debian's python3, which has Debian's scapy; another one may come first in PATH.
PYTHON=$([ -x /usr/bin/python3 ] && echo /usr/bin/python3 || echo python3)
PIDS=()

export FI_PROVIDER_PATH=$BUILD/prov/mrc
export FI_MRC_SWITCH=$SWITCH
export FI_LOG_LEVEL=${FI_LOG_LEVEL:-warn} FI_LOG_PROV=${FI_LOG_PROV:-mrc}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export PYTHONDONTWRITEBYTECODE=1

cleanup() {
  local pid
  for pid in "${PIDS[@]}"; do kill "$pid" 2>/dev/null || true; done
  rm -rf "$WORK"
}
trap cleanup EXIT

log() { printf '   %s\n' "$*"; }
fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}
cannot() {
  printf 'CANNOT RUN: %s\n' "$*" >&2
  exit 77
}
need_root() { [ "$(id -u)" -eq 0 ] || cannot "needs root for network namespaces"; }

# Starts the script again in a network (and mount) namespace of its own, once.
own_namespace() {
  [ -n "${MRC_E2E_NAMESPACE:-}" ] && { ip link set lo up; return; }
  rm -rf "$WORK"
  trap - EXIT
  MRC_E2E_NAMESPACE=1 exec unshare --net --mount "$0" "$@"
}

# mpi RANKS [mpirun options] -- PROGRAM…: over mrc and nothing else. `yield` keeps oversubscribed ranks polite.
mpi() {
  local ranks=$1
  shift
  local options=()
  while [ "$1" != -- ]; do options+=("$1"); shift; done
  shift
  timeout "${MPI_TIMEOUT:-240}" mpirun --oversubscribe -n "$ranks" --mca op ^avx --mca pml cm --mca mtl ofi \
    --mca mtl_ofi_provider_include mrc --mca orte_base_help_aggregate 0 "${options[@]}" "$@"
}

# A switch of this test's own, with the impairments given, that stays until the test ends.
start_switch() {
  export FI_MRC_SWITCH_SOCKET=$WORK/switch.sock FI_MRC_AUTOSTART=0
  "$SWITCH" --socket "$FI_MRC_SWITCH_SOCKET" --stay "$@" >"$WORK/switch.log" 2>&1 &
  PIDS+=($!)
  local i
  for i in $(seq 100); do
    [ -S "$FI_MRC_SWITCH_SOCKET" ] && return
    sleep 0.05
  done
  cat "$WORK/switch.log" >&2
  fail "mrc-switch did not open its socket ($i tries)"
}
switch_stats() { "$SWITCH" ctl --socket "$FI_MRC_SWITCH_SOCKET" stats; }
