// SPDX-License-Identifier: BSD-2-Clause
// A CUDA driver library for tests: libcuda.so.1 with one device whose memory the processor cannot touch (every load or
// store is a fault), as far as mrc uses the driver. Checks that every call comes with the owner's context pushed.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

namespace {

using Result = int;
using DevicePtr = unsigned long long;
constexpr Result kSuccess = 0, kInvalidValue = 1, kInvalidContext = 201;

struct Memory {
  std::size_t length;
  std::byte* alias;  ///< the same bytes, for copies
  bool pooled;       ///< has no context of its own
};
std::map<DevicePtr, Memory> memories;
std::mutex mutex;
int context, primary;
thread_local void* current = nullptr;
Result fail_copies = kSuccess;
std::size_t copies = 0;

std::map<DevicePtr, Memory>::iterator find(DevicePtr at) {
  auto found = memories.upper_bound(at);
  if (found == memories.begin()) return memories.end();
  --found;
  return at - found->first < found->second.length ? found : memories.end();
}

/// The bytes behind a range of device memory; null if it is none.
std::byte* bytes(DevicePtr at, std::size_t length) {
  const auto found = find(at);
  if (found == memories.end() || length > found->second.length - (at - found->first)) return nullptr;
  return found->second.alias + (at - found->first);
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Result cuInit(unsigned) {
  return kSuccess;
}
Result cuDeviceGetCount(int* count) {
  *count = 1;
  return kSuccess;
}
Result cuDeviceGet(int* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? kSuccess : kInvalidValue;
}
Result cuDevicePrimaryCtxRetain(void** out, int) {
  *out = &primary;
  return kSuccess;
}
Result cuCtxPushCurrent_v2(void* wanted) {
  if (current != nullptr) return kInvalidContext;
  current = wanted;
  return kSuccess;
}
Result cuCtxPopCurrent_v2(void** out) {
  *out = current;
  current = nullptr;
  return kSuccess;
}

Result cuPointerGetAttribute(void* out, int attribute, DevicePtr at) {
  const std::lock_guard guard(mutex);
  const auto found = find(at);
  if (found == memories.end()) return kInvalidValue;
  switch (attribute) {
    case 1:
      *static_cast<void**>(out) = found->second.pooled ? nullptr : &context;
      return kSuccess;
    case 2:
      *static_cast<unsigned*>(out) = 2;
      return kSuccess;
    case 9:
      *static_cast<int*>(out) = 0;
      return kSuccess;
    default:
      return kInvalidValue;
  }
}

Result cuMemGetAddressRange_v2(DevicePtr* base, std::size_t* length, DevicePtr at) {
  const std::lock_guard guard(mutex);
  const auto found = find(at);
  if (found == memories.end()) return kInvalidValue;
  *base = found->first;
  *length = found->second.length;
  return kSuccess;
}

Result cuMemcpyHtoD_v2(DevicePtr to, const void* from, std::size_t length) {
  const std::lock_guard guard(mutex);
  if (current == nullptr) return kInvalidContext;
  if (fail_copies != kSuccess) return fail_copies;
  std::byte* at = bytes(to, length);
  if (at == nullptr) return kInvalidValue;
  std::memcpy(at, from, length);
  ++copies;
  return kSuccess;
}

Result cuMemcpyDtoH_v2(void* to, DevicePtr from, std::size_t length) {
  const std::lock_guard guard(mutex);
  if (current == nullptr) return kInvalidContext;
  if (fail_copies != kSuccess) return fail_copies;
  const std::byte* at = bytes(from, length);
  if (at == nullptr) return kInvalidValue;
  std::memcpy(to, at, length);
  ++copies;
  return kSuccess;
}

/// For the tests: memory of the device, and where its bytes can be looked at.
void* stub_allocate(std::size_t length, int pooled, void** alias) {
  const int fd = memfd_create("device", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(length)) != 0) return nullptr;
  void* device = mmap(nullptr, length, PROT_NONE, MAP_SHARED, fd, 0);
  *alias = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  const std::lock_guard guard(mutex);
  memories[reinterpret_cast<std::uintptr_t>(device)] = {length, static_cast<std::byte*>(*alias), pooled != 0};
  return device;
}
void stub_free(void* device) {
  const std::lock_guard guard(mutex);
  const auto found = memories.find(reinterpret_cast<std::uintptr_t>(device));
  munmap(device, found->second.length);
  munmap(found->second.alias, found->second.length);
  memories.erase(found);
}
void stub_fail_copies(int result) {
  const std::lock_guard guard(mutex);
  fail_copies = result;
}
std::size_t stub_copies() {
  const std::lock_guard guard(mutex);
  return copies;
}

}  // extern "C"
#pragma GCC visibility pop
