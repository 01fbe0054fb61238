#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Runs an installed fabtests (libfabric's own test suite, not ours) against mrc and compares with what is expected.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
root=$(dirname "$here")
# shellcheck source=tools/lib/common.sh
. "$root/tools/lib/common.sh"

usage() {
  cat <<'EOT'
usage: fabtests/run.sh quick|all|extra [--over switch|netns] [--only REGEX] [--build DIR] [--fabtests DIR] [--out DIR]
                       [--timeout SECONDS]

Runs runfabtests.sh of an installed fabtests against mrc, shows every line as it ends, and compares with
fabtests/expect/SET.txt: a failure, or a line that did not run for no written reason, is red.

  quick            runfabtests.sh -t quick: the lines that an RDM provider can run
  all              runfabtests.sh -t all: those with many iterations, fi_ubertest and the multinode tests
  extra            fabtests that the runner never starts: self sends, deferred work, several domains, stress, ...
  --over switch    both sides on this host, through an mrc-switch of this run's own (default)
  --over netns     the two sides in two network namespaces joined by two veth planes, with af_packet ports (root)
  --only REGEX     only the lines that this extended regular expression finds
  --build DIR      build directory (default ./build-test, or ./build if only that exists); built first
  --fabtests DIR   where fabtests is installed: its prefix or its bin folder (default: $FABTESTS_DIR, PATH, /usr,
                   /usr/local, /opt/fabtests, /opt/libfabric)
  --out DIR        where the runner's full output and the results go (default BUILD/fabtests)
  --timeout N      seconds for one line (default 300; fi_ubertest: 1800)

The runner ends with kill -9 of every process whose name begins with fi_, so it gets PID, mount and network namespaces
of its own (as root, or through a user namespace). Debian has no package of fabtests; fabtests/README.md says how to build it.

Exit status: 0 as expected, 1 red, 2 wrong usage, 77 no fabtests here or no namespaces (nothing was tested).
Last line: `N passed, N failed, N notrun`.

Examples:
  fabtests/run.sh quick
  fabtests/run.sh quick --over netns --only 'atomic|rma'
  FABTESTS_DIR=$HOME/fabtests fabtests/run.sh all
EOT
}
wrong() {
  printf 'run.sh: %s (--help tells more)\n' "$*" >&2
  exit 2
}

set_name='' over=switch only='' build_dir='' out='' fabtests=${FABTESTS_DIR:-} limit=300
while [ $# -gt 0 ]; do
  case $1 in
    quick | all | extra) set_name=$1; shift ;;
    --over | --only | --build | --fabtests | --out | --timeout)
      [ $# -ge 2 ] || wrong "$1 needs a value"
      case $1 in
        --over) over=$2 ;;
        --only) only=$2 ;;
        --build) build_dir=$2 ;;
        --fabtests) fabtests=$2 ;;
        --out) out=$2 ;;
        --timeout) limit=$2 ;;
      esac
      shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) wrong "unknown argument '$1'" ;;
  esac
done
[ -n "$set_name" ] || wrong "say quick, all or extra"
case $over in switch | netns) ;; *) wrong "--over takes switch or netns" ;; esac
case $limit in '' | *[!0-9]* | 0) wrong "--timeout takes a number of seconds" ;; esac
if [ -z "$build_dir" ]; then
  build_dir=$root/build-test
  if [ ! -d "$build_dir" ] && [ -d "$root/build" ]; then build_dir=$root/build; fi
fi
build_dir=$(realpath -m "$build_dir")
out=$(realpath -m "${out:-$build_dir/fabtests}")

nothing_tested() {
  printf '\n\033[1mNOTHING WAS TESTED\033[0m: %s\n' "$*" >&2
  exit 77
}

# bin_of DIR: the folder that has the binaries, for a prefix or that folder itself; fails if there is no fabtests.
bin_of() {
  local candidate
  for candidate in "$1/bin" "$1"; do
    [ -x "$candidate/fi_rdm" ] && [ -x "$candidate/runfabtests.sh" ] && { realpath "$candidate"; return; }
  done
  return 1
}
find_fabtests() {
  local candidate
  if [ -n "$fabtests" ]; then
    bin_of "$fabtests" || nothing_tested "no fabtests in '$fabtests' (no fi_rdm and runfabtests.sh in it or in its bin)"
    return
  fi
  if candidate=$(command -v runfabtests.sh); then bin_of "$(dirname "$candidate")" && return; fi
  for candidate in /usr /usr/local /opt/fabtests /opt/libfabric; do bin_of "$candidate" && return; done
  nothing_tested "fabtests is not installed: not in PATH, /usr, /usr/local, /opt/fabtests or /opt/libfabric.
Install it (fabtests/README.md), then name its prefix: FABTESTS_DIR=DIR fabtests/run.sh $set_name"
}

# First part: outside. Find things, build, and start again inside namespaces of our own.
if [ -z "${MRC_FABTESTS_INSIDE:-}" ]; then
  bin=$(find_fabtests)
  (CXX=${CXX:-ccache g++} build_only "$build_dir" 'prov/mrc/libmrc-fi.so tools/mrc-switch/mrc-switch')
  mkdir -p "$out"
  private=(unshare --mount --pid --fork --kill-child --mount-proc --net)
  [ "$(id -u)" -eq 0 ] || private+=(--user --map-root-user)
  "${private[@]}" true 2>/dev/null ||
    nothing_tested "cannot make PID, mount and network namespaces here (needs root or user namespaces)"
  say "fabtests $set_name over $over, from $bin"
  export MRC_FABTESTS_INSIDE=1
  exec "${private[@]}" "$0" "$set_name" --over "$over" --only "$only" --build "$build_dir" --fabtests "$bin" --out "$out" \
    --timeout "$limit"
fi

# Second part: inside. The file systems below hide nothing that the tests need, and keep what they leave behind in here.
bin=$fabtests
mount -t tmpfs tmpfs /dev/shm
mount -t tmpfs tmpfs /run
work=$(mktemp -d /tmp/mrc-fabtests.XXXXXX)
trap 'rm -rf "$work"' EXIT
ip link set lo up
export FI_PROVIDER_PATH=$build_dir/prov/mrc FI_PROVIDER=mrc
export FI_LOG_LEVEL=${FI_LOG_LEVEL:-warn} FI_LOG_PROV=${FI_LOG_PROV:-mrc}
unset FI_MRC_PORTS FI_MRC_CONFIG
# Debian's libfabric loads libinfinipath, which takes SIGINT for itself unless told not to: sighandler_test fails for all.
export IPATH_NO_BACKTRACE=1
server=127.0.0.1 hosts=()

start_switch() {
  local switch=$build_dir/tools/mrc-switch/mrc-switch i
  export FI_MRC_SWITCH=$switch FI_MRC_SWITCH_SOCKET=$work/switch.sock FI_MRC_AUTOSTART=0
  "$switch" --socket "$FI_MRC_SWITCH_SOCKET" --stay >"$out/switch.log" 2>&1 &
  for i in $(seq 200); do
    [ -S "$FI_MRC_SWITCH_SOCKET" ] && return
    sleep 0.05
  done
  cat "$out/switch.log" >&2
  die "mrc-switch did not open its socket ($i tries)"
}

# Two hosts on a management bridge (the tests' own TCP) and two planes; every group of ports has its own interfaces, as
# several processes of one host need several. Sets `hosts`; server and client are addressed as the runner knows them.
GROUPS_PER_HOST=3 PLANES=2
join_hosts() {
  local host group plane name bridge ports
  mkdir -p /run/netns
  for bridge in mgmt plane0 plane1; do
    ip link add "$bridge" type bridge mcast_snooping 0
    ip link set "$bridge" mtu 9000 up
  done
  for host in 1 2; do
    ip netns add "host$host"
    ip -n "host$host" link set lo up
    ip link add "m$host" master mgmt type veth peer name mgmt netns "host$host"
    ip link set "m$host" up
    ip -n "host$host" addr add "10.77.0.$host/24" dev mgmt
    ip -n "host$host" link set mgmt up
    ports=
    for ((group = 0; group < GROUPS_PER_HOST; group++)); do
      ports+=${ports:+|}ip=10.77.0.$((host + 2 * group))
      for ((plane = 0; plane < PLANES; plane++)); do
        name=g${group}p$plane
        ip link add "h$host$name" master "plane$plane" mtu 9000 type veth peer name "$name" mtu 9000 netns "host$host"
        sysctl -qw "net.ipv6.conf.h$host$name.disable_ipv6=1"
        ip netns exec "host$host" sysctl -qw "net.ipv6.conf.$name.disable_ipv6=1"
        ip link set "h$host$name" up
        ip -n "host$host" link set "$name" up
        ports+=";af_packet:$name"
      done
    done
    printf '%s' "$ports" >"$work/ports.10.77.0.$host"
  done
  # The runner reaches hosts with ssh: this one in front of PATH goes into the host's network namespace instead.
  mkdir "$work/bin"
  cat >"$work/bin/ssh" <<EOT
#!/bin/bash
while :; do
  case \$1 in
    -o) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
address=\$1
shift
export FI_MRC_PORTS=\$(cat "$work/ports.\$address")
exec ip netns exec "host\${address##*.}" env --default-signal=INT bash -c "cd '$work' && \$*"
EOT
  chmod +x "$work/bin/ssh"
  PATH=$work/bin:$PATH
  export FI_MRC_AUTOSTART=0
  server=10.77.0.1 hosts=(10.77.0.1 10.77.0.2)
}

[ "$over" = switch ] && start_switch
[ "$over" = netns ] && join_hosts
cd "$work"
ln -s "$here/test_configs" test_configs

# --only as the runner understands it: leave out every line of the list that it does not find.
leave_out=()
if [ -n "$only" ]; then
  sed -nE 's/^(pass|notrun) +//p' "$here/expect/$set_name.txt" | sed -E 's/ +#.*//' | grep -vE -- "$only" |
    sed -E 's/[][().*+?^$|{}\\]/\\&/g; s/.*/^&$/' >"$work/not-only" || true
  cat "$here/test_configs/mrc/mrc.exclude" >>"$work/not-only"
  leave_out=(-f "$work/not-only")
fi

# -m: job control, so that the runner's background jobs do not begin with SIGINT ignored (sighandler_test).
runner() { # runner TYPE SECONDS
  bash -m "$bin/runfabtests.sh" -vvv -p "$bin" -t "$1" -T "$2" "${leave_out[@]}" mrc "${hosts[@]}"
}
wanted() { [ -z "$only" ] || grep -qE -- "$only" <<<"$1"; }
lines() {
  local matrix
  case $set_name in
    quick) runner quick "$limit" || true ;;
    all)
      runner unit,regression,functional,standard,multinode "$limit" || true
      runner complex $((limit * 6)) || true
      for matrix in models atomics; do
        wanted "fi_ubertest $matrix.test" || continue
        bash -m "$bin/runfabtests.sh" -vvv -p "$bin" -t complex -T $((limit * 6)) -u "$PWD/test_configs/mrc/$matrix.test" \
          mrc "${hosts[@]}" | sed "s/^- name:   fi_ubertest.*/- name:   fi_ubertest $matrix.test/" || true
      done
      ;;
    extra) "$here/extra.sh" "$bin" "$limit" "$only" "${hosts[@]}" ;;
  esac
}
code=0
lines 2>&1 | tee "$out/$set_name-$over.log" |
  python3 "$here/judge.py" --expect "$here/expect/$set_name.txt" --only "$only" --server "$server" \
    --results "$out/$set_name-$over.tsv" || code=$?
exit $code
