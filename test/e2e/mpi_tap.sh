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
  for rank in a b; do
    ip tuntap add dev "tap$rank$plane" mode tap multi_queue
    sysctl -qw "net.ipv6.conf.tap$rank$plane.disable_ipv6=1"
    ip link set "tap$rank$plane" master "br$plane" up
  done
done
export FI_MRC_PORTS="ip=10.77.0.1;tap:tapa0;tap:tapa1|ip=10.77.0.2;tap:tapb0;tap:tapb1"
export FI_MRC_STATS=$WORK/tap
cd "$WORK"
mpi 2 -- "$BUILD/tools/demo/mpi_collectives" 1 || fail "collectives over net_tap and a bridge"
python3 "$E2E/check_stats.py" --min-bytes 1000000 --planes 2 --min-evs 100 --files 2 "$WORK"/tap.*.json
