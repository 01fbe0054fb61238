// SPDX-License-Identifier: BSD-2-Clause
// "Not here" for ops tables: no ops pointer may be NULL, because hooks call them without looking.
#pragma once

#include <rdma/fi_errno.h>

#include <type_traits>

namespace mrc::prov {

/// Converts to any function pointer; the function returns -FI_ENOSYS (a null pointer or 0 where there is no sign).
struct NoSys {
  template <class R, class... Args>
  using Function = R (*)(Args...);

  template <class R, class... Args>
  constexpr operator Function<R, Args...>() const {  // NOLINT(google-explicit-constructor): that is its purpose
    return [](Args...) -> R {
      if constexpr (std::is_pointer_v<R>) {
        return nullptr;
      } else if constexpr (std::is_signed_v<R>) {
        return -FI_ENOSYS;
      } else {
        return R{};
      }
    };
  }
};
inline constexpr NoSys nosys{};

}  // namespace mrc::prov
