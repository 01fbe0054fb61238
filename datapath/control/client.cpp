// SPDX-License-Identifier: BSD-2-Clause
// The client's side of the control socket.
#include "mrc/control/client.hpp"

#include <errno.h>
#include <fmt/format.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <deque>

#include "directory_cache.hpp"
#include "mrc/control/protocol.hpp"
#include "mrc/control/runtime.hpp"
#include "mrc/control/wake.hpp"

namespace mrc::control {
namespace {

constexpr Duration kRoomPatience = seconds(3);
constexpr int kRoomRetryMs = 25;

std::string dotted(std::uint32_t ipv4) {
  return fmt::format("{}.{}.{}.{}", ipv4 >> 24, ipv4 >> 16 & 0xff, ipv4 >> 8 & 0xff, ipv4 & 0xff);
}

tl::unexpected<Error> died() {
  return fail(EPIPE, "mrc-switch closed the control connection; its log says why");
}

/// The wake page, mapped.
class Page {
 public:
  Page() = default;
  ~Page() { unmap(); }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;
  bool map(int memfd) {
    unmap();
    void* at = ::mmap(nullptr, kWakePageSize, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
    if (at == MAP_FAILED) return false;
    page_ = static_cast<WakePage*>(at);
    return true;
  }
  WakePage* get() const { return page_; }

 private:
  void unmap() {
    if (page_ != nullptr) ::munmap(page_, kWakePageSize);
    page_ = nullptr;
  }
  WakePage* page_ = nullptr;
};

/// One message read from the socket, with the descriptors that came along.
struct Received {
  enum class Outcome { kMessage, kNothing, kClosed } outcome = Outcome::kNothing;
  std::array<Fd, 3> fds;
};

Received receive(int socket, std::span<std::byte> buffer, std::span<const std::byte>& record) {
  Received out;
  iovec part{buffer.data(), buffer.size()};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(3 * sizeof(int))> control;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t n;
  while ((n = ::recvmsg(socket, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  if (n < 0) {
    out.outcome = errno == EAGAIN ? Received::Outcome::kNothing : Received::Outcome::kClosed;
    return out;
  }
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = std::min<std::size_t>((c->cmsg_len - CMSG_LEN(0)) / sizeof(int), out.fds.size());
    std::array<int, 3> fds{};
    ::memcpy(fds.data(), CMSG_DATA(c), count * sizeof(int));
    for (std::size_t i = 0; i < count; ++i) out.fds[i].reset(fds[i]);
  }
  if (n == 0) {
    out.outcome = Received::Outcome::kClosed;
    return out;
  }
  out.outcome = Received::Outcome::kMessage;
  record = buffer.first(static_cast<std::size_t>(n));
  return out;
}

/// Sends one record; waits for room until `deadline` (kNever is not used; a past deadline = do not wait).
int send_record(int socket, const std::string& record, Tick deadline) {
  for (;;) {
    if (::send(socket, record.data(), record.size(), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0) return 0;
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return errno;
    const Duration left = deadline - monotonic_now();
    if (left.ns <= 0) return EAGAIN;
    pollfd ready{socket, POLLOUT, 0};
    ::poll(&ready, 1, static_cast<int>(left.ns / 1000000 + 1));
  }
}

class Client final : public SwitchClient {
 public:
  explicit Client(AttachOptions options) : options_(std::move(options)) {}

  Result<void> connect(bool again) {
    const Tick start = monotonic_now(), deadline = start + options_.timeout;
    for (;;) {
      auto connected = connect_once(again, deadline);
      // Full: processes of a job that is ending may be about to make room.
      if (!connected && connected.error().code == ENOSPC && !again && monotonic_now() - start < kRoomPatience) {
        ::poll(nullptr, 0, kRoomRetryMs);
        continue;
      }
      // A switch that is about to leave may hang up on us: then the next one is ours.
      if (connected || connected.error().code != EPIPE || !options_.socket.empty() || monotonic_now() > deadline) {
        notices_.clear();
        return connected;
      }
    }
  }

  Result<void> connect_once(bool again, Tick deadline) {
    Result<Fd> socket = options_.socket.empty() ? connect_or_start(ensure()) : connect_socket(options_.socket);
    if (!socket) return tl::make_unexpected(socket.error());
    socket_ = std::move(*socket);
    alive_.store(true);
    Hello hello;
    hello.pid = static_cast<std::uint32_t>(::getpid());
    hello.ipv4 = options_.ipv4;
    set_text(hello.name, options_.name.empty() ? program_invocation_short_name : options_.name);
    if (again) {
      hello.has_wish = 1;
      hello.wish_t0 = info_.location.t0;
      hello.wish_nic = info_.location.nic;
    }
    const std::uint32_t sequence = ++sequence_;
    if (const int code = send_record(socket_.get(), encode(Type::kHello, sequence, hello), deadline)) {
      return broken(code);
    }
    return wait_reply(sequence, deadline);
  }

  const SwitchInfo& info() const override { return info_; }

  Result<void> register_endpoint(std::uint32_t ipv4, std::uint16_t port) override {
    auto done = ask(Type::kRegister, ipv4, port);
    if (done) registered_.push_back({ipv4, port, 0});
    return done;
  }

  Result<void> unregister_endpoint(std::uint32_t ipv4, std::uint16_t port) override {
    std::erase_if(registered_, [&](const EndpointBody& e) { return e.ipv4 == ipv4 && e.port == port; });
    return ask(Type::kUnregister, ipv4, port);
  }

  Answer lookup(std::uint32_t ipv4, std::uint16_t port, path::Location& out) override {
    if (!alive()) return Answer::kPending;
    drain();  // the switch may have said meanwhile that the place is somebody else's; this is asked once a connection
    Answer answer = Answer::kPending;
    const bool must_ask = cache_.lookup(ipv4, port, monotonic_now(), answer, out);
    if (must_ask &&
        send_record(socket_.get(), encode(Type::kLookup, ++sequence_, EndpointBody{ipv4, port, 0}), {}) == 0) {
      cache_.asked(ipv4, port);
    }
    return answer;
  }

  std::string why_no_route(std::uint32_t ipv4) const override {
    return fmt::format(
        "no way to {}: it is not an address of this machine, and mrc-switch has no uplink that leads there; "
        "give the switch --uplink and --route, or the process its own ports (FI_MRC_PORTS)",
        dotted(ipv4));
  }

  std::size_t poll(std::span<Notice> out) override {
    drain();
    std::size_t count = 0;
    while (count < out.size() && !notices_.empty()) {
      out[count++] = notices_.front();
      notices_.pop_front();
    }
    return count;
  }

  int fd() const override { return socket_.get(); }
  int wake_fd() const override { return wake_.get(); }

  void drain_wake() override {
    std::uint64_t value;
    [[maybe_unused]] const auto n = ::read(wake_.get(), &value, sizeof value);
  }

  void kick_switch() override {
    if (!must_wake(page_.get()->switch_asleep)) return;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(switch_wake_.get(), &one, sizeof one);
  }

  void set_asleep(bool asleep) override { announce(page_.get()->client_asleep, asleep); }

  bool alive() const override { return alive_.load(std::memory_order_relaxed); }

  Result<void> reattach() override {
    cache_.clear();
    notices_.clear();
    auto attached = connect(true);
    if (!attached) return attached;
    for (const auto& endpoint : registered_) {
      auto done = ask(Type::kRegister, endpoint.ipv4, endpoint.port);
      if (!done) return done;
    }
    return {};
  }

 private:
  EnsureOptions ensure() const {
    return {options_.program, options_.provider_directory, options_.runtime_root, options_.autostart, options_.timeout};
  }

  tl::unexpected<Error> broken(int code) {
    if (code == EAGAIN) return fail(ETIMEDOUT, "mrc-switch does not read its control socket; its log says why");
    lose();
    return died();
  }

  void lose() {
    if (!alive_.exchange(false)) return;
    Notice notice;
    notice.kind = NoticeKind::kSwitchDied;
    notices_.push_back(notice);
  }

  Result<void> ask(Type type, std::uint32_t ipv4, std::uint16_t port) {
    if (!alive()) return died();
    const Tick deadline = monotonic_now() + options_.timeout;
    const std::uint32_t sequence = ++sequence_;
    if (const int code = send_record(socket_.get(), encode(type, sequence, EndpointBody{ipv4, port, 0}), deadline)) {
      return broken(code);
    }
    return wait_reply(sequence, deadline);
  }

  /// Reads until the reply to `sequence` came; everything else takes its usual way.
  Result<void> wait_reply(std::uint32_t sequence, Tick deadline) {
    waiting_for_ = sequence;
    reply_.reset();
    for (;;) {
      drain();
      if (reply_) return *std::exchange(reply_, std::nullopt);
      if (!alive()) return died();
      const Duration left = deadline - monotonic_now();
      if (left.ns <= 0) {
        waiting_for_ = 0;
        return fail(ETIMEDOUT, "mrc-switch did not answer in time on its control socket; its log says why");
      }
      pollfd ready{socket_.get(), POLLIN, 0};
      ::poll(&ready, 1, static_cast<int>(left.ns / 1000000 + 1));
    }
  }

  void drain() {
    if (!alive()) return;
    for (;;) {
      std::span<const std::byte> record;
      Received got = receive(socket_.get(), buffer_, record);
      if (got.outcome == Received::Outcome::kNothing) return;
      Message message;
      if (got.outcome == Received::Outcome::kClosed || decode(record, message) != DecodeError::kNone) {
        lose();  // a switch that talks nonsense is as good as dead
        return;
      }
      on_message(message, got.fds);
    }
  }

  void on_message(const Message& message, std::array<Fd, 3>& fds) {
    switch (message.type) {
      case Type::kWelcome:
        if (message.sequence == waiting_for_) reply_ = on_welcome(message.as<Welcome>(), fds);
        break;
      case Type::kDone: {
        if (message.sequence != waiting_for_ || waiting_for_ == 0) break;
        const auto body = message.as<TextBody>();
        if (body.code == 0) {
          reply_ = Result<void>{};
        } else {
          reply_ = fail(body.code, std::string(message.text()));
        }
        break;
      }
      case Type::kPlace: {
        const auto body = message.as<PlaceBody>();
        const auto answer = body.answer == static_cast<int>(PlaceAnswer::kFound)     ? Answer::kFound
                            : body.answer == static_cast<int>(PlaceAnswer::kNoRoute) ? Answer::kNoRoute
                                                                                     : Answer::kUnknown;
        cache_.learn(body.ipv4, body.port, answer, {body.t0, body.nic}, monotonic_now());
        break;
      }
      case Type::kGone:
      case Type::kClosed: {
        const auto body = message.as<PlaceBody>();
        cache_.forget(body.ipv4, body.port);
        Notice notice;
        notice.kind = message.type == Type::kGone ? NoticeKind::kEndpointGone : NoticeKind::kEndpointClosed;
        notice.ipv4 = body.ipv4;
        notice.port = body.port;
        notice.location = {body.t0, body.nic};
        notices_.push_back(notice);
        break;
      }
      case Type::kPlane: {
        const auto body = message.as<PlaneBody>();
        Notice notice;
        notice.plane = body.plane;
        notice.up = body.up != 0;
        notices_.push_back(notice);
        break;
      }
      default:
        break;  // requests are for the switch; from it they mean nothing
    }
  }

  Result<void> on_welcome(const Welcome& w, std::array<Fd, 3>& fds) {
    if (!fds[0] || !fds[1] || !fds[2] || w.planes == 0 || w.planes > kMaxControlPlanes || !page_.map(fds[2].get())) {
      return fail(EPROTO, "mrc-switch sent an incomplete welcome: is it of this version?");
    }
    wake_ = std::move(fds[0]);
    switch_wake_ = std::move(fds[1]);
    info_ = {};
    info_.incarnation = w.incarnation;
    info_.pid = w.pid;
    info_.location = {w.t0, w.nic};
    info_.uplinks = w.uplinks;
    info_.locator = w.locator;
    info_.usid.plane_bits = w.plane_bits;
    info_.fabric = w.fabric;
    info_.srv6 = w.srv6 != 0;
    info_.memory_only = w.memory_only != 0;
    if (w.queue_log2 > 0 && w.queue_log2 < 34) info_.queue_delay = Duration{std::int64_t{1} << w.queue_log2};
    info_.link_bps = std::uint64_t{w.link_mbps} * 1000000;
    info_.mtu = w.mtu;
    info_.ring_log2 = w.ring_log2;
    info_.planes_up = w.planes_up;
    for (std::size_t p = 0; p < w.planes; ++p) {
      info_.planes.push_back({text_of(w.plane[p].memif_path), w.plane[p].memif_id});
    }
    return {};
  }

  AttachOptions options_;
  SwitchInfo info_;
  Fd socket_, wake_, switch_wake_;
  Page page_;
  std::atomic<bool> alive_{false};
  DirectoryCache cache_;
  std::deque<Notice> notices_;
  std::vector<EndpointBody> registered_;
  std::uint32_t sequence_ = 0;
  std::uint32_t waiting_for_ = 0;
  std::optional<Result<void>> reply_;
  std::array<std::byte, kMaxMessage> buffer_;
};

}  // namespace

Result<std::unique_ptr<SwitchClient>> SwitchClient::attach(const AttachOptions& options) {
  auto client = std::make_unique<Client>(options);
  auto connected = client->connect(false);
  if (!connected) return tl::make_unexpected(connected.error());
  return client;
}

Result<std::string> request(const std::string& socket_path, const std::string& words, Duration timeout) {
  const Tick deadline = monotonic_now() + timeout;
  std::string path = socket_path;
  if (path.empty()) {
    auto found = default_socket();
    if (!found) return found;
    path = *found;
  }
  auto socket = connect_socket(path);
  if (!socket) return tl::make_unexpected(socket.error());
  if (const int code = send_record(socket->get(), encode(Type::kCommand, 1, TextBody{}, words), deadline)) {
    return fail(code, fmt::format("cannot talk to mrc-switch at {}: {}", path, ::strerror(code)));
  }
  std::string text;
  std::vector<std::byte> buffer(kMaxMessage);
  for (;;) {
    std::span<const std::byte> record;
    const auto got = receive(socket->get(), buffer, record);
    if (got.outcome == Received::Outcome::kClosed) return died();
    if (got.outcome == Received::Outcome::kMessage) {
      Message message;
      if (const auto error = decode(record, message); error != DecodeError::kNone) {
        return fail(EPROTO, fmt::format("mrc-switch at {} answers with {}", path, to_string(error)));
      }
      if (message.type != Type::kReport && message.type != Type::kDone) continue;
      const auto body = message.as<TextBody>();
      text += message.text();
      if (body.code != 0) return fail(body.code, text);
      if (body.more == 0) return text;
      continue;
    }
    const Duration left = deadline - monotonic_now();
    if (left.ns <= 0) return fail(ETIMEDOUT, fmt::format("mrc-switch at {} did not answer in time", path));
    pollfd ready{socket->get(), POLLIN, 0};
    ::poll(&ready, 1, static_cast<int>(left.ns / 1000000 + 1));
  }
}

}  // namespace mrc::control
