// SPDX-License-Identifier: BSD-2-Clause
// The seam between the provider's libfabric objects (fabric, domain, AV, CQ, EQ, counters, MR) and its messaging
// (endpoints, matching, rendezvous, RMA): what each side may ask of the other.
// Locking: everything here is called with the engine's lock held (Domain::engine()), unless it says otherwise.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "mrc/engine/engine.hpp"

namespace mrc::prov {

using EndpointName = engine::EndpointName;

/// Something that others use: fi_close of it fails with -FI_EBUSY while it is held. An endpoint holds its domain,
/// event queue and counters from open or bind to close; Cq::reserve and Av::listen hold by themselves.
class Holdable {
 public:
  void hold() { holders_.fetch_add(1, std::memory_order_relaxed); }
  void drop() { holders_.fetch_sub(1, std::memory_order_relaxed); }
  bool held() const { return holders_.load(std::memory_order_relaxed) != 0; }

 private:
  std::atomic<std::uint32_t> holders_{0};
};

/// prov_errno of an error completion: a positive FI_E…, or the transport's reason, which fi_cq_strerror puts in words.
inline constexpr int kProvErrnoTransport = 0x10000;
inline int prov_errno_of(transport::Status status) {
  return kProvErrnoTransport + static_cast<int>(status);
}

/// One completion, in the widest format; the CQ writes as much of it as its format has.
struct Completion {
  void* op_context = nullptr;
  std::uint64_t flags = 0;
  std::size_t len = 0;
  void* buf = nullptr;
  std::uint64_t data = 0;
  std::uint64_t tag = 0;
  fi_addr_t source = FI_ADDR_NOTAVAIL;  ///< for fi_cq_readfrom
};

struct ErrorCompletion {
  Completion base;
  std::size_t overflow_len = 0;  ///< FI_ETRUNC: bytes that did not fit
  int err = 0;                   ///< positive FI_E…
  int prov_errno = 0;            ///< see prov_errno_of()
  // FI_EADDRNOTAVAIL: whose address err_data is to hold, and in which of the two forms.
  EndpointName unknown{};
  bool ipv6 = false;
};

/// Completion queue. Its memory is sized at open and at each bind (room for every operation of every bound endpoint
/// besides `size`), so push never fails for operations; receives that no posted operation bounds (multi-receive)
/// ask room() first.
class Cq : public Holdable {
 public:
  virtual ~Cq() = default;
  virtual void push(const Completion&) = 0;
  virtual void push_error(const ErrorCompletion&) = 0;
  virtual bool room() const = 0;
  /// An endpoint with so many transmit/receive operations was bound/closed.
  virtual void reserve(std::size_t operations) = 0;
  virtual void unreserve(std::size_t operations) = 0;
};

class Counter : public Holdable {
 public:
  virtual ~Counter() = default;
  virtual void add(std::uint64_t n) = 0;
  virtual void add_error(std::uint64_t n) = 0;
};

class EventQueue : public Holdable {
 public:
  virtual ~EventQueue() = default;
};

/// Address vector. fi_addr_t is an index in both FI_AV_MAP and FI_AV_TABLE.
class Av : public Holdable {
 public:
  virtual ~Av() = default;
  virtual std::optional<EndpointName> name(fi_addr_t) const = 0;
  /// O(1) reverse look-up for FI_SOURCE / FI_DIRECTED_RECV; FI_ADDR_NOTAVAIL if the peer is not in the AV.
  virtual fi_addr_t find(const EndpointName&) const = 0;
  virtual bool is_ipv6() const = 0;
  /// Highest bits of an fi_addr_t that name a receive context (fi_av_attr.rx_ctx_bits).
  virtual int rx_ctx_bits() const { return 0; }
  /// Endpoints hear of removals, so that per-peer caches can be dropped.
  struct Listener {
    virtual ~Listener() = default;
    virtual void on_av_remove(fi_addr_t) = 0;
  };
  virtual void listen(Listener*) = 0;
  virtual void unlisten(Listener*) = 0;
};

/// A registered region as RMA targets see it.
struct Region {
  std::uint64_t key = 0;
  std::uint64_t access = 0;           ///< FI_REMOTE_READ | FI_REMOTE_WRITE | …
  Counter* remote_counter = nullptr;  ///< bound by fi_mr_bind for the access that was asked for (FI_RMA_EVENT)
};

/// A piece of registered memory after (key, address) → pointer.
struct RegionPiece {
  std::byte* base = nullptr;
  std::size_t length = 0;
};

class WorkQueue;

class Domain : public Holdable {
 public:
  virtual ~Domain() = default;
  virtual engine::Engine& engine() = 0;
  virtual const fi_info& info() const = 0;
  /// Resolves a target range: 0 and the pieces (≤ max, an MR may have several iov's) or -FI_EKEYREJECTED (unknown or
  /// stale key), -FI_EINVAL (bounds), -FI_EACCES (right not granted). `access`: FI_REMOTE_READ or FI_REMOTE_WRITE.
  /// `out_count` in: capacity, out: pieces.
  virtual int resolve(std::uint64_t key, std::uint64_t address, std::size_t length, std::uint64_t access,
                      RegionPiece* out, std::size_t* out_count, Region* region) = 0;
  /// Changes whenever an MR is closed: cached resolutions (per-operation handles) re-check when it moved.
  virtual std::uint64_t mr_generation() const = 0;
  /// Operations that wait for counters.
  virtual WorkQueue& work() = 0;
};

/// Made by the messaging side; called by Domain's fi_endpoint op. Takes no lock itself.
int open_endpoint(Domain& domain, struct fid_domain* domain_fid, struct fi_info* info, struct fid_ep** ep,
                  void* context);

/// The same for fi_scalable_ep, fi_srx_context and fi_stx_context.
int open_scalable_endpoint(Domain& domain, struct fi_info* info, struct fid_ep** sep, void* context);
int open_shared_rx(Domain& domain, struct fi_rx_attr* attr, struct fid_ep** srx, void* context);
int open_shared_tx(Domain& domain, struct fi_tx_attr* attr, struct fid_stx** stx, void* context);

/// From a fid to the object (defined by the object side; null/wrong-class fids are refused by the callers' checks).
Cq* cq_of(struct fid* fid);
Counter* counter_of(struct fid* fid);
Av* av_of(struct fid* fid);
EventQueue* eq_of(struct fid* fid);

/// One progress pass of the process's engine, for fi_cq_read and the like; takes the lock.
bool progress(Domain& domain);

/// All-purpose "not here" functions for ops tables: no ops pointer may be NULL (hooks call them).
/// They live in nosys.hpp.

}  // namespace mrc::prov
