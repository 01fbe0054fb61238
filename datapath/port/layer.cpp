// SPDX-License-Identifier: BSD-2-Clause
// The table of what a DPDK copy can do, and the CRC of rte_net.
#include "datapath/port/layer.hpp"

#include <fmt/format.h>
#include <rte_net_crc.h>

#include <cerrno>
#include <mutex>

#include "datapath/port/eal.hpp"
#include "datapath/port/openers.hpp"
#include "datapath/port/telemetry.hpp"

namespace mrc::port {
namespace {

/// Opening and closing devices is not thread-safe in DPDK.
std::mutex open_mutex;

Result<void> check_started(const std::string& port) {
  if (eal_started()) return {};
  return fail(EINVAL, fmt::format("DPDK port {}: PortLayer::start() has not succeeded", port));
}

}  // namespace

Result<void> DpdkLayer::start(const EalOptions& options) {
  if (options.pci && !extended_)
    return fail(ENOTSUP, fmt::format("PCI devices need the second object, {}", kPortsObject));
  auto started = start_eal(options);
#if defined(__x86_64__)
  if (started) {
    static std::once_flag once;
    std::call_once(once, [] { rte_net_crc_set_alg(RTE_NET_CRC_AVX512); });  // falls back to SSE by itself
  }
#endif
  return started;
}

Result<std::unique_ptr<Port>> DpdkLayer::open(const PortSpec& spec) {
  if (auto started = check_started(spec.text); !started) return tl::unexpected(started.error());
  const std::lock_guard lock(open_mutex);
  switch (spec.kind) {
    case PortKind::kMemif:
      return open_memif_port(memif_options(spec), spec.text);
    case PortKind::kAfPacket:
      return open_af_packet_port(spec);
    case PortKind::kTap:
      return open_tap_port(spec);
    case PortKind::kAfXdp:
      if (extended_) return open_af_xdp_port(spec);
      break;
    case PortKind::kPci:
      if (extended_) return open_pci_port(spec);
      break;
    case PortKind::kOther:
      return fail(EINVAL, fmt::format("DPDK port {}: its kind is unknown", spec.text));
  }
  return fail(ENOTSUP, fmt::format("DPDK port {}: its driver is in {}, which is not in use", spec.text, kPortsObject));
}

Result<std::unique_ptr<Port>> DpdkLayer::open_memif(const MemifOptions& options) {
  const std::string name =
      fmt::format("memif:{},id={},role={}", options.socket_path, options.id, options.server ? "server" : "client");
  if (auto started = check_started(name); !started) return tl::unexpected(started.error());
  const std::lock_guard lock(open_mutex);
  return open_memif_port(options, name);
}

std::uint32_t DpdkLayer::crc32(std::span<const std::byte> bytes) const {
  return rte_net_crc_calc(bytes.data(), static_cast<std::uint32_t>(bytes.size()), RTE_NET_CRC32_ETH);
}

Result<void> DpdkLayer::serve_telemetry(std::span<const TelemetryCommand> commands, TelemetryHandler handler) {
  if (!eal_started()) return fail(EINVAL, "DPDK telemetry: PortLayer::start() has not succeeded");
  return port::serve_telemetry(commands, std::move(handler));
}
void DpdkLayer::stop_telemetry() {
  port::stop_telemetry();
}
std::string DpdkLayer::telemetry_folder() const {
  return port::telemetry_folder();
}

std::vector<PortKind> DpdkLayer::kinds() const {
  if (extended_) return {PortKind::kMemif, PortKind::kAfPacket, PortKind::kTap, PortKind::kAfXdp, PortKind::kPci};
  return {PortKind::kMemif, PortKind::kAfPacket, PortKind::kTap};
}

}  // namespace mrc::port
