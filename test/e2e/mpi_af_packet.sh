#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Open MPI over af_packet on two veth planes, each rank on its own ends; the planes' packets are captured from outside
# (an AF_PACKET socket of tcpdump) and decoded by the second decoder, by scapy and by tshark.
. "$(dirname "$0")/lib.sh"
need_root
own_namespace "$@"

for plane in 0 1; do
  ip link add "a$plane" type veth peer name "b$plane"
  for end in "a$plane" "b$plane"; do
    # The kernel sees every frame here too: it must have nothing to say.
    sysctl -qw "net.ipv6.conf.$end.disable_ipv6=1"
    ip link set "$end" mtu "${MRC_E2E_MTU:-1500}" up
  done
done
export FI_MRC_PORTS="ip=10.77.0.1;af_packet:a0;af_packet:a1|ip=10.77.0.2;af_packet:b0;af_packet:b1"
cd "$WORK"

for plane in 0 1; do
  tcpdump -q -i "a$plane" -s 0 -B 16384 -c 12000 -w "$WORK/plane$plane.pcap" >/dev/null 2>&1 &
  PIDS+=($!)
done
sleep 0.5
export FI_MRC_STATS=$WORK/collectives
mpi 2 -- "$BUILD/tools/demo/mpi_collectives" 1 || fail "collectives over af_packet"
"$PYTHON" "$E2E/check_stats.py" --min-bytes 1000000 --planes 2 --min-evs 100 --files 2 "$WORK"/collectives.*.json
for pid in "${PIDS[@]}"; do kill -INT "$pid" 2>/dev/null || true; done
sleep 0.5
"$PYTHON" "$E2E/check_capture.py" --mode ecmp --min-packets 500 --min-evs 100 "$WORK/plane0.pcap" "$WORK/plane1.pcap"
tshark -r "$WORK/plane0.pcap" -Y 'udp.port == 4791 && infiniband.bth.opcode' -T fields -e infiniband.bth.opcode 2>/dev/null |
  sort | uniq -c | sort -rn >"$WORK/opcodes"
[ -s "$WORK/opcodes" ] || fail "tshark sees no BTH on UDP 4791"
log "tshark's view of BTH.opcode on plane 0: $(awk '{printf "%s x%s, ", $2, $1}' "$WORK/opcodes")"

export FI_MRC_STATS=$WORK/netpipe
mpi 2 -- NPopenmpi -o "$WORK/np.out" -u "${NETPIPE_MAX:-1048576}" >"$WORK/np.log" 2>&1 ||
  { tail -n 20 "$WORK/np.log"; fail "NetPIPE over af_packet"; }
log "NetPIPE: $(wc -l <"$WORK/np.out") sizes, last: $(tail -n 1 "$WORK/np.log")"
"$PYTHON" "$E2E/check_stats.py" --min-bytes 10000000 --planes 2 --min-evs 100 --files 2 "$WORK"/netpipe.*.json
