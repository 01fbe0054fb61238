// SPDX-License-Identifier: BSD-2-Clause
// Messages on mrc-switch's control socket (Unix, SOCK_SEQPACKET: one message a record). Same machine, same byte order:
// fixed layouts, copied in and out. decode() is total: any bytes give a message that is safe to read, or an error.
// A reply carries its request's sequence number; what the switch says by itself carries 0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace mrc::control {

inline constexpr std::uint32_t kMagic = 0x3163726d;  ///< "mrc1"
/// Part of the socket's name: another version listens elsewhere.
inline constexpr std::uint16_t kProtocolVersion = 1;
inline constexpr std::size_t kMaxMessage = 32768;
inline constexpr std::size_t kMaxControlPlanes = 8;

enum class Type : std::uint16_t {
  kHello = 1,   ///< client: Hello
  kWelcome,     ///< switch: Welcome, with three descriptors: client's eventfd, switch's eventfd, wake page (memfd)
  kRegister,    ///< client: EndpointBody → kDone
  kUnregister,  ///< client: EndpointBody → kDone
  kDone,        ///< switch: TextBody: code 0 or an errno and a sentence
  kLookup,      ///< client: EndpointBody → kPlace
  kPlace,       ///< switch: PlaceBody, also unasked when an endpoint appears that this client asked for
  kGone,        ///< switch: PlaceBody: the endpoint's process vanished
  kClosed,      ///< switch: PlaceBody: the endpoint was unregistered
  kPlane,       ///< switch: PlaneBody
  kCommand,     ///< tool: TextBody with the words → kReport parts
  kReport,      ///< switch: TextBody; `more` says that another part follows
  kCount
};

struct Header {
  std::uint32_t magic = kMagic;
  std::uint16_t version = kProtocolVersion;
  std::uint16_t type = 0;
  std::uint32_t length = 0;    ///< of the whole message
  std::uint32_t sequence = 0;  ///< the requester's; 0 = unasked
};
static_assert(sizeof(Header) == 16);

struct Hello {
  std::uint32_t pid = 0;
  std::uint32_t ipv4 = 0;  ///< host order
  std::uint16_t wish_t0 = 0, wish_nic = 0;
  std::uint8_t has_wish = 0;
  std::array<std::uint8_t, 3> zero{};
  std::array<char, 32> name{};
};
static_assert(sizeof(Hello) == 48);

struct WelcomePlane {
  std::uint32_t memif_id = 0;
  std::array<char, 108> memif_path{};
};

struct Welcome {
  std::uint64_t incarnation = 0;
  std::uint64_t fabric = 0;
  std::uint32_t pid = 0;
  std::uint32_t locator = 0;
  std::uint32_t mtu = 0;
  std::uint32_t planes_up = 0;
  std::uint16_t t0 = 0, nic = 0, uplinks = 1;
  std::uint8_t planes = 0, plane_bits = 4, srv6 = 1, memory_only = 1, ring_log2 = 9;
  std::uint8_t queue_log2 = 0;  ///< queues are made for 2^n ns of waiting; 0: links have no rate
  std::uint32_t link_mbps = 0;  ///< rate of one plane's port; 0: not limited
  std::array<WelcomePlane, kMaxControlPlanes> plane{};
};
static_assert(sizeof(Welcome) == 48 + 8 * 112);

struct EndpointBody {
  std::uint32_t ipv4 = 0;
  std::uint16_t port = 0;
  std::uint16_t zero = 0;
};
static_assert(sizeof(EndpointBody) == 8);

/// Values of path::Directory::Answer on this socket.
enum class PlaceAnswer : std::uint8_t { kFound = 0, kUnknown = 1, kNoRoute = 2 };

struct PlaceBody {
  std::uint32_t ipv4 = 0;
  std::uint16_t port = 0;
  std::uint16_t t0 = 0, nic = 0;
  std::uint8_t answer = 0;
  std::uint8_t zero = 0;
};
static_assert(sizeof(PlaceBody) == 12);

struct PlaneBody {
  std::uint8_t plane = 0, up = 0;
  std::array<std::uint8_t, 6> zero{};
};
static_assert(sizeof(PlaneBody) == 8);

/// Followed by the text, to the end of the message.
struct TextBody {
  std::int32_t code = 0;
  std::uint32_t more = 0;
};
static_assert(sizeof(TextBody) == 8);

inline constexpr std::size_t kMaxText = kMaxMessage - sizeof(Header) - sizeof(TextBody);

/// A checked message: type known, length as announced, body as long as its type wants.
struct Message {
  Type type = Type::kCount;
  std::uint32_t sequence = 0;
  std::span<const std::byte> body;

  template <class T>
  T as() const {
    static_assert(std::is_trivially_copyable_v<T>);
    T out{};
    std::memcpy(&out, body.data(), body.size() < sizeof(T) ? body.size() : sizeof(T));
    return out;
  }
  /// What follows a TextBody.
  std::string_view text() const;
};

enum class DecodeError : std::uint8_t { kNone, kTooShort, kNotOurs, kVersion, kLength, kType };
std::string_view to_string(DecodeError);

DecodeError decode(std::span<const std::byte> bytes, Message& out);

/// Header, body and text as one record.
std::string encode_bytes(Type type, std::uint32_t sequence, std::span<const std::byte> body, std::string_view text);

template <class T>
std::string encode(Type type, std::uint32_t sequence, const T& body, std::string_view text = {}) {
  static_assert(std::is_trivially_copyable_v<T>);
  return encode_bytes(type, sequence, std::as_bytes(std::span<const T, 1>(&body, 1)), text);
}

/// Text in a fixed field: up to its first zero byte, unprintable bytes as '?'.
std::string text_of(std::span<const char> field);
/// Cut to fit, always with a zero at the end.
void set_text(std::span<char> field, std::string_view text);

}  // namespace mrc::control
