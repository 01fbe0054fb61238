#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Runs fi_talk: run.sh BUILD_DIRECTORY [switch|impaired|af_packet]…, all three when none is named. Libfabric's public
# interface is checked over a switch of its own, over one that loses, duplicates and reorders, and over veth pairs.
. "$(dirname "$0")/../../e2e/lib.sh"

talk=$BUILD/test/prov/e2e/fi_talk
[ -x "$talk" ] || fail "$talk is not built: ninja -C $BUILD test/prov/e2e/fi_talk"
kinds=("${@:2}")
[ ${#kinds[@]} -gt 0 ] || kinds=(switch impaired af_packet)

# Refused calls are part of the test: what the provider says about them is shown only with a failure.
quietly() {
  timeout 60 "$@" 2>"$WORK/said" && return
  grep -vE ':core:|getinfo' "$WORK/said" | tail -n 20 >&2
  return 1
}
run_all() { # run_all WHERE [PEER_IP]
  quietly "$talk" talk || fail "fi_talk over $1"
  quietly "$talk" overrun || fail "fi_talk overrun over $1"
  FI_MRC_CONNECT_TIMEOUT=${CONNECT_TIMEOUT:-2} quietly "$talk" failures "${@:2}" || fail "fi_talk failures over $1"
}

over_switch() { # over_switch WHERE [options of mrc-switch]
  log "over $1"
  (
    trap 'kill "${PIDS[@]}" 2>/dev/null || true' EXIT
    PIDS=()
    WORK=$WORK/$1
    mkdir "$WORK"
    start_switch "${@:2}"
    run_all "$1"
  )
}

over_af_packet() {
  log "over af_packet"
  for plane in 0 1; do
    ip link add "a$plane" type veth peer name "b$plane"
    for end in "a$plane" "b$plane"; do
      sysctl -qw "net.ipv6.conf.$end.disable_ipv6=1"
      ip link set "$end" mtu 1500 up
    done
  done
  export FI_MRC_PORTS="ip=10.77.0.1;af_packet:a0;af_packet:a1|ip=10.77.0.2;af_packet:b0;af_packet:b1"
  # No switch tells here that a process has ended: what was under way takes its time-out.
  FI_MRC_PEER_TIMEOUT=2 CONNECT_TIMEOUT=4 run_all af_packet 10.77.0.2
}

for kind in "${kinds[@]}"; do
  case $kind in
    switch) over_switch switch ;;
    impaired) over_switch impaired --loss 0.01 --dup 0.01 --reorder 0.01 ;;
    af_packet)
      need_root
      # A namespace for this part alone: the script once more, inside.
      if [ -z "${MRC_E2E_NAMESPACE:-}" ]; then
        MRC_E2E_NAMESPACE=1 unshare --net --mount "$0" "$BUILD" af_packet
      else
        ip link set lo up
        over_af_packet
      fi
      ;;
    *) fail "unknown fabric '$kind': switch, impaired or af_packet" ;;
  esac
done
