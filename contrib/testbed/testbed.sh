#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Hosts and a multi-plane Clos fabric whose switches are Linux kernels: SRv6 uSID (RFC 9800 NEXT-CSID) and static
# routes, no routing protocol, nothing of mrc's in the fabric.
# shellcheck disable=SC2015,SC2017 # `A && B || die` is meant, so is dividing first
set -euo pipefail

PREFIX=${MRC_TESTBED_PREFIX:-mrc-}
MTU=${MRC_TESTBED_MTU:-9000}
STATE=${MRC_TESTBED_STATE:-/run/mrc-testbed}
LOCATOR=fcbb:bb00
PLANES=2 T1S=2 T0S=2 HOSTS=2 GROUPS_=1

usage() {
  cat <<'EOT'
usage: testbed.sh COMMAND

  up [--planes N] [--t1s N] [--t0s N] [--hosts N] [--groups N]
                    makes the fabric: per plane P the switches pP-t0-I and pP-t1-J, and hosts h0, h1, … below the T0s
                    in turn. A host has --groups groups of NIC ports, one port a plane: one mrc process uses one group.
                    Default: 2 planes, 2 T1s and 2 T0s per plane, 2 hosts, 1 group
  down              takes it away again
  cut WHAT          takes cables out while everything runs. WHAT is one of
                      link t0-I t1-J [plane P]     one cable between two switches
                      t1-J [plane P], t0-I [plane P]   every cable of a switch
                      nic hH [plane P]             a host's cables (the host sees its carrier go)
                    in every plane if none is named
  heal [WHAT]       puts them back; without WHAT all of them
  status [--json]   every cable: plane, ends, up or cut, packets each way so far
  exec NODE COMMAND…   runs COMMAND in NODE's network namespace; on a host with FI_MRC_CONFIG set to its configuration
  config HOST       prints that configuration
  agent HOST COMMAND…  for mpirun's plm_rsh_agent: starts COMMAND on a host, which has its own host name there
  list              the names of all nodes

            +-- p0-t1-0 --+
  h0 --- p0-t0-0       p0-t0-1 --- h1        the same once more per plane; h2 is below t0-0 again, and so on
            +-- p0-t1-1 --+
  h0 ---------- mgmt (bridge) --------- h1   10.88.H.G+1: TCP of fi_pingpong and mpirun; mgmt itself is 10.88.255.254

Host ports: gGpP (group G, plane P). T0 ports: nHgG to hosts, uJ to T1 J. T1 ports: dI to T0 I. A uSID is plane (4 bits)
| kind (2 bits: 1 T0, 2 T1, 3 NIC) | index (10 bits). T0s answer to fe80::1 on every link, T1s to fe80::2.

Environment: MRC_TESTBED_PREFIX (mrc-: in front of the namespaces' names), MRC_TESTBED_MTU (9000),
MRC_TESTBED_STATE (/run/mrc-testbed: where `up` notes what it made)

Examples:
  testbed.sh up
  testbed.sh exec h0 fi_pingpong -p mrc -e rdm -c -B 47600 &
  testbed.sh exec h1 fi_pingpong -p mrc -e rdm -c -P 47600 10.88.0.1
  testbed.sh exec p0-t1-0 tcpdump -ni d0 ip6       # carriers, before and after the kernel shifts them
  testbed.sh cut link t0-0 t1-1 plane 0            # no one tells the hosts: they see losses and take other paths
  testbed.sh cut t1-0 plane 1
  testbed.sh status
  testbed.sh heal
  testbed.sh exec mgmt mpirun --mca plm_rsh_agent "$PWD/testbed.sh agent" -H h0,h1 …
  testbed.sh down

Needs root, Linux 6.1 or later with seg6local (CONFIG_IPV6_SEG6_LWTUNNEL), veth, bridge, and iproute2 6.1 or later.
EOT
}
die() {
  printf 'testbed.sh: %s\n' "$*" >&2
  exit 1
}

usid() { printf '%x' $(($1 << 12 | $2 << 10 | $3)); } # usid PLANE KIND INDEX
T0=1 T1=2 NIC=3
t0_of() { echo $(($1 % T0S)); }                            # t0_of HOST
nic_of() { echo $(($1 / T0S * GROUPS_ + $2 + 1)); }        # nic_of HOST GROUP: its index below that T0
ip_of() { echo "10.88.$1.$(($2 + 1))"; }                   # ip_of HOST GROUP
each() { local i; for ((i = 0; i < $1; i++)); do echo $i; done; }

nodes() {
  local plane i
  echo mgmt
  for i in $(each "$HOSTS"); do echo "h$i"; done
  for plane in $(each "$PLANES"); do
    for i in $(each "$T0S"); do echo "p$plane-t0-$i"; done
    for i in $(each "$T1S"); do echo "p$plane-t1-$i"; done
  done
}

inside() { # inside NODE COMMAND…
  local node=$1
  shift
  ip netns exec "$PREFIX$node" "$@"
}
batch() { ip -n "$PREFIX$1" -6 -batch -; } # batch NODE: ip commands from stdin

wire() { # wire NODE PORT NODE PORT: one cable
  ip -n "$PREFIX$1" link add name "$2" mtu "$MTU" type veth peer name "$4" mtu "$MTU" netns "$PREFIX$3"
}

make_namespace() { # make_namespace NODE
  local one settings=() wanted=(addr_gen_mode=1 accept_dad=0 accept_ra=0 autoconf=0 keep_addr_on_down=1)
  case $1 in
    p*) wanted+=(forwarding=1 seg6_enabled=1) ;;
    *) wanted+=(disable_ipv6=1) ;; # mrc is a host's IPv6 stack on its NIC ports
  esac
  # Link-local addresses are given by hand (fe80::1 on every link of a T0), at once, and outlive a link that goes down.
  for one in "${wanted[@]}"; do settings+=("net.ipv6.conf.all.$one" "net.ipv6.conf.default.$one"); done
  ip netns add "$PREFIX$1"
  inside "$1" sysctl -qw "${settings[@]}"
  ip -n "$PREFIX$1" link set lo up
}

switch_ports() { # switch_ports T0|T1 INDEX: the ports of such a switch
  local i g
  if [ "$1" = t1 ]; then
    for i in $(each "$T0S"); do echo "d$i"; done
  else
    for i in $(each "$T1S"); do echo "u$i"; done
    for i in $(each "$HOSTS"); do
      [ "$(t0_of "$i")" -ne "$2" ] || for g in $(each "$GROUPS_"); do echo "n${i}g$g"; done
    done
  fi
}

port_up() { # port_up PLANE t0|t1 PORT: the ip commands that bring a port up, with its address and its neighbour's route
  local plane=$1 port=$3 neighbour host group
  echo "link set $port up"
  echo "address replace $([ "$2" = t0 ] && echo fe80::1 || echo fe80::2)/64 dev $port nodad"
  case $port in
    u*) neighbour="$LOCATOR:$(usid "$plane" $T1 "${port#u}")::/48 via fe80::2" ;;
    d*) neighbour="$LOCATOR:$(usid "$plane" $T0 "${port#d}")::/48 via fe80::1" ;;
    n*) # On the link itself: the T0 solicits the NIC's uSID address, and mrc answers for it.
      host=${port#n} group=${port#*g}
      neighbour="$LOCATOR:$(usid "$plane" $NIC "$(nic_of "${host%g*}" "$group")")::/48"
      ;;
  esac
  echo "route replace $neighbour dev $port"
}

make_switch() { # make_switch PLANE t0|t1 INDEX
  local plane=$1 tier=$2 index=$3 port kind=$T0
  [ "$tier" = t0 ] || kind=$T1
  {
    # An End route goes when its interface goes down, and `lo` swallows the packets: a veth to ourselves stays up.
    # (A dummy interface would do, where the kernel has them.)
    echo "link add always type veth peer name always-up"
    echo "link set always up"
    echo "link set always-up up"
    for port in $(switch_ports "$tier" "$index"); do
      port_up "$plane" "$tier" "$port"
    done
    # uN: shift the carrier by one uSID, look the result up again. What matches no route is dropped without a word.
    echo "route add $LOCATOR:$(usid "$plane" "$kind" "$index")::/48 encap seg6local action End flavors next-csid" \
      "lblen 32 nflen 16 dev always"
  } | batch "p$plane-$tier-$index"
}

config() { # config HOST-NUMBER: the TOML for mrc
  local g h plane ports
  echo "# Host h$1 of contrib/testbed: written by testbed.sh."
  printf '[fabric]\nlocator = "%s::/32"\nplanes = %d\nuplinks = %d\n' "$LOCATOR" "$PLANES" "$T1S"
  for g in $(each "$GROUPS_"); do
    ports=
    for plane in $(each "$PLANES"); do ports+="${ports:+, }\"af_packet:g${g}p$plane\""; done
    printf '\n[[group]]\nip = "%s"\ngateway = "fe80::1"         # the T0, on every plane\nports = [%s]\n' \
      "$(ip_of "$1" "$g")" "$ports"
  done
  for h in $(each "$HOSTS"); do
    for g in $(each "$GROUPS_"); do
      printf '\n[[prefix]]\nnet = "%s/32"\nt0 = %d\nnic = %d\n' "$(ip_of "$h" "$g")" "$(t0_of "$h")" "$(nic_of "$h" "$g")"
    done
  done
}

make_cables() {
  local plane i j h g
  for plane in $(each "$PLANES"); do
    for i in $(each "$T0S"); do
      for j in $(each "$T1S"); do wire "p$plane-t0-$i" "u$j" "p$plane-t1-$j" "d$i"; done
    done
    for h in $(each "$HOSTS"); do
      for g in $(each "$GROUPS_"); do wire "p$plane-t0-$(t0_of "$h")" "n${h}g$g" "h$h" "g${g}p$plane"; done
    done
    for i in $(each "$T0S"); do make_switch "$plane" t0 "$i"; done
    for j in $(each "$T1S"); do make_switch "$plane" t1 "$j"; done
  done
}

make_hosts() {
  local h g plane
  { echo "link add br0 type bridge"; echo "address add 10.88.255.254/16 dev br0"; echo "link set br0 up"; } |
    ip -n "${PREFIX}mgmt" -batch -
  for h in $(each "$HOSTS"); do
    wire mgmt "h$h" "h$h" mgmt
    { echo "link set h$h master br0"; echo "link set h$h up"; } | ip -n "${PREFIX}mgmt" -batch -
    {
      echo "link set mgmt up"
      for g in $(each "$GROUPS_"); do
        echo "address add $(ip_of "$h" "$g")/16 dev mgmt"
        for plane in $(each "$PLANES"); do echo "link set g${g}p$plane up"; done
      done
    } | ip -n "${PREFIX}h$h" -batch -
    config "$h" >"$STATE/h$h.toml"
  done
}

number() { # number NAME VALUE MAXIMUM
  [[ $2 =~ ^[1-9][0-9]{0,3}$ ]] && [ "$2" -le "$3" ] || die "$1 must be a number from 1 to $3, not '$2'"
}
up() {
  while [ $# -gt 0 ]; do
    case $1 in
      --planes) number "$1" "${2:-}" 16 && PLANES=$2 ;;
      --t1s) number "$1" "${2:-}" 64 && T1S=$2 ;;
      --t0s) number "$1" "${2:-}" 64 && T0S=$2 ;;
      --hosts) number "$1" "${2:-}" 250 && HOSTS=$2 ;;
      --groups) number "$1" "${2:-}" 16 && GROUPS_=$2 ;;
      *) die "up knows no '$1' (--help lists the options)" ;;
    esac
    shift 2
  done
  [ "$(id -u)" -eq 0 ] || die "needs root"
  [ ! -e "/run/netns/${PREFIX}mgmt" ] || die "it is up already (testbed.sh down takes it away)"
  mkdir -p "$STATE"
  printf 'PLANES=%d T1S=%d T0S=%d HOSTS=%d GROUPS_=%d\n' "$PLANES" "$T1S" "$T0S" "$HOSTS" "$GROUPS_" >"$STATE/shape"
  trap 'down; die "could not set up the fabric: the reason stands above"' ERR
  local node
  for node in $(nodes); do make_namespace "$node"; done
  make_cables
  make_hosts
  trap - ERR
}
shape() {
  # shellcheck disable=SC1091
  [ -r "$STATE/shape" ] && . "$STATE/shape"
}
is_up() { shape || die "it is not up (testbed.sh up makes it)"; }

down() {
  local node
  shape || true
  for node in $(nodes); do ip netns delete "$PREFIX$node" 2>/dev/null || true; done
  rm -rf "$STATE"
}

index_of() { # index_of t0-3 t0 LIMIT: 3, or the end
  [[ ${1:-} =~ ^$2-?([0-9]{1,3})$ ]] && [ "${BASH_REMATCH[1]}" -lt "$3" ] ||
    die "'${1:-}' is not here: expected $2-0 to $2-$(($3 - 1)) (--help explains)"
  echo "${BASH_REMATCH[1]}"
}
planes_of() { # planes_of [plane P]
  case ${1:-} in
    '') each "$PLANES" ;;
    plane) [[ ${2:-} =~ ^[0-9]+$ ]] && [ "$2" -lt "$PLANES" ] && [ $# -eq 2 ] && echo "$2" ||
      die "planes are 0 to $((PLANES - 1)), not '${2:-}'" ;;
    *) die "expected 'plane P', not '$*' (--help explains)" ;;
  esac
}

# The cables that WHAT names, each by the end that is switched: PLANE TIER INDEX PORT. A T1's end for a cable between
# switches, the T0's for a host's: the other end keeps its routes and loses its carrier, as when a cable is pulled.
cables() {
  local plane planes i j h
  case ${1:-} in
    link)
      i=$(index_of "${2:-}" t0 "$T0S"); j=$(index_of "${3:-}" t1 "$T1S"); planes=$(planes_of "${@:4}")
      for plane in $planes; do echo "$plane t1 $j d$i"; done
      ;;
    t1-*)
      j=$(index_of "$1" t1 "$T1S"); planes=$(planes_of "${@:2}")
      for plane in $planes; do for i in $(each "$T0S"); do echo "$plane t1 $j d$i"; done; done
      ;;
    t0-*)
      i=$(index_of "$1" t0 "$T0S"); planes=$(planes_of "${@:2}")
      for plane in $planes; do
        for j in $(each "$T1S"); do echo "$plane t1 $j d$i"; done
        switch_ports t0 "$i" | sed -n "s/^n/$plane t0 $i n/p"
      done
      ;;
    nic)
      h=$(index_of "${2:-}" h "$HOSTS"); planes=$(planes_of "${@:3}")
      for plane in $planes; do switch_ports t0 "$(t0_of "$h")" | sed -n "s/^n${h}g/$plane t0 $(t0_of "$h") n${h}g/p"; done
      ;;
    all)
      for plane in $(each "$PLANES"); do
        for i in $(each "$T0S"); do cables "t0-$i" plane "$plane"; done
      done
      ;;
    *) die "expected link, t0-I, t1-J or nic, not '${1:-}' (--help explains)" ;;
  esac
}
cut() {
  local list plane tier index port
  list=$(cables "$@")
  while read -r plane tier index port; do ip -n "${PREFIX}p$plane-$tier-$index" link set "$port" down; done <<<"$list"
}
heal() {
  local list plane tier index port
  [ $# -gt 0 ] || set -- all
  list=$(cables "$@")
  while read -r plane tier index port; do
    port_up "$plane" "$tier" "$port" | batch "p$plane-$tier-$index"
  done <<<"$list"
}

status() { # status [--json]
  local plane tier index port list state tx rx peer separator='['
  [ "${1:-}" = --json ] || printf '%-6s %-8s %-8s %-5s %14s %14s\n' plane switch peer state 'packets to' 'packets from'
  list=$(cables all)
  while read -r plane tier index port; do
    case $port in d*) peer=t0-${port#d} ;; *) peer=h${port#n} ;; esac
    read -r state rx tx < <(inside "p$plane-$tier-$index" sh -c "
      cd /sys/class/net/$port && [ \$((\$(cat flags) & 1)) = 1 ] && s=up || s=cut
      echo \$s \$(cat statistics/rx_packets) \$(cat statistics/tx_packets)")
    if [ "${1:-}" = --json ]; then
      printf '%s{"plane": %d, "switch": "%s-%d", "peer": "%s", "state": "%s", "to_peer": %d, "from_peer": %d}' \
        "$separator" "$plane" "$tier" "$index" "$peer" "$state" "$tx" "$rx"
      separator=$',\n '
    else
      printf '%-6s %-8s %-8s %-5s %14d %14d\n' "$plane" "$tier-$index" "$peer" "$state" "$tx" "$rx"
    fi
  done <<<"$list"
  [ "${1:-}" != --json ] || echo ']'
}

run_on() { # run_on NODE COMMAND…
  local node=$1
  shift
  [[ $'\n'$(nodes)$'\n' == *$'\n'"$node"$'\n'* ]] || die "there is no node '$node' (testbed.sh list names them)"
  [[ $node != h* ]] || export FI_MRC_CONFIG="${FI_MRC_CONFIG:-$STATE/$node.toml}"
  exec ip netns exec "$PREFIX$node" "$@"
}

command=${1:-}
[ $# -eq 0 ] || shift
case $command in
  up) up "$@" ;;
  down) down ;;
  cut | heal) is_up; [ "$command" = heal ] || [ $# -gt 0 ] || die "cut what? (--help explains)"; "$command" "$@" ;;
  status) is_up; status "$@" ;;
  exec) is_up; [ $# -ge 2 ] || die "exec needs NODE and COMMAND (--help explains)"; run_on "$@" ;;
  agent)
    is_up
    [ $# -ge 2 ] || die "agent needs HOST and COMMAND (--help explains)"
    node=$1
    shift
    # A host name of its own: mpirun takes hosts of the same name for one.
    run_on "$node" unshare --uts sh -c "hostname $node; $*"
    ;;
  config) is_up; config "$(index_of "${1:-}" h "$HOSTS")" ;;
  list) is_up; nodes ;;
  -h | --help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
