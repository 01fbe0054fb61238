// SPDX-License-Identifier: BSD-2-Clause
// A process's side of mrc-switch's control socket: attaching (and starting the switch if there is none), the Directory
// of endpoints, notices about peers and planes, and the wake-up flags of both sides (design.md "A process reaches the
// fabric in one of two ways", "Autostart", "Progress, liveness, death").
//
// Threads: one owner at a time (the engine's lock), except alive(): any thread.
// Blocking: attach, register_endpoint, unregister_endpoint and reattach wait for the switch, at most for their timeout;
// lookup, poll, kick_switch and set_asleep never do. No call raises a signal or changes the process's state.
// After fork() the child must not use it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mrc/path/directory.hpp"
#include "mrc/path/usid.hpp"
#include "mrc/result.hpp"
#include "mrc/time.hpp"

namespace mrc::control {

struct AttachOptions {
  std::string socket;              ///< control socket of a running switch; empty: the default place, with autostart
  std::string program;             ///< FI_MRC_SWITCH: the executable to start; empty: search
  std::string provider_directory;  ///< where libmrc-fi.so lies: the search starts there
  bool autostart = true;           ///< only where `socket` is empty
  std::uint32_t ipv4 = 0;          ///< this process's identity, host order; also the only address it may register
  std::string name;                ///< for `mrc-switch ctl list`; empty: the program's name
  Duration timeout = seconds(10);
  std::string runtime_root = "/tmp";  ///< where the runtime folder is made; other values are for tests
};

/// One plane's port: what port::MemifOptions wants (role: client).
struct PlanePort {
  std::string memif_path;
  std::uint32_t memif_id = 0;
};

/// What the switch said when it accepted us.
struct SwitchInfo {
  std::uint64_t incarnation = 0;  ///< of the switch: changes when it restarts
  std::uint32_t pid = 0;          ///< the switch's
  path::Location location{};      ///< our T0 and NIC; the T0 survives reattach(), the NIC nearly always
  std::uint16_t uplinks = 1;      ///< T1 switches per plane
  std::uint32_t locator = path::kDefaultLocator;
  path::UsidLayout usid{};
  std::uint64_t fabric = path::kDefaultFabric;  ///< 48 bits, for path::EndpointAddress
  bool srv6 = true;               ///< packets need an outer uSID header (path::RouteMode::kSrv6), else kEcmp
  Duration queue_delay{};         ///< what the fabric's queues are made for; 0: not declared
  std::uint64_t link_bps = 0;     ///< rate of one plane's port; 0: not limited
  bool memory_only = true;        ///< nothing on the way can corrupt bits: iCRC may be negotiated off
  std::uint32_t mtu = 9000;       ///< L3 bytes, outer header included
  std::uint32_t ring_log2 = 9;    ///< of the memif rings
  std::vector<PlanePort> planes;  ///< plane 0, 1, …
  std::uint32_t planes_up = 0;    ///< bit per plane, at the time of attaching; notices follow
};

enum class NoticeKind : std::uint8_t {
  kEndpointGone,    ///< its process vanished without closing: Core::peer_gone()
  kEndpointClosed,  ///< it was unregistered cleanly; only routes to it are to be forgotten
  kPlane,           ///< `plane` went up or down: Core::set_plane_up()
  kSwitchDied,      ///< the switch is gone: close the ports, reattach(), open the new ones, forget all routes
};

struct Notice {
  NoticeKind kind = NoticeKind::kPlane;
  std::uint32_t ipv4 = 0;  ///< host order
  std::uint16_t port = 0;
  path::Location location{};
  std::uint8_t plane = 0;
  bool up = false;
};

class SwitchClient : public path::Directory {
 public:
  /// Connects, starting a switch first where that is allowed and needed. Errors say what to do.
  static Result<std::unique_ptr<SwitchClient>> attach(const AttachOptions& options);
  ~SwitchClient() override = default;
  SwitchClient(const SwitchClient&) = delete;
  SwitchClient& operator=(const SwitchClient&) = delete;

  virtual const SwitchInfo& info() const = 0;

  /// Makes (ipv4, port) known and allows its inner source address on our ports. EADDRINUSE if another process has it,
  /// EPERM if ipv4 is not ours.
  virtual Result<void> register_endpoint(std::uint32_t ipv4, std::uint16_t port) = 0;
  virtual Result<void> unregister_endpoint(std::uint32_t ipv4, std::uint16_t port) = 0;

  /// From the cache; asks the switch on a miss and reads its answers as they come. kUnknown is forgotten after 20 ms,
  /// kNoRoute after 1 s. kPending while the switch is dead.
  Answer lookup(std::uint32_t ipv4, std::uint16_t port, path::Location& out) override = 0;
  /// The sentence for kNoRoute.
  virtual std::string why_no_route(std::uint32_t ipv4) const = 0;

  /// Reads what the switch sent, without blocking; fills up to out.size() notices, returns how many. Call it once per
  /// many progress passes, and when fd() is readable. Cheap when nothing came (one recv).
  virtual std::size_t poll(std::span<Notice> out) = 0;

  virtual int fd() const = 0;       ///< the control socket: readable when poll() has work. Changes at reattach().
  virtual int wake_fd() const = 0;  ///< eventfd: the switch writes it when it sent frames and we were asleep
  /// Reads the eventfd empty (after waking up).
  virtual void drain_wake() = 0;

  /// After each TX burst: full fence, and if the switch sleeps, wakes it. A few ns when it does not.
  virtual void kick_switch() = 0;
  /// set_asleep(true): announces sleep (with a full fence); then poll the ports once more, then sleep on wake_fd().
  virtual void set_asleep(bool asleep) = 0;

  virtual bool alive() const = 0;  ///< false once the control connection broke
  /// After kSwitchDied: attaches anew (starting a switch where allowed), asks for the same T0 and NIC, and registers
  /// all endpoints again. info(), fd() and wake_fd() are new afterwards.
  virtual Result<void> reattach() = 0;

 protected:
  SwitchClient() = default;
};

/// One request to a running switch, for tools: "stats" or "list" (JSON comes back), or a setting such as
/// "plane 1 down", "impair loss 0.01 plane 2" (the words of `mrc-switch ctl`). `socket` empty: the default place.
Result<std::string> request(const std::string& socket, const std::string& words, Duration timeout = seconds(5));

/// The default control socket of this uid and network namespace; the folder is not made, nor need it exist.
Result<std::string> default_socket(const std::string& runtime_root = "/tmp");

}  // namespace mrc::control
