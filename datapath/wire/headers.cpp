// SPDX-License-Identifier: BSD-2-Clause
// The public encode/decode members of every header, out of line, over the byte positions in codec.hpp.
#include "codec.hpp"

namespace mrc::wire {

#define MRC_WIRE_DEFINE(Type)                                      \
  void Type::encode(std::span<std::byte, Type::kSize> out) const { \
    codec::store(*this, out.data());                               \
  }                                                                \
  Type Type::decode(std::span<const std::byte, Type::kSize> in) {  \
    Type header;                                                   \
    codec::load(header, in.data());                                \
    return header;                                                 \
  }

MRC_WIRE_DEFINE(Ipv6Header)
MRC_WIRE_DEFINE(UdpHeader)
MRC_WIRE_DEFINE(Bth)
MRC_WIRE_DEFINE(Meth)
MRC_WIRE_DEFINE(Tseth)
MRC_WIRE_DEFINE(Reth)
MRC_WIRE_DEFINE(ImmDt)
MRC_WIRE_DEFINE(Seth)
MRC_WIRE_DEFINE(CcState)
MRC_WIRE_DEFINE(Neth)
MRC_WIRE_DEFINE(Peth)
MRC_WIRE_DEFINE(Erth)
MRC_WIRE_DEFINE(Eeth)
MRC_WIRE_DEFINE(Aeth)

#undef MRC_WIRE_DEFINE

}  // namespace mrc::wire
