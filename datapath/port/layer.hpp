// SPDX-License-Identifier: BSD-2-Clause
// PortLayer over this object's own copy of DPDK; the two shared objects differ only in the drivers they link.
#pragma once

#include "mrc/port/port.hpp"

namespace mrc::port {

class DpdkLayer final : public PortLayer {
 public:
  explicit DpdkLayer(bool extended) : extended_(extended) {}

  Result<void> start(const EalOptions& options) override;
  Result<std::unique_ptr<Port>> open(const PortSpec& spec) override;
  Result<std::unique_ptr<Port>> open_memif(const MemifOptions& options) override;
  std::uint32_t crc32(std::span<const std::byte> bytes) const override;
  std::vector<PortKind> kinds() const override;
  Result<void> serve_telemetry(std::span<const TelemetryCommand> commands, TelemetryHandler handler) override;
  void stop_telemetry() override;
  std::string telemetry_folder() const override;

 private:
  bool extended_;  ///< af_xdp, PCI and mlx5 are linked in
};

/// The second object's file and its one exported function, which returns its PortLayer*.
inline constexpr const char* kPortsObject = "libmrc-ports.so";
inline constexpr const char* kPortsSymbol = "mrc_port_layer_v2";

}  // namespace mrc::port
