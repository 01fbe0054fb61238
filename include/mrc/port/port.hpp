// SPDX-License-Identifier: BSD-2-Clause
// Ports as the engine sees them: bursts of Ethernet frames in and out, no DPDK type in sight. One port is one plane.
// The interface is virtual per burst, never per packet, so that a second shared object (PCI, af_xdp, mlx5) can
// bring its own EAL and drivers behind the same table.
// Threads: one owner at a time, except link_up() and counters(), which any thread may call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mrc/port/telemetry.hpp"
#include "mrc/result.hpp"

namespace mrc::port {

using MacAddress = std::array<std::uint8_t, 6>;

/// A received frame. `data` starts at the Ethernet header and is writable (iCRC masking); valid until release().
struct RxFrame {
  std::span<std::byte> data;
  void* handle = nullptr;  ///< the driver's own (an mbuf)
};

/// A frame to send: filled by reserve() with an empty buffer, then `length` bytes are written from `data` on.
struct TxFrame {
  std::byte* data = nullptr;  ///< room for Port::max_frame() bytes, Ethernet header first
  std::uint32_t length = 0;
  void* handle = nullptr;
};

struct PortCounters {
  std::uint64_t rx_frames = 0, rx_bytes = 0, tx_frames = 0, tx_bytes = 0;
  std::uint64_t tx_dropped = 0;  ///< frames that the driver gave back or lost
  std::uint64_t rx_dropped = 0;  ///< as the driver reports them
};

enum class PortKind : std::uint8_t { kMemif, kAfPacket, kTap, kAfXdp, kPci, kOther };

class Port {
 public:
  virtual ~Port() = default;
  Port(const Port&) = delete;
  Port& operator=(const Port&) = delete;

  /// Up to out.size() frames; 0 when idle. The frames are the caller's until release().
  virtual std::size_t receive(std::span<RxFrame> out) = 0;
  virtual void release(std::span<const RxFrame> frames) = 0;

  /// Empty buffers for at most out.size() frames, fewer (0) when the pool or the ring is full.
  virtual std::size_t reserve(std::span<TxFrame> out) = 0;
  /// Hands over the first frames; returns how many the driver took. The rest was dropped and counted:
  /// the transport retransmits. Never blocks.
  virtual std::size_t send(std::span<const TxFrame> frames) = 0;
  /// Gives unused reserved buffers back.
  virtual void cancel(std::span<const TxFrame> frames) = 0;

  virtual bool link_up() const = 0;
  virtual PortCounters counters() const = 0;

  /// A descriptor that becomes readable when frames may be waiting, or -1. Owned by the port.
  /// Only for going to sleep; draining it is not needed on the packet path.
  virtual int wake_fd() const { return -1; }

  const std::string& name() const { return name_; }  ///< as configured, e.g. "af_packet:mrc0"
  PortKind kind() const { return kind_; }
  MacAddress mac() const { return mac_; }
  std::uint32_t mtu() const { return mtu_; }  ///< L3 bytes, found from the device, not assumed
  std::uint32_t max_frame() const { return mtu_ + 14; }
  bool lossless_memory() const { return kind_ == PortKind::kMemif; }  ///< nothing on the way can corrupt bits

 protected:
  Port() = default;
  std::string name_;
  PortKind kind_ = PortKind::kOther;
  MacAddress mac_{};
  std::uint32_t mtu_ = 1500;
};

/// One port out of FI_MRC_PORTS or the TOML file, parsed but not opened.
struct PortSpec {
  PortKind kind = PortKind::kAfPacket;
  std::string target;                                        ///< interface, socket path, PCI address
  std::vector<std::pair<std::string, std::string>> options;  ///< further key=value pairs, e.g. {"mtu","9000"}
  std::string text;                                          ///< as the user wrote it, for messages
};

/// What a memif port needs (from the switch, or from the user for back-to-back use).
struct MemifOptions {
  std::string socket_path;  ///< file system path
  std::uint32_t id = 0;
  bool server = false;
  std::uint32_t mtu = 9000;  ///< bsize is made large enough for mtu + 14
  std::uint32_t ring_log2 = 9;
};

struct EalOptions {
  bool pci = false;  ///< probe PCI devices (second object only)
  std::uint32_t memory_mb = 64;
  bool telemetry = false;  ///< opens DPDK's telemetry socket, for serve_telemetry()
  std::string log_level = "error";
  void (*log)(const char* line) = nullptr;  ///< EAL's and the PMDs' messages, a line at a time
};

/// The layer as one table; the built-in one knows memif, af_packet and tap, the second object's knows all.
class PortLayer {
 public:
  virtual ~PortLayer() = default;
  /// Starts EAL once per process; later calls return the first outcome. Affinity and signals stay as they were.
  virtual Result<void> start(const EalOptions& options) = 0;
  virtual Result<std::unique_ptr<Port>> open(const PortSpec& spec) = 0;
  virtual Result<std::unique_ptr<Port>> open_memif(const MemifOptions& options) = 0;
  /// Ethernet CRC-32 (rte_net_crc), for the iCRC. Valid after start().
  virtual std::uint32_t crc32(std::span<const std::byte> bytes) const = 0;
  virtual std::vector<PortKind> kinds() const = 0;
  /// Answers these commands on DPDK's telemetry socket (EalOptions::telemetry) until stop_telemetry(), which waits for
  /// an answer that is being made and removes the socket.
  virtual Result<void> serve_telemetry(std::span<const TelemetryCommand> commands, TelemetryHandler handler) = 0;
  virtual void stop_telemetry() = 0;
  virtual std::string telemetry_folder() const = 0;  ///< where the socket dpdk_telemetry.v2 is
};

/// The built-in layer (memif, af_packet, tap). A process-wide singleton; never destroyed.
PortLayer& builtin_layer();
/// The layer that can open `kind`: the built-in one, or the second object's, dlopen()ed from `directory`
/// (next to the provider) on first need; its dlopen error comes back in words.
Result<PortLayer*> layer_for(PortKind kind, const std::string& directory);

/// Parses one port: "af_packet:mrc0", "mrc0" (= af_packet), "tap:mrc0,mac=…", "memif:/run/x.sock,id=1,role=server",
/// "af_xdp:eth1", "pci:0000:3b:00.1", "mlx5:mlx5_0". Options follow the target after ','.
Result<PortSpec> parse_port(std::string_view text);

/// One group of ports = what one process claims: "[ip=10.77.0.1;t0=0;nic=0;gateway=fe80::1;]port[;port…]".
struct PortGroup {
  std::string ipv4;             ///< identity of the group, empty = the host's primary address
  int t0 = -1, nic = -1;        ///< -1 = not given
  std::uint64_t link_bps = 0;   ///< declared rate of each port, 0 = not declared
  std::string gateway;          ///< next hop (IPv6) of the planes, empty = on link
  std::vector<PortSpec> ports;  ///< plane 0, 1, …
};
/// Groups are separated by '|' (FI_MRC_PORTS="ip=10.77.0.1;a0;a1|ip=10.77.0.2;b0;b1").
Result<std::vector<PortGroup>> parse_groups(std::string_view text);

}  // namespace mrc::port
