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

AvObject::AvObject(DomainObject& domain, const fi_av_attr& attr, std::unique_ptr<SharedAv> shared, void* context)
    : domain_(domain),
      type_(attr.type == FI_AV_TABLE ? FI_AV_TABLE : FI_AV_MAP),
      ipv6_(domain.info().addr_format == FI_SOCKADDR_IN6),
      events_((attr.flags & FI_EVENT) != 0),
      bits_(attr.rx_ctx_bits),
      shared_(std::move(shared)) {
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

/// One entry of the shared vector, as it is now.
void AvObject::adopt(std::size_t index) const {
  if (index >= entries_.size()) entries_.resize(index + 1);
  Entry& mine = entries_[index];
  const SharedAv::Entry& theirs = shared_->entry(index);
  if (mine.uses != 0 && theirs.uses == 0) drop_name(index);
  const bool fresh = mine.uses == 0 && theirs.uses != 0;
  mine.uses = theirs.uses;
  if (!fresh) return;
  const auto name = name_of(&theirs.raw.any, std::min<std::size_t>(theirs.raw.length, sizeof theirs.raw.v6));
  if (!name || !is_peer(*name)) {
    mine.uses = 0;
    return;
  }
  mine.name = *name;
  mine.name.ipv4 = domain_.engine().canonical(name->ipv4);
  mine.raw = theirs.raw;
  mine.raw.length = static_cast<socklen_t>(address_length());
  index_.try_emplace(hash_key(mine.name), static_cast<std::uint32_t>(index));
}

void AvObject::refresh() const {
  if (shared_ == nullptr || shared_->generation() == seen_) return;
  const SharedAv::Guard guard(*shared_);
  seen_ = shared_->generation();
  for (std::size_t i = 0; i < shared_->size(); ++i) adopt(i);
}

void AvObject::publish(std::uint32_t index) {
  if (shared_ == nullptr) return;
  shared_->set(index, entries_[index].raw, entries_[index].uses);
  seen_ = shared_->generation();
}

/// An index for another address.
std::uint32_t AvObject::place() {
  if (shared_ == nullptr && !free_.empty()) {
    const std::uint32_t index = free_.back();
    free_.pop_back();
    return index;
  }
  entries_.emplace_back();
  if (shared_ == nullptr) free_.reserve(entries_.capacity());  // so that removing never allocates
  return static_cast<std::uint32_t>(entries_.size() - 1);
}

std::optional<EndpointName> AvObject::name(fi_addr_t address) const {
  refresh();
  address = index_of(address);
  if (address >= entries_.size() || entries_[address].uses == 0) return std::nullopt;
  return entries_[address].name;
}

fi_addr_t AvObject::find(const EndpointName& name) const {
  refresh();
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
  if (shared_ != nullptr && shared_->read_only()) return FI_EACCES;
  refresh();
  // Between here and its end nobody else may take the same index.
  std::optional<SharedAv::Guard> alone;
  if (shared_ != nullptr) {
    alone.emplace(*shared_);
    for (std::size_t i = entries_.size(); i < shared_->size(); ++i) adopt(i);
    if (entries_.size() >= shared_->capacity()) return FI_ENOSPC;
  }

  const auto known = index_.find(hash_key(*name));
  if (known != index_.end() && !fresh) {
    ++entries_[known->second].uses;
    publish(known->second);
    out = known->second;
    return 0;
  }
  const std::uint32_t index = place();
  Entry& entry = entries_[index];
  entry.name = *name;
  entry.raw.length = static_cast<socklen_t>(address_length());
  std::memcpy(&entry.raw.v6, raw, entry.raw.length);
  entry.uses = 1;
  index_.try_emplace(hash_key(*name), index);
  publish(index);
  out = index;
  return 0;
}

/// The name of an index that is no longer used.
void AvObject::drop_name(fi_addr_t index) const {
  Entry& entry = entries_[index];
  for (Listener* listener : listeners_) listener->on_av_remove(index);
  const auto first = index_.find(hash_key(entry.name));
  if (first == index_.end() || first->second != index) return;
  index_.erase(first);
  // Another index may carry the same name (tables that the application counts itself).
  for (std::size_t other = 0; other < entries_.size(); ++other) {
    if (other == index || entries_[other].uses == 0 || !(entries_[other].name == entry.name)) continue;
    index_.emplace(hash_key(entry.name), static_cast<std::uint32_t>(other));
    break;
  }
}

int AvObject::remove(const fi_addr_t* addresses, std::size_t count) {
  const std::lock_guard guard(domain_.engine());
  if (shared_ != nullptr && shared_->read_only()) return -FI_EACCES;
  refresh();
  int result = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const fi_addr_t address = index_of(addresses[i]);
    if (address >= entries_.size() || entries_[address].uses == 0) {
      MRC_INFO(AV, "fi_av_remove of address %llu, which is not in the vector",
               static_cast<unsigned long long>(address));
      result = -FI_EINVAL;
      continue;
    }
    const bool last = --entries_[address].uses == 0;
    if (last) drop_name(address);
    if (shared_ != nullptr) {
      const SharedAv::Guard alone(*shared_);
      publish(static_cast<std::uint32_t>(address));
    } else if (last) {
      free_.push_back(static_cast<std::uint32_t>(address));
    }
  }
  return result;
}

int AvObject::lookup(fi_addr_t address, void* out, std::size_t* length) const {
  const std::lock_guard guard(domain_.engine());
  refresh();
  address = index_of(address);
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
