#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Debian's own fi_pingpong over mrc-switch: every size it knows, contents verified (-c), with and without loss.
. "$(dirname "$0")/lib.sh"

pair() { # pair NAME [fi_pingpong options]
  local name=$1 port=$2
  shift 2
  timeout 120 fi_pingpong -p mrc -e rdm -B "$port" "$@" >"$WORK/$name.server" 2>&1 &
  local server=$!
  PIDS+=("$server")
  sleep 0.5
  timeout 120 fi_pingpong -p mrc -e rdm -P "$port" "$@" 127.0.0.1 >"$WORK/$name.client" 2>&1 ||
    { cat "$WORK/$name.client" "$WORK/$name.server"; fail "$name: client"; }
  wait "$server" || { cat "$WORK/$name.server"; fail "$name: server"; }
  log "$name: $(tail -n 1 "$WORK/$name.client")"
}

pair messages 47592 -I 100 -S all -c
pair tagged-not-verified 47593 -I 1000 -S 64
start_switch --loss 0.01 --dup 0.01 --reorder 0.01
pair impaired 47594 -I 50 -S all -c
