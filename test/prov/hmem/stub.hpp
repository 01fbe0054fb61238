// SPDX-License-Identifier: BSD-2-Clause
// The tests' side of the stub of CUDA's driver library: device memory that can be looked into.
#pragma once

#include <dlfcn.h>

#include <cstddef>
#include <span>

#include "support/catch.hpp"

namespace mrc::test {

/// A function of the libcuda.so.1 that LD_LIBRARY_PATH names: the stub.
template <class Function>
Function stub(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  void* const found = dlsym(library, name);
  REQUIRE(found != nullptr);
  return reinterpret_cast<Function>(found);
}

inline void fail_copies(int result) {
  stub<void (*)(int)>("stub_fail_copies")(result);
}
inline std::size_t copies() {
  return stub<std::size_t (*)()>("stub_copies")();
}

class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t length, bool pooled = false) : length_(length) {
    void* bytes = nullptr;
    device_ = stub<void* (*)(std::size_t, int, void**)>("stub_allocate")(length, pooled, &bytes);
    REQUIRE(device_ != nullptr);
    bytes_ = static_cast<std::byte*>(bytes);
  }
  ~DeviceMemory() { stub<void (*)(void*)>("stub_free")(device_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  /// What programs hand over. Reading or writing there is a fault.
  std::byte* device() const { return static_cast<std::byte*>(device_); }
  /// The same bytes, as the device sees them.
  std::span<std::byte> bytes() const { return {bytes_, length_}; }

 private:
  void* device_;
  std::byte* bytes_;
  std::size_t length_;
};

}  // namespace mrc::test
