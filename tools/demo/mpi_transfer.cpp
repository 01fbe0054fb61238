// SPDX-License-Identifier: BSD-2-Clause
// A long transfer between two ranks with every byte checked: rank 0 streams 1 MiB messages to rank 1 for a given time.
// Usage: mpi_transfer SECONDS — prints "progress <seconds> <bytes>" about five times a second and a last line "total".
#include <algorithm>
#include <array>
#include <vector>

#include "mpi_check.hpp"

namespace {

constexpr std::size_t kElements = 1 << 17;  // 1 MiB a message
constexpr int kDepth = 4;                   // messages in flight
constexpr int kTagData = 1;
constexpr int kTagStop = 2;

// The pattern is drawn once; each message is a rotation of it, so that filling and checking cost one pass.
std::vector<std::uint64_t> base() {
  std::vector<std::uint64_t> words(kElements);
  for (std::size_t i = 0; i < kElements; ++i) words[i] = demo::pattern(0, 1, 0, i);
  return words;
}

void fill(std::vector<std::uint64_t>& out, const std::vector<std::uint64_t>& words, std::uint64_t id) {
  std::rotate_copy(words.begin(), words.begin() + static_cast<long>(id * 7919 % kElements), words.end(), out.begin());
  out[0] = id;
}

std::uint64_t send_for(double seconds) {
  const auto words = base();
  std::array<std::vector<std::uint64_t>, kDepth> buffers;
  for (auto& buffer : buffers) buffer.resize(kElements);
  std::array<MPI_Request, kDepth> requests;
  requests.fill(MPI_REQUEST_NULL);
  const double start = MPI_Wtime();
  double told = start;
  std::uint64_t id = 0;
  for (double now = start; now - start < seconds; now = MPI_Wtime(), ++id) {
    const auto slot = static_cast<std::size_t>(id % kDepth);
    MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
    fill(buffers[slot], words, id);
    MPI_Isend(buffers[slot].data(), static_cast<int>(kElements), MPI_UINT64_T, 1, kTagData, MPI_COMM_WORLD,
              &requests[slot]);
    if (now - told >= 0.2) {
      std::printf("progress %.2f %llu\n", now - start, static_cast<unsigned long long>(id * kElements * 8));
      std::fflush(stdout);
      told = now;
    }
  }
  MPI_Waitall(kDepth, requests.data(), MPI_STATUSES_IGNORE);
  MPI_Send(&id, 1, MPI_UINT64_T, 1, kTagStop, MPI_COMM_WORLD);
  return id;
}

std::uint64_t receive() {
  const auto words = base();
  std::vector<std::uint64_t> want(kElements);
  std::array<std::vector<std::uint64_t>, kDepth> buffers;
  std::array<MPI_Request, kDepth> requests;
  for (std::size_t i = 0; i < kDepth; ++i) {
    buffers[i].resize(kElements);
    MPI_Irecv(buffers[i].data(), static_cast<int>(kElements), MPI_UINT64_T, 0, kTagData, MPI_COMM_WORLD, &requests[i]);
  }
  std::uint64_t stop = 0;
  MPI_Request stop_request;
  MPI_Irecv(&stop, 1, MPI_UINT64_T, 0, kTagStop, MPI_COMM_WORLD, &stop_request);
  for (std::uint64_t id = 0;; ++id) {
    const auto slot = static_cast<std::size_t>(id % kDepth);
    for (int done = 0, stopped = 0; !done;) {
      MPI_Test(&requests[slot], &done, MPI_STATUS_IGNORE);
      if (!done && stop_request != MPI_REQUEST_NULL) MPI_Test(&stop_request, &stopped, MPI_STATUS_IGNORE);
      if (!done && stop_request == MPI_REQUEST_NULL && stop == id) {
        for (auto& request : requests) {
          if (request == MPI_REQUEST_NULL) continue;
          MPI_Cancel(&request);
          MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        return id;
      }
    }
    fill(want, words, id);
    if (buffers[slot] != want) {
      for (std::size_t i = 0; i < kElements; ++i) demo::expect("transfer", 1, i, want[i], buffers[slot][i]);
    }
    MPI_Irecv(buffers[slot].data(), static_cast<int>(kElements), MPI_UINT64_T, 0, kTagData, MPI_COMM_WORLD,
              &requests[slot]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const double seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 0;
  if (ranks != 2 || seconds <= 0) {
    if (rank == 0) std::fprintf(stderr, "usage: mpirun -n 2 mpi_transfer SECONDS\n");
    MPI_Finalize();
    return 2;
  }
  const double start = MPI_Wtime();
  const std::uint64_t messages = rank == 0 ? send_for(seconds) : receive();
  std::uint64_t sent = messages;
  MPI_Bcast(&sent, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  demo::expect("number of messages", rank, 0, sent, messages);
  if (rank == 0) {
    const double took = MPI_Wtime() - start;
    const double bytes = static_cast<double>(sent) * kElements * 8;
    std::printf("total %llu MiB in %.1f s, %.2f Gb/s, contents right\n", static_cast<unsigned long long>(sent), took,
                bytes * 8 / took / 1e9);
  }
  MPI_Finalize();
}
