// SPDX-License-Identifier: BSD-2-Clause
// The control socket's plumbing: binding, accepting, reading and writing records.
#include "server.hpp"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>

#include "log.hpp"

namespace mrc::soft {
namespace {

constexpr std::size_t kMaxConnections = 256;
constexpr std::size_t kMaxOutbox = 65536;  // a client that does not read for so long has lost its notices: it must go
constexpr std::uint64_t kListener = 0, kWake = ~std::uint64_t{0}, kUplink = kWake - 1;

std::atomic<int> interrupt_fd{-1};

}  // namespace

Result<std::unique_ptr<Server>> Server::open(const Options& options, Forwarder& forwarder, PortPool& ports) {
  std::unique_ptr<Server> server(new Server(options, forwarder, ports));
  if (auto bound = server->bind(); !bound) return tl::make_unexpected(bound.error());
  return server;
}

Result<void> Server::bind() {
  path_ = options_.socket;
  if (path_.empty()) {
    auto folder = control::runtime_folder_path("/tmp");
    if (!folder) return tl::make_unexpected(folder.error());
    auto opened = control::open_runtime_folder(*folder, ::geteuid());
    if (!opened) return tl::make_unexpected(opened.error());
    path_ = *folder + "/" + control::socket_name();
  }
  if (path_.front() != '/') {
    char here[4096];
    if (::getcwd(here, sizeof here) != nullptr) path_ = std::string(here) + "/" + path_;
  }
  const auto slash = path_.rfind('/');
  folder_ = path_.substr(0, slash);
  control::Fd folder(::open(folder_.empty() ? "/" : folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail(errno, fmt::format("cannot open the folder of {}: {}", path_, ::strerror(errno)));

  // Held while we live: whoever has it may remove a socket that a crash left behind.
  auto lock = control::try_lock_file(folder.get(), path_.substr(slash + 1) + ".lock");
  if (!lock) return tl::make_unexpected(lock.error());
  if (!*lock) return fail(EADDRINUSE, fmt::format("another mrc-switch serves {}", path_));
  lock_ = std::move(*lock);

  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // The memif sockets lie beside it and have longer names.
  if (folder_.size() + sizeof "/m01234567-0123456789.sock" > sizeof address.sun_path ||
      path_.size() >= sizeof address.sun_path) {
    return fail(ENAMETOOLONG, fmt::format("{} is too long for a Unix socket", path_));
  }
  path_.copy(address.sun_path, path_.size());
  ::unlink(path_.c_str());
  listener_ = control::Fd(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path_.c_str(), 0600) != 0 || ::listen(listener_.get(), 4096) != 0) {
    return fail(errno, fmt::format("cannot listen on {}: {}", path_, ::strerror(errno)));
  }
  epoll_ = control::Fd(::epoll_create1(EPOLL_CLOEXEC));
  wake_ = control::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!epoll_ || !wake_) return fail(errno, fmt::format("cannot make an eventfd: {}", ::strerror(errno)));
  const auto watch = [&](int fd, std::uint64_t id) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = id;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event);
  };
  watch(listener_.get(), kListener);
  watch(wake_.get(), kWake);
  if (Uplinks* uplinks = forwarder_.uplinks()) {
    for (unsigned plane = 0; plane < uplinks->planes(); ++plane) {
      if (const int fd = uplinks->output(plane).port->wake_fd(); fd >= 0) watch(fd, kUplink);
    }
  }
  interrupt_fd.store(wake_.get());
  if (::getrandom(&incarnation_, sizeof incarnation_, 0) != sizeof incarnation_)
    incarnation_ = static_cast<std::uint64_t>(::getpid());
  alone_since_ = control::monotonic_now();
  return {};
}

Server::~Server() {
  interrupt_fd.store(-1);
  if (listener_) ::unlink(path_.c_str());
}

void Server::interrupt() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto n = ::write(interrupt_fd.load(), &one, sizeof one);
}

void Server::announce_sleep(bool asleep) {
  for (const auto& member : forwarder_.members()) {
    if (member) member->page->switch_asleep.store(asleep ? 1 : 0, std::memory_order_relaxed);
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

bool Server::may_leave(Tick now) const {
  if (options_.stay || forwarder_.member_count() > 0) return false;
  return now - alone_since_ > (had_client_ ? options_.leave_after : options_.first_client_within);
}

void Server::poll(int timeout_ms) {
  std::array<epoll_event, 64> events;
  const int n = ::epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), timeout_ms);
  for (int i = 0; i < n; ++i) {
    const std::uint64_t id = events[static_cast<std::size_t>(i)].data.u64;
    if (id == kListener) {
      accept_all();
    } else if (id == kWake) {
      std::uint64_t value;
      [[maybe_unused]] const auto got = ::read(wake_.get(), &value, sizeof value);
    } else if (id != kUplink) {
      const auto found = connections_.find(id);
      if (found == connections_.end()) continue;
      if ((events[static_cast<std::size_t>(i)].events & EPOLLOUT) != 0) push(*found->second);
      serve(*found->second);
    }
  }
  while (!broken_.empty()) {  // closing one tells the others, and may find more that are broken
    const std::uint64_t id = broken_.back();
    broken_.pop_back();
    close(id);
  }
}

void Server::accept_all() {
  for (;;) {
    control::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    ucred peer{};
    socklen_t size = sizeof peer;
    const bool known = ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0;
    auto connection = std::make_unique<Connection>();
    connection->id = next_id_++;
    connection->socket = std::move(socket);
    if (!known || (peer.uid != ::geteuid() && peer.uid != 0)) {
      done(*connection, 0, EPERM, "this mrc-switch serves another user; start your own");
      continue;
    }
    if (connections_.size() >= kMaxConnections) {
      done(*connection, 0, ENOSPC, "too many connections to this mrc-switch");
      continue;
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = connection->id;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, connection->socket.get(), &event) != 0) continue;
    connections_.emplace(connection->id, std::move(connection));
  }
}

void Server::serve(Connection& connection) {
  std::array<std::byte, control::kMaxMessage> buffer;
  // A flood from one client must not keep the forwarder from its work.
  for (int budget = 64; budget > 0 && !connection.broken; --budget) {
    const ssize_t n = ::recv(connection.socket.get(), buffer.data(), buffer.size(), MSG_DONTWAIT | MSG_TRUNC);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (n <= 0) {
      connection.broken = true;
      broken_.push_back(connection.id);
      return;
    }
    control::Message message;
    const auto error = static_cast<std::size_t>(n) > buffer.size()
                           ? control::DecodeError::kLength
                           : control::decode({buffer.data(), static_cast<std::size_t>(n)}, message);
    if (error == control::DecodeError::kNone) {
      handle(connection, message);
      continue;
    }
    ++bad_messages_;
    log("bad control message: {}; closing that connection", control::to_string(error));
    done(connection, 0, EPROTO,
         fmt::format("{} (this mrc-switch speaks version {})", control::to_string(error), control::kProtocolVersion));
    connection.broken = true;
    broken_.push_back(connection.id);
  }
}

void Server::push(Connection& connection) {
  while (!connection.outbox.empty()) {
    const auto& record = connection.outbox.front();
    if (::send(connection.socket.get(), record.data(), record.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) connection.outbox.clear();  // it has hung up; reading will say so
      break;
    }
    connection.outbox.pop_front();
  }
  if (connection.writable_wanted == !connection.outbox.empty()) return;
  connection.writable_wanted = !connection.outbox.empty();
  epoll_event event{};
  event.events = connection.writable_wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u64 = connection.id;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.socket.get(), &event);
}

void Server::queue(Connection& connection, std::string record) {
  if (connection.broken) return;
  if (connection.outbox.size() >= kMaxOutbox) {
    connection.broken = true;
    broken_.push_back(connection.id);
    return;
  }
  connection.outbox.push_back(std::move(record));
  if (connection.outbox.size() == 1) push(connection);
}

void Server::done(Connection& connection, std::uint32_t sequence, int code, std::string_view text) {
  queue(connection, control::encode(control::Type::kDone, sequence, control::TextBody{code, 0}, text));
}

void Server::broadcast(const std::string& record, std::uint64_t except) {
  for (auto& [id, connection] : connections_) {
    if (id != except && connection->member != UINT32_MAX) queue(*connection, record);
  }
}

bool Server::is_local(std::uint32_t ipv4) {
  if (ipv4 >> 24 == 127 || local_.contains(ipv4)) return true;
  const Tick now = control::monotonic_now();
  if (local_checked_.ns != INT64_MIN && now - local_checked_ < seconds(1)) return false;
  local_checked_ = now;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return false;
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || at->ifa_addr->sa_family != AF_INET) continue;
    sockaddr_in address{};
    ::memcpy(&address, at->ifa_addr, sizeof address);
    local_.insert(ntohl(address.sin_addr.s_addr));
  }
  ::freeifaddrs(list);
  return local_.contains(ipv4);
}

}  // namespace mrc::soft
