// SPDX-License-Identifier: BSD-2-Clause
// NVIDIA's memory by way of the CUDA driver library, which is looked for only when somebody asks for FI_HMEM: mrc is
// neither built nor linked against it. Source: CUDA Driver API (cuMemGetAddressRange, cuPointerGetAttribute,
// cuMemcpy…).
#pragma once

#include <string>

#include "device.hpp"

namespace mrc::prov {

class Cuda : public device::Copier {
 public:
  /// The process's; null without driver or device, `why` then says so. Any thread.
  static Cuda* instance(std::string* why = nullptr);

  /// The allocation that `address` lies in. False if it is not the device's (then it is the host's, pinned or not).
  /// False and `error` set (negative FI_E…) if the driver does not know it.
  virtual bool locate(const void* address, device::Allocation& out, int& error) = 0;
};

}  // namespace mrc::prov
