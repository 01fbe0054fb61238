// SPDX-License-Identifier: BSD-2-Clause
// Flows between MPI ranks for a given time, every byte checked: the real-time side of the experiments.
// Usage: mpirun -n RANKS mpi_flows SECONDS FROM:TO … — each flow streams 256 KiB messages, four in flight; a rank may
// be in several. Ends with "flow FROM:TO BYTES SECONDS" for each and a line "contents right".
#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "mpi_check.hpp"

namespace {

constexpr std::size_t kElements = 1 << 15;
constexpr std::size_t kDepth = 4;

struct Flow {
  int from = 0, to = 0, tag = 0;
  bool sends = false, stopped = false, over = false;
  std::uint64_t id = 0, stop = 0;  // messages so far; how many there are, once told
  MPI_Request stop_request = MPI_REQUEST_NULL;
  std::array<std::vector<std::uint64_t>, kDepth> buffers;
  std::array<MPI_Request, kDepth> requests;
  std::vector<std::uint64_t> base, want;
  double took = 0;
};

// The pattern is drawn once; each message is a rotation of it, so that filling and checking cost one pass.
void fill(const Flow& f, std::vector<std::uint64_t>& out, std::uint64_t id) {
  std::rotate_copy(f.base.begin(), f.base.begin() + static_cast<long>(id * 7919 % kElements), f.base.end(),
                   out.begin());
  out[0] = id;
}

void receive_into(Flow& f, std::size_t slot) {
  MPI_Irecv(f.buffers[slot].data(), static_cast<int>(kElements), MPI_UINT64_T, f.from, f.tag, MPI_COMM_WORLD,
            &f.requests[slot]);
}

std::unique_ptr<Flow> begin(int from, int to, int tag, int rank) {
  auto f = std::make_unique<Flow>();
  f->from = from, f->to = to, f->tag = tag, f->sends = rank == from;
  f->requests.fill(MPI_REQUEST_NULL);
  f->base.resize(kElements), f->want.resize(kElements);
  for (std::size_t i = 0; i < kElements; ++i) f->base[i] = demo::pattern(from, to, 0, i);
  for (std::size_t slot = 0; slot < kDepth; ++slot) {
    f->buffers[slot].resize(kElements);
    if (!f->sends) receive_into(*f, slot);
  }
  if (!f->sends) MPI_Irecv(&f->stop, 1, MPI_UINT64_T, from, tag + 1, MPI_COMM_WORLD, &f->stop_request);
  return f;
}

void send_some(Flow& f, double now, double seconds) {
  const std::size_t slot = f.id % kDepth;
  int done = 0;
  MPI_Test(&f.requests[slot], &done, MPI_STATUS_IGNORE);
  if (!done) return;
  if (now < seconds) {
    fill(f, f.buffers[slot], f.id);
    MPI_Isend(f.buffers[slot].data(), static_cast<int>(kElements), MPI_UINT64_T, f.to, f.tag, MPI_COMM_WORLD,
              &f.requests[slot]);
    ++f.id;
    return;
  }
  if (!f.stopped) {
    f.stopped = true;
    f.stop = f.id;
    MPI_Isend(&f.stop, 1, MPI_UINT64_T, f.to, f.tag + 1, MPI_COMM_WORLD, &f.stop_request);
  }
  int all = 0;
  MPI_Testall(kDepth, f.requests.data(), &all, MPI_STATUSES_IGNORE);
  MPI_Test(&f.stop_request, &done, MPI_STATUS_IGNORE);
  f.over = all && done;
}

void receive_some(Flow& f, int rank, double now) {
  int done = 0;
  if (!f.stopped) MPI_Test(&f.stop_request, &done, MPI_STATUS_IGNORE);
  f.stopped = f.stopped || done;
  if (f.stopped && f.id == f.stop) {
    for (auto& request : f.requests) {
      MPI_Cancel(&request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    }
    f.took = now;
    f.over = true;
    return;
  }
  const std::size_t slot = f.id % kDepth;
  MPI_Test(&f.requests[slot], &done, MPI_STATUS_IGNORE);
  if (!done) return;
  fill(f, f.want, f.id);
  if (f.buffers[slot] != f.want) {
    for (std::size_t i = 0; i < kElements; ++i) demo::expect("flow", rank, i, f.want[i], f.buffers[slot][i]);
  }
  receive_into(f, slot);
  ++f.id;
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const double seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 0;
  std::vector<std::unique_ptr<Flow>> flows;
  bool understood = argc > 2 && seconds > 0;
  for (int i = 2; i < argc && understood; ++i) {
    int from = -1, to = -1;
    understood = std::sscanf(argv[i], "%d:%d", &from, &to) == 2 && from >= 0 && to >= 0 && from < ranks && to < ranks &&
                 from != to;
    if (understood && (rank == from || rank == to)) flows.push_back(begin(from, to, 2 * i, rank));
  }
  if (!understood) {
    if (rank == 0) std::fprintf(stderr, "usage: mpirun -n RANKS mpi_flows SECONDS FROM:TO … (ranks from 0)\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    std::printf("started\n");
    std::fflush(stdout);
  }
  const double start = MPI_Wtime();
  const auto busy = [&] { return std::any_of(flows.begin(), flows.end(), [](const auto& f) { return !f->over; }); };
  while (busy()) {
    const double now = MPI_Wtime() - start;
    for (const auto& f : flows) {
      if (f->over) continue;
      f->sends ? send_some(*f, now, seconds) : receive_some(*f, rank, now);
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  for (const auto& f : flows) {
    if (f->sends) continue;
    std::printf("flow %d:%d %llu %.3f\n", f->from, f->to, static_cast<unsigned long long>(f->id * kElements * 8),
                f->took);
    std::fflush(stdout);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) std::printf("contents right\n");
  MPI_Finalize();
}
