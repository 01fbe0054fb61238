# shellcheck shell=bash disable=SC2034
# SPDX-License-Identifier: BSD-2-Clause
# What the MPI suites share: where an MPI comes from (tools/mpi/NAME.sh), the cache that it is installed in, and the
# provider under test. Sourced by mpi-suite.sh, osu-suite.sh, lammps-check.sh and tools/mpi/launch.sh.
#
# tools/mpi/NAME.sh defines
#   mpi_install   installs the MPI into $MPI_PREFIX (a Python venv made by then) if it is not there yet
#   mpi_compiler  prints the path of mpicc; nothing if the MPI has none (mpi4py's wheel speaks its ABI then)
#   mpi_run RANKS OVER COMMAND…   runs the command on so many ranks, OVER mrc or tcp, with what a user would set for it
#                 and nothing else; execs, so that a signal reaches mpirun itself
#   MPI_CONTROL (may be left out)  a third value of OVER: the way that the MPI takes over mrc, over another provider of
#                 libfabric, where its tcp is another way. What fails there too is the MPI's fault.
#   MPI_ONE_SIDED (an array, may be left out)  names of its ways of one-sided communication; mpi_run finds the one to take
#                 in $MPI_WAY, empty for everything else
# and may use $MPI_PREFIX, and $MPI_EXTRA: words for mpirun that one caller needs (an array).

TOOLS=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
# shellcheck source=tools/lib/common.sh
. "$TOOLS/lib/common.sh"

MPI_NAMES="openmpi4 openmpi5 mpich impi"
MPI_CACHE=${MRC_MPI_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/mrc-mpi}
MPI4PY_VERSION=${MPI4PY_VERSION:-4.1.2}

# mpi_load NAME
mpi_load() {
  [[ " $MPI_NAMES " == *" $1 "* && -f $TOOLS/mpi/$1.sh ]] || die "there is no MPI '$1'; there are: $MPI_NAMES"
  MPI_NAME=$1 MPI_PREFIX=$MPI_CACHE/$1
  declare -ga MPI_EXTRA=() MPI_ONE_SIDED=(default)
  MPI_CONTROL=''
  # shellcheck source=/dev/null
  . "$TOOLS/mpi/$1.sh"
}

# The provider of a build directory, as a user who has not installed it names it.
use_provider() {
  local build
  build=$(realpath "$1")
  [ -f "$build/prov/mrc/libmrc-fi.so" ] || die "$build holds no provider; build it first, or name another with --build"
  export FI_PROVIDER_PATH=$build/prov/mrc FI_MRC_SWITCH=$build/tools/mrc-switch/mrc-switch
}

# A Python that can make a venv and build extensions.
find_python() {
  local python
  for python in ${PYTHON:-} python3 /usr/bin/python3; do
    "$python" -c 'import ensurepip, os, sysconfig, venv
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2>/dev/null || continue
    echo "$python"
    return
  done
  die "no Python here can build extensions: apt-get install python3-dev python3-venv"
}

# quietly LOG COMMAND…: shows the end of the log if it fails.
quietly() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 || { tail -n 30 "$log" >&2; die "failed: $*"; }
}

# The MPI, and mpi4py built against it from its source distribution, which holds the test suite; kept in the cache.
mpi_prepare() {
  local python stamp=$MPI_PREFIX/.mpi4py-$MPI4PY_VERSION mpicc
  mkdir -p "$MPI_CACHE/logs"
  if [ ! -x "$MPI_PREFIX/bin/python" ]; then
    python=$(find_python) || exit 1
    quietly "$MPI_CACHE/logs/$MPI_NAME-venv.log" "$python" -m venv "$MPI_PREFIX"
  fi
  mpi_install
  [ -f "$stamp" ] && return
  mpicc=$(mpi_compiler)
  local sources=$MPI_CACHE/mpi4py-$MPI4PY_VERSION.tar.gz
  [ -f "$sources" ] || quietly "$MPI_CACHE/logs/sdist.log" "$MPI_PREFIX/bin/pip" download --no-deps \
    --no-binary mpi4py -d "$MPI_CACHE" "mpi4py==$MPI4PY_VERSION"
  tar -xzf "$sources" -C "$MPI_CACHE"
  if [ -z "$mpicc" ]; then
    quietly "$MPI_CACHE/logs/$MPI_NAME-mpi4py.log" "$MPI_PREFIX/bin/pip" install --no-deps "mpi4py==$MPI4PY_VERSION"
    touch "$stamp"
    return
  fi
  note "building mpi4py $MPI4PY_VERSION with $mpicc (once, some minutes)"
  MPICC=$mpicc CFLAGS=-O0 quietly "$MPI_CACHE/logs/$MPI_NAME-mpi4py.log" \
    "$MPI_PREFIX/bin/pip" install --no-deps --force-reinstall --no-cache-dir "$sources"
  touch "$stamp"
}
