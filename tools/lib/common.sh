# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-2-Clause
# Shared by demo.sh and test.sh: saying what happens, and installing what is missing.

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
note() { printf '   %s\n' "$*"; }
die() {
  printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# What a build needs, then what demo and tests need on top (Debian 12; on 13 only the name libclang-rt-14-dev differs).
BUILD_PACKAGES="g++ meson ninja-build pkg-config ccache python3 libfabric-dev libdpdk-dev libibverbs-dev libfmt-dev
  libexpected-dev libboost-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libbsd-dev libmd-dev libnuma-dev
  libbpf-dev libxdp-dev libelf-dev libpcap-dev zlib1g-dev libnl-3-dev libnl-route-3-dev"
DEMO_PACKAGES="libfabric-bin openmpi-bin libopenmpi-dev python3-matplotlib util-linux iproute2"
TEST_PACKAGES="catch2 librapidcheck-dev netpipe-openmpi python3-scapy tshark tcpdump procps binutils"
FULL_PACKAGES="clang clang-format libclang-rt-14-dev shellcheck codespell"

# install_packages NAME…: with root or sudo; otherwise prints the line to type and stops.
install_packages() {
  local missing=() package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && { note "all packages are installed"; return; }
  local sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    if sudo -n true 2>/dev/null; then
      sudo=(sudo -n)
    else
      die "packages are missing and this is not root. Type this, then start again:
  sudo apt-get update && sudo apt-get install --no-install-recommends ${missing[*]}"
    fi
  fi
  note "installing: ${missing[*]}"
  local log
  log=$(mktemp)
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update >"$log" 2>&1 || true
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}" >>"$log" 2>&1 ||
    { tail -n 20 "$log" >&2; die "apt-get could not install the packages (log: $log)"; }
  rm -f "$log"
}

# build DIRECTORY [meson options…]: sets up once, then builds everything; quiet unless it fails.
build() {
  local directory=$1
  shift
  build_only "$directory" all "$@"
}

# build_only DIRECTORY 'TARGET…' [meson options…]
build_only() {
  local directory=$1 targets=$2 log
  shift 2
  log=$(mktemp)
  if [ ! -f "$directory/build.ninja" ]; then
    meson setup "$directory" "$@" >"$log" 2>&1 || { tail -n 30 "$log" >&2; die "meson setup failed"; }
  fi
  # shellcheck disable=SC2086
  ninja -C "$directory" $targets >"$log" 2>&1 ||
    { grep -E 'error|FAILED|warning' "$log" | head -n 40 >&2; tail -n 10 "$log" >&2; die "the build failed"; }
  rm -f "$log"
}
