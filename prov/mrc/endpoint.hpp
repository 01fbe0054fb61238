// SPDX-License-Identifier: BSD-2-Clause
// The endpoint object: joins one Messenger to the engine below, to queues, counters and the address vector above.
// The ep_*.cpp files translate libfabric's calls; each takes the engine's lock once.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <sys/uio.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "msg/messenger.hpp"
#include "object.hpp"
#include "objects.hpp"

namespace mrc::prov {

class Endpoint final : public engine::Client, public msg::Host, public msg::Transport, public Av::Listener {
 public:
  Endpoint(Domain& domain, fid_domain* domain_fid, const fi_info& info, void* context);
  ~Endpoint() override;

  using Lock = std::lock_guard<engine::Engine>;

  // --- control (ep_control.cpp); each takes the lock --------------------------------------------------------------
  int bind(struct fid* other, std::uint64_t flags);
  int enable();
  void close();
  int get_name(void* address, std::size_t* length) const;
  int set_name(const void* address, std::size_t length);
  int op_flags(bool set, std::uint64_t* flags);

  // --- data path; the lock is held --------------------------------------------------------------------------------
  bool enabled() const { return messenger_ != nullptr && id_ != transport::kNoId; }
  msg::Messenger& messenger() { return *messenger_; }
  engine::Engine& engine() { return engine_; }
  /// The peer behind an address; null and a negative FI_E… in `error` if there is none.
  msg::Peer* peer(fi_addr_t address, int* error);
  /// Name of a directed receive's source; false if the address is not in the vector. `out` null: any source.
  bool source(fi_addr_t address, EndpointName* name, const EndpointName** out) const;
  /// Sends `t` to `address`; -FI_EAGAIN has made one pass of progress, so that trying again gets on.
  ssize_t transmit(msg::Transmit& t, fi_addr_t address);
  ssize_t receive(const msg::Receive& r);
  std::uint64_t tx_flags() const { return tx_flags_; }
  std::uint64_t rx_flags() const { return rx_flags_; }
  bool signals_tx(std::uint64_t flags) const { return !selective_tx_ || (flags & FI_COMPLETION) != 0; }
  bool signals_rx(std::uint64_t flags) const { return !selective_rx_ || (flags & FI_COMPLETION) != 0; }
  std::size_t inject_size() const { return info_.inject_size; }
  std::size_t tx_size() const { return info_.tx_size; }
  std::size_t rx_size() const { return info_.rx_size; }
  std::size_t& min_multi_recv() { return min_multi_recv_; }

  fid_ep* fid() { return &handle_.fid; }

  // --- engine::Client ---------------------------------------------------------------------------------------------
  transport::Placement place(const transport::RxWrite& write) override { return messenger_->place(write); }
  void on_event(const transport::Event& event) override { messenger_->on_event(event); }
  bool on_progress(Tick) override { return messenger_->on_progress(); }
  // --- msg::Host --------------------------------------------------------------------------------------------------
  void done(const msg::Done& done) override;
  bool room() const override { return rx_cq_ == nullptr || rx_cq_->room(); }
  int resolve(std::uint64_t key, std::uint64_t address, std::size_t length, std::uint64_t access, RegionPiece* out,
              std::size_t* count, Region* region) override {
    return domain_.resolve(key, address, length, access, out, count, region);
  }
  std::uint64_t mr_generation() const override { return domain_.mr_generation(); }
  // --- msg::Transport ---------------------------------------------------------------------------------------------
  transport::ConnId connect(const EndpointName& name) override { return engine_.connect_locked(id_, name); }
  EndpointName peer_name(transport::ConnId conn) const override { return engine_.peer_name_locked(conn); }
  std::string why(transport::ConnId conn) const override { return engine_.why_locked(conn); }
  transport::Status post_write(transport::ConnId conn, const transport::WriteRequest& write) override {
    return engine_.post_write_locked(conn, write);
  }
  std::uint32_t payload_mtu(transport::ConnId conn) const override { return engine_.payload_mtu_locked(conn); }
  // --- Av::Listener -----------------------------------------------------------------------------------------------
  void on_av_remove(fi_addr_t address) override;

 private:
  enum CounterIndex {
    kSendCounter,
    kRecvCounter,
    kWriteCounter,
    kReadCounter,
    kRemoteWriteCounter,
    kRemoteReadCounter,
    kCounters
  };
  struct Info {  ///< what is kept of fi_info
    std::uint64_t caps = 0;
    std::size_t tx_size = 0, rx_size = 0, inject_size = 0;
    std::vector<std::byte> source;
    bool ipv6 = false;
  };
  struct Cached {
    msg::Peer* peer = nullptr;
    EndpointName name{};
  };

  int bind_cq(struct fid* other, std::uint64_t flags);
  int bind_counter(struct fid* other, std::uint64_t flags);
  void report(const msg::Done& done);

  Handle<fid_ep, Endpoint> handle_;
  Domain& domain_;
  engine::Engine& engine_;
  Info info_;
  std::uint64_t tx_flags_, rx_flags_;
  bool selective_tx_ = false, selective_rx_ = false, closing_ = false;
  std::size_t min_multi_recv_ = 64;
  Cq* tx_cq_ = nullptr;
  Cq* rx_cq_ = nullptr;
  Av* av_ = nullptr;
  EventQueue* eq_ = nullptr;
  Counter* counters_[kCounters] = {};
  transport::EpId id_ = transport::kNoId;
  EndpointName name_{};
  std::unique_ptr<msg::Messenger> messenger_;
  std::vector<Cached> cache_;  ///< by fi_addr_t
  const msg::Peer* reported_ = nullptr;
  std::uint32_t reported_epoch_ = 0;
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
