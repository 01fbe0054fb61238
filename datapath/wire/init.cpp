// SPDX-License-Identifier: BSD-2-Clause
// TLV body of connection set-up. Set-up is rare: clarity before speed, but still total and without allocation.
#include "mrc/wire/init.hpp"

#include <cstring>

#include "bytes.hpp"

namespace mrc::wire {
namespace {

enum Type : std::uint16_t {
  kVersion = 1,
  kFeatures = 2,
  kQpn = 3,
  kPsn = 4,
  kIncarnation = 5,
  kPeerIncarnation = 6,
  kMtu = 7,
  kWindow = 8,
  kUpperVersion = 9,
  kAuthenticator = 10,
};

constexpr std::size_t kHead = 4;
constexpr std::uint32_t bit(unsigned type) {
  return 1u << type;
}
constexpr std::uint32_t kMandatory =
    bit(kVersion) | bit(kQpn) | bit(kPsn) | bit(kIncarnation) | bit(kMtu) | bit(kWindow);
// Seven values of 4 bytes, two of 8, the authenticator.
static_assert(7 * (kHead + 4) + 2 * (kHead + 8) + kHead + kMaxAuthenticator <= kMaxInitBody);

class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : out_(out) {}

  void put32(std::uint16_t type, std::uint32_t value) {
    if (std::byte* p = head(type, 4)) store32(p, value);
  }
  void put64(std::uint16_t type, std::uint64_t value) {
    if (std::byte* p = head(type, 8)) store64(p, value);
  }
  void put_bytes(std::uint16_t type, std::span<const std::byte> value) {
    if (std::byte* p = head(type, value.size())) std::memcpy(p, value.data(), value.size());
  }
  std::size_t size() const { return full_ ? 0 : at_; }

 private:
  std::byte* head(std::uint16_t type, std::size_t length) {
    if (full_ || out_.size() - at_ < kHead + length) {
      full_ = true;
      return nullptr;
    }
    std::byte* p = out_.data() + at_;
    store16(p, type);
    store16(p + 2, static_cast<std::uint16_t>(length));
    at_ += kHead + length;
    return p + kHead;
  }

  std::span<std::byte> out_;
  std::size_t at_ = 0;
  bool full_ = false;
};

/// Takes one value over; false if its length is not the type's or the value is impossible.
bool take(unsigned type, std::span<const std::byte> value, InitBody& body) {
  const std::byte* p = value.data();
  switch (type) {
    case kIncarnation:
    case kPeerIncarnation:
      if (value.size() != 8) return false;
      (type == kIncarnation ? body.incarnation : body.peer_incarnation) = load64(p);
      return true;
    case kAuthenticator:
      if (value.empty() || value.size() > kMaxAuthenticator) return false;
      body.authenticator = value;
      return true;
    default:
      break;
  }
  if (value.size() != 4) return false;
  const std::uint32_t number = load32(p);
  switch (type) {
    case kVersion:
      body.version = static_cast<std::uint16_t>(number >> 16);
      body.min_version = static_cast<std::uint16_t>(number);
      return body.min_version != 0 && body.min_version <= body.version;
    case kFeatures:
      body.features = number;
      return true;
    case kQpn:
      body.qpn = number;
      return number <= kPsnMask;
    case kPsn:
      body.psn = number;
      return number <= kPsnMask;
    case kMtu:
      body.mtu = number;
      return true;
    case kWindow:
      body.window = number;
      return true;
    case kUpperVersion:
      body.upper_version = number;
      return true;
    default:
      return false;
  }
}

}  // namespace

std::size_t encode(const InitBody& body, std::span<std::byte> out) {
  if (body.authenticator.size() > kMaxAuthenticator) return 0;
  Writer writer(out);
  writer.put32(kVersion, std::uint32_t{body.version} << 16 | body.min_version);
  writer.put32(kFeatures, body.features);
  writer.put32(kQpn, body.qpn & kPsnMask);
  writer.put32(kPsn, body.psn & kPsnMask);
  writer.put64(kIncarnation, body.incarnation);
  writer.put64(kPeerIncarnation, body.peer_incarnation);
  writer.put32(kMtu, body.mtu);
  writer.put32(kWindow, body.window);
  writer.put32(kUpperVersion, body.upper_version);
  if (!body.authenticator.empty()) writer.put_bytes(kAuthenticator, body.authenticator);
  return writer.size();
}

std::optional<InitBody> decode_init(std::span<const std::byte> in) {
  InitBody body;
  std::uint32_t seen = 0;
  while (!in.empty()) {
    // Nothing may follow the authenticator: it covers all that precedes it.
    if (in.size() < kHead || (seen & bit(kAuthenticator)) != 0) return std::nullopt;
    const unsigned type = load16(in.data());
    const std::size_t length = load16(in.data() + 2);
    in = in.subspan(kHead);
    if (length > in.size()) return std::nullopt;
    if (type >= kVersion && type <= kAuthenticator) {
      if ((seen & bit(type)) != 0 || !take(type, in.first(length), body)) return std::nullopt;
      seen |= bit(type);
    }
    in = in.subspan(length);
  }
  if ((seen & kMandatory) != kMandatory) return std::nullopt;
  return body;
}

std::span<const std::byte> authenticated_part(const InitBody& body, std::span<const std::byte> in) {
  return body.authenticator.empty() ? in : in.first(in.size() - body.authenticator.size() - kHead);
}

}  // namespace mrc::wire
