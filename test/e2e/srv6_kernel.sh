#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# SRv6 through switches that are not ours: contrib/testbed's Clos, in which the Linux kernel shifts the carriers.
# fi_pingpong verifies contents over it, captures show each hop's carriers, and a T0-T1 link is cut in mid-transfer.
. "$(dirname "$0")/lib.sh"
need_root
own_namespace "$@"

# Namespaces that live and die with this script: /run/netns is this mount namespace's own.
mkdir -p /run/netns
mount -t tmpfs tmpfs /run/netns
export MRC_TESTBED_STATE=$WORK/testbed
testbed() { "$SOURCE/contrib/testbed/testbed.sh" "$@"; }
down() {
  testbed down
  cleanup
}
trap down EXIT
testbed up 2>"$WORK/up.log" || {
  cat "$WORK/up.log" >&2
  cannot "needs a kernel with SRv6 (CONFIG_IPV6_SEG6_LWTUNNEL, 6.1 or later), veth and network namespaces"
}

on() { # on NODE COMMAND…: with that node's configuration
  local node=$1
  shift
  FI_MRC_CONFIG=$MRC_TESTBED_STATE/$node.toml exec ip netns exec "mrc-$node" timeout 60 "$@"
}
pingpong() { # pingpong NAME TCP_PORT OPTIONS…: server on h0 and client on h1, both with contents verified (-c)
  local name=$1 port=$2 server
  shift 2
  export FI_MRC_STATS=$WORK/$name
  (on h0 fi_pingpong -p mrc -e rdm -c -B "$port" "$@") >"$WORK/$name.server" 2>&1 &
  server=$!
  PIDS+=("$server")
  sleep 0.7
  (on h1 fi_pingpong -p mrc -e rdm -c -P "$port" "$@" 10.88.0.1) >"$WORK/$name.client" 2>&1 ||
    { cat "$WORK/$name.client" "$WORK/$name.server"; fail "$name: client"; }
  wait "$server" || { cat "$WORK/$name.server"; fail "$name: server"; }
  log "$name: $(tail -n 1 "$WORK/$name.client")"
}
captures=()
capture() { # capture NODE PORT PACKETS
  ip netns exec "mrc-$1" tcpdump -q -i "$2" -s 0 -B 16384 -c "${3:?}" -w "$WORK/$1.$2.pcap" ip6 >/dev/null 2>&1 &
  captures+=($!)
  PIDS+=($!)
}
carriers() { "$PYTHON" "$E2E/check_capture.py" --mode srv6 --min-packets 20 --min-evs "$@"; }
forwarded() { # forwarded PLANE UPLINK: packets that this T1 has sent to T0 1
  ip netns exec "mrc-p$1-t1-$2" cat /sys/class/net/d1/statistics/tx_packets
}

# 1. All sizes, contents verified, and what the wire looks like at each hop.
for plane in 0 1; do
  capture h0 "g0p$plane" 3000
  for uplink in 0 1; do capture "p$plane-t1-$uplink" d0 1500; done
  capture "p$plane-t0-1" n1g0 3000
done
sleep 0.5
pingpong all-sizes 47600 -I 10 -S all
kill -INT "${captures[@]}" 2>/dev/null || true
wait "${captures[@]}" 2>/dev/null || true
for plane in 0 1; do
  log "plane $plane: h0's port, T1 0, T1 1, T0 1's port to h1"
  carriers 40 --plane $plane --carriers T0-T1-T0-NIC,NIC "$WORK/h0.g0p$plane.pcap"
  for uplink in 0 1; do
    carriers 20 --plane $plane --uplink $uplink --carriers T1-T0-NIC,T0-NIC "$WORK/p$plane-t1-$uplink.d0.pcap"
  done
  carriers 40 --plane $plane --carriers T0-T1-T0-NIC,NIC "$WORK/p$plane-t0-1.n1g0.pcap"
done
"$PYTHON" "$E2E/check_stats.py" --min-bytes 100000000 --planes 2 --min-evs 100 --files 2 "$WORK"/all-sizes.*.json

# 2. A T0-T1 link goes down in mid-transfer: no one tells the nodes, they see losses and take the other paths.
start=$(forwarded 0 0)
(
  for _ in $(seq 400); do
    [ "$(forwarded 0 0)" -lt $((start + 5000)) ] || break
    sleep 0.05
  done
  testbed cut link t0-0 t1-0 plane 0
  forwarded 0 0 >"$WORK/cut.dead"
  for path in "0 1" "1 0" "1 1"; do
    # shellcheck disable=SC2086
    echo "$path $(forwarded $path)"
  done >"$WORK/cut.alive"
  date +%s%N >"$WORK/cut.time"
) &
cutter=$!
pingpong link-cut 47601 -I 800 -S 1048576
done_at=$(date +%s%N)
[ -s "$WORK/cut.time" ] || fail "the transfer was over before the link was cut"
wait "$cutter"
[ $(($(cat "$WORK/cut.dead") - start)) -ge 5000 ] || fail "the link carried nothing before it was cut"
after=$(((done_at - $(cat "$WORK/cut.time")) / 1000000))
[ "$after" -gt 500 ] || fail "the transfer went on for only $after ms after the cut"
dead=$(($(forwarded 0 0) - $(cat "$WORK/cut.dead")))
while read -r plane uplink before; do
  sent=$(($(forwarded "$plane" "$uplink") - before))
  log "plane $plane, T1 $uplink: $sent packets to h1 in the $after ms after the cut"
  [ "$sent" -gt 500 ] || fail "hardly any packets by a path that is whole"
done <"$WORK/cut.alive"
[ "$dead" -lt 50 ] || fail "$dead packets came by the link that was cut"
"$PYTHON" "$E2E/check_stats.py" --min-bytes 1000000000 --planes 2 --min-evs 100 --files 2 --retransmitted \
  "$WORK"/link-cut.*.json
