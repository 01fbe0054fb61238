#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# A process is watched while it works: DPDK's telemetry socket is asked by four clients at once, and the file of
# FI_MRC_STATS is whole and grows. At the end nothing of the socket is left.
. "$(dirname "$0")/lib.sh"

start_switch --planes 4
# What a killed process left behind is taken away by the next one.
stale=/var/run/dpdk/mrc-1-killed
[ "$(id -u)" -eq 0 ] || stale=${XDG_RUNTIME_DIR:-/tmp}/dpdk/mrc-1-killed
mkdir -p "$stale"
"$PYTHON" -c 'import socket, sys; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).bind(sys.argv[1])' \
  "$stale/dpdk_telemetry.v2"
touch -d '-5 min' "$stale"
export FI_MRC_TELEMETRY=1 FI_MRC_STATS=$WORK/stats FI_MRC_STATS_INTERVAL=50ms
# The program ends when it is told to: how long the questions take depends on the machine.
stress=$BUILD/test/stress/stress
[ -x "$stress" ] || fail "$stress is not built: ninja -C $BUILD test/stress/stress"
"$stress" --ranks 2 --threads 1 --seconds 280 >"$WORK/said" 2>"$WORK/errors" &
program=$!
PIDS+=("$program")

rank() { # the program's first process
  local i
  for i in $(seq 100); do
    pgrep -o -P "$1" && return
    sleep 0.05
  done
  fail "process $1 has no child ($i tries)"
}
watched=$(rank "$program")
"$PYTHON" "$E2E/telemetry.py" "$watched" --page "$SOURCE/docs/counters.md" || fail "telemetry"
[ ! -e "$stale" ] || fail "$stale of a killed process is still there"
socket=$(find /var/run/dpdk "${XDG_RUNTIME_DIR:-/nowhere}/dpdk" /tmp/dpdk -path "*mrc-$watched-*" -name '*.v2' 2>/dev/null || true)
[ -S "$socket" ] || fail "the socket vanished while the program runs"

"$PYTHON" - "$WORK/stats.$watched.json" <<'EOF' || fail "the file of FI_MRC_STATS while the program runs"
import json, sys, time
seen = []
deadline = time.time() + 20
while len(set(seen)) < 5 and time.time() < deadline:
    one = json.load(open(sys.argv[1]))  # never half of it
    seen.append(one["transport"]["tx_data"])
    time.sleep(0.02)
assert seen == sorted(seen) and len(set(seen)) >= 5, seen
print(f"   FI_MRC_STATS_INTERVAL: {len(seen)} readings, {len(set(seen))} different, up to {seen[-1]} packets")
EOF

kill "$program"
wait "$program" || { cat "$WORK/said" "$WORK/errors"; fail "the program"; }
[ ! -e "$(dirname "$socket")" ] || fail "$(dirname "$socket") was left behind"
log "$(tail -n 1 "$WORK/said")"
