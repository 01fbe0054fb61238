// SPDX-License-Identifier: BSD-2-Clause
// All-reduces one after the other for a given time, every element of every result checked on every rank.
// Usage: mpi_allreduce SECONDS [MIB] [FILE] — rank 0 writes "start <round> <ns>" and "end <round> <ns>"
// (CLOCK_REALTIME) for each all-reduce to FILE at once, so that others can do something in the middle of one; last line
// "total …".
#include <ctime>
#include <vector>

#include "mpi_check.hpp"

namespace {

void note(std::FILE* file, const char* what, std::uint64_t round) {
  if (file == nullptr) return;
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  std::fprintf(file, "%s %llu %lld%09ld\n", what, static_cast<unsigned long long>(round),
               static_cast<long long>(now.tv_sec), now.tv_nsec);
  std::fflush(file);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const double seconds = argc > 1 ? std::strtod(argv[1], nullptr) : 0;
  const double mib = argc > 2 ? std::strtod(argv[2], nullptr) : 16;
  if (seconds <= 0 || mib <= 0 || mib > 1024) {
    if (rank == 0) std::fprintf(stderr, "usage: mpirun -n N mpi_allreduce SECONDS [MIB, to 1024] [FILE]\n");
    MPI_Finalize();
    return 2;
  }
  std::FILE* file = rank == 0 && argc > 3 ? std::fopen(argv[3], "w") : nullptr;
  if (rank == 0 && argc > 3 && file == nullptr) {
    std::perror(argv[3]);
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  const auto n = static_cast<std::size_t>(mib * (1 << 17));
  std::vector<std::uint64_t> mine(n), sum(n);
  const double start = MPI_Wtime();
  double inside = 0;
  std::uint64_t round = 0;
  for (int more = 1; more != 0; ++round) {
    for (std::size_t i = 0; i < n; ++i) mine[i] = demo::pattern(rank, 0, round, i);
    MPI_Barrier(MPI_COMM_WORLD);
    const double before = MPI_Wtime();
    note(file, "start", round);
    MPI_Allreduce(mine.data(), sum.data(), static_cast<int>(n), MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    note(file, "end", round);
    inside += MPI_Wtime() - before;
    for (std::size_t i = 0; i < n; ++i) {
      std::uint64_t want = 0;
      for (int r = 0; r < ranks; ++r) want += demo::pattern(r, 0, round, i);
      demo::expect("all-reduce", rank, i, want, sum[i]);
    }
    more = MPI_Wtime() - start < seconds;
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  // Nobody reports success before everybody has checked the last round.
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    std::printf("total %llu all-reduces of %.1f MiB over %d ranks, %.1f s in them, contents right\n",
                static_cast<unsigned long long>(round), mib, ranks, inside);
    if (file != nullptr) std::fclose(file);
  }
  MPI_Finalize();
}
