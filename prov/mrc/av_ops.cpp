// SPDX-License-Identifier: BSD-2-Clause
// What libfabric calls of an address vector. Insertion is done before the call returns; a vector that was opened with
// FI_EVENT reports it through its event queue all the same, errors first.
#include <arpa/inet.h>
#include <netdb.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "av.hpp"
#include "domain.hpp"
#include "fabric.hpp"
#include "info.hpp"
#include "log.hpp"
#include "nosys.hpp"

namespace mrc::prov {

namespace {

AvObject& object(fid_av* av) {
  return self_of<AvObject>(av);
}

int close_av(struct fid* fid) {
  AvObject& av = self_of_fid<AvObject, fid_av>(fid);
  if (av.held()) {
    MRC_INFO(AV, "fi_close of an address vector that endpoints are still bound to");
    return -FI_EBUSY;
  }
  delete &av;
  return 0;
}

int bind_av(struct fid* fid, struct fid* other, std::uint64_t) {
  if (other == nullptr || other->fclass != FI_CLASS_EQ) return -FI_EINVAL;
  return self_of_fid<AvObject, fid_av>(fid).bind_eq(&self_of_fid<EqObject, fid_eq>(other));
}

/// Inserts `count` addresses; `address_at(i)` gives the i-th, or null.
template <class AddressAt>
int insert_all(AvObject& av, std::size_t count, fi_addr_t* out, std::uint64_t flags, void* context,
               const AddressAt& address_at) {
  if ((flags & ~(FI_MORE | FI_SYNC_ERR)) != 0) {
    MRC_INFO(AV, "fi_av_insert with flags 0x%llx: FI_MORE and FI_SYNC_ERR are known",
             static_cast<unsigned long long>(flags));
    return -FI_EBADFLAGS;
  }
  int* errors = nullptr;
  if ((flags & FI_SYNC_ERR) != 0) {
    errors = static_cast<int*>(context);
    if (errors == nullptr || av.wants_events()) return -FI_EINVAL;
    std::fill_n(errors, count, 0);
  }
  if (av.wants_events() && av.eq() == nullptr) {
    MRC_INFO(AV, "an address vector with FI_EVENT needs an event queue bound to it first");
    return -FI_ENOEQ;
  }

  const bool fresh = out == nullptr && av.type() == FI_AV_TABLE;
  std::size_t inserted = 0;
  for (std::size_t i = 0; i < count; ++i) {
    fi_addr_t address = FI_ADDR_NOTAVAIL;
    int error = 0;
    {
      const std::lock_guard guard(av.domain().engine());
      error = av.insert_locked(address_at(i), fresh, address);
    }
    if (out != nullptr) out[i] = address;
    if (error == 0) {
      ++inserted;
      continue;
    }
    MRC_INFO(AV, "address %zu of %zu is no peer: neither IPv4 with a port nor an inner address of an MRC fabric", i,
             count);
    if (errors != nullptr) errors[i] = error;
    if (av.wants_events()) {
      fi_eq_err_entry entry{};
      entry.fid = &av.fid()->fid;
      entry.context = context;
      entry.data = i;
      entry.err = error;
      entry.prov_errno = error;
      av.eq()->push_error(entry);
    }
  }
  if (!av.wants_events()) return static_cast<int>(inserted);
  fi_eq_entry done{};
  done.fid = &av.fid()->fid;
  done.context = context;
  done.data = inserted;
  av.eq()->push(FI_AV_COMPLETE, &done, sizeof done);
  return 0;
}

int insert_av(fid_av* fid, const void* addresses, std::size_t count, fi_addr_t* out, std::uint64_t flags,
              void* context) {
  AvObject& av = object(fid);
  if (addresses == nullptr && count != 0) return -FI_EINVAL;
  return guarded([&] {
    const auto* bytes = static_cast<const std::byte*>(addresses);
    return insert_all(av, count, out, flags, context,
                      [&](std::size_t i) -> const void* { return bytes + i * av.address_length(); });
  });
}

int insertsvc_av(fid_av* fid, const char* node, const char* service, fi_addr_t* out, std::uint64_t flags,
                 void* context) {
  AvObject& av = object(fid);
  return guarded([&] {
    if (node == nullptr || service == nullptr) return -FI_EINVAL;
    fi_info hints{};
    hints.addr_format = av.is_ipv6() ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
    Addresses found;
    const bool good = resolve_addresses(node, service, 0, &hints, found) == 0;
    return insert_all(av, 1, out, flags, context,
                      [&](std::size_t) -> const void* { return good ? &found.destination.any : nullptr; });
  });
}

/// "node7" + 3 → "node10": the digits at the end count up, keeping their width.
std::string count_up(const std::string& text, std::size_t by) {
  const std::size_t at = text.find_last_not_of("0123456789") + 1;
  const std::string digits = text.substr(at);
  if (digits.empty() || digits.size() > 18) return text;
  std::string next = std::to_string(std::stoull(digits) + by);
  if (next.size() < digits.size()) next.insert(0, digits.size() - next.size(), '0');
  return text.substr(0, at) + next;
}

int insertsym_av(fid_av* fid, const char* node, std::size_t nodes, const char* service, std::size_t services,
                 fi_addr_t* out, std::uint64_t flags, void* context) {
  AvObject& av = object(fid);
  return guarded([&] {
    constexpr std::size_t kMost = 1 << 20;
    if (node == nullptr || service == nullptr || nodes > kMost || services > kMost || nodes * services > kMost)
      return -FI_EINVAL;
    fi_info hints{};
    hints.addr_format = av.is_ipv6() ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
    std::vector<Addresses> found(nodes * services);
    for (std::size_t n = 0; n < nodes; ++n) {
      for (std::size_t s = 0; s < services; ++s) {
        Addresses& one = found[n * services + s];
        const std::string host = count_up(node, n);
        if (resolve_addresses(host.c_str(), count_up(service, s).c_str(), 0, &hints, one) != 0)
          one.has_destination = false;
      }
    }
    return insert_all(av, found.size(), out, flags, context, [&](std::size_t i) -> const void* {
      return found[i].has_destination ? &found[i].destination.any : nullptr;
    });
  });
}

int remove_av(fid_av* av, fi_addr_t* addresses, std::size_t count, std::uint64_t flags) {
  if (flags != 0) return -FI_EINVAL;
  return object(av).remove(addresses, count);
}

int lookup_av(fid_av* av, fi_addr_t address, void* out, std::size_t* length) {
  if (length == nullptr) return -FI_EINVAL;
  return object(av).lookup(address, out, length);
}

const char* straddr_av(fid_av* av, const void* address, char* buffer, std::size_t* length) {
  Sockaddr raw;
  char host[INET6_ADDRSTRLEN] = "";
  std::memcpy(&raw.v6, address, object(av).address_length());
  char text[INET6_ADDRSTRLEN + 40];
  if (raw.ipv6())
    std::snprintf(text, sizeof text, "fi_sockaddr_in6://[%s]:%u",
                  inet_ntop(AF_INET6, &raw.v6.sin6_addr, host, sizeof host), ntohs(raw.v6.sin6_port));
  else
    std::snprintf(text, sizeof text, "fi_sockaddr_in://%s:%u", inet_ntop(AF_INET, &raw.v4.sin_addr, host, sizeof host),
                  ntohs(raw.v4.sin_port));
  const std::size_t needed = std::strlen(text) + 1;
  if (buffer != nullptr && *length != 0) {
    const std::size_t kept = std::min(needed, *length) - 1;
    std::memcpy(buffer, text, kept);
    buffer[kept] = '\0';
  }
  *length = needed;
  return buffer;
}

}  // namespace

fi_ops av_fid_ops = {.size = sizeof(fi_ops),
                     .close = close_av,
                     .bind = bind_av,
                     .control = nosys,
                     .ops_open = nosys,
                     .tostr = nosys,
                     .ops_set = nosys};

fi_ops_av av_ops = {.size = sizeof(fi_ops_av),
                    .insert = insert_av,
                    .insertsvc = insertsvc_av,
                    .insertsym = insertsym_av,
                    .remove = remove_av,
                    .lookup = lookup_av,
                    .straddr = straddr_av,
                    .av_set = nosys};

int open_av(fid_domain* domain, fi_av_attr* attr, fid_av** av, void* context) {
  if (attr == nullptr) return -FI_EINVAL;
  constexpr int kMostBits = 16;  // what a record has for it
  const bool read_only = (attr->flags & FI_READ) != 0;
  if ((attr->flags & ~(FI_EVENT | FI_SYMMETRIC | FI_READ)) != 0 || attr->rx_ctx_bits < 0 ||
      attr->rx_ctx_bits > kMostBits || attr->type > FI_AV_TABLE || (read_only && attr->name == nullptr)) {
    MRC_INFO(AV,
             "an address vector of type %d with flags 0x%llx and %d rx_ctx_bits: MAP or TABLE, FI_EVENT or with a name"
             " FI_READ, 0 to %d bits",
             static_cast<int>(attr->type), static_cast<unsigned long long>(attr->flags), attr->rx_ctx_bits, kMostBits);
    return -FI_EINVAL;
  }
  return guarded([&] {
    auto& home = self_of<DomainObject>(domain);
    std::unique_ptr<SharedAv> shared;
    if (attr->name != nullptr) {
      const bool ipv6 = home.info().addr_format == FI_SOCKADDR_IN6;
      if (const int error = SharedAv::open(attr->name, read_only, ipv6, attr->count, shared)) return error;
      attr->map_addr = shared->map();
    }
    auto* object = new AvObject(home, *attr, std::move(shared), context);
    attr->type = object->type();
    *av = object->fid();
    return 0;
  });
}

Av* av_of(struct fid* fid) {
  if (fid == nullptr || fid->fclass != FI_CLASS_AV) return nullptr;
  return &self_of_fid<AvObject, fid_av>(fid);
}

}  // namespace mrc::prov
