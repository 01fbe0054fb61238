#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Missing interface, missing rights, nonsense in the configuration: a sentence that helps, and no crash.
. "$(dirname "$0")/lib.sh"

refused() { # refused WHAT WORD COMMAND…: fails without a signal, and says WORD
  local what=$1 word=$2 code=0
  shift 2
  timeout 30 "$@" >"$WORK/out" 2>&1 || code=$?
  [ "$code" -ne 0 ] || fail "$what was accepted"
  [ "$code" -lt 124 ] || { cat "$WORK/out"; fail "$what: ended by signal or time-out ($code)"; }
  grep -qi -- "$word" "$WORK/out" || { cat "$WORK/out"; fail "$what: the message does not say '$word'"; }
  log "$what: $(grep -i -m 1 -- "$word" "$WORK/out" | cut -c1-150)"
}

refused "missing interface" "mrc_none0" env FI_MRC_PORTS=af_packet:mrc_none0 fi_pingpong -p mrc -e rdm
refused "unknown kind of port" "wormhole" env FI_MRC_PORTS=wormhole:x fi_pingpong -p mrc -e rdm
refused "missing configuration file" "none.toml" env FI_MRC_CONFIG=/nowhere/none.toml fi_pingpong -p mrc -e rdm
printf '[fabric]\nplanes = "four"\n' >"$WORK/bad.toml"
refused "bad configuration" "planes" env FI_MRC_CONFIG="$WORK/bad.toml" fi_pingpong -p mrc -e rdm
refused "no switch to start" "mrc-switch" env FI_MRC_SWITCH=/nowhere/mrc-switch FI_MRC_SWITCH_SOCKET="$WORK/no.sock" \
  fi_pingpong -p mrc -e rdm
if [ "$(id -u)" -eq 0 ]; then
  chmod 755 "$WORK"
  refused "missing rights" "CAP_NET_RAW" setpriv --bounding-set -net_raw --inh-caps -net_raw --reuid nobody --regid nogroup \
    --clear-groups env FI_MRC_PORTS=af_packet:lo fi_pingpong -p mrc -e rdm
fi
