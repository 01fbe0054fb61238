#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# The tests of fabtests that runfabtests.sh never starts, for run.sh extra; prints its format, so that judge.py reads both.
# usage: extra.sh BIN SECONDS ONLY [SERVER CLIENT]   (with hosts: through the ssh that comes first in PATH)
set -uo pipefail
bin=$1 limit=$2 only=$3 server=${4:-} client=${5:-}

# on HOST COMMAND: in a subshell of its own, or in the background: a signal to that ends all of it (timeout passes it on).
on() {
  local host=$1
  shift
  if [ -n "$host" ]; then
    exec timeout "$limit" ssh "$host" "$*"
  else
    exec timeout "$limit" "$@"
  fi
}
wanted() { [ -z "$only" ] || grep -qE -- "$only" <<<"$1"; }
report() { # report LINE STARTED FILE CODE…: as runfabtests.sh judges codes: 61 and 38 of all sides are Notrun
  local line=$1 started=$2 file=$3 result=Pass code notrun=1
  shift 3
  for code in "$@"; do
    [ "$code" = 0 ] || result=Fail
    [ "$code" = 61 ] || [ "$code" = 38 ] || notrun=0
  done
  [ $notrun = 1 ] && result=Notrun
  printf -- '- name:   %s\n  result: %s\n  time:   %d\n' "$line" "$result" $((SECONDS - started))
  printf '    exit status: %s\n' "$*"
  tail -n 40 "$file" | sed 's/^/    /'
}
alone() {
  local line=$* started=$SECONDS
  wanted "$line" || return 0
  (on "$server" "$bin/$1" "${@:2}" -p mrc) >log 2>&1
  report "$line" $started log $?
}
pair() {
  local line=$* started=$SECONDS server_pid server_code client_code
  wanted "$line" || return 0
  on "$server" "$bin/$1" "${@:2}" -p mrc -s "${server:-127.0.0.1}" >log.server 2>&1 &
  server_pid=$!
  sleep 1
  (on "$client" "$bin/$1" "${@:2}" -p mrc -s "${client:-127.0.0.1}" "${server:-127.0.0.1}") >log.client 2>&1
  client_code=$?
  wait $server_pid
  server_code=$?
  cat log.server log.client >log
  report "$line" $started log $server_code $client_code
}
# fi_rdm_stress: processes of the client call one server, which never ends by itself (and says nothing of use).
stress() {
  local line=$* started=$SECONDS server_pid code
  wanted "$line" || return 0
  on "$server" "$bin/fi_rdm_stress" -p mrc -s "${server:-127.0.0.1}" >log.server 2>&1 &
  server_pid=$!
  sleep 1
  (on "$client" "$bin/fi_rdm_stress" "${@:2}" -p mrc -u "$PWD/test_configs/mrc/stress.json" "${server:-127.0.0.1}") \
    >log 2>&1
  code=$?
  kill $server_pid 2>/dev/null
  wait $server_pid
  # A child's failure does not come out of its parent's exit status.
  if grep -qE 'ERROR|ret=-|rror|mismatch' log; then code=1; fi
  cat log.server >>log
  report "$line" $started log $code
}
# Left out: fi_mr_cache_evict registers a key twice and times a cache that mrc does not have; fi_unmap_mem and check_hmem
# are about devices; fi_rdm_deferred_wq -T c_atomic expects FI_CSWAP_LE to swap where 255 is not <= the target (it fails
# over sockets too).

alone fi_loopback
pair fi_resmgmt_test
pair fi_resmgmt_test -t -d
pair fi_resmgmt_test -j -S 8 -R 8 -m 64
pair fi_rdm_multi_domain
pair fi_rdm_multi_domain -c 4
for what in '' '-T msg' '-T tagged' '-T rma' '-T atomic' '-T f_atomic' '-a'; do
  # shellcheck disable=SC2086
  pair fi_rdm_deferred_wq $what
done
for kind in write read; do
  pair fi_rma_bw -e rdm -o $kind -c sread -I 100
done
pair fi_rdm_pingpong -c sread -I 100
pair fi_rdm_pingpong -c fd -I 100
pair fi_rdm_tagged_pingpong -c sread -I 100 -v
pair fi_rdm_pingpong -t counter -I 100
pair fi_rdm_pingpong -S all -I 20 -v
pair fi_rdm_tagged_pingpong -S all -I 20 -v
pair fi_rdm_tagged_bw -j 0 -I 200 -v
pair fi_multi_ep -e rdm -v -c 8
pair fi_rdm -K
stress fi_rdm_stress -C 1
stress fi_rdm_stress -C 2 -I 3
printf '# ----\n'
