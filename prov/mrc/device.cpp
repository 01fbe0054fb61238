// SPDX-License-Identifier: BSD-2-Clause
// The registry of device memory.
#include "device.hpp"

#include <map>
#include <new>

namespace mrc::prov::device {

std::size_t registered = 0;

namespace {

struct Counted {
  Allocation allocation;
  std::size_t users = 0;
};

/// By base address: allocations do not overlap.
std::map<std::uintptr_t, Counted>& table() {
  static auto* all = new std::map<std::uintptr_t, Counted>;  // endpoints may outlive destructors of statics
  return *all;
}

}  // namespace

void add(const Allocation& allocation) {
  Counted& entry = table()[allocation.base];
  entry.allocation = allocation;
  ++entry.users;
  registered = table().size();
}

void remove(std::uintptr_t base) {
  const auto at = table().find(base);
  if (at == table().end()) return;
  if (--at->second.users == 0) table().erase(at);
  registered = table().size();
}

const Allocation* find(const void* address) {
  if (!any()) return nullptr;
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  auto at = table().upper_bound(wanted);
  if (at == table().begin()) return nullptr;
  const Allocation& found = (--at)->second.allocation;
  return wanted - found.base < found.length ? &found : nullptr;
}

bool among(std::span<const engine::GatherPiece> pieces) {
  if (!any()) return false;
  for (const auto& piece : pieces)
    if (piece.length != 0 && find(piece.base) != nullptr) return true;
  return false;
}

bool copy_from(void* host, const void* at, std::size_t length) {
  if (length == 0) return true;
  if (const Allocation* on = find(at)) return on->copier->read(host, at, length, on->context);
  std::memcpy(host, at, length);
  return true;
}

bool copy_to(void* at, const void* host, std::size_t length) {
  if (length == 0) return true;
  if (const Allocation* on = find(at)) return on->copier->write(at, host, length, on->context);
  std::memcpy(at, host, length);
  return true;
}

Staging stage(std::span<const engine::GatherPiece> pieces, std::size_t length) {
  if (!among(pieces)) return nullptr;
  return Staging(new (std::nothrow) std::byte[length]);
}

bool gather(std::byte* host, std::span<const engine::GatherPiece> pieces) {
  for (const auto& piece : pieces) {
    if (!copy_from(host, piece.base, piece.length)) return false;
    host += piece.length;
  }
  return true;
}

}  // namespace mrc::prov::device
