// SPDX-License-Identifier: BSD-2-Clause
// Copying a range out of a Gather. One piece, the common case, is one memcpy.
#include "mrc/engine/gather.hpp"

#include <algorithm>
#include <cstring>

namespace mrc::engine {

std::size_t copy_gather(std::byte* to, const Gather& from, std::uint64_t offset, std::size_t length) {
  if (from.count == 1 && offset + length <= from.pieces[0].length) [[likely]] {
    if (length > 0) std::memcpy(to, static_cast<const std::byte*>(from.pieces[0].base) + offset, length);
    return length;
  }
  std::size_t done = 0;
  for (std::uint32_t i = 0; i < from.count && done < length; ++i) {
    const GatherPiece& piece = from.pieces[i];
    if (offset >= piece.length) {
      offset -= piece.length;
      continue;
    }
    const std::size_t part = std::min<std::size_t>(length - done, piece.length - offset);
    std::memcpy(to + done, static_cast<const std::byte*>(piece.base) + offset, part);
    done += part;
    offset = 0;
  }
  return done;
}

}  // namespace mrc::engine
