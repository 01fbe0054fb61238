#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# All operations at random between four processes of two threads, against a model in shared memory, over a switch that
# loses, duplicates and reorders, and whose links are cut: stress.sh BUILD_DIRECTORY [SECONDS [SEED]].
# Four ways: an endpoint a thread or a process, with the least order or with all of it.
. "$(dirname "$0")/lib.sh"

stress=$BUILD/test/stress/stress
[ -x "$stress" ] || fail "$stress is not built: ninja -C $BUILD test/stress/stress"
[ -z "${MRC_STRESS_SWITCH:-}" ] || SWITCH=$(realpath "$MRC_STRESS_SWITCH")/tools/mrc-switch/mrc-switch
seconds=${2:-16}
seed=${3:-${MRC_SEED:-$(date +%s)}}
log "seed $seed"

# Every 50 to 450 ms something is cut, or loses a fifth, for as long; at every time three planes of four are whole. The
# seed decides.
ctl() { "$SWITCH" ctl --socket "$FI_MRC_SWITCH_SOCKET" "$@" >>"$WORK/faults.log" 2>&1; }
faults() {
  local where what plane t0 t1
  RANDOM=$((seed % 32768))
  while :; do
    plane=$((RANDOM % 4)) t0=$((RANDOM % 2)) t1=$((RANDOM % 4)) what=(down up)
    case $((RANDOM % 5)) in
      0) where="plane $plane" ;;
      1) where="switch t1-$t1 plane $plane" ;;
      2) where="link t0-$t0 t1-$t1 plane $plane" ;;
      3) where="port nic$t1 plane $plane" ;;
      *) where="link t0-$t0 t1-$t1 plane $plane" what=("loss 20%" "loss 0") ;;
    esac
    # shellcheck disable=SC2086
    ctl $where ${what[0]} || return 0
    sleep "0.$(printf '%03d' $((50 + RANDOM % 400)))"
    # shellcheck disable=SC2086
    ctl $where ${what[1]} || return 0
    sleep "0.$(printf '%03d' $((RANDOM % 300)))"
  done
}

start_switch --loss 0.003 --dup 0.003 --reorder 0.01 --seed "$((seed % 1000000))"
faults &
PIDS+=($!)

for options in "" "--shared" "--ordered" "--shared --ordered"; do
  part=$((seconds / 4))
  # shellcheck disable=SC2086
  nice timeout $((part * 4 + 400)) "$stress" --seconds "$part" --seed "$seed" $options >"$WORK/said" 2>"$WORK/errors" || {
    cat "$WORK/said" >&2
    grep -vE ':core:|getinfo' "$WORK/errors" | tail -n 20 >&2
    fail "stress --seconds $part --seed $seed $options"
  }
  cat "$WORK/said"
done
