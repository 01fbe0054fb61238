// SPDX-License-Identifier: BSD-2-Clause
// What has an address: joins one Messenger to the engine below, and to the address vector and the sides above. An
// Endpoint (endpoint.hpp) is what the application holds: the whole of a core, an alias of it, or one context.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "address.hpp"
#include "ep_sides.hpp"
#include "msg/messenger.hpp"
#include "objects.hpp"
#include "work.hpp"

namespace mrc::prov {

class EndpointCore final : public engine::Client, public msg::Host, public msg::Transport, public Av::Listener {
 public:
  using Lock = std::lock_guard<engine::Engine>;

  /// With so many transmit and receive contexts; a plain endpoint has one of each.
  EndpointCore(Domain& domain, const fi_info& info, std::size_t tx_contexts, std::size_t rx_contexts);
  ~EndpointCore() override;

  // --- control; the lock is held, except for close ---------------------------------------------------------------
  /// Null: that context is open.
  TxSide* open_tx(std::size_t index);
  RxSide* open_rx(std::size_t index);
  void close_tx(TxSide* side);
  void close_rx(RxSide* side);
  /// Receives come from this context, with the table of all its endpoints.
  void share(RxSide* shared);
  int bind_av(Av* av);
  int bind_eq(EventQueue* eq);
  /// Takes the name and starts messaging.
  int open();
  bool has_av() const { return av_ != nullptr; }
  bool shares_rx() const { return shared_rx_ != nullptr; }
  bool is_open() const { return messenger_ != nullptr && id_ != transport::kNoId; }
  /// Sends what was posted, then ends everything. Takes the lock.
  void close();
  /// Makes progress until what `side` has posted is with the transport, or lingering is over. Takes the lock.
  void drain(const TxSide* side);
  int get_name(void* address, std::size_t* length) const;
  int set_name(const void* address, std::size_t length);

  std::size_t tx_contexts() const { return tx_.size(); }
  std::size_t rx_contexts() const { return rx_.size(); }
  std::uint64_t caps() const { return info_.caps; }

  // --- data path; the lock is held --------------------------------------------------------------------------------
  msg::Messenger& messenger() { return *messenger_; }
  engine::Engine& engine() { return engine_; }
  Domain& domain() { return domain_; }
  /// Name of a directed receive's source; false if the address is not in the vector. `out` null: any source.
  bool source(bool tagged, fi_addr_t address, EndpointName* name, const EndpointName** out) const;
  /// Sends `t` to `address`; -FI_EAGAIN has made one pass of progress, so that trying again gets on.
  ssize_t transmit(TxSide& side, msg::Transmit& t, fi_addr_t address);
  /// The same without progress: for work that was deferred.
  int post(TxSide& side, msg::Transmit& t, fi_addr_t address);
  WorkQueue& work() { return work_; }

  // --- engine::Client ---------------------------------------------------------------------------------------------
  transport::Placement place(const transport::RxWrite& write) override { return messenger_->place(write); }
  void on_event(const transport::Event& event) override { messenger_->on_event(event); }
  bool on_progress(Tick) override {
    bool worked = !work_.idle() && work_.run();
    worked |= messenger_->on_progress();
    return worked || work_.fresh();
  }
  // --- msg::Host --------------------------------------------------------------------------------------------------
  void done(const msg::Done& done) override;
  bool room() const override { return rx_[0]->room(); }
  bool remote_room(std::uint32_t context) const override { return context >= rx_.size() || rx_[context]->room(); }
  void received(RxSide& side, const msg::Done& done);
  RxSide& rx(std::size_t index) { return *rx_[index]; }
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
  struct Info {  ///< what is kept of fi_info
    std::uint64_t caps = 0;
    std::uint64_t order = 0;  ///< of transmits
    std::size_t tx_size = 0, rx_size = 0, inject_size = 0;
    std::vector<std::byte> source;
    bool ipv6 = false;
  };
  /// The peer behind an address; null and a negative FI_E… in `error` if there is none.
  msg::Peer* peer(fi_addr_t address, int* error);
  void report(const msg::Done& done);
  void transmitted(const msg::Done& done);
  void refused(const msg::Done& done, Cq* cq, Counter* counter);

  Domain& domain_;
  engine::Engine& engine_;
  WorkQueue& work_;
  Info info_;
  std::vector<std::unique_ptr<TxSide>> tx_;  ///< by context; null: not open
  std::vector<std::unique_ptr<RxSide>> rx_;  ///< by context, open or not: messages to a closed one wait in its table
  RxSide* shared_rx_ = nullptr;
  std::vector<std::unique_ptr<TxSide>> retired_;  ///< closed while operations were under way
  Av* av_ = nullptr;
  int context_bits_ = 0;  ///< of an fi_addr_t: the highest name a receive context
  EventQueue* eq_ = nullptr;
  bool closing_ = false;
  transport::EpId id_ = transport::kNoId;
  EndpointName name_{};
  std::unique_ptr<msg::Messenger> messenger_;
  std::vector<transport::ConnId> cache_;  ///< by fi_addr_t
  const msg::Peer* reported_ = nullptr;
  std::uint32_t reported_epoch_ = 0;
};

}  // namespace mrc::prov
