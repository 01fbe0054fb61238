// SPDX-License-Identifier: BSD-2-Clause
// The address vector itself; av_ops.cpp is what libfabric calls.
#include "av.hpp"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "domain.hpp"
#include "log.hpp"

namespace mrc::prov {

extern fi_ops av_fid_ops;
extern fi_ops_av av_ops;

AvObject::AvObject(DomainObject& domain, const fi_av_attr& attr, void* context)
    : domain_(domain),
      type_(attr.type == FI_AV_TABLE ? FI_AV_TABLE : FI_AV_MAP),
      ipv6_(domain.info().addr_format == FI_SOCKADDR_IN6),
      events_((attr.flags & FI_EVENT) != 0) {
  handle_.self = this;
  handle_.fid.fid = {FI_CLASS_AV, context, &av_fid_ops};
  handle_.fid.ops = &av_ops;
  constexpr std::size_t kHint = std::size_t{1} << 20;
  entries_.reserve(std::min(attr.count, kHint));
  domain_.hold();
}

AvObject::~AvObject() {
  if (eq_ != nullptr) eq_->drop();
  domain_.drop();
}

std::optional<EndpointName> AvObject::name(fi_addr_t address) const {
  if (address >= entries_.size() || entries_[address].uses == 0) return std::nullopt;
  return entries_[address].name;
}

fi_addr_t AvObject::find(const EndpointName& name) const {
  const auto at = index_.find(hash_key(name));
  return at == index_.end() ? FI_ADDR_NOTAVAIL : at->second;
}

void AvObject::listen(Listener* listener) {
  listeners_.push_back(listener);
  hold();
}

void AvObject::unlisten(Listener* listener) {
  if (std::erase(listeners_, listener) != 0) drop();
}

int AvObject::insert_locked(const void* raw, bool fresh, fi_addr_t& out) {
  out = FI_ADDR_NOTAVAIL;
  auto name = raw != nullptr ? name_of(raw, address_length()) : std::nullopt;
  if (!name || !is_peer(*name)) return FI_EINVAL;
  name->ipv4 = domain_.engine().canonical(name->ipv4);

  const auto known = index_.find(hash_key(*name));
  if (known != index_.end() && !fresh) {
    ++entries_[known->second].uses;
    out = known->second;
    return 0;
  }
  std::uint32_t index = 0;
  if (free_.empty()) {
    index = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back();
    free_.reserve(entries_.capacity());  // so that removing never allocates
  } else {
    index = free_.back();
    free_.pop_back();
  }
  Entry& entry = entries_[index];
  entry.name = *name;
  entry.raw.length = static_cast<socklen_t>(address_length());
  std::memcpy(&entry.raw.v6, raw, entry.raw.length);
  entry.uses = 1;
  index_.try_emplace(hash_key(*name), index);
  out = index;
  return 0;
}

int AvObject::remove(const fi_addr_t* addresses, std::size_t count) {
  const std::lock_guard guard(domain_.engine());
  int result = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const fi_addr_t address = addresses[i];
    if (address >= entries_.size() || entries_[address].uses == 0) {
      MRC_INFO(AV, "fi_av_remove of address %llu, which is not in the vector",
               static_cast<unsigned long long>(address));
      result = -FI_EINVAL;
      continue;
    }
    Entry& entry = entries_[address];
    if (--entry.uses != 0) continue;
    for (Listener* listener : listeners_) listener->on_av_remove(address);
    const auto first = index_.find(hash_key(entry.name));
    if (first != index_.end() && first->second == address) {
      index_.erase(first);
      // Another index may carry the same name (tables that the application counts itself).
      for (std::size_t other = 0; other < entries_.size(); ++other) {
        if (entries_[other].uses == 0 || !(entries_[other].name == entry.name)) continue;
        index_.emplace(hash_key(entry.name), static_cast<std::uint32_t>(other));
        break;
      }
    }
    free_.push_back(static_cast<std::uint32_t>(address));
  }
  return result;
}

int AvObject::lookup(fi_addr_t address, void* out, std::size_t* length) const {
  const std::lock_guard guard(domain_.engine());
  if (address >= entries_.size() || entries_[address].uses == 0) return -FI_EINVAL;
  const Sockaddr& raw = entries_[address].raw;
  if (out != nullptr) std::memcpy(out, &raw.any, std::min<std::size_t>(*length, raw.length));
  *length = raw.length;
  return 0;
}

int AvObject::bind_eq(EqObject* eq) {
  if (eq == nullptr || eq_ != nullptr) return -FI_EINVAL;
  eq_ = eq;
  eq_->hold();
  return 0;
}

}  // namespace mrc::prov
