// SPDX-License-Identifier: BSD-2-Clause
// MPI collectives and a ring with every element checked: barrier, all-reduce, all-to-all, gather, broadcast, ring.
// Usage: mpi_collectives [rounds] — sizes from 1 element to 256 Ki elements, a few rounds each.
#include <vector>

#include "mpi_check.hpp"

using demo::expect;
using demo::pattern;
using Vector = std::vector<std::uint64_t>;

namespace {

int rank_of, ranks;

void all_reduce(std::uint64_t round, std::size_t n) {
  Vector mine(n), sum(n);
  for (std::size_t i = 0; i < n; ++i) mine[i] = pattern(rank_of, 0, round, i);
  MPI_Allreduce(mine.data(), sum.data(), static_cast<int>(n), MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  for (std::size_t i = 0; i < n; ++i) {
    std::uint64_t want = 0;
    for (int r = 0; r < ranks; ++r) want += pattern(r, 0, round, i);
    expect("all-reduce", rank_of, i, want, sum[i]);
  }
}

void all_to_all(std::uint64_t round, std::size_t n) {
  const auto p = static_cast<std::size_t>(ranks);
  Vector out(n * p), in(n * p);
  for (std::size_t r = 0; r < p; ++r) {
    for (std::size_t i = 0; i < n; ++i) out[r * n + i] = pattern(rank_of, static_cast<int>(r), round, i);
  }
  MPI_Alltoall(out.data(), static_cast<int>(n), MPI_UINT64_T, in.data(), static_cast<int>(n), MPI_UINT64_T,
               MPI_COMM_WORLD);
  for (std::size_t r = 0; r < p; ++r) {
    for (std::size_t i = 0; i < n; ++i) {
      expect("all-to-all", rank_of, r * n + i, pattern(static_cast<int>(r), rank_of, round, i), in[r * n + i]);
    }
  }
}

void gather_and_broadcast(std::uint64_t round, std::size_t n) {
  const auto p = static_cast<std::size_t>(ranks);
  const int root = static_cast<int>(round % p);
  Vector mine(n), all(rank_of == root ? n * p : 0);
  for (std::size_t i = 0; i < n; ++i) mine[i] = pattern(rank_of, root, round, i);
  MPI_Gather(mine.data(), static_cast<int>(n), MPI_UINT64_T, all.data(), static_cast<int>(n), MPI_UINT64_T, root,
             MPI_COMM_WORLD);
  for (std::size_t i = 0; i < all.size(); ++i) {
    expect("gather", rank_of, i, pattern(static_cast<int>(i / n), root, round, i % n), all[i]);
  }
  all.resize(n * p);
  MPI_Bcast(all.data(), static_cast<int>(n * p), MPI_UINT64_T, root, MPI_COMM_WORLD);
  for (std::size_t i = 0; i < all.size(); ++i) {
    expect("broadcast", rank_of, i, pattern(static_cast<int>(i / n), root, round, i % n), all[i]);
  }
}

void ring(std::uint64_t round, std::size_t n) {
  const int next = (rank_of + 1) % ranks;
  const int previous = (rank_of + ranks - 1) % ranks;
  Vector out(n), in(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = pattern(rank_of, next, round, i);
  MPI_Sendrecv(out.data(), static_cast<int>(n), MPI_UINT64_T, next, 7, in.data(), static_cast<int>(n), MPI_UINT64_T,
               previous, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (std::size_t i = 0; i < n; ++i) expect("ring", rank_of, i, pattern(previous, rank_of, round, i), in[i]);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_of);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const long rounds = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 3;
  if (rounds < 1) {
    if (rank_of == 0) std::fprintf(stderr, "usage: mpi_collectives [rounds ≥ 1]\n");
    MPI_Finalize();
    return 2;
  }
  std::uint64_t round = 0;
  for (const std::size_t n : {1u, 16u, 512u, 4096u, 65536u, 262144u}) {
    for (long i = 0; i < rounds; ++i, ++round) {
      MPI_Barrier(MPI_COMM_WORLD);
      all_reduce(round, n);
      all_to_all(round, n);
      gather_and_broadcast(round, n);
      ring(round, n);
    }
    if (rank_of == 0) {
      std::printf("  %8zu B: all-reduce, all-to-all, gather, broadcast, ring over %d ranks: contents right\n", n * 8,
                  ranks);
      std::fflush(stdout);
    }
  }
  MPI_Finalize();
}
