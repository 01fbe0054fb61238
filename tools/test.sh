#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-2-Clause
# Builds everything and runs every test that fits in 20 minutes on two cores; --full runs the long tier too.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
# shellcheck source=tools/lib/common.sh
. tools/lib/common.sh

usage() {
  cat <<'EOF'
usage: tools/test.sh [--full] [--only PATTERN] [--build DIR]

Installs what is missing (root or sudo), builds, and runs, with the time of each stage:
  unit       units, properties, fuzz corpora, cross-checks of the wire format (scapy, second decoder), layers
  scenario   in virtual time: transport scenarios, fault finding (500 seeds, planted bugs), small experiments
  e2e        real DPDK ports, mrc-switch, mrc-probe, telemetry, the kernel's SRv6 switches, Debian's fi_info,
             fi_pingpong, Open MPI and NetPIPE
  fabtests   some of libfabric's own suite, where it is installed (fabtests/README.md; FABTESTS_DIR names it)
--full adds: all of fabtests both ways (docs/fabtests.md), mpi4py's tests with four MPIs, the OSU micro-benchmarks
(installed ones, in OSU_DIR_OPENMPI4 and OSU_DIR_MPICH) and LAMMPS (docs/mpi.md), sanitizers over units and scenarios, many
seeds, 10 000 seeds of fault finding, fuzzing, every experiment in virtual and in real time, the demo; results are kept in
docs/test-full.md.

  --only PATTERN  only stages whose name matches this shell pattern
  --build DIR     build directory (default ./build-test)

Examples:
  tools/test.sh
  tools/test.sh --only 'mpi*'
  MRC_SEED=42 tools/test.sh --only scenario
EOF
}

full=0 only='*' build_dir=build-test
while [ $# -gt 0 ]; do
  case $1 in
    --full) full=1; shift ;;
    --only) only=${2:?--only needs a pattern}; shift 2 ;;
    --build) build_dir=${2:?--build needs a directory}; shift 2 ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; die "unknown argument '$1'" ;;
  esac
done

results=() passed=0 failed=0 unable=0
started=$SECONDS

# stage NAME COMMAND…: runs it, shows its output, notes time and outcome. 77 = cannot run here: loud, counted apart.
stage() {
  local name=$1 before=$SECONDS code=0 outcome
  shift
  # shellcheck disable=SC2053
  [[ $name == $only ]] || return 0
  say "$name"
  "$@" || code=$?
  case $code in
    0) outcome=ok passed=$((passed + 1)) ;;
    77) outcome='CANNOT RUN' unable=$((unable + 1)) ;;
    *) outcome="FAILED ($code)" failed=$((failed + 1)) ;;
  esac
  results+=("$(printf '%-28s %-12s %4d s' "$name" "$outcome" $((SECONDS - before)))")
  printf '   -> %s, %d s\n' "$outcome" $((SECONDS - before))
}

meson_suite() { # meson_suite BUILD_DIR SUITE
  local log=$1/meson-logs/$2.txt
  if meson test -C "$1" --no-rebuild --suite "$2" --print-errorlogs --num-processes 2 >"$log" 2>&1; then
    grep -E '^ *[0-9]+/[0-9]+ ' "$log"
    ! grep -qE '(EXPECTEDFAIL|No suitable tests)' "$log" || return 1
    # meson counts exit code 77 as skipped: say so instead of hiding it.
    if grep -qE 'SKIP' "$log"; then grep -E 'SKIP' "$log"; return 77; fi
  else
    tail -n 80 "$log"
    return 1
  fi
}

tidy_shell() {
  local script
  for script in tools/*.sh tools/*/*.sh test/e2e/*.sh fabtests/*.sh contrib/testbed/*.sh .ci/run; do
    bash -n "$script" || return 1
  done
}

packages() {
  local wanted="$BUILD_PACKAGES $DEMO_PACKAGES $TEST_PACKAGES"
  [ $full = 1 ] && wanted="$wanted $FULL_PACKAGES"
  # shellcheck disable=SC2086
  (install_packages $wanted)
}

stage packages packages
[ $failed -eq 0 ] || exit 1
CXX=${CXX:-ccache g++}
export CXX
build_all() { (build "$build_dir") && note "built in $build_dir"; }
stage build build_all
[ $failed -eq 0 ] || exit 1
stage shell-syntax tidy_shell
stage unit meson_suite "$build_dir" unit
stage scenario meson_suite "$build_dir" scenario
stage e2e-ports-and-switch meson_suite "$build_dir" e2e
for script in fi_info bad_ports pingpong fi_talk mpi_switch mpi_impaired mpi_af_packet mpi_tap srv6_kernel telemetry \
  mesh_probe mesh_probe_kernel; do
  stage "$script" "test/e2e/$script.sh" "$build_dir"
done
stage stress test/e2e/stress.sh "$build_dir" 16
stage kernel-srv6 tools/experiments/kernel_srv6.sh --build "$build_dir" --out "$build_dir/experiments-out" --seconds 8 \
  --mib 8
[ $full = 1 ] || stage fabtests fabtests/run.sh quick --build "$build_dir" --out "$build_dir/fabtests-short" \
  --only '_test|g00n13s|^fi_(rdm|shared_ctx|scalable_ep|multi_recv)( |$)|tagged_peek|trigger|shared_av|atomic'

asan_ubsan() {
  (CXX='ccache g++' build build-asan -Dsanitize=address,undefined --buildtype=debugoptimized) &&
    unskipped meson_suite build-asan unit && meson_suite build-asan scenario
}
# Tests that judge how things are linked say 77 in a sanitized build; they ran in the ordinary one.
unskipped() {
  local code=0
  "$@" || code=$?
  [ $code -eq 0 ] || [ $code -eq 77 ]
}
# Where threads meet: service thread against application, libfabric objects, control client. The core has one owner.
tsan() {
  (CXX='ccache g++' build_only build-tsan 'test/engine/engine_unit test/prov/prov_test test/control/control_test' \
    -Dsanitize=thread --buildtype=debugoptimized) &&
    meson test -C build-tsan --no-rebuild --print-errorlogs engine_unit prov_objects &&
    # Under TSan a forked child starts with signals blocked, which is what the case left out looks at.
    build-tsan/test/control/control_test '~a daemon inherits nothing of the application'
}
# The real provider under TSan, driven by threads that share domains and endpoints.
tsan_stress() {
  (CXX='ccache g++' build_only build-tsan \
    'test/stress/stress prov/mrc/libmrc-fi.so prov/mrc/libmrc-ports.so' \
    -Dsanitize=thread --buildtype=debugoptimized) && MRC_STRESS_SWITCH=$build_dir test/e2e/stress.sh build-tsan 32
}
many_seeds() {
  local seed
  for seed in $(seq "${MRC_SEEDS:-50}"); do
    MRC_SEED=$seed "$build_dir/test/scenario/scenario_test" >"$build_dir/seed.log" 2>&1 ||
      { tail -n 40 "$build_dir/seed.log"; note "seed $seed failed"; return 1; }
  done
  note "${MRC_SEEDS:-50} seeds"
}
fuzzing() {
  local target
  (CXX='ccache clang++' build_only build-fuzz test/fuzz/wire_fuzz -Dfuzz=true --buildtype=debugoptimized) || return 1
  for target in build-fuzz/test/fuzz/*_fuzz; do
    if [ ! -x "$target" ] || [ ! -f "$target" ]; then continue; fi
    note "$(basename "$target"), ${MRC_FUZZ_SECONDS:-120} s"
    mkdir -p build-fuzz/corpus
    "$target" -max_total_time="${MRC_FUZZ_SECONDS:-120}" -print_final_stats=1 build-fuzz/corpus test/fuzz/corpus \
      >build-fuzz/fuzz.log 2>&1 || { tail -n 40 build-fuzz/fuzz.log; return 1; }
    grep -E 'number_of_executed_units|new_units' build-fuzz/fuzz.log
  done
}
experiments() { # experiments VIRTUAL|REAL: each to its verdict; the last line of each is shown
  local name code=0 option=()
  [ "$1" = real ] && option=(--real)
  for name in nic-link-removal t0-t1-failures bad-ev loss incast shared-ev uneven-planes lossy-nic-link; do
    tools/experiments/run "$name" "${option[@]}" --build "$build_dir" --out "$build_dir/experiments-out" \
      >"$build_dir/experiment.log" 2>&1 || code=1
    tail -n 1 "$build_dir/experiment.log"
  done
  return $code
}
lint() {
  shellcheck -x tools/*.sh tools/*/*.sh test/e2e/*.sh fabtests/*.sh contrib/testbed/*.sh .ci/run &&
    codespell -q 3 README.md CONTRIBUTING.md docs include datapath prov tools fabtests test/*/*.?pp &&
    git ls-files '*.hpp' '*.cpp' | xargs clang-format --dry-run -Werror
}

# Every set, both ways; docs/fabtests.md is what came of it.
fabtests() {
  local set way code=0 outcome
  for set in quick all extra; do
    for way in switch netns; do
      outcome=0
      fabtests/run.sh $set --over $way --build "$build_dir" --out "$build_dir/fabtests" || outcome=$?
      [ $outcome -ne 77 ] || return 77
      [ $outcome -eq 0 ] || code=1
    done
  done
  fabtests/report.py "$build_dir/fabtests" "$(git describe --always --dirty)" >docs/fabtests.md
  return $code
}

if [ $full = 1 ]; then
  stage fabtests fabtests
  stage asan-ubsan asan_ubsan
  stage tsan tsan
  stage tsan-stress tsan_stress
  stage stress-10-minutes test/e2e/stress.sh "$build_dir" 600
  stage many-seeds many_seeds
  stage faults-10000 "$build_dir/test/faults/faults" --seeds 10000 --jobs 2 --quiet
  stage fuzzing fuzzing
  stage experiments experiments virtual
  stage experiments-real experiments real
  stage kernel-srv6-long tools/experiments/kernel_srv6.sh --build "$build_dir" --out "$build_dir/experiments-out"
  stage lint lint
  export NETPIPE_MAX=67108864
  stage mpi_switch-long test/e2e/mpi_switch.sh "$build_dir"
  stage mpi_impaired-long test/e2e/mpi_impaired.sh "$build_dir"
  MRC_E2E_MTU=9000 stage mpi_af_packet-9000 test/e2e/mpi_af_packet.sh "$build_dir"
  for mpi in openmpi4 openmpi5 mpich impi; do
    stage "mpi-suite-$mpi" tools/mpi-suite.sh "$mpi" --build "$build_dir"
  done
  stage newer-libfabrics test/prov/load_newer.sh "$build_dir"
  OSU_DIR=${OSU_DIR_OPENMPI4:-} stage osu-openmpi4 tools/osu-suite.sh openmpi4 --build "$build_dir"
  OSU_DIR=${OSU_DIR_MPICH:-} stage osu-mpich tools/osu-suite.sh mpich --build "$build_dir"
  stage lammps tools/lammps-check.sh --build "$build_dir"
  stage demo tools/demo.sh --out "$build_dir/demo-out" --build "$build_dir-demo"
fi

summary() {
  printf '%s\n' "${results[@]}"
  printf '%-28s %-12s %4d s\n' total '' $((SECONDS - started))
}
say summary
summary
[ $unable -eq 0 ] || printf '\n%d stage(s) could NOT run here; the reason stands above.\n' "$unable"
if [ $full = 1 ] && [ "$only" = '*' ]; then
  {
    printf '# Last results of tools/test.sh --full\n\n'
    printf 'Commit %s, %s, %s, %s cores.\n\n```\n' "$(git describe --always --dirty)" "$(date -u +%F)" \
      "$(. /etc/os-release && echo "$PRETTY_NAME")" "$(nproc)"
    summary
    printf '```\n'
  } >docs/test-full.md
fi
printf '\n%d passed, %d failed, %d skipped\n' $passed $failed $unable
[ $failed -eq 0 ]
