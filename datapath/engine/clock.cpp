// SPDX-License-Identifier: BSD-2-Clause
// CLOCK_MONOTONIC as Tick.
#include "mrc/engine/clock.hpp"

#include <ctime>

namespace mrc::engine {
namespace {

class MonotonicClock final : public Clock {
 public:
  Tick now() override {
    timespec t{};
    clock_gettime(CLOCK_MONOTONIC, &t);
    return {static_cast<std::int64_t>(t.tv_sec) * 1'000'000'000 + t.tv_nsec};
  }
};

}  // namespace

Clock& monotonic_clock() {
  static MonotonicClock clock;
  return clock;
}

}  // namespace mrc::engine
