// SPDX-License-Identifier: BSD-2-Clause
// Who holds how much of the heap: every operator new of this program notes on whose behalf it was made, with what
// malloc really set aside for it. Threads: one.
#pragma once

#include <cstddef>

namespace mrc::test {

enum class Owner : unsigned char { kTest, kMeasured };

class OnBehalfOf {
 public:
  explicit OnBehalfOf(Owner owner);
  ~OnBehalfOf();
  OnBehalfOf(const OnBehalfOf&) = delete;
  OnBehalfOf& operator=(const OnBehalfOf&) = delete;

 private:
  Owner before_;
};

/// Bytes that it holds now, malloc's own overhead included.
std::size_t held_by(Owner owner);

}  // namespace mrc::test
