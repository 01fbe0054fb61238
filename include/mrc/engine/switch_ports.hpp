// SPDX-License-Identifier: BSD-2-Clause
// A process behind mrc-switch: one memif per plane, the switch's control socket as Directory, SRv6 mode, fixed MACs.
// If the switch dies, restart_ports() attaches anew (starting another one where that is allowed).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "mrc/control/client.hpp"
#include "mrc/engine/attachment.hpp"
#include "mrc/engine/engine.hpp"

namespace mrc::engine {

class SwitchPorts final : public Attachment {
 public:
  static Result<std::unique_ptr<Attachment>> open(const EngineConfig& config);
  ~SwitchPorts() override;

  std::uint32_t ipv4() const override { return ipv4_; }
  std::string describe() const override;
  unsigned planes() const override { return static_cast<unsigned>(ports_.size()); }
  port::Port* port(unsigned plane) override { return ports_[plane].get(); }
  std::uint64_t fabric() const override { return client_->info().fabric; }
  std::uint16_t t0() const override { return client_->info().location.t0; }
  bool memory_only() const override { return client_->info().memory_only; }
  Duration queue_delay() const override { return client_->info().queue_delay; }
  std::uint64_t link_bps() const override { return client_->info().link_bps; }
  wire::Crc32 crc32() const override;
  port::PortLayer* layer() const override { return &port::builtin_layer(); }
  bool foreign(std::uint32_t) const override { return false; }
  Result<void> register_endpoint(std::uint16_t port) override;
  void unregister_endpoint(std::uint16_t port) override;
  path::Directory::Answer locate(std::uint32_t ipv4, std::uint16_t port, path::Location& out) override;
  std::string why_no_route(std::uint32_t ipv4, std::uint16_t port) const override;
  void route(const wire::Ipv6Address& inner, const path::Location& where, path::Route& out, Tick now) override;
  const port::MacAddress* next_hop(unsigned plane, std::uint32_t hop, const wire::Ipv6Address&, Tick) override;
  bool on_neighbour(unsigned, std::span<const std::byte>, Tick) override { return false; }
  void learn(unsigned, const wire::Ipv6Address&, const port::MacAddress&, Tick) override {}
  std::size_t poll_neighbours(unsigned, std::span<std::byte>, Tick) override { return 0; }
  bool neighbours_pending(unsigned, Tick) const override { return false; }
  void sent() override { client_->kick_switch(); }
  std::size_t poll(std::span<AttachmentNotice> out, Tick now) override;
  Result<void> restart_ports() override;
  std::vector<int> wake_fds() const override;
  bool wakes() const override { return true; }
  void set_asleep(bool asleep) override { client_->set_asleep(asleep); }
  std::vector<int> private_fds() const override;

 private:
  SwitchPorts(std::unique_ptr<control::SwitchClient> client, std::uint32_t ipv4);
  Result<void> open_ports();

  std::unique_ptr<control::SwitchClient> client_;
  std::uint32_t ipv4_;
  std::vector<std::unique_ptr<port::Port>> ports_;
  bool first_poll_ = true;
};

}  // namespace mrc::engine
