#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Missing interface, missing rights, nonsense in the configuration: a sentence that helps, and no crash.
. "$(dirname "$0")/lib.sh"
if [ "$(id -u)" -eq 0 ]; then own_namespace "$@"; fi

refused() { # refused WHAT WORD [launcher --] VARIABLE=VALUE…: one MPI rank fails without a signal, and says WORD
  local what=$1 word=$2 code=0
  shift 2
  timeout -k 5 60 env "$@" mpirun --oversubscribe -n 1 --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include mrc \
    "$BUILD/tools/demo/mpi_collectives" 1 >"$WORK/out" 2>&1 || code=$?
  [ "$code" -ne 0 ] || fail "$what was accepted"
  [ "$code" -lt 124 ] || { cat "$WORK/out"; fail "$what: ended by signal or time-out ($code)"; }
  ! grep -qi 'signal' "$WORK/out" || { cat "$WORK/out"; fail "$what: the process crashed"; }
  grep -q -- "mrc.*$word" "$WORK/out" || { cat "$WORK/out"; fail "$what: the message does not say '$word'"; }
  log "$what: $(grep -m 1 -- "mrc.*$word" "$WORK/out" | sed 's/.*<warn> //' | cut -c1-170)"
}

refused "missing interface" mrc_none0 FI_MRC_PORTS=af_packet:mrc_none0
refused "unknown kind of port" wormhole FI_MRC_PORTS=wormhole:x
refused "missing configuration file" none.toml FI_MRC_CONFIG=/nowhere/none.toml
printf '[fabric]\nplanes = "four"\n' >"$WORK/bad.toml"
refused "bad configuration" planes FI_MRC_CONFIG="$WORK/bad.toml"
refused "no switch to start" mrc-switch FI_MRC_SWITCH=/nowhere/mrc-switch FI_MRC_SWITCH_SOCKET="$WORK/no.sock"
refused "no PCI device" 0000:ff:1f.7 FI_MRC_PORTS=pci:0000:ff:1f.7
if [ "$(id -u)" -eq 0 ]; then
  ip link add mrcbad0 type veth peer name mrcbad1
  ip link set mrcbad0 up
  ip link set mrcbad1 up
  # Everything that an ordinary user must be able to read lies in the work folder.
  cp "$BUILD/prov/mrc/libmrc-fi.so" "$BUILD/tools/demo/mpi_collectives" "$WORK/"
  mkdir "$WORK/home"
  chown -R nobody "$WORK"
  code=0
  (cd "$WORK/home" && timeout 60 setpriv --reuid nobody --regid nogroup --clear-groups --bounding-set -net_raw \
    --inh-caps -all env HOME="$WORK/home" TMPDIR="$WORK/home" FI_PROVIDER_PATH="$WORK" FI_MRC_PORTS=af_packet:mrcbad0 \
    mpirun -n 1 --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include mrc "$WORK/mpi_collectives" 1) >"$WORK/out" 2>&1 ||
    code=$?
  [ "$code" -ne 0 ] || fail "missing rights were not noticed"
  grep -q 'CAP_NET_RAW' "$WORK/out" || { cat "$WORK/out"; fail "missing rights: the message does not say CAP_NET_RAW"; }
  log "missing rights: $(grep -m 1 CAP_NET_RAW "$WORK/out" | sed 's/.*<warn> //' | cut -c1-170)"
fi
