// SPDX-License-Identifier: BSD-2-Clause
// A shared object linked as the provider is: needed_test.py looks at what it needs and exports.
#include "mrc/port/port.hpp"

extern "C" __attribute__((visibility("default"))) int mrc_needed_probe() {
  return static_cast<int>(mrc::port::builtin_layer().kinds().size());
}
