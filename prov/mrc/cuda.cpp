// SPDX-License-Identifier: BSD-2-Clause
// The CUDA driver library, loaded at first use. Copies are synchronous, in the context that owns the memory: they come
// from whichever thread makes progress, which may never have heard of CUDA.
#include "cuda.hpp"

#include <dlfcn.h>
#include <rdma/fi_errno.h>

#include <atomic>
#include <cstdint>

#include "log.hpp"

namespace mrc::prov {

namespace {

// The driver's interface, as cuda.h has it (the part that has not changed since CUDA 4).
using Result = int;
using DevicePtr = unsigned long long;
using Device = int;
using Context = void*;
constexpr Result kSuccess = 0;
constexpr int kAttributeContext = 1;
constexpr int kAttributeMemoryType = 2;
constexpr int kAttributeDeviceOrdinal = 9;
constexpr unsigned kMemoryTypeHost = 1;

DevicePtr pointer(const void* address) {
  return static_cast<DevicePtr>(reinterpret_cast<std::uintptr_t>(address));
}

class Driver final : public Cuda {
 public:
  /// Empty on success, else why not.
  std::string load() {
    library_ = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library_ == nullptr) return "there is no CUDA driver library (libcuda.so.1) on this machine";
    const bool complete = find("cuInit", init_) && find("cuDeviceGetCount", device_count_) &&
                          find("cuDeviceGet", device_get_) && find("cuDevicePrimaryCtxRetain", primary_retain_) &&
                          find("cuCtxPushCurrent_v2", push_) && find("cuCtxPopCurrent_v2", pop_) &&
                          find("cuPointerGetAttribute", attribute_) && find("cuMemGetAddressRange_v2", range_) &&
                          find("cuMemcpyHtoD_v2", to_device_) && find("cuMemcpyDtoH_v2", to_host_);
    if (!complete) return "libcuda.so.1 lacks a function that mrc needs: is it older than CUDA 7?";
    if (const Result code = init_(0); code != kSuccess)
      return "cuInit says " + std::to_string(code) + ": no usable NVIDIA driver";
    int devices = 0;
    if (device_count_(&devices) != kSuccess || devices == 0) return "there is no CUDA device";
    return {};
  }

  bool locate(const void* address, device::Allocation& out, int& error) override {
    error = 0;
    unsigned type = 0;
    // Memory that CUDA has never seen is the host's.
    if (attribute_(&type, kAttributeMemoryType, pointer(address)) != kSuccess || type == kMemoryTypeHost) return false;
    Context context = nullptr;
    // Memory of a pool or of the virtual memory interface has no context: its device's primary one will do.
    if (attribute_(&context, kAttributeContext, pointer(address)) != kSuccess || context == nullptr) {
      int ordinal = 0;
      Device device = 0;
      if (attribute_(&ordinal, kAttributeDeviceOrdinal, pointer(address)) != kSuccess ||
          device_get_(&device, ordinal) != kSuccess || primary_retain_(&context, device) != kSuccess) {
        error = -FI_EIO;
        return false;
      }
    }
    DevicePtr base = 0;
    std::size_t length = 0;
    const bool known =
        within(context, [&] { return range_(&base, &length, pointer(address)) == kSuccess && length != 0; });
    if (!known) {
      error = -FI_EINVAL;
      return false;
    }
    out = {static_cast<std::uintptr_t>(base), length, this, context};
    return true;
  }

  bool read(void* host, const void* at, std::size_t length, void* context) override {
    return within(context, [&] { return told(to_host_(host, pointer(at), length)); });
  }
  bool write(void* at, const void* host, std::size_t length, void* context) override {
    return within(context, [&] { return told(to_device_(pointer(at), host, length)); });
  }

 private:
  template <class Function>
  bool find(const char* name, Function& out) {
    out = reinterpret_cast<Function>(dlsym(library_, name));
    return out != nullptr;
  }
  template <class Body>
  bool within(Context context, Body&& body) {
    if (!told(push_(context))) return false;
    const bool good = body();
    Context popped = nullptr;
    pop_(&popped);
    return good;
  }
  bool told(Result code) {
    if (code != kSuccess && !warned_.exchange(true))
      MRC_WARN(MR, "CUDA error %d while copying device memory; operations on it fail", code);
    return code == kSuccess;
  }

  void* library_ = nullptr;
  std::atomic<bool> warned_{false};
  Result (*init_)(unsigned) = nullptr;
  Result (*device_count_)(int*) = nullptr;
  Result (*device_get_)(Device*, int) = nullptr;
  Result (*primary_retain_)(Context*, Device) = nullptr;
  Result (*push_)(Context) = nullptr;
  Result (*pop_)(Context*) = nullptr;
  Result (*attribute_)(void*, int, DevicePtr) = nullptr;
  Result (*range_)(DevicePtr*, std::size_t*, DevicePtr) = nullptr;
  Result (*to_device_)(DevicePtr, const void*, std::size_t) = nullptr;
  Result (*to_host_)(void*, DevicePtr, std::size_t) = nullptr;
};

}  // namespace

Cuda* Cuda::instance(std::string* why) {
  struct Loaded {
    Driver driver;
    std::string why;
    Loaded() : why(driver.load()) {}
  };
  static auto* loaded = new Loaded;  // copies may still run while statics are destroyed
  if (why != nullptr) *why = loaded->why;
  return loaded->why.empty() ? &loaded->driver : nullptr;
}

}  // namespace mrc::prov
