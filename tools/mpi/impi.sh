# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-2-Clause
# Intel MPI's runtime from its Python wheel, which carries a libfabric of its own and that one's providers as plug-ins.
# The wheels hold no mpicc and no mpi.h: mpi4py comes as a wheel too, which speaks Intel MPI's ABI.

IMPI_VERSION=${IMPI_VERSION:-2021.18.1}

mpi_install() {
  [ -x "$MPI_PREFIX/bin/mpiexec" ] || quietly "$MPI_CACHE/logs/impi.log" \
    "$MPI_PREFIX/bin/pip" install "impi-rt==$IMPI_VERSION"
}
mpi_compiler() { :; }

# Over tcp it does one-sided by messages, over mrc by RMA and atomics, as it does over libfabric's shm.
MPI_CONTROL=shm

mpi_run() {
  local ranks=$1 over=$2
  shift 2
  # No shared memory between ranks of one host; no pinning, for there are more ranks than cores.
  export FI_PROVIDER=$over I_MPI_FABRICS=ofi I_MPI_PIN=off
  # FI_PROVIDER_PATH hides Intel MPI's own providers, and tcp and shm are among them.
  [ "$over" = mrc ] || export FI_PROVIDER_PATH=$MPI_PREFIX/lib
  exec "$MPI_PREFIX/bin/mpiexec" -n "$ranks" "${MPI_EXTRA[@]}" "$@"
}
