// SPDX-License-Identifier: BSD-2-Clause
// Encode and decode of mailbox heads and records.
#include "records.hpp"

#include <cstring>
#include <type_traits>

namespace mrc::prov::msg {
namespace {

template <class T>
T swap_to_network(T value) {
  if constexpr (sizeof(T) == 8) return static_cast<T>(__builtin_bswap64(value));
  if constexpr (sizeof(T) == 4) return static_cast<T>(__builtin_bswap32(value));
  if constexpr (sizeof(T) == 2) return static_cast<T>(__builtin_bswap16(value));
  return value;
}

class Writer {
 public:
  explicit Writer(std::byte* at) : start_(at), at_(at) {}
  template <class T>
  Writer& put(T value) {
    static_assert(std::is_unsigned_v<T>);
    const T wire = swap_to_network(value);
    std::memcpy(at_, &wire, sizeof wire);
    at_ += sizeof wire;
    return *this;
  }
  std::size_t written() const { return static_cast<std::size_t>(at_ - start_); }

 private:
  std::byte* start_;
  std::byte* at_;
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> in) : in_(in) {}
  template <class T>
  Reader& get(T& value) {
    if (in_.size() < sizeof(T)) {
      ok_ = false;
      return *this;
    }
    T wire;
    std::memcpy(&wire, in_.data(), sizeof wire);
    value = swap_to_network(wire);
    in_ = in_.subspan(sizeof wire);
    return *this;
  }
  bool ok() const { return ok_; }
  std::span<const std::byte> rest() const { return in_; }

 private:
  std::span<const std::byte> in_;
  bool ok_ = true;
};

constexpr std::size_t kRecordHead = 8;  // type, flags, receive context, length of the value

}  // namespace

std::size_t encode(const MailHead& head, std::byte* out) {
  return Writer(out)
      .put(kRecordVersion)
      .put(std::uint8_t{0})
      .put(std::uint16_t{0})
      .put(head.session)
      .put(head.peer_session)
      .written();
}

bool decode(std::span<const std::byte>& in, MailHead& head) {
  std::uint8_t version = 0, flags = 0;
  std::uint16_t reserved = 0;
  Reader reader(in);
  reader.get(version).get(flags).get(reserved).get(head.session).get(head.peer_session);
  if (!reader.ok() || version != kRecordVersion || head.session == 0) return false;
  in = reader.rest();
  return true;
}

std::size_t head_length(RecordType type, std::uint32_t segments) {
  switch (type) {
    case RecordType::kEager:
      return kRecordHead + 24;
    case RecordType::kRts:
      return kRecordHead + 32;
    case RecordType::kCts:
      return kRecordHead + 24;
    case RecordType::kFin:
      return kRecordHead + 8;
    case RecordType::kAck:
      return kRecordHead + 4;
    case RecordType::kCredit:
      return kRecordHead + 16;
    case RecordType::kWrite:
    case RecordType::kWriteRequest:
      return kRecordHead + 20 + segments * 24;
    case RecordType::kReadRequest:
      return kRecordHead + 16 + segments * 24;
    case RecordType::kAtomic:
      return kRecordHead + 28 + segments * 24;
    case RecordType::kReadData:
      return kRecordHead + 4;
  }
  return kRecordHead;
}

std::size_t encode(const Record& record, std::byte* out) {
  const std::size_t head = head_length(record.type, record.segment_count);
  Writer w(out);
  w.put(static_cast<std::uint8_t>(record.type)).put(record.flags).put(record.context);
  w.put(static_cast<std::uint32_t>(head - kRecordHead + record.bytes.size()));
  switch (record.type) {
    case RecordType::kEager:
      w.put(record.sequence).put(record.op).put(record.tag).put(record.data);
      break;
    case RecordType::kRts:
      w.put(record.sequence).put(record.op).put(record.tag).put(record.data).put(record.length);
      break;
    case RecordType::kCts:
      w.put(record.op).put(record.handle).put(record.base).put(record.length);
      break;
    case RecordType::kFin:
      w.put(record.op).put(record.status);
      break;
    case RecordType::kAck:
      w.put(record.op);
      break;
    case RecordType::kCredit:
      w.put(record.credit_messages).put(record.credit_requests).put(record.credit_bytes);
      break;
    case RecordType::kWrite:
    case RecordType::kWriteRequest:
      w.put(record.sequence).put(record.op).put(record.data).put(record.segment_count);
      break;
    case RecordType::kReadRequest:
      w.put(record.sequence).put(record.op).put(record.handle).put(record.segment_count);
      break;
    case RecordType::kReadData:
      w.put(record.op);
      break;
    case RecordType::kAtomic:
      w.put(record.sequence).put(record.op).put(record.handle).put(record.data);
      w.put(record.atomic.datatype).put(record.atomic.op).put(static_cast<std::uint8_t>(record.atomic.kind));
      w.put(std::uint8_t{0}).put(record.segment_count);
      break;
  }
  for (std::uint32_t i = 0; i < record.segment_count; ++i)
    w.put(record.segments[i].key).put(record.segments[i].address).put(record.segments[i].length);
  return w.written();
}

bool decode(std::span<const std::byte>& in, Record& out) {
  std::uint8_t type = 0, flags = 0;
  std::uint16_t context = 0;
  std::uint32_t length = 0;
  Reader head(in);
  head.get(type).get(flags).get(context).get(length);
  if (!head.ok() || length > head.rest().size()) return false;
  const auto value = head.rest().first(length);
  in = head.rest().subspan(length);

  out = Record{};
  out.type = static_cast<RecordType>(type);
  out.flags = flags;
  out.context = context;
  Reader r(value);
  bool carries_bytes = false, carries_segments = false;
  std::uint8_t pad = 0;
  switch (out.type) {
    case RecordType::kEager:
      r.get(out.sequence).get(out.op).get(out.tag).get(out.data);
      carries_bytes = true;
      break;
    case RecordType::kRts:
      r.get(out.sequence).get(out.op).get(out.tag).get(out.data).get(out.length);
      break;
    case RecordType::kCts:
      r.get(out.op).get(out.handle).get(out.base).get(out.length);
      break;
    case RecordType::kFin:
      r.get(out.op).get(out.status);
      break;
    case RecordType::kAck:
      r.get(out.op);
      break;
    case RecordType::kCredit:
      r.get(out.credit_messages).get(out.credit_requests).get(out.credit_bytes);
      break;
    case RecordType::kWrite:
    case RecordType::kWriteRequest:
      r.get(out.sequence).get(out.op).get(out.data).get(out.segment_count);
      carries_bytes = out.type == RecordType::kWrite;
      carries_segments = true;
      break;
    case RecordType::kReadRequest:
      r.get(out.sequence).get(out.op).get(out.handle).get(out.segment_count);
      carries_segments = true;
      break;
    case RecordType::kReadData:
      r.get(out.op);
      carries_bytes = true;
      break;
    case RecordType::kAtomic: {
      std::uint8_t kind = 0;
      r.get(out.sequence).get(out.op).get(out.handle).get(out.data);
      r.get(out.atomic.datatype).get(out.atomic.op).get(kind).get(pad).get(out.segment_count);
      if (kind > static_cast<std::uint8_t>(AtomicClass::kCompare)) return false;
      out.atomic.kind = static_cast<AtomicClass>(kind);
      carries_bytes = carries_segments = true;
      break;
    }
    default:
      return type >= 0x80;
  }
  if (!r.ok()) return false;
  if (carries_segments) {
    if (out.segment_count == 0 || out.segment_count > kMaxSegments) return false;
    for (std::uint32_t i = 0; i < out.segment_count; ++i) {
      r.get(out.segments[i].key).get(out.segments[i].address).get(out.segments[i].length);
      if (!r.ok() || out.segments[i].length > UINT64_MAX - out.length) return false;
      out.length += out.segments[i].length;
    }
  }
  if (carries_bytes) {
    out.bytes = r.rest();
    if (out.type == RecordType::kEager) out.length = out.bytes.size();
    if (out.type == RecordType::kAtomic) return out.bytes.size() == operand_length(out.atomic, out.length);
    return !carries_segments || out.length == out.bytes.size();
  }
  return r.rest().empty();
}

}  // namespace mrc::prov::msg
