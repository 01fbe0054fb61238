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
timeout 120 fi_pingpong -p mrc -e rdm -B 47595 -I 40000 -S 65536 >"$WORK/server" 2>&1 &
server=$!
PIDS+=("$server")
sleep 0.5
timeout 120 fi_pingpong -p mrc -e rdm -P 47595 -I 40000 -S 65536 127.0.0.1 >"$WORK/client" 2>&1 &
client=$!
PIDS+=("$client")

child() { # the program itself, not timeout
  local i
  for i in $(seq 100); do
    pgrep -P "$1" && return
    sleep 0.05
  done
  fail "process $1 has no child ($i tries)"
}
watched=$(child "$client")
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

wait "$client" || { cat "$WORK/client" "$WORK/server"; fail "client"; }
wait "$server" || { cat "$WORK/server"; fail "server"; }
[ ! -e "$(dirname "$socket")" ] || fail "$(dirname "$socket") was left behind"
log "$(tail -n 1 "$WORK/client")"
