#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Experiment kernel-srv6: Open MPI over switches that are Linux kernels, a T1's cables cut during an all-reduce.
# shellcheck disable=SC2015 # `A && B || bad` is meant
set -euo pipefail
root=$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")

usage() {
  cat <<'EOT'
usage: tools/experiments/kernel_srv6.sh [--out DIR] [--seed N] [--seconds S] [--mib M] [--build DIR]

Makes contrib/testbed (2 hosts with 2 groups of NIC ports each, 2 planes of 2 T0s and 2 T1s, all of them Linux kernels
with SRv6 uSID routes), runs all-reduces over 4 Open MPI ranks through mrc over af_packet, every element checked, and
cuts all cables of one T1 in the middle of one of them; later it puts them back. It holds if
  - the program completes, and every element of every all-reduce was right;
  - the cut fell inside an all-reduce, which went on to its end;
  - captures on both sides of each switch show that the kernel shifted every carrier, uSID by uSID;
  - every T1 of every plane carried packets before the cut, and from a second after the cut
    on at most 1 % of its plane's packets were still sent to the T1 that was cut.

  --out DIR     kernel-srv6.json and kernel-srv6.png go there (default ./experiments-out)
  --seed N      which T1 of which plane is cut, and when (default 1)
  --seconds S   how long the program runs (default 15, at least 6)
  --mib M       size of an all-reduce in MiB (default 32)
  --build DIR   build directory with mrc in it (default: ./build, or ./build-test)

Last line: `kernel-srv6: figure (goal …) PASS|FAIL`; exit status 0 or 1, 77 if it cannot run here.

Examples:
  tools/experiments/kernel_srv6.sh
  tools/experiments/kernel_srv6.sh --seed 4 --seconds 30 --out /tmp/kernel-srv6

Needs root and a kernel with SRv6 (see contrib/testbed/testbed.sh --help).
EOT
}
cannot() {
  printf 'CANNOT RUN: %s\n' "$*" >&2
  exit 77
}
bad() {
  printf 'kernel_srv6.sh: %s (--help explains)\n' "$*" >&2
  exit 2
}

out=experiments-out seed=1 seconds=15 mib=32 build=
while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) usage; exit 0 ;;
    --out | --seed | --seconds | --mib | --build) [ $# -ge 2 ] || bad "$1 needs a value" ;;&
    --out) out=$2 ;;
    --seed) seed=$2 ;;
    --seconds) seconds=$2 ;;
    --mib) mib=$2 ;;
    --build) build=$2 ;;
    *) bad "unknown argument '$1'" ;;
  esac
  shift 2
done
[[ $seed =~ ^[0-9]{1,18}$ ]] || bad "--seed takes a whole number"
[[ $seconds =~ ^[0-9]{1,4}$ ]] && [ "$seconds" -ge 6 ] || bad "--seconds takes a whole number from 6"
[[ $mib =~ ^[0-9]{1,4}$ ]] && [ "$mib" -ge 1 ] && [ "$mib" -le 1024 ] || bad "--mib takes a whole number from 1 to 1024"
if [ -z "$build" ]; then
  for build in "$root/build" "$root/build-test"; do [ ! -x "$build/tools/demo/mpi_allreduce" ] || break; done
fi
[ -x "$build/tools/demo/mpi_allreduce" ] && [ -e "$build/prov/mrc/libmrc-fi.so" ] ||
  cannot "mrc is not built in $build: meson setup build && ninja -C build, or name another with --build"
[ "$(id -u)" -eq 0 ] || cannot "needs root for network namespaces"
for tool in mpirun tcpdump ip unshare; do
  command -v "$tool" >/dev/null || cannot "$tool is missing (tools/lib/common.sh lists the packages)"
done
mkdir -p "$out"
out=$(realpath "$out") build=$(realpath "$build")
# Debian's python3, which has Debian's scapy and matplotlib; another one may come first in PATH.
python=$([ -x /usr/bin/python3 ] && echo /usr/bin/python3 || echo python3)

# Namespaces that live and die with this script: /run/netns is this mount namespace's own.
if [ -z "${MRC_KERNEL_SRV6_INSIDE:-}" ]; then
  MRC_KERNEL_SRV6_INSIDE=1 exec unshare --net --mount "$0" --out "$out" --seed "$seed" --seconds "$seconds" \
    --mib "$mib" --build "$build"
fi
mkdir -p /run/netns
mount -t tmpfs tmpfs /run/netns
work=$(mktemp -d /tmp/mrc-kernel-srv6.XXXXXX)
export MRC_TESTBED_STATE=$work/testbed MRC_TESTBED_PREFIX=mrc-
testbed=$root/contrib/testbed/testbed.sh
trap '"$testbed" down; rm -rf "$work"' EXIT
"$testbed" up --planes 2 --t1s 2 --t0s 2 --hosts 2 --groups 2 2>"$work/up.log" || {
  cat "$work/up.log" >&2
  cannot "needs a kernel with SRv6 (CONFIG_IPV6_SEG6_LWTUNNEL, 6.1 or later), veth, bridge and network namespaces"
}
export PYTHONDONTWRITEBYTECODE=1 FI_PROVIDER_PATH=$build/prov/mrc
"$python" "$root/tools/experiments/kernel_srv6.py" --testbed "$testbed" --program "$build/tools/demo/mpi_allreduce" \
  --work "$work" --out "$out" --seed "$seed" --seconds "$seconds" --mib "$mib"
