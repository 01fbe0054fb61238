#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# mrc-probe over an emulated fabric: it finds nothing where nothing is wrong, names a cut link, a dead switch and a link
# that loses 30 %, and its denylist keeps a program's packets away from that link.
. "$(dirname "$0")/lib.sh"

PROBE=$BUILD/tools/mrc-probe/mrc-probe
start_switch --planes 2 --t0s 2 --t1 4
ctl() { "$SWITCH" ctl --socket "$FI_MRC_SWITCH_SOCKET" "$@" >"$WORK/ctl" || { cat "$WORK/ctl"; fail "ctl $*"; }; }
# probe EXPECTED_STATUS SENTENCE…
probe() {
  local expected=$1 status=0
  shift
  timeout 60 "$PROBE" --rate 3000 --duration 2 --wait 2 --denylist "$WORK/deny.toml" >"$WORK/probe" || status=$?
  [ "$status" -eq "$expected" ] || { cat "$WORK/probe"; fail "mrc-probe: exit status $status, expected $expected"; }
  local sentence
  for sentence in "$@"; do
    grep -qF -- "$sentence" "$WORK/probe" || { cat "$WORK/probe"; fail "mrc-probe does not say: $sentence"; }
  done
  log "$(grep -E ' is down| loses |no link or switch' "$WORK/probe" | head -n 1)"
}
denied() { [ "$(grep -c '^\[\[deny\]\]' "$WORK/deny.toml" || true)" -eq "$1" ] || { cat "$WORK/deny.toml"; fail "expected $1 entries"; }; }

probe 0 'no link or switch is bad' '18 links are good'
denied 0
ctl link t0-0 t1-1 plane 1 down
probe 1 't0-0 – t1-1 plane 1 is down'
denied 1
ctl clear
ctl switch t1-2 plane 0 down
probe 1 't1-2 plane 0'
ctl clear
# Hosts under both T0s together tell the switch from its links. Clients attach to the T0s in turn.
ctl switch t1-2 plane 0 down
for host in a b; do timeout 60 "$PROBE" --rate 3000 --duration 1 --wait 2 --json >"$WORK/$host.json" || [ $? -eq 1 ]; done
timeout 60 "$PROBE" --merge "$WORK/a.json" "$WORK/b.json" >"$WORK/probe" || [ $? -eq 1 ]
grep -qx 't1-2 plane 0 is down' "$WORK/probe" || { cat "$WORK/probe"; fail "the merged results do not name the switch"; }
log "merged: $(grep ' is down' "$WORK/probe")"
ctl clear

ctl link t0-1 t1-3 plane 0 loss 30%
probe 1 't0-1 – t1-3 plane 0 loses'
denied 1
grep -qx 't1 = 3' "$WORK/deny.toml" || { cat "$WORK/deny.toml"; fail "the denylist names another link"; }

pair() { # pair NAME PORT: a program over the fabric, captured
  export FI_MRC_PCAP=$WORK/$1
  timeout 120 fi_pingpong -p mrc -e rdm -B "$2" -I 200 -S 65536 -c >"$WORK/$1.server" 2>&1 &
  local server=$!
  PIDS+=("$server")
  sleep 1
  timeout 120 fi_pingpong -p mrc -e rdm -P "$2" -I 200 -S 65536 -c 127.0.0.1 >"$WORK/$1.client" 2>&1 ||
    { cat "$WORK/$1.client" "$WORK/$1.server"; fail "$1: client"; }
  wait "$server" || { cat "$WORK/$1.server"; fail "$1: server"; }
}
pair free 47596
FI_MRC_DENYLIST=$WORK/deny.toml pair denied 47597
"$PYTHON" "$E2E/check_denied.py" --plane 0 --t1 3 --free "$WORK"/free.*.pcap --denied "$WORK"/denied.*.pcap ||
  fail "packets of the denied link"
