// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo itself: check, copy, narrow, put addresses in.
#include "info.hpp"

#include <cstdlib>
#include <cstring>

#include "log.hpp"
#include "params.hpp"

namespace mrc::prov {

namespace {

int set_address(const Sockaddr& from, void*& to, std::size_t& length) {
  to = std::malloc(from.length);
  if (to == nullptr) return -FI_ENOMEM;
  std::memcpy(to, &from.any, from.length);
  length = from.length;
  return 0;
}

}  // namespace

int getinfo(std::uint32_t version, const char* node, const char* service, std::uint64_t flags, const fi_info* hints,
            fi_info** out) {
  const fi_info* base = base_info();
  // A wrong knob was told in words; libfabric and its callers take any other code for a broken provider.
  if (base == nullptr) return -FI_ENODATA;
  if (hints != nullptr) {
    if (const int error = check_hints(version, *base, *hints, params()->service_thread)) return error;
  }
  Addresses addresses;
  const bool attributes_only = (flags & FI_PROV_ATTR_ONLY) != 0;
  if (!attributes_only) {
    if (const int error = resolve_addresses(node, service, flags, hints, addresses)) return error;
  }

  fi_info* info = duplicate(*base);
  if (info == nullptr) return -FI_ENOMEM;
  apply_hints(version, hints, *info);
  int error = 0;
  if (!attributes_only) {
    info->addr_format = addresses.format;
    error = set_address(addresses.source, info->src_addr, info->src_addrlen);
    if (error == 0 && addresses.has_destination)
      error = set_address(addresses.destination, info->dest_addr, info->dest_addrlen);
  }
  if (error != 0) {
    release(info);
    return error;
  }
  *out = info;
  return 0;
}

}  // namespace mrc::prov
