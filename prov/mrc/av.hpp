// SPDX-License-Identifier: BSD-2-Clause
// Address vector: fi_addr_t is an index, in FI_AV_MAP and FI_AV_TABLE alike. Names are kept as the application gave
// them (for fi_av_lookup) and as the fabric knows them (aliases of this host made canonical), with a hash for the way
// back. Guarded by the engine's lock.
#pragma once

#include <rdma/fi_domain.h>

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "address.hpp"
#include "eq.hpp"
#include "object.hpp"
#include "objects.hpp"
#include "shared_av.hpp"

namespace mrc::prov {

class DomainObject;

class AvObject final : public Av {
 public:
  /// `shared`: where a named vector is kept, else null.
  AvObject(DomainObject& domain, const fi_av_attr& attr, std::unique_ptr<SharedAv> shared, void* context);
  ~AvObject() override;

  std::optional<EndpointName> name(fi_addr_t address) const override;
  fi_addr_t find(const EndpointName& name) const override;
  bool is_ipv6() const override { return ipv6_; }
  int rx_ctx_bits() const override { return bits_; }
  void listen(Listener* listener) override;
  void unlisten(Listener* listener) override;

  /// Inserts one socket address (null: one that could not be resolved). 0 or a positive FI_E…. An address that is
  /// there already keeps its index, counted, unless `fresh` (the caller counts indices itself). Engine locked.
  int insert_locked(const void* raw, bool fresh, fi_addr_t& out);
  /// 0 or -FI_E…. Takes the lock.
  int remove(const fi_addr_t* addresses, std::size_t count);
  int lookup(fi_addr_t address, void* out, std::size_t* length) const;

  /// Bytes of one address in fi_av_insert's array.
  std::size_t address_length() const { return ipv6_ ? sizeof(sockaddr_in6) : sizeof(sockaddr_in); }
  bool wants_events() const { return events_; }
  int bind_eq(EqObject* eq);
  EqObject* eq() const { return eq_; }
  DomainObject& domain() const { return domain_; }
  fi_av_type type() const { return type_; }
  fid_av* fid() { return &handle_.fid; }

 private:
  struct Entry {
    EndpointName name;
    Sockaddr raw;
    std::uint32_t uses = 0;  ///< 0: free
  };
  /// Takes over what other processes have changed.
  void refresh() const;
  void adopt(std::size_t index) const;
  std::uint32_t place();
  /// Tells the others of our change to one entry.
  void publish(std::uint32_t index);
  void drop_name(fi_addr_t index) const;
  /// Without the bits that name a receive context.
  fi_addr_t index_of(fi_addr_t address) const { return bits_ != 0 ? address & (FI_ADDR_UNSPEC >> bits_) : address; }
  static std::uint64_t hash_key(const EndpointName& name) { return std::uint64_t{name.ipv4} << 16 | name.port; }

  Handle<fid_av, AvObject> handle_;
  DomainObject& domain_;
  fi_av_type type_;
  bool ipv6_;
  bool events_;
  int bits_;
  EqObject* eq_ = nullptr;
  // A look at a shared vector takes over what is new in it.
  mutable std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_;
  mutable std::unordered_map<std::uint64_t, std::uint32_t> index_;  ///< name → its first index
  std::vector<Listener*> listeners_;
  std::unique_ptr<SharedAv> shared_;
  mutable std::uint64_t seen_ = 0;  ///< its generation
};

int open_av(fid_domain* domain, fi_av_attr* attr, fid_av** av, void* context);

}  // namespace mrc::prov
