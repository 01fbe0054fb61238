// SPDX-License-Identifier: BSD-2-Clause
// Hand-written packets, one for each opcode and variant, as bytes and as the struct they mean. Shared by the unit
// tests and the fuzz corpus.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "mrc/wire/packet.hpp"

namespace mrc::wire::test {

using Bytes = std::vector<std::byte>;

/// Bytes from hex digits; blanks are for the reader.
Bytes from_hex(std::string_view text);
std::string to_hex(std::span<const std::byte> bytes);

struct Golden {
  std::string name;
  Bytes bytes;  ///< from the first IPv6 header to the iCRC (whose value is a placeholder)
  Params params;
  Packet packet;  ///< what the bytes mean; payload left empty
  Bytes payload;
};

/// Every golden packet, with and without an outer header, with both EV splits.
std::vector<Golden> golden_packets();

/// Equal in all that `opcode` and flags make meaningful; computed fields (lengths, checksum) included.
bool same_headers(const Packet& a, const Packet& b);

}  // namespace mrc::wire::test
