// SPDX-License-Identifier: BSD-2-Clause
// Walks the state of a core and names the first thing in it that cannot be: for tests, never for the packet path.
// Not part of the core archive: link audit_dep. Sans-IO like the core; its scratch memory is the caller's.
#pragma once

#include <cstdint>
#include <span>

#include "mrc/time.hpp"
#include "mrc/transport/core.hpp"

namespace mrc::transport {

/// `what` is a sentence about what is wrong, nullptr while nothing is. The numbers are what was found and what was
/// expected (or what it must not exceed), in the sentence's own terms.
struct Finding {
  const char* what = nullptr;
  ConnId conn = kNoId;
  std::uint64_t found = 0;
  std::uint64_t expected = 0;
  explicit operator bool() const { return what != nullptr; }
};

/// Counters, windows and deadlines of every connection in use: O(connections × planes), for after every event.
/// To be called between calls of the driver, once poll_tx() has had its turn.
Finding audit_quick(const Core& core, Tick now);

/// Words of scratch that audit_full() needs.
std::size_t audit_scratch(const Core& core);

/// The above, and every record, list, queue and pool: O(everything). `walked`, if given, is set to the number of
/// packet records looked at, so that the caller can spread the cost.
Finding audit_full(const Core& core, Tick now, std::span<std::uint32_t> scratch, std::uint32_t* walked = nullptr);

}  // namespace mrc::transport
