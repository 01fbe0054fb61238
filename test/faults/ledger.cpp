// SPDX-License-Identifier: BSD-2-Clause
// Contents: each operation has bytes of its own, and a byte that no operation sends marks memory not written yet, so
// that a byte in the wrong place, written twice or never, is seen.
#include "ledger.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "mrc/random.hpp"

namespace mrc::faults {
namespace {

constexpr std::byte kCanary{0xee};
constexpr std::size_t kGuard = 64;
constexpr std::size_t kSourceBytes = std::size_t{8} << 20;

/// Random bytes without the canary; each operation sends another part of them.
const std::vector<std::byte>& source_bytes() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> made(kSourceBytes);
    Random random(4242);
    for (std::size_t i = 0; i < made.size(); i += 8) {
      const std::uint64_t word = random.next();
      std::memcpy(&made[i], &word, 8);
    }
    std::replace(made.begin(), made.end(), kCanary, std::byte{0x11});
    return made;
  }();
  return bytes;
}

bool all_canary(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == kCanary; });
}

}  // namespace

Ledger::Ledger(const Plan& plan) {
  Random random(plan.seed ^ 0x6c65646765726573u);
  for (const Operation& op : plan.operations) {
    Entry entry;
    entry.op = op;
    entry.index = static_cast<std::uint32_t>(entries_.size());
    entry.source = source_bytes().data() + random.below(static_cast<std::uint32_t>(kSourceBytes - op.length));
    entry.va = random.next() >> 8;
    entry.imm = static_cast<std::uint32_t>(random.next());
    entries_.push_back(std::move(entry));
  }
  unfinished_ = static_cast<std::uint32_t>(entries_.size());
}

void Ledger::violate(const std::string& what, const std::string& details) {
  if (!violation_.empty()) return;
  violation_ = what;
  details_ = details;
}

transport::WriteRequest Ledger::request(const Entry& entry) const {
  transport::WriteRequest request;
  request.va = entry.va;
  request.rkey = (entry.op.fate == Fate::kBadKey ? kBadKey : kKey) + entry.index;
  request.length = entry.op.length;
  request.source = &entry;  // gathered by the system, which also wants to know whose it is
  request.cookie = entry.index;
  request.has_imm = entry.op.imm;
  request.imm = entry.imm;
  request.urgent = entry.op.urgent;
  request.semantic = entry.op.semantic;
  return request;
}

void Ledger::posted(Entry& entry, Tick now, std::uint32_t from_epoch) {
  entry.state = OpState::kPosted;
  entry.posted = now;
  entry.from_epoch = from_epoch;
  entry.serial = ++posts_;
}

void Ledger::give_up(Entry& entry) {
  if (entry.state == OpState::kDone || entry.state == OpState::kVoid) return;
  entry.state = OpState::kVoid;
  --unfinished_;
}

void Ledger::renew(Entry& entry, std::uint32_t epoch) {
  entry.to_epoch = epoch;
  entry.memory.assign(entry.op.length + 2 * kGuard, kCanary);
  entry.placed = 0;
  entry.empty_placed = 0;
  entry.immediates = 0;
}

transport::Placement Ledger::place(const transport::RxWrite& write, std::uint32_t node, std::uint32_t epoch) {
  const bool bad_key = write.rkey >= kBadKey;
  const std::uint32_t index = write.rkey - (bad_key ? kBadKey : kKey);
  if (write.rkey < kKey || index >= entries_.size()) {
    violate("a packet names memory that nobody has", fmt::format("node {}, key {:#x}", node, write.rkey));
    return transport::Placement::kRefused;
  }
  Entry& entry = entries_[index];
  if (entry.op.to != node) {
    violate("a packet reached the wrong node", fmt::format("operation {}, node {}", index, node));
  }
  if (write.message_length != entry.op.length) {
    violate("a packet tells the wrong length of its message",
            fmt::format("operation {}: {} of {}", index, write.message_length, entry.op.length));
  }
  if (entry.state == OpState::kWaiting) {
    violate("a packet arrived of an operation not yet posted", fmt::format("operation {}", index));
  }
  const std::uint64_t offset = write.va - entry.va;
  if (offset > entry.op.length || write.payload.size() > entry.op.length - offset) {
    violate("a packet points outside its operation's memory",
            fmt::format("operation {}: {} B at {} of {}", index, write.payload.size(), offset, entry.op.length));
    return transport::Placement::kRefused;
  }
  if (bad_key || (entry.op.fate == Fate::kBeyond && offset + write.payload.size() > entry.op.length / 2)) {
    ++entry.refused;
    return transport::Placement::kRefused;
  }
  if (entry.memory.empty() || entry.to_epoch != epoch) renew(entry, epoch);
  if (!right_place(entry, write, offset)) return transport::Placement::kRefused;
  entry.placed += write.payload.size();
  if (entry.op.length == 0 ? entry.empty_placed == 1 : entry.placed == entry.op.length) entry.complete = true;
  return transport::Placement::kPlaced;
}

bool Ledger::right_place(Entry& entry, const transport::RxWrite& write, std::uint64_t offset) {
  const std::size_t size = write.payload.size();
  const auto where = [&] { return fmt::format("operation {}: {} B at {}", entry.index, size, offset); };
  if (std::memcmp(write.payload.data(), entry.source + offset, size) != 0) {
    violate("a packet carries the wrong bytes", where());
    return false;
  }
  const std::span target(entry.memory.data() + kGuard + offset, size);
  if (!all_canary(target) || (size == 0 && entry.empty_placed++ != 0)) {
    violate("a packet was placed twice", where());
    return false;
  }
  if (size == 0 && entry.op.length != 0) violate("an empty packet arrived of a message that is not empty", where());
  if (entry.state == OpState::kDone && entry.status == transport::Status::kOk) {
    violate("a packet was placed after its operation had completed", where());
    return false;
  }
  const bool last = offset + size == entry.op.length;
  if (write.has_imm != (entry.op.imm && last) || (write.has_imm && write.imm != entry.imm)) {
    violate("immediate data is missing, wrong or in the wrong packet", where());
  }
  if (size != 0) std::memcpy(target.data(), write.payload.data(), size);
  return true;
}

Entry* Ledger::find(std::uint64_t cookie) {
  if (cookie < entries_.size()) return &entries_[cookie];
  violate("an operation completed that nobody posted", fmt::format("cookie {}", cookie));
  return nullptr;
}

void Ledger::done(std::uint32_t node, std::uint32_t epoch, const transport::Event& event, Tick now, bool pardoned) {
  Entry* found = find(event.cookie);
  if (found == nullptr) return;
  Entry& entry = *found;
  const std::string who = fmt::format("operation {} ({}), status {}, at {} ns", entry.index, to_string(entry.op),
                                      static_cast<int>(event.status), now.ns);
  if (entry.state == OpState::kVoid) return;
  if (entry.state != OpState::kPosted || entry.op.from != node || entry.from_epoch != epoch) {
    return violate(
        entry.state == OpState::kDone ? "an operation completed twice" : "an operation completed that was not posted",
        who);
  }
  entry.state = OpState::kDone;
  entry.status = event.status;
  --unfinished_;
  if (event.status == transport::Status::kOk) {
    if (entry.op.fate != Fate::kGood) return violate("a write completed that the peer refused", who);
    if (!entry.complete) return violate("an operation completed before all its bytes were there", who);
    if (entry.op.imm && entry.immediates == 0) return violate("a WriteImm completed and its target was not told", who);
    const auto* memory = entry.memory.data();
    const std::size_t length = entry.op.length;
    if (entry.placed == length && std::memcmp(memory + kGuard, entry.source, length) != 0) {
      return violate("memory differs from what was written", who);
    }
    if (!all_canary({memory, kGuard}) || !all_canary({memory + kGuard + length, kGuard})) {
      return violate("bytes were written outside registered memory", who);
    }
    return;
  }
  if (event.status == transport::Status::kAccess) {
    if (entry.op.fate == Fate::kGood) violate("a write was refused that names the right memory", who);
    return;
  }
  if (!pardoned) violate("an operation failed although its peer was there all the time", who);
}

/// Everything that the peer sent before is in place, and events come in the order of posting.
void Ledger::immediate(std::uint32_t node, std::uint32_t peer, std::uint32_t epoch, const transport::Event& event) {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return e.op.imm && e.imm == event.imm && e.op.from == peer && e.op.to == node;
  });
  const auto who = fmt::format("node {}, from node {}, immediate {:#x}", node, peer, event.imm);
  if (found == entries_.end()) return violate("immediate data came that nobody sent", who);
  Entry& entry = *found;
  if (entry.op.fate != Fate::kGood) return;
  if (entry.to_epoch != epoch || !entry.complete || event.length != entry.op.length) {
    return violate("immediate data came before its write was in place", who);
  }
  if (entry.immediates++ != 0) return violate("immediate data came twice", who);
  for (const Entry& other : entries_) {
    if (&other == &entry || other.op.from != peer || other.op.to != node || other.from_epoch != entry.from_epoch ||
        other.serial == 0 || other.op.fate != Fate::kGood) {
      continue;
    }
    const bool here = other.to_epoch == epoch;
    const bool failed = other.state == OpState::kDone && other.status != transport::Status::kOk;
    if (other.serial < entry.serial && !failed && !(other.complete && (here || other.state == OpState::kDone))) {
      return violate("immediate data came before what was written earlier",
                     who + fmt::format(", operation {} before {}", other.index, entry.index));
    }
    if (other.serial > entry.serial && here && other.immediates != 0) {
      return violate("immediate data came out of order", who + fmt::format(", operation {}", entry.index));
    }
  }
}

}  // namespace mrc::faults
