// SPDX-License-Identifier: BSD-2-Clause
// Errors as values: a code for programs and a sentence that tells a person what to do.
// Control paths only; the packet path uses plain enums.
#pragma once

#include <string>
#include <tl/expected.hpp>

namespace mrc {

struct Error {
  int code = 0;      ///< positive errno value (EINVAL, ENODEV, EACCES, …)
  std::string text;  ///< one sentence: what is wrong, and how to mend it
};

template <class T>
using Result = tl::expected<T, Error>;

inline tl::unexpected<Error> fail(int code, std::string text) {
  return tl::unexpected<Error>(Error{code, std::move(text)});
}

}  // namespace mrc
