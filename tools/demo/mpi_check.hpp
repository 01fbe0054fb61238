// SPDX-License-Identifier: BSD-2-Clause
// Shared by the MPI programs of demo and tests: recognisable contents and a loud end when they are wrong.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace demo {

/// The value at `index` of the message `id` from `source` to `destination`: different everywhere, so that a byte that
/// lands in the wrong place, message or rank shows.
inline std::uint64_t pattern(int source, int destination, std::uint64_t id, std::uint64_t index) {
  std::uint64_t x =
      (static_cast<std::uint64_t>(source) << 48) ^ (static_cast<std::uint64_t>(destination) << 32) ^ (id << 16) ^ index;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

[[noreturn]] inline void wrong(const char* what, int rank, std::uint64_t index, std::uint64_t want, std::uint64_t got) {
  std::fprintf(stderr, "WRONG CONTENTS in %s: rank %d, element %llu: expected %016llx, got %016llx\n", what, rank,
               static_cast<unsigned long long>(index), static_cast<unsigned long long>(want),
               static_cast<unsigned long long>(got));
  MPI_Abort(MPI_COMM_WORLD, 3);
  std::abort();
}

inline void expect(const char* what, int rank, std::uint64_t index, std::uint64_t want, std::uint64_t got) {
  if (want != got) wrong(what, rank, index, want, got);
}

}  // namespace demo
