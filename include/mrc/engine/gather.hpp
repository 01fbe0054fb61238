// SPDX-License-Identifier: BSD-2-Clause
// Where outgoing payload bytes are. transport::WriteRequest::source points at a Gather; offsets count over the
// concatenation of its pieces. Owned by the poster, valid until the write's kWriteDone event.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mrc::engine {

struct GatherPiece {
  const void* base = nullptr;
  std::size_t length = 0;
};

struct Gather {
  const GatherPiece* pieces = nullptr;
  std::uint32_t count = 0;
};

/// Copies `length` bytes from `offset` of the concatenation; returns how many there were (fewer only past its end).
std::size_t copy_gather(std::byte* to, const Gather& from, std::uint64_t offset, std::size_t length);

}  // namespace mrc::engine
