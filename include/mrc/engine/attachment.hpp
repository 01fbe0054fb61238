// SPDX-License-Identifier: BSD-2-Clause
// How a process is attached to the fabric: its ports (one a plane), who is where, and next hops. Three kinds: own
// ports (own_ports.hpp), mrc-switch (switch_ports.hpp), and what a test makes up.
// Threads: one owner at a time (the engine's lock), except set_asleep() and wake_fds() during set-up. Nothing here
// blocks but register_endpoint, unregister_endpoint and restart_ports.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mrc/path/address.hpp"
#include "mrc/path/directory.hpp"
#include "mrc/path/route.hpp"
#include "mrc/port/port.hpp"
#include "mrc/result.hpp"
#include "mrc/time.hpp"
#include "mrc/wire/icrc.hpp"

namespace mrc::engine {

struct EngineConfig;

/// Route::hop, as the engine reads it.
enum Hop : std::uint32_t {
  kHopNone = 0,
  kHopLoopback = 1,  ///< an endpoint of this process: never reaches a port
  kHopDirect = 2,    ///< next hop is the inner destination itself, by neighbour discovery
  kHopGateway = 3,   ///< next hop is the group's gateway, by neighbour discovery
  kHopFixed = 4,     ///< one fixed MAC (mrc-switch)
};

/// What happened to the attachment since the last look.
struct AttachmentNotice {
  enum class Kind : std::uint8_t {
    kPeerGone,   ///< `peer` vanished without closing
    kPlane,      ///< the other end reports plane up or down
    kPortsDead,  ///< mrc-switch died: give all buffers back, then call restart_ports()
  };
  Kind kind = Kind::kPlane;
  path::EndpointAddress peer{};
  std::uint8_t plane = 0;
  bool up = false;
};

class Attachment {
 public:
  virtual ~Attachment() = default;

  virtual std::uint32_t ipv4() const = 0;  ///< our identity, host order
  virtual std::string describe() const = 0;
  virtual unsigned planes() const = 0;
  virtual port::Port* port(unsigned plane) = 0;         ///< nullptr while there is none
  virtual std::uint64_t fabric() const = 0;             ///< 48 bits
  virtual std::uint16_t t0() const = 0;                 ///< what our inner addresses carry
  virtual Duration queue_delay() const { return {}; }   ///< that the fabric's queues are made for, 0 = not declared
  virtual std::uint64_t link_bps() const { return 0; }  ///< declared rate of each port, 0 = not declared
  virtual bool memory_only() const = 0;                 ///< no bit can flip on the way: iCRC may be off
  virtual wire::Crc32 crc32() const = 0;
  virtual port::PortLayer* layer() const { return nullptr; }  ///< whose telemetry can be used
  /// Local addresses that are somebody else's identity here (other port groups): not aliases of ours.
  virtual bool foreign(std::uint32_t ipv4) const = 0;

  virtual Result<void> register_endpoint(std::uint16_t port) = 0;
  virtual void unregister_endpoint(std::uint16_t port) = 0;
  virtual path::Directory::Answer locate(std::uint32_t ipv4, std::uint16_t port, path::Location& out) = 0;
  virtual std::string why_no_route(std::uint32_t ipv4, std::uint16_t port) const = 0;
  /// The way to a located peer; also starts looking for its next hop.
  virtual void route(const wire::Ipv6Address& inner, const path::Location& where, path::Route& out, Tick now) = 0;

  /// The next hop's MAC or nullptr (a solicitation is then due, see poll_neighbours). On the packet path.
  virtual const port::MacAddress* next_hop(unsigned plane, std::uint32_t hop, const wire::Ipv6Address& destination,
                                           Tick now) = 0;
  /// ICMPv6 frames. True if it was neighbour discovery (and has been dealt with).
  virtual bool on_neighbour(unsigned plane, std::span<const std::byte> frame, Tick now) = 0;
  /// Whether learn() is of use: point to point, where an INIT teaches the peer's MAC.
  virtual bool learns() const { return false; }
  virtual void learn(unsigned plane, const wire::Ipv6Address& from, const port::MacAddress& mac, Tick now) = 0;
  /// Writes one due neighbour frame of `plane`; 0 = none.
  virtual std::size_t poll_neighbours(unsigned plane, std::span<std::byte> out, Tick now) = 0;
  virtual bool neighbours_pending(unsigned plane, Tick now) const = 0;

  /// After each burst of sent frames: wakes a sleeping switch.
  virtual void sent() {}
  /// About once a millisecond. Returns how many notices it wrote.
  virtual std::size_t poll(std::span<AttachmentNotice> out, Tick now) = 0;
  /// After kPortsDead: closes the ports, attaches anew, opens new ones. May be called again after an error.
  virtual Result<void> restart_ports() { return {}; }

  /// Descriptors that become readable when there may be something to receive; they change in restart_ports().
  virtual std::vector<int> wake_fds() const = 0;
  /// Whether every port is covered by one of them; if not, sleepers look again every millisecond.
  virtual bool wakes() const = 0;
  virtual void set_asleep(bool) {}
  /// What a forked child has to close, lest it keep this process's claims and connections alive.
  virtual std::vector<int> private_fds() const { return {}; }
};

/// Own ports where the configuration names some, else mrc-switch. Starts DPDK.
Result<std::unique_ptr<Attachment>> open_attachment(const EngineConfig& config);

}  // namespace mrc::engine
