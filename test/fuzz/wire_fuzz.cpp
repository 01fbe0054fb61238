// SPDX-License-Identifier: BSD-2-Clause
// Fuzz target of the wire layer. First byte: parameters; the rest: a packet, and also an INIT body.
// Whatever parses must be written back and parse to the same; nothing may read or write outside its bytes.
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "../wire/golden.hpp"
#include "mrc/wire/icrc.hpp"
#include "mrc/wire/init.hpp"

using namespace mrc::wire;

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

void check_rewrite(const Packet& packet, const Params& params) {
  const std::size_t length = packet.payload.size();
  test::Bytes bytes(packet_size(packet, length, params));
  const std::size_t headers = write_headers(packet, length, params, bytes);
  require(headers == header_size(packet) && headers <= kMaxHeaders);
  if (length != 0) std::memcpy(bytes.data() + headers, packet.payload.data(), length);
  Packet again;
  require(parse(bytes, params, again) == ParseError::kNone);
  require(again.payload.size() == length);
  require(length == 0 || std::memcmp(again.payload.data(), packet.payload.data(), length) == 0);
  // What the writer normalises: the outer class repeats the inner one, labels have 16 bits, no UDP checksum.
  Packet want = packet;
  set_ev(want, packet.ev, params.ev_split);
  want.outer.traffic_class = want.inner.traffic_class;
  want.udp.checksum = 0;
  require(test::same_headers(want, again));
}

void check_init(std::span<const std::byte> in) {
  const auto body = decode_init(in);
  if (!body) return;
  require(authenticated_part(*body, in).size() <= in.size());
  std::array<std::byte, kMaxInitBody> out;
  const std::size_t size = encode(*body, out);
  require(size != 0);
  const auto again = decode_init(std::span(out).first(size));
  require(again.has_value() && again->qpn == body->qpn && again->psn == body->psn &&
          again->incarnation == body->incarnation && again->authenticator.size() == body->authenticator.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  Params params;
  params.ev_split = (data[0] & 1) != 0 ? EvSplit::kLowInPort : EvSplit::kHighInPort;
  params.icrc = (data[0] & 2) == 0;
  if ((data[0] & 4) != 0) params.udp_port = 4971;
  // A copy of just these bytes, so that AddressSanitizer sees the first one read beyond.
  const std::size_t length = size - 1;
  const std::unique_ptr<std::byte[]> copy(new std::byte[length]);
  if (length != 0) std::memcpy(copy.get(), data + 1, length);
  const std::span<std::byte> in(copy.get(), length);

  Packet packet;
  if (parse(in, params, packet) == ParseError::kNone && !packet.trimmed) check_rewrite(packet, params);
  check_init(in);
  {
    const IcrcMask mask(in);
    require(mask.bytes().size() <= in.size());
  }
  require(length == 0 || std::memcmp(copy.get(), data + 1, length) == 0);
  return 0;
}
