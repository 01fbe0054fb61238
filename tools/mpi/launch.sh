#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# tools/mpi/launch.sh MPI RANKS OVER [EXTRA… --] COMMAND…: one job of one MPI, over mrc or tcp; becomes its mpirun.
# EXTRA, up to a word "--", goes to mpirun before the command.
set -euo pipefail
# shellcheck source=tools/mpi/common.sh
. "$(dirname "$0")/common.sh"
mpi_load "$1"
ranks=$2 over=$3
shift 3
for word in "$@"; do
  [ "$word" = -- ] || continue
  while [ "$1" != -- ]; do MPI_EXTRA+=("$1"); shift; done
  shift
  break
done
[ "$over" != mrc ] || use_provider "${MRC_BUILD:?which build directory}"
mpi_run "$ranks" "$over" "$@"
