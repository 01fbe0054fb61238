// SPDX-License-Identifier: BSD-2-Clause
// The engine's clock: read once a pass. Injected, so that tests decide what time it is.
#pragma once

#include "mrc/time.hpp"

namespace mrc::engine {

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Tick now() = 0;  ///< monotonic; any thread
};

/// CLOCK_MONOTONIC through the vDSO (about 20 ns); the same origin in every process of a host.
Clock& monotonic_clock();

}  // namespace mrc::engine
