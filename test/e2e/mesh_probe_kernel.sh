#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# mrc-probe over switches that are nothing but Linux kernels (contrib/testbed): six uSIDs there and back, a cut cable, a
# T1 without cables seen from two hosts, and a host's own cable.
. "$(dirname "$0")/lib.sh"
need_root

export MRC_TESTBED_PREFIX=mrcp$$- MRC_TESTBED_STATE=$WORK/testbed
testbed() { timeout 60 "$SOURCE/contrib/testbed/testbed.sh" "$@"; }
leave() {
  testbed down >/dev/null 2>&1 || true
  cleanup
}
trap leave EXIT
testbed up --planes 2 --t1s 2 --t0s 2 --hosts 2 >"$WORK/up" 2>&1 || { tail -n 5 "$WORK/up" >&2; cannot "no kernel fabric"; }

# probe HOST EXPECTED_STATUS [SENTENCE]
probe() {
  local host=$1 expected=$2 status=0
  testbed exec "$host" timeout 60 "$BUILD/tools/mrc-probe/mrc-probe" --rate 1000 --duration 1.5 --wait 3 \
    --denylist "$WORK/deny.toml" >"$WORK/probe" 2>&1 || status=$?
  [ "$status" -eq "$expected" ] || { cat "$WORK/probe"; fail "$host: exit status $status, expected $expected"; }
  [ $# -lt 3 ] || grep -qF -- "$3" "$WORK/probe" || { cat "$WORK/probe"; fail "$host does not say: $3"; }
  log "$host: $(grep -E ' is down| loses |no link or switch' "$WORK/probe" | head -n 1)"
}

probe h0 0 '10 links are good'
testbed cut link t0-1 t1-1 plane 1
probe h0 1 't0-1 – t1-1 plane 1 is down'
probe h1 1 't0-1 – t1-1 plane 1 is down'
testbed heal
testbed cut t1-0 plane 0
for host in h0 h1; do
  testbed exec "$host" timeout 60 "$BUILD/tools/mrc-probe/mrc-probe" --rate 1000 --duration 1 --wait 3 --json \
    >"$WORK/$host.json" || [ $? -eq 1 ]
done
"$BUILD/tools/mrc-probe/mrc-probe" --merge "$WORK/h0.json" "$WORK/h1.json" >"$WORK/probe" || [ $? -eq 1 ]
grep -qx 't1-0 plane 0 is down' "$WORK/probe" || { cat "$WORK/probe"; fail "the merged results do not name t1-0"; }
log "merged: t1-0 plane 0 is down"
testbed heal
testbed cut nic h0 plane 1
probe h0 1 'nic-1 – t0-0 plane 1 is down'
