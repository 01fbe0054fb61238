// SPDX-License-Identifier: BSD-2-Clause
// The books of a run: what became of each operation, byte by byte, and who is to be forgiven an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mrc/transport/core.hpp"
#include "plan.hpp"

namespace mrc::faults {

enum class OpState : std::uint8_t { kWaiting, kPosted, kDone, kVoid };

/// One operation: where its bytes come from, and the memory that they go to.
struct Entry {
  Operation op;
  std::uint32_t index = 0;
  OpState state = OpState::kWaiting;
  transport::Status status = transport::Status::kOk;
  Tick posted{};
  std::uint32_t from_epoch = 0, to_epoch = 0;
  const std::byte* source = nullptr;
  std::uint64_t va = 0;
  std::uint32_t imm = 0;
  std::vector<std::byte> memory;  ///< guard, registered bytes, guard; made anew for each life of the target
  std::uint64_t placed = 0;
  std::uint32_t empty_placed = 0, refused = 0;
  std::uint32_t serial = 0;      ///< the order of posting
  std::uint32_t immediates = 0;  ///< kImmediate events, in this life of the target
  bool complete = false;         ///< all bytes were there, within one life of the target
};

class Ledger {
 public:
  explicit Ledger(const Plan& plan);

  std::vector<Entry>& entries() { return entries_; }
  std::uint32_t unfinished() const { return unfinished_; }
  /// The first thing that was not as it should be; empty so far.
  const std::string& violation() const { return violation_; }
  const std::string& details() const { return details_; }
  void violate(const std::string& what, const std::string& details);

  transport::WriteRequest request(const Entry& entry) const;
  void posted(Entry& entry, Tick now, std::uint32_t from_epoch);
  void give_up(Entry& entry);  ///< its sender is gone: nobody waits for it any more

  /// Upper::place() of `node` in its life `epoch`.
  transport::Placement place(const transport::RxWrite& write, std::uint32_t node, std::uint32_t epoch);
  /// A kWriteDone event of `node`. `pardoned`: an error of this kind may come.
  void done(std::uint32_t node, std::uint32_t epoch, const transport::Event& event, Tick now, bool pardoned);
  /// A kImmediate event of `node`, from `peer`.
  void immediate(std::uint32_t node, std::uint32_t peer, std::uint32_t epoch, const transport::Event& event);
  /// The entry that `cookie` stands for, nullptr (and a violation) if there is none.
  Entry* find(std::uint64_t cookie);

  static constexpr std::uint32_t kKey = 0x10000, kBadKey = 0x40000000;

 private:
  bool right_place(Entry& entry, const transport::RxWrite& write, std::uint64_t offset);
  void renew(Entry& entry, std::uint32_t epoch);

  std::vector<Entry> entries_;
  std::uint32_t unfinished_ = 0;
  std::uint32_t posts_ = 0;
  std::string violation_, details_;
};

}  // namespace mrc::faults
