#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Two nodes and a two-plane Clos fabric whose switches are Linux kernels: SRv6 uSID (RFC 9800 NEXT-CSID) and static
# routes, no routing protocol, nothing of mrc's in the fabric.
set -euo pipefail

PLANES=2 UPLINKS=2
PREFIX=${MRC_TESTBED_PREFIX:-mrc-}
MTU=${MRC_TESTBED_MTU:-9000}
LOCATOR=fcbb:bb00

usage() {
  cat <<'EOT'
usage: testbed.sh up | down | exec NODE COMMAND… | list

  up      makes the fabric: nodes A and B, and per plane P (0, 1) the switches T0a-P, T0b-P, T1-P-0 and T1-P-1
  down    takes it away again
  exec    runs COMMAND in the network namespace of NODE (A, B or a switch)
  list    the namespaces, and the configuration files of the nodes

             +-- T1-P-0 --+
  A --- T0a-P             T0b-P --- B        once per plane P
             +-- T1-P-1 --+
  A (10.88.0.1) ------------------- (10.88.0.2) B        management: TCP of fi_pingpong, mpirun, ssh

Node A has the NIC ports a0 and a1 (one a plane), B has b0 and b1. Switch ports: nic (to the node), u0 and u1 (T0 to T1),
d0 and d1 (T1 to T0a and T0b). A uSID is plane (4 bits) | kind (2 bits: 1 T0, 2 T1, 3 NIC) | index (10 bits); T0a and
T0b have the indices 0 and 1, A's NIC is 1 and B's is 2. T0s answer to fe80::1 on every link, T1s to fe80::2.

Environment: MRC_TESTBED_PREFIX (mrc-: in front of the namespaces' names), MRC_TESTBED_MTU (9000)

Example:
  testbed.sh up
  FI_MRC_CONFIG=$PWD/a.toml testbed.sh exec A fi_pingpong -p mrc -e rdm -c -B 47600 &
  FI_MRC_CONFIG=$PWD/b.toml testbed.sh exec B fi_pingpong -p mrc -e rdm -c -P 47600 10.88.0.1
  testbed.sh exec T1-0-0 tcpdump -ni d0 ip6      # the carriers, shifted once
  testbed.sh exec T0a-0 ip link set u0 down      # plane 0 loses one of its two uplinks
  testbed.sh down

Needs root, Linux 6.1 or later with seg6local (CONFIG_IPV6_SEG6_LWTUNNEL), and iproute2 6.1 or later.
EOT
}
die() {
  printf 'testbed.sh: %s\n' "$*" >&2
  exit 1
}

usid() { printf '%x' $(($1 << 12 | $2 << 10 | $3)); } # usid PLANE KIND INDEX
T0=1 T1=2 NIC=3

namespaces() {
  local plane uplink
  echo A B
  for ((plane = 0; plane < PLANES; plane++)); do
    echo "T0a-$plane T0b-$plane"
    for ((uplink = 0; uplink < UPLINKS; uplink++)); do echo "T1-$plane-$uplink"; done
  done
}

inside() { # inside NODE COMMAND…
  local node=$1
  shift
  ip netns exec "$PREFIX$node" "$@"
}

wire() { # wire NODE PORT NODE PORT: one cable
  ip -n "$PREFIX$1" link add name "$2" mtu "$MTU" type veth peer name "$4" mtu "$MTU" netns "$PREFIX$3"
}

settings() { # settings NAME=VALUE…: as sysctls, for interfaces that exist and for later ones
  local one
  for one in "$@"; do echo "net.ipv6.conf.all.$one net.ipv6.conf.default.$one"; done
}

make_namespace() { # make_namespace NODE
  local more=(forwarding=1 seg6_enabled=1)
  [[ $1 == T* ]] || more=()
  ip netns add "$PREFIX$1"
  ip -n "$PREFIX$1" link set lo up
  # Link-local addresses are given by hand (fe80::1 on every link of a T0), at once, and outlive a link that goes down.
  # shellcheck disable=SC2046
  inside "$1" sysctl -qw $(settings addr_gen_mode=1 accept_dad=0 accept_ra=0 autoconf=0 keep_addr_on_down=1 "${more[@]}")
}

make_switch() { # make_switch NAME OWN_USID LINK_LOCAL PORT…
  local name=$1 own=$2 address=$3 port
  shift 3
  {
    # An End route goes when its interface goes down, and `lo` swallows the packets: a veth to ourselves stays up.
    # (A dummy interface would do, where the kernel has them.)
    echo "link add always type veth peer name always-up"
    echo "link set always up"
    echo "link set always-up up"
    for port in "$@"; do
      echo "address add $address/64 dev $port nodad"
      echo "link set $port up"
    done
    # uN: shift the carrier by one uSID, look the result up again.
    echo "route add $LOCATOR:$own::/48 encap seg6local action End flavors next-csid lblen 32 nflen 16 dev always"
  } | ip -n "$PREFIX$name" -6 -batch -
}

route_to() { # route_to SWITCH USID PORT [GATEWAY]: the static route to the next uSID
  ip -n "$PREFIX$1" -6 route add "$LOCATOR:$2::/48" ${4:+via "$4"} dev "$3"
}

make_plane() { # make_plane PLANE
  local plane=$1 uplink t0 side index
  for ((uplink = 0; uplink < UPLINKS; uplink++)); do
    wire "T0a-$plane" "u$uplink" "T1-$plane-$uplink" d0
    wire "T0b-$plane" "u$uplink" "T1-$plane-$uplink" d1
  done
  wire "T0a-$plane" nic A "a$plane"
  wire "T0b-$plane" nic B "b$plane"
  for side in a b; do
    index=$([ $side = a ] && echo 0 || echo 1)
    t0=T0$side-$plane
    make_switch "$t0" "$(usid "$plane" $T0 "$index")" fe80::1 nic u0 u1
    for ((uplink = 0; uplink < UPLINKS; uplink++)); do
      route_to "$t0" "$(usid "$plane" $T1 $uplink)" "u$uplink" fe80::2
    done
    # On the link itself: the T0 solicits the NIC's uSID address, and mrc answers for it.
    route_to "$t0" "$(usid "$plane" $NIC $((index + 1)))" nic
  done
  for ((uplink = 0; uplink < UPLINKS; uplink++)); do
    make_switch "T1-$plane-$uplink" "$(usid "$plane" $T1 $uplink)" fe80::2 d0 d1
    for index in 0 1; do
      route_to "T1-$plane-$uplink" "$(usid "$plane" $T0 $index)" "d$index" fe80::1
    done
  done
}

up() {
  [ "$(id -u)" -eq 0 ] || die "needs root"
  ! ip netns list | grep -q "^${PREFIX}A\b" || die "it is up already (testbed.sh down takes it away)"
  trap 'down; die "could not set up the fabric: the reason stands above"' ERR
  local node plane
  for node in $(namespaces); do make_namespace "$node"; done
  for ((plane = 0; plane < PLANES; plane++)); do
    make_plane "$plane"
    # mrc is the nodes' IPv6 stack on these ports.
    inside A sysctl -qw "net.ipv6.conf.a$plane.disable_ipv6=1"
    inside B sysctl -qw "net.ipv6.conf.b$plane.disable_ipv6=1"
    ip -n "${PREFIX}A" link set "a$plane" up
    ip -n "${PREFIX}B" link set "b$plane" up
  done
  wire A mgmt B mgmt
  ip -n "${PREFIX}A" address add 10.88.0.1/24 dev mgmt
  ip -n "${PREFIX}B" address add 10.88.0.2/24 dev mgmt
  ip -n "${PREFIX}A" link set mgmt up
  ip -n "${PREFIX}B" link set mgmt up
  trap - ERR
}

down() {
  local node
  for node in $(namespaces); do ip netns delete "$PREFIX$node" 2>/dev/null || true; done
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
case ${1:-} in
  up) up ;;
  down) down ;;
  exec)
    [ $# -ge 3 ] || die "exec needs NODE and COMMAND (--help explains)"
    node=$2
    shift 2
    exec ip netns exec "$PREFIX$node" "$@"
    ;;
  list)
    for node in $(namespaces); do echo "$PREFIX$node"; done
    ls "$here"/*.toml
    ;;
  -h | --help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
