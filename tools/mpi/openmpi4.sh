# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-2-Clause
# Debian's Open MPI 4.1 with pml cm, mtl ofi: all traffic, to the same host and to oneself too, goes through libfabric.
# The peer is Open MPI's own tcp. Debian's configuration switches ofi off, hence the explicit pml and mtl. op/avx of 4.1.4 sums MPI_CHAR wrongly on
# CPUs with AVX-512 (over every transport), hence "op ^avx".

mpi_install() {
  command -v mpirun.openmpi >/dev/null && command -v mpicc.openmpi >/dev/null ||
    (install_packages openmpi-bin libopenmpi-dev) || exit 1
}
mpi_compiler() { command -v mpicc.openmpi; }

# One-sided: osc/pt2pt over the mtl, or osc/rdma over btl ofi (MPI_Put is an RDMA write then). Ranks of one host take
# vader's shared memory for RDMA if they may, and that of windows which MPI allocates anyhow.
MPI_ONE_SIDED=(osc-pt2pt btl-ofi)

MPI_CONTROL=ofi-tcp

mpi_run() {
  local ranks=$1 over=$2 words=()
  shift 2
  # A test machine: as root, in a container, with more ranks than cores.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_orte_base_help_aggregate=0
  case $over-${MPI_WAY:-} in
    mrc-btl-ofi) words=(--mca pml ob1 --mca btl "self,tcp,ofi" --mca btl_ofi_provider_include mrc --mca osc rdma) ;;
    mrc-*) words=(--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include mrc) ;;
    ofi-tcp-*) words=(--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'tcp;ofi_rxm') ;;
    tcp-*) words=(--mca pml ob1 --mca btl "self,tcp") ;;
  esac
  [ "${MPI_WAY:-}" != osc-pt2pt ] || words+=(--mca osc pt2pt)
  exec mpirun.openmpi -n "$ranks" --mca op ^avx "${words[@]}" "${MPI_EXTRA[@]}" "$@"
}
