// SPDX-License-Identifier: BSD-2-Clause
// The built-in layer (memif, af_packet, tap) and the way to the second object for the rest.
#include <dlfcn.h>
#include <fmt/format.h>

#include <cerrno>
#include <map>
#include <mutex>

#include "datapath/port/layer.hpp"

namespace mrc::port {

PortLayer& builtin_layer() {
  static auto* const layer = new DpdkLayer(false);  // never destroyed: EAL's threads live until exit
  return *layer;
}

Result<PortLayer*> layer_for(PortKind kind, const std::string& directory) {
  if (kind == PortKind::kMemif || kind == PortKind::kAfPacket || kind == PortKind::kTap) return &builtin_layer();
  if (kind == PortKind::kOther) return fail(EINVAL, "no DPDK driver is known for this kind of port");

  static std::mutex mutex;
  static PortLayer* loaded = nullptr;
  const std::lock_guard lock(mutex);
  if (loaded != nullptr) return loaded;
  const std::string path = directory.empty() ? kPortsObject : directory + "/" + kPortsObject;
  void* object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (object == nullptr) {
    const char* why = dlerror();
    return fail(ENOENT, fmt::format("af_xdp, pci and mlx5 ports need {} next to the provider, and it cannot be loaded: "
                                    "{}",
                                    path, why == nullptr ? "no reason given" : why));
  }
  using Entry = PortLayer* (*)();
  const auto entry = reinterpret_cast<Entry>(dlsym(object, kPortsSymbol));
  if (entry == nullptr)
    return fail(ELIBBAD, fmt::format("{} is not of this version of mrc: it has no {}", path, kPortsSymbol));
  loaded = entry();
  return loaded;
}

}  // namespace mrc::port
