#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# 1 % loss, 1 % duplication and reordering in mrc-switch: the same MPI programs complete with the right contents.
. "$(dirname "$0")/lib.sh"

start_switch --loss 0.01 --dup 0.01 --reorder 0.01 --seed 7
cd "$WORK"
export FI_MRC_STATS=$WORK/impaired
mpi 2 -- NPopenmpi -o "$WORK/np.out" -u "${NETPIPE_MAX:-1048576}" >"$WORK/np.log" 2>&1 ||
  { tail -n 20 "$WORK/np.log"; fail "NetPIPE over an impaired switch"; }
log "NetPIPE: $(wc -l <"$WORK/np.out") sizes, last: $(tail -n 1 "$WORK/np.log")"
"$PYTHON" "$E2E/check_stats.py" --min-bytes 1000000 --planes 4 --min-evs 100 --retransmitted "$WORK"/impaired.*.json
for ranks in 4 8; do
  mpi "$ranks" -- "$BUILD/tools/demo/mpi_collectives" 1 || fail "collectives over $ranks ranks, impaired"
done
switch_stats >"$WORK/switch.json"
"$PYTHON" - "$WORK/switch.json" <<'P'
import json, sys
fabric = json.load(open(sys.argv[1]))["fabric"]
lost = fabric["drops"].get("loss", 0)
assert lost > 100 and fabric["duplicated"] > 100 and fabric["reordered"] > 100, fabric
print(f"   the switch lost {lost}, duplicated {fabric['duplicated']}, reordered {fabric['reordered']} "
      f"of {fabric['offered']} packets")
P
