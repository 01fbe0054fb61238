#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The engine end to end: e2e.sh ENGINE_TALK MRC_SWITCH. Through mrc-switch (no root), then over two veth planes in
# namespaces of its own (root; skipped otherwise).
set -u
talk=$1 switch=$2
dir=$(mktemp -d /tmp/mrc-engine-e2e.XXXXXX)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null; done
  wait 2>/dev/null
  for ns in mrcA.$$ mrcB.$$; do ip netns del "$ns" 2>/dev/null; done
  rm -rf "$dir"
}
trap cleanup EXIT
fail() { echo "FAILED: $*"; cat "$dir"/*.log 2>/dev/null; exit 1; }

# client NAME COMMAND…: runs ping, small and large streams.
client() {
  "$@" ping "$peer:7001" 2000 8 || fail "ping"
  "$@" stream "$peer:7001" 20000 64 || fail "stream of 64 B"
  "$@" stream "$peer:7001" 300 1048576 || fail "stream of 1 MiB"
}

echo "== through mrc-switch"
export FI_MRC_SWITCH_SOCKET=$dir/switch.sock
"$switch" --socket "$FI_MRC_SWITCH_SOCKET" --stay --log "$dir/switch.log" & pids+=($!)
for _ in $(seq 100); do [ -S "$FI_MRC_SWITCH_SOCKET" ] && break; sleep 0.05; done
"$talk" serve 7001 > "$dir/serve.log" 2>&1 & server=$!; pids+=($server)
peer=127.0.0.1
client "$talk" 2> "$dir/client.log"
kill -9 "$server"
"$talk" compute 7002 1000 > "$dir/compute.log" 2>&1 & server=$!; pids+=($server)
sleep 0.5
"$talk" stream "$peer:7002" 20 100000 2>> "$dir/client.log" || fail "stream to a computing process"
kill "$server"; wait "$server"
grep -q "computed, [1-9]" "$dir/compute.log" || fail "nothing arrived while it computed"

if [ "$(id -u)" != 0 ] || ! unshare -n true 2>/dev/null; then echo "== veth: skipped (needs root)"; exit 0; fi
echo "== over two veth planes"
unset FI_MRC_SWITCH_SOCKET
a=mrcA.$$ b=mrcB.$$
ip netns add "$a" && ip netns add "$b" || fail "namespaces"
for p in 0 1; do
  ip -n "$a" link add "v$p" type veth peer name "v$p" netns "$b" || fail "veth"
  for ns in "$a" "$b"; do
    ip netns exec "$ns" sysctl -qw "net.ipv6.conf.v$p.disable_ipv6=1"
    ip -n "$ns" link set "v$p" mtu 9000 up
  done
done
ip netns exec "$b" env FI_MRC_PORTS="ip=10.77.0.2;v0;v1" "$talk" serve 7001 > "$dir/serve.log" 2>&1 & pids+=($!)
sleep 0.5
peer=10.77.0.2
client ip netns exec "$a" env FI_MRC_PORTS="ip=10.77.0.1;v0;v1" FI_MRC_STATS="$dir/stats" "$talk" 2> "$dir/client.log"
grep -h distinct -A2 "$dir"/stats.*.json | tail -3
echo "== passed"
