// SPDX-License-Identifier: BSD-2-Clause
// Records: what is encoded decodes to the same, and no bytes crash the decoder.
#include "../../../prov/mrc/msg/records.hpp"

#include <rapidcheck.h>

#include <cstring>
#include <vector>

#include "support/catch.hpp"

using namespace mrc::prov::msg;

namespace {

const RecordType kTypes[] = {RecordType::kEager,    RecordType::kRts,          RecordType::kCts,
                             RecordType::kFin,      RecordType::kAck,          RecordType::kCredit,
                             RecordType::kWrite,    RecordType::kWriteRequest, RecordType::kReadRequest,
                             RecordType::kReadData, RecordType::kAtomic};

}  // namespace

TEST_CASE("an EAGER record has the documented bytes") {
  Record r;
  r.type = RecordType::kEager;
  r.flags = kFlagTagged | kFlagCqData;
  r.sequence = 0x01020304;
  r.op = 0x11121314;
  r.tag = 0x2122232425262728;
  r.data = 0x3132333435363738;
  std::vector<std::byte> out(kMaxRecordHead);
  const std::byte text[] = {std::byte{0xaa}, std::byte{0xbb}};
  r.bytes = text;
  REQUIRE(encode(r, out.data()) == 32);
  const unsigned char expected[] = {0x01, 0x03, 0,    0,    0,    0,    0,    26,   0x01, 0x02, 0x03,
                                    0x04, 0x11, 0x12, 0x13, 0x14, 0x21, 0x22, 0x23, 0x24, 0x25, 0x26,
                                    0x27, 0x28, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38};
  REQUIRE(std::memcmp(out.data(), expected, sizeof expected) == 0);
}

TEST_CASE("records come back as they were sent") {
  REQUIRE(rc::check("encode, decode", [] {
    Record r;
    r.type = *rc::gen::elementOf(std::vector<RecordType>(std::begin(kTypes), std::end(kTypes)));
    r.flags = static_cast<std::uint8_t>(*rc::gen::inRange(0, 8));
    r.context = *rc::gen::arbitrary<std::uint16_t>();
    const auto any64 = rc::gen::arbitrary<std::uint64_t>();
    const auto any32 = rc::gen::arbitrary<std::uint32_t>();
    const auto bytes = *rc::gen::arbitrary<std::vector<std::uint8_t>>();
    const std::span<const std::byte> data(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
    const bool atomic = r.type == RecordType::kAtomic;
    const bool segmented = r.type == RecordType::kWrite || r.type == RecordType::kWriteRequest ||
                           r.type == RecordType::kReadRequest || atomic;
    r.sequence = r.ordered() ? *any32 : 0;
    r.op = r.type == RecordType::kCredit ? 0 : *any32;
    if (r.type == RecordType::kEager || r.type == RecordType::kRts) r.tag = *any64;
    if (r.type == RecordType::kCts || r.type == RecordType::kReadRequest || atomic) r.handle = *any32;
    if (r.type == RecordType::kCts) r.base = *any64;
    if (r.type == RecordType::kFin) r.status = *any32;
    if (r.type == RecordType::kRts || r.type == RecordType::kCts) r.length = *any64;
    if (r.ordered() && r.type != RecordType::kReadRequest) r.data = *any64;
    if (r.type == RecordType::kCredit) {
      r.credit_messages = *any32;
      r.credit_requests = *any32;
      r.credit_bytes = *any64;
    }
    if (r.type == RecordType::kEager || r.type == RecordType::kWrite || r.type == RecordType::kReadData) r.bytes = data;
    if (r.type == RecordType::kEager) r.length = data.size();
    if (atomic) {
      r.atomic.datatype = *rc::gen::arbitrary<std::uint8_t>();
      r.atomic.op = *rc::gen::arbitrary<std::uint8_t>();
      r.atomic.kind = *rc::gen::element(AtomicClass::kBase, AtomicClass::kFetch);
      r.bytes = data.first(operand_length(r.atomic, data.size()));
    }
    if (segmented) {
      r.segment_count =
          r.type == RecordType::kWrite || atomic ? 1 : *rc::gen::inRange<std::uint32_t>(1, kMaxSegments + 1);
      for (std::uint32_t i = 0; i < r.segment_count; ++i) {
        r.segments[i] = {*any64, *any64, r.segment_count == 1 ? data.size() : *any64 >> 3};
        r.length += r.segments[i].length;
      }
    }
    std::vector<std::byte> wire(kMaxRecordHead);
    wire.resize(encode(r, wire.data()));
    RC_ASSERT(wire.size() == head_length(r.type, r.segment_count));
    wire.insert(wire.end(), r.bytes.begin(), r.bytes.end());
    wire.push_back(std::byte{0x5a});

    std::span<const std::byte> in(wire);
    Record back;
    RC_ASSERT(decode(in, back));
    RC_ASSERT(in.size() == 1u);
    RC_ASSERT(back.type == r.type && back.flags == r.flags && back.context == r.context &&
              back.sequence == r.sequence && back.op == r.op);
    RC_ASSERT(back.handle == r.handle && back.status == r.status && back.tag == r.tag && back.data == r.data);
    RC_ASSERT(back.length == r.length && back.base == r.base && back.segment_count == r.segment_count);
    RC_ASSERT(back.credit_messages == r.credit_messages && back.credit_requests == r.credit_requests);
    RC_ASSERT(back.credit_bytes == r.credit_bytes);
    RC_ASSERT(back.atomic.datatype == r.atomic.datatype && back.atomic.op == r.atomic.op);
    RC_ASSERT(back.atomic.kind == r.atomic.kind);
    RC_ASSERT(std::equal(back.bytes.begin(), back.bytes.end(), r.bytes.begin(), r.bytes.end()));
    for (std::uint32_t i = 0; i < r.segment_count; ++i)
      RC_ASSERT(back.segments[i].key == r.segments[i].key && back.segments[i].address == r.segments[i].address &&
                back.segments[i].length == r.segments[i].length);
  }));
}

TEST_CASE("no bytes crash the decoder, and it always gets on or stops") {
  REQUIRE(rc::check("random bytes", [](std::vector<std::uint8_t> bytes) {
    // Mostly plausible heads, so that it gets further than the first check.
    if (bytes.size() > 8) {
      bytes[0] = static_cast<std::uint8_t>(kTypes[bytes[0] % std::size(kTypes)]);
      bytes[4] = bytes[5] = bytes[6] = 0;
    }
    std::span<const std::byte> in(reinterpret_cast<const std::byte*>(bytes.data()), bytes.size());
    Record r;
    while (!in.empty()) {
      const auto before = in.size();
      if (!decode(in, r)) break;
      RC_ASSERT(in.size() < before);
      RC_ASSERT(r.segment_count <= kMaxSegments);
    }
  }));
}

TEST_CASE("mailbox heads of other versions are refused") {
  std::byte wire[kMailHead];
  REQUIRE(encode(MailHead{7, 9}, wire) == kMailHead);
  std::span<const std::byte> in(wire);
  MailHead head;
  REQUIRE(decode(in, head));
  REQUIRE((head.session == 7 && head.peer_session == 9 && in.empty()));
  in = std::span<const std::byte>(wire).first(kMailHead - 1);
  REQUIRE_FALSE(decode(in, head));
  wire[0] = std::byte{2};
  in = wire;
  REQUIRE_FALSE(decode(in, head));
}
