// SPDX-License-Identifier: BSD-2-Clause
// A whole MRC packet from the (outer or inner) IPv6 header on: one struct, one parser, one writer.
//   [outer IPv6 40] | inner IPv6 40 | UDP 8 | BTH 12 | extension headers by opcode | payload | pad | iCRC 4
// Pure functions over byte spans: no state, no allocation, total on any input.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "mrc/wire/bth.hpp"
#include "mrc/wire/ext.hpp"
#include "mrc/wire/ip.hpp"
#include "mrc/wire/params.hpp"

namespace mrc::wire {

inline constexpr std::size_t kIcrcSize = 4;
/// Longest run of headers: outer + inner + UDP + BTH + METH + TSETH + RETH + ImmDt (= 128), or EETH's 136.
inline constexpr std::size_t kMaxHeaders = 144;

enum class ParseError : std::uint8_t {
  kNone,
  kTooShort,  ///< ends inside a header
  kNotIpv6,
  kNotMrc,      ///< no UDP to our port inside: not for us
  kBadLength,   ///< IPv6, UDP and frame lengths contradict each other (cut off or padded wrongly)
  kBadVersion,  ///< BTH transport version is not 0
  kBadOpcode,
  kBadField,  ///< a field holds a value that no sender may use (e.g. pad longer than the payload)
  kBadIcrc,   ///< never from parse(): for the driver's counters
  kCount
};
std::string_view to_string(ParseError);

struct Packet {
  bool has_outer = false;
  bool trimmed = false;  ///< cut short by a switch (DSCP TRIMMED or TRIMMED_LASTHOP): lengths do not hold, no iCRC
  bool trimmed_lasthop = false;
  bool reth_present = false;  ///< false when trimmed away
  bool cc_present = false;    ///< set by parse: CC_STATE came after SETH (write_headers goes by seth.cc_type != 0)
  Ipv6Header outer{};
  Ipv6Header inner{};
  UdpHeader udp{};
  std::uint32_t ev = 0;
  Bth bth{};
  // By opcode; only the ones that bth.opcode implies are meaningful.
  Meth meth{};
  Tseth tseth{};
  Reth reth{};
  ImmDt imm{};
  Seth seth{};
  CcState cc{};
  Neth neth{};
  Peth peth{};
  Erth erth{};
  Eeth eeth{};
  Aeth aeth{};
  std::span<const std::byte> payload{};  ///< a view into the parsed bytes, without pad and iCRC

  bool ce() const { return inner.ecn() == kEcnCe || (has_outer && outer.ecn() == kEcnCe); }
};

/// Parses `l3` (starting at an IPv6 header; trailing Ethernet padding beyond the IPv6 length is ignored).
/// On any result but kNone, `out` is unspecified. Never reads outside `l3`.
/// Of a trimmed packet only BTH and, for data, METH are certain; TSETH and ImmDt read as 0 when cut off, RETH has
/// reth_present, the payload is empty; of other opcodes' extension headers nothing is parsed. It may cause a NACK only.
/// Values that no sender may use (an unknown NACK reason or endpoint op, SETH.M 3, more payload than RETH.length, a
/// body longer than the payload, ts on anything but data) are kBadField. Reserved bits are ignored.
ParseError parse(std::span<const std::byte> l3, const Params& params, Packet& out);

/// Bytes of headers that `packet` needs (outer included when has_outer), by opcode and flags; 0: unknown opcode.
std::size_t header_size(const Packet& packet);

/// Writes all headers of `packet` into `out` and returns their length (header_size), or 0 if `out` is too small, the
/// opcode unknown, a payload given to an opcode that has none, or the whole longer than IPv6 lengths can say.
/// Lengths, next-header fields, UDP ports and flow labels are computed from `payload_length`, `packet.ev` and
/// `params`; the pad count in BTH too. UDP checksum is 0. The caller appends payload, pad (0..3 zero bytes) and iCRC.
/// The outer header repeats the inner one's traffic class and flow label.
std::size_t write_headers(const Packet& packet, std::size_t payload_length, const Params& params,
                          std::span<std::byte> out);

/// Whole packet length from the first IPv6 header, pad and iCRC included.
std::size_t packet_size(const Packet& packet, std::size_t payload_length, const Params& params);

constexpr std::size_t pad_of(std::size_t payload_length) {
  return (4 - payload_length % 4) % 4;
}

void set_ev(Packet& packet, std::uint32_t ev, EvSplit split);
std::uint32_t get_ev(std::uint16_t udp_source_port, std::uint32_t flow_label, EvSplit split);

}  // namespace mrc::wire
