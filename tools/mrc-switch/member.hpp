// SPDX-License-Identifier: BSD-2-Clause
// One attached process: its place in the fabric, its ports (one per plane), its endpoints and its wake-up page.
// All of mrc-switch is one thread.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "frames.hpp"
#include "mrc/control/protocol.hpp"
#include "mrc/control/runtime.hpp"
#include "mrc/control/wake.hpp"
#include "mrc/path/address.hpp"
#include "mrc/port/port.hpp"
#include "options.hpp"
#include "port_pool.hpp"

namespace mrc::soft {

inline constexpr std::size_t kBurst = 32;

/// Why the switch itself dropped a frame; what the fabric does to packets is fabric::DropCause.
enum class Drop : std::uint8_t {
  kNone,
  kMalformed,    ///< no IPv6 frame with UDP inside, or its lengths contradict each other
  kSpoofed,      ///< inner source is no endpoint of the client that sent it
  kFabric,       ///< see the plane's fabric drops
  kNoReceiver,   ///< nobody attached there, or not connected yet
  kQueueFull,    ///< the receiver is slower than its senders
  kNoNeighbour,  ///< uplink: the next hop's MAC is not known (yet)
  kCount
};
inline constexpr std::size_t kDrops = static_cast<std::size_t>(Drop::kCount);
const char* to_string(Drop);

struct PlaneCounters {
  std::uint64_t forwarded = 0, bytes = 0, delayed = 0, marked = 0;
  std::array<std::uint64_t, kDrops> drops{};
  std::array<std::uint64_t, fabric::kDropCauses> fabric_drops{};
};

struct EndpointKey {
  std::uint32_t ipv4 = 0;
  std::uint16_t port = 0;
  bool operator==(const EndpointKey&) const = default;
  std::uint64_t value() const { return std::uint64_t{ipv4} << 16 | port; }
};

/// A port to send to, with what waits for room in its ring.
struct Output {
  std::unique_ptr<port::Port> port;
  FrameQueue waiting;
  /// Frames of the burst at hand: they stay valid until it is flushed.
  std::array<std::span<const std::byte>, kBurst> staged;
  std::uint32_t staged_count = 0;
  bool listed = false;  ///< in the forwarder's list of outputs to flush
  std::uint32_t member = UINT32_MAX;
  std::uint8_t plane = 0;
  std::uint64_t rx_frames = 0, rx_bytes = 0, tx_frames = 0, tx_bytes = 0, tx_dropped = 0;
};

struct Member {
  std::uint32_t slot = 0;
  std::uint32_t generation = 0;  ///< of the slot
  std::uint32_t pid = 0;
  std::uint32_t ipv4 = 0;
  std::string name;
  path::Location location{};
  PortPool::Lease ports;        ///< of the outputs
  std::vector<Output> outputs;  ///< per plane
  std::vector<EndpointKey> endpoints;
  std::vector<std::string> socket_paths;  ///< of the memifs, to be removed
  std::array<std::uint64_t, kDrops> dropped{};

  control::Fd wake;  ///< client's eventfd
  control::Fd memfd;
  control::WakePage* page = nullptr;
  std::uint32_t carriers = 0;  ///< planes on which it was told that its link is up
  bool kick = false;           ///< frames were sent since the last look at its asleep flag

  ~Member();
  Member() = default;
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;
};

}  // namespace mrc::soft
