#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Open MPI over net_tap: two ranks, two planes, each plane a kernel bridge (so neighbours must be discovered).
. "$(dirname "$0")/lib.sh"
need_root
own_namespace "$@"
[ -c /dev/net/tun ] || cannot "no /dev/net/tun"

for plane in 0 1; do
  ip link add "br$plane" type bridge
  sysctl -qw "net.ipv6.conf.br$plane.disable_ipv6=1"
  ip link set "br$plane" up
done
# net_tap makes its interfaces itself; each joins its bridge as soon as it is there.
join_bridges() {
  local waiting="a0 a1 b0 b1" still tap
  while [ -n "$waiting" ]; do
    still=
    for tap in $waiting; do
      ip link set "mrctap$tap" master "br${tap#?}" 2>/dev/null || still="$still $tap"
    done
    waiting=$still
    sleep 0.02
  done
}
join_bridges &
PIDS+=($!)
export FI_MRC_PORTS="ip=10.77.0.1;tap:mrctapa0;tap:mrctapa1|ip=10.77.0.2;tap:mrctapb0;tap:mrctapb1"
export FI_MRC_STATS=$WORK/tap
cd "$WORK"
mpi 2 -- "$BUILD/tools/demo/mpi_collectives" 1 || fail "collectives over net_tap and a bridge"
"$PYTHON" "$E2E/check_stats.py" --min-bytes 1000000 --planes 2 --min-evs 100 --files 2 "$WORK"/tap.*.json
