// SPDX-License-Identifier: BSD-2-Clause
// A process with ports of its own (FI_MRC_PORTS or the TOML file). Point to point without prefixes: every IPv4 is
// directly on the links, ECMP mode, neighbours by ND. With prefixes: SRv6 mode through the group's gateway.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "mrc/engine/attachment.hpp"
#include "mrc/engine/claim.hpp"
#include "mrc/engine/config.hpp"
#include "mrc/engine/engine.hpp"
#include "mrc/port/neighbour.hpp"

namespace mrc::engine {

/// All that is decided before a port is opened.
struct OwnPortsPlan {
  FabricConfig fabric{};
  std::vector<PrefixEntry> prefixes;  ///< empty: point to point
  std::uint32_t ipv4 = 0;
  path::Location local{};
  std::uint64_t link_bps = 0;  ///< declared rate of each port
  std::optional<wire::Ipv6Address> gateway;
  std::vector<std::uint32_t> foreign;  ///< addresses of this host's other groups
};

/// Works out the plan of group `index`; errors in words (no gateway for SRv6, T0 unknown, planes do not fit …).
Result<OwnPortsPlan> plan_group(const FileConfig& config, std::size_t index);

class OwnPorts final : public Attachment {
 public:
  /// Parses, claims a free group, starts the port layer, opens the ports.
  static Result<std::unique_ptr<Attachment>> open(const EngineConfig& config);
  /// From ports that exist (tests): one a plane. `memory_only` as for Attachment.
  OwnPorts(OwnPortsPlan plan, std::vector<std::unique_ptr<port::Port>> ports, wire::Crc32 crc);
  ~OwnPorts() override;

  std::uint32_t ipv4() const override { return plan_.ipv4; }
  std::string describe() const override;
  unsigned planes() const override { return static_cast<unsigned>(ports_.size()); }
  port::Port* port(unsigned plane) override { return ports_[plane].get(); }
  std::uint64_t fabric() const override { return plan_.fabric.prefix; }
  std::uint16_t t0() const override { return plan_.local.t0; }
  std::uint64_t link_bps() const override { return plan_.link_bps; }
  bool memory_only() const override;
  wire::Crc32 crc32() const override { return crc_; }
  port::PortLayer* layer() const override;
  bool foreign(std::uint32_t ipv4) const override;
  Result<void> register_endpoint(std::uint16_t port) override;
  void unregister_endpoint(std::uint16_t port) override;
  path::Directory::Answer locate(std::uint32_t ipv4, std::uint16_t port, path::Location& out) override;
  std::string why_no_route(std::uint32_t ipv4, std::uint16_t port) const override;
  void route(const wire::Ipv6Address& inner, const path::Location& where, path::Route& out, Tick now) override;
  const port::MacAddress* next_hop(unsigned plane, std::uint32_t hop, const wire::Ipv6Address& destination,
                                   Tick now) override;
  bool on_neighbour(unsigned plane, std::span<const std::byte> frame, Tick now) override;
  bool learns() const override { return !srv6(); }
  void learn(unsigned plane, const wire::Ipv6Address& from, const port::MacAddress& mac, Tick now) override;
  std::size_t poll_neighbours(unsigned plane, std::span<std::byte> out, Tick now) override;
  bool neighbours_pending(unsigned plane, Tick now) const override;
  std::size_t poll(std::span<AttachmentNotice>, Tick) override { return 0; }
  std::vector<int> wake_fds() const override;
  bool wakes() const override;
  std::vector<int> private_fds() const override;

  void keep(Claim claim) { claim_ = std::move(claim); }

 private:
  bool srv6() const { return !plan_.prefixes.empty(); }
  wire::Ipv6Address inner(std::uint16_t port) const;

  OwnPortsPlan plan_;
  std::vector<std::unique_ptr<port::Port>> ports_;
  std::vector<std::unique_ptr<port::NeighbourCache>> neighbours_;
  wire::Crc32 crc_;
  Claim claim_;
};

}  // namespace mrc::engine
