// SPDX-License-Identifier: BSD-2-Clause
// The full half of the audit: every segment, record, message and list entry, each owned exactly once.
#pragma once

#include <span>

#include "mrc/transport/audit.hpp"
#include "mrc/transport/state.hpp"

namespace mrc::transport {

class AuditWalk {
 public:
  static std::size_t scratch(const Core::State& state);
  AuditWalk(const Core::State& state, std::span<std::uint32_t> scratch);
  Finding run();
  std::uint32_t records() const { return records_; }

 private:
  Finding check_segments(ConnId id);
  Finding check_records(ConnId id);
  Finding check_planes(ConnId id);
  Finding check_messages(ConnId id);
  Finding check_queue(ConnId id, const IndexQueue& queue, bool urgent);
  Finding check_suspects(ConnId id);
  Finding check_connection_lists();
  Finding check_pools();

  const Core::State& s_;
  std::span<std::uint32_t> segment_marks_;  ///< 1 + owner
  std::span<std::uint32_t> message_marks_;  ///< records that were sent and not SACKed
  std::span<std::uint32_t> queue_marks_;    ///< messages: times queued
  std::span<std::uint32_t> suspect_marks_;
  std::uint32_t records_ = 0;
  std::uint32_t segments_ = 0, suspects_ = 0;
};

}  // namespace mrc::transport
