// SPDX-License-Identifier: BSD-2-Clause
// net_memif: shared-memory rings to another process. The client connects whenever a server is there; a dead peer
// takes the link down, and a new one brings it up again, in either role.
#include <fmt/format.h>
#include <rte_alarm.h>
#include <rte_log.h>
#include <rte_random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <vector>

#include "datapath/port/control_gate.hpp"
#include "datapath/port/eal.hpp"
#include "datapath/port/ethdev_port.hpp"
#include "datapath/port/openers.hpp"
#include "datapath/port/options.hpp"
#include "datapath/port/process.hpp"

namespace mrc::port {
namespace {

constexpr std::uint64_t kLookMicroseconds = 20'000;  ///< nothing to do, or nobody there
constexpr std::uint64_t kNextMicroseconds = 2'000;   ///< another port of ours waits for its turn

class MemifPort final : public EthdevPort {
 public:
  ~MemifPort() override;

  Result<void> open(const MemifOptions& options, const std::string& name);

  std::size_t receive(std::span<RxFrame> out) override {
    auto& gate = ControlGate::instance();
    if (!gate.enter(member_)) return 0;
    const std::size_t count = live_ ? receive_burst(out) : 0;
    gate.leave(member_);
    return count;
  }

  std::size_t send(std::span<const TxFrame> frames) override {
    auto& gate = ControlGate::instance();
    if (!gate.enter(member_)) {
      drop(frames);
      return 0;
    }
    std::size_t count = 0;
    if (live_)
      count = send_burst(frames);
    else
      drop(frames);
    gate.leave(member_);
    return count;
  }

  /// In EAL's interrupt thread, under Control. True if an attempt was made.
  bool connect_if_needed();

 private:
  ControlGate::Member member_;
  bool member_added_ = false;
  bool client_ = false;
  bool counted_ = false;  ///< in paths()
  bool live_ = false;     ///< started at least once; written with its gate closed
  std::uint64_t channel_ = 0;
  std::string socket_path_;
};

/// Clients that the alarm connects; guarded by Control, as is `alarm_set`.
std::vector<MemifPort*>& clients() {
  static auto* const list = new std::vector<MemifPort*>;
  return *list;
}
bool alarm_set = false;

/// Ports of this process on a socket path, guarded by Control. net_memif keeps one socket object a path: whoever
/// comes first decides whether it listens.
struct PathUse {
  int servers = 0, clients = 0;
};
std::map<std::string, PathUse>& paths() {
  static auto* const map = new std::map<std::string, PathUse>;
  return *map;
}

void connect_some(void*);

/// One chain of alarms, so that EAL's interrupt thread gets round to accepting between two of them.
void set_alarm(std::uint64_t microseconds) {
  if (!alarm_set) alarm_set = rte_eal_alarm_set(microseconds, connect_some, nullptr) == 0;
}

void connect_some(void*) {
  const ControlGate::Control control;
  alarm_set = false;
  // One connection at a time: the server's backlog is 1, connect() blocks, and the server may be in this very
  // process, where this thread accepts.
  auto& list = clients();
  const auto tried = std::ranges::find_if(list, [](MemifPort* port) { return port->connect_if_needed(); });
  const bool one = tried != list.end();
  if (one) std::rotate(tried, tried + 1, list.end());  // the others' turn comes first
  if (!list.empty()) set_alarm(one ? kNextMicroseconds : kLookMicroseconds);
}

MemifPort::~MemifPort() {
  const ControlGate::Control control;
  if (client_) std::erase(clients(), this);
  stop_device();
  if (counted_) {
    auto& use = paths()[socket_path_];
    --(client_ ? use.clients : use.servers);
    if (use.servers + use.clients == 0) paths().erase(socket_path_);
  }
  if (member_added_) ControlGate::instance().remove(member_);
}

bool MemifPort::connect_if_needed() {
  struct stat file {};
  if (ControlGate::channel_alive(channel_)) return false;  // connected, or shaking hands
  if (stat(socket_path_.c_str(), &file) != 0 || !S_ISSOCK(file.st_mode)) return false;
  const DescriptorSnapshot descriptors;
  // A server that died leaves its socket behind: no error line for each refusal.
  const int logtype = rte_log_register("pmd.net.memif");
  const int level = logtype < 0 ? 0 : rte_log_get_level(static_cast<std::uint32_t>(logtype));
  if (logtype >= 0) rte_log_set_level(static_cast<std::uint32_t>(logtype), RTE_LOG_EMERG);
  // Nobody else's bursts wait for this, and ours have nobody to go to.
  const ControlGate::Closed closed(member_);
  rte_eth_dev_stop(port_id());
  const std::uint64_t before = ControlGate::newest_channel();
  live_ = rte_eth_dev_start(port_id()) == 0;
  if (live_ && ControlGate::newest_channel() != before) channel_ = ControlGate::newest_channel();
  if (logtype >= 0 && level >= 0)
    rte_log_set_level(static_cast<std::uint32_t>(logtype), static_cast<std::uint32_t>(level));
  descriptors.close_on_exec(true);
  return live_;
}

Result<void> check_socket(const MemifOptions& options, const std::string& name) {
  const auto& path = options.socket_path;
  if (path.empty() || path.front() != '/')
    return fail(EINVAL, fmt::format("DPDK port {}: the socket path must be absolute", name));
  if (path.size() >= kMemifPathLimit)
    return fail(ENAMETOOLONG, fmt::format("DPDK port {}: the socket path has {} bytes, the system's limit is {}", name,
                                          path.size(), kMemifPathLimit - 1));
  if (path.find(',') != std::string::npos)
    return fail(EINVAL, fmt::format("DPDK port {}: the socket path must not hold a comma", name));
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    return fail(ENOENT, fmt::format("DPDK port {}: folder {} does not exist", name, folder.string()));
  if (eaccess(folder.c_str(), R_OK | W_OK) != 0)
    return fail(EACCES, fmt::format("DPDK port {}: folder {} is not readable and writable for this user", name,
                                    folder.string()));
  if (options.mtu < kMtuFloor || options.mtu > kMemifMtuLimit)
    return fail(EINVAL, fmt::format("DPDK port {}: an MTU of {} is out of range ({} to {})", name, options.mtu,
                                    kMtuFloor, kMemifMtuLimit));
  if (options.ring_log2 < 4 || options.ring_log2 > 14)
    return fail(EINVAL,
                fmt::format("DPDK port {}: a ring of 2^{} is out of range (2^4 to 2^14)", name, options.ring_log2));
  return {};
}

/// A server's path must be free. What a dead server left behind is removed; a live one is reported.
Result<void> claim_path(const std::string& path, const std::string& name) {
  const auto found = paths().find(path);
  if (found != paths().end()) {
    if (found->second.servers > 0) return {};  // we listen there already, this is one more id
    return fail(EINVAL,
                fmt::format("DPDK port {}: a client of this process uses the same path; open the server first", name));
  }
  struct stat file {};
  if (stat(path.c_str(), &file) != 0) return {};
  const int probe = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  const bool dead = S_ISSOCK(file.st_mode) && probe >= 0 &&
                    connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
                    errno == ECONNREFUSED;
  if (probe >= 0) close(probe);
  if (dead && unlink(path.c_str()) == 0) return {};
  return fail(EADDRINUSE, fmt::format("DPDK port {}: {} is in use by another process, or not a socket", name, path));
}

Result<void> MemifPort::open(const MemifOptions& options, const std::string& name) {
  if (auto good = check_socket(options, name); !good) return good;
  client_ = !options.server;
  socket_path_ = options.socket_path;
  EthdevSetup setup;
  setup.name = name;
  setup.device = unique_name("net_memif");
  setup.kind = PortKind::kMemif;
  setup.mtu = options.mtu;
  // A frame over several descriptors would corrupt later ones (unfixed in 22.11): one buffer holds any frame.
  const std::uint32_t buffer = RTE_ALIGN_CEIL(options.mtu + 14, RTE_CACHE_LINE_SIZE);
  setup.room = buffer;
  setup.defer_start = client_;
  const auto random = rte_rand();
  const std::string arguments = fmt::format(
      "role={},id={},bsize={},rsize={},socket={},socket-abstract=no,mac=02:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}",
      client_ ? "client" : "server", options.id, buffer, options.ring_log2, options.socket_path, random & 0xff,
      (random >> 8) & 0xff, (random >> 16) & 0xff, (random >> 24) & 0xff, (random >> 32) & 0xff);

  // The alarm may not run before the device is whole, nor a peer connect.
  const ControlGate::Control control;
  const DescriptorSnapshot descriptors;
  if (options.server) {
    if (auto claimed = claim_path(socket_path_, name); !claimed) return claimed;
  }
  auto& use = paths()[socket_path_];
  ++(client_ ? use.clients : use.servers);
  counted_ = true;
  auto started = start_vdev(setup, arguments);
  descriptors.close_on_exec(false);
  if (!started) return started;
  member_.path = socket_path_;
  ControlGate::instance().add(member_);
  member_added_ = true;
  if (client_) {
    clients().push_back(this);
    set_alarm(1);
  } else {
    live_ = true;
  }
  return {};
}

}  // namespace

MemifOptions memif_options(const PortSpec& spec) {
  MemifOptions options;
  options.socket_path = spec.target;
  options.id = number_option(spec, "id", options.id);
  const std::string* role = find_option(spec, "role");
  options.server = role != nullptr && *role == "server";
  options.mtu = number_option(spec, "mtu", options.mtu);
  options.ring_log2 = number_option(spec, "ring", options.ring_log2);
  return options;
}

Result<std::unique_ptr<Port>> open_memif_port(const MemifOptions& options, const std::string& name) {
  auto port = std::make_unique<MemifPort>();
  if (auto opened = port->open(options, name); !opened) return tl::unexpected(opened.error());
  return port;
}

}  // namespace mrc::port
