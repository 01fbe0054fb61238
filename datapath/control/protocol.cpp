// SPDX-License-Identifier: BSD-2-Clause
// Encoding and checking of control messages.
#include "mrc/control/protocol.hpp"

#include <algorithm>

namespace mrc::control {
namespace {

/// Bytes that the body of a type has; text types have at least that many.
struct Shape {
  std::size_t size;
  bool text;
};

std::optional<Shape> shape_of(std::uint16_t type) {
  switch (static_cast<Type>(type)) {
    case Type::kHello:
      return Shape{sizeof(Hello), false};
    case Type::kWelcome:
      return Shape{sizeof(Welcome), false};
    case Type::kRegister:
    case Type::kUnregister:
    case Type::kLookup:
      return Shape{sizeof(EndpointBody), false};
    case Type::kPlace:
    case Type::kGone:
    case Type::kClosed:
      return Shape{sizeof(PlaceBody), false};
    case Type::kPlane:
      return Shape{sizeof(PlaneBody), false};
    case Type::kDone:
    case Type::kCommand:
    case Type::kReport:
      return Shape{sizeof(TextBody), true};
    case Type::kCount:
      break;
  }
  return std::nullopt;
}

}  // namespace

std::string_view Message::text() const {
  if (body.size() <= sizeof(TextBody)) return {};
  return {reinterpret_cast<const char*>(body.data()) + sizeof(TextBody), body.size() - sizeof(TextBody)};
}

std::string_view to_string(DecodeError error) {
  switch (error) {
    case DecodeError::kNone:
      return "no error";
    case DecodeError::kTooShort:
      return "shorter than a message header";
    case DecodeError::kNotOurs:
      return "not a message of mrc's control protocol";
    case DecodeError::kVersion:
      return "another version of the control protocol";
    case DecodeError::kLength:
      return "the length does not fit the message";
    case DecodeError::kType:
      return "unknown message type";
  }
  return "?";
}

DecodeError decode(std::span<const std::byte> bytes, Message& out) {
  Header header;
  if (bytes.size() < sizeof header) return DecodeError::kTooShort;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic) return DecodeError::kNotOurs;
  if (header.version != kProtocolVersion) return DecodeError::kVersion;
  if (header.length != bytes.size() || header.length > kMaxMessage) return DecodeError::kLength;
  const auto shape = shape_of(header.type);
  if (!shape) return DecodeError::kType;
  const std::size_t body = bytes.size() - sizeof header;
  if (shape->text ? body < shape->size : body != shape->size) return DecodeError::kLength;
  out = {static_cast<Type>(header.type), header.sequence, bytes.subspan(sizeof header)};
  return DecodeError::kNone;
}

std::string encode_bytes(Type type, std::uint32_t sequence, std::span<const std::byte> body, std::string_view text) {
  text = text.substr(0, kMaxText);
  Header header;
  header.type = static_cast<std::uint16_t>(type);
  header.length = static_cast<std::uint32_t>(sizeof header + body.size() + text.size());
  header.sequence = sequence;
  std::string out;
  out.reserve(header.length);
  out.append(reinterpret_cast<const char*>(&header), sizeof header);
  out.append(reinterpret_cast<const char*>(body.data()), body.size());
  out.append(text);
  return out;
}

std::string text_of(std::span<const char> field) {
  std::string out(field.begin(), std::find(field.begin(), field.end(), '\0'));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f) c = '?';
  }
  return out;
}

void set_text(std::span<char> field, std::string_view text) {
  std::fill(field.begin(), field.end(), '\0');
  std::copy_n(text.begin(), std::min(text.size(), field.size() - 1), field.begin());
}

}  // namespace mrc::control
