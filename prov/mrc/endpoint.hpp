// SPDX-License-Identifier: BSD-2-Clause
// What an application holds as fid_ep: a whole endpoint, an alias of one, a scalable endpoint, one of its contexts, or
// a shared receive context.
// Each has flags of its own and points at the core and the sides behind it. The ep_*.cpp files translate libfabric's
// calls; each takes the engine's lock once.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <sys/uio.h>

#include <memory>

#include "ep_core.hpp"
#include "object.hpp"
#include "objects.hpp"
#include "work.hpp"

namespace mrc::prov {

struct SharedTx;

class Endpoint {
 public:
  enum class Kind : std::uint8_t { kWhole, kAlias, kScalable, kTransmit, kReceive, kSharedReceive };
  using Lock = EndpointCore::Lock;

  /// A whole or a scalable endpoint, which owns its core.
  Endpoint(Kind kind, Domain& domain, const fi_info& info, void* context);
  /// A context or an alias of `parent`.
  Endpoint(Kind kind, Endpoint& parent, TxSide* tx, RxSide* rx, void* context);
  /// A shared receive context.
  Endpoint(Domain& domain, const fi_rx_attr& attr, void* context);
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  // --- control (ep_bind.cpp, ep_context.cpp); each takes the lock ---------------------------------------------------
  int bind(struct fid* other, std::uint64_t flags);
  int enable();
  /// -FI_EBUSY while contexts or aliases are open; else the object is gone.
  int close();
  int get_name(void* address, std::size_t* length) const;
  int set_name(const void* address, std::size_t length);
  int op_flags(bool set, std::uint64_t* flags);
  int alias(struct fi_alias* out);
  int open_tx_context(int index, fi_tx_attr* attr, fid_ep** out, void* context);
  int open_rx_context(int index, fi_rx_attr* attr, fid_ep** out, void* context);
  int set_min_multi_recv(std::size_t bytes);
  std::size_t min_multi_recv() const { return rx_ != nullptr ? rx_->min_multi_recv : 0; }

  // --- data path; the lock is held --------------------------------------------------------------------------------
  bool can_send() const { return tx_ != nullptr && tx_->enabled && !tx_->mute && core_->is_open(); }
  bool can_receive() const {
    return rx_ != nullptr && rx_->enabled && !rx_->mute && rx_->table != nullptr &&
           (core_ == nullptr || core_->is_open());
  }
  engine::Engine& engine() const { return engine_; }
  Domain& domain() const { return domain_; }
  /// Where its receives are posted; can_receive() first.
  msg::MatchTable& table() { return *rx_->table; }
  int cannot_receive() const { return refusal(rx_); }
  /// Name of a directed receive's source; false if the address is not in the vector. `out` null: any source.
  bool source(bool tagged, fi_addr_t address, EndpointName* name, const EndpointName** out) const;
  /// Sends `t` to `address`; -FI_EAGAIN has made one pass of progress, so that trying again gets on.
  ssize_t transmit(msg::Transmit& t, fi_addr_t address) {
    if (!can_send()) return refusal(tx_);
    if (t.trigger) [[unlikely]]
      return defer(t, address);
    return core_->transmit(*tx_, t, address);
  }
  ssize_t receive(const msg::Receive& r);
  /// FI_TRIGGER, FI_QUEUE_WORK (ep_deferred.cpp): until a counter has reached a threshold.
  ssize_t defer(const msg::Transmit& t, fi_addr_t address);
  ssize_t defer(const msg::Receive& r);
  bool cancel_deferred(void* context) {
    return domain().work().cancel(context, core_ != nullptr ? static_cast<const void*>(core_) : rx_);
  }
  /// The receive queue has room for a completion.
  bool room() const { return rx_->room(); }
  std::uint64_t tx_flags() const { return tx_flags_; }
  std::uint64_t rx_flags() const { return rx_flags_; }
  bool signals_tx(std::uint64_t flags) const { return tx_ == nullptr || tx_->signals(flags); }
  bool signals_rx(std::uint64_t flags) const { return rx_ == nullptr || rx_->signals(flags); }
  std::size_t inject_size() const { return tx_ != nullptr ? tx_->inject_size : 0; }
  std::size_t tx_size() const { return tx_ != nullptr ? tx_->size : 0; }
  std::size_t rx_size() const { return rx_ != nullptr ? rx_->size : 0; }
  std::size_t tx_left() const { return tx_->size - tx_->outstanding; }

  fid_ep* fid() { return &handle_.fid; }

 private:
  void fill(std::size_t fid_class, void* context);
  int bind_cq(Cq* cq, std::uint64_t flags);
  int bind_counter(Counter* counter, std::uint64_t flags);
  int bind_shared(struct fid* other);
  int check_bound() const;
  /// Why that side takes no operations.
  template <typename S>
  static int refusal(const S* side) {
    if (side == nullptr) return -FI_EOPNOTSUPP;
    return side->enabled && side->mute ? -FI_ENOCQ : -FI_EOPBADSTATE;
  }

  Handle<fid_ep, Endpoint> handle_;
  Kind kind_;
  Domain& domain_;
  engine::Engine& engine_;
  Endpoint* parent_ = nullptr;  ///< of contexts and aliases
  std::uint32_t children_ = 0;
  bool wants_shared_tx_ = false, wants_shared_rx_ = false;  ///< FI_SHARED_CONTEXT in ep_attr
  SharedTx* shared_tx_ = nullptr;
  Endpoint* shared_rx_ = nullptr;
  std::unique_ptr<EndpointCore> own_core_;
  std::unique_ptr<RxSide> own_rx_;  ///< of a shared receive context
  EndpointCore* core_ = nullptr;    ///< null: a shared receive context
  TxSide* tx_ = nullptr;            ///< null: does not transmit
  RxSide* rx_ = nullptr;
  std::uint64_t tx_flags_ = 0, rx_flags_ = 0;
};

/// A shared transmit context. Operations are posted to the endpoints that are bound to it, each of which has room for
/// its own: sharing costs nothing here, and saves nothing.
struct SharedTx : Holdable {
  SharedTx(Domain& domain, void* context);
  ~SharedTx() { home.drop(); }

  Handle<fid_stx, SharedTx> handle;
  Domain& home;
};

extern fi_ops_msg endpoint_msg_ops;
extern fi_ops_tagged endpoint_tagged_ops;
extern fi_ops_rma endpoint_rma_ops;
extern fi_ops_cm endpoint_cm_ops;
extern fi_ops_ep endpoint_ep_ops;
extern fi_ops endpoint_fid_ops;
extern fi_ops_atomic endpoint_atomic_ops;
extern fi_ops_collective endpoint_collective_ops;

}  // namespace mrc::prov
