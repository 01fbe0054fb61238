#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Open MPI over mrc-switch, autostarted: NetPIPE to its end between 2 ranks, collectives with 4 and 8 ranks.
# Proves by mrc's own counters that the traffic went through mrc, on all planes and on more than 100 EVs.
. "$(dirname "$0")/lib.sh"

cd "$WORK"
export FI_MRC_STATS=$WORK/netpipe
mpi 2 -- NPopenmpi -o "$WORK/np.out" -u "${NETPIPE_MAX:-8388608}" >"$WORK/np.log" 2>&1 ||
  { tail -n 20 "$WORK/np.log"; fail "NetPIPE"; }
log "NetPIPE: $(wc -l <"$WORK/np.out") sizes, last: $(tail -n 1 "$WORK/np.log")"
"$PYTHON" "$E2E/check_stats.py" --min-bytes 50000000 --planes 4 --min-evs 100 "$WORK"/netpipe.*.json

for ranks in 4 8; do
  export FI_MRC_STATS=$WORK/collectives$ranks
  mpi "$ranks" -- "$BUILD/tools/demo/mpi_collectives" 1 || fail "collectives over $ranks ranks"
  "$PYTHON" "$E2E/check_stats.py" --min-bytes 1000000 --planes 4 --min-evs 100 --files "$ranks" \
    "$WORK/collectives$ranks".*.json
done

# What the ranks send is source-routed: outer carriers of uSIDs in the EV's plane (captured by the engine itself).
export FI_MRC_STATS=$WORK/captured FI_MRC_PCAP=$WORK/capture
mpi 2 -- "$BUILD/tools/demo/mpi_collectives" 1 >/dev/null || fail "collectives with a capture"
"$PYTHON" "$E2E/check_capture.py" --mode srv6 --no-icrc --min-packets 500 --min-evs 100 "$WORK"/capture.*.pcap
