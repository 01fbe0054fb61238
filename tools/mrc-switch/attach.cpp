// SPDX-License-Identifier: BSD-2-Clause
// What clients ask of the control socket: attaching, endpoints, look-ups; and their end.
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>

#include "log.hpp"
#include "server.hpp"

namespace mrc::soft {

using control::Type;

namespace {

constexpr std::size_t kMaxEndpoints = 1024;  // of one client
constexpr std::size_t kMaxWaiting = 65536;

std::string place_record(Type type, std::uint32_t sequence, const EndpointKey& key, path::Location location,
                         control::PlaceAnswer answer) {
  return control::encode(
      type, sequence,
      control::PlaceBody{key.ipv4, key.port, location.t0, location.nic, static_cast<std::uint8_t>(answer), 0});
}

}  // namespace

void Server::handle(Connection& connection, const control::Message& message) {
  const bool client = connection.member != UINT32_MAX;
  switch (message.type) {
    case Type::kHello:
      if (client) return done(connection, message.sequence, EALREADY, "this connection is attached already");
      return on_hello(connection, message);
    case Type::kCommand:
      return on_command(connection, message);
    case Type::kRegister:
    case Type::kUnregister:
    case Type::kLookup:
      if (!client) return done(connection, message.sequence, ENOTCONN, "say hello first");
      if (message.type == Type::kRegister) return on_register(connection, message);
      if (message.type == Type::kUnregister) return on_unregister(connection, message);
      return on_lookup(connection, message);
    default:
      return done(connection, message.sequence, EPROTO, "a message that only the switch sends");
  }
}

void Server::on_hello(Connection& connection, const control::Message& message) {
  const auto hello = message.as<control::Hello>();
  const path::Location wish{hello.wish_t0, hello.wish_nic};
  Member* member = forwarder_.add(hello.has_wish != 0 ? &wish : nullptr);
  if (member == nullptr) {
    return done(
        connection, message.sequence, ENOSPC,
        fmt::format("this mrc-switch has room for {} processes with {} plane{} each{}", forwarder_.members().size(),
                    forwarder_.planes(), forwarder_.planes() == 1 ? "" : "s",
                    forwarder_.planes() == 1 ? " (DPDK's limit of ports)"
                                             : " (DPDK's limit of ports); with fewer planes there is room for more: "
                                               "FI_MRC_SWITCH_ARGS=\"--planes 1\""));
  }
  member->pid = hello.pid;
  member->ipv4 = hello.ipv4;
  member->name = control::text_of(hello.name);
  if (auto opened = open_ports(*member); !opened) {
    log("cannot attach {} (pid {}): {}", member->name, member->pid, opened.error().text);
    forwarder_.remove(member->slot);
    return done(connection, message.sequence, opened.error().code, opened.error().text);
  }
  connection.member = member->slot;
  local_.insert(member->ipv4);
  if (!had_client_ && !options_.timeline.empty()) {  // checked at start; from here on it has something to happen to
    if (auto started = start_timeline(options_.timeline, control::monotonic_now()); !started) {
      log("{}", started.error().text);
    }
  }
  had_client_ = true;
  log("{} (pid {}) attached at T0 {} NIC {}", member->name, member->pid, member->location.t0, member->location.nic);
  welcome(connection, message.sequence, *member);
}

Result<void> Server::open_ports(Member& member) {
  const auto no = [](const char* what) {
    return fail(errno, fmt::format("mrc-switch: {}: {}", what, ::strerror(errno)));
  };
  member.wake = control::Fd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  member.memfd = control::Fd(::memfd_create("mrc-wake", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Sealed: a client that cut the page short would kill us with SIGBUS.
  if (!member.wake || !member.memfd || ::ftruncate(member.memfd.get(), control::kWakePageSize) != 0 ||
      ::fcntl(member.memfd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return no("cannot make a wake page");
  }
  void* page = ::mmap(nullptr, control::kWakePageSize, PROT_READ | PROT_WRITE, MAP_SHARED, member.memfd.get(), 0);
  if (page == MAP_FAILED) return no("cannot map a wake page");
  member.page = static_cast<control::WakePage*>(page);

  auto ports = ports_.take(forwarder_.planes());
  if (!ports) return tl::make_unexpected(ports.error());
  member.ports = std::move(*ports);

  // The incarnation is part of the name: a stale socket of an earlier switch can be in nobody's way.
  const std::string path =
      fmt::format("{}/m{:08x}-{}.sock", folder_, static_cast<std::uint32_t>(incarnation_), memif_serial_++);
  member.socket_paths.push_back(path);
  member.outputs.resize(forwarder_.planes());
  for (unsigned plane = 0; plane < forwarder_.planes(); ++plane) {
    port::MemifOptions memif;
    memif.socket_path = path;
    memif.id = plane;
    memif.server = true;
    memif.mtu = options_.mtu;
    memif.ring_log2 = options_.ring_log2;
    auto opened = member.ports.layer().open_memif(memif);
    if (!opened) return tl::make_unexpected(opened.error());
    member.outputs[plane].port = std::move(*opened);
    member.outputs[plane].member = member.slot;
    member.outputs[plane].plane = static_cast<std::uint8_t>(plane);
  }
  return {};
}

void Server::welcome(Connection& connection, std::uint32_t sequence, Member& member) {
  control::Welcome body;
  body.incarnation = incarnation_;
  body.fabric = path::kDefaultFabric;
  body.pid = static_cast<std::uint32_t>(::getpid());
  body.locator = forwarder_.clos().config().locator;
  body.mtu = options_.mtu;
  body.planes_up = member.carriers = forwarder_.carriers(member, control::monotonic_now());
  if (options_.rate != 0 && options_.base_rtt.ns > 0) {
    body.queue_log2 = static_cast<std::uint8_t>(std::bit_width(static_cast<std::uint64_t>(options_.base_rtt.ns)) - 1);
  }
  body.link_mbps = static_cast<std::uint32_t>(options_.rate / 1000000);
  body.t0 = member.location.t0;
  body.nic = member.location.nic;
  body.uplinks = forwarder_.clos().config().t1s;
  body.planes = static_cast<std::uint8_t>(forwarder_.planes());
  body.plane_bits = forwarder_.clos().config().usid.plane_bits;
  body.srv6 = forwarder_.uplinks() == nullptr || options_.uplink_srv6;
  body.memory_only = !options_.may_corrupt;
  body.ring_log2 = static_cast<std::uint8_t>(options_.ring_log2);
  for (unsigned plane = 0; plane < forwarder_.planes(); ++plane) {
    body.plane[plane].memif_id = plane;
    control::set_text(body.plane[plane].memif_path, member.socket_paths.front());
  }
  const std::string record = control::encode(Type::kWelcome, sequence, body);
  const std::array<int, 3> fds{member.wake.get(), wake_.get(), member.memfd.get()};
  iovec part{const_cast<char*>(record.data()), record.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof fds)> control_bytes{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control_bytes.data();
  header.msg_controllen = control_bytes.size();
  cmsghdr* c = CMSG_FIRSTHDR(&header);
  c->cmsg_level = SOL_SOCKET;
  c->cmsg_type = SCM_RIGHTS;
  c->cmsg_len = CMSG_LEN(sizeof fds);
  ::memcpy(CMSG_DATA(c), fds.data(), sizeof fds);
  // Nothing went to this client before that it may have left unread, unless it floods us: then it must go.
  if (::sendmsg(connection.socket.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && !connection.broken) {
    connection.broken = true;
    broken_.push_back(connection.id);
  }
}

void Server::on_register(Connection& connection, const control::Message& message) {
  const auto body = message.as<control::EndpointBody>();
  Member& member = *forwarder_.member(connection.member);
  const EndpointKey key{body.ipv4, body.port};
  const auto refuse = [&](int code, std::string_view text) { done(connection, message.sequence, code, text); };
  if (key.ipv4 != member.ipv4) return refuse(EPERM, "a process may register endpoints of its own IPv4 address only");
  if (key.port == 0) return refuse(EINVAL, "port 0 is no endpoint");
  if (Member* owner = forwarder_.owner(key)) {
    if (owner == &member) return refuse(0, {});
    return refuse(EADDRINUSE, fmt::format("port {} belongs to {} (pid {})", key.port, owner->name, owner->pid));
  }
  if (member.endpoints.size() >= kMaxEndpoints) {
    return refuse(ENOSPC, fmt::format("a process may have {} endpoints on this mrc-switch", kMaxEndpoints));
  }
  forwarder_.bind(key, member);
  done(connection, message.sequence, 0, {});
  const auto asked = waiting_.find(key.value());
  if (asked == waiting_.end()) return;
  for (const std::uint64_t id : asked->second) {
    const auto found = connections_.find(id);
    if (found == connections_.end()) continue;
    queue(*found->second, place_record(Type::kPlace, 0, key, member.location, control::PlaceAnswer::kFound));
  }
  waiting_total_ -= asked->second.size();
  waiting_.erase(asked);
}

void Server::on_unregister(Connection& connection, const control::Message& message) {
  const auto body = message.as<control::EndpointBody>();
  Member& member = *forwarder_.member(connection.member);
  const EndpointKey key{body.ipv4, body.port};
  if (forwarder_.owner(key) != &member) {
    return done(connection, message.sequence, ENOENT, "this process has no such endpoint");
  }
  forwarder_.unbind(key);
  done(connection, message.sequence, 0, {});
  broadcast(place_record(Type::kClosed, 0, key, member.location, control::PlaceAnswer::kFound), connection.id);
}

void Server::on_lookup(Connection& connection, const control::Message& message) {
  const auto body = message.as<control::EndpointBody>();
  const EndpointKey key{body.ipv4, body.port};
  const auto answer = [&](control::PlaceAnswer what, path::Location location) {
    queue(connection, place_record(Type::kPlace, message.sequence, key, location, what));
  };
  if (const Member* owner = forwarder_.owner(key)) return answer(control::PlaceAnswer::kFound, owner->location);
  if (is_local(key.ipv4)) {
    if (waiting_total_ >= kMaxWaiting) {  // forgotten questions are asked again
      waiting_.clear();
      waiting_total_ = 0;
    }
    auto& askers = waiting_[key.value()];
    if (std::find(askers.begin(), askers.end(), connection.id) == askers.end()) {
      askers.push_back(connection.id);
      ++waiting_total_;
    }
    return answer(control::PlaceAnswer::kUnknown, {});
  }
  if (forwarder_.uplinks() == nullptr) return answer(control::PlaceAnswer::kNoRoute, {});
  for (const auto& route : options_.routes) {
    if ((key.ipv4 & route.mask) == route.network) return answer(control::PlaceAnswer::kFound, route.location);
  }
  // Point to point, or one flat network: everybody is at the same T0.
  if (options_.routes.empty()) return answer(control::PlaceAnswer::kFound, options_.location);
  answer(control::PlaceAnswer::kNoRoute, {});
}

void Server::on_command(Connection& connection, const control::Message& message) {
  auto result = run_command(*this, std::string(message.text()));
  const int code = result ? 0 : result.error().code;
  std::string_view text = result ? std::string_view(*result) : std::string_view(result.error().text);
  do {
    const auto part = text.substr(0, control::kMaxText);
    text.remove_prefix(part.size());
    queue(connection,
          control::encode(Type::kReport, message.sequence, control::TextBody{code, text.empty() ? 0u : 1u}, part));
  } while (!text.empty());
}

void Server::close(std::uint64_t id) {
  const auto found = connections_.find(id);
  if (found == connections_.end()) return;
  const std::uint32_t slot = found->second->member;
  connections_.erase(found);
  Member* member = forwarder_.member(slot);
  if (member == nullptr) return;
  log("{} (pid {}) left{}", member->name, member->pid,
      member->endpoints.empty() ? "" : " without closing its endpoints");
  const auto endpoints = member->endpoints;
  for (const auto& key : endpoints) {
    broadcast(place_record(Type::kGone, 0, key, member->location, control::PlaceAnswer::kFound), id);
  }
  forwarder_.remove(slot);
  if (forwarder_.member_count() == 0) alone_since_ = control::monotonic_now();
}

void Server::tell_carriers(Tick now) {
  for (auto& [id, connection] : connections_) {
    Member* member = forwarder_.member(connection->member);
    if (member == nullptr) continue;
    const std::uint32_t carriers = forwarder_.carriers(*member, now);
    for (unsigned plane = 0; plane < forwarder_.planes(); ++plane) {
      const std::uint8_t up = carriers >> plane & 1;
      if (up == (member->carriers >> plane & 1)) continue;
      queue(*connection,
            control::encode(Type::kPlane, 0, control::PlaneBody{static_cast<std::uint8_t>(plane), up, {}}));
    }
    member->carriers = carriers;
  }
}

}  // namespace mrc::soft
