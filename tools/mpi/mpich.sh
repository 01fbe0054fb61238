# shellcheck shell=bash
# SPDX-License-Identifier: BSD-2-Clause
# MPICH from its Python wheel (ch4 with ucx and ofi; Debian's own MPICH is ucx only and cannot use libfabric). The
# wheel carries a libfabric of its own, which takes external providers as the system's does.

MPICH_VERSION=${MPICH_VERSION:-5.0.2}

mpi_install() {
  [ -x "$MPI_PREFIX/bin/mpiexec" ] || quietly "$MPI_CACHE/logs/mpich.log" \
    "$MPI_PREFIX/bin/pip" install "mpich==$MPICH_VERSION"
}
mpi_compiler() { echo "$MPI_PREFIX/bin/mpicc"; }

mpi_run() {
  local ranks=$1
  # The wheel's default netmod is ucx; and ranks of one host use shared memory unless they are told not to.
  export FI_PROVIDER=$2 MPIR_CVAR_CH4_NETMOD=ofi MPIR_CVAR_NOLOCAL=1
  shift 2
  exec "$MPI_PREFIX/bin/mpiexec" -n "$ranks" "${MPI_EXTRA[@]}" "$@"
}
